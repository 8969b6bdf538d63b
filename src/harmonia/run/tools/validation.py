"""Arguments against the JSON Schema of their tool: what does not fit, said so that a model can mend it.

The schema is compiled once. Nothing is ever fetched: a `$ref` that leads out of the schema is refused. A schema is of
the draft that it names; one that names none is of the first of 2020-12, 7 and 4 that accepts it, since many who write
tools have an older one in mind. `format` is not checked.

A stranger's schema is checked within a budget: it may be written so that checking never ends. Its regular expressions
are not tried at all, because nothing can stop one that has begun; what depends on them counts as fitting.
"""

from __future__ import annotations

import difflib
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Final, cast
from urllib.parse import unquote, urlsplit

from harmonia.errors import ErrorCode, InputError, Position, ToolError
from harmonia.messages import Json

# Raises a ToolError with TOOL_INVALID_ARGUMENTS where the arguments do not fit, and an InputError where the schema
# turns out to be none.
Validate = Callable[[Any], None]
FindFaults = Callable[[Any], list[Any]]

_REMEMBERED_SCHEMAS: Final = 1024
_SHOWN_FAULTS: Final = 3
_SHOWN_CHARS: Final = 120
_SHOWN_NAMES: Final = 20
# What one check of a stranger's schema may take: keywords that are looked at, each with the length of its value.
_STRANGERS_WORK: Final = 50_000
# What these say is no schema.
_DATA: Final = frozenset({"const", "enum", "default", "examples"})
_WORD: Final = re.compile(r"[A-Za-z_$][\w$]*")


def compile_schema(
    name: str,
    schema: Json | bool,
    *,
    is_strangers: bool = False,
    is_answers: bool = False,
    is_demanded: bool = False,
) -> Validate:
    """What checks the arguments of the tool `name`, or with `is_answers` an answer of the form `name`. Raises an
    InputError for what is no JSON Schema.

    With `is_strangers`, checking takes bounded work, and raises an InputError where that is not enough. With
    `is_demanded`, a model is to be held to the schema, so that each `$ref` in it has to lead somewhere; otherwise one
    that leads nowhere shows when a value gets there.
    """

    def refused(error: _NoSchema) -> InputError:
        if is_answers:
            said = f"the schema of the form {name} is no JSON Schema: {error.reason}"
            return InputError(ErrorCode.RUN_INVALID_OPTION, said, Position(path=error.path))
        return _invalid(name, error.reason, error.path)

    try:
        find_faults = _fault_finder(schema, is_strangers=is_strangers)
        if is_demanded:
            _refuse_lost(schema)
    except _NoSchema as error:
        raise refused(error) from error

    def validate(arguments: Any) -> None:
        try:
            faults = find_faults(arguments)
            misfit = _misfit(name, faults) if faults else None
        except _NoSchema as error:
            raise refused(error) from error
        except Exception as error:
            # Both break in many ways on what is no schema. All that a draft knows was checked, but a `$ref` may lead
            # to a place that it does not know.
            reason = f"a $ref in it leads to what is none ({type(error).__name__})"
            raise refused(_NoSchema(reason, "$")) from error
        if misfit is not None:
            raise misfit

    return validate


def schema_fault(schema: Json | bool) -> tuple[str, str] | None:
    """Why something is no JSON Schema, and its path; None where it is one, or nobody can tell."""
    try:
        _fault_finder(schema, is_strangers=True)
        _refuse_lost(schema)
    except _NoSchema as error:
        return error.reason, error.path
    except InputError:
        return None  # without jsonschema
    return None


class MisfitError(ToolError):
    """A value that does not fit its schema. `reason` says why, and has no word in it but the schema's."""

    def __init__(self, message: str, at: Position, reason: str | None) -> None:
        super().__init__(ErrorCode.TOOL_INVALID_ARGUMENTS, message, at)
        self.reason = reason


class _NoSchema(Exception):
    def __init__(self, reason: str, path: str) -> None:
        super().__init__(reason, path)
        self.reason = reason
        self.path = path


def _fault_finder(schema: Json | bool, *, is_strangers: bool) -> FindFaults:
    try:
        document = json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise _NoSchema(f"it is not JSON: {error}", "$") from error
    _refuse_remote(schema)
    return _compile(document, is_strangers=is_strangers)


# A server makes the same tools for every request; checking a schema against that of its draft takes milliseconds.
@lru_cache(maxsize=_REMEMBERED_SCHEMAS)
def _compile(document: str, *, is_strangers: bool) -> FindFaults:
    """What finds the faults of arguments, the most telling first."""
    try:
        from jsonschema import Draft4Validator, Draft7Validator, Draft202012Validator, validators
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
    faults: list[SchemaError] = []
    for draft in drafts:
        try:
            _check_schema(schema, draft)
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
    find_referenced = draft.VALIDATORS["$ref"]
    keywords: dict[str, Any] = {
        **draft.VALIDATORS,
        "multipleOf": _find_no_multiple,
        "$ref": partial(_follow, find_referenced),
    }
    if is_strangers:
        keywords = {keyword: _within_budget(keyword, find) for keyword, find in keywords.items()}
    kind: Any = cast("Any", validators).extend(draft, keywords)
    validator: Any = kind(schema, registry=registry)

    def find_faults(arguments: Any) -> list[Any]:
        _BUDGET.left = _STRANGERS_WORK
        try:
            found = sorted(validator.iter_errors(arguments), key=relevance, reverse=True)
        except re.error:
            return []  # such a pattern; the tool itself has to look
        except Unresolvable as error:
            # Of a place within the schema, the error has what stands behind the `#`.
            reference = f"#{error.ref}" if error.ref.startswith("/") else error.ref
            raise _NoSchema(f"$ref leads to {shorten(reference)}, and nothing is there", "$") from error
        except RecursionError as error:
            raise _NoSchema("it cannot be followed: it nests too deep", "$") from error
        return [_best(error, relevance) for error in found]

    return find_faults


def _check_schema(schema: Any, draft: Any) -> None:
    """Raises jsonschema's error for what is no schema of the draft. Drafts before 2019 know no `$defs`, which are
    checked all the same: whoever writes them means them."""
    from jsonschema import FormatChecker, validators

    if "dependentRequired" not in draft.VALIDATORS:
        definitions = {"type": "object", "additionalProperties": {"$ref": "#"}}
        known = {**draft.META_SCHEMA, "properties": {**draft.META_SCHEMA["properties"], "$defs": definitions}}
        create: Any = cast("Any", validators).create
        draft = create(known, draft.VALIDATORS, type_checker=draft.TYPE_CHECKER, id_of=draft.ID_OF)
    # Not the formats of the schema itself: a pattern in JavaScript's dialect is right, though Python does not read it.
    draft.check_schema(schema, format_checker=FormatChecker(formats=()))


def _follow(find: Callable[..., Iterable[Any] | None], validator: Any, reference: Any, *others: Any) -> Iterable[Any]:
    """A `$ref`, which the schema of an old draft admits to be anything."""
    if not isinstance(reference, str):
        raise _NoSchema("$ref is no text", "$")
    return find(validator, reference, *others) or ()


def _find_no_multiple(validator: Any, divisor: Any, value: Any, _schema: Any) -> Iterable[Any]:
    """Multiples as they are written: jsonschema divides floats, to which 19.99 is no multiple of 0.01."""
    from jsonschema.exceptions import ValidationError

    if validator.is_type(value, "number") and _exact(value) % _exact(divisor):
        yield ValidationError(f"{value!r} is not a multiple of {divisor!r}")


class _Budget(threading.local):
    left: int = _STRANGERS_WORK


_BUDGET: Final = _Budget()
# Their own work is that of a regular expression.
_PATTERNS: Final = ("pattern", "patternProperties", "unevaluatedProperties")


def _within_budget(keyword: str, find: Callable[..., Iterable[Any] | None]) -> Callable[..., Iterable[Any]]:
    """The keyword of a stranger's schema, which is paid for each time that it is looked at."""

    def find_within(validator: Any, expected: Any, value: Any, schema: Any) -> Iterable[Any]:
        cost = 1 + (len(cast("list[Any]", expected)) if isinstance(expected, list | dict) else 0)
        if keyword == "uniqueItems" and isinstance(value, list):
            cost += len(cast("list[Any]", value)) ** 2
        _BUDGET.left -= cost
        if _BUDGET.left < 0:
            raise _NoSchema("checking a value against it takes too much work", "$")
        if keyword in _PATTERNS or (keyword == "additionalProperties" and "patternProperties" in schema):
            return
        yield from find(validator, expected, value, schema) or ()

    return find_within


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
    return MisfitError(message, Position(path=path), _reason(faults[0]))


def _reason(fault: Any) -> str | None:
    """Why a value does not fit, in words of the schema alone: what was said of the value may be the model's."""
    expected: object = fault.validator_value
    if fault.validator == "required" and isinstance(expected, list):
        missing = [each for each in cast("list[str]", expected) if each not in fault.instance]
        return f"it lacks {list_names(missing)}"
    return f"{fault.validator} is not met" if isinstance(fault.validator, str) else None


def _describe(fault: Any) -> str:
    path = json_path(fault.absolute_path)
    value, expected, schema = fault.instance, fault.validator_value, cast("dict[str, Any]", fault.schema)
    match fault.validator:
        case "type":
            types = expected if isinstance(expected, str) else " or ".join(cast("list[str]", expected))
            return f"{path} is {show_value(value)}, which is of type {_type_of(value)}; expected {types}"
        case "required" if isinstance(expected, list):  # the third draft has a boolean
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


def _refuse_remote(schema: Json | bool) -> None:
    """Refuse what leads out of the schema, and what is no address at all, on which jsonschema would break."""
    for fields, steps in _objects_in(schema):
        # An object or a boolean may be the schema of a property of this name; see `_follow`.
        if not isinstance(fields.get("$ref", ""), str | dict | bool):
            raise _NoSchema("$ref is no text", json_path((*steps, "$ref")))
        for keyword in ("$schema", "$id", "id"):
            if not _is_address(fields.get(keyword)):
                raise _NoSchema(f"{keyword} is no address", json_path((*steps, keyword)))
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            reference = fields.get(keyword)
            if isinstance(reference, str) and ("://" in reference or reference.startswith("//")):
                said = f"{keyword} leads to {reference}, and nothing is fetched"
                raise _NoSchema(said, json_path((*steps, keyword)))


def _is_address(given: object) -> bool:
    """Whether a text can be read as an address. What is no text is for the schema of schemas."""
    try:
        urlsplit(given if isinstance(given, str) else "")
    except ValueError:
        return False
    return True


def _refuse_lost(schema: Json | bool) -> None:
    """Refuse a `$ref` to a place that is not in the schema. Only places are looked for: what an anchor or an `$id`
    means is for whoever follows it."""
    objects = list(_objects_in(schema))
    if any(isinstance(fields.get(name), str) for fields, steps in objects if steps for name in ("$id", "id")):
        return
    for fields, steps in objects:
        reference: object = fields.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/") and not _leads_somewhere(reference, schema):
            said = f"$ref leads to {shorten(reference)}, and nothing is there"
            raise _NoSchema(said, json_path((*steps, "$ref")))


def _leads_somewhere(reference: str, schema: object) -> bool:
    place: Any = schema
    for step in unquote(reference[2:]).split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        try:
            place = cast("list[Any]", place)[int(name)] if isinstance(place, list) else place[name]
        except (KeyError, IndexError, ValueError, TypeError):
            return False
    return True


def _objects_in(schema: Json | bool) -> Iterator[tuple[dict[str, Any], tuple[str | int, ...]]]:
    """The objects of a schema that may be schemas, with the ways to them."""
    parts: list[tuple[Any, tuple[str | int, ...]]] = [(schema, ())]
    while parts:
        part, steps = parts.pop()
        if isinstance(part, dict):
            fields = cast("dict[str, Any]", part)
            yield fields, steps
            parts += [(each, (*steps, str(key))) for key, each in fields.items() if key not in _DATA]
        elif isinstance(part, list):
            parts += [(each, (*steps, index)) for index, each in enumerate(cast("list[Any]", part))]


def _invalid(name: str, reason: str, path: str) -> InputError:
    return InputError(
        ErrorCode.TOOL_INVALID_DEFINITION,
        f"the parameters of {name} are no JSON Schema: {reason}",
        Position(path=f"$.parameters{path.removeprefix('$')}"),
    )
