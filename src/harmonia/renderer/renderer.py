"""Conversations to tokens: `render`, and what it returns.

1. Special tokens come from structure (or from a parser, in `Message.sampled`), never from text.
2. A message that was rendered before is not rendered again: rendering a conversation that grew by one message costs
   that message. The cache compares contents, so an edited message or a changed schema is noticed.
3. The cache is bounded by the renderer's `cache_bytes`.

Callers may change a schema in place, so contents are packed again for each rendering, and a change is noticed. With a
hundred tools, packing takes longer than rendering a new message. `freeze` makes a private copy that is packed once and
recognised by its identity. The printed text depends on nothing outside the packed form (see schema/document.py).
"""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Sequence
from itertools import accumulate
from threading import Lock
from typing import Any, Final, Generic, Literal, TypeVar, get_args

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.json_codec import pack, split_validation_error, unpack
from harmonia.messages import Content, Conversation, DeveloperContent, Message, Role, SystemContent
from harmonia.provenance import Sampled
from harmonia.renderer.segments import (
    KNOWN_FORMS,
    CallStop,
    Form,
    RecipientSection,
    segment,
    stop_token,
)
from harmonia.renderer.training_mask import Stretch, TrainOn, loss_mask
from harmonia.schema import Loss
from harmonia.vocabulary import CALL, END, FIRST_SPECIAL, RETURN, START, Vocabulary, default_vocabulary, find_spellings

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
    """The text of rendered tokens, in which every spelling of a special token is a real one. One that was typed is
    refused with an InputError at its first token, or written as `<\\|end|>`."""
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
        "send tokens instead",
        Position(token=start + bisect_right(list(accumulate(lengths)), bytes_before)),
    )


def _ordinary_stretches(tokens: Sequence[int]) -> Iterable[tuple[int, int]]:
    """The ranges between special tokens, as (start, end); the token at `end` is special, or `end` is the end."""
    specials = [index for index, token in enumerate(tokens) if token >= FIRST_SPECIAL]
    return zip([0, *(index + 1 for index in specials)], [*specials, len(tokens)], strict=True)


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


_DECODER: Final = msgspec.msgpack.Decoder(list[str | SystemContent | DeveloperContent])

# By the identity of a frozen content: a weak reference to it, which removes the entry with it, and its packed form.
_FROZEN: Final[dict[int, tuple[weakref.ref[Any], bytes]]] = {}


def freeze(message: Message) -> Message:
    """A copy of a message that is cheap to render again. Its contents are private and must not be changed.

    Changing a schema inside the copy does not change what is rendered. Freezing pays off for a developer message with
    many tools; sampled messages and text are cheap anyway.
    """
    content = message.content
    if not isinstance(content, SystemContent | DeveloperContent) or id(content) in _FROZEN:
        return message
    packed = _pack_contents((content,))
    (copy,) = unpack_contents(packed)
    key = id(copy)
    _FROZEN[key] = (weakref.ref(copy, lambda _gone: _FROZEN.pop(key, None)), packed)
    return message.replace(content=copy)


def packed_contents(message: Message) -> bytes:
    """Everything that the text of a message's contents depends on, except whether functions are declared."""
    frozen = _FROZEN.get(id(message.content))
    return frozen[1] if frozen is not None else _pack_contents(message.contents)


def _pack_contents(contents: tuple[Content, ...]) -> bytes:
    try:
        return pack(contents)
    except UnicodeEncodeError as error:
        problem = "the content contains half of a surrogate pair, which UTF-8 cannot encode"
        raise InputError(ErrorCode.VOCABULARY_LONE_SURROGATE, problem) from error
    except RecursionError as error:
        raise InputError(ErrorCode.SCHEMA_TOO_DEEP, "a schema in the message is nested too deeply") from error
    except (TypeError, ValueError) as error:
        raise InputError(ErrorCode.SCHEMA_INVALID, f"a schema in the message is not valid JSON: {error}") from error


def unpack_contents(packed: bytes) -> list[Any]:
    """The contents again, as new values. A value of the wrong type is an InputError with its path."""
    try:
        return unpack(packed, _DECODER)
    except RecursionError as error:
        raise InputError(ErrorCode.SCHEMA_TOO_DEEP, "a schema in the message is nested too deeply") from error
    except msgspec.ValidationError as error:
        sentence, path = split_validation_error(error)
        at = Position(path=f"$.content{path.removeprefix('$')}")
        raise InputError(ErrorCode.MESSAGES_INVALID_VALUE, sentence, at) from error


Value = TypeVar("Value")


class Memory(Generic[Value]):
    """Values by key, of at most `limit` bytes in total; the caller gives the sizes.

    An entry found in the old generation moves to the new one; when the new one is full, it becomes the old one, and the
    entries of the previous old one are dropped. A list ordered by use would keep about the same entries, but would have
    to be rewritten on each hit.
    """

    __slots__ = ("_lock", "_new", "_new_size", "_old", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = Lock()
        self.clear()

    def clear(self) -> None:
        self._new: dict[Hashable, tuple[Value, int]] = {}
        self._old: dict[Hashable, tuple[Value, int]] = {}
        self._new_size = 0

    def get(self, key: Hashable) -> Value | None:
        found = self._new.get(key)
        if found is None and self._old:
            found = self._old.get(key)
            if found is not None:
                self.put(key, *found)
        return None if found is None else found[0]

    def put(self, key: Hashable, value: Value, size: int) -> None:
        half = self.limit // 2
        if size > half:
            return
        with self._lock:
            if self._new_size + size > half:
                self._old, self._new, self._new_size = self._new, {}, 0
            self._new[key] = value, size
            self._new_size += size

    def __len__(self) -> int:
        return len(self._new.keys() | self._old.keys())


DEFAULT_CACHE_BYTES: Final = 64_000_000
# The size of a cached message: a list slot and an int object for each token, and the dictionary entry.
_BYTES_PER_TOKEN: Final = 36
_BYTES_PER_MESSAGE: Final = 600

# Nearly every header is made of these.
_FORMAT_WORDS: Final = (*(role.value for role in Role), "analysis", "commentary", "final", " to=assistant", " ", "json")

_EVERYTHING: Final = TrainOn()


class Renderer:
    """Renders conversations and caches rendered messages. `harmonia.render` uses a shared renderer."""

    def __init__(self, vocabulary: Vocabulary | None = None, *, cache_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self.vocabulary = vocabulary or default_vocabulary()
        self._memory: Memory[Piece] = Memory(cache_bytes)
        self._format_words: dict[str, list[int]] = {}

    def clear_cache(self) -> None:
        """Empty the cache of rendered messages."""
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
        """The tokens of a conversation, and on demand its text, its spans and its loss mask.

        For completion, the prompt ends with the beginning of the next message: `<|start|>assistant`. With
        `next_role=None` it does not, as in a stored history. A message that was sampled with `<|return|>` ends with
        `<|end|>` in both.

        With `training=True` no next message is begun, and a last answer on `final` ends with `<|return|>`, as the model
        has to write it. `train_on` chooses the messages that `mask` marks.

        `recipient_section` puts ` to=…` after the role, as the reference does, or after the channel, as the models
        mostly sample it. `call_stop="end"` ends calls with `<|end|>`, as one reading of the format has it.
        `exact_reference=True` gives openai-harmony's tokens even where it loses part of a schema or writes a header
        that cannot be read back; sampled tokens are ignored then.

        `harmonia.render` caches rendered messages for the whole process, in at most 64 MB; a `Renderer` has its own
        cache and, if you pass one, its own vocabulary.
        """
        messages = (conversation if isinstance(conversation, Conversation) else Conversation(conversation)).messages
        form = Form(recipient_section, call_stop, exact_reference)
        if form not in KNOWN_FORMS:
            form.refuse()
        # Load the vocabulary here, so that its errors do not point to a message.
        if not self._format_words:
            self._load_format_words()

        has_functions = _declare_functions(messages)
        pieces: list[Piece] = []
        tokens: list[int] = []
        for index, message in enumerate(messages):
            try:
                piece = self._piece(message, form, has_functions=has_functions)
            except InputError as error:
                at = error.at
                path = None if at.path is None else f"$.messages[{index}]{at.path.removeprefix('$')}"
                error.at = msgspec.structs.replace(at, message=index, path=path)
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
        return Rendered(tokens, messages, pieces, train_on or _EVERYTHING, self.vocabulary)

    def message_tokens(self, message: Message, form: Form, *, has_functions: bool) -> list[int]:
        """The tokens of one message, not cached. Values must have their declared types."""
        if not self._format_words:
            self._load_format_words()
        return self._render_message(message, form, has_functions=has_functions).tokens

    def _load_format_words(self) -> None:
        self._format_words = {word: self.vocabulary.encode(word) for word in _FORMAT_WORDS}

    def _piece(self, message: Message, form: Form, *, has_functions: bool) -> Piece:
        if message.sampled is not None and not form.exact_reference:
            return _piece_as_sampled(message, message.sampled, form)
        content, author = message.content, message.author
        said = content if isinstance(content, str) else packed_contents(message)
        key = (said, author.role, author.name, message.channel, message.recipient, message.content_type, form)
        if said is not content:  # only contents that are not text depend on the functions that are declared
            key = (has_functions, key)
        piece = self._memory.get(key)
        if piece is None:
            piece = self._render_new(message, said, form, has_functions=has_functions)
            self._memory.put(key, piece, _BYTES_PER_TOKEN * len(piece.tokens) + len(said) + _BYTES_PER_MESSAGE)
        return piece

    def _render_new(self, message: Message, said: str | bytes, form: Form, *, has_functions: bool) -> Piece:
        try:
            return self._render_message(message, form, has_functions=has_functions)
        except (TypeError, AttributeError):
            if isinstance(said, str):
                raise
            # Contents are not validated when they are made, so a value of the wrong type fails only here. Decoding
            # them finds it and gives its path.
            message = message.replace(content=unpack_contents(said))
            return self._render_message(message, form, has_functions=has_functions)

    def _render_message(self, message: Message, form: Form, *, has_functions: bool) -> Piece:
        role, header, body, stop, losses = segment(message, form, has_functions=has_functions)
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
        # A copy, because a list that grew keeps its spare room for as long as it is cached.
        return Piece(tokens.copy(), role_end, header_end, losses)

    def _encode_word(self, word: str) -> list[int]:
        return self._format_words.get(word) or self.vocabulary.encode(word)


_SHARED: Final = Renderer()
# The function that most programs use, with a cache for the whole process.
render: Final = _SHARED.render


def _next_role(role: Role | str) -> str:
    try:
        return Role(role).value
    except ValueError as error:
        problem = f"next_role is {role!r}, which is not a role; the roles are {', '.join(Role)}"
        raise InputError(ErrorCode.RENDER_INVALID_OPTION, problem) from error


def _declare_functions(messages: tuple[Message, ...]) -> bool:
    for message in messages:
        for content in () if isinstance(message.content, str) else message.contents:
            if isinstance(content, DeveloperContent) and content.has_functions:
                return True
    return False


def _piece_as_sampled(message: Message, sampled: Sampled, form: Form) -> Piece:
    """The sampled tokens, except for the stop token.

    `<|return|>` is a signal to the sampler only; in history it is `<|end|>`. A truncated message has no stop,
    and gets the one it should have had.
    """
    tokens = list(sampled.tokens)
    stop = tokens[-1]
    if stop not in (END, RETURN, CALL):
        tokens.append(stop_token(message, form))
    elif stop == RETURN or (stop == CALL and form.call_stop == "end"):
        tokens[-1] = END
    return Piece(tokens, sampled.role_end, sampled.header_end, stop_was_sampled=tokens[-1] == stop)
