"""Calls as JSON that no mark announces: a Llama that calls writes an object, and nothing else.

    {"name": "get_weather", "parameters": {"city": "Paris"}}; {"name": "get_time", "parameters": {}}
    {"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "get_time", "arguments": "{}"}}]}
    [{"name": "get_time", "arguments": {}}]

An answer may be JSON that is no call. So only an object at the beginning of a line whose first member may be a call's
is waited for, and it is text again if it turns out to be none: a call has a name and arguments, and where the tools are
known, the name is one of theirs. One that has another name and nothing but what a call has is reported, and read as a
call: nobody would understand it as an answer. All else that a model says in JSON is told as it comes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, cast

from harmonia.errors import ErrorCode
from harmonia.families.call_bodies import (
    Arguments,
    Ended,
    JsonScan,
    Named,
    Piece,
    Plain,
    Unread,
    arguments_text,
    pieces_of,
    read_json_calls,
)
from harmonia.families.family import ReadingOptions
from harmonia.families.marks import Mark
from harmonia.families.passages import Passage
from harmonia.parser.arguments import json_fault, read_json
from harmonia.parser.tools import UNDECLARED, Tools

_FIRST_MEMBERS: Final = (
    "name", "type", "id", "index", "function", "function_name", "tool_calls", "tool", "parameters", "arguments",
    "functionCall", "function_call",
)  # fmt: skip
_NAMES: Final = ("name", "function_name", "tool", "tool_name", "function")
_ARGUMENTS: Final = ("arguments", "parameters", "args")
_WRAPPERS: Final = ("function", "functionCall", "function_call")
_ONLY_OF_CALLS: Final = frozenset([*_NAMES, *_ARGUMENTS, *_WRAPPERS, "type", "id", "index"])
_NAME: Final = re.compile(r"[A-Za-z_][\w.:/-]{0,120}")
_BLANKS: Final = r"\s{0,16}"
# What may stand between two calls, and behind the last: Llama's semicolon, the end of a code fence.
_BETWEEN: Final = re.compile(r"[^\s;,`]")
_BEFORE: Final = re.compile(r"[\s;,]*(?:```[a-z_]{0,16}\s*)?")


def bare_passages() -> list[Passage]:
    """An object that may be a call, a list of such objects, and either of them in a code fence."""
    fence = ("`", "`", "`", "[a-z_]{0,16}", r"\s", _BLANKS)
    return [
        Passage(
            "call",
            Mark((*before, *opening, r"\{", _BLANKS, '"', *map(re.escape, member), '"'), "line"),
            body=_body,
            keeps_mark=True,
            may_stay_open=True,
            may_be_text=True,
        )
        for before in ((), fence)
        for opening in ((), (r"\[", _BLANKS))
        for member in _FIRST_MEMBERS
    ]


def _body(options: ReadingOptions, mark: str) -> BareCalls:
    return BareCalls(options.tools)


class BareCalls:
    """Reads values of JSON behind each other while they are calls. The first that is none was text all along."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._scan = JsonScan()
        self._held: list[str] = []
        self._has_begun = False  # the bracket of the value that is being read was found
        self._has_called = False
        self._is_over = False

    @property
    def is_quoting(self) -> bool:
        return self._scan.is_quoting

    def take(self, text: str) -> tuple[int, Sequence[Piece]]:
        pieces: list[Piece] = []
        at = 0
        while at < len(text) and not self._is_over:
            if not self._has_begun and self._has_called:
                found = _BETWEEN.search(text, at)
                stop = len(text) if found is None else found.start()
                self._held.append(text[at:stop])
                at = stop
                if found is None:
                    break
                if found.group() not in "{[":
                    self._is_over = True
                    break
            self._has_begun = True
            end = self._scan.advance(text, at, 0)
            stop = len(text) if end is None else end
            self._held.append(text[at:stop])
            at = stop
            if end is not None:
                pieces += self._read()
        return at, pieces

    def close(self) -> Sequence[Piece]:
        text = "".join(self._held)
        if self._has_called:
            return [Ended(0), Unread(text)] if self._has_begun else ()
        # What is no JSON is half a call or a broken one, where it names a tool that there is; an answer otherwise.
        broken = read_json_calls(text) if self._tools.is_known and not _is_json(text) else []
        is_call = bool(broken) and all(self._tools.declares(call.name) for call in broken)
        return pieces_of(text, broken) if is_call else [Plain(text)]

    def _read(self) -> list[Piece]:
        text = "".join(self._held)
        calls = calls_in(text, self._tools) or calls_in(text, UNDECLARED, only_calls=True)
        self._has_begun = False
        if not calls:
            self._is_over = True
            if not self._has_called:
                return []
            # Behind a call it is nothing that could be shown.
            self._held = []
            return [Ended(0), Unread(text)]
        self._held = []
        pieces: list[Piece] = [Ended(0)] if self._has_called else []
        self._has_called = True
        for index, (name, arguments) in enumerate(calls):
            # Several in one value have no place of their own: the first one has all of it.
            width = 0 if index else len(text)
            pieces += (
                *([Ended(0)] if index else []),
                Named(0, name, faults_of(name, self._tools)),
                Arguments(width, arguments),
            )
        return pieces


def faults_of(name: str, tools: Tools) -> tuple[ErrorCode, ...]:
    """What is wrong with a call by this name that no mark announced."""
    return (ErrorCode.FAMILY_UNKNOWN_TOOL,) if tools.is_known and not tools.declares(name) else ()


def calls_in(text: str, tools: Tools, *, only_calls: bool = False) -> list[tuple[str, str]]:
    """The calls that a JSON value consists of, as name and arguments; none where any part of it is something else. With
    `only_calls`, none either where it has members that no call has, or a name that no tool has."""
    before = _BEFORE.match(text)
    assert before is not None  # it fits nothing, too
    try:
        value: Any = read_json(text[before.end() :].rstrip("` \t\r\n"))
    except ValueError:
        return []
    items = _listed(value)
    calls = [call for item in items if (call := call_in(item)) is not None]
    is_all = bool(calls) and len(calls) == len(items)
    if only_calls and not (is_all and all(map(_is_only_call, items))):
        return []
    known = all(tools.declares(name) for name, _ in calls) or not tools.is_known
    return calls if is_all and known else []


def _is_json(text: str) -> bool:
    return json_fault(text) is None


def _listed(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = cast("dict[str, Any]", value).get("tool_calls", cast("Any", [value]))
    return cast("list[Any]", value) if isinstance(value, list) else []


def _is_only_call(item: dict[str, Any]) -> bool:
    inner = next((item[wrapper] for wrapper in _WRAPPERS if isinstance(item.get(wrapper), dict)), item)
    name = next((inner[key] for key in _NAMES if key in inner), None)
    given = next((inner[key] for key in _ARGUMENTS if key in inner), None)
    is_named = isinstance(name, str) and _NAME.fullmatch(name) is not None
    return is_named and isinstance(given, dict | str) and {*item, *inner} <= _ONLY_OF_CALLS


def call_in(value: Any) -> tuple[str, str] | None:
    """The name and the arguments of one call; None where either is missing."""
    if not isinstance(value, dict):
        return None
    item = cast("dict[str, Any]", value)
    for wrapper in _WRAPPERS:
        if isinstance(item.get(wrapper), dict):
            item = cast("dict[str, Any]", item[wrapper])
            break
    name: Any = next((item[key] for key in _NAMES if key in item), None)
    if not isinstance(name, str) or not name or not any(key in item for key in _ARGUMENTS):
        return None
    return name, arguments_text(next(item[key] for key in _ARGUMENTS if key in item))
