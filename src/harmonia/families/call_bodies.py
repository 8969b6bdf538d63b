"""Readers for the text between the marks of a call: JSON, and the tags of Qwen3-Coder.

A body is fed text and returns pieces, whose widths follow each other:

    Named Arguments* (Ended Named Arguments*)*       one call, or several in a row
    Unread                                           text that should be a call but cannot be read: all of the rest
    Plain                                            text that only looked like a call: all of it belongs to the answer

Text that no piece covers at the end belongs to the end of the last call, with the closing mark. The pieces depend only
on the text so far, so chunking is invisible.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, cast

import msgspec

from harmonia.errors import ErrorCode
from harmonia.families.registry import ReadingOptions
from harmonia.json_codec import read_json
from harmonia.messages import ToolDescription
from harmonia.parser.headers import Tools


class Named(msgspec.Struct, frozen=True):
    """The beginning of a call: `width` characters up to its arguments."""

    width: int
    name: str
    faults: tuple[ErrorCode, ...] = ()


class Arguments(msgspec.Struct, frozen=True):
    """More of a call's arguments; `text` is the source text, or the JSON that it means."""

    width: int
    text: str


class Ended(msgspec.Struct, frozen=True):
    """The end of a call that another one follows."""

    width: int


class Unread(msgspec.Struct, frozen=True):
    """Text that should be a call but cannot be read. It is kept but not shown."""

    text: str


class Plain(msgspec.Struct, frozen=True):
    """Text that only looked like the beginning of a call."""

    text: str


class Flawed(msgspec.Struct, frozen=True):
    """A fault of the current call."""

    code: ErrorCode


Piece = Named | Arguments | Ended | Unread | Plain | Flawed


class Body(Protocol):
    """Reads one body."""

    @property
    def is_quoting(self) -> bool:
        """Whether the next character is inside a quoted string, where a closing mark does not count."""
        ...

    def feed(self, text: str) -> tuple[int, Sequence[Piece]]:
        """How many characters belong to the body (fewer than given if it ends by itself), and its pieces."""
        ...

    def close(self) -> Sequence[Piece]:
        """The remaining pieces, when the closing mark was found or the stream is over.

        A body that has not named a call decides here what it is: a call, `Unread` or `Plain`.
        """
        ...


class ReadCall(msgspec.Struct, frozen=True):
    """A call found in a text. It begins at `start`; its arguments reach from `arguments_start` to `arguments_end`.

    `arguments` is the text there, or the JSON that it means.
    """

    name: str
    arguments: str
    start: int
    arguments_start: int
    arguments_end: int
    faults: tuple[ErrorCode, ...] = ()


# Finds the calls in a whole body: none if they cannot be read, None if it only looked like a call.
ReadCalls = Callable[[str], Sequence[ReadCall] | None]


def pieces_of(text: str, calls: Sequence[ReadCall]) -> list[Piece]:
    """The pieces of a body that was read as a whole."""
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
    """A body that is read when it is complete; with `ends_itself`, where its first bracket is closed.

    `has_strings` says whether quotation marks delimit strings; an expression matches the beginning of a body in which
    they do. `read_cut` reads what was to end itself and did not.
    """

    def __init__(
        self,
        read: ReadCalls,
        *,
        is_python: bool = False,
        ends_itself: bool = False,
        has_strings: bool | re.Pattern[str] = True,
        read_cut: ReadCalls | None = None,
    ) -> None:
        self._read = read
        self._read_cut = read_cut or read
        self._has_strings = has_strings
        self._ends_itself = ends_itself
        self._is_over = False
        self._scan = Scan(is_python=is_python)
        self._held: list[str] = []
        self._beginning = ""

    @property
    def is_quoting(self) -> bool:
        strings = self._has_strings
        return self._scan.is_quoting and (
            strings if isinstance(strings, bool) else strings.match(self._beginning) is not None
        )

    def feed(self, text: str) -> tuple[int, Sequence[Piece]]:
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
        calls = (self._read if self._is_over else self._read_cut)(text)
        return [Plain(text)] if calls is None else pieces_of(text, calls)


class ChosenBody:
    """Chooses the actual body by the first character that is not white space."""

    def __init__(self, choose: Callable[[str], Body]) -> None:
        self._choose = choose
        self._blank: list[str] = []
        self._body: Body | None = None

    @property
    def is_quoting(self) -> bool:
        return self._body is not None and self._body.is_quoting

    def feed(self, text: str) -> tuple[int, Sequence[Piece]]:
        if self._body is not None:
            return self._body.feed(text)
        first = text.lstrip()[:1]
        if not first:
            self._blank.append(text)
            return len(text), ()
        self._body = self._choose(first)
        blank = "".join(self._blank)
        taken, pieces = self._body.feed(blank + text)
        return taken - len(blank), pieces

    def close(self) -> Sequence[Piece]:
        return [Unread("".join(self._blank))] if self._body is None else self._body.close()


def faults_of(name: str, tools: Tools) -> tuple[ErrorCode, ...]:
    """The faults of a call with this name that has no mark."""
    return (ErrorCode.FAMILY_UNKNOWN_TOOL,) if tools.is_known and not tools.declares(name) else ()


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_STRUCTURE: Final = re.compile(r'["{}\[\]]')
_IN_STRING: Final = re.compile(r'["\\\n]')
_PYTHON_STRUCTURE: Final = re.compile(r"""["'()\[\]{}]""")
_IN_PYTHON_STRING: Final = re.compile(r"""["'\\\n]""")


class Scan:
    """Tracks the brackets and strings of JSON or Python incrementally, even if the text is broken."""

    __slots__ = ("_has_line_break", "_in_string", "_is_escaped", "_is_python", "_quote", "_structure", "depth")

    def __init__(self, *, is_python: bool = False) -> None:
        self.depth = 0
        self._quote = ""
        self._is_escaped = False
        self._has_line_break = False
        self._is_python = is_python
        self._structure = _PYTHON_STRUCTURE if is_python else _STRUCTURE
        self._in_string = _IN_PYTHON_STRING if is_python else _IN_STRING

    @property
    def is_quoting(self) -> bool:
        """Whether this is inside a string. Strings have no line breaks: after one, a quotation mark is missing."""
        return self._quote != "" and not self._has_line_break

    def advance(self, text: str, at: int, until_depth: int) -> int | None:
        """Continue from `at`. Returns the position after the bracket that closes to this depth, or None."""
        while at < len(text):
            if self._is_escaped:
                self._is_escaped = False
                at += 1
                continue
            found = (self._in_string if self._quote else self._structure).search(text, at)
            if found is None:
                return None
            at, character = found.end(), found.group()
            if character == "\\":
                self._is_escaped = True
            elif character == self._quote or (character == "\n" and self._is_python):
                self._quote, self._has_line_break = "", False
            elif character == "\n":
                self._has_line_break = True
            elif self._quote:
                pass  # the other quotation mark
            elif character in "\"'":
                self._quote = character
            elif character in "([{":
                self.depth += 1
            else:
                self.depth = max(self.depth - 1, 0)
                if self.depth <= until_depth:
                    return at
        return None


# The beginning of a call in JSON: its name, then the arguments, an object.
_HEAD: Final = re.compile(
    r'(?P<before>[\s\[,;]*+(?:```\w*+\s*+)?+[\s\[]*+)\{\s*+"(?:name|tool_name)"\s*+:\s*+"(?P<name>[^"\\]++)"\s*+,\s*+"(?:arguments|parameters|args)"\s*+:\s*+\{'
)
# A longer head is read when the body is complete.
_HEAD_CHARS: Final = 400
# Anything but what may separate two calls or follow the last: the end of a list, a code fence.
_BETWEEN: Final = re.compile(r"[^\s\]},;`]")


class JsonCalls:
    """One or several calls as JSON objects with a name and arguments, which are passed on as they arrive.

    With `named_head`, it is one call whose name stands before the object of its arguments. A body that does not begin
    like such a call is read by `read` when it is complete. Text after a complete call is not part of the body.
    """

    def __init__(self, read: ReadCalls | None = None, named_head: re.Pattern[str] | None = None) -> None:
        self._read = read or read_json_calls
        self._head = named_head or _HEAD
        self._outer_depth = 0 if named_head else 1
        self._scan = Scan()
        self._state = self._read_head
        self._held: list[str] = []
        self._held_chars = 0
        self._pieces: list[Piece] = []

    @property
    def is_quoting(self) -> bool:
        return self._scan.is_quoting

    def feed(self, text: str) -> tuple[int, Sequence[Piece]]:
        self._pieces = []
        at = 0
        while at < len(text):
            end = self._state(text, at)
            if end is None:
                break
            at = end
        return at, self._pieces

    def close(self) -> Sequence[Piece]:
        if self._state == self._read_tail:
            return [Flawed(ErrorCode.FAMILY_BROKEN_CALL)]  # its last brace is missing
        if self._state != self._read_head and self._state != self._read_rest:
            return ()
        text = "".join(self._held)
        return pieces_of(text, self._read(text) or ())

    def _hold(self, text: str) -> None:
        self._held.append(text)
        self._held_chars += len(text)

    def _settle(self) -> int:
        """Release what is held; returns its length."""
        width, self._held, self._held_chars = self._held_chars, [], 0
        return width

    # Each state reads text from a position and returns where the next state continues; None ends the body there.

    def _read_head(self, text: str, at: int) -> int | None:
        brace = text.find("{", at)
        end = len(text) if brace < 0 else brace
        self._hold(text[at:end])
        if self._held_chars > _HEAD_CHARS:
            self._state = self._read_rest
        elif brace >= 0 and (head := self._head.fullmatch("".join(self._held) + "{")) is not None:
            self._pieces.append(Named(self._settle(), head["name"]))
            self._scan.depth = self._outer_depth
            self._state = self._read_arguments
        elif brace >= 0:
            self._hold("{")
            end += 1
        if self._outer_depth:
            self._scan.advance(text[at:end], 0, -1)
        return end

    def _read_arguments(self, text: str, at: int) -> int | None:
        end = self._scan.advance(text, at, self._outer_depth)
        if end is not None:
            self._state = self._read_tail if self._outer_depth else self._read_nothing
        else:
            end = len(text)
        self._pieces.append(Arguments(end - at, text[at:end]))
        return end

    def _read_tail(self, text: str, at: int) -> int | None:
        end = self._scan.advance(text, at, 0)
        if end is not None:
            self._state = self._read_between
        else:
            end = len(text)
        self._hold(text[at:end])
        return end

    def _read_between(self, text: str, at: int) -> int | None:
        found = _BETWEEN.search(text, at)
        end = len(text) if found is None else found.start()
        self._hold(text[at:end])
        if found is None:
            return end
        if found.group() != "{":
            self._state = self._read_nothing
            return end
        self._pieces.append(Ended(self._settle()))
        self._state = self._read_head
        return end

    def _read_nothing(self, text: str, at: int) -> int | None:
        return None

    def _read_rest(self, text: str, at: int) -> int | None:
        self._scan.advance(text[at:], 0, -1)
        self._hold(text[at:])
        return len(text)


_DECODER: Final = json.JSONDecoder()
_HALF: Final = re.compile("[\ud800-\udfff]")
CALL_NAMES: Final = ("name", "function_name", "tool", "tool_name", "function")
CALL_ARGUMENTS: Final = ("arguments", "parameters", "args")
CALL_WRAPPERS: Final = ("function", "functionCall", "function_call")
_NOT_JSON: Final = re.compile(r"[^{\[]+")
_SOME_NAME: Final = re.compile(r"""["'](?:name|tool_name)["']\s*:\s*["'](?P<name>[\w.:/-]+)["']""")
_SOME_ARGUMENTS: Final = re.compile(r"""["'](?:arguments|parameters|args)["']\s*:\s*""")


def read_json_calls(text: str) -> list[ReadCall]:
    """The calls in JSON text: objects with a name and arguments, also in lists, in code fences, or several in a row. A
    broken call keeps its arguments as written if it has a name."""
    calls: list[ReadCall] = []
    at = 0
    while at < len(text):
        other = _NOT_JSON.match(text, at)
        at = at if other is None else other.end()
        if at == len(text):
            break
        try:
            value, end = _DECODER.raw_decode(text, at)
            items = cast("list[Any]", value) if isinstance(value, list) else [value]
            found = [call for item in items if (call := call_in(item)) is not None]
        except (ValueError, RecursionError):
            return [*calls, *_broken_call(text, at)]
        # Several calls in one value have no spans of their own: the first one gets all of it.
        calls += (
            ReadCall(name, arguments, at if index == 0 else end, at if index == 0 else end, end)
            for index, (name, arguments) in enumerate(found)
        )
        at = end
    return calls


def call_in(value: Any, *, needs_arguments: bool = False) -> tuple[str, str] | None:
    """The name and the arguments of a call in a JSON value; None if there is none."""
    if not isinstance(value, dict):
        return None
    item = inner_call(cast("dict[str, Any]", value))
    name = next((item[key] for key in CALL_NAMES if item.get(key)), None)
    given = [item[key] for key in CALL_ARGUMENTS if key in item]
    if not isinstance(name, str) or (needs_arguments and not given):
        return None
    return whole_characters(name), arguments_text(given[0] if given else None)


def inner_call(item: dict[str, Any]) -> dict[str, Any]:
    """The object with the name, which may be wrapped in another one."""
    return next((item[wrapper] for wrapper in CALL_WRAPPERS if isinstance(item.get(wrapper), dict)), item)


def arguments_text(value: Any) -> str:
    """Arguments as JSON text. A string is taken as JSON text already, and None means no arguments."""
    if isinstance(value, str):
        return whole_characters(value)
    return "{}" if value is None else whole_characters(json.dumps(value, ensure_ascii=False))


def whole_characters(text: str) -> str:
    """The text without lone surrogates, which JSON can spell (`\\ud800`) but text cannot contain."""
    return _HALF.sub("\ufffd", text)


def _broken_call(text: str, at: int) -> list[ReadCall]:
    """The call in broken JSON. Its arguments are the value after their name, or all that follows."""
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


# How a call begins whose arguments are JSON.
WITH_JSON: Final = re.compile(r"\s*<function=[^<>\n]*>\s*\{")
_FUNCTION: Final = re.compile(r"<function=(?P<name>[^<>\n]*)>")
_FUNCTION_END: Final = re.compile(r"</function>|(?=<function=)")
_PARAMETER: Final = re.compile(r"<parameter=(?P<name>[^<>\n]*)>")
_PARAMETER_END: Final = re.compile(r"</parameter>|(?=<parameter=)")
_NOT_BLANK: Final = re.compile(r"\S")


def read_xml_calls(text: str, tools: Iterable[ToolDescription] = ()) -> list[ReadCall]:
    """The calls in a text, with the types that the tools' schemas give their parameters."""
    properties = {tool.name: properties_of(tool) for tool in tools}
    calls: list[ReadCall] = []
    at = 0
    while (opening := _FUNCTION.search(text, at)) is not None:
        start = opening.end()
        closing = _FUNCTION_END.search(text, _behind_json(text, start))
        end = len(text) if closing is None else closing.start()
        faults = () if closing is None or closing.group() else (ErrorCode.FAMILY_UNCLOSED,)
        name = opening["name"].strip().strip("\"'")
        if name:
            arguments = _arguments_in(text[start:end], properties.get(name, {}))
            calls.append(ReadCall(name, arguments, opening.start(), start, end, faults))
        at = end
    return calls


def _behind_json(text: str, at: int) -> int:
    """The place after the JSON that stands here; this one where there is none, or where it is broken."""
    first = _NOT_BLANK.search(text, at)
    if first is None or first.group() != "{":
        return at
    try:
        return _DECODER.raw_decode(text, first.start())[1]
    except (ValueError, RecursionError):
        return at


def _arguments_in(text: str, properties: Mapping[str, Any]) -> str:
    stripped = text.strip()
    if _PARAMETER.search(text) is None:
        return stripped or "{}"
    values: dict[str, Any] = {}
    at = 0
    while (opening := _PARAMETER.search(text, at)) is not None:
        closing = _PARAMETER_END.search(text, opening.end())
        at = len(text) if closing is None else closing.start()
        name = opening["name"].strip()
        # The template puts one line break before a value and one after it.
        written = text[opening.end() : at].removeprefix("\n").removesuffix("\n")
        values[name] = typed_value(written, properties.get(name))
    return whole_characters(json.dumps(values, ensure_ascii=False))


def typed_value(text: str, schema: Any) -> Any:
    """A value that is written without quotation marks: JSON if it reads as such, unless the schema wants a text."""
    kinds = _types_of(schema)
    if kinds == {"string"}:
        return text
    try:
        value = read_json(text)
    except ValueError:
        word = text.strip().lower()
        return {"true": True, "false": False}.get(word, text) if "boolean" in kinds else text
    return text if "string" in kinds and isinstance(value, str) else value


def _types_of(schema: Any) -> set[str]:
    if not isinstance(schema, Mapping):
        return set()
    found = cast("Mapping[str, Any]", schema)
    kinds = found.get("type")
    if isinstance(kinds, str):
        return {kinds}
    if isinstance(kinds, list):
        return {kind for kind in cast("list[Any]", kinds) if isinstance(kind, str)}
    values = found.get("enum")
    is_text = isinstance(values, list) and all(isinstance(value, str) for value in cast("list[Any]", values))
    return {"string"} if is_text else set()


def properties_of(tool: ToolDescription) -> dict[str, Any]:
    """The parameters of a tool, by name, in the order in which they were declared."""
    parameters = tool.parameters if isinstance(tool.parameters, dict) else {}
    properties = parameters.get("properties")
    return cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}


def tagged_body(options: ReadingOptions, _mark: str = "") -> Body:
    """A body of such calls. Quotation marks have no meaning in it, unless it holds Llama's JSON."""

    def read(text: str) -> list[ReadCall]:
        return read_xml_calls(text, options.descriptions) or read_json_calls(text)

    return HeldBody(read, has_strings=WITH_JSON)
