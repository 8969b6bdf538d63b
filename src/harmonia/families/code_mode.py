"""Code mode: one tool, `python`, over all others. The model writes code, and the tools are functions in it.

    {"name": "get-weather", …}   ->   def get_weather(city: str, unit: Literal['c', 'f'] = 'c') -> Any:

The application that runs the code provides a function for each of `code_functions(tools)`. It passes the arguments of a
call through `arguments_of`, and then to the tool named `tool.name`. Nothing here runs anything.

1. Names become identifiers, without collisions. A name that is an identifier already stays, unless it would hide a
   keyword or a builtin function.
2. The stubs are valid Python, whatever the schemas and descriptions are.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import keyword
import re
from collections.abc import Collection, Iterable
from typing import Any, Final

import msgspec

from harmonia.errors import ErrorCode, ToolError
from harmonia.families.tool_descriptions import (
    Parameter,
    Parameters,
    ToolLike,
    TypeWords,
    described_tools,
    parameters_of,
)
from harmonia.messages import ToolDescription

PYTHON_TOOL: Final = "python"
CODE: Final = "code"

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BACKTICKS: Final = re.compile(r"`{3,}")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]+")
# Names that the stubs use themselves.
_TAKEN_NAMES: Final = frozenset([*dir(builtins), "Any", "Literal"])
_BY_NAME_OR_PLACE: Final = inspect.Parameter.POSITIONAL_OR_KEYWORD
_REQUIRED: Final = inspect.Parameter.empty
_WHOLE: Final = "argument"
_OTHERS: Final = "others"

_OPENING: Final = (
    "Runs Python code and gives back what it prints. Call this tool, and only this one: the functions below are "
    "defined in the code, take plain arguments and return their result. Use `print` for what you want to see."
)


def _literals(values: list[Any]) -> str:
    is_literal = all(value is None or isinstance(value, str | int) for value in values)
    return f"Literal[{', '.join(map(repr, values))}]" if is_literal else "Any"


PYTHON_WORDS: Final = TypeWords(
    {
        "string": "str",
        "integer": "int",
        "number": "float",
        "boolean": "bool",
        "null": "None",
        "object": "dict[str, Any]",
        "array": "list[Any]",
    },
    anything="Any",
    array="list[{}]",
    map="dict[str, {}]",
    either=" | ",
    values=_literals,
)


class CodeFunction(msgspec.Struct, frozen=True):
    """A tool as a function. `names` are its parameters in the signature's order, each in the code and in the schema."""

    name: str
    tool: ToolDescription
    names: tuple[tuple[str, str], ...]
    stub: str
    takes_others: bool = False
    takes_whole: bool = False
    required: tuple[str, ...] = ()

    def arguments_of(self, /, *values: Any, **named: Any) -> Any:
        """The tool's argument for a call of the function. What Python would refuse is a ToolError; whether the values
        fit the schema, the tool decides."""
        parameters = [
            inspect.Parameter(name, _BY_NAME_OR_PLACE, default=_REQUIRED if name in self.required else None)
            for name, _ in self.names
        ]
        if self.takes_others:
            parameters.append(inspect.Parameter(_OTHERS, inspect.Parameter.VAR_KEYWORD))
        try:
            given = inspect.Signature(parameters).bind(*values, **named).arguments
        except TypeError as error:
            known = ", ".join(name for name, _ in self.names) or "none"
            what = f"{self.name}(): {error}; its parameters: {known}"
            raise ToolError(ErrorCode.TOOL_INVALID_ARGUMENTS, what) from None
        others: dict[str, Any] = given.pop(_OTHERS, {}) if self.takes_others else {}
        if self.takes_whole:
            return given[_WHOLE]
        in_schema = dict(self.names)
        return {**{in_schema[name]: value for name, value in given.items()}, **others}


def code_functions(tools: Iterable[ToolLike]) -> dict[str, CodeFunction]:
    """The functions of code mode, by the names that they have in the code."""
    listed = described_tools(tools)
    names = _identifiers([tool.name for tool in listed], _TAKEN_NAMES)
    return {names[tool.name]: _function_of(names[tool.name], tool) for tool in listed}


def code_mode_tool(tools: Iterable[ToolLike]) -> ToolDescription:
    """The one tool of code mode. Its description has every other one as a typed function with a docstring."""
    stubs = "\n\n".join(function.stub for function in code_functions(tools).values())
    # The fence is longer than any in the stubs.
    fence = "`" * max([3, *(len(run) + 1 for run in _BACKTICKS.findall(stubs))])
    description = f"{_OPENING}\n\n{fence}python\n{stubs}\n{fence}" if stubs else _OPENING
    schema = {
        "type": "object",
        "properties": {CODE: {"type": "string", "description": "The Python code to run."}},
        "required": [CODE],
    }
    return ToolDescription(PYTHON_TOOL, description, schema)


def _function_of(name: str, tool: ToolDescription) -> CodeFunction:
    takes = parameters_of(tool.parameters, PYTHON_WORDS)
    if takes.whole is not None:
        stub = _stub(name, tool, takes, {})
        return CodeFunction(name, tool, ((_WHOLE, _WHOLE),), stub, takes_whole=True, required=(_WHOLE,))
    names = _identifiers([each.name for each in takes.named], {_OTHERS} if takes.others else ())
    # In Python, optional parameters come last.
    order = sorted(takes.named, key=lambda each: not each.is_required)
    takes = msgspec.structs.replace(takes, named=tuple(order))
    pairs = tuple((names[each.name], each.name) for each in order)
    required = tuple(names[each.name] for each in order if each.is_required)
    stub = _stub(name, tool, takes, names)
    return CodeFunction(name, tool, pairs, stub, takes_others=takes.others is not None, required=required)


def _stub(name: str, tool: ToolDescription, takes: Parameters, names: dict[str, str]) -> str:
    parameters = [f"{names[each.name]}: {each.type}{_default_of(each)}" for each in takes.named]
    if takes.whole is not None:
        parameters.append(f"{_WHOLE}: {takes.whole}")
    if takes.others is not None:
        parameters.append(f"**{_OTHERS}: {takes.others}")
    signature = f"def {name}({', '.join(parameters)}) -> Any:"
    lines = (tool.description or "").strip().splitlines()
    about = [line for each in takes.named for line in _about(each, names[each.name])]
    if about:
        lines += ["", "Args:", *about] if lines else ["Args:", *about]
    return f"{signature}\n{_docstring(lines)}" if lines else f"{signature} ..."


def _docstring(lines: list[str]) -> str:
    text = "\n".join(f"    {line}".rstrip() for line in lines).strip()
    text = text.replace("\\", "\\\\").replace("\0", "\\x00")
    if '"""' in text or text.endswith('"'):
        text = text.replace('"', '\\"')
    # Lone surrogates cannot be encoded.
    text = text.encode("utf-8", "backslashreplace").decode()
    return f'    """{text}' + ('\n    """' if len(lines) > 1 else '"""')


def _about(parameter: Parameter, name: str) -> Iterable[str]:
    """What the docstring says of a parameter beyond the signature, and of its members."""
    if parameter.description or parameter.members:
        yield f"    {name}: {parameter.description}".rstrip()
        for each in parameter.members:
            yield from _about_member(each, "        ")


def _about_member(member: Parameter, indent: str) -> Iterable[str]:
    need = "" if member.is_required else ", optional"
    said = f": {member.description}" if member.description else ""
    yield f"{indent}{member.name!r} ({member.type}{need}){said}"
    for each in member.members:
        yield from _about_member(each, f"{indent}    ")


def _default_of(parameter: Parameter) -> str:
    if parameter.is_required:
        return ""
    if not parameter.has_default:
        return " = ..."
    # What is not a literal, such as infinity, is left to the tool.
    try:
        written = repr(parameter.default)
        ast.literal_eval(written)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return " = ..."
    return f" = {written}"


def _identifiers(names: Iterable[str], taken: Collection[str] = ()) -> dict[str, str]:
    """An identifier for each name, no two the same, none of `taken`; those that are identifiers stay as they are."""
    listed = list(dict.fromkeys(names))
    made = {name: name for name in listed if _is_free(name, taken)}
    used = set(made)
    for name in (name for name in listed if name not in made):
        wanted = _NOT_IN_NAMES.sub("_", name)
        if not _IDENTIFIER.fullmatch(wanted):  # it begins with a digit, or nothing is left of it
            wanted = f"_{wanted}"
        if not _is_free(wanted, taken):
            wanted += "_"
        number, candidate = 2, wanted
        while candidate in used or not _is_free(candidate, taken):
            candidate, number = f"{wanted}_{number}", number + 1
        made[name] = candidate
        used.add(candidate)
    return made


def _is_free(name: str, taken: Collection[str]) -> bool:
    return _IDENTIFIER.fullmatch(name) is not None and not keyword.iskeyword(name) and name not in taken
