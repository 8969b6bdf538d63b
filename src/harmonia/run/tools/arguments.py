"""Arguments against the JSON Schema of their tool. What does not fit is reported so that a model can mend it.

The schema is compiled once. Nothing is ever fetched: a `$ref` that leads out of the schema is refused. A schema is of
the draft that it names; one that names none is of the first of 2020-12, 7 and 4 that accepts it, since many who write
tools have an older one in mind. `format` is not checked.

An untrusted schema is checked within a budget: it may be written so that checking never ends. Its regular expressions
are not tried at all, because nothing can stop one that has begun; what depends on them counts as fitting.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cache, lru_cache, partial
from typing import Any, Final, cast
from urllib.parse import unquote, urlsplit

from harmonia.errors import ErrorCode, InputError, Position, ToolError
from harmonia.json_codec import json_path
from harmonia.messages import Json
from harmonia.parts import Call
from harmonia.run.tools.tool import Tool
from harmonia.schema.work_budget import WorkCancelled, bounded_work, check_cancelled, spend

# Raises a ToolError with TOOL_INVALID_ARGUMENTS where the arguments do not fit, and an InputError where the schema
# turns out to be invalid.
Validate = Callable[[Any], None]
_FindFaults = Callable[[Any], list[Any]]

_REMEMBERED_SCHEMAS: Final = 1024
# What one check of an untrusted schema may take: keywords that are looked at, each with the length of its value.
_UNTRUSTED_WORK: Final = 50_000
# Their values are data, not schemas.
_DATA: Final = frozenset({"const", "enum", "default", "examples"})


def compile_schema(
    name: str,
    schema: Json | bool,
    *,
    untrusted: bool = False,
    is_answers: bool = False,
    is_demanded: bool = False,
) -> Validate:
    """What checks the arguments of the tool `name`, or with `is_answers` an answer of the form `name`. Raises an
    InputError for an invalid JSON Schema.

    With `untrusted`, checking takes bounded work, and raises an InputError where that is not enough. With
    `is_demanded`, a model is to be held to the schema, so each `$ref` in it has to lead somewhere; otherwise one that
    leads nowhere is reported when a value gets there.
    """

    def refused(error: _InvalidSchema) -> InputError:
        reason, path = error.args
        if is_answers:
            said = f"the schema of the format {name} is not a valid JSON Schema: {reason}"
            return InputError(ErrorCode.RUN_INVALID_OPTION, said, Position(path=path))
        said = f"the parameters of {name} are not a valid JSON Schema: {reason}"
        at = Position(path=f"$.parameters{path.removeprefix('$')}")
        return InputError(ErrorCode.TOOL_INVALID_DEFINITION, said, at)

    try:
        find_faults = _fault_finder(schema, untrusted=untrusted, is_demanded=is_demanded)
    except _InvalidSchema as error:
        raise refused(error) from error

    def validate(arguments: Any) -> None:
        try:
            faults = find_faults(arguments)
            found = misfit(name, faults) if faults else None
        except _InvalidSchema as error:
            raise refused(error) from error
        except WorkCancelled:
            raise
        except Exception as error:
            # Both fail in many ways on an invalid schema. All that a draft knows was checked, but a `$ref` may lead
            # to a place that it does not know.
            reason = f"a $ref in it points to something that is not a schema ({type(error).__name__})"
            raise refused(_InvalidSchema(reason, "$")) from error
        if found is not None:
            raise found

    return validate


def schema_fault(schema: Json | bool) -> tuple[str, str] | None:
    """Why a JSON Schema is invalid, and the path; None where it is valid, or jsonschema is not installed."""
    try:
        _fault_finder(schema, untrusted=True, is_demanded=True)
    except _InvalidSchema as error:
        return cast("tuple[str, str]", error.args)
    except InputError:
        return None  # without jsonschema
    return None


class _InvalidSchema(Exception):
    """Its arguments are the reason, and the JSON path of what is wrong."""


def _fault_finder(schema: Json | bool, *, untrusted: bool, is_demanded: bool) -> _FindFaults:
    try:
        document = json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise _InvalidSchema(f"it is not JSON: {error}", "$") from error
    _refuse_remote(schema)
    find_faults = _compile(document, untrusted=untrusted)
    if is_demanded:
        _refuse_lost(schema)
    return find_faults


# A server makes the same tools for every request; checking a schema against that of its draft takes milliseconds.
@lru_cache(maxsize=_REMEMBERED_SCHEMAS)
def _compile(document: str, *, untrusted: bool) -> _FindFaults:
    """What finds the faults of arguments, the most telling first."""
    try:
        from jsonschema import Draft4Validator, Draft7Validator, Draft202012Validator, validators
        from jsonschema.exceptions import relevance
        from jsonschema.validators import validator_for
        from referencing import Registry
        from referencing.exceptions import Unresolvable
    except ImportError as error:
        said = "checking arguments needs jsonschema: pip install 'harmonia[run]'"
        raise InputError(ErrorCode.TOOL_MISSING_EXTRA, said) from error

    schema: Any = json.loads(document)
    drafts: list[Any] = [Draft202012Validator, Draft7Validator, Draft4Validator]
    if isinstance(schema, dict) and isinstance(cast("Json", schema).get("$schema"), str):
        drafts = [validator_for(cast("Json", schema), default=Draft202012Validator)]
    faults: list[Any] = []
    for draft in drafts:
        try:
            # Formats are not checked: a pattern in JavaScript's dialect is right, though Python does not read it.
            fault: Any = next(_schema_validator(draft).iter_errors(schema), None)
        except RecursionError as error:
            raise _InvalidSchema("it is nested too deeply", "$") from error
        if fault is None:
            break
        faults.append(fault)
    else:
        raise _InvalidSchema(faults[0].message, json_path(faults[0].absolute_path))
    keywords: dict[str, Any] = {
        **draft.VALIDATORS,
        "multipleOf": _find_no_multiple,
        "uniqueItems": _find_repeated,
        "$ref": partial(_follow, draft.VALIDATORS["$ref"]),
    }
    if untrusted:
        keywords = {keyword: _within_budget(keyword, find) for keyword, find in keywords.items()}
    # An empty registry of its own: without one, jsonschema would fetch what a `$ref` names.
    registry: Registry[Any] = Registry()
    validator: Any = cast("Any", validators).extend(draft, keywords)(schema, registry=registry)

    def find_faults(arguments: Any) -> list[Any]:
        try:
            with bounded_work(_UNTRUSTED_WORK):
                found = sorted(validator.iter_errors(arguments), key=relevance, reverse=True)
        except re.error:
            return []  # such a pattern; the tool itself has to look
        except Unresolvable as error:
            # Of a place within the schema, the error has what follows the `#`.
            reference = f"#{error.ref}" if error.ref.startswith("/") else error.ref
            raise _InvalidSchema(f"$ref points to {shorten(reference)}, which does not exist", "$") from error
        except RecursionError as error:
            raise _InvalidSchema("it cannot be resolved: it is nested too deeply", "$") from error
        except InputError as error:
            raise _InvalidSchema("checking a value against it takes too much work", "$") from error
        return [nearest_fault(error, relevance) for error in found]

    return find_faults


@cache
def _schema_validator(draft: Any) -> Any:
    """What checks a schema against the meta-schema of its draft. Drafts before 2019 do not know `$defs`, which are
    checked all the same: whoever writes them means them."""
    from jsonschema import validators

    known: Json = draft.META_SCHEMA
    if "dependentRequired" not in draft.VALIDATORS:
        definitions = {"type": "object", "additionalProperties": {"$ref": "#"}}
        known = {**known, "properties": {**known["properties"], "$defs": definitions}}

    def cancellable(find: Any) -> Any:
        def find_until_cancelled(*given: Any) -> Iterable[Any]:
            check_cancelled()
            return find(*given) or ()

        return find_until_cancelled

    keywords = {keyword: cancellable(find) for keyword, find in draft.VALIDATORS.items()}
    keywords["uniqueItems"] = _find_repeated
    return cast("Any", validators).extend(draft, keywords)(known)


def _follow(find: Callable[..., Iterable[Any] | None], validator: Any, reference: Any, *others: Any) -> Iterable[Any]:
    """A `$ref`, which the meta-schema of an old draft admits to be anything."""
    if not isinstance(reference, str):
        raise _InvalidSchema("$ref is not a string", "$")
    return find(validator, reference, *others) or ()


def _find_no_multiple(validator: Any, divisor: Any, value: Any, _schema: Any) -> Iterable[Any]:
    """Multiples as they are written: jsonschema divides floats, to which 19.99 is not a multiple of 0.01."""
    from jsonschema.exceptions import ValidationError

    def exact(number: int | float) -> Fraction:
        return Fraction(number if isinstance(number, int) else repr(number))

    if validator.is_type(value, "number") and exact(value) % exact(divisor):
        yield ValidationError(f"{value!r} is not a multiple of {divisor!r}")


def _find_repeated(validator: Any, is_unique: Any, value: Any, _schema: Any) -> Iterable[Any]:
    """Linear: jsonschema compares every item with every other one, unless they can be sorted."""
    from jsonschema.exceptions import ValidationError

    if not is_unique or not validator.is_type(value, "array"):
        return
    # The set holds strings, because an attacker cannot make their hashes collide.
    if len({json.dumps(with_integers(item), sort_keys=True) for item in value}) < len(value):
        yield ValidationError(f"{value!r} has non-unique elements")


def with_integers(value: Any) -> Any:
    """The value in a form in which equal JSON values are written alike: 1.0 as 1."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, list):
        return [with_integers(each) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: with_integers(each) for key, each in cast("Json", value).items()}
    return value


# Their own work is that of a regular expression.
_PATTERNS: Final = ("pattern", "patternProperties", "unevaluatedProperties")
# Keywords whose expected value is data, which is compared with the value.
_COMPARED: Final = ("const", "enum", "dependentRequired", "dependencies")
# Keywords that look at every item or property of the value.
_FOR_EACH: Final = frozenset(
    ("items", "additionalItems", "contains", "unevaluatedItems", "additionalProperties", "propertyNames")
)
# The message of a fault quotes the value, and quoting so many values costs as much as one step of checking. The faults
# of some keywords quote only names.
_QUOTED_PER_STEP: Final = 16
_QUOTE_NAMES: Final = ("required", "dependentRequired", "dependencies")


def _within_budget(keyword: str, find: Callable[..., Iterable[Any] | None]) -> Callable[..., Iterable[Any]]:
    """The keyword of an untrusted schema, which is paid for each time that it is looked at."""

    def find_within(validator: Any, expected: Any, value: Any, schema: Any) -> Iterable[Any]:
        spend(1 + (_size(expected) if keyword in _COMPARED else _length(expected)))
        if keyword in _FOR_EACH:
            spend(_length(value))
        elif keyword == "uniqueItems":
            spend(_size(value))
        if keyword in _PATTERNS or (keyword == "additionalProperties" and "patternProperties" in schema):
            return
        quoted: int | None = None
        for fault in find(validator, expected, value, schema) or ():
            # A fault that has a keyword comes from a subschema, which has paid for it.
            if keyword not in _QUOTE_NAMES and not isinstance(fault.validator, str):
                quoted = _size(value) if quoted is None else quoted
                spend(quoted // _QUOTED_PER_STEP)
            yield fault

    return find_within


def _length(value: Any) -> int:
    return len(cast("list[Any]", value)) if isinstance(value, list | dict) else 0


def _size(value: Any) -> int:
    """How many values it has, itself and all inside it."""
    count, parts = 0, [value]
    while parts:
        part = parts.pop()
        count += 1
        if isinstance(part, dict):
            parts += cast("Json", part).values()
        elif isinstance(part, list):
            parts += cast("list[Any]", part)
    return count


def _refuse_remote(schema: Json | bool) -> None:
    """Refuse references out of the schema, and invalid URIs, on which jsonschema would fail."""
    for fields, steps in _objects_in(schema):
        # An object or a boolean may be the schema of a property of this name; see `_follow`.
        if not isinstance(fields.get("$ref", ""), str | dict | bool):
            raise _InvalidSchema("$ref is not a string", json_path((*steps, "$ref")))
        for keyword in ("$schema", "$id", "id"):
            given = fields.get(keyword)
            try:
                urlsplit(given if isinstance(given, str) else "")  # what is not a text is for the meta-schema
            except ValueError:
                raise _InvalidSchema(f"{keyword} is not a valid URI", json_path((*steps, keyword))) from None
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            reference = fields.get(keyword)
            if isinstance(reference, str) and ("://" in reference or reference.startswith("//")):
                said = f"{keyword} points to {reference}, but references are not fetched; put the definition into $defs"
                raise _InvalidSchema(said, json_path((*steps, keyword)))


def _refuse_lost(schema: Json | bool) -> None:
    """Refuse a `$ref` to a place that is not in the schema. Only places are looked for: what an anchor or an `$id`
    means is for whoever follows it."""
    objects = list(_objects_in(schema))
    if any(isinstance(fields.get(name), str) for fields, steps in objects if steps for name in ("$id", "id")):
        return
    for fields, steps in objects:
        reference: object = fields.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/") and not _leads_somewhere(reference, schema):
            said = f"$ref points to {shorten(reference)}, which does not exist"
            raise _InvalidSchema(said, json_path((*steps, "$ref")))


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


# The argument that has the text, where it stands in a JSON object.
INPUT: Final = "input"


def text_for(tool: Tool, call: Call) -> str:
    """The text of a call. One that has to have a form is what was checked against it, without its wrapping."""
    return call.text if tool.text_form is None else unwrap_input(call.text)


def unwrap_input(text: str) -> str:
    """What is meant for a tool that takes text: models may write it as a JSON text, or as an object with one text."""
    stripped = text.strip()
    if stripped[:1] not in ('"', "{"):
        return text
    try:
        value: Any = json.loads(stripped)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, dict):
        given = cast("Json", value)
        value = given[INPUT] if set(given) == {INPUT} else None
    return value if isinstance(value, str) else text


def texts_of(tool: Tool, call: Call) -> tuple[str, ...]:
    """What may be meant as the text of a call, which has to have the tool's form; nothing where no text is there.

    Models wrap texts at times, and what is meant is in there. A model of another family calls with JSON only: then the
    tool takes an object with nothing but the text in it.
    """
    if tool.takes == "text":
        return tuple(dict.fromkeys((call.text, unwrap_input(call.text))))
    arguments: Any = call.value
    if not isinstance(arguments, dict) or not isinstance(tool.parameters, dict):
        return ()
    given = cast("Json", arguments)
    text: Any = next(iter(given.values())) if list(given) == tool.parameters.get("required") else None
    return (text,) if isinstance(text, str) else ()


_SHOWN_FAULTS: Final = 3
_SHOWN_CHARS: Final = 120
_SHOWN_NAMES: Final = 20
_TYPES: Final = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}


class MisfitError(ToolError):
    """A value that does not fit its schema. `reason` says why, and has no word in it but the schema's."""

    def __init__(self, message: str, at: Position, reason: str | None) -> None:
        super().__init__(ErrorCode.TOOL_INVALID_ARGUMENTS, message, at)
        self.reason = reason


def nearest_fault(error: Any, relevance: Callable[[Any], Any]) -> Any:
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


def misfit(name: str, faults: list[Any]) -> MisfitError:
    """The error for arguments in which jsonschema found these faults, the most telling first."""
    said = "; ".join(dict.fromkeys(_describe(fault) for fault in faults[:_SHOWN_FAULTS]))
    rest = len(faults) - _SHOWN_FAULTS
    message = f"the arguments do not fit {name}: {said}{f'; and {rest} more' if rest > 0 else ''}"
    return MisfitError(message, Position(path=json_path(faults[0].absolute_path)), _reason(faults[0]))


def _reason(fault: Any) -> str | None:
    """Why a value does not fit, in words of the schema alone: what was said of the value may be the model's."""
    if fault.validator == "required" and isinstance(fault.validator_value, list):
        return f"it lacks {_missing(fault)}"
    return f"{fault.validator} is not met" if isinstance(fault.validator, str) else None


def _missing(fault: Any) -> str:
    return list_names([each for each in fault.validator_value if each not in fault.instance])


def _describe(fault: Any) -> str:
    path = json_path(fault.absolute_path)
    value, expected, schema = fault.instance, fault.validator_value, cast("dict[str, Any]", fault.schema)
    match fault.validator:
        case "type":
            types = expected if isinstance(expected, str) else " or ".join(cast("list[str]", expected))
            kind = _TYPES.get(cast("type[Any]", type(value)), "object")
            return f"{path} is {show_value(value)}, which is of type {kind}; expected {types}"
        case "required" if isinstance(expected, list):  # the third draft has a boolean
            return f"{path} lacks {_missing(fault)}; it has {list_names(list(value)) or 'nothing'}"
        case "enum":
            choice = ", ".join(show_value(each) for each in cast("list[Any]", expected)[:_SHOWN_NAMES])
            return f"{path} is {show_value(value)}; expected one of {choice}"
        case "const":
            return f"{path} is {show_value(value)}; expected {show_value(expected)}"
        case "additionalProperties" if expected is False:
            known: list[str] = list(schema.get("properties", {}))
            patterns: list[str] = list(schema.get("patternProperties", {}))
            extra = [each for each in value if each not in known and not any(re.search(p, each) for p in patterns)]
            names = nearest(extra[0], known) if known and extra else []
            names += [f"names that match {pattern}" for pattern in patterns]
            return f"{path} has {list_names(extra)}, which it does not accept; it accepts {list_names(names) or 'none'}"
        case "anyOf" | "oneOf":
            return f"{path} is {show_value(value)}, which matches none of {show_value(expected)}"
        case False | None:
            return f"{path} is {show_value(value)}; nothing is allowed here"
        case keyword:
            return f"{path} is {show_value(value)}; expected {keyword} {show_value(expected)}"


# ── words ───────────────────────────────────────────────────────────────────────────────────────────────────────────


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
