"""From the whole conversation to the messages of the next prompt, by a policy and within a budget of tokens.

Keep the whole conversation: call ids are positions in it, and a policy has to see all of it each time. A prepared
conversation is only for rendering. Every dropped message has a reason.

`fit` also drops the oldest turns until the prompt fits:

1. A turn is dropped as a whole, so no call loses its result.
2. System and developer messages and the last turn stay. If they alone are too large, that is an error.
3. Dropped turns can be compacted: a summariser gets all of them, once, and returns messages to put in their place.
4. The renderer counts: the resulting prompt has at most as many tokens as the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.history.policies import DOCUMENTED, Policy
from harmonia.history.turns import turns_of
from harmonia.messages import Conversation, Message, is_admitted, is_forged
from harmonia.renderer import Rendered, render

RenderConversation = Callable[[Conversation], Rendered]

FORGED = "forged: a completion must not contain a message of this role"
NOT_ASSISTANT = "not the assistant's: a completion must not contain a message of this role"


class Dropped(msgspec.Struct, frozen=True):
    """A dropped message: its index in the given conversation, and the reason."""

    index: int
    message: Message
    reason: str


class Prepared(msgspec.Struct, frozen=True):
    """What the prompt keeps and drops. `kept` has the index of each message in the given conversation.

    A message that replaces others, such as a summary, has None there.
    """

    conversation: Conversation
    dropped: tuple[Dropped, ...]
    kept: tuple[int | None, ...]


class Received(msgspec.Struct, frozen=True):
    """A conversation with a model's messages added, and those that were refused; `index` counts the model's
    messages."""

    conversation: Conversation
    refused: tuple[Dropped, ...]


def prepare(conversation: Conversation | Iterable[Message], policy: Policy = DOCUMENTED) -> Prepared:
    """The conversation for the next prompt, by a policy. Every policy drops forged messages (law 5)."""
    messages = as_messages(conversation)
    reasons: dict[int, str] = {index: FORGED for index, message in enumerate(messages) if is_forged(message)}
    if not callable(policy):
        raise InputError(
            ErrorCode.HISTORY_INVALID_OPTION,
            f"{policy!r} is not a policy; use one of harmonia.history, such as DOCUMENTED",
        )
    for index, reason in policy(messages):
        if not 0 <= index < len(messages):
            raise InputError(
                ErrorCode.HISTORY_INVALID_OPTION,
                f"the policy {getattr(policy, 'name', policy)} drops message {index}, but there are only "
                f"{len(messages)}",
            )
        reasons.setdefault(index, reason)
    return without(messages, reasons)


def without(messages: tuple[Message, ...], reasons: dict[int, str]) -> Prepared:
    """The messages without those that have a reason to be dropped."""
    kept = tuple(index for index in range(len(messages)) if index not in reasons)
    dropped = tuple(Dropped(index, messages[index], reason) for index, reason in sorted(reasons.items()))
    return Prepared(Conversation(messages[index] for index in kept), dropped, kept)


def receive(conversation: Conversation | Iterable[Message], parsed: Iterable[Message]) -> Received:
    """`Conversation.add_parsed`, and the messages it refused because they are not the assistant's."""
    messages = as_messages(conversation)
    written = tuple(parsed)
    refused = tuple(
        Dropped(index, message, FORGED if is_forged(message) else NOT_ASSISTANT)
        for index, message in enumerate(written)
        if not is_admitted(message)
    )
    return Received(Conversation(messages).add_parsed(written), refused)


def as_messages(conversation: Conversation | Iterable[Message]) -> tuple[Message, ...]:
    """Whatever a caller may pass as a conversation, as messages."""
    return (conversation if isinstance(conversation, Conversation) else Conversation(conversation)).messages


# Called with the dropped turns, as the prompt would have had them, and the number of free tokens.
Compact = Callable[[tuple[Conversation, ...], int], Iterable[Message]]

NO_ROOM = "an older turn that does not fit"
COMPACTED = "an older turn, replaced by a summary"


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
        return _fitted(prepared, total)

    sizes = {
        index: span.end_token - span.start_token for index, span in zip(prepared.kept, rendered.spans, strict=True)
    }
    turns = [[index for index in turn.indexes if index in sizes] for turn in turns_of(messages)]
    turns = [turn for turn in turns if turn]
    going = turns[:-1]
    needed = total - sum(sizes[index] for turn in going for index in turn)
    if needed > budget_tokens:
        raise InputError(
            ErrorCode.HISTORY_OVER_BUDGET,
            f"system, developer and the last turn need {needed} tokens, but the budget is {budget_tokens}",
        )
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
    return _replace(messages, prepared, out, summary, budget_tokens, total, render)


def _replace(
    messages: tuple[Message, ...],
    prepared: Prepared,
    out: set[int],
    summary: tuple[Message, ...],
    budget_tokens: int,
    without_summary: int,
    render: RenderConversation,
) -> Fitted:
    reason = COMPACTED if summary else NO_ROOM
    first = min(out)
    kept: list[int | None] = []
    said: list[Message] = []
    for index, message in zip(prepared.kept, prepared.conversation, strict=True):
        if index == first:
            kept += [None] * len(summary)
            said += summary
        if index not in out:
            kept.append(index)
            said.append(message)
    fitted = Conversation(said)
    tokens = len(render(fitted).tokens)
    if tokens > budget_tokens:
        raise InputError(
            ErrorCode.HISTORY_OVER_BUDGET,
            f"the summary needs {tokens - without_summary} tokens, but there is room for "
            f"{budget_tokens - without_summary}: the prompt would have {tokens} tokens with a budget of "
            f"{budget_tokens}",
        )
    dropped = [*prepared.dropped, *(Dropped(index, messages[index], reason) for index in out)]
    dropped.sort(key=lambda each: each.index)
    return Fitted(fitted, tuple(dropped), tuple(kept), tokens, summary)


def _fitted(prepared: Prepared, tokens: int) -> Fitted:
    return Fitted(**msgspec.structs.asdict(prepared), tokens=tokens)


def _refuse_unless_count(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(
            ErrorCode.HISTORY_INVALID_OPTION, f"{name} is {value!r}; it must be a number of at least {least}"
        )
