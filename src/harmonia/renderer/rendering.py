"""Conversations to tokens. One function, `render`; everything else here serves it.

1. Special tokens come from structure (or from a parser, in `Message.sampled`), never from text.
2. A message that was rendered before is not rendered again: rendering a conversation that grew by one message costs
   that message. What counts is the content, so an edited message or a changed schema is noticed.
3. Memory for that is bounded by the renderer's `cache_bytes`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache, cached_property
from itertools import accumulate
from typing import Final, Literal

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.messages import Content, Conversation, DeveloperContent, Message, Role, Sampled
from harmonia.renderer.contents import declares_functions
from harmonia.renderer.loss import Stretch, TrainOn, loss_mask
from harmonia.renderer.memory import Memory
from harmonia.renderer.segments import CallStop, Form, RecipientSection, segment, stop_token
from harmonia.vocabulary import CALL, END, FIRST_SPECIAL, RETURN, START, Vocabulary, default_vocabulary, find_spellings

Ambiguous = Literal["refuse", "escape"]

DEFAULT_CACHE_BYTES: Final = 64_000_000
# What a remembered message takes: a list slot and an int object a token, and the dictionary's entry.
_BYTES_PER_TOKEN: Final = 36
_BYTES_PER_MESSAGE: Final = 600

# Nearly every header is made of these.
_FORMAT_WORDS: Final = (*(role.value for role in Role), "analysis", "commentary", "final", " to=assistant", " ", "json")


class _Piece(msgspec.Struct, frozen=True, gc=False):
    """A rendered message: its tokens, where the role ends in them, and where the body begins."""

    tokens: list[int]
    role_end: int
    header_end: int


class MessageSpan(msgspec.Struct, frozen=True):
    """Where a message lies in `Rendered.tokens`: header, body and stop token, each from one offset to the next."""

    message: int
    start_token: int
    body_token: int
    stop_token: int
    end_token: int


class Rendered:
    """A rendered conversation: `tokens`, and on demand `spans`, `mask` and `text`."""

    __slots__ = ("_messages", "_pieces", "_train_on", "_vocabulary", "tokens")

    def __init__(
        self,
        tokens: list[int],
        messages: tuple[Message, ...],
        pieces: list[_Piece],
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
        """Where each message lies among the tokens. What follows the last is the beginning of the next message."""
        return tuple(
            MessageSpan(index, start, start + piece.header_end, end - 1, end)
            for index, (piece, start, end) in enumerate(self._located())
        )

    @property
    def mask(self) -> list[bool]:
        """For each token, whether the model should be trained to produce it; `train_on` chooses the messages."""
        stretches = [
            Stretch(start, start + piece.role_end, end - 1, self.tokens[end - 1])
            for piece, start, end in self._located()
        ]
        return loss_mask(self._messages, stretches, len(self.tokens), self._train_on)

    @property
    def text(self) -> str:
        """The prompt as text, for people and for servers that take no tokens.

        In text, a special token that somebody typed cannot be told from a real one. Where there is such a spelling,
        this raises an InputError; `to_text(ambiguous="escape")` shows it to people as `<\\|end|>`.
        """
        return self.to_text()

    def to_text(self, *, ambiguous: Ambiguous = "refuse") -> str:
        """`text`, with a choice of what happens to a special token that somebody spelled out."""
        parts: list[str] = []
        for start, end in _ordinary_stretches(self.tokens):
            text = self._vocabulary.decode(self.tokens[start:end])
            for _, spelling in find_spellings(text):
                if ambiguous == "refuse":
                    raise InputError(
                        ErrorCode.RENDER_AMBIGUOUS_TEXT,
                        f"the text of a message spells {spelling}, which as text would be the special token; "
                        'send tokens, or show it to people with to_text(ambiguous="escape")',
                        Position(token=start, message=self._message_at(start)),
                    )
                text = text.replace(spelling, spelling.replace("<|", "<\\|"))
            parts.append(text)
            if end < len(self.tokens):
                parts.append(self._vocabulary.decode(self.tokens[end : end + 1]))
        return "".join(parts)

    def _located(self) -> Iterable[tuple[_Piece, int, int]]:
        ends = list(accumulate((len(piece.tokens) for piece in self._pieces), initial=0))
        return zip(self._pieces, ends, ends[1:], strict=False)

    def _message_at(self, token: int) -> int | None:
        return next((span.message for span in self.spans if span.start_token <= token < span.end_token), None)


class Renderer:
    """Renders conversations and remembers the messages it has rendered. `render` uses one that all share."""

    def __init__(self, vocabulary: Vocabulary | None = None, *, cache_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self.vocabulary = vocabulary or default_vocabulary()
        self._memory: Memory[_Piece] = Memory(cache_bytes)

    def clear_cache(self) -> None:
        """Forget every rendered message."""
        self._memory.clear()

    def render(
        self,
        conversation: Conversation | Iterable[Message],
        next_role: Role | str | None = Role.ASSISTANT,
        *,
        training: bool = False,
        train_on: TrainOn | None = None,
        recipient_section: RecipientSection = "role",
        call_stop: CallStop = "call",
        exact_reference: bool = False,
    ) -> Rendered:
        """See `harmonia.render`."""
        messages = conversation.messages if isinstance(conversation, Conversation) else tuple(conversation)
        form = Form(recipient_section, call_stop, exact_reference)
        has_functions = _declare_functions(messages)

        pieces: list[_Piece] = []
        tokens: list[int] = []
        for index, message in enumerate(messages):
            try:
                piece = self._piece(message, form, has_functions=has_functions)
            except InputError as error:
                error.at = msgspec.structs.replace(error.at, message=index)
                raise
            pieces.append(piece)
            tokens += piece.tokens

        if training:
            last = messages[-1] if messages else None
            if last is not None and last.role is Role.ASSISTANT and last.channel == "final":
                tokens[-1] = RETURN
        elif next_role is not None:
            tokens.append(START)
            tokens += self._encode_word(_next_role(next_role))
        return Rendered(tokens, messages, pieces, train_on or TrainOn(), self.vocabulary)

    def _piece(self, message: Message, form: Form, *, has_functions: bool) -> _Piece:
        if message.sampled is not None and not form.exact_reference:
            return _piece_as_sampled(message, message.sampled, form)
        content, author = message.content, message.author
        said = content if isinstance(content, str) else _content_key(message.contents, has_functions)
        key = (said, author.role, author.name, message.channel, message.recipient, message.content_type, form)
        piece = self._memory.get(key)
        if piece is None:
            piece = self._render_message(message, form, has_functions=has_functions)
            self._memory.put(key, piece, _BYTES_PER_TOKEN * len(piece.tokens) + len(said) + _BYTES_PER_MESSAGE)
        return piece

    def _render_message(self, message: Message, form: Form, *, has_functions: bool) -> _Piece:
        role, header, body, stop = segment(message, form, has_functions=has_functions)
        tokens = [START, *self._encode_word(role)]
        role_end = len(tokens)
        for part in header:
            if isinstance(part, int):
                tokens.append(part)
            else:
                tokens += self._encode_word(part)
        header_end = len(tokens)
        for text in body:
            tokens += self.vocabulary.encode(text)
        tokens.append(stop)
        return _Piece(tokens, role_end, header_end)

    def _encode_word(self, word: str) -> list[int]:
        return self._format_words.get(word) or self.vocabulary.encode(word)

    @cached_property
    def _format_words(self) -> dict[str, list[int]]:
        """The words of the format itself. Nearly every header is made of them."""
        return {word: self.vocabulary.encode(word) for word in _FORMAT_WORDS}


@cache
def _shared_renderer() -> Renderer:
    return Renderer()


def render(
    conversation: Conversation | Iterable[Message],
    next_role: Role | str | None = Role.ASSISTANT,
    *,
    training: bool = False,
    train_on: TrainOn | None = None,
    recipient_section: RecipientSection = "role",
    call_stop: CallStop = "call",
    exact_reference: bool = False,
) -> Rendered:
    """The tokens of a conversation, and on demand its text, its spans and its loss mask.

    For completion, the header of the next message is begun: `<|start|>assistant`. With `next_role=None` that is left
    out, as in a stored history. A message that was sampled with `<|return|>` ends with `<|end|>` in both.

    With `training=True` nothing is begun, and a last answer on `final` ends with `<|return|>`, as the model has to
    write it. `train_on` chooses the messages that `mask` marks.

    `recipient_section` puts ` to=…` behind the role, as the reference does, or behind the channel, as the models
    mostly sample it. `call_stop="end"` ends calls with `<|end|>`, as one reading of the format has it.
    `exact_reference=True` gives openai-harmony's tokens even where it loses part of a schema or writes a header that
    cannot be read back.

    What was rendered is remembered for the whole process, in at most 64 MB; a `Renderer` has a memory, and if you like
    a vocabulary, of its own.
    """
    return _shared_renderer().render(
        conversation,
        next_role,
        training=training,
        train_on=train_on,
        recipient_section=recipient_section,
        call_stop=call_stop,
        exact_reference=exact_reference,
    )


def clear_cache() -> None:
    """Make the renderer that `render` uses forget every message."""
    _shared_renderer().clear_cache()


def _next_role(role: Role | str) -> str:
    try:
        return Role(role).value
    except ValueError as error:
        raise InputError(ErrorCode.RENDER_INVALID_OPTION, f"next_role is {role!r}, which is not a role") from error


def _declare_functions(messages: tuple[Message, ...]) -> bool:
    for message in messages:
        if isinstance(message.content, str):
            continue
        for content in message.contents:
            if isinstance(content, DeveloperContent) and declares_functions(content):
                return True
    return False


def _content_key(contents: tuple[Content, ...], has_functions: bool) -> bytes:
    """All that the text of these contents depends on, so that a change inside a schema is noticed."""
    said = (contents, has_functions)
    try:
        try:
            return msgspec.msgpack.encode(said)
        except OverflowError:  # an integer of more than 64 bits
            return json.dumps(msgspec.to_builtins(said)).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(ErrorCode.SCHEMA_INVALID, f"a schema of the message is not JSON: {error}") from error


def _piece_as_sampled(message: Message, sampled: Sampled, form: Form) -> _Piece:
    """The tokens as they were sampled, but for the stop.

    `<|return|>` is a signal to the sampler only; in history it is `<|end|>`. A message that was cut off has no stop,
    and gets the one it should have had.
    """
    tokens = list(sampled.tokens)
    if tokens[-1] not in (END, RETURN, CALL):
        tokens.append(stop_token(message, form))
    elif tokens[-1] == RETURN or (tokens[-1] == CALL and form.call_stop == "end"):
        tokens[-1] = END
    return _Piece(tokens, sampled.role_end, sampled.header_end)


def _ordinary_stretches(tokens: list[int]) -> Iterable[tuple[int, int]]:
    """What lies between special tokens, as (start, end); the token at `end` is special, or `end` is the end."""
    start = 0
    for index, token in enumerate(tokens):
        if token >= FIRST_SPECIAL:
            yield start, index
            start = index + 1
    yield start, len(tokens)
