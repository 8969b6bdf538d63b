"""Code mode: one tool, `python`, over all others. The model writes code, and the tools are functions in it.

    {"name": "get-weather", …}   ->   def get_weather(city: str, unit: Literal['c', 'f'] = 'c') -> Any:

Whoever runs the code gives it a function for each of `code_functions(tools)`. What the function was called with goes
through `arguments_of`, and then to the tool whose `tool.name` it is. Nothing here runs anything.

1. Names become identifiers and lead back: no two tools get the same function, no two parameters of one the same name.
   A name that is an identifier already stays, unless it would hide a keyword or one of Python's own functions.
2. The stubs are Python that can be parsed, whatever the schemas and descriptions are.
"""

from __future__ import annotations

import ast
import builtins
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
# What the stubs say themselves must keep its meaning in the code.
_TAKEN_NAMES: Final = frozenset([*dir(builtins), "Any", "Literal"])
_WHOLE: Final = "argument"
_OTHERS: Final = "others"

_OPENING: Final = (
    "Runs Python code and gives back what it prints. Call this tool, and only this one: the functions below are "
    "defined in the code, take plain arguments and return their result. Use `print` for what you want to see."
)


def _literals(values: list[Any]) -> str:
    # Literal takes nothing else, as the language's reference has it.
    if all(value is None or isinstance(value, str | int) for value in values):
        return f"Literal[{', '.join(repr(value) for value in values)}]"
    return "Any"


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
        """The tool's argument for a call of the function. Too many, unknown, repeated and missing ones are a ToolError,
        as they are errors in Python; what does not fit is the tool's to say, which has the schema."""
        if len(values) > len(self.names):
            raise self._invalid(f"takes at most {len(self.names)} arguments; {len(values)} were given")
        given = {name: value for (name, _), value in zip(self.names, values, strict=False)}
        if twice := given.keys() & named.keys():
            raise self._invalid(f"got {', '.join(sorted(twice))} twice")
        given.update(named)
        in_schema = dict(self.names)
        if not self.takes_others and (unknown := [name for name in given if name not in in_schema]):
            known = ", ".join(in_schema) or "none"
            raise self._invalid(f"has no parameter {', '.join(unknown)}; its parameters: {known}")
        if self.takes_whole:
            if _WHOLE not in given:
                raise self._invalid(f"needs its {_WHOLE}")
            return given[_WHOLE]
        if missing := [name for name in self.required if name not in given]:
            raise self._invalid(f"needs {', '.join(missing)}")
        return {in_schema.get(name, name): value for name, value in given.items()}

    def _invalid(self, what: str) -> ToolError:
        return ToolError(ErrorCode.TOOL_INVALID_ARGUMENTS, f"{self.name}() {what}")


def code_functions(tools: Iterable[ToolLike]) -> dict[str, CodeFunction]:
    """The functions of code mode, by the names that they have in the code."""
    listed = described_tools(tools)
    names = _identifiers([tool.name for tool in listed], _TAKEN_NAMES)
    return {names[tool.name]: _function_of(names[tool.name], tool) for tool in listed}


def code_mode_tool(tools: Iterable[ToolLike]) -> ToolDescription:
    """The one tool of code mode. Its description has every other one as a typed function with a docstring."""
    stubs = "\n\n".join(function.stub for function in code_functions(tools).values())
    # A fence is longer than any in what it holds.
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
        return CodeFunction(name, tool, ((_WHOLE, _WHOLE),), _stub(name, tool, takes, {}), takes_whole=True)
    names = _identifiers([each.name for each in takes.named], {_OTHERS} if takes.others else ())
    # Python wants those that may be left out after the others.
    order = sorted(takes.named, key=lambda each: not each.is_required)
    takes = msgspec.structs.replace(takes, named=tuple(order))
    pairs = tuple((names[each.name], each.name) for each in order)
    return CodeFunction(
        name,
        tool,
        pairs,
        _stub(name, tool, takes, names),
        takes_others=takes.others is not None,
        required=tuple(names[each.name] for each in order if each.is_required),
    )


def _stub(name: str, tool: ToolDescription, takes: Parameters, names: dict[str, str]) -> str:
    parameters = [f"{names[each.name]}: {each.type}{_default_of(each)}" for each in takes.named]
    if takes.whole is not None:
        parameters.append(f"{_WHOLE}: {takes.whole}")
    if takes.others is not None:
        parameters.append(f"**{_OTHERS}: {takes.others}")
    signature = f"def {name}({', '.join(parameters)}) -> Any:"
    lines = (tool.description or "").strip().splitlines()
    about = [line for each in takes.named for line in _about(each, names[each.name], 0)]
    if about:
        lines += ["", "Args:", *about] if lines else ["Args:", *about]
    return f"{signature}\n{_docstring(lines)}" if lines else f"{signature} ..."


def _docstring(lines: list[str]) -> str:
    text = "\n".join(f"    {line}".rstrip() for line in lines).strip()
    text = text.replace("\\", "\\\\").replace("\0", "\\x00")
    if '"""' in text or text.endswith('"'):
        text = text.replace('"', '\\"')
    # Half of a surrogate pair is no text.
    text = text.encode("utf-8", "backslashreplace").decode()
    return f'    """{text}' + ('\n    """' if len(lines) > 1 else '"""')


def _about(parameter: Parameter, name: str, depth: int) -> Iterable[str]:
    """What the docstring says of a parameter that the signature does not, and of the members of one that has some."""
    inner = [line for each in parameter.members for line in _about_member(each, depth + 1)]
    if not parameter.description and not inner:
        return
    yield f"{'    ' * (depth + 1)}{name}: {_in_one_line(parameter.description)}".rstrip()
    yield from inner


def _about_member(member: Parameter, depth: int) -> Iterable[str]:
    need = "" if member.is_required else ", optional"
    said = f": {_in_one_line(member.description)}" if member.description else ""
    yield f"{'    ' * (depth + 1)}{member.name!r} ({member.type}{need}){said}"
    for each in member.members:
        yield from _about_member(each, depth + 1)


def _in_one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def _default_of(parameter: Parameter) -> str:
    if parameter.is_required:
        return ""
    if not parameter.has_default:
        return " = ..."
    # What is no literal, such as a number beyond all numbers, is left to the tool.
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
    used = set(made.values())
    for name in listed:
        if name in made:
            continue
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
    return {name: made[name] for name in listed}


def _is_free(name: str, taken: Collection[str]) -> bool:
    return _IDENTIFIER.fullmatch(name) is not None and not keyword.iskeyword(name) and name not in taken
