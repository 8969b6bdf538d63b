"""Which tokens a model should be trained to produce.

Not every token of an assistant message is the model's. A server sends `<|start|>assistant` and samples from there; it
stops at `<|call|>` and `<|return|>`, and what follows is a new prompt. After `<|end|>` the model continues, and then it
also writes the next `<|start|>assistant`. So, of a message that is trained on:

    <|start|>role         only if the model continued: the previous message has the same role, ended with <|end|>,
                          and is neither an answer nor a call
    the rest of the header, the body
                          always
    the stop token        unless the model must not learn it: in history, an earlier `final` ends with <|end|>, where
                          the model has to write <|return|>; likewise a call stored with <|end|>, and a truncated
                          message
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.messages import INSTRUCTION_ORDER, Message, Role
from harmonia.renderer.segments import EVERYBODY
from harmonia.vocabulary import END


class TrainOn(msgspec.Struct, frozen=True):
    """Which messages to train on; by default the assistant's, on every channel and in every turn.

    A turn begins with one user message, or several in a row: turn 0 is everything before the second time that a user
    speaks. `turns` are counted from 0, or from the end with negative numbers.
    """

    roles: Collection[str] = (Role.ASSISTANT,)
    channels: Collection[str | None] | Literal["all"] = "all"
    turns: Collection[int] | Literal["all", "last"] = "all"

    def __post_init__(self) -> None:
        words = {"roles": (), "channels": ("all",), "turns": ("all", "last")}
        for name, allowed in words.items():
            value = getattr(self, name)
            if not isinstance(value, str):
                msgspec.structs.force_setattr(self, name, frozenset(value))
            elif value not in allowed:
                raise InputError(ErrorCode.RENDER_INVALID_OPTION, f"{name} must be a collection, not {value!r}")
        for role in self.roles:
            if role not in INSTRUCTION_ORDER:
                raise InputError(ErrorCode.RENDER_INVALID_OPTION, f"{role!r} is not a role")


class Stretch(NamedTuple):
    """The positions of a message's parts in the tokens, its stop token, and whether the model wrote that token."""

    start_token: int
    role_end_token: int
    stop_token: int
    stop: int
    stop_was_sampled: bool


def loss_mask(messages: Sequence[Message], stretches: Sequence[Stretch], length: int, train_on: TrainOn) -> list[bool]:
    """True for each of the `length` tokens that the model should be trained to produce."""
    mask = [False] * length
    selected = _selected(messages, train_on)
    went_on = False  # whether the model wrote the previous message and did not stop after it
    for index, (message, stretch) in enumerate(zip(messages, stretches, strict=True)):
        # Whether the model ends this message with `<|return|>` (an answer) or `<|call|>`.
        is_call = message.recipient not in (None, EVERYBODY)
        stops_sampling = message.role is Role.ASSISTANT and (message.channel == "final" or is_call)
        ends_with_end = stretch.stop == END and not stops_sampling
        if selected[index]:
            follows = went_on and messages[index - 1].role is message.role
            first = stretch.start_token if follows else stretch.role_end_token
            stop_is_right = stretch.stop_was_sampled and (stretch.stop != END or ends_with_end)
            last = stretch.stop_token + 1 if stop_is_right else stretch.stop_token
            mask[first:last] = [True] * (last - first)
        went_on = ends_with_end and stretch.stop_was_sampled
    return mask


def _selected(messages: Sequence[Message], train_on: TrainOn) -> list[bool]:
    turn_of = _turns(messages)
    count = turn_of[-1] + 1 if turn_of else 0
    turns = range(count) if train_on.turns == "all" else (-1,) if train_on.turns == "last" else train_on.turns
    wanted = {turn + count if turn < 0 else turn for turn in turns}
    roles, channels = {Role(role) for role in train_on.roles}, train_on.channels
    return [
        message.role in roles and (channels == "all" or message.channel in channels) and turn in wanted
        for message, turn in zip(messages, turn_of, strict=True)
    ]


def _turns(messages: Sequence[Message]) -> list[int]:
    turns: list[int] = []
    turn, has_user, previous = 0, False, None
    for message in messages:
        if message.role is Role.USER and previous is not Role.USER:
            turn += has_user
            has_user = True
        turns.append(turn)
        previous = message.role
    return turns
