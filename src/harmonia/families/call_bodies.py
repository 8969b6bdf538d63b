"""What stands between the marks of a call, read as it comes.

A body is given text and says what it makes of it in pieces, whose widths lie behind each other:

    Named Arguments* (Ended Named Arguments*)*       one call, or several behind each other
    Unread                                           no call, though it stands where one should: all of the rest
    Plain                                            no call, and nobody said it was: all of it is text of the answer

What no piece covers at the end belongs to the end of the last call, with the closing mark. What a body has said behind
a piece of text depends on all the text up to there and on nothing else, so chunking is invisible.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast

import msgspec

from harmonia.errors import ErrorCode
from harmonia.parser.tools import Tools


class Named(msgspec.Struct, frozen=True):
    """A call begins: `width` characters up to its arguments."""

    width: int
    name: str
    faults: tuple[ErrorCode, ...] = ()


class Arguments(msgspec.Struct, frozen=True):
    """More of its arguments; `text` is what stands there, or the JSON that it means."""

    width: int
    text: str


class Ended(msgspec.Struct, frozen=True):
    """The call is over, and another follows."""

    width: int


class Unread(msgspec.Struct, frozen=True):
    """Text that should be a call and is none. It is kept and not shown."""

    text: str


class Plain(msgspec.Struct, frozen=True):
    """Text that only looked as if it would become a call."""

    text: str


class Flawed(msgspec.Struct, frozen=True):
    """Something is wrong with the call that is being told."""

    code: ErrorCode


Piece = Named | Arguments | Ended | Unread | Plain | Flawed


class Body(Protocol):
    """Reads one body."""

    @property
    def is_quoting(self) -> bool:
        """Whether what comes next stands inside quotation marks, where a closing mark closes nothing."""
        ...

    def take(self, text: str) -> tuple[int, Sequence[Piece]]:
        """How many characters are part of the body (fewer than there are, where it ends by itself), and its pieces."""
        ...

    def close(self) -> Sequence[Piece]:
        """The closing mark was found, or the stream is over: what is to be said of the rest.

        A body that named no call before says here what it is: a call, `Unread` or `Plain`.
        """
        ...


class ReadCall(msgspec.Struct, frozen=True):
    """A call that was found in a text, from `start` on; its arguments stand from `arguments_start` to `arguments_end`.

    `arguments` is the text that stands there, or the JSON that it means.
    """

    name: str
    arguments: str
    start: int
    arguments_start: int
    arguments_end: int
    faults: tuple[ErrorCode, ...] = ()


# The calls in a whole body; empty where there is none.
ReadCalls = Callable[[str], Sequence[ReadCall]]


def pieces_of(text: str, calls: Sequence[ReadCall]) -> list[Piece]:
    """A body that was read whole, as pieces."""
    if not calls:
        return [Unread(text)]
    pieces: list[Piece] = []
    at = 0
    for index, call in enumerate(calls):
        if index:
            pieces.append(Ended(call.start - at))
            at = call.start
        pieces.append(Named(call.arguments_start - at, call.name, call.faults))
        pieces.append(Arguments(call.arguments_end - call.arguments_start, call.arguments))
        at = call.arguments_end
    return pieces


class HeldBody:
    """A body that is read when it is complete. With `ends_itself`, that is where its JSON value is.

    Without a call in it, it is `Unread`, or with `may_be_text` part of the answer. Where it is no JSON, its quotation
    marks mean nothing: it has no strings. An expression says how a body begins that has some.
    """

    def __init__(
        self,
        read: ReadCalls,
        *,
        ends_itself: bool = False,
        may_be_text: bool = False,
        has_strings: bool | re.Pattern[str] = True,
    ) -> None:
        self._read = read
        self._has_strings = has_strings
        self._ends_itself = ends_itself
        self._may_be_text = may_be_text
        self._is_over = False
        self._scan = JsonScan()
        self._held: list[str] = []
        self._beginning = ""

    @property
    def is_quoting(self) -> bool:
        if not self._scan.is_quoting:
            return False
        strings = self._has_strings
        return strings if isinstance(strings, bool) else strings.match(self._beginning) is not None

    def take(self, text: str) -> tuple[int, Sequence[Piece]]:
        if self._is_over:
            return 0, ()
        end = self._scan.advance(text, 0, 0 if self._ends_itself else -1)
        self._is_over = end is not None
        taken = len(text) if end is None else end
        self._held.append(text[:taken])
        if len(self._beginning) < _HEAD_CHARS:
            self._beginning = (self._beginning + text[:taken])[:_HEAD_CHARS]
        return taken, ()

    def close(self) -> Sequence[Piece]:
        text = "".join(self._held)
        calls = self._read(text)
        return [Plain(text)] if self._may_be_text and not calls else pieces_of(text, calls)


class ChosenBody:
    """Waits for a character that is no white space; `choose` makes the body of it that reads all."""

    def __init__(self, choose: Callable[[str], Body]) -> None:
        self._choose = choose
        self._blank: list[str] = []
        self._body: Body | None = None

    @property
    def is_quoting(self) -> bool:
        return self._body is not None and self._body.is_quoting

    def take(self, text: str) -> tuple[int, Sequence[Piece]]:
        if self._body is not None:
            return self._body.take(text)
        first = text.lstrip()[:1]
        if not first:
            self._blank.append(text)
            return len(text), ()
        self._body = self._choose(first)
        blank = "".join(self._blank)
        taken, pieces = self._body.take(blank + text)
        return taken - len(blank), pieces

    def close(self) -> Sequence[Piece]:
        return [Unread("".join(self._blank))] if self._body is None else self._body.close()


def faults_of(name: str, tools: Tools) -> tuple[ErrorCode, ...]:
    """What is wrong with a call by this name that no mark announced."""
    return (ErrorCode.FAMILY_UNKNOWN_TOOL,) if tools.is_known and not tools.declares(name) else ()


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_STRUCTURE: Final = re.compile(r'["{}\[\]]')
_IN_STRING: Final = re.compile(r'["\\\n]')


class JsonScan:
    """Follows the brackets and the strings of JSON, also of broken JSON, as it comes."""

    __slots__ = ("_has_line_break", "_is_escaped", "_is_in_string", "depth")

    def __init__(self) -> None:
        self.depth = 0
        self._is_in_string = False
        self._is_escaped = False
        self._has_line_break = False

    @property
    def is_quoting(self) -> bool:
        """Whether this is the inside of a string. JSON breaks no line there: behind one, a quote was forgotten."""
        return self._is_in_string and not self._has_line_break

    def advance(self, text: str, at: int, until_depth: int) -> int | None:
        """Go on from here. The place behind the bracket that brings the depth down to this, None where none does."""
        while at < len(text):
            if self._is_escaped:
                self._is_escaped = False
                at += 1
                continue
            found = (_IN_STRING if self._is_in_string else _STRUCTURE).search(text, at)
            if found is None:
                return None
            at = found.end()
            match found.group():
                case '"':
                    self._is_in_string = not self._is_in_string
                    self._has_line_break = False
                case "\\":
                    self._is_escaped = True
                case "\n":
                    self._has_line_break = True
                case "{" | "[":
                    self.depth += 1
                case _:
                    self.depth = max(self.depth - 1, 0)
                    if self.depth <= until_depth:
                        return at
        return None


# How a call in JSON begins: its name first, and behind it the arguments, an object.
_HEAD: Final = re.compile(
    r'(?P<before>[\s\[,;]*+(?:```\w*+\s*+)?+[\s\[]*+)\{\s*+"(?:name|tool_name)"\s*+:\s*+"(?P<name>[^"\\]++)"\s*+,\s*+"(?:arguments|parameters|args)"\s*+:\s*+\{'
)
# As far as this a head is looked for. One that is longer is read when the body is complete.
_HEAD_CHARS: Final = 400
# What may stand between two calls, or behind the last: the end of a list, a code fence.
_BETWEEN: Final = re.compile(r"[^\s\]},;`]")


class JsonCalls:
    """Calls as JSON objects with a name and arguments, one or several. Their arguments are told as they come.

    What does not begin like such a call is read by `read` when it is complete. Text behind a complete call is no part
    of the body: the closing mark was forgotten.
    """

    def __init__(self, read: ReadCalls | None = None) -> None:
        self._read = read or read_json_calls
        self._scan = JsonScan()
        self._state = self._take_head
        self._held: list[str] = []
        self._held_chars = 0
        self._pieces: list[Piece] = []

    @property
    def is_quoting(self) -> bool:
        return self._scan.is_quoting

    def take(self, text: str) -> tuple[int, Sequence[Piece]]:
        self._pieces = []
        at = 0
        while at < len(text):
            end = self._state(text, at)
            if end is None:
                break
            at = end
        return at, self._pieces

    def close(self) -> Sequence[Piece]:
        if self._state == self._take_tail:
            return [Flawed(ErrorCode.FAMILY_BROKEN_CALL)]  # its last brace is missing
        if self._state != self._take_head and self._state != self._take_rest:
            return ()
        text = "".join(self._held)
        return pieces_of(text, self._read(text))

    def _hold(self, text: str) -> None:
        self._held.append(text)
        self._held_chars += len(text)

    def _settle(self) -> int:
        """Nothing is held any more; how much it was."""
        width, self._held, self._held_chars = self._held_chars, [], 0
        return width

    # Each state takes text from a place on, and gives the place where the next one goes on; None ends the body there.

    def _take_head(self, text: str, at: int) -> int | None:
        brace = text.find("{", at)
        end = len(text) if brace < 0 else brace + 1
        self._scan.advance(text[at:end], 0, -1)
        self._hold(text[at:end])
        if self._held_chars > _HEAD_CHARS:
            self._state = self._take_rest
        elif brace >= 0 and (head := _HEAD.fullmatch("".join(self._held))) is not None:
            self._pieces.append(Named(self._settle() - 1, head["name"]))
            self._pieces.append(Arguments(1, "{"))
            self._scan.depth = 2
            self._state = self._take_arguments
        return end

    def _take_arguments(self, text: str, at: int) -> int | None:
        end = self._scan.advance(text, at, 1)
        if end is not None:
            self._state = self._take_tail
        else:
            end = len(text)
        self._pieces.append(Arguments(end - at, text[at:end]))
        return end

    def _take_tail(self, text: str, at: int) -> int | None:
        end = self._scan.advance(text, at, 0)
        if end is not None:
            self._state = self._take_between
        else:
            end = len(text)
        self._hold(text[at:end])
        return end

    def _take_between(self, text: str, at: int) -> int | None:
        found = _BETWEEN.search(text, at)
        end = len(text) if found is None else found.start()
        self._hold(text[at:end])
        if found is None:
            return end
        if found.group() != "{":
            return self._end_at(end)
        self._pieces.append(Ended(self._settle()))
        self._state = self._take_head
        return end

    def _end_at(self, end: int) -> int | None:
        self._state = self._take_nothing
        return end

    def _take_nothing(self, text: str, at: int) -> int | None:
        return None

    def _take_rest(self, text: str, at: int) -> int | None:
        self._scan.advance(text[at:], 0, -1)
        self._hold(text[at:])
        return len(text)


_DECODER: Final = json.JSONDecoder()
_HALF: Final = re.compile("[\ud800-\udfff]")
_NAME_KEYS: Final = ("name", "tool_name")
_ARGUMENT_KEYS: Final = ("arguments", "parameters", "args")
_NOT_JSON: Final = re.compile(r"[^{\[]+")
_SOME_NAME: Final = re.compile(r"""["'](?:name|tool_name)["']\s*:\s*["'](?P<name>[\w.:/-]+)["']""")
_SOME_ARGUMENTS: Final = re.compile(r"""["'](?:arguments|parameters|args)["']\s*:\s*""")


def read_json_calls(text: str) -> list[ReadCall]:
    """The calls in a text of JSON values: objects with a name and arguments, also in lists, in code fences, several
    behind each other. A broken one keeps its arguments as they are written, if a name can be found in it."""
    calls: list[ReadCall] = []
    at = 0
    while at < len(text):
        other = _NOT_JSON.match(text, at)
        at = at if other is None else other.end()
        if at == len(text):
            break
        try:
            value, end = _DECODER.raw_decode(text, at)
            found = [call for item in _listed(value) if (call := _call_in(item)) is not None]
        except (ValueError, RecursionError):
            return [*calls, *_broken_call(text, at)]
        # Several calls in one value have no place of their own: the first one has all of it.
        calls += (
            ReadCall(name, arguments, at if index == 0 else end, at if index == 0 else end, end)
            for index, (name, arguments) in enumerate(found)
        )
        at = end
    return calls


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _call_in(value: Any) -> tuple[str, str] | None:
    """The name and the arguments of a call that was read as JSON."""
    if not isinstance(value, dict):
        return None
    item = cast("dict[str, Any]", value)
    if isinstance(item.get("function"), dict):
        item = cast("dict[str, Any]", item["function"])
    name = next((item[key] for key in _NAME_KEYS if item.get(key)), item.get("function"))
    if not isinstance(name, str) or not name:
        return None
    return whole_characters(name), arguments_text(next((item[key] for key in _ARGUMENT_KEYS if key in item), None))


def arguments_text(value: Any) -> str:
    """Arguments as JSON text: those that are written as a string of JSON are that JSON, and none are no arguments."""
    if isinstance(value, str):
        return whole_characters(value)
    return "{}" if value is None else whole_characters(json.dumps(value, ensure_ascii=False))


def whole_characters(text: str) -> str:
    """A text that JSON spelled: `\\ud800` is half of a surrogate pair, and no text can have one."""
    return _HALF.sub("\ufffd", text)


def _broken_call(text: str, at: int) -> list[ReadCall]:
    """The call in broken JSON. Its arguments are the value that begins behind their name, or all that follows."""
    name = _SOME_NAME.search(text, at)
    if name is None:
        return []
    label = _SOME_ARGUMENTS.search(text, name.end()) or _SOME_ARGUMENTS.search(text, at)
    start = at if label is None else label.end()
    try:
        _, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        end = max(len(text.rstrip().removesuffix("```").rstrip()), start)
    return [ReadCall(name["name"], text[start:end], at, start, end, (ErrorCode.FAMILY_BROKEN_CALL,))]
