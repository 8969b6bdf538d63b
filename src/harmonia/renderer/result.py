"""The result of rendering: tokens, and on demand the text, the spans of the messages, the mask and the losses."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, Literal, get_args

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.messages import Message
from harmonia.renderer.training_mask import Stretch, TrainOn, loss_mask
from harmonia.schema import Loss
from harmonia.vocabulary import FIRST_SPECIAL, RETURN, Vocabulary, default_vocabulary, find_spellings

Ambiguous = Literal["refuse", "escape"]


class Piece(msgspec.Struct, frozen=True, gc=False):
    """A rendered message: its tokens, where the role ends in them, and where the body begins."""

    tokens: list[int]
    role_end: int
    header_end: int
    losses: tuple[Loss, ...] = ()
    stop_was_sampled: bool = True  # false if the message was truncated or ended with <|return|>


class MessageSpan(msgspec.Struct, frozen=True):
    """Where a message lies in `Rendered.tokens`: header, body and stop token, each from one offset to the next."""

    message: int
    start_token: int
    body_token: int
    stop_token: int
    end_token: int


class Rendered:
    """A rendered conversation: `tokens`, and on demand `text`, `spans`, `mask` and `losses`."""

    __slots__ = ("_messages", "_pieces", "_train_on", "_vocabulary", "tokens")

    def __init__(
        self,
        tokens: list[int],
        messages: tuple[Message, ...],
        pieces: list[Piece],
        train_on: TrainOn,
        vocabulary: Vocabulary,
    ) -> None:
        self.tokens = tokens
        self._messages = messages
        self._pieces = pieces
        self._train_on = train_on
        self._vocabulary = vocabulary

    def __repr__(self) -> str:
        return f"<Rendered: {len(self._pieces)} messages, {len(self.tokens)} tokens>"

    @property
    def spans(self) -> tuple[MessageSpan, ...]:
        """Where each message is in the tokens. After the last one, the next message begins."""
        return tuple(
            MessageSpan(index, start, start + piece.header_end, end - 1, end)
            for index, (piece, start, end) in enumerate(self._located())
        )

    @property
    def mask(self) -> list[bool]:
        """For each token, whether the model should be trained to produce it; `train_on` chooses the messages."""
        stretches = [
            Stretch(start, start + piece.role_end, end - 1, stop, piece.stop_was_sampled or stop == RETURN)
            for piece, start, end in self._located()
            for stop in (self.tokens[end - 1],)
        ]
        return loss_mask(self._messages, stretches, len(self.tokens), self._train_on)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What the tools' schemas contain and the prompt does not express; empty with `exact_reference`."""
        return tuple(
            msgspec.structs.replace(loss, path=f"$.messages[{index}]{loss.path.removeprefix('$')}")
            for index, piece in enumerate(self._pieces)
            for loss in piece.losses
        )

    @property
    def text(self) -> str:
        """The prompt as text, for people and for servers that do not accept tokens.

        In text, a typed special token cannot be distinguished from a real one. If a message contains such a spelling,
        this raises an InputError; `to_text(ambiguous="escape")` shows it to people as `<\\|end|>`.
        """
        return self.to_text()

    def to_text(self, *, ambiguous: Ambiguous = "refuse") -> str:
        """`text`, with a choice of what happens to special tokens that are spelled out in a message."""
        try:
            return text_of(self.tokens, self._vocabulary, ambiguous=ambiguous)
        except InputError as error:
            if (token := error.at.token) is None:
                raise
            message = next((span.message for span in self.spans if span.start_token <= token < span.end_token), None)
            raise InputError(error.code, error.message, Position(token=token, message=message)) from None

    def _located(self) -> Iterable[tuple[Piece, int, int]]:
        bounds = list(accumulate((len(piece.tokens) for piece in self._pieces), initial=0))
        return zip(self._pieces, bounds, bounds[1:], strict=False)


def text_of(tokens: Sequence[int], vocabulary: Vocabulary | None = None, *, ambiguous: Ambiguous = "refuse") -> str:
    """The text of rendered tokens, in which every spelling of a special token is a real one.

    One that was typed is refused with an InputError at its first token, or written as `<\\|end|>`.
    """
    if ambiguous not in get_args(Ambiguous):
        raise InputError(ErrorCode.RENDER_INVALID_OPTION, f"ambiguous is {ambiguous!r}; use refuse or escape")
    vocabulary = vocabulary or default_vocabulary()
    decode = vocabulary.decode
    parts: list[str] = []
    for start, end in _ordinary_stretches(tokens):
        text = decode(tokens[start:end])
        shown = 0
        for offset, spelling in find_spellings(text):
            if ambiguous == "refuse":
                raise _ambiguous(tokens, vocabulary, spelling, start, offset)
            parts += (text[shown:offset], spelling.replace("<|", "<\\|"))
            shown = offset + len(spelling)
        parts.append(text[shown:])
        parts.append(decode(tokens[end : end + 1]))
    return "".join(parts)


def _ambiguous(tokens: Sequence[int], vocabulary: Vocabulary, spelling: str, start: int, offset: int) -> InputError:
    # The token in which the spelling begins, `offset` characters after the start of token `start`.
    lengths = (len(vocabulary.decode_bytes([token])) for token in tokens[start:])
    bytes_before = len(vocabulary.decode(tokens[start:])[:offset].encode())
    return InputError(
        ErrorCode.RENDER_AMBIGUOUS_TEXT,
        f"the text of a message spells {spelling}, which would become the special token in a text prompt; "
        'send tokens, or show it to people with to_text(ambiguous="escape")',
        Position(token=start + bisect_right(list(accumulate(lengths)), bytes_before)),
    )


def _ordinary_stretches(tokens: Sequence[int]) -> Iterable[tuple[int, int]]:
    """The ranges between special tokens, as (start, end); the token at `end` is special, or `end` is the end."""
    start = 0
    for index, token in enumerate(tokens):
        if token >= FIRST_SPECIAL:
            yield start, index
            start = index + 1
    yield start, len(tokens)


# Lists are compared in blocks, which is much faster than a loop.
_BLOCK: Final = 1024


def shared_prefix(before: Sequence[int], after: Sequence[int]) -> int:
    """The number of tokens that two prompts share at their beginning."""
    end = min(len(before), len(after))
    for start in range(0, end, _BLOCK):
        stop = min(start + _BLOCK, end)
        if before[start:stop] != after[start:stop]:
            return next(at for at in range(start, stop) if before[at] != after[at])
    return end
