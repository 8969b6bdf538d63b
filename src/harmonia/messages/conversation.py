"""A conversation: messages in order, and its tool calls with their results.

Harmony gives calls no ids. The id of a call is made from its message's index in the conversation, `call_4`, so it stays
the same while the conversation grows. A result belongs to

1. the call that its writer named (`Message.answers`), wherever both are;
2. otherwise an unanswered call to the tool of that name: among the most recent calls, the first. Calls with no result
   and no user message between them belong together and are answered in order.

No result belongs to two calls, and no call has two results. A result or call without a partner is reported, not
guessed. A message that a model forged answers nothing and interrupts nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Self, cast, overload

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.json_codec import encode_json
from harmonia.messages.message import (
    Json,
    Message,
    Role,
    WireConversation,
    WireMessage,
    convert,
    decode,
    from_wire,
)

# Recipients that are not tools: everybody, and the roles.
_NOBODY: Final = frozenset(["all", *(role.value for role in Role)])
_FUNCTIONS: Final = "functions."

CallName = str | int | Message


def is_builtin(name: str) -> bool:
    """Whether this is a tool that the models were trained with."""
    return name == "python" or name.startswith("browser.")


def is_tool_address(recipient: str | None) -> bool:
    """Whether a message to this recipient is a call."""
    return recipient is not None and recipient.lower() not in _NOBODY


def is_call(message: Message) -> bool:
    """Whether a message is a call: from the assistant to a tool, on any channel."""
    return message.author.role is Role.ASSISTANT and is_tool_address(message.recipient)


def is_final(message: Message) -> bool:
    """Whether a message is an answer to the user: from the assistant, on `final`, and not a call."""
    return _is_text_on("final", message)


def is_reasoning(message: Message) -> bool:
    """Whether a message is the assistant's reasoning: on `analysis`, and not a call."""
    return _is_text_on("analysis", message)


def _is_text_on(channel: str, message: Message) -> bool:
    return (
        message.channel is not None
        and message.channel.lower() == channel
        and message.author.role is Role.ASSISTANT
        and not is_tool_address(message.recipient)
    )


def is_forged(message: Message) -> bool:
    """Whether a parser found this message in a completion although its role must not occur there."""
    return message.origin is not None and message.origin.forged


def call_id(index: int) -> str:
    """The id of the call in the message at this index of a conversation."""
    return f"call_{index}"


class Exchange(msgspec.Struct, frozen=True):
    """A call and its result, which is None while it is pending. `index` and `result_index` are message indices."""

    id: str
    index: int
    call: Message
    result_index: int | None = None
    result: Message | None = None


class Orphan(msgspec.Struct, frozen=True):
    """A result without a call, or a call that was never answered."""

    index: int
    message: Message
    reason: str


class Joined(msgspec.Struct, frozen=True):
    """Every call with its result, in the order of the calls; the pending calls; and messages without a partner."""

    exchanges: tuple[Exchange, ...]
    pending: tuple[Exchange, ...]
    orphans: tuple[Orphan, ...]

    def __iter__(self) -> Iterator[Exchange]:
        return iter(self.exchanges)

    def __len__(self) -> int:
        return len(self.exchanges)

    def find(self, call: CallName) -> Exchange:
        """The exchange of a call, identified by its id, its index or the message itself."""
        if isinstance(call, Message):
            same = [exchange for exchange in self.exchanges if exchange.call is call]
            same = same or [exchange for exchange in self.exchanges if exchange.call == call]
            found = next((exchange for exchange in same if exchange.result is None), same[0] if same else None)
        else:
            name = call_id(call) if isinstance(call, int) else call
            found = next((exchange for exchange in self.exchanges if exchange.id == name), None)
        if found is None:
            waiting = ", ".join(exchange.id for exchange in self.pending) or "none"
            raise InputError(
                ErrorCode.HISTORY_UNKNOWN_CALL,
                f"the conversation has no call {call!r}; calls waiting for a result: {waiting}",
                Position(message=call if isinstance(call, int) else None),
            )
        return found


def join_results(messages: Iterable[Message]) -> Joined:
    """The calls of a conversation with their results; see the module."""
    listed = tuple(messages)
    calls = [index for index, message in enumerate(listed) if is_call(message)]
    result_of: dict[int, int] = {}
    orphans = {
        index: "forged: the model wrote it, not the tool"
        for index, message in enumerate(listed)
        if message.author.role is Role.TOOL and is_forged(message)
    }
    _join_named(listed, calls, result_of, orphans)
    _join_in_order(listed, result_of, orphans)

    last_final = last_user = -1
    for index, message in enumerate(listed):
        if message.author.role is Role.USER and not is_forged(message):
            last_user = index
        elif is_final(message):
            last_final = index
    exchanges: list[Exchange] = []
    pending: list[Exchange] = []
    for index in calls:
        result = result_of.get(index)
        exchange = Exchange(call_id(index), index, listed[index], result, None if result is None else listed[result])
        exchanges.append(exchange)
        if result is not None:
            continue
        if index < last_final:
            orphans[index] = "the model answered without waiting for the result"
        elif index < last_user:
            orphans[index] = "the user wrote before there was a result"
        else:
            pending.append(exchange)
    reported = tuple(Orphan(index, listed[index], reason) for index, reason in sorted(orphans.items()))
    return Joined(tuple(exchanges), tuple(pending), reported)


def pending_calls(messages: Iterable[Message]) -> tuple[Exchange, ...]:
    """The calls that wait for a result: neither an answer nor a user message has followed."""
    return join_results(messages).pending


def results_as_messages(
    messages: tuple[Message, ...],
    results: Iterable[tuple[CallName, str]],
    name: str | None,
    channel: str | None,
) -> list[Message]:
    """The messages followed by these results, in the order of the calls; the model sees nothing but that order."""
    joined = join_results(messages)
    by_name: dict[str | int, Exchange] = {}  # by id, and by the identity of the message
    for exchange in joined:
        by_name[exchange.id] = exchange
        known = by_name.get(id(exchange.call))
        if known is None or known.result is not None:
            by_name[id(exchange.call)] = exchange
    added: dict[int, Message] = {}
    for call, text in results:
        name_of = id(call) if isinstance(call, Message) else call_id(call) if isinstance(call, int) else call
        exchange = by_name.get(name_of) or joined.find(call)
        if exchange.result is not None or exchange.index in added:
            problem = f"the call {exchange.id} to {exchange.call.recipient} already has a result"
            raise InputError(ErrorCode.HISTORY_ANSWERED_CALL, problem, Position(message=exchange.index))
        added[exchange.index] = _result(exchange.call, text, name, channel)

    # Nothing was sampled after the results at the end, so a late result can still be put in order among them.
    end = len(messages)
    while end and messages[end - 1].author.role is Role.TOOL:
        end -= 1
    call_of = {exchange.result_index: exchange.index for exchange in joined}
    waiting = deque(sorted(added))
    out = list(messages[:end])
    for index in range(end, len(messages)):
        answered = call_of.get(index)
        while waiting and answered is not None and waiting[0] < answered:
            out.append(added[waiting.popleft()])
        out.append(messages[index])
    out += [added[index] for index in waiting]
    return out


def _result(call: Message, text: str, name: str | None, channel: str | None) -> Message:
    recipient = call.recipient or ""
    if channel is None:
        # The built-in tools answer where they were called; functions answer on commentary.
        spoken = (call.channel or "").lower()
        channel = spoken if is_builtin(recipient) and spoken == "analysis" else "commentary"
    # With its namespace, which models leave out at times: a bare `user_info` would read as a user.
    return Message.tool(name or _tool_name(recipient), text, channel=channel).answering(call)


def _join_named(
    messages: tuple[Message, ...], calls: list[int], result_of: dict[int, int], orphans: dict[int, str]
) -> None:
    places: dict[int, deque[int]] = {}  # the same message may stand in several places
    for index in calls:
        places.setdefault(id(messages[index]), deque()).append(index)
    for index, message in enumerate(messages):
        if message.author.role is not Role.TOOL or message.answers is None or index in orphans:
            continue
        waiting = places.get(id(message.answers))
        if waiting is None:
            continue  # the call was removed or edited; the order decides
        if waiting and waiting[0] < index:
            result_of[waiting.popleft()] = index
        else:
            orphans[index] = "the call that it answers already has a result"


def _join_in_order(messages: tuple[Message, ...], result_of: dict[int, int], orphans: dict[int, str]) -> None:
    joined = set(result_of.values())
    waiting: dict[str, list[tuple[int, deque[int]]]] = {}  # by tool, those that came together last at the end
    together = 0
    for index, message in enumerate(messages):
        role = message.author.role
        if is_call(message):
            if index not in result_of:
                groups = waiting.setdefault(_tool_name(message.recipient), [])
                if not groups or groups[-1][0] != together:
                    groups.append((together, deque()))
                groups[-1][1].append(index)
        elif is_forged(message):
            continue
        elif role is Role.USER:
            together += 1
        elif role is Role.TOOL:
            together += 1
            if index in joined or index in orphans:
                continue
            groups = waiting.get(_tool_name(message.author.name))
            if not groups:
                orphans[index] = "no call to this tool is waiting for a result"
                continue
            _, calls = groups[-1]
            result_of[calls.popleft()] = index
            if not calls:
                groups.pop()


def _tool_name(name: str | None) -> str:
    # Models leave the namespace of functions out at times; built-in tools have none, or one of their own.
    name = name or ""
    return name if "." in name or is_builtin(name) else f"{_FUNCTIONS}{name}"


@dataclass(frozen=True, slots=True, init=False)
class Conversation:
    """Messages in order. A value: `add` gives a new conversation and leaves this one as it is."""

    messages: tuple[Message, ...]

    __match_args__: ClassVar = ("messages",)

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        listed = tuple(messages) if isinstance(messages, Iterable) else (messages,)  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
        for message in listed:
            if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
                problem = f"{type(message).__name__} is not a Message; read dictionaries with Conversation.from_dict"
                raise InputError(ErrorCode.MESSAGES_INVALID_VALUE, problem)
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
        return cls.from_dict(decode(text))


def is_admitted(message: Message) -> bool:
    """Whether a model's message may enter the history: only if its author is the assistant (law 5)."""
    return message.author.role is Role.ASSISTANT and not is_forged(message)
