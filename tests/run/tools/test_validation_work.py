"""Checking values against schemas of strangers: ten times the schema and the value are ten times the work, or the check
is given up."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from harmonia.errors import HarmonyError
from harmonia.messages import Json
from harmonia.run.tools.arguments import compile_schema, schema_fault
from tests.support.call_counts import counting_calls

Made = Callable[[int], tuple[Any, Any]]
_SMALL, _LARGE, _HUGE = 20, 200, 1_000
# Ten times as much of both: linear work grows by ten, quadratic work by a hundred.
_MOST_GROWTH = 25
# Each of n schemas may look at each of m values, which is no fault of ours. What all of it may take is bounded: a step
# of the budget (50,000) is some tens of calls.
_MOST_CALLS = 50_000 * 80


def _nested(count: int, inner: Any, wrap: Callable[[Any], Any]) -> Any:
    for _ in range(min(count, 40)):  # deeper than that, bodies are refused
        inner = wrap(inner)
    return inner


def _chain(count: int) -> Any:
    links = {f"d{at}": {"$ref": f"#/$defs/d{at + 1}"} for at in range(min(count, 40))}
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{len(links)}": {"type": "integer"}}}


def _doubling(count: int, wrap: Callable[[Any], Any]) -> Any:
    """Each definition names the next one several times."""
    steps = min(count, 40)
    links = {f"d{at}": wrap({"$ref": f"#/$defs/d{at + 1}"}) for at in range(steps)}
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{steps}": {"type": "null"}}}


def _objects(count: int) -> list[Any]:
    return [{"at": at, "of": [at, {"x": None}]} for at in range(count)]


def _keys(count: int) -> dict[str, Any]:
    return {f"k{at}": at for at in range(count)}


_ANY: Json = {}

FAMILIES: dict[str, Made] = {
    "uniqueItems of numbers": lambda n: ({"uniqueItems": True}, list(range(n * 10))),
    "uniqueItems of objects": lambda n: ({"uniqueItems": True}, _objects(n * 10)),
    "uniqueItems of mixed values": lambda n: ({"uniqueItems": True}, [[at, str(at), None][at % 2] for at in range(n)]),
    "uniqueItems many times": lambda n: ({"allOf": [{"uniqueItems": True}] * n}, _objects(n)),
    "items many times": lambda n: ({"allOf": [{"items": _ANY}] * n}, [1] * n),
    "items that fail many times": lambda n: ({"allOf": [{"items": False}] * n}, [1] * n),
    "contains": lambda n: ({"contains": {"const": -1}}, list(range(n))),
    "contains many times": lambda n: ({"allOf": [{"contains": {"const": -1}}] * n}, list(range(n))),
    "prefixItems": lambda n: ({"prefixItems": [{"type": "integer"}] * n}, list(range(n))),
    "unevaluatedItems": lambda n: (
        {"allOf": [{"prefixItems": [_ANY] * at} for at in range(min(n, 40))], "unevaluatedItems": False},
        list(range(n)),
    ),
    "anyOf": lambda n: ({"items": {"anyOf": [{"type": "null"}] * n}}, list(range(n))),
    "oneOf": lambda n: ({"items": {"oneOf": [{"const": at} for at in range(n)]}}, list(range(n))),
    "nested anyOf": lambda n: (_doubling(n, lambda s: {"anyOf": [s, s]}), 1),
    "nested oneOf": lambda n: (_doubling(n, lambda s: {"oneOf": [s, s]}), 1),
    "nested not": lambda n: (_nested(n, {"type": "null"}, lambda s: {"not": {"not": s}}), 1),
    "nested if": lambda n: (_doubling(n, lambda s: {"if": s, "then": s, "else": s}), 1),
    "a chain of $ref": lambda n: ({"items": _chain(n), "$defs": _chain(n)["$defs"]}, list(range(n))),
    "recursion by $ref": lambda n: (
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["b"]},
        _nested(n, _ANY, lambda value: {"a": value}),
    ),
    "recursion that branches": lambda n: (
        {"anyOf": [{"type": "null"}, {"properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}}]},
        _nested(n, {"a": 1}, lambda value: {"a": value, "b": 1}),
    ),
    "dependentSchemas": lambda n: ({"dependentSchemas": {f"k{at}": {"minProperties": n} for at in range(n)}}, _keys(n)),
    "dependentSchemas that go through": lambda n: (
        {"dependentSchemas": {f"k{at}": {"additionalProperties": _ANY} for at in range(n)}},
        _keys(n),
    ),
    "dependentRequired": lambda n: ({"dependentRequired": {"k0": [f"r{at}" for at in range(n)]}}, _keys(n)),
    "if and then": lambda n: (
        {"allOf": [{"if": {"required": [f"k{at}"]}, "then": {"minProperties": 1}} for at in range(n)]},
        _keys(n),
    ),
    "patternProperties": lambda n: ({"patternProperties": {f"^k{at}": _ANY for at in range(n)}}, _keys(n)),
    "propertyNames many times": lambda n: ({"allOf": [{"propertyNames": _ANY}] * n}, _keys(n)),
    "additionalProperties many times": lambda n: ({"allOf": [{"additionalProperties": _ANY}] * n}, _keys(n)),
    "unevaluatedProperties": lambda n: (
        {"allOf": [{"properties": {f"k{at}": _ANY}} for at in range(n)], "unevaluatedProperties": False},
        _keys(n),
    ),
    "many required": lambda n: ({"required": [f"r{at}" for at in range(n)]}, _keys(n)),
    "required of each item": lambda n: ({"items": {"required": [f"r{at}" for at in range(n)]}}, [_ANY] * n),
    "deep nesting": lambda n: (
        _nested(n, _ANY, lambda schema: {"items": schema, "minItems": 2}),
        _nested(n, [], lambda value: [value]),
    ),
    "enum of each item": lambda n: ({"items": {"enum": _objects(n)}}, _objects(n)),
    "one const many times": lambda n: (
        {"allOf": [{"$ref": "#/$defs/c"}] * n, "$defs": {"c": {"const": _objects(n)}}},
        _objects(n),
    ),
    "faults that quote a large value": lambda n: ({"allOf": [{"type": "string"}] * n}, _objects(n)),
}


def _calls(work: Callable[[], object]) -> tuple[int, str | None]:
    """How many calls of functions the work makes, in Python and in C, and how it was refused."""
    refused = None
    with counting_calls() as count:
        try:
            work()
        except HarmonyError as error:
            refused = error.message
    return count.calls, refused


@pytest.mark.parametrize("family", FAMILIES)
def test_checking_is_linear_or_bounded(family: str) -> None:
    counts: list[int] = []
    for size in (_HUGE, _SMALL, _LARGE):  # what is given up at once need not be measured
        schema, value = FAMILIES[family](size)
        validate = compile_schema("form", schema, untrusted=True)
        with suppress(HarmonyError):
            validate(1)  # what is loaded once
        count, refused = _calls(lambda validate=validate, value=value: validate(value))
        counts.append(count)
        assert count < _MOST_CALLS, counts
        if refused is not None and "too much work" in refused:
            return
    assert counts[-1] <= _MOST_GROWTH * counts[-2], counts


def test_a_large_list_of_unique_objects_is_checked_not_given_up() -> None:
    validate = compile_schema("form", {"uniqueItems": True}, untrusted=True)
    validate(_objects(2_000))
    for repeated in ([1, 1.0], [{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}], [0, -0.0]):
        with pytest.raises(HarmonyError, match="unique"):
            validate(repeated)
    for unique in ([1, True], [0, False, None, ""], [[1], ["1"]], [{"a": 1}, {"a": 2}]):
        validate(unique)


@pytest.mark.parametrize(
    "draft", ["http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#"]
)
@pytest.mark.parametrize("keyword", ["enum", "required", "type"])
def test_lists_in_schemas_are_checked_in_linear_work(draft: str, keyword: str) -> None:
    """Drafts want unique items in lists of theirs, and items that cannot be sorted were compared with each other."""
    counts: list[int] = []
    for size in (_SMALL, _LARGE):
        items = _objects(size) if keyword == "enum" else [str(at) if at % 2 else at for at in range(size)]
        schema = {"$schema": draft, keyword: items}
        schema_fault({"$schema": draft})
        count, _ = _calls(lambda schema=schema: schema_fault(schema))
        counts.append(count)
    assert counts[-1] <= _MOST_GROWTH * counts[-2], counts
