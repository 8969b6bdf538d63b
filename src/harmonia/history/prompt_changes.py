"""What changed between two prompts: how much of the first an engine's cache can use again, and why not more."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.history.budgets import RenderConversation
from harmonia.history.preparation import Dropped, Prepared, prepare
from harmonia.messages import Conversation
from harmonia.renderer import Rendered, render

# The more is given, the more is said: token ids, a rendered prompt (which messages), or a prepared one (and why). A
# conversation is prepared by the documented rule.
Prompt = Prepared | Rendered | Conversation | Sequence[int]

# Lists are compared in blocks, because that is quick and a loop is not.
_BLOCK: Final = 1024


class PromptChange(msgspec.Struct, frozen=True):
    """Where two prompts part. They share `shared_prefix` tokens; that many an engine need not read again.

    `before_token` and `after_token` are the first tokens that differ, None where a prompt has ended. `before_message`
    and `after_message` are the messages in which they lie, None where that is not known or where it is the header of
    the next message, which belongs to none. For a prepared prompt the message is its place in the whole conversation,
    None in a summary, too. `dropped_tokens` of the first prompt are not used again, `added_tokens` of the second are
    new. `dropped` has what went from the first to the second, with the reasons; it is empty where the second prompt
    was not prepared.
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
        """Whether the second prompt only goes on where the first ended."""
        return self.dropped_tokens == 0


def compare(before: Prompt, after: Prompt, *, render: RenderConversation = render) -> PromptChange:
    """Where the prompt `after` parts from the prompt `before`. `render` is how prepared ones are rendered."""
    before, after = _prepared(before), _prepared(after)
    old = render(before.conversation) if isinstance(before, Prepared) else before
    new = render(after.conversation) if isinstance(after, Prepared) else after
    old_tokens, new_tokens = _tokens_of(old), _tokens_of(new)
    shared = shared_prefix(old_tokens, new_tokens)
    return PromptChange(
        shared,
        old_tokens[shared] if shared < len(old_tokens) else None,
        new_tokens[shared] if shared < len(new_tokens) else None,
        _message_at(shared, before, old),
        _message_at(shared, after, new),
        len(old_tokens) - shared,
        len(new_tokens) - shared,
        _newly_dropped(before, after),
    )


def shared_prefix(before: Sequence[int], after: Sequence[int]) -> int:
    """How many tokens two prompts have in common at their beginning."""
    end = min(len(before), len(after))
    for start in range(0, end, _BLOCK):
        stop = min(start + _BLOCK, end)
        if before[start:stop] != after[start:stop]:
            return next(at for at in range(start, stop) if before[at] != after[at])
    return end


_Known = Prepared | Rendered | Sequence[int]


def _prepared(prompt: Prompt) -> _Known:
    return prepare(prompt) if isinstance(prompt, Conversation) else prompt


def _tokens_of(prompt: Rendered | Sequence[int]) -> list[int]:
    if isinstance(prompt, Rendered):
        return prompt.tokens
    tokens = [] if isinstance(prompt, str) else list(prompt)
    if not all(isinstance(token, int) for token in tokens) or isinstance(prompt, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
        raise InputError(
            ErrorCode.HISTORY_INVALID_OPTION,
            "prompts are compared as token ids, rendered, prepared, or as conversations",
        )
    return tokens


def _message_at(token: int, prompt: _Known, rendered: Rendered | Sequence[int]) -> int | None:
    if not isinstance(rendered, Rendered):
        return None
    spans = rendered.spans
    found = bisect_right(spans, token, key=lambda span: span.start_token) - 1
    if found < 0 or token >= spans[found].end_token:
        return None
    return prompt.kept[found] if isinstance(prompt, Prepared) else found


def _newly_dropped(before: _Known, after: _Known) -> tuple[Dropped, ...]:
    if not isinstance(after, Prepared):
        return ()
    if not isinstance(before, Prepared):
        return after.dropped
    had = set(before.kept)
    return tuple(each for each in after.dropped if each.index in had)
