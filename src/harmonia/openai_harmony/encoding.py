"""HarmonyEncoding: rendering, parsing and the vocabulary, through the reference's API."""

from __future__ import annotations

import re
from array import array
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from functools import cached_property, lru_cache
from operator import index
from typing import Final, Literal

from harmonia.errors import StreamError
from harmonia.openai_harmony.models import (
    Conversation,
    HarmonyError,
    Message,
    RenderConversationConfig,
    RenderOptions,
    Role,
    raise_disallowed_special_token,
    refused,
)
from harmonia.openai_harmony.rendering import render_conversation, render_message
from harmonia.openai_harmony.streaming import (
    ROLES,
    STRICT_BY_DEFAULT,
    ParsedMessages,
    make_parser,
    report,
    without_withheld,
)
from harmonia.parser.parser import results_of
from harmonia.parser.reference import ONE_MORE_TOKEN, SPELLING_OF_ONE_MORE
from harmonia.vocabulary import CALL, END, RETURN, SPELLING_BY_ID, START, Vocabulary, default_vocabulary

_SPELLINGS: Final = {**SPELLING_BY_ID, ONE_MORE_TOKEN: SPELLING_OF_ONE_MORE}
_TOKENS: Final = {spelling: token for token, spelling in _SPELLINGS.items()}


class HarmonyEncodingName(str, Enum):  # noqa: UP042 -- the reference's bases
    """The available encodings."""

    HARMONY_GPT_OSS = "HarmonyGptOss"

    def __str__(self) -> str:
        return self.value


def load_harmony_encoding(name: str | HarmonyEncodingName) -> HarmonyEncoding:
    """The encoding of this name. It is part of the package; nothing is downloaded."""
    if str(name) != HarmonyEncodingName.HARMONY_GPT_OSS.value:
        raise ValueError(f"Invalid HarmonyEncodingName: {name}")
    return HarmonyEncoding(default_vocabulary())


class HarmonyEncoding:
    """The Harmony format in the vocabulary of gpt-oss. `load_harmony_encoding` returns one."""

    def __init__(self, inner: Vocabulary) -> None:
        self.vocabulary = inner

    @property
    def name(self) -> str:
        return HarmonyEncodingName.HARMONY_GPT_OSS.value

    @cached_property
    def special_tokens_set(self) -> set[str]:
        return set(_TOKENS)

    # ── rendering ───────────────────────────────────────────────────────────────────────────────────────────────

    def render_conversation_for_completion(
        self, conversation: Conversation, next_turn_role: Role, config: RenderConversationConfig | None = None
    ) -> list[int]:
        """The prompt: the conversation, and the beginning of the next message."""
        tokens = self.render_conversation(conversation, config)
        role = next_turn_role.value
        if role not in ROLES:
            raise ValueError(f"unknown role: {role}")
        return [*tokens, START, *self.vocabulary.encode(role)]

    def render_conversation(
        self, conversation: Conversation, config: RenderConversationConfig | None = None
    ) -> list[int]:
        """The conversation alone."""
        return render_conversation(_messages(conversation), auto_drop_analysis=_drops_analysis(config))

    def render_conversation_for_training(
        self, conversation: Conversation, config: RenderConversationConfig | None = None
    ) -> list[int]:
        """The conversation; a last answer on `final` ends with `<|return|>`."""
        return render_conversation(
            _messages(conversation), auto_drop_analysis=_drops_analysis(config), is_training=True
        )

    def render(self, message: Message, render_options: RenderOptions | None = None) -> list[int]:
        """A single message."""
        has_functions = False if render_options is None else render_options.conversation_has_function_tools
        return render_message(message, has_functions=has_functions)

    # ── parsing ─────────────────────────────────────────────────────────────────────────────────────────────────

    def parse_messages_from_completion_tokens(
        self, tokens: Sequence[int], role: Role | None = None, *, strict: bool = STRICT_BY_DEFAULT
    ) -> ParsedMessages:
        """The messages of a whole completion. With `strict=False` nothing raises; see `ParsedMessages.diagnostics`."""
        parser = make_parser(role, self.vocabulary, strict=strict)
        listed = _as_tokens(tokens, may_be_out_of_range=not strict)
        try:
            events = parser.feed(listed)
            events += parser.close()
        except StreamError as error:
            raise refused(error) from error
        messages, diagnostics = results_of(events)
        for diagnostic in diagnostics:
            report(diagnostic)
        shown = without_withheld(events) if strict and diagnostics else messages
        return ParsedMessages(shown, messages, diagnostics, role)

    # ── the vocabulary ──────────────────────────────────────────────────────────────────────────────────────────

    def encode(
        self,
        text: str,
        *,
        allowed_special: Literal["all"] | AbstractSet[str] = frozenset(),
        disallowed_special: Literal["all"] | Collection[str] = "all",
    ) -> list[int]:
        """The tokens of a text. Spellings in `allowed_special` become special tokens; those in `disallowed_special` are
        refused; all others are ordinary text."""
        allowed = self.special_tokens_set if allowed_special == "all" else allowed_special
        disallowed = self.special_tokens_set - set(allowed) if disallowed_special == "all" else disallowed_special
        if disallowed:
            found = _any_of(frozenset(disallowed)).search(text)
            if found is not None:
                raise_disallowed_special_token(found.group())
        try:
            text.encode()
        except UnicodeEncodeError:
            # Halves of surrogate pairs are joined, or replaced.
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        known = frozenset(allowed).intersection(_TOKENS)
        if not known:
            return self.vocabulary.encode(text)
        tokens: list[int] = []
        for piece in _any_of(known).split(text):
            if piece in known:
                tokens.append(_TOKENS[piece])
            elif piece:
                tokens += self.vocabulary.encode(piece)
        return tokens

    def decode_utf8(self, tokens: Sequence[int]) -> str:
        """The text of tokens that together are valid UTF-8; otherwise a HarmonyError."""
        try:
            data = self._decode_bytes(tokens)
        except HarmonyError as error:
            raise HarmonyError(f"Could not decode tokens: Invalid token error: {error}") from None
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            is_cut_off = error.end == len(data) and error.reason == "unexpected end of data"
            invalid = f"invalid utf-8 sequence of {error.end - error.start} bytes"
            what = "incomplete utf-8 byte sequence" if is_cut_off else invalid
            raise HarmonyError(
                f"Could not decode tokens: Invalid utf-8 sequence: {what} from index {error.start}"
            ) from None

    def decode(self, tokens: Sequence[int], errors: str = "replace") -> str:
        """The text of tokens; `errors` is that of `bytes.decode`."""
        return self._decode_bytes(tokens).decode("utf-8", errors)

    def _decode_bytes(self, tokens: Sequence[int]) -> bytes:
        table = self.vocabulary.token_bytes
        listed = _as_tokens(tokens)
        try:
            return b"".join(map(table.__getitem__, listed))
        except IndexError:
            pieces: list[bytes] = []
            for token in listed:
                if token >= len(table) and token not in _SPELLINGS:
                    raise HarmonyError(f"Invalid token for decoding: {token}") from None
                pieces.append(table[token] if token < len(table) else _SPELLINGS[token].encode())
            return b"".join(pieces)

    def is_special_token(self, token: int) -> bool:
        """Whether a token is special, including reserved ones."""
        return _as_tokens([token], name="token")[0] in _SPELLINGS

    def stop_tokens(self) -> list[int]:
        """The tokens that end a message."""
        return [RETURN, CALL, END]

    def stop_tokens_for_assistant_actions(self) -> list[int]:
        """The tokens that end the assistant's turn; use them as stop tokens of the sampler."""
        return [RETURN, CALL]


def _messages(conversation: Conversation) -> list[Message]:
    """The messages; a subclass of Conversation is read from its own JSON."""
    if type(conversation) is Conversation:
        return conversation.messages
    return Conversation.from_json(conversation.to_json()).messages


def _drops_analysis(config: RenderConversationConfig | None) -> bool:
    return True if config is None else config.auto_drop_analysis


@lru_cache(maxsize=64)
def _any_of(spellings: frozenset[str]) -> re.Pattern[str]:
    return re.compile(f"({'|'.join(map(re.escape, spellings))})")


def _as_tokens(tokens: Sequence[int], *, may_be_out_of_range: bool = False, name: str = "tokens") -> list[int]:
    listed = list(tokens)
    try:
        return array("I", listed).tolist()  # the fastest check of type and range
    except TypeError:
        found = next(type(token).__name__ for token in listed if not hasattr(token, "__index__"))
        raise TypeError(f"argument {name!r}: {found!r} object cannot be interpreted as an integer") from None
    except OverflowError:
        if not may_be_out_of_range:
            raise OverflowError("out of range integral type conversion attempted") from None
        return [index(token) for token in listed]
