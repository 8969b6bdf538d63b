"""Compare two prompts: how much of the first an engine's cache can reuse, and which messages stayed, changed or went.

`align` pairs the messages. Equal beginnings and ends are the same. Between them, the first of several equal messages is
paired with the first, the second with the second, and so on; the longest run of pairs in the order of both is the
same. What is left between those is paired by role, name, channel and recipient in the same way: these changed. The rest
was dropped or added. That is not always the smallest set of changes, but it takes `n log n` steps instead of `n²`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.history.preparation import DOCUMENTED, Dropped, Prepared, RenderConversation, prepare
from harmonia.messages import Conversation, Message
from harmonia.renderer import MessageSpan, Rendered, render, shared_prefix

# Token ids; a rendered prompt, which also tells the messages; or a prepared one, which also tells the reasons. A
# conversation is prepared by the documented policy.
Prompt = Prepared | Rendered | Conversation | Sequence[int]


class PromptChange(msgspec.Struct, frozen=True):
    """Where two prompts diverge. An engine can reuse the `shared_prefix` tokens that they share.

    `before_token` and `after_token` are the first tokens that differ, None if a prompt has ended. `before_message` and
    `after_message` are the indices of their messages, None if unknown or in the header of the next message. For a
    prepared prompt it is the index in the whole conversation, None in a summary. `dropped_tokens` of the first prompt
    are not reused, `added_tokens` of the second are new. `dropped` has the messages dropped from the first to the
    second, with reasons; it is empty if the second prompt was not prepared.
    """

    shared_prefix: int
    before_token: int | None
    after_token: int | None
    before_message: int | None
    after_message: int | None
    dropped_tokens: int
    added_tokens: int
    dropped: tuple[Dropped, ...]

    @property
    def is_extension(self) -> bool:
        """Whether the second prompt only continues the first."""
        return self.dropped_tokens == 0


def compare(before: Prompt, after: Prompt, *, render: RenderConversation = render) -> PromptChange:
    """Where the prompt `after` diverges from `before`. `render` renders prepared prompts."""
    old, new = _open(before, render), _open(after, render)
    shared = shared_prefix(old.tokens, new.tokens)
    dropped = () if new.prepared is None else new.prepared.dropped
    if old.prepared is not None:
        had = set(old.prepared.kept)
        dropped = tuple(each for each in dropped if each.index in had)
    return PromptChange(
        shared,
        old.tokens[shared] if shared < len(old.tokens) else None,
        new.tokens[shared] if shared < len(new.tokens) else None,
        old.message_at(shared),
        new.message_at(shared),
        len(old.tokens) - shared,
        len(new.tokens) - shared,
        dropped,
    )


class _Opened(NamedTuple):
    tokens: list[int]
    spans: tuple[MessageSpan, ...] = ()
    prepared: Prepared | None = None

    def message_at(self, token: int) -> int | None:
        found = bisect_right(self.spans, token, key=lambda span: span.start_token) - 1
        if found < 0 or token >= self.spans[found].end_token:
            return None
        return found if self.prepared is None else self.prepared.kept[found]


def _open(prompt: Prompt, render: RenderConversation) -> _Opened:
    prepared = prepare(prompt) if isinstance(prompt, Conversation) else prompt
    rendered = render(prepared.conversation) if isinstance(prepared, Prepared) else prepared
    if isinstance(rendered, Rendered):
        return _Opened(rendered.tokens, rendered.spans, prepared if isinstance(prepared, Prepared) else None)
    tokens = list(rendered)
    if not all(isinstance(token, int) for token in tokens) or isinstance(rendered, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
        problem = "a prompt must be token ids, a Rendered, a Prepared or a Conversation"
        raise InputError(ErrorCode.HISTORY_INVALID_OPTION, problem)
    return _Opened(tokens)


Change = Literal["same", "changed", "dropped", "added"]
_Keys = Sequence[Hashable]
_Pair = tuple[int, int]


class Aligned(msgspec.Struct, frozen=True):
    """A message of both prompts, or of one. `reason` says why it was dropped, if the documented policy drops it."""

    kind: Change
    before: int | None
    after: int | None
    reason: str | None = None


def align(before: Sequence[Message], after: Sequence[Message]) -> list[Aligned]:
    """The messages of two prompts side by side; dropped messages come before those added in their place."""
    return _with_reasons(list(_rows(before, after)), before, after)


def _rows(before: Sequence[Message], after: Sequence[Message]) -> Iterator[Aligned]:
    old, new = [_identity(message) for message in before], [_identity(message) for message in after]
    at_old = at_new = 0
    for end_old, end_new in (*_same(old, new), (len(old), len(new))):
        for row in _between(before, after, range(at_old, end_old), range(at_new, end_new)):
            # Messages paired by their kind may turn out to be the same.
            is_same = row.kind == "changed" and old[row.before or 0] == new[row.after or 0]
            yield Aligned("same", row.before, row.after) if is_same else row
        if end_old < len(old) or end_new < len(new):
            yield Aligned("same", end_old, end_new)
        at_old, at_new = end_old + 1, end_new + 1


def _between(before: Sequence[Message], after: Sequence[Message], old: range, new: range) -> Iterator[Aligned]:
    """The rows between two messages that are the same."""
    pairs = _paired([_place(before[at]) for at in old], [_place(after[at]) for at in new])
    at_old, at_new = old.start, new.start
    for first, second in (*pairs, (len(old), len(new))):
        yield from (Aligned("dropped", at, None) for at in range(at_old, old.start + first))
        yield from (Aligned("added", None, at) for at in range(at_new, new.start + second))
        at_old, at_new = old.start + first + 1, new.start + second + 1
        if at_old <= old.stop and at_new <= new.stop:
            yield Aligned("changed", at_old - 1, at_new - 1)


def _same(old: _Keys, new: _Keys) -> list[_Pair]:
    shorter = min(len(old), len(new))
    head = 0
    while head < shorter and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shorter - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    end_old, end_new = len(old) - tail, len(new) - tail
    middle = _paired(old[head:end_old], new[head:end_new])
    return [
        *((at, at) for at in range(head)),
        *((head + first, head + second) for first, second in middle),
        *zip(range(end_old, len(old)), range(end_new, len(new)), strict=True),
    ]


def _paired(old: _Keys, new: _Keys) -> list[_Pair]:
    """The longest run of pairs in the order of both, where a pair is the n-th of its kind in both."""
    place_in_new = {key: at for at, key in enumerate(_numbered(new))}
    pairs = [(at, place_in_new[key]) for at, key in enumerate(_numbered(old)) if key in place_in_new]
    # The longest increasing run of the second places: `ends` has the least end of a run of each length.
    ends: list[int] = []
    last: list[int] = []  # which pair that end is
    previous: list[int] = []  # the pair before each in its run
    for at, (_, second) in enumerate(pairs):
        length = bisect_left(ends, second)
        previous.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [second]
        last[length : length + 1] = [at]
    run: list[_Pair] = []
    at = last[-1] if last else -1
    while at >= 0:
        run.append(pairs[at])
        at = previous[at]
    return run[::-1]


def _numbered(keys: _Keys) -> Iterator[tuple[Hashable, int]]:
    seen: dict[Hashable, int] = {}
    for key in keys:
        number = seen[key] = seen.get(key, -1) + 1
        yield key, number


def _place(message: Message) -> Hashable:
    return message.role, message.name, message.channel, message.recipient


def _identity(message: Message) -> Hashable:
    return _place(message), message.content_type, message.text


def _with_reasons(rows: list[Aligned], before: Sequence[Message], after: Sequence[Message]) -> list[Aligned]:
    """Add the documented policy's reasons to dropped messages. The policy sees both prompts as one conversation,
    because the answer that followed the reasoning may be in the second only."""
    if all(row.kind != "dropped" for row in rows):
        return rows
    whole = [after[row.after] if row.after is not None else before[row.before or 0] for row in rows]
    reasons = dict(DOCUMENTED(whole))
    return [
        msgspec.structs.replace(row, reason=reasons[at]) if row.kind == "dropped" and at in reasons else row
        for at, row in enumerate(rows)
    ]
