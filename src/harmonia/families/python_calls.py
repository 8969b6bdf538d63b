"""Calls that are written as Python, read without evaluating anything.

    convert(amount=200000.0, currency="USD")            Gemma 3, between ```tool_code and ```
    [get_weather(city="Paris"), get_time()]             the list that Gemma's documentation asks for, and Llama's
    brave_search.call(query="Stockholm weather")        Llama 3.1's own tools, after <|python_tag|>

A tool whose name is no name in Python (`get-weather`) is `get_weather` there. It is written so, and where the tool is
declared it is read either way.

Only literals are values: numbers, texts, True, False, None, lists, tuples and dictionaries of them, and the JSON words
true, false and null, which models mix in. An argument without a name takes the name of the parameter at its place,
where the tool was declared. Anything else - names, sums, f-strings, calls inside of calls - is not worked out: the call
then has its arguments as they are written, which nobody takes for JSON.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from math import isfinite
from typing import Any, Final, cast

from harmonia.errors import ErrorCode
from harmonia.families.call_bodies import Piece, Plain, ReadCall, ReadCalls, pieces_of
from harmonia.families.passages import Mark
from harmonia.messages import ToolDescription
from harmonia.parser.headers import Tools

# A text that is longer is no call that anybody meant; the compiler is kept from it.
_MAX_CHARS: Final = 200_000
_JSON_WORDS: Final = {"true": True, "false": False, "null": None}
# What Gemma was told its tools live in, and the builtin that shows what a call gave.
_WRAPPERS: Final = frozenset(["print", "str", "repr"])
_HOLDERS: Final = ("default_api.", "tools.", "functions.")
# Llama writes its own tools as objects with one method.
_METHOD: Final = ".call"
_STRUCTURE: Final = re.compile(r"""["'()\[\]{}\\\n]""")
_NOT_IN_NAMES: Final = re.compile(r"[^\w.]")
_QUOTED: Final = r"""\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'"""

# A list that begins like one of calls: `[get_weather(`.
LIST_OF_CALLS: Final = Mark((r"\[", r"\s{0,8}", "[A-Za-z_]", r"[\w.]{0,80}", r"\("), "line")

# The same where it is cut off after the bracket or inside of an argument that has its name.
_CUT_LIST: Final = re.compile(r"\s*\[\s*(?P<name>[A-Za-z_][\w.]*)\(\s*(?=\Z|[A-Za-z_]\w*\s*=)")

ParameterNames = Mapping[str, Sequence[str]]


def parameter_names(tools: Iterable[ToolDescription]) -> dict[str, list[str]]:
    """The parameters of each tool in the order in which they were declared."""
    names: dict[str, list[str]] = {}
    for tool in tools:
        schema = tool.parameters if isinstance(tool.parameters, dict) else {}
        properties = schema.get("properties")
        names[tool.name] = list(cast("dict[str, Any]", properties)) if isinstance(properties, dict) else []
    return names


def read_python_calls(text: str, parameters: ParameterNames) -> list[ReadCall]:
    """The calls in Python code whose statements are calls, or lists of calls; none where it is something else."""
    before = len(text) - len(text.lstrip())
    source = text.strip()
    names = {python_name(name): name for name in parameters if python_name(name) not in parameters}
    tree = _parsed(_with_python_names(source, names))
    if tree is None:
        return []
    places = _Places(source, before)
    calls: list[ReadCall] = []
    for statement in tree.body:
        expression = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
        for node in _listed(expression):
            call = _unwrapped(node)
            name = None if call is None else _dotted_name(call.func)
            if call is None or name is None:
                return []
            calls.append(_read_call(call, names.get(name, name), text, places, parameters))
    return calls


def read_cut_list(text: str, tools: Tools) -> list[ReadCall]:
    """A list of calls that nobody closed, as one call of the first tool with all that is there; none where no such tool
    was declared, as then it may be anything."""
    begun = _CUT_LIST.match(text)
    if begun is None or not tools.declares(begun["name"]):
        return []
    return [ReadCall(begun["name"], text[begun.end() :], 0, begun.end(), len(text), (ErrorCode.FAMILY_UNCLOSED,))]


def python_name(name: str) -> str:
    """The name with a `_` for each character that Python takes in none; of the same length."""
    written = _NOT_IN_NAMES.sub("_", name)
    return f"_{written[1:]}" if written[:1].isdigit() else written


def _with_python_names(source: str, names: Mapping[str, str]) -> str:
    """The source in which tools are called by names of Python, everything else in its place; texts stay as they are."""
    if not any(name in source for name in names.values()):
        return source
    called = "|".join(re.escape(name) for name in sorted(names.values(), key=len, reverse=True))
    found = re.compile(rf"{_QUOTED}|(?<![\w.-])(?P<name>{called})(?=\s*\()")
    return found.sub(lambda match: match[0] if match["name"] is None else python_name(match["name"]), source)


def _parsed(source: str) -> ast.Module | None:
    if not source or len(source) > _MAX_CHARS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a backslash that escapes nothing is no news
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _listed(node: ast.expr | None) -> list[ast.expr | None]:
    return list(node.elts) if isinstance(node, ast.List | ast.Tuple) and node.elts else [node]


def _unwrapped(node: ast.expr | None) -> ast.Call | None:
    """The call itself: Gemini was taught to print what its calls give."""
    while isinstance(node, ast.Call):
        is_wrapper = isinstance(node.func, ast.Name) and node.func.id in _WRAPPERS
        if not (is_wrapper and len(node.args) == 1 and isinstance(node.args[0], ast.Call)):
            return node
        node = node.args[0]
    return None


def _dotted_name(node: ast.expr) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    name = ".".join([node.id, *reversed(parts)])
    for holder in _HOLDERS:
        name = name.removeprefix(holder)
    return name.removesuffix(_METHOD) or None


def _read_call(call: ast.Call, name: str, text: str, places: _Places, parameters: ParameterNames) -> ReadCall:
    start = places.start(call)
    inside = places.end(call.func)
    arguments_start = text.index("(", inside) + 1
    arguments_end = places.end(call) - 1
    try:
        arguments = json.dumps(_arguments(call, parameters.get(name, ())), ensure_ascii=False)
    except ValueError:
        arguments = text[arguments_start:arguments_end]
    return ReadCall(name, arguments, start, arguments_start, arguments_end)


def _arguments(call: ast.Call, names: Sequence[str]) -> dict[str, Any]:
    if len(call.args) > len(names):
        raise ValueError("arguments without names, and no parameters to take them from")
    arguments = {name: _value(node) for name, node in zip(names, call.args, strict=False)}
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in arguments:
            raise ValueError("a repeated argument, or a dictionary of them")
        arguments[keyword.arg] = _value(keyword.value)
    return arguments


def _value(node: ast.expr) -> Any:
    """The JSON value of a literal; ValueError for anything that would have to be worked out."""
    match node:
        case ast.Constant(value=bool() | int() | str() | None as value):
            return value
        case ast.Constant(value=float() as value) if isfinite(value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.Name(id=word) if word in _JSON_WORDS:
            return _JSON_WORDS[word]
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {_key(key): _value(value) for key, value in zip(keys, values, strict=True)}
        case _:
            raise ValueError(f"{type(node).__name__} is no literal")


def _key(node: ast.expr | None) -> str:
    value = None if node is None else _value(node)
    if not isinstance(value, str):
        raise ValueError("a key that is no text")
    return value


class _Places:
    """Where the nodes of a tree stand in the text: the compiler counts lines, and bytes in them."""

    def __init__(self, source: str, before: int) -> None:
        # The lines of the compiler end with these three, and with nothing else that Python calls a line break.
        lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", source)
        self._lines = lines
        self._columns: dict[int, list[int]] = {}  # by line: the byte at which each character of it begins
        self._starts = [before, *accumulate(map(len, lines), initial=before)][1:]

    def start(self, node: ast.expr) -> int:
        return self._place(node.lineno, node.col_offset)

    def end(self, node: ast.expr) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._place(node.end_lineno, node.end_col_offset)

    def _place(self, line: int, column: int) -> int:
        text = self._lines[line - 1]
        if not text.isascii():
            if line not in self._columns:
                self._columns[line] = list(accumulate(map(_utf8_bytes, text), initial=0))
            column = bisect_left(self._columns[line], column)
        return self._starts[line - 1] + column


def _utf8_bytes(character: str) -> int:
    return len(character.encode("utf-8", "replace"))


class HeldPython:
    """A body of Python code, read when it is complete. With `ends_itself`, that is where its first bracket is closed.

    Without a call in it, it is unreadable, or with `may_be_text` part of the answer. `read_cut` reads what was to end
    itself and did not.
    """

    def __init__(
        self,
        read: ReadCalls,
        *,
        ends_itself: bool = False,
        may_be_text: bool = False,
        read_cut: ReadCalls | None = None,
    ) -> None:
        self._read = read
        self._read_cut = read_cut
        self._ends_itself = ends_itself
        self._may_be_text = may_be_text
        self._held: list[str] = []
        self._depth = 0
        self._quote = ""
        self._is_escaped = False
        self._is_over = False

    @property
    def is_quoting(self) -> bool:
        return self._quote != ""

    def feed(self, text: str) -> tuple[int, Sequence[Piece]]:
        taken = 0 if self._is_over else self._followed(text)
        self._held.append(text[:taken])
        return taken, ()

    def close(self) -> Sequence[Piece]:
        text = "".join(self._held)
        read = self._read if self._is_over or self._read_cut is None else self._read_cut
        calls = read(text)
        return [Plain(text)] if self._may_be_text and not calls else pieces_of(text, calls)

    def _followed(self, text: str) -> int:
        """How far this goes, where brackets and quotation marks are counted."""
        at = 0
        while at < len(text):
            if self._is_escaped:
                self._is_escaped = False
                at += 1
                continue
            found = _STRUCTURE.search(text, at)
            if found is None:
                break
            at, character = found.end(), found.group()
            if self._quote:
                if character == "\\":
                    self._is_escaped = True
                elif character == self._quote or character == "\n":
                    self._quote = ""  # a text ends with its line, or a quotation mark was forgotten
            elif character in "\"'":
                self._quote = character
            elif character in "([{":
                self._depth += 1
            elif character in ")]}":
                self._depth = max(self._depth - 1, 0)
                if self._ends_itself and self._depth == 0:
                    self._is_over = True
                    return at
        return len(text)
