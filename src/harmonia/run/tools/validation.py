"""Arguments against the JSON Schema of their tool. What does not fit is put into words by misfits.py.

The schema is compiled once. Nothing is ever fetched: a `$ref` that leads out of the schema is refused. A schema is of
the draft that it names; one that names none is of the first of 2020-12, 7 and 4 that accepts it, since many who write
tools have an older one in mind. `format` is not checked.

A stranger's schema is checked within a budget: it may be written so that checking never ends. Its regular expressions
are not tried at all, because nothing can stop one that has begun; what depends on them counts as fitting.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import cache, lru_cache, partial
from typing import Any, Final, cast
from urllib.parse import unquote, urlsplit

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.messages import Json
from harmonia.run.tools.misfits import json_path, misfit, nearest_fault, shorten
from harmonia.schema.work import WorkCancelled, spend

# Raises a ToolError with TOOL_INVALID_ARGUMENTS where the arguments do not fit, and an InputError where the schema
# turns out to be none.
Validate = Callable[[Any], None]
FindFaults = Callable[[Any], list[Any]]

_REMEMBERED_SCHEMAS: Final = 1024
# What one check of a stranger's schema may take: keywords that are looked at, each with the length of its value.
_STRANGERS_WORK: Final = 50_000
# What these say is no schema.
_DATA: Final = frozenset({"const", "enum", "default", "examples"})


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
            found = misfit(name, faults) if faults else None
        except _NoSchema as error:
            raise refused(error) from error
        except WorkCancelled:
            raise
        except Exception as error:
            # Both break in many ways on what is no schema. All that a draft knows was checked, but a `$ref` may lead
            # to a place that it does not know.
            reason = f"a $ref in it leads to what is none ({type(error).__name__})"
            raise refused(_NoSchema(reason, "$")) from error
        if found is not None:
            raise found

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
        return [nearest_fault(error, relevance) for error in found]

    return find_faults


def _check_schema(schema: Any, draft: Any) -> None:
    """Raises jsonschema's error for what is no schema of the draft. Drafts before 2019 know no `$defs`, which are
    checked all the same: whoever writes them means them."""
    from jsonschema import FormatChecker

    if "dependentRequired" not in draft.VALIDATORS:
        draft = _with_definitions(draft)
    # Not the formats of the schema itself: a pattern in JavaScript's dialect is right, though Python does not read it.
    draft.check_schema(schema, format_checker=FormatChecker(formats=()))


@cache
def _with_definitions(draft: Any) -> Any:
    from jsonschema import validators

    definitions = {"type": "object", "additionalProperties": {"$ref": "#"}}
    known = {**draft.META_SCHEMA, "properties": {**draft.META_SCHEMA["properties"], "$defs": definitions}}
    create: Any = cast("Any", validators).create
    return create(known, draft.VALIDATORS, type_checker=draft.TYPE_CHECKER, id_of=draft.ID_OF)


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
        spend(0)
        _BUDGET.left -= cost
        if _BUDGET.left < 0:
            raise _NoSchema("checking a value against it takes too much work", "$")
        if keyword in _PATTERNS or (keyword == "additionalProperties" and "patternProperties" in schema):
            return
        yield from find(validator, expected, value, schema) or ()

    return find_within


def _exact(number: int | float) -> Fraction:
    return Fraction(number if isinstance(number, int) else repr(number))


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
