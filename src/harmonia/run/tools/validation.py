"""Arguments against the JSON Schema of their tool: what does not fit, said so that a model can mend it.

The schema is compiled once. Nothing is ever fetched: a `$ref` that leads out of the schema is refused. A schema is of
the draft that it names; one that names none is of the first of 2020-12, 7 and 4 that accepts it, since many who write
tools have an older one in mind. `format` is not checked.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, cast

from harmonia.errors import ErrorCode, InputError, Position, ToolError
from harmonia.messages import Json

# Raises a ToolError with TOOL_INVALID_ARGUMENTS where the arguments do not fit, and an InputError where the schema
# turns out to be none.
Validate = Callable[[Any], None]

_REMEMBERED_SCHEMAS: Final = 1024
_SHOWN_FAULTS: Final = 3
_SHOWN_CHARS: Final = 120
_SHOWN_NAMES: Final = 20
# What these say is no schema.
_DATA: Final = frozenset({"const", "enum", "default", "examples"})
_WORD: Final = re.compile(r"[A-Za-z_$][\w$]*")


def compile_schema(name: str, schema: Json | bool) -> Validate:
    """What checks the arguments of the tool `name`. Raises an InputError for what is no JSON Schema."""
    try:
        document = json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise _invalid(name, f"it is not JSON: {error}", "$") from error
    _refuse_remote(name, schema)
    try:
        find_faults = _compile(document)
    except _NoSchema as error:
        raise _invalid(name, error.reason, error.path) from error

    def validate(arguments: Any) -> None:
        try:
            faults = find_faults(arguments)
        except _NoSchema as error:
            raise _invalid(name, error.reason, error.path) from error
        if faults:
            raise _misfit(name, faults)

    return validate


class _NoSchema(Exception):
    def __init__(self, reason: str, path: str) -> None:
        super().__init__(reason, path)
        self.reason = reason
        self.path = path


# A server makes the same tools for every request; checking a schema against that of its draft takes milliseconds.
@lru_cache(maxsize=_REMEMBERED_SCHEMAS)
def _compile(document: str) -> Callable[[Any], list[Any]]:
    """What finds the faults of arguments, the most telling first."""
    try:
        from jsonschema import Draft4Validator, Draft7Validator, Draft202012Validator, FormatChecker, validators
        from jsonschema.exceptions import SchemaError, relevance
        from jsonschema.validators import validator_for
        from referencing import Registry
        from referencing.exceptions import Unresolvable
    except ImportError as error:
        raise InputError(
            ErrorCode.TOOL_MISSING_EXTRA, "checking arguments needs jsonschema: pip install 'harmonia[run]'"
        ) from error

    schema: Any = json.loads(document)
    drafts: list[Any] = [Draft202012Validator, Draft7Validator, Draft4Validator]
    if isinstance(schema, dict) and isinstance(cast("Json", schema).get("$schema"), str):
        drafts = [validator_for(cast("Json", schema), default=Draft202012Validator)]
    # Not the formats of the schema itself: a pattern in JavaScript's dialect is right, though Python does not read it.
    no_formats = FormatChecker(formats=())
    faults: list[SchemaError] = []
    for draft in drafts:
        try:
            draft.check_schema(schema, format_checker=no_formats)
        except SchemaError as fault:
            faults.append(fault)
        except RecursionError as error:
            raise _NoSchema("it nests too deep", "$") from error
        else:
            break
    else:
        raise _NoSchema(faults[0].message, json_path(faults[0].absolute_path))
    # An empty registry of its own: without one, jsonschema would fetch what a `$ref` names.
    registry: Registry[Any] = Registry()
    kind: Any = cast("Any", validators).extend(draft, {"multipleOf": _find_no_multiple})
    validator: Any = kind(schema, registry=registry)

    def find_faults(arguments: Any) -> list[Any]:
        try:
            found = sorted(validator.iter_errors(arguments), key=relevance, reverse=True)
        except re.error:
            return []  # such a pattern; the tool itself has to look
        except (Unresolvable, RecursionError) as error:
            raise _NoSchema(f"it cannot be followed: {error}", "$") from error
        return [_best(error, relevance) for error in found]

    return find_faults


def _find_no_multiple(validator: Any, divisor: Any, value: Any, _schema: Any) -> Iterable[Any]:
    """Multiples as they are written: jsonschema divides floats, to which 19.99 is no multiple of 0.01."""
    from jsonschema.exceptions import ValidationError

    if validator.is_type(value, "number") and _exact(value) % _exact(divisor):
        yield ValidationError(f"{value!r} is not a multiple of {divisor!r}")


def _exact(number: int | float) -> Fraction:
    return Fraction(number if isinstance(number, int) else repr(number))


def json_path(steps: Iterable[str | int]) -> str:
    """A JSON path: `$.items[0].name`."""
    return "$" + "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" if _WORD.fullmatch(step) else f"[{json.dumps(step)}]"
        for step in steps
    )


def nearest(word: str, names: Iterable[str]) -> list[str]:
    """The names, those first that look most like the word."""
    word = word[:_SHOWN_CHARS]  # a model may write without end, and comparing is not linear

    def unlikeness(name: str) -> tuple[float, str]:
        # A model often has the right tool in the wrong namespace.
        pairs = ((word, name), (word.rpartition(".")[2], name.rpartition(".")[2]))
        return -max(difflib.SequenceMatcher(None, a.lower(), b.lower()).ratio() for a, b in pairs), name

    return sorted(names, key=unlikeness)


def list_names(names: Sequence[str]) -> str:
    """The names in a sentence; of many, the first, and how many more there are."""
    shown = ", ".join(map(shorten, names[:_SHOWN_NAMES]))
    rest = len(names) - _SHOWN_NAMES
    return f"{shown} and {rest} more" if rest > 0 else shown


def show_value(value: Any) -> str:
    """A JSON value as JSON, cut where it is long."""
    return shorten(json.dumps(value, ensure_ascii=False, default=str))


def shorten(text: str) -> str:
    """The beginning of a text that may be of any length."""
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


# ── faults in words ─────────────────────────────────────────────────────────────────────────────────────────────────


def _best(error: Any, relevance: Callable[[Any], Any]) -> Any:
    """Of a union that nothing fits, the fault inside the member that comes nearest, if one does."""
    while error.context and error.validator in ("anyOf", "oneOf"):
        members: dict[Any, list[Any]] = {}
        for inner in error.context:
            members.setdefault(inner.schema_path[0], []).append(inner)
        # A member of another type is not what the model tried; what is left must be one.
        tried = [faults for faults in members.values() if not any(f.validator == "type" and not f.path for f in faults)]
        if len(tried) > 1:
            # Members are often told apart by a literal, such as `"kind": "circle"`.
            tried = [faults for faults in tried if not any(f.validator in ("const", "enum") for f in faults)]
        if len(tried) != 1:
            break
        error = max(tried[0], key=relevance)
    return error


def _misfit(name: str, faults: list[Any]) -> ToolError:
    said = "; ".join(dict.fromkeys(_describe(fault) for fault in faults[:_SHOWN_FAULTS]))
    rest = len(faults) - _SHOWN_FAULTS
    more = f"; and {rest} more" if rest > 0 else ""
    path = json_path(faults[0].absolute_path)
    message = f"the arguments do not fit {name}: {said}{more}"
    return ToolError(ErrorCode.TOOL_INVALID_ARGUMENTS, message, Position(path=path))


def _describe(fault: Any) -> str:
    path = json_path(fault.absolute_path)
    value, expected, schema = fault.instance, fault.validator_value, cast("dict[str, Any]", fault.schema)
    match fault.validator:
        case "type":
            types = expected if isinstance(expected, str) else " or ".join(cast("list[str]", expected))
            return f"{path} is {show_value(value)}, which is of type {_type_of(value)}; expected {types}"
        case "required":
            missing = [each for each in cast("list[str]", expected) if each not in value]
            given = list_names(list(value)) or "nothing"
            return f"{path} lacks {list_names(missing)}; it has {given}"
        case "enum":
            choice = ", ".join(show_value(each) for each in cast("list[Any]", expected)[:_SHOWN_NAMES])
            return f"{path} is {show_value(value)}; expected one of {choice}"
        case "const":
            return f"{path} is {show_value(value)}; expected {show_value(expected)}"
        case "additionalProperties" if expected is False:
            known = list(cast("dict[str, Any]", schema.get("properties", {})))
            patterns = list(cast("dict[str, Any]", schema.get("patternProperties", {})))
            extra = [
                each
                for each in cast("dict[str, Any]", value)
                if each not in known and not any(re.search(pattern, each) for pattern in patterns)
            ]
            names = nearest(extra[0], known) if known and extra else []
            names += [f"names that match {pattern}" for pattern in patterns]
            return f"{path} has {list_names(extra)}, which it does not take; it takes {list_names(names) or 'none'}"
        case "anyOf" | "oneOf":
            return f"{path} is {show_value(value)}, which fits none of {show_value(expected)}"
        case False | None:
            return f"{path} is {show_value(value)}; nothing is allowed here"
        case keyword:
            return f"{path} is {show_value(value)}; expected {keyword} {show_value(expected)}"


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _refuse_remote(name: str, schema: Json | bool) -> None:
    parts: list[tuple[Any, tuple[str | int, ...]]] = [(schema, ())]
    while parts:
        part, steps = parts.pop()
        if isinstance(part, dict):
            fields = cast("dict[str, Any]", part)
            for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
                reference = fields.get(keyword)
                if isinstance(reference, str) and ("://" in reference or reference.startswith("//")):
                    where = json_path((*steps, keyword))
                    raise _invalid(name, f"{keyword} leads to {reference}, and nothing is fetched", where)
            parts += [(each, (*steps, str(key))) for key, each in fields.items() if key not in _DATA]
        elif isinstance(part, list):
            parts += [(each, (*steps, index)) for index, each in enumerate(cast("list[Any]", part))]


def _invalid(name: str, reason: str, path: str) -> InputError:
    return InputError(
        ErrorCode.TOOL_INVALID_DEFINITION,
        f"the parameters of {name} are no JSON Schema: {reason}",
        Position(path=f"$.parameters{path.removeprefix('$')}"),
    )
