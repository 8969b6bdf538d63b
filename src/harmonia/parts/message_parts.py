"""Messages as calls, as text for the user, and as the parts of a user interface, whole or while the model still writes.

A message to a tool is a call:

1. The recipient decides, not the channel: an assistant message addressed to a tool is a call.
2. `text` is what the model wrote, verbatim; parsed values are separate fields.
3. A call is executable (law 5) only if it was read from token ids, complete and without repairs, and, if tools were
   declared, calls one of them. Broken JSON is repaired on request only, and a call with repaired arguments is a guess.

A user may see only text that is known to be for the user (law 7): the assistant's text on `final`, and preambles, which
are text on `commentary` without a recipient or a content type that did not end with `<|call|>`. The rule is in
parser/headers.py. A header is read before the text, so `is_visible_header` cannot know how the message will end. If
only its final `<|call|>` shows that a preamble was a call without a recipient, the text was already streamed;
`is_visible` is false for the message. An operator may also show guesses: text under a guessed header, and text without
a channel, which counts as `final`. Calls are never shown that way.

    analysis, unknown and missing channels, guessed headers    Think, which is hidden or collapsed
    a call, on any channel                                     ToolCall
    final, commentary without a recipient (a preamble)         Text

Parts without text are omitted, and text is trimmed for display; the messages stay verbatim. Messages of other roles and
forged messages give no parts.

`PartStream` turns events into updates: `PartStarted PartDelta* PartEnded` for each part.

1. The parts of all PartEnded updates equal `parts_of(messages)` for any chunking. One exception: text beyond the
   parser's limit `body_chars` is cut from the message but still sent as deltas.
2. The deltas of a part, joined, are its text; for a call they are `raw`, verbatim.
3. White space at the start of a text is dropped, and at its end it is held back until more text follows, so nothing
   shown has to be withdrawn. Text of only white space starts no part; a call always does.
4. A part that began as text ends as a thought if only its end shows that it is one: a closing mark in other families,
   or the `<|call|>` of a call without a recipient.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, Literal, assert_never

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.events import (
    ArgumentsDelta,
    Event,
    Header,
    HeaderCompleted,
    MessageEnded,
    MessageStarted,
    Repaired,
    Skipped,
    TextDelta,
    TurnEnded,
)
from harmonia.json_codec import read_json
from harmonia.messages import Author, Message, Role, call_id, is_forged, is_tool_address
from harmonia.parser import headers
from harmonia.parser.headers import DeclaredTool, ToolKind, Tools, as_tools, is_json_type
from harmonia.provenance import Trust

# hidden  text with a guessed channel, or without a channel, is not shown
# shown   it is shown if it may be the answer
Guessed = Literal["hidden", "shown"]

_ANSWER: Final = "final"
# This text is in the place of a call, so it is not an answer.
_NEVER_SHOWN: Final = frozenset((ErrorCode.FAMILY_UNREADABLE_CALL, ErrorCode.BODY_CALL_WITHOUT_RECIPIENT))


def is_visible(message: Message, *, show_guessed: bool = False) -> bool:
    """Whether a user may see the text of a message; with `show_guessed`, also if its header is a guess. A message
    without an origin was written by a person or a program, so its header is certain."""
    origin = message.origin
    header = message.author, message.channel, message.recipient, message.content_type
    if origin is None:
        return headers.is_visible(*header, Trust.CERTAIN)
    trust = Trust.GUESSED if origin.source == "stripped" or origin.forged else origin.trust
    if headers.is_visible(*header, trust, origin.stop):
        return True
    is_call = origin.stop == "call" or not _NEVER_SHOWN.isdisjoint(origin.faults)
    may_show = (show_guessed or origin.shown) and not (is_call or origin.forged)
    return may_show and _may_be_answer(*header)


def is_visible_header(header: Header, *, show_guessed: bool = False) -> bool:
    """The same from the header alone, for streaming."""
    if header.is_forged or not show_guessed:
        return header.is_visible and not header.is_forged
    return _may_be_answer(header.author, header.channel, header.recipient, header.content_type)


def _may_be_answer(author: Author, channel: str | None, recipient: str | None, content_type: str | None) -> bool:
    """Whether guessed text may be the answer. With a content type and no channel, it may as well be a call."""
    if channel is None and content_type is not None:
        return False
    return headers.is_visible(author, channel or _ANSWER, recipient, content_type, Trust.CERTAIN)


class GuessedAsFinal:
    """Shows the guesses of one parser: feed it every event, in order, and use the events it returns.

    A guess that may be the answer becomes visible in its header and its message, and text without a channel is put on
    `final`. Everything else, including calls, stays unchanged.
    """

    def __init__(self) -> None:
        self._header: Header | None = None  # the header of the events, and the one shown instead
        self._shown: Header | None = None
        self._is_no_answer = False  # a fault of the next message says so
        self._shows_something = False

    def feed(self, events: Iterable[Event]) -> list[Event]:
        """The same events, with the guesses shown."""
        return [self._show(event) for event in events]

    def _show(self, event: Event) -> Event:
        match event:
            case HeaderCompleted() | TextDelta() | ArgumentsDelta():
                header = self._show_header(event.header)
                return event if header is event.header else _replace(event, header=header)
            case Repaired():
                self._is_no_answer |= event.diagnostic.code in _NEVER_SHOWN
                return event
            case MessageEnded():
                self._is_no_answer = False
                message = shown_message(event.message)
                self._shows_something |= is_visible(message) and not message.text.isspace() and bool(message.text)
                return event if message is event.message else _replace(event, message=message)
            case TurnEnded():
                shows, self._shows_something = self._shows_something, False
                return _replace(event, hidden_because=None) if shows else event
            case _:
                return event

    def _show_header(self, header: Header) -> Header:
        if header is not self._header:
            self._header = self._shown = header
            may_show = not (header.is_visible or self._is_no_answer)
            if may_show and is_visible_header(header, show_guessed=True):
                self._shown = _replace(header, channel=header.channel or _ANSWER, is_visible=True)
        assert self._shown is not None
        return self._shown


def shown_message(message: Message) -> Message:
    """The message; if it is a guess that may be the answer, a copy that is shown."""
    origin = message.origin
    if origin is None or is_visible(message) or not is_visible(message, show_guessed=True):
        return message
    sampled = None if message.channel is None else message.sampled  # with a channel, it is no longer what was sampled
    return message.with_origin(_replace(origin, shown=True), sampled, channel=message.channel or _ANSWER)


def _replace(struct: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(struct, **changes)


def is_call_without_recipient(message: Message) -> bool:
    """Whether a message is a call that does not name its tool, so that it is neither run nor shown."""
    stop = None if message.origin is None else message.origin.stop
    return headers.lacks_recipient(message.author, message.channel, message.recipient, message.content_type, stop)


def visible_text(messages: Iterable[Message], *, show_guessed: bool = False) -> str:
    """The texts that a user may see, verbatim, separated by empty lines."""
    visible = (message.text for message in messages if is_visible(message, show_guessed=show_guessed))
    return "\n\n".join(text for text in visible if text.strip())


# certain     read from token ids up to its stop token, without repairs; or reported as a call by a provider that
#             parses the tokens itself
# unverified  read from text, where an echo of typed text looks the same; or without a stop token, where the call may
#             be truncated; or written by a person or a program
# guessed     everything else: repaired, guessed, stripped, forged
CallStatus = Literal["certain", "unverified", "guessed"]

_FUNCTIONS: Final = "functions."
_MCP: Final = "mcp__"


class Call(msgspec.Struct, frozen=True):
    """A tool call. `server` is the namespace or the MCP server of the tool, None for one of `functions`.

    `value` is the JSON value of the arguments; if they are not JSON, it is None or the repaired value. `is_executable`
    says whether the call may run without approval: its status is certain, its arguments match its content type, and, if
    tools were declared, it calls one of them.
    """

    recipient: str
    kind: ToolKind
    server: str | None
    name: str
    text: str
    value: Any
    is_json: bool
    is_repaired: bool
    status: CallStatus
    is_executable: bool


def call_of(
    message: Message, tools: Tools | Iterable[DeclaredTool] | None = None, *, repair_json: bool = False
) -> Call | None:
    """A message as a call, or None. With `repair_json`, broken JSON is repaired, which needs the extra `repair`."""
    recipient = message.recipient
    if message.role is not Role.ASSISTANT or recipient is None or not is_tool_address(recipient):
        return None
    text = message.text
    status = _status_of(message)
    value, is_json, is_repaired = None, True, False
    try:
        value = read_json(text)
    except ValueError:
        is_json = False
        # Arguments of another content type, such as code, are not broken JSON.
        if repair_json and (message.content_type is None or is_json_type(message.content_type)):
            value = _repair(text)
            is_repaired = value is not None
    known = as_tools(tools)
    kind = known.kind_of(recipient)
    is_sound = is_json or not is_json_type(message.content_type)
    server, name = split_name(recipient)
    return Call(
        recipient,
        kind,
        server,
        name,
        text,
        value,
        is_json,
        is_repaired,
        "guessed" if is_repaired else status,
        status == "certain" and not is_repaired and is_sound and (kind == "declared" or not known.is_known),
    )


def split_name(recipient: str) -> tuple[str | None, str]:
    """The server and the tool in a recipient.

    functions.x -> x      python -> python      browser.search -> browser, search
    mcp__server__tool and server___tool, also after `functions.` -> server, tool
    """
    name = recipient.removeprefix(_FUNCTIONS) or recipient
    if name.startswith(_MCP):
        server, parted, tool = name.removeprefix(_MCP).partition("__")
    else:
        server, parted, tool = name.partition("___")
    if not (server and parted and tool) and not recipient.startswith(_FUNCTIONS):
        server, parted, tool = name.partition(".")
    return (server, tool) if server and parted and tool else (None, name)


def _status_of(message: Message) -> CallStatus:
    origin = message.origin
    if origin is None:
        return "unverified"
    if origin.forged or origin.trust is not Trust.CERTAIN or origin.source == "stripped":
        return "guessed"
    return "certain" if origin.source in ("tokens", "items") and origin.stop is not None else "unverified"


def _repair(text: str) -> Any:
    """The probable value of broken JSON: an object or an array, or None if it cannot be repaired."""
    try:
        import json_repair
    except ImportError as error:
        problem = "repairing JSON needs json-repair; install it with: pip install 'harmonia[repair]'"
        raise InputError(ErrorCode.PARSE_MISSING_EXTRA, problem) from error
    try:
        value = json_repair.loads(text)
        json.dumps(value, allow_nan=False)  # json_repair accepts NaN, which is not JSON
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


class Think(msgspec.Struct, frozen=True, tag_field="type", tag="think"):
    """Text that is not for the user, or not known to be."""

    text: str


class ToolCall(msgspec.Struct, frozen=True, tag_field="type", tag="tool_call"):
    """A tool call. `raw` is what the model wrote, `arguments` its JSON value, or `{"_raw": text}` if it is not JSON.
    `id` is made from the message's index, so the same messages always give the same ids."""

    server: str | None
    name: str
    id: str
    arguments: Any
    raw: str
    recipient: str
    kind: ToolKind
    status: CallStatus
    is_json: bool
    is_executable: bool


class Text(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """Text for the user."""

    text: str


Part = Think | ToolCall | Text
PartKind = Literal["think", "tool_call", "text"]


def parts_of(
    messages: Iterable[Message],
    tools: Tools | Iterable[DeclaredTool] | None = None,
    *,
    show_guessed: bool = False,
) -> list[Part]:
    """The parts of messages, or of a `Parsed`. With `show_guessed`, text under a guessed header is shown."""
    known = as_tools(tools)
    parts: list[Part] = []
    for index, message in enumerate(messages):
        if message.role is not Role.ASSISTANT or is_forged(message):
            continue  # it is not part of the assistant's answer
        is_call = is_tool_address(message.recipient)
        is_shown = is_visible(message, show_guessed=show_guessed)
        if is_call or message.text.strip():
            parts.append(part_of(message, index, "tool_call" if is_call else "text" if is_shown else "think", known))
    return parts


def part_of(message: Message, index: int, kind: PartKind, tools: Tools) -> Part:
    """The message at this index as a part of this kind."""
    if kind != "tool_call":
        text = message.text.strip()
        return Text(text) if kind == "text" else Think(text)
    call = call_of(message, tools)
    assert call is not None, "only a call is of the kind tool_call"
    arguments = call.value if call.is_json else {"_raw": call.text.strip()}
    return ToolCall(
        call.server,
        call.name,
        call_id(index),
        arguments,
        call.text,
        call.recipient,
        call.kind,
        call.status,
        call.is_json,
        call.is_executable,
    )


def kind_of_header(header: Header) -> PartKind | None:
    """The kind of part, known from the header alone; None if it is not part of the assistant's answer."""
    if header.role is not Role.ASSISTANT or header.is_forged:
        return None
    return "tool_call" if header.is_call else "text" if is_visible_header(header) else "think"


class PartStarted(msgspec.Struct, frozen=True, tag_field="type", tag="part_started"):
    """A part begins. `index` counts parts; `server`, `name` and `id` are those of a call."""

    index: int
    kind: PartKind
    server: str | None = None
    name: str | None = None
    id: str | None = None


class PartDelta(msgspec.Struct, frozen=True, tag_field="type", tag="part_delta"):
    """More text of a part: of a call, more of its arguments."""

    index: int
    text: str


class PartEnded(msgspec.Struct, frozen=True, tag_field="type", tag="part_ended"):
    """A part is complete."""

    index: int
    part: Part


PartUpdate = PartStarted | PartDelta | PartEnded


class PartStream:
    """Follows one parser. Feed it every event, in order."""

    def __init__(self, tools: Tools | Iterable[DeclaredTool] | None = None, *, show_guessed: bool = False) -> None:
        self._tools = as_tools(tools)
        self._guesses = GuessedAsFinal() if show_guessed else None
        self._index = 0
        self._kind: PartKind | None = None  # of the message that is being read
        self._is_started = False
        self._held: list[str] = []  # white space at the end of the text so far
        self._updates: list[PartUpdate] = []

    def feed(self, events: Iterable[Event]) -> list[PartUpdate]:
        """The updates for these events."""
        self._updates = []
        for event in events if self._guesses is None else self._guesses.feed(events):
            match event:
                case TextDelta() | ArgumentsDelta():
                    self._add_text(event.text)
                case HeaderCompleted():
                    self._start_message(event.index, event.header)
                case MessageEnded():
                    self._end_message(event.index, event.message)
                case MessageStarted() | Skipped() | Repaired() | TurnEnded():
                    pass
                case _:
                    assert_never(event)
        return self._updates

    def _start_message(self, index: int, header: Header) -> None:
        # A header is reported twice if a content type is at the beginning of the body; the recipient stays the same.
        if self._kind is not None:
            return
        self._kind = kind_of_header(header)
        if self._kind == "tool_call":
            server, name = split_name(header.recipient or "")
            self._updates.append(PartStarted(self._index, "tool_call", server, name, call_id(index)))
            self._is_started = True

    def _add_text(self, text: str) -> None:
        if self._kind is None or not text:
            return
        if self._kind == "tool_call":
            self._updates.append(PartDelta(self._index, text))
            return
        if not self._is_started:
            text = text.lstrip()
            if not text:
                return
            self._updates.append(PartStarted(self._index, self._kind))
            self._is_started = True
        shown = text.rstrip()
        if shown:
            self._updates.append(PartDelta(self._index, "".join([*self._held, shown])))
            self._held = []
        if len(shown) < len(text):
            self._held.append(text[len(shown) :])

    def _end_message(self, index: int, message: Message) -> None:
        if self._is_started and self._kind is not None:
            kind = "think" if self._kind == "text" and not is_visible(message) else self._kind
            self._updates.append(PartEnded(self._index, part_of(message, index, kind, self._tools)))
            self._index += 1
        self._kind = None
        self._is_started = False
        self._held = []
