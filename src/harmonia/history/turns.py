"""Turns: the messages that follow one user message, or several in a row.

The first turn is everything before the second time that a user speaks; a conversation without a user is one turn.
Training masks count turns in the same way. System and developer messages belong to no turn, wherever they are. A late
result, after the next user message, belongs to the turn of its call. A message that a model forged belongs to no turn
and begins none.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harmonia.messages import Message, Role, is_call, is_final, is_forged, join_results

INSTRUCTIVE = frozenset((Role.SYSTEM, Role.DEVELOPER))


class Turn(msgspec.Struct, frozen=True):
    """The indices of a turn's messages; whether it has an answer on `final`, and whether it has calls."""

    indexes: tuple[int, ...]
    has_final: bool
    has_calls: bool


def turns_of(messages: Sequence[Message]) -> tuple[Turn, ...]:
    """The turns of a conversation, oldest first. Only a conversation of instructions alone has none."""
    messages = tuple(messages)
    members: list[list[int]] = []
    turn_of: dict[int, int] = {}
    has_user, previous = False, None
    for index, message in enumerate(messages):
        if is_forged(message):
            continue
        role = message.author.role
        if role is Role.USER and previous is not Role.USER:
            if has_user or not members:
                members.append([])
            has_user = True
        previous = role
        if role not in INSTRUCTIVE:
            if not members:
                members.append([])
            turn_of[index] = len(members) - 1
    for exchange in join_results(messages):
        if exchange.result_index is not None:
            turn_of[exchange.result_index] = turn_of[exchange.index]
    for index, turn in turn_of.items():
        members[turn].append(index)
    return tuple(
        Turn(
            tuple(indexes),
            any(is_final(messages[index]) for index in indexes),
            any(is_call(messages[index]) for index in indexes),
        )
        for indexes in members
    )
