"""Calls that are written as Python, read without evaluating anything.

    convert(amount=200000.0, currency="USD")            Gemma 3, between ```tool_code and ```
    [get_weather(city="Paris"), get_time()]             the list that Gemma's documentation asks for, and Llama's
    brave_search.call(query="Stockholm weather")        Llama 3.1's own tools, after <|python_tag|>

A tool whose name is not a Python name (`get-weather`) is written as `get_weather`. If the tool is declared, both are
read.

Only literals are values: numbers, texts, True, False, None, lists, tuples and dictionaries of them, and the JSON words
true, false and null, which models mix in. If the tool is declared, an argument without a name gets the name of the
parameter at its position. Anything else (names, sums, f-strings, nested calls) is not evaluated: the arguments of such
a call stay as they are written, which is not JSON.
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
from typing import Any, Final

from harmonia.errors import ErrorCode
from harmonia.families.call_bodies import ReadCall, properties_of
from harmonia.families.passages import Mark
from harmonia.messages import ToolDescription
from harmonia.parser.headers import Tools

# Longer texts are not parsed.
_MAX_CHARS: Final = 200_000
_JSON_WORDS: Final = {"true": True, "false": False, "null": None}
# The functions around a call that show its result, and what Gemma was told its tools are part of.
_WRAPPERS: Final = frozenset(["print", "str", "repr"])
_HOLDERS: Final = ("default_api.", "tools.", "functions.")
# Llama writes its own tools as objects with one method.
_METHOD: Final = ".call"
_NOT_IN_NAMES: Final = re.compile(r"[^\w.]")
_QUOTED: Final = r"""\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'"""

# A list that begins like one of calls: `[get_weather(`.
LIST_OF_CALLS: Final = Mark((r"\[", r"\s{0,8}", "[A-Za-z_]", r"[\w.]{0,80}", r"\("), "line")

# The same where it is cut off after the bracket or inside of an argument that has its name.
_CUT_LIST: Final = re.compile(r"\s*\[\s*(?P<name>[A-Za-z_][\w.]*)\(\s*(?=\Z|[A-Za-z_]\w*\s*=)")

ParameterNames = Mapping[str, Sequence[str]]


def parameter_names(tools: Iterable[ToolDescription]) -> dict[str, list[str]]:
    """The parameters of each tool in the order in which they were declared."""
    return {tool.name: list(properties_of(tool)) for tool in tools}


def read_python_calls(text: str, parameters: ParameterNames) -> list[ReadCall]:
    """The calls in Python code whose statements are calls, or lists of calls; none if it has anything else."""
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


def read_cut_list(text: str, tools: Tools) -> list[ReadCall] | None:
    """A list of calls that is not closed, as one call of the first tool with all that follows. If no such tool is
    declared, it may be anything."""
    begun = _CUT_LIST.match(text)
    if begun is None or not tools.declares(begun["name"]):
        return None
    return [ReadCall(begun["name"], text[begun.end() :], 0, begun.end(), len(text), (ErrorCode.FAMILY_UNCLOSED,))]


def python_name(name: str) -> str:
    """The name with a `_` for each character that Python names cannot have; of the same length."""
    written = _NOT_IN_NAMES.sub("_", name)
    return f"_{written[1:]}" if written[:1].isdigit() else written


def _with_python_names(source: str, names: Mapping[str, str]) -> str:
    """The source with Python names for the tools that are called. Positions and strings stay as they are."""
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
            warnings.simplefilter("ignore")  # such as a backslash that escapes nothing
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _listed(node: ast.expr | None) -> list[ast.expr | None]:
    return list(node.elts) if isinstance(node, ast.List | ast.Tuple) and node.elts else [node]


def _unwrapped(node: ast.expr | None) -> ast.Call | None:
    """The call itself: Gemini was taught to print the results of its calls."""
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
        raise ValueError("more arguments without names than parameters")
    arguments = {name: _value(node) for name, node in zip(names, call.args, strict=False)}
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in arguments:
            raise ValueError("a repeated argument, or a dictionary of them")
        arguments[keyword.arg] = _value(keyword.value)
    return arguments


def _value(node: ast.expr) -> Any:
    """The JSON value of a literal; ValueError for anything that would have to be evaluated."""
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
            named: dict[str, Any] = {}
            for key, value in zip(keys, values, strict=True):
                if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                    raise ValueError("a key that is not a string")
                named[key.value] = _value(value)
            return named
        case _:
            raise ValueError(f"{type(node).__name__} is not a literal")


class _Places:
    """The positions of nodes in the text. The compiler counts lines, and bytes in them."""

    def __init__(self, source: str, before: int) -> None:
        # The compiler ends lines with these only, unlike str.splitlines.
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
