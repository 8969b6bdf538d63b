"""The policies: what each drops, where they agree, and where the documents and the programs do not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import assume, given

from harmonia import Conversation, ErrorCode, InputError, Message, Role, render
from harmonia.history import (
    DOCUMENTED,
    KEEP_AFTER_CALLS,
    KEEP_EVERYTHING,
    REFERENCE,
    VLLM,
    LastTurns,
    Policy,
    prepare,
)
from harmonia.history.preparation import Drop
from harmonia.messages import is_reasoning, is_tool_address
from tests.support.oracle_cases import compared
from tests.support.repeated import repeated
from tests.support.strategies.chats import (
    DEVELOPER,
    SYSTEM,
    call,
    final,
    odd_chats,
    ordinary_chats,
    preamble,
    python,
    result,
    think,
    user,
)
from tests.support.strategies.conversations import reference_json

if TYPE_CHECKING:
    from openai_harmony import HarmonyEncoding

ALL: list[Policy] = [DOCUMENTED, KEEP_AFTER_CALLS, KEEP_EVERYTHING, REFERENCE, VLLM, LastTurns(2)]


def gone(policy: Policy, *messages: Message) -> list[int]:
    return [dropped.index for dropped in prepare(messages, policy).dropped]


# Two turns, the first with a call, and the beginning of a third.
TWO_TURNS = [
    SYSTEM,
    *(user(), think(), call(), result(), think(), final()),  # 1 to 6
    *(user(), think(), final()),  # 7 to 9
]
THIRD = [user(), think(), call(), result()]  # 10 to 13


@pytest.mark.parametrize(
    ("policy", "before_the_third", "in_the_third"),
    [
        (DOCUMENTED, [2, 5, 8], [2, 5, 8]),
        (KEEP_AFTER_CALLS, [8], [8]),
        (KEEP_EVERYTHING, [], []),
        (VLLM, [2, 5, 8], [2, 5, 8]),
        (REFERENCE, [2, 5], []),
        (LastTurns(1), [1, 2, 3, 4, 5, 6, 8], [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (LastTurns(2), [2, 5, 8], [1, 2, 3, 4, 5, 6, 8]),
        (LastTurns(2, KEEP_EVERYTHING), [], [1, 2, 3, 4, 5, 6]),
        (LastTurns(9), [2, 5, 8], [2, 5, 8]),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else "",
)
def test_each_policy_drops_what_it_says(policy: Policy, before_the_third: list[int], in_the_third: list[int]) -> None:
    assert gone(policy, *TWO_TURNS) == before_the_third
    assert gone(policy, *TWO_TURNS, *THIRD) == in_the_third


def test_reasoning_between_calls_is_kept_until_there_is_an_answer() -> None:
    working = [user(), think(), call(), result(), think(), call(), result()]
    assert gone(DOCUMENTED, *working) == []
    assert gone(DOCUMENTED, *working, final()) == [1, 4]


def test_what_is_thought_behind_an_answer_is_still_in_use() -> None:
    assert gone(DOCUMENTED, user(), think(), final(), think(), call(), result()) == [1]


def test_an_interrupted_turn_keeps_its_reasoning_until_the_next_answer() -> None:
    interrupted = [user(), think(), call(), result(), think(), user("Never mind. And this?"), think()]
    assert gone(DOCUMENTED, *interrupted) == []
    answered = prepare([*interrupted, final()]).dropped
    assert [dropped.index for dropped in answered] == [1, 4, 6]
    assert len({dropped.reason for dropped in answered}) == 2
    assert gone(KEEP_AFTER_CALLS, *interrupted, final()) == [6]


def test_an_answer_that_was_cut_off_is_an_answer() -> None:
    assert gone(DOCUMENTED, user(), think(), final("Ye"), user()) == [1]


def test_calls_to_built_in_tools_are_calls_on_analysis_too() -> None:
    messages = [user(), think(), python(), Message.tool("python", "2", channel="analysis"), final()]
    assert gone(DOCUMENTED, *messages) == [1]
    assert gone(VLLM, *messages) == gone(REFERENCE, *messages) == [1, 2, 3]


def test_what_is_not_known_to_be_reasoning_stays() -> None:
    odd = [Message.assistant("?", channel=None), Message.assistant("?", channel="thoughts"), preamble()]
    assert gone(DOCUMENTED, user(), *odd, final()) == []


def test_a_channel_may_be_written_with_capitals() -> None:
    messages = [user(), Message.assistant("Hm.", channel="Analysis"), Message.assistant("Yes.", channel="FINAL")]
    assert gone(DOCUMENTED, *messages) == [1]
    assert gone(VLLM, *messages) == []


def test_a_call_on_final_is_no_answer() -> None:
    assert gone(DOCUMENTED, user(), think(), Message.call("functions.f", "{}", channel="final")) == []


def test_instructions_stay_wherever_they_stand() -> None:
    assert gone(LastTurns(1), SYSTEM, user(), final(), DEVELOPER, user()) == [1, 2]


def test_a_late_result_goes_with_its_call() -> None:
    assert gone(LastTurns(1), user(), call(), user("Hurry."), result(), final()) == [0, 1, 3]


@pytest.mark.parametrize("count", [0, -1, True, 1.5, "2"])
def test_a_number_of_turns_that_means_nothing_is_refused(count: int) -> None:
    with pytest.raises(InputError) as caught:
        LastTurns(count)
    assert caught.value.code is ErrorCode.HISTORY_INVALID_OPTION


def test_policies_have_names() -> None:
    names = [policy.name for policy in ALL]
    assert names == [
        "documented",
        "keep_after_calls",
        "keep_everything",
        "reference",
        "vllm",
        "last_turns(2, documented)",
    ]
    assert "documented" in repr(DOCUMENTED)
    assert LastTurns(2) == LastTurns(2, DOCUMENTED) != LastTurns(3)


@given(odd_chats)
def test_the_documented_rule_is_vllms_but_for_calls_and_other_roles(chat: Conversation) -> None:
    # The other differences: capitals, and a call on final, which vLLM takes for an answer.
    assume(not any((message.channel or "") in ("Analysis", "Final") for message in chat))
    assume(not any(message.channel == "final" and is_tool_address(message.recipient) for message in chat))
    ours, theirs = set(gone(DOCUMENTED, *chat)), set(gone(VLLM, *chat))
    assert ours == {index for index in theirs if is_reasoning(chat[index])}
    for index in theirs - ours:
        assert chat[index].role is not Role.ASSISTANT or is_tool_address(chat[index].recipient)


@given(ordinary_chats)
def test_in_ordinary_histories_the_documented_rule_is_vllms(chat: Conversation) -> None:
    assert gone(DOCUMENTED, *chat) == gone(VLLM, *chat)


@given(odd_chats)
def test_the_policies_that_know_reasoning_drop_nothing_else(chat: Conversation) -> None:
    documented, after_calls = gone(DOCUMENTED, *chat), gone(KEEP_AFTER_CALLS, *chat)
    assert set(after_calls) <= set(documented)
    assert all(is_reasoning(chat[index]) for index in documented)


@given(odd_chats)
def test_what_was_dropped_stays_dropped_while_the_conversation_grows(chat: Conversation) -> None:
    # So an engine's cache is lost once a turn, not twice.
    for policy in (DOCUMENTED, VLLM, LastTurns(1), LastTurns(2, KEEP_EVERYTHING)):
        before: set[int] = set()
        for end in range(len(chat) + 1):
            after = set(gone(policy, *chat.messages[:end]))
            assert before <= after
            before = after


@given(odd_chats)
def test_preparing_again_changes_nothing(chat: Conversation) -> None:
    for policy in (DOCUMENTED, KEEP_AFTER_CALLS, KEEP_EVERYTHING, VLLM):
        once = prepare(chat, policy).conversation
        assert prepare(once, policy).conversation == once


@repeated(given(chat=odd_chats), some=60, many=300)
def test_the_reference_rule_gives_the_references_tokens(
    reference_encoding: HarmonyEncoding, chat: Conversation
) -> None:
    # Below its pydantic layer, which would fill in defaults of its own.
    inner = cast("Any", reference_encoding._inner)  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType]
    theirs = inner.render_conversation_for_completion(
        conversation_json=json.dumps(reference_json(chat)),
        next_turn_role="assistant",
        config={"auto_drop_analysis": True},
    )
    assert render(prepare(chat, REFERENCE).conversation, exact_reference=True).tokens == theirs
    compared("histories, by the reference's rule")


@dataclass(frozen=True)
class WithoutResults:
    """A policy as a caller would write it."""

    name: str = "without_results"

    def __call__(self, messages: Sequence[Message], /) -> Iterable[Drop]:
        for index, message in enumerate(messages):
            if message.role is Role.TOOL:
                yield index, "results are large"
                yield index, "and many"


def test_a_policy_can_be_written() -> None:
    (dropped,) = prepare([user(), call(), result(), final()], WithoutResults()).dropped
    assert (dropped.index, dropped.reason, dropped.message) == (2, "results are large", result())
    assert gone(LastTurns(1, WithoutResults()), user(), call(), result(), user()) == [0, 1, 2]


@dataclass(frozen=True)
class Beyond:
    name: str = "beyond"

    def __call__(self, messages: Sequence[Message], /) -> Iterable[Drop]:
        yield len(messages), "?"


@pytest.mark.parametrize("policy", [Beyond(), None, "documented"])
def test_a_policy_that_means_nothing_is_refused(policy: Policy) -> None:
    with pytest.raises(InputError) as caught:
        prepare([user()], policy)
    assert caught.value.code is ErrorCode.HISTORY_INVALID_OPTION
