"""Tools from Python functions: the signature says what they take, the docstring what it means.

    @tool
    async def forecast(city: str, days: int = 3) -> list[str]: ...

A parameter without a default is required. Its description is that of its annotation, or what the docstring says. The
arguments reach the function as the annotations have it: a dataclass is a dataclass, a date a date. Bound methods,
`functools.partial` (what it fixes is not told to the model) and callable objects will do.

Parameters that have no name for the model (`*args`, `**kwargs`, positional-only ones) and types that have no JSON are
refused when the tool is made, not when it is called.

A docstring may have one of three styles. The sections of parameters and exceptions are taken out; the rest, and what
follows no style, is the description of the function:

    Google                    NumPy                          reST
    Args:                     Parameters                     :param city: The city's name,
        city: The city's          ----------                     in English.
            name.             city : str
        days (int): How long.     The city's name.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
from collections.abc import Callable
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import msgspec

from harmonia.errors import ErrorCode, InputError, Position, ToolError
from harmonia.messages import Json
from harmonia.run.tools.tool import FUNCTIONS, Tool
from harmonia.run.tools.type_schemas import Reader, Unfit, read_annotation

_OPTIONS: Final = "__harmonia_tool__"

_KINDS: Final = {
    inspect.Parameter.VAR_POSITIONAL: "takes any number of values",
    inspect.Parameter.VAR_KEYWORD: "takes any names",
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only, so it cannot be passed by name",
}


class ToolOptions(NamedTuple):
    """What the decorator and `Tool.from_function` say of a function beside what it says itself."""

    name: str | None = None
    description: str | None = None
    namespace: str | None = None
    timeout_s: float | None = None
    strict: bool | None = None


Function = TypeVar("Function", bound=Callable[..., Any])


@overload
def tool(function: Function, /) -> Function: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    namespace: str | None = None,
    timeout_s: float | None = None,
    strict: bool | None = None,
) -> Callable[[Function], Function]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    namespace: str | None = None,
    timeout_s: float | None = None,
    strict: bool | None = None,
) -> Any:
    """Mark a function as a tool, with a name, a description, a namespace or a limit of its own, or as strict.

    The function stays what it is and can be called as before. Any function can be put into a ToolSet, marked or not.
    """
    options = ToolOptions(name, description, namespace, timeout_s, strict)

    def mark(marked: Callable[..., Any]) -> Callable[..., Any]:
        setattr(marked, _OPTIONS, options)
        return marked

    return mark if function is None else mark(function)


def is_marked(value: object) -> bool:
    """Whether a value is a function that `tool` marked."""
    return callable(value) and isinstance(getattr(value, _OPTIONS, None), ToolOptions)


def tool_of_function(function: Callable[..., Any], options: ToolOptions) -> Tool:
    """The tool that calls a function; what `options` leave open is as the decorator or the function itself says."""
    if not callable(function) or isinstance(function, type):
        raise _invalid(f"{function!r} is not a function; a class can only be the type of a parameter")
    core, fixed = _core_of(function)
    marked: ToolOptions = getattr(core, _OPTIONS, ToolOptions())
    given = marked._replace(**{field: said for field, said in options._asdict().items() if said is not None})
    name = given.name or getattr(core, "__name__", None) or type(core).__name__
    if name == "<lambda>":
        raise _invalid("a lambda has no name; give it one with Tool.from_function(f, name=…)")

    documented = read_docstring(inspect.getdoc(_documented(core)) or "")
    readers: dict[str, Reader] = {}
    properties: dict[str, Json] = {}
    required: list[str] = []
    for parameter, annotation in _parameters_of(name, function, core, fixed):
        reader = readers[parameter.name] = _reader_of(name, parameter, annotation)
        schema = dict(reader.schema)
        described = documented.parameters.get(parameter.name)
        if described and "description" not in schema:
            schema["description"] = described
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        elif (default := _default_of(parameter.default)) is not None:
            schema["default"] = default
        properties[parameter.name] = schema
    return Tool(
        name,
        given.description or documented.description,
        _object_schema(properties, required, readers),
        _invoker(name, function, core, readers),
        namespace=given.namespace or FUNCTIONS,
        timeout_s=given.timeout_s,
        strict=given.strict is True,
    )


# ── the signature ───────────────────────────────────────────────────────────────────────────────────────────────────


def _core_of(function: Callable[..., Any]) -> tuple[Callable[..., Any], set[str]]:
    """The function inside partials, and the names of the arguments that they fix."""
    fixed: set[str] = set()
    while isinstance(function, functools.partial):
        fixed |= set(function.keywords)
        function = function.func
    return function, fixed


def _documented(core: Callable[..., Any]) -> Any:
    """What has the docstring and the annotations: the function, or the method that makes an object callable."""
    if inspect.isroutine(core):
        return core
    called = type(core).__call__
    return called if called.__doc__ else core


def _parameters_of(
    name: str, function: Callable[..., Any], core: Callable[..., Any], fixed: set[str]
) -> list[tuple[inspect.Parameter, Any]]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise _invalid(f"the signature of {name} cannot be determined: {error}") from error
    annotated = core if inspect.isroutine(core) else type(core).__call__
    try:
        hints = _hints_of(inspect.unwrap(annotated))
    except (NameError, TypeError, SyntaxError, AttributeError) as error:
        raise _invalid(f"an annotation of {name} cannot be read: {error}", _blamed(signature, error)) from error
    parameters: list[tuple[inspect.Parameter, Any]] = []
    for parameter in signature.parameters.values():
        if parameter.name in fixed:
            continue
        if parameter.kind in _KINDS:
            raise _invalid(f"the parameter {parameter} of {name} {_KINDS[parameter.kind]}", parameter.name)
        annotation = hints.get(parameter.name, Any)
        # `city: str = None` means that it may be left out, and models send null for that.
        if parameter.default is None:
            annotation = _optional(annotation)
        parameters.append((parameter, annotation))
    return parameters


def _hints_of(function: Any) -> dict[str, Any]:
    """The types of the parameters. That of the result may be known to type checkers only; nobody asks for it."""
    annotations: dict[str, Any] = dict(getattr(function, "__annotations__", None) or {})
    annotations.pop("return", None)
    parameters = types.SimpleNamespace(
        __annotations__=annotations, __type_params__=getattr(function, "__type_params__", ())
    )
    return get_type_hints(parameters, getattr(function, "__globals__", {}), include_extras=True)


def _optional(annotation: Any) -> Any:
    """The annotation with None allowed; what describes it goes on describing the whole."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return Annotated[(_optional(parts[0]), *parts[1:])]
    allows_none = annotation in (Any, types.NoneType) or (
        origin in (Union, types.UnionType) and types.NoneType in parts
    )
    return annotation if allows_none else Union[annotation, None]  # noqa: UP007 -- not every annotation knows `|`


def _blamed(signature: inspect.Signature, error: Exception) -> str | None:
    """The parameter whose annotation has the name that is not known."""
    unknown = getattr(error, "name", None)
    named = (each.name for each in signature.parameters.values() if unknown and unknown in str(each.annotation))
    return next(named, None)


def _reader_of(name: str, parameter: inspect.Parameter, annotation: Any) -> Reader:
    default_type = cast("type[Any]", type(parameter.default))
    if default_type.__name__ == "FieldInfo" and default_type.__module__.startswith("pydantic"):
        raise _invalid(
            f"the parameter {parameter.name} of {name} has a Field as its default; write Annotated[type, Field(…)]",
            parameter.name,
        )
    try:
        return read_annotation(annotation)
    except TypeError as error:
        raise _invalid(
            f"the parameter {parameter.name} of {name} has a type that JSON cannot express: {error}", parameter.name
        ) from error


def _default_of(default: object) -> Any:
    """The default as JSON; None where it is none, or has no JSON: then the model learns only that there is one."""
    try:
        # Through JSON, so that a tuple is a list, and NaN, which it lacks, is None.
        return msgspec.json.decode(msgspec.json.encode(default))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return None


def _object_schema(properties: dict[str, Json], required: list[str], readers: dict[str, Reader]) -> Json | None:
    if not properties:
        return None
    schema: Json = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    definitions: dict[str, Json] = {}
    for parameter, reader in readers.items():
        clashing = {name for name, each in reader.definitions.items() if definitions.get(name, each) != each}
        renamed = {name: f"{parameter}.{name}" if name in clashing else name for name in reader.definitions}
        if clashing:
            properties[parameter] = _rename_references(properties[parameter], renamed)
        for name, each in reader.definitions.items():
            definitions[renamed[name]] = _rename_references(each, renamed) if clashing else each
    if definitions:
        schema["$defs"] = definitions
    return schema


def _rename_references(schema: Any, renamed: dict[str, str]) -> Any:
    if isinstance(schema, list):
        return [_rename_references(each, renamed) for each in schema]  # pyright: ignore[reportUnknownVariableType] -- JSON
    if not isinstance(schema, dict):
        return schema
    return {
        key: f"#/$defs/{renamed[value.removeprefix('#/$defs/')]}"
        if key == "$ref" and isinstance(value, str) and value.removeprefix("#/$defs/") in renamed
        else _rename_references(value, renamed)
        for key, value in schema.items()  # pyright: ignore[reportUnknownVariableType] -- JSON
    }


# ── the call ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _invoker(
    name: str, function: Callable[..., Any], core: Callable[..., Any], readers: dict[str, Reader]
) -> Callable[[Json], Any]:
    def converted(arguments: Json) -> Json:
        read: Json = {}
        for parameter, value in arguments.items():
            reader = readers.get(parameter)
            if reader is None:
                continue  # a function without parameters has no schema that would refuse it
            try:
                read[parameter] = reader.read(value)
            except Unfit as error:
                path = f"$.{parameter}{error.path.removeprefix('$')}"
                raise ToolError(
                    ErrorCode.TOOL_INVALID_ARGUMENTS,
                    f"the arguments do not fit {name}: {path}: {error.reason}",
                    Position(path=path),
                ) from error
        return read

    # Not what a decorator wraps, which it may have made synchronous: `asyncio.run` needs a thread without a loop.
    # A coroutine that comes out of the thread is awaited all the same.
    called = core if inspect.isroutine(core) else type(core).__call__
    if inspect.iscoroutinefunction(called):

        async def invoke_async(arguments: Json) -> Any:
            return await function(**converted(arguments))

        return invoke_async

    def invoke(arguments: Json) -> Any:
        return function(**converted(arguments))

    return invoke


def _invalid(message: str, parameter: str | None = None) -> InputError:
    at = Position() if parameter is None else Position(path=f"$.{parameter}")
    return InputError(ErrorCode.TOOL_INVALID_DEFINITION, message, at)


_PARAMETERS: Final = frozenset(
    {"args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters"}
)
# A model has nothing to do with what a function raises.
_DROPPED: Final = frozenset({"raises", "exceptions"})

_GOOGLE_HEADING: Final = re.compile(r"([A-Za-z][A-Za-z ]*):\s*")
_GOOGLE_ENTRY: Final = re.compile(r"\*{0,2}(\w++)\s*+(?:\(.*?\)\s*+)?:(?:\s++(.*)|\s*)")
_NUMPY_RULE: Final = re.compile(r"-{3,}\s*")
_NUMPY_ENTRY: Final = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?")
_REST_PARAMETER: Final = re.compile(
    r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)"
)
_REST_DROPPED: Final = re.compile(r":(?:type|rtype|raises?|except|exception)\b[^:]*:")


class Documented(NamedTuple):
    """The description of a function, and of its parameters by their names."""

    description: str | None
    parameters: dict[str, str]


def read_docstring(text: str) -> Documented:
    """The parts of a docstring whose indentation was taken off, as inspect.getdoc gives it."""
    lines = text.splitlines()
    kept: list[str] = []
    parameters: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        following = lines[at + 1] if at + 1 < len(lines) else ""
        heading = _GOOGLE_HEADING.fullmatch(line)
        title = line.strip().lower()
        if heading and heading[1].lower() in _PARAMETERS | _DROPPED and (not following or following[:1].isspace()):
            section, at = _indented(lines, at + 1)
            if heading[1].lower() in _PARAMETERS:
                parameters |= _google_entries(section)
        elif title in _PARAMETERS | _DROPPED and _NUMPY_RULE.fullmatch(following):
            section, at = _numpy_section(lines, at + 2)
            if title in _PARAMETERS:
                parameters |= _numpy_entries(section)
        elif (parameter := _REST_PARAMETER.fullmatch(line)) is not None:
            more, at = _indented(lines, at + 1)
            parameters[parameter[1]] = _join([parameter[2], *more])
        elif _REST_DROPPED.match(line):
            _, at = _indented(lines, at + 1)
        else:
            kept.append(line.rstrip())
            at += 1
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return Documented(description or None, {name: said for name, said in parameters.items() if said})


def _indented(lines: list[str], start: int) -> tuple[list[str], int]:
    """The lines from `start` on that belong to what stands before them, and where they end."""
    end = start
    while end < len(lines) and (not lines[end].strip() or lines[end][:1].isspace()):
        end += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return lines[start:end], end


def _google_entries(section: list[str]) -> dict[str, str]:
    outer = min((_indent(line) for line in section if line.strip()), default=0)
    entries: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in section:
        entry = _GOOGLE_ENTRY.fullmatch(line.strip()) if _indent(line) == outer else None
        if entry is not None:
            current = entries[entry[1]] = [entry[2] or ""]
        elif current is not None:
            current.append(line)
    return {name: _join(said) for name, said in entries.items()}


def _numpy_section(lines: list[str], start: int) -> tuple[list[str], int]:
    end = start
    while end < len(lines):
        rule = lines[end + 1] if end + 1 < len(lines) else ""
        if lines[end].strip() and _indent(lines[end]) == 0 and _NUMPY_RULE.fullmatch(rule):
            break
        # Text at the left edge behind an empty line that is no entry is the description going on.
        if not lines[end].strip() and end + 1 < len(lines) and _is_prose(lines[end + 1]):
            break
        end += 1
    return lines[start:end], end


def _is_prose(line: str) -> bool:
    return bool(line.strip()) and _indent(line) == 0 and _NUMPY_ENTRY.fullmatch(line.strip()) is None


def _numpy_entries(section: list[str]) -> dict[str, str]:
    entries: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in section:
        entry = _NUMPY_ENTRY.fullmatch(line.strip()) if line.strip() and _indent(line) == 0 else None
        if entry is not None:
            current = []
            for name in entry[1].split(","):
                entries[name.strip().lstrip("*")] = current
        elif current is not None:
            current.append(line)
    return {name: _join(said) for name, said in entries.items()}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip()) if line.strip() else -1


def _join(lines: list[str]) -> str:
    return " ".join(filter(None, (line.strip() for line in lines)))
