"""Fitting a context: whole turns go, the oldest first, and the prompt is as small as it was asked to be."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia import Conversation, ErrorCode, InputError, Message, Rendered, Renderer, Role, ToolDescription, render
from harmonia.history import DOCUMENTED, KEEP_EVERYTHING, Fitted, LastTurns, Prepared, fit, measure, prepare
from harmonia.history.preparation import turns_of
from harmonia.messages import join_results
from tests.support.strategies.chats import DEVELOPER, SYSTEM, call, final, odd_chats, result, think, user

SUMMARY = Message.user("Earlier: greetings.")


def size(messages: Iterable[Message]) -> int:
    return len(render(messages).tokens)


def turn(text: str) -> list[Message]:
    return [user(text), think(), call(), result(), final(text)]


CHAT = Conversation([SYSTEM, DEVELOPER, *turn("one"), *turn("two"), *turn("three"), user("four")])
PROMPT = prepare(CHAT).conversation


def spoken(fitted: Prepared) -> list[str]:
    return [message.text for message in fitted.conversation if message.role is Role.USER]


def test_what_fits_is_left_alone() -> None:
    fitted = fit(CHAT, size(PROMPT))
    assert fitted.conversation == PROMPT
    assert fitted.dropped == prepare(CHAT).dropped
    assert (fitted.tokens, fitted.inserted, fitted.kept) == (size(PROMPT), (), prepare(CHAT).kept)


def test_the_oldest_turn_goes_first_and_as_a_whole() -> None:
    fitted = fit(CHAT, size(PROMPT) - 1)
    assert spoken(fitted) == ["two", "three", "four"]
    assert fitted.conversation[:2] == CHAT[:2]
    assert fitted.tokens == size(fitted.conversation)
    reasons = {dropped.index: dropped.reason for dropped in fitted.dropped}
    assert sorted(reasons) == [2, 3, 4, 5, 6, 8, 13]
    assert reasons[3] == reasons[8] != reasons[2]


def test_no_more_goes_than_has_to() -> None:
    for budget in range(size([*CHAT[:2], CHAT[-1]]), size(PROMPT) + 1):
        fitted = fit(CHAT, budget)
        assert fitted.tokens <= budget
        gone = 4 - len(spoken(fitted))
        if gone:
            restored = [*CHAT[:2], *(message for text in ("one", "two", "three")[gone - 1 :] for message in turn(text))]
            assert size(prepare([*restored, CHAT[-1]]).conversation) > budget


def test_what_must_stay_and_does_not_fit_is_an_error_with_both_numbers() -> None:
    needed = size([SYSTEM, DEVELOPER, user("four")])
    assert fit(CHAT, needed).tokens == needed
    with pytest.raises(InputError) as caught:
        fit(CHAT, needed - 1)
    assert caught.value.code is ErrorCode.HISTORY_OVER_BUDGET
    assert str(needed) in caught.value.message
    assert str(needed - 1) in caught.value.message


def test_instructions_alone_may_be_too_large() -> None:
    with pytest.raises(InputError) as caught:
        fit([SYSTEM], 3)
    assert caught.value.code is ErrorCode.HISTORY_OVER_BUDGET


def test_instructions_in_the_middle_stay() -> None:
    chat = [user("one"), final(), DEVELOPER, user("two")]
    assert fit(chat, size(chat) - 1).conversation == Conversation([DEVELOPER, user("two")])


@pytest.mark.parametrize("count", [-1, True, 1.5, "9"])
def test_a_number_that_means_nothing_is_refused(count: Any) -> None:
    for refused in (partial(fit, CHAT, count), partial(fit, CHAT, 99, compact_tokens=count), partial(fit, CHAT, 0)):
        with pytest.raises(InputError) as caught:
            refused()
        assert caught.value.code is ErrorCode.HISTORY_INVALID_OPTION


@given(odd_chats, st.integers(1, 120))
def test_a_fitted_prompt_fits_and_says_what_went(chat: Conversation, budget: int) -> None:
    for policy in (DOCUMENTED, KEEP_EVERYTHING, LastTurns(2)):
        prepared = prepare(chat, policy)
        try:
            fitted = fit(chat, budget, policy)
        except InputError as error:
            assert error.code is ErrorCode.HISTORY_OVER_BUDGET
            turns = [set(turn.indexes) & set(prepared.kept) for turn in turns_of(chat.messages)]
            older = {index for turn in [turn for turn in turns if turn][:-1] for index in turn}
            assert size(chat[index] for index in prepared.kept if index is not None and index not in older) > budget
            continue
        assert fitted.tokens == size(fitted.conversation) <= budget
        places = [*(index for index in fitted.kept if index is not None), *(each.index for each in fitted.dropped)]
        assert sorted(places) == [*range(len(chat))]
        assert fitted.conversation.messages == tuple(chat[index] for index in fitted.kept if index is not None)
        kept = set(fitted.kept)
        assert all(
            (exchange.index in kept) == (exchange.result_index in kept)
            for exchange in join_results(chat)
            if exchange.result_index is not None and policy is KEEP_EVERYTHING
        )


def test_another_rendering_is_measured_as_it_is() -> None:
    history = partial(render, next_role=None)
    assert fit([user()], size([user()]) - 2, render=history).tokens == size([user()]) - 2
    with pytest.raises(InputError):
        fit([user()], size([user()]) - 2)


# ── compaction ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Summariser:
    """Says always the same, and remembers what it was asked."""

    def __init__(self, *messages: Message) -> None:
        self.messages = messages
        self.asked: list[tuple[tuple[Conversation, ...], int]] = []

    def __call__(self, turns: tuple[Conversation, ...], room: int) -> Iterable[Message]:
        self.asked.append((turns, room))
        return self.messages


def compacted(budget: int, summariser: Summariser, compact_tokens: int | None = None) -> Fitted:
    return fit(CHAT, budget, compact=summariser, compact_tokens=compact_tokens)


def test_a_summary_stands_in_the_place_of_the_turns_that_went() -> None:
    summariser = Summariser(SUMMARY)
    fitted = compacted(size(PROMPT) - 1, summariser)
    assert spoken(fitted) == [SUMMARY.text, "two", "three", "four"]
    assert fitted.conversation[2] == SUMMARY
    assert (fitted.kept[:3], fitted.inserted) == ((0, 1, None), (SUMMARY,))
    ((turns, room),) = summariser.asked
    assert turns == (prepare(turn("one")).conversation,)
    assert room == size(PROMPT) - 1 - size([*CHAT[:2], *fitted.conversation[3:]])
    assert len({dropped.reason for dropped in fitted.dropped}) == 2
    assert fitted.tokens == size(fitted.conversation) == measure(fitted.conversation).total


def test_room_is_left_for_the_summary() -> None:
    for wanted in (0, 10, 25, 40):
        summariser = Summariser()
        compacted(size(PROMPT) - 1, summariser, wanted)
        ((_, room),) = summariser.asked
        assert room >= wanted


def test_where_there_is_too_little_room_all_old_turns_go_and_the_summariser_hears_how_much() -> None:
    needed = size([SYSTEM, DEVELOPER, user("four")])
    summariser = Summariser()
    fitted = compacted(needed + 3, summariser, 500)
    assert spoken(fitted) == ["four"]
    ((turns, room),) = summariser.asked
    assert (len(turns), room) == (3, 3)


def test_a_summariser_that_says_too_much_is_an_error_and_is_asked_once() -> None:
    summariser = Summariser(Message.user("word " * 500))
    with pytest.raises(InputError) as caught:
        compacted(size(PROMPT) - 1, summariser)
    assert caught.value.code is ErrorCode.HISTORY_OVER_BUDGET
    assert len(summariser.asked) == 1


def test_a_summariser_is_not_asked_where_everything_fits() -> None:
    summariser = Summariser(SUMMARY)
    assert compacted(size(PROMPT), summariser).inserted == ()
    assert summariser.asked == []


def test_a_summary_that_changes_other_messages_is_measured_with_them() -> None:
    # Where a developer message declares functions, the system message says where calls go.
    tools = Message.developer(functions=[ToolDescription("f")])
    fitted = fit(CHAT, size(PROMPT) - 1, compact=lambda _turns, _room: [tools], compact_tokens=60)
    assert fitted.tokens == size(fitted.conversation) <= size(PROMPT) - 1


def test_a_summary_of_no_messages_is_refused() -> None:
    summariser: Any = Summariser("Earlier: greetings.")  # pyright: ignore[reportArgumentType] -- what a caller may write
    with pytest.raises(InputError) as caught:
        fit(CHAT, size(PROMPT) - 1, compact=summariser)
    assert caught.value.code is ErrorCode.MESSAGES_INVALID_VALUE


# ── linear ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("turns", [10, 100])
def test_a_long_conversation_is_rendered_at_most_twice(turns: int) -> None:
    chat = Conversation([SYSTEM, *(message for index in range(turns) for message in turn(f"turn {index}"))])
    renderer = Renderer()
    rendered = 0

    def counting(conversation: Conversation) -> Rendered:
        nonlocal rendered
        rendered += len(conversation)
        return renderer.render(conversation)

    fit(chat, size(chat) // 3, render=counting)
    assert rendered <= 2 * len(chat)
