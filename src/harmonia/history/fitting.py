"""A conversation that fits a context: instructions and the last turns stay, whole turns go, the oldest first.

1. A turn goes as a whole, so no call loses its result.
2. System and developer messages and the last turn stay. Where they alone are too large, that is an error.
3. What goes can be compacted: a summariser gets the turns that go and gives messages for their place. It is asked once.
4. The count is the renderer's: the prompt that comes out has at most as many tokens as were asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.history.budgets import RenderConversation
from harmonia.history.policies import DOCUMENTED, Policy
from harmonia.history.preparation import Dropped, Prepared, as_messages, prepare
from harmonia.history.turns import turns_of
from harmonia.messages import Conversation, Message
from harmonia.renderer import render

# The turns that go, as the prompt would have had them, and the number of tokens that there is room for.
Compact = Callable[[tuple[Conversation, ...], int], Iterable[Message]]

NO_ROOM = "an older turn, for which there is no room"
COMPACTED = "an older turn, for which a summary stands"


class Fitted(Prepared, frozen=True):
    """A prompt that fits: `tokens` is its size, `inserted` what a summariser put in the place of turns that went."""

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
    """The conversation by a policy, without its oldest turns where they do not fit into so many tokens.

    `compact(turns, room)` may stand messages in their place; an eighth of the budget is left free for them, or
    `compact_tokens`. `render` is how the prompt is rendered, where that is not `harmonia.render` as it is.
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
            f"system, developer and the last turn take {needed} tokens, and there are {budget_tokens}",
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
            f"the summary takes {tokens - without_summary} tokens, and there is room for "
            f"{budget_tokens - without_summary}: the prompt would have {tokens} of {budget_tokens}",
        )
    dropped = [*prepared.dropped, *(Dropped(index, messages[index], reason) for index in out)]
    dropped.sort(key=lambda each: each.index)
    return Fitted(fitted, tuple(dropped), tuple(kept), tokens, summary)


def _fitted(prepared: Prepared, tokens: int) -> Fitted:
    return Fitted(**msgspec.structs.asdict(prepared), tokens=tokens)


def _refuse_unless_count(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(ErrorCode.HISTORY_INVALID_OPTION, f"{name} is {value!r}; it is a number, {least} or more")
