"""Turns: where they begin, and what belongs to them."""

from __future__ import annotations

from hypothesis import given

from harmonia import Conversation, Message, Role, TrainOn, render
from harmonia.history.preparation import turns_of
from harmonia.messages import join_results
from tests.support.strategies.chats import DEVELOPER, SYSTEM, call, final, odd_chats, result, think, user


def places(*messages: Message) -> list[tuple[int, ...]]:
    return [turn.indexes for turn in turns_of(messages)]


def test_a_turn_begins_where_a_user_begins_to_speak() -> None:
    assert places(SYSTEM, user(), final(), user(), user(), think(), final()) == [(1, 2), (3, 4, 5, 6)]


def test_what_stands_before_the_first_user_belongs_to_the_first_turn() -> None:
    assert places(final("Hello."), user(), final(), user()) == [(0, 1, 2), (3,)]


def test_a_conversation_without_a_user_is_one_turn() -> None:
    assert places(SYSTEM, think(), final()) == [(1, 2)]


def test_instructions_belong_to_no_turn() -> None:
    assert places() == places(SYSTEM, DEVELOPER) == []
    assert places(user(), DEVELOPER, final()) == [(0, 2)]


def test_a_late_result_belongs_to_the_turn_of_its_call() -> None:
    assert places(user(), call(), user("Hurry."), result(), final()) == [(0, 1, 3), (2, 4)]


def test_a_turn_knows_whether_it_was_answered_and_whether_it_called() -> None:
    turns = turns_of([user(), call(), result(), final(), user(), think()])
    assert [(turn.has_final, turn.has_calls) for turn in turns] == [(True, True), (False, False)]
    addressed = Message.call("functions.f", "{}", channel="final")
    assert [(turn.has_final, turn.has_calls) for turn in turns_of([user(), addressed])] == [(False, True)]


@given(odd_chats)
def test_every_message_but_instructions_is_in_one_turn(chat: Conversation) -> None:
    found = [index for turn in turns_of(chat.messages) for index in turn.indexes]
    spoken = [index for index, message in enumerate(chat) if message.role not in (Role.SYSTEM, Role.DEVELOPER)]
    assert sorted(found) == spoken


@given(odd_chats)
def test_turns_are_those_of_training_masks_but_for_late_results(chat: Conversation) -> None:
    answers = {exchange.result_index for exchange in join_results(chat)}
    for number, turn in enumerate(turns_of(chat.messages)):
        rendered = render(chat, training=True, train_on=TrainOn(roles=tuple(Role), turns={number}))
        mask = rendered.mask
        masked = {span.message for span in rendered.spans if any(mask[span.start_token : span.end_token])}
        masked = {index for index in masked if chat[index].role not in (Role.SYSTEM, Role.DEVELOPER)}
        assert masked - answers == set(turn.indexes) - answers
