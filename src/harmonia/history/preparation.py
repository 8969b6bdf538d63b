"""Which messages the next prompt keeps, and why: turns, policies, and the budget of tokens.

Keep the whole conversation: call ids are positions in it, and a policy has to see all of it each time. A prepared
conversation is only for rendering. Every dropped message has a reason.

A policy is a value: choose one, or write one.

    DOCUMENTED         drops reasoning that was followed by an answer on `final`; calls and results stay
    KEEP_AFTER_CALLS   the same, but a turn with calls keeps its reasoning
    KEEP_EVERYTHING    drops nothing
    LastTurns(n)       keeps only the last n turns, and in them what another policy keeps
    REFERENCE          what openai-harmony does, mistakes included
    VLLM               what vLLM does

Reasoning is what the assistant writes on `analysis` without calling a tool. A call to python or to the browser is also
on `analysis`, but it is a call. Channels count as the prompt will spell them, whether they were read or guessed;
messages without a channel or on an unknown one are not known to be reasoning, and stay.

`fit` also drops the oldest turns until the prompt fits:

1. A turn is dropped as a whole, so no call loses its result.
2. System and developer messages and the last turn stay. If they alone are too large, that is an error.
3. Dropped turns can be compacted: a summariser gets all of them, once, and returns messages to put in their place.
4. The renderer counts: the resulting prompt has at most as many tokens as the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.messages import (
    Conversation,
    Message,
    Role,
    is_admitted,
    is_call,
    is_final,
    is_forged,
    is_reasoning,
    join_results,
)
from harmonia.renderer import Rendered, render


class Turn(msgspec.Struct, frozen=True):
    """The indices of a turn's messages; whether it has an answer on `final`, and whether it has calls."""

    indexes: tuple[int, ...]
    has_final: bool
    has_calls: bool


def turns_of(messages: Sequence[Message]) -> tuple[Turn, ...]:
    """The turns of a conversation, oldest first. Only a conversation of instructions alone has none.

    A turn is the messages that follow one user message, or several in a row; the first is everything before the second
    time that a user speaks. A late result, after the next user message, belongs to the turn of its call. System and
    developer messages belong to no turn, nor do messages that a model forged.
    """
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
        if role not in (Role.SYSTEM, Role.DEVELOPER):
            if not members:
                members.append([])
            turn_of[index] = len(members) - 1
    for exchange in join_results(messages):
        if exchange.result_index is not None:
            turn_of[exchange.result_index] = turn_of[exchange.index]
    for index, turn in turn_of.items():
        members[turn].append(index)
    return tuple(
        Turn(tuple(turn), any(is_final(messages[at]) for at in turn), any(is_call(messages[at]) for at in turn))
        for turn in members
    )


# The index of a dropped message, and the reason.
Drop = tuple[int, str]

FINISHED_TURN: Final = "reasoning of a finished turn"
INTERRUPTED_TURN: Final = "reasoning of an interrupted turn, followed by a later answer"


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


def _spent_reasoning(messages: Sequence[Message], *, keeps_calling_turns: bool = False) -> Iterable[Drop]:
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


def _vllm(messages: Sequence[Message]) -> Iterable[Drop]:
    finals = [at for at, each in enumerate(messages) if (each.role, each.channel) == (Role.ASSISTANT, "final")]
    return _on_analysis_before(max(finals, default=0), messages, "on analysis, before the last final")


def _reference(messages: Sequence[Message]) -> Iterable[Drop]:
    end = first_final([(each.role, each.channel) for each in messages])
    return _on_analysis_before(end, messages, "on analysis, before the first final")


def _on_analysis_before(end: int, messages: Sequence[Message], reason: str) -> Iterable[Drop]:
    return ((index, reason) for index in range(end) if messages[index].channel == "analysis")


def first_final(headers: Sequence[tuple[str, str | None]]) -> int:
    """Where openai-harmony stops dropping analysis: at the first answer, not at the last; 0 if it drops nothing. A
    header is a role and a channel."""
    last = next((channel for role, channel in reversed(headers) if role == Role.ASSISTANT), None)
    return next(at for at, (_, channel) in enumerate(headers) if channel == "final") if last == "final" else 0


DOCUMENTED: Final = Rule("documented", _spent_reasoning)
KEEP_AFTER_CALLS: Final = Rule("keep_after_calls", partial(_spent_reasoning, keeps_calling_turns=True))
KEEP_EVERYTHING: Final = Rule("keep_everything", lambda _messages: ())
REFERENCE: Final = Rule("reference", _reference)
VLLM: Final = Rule("vllm", _vllm)


@dataclass(frozen=True, slots=True)
class LastTurns:
    """Drops all turns but the last `count`, and in those what `within` drops. Instructions stay."""

    count: int
    within: Policy = DOCUMENTED

    def __post_init__(self) -> None:
        _refuse_unless_count("the number of turns", self.count, 1)

    @property
    def name(self) -> str:
        return f"last_turns({self.count}, {self.within.name})"

    def __call__(self, messages: Sequence[Message], /) -> Iterable[Drop]:
        reason = "older than the last " + ("turn" if self.count == 1 else f"{self.count} turns")
        yield from ((index, reason) for turn in turns_of(messages)[: -self.count] for index in turn.indexes)
        # The inner policy sees the whole conversation, so what it drops does not depend on the count.
        yield from self.within(messages)


RenderConversation = Callable[[Conversation], Rendered]

_FORGED: Final = "forged: a completion must not contain a message of this role"
_NOT_ASSISTANT: Final = "not the assistant's: a completion must not contain a message of this role"


class Dropped(msgspec.Struct, frozen=True):
    """A dropped message: its index in the given conversation, and the reason."""

    index: int
    message: Message
    reason: str


class Prepared(msgspec.Struct, frozen=True):
    """What the prompt keeps and drops. `kept` has the index of each message in the given conversation, None for one
    that replaces others, such as a summary."""

    conversation: Conversation
    dropped: tuple[Dropped, ...]
    kept: tuple[int | None, ...]


class Received(msgspec.Struct, frozen=True):
    """A conversation with a model's messages added, and the refused ones, whose `index` counts the model's messages."""

    conversation: Conversation
    refused: tuple[Dropped, ...]


def select_dropped(conversation: Conversation | Iterable[Message], policy: Policy = DOCUMENTED) -> tuple[Dropped, ...]:
    """The messages that the next prompt drops, by a policy. Every policy drops forged messages (law 5)."""
    messages = as_messages(conversation)
    reasons: dict[int, str] = {index: _FORGED for index, message in enumerate(messages) if is_forged(message)}
    if not callable(policy):
        problem = f"{policy!r} is not a policy; use one of harmonia.history, such as DOCUMENTED"
        raise InputError(ErrorCode.HISTORY_INVALID_OPTION, problem)
    for index, reason in policy(messages):
        if not 0 <= index < len(messages):
            name = getattr(policy, "name", policy)
            problem = f"the policy {name} drops message {index}, but there are only {len(messages)}"
            raise InputError(ErrorCode.HISTORY_INVALID_OPTION, problem)
        reasons.setdefault(index, reason)
    return tuple(Dropped(index, messages[index], reason) for index, reason in sorted(reasons.items()))


def prepare(conversation: Conversation | Iterable[Message], policy: Policy = DOCUMENTED) -> Prepared:
    """The conversation for the next prompt, by a policy."""
    messages = as_messages(conversation)
    dropped = select_dropped(messages, policy)
    gone = {each.index for each in dropped}
    kept = tuple(index for index in range(len(messages)) if index not in gone)
    return Prepared(Conversation(messages[index] for index in kept), dropped, kept)


def receive(conversation: Conversation | Iterable[Message], parsed: Iterable[Message]) -> Received:
    """`Conversation.add_parsed`, and the messages it refused because they are not the assistant's."""
    messages = as_messages(conversation)
    written = tuple(parsed)
    refused = tuple(
        Dropped(index, message, _FORGED if is_forged(message) else _NOT_ASSISTANT)
        for index, message in enumerate(written)
        if not is_admitted(message)
    )
    return Received(Conversation(messages).add_parsed(written), refused)


def as_messages(conversation: Conversation | Iterable[Message]) -> tuple[Message, ...]:
    """Whatever a caller may pass as a conversation, as messages."""
    return (conversation if isinstance(conversation, Conversation) else Conversation(conversation)).messages


# Called with the dropped turns, as the prompt would have had them, and the number of free tokens.
Compact = Callable[[tuple[Conversation, ...], int], Iterable[Message]]


class Fitted(Prepared, frozen=True):
    """A prompt that fits: `tokens` is its size, `inserted` are the messages that replace dropped turns."""

    tokens: int
    inserted: tuple[Message, ...] = ()


def fit(
    conversation: Conversation | Iterable[Message],
    budget_tokens: int,
    policy: Policy = DOCUMENTED,
    compact: Compact | None = None,
    *,
    compact_tokens: int | None = None,
    render: RenderConversation = render,
) -> Fitted:
    """The conversation by a policy, without its oldest turns if it does not fit into the budget.

    `compact(turns, room)` may return messages to replace them; an eighth of the budget, or `compact_tokens`, is kept
    free for these. `render` renders the prompt, if not `harmonia.render` with its defaults.
    """
    _refuse_unless_count("budget_tokens", budget_tokens, 1)
    if compact_tokens is not None:
        _refuse_unless_count("compact_tokens", compact_tokens, 0)
    messages = as_messages(conversation)
    prepared = prepare(messages, policy)
    rendered = render(prepared.conversation)
    total = len(rendered.tokens)
    if total <= budget_tokens:
        return Fitted(**msgspec.structs.asdict(prepared), tokens=total)

    spans = zip(prepared.kept, rendered.spans, strict=True)
    sizes = {index: span.end_token - span.start_token for index, span in spans if index is not None}
    turns = [[index for index in turn.indexes if index in sizes] for turn in turns_of(messages)]
    turns = [turn for turn in turns if turn]
    going = turns[:-1]
    needed = total - sum(sizes[index] for turn in going for index in turn)
    if needed > budget_tokens:
        problem = f"system, developer and the last turn need {needed} tokens, but the budget is {budget_tokens}"
        raise InputError(ErrorCode.HISTORY_OVER_BUDGET, problem)
    reserve = 0 if compact is None else budget_tokens // 8 if compact_tokens is None else compact_tokens
    gone = 0
    while total > budget_tokens - reserve and gone < len(going):
        total -= sum(sizes[index] for index in going[gone])
        gone += 1
    out = {index for turn in going[:gone] for index in turn}
    summary: tuple[Message, ...] = ()
    if compact is not None:
        spoken = tuple(Conversation(messages[index] for index in turn) for turn in going[:gone])
        summary = Conversation(compact(spoken, budget_tokens - total)).messages
    before = [index for index in sizes if index < min(out)]
    after = [index for index in sizes if index > min(out) and index not in out]
    fitted = Conversation([*(messages[at] for at in before), *summary, *(messages[at] for at in after)])
    tokens = len(render(fitted).tokens)
    if tokens > budget_tokens:
        raise InputError(
            ErrorCode.HISTORY_OVER_BUDGET,
            f"the summary needs {tokens - total} tokens, but there is room for {budget_tokens - total}: the prompt "
            f"would have {tokens} tokens with a budget of {budget_tokens}",
        )
    reason = "an older turn, replaced by a summary" if summary else "an older turn that does not fit"
    dropped = [*prepared.dropped, *(Dropped(index, messages[index], reason) for index in out)]
    dropped.sort(key=lambda each: each.index)
    return Fitted(fitted, tuple(dropped), (*before, *(None for _ in summary), *after), tokens, summary)


def _refuse_unless_count(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        problem = f"{name} is {value!r}; it must be a number of at least {least}"
        raise InputError(ErrorCode.HISTORY_INVALID_OPTION, problem)
