"""Conversations to tokens: `render`.

1. Special tokens come from structure (or from a parser, in `Message.sampled`), never from text.
2. A message that was rendered before is not rendered again: rendering a conversation that grew by one message costs
   that message. The cache compares contents, so an edited message or a changed schema is noticed.
3. The cache is bounded by the renderer's `cache_bytes`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.messages import Conversation, DeveloperContent, Message, Role
from harmonia.provenance import Sampled
from harmonia.renderer.cache import Memory, packed_contents, unpack_contents
from harmonia.renderer.contents import declares_functions
from harmonia.renderer.result import Piece, Rendered
from harmonia.renderer.segments import KNOWN_FORMS, CallStop, Form, RecipientSection, segment, stop_token
from harmonia.renderer.training_mask import TrainOn
from harmonia.vocabulary import CALL, END, RETURN, START, Vocabulary, default_vocabulary

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
                error.at = _inside_message(error.at, index)
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

# The functions that most programs use, with a cache for the whole process.
render: Final = _SHARED.render
clear_cache: Final = _SHARED.clear_cache


def _next_role(role: Role | str) -> str:
    try:
        return Role(role).value
    except ValueError as error:
        raise InputError(
            ErrorCode.RENDER_INVALID_OPTION,
            f"next_role is {role!r}, which is not a role; the roles are {', '.join(Role)}",
        ) from error


def _declare_functions(messages: tuple[Message, ...]) -> bool:
    for message in messages:
        if isinstance(message.content, str):
            continue
        for content in message.contents:
            if isinstance(content, DeveloperContent) and declares_functions(content):
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


def _inside_message(at: Position, index: int) -> Position:
    path = None if at.path is None else f"$.messages[{index}]{at.path.removeprefix('$')}"
    return msgspec.structs.replace(at, message=index, path=path)
