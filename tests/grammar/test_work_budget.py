"""Work on schemas: linear, or refused before it takes too long, and ended when its caller leaves."""

from __future__ import annotations

import threading
from contextlib import suppress
from contextvars import copy_context
from typing import Any

import pytest

from harmonia.errors import ErrorCode, InputError
from harmonia.grammar import Demand, GrammarKind, grammar_for
from harmonia.grammar.json_schema.conditions import Part
from harmonia.grammar.json_schema.json_rules import json_rules
from harmonia.messages import Json, ResponseFormat
from harmonia.schema.work_budget import CANCELLED, WorkCancelled

_OBJECT: Json = {"type": "object", "properties": {f"p{at}": {"type": "string"} for at in range(230)}}
BOMBS: dict[str, Json] = {
    "references": {"anyOf": [{"$ref": "#/$defs/a"}] * 300, "$defs": {"a": _OBJECT}},
    "patterns": {**_OBJECT, "patternProperties": {f"^q{at}": {} for at in range(1000)}},
    "combined": {"allOf": [{"type": "object", "properties": {f"k{at}": {}}} for at in range(1000)]},
}


def _demand(schema: Json) -> Demand:
    return Demand(response_format=ResponseFormat(name="form", schema=schema))


@pytest.mark.parametrize("kind", ["gbnf", "xgrammar"])
@pytest.mark.parametrize("name", BOMBS)
def test_what_would_take_too_much_work_is_refused(name: str, kind: GrammarKind) -> None:
    with pytest.raises(InputError) as caught:
        grammar_for(_demand(BOMBS[name]), kind)
    assert (caught.value.code, caught.value.at.path) == (ErrorCode.SCHEMA_TOO_LARGE, "$")


def test_a_large_schema_of_an_ordinary_kind_is_not_refused() -> None:
    many = {f"p{at}": {"type": "string", "format": "date-time"} for at in range(2000)}
    assert grammar_for(_demand({"type": "object", "properties": many, "required": [*many]}), "gbnf").text


@pytest.mark.parametrize("keyword", ["prefixItems", "items"])
def test_the_items_of_a_list_are_looked_at_once(keyword: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    child = Part.child

    def counted(self: Part, *steps: Any) -> Part:
        nonlocal looks
        looks += 1
        return child(self, *steps)

    def looks_for(count: int) -> int:
        nonlocal looks
        looks = 0
        # One so long nests too deep in the end, which is not what it costs.
        with suppress(InputError):
            json_rules({"type": "array", keyword: [{"minLength": at} for at in range(count)]}, "form")
        return looks

    monkeypatch.setattr(Part, "child", counted)
    assert looks_for(1000) <= 15 * looks_for(100)


@pytest.mark.parametrize("kind", ["gbnf", "xgrammar"])
def test_work_that_was_cancelled_ends(kind: GrammarKind) -> None:
    cancelled = threading.Event()
    cancelled.set()
    context = copy_context()
    context.run(CANCELLED.set, cancelled)
    with pytest.raises(WorkCancelled):
        context.run(grammar_for, _demand(_OBJECT), kind)
