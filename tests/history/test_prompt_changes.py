"""What changed since the last prompt."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia import Conversation, ErrorCode, InputError, Message, decode, render
from harmonia.history import KEEP_EVERYTHING, REFERENCE, LastTurns, compare, fit, prepare
from tests.support.strategies.chats import SYSTEM, call, final, odd_chats, result, think, user

tokens = st.lists(st.integers(0, 3), max_size=12)


@given(tokens, tokens, tokens)
def test_the_shared_prefix_is_the_longest(shared: list[int], before: list[int], after: list[int]) -> None:
    old, new = shared * 400 + before, shared * 400 + after
    change = compare(old, new)
    at = change.shared_prefix
    assert old[:at] == new[:at]
    assert old[at : at + 1] != new[at : at + 1] or at == len(old) == len(new)
    assert change.before_token == (old[at] if at < len(old) else None)
    assert change.after_token == (new[at] if at < len(new) else None)
    assert (change.dropped_tokens, change.added_tokens) == (len(old) - at, len(new) - at)
    assert change.is_extension == (new[: len(old)] == old)


def test_tokens_may_be_any_sequence() -> None:
    assert compare((1, 2), [1, 2, 3]).shared_prefix == 2
    assert compare(range(3), (0, 1, 5)).shared_prefix == 2


def test_rendered_prompts_say_which_message() -> None:
    before = render([SYSTEM, user("Hello there"), final()])
    after = render([SYSTEM, user("Hello you"), final()])
    change = compare(before, after)
    assert (change.before_message, change.after_message) == (1, 1)
    assert decode([change.before_token or 0]) == " there"
    assert compare(before.tokens, after).before_message is None
    assert compare(before.tokens, after).after_message == 1


def test_the_header_of_the_next_message_is_no_message() -> None:
    before = render([user()])
    change = compare(before, render([user(), think(), call()]))
    assert (change.before_token, change.before_message, change.after_message) == (None, None, 1)
    assert change.is_extension
    same = compare(before, render([user()]))
    assert (same.dropped_tokens, same.added_tokens, same.after_message) == (0, 0, None)


ASKED = Conversation([SYSTEM, user(), think(), call(), result()])


def test_a_tool_loop_only_extends_its_prompt() -> None:
    more = ASKED.add(think(), call(), result())
    change = compare(prepare(ASKED), prepare(more))
    assert change.is_extension
    assert change.dropped == ()


def test_prepared_prompts_say_why_and_count_in_the_whole_conversation() -> None:
    answered = ASKED.add(final(), user("And?"))
    change = compare(prepare(ASKED), prepare(answered))
    assert [dropped.index for dropped in change.dropped] == [2]
    assert (change.before_message, change.after_message) == (2, 3)
    later = answered.add(think(), final(), user("And now?"))
    # What the prompt before did not have is no news: neither the old reasoning, nor the new one that came and went.
    assert compare(prepare(answered), prepare(later)).dropped == ()
    # What the engine really had may be given as tokens; then all that went is said.
    rendered = compare(render(answered).tokens, prepare(later)).dropped
    assert [dropped.index for dropped in rendered] == [2, 7]


def test_a_summary_is_no_message_of_the_conversation() -> None:
    chat = Conversation([SYSTEM, user("one"), final("word " * 50), user("two")])
    fitted = fit(chat, len(render(chat).tokens) - 1, compact=lambda _turns, _room: [Message.user("Earlier: one.")])
    change = compare(prepare(chat), fitted)
    assert (change.before_message, change.after_message) == (1, None)
    assert [dropped.index for dropped in change.dropped] == [1, 2]


def test_the_reference_rule_loses_the_cache_of_the_next_turn_and_regains_it() -> None:
    answered = ASKED.add(final())
    working = answered.add_user("And?").add(think(), call(), result())
    # With the last message no answer, the reference takes back the reasoning that it had dropped.
    change = compare(prepare(answered.add_user("And?"), REFERENCE), prepare(working, REFERENCE))
    assert not change.is_extension
    assert compare(prepare(answered.add_user("And?")), prepare(working)).is_extension


@given(odd_chats)
def test_a_prompt_that_keeps_everything_only_grows(chat: Conversation) -> None:
    prompts = [prepare(chat[:end], KEEP_EVERYTHING) for end in range(len(chat) + 1)]
    for before, after in pairwise(prompts):
        change = compare(before, after, render=lambda conversation: render(conversation, next_role=None))
        assert change.is_extension or chat[len(before.conversation)].role == "developer"
        assert change.dropped == ()


@given(odd_chats)
def test_what_went_lies_at_or_behind_where_the_prompts_part(chat: Conversation) -> None:
    everything, last = prepare(chat, KEEP_EVERYTHING), prepare(chat, LastTurns(1))
    change = compare(everything, last)
    assert change.dropped == last.dropped
    if last.dropped:
        assert change.before_message is not None
        assert change.before_message >= last.dropped[0].index


def test_conversations_are_prepared_and_rendered_first() -> None:
    before = Conversation([Message.user("1?"), Message.assistant("Hm.", channel="analysis"), Message.assistant("One.")])
    after = before.add(Message.user("2?"))
    assert compare(before, after) == compare(prepare(before), prepare(after))


@pytest.mark.parametrize("wrong", ["text", [Message.user("1?")], ["a"]])
def test_what_is_no_prompt_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError) as caught:
        compare(wrong, [1, 2])
    assert caught.value.code is ErrorCode.HISTORY_INVALID_OPTION
