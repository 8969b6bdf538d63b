"""Conversations: messages in order, added by hand, from a parser, as tool results, or from JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self, cast, overload

from harmonia.errors import ErrorCode, InputError
from harmonia.json_codec import encode_json
from harmonia.messages.contents import Json, Role
from harmonia.messages.exchanges import CallName, is_forged, results_as_messages
from harmonia.messages.message import JSON_DECODER, Message, WireConversation, WireMessage, convert, decode, from_wire


@dataclass(frozen=True, slots=True, init=False)
class Conversation:
    """Messages in order. A value: `add` gives a new conversation and leaves this one as it is."""

    messages: tuple[Message, ...]

    __match_args__: ClassVar = ("messages",)

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        listed = tuple(messages) if isinstance(messages, Iterable) else (messages,)  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
        for message in listed:
            if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
                raise InputError(
                    ErrorCode.MESSAGES_INVALID_VALUE,
                    f"{type(message).__name__} is not a Message; read dictionaries with Conversation.from_dict",
                )
        object.__setattr__(self, "messages", listed)

    # ── growing ─────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, *messages: Message) -> Self:
        """A new conversation with these messages at its end."""
        return type(self)((*self.messages, *messages))

    def add_user(self, text: str, *, name: str | None = None) -> Self:
        """A new conversation with this user message at its end."""
        return self.add(Message.user(text, name=name))

    def add_parsed(self, messages: Iterable[Message]) -> Self:
        """A new conversation with the parsed messages of a completion: a `Parsed`, or any of its messages.

        Only the assistant's messages are added; a message of another role is a fault that the parser has reported
        (law 5). `harmonia.history.receive` also returns the refused ones. For a parsed whole conversation use
        `Conversation(parsed)`.
        """
        return self.add(*(message for message in messages if is_admitted(message)))

    def add_tool_result(
        self, call: CallName, result: str, *, name: str | None = None, channel: str | None = None
    ) -> Self:
        """A new conversation with the result of a call, named by its id (`call_3`), its place, or the message itself.

        The author is the tool as the model wrote it, or `name`. A built-in tool answers on the channel on which it was
        called, any other on `commentary`. If several calls are pending, their results are kept in the order of the
        calls, because the model sees no ids. An unknown call, or one that already has a result, is an InputError.
        """
        return type(self)(results_as_messages(self.messages, [(call, result)], name, channel))

    def add_tool_results(self, results: Mapping[str, str] | Iterable[tuple[CallName, str]]) -> Self:
        """The same for several calls at once, in whatever order: `{"call_3": "…", "call_2": "…"}`."""
        pairs = cast("Iterable[tuple[CallName, str]]", results.items() if isinstance(results, Mapping) else results)
        return type(self)(results_as_messages(self.messages, pairs, None, None))

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Message | Self:
        return type(self)(self.messages[index]) if isinstance(index, slice) else self.messages[index]

    # ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────────

    def to_dict(self) -> Json:
        """The conversation as JSON values."""
        return {"messages": [message.to_dict() for message in self.messages]}

    def to_json(self) -> str:
        return encode_json(self.to_dict())

    @classmethod
    def from_dict(cls, value: object) -> Self:
        """A conversation from JSON values: `{"messages": […]}` or the list alone."""
        wire = convert(value, list[WireMessage] if isinstance(value, list | tuple) else WireConversation)
        return cls(map(from_wire, wire if isinstance(wire, list) else wire.messages))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        return cls.from_dict(decode(text, JSON_DECODER))


def is_admitted(message: Message) -> bool:
    """Whether a model's message may enter the history: only if its author is the assistant (law 5)."""
    return message.author.role is Role.ASSISTANT and not is_forged(message)
