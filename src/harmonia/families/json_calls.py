"""Calls as JSON in text: the tool format `openai`.

    {"tool_calls": [{"id": "call_1", "type": "function",           the JSON of OpenAI's API, which an application asks
      "function": {"name": "get_weather", "arguments": "{}"}}]}    for in words
    {"name": "get_weather", "parameters": {"city": "Paris"}}; {"name": "get_time", "parameters": {}}
    [{"name": "get_time", "arguments": {}}]
    [THINK] … [/THINK]  <think> … </think>                         thoughts of Magistral, and of earlier models

The format reads the calls of Llama (llama.py) and Mistral (mistral.py) too, whichever model wrote them.

No mark announces such JSON, and an answer may be JSON that is not a call. So only an object at the beginning of a line
is held back, and only if its first member may belong to a call. It becomes text again if it turns out not to be a call:
a call has a name and arguments, and if the tools are known, the name of one of them. An object with an unknown name
that has nothing but the members of a call is reported, and read as a call: as an answer it would make no sense. All
other JSON is passed on as it arrives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, cast

from harmonia.families import llama
from harmonia.families.call_bodies import (
    CALL_ARGUMENTS,
    CALL_NAMES,
    CALL_WRAPPERS,
    Arguments,
    Ended,
    Named,
    Piece,
    Plain,
    Scan,
    Unread,
    call_in,
    faults_of,
    inner_call,
    pieces_of,
    read_json_calls,
)
from harmonia.families.mistral import mistral_body
from harmonia.families.passages import ANYWHERE, Layout, Mark, Passage, all_marks, ends, forged, literal, thoughts
from harmonia.families.reader import TextReader
from harmonia.families.registry import DEFAULT_READING, Family, Reader, ReadingOptions, ToolFormat
from harmonia.families.tool_descriptions import described_as_openai
from harmonia.json_codec import json_fault, read_json
from harmonia.messages import ToolDescription
from harmonia.parser.headers import UNDECLARED, Tools

_THINKING: Final = (("<think>", "</think>"), ("[THINK]", "[/THINK]"))

_FIRST_MEMBERS: Final = (
    "name", "type", "id", "index", "function", "function_name", "tool_calls", "tool", "parameters", "arguments",
    "functionCall", "function_call",
)  # fmt: skip
_ONLY_OF_CALLS: Final = frozenset([*CALL_NAMES, *CALL_ARGUMENTS, *CALL_WRAPPERS, "type", "id", "index"])
_NAME: Final = re.compile(r"[A-Za-z_][\w.:/-]{0,120}")
_BLANKS: Final = r"\s{0,16}"
# What may stand between two calls, and after the last: Llama's semicolon, the end of a code fence.
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
    """Reads JSON values as long as they are calls. The first that is not a call is text."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._scan = Scan()
        self._held: list[str] = []
        self._has_begun = False  # the bracket of the value that is being read was found
        self._has_called = False
        self._is_over = False

    @property
    def is_quoting(self) -> bool:
        return self._scan.is_quoting

    def feed(self, text: str) -> tuple[int, Sequence[Piece]]:
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
        # What is not JSON is a cut or broken call if it names a declared tool, otherwise an answer.
        broken = read_json_calls(text) if self._tools.is_known and json_fault(text) is not None else []
        is_call = bool(broken) and all(self._tools.declares(call.name) for call in broken)
        return pieces_of(text, broken) if is_call else [Plain(text)]

    def _read(self) -> list[Piece]:
        text = "".join(self._held)
        calls = calls_in(text, self._tools) or calls_in(text, UNDECLARED, only_calls=True)
        self._has_begun, self._is_over = False, not calls
        if not calls and not self._has_called:
            return []
        self._held = []
        if not calls:
            return [Ended(0), Unread(text)]  # after a call it cannot be shown as text
        pieces: list[Piece] = []
        for index, (name, arguments) in enumerate(calls):
            if self._has_called:
                pieces.append(Ended(0))
            self._has_called = True
            # Several calls in one value have no spans of their own: the first one gets all of it.
            pieces += (Named(0, name, faults_of(name, self._tools)), Arguments(0 if index else len(text), arguments))
        return pieces


def calls_in(text: str, tools: Tools, *, only_calls: bool = False) -> list[tuple[str, str]]:
    """The calls that a JSON value consists of, as name and arguments; none if any part of it is something else. With
    `only_calls`, none either if it has members that no call has, or a name that no tool can have."""
    before = _BEFORE.match(text)
    assert before is not None  # it matches the empty text too
    try:
        value: Any = read_json(text[before.end() :].rstrip("` \t\r\n"))
    except ValueError:
        return []
    items = _listed(value)
    calls = [call for item in items if (call := call_in(item, needs_arguments=True)) is not None]
    is_all = bool(calls) and len(calls) == len(items)
    if only_calls and not (is_all and all(map(_is_only_call, items))):
        return []
    known = all(tools.declares(name) for name, _ in calls) or not tools.is_known
    return calls if is_all and known else []


def _listed(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = cast("dict[str, Any]", value).get("tool_calls", cast("Any", [value]))
    return cast("list[Any]", value) if isinstance(value, list) else []


def _is_only_call(item: dict[str, Any]) -> bool:
    inner = inner_call(item)
    name = next((inner[key] for key in CALL_NAMES if key in inner), None)
    given = next((inner[key] for key in CALL_ARGUMENTS if key in inner), None)
    is_named = isinstance(name, str) and _NAME.fullmatch(name) is not None
    return is_named and isinstance(given, dict | str) and {*item, *inner} <= _ONLY_OF_CALLS


@cache
def _layout(thinking: tuple[tuple[str, str], ...], with_bare_calls: bool) -> Layout:
    return Layout(
        [
            *thoughts(thinking),
            Passage("call", literal("[TOOL_CALLS]"), inside=ANYWHERE, body=mistral_body),
            *llama.llama_passages(),
            *([*llama.bare_llama_passages(), *bare_passages()] if with_bare_calls else ()),
            *forged("[TOOL_RESULTS]"),
            *ends(*llama.ENDS, "</s>", "[INST]"),
        ]
    )


class OpenAi(Family):
    """The JSON of OpenAI's API, in text."""

    format = ToolFormat.OPENAI
    words = (
        "To call a tool, answer with nothing but JSON of this form, in which arguments is a text of JSON",
        "Several calls are several items of tool_calls. The result comes in the next message.",
    )

    def declare(self, tools: Sequence[ToolDescription]) -> str:
        """The tools as the API takes them, and how to call them: no model was trained for this."""
        listed = "\n".join(map(described_as_openai, tools))
        return f"You can call these functions:\n\n{listed}\n\n{self.call_format(tools)}"

    def reader(self, options: ReadingOptions = DEFAULT_READING) -> Reader:
        return TextReader(_layout(all_marks(options.thinking, _THINKING), options.may_call_bare), options)

    def write_calls(self, calls: Sequence[tuple[str, str]]) -> str:
        listed = [
            {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for number, (name, arguments) in enumerate(calls, 1)
        ]
        return json.dumps({"tool_calls": listed}, ensure_ascii=False)

    def write_result(self, name: str, text: str, *, is_error: bool) -> str:
        said = {"role": "tool", "name": name, "error" if is_error else "content": text}
        return json.dumps(said, ensure_ascii=False)


OPENAI: Final = OpenAi()
