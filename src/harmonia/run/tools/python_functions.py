"""Tools from Python functions: the signature says what they take, the docstring what it means.

    @tool
    async def forecast(city: str, days: int = 3) -> list[str]: ...

A parameter without a default is required. Its description is that of its annotation (`Annotated[str, "the city's
name"]`, or `msgspec.Meta(description=…)`), or what the docstring says. msgspec reads most types; pydantic, where it is
installed, reads its own and those that msgspec refuses. The arguments reach the function as the annotations have it: a
dataclass is a dataclass, a date a date. Bound methods, `functools.partial` (what it fixes is not told to the model) and
callable objects will do.

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

import dataclasses
import datetime
import functools
import inspect
import re
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from enum import Enum, EnumType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    Unpack,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import msgspec

from harmonia.errors import ErrorCode, InputError, Position, ToolError
from harmonia.json_codec import json_path, split_validation_error
from harmonia.messages import Json
from harmonia.run.tools.arguments import with_integers
from harmonia.run.tools.tool import FUNCTIONS, Tool, ToolOptions

_OPTIONS: Final = "__harmonia_tool__"

_KINDS: Final = {
    inspect.Parameter.VAR_POSITIONAL: "takes any number of values",
    inspect.Parameter.VAR_KEYWORD: "takes any names",
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only, so it cannot be passed by name",
}


Function = TypeVar("Function", bound=Callable[..., Any])


@overload
def tool(function: Function, /) -> Function: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Function], Function]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Mark a function as a tool, with a name, a description, a namespace or a limit of its own, or as strict.

    The function stays what it is and can be called as before. Any function can be put into a ToolSet, marked or not.
    """

    def mark(marked: Callable[..., Any]) -> Callable[..., Any]:
        setattr(marked, _OPTIONS, options)
        return marked

    return mark if function is None else mark(function)


def is_marked(value: object) -> bool:
    """Whether a value is a function that `tool` marked."""
    return callable(value) and isinstance(getattr(value, _OPTIONS, None), dict)


def tool_of_function(function: Callable[..., Any], options: ToolOptions) -> Tool:
    """The tool that calls a function; what `options` leave open is as the decorator or the function itself says."""
    if not callable(function) or isinstance(function, type):
        raise _invalid(f"{function!r} is not a function; a class can only be the type of a parameter")
    # The function inside partials, and the names of the arguments that they fix.
    core: Any = function
    fixed: set[str] = set()
    while isinstance(core, functools.partial):
        fixed |= set(core.keywords)
        core = core.func
    # What has the annotations, and whose kind counts: the function, or the method that makes an object callable.
    called: Any = core if inspect.isroutine(core) else type(core).__call__
    marked: ToolOptions = getattr(core, _OPTIONS, ToolOptions())
    given = cast("ToolOptions", {**marked, **{option: said for option, said in options.items() if said is not None}})
    name = given.get("name") or str(getattr(core, "__name__", None) or type(core).__name__)
    if name == "<lambda>":
        raise _invalid("a lambda has no name; give it one with Tool.from_function(f, name=…)")

    documented = read_docstring(inspect.getdoc(called if called.__doc__ else core) or "")
    readers: dict[str, _Reader] = {}
    properties: dict[str, Json] = {}
    required: list[str] = []
    for parameter, annotation in _parameters_of(name, function, called, fixed):
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
        given.get("description") or documented.description,
        _object_schema(properties, required, readers),
        _invoker(name, function, called, readers),
        namespace=given.get("namespace") or FUNCTIONS,
        timeout_s=given.get("timeout_s"),
        strict=given.get("strict") is True,
    )


# ── the signature ───────────────────────────────────────────────────────────────────────────────────────────────────


def _parameters_of(
    name: str, function: Callable[..., Any], called: Any, fixed: set[str]
) -> Iterator[tuple[inspect.Parameter, Any]]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise _invalid(f"the signature of {name} cannot be determined: {error}") from error
    try:
        hints = _hints_of(inspect.unwrap(called))
    except (NameError, TypeError, SyntaxError, AttributeError) as error:
        # The parameter whose annotation has the name that is not known.
        unknown = getattr(error, "name", None)
        named = (each.name for each in signature.parameters.values() if unknown and unknown in str(each.annotation))
        raise _invalid(f"an annotation of {name} cannot be read: {error}", next(named, None)) from error
    for parameter in signature.parameters.values():
        if parameter.name in fixed:
            continue
        if parameter.kind in _KINDS:
            raise _invalid(f"the parameter {parameter} of {name} {_KINDS[parameter.kind]}", parameter.name)
        annotation = hints.get(parameter.name, Any)
        # `city: str = None` means that it may be left out, and models send null for that.
        yield parameter, _optional(annotation) if parameter.default is None else annotation


def _hints_of(function: Any) -> dict[str, Any]:
    """The types of the parameters. That of the result may be known to type checkers only, and is not needed."""
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
    is_union = origin in (Union, types.UnionType)
    allows_none = annotation in (Any, types.NoneType) or (is_union and types.NoneType in parts)
    return annotation if allows_none else Union[annotation, None]  # noqa: UP007 -- not every annotation knows `|`


def _reader_of(name: str, parameter: inspect.Parameter, annotation: Any) -> _Reader:
    default_type = cast("type[Any]", type(parameter.default))
    if default_type.__name__ == "FieldInfo" and default_type.__module__.startswith("pydantic"):
        said = f"the parameter {parameter.name} of {name} has a Field as its default; write Annotated[type, Field(…)]"
        raise _invalid(said, parameter.name)
    try:
        return _read_annotation(annotation)
    except TypeError as error:
        said = f"the parameter {parameter.name} of {name} has a type that JSON cannot express: {error}"
        raise _invalid(said, parameter.name) from error


def _default_of(default: object) -> Any:
    """The default as JSON; None where it is None, or has no JSON: then the model learns only that there is one."""
    try:
        # Through JSON, so that a tuple is a list, and NaN, which it lacks, is None.
        return msgspec.json.decode(msgspec.json.encode(default))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return None


def _object_schema(properties: dict[str, Json], required: list[str], readers: dict[str, _Reader]) -> Json | None:
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


# ── types ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_DATE_TIME: Final = msgspec.Meta(extra_json_schema={"format": "date-time"})
_CONTAINERS: Final[tuple[Any, ...]] = (list, set, frozenset, dict, tuple)


class _Unfit(Exception):
    """A value is not of the type: what is wrong, and the JSON path to it."""


class _Reader(msgspec.Struct, frozen=True):
    """The schema of a type, the schemas that it refers to as `#/$defs/…`, and what reads a value of it from JSON."""

    schema: Json
    definitions: dict[str, Json]
    read: Callable[[Any], Any]


def _read_annotation(annotation: Any) -> _Reader:
    """The reader of a type. Raises a TypeError for a type that has no JSON."""
    if _mentions_pydantic(annotation):
        return _pydantic_reader(annotation)
    try:
        return _msgspec_reader(annotation)
    except (TypeError, ValueError, NameError, RecursionError) as error:
        try:
            return _pydantic_reader(annotation)
        except ImportError:
            raise TypeError(str(error).splitlines()[-1]) from error


def _msgspec_reader(annotation: Any) -> _Reader:
    described: Any = _with_meta(annotation)
    (schema,), definitions = msgspec.json.schema_components([described], ref_template="#/$defs/{name}")
    orders = list(_declared_values(annotation, {}))

    def convert(value: Any) -> Any:
        converted = msgspec.convert(value, described, str_keys=True)
        _fill_defaults(converted)
        return converted

    def read(value: Any) -> Any:
        try:
            return convert(value)
        except msgspec.ValidationError as error:
            # JSON has one kind of number: 5.0 is an integer to a schema, and not to msgspec.
            try:
                return convert(with_integers(value))
            except msgspec.ValidationError:
                raise _Unfit(*split_validation_error(error)) from error

    return _Reader(_tidy(schema, orders), {name: _tidy(each, orders) for name, each in definitions.items()}, read)


def _pydantic_reader(annotation: Any) -> _Reader:
    from pydantic import PydanticUserError, TypeAdapter, ValidationError

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        schema = adapter.json_schema(ref_template="#/$defs/{model}")
    except (PydanticUserError, NameError) as error:
        raise TypeError(str(error).splitlines()[0]) from error
    definitions = cast("dict[str, Json]", schema.pop("$defs", {}))
    # pydantic does not know that a text in Annotated describes.
    notes = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    if descriptions := [each for each in notes if isinstance(each, str)]:
        schema.setdefault("description", descriptions[-1])

    def read(value: Any) -> Any:
        try:
            return adapter.validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise _Unfit(first["msg"], json_path(first["loc"])) from error

    return _Reader(_tidy(schema), {name: _tidy(each) for name, each in definitions.items()}, read)


def _mentions_pydantic(annotation: Any) -> bool:
    parts = get_args(annotation)
    notes = parts[1:] if get_origin(annotation) is Annotated else ()
    packages = (str(getattr(kind, "__module__", "")).partition(".")[0] for kind in (annotation, *map(type, notes)))
    if hasattr(annotation, "__get_pydantic_core_schema__") or {"pydantic", "annotated_types"}.intersection(packages):
        return True
    return any(_mentions_pydantic(each) for each in parts if not isinstance(each, str))


def _with_meta(annotation: Any) -> Any:
    """The annotation with what msgspec does not read by itself as `Meta`: texts, and the format of a point in time."""
    if annotation is datetime.datetime:
        return Annotated[annotation, _DATE_TIME]
    origin: Any = get_origin(annotation)
    parts = get_args(annotation)
    if origin is Annotated:
        inner = _with_meta(parts[0])
        metas = [msgspec.Meta(description=each) if isinstance(each, str) else each for each in parts[1:]]
        return Annotated[(inner, *metas)]
    if origin in (Union, types.UnionType):
        return Union[tuple(_with_meta(part) for part in parts)]  # noqa: UP007 -- made of parts
    if parts and any(origin is each for each in _CONTAINERS):
        return origin[tuple(_with_meta(part) for part in parts)]
    return annotation


def _declared_values(annotation: Any, seen: dict[int, Any]) -> Iterator[list[Any]]:
    """The values of each Literal and each enum in a type, in the order in which people wrote them."""
    if id(annotation) in seen:
        return
    seen[id(annotation)] = annotation  # kept, so that no other object gets its id
    if get_origin(annotation) is Literal:
        yield list(get_args(annotation))
        return
    if isinstance(annotation, EnumType):
        yield [member.value for member in cast("Iterable[Enum]", annotation)]
        return
    parts: list[Any] = [each for each in get_args(annotation) if not isinstance(each, str)]
    kind = get_origin(annotation) or annotation
    if isinstance(kind, type) and hasattr(kind, "__annotations__"):
        # A name that cannot be resolved is msgspec's to refuse; here it only costs the order.
        with suppress(NameError, TypeError, AttributeError):
            parts += get_type_hints(kind, include_extras=True).values()
    for each in (*parts, getattr(annotation, "__supertype__", None), getattr(annotation, "__value__", None)):
        if each is not None:
            yield from _declared_values(each, seen)


def _fill_defaults(value: Any) -> None:
    """Make every field of the dataclasses in a value the instance's own.

    msgspec leaves a default to the class, where `vars` and msgspec itself do not find it again.
    """
    match value:
        case list() | tuple() | set() | frozenset():
            parts: Iterable[Any] = cast("list[Any]", value)
        case dict():
            parts = cast("dict[Any, Any]", value).values()
        case msgspec.Struct():
            parts = [getattr(value, name) for name in value.__struct_fields__]
        case _ if dataclasses.is_dataclass(value):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            parts = fields.values()
            if hasattr(value, "__dict__"):
                value.__dict__.update(fields)
        case _:
            return
    for each in parts:
        _fill_defaults(each)


def _tidy(schema: Any, orders: Sequence[list[Any]] = ()) -> Any:
    """The schema without what costs tokens and adds nothing: titles, which repeat names, and defaults of null.

    msgspec sorts the values of an enum. People put the usual one first, or give an order that means something, so they
    are as they were declared, unless two types declare the same values in different orders.
    """
    if not isinstance(schema, dict):
        return schema
    tidy: Json = {}
    for keyword, value in cast("Json", schema).items():
        if keyword in ("properties", "patternProperties", "$defs") and isinstance(value, dict):
            tidy[keyword] = {name: _tidy(each, orders) for name, each in cast("Json", value).items()}
        elif keyword in ("anyOf", "oneOf", "allOf", "prefixItems") and isinstance(value, list):
            tidy[keyword] = [_tidy(each, orders) for each in cast("list[Any]", value)]
        elif keyword in ("items", "additionalProperties"):
            tidy[keyword] = _tidy(value, orders)
        elif keyword == "enum":
            found = [
                [each for each in order if each in value] for order in orders if all(each in order for each in value)
            ]
            tidy[keyword] = found[0] if found and all(each == found[0] for each in found) else value
        elif keyword != "title" and not (keyword == "default" and value is None):
            tidy[keyword] = value
    return tidy


# ── the call ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _invoker(
    name: str, function: Callable[..., Any], called: Any, readers: dict[str, _Reader]
) -> Callable[[Json], Any]:
    def converted(arguments: Json) -> Json:
        read: Json = {}
        for parameter, value in arguments.items():
            reader = readers.get(parameter)
            if reader is None:
                continue  # a function without parameters has no schema that would refuse it
            try:
                read[parameter] = reader.read(value)
            except _Unfit as error:
                reason, inner = error.args
                path = f"$.{parameter}{inner.removeprefix('$')}"
                said = f"the arguments do not fit {name}: {path}: {reason}"
                raise ToolError(ErrorCode.TOOL_INVALID_ARGUMENTS, said, Position(path=path)) from error
        return read

    # Not what a decorator wraps, which it may have made synchronous: `asyncio.run` needs a thread without a loop.
    # A coroutine that comes out of the thread is awaited all the same.
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


# ── the docstring ───────────────────────────────────────────────────────────────────────────────────────────────────

# By hand: docstring-parser 0.18 loses the text after NumPy's parameters, does not read a docstring that begins with
# `Args:`, and cannot give back the sections that it parsed as they were written, which the model reads.

_PARAMETERS: Final = frozenset(
    {"args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters"}
)
# A model does not need to know what a function raises.
_DROPPED: Final = frozenset({"raises", "exceptions"})

_GOOGLE_HEADING: Final = re.compile(r"([A-Za-z][A-Za-z ]*):\s*")
# The names of an entry, and what follows on their line.
_GOOGLE_ENTRY: Final = re.compile(r"\*{0,2}(\w++)\s*+(?:\(.*?\)\s*+)?:(?:\s++(.*)|\s*)")
_NUMPY_ENTRY: Final = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?()")
_NUMPY_RULE: Final = re.compile(r"-{3,}\s*")
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
        google = heading[1].lower() if heading and (not following or following[:1].isspace()) else ""
        numpy = line.strip().lower() if _NUMPY_RULE.fullmatch(following) else ""
        if google in _PARAMETERS | _DROPPED:
            section, at = _indented(lines, at + 1)
            if google in _PARAMETERS:
                outer = min((_indent(each) for each in section if each.strip()), default=0)
                parameters |= _entries(section, _GOOGLE_ENTRY.fullmatch, outer)
        elif numpy in _PARAMETERS | _DROPPED:
            section, at = _numpy_section(lines, at + 2)
            if numpy in _PARAMETERS:
                parameters |= _entries(section, _NUMPY_ENTRY.fullmatch, 0)
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


def _numpy_section(lines: list[str], start: int) -> tuple[list[str], int]:
    end = start
    while end < len(lines):
        line, following = lines[end], lines[end + 1] if end + 1 < len(lines) else ""
        if line.strip() and _indent(line) == 0 and _NUMPY_RULE.fullmatch(following):
            break
        # Text at the left edge after an empty line that is not an entry continues the description.
        is_prose = _indent(following) == 0 and _NUMPY_ENTRY.fullmatch(following.strip()) is None
        if not line.strip() and is_prose:
            break
        end += 1
    return lines[start:end], end


def _entries(section: list[str], match: Callable[[str], re.Match[str] | None], indent: int) -> dict[str, str]:
    """What is said of each name of a section whose entries begin at this indentation."""
    entries: dict[str, list[str]] = {}
    current: list[str] = []
    for line in section:
        found = match(line.strip()) if _indent(line) == indent else None
        if found is None:
            current.append(line)
        else:
            current = [found[2] or ""]
            entries |= {name.strip().lstrip("*"): current for name in found[1].split(",")}
    return {name: _join(said) for name, said in entries.items()}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip()) if line.strip() else -1


def _join(lines: list[str]) -> str:
    return " ".join(filter(None, (line.strip() for line in lines)))
