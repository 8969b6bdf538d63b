"""Which messages the next prompt leaves out, as values: choose one, or write one.

    DOCUMENTED         reasoning that an answer on `final` has followed goes; calls and results stay
    KEEP_AFTER_CALLS   the same, but a turn that made calls keeps its reasoning
    KEEP_EVERYTHING    nothing goes
    LastTurns(n)       only the last n turns stay, and in them what another policy leaves
    REFERENCE          what openai-harmony does, mistakes included
    VLLM               what vLLM does

Reasoning is what the assistant says on `analysis` to nobody who could be called. A call to python or to the browser is
on `analysis`, too, and is a call. Channels count as the prompt will say them, whether they were read or guessed; what
is on no channel, or on an unknown one, is not known to be reasoning and stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from harmonia.errors import ErrorCode, InputError
from harmonia.history.turns import turns_of
from harmonia.messages import Message, Role, is_final, is_tool_address

# The place of a message that goes, and why it goes.
Drop = tuple[int, str]

FINISHED_TURN: Final = "reasoning of a finished turn"
INTERRUPTED_TURN: Final = "reasoning of an interrupted turn, followed by a later answer"
OLD_TURN: Final = "older than the last {}"
BEFORE_FIRST_FINAL: Final = "on analysis, before the first final"
BEFORE_LAST_FINAL: Final = "on analysis, before the last final"


class Policy(Protocol):
    """What goes from a prompt: a name, and a call that gets all messages and gives the place and reason of each."""

    @property
    def name(self) -> str: ...

    def __call__(self, messages: Sequence[Message], /) -> Iterable[Drop]: ...


@dataclass(frozen=True, slots=True)
class Rule:
    """A policy that is a function with a name."""

    name: str
    choose: Callable[[Sequence[Message]], Iterable[Drop]]

    def __call__(self, messages: Sequence[Message], /) -> Iterable[Drop]:
        return self.choose(messages)

    def __repr__(self) -> str:
        return f"<Policy: {self.name}>"


def is_reasoning(message: Message) -> bool:
    """Whether a message is the assistant thinking: on `analysis`, and no call."""
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
    # An answer follows from all that was thought before it, by an interrupted turn, too: a user who speaks before
    # there is an answer adds to the question. What was thought since the last answer is still in use.
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
    """Where openai-harmony stops dropping analysis: it looks at the first answer, not at the last; 0 for nowhere."""
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
    """Whole turns but the last `count` go, and of those what `within` drops. Instructions stay."""

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
        # In what stays, the policy looks at the whole conversation: what it drops does not depend on the count.
        yield from self.within(messages)
