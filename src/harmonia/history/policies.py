"""Which messages the next prompt omits. A policy is a value: choose one, or write one.

    DOCUMENTED         drops reasoning that was followed by an answer on `final`; calls and results stay
    KEEP_AFTER_CALLS   the same, but a turn with calls keeps its reasoning
    KEEP_EVERYTHING    drops nothing
    LastTurns(n)       keeps only the last n turns, and in them what another policy keeps
    REFERENCE          what openai-harmony does, mistakes included
    VLLM               what vLLM does

Reasoning is what the assistant writes on `analysis` without calling a tool. A call to python or to the browser is also
on `analysis`, but it is a call. Channels count as the prompt will spell them, whether they were read or guessed;
messages without a channel or on an unknown one are not known to be reasoning, and stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from harmonia.errors import ErrorCode, InputError
from harmonia.history.turns import turns_of
from harmonia.messages import Message, Role, is_final, is_tool_address

# The index of a dropped message, and the reason.
Drop = tuple[int, str]

FINISHED_TURN: Final = "reasoning of a finished turn"
INTERRUPTED_TURN: Final = "reasoning of an interrupted turn, followed by a later answer"
OLD_TURN: Final = "older than the last {}"
BEFORE_FIRST_FINAL: Final = "on analysis, before the first final"
BEFORE_LAST_FINAL: Final = "on analysis, before the last final"


class Policy(Protocol):
    """Decides which messages a prompt drops: called with all messages, it gives the index and reason of each."""

    @property
    def name(self) -> str: ...

    def __call__(self, messages: Sequence[Message], /) -> Iterable[Drop]: ...


@dataclass(frozen=True, slots=True)
class Rule:
    """A policy made from a function and a name."""

    name: str
    choose: Callable[[Sequence[Message]], Iterable[Drop]]

    def __call__(self, messages: Sequence[Message], /) -> Iterable[Drop]:
        return self.choose(messages)

    def __repr__(self) -> str:
        return f"<Policy: {self.name}>"


def is_reasoning(message: Message) -> bool:
    """Whether a message is the assistant's reasoning: on `analysis`, and not a call."""
    channel = message.channel
    return (
        channel is not None
        and channel.lower() == "analysis"
        and message.author.role is Role.ASSISTANT
        and not is_tool_address(message.recipient)
    )


def _documented(messages: Sequence[Message]) -> Iterable[Drop]:
    return _spent_reasoning(messages, keeps_calling_turns=False)


def _keep_after_calls(messages: Sequence[Message]) -> Iterable[Drop]:
    return _spent_reasoning(messages, keeps_calling_turns=True)


def _spent_reasoning(messages: Sequence[Message], *, keeps_calling_turns: bool) -> Iterable[Drop]:
    # An answer uses up all reasoning before it, also that of an interrupted turn: a user who writes before there is an
    # answer adds to the question. Reasoning since the last answer is still in use.
    last_final = max((index for index, message in enumerate(messages) if is_final(message)), default=-1)
    for turn in turns_of(messages):
        if keeps_calling_turns and turn.has_calls:
            continue
        reason = FINISHED_TURN if turn.has_final else INTERRUPTED_TURN
        for index in turn.indexes:
            if index < last_final and is_reasoning(messages[index]):
                yield index, reason


def _nothing(_messages: Sequence[Message]) -> Iterable[Drop]:
    return ()


def _vllm(messages: Sequence[Message]) -> Iterable[Drop]:
    finals = (
        index
        for index, message in enumerate(messages)
        if message.author.role is Role.ASSISTANT and message.channel == "final"
    )
    return _on_analysis_before(max(finals, default=0), messages, BEFORE_LAST_FINAL)


def _reference(messages: Sequence[Message]) -> Iterable[Drop]:
    return _on_analysis_before(first_final(messages), messages, BEFORE_FIRST_FINAL)


def _on_analysis_before(end: int, messages: Sequence[Message], reason: str) -> Iterable[Drop]:
    return ((index, reason) for index in range(end) if messages[index].channel == "analysis")


class _Spoken(Protocol):
    @property
    def role(self) -> str: ...


class _Headed(Protocol):
    @property
    def author(self) -> _Spoken: ...

    @property
    def channel(self) -> str | None: ...


def first_final(messages: Sequence[_Headed]) -> int:
    """Where openai-harmony stops dropping analysis: at the first answer, not at the last; 0 if it drops nothing."""
    for message in reversed(messages):
        if message.author.role == Role.ASSISTANT:
            if message.channel == "final":
                break
            return 0
    else:
        return 0
    return next(index for index, message in enumerate(messages) if message.channel == "final")


DOCUMENTED: Final = Rule("documented", _documented)
KEEP_AFTER_CALLS: Final = Rule("keep_after_calls", _keep_after_calls)
KEEP_EVERYTHING: Final = Rule("keep_everything", _nothing)
REFERENCE: Final = Rule("reference", _reference)
VLLM: Final = Rule("vllm", _vllm)


@dataclass(frozen=True, slots=True)
class LastTurns:
    """Drops all turns but the last `count`, and in those what `within` drops. Instructions stay."""

    count: int
    within: Policy = DOCUMENTED

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
            raise InputError(
                ErrorCode.HISTORY_INVALID_OPTION, f"the number of turns is {self.count!r}; it must be at least 1"
            )

    @property
    def name(self) -> str:
        return f"last_turns({self.count}, {self.within.name})"

    def __call__(self, messages: Sequence[Message], /) -> Iterable[Drop]:
        reason = OLD_TURN.format("turn" if self.count == 1 else f"{self.count} turns")
        for turn in turns_of(messages)[: -self.count]:
            for index in turn.indexes:
                yield index, reason
        # The inner policy sees the whole conversation, so what it drops does not depend on the count.
        yield from self.within(messages)
