"""Schemas as people send them, for each engine: what fits comes through, what does not is refused, and nothing is lost
but what is told."""

from __future__ import annotations

import json

import jsonschema
import pytest

from harmonia.grammar import Demand, Loss, declared_tools
from harmonia.grammar.completion import grammar_for
from harmonia.grammar.json_schema.json_rules import json_rules
from harmonia.grammar.xgrammar_writer import MAX_LENGTH
from harmonia.messages import ToolDescription, ToolNamespace
from harmonia.run.engines.grammar_mask import Matcher
from tests.grammar.damages import sampled
from tests.grammar.rule_reader import admits
from tests.grammar.schemas_in_use import SCHEMAS_IN_USE, InUse

in_use = pytest.mark.parametrize("case", SCHEMAS_IN_USE.values(), ids=SCHEMAS_IN_USE.keys())


def demand_of(case: InUse) -> Demand:
    tools = ToolNamespace("functions", None, (ToolDescription("act", "", case.schema),))
    return Demand(declared_tools([tools]), tool_choice="required")


def features(losses: tuple[Loss, ...]) -> set[str]:
    assert all(loss.about == "functions.act" and loss.path.startswith("$.") for loss in losses)
    return {loss.feature for loss in losses}


def is_of_this_century(value: object) -> bool:
    """Enough of a date-time for the cases; the library has none without another package."""
    return not isinstance(value, str) or value.startswith("20")


@in_use
def test_the_cases_themselves_are_right(case: InUse) -> None:
    for text in case.fits:
        jsonschema.validate(json.loads(text), case.schema)
    checker = jsonschema.FormatChecker()
    checker.checks("date-time")(is_of_this_century)
    for text in case.fails:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(json.loads(text), case.schema, format_checker=checker)


@in_use
def test_llguidance_admits_what_fits_and_nothing_else(case: InUse) -> None:
    written = grammar_for(demand_of(case), "llguidance")
    assert features(written.losses) == case.lost_by_llguidance
    matcher = Matcher(written)
    for text in (*case.fits, *case.fails):
        tokens = list(sampled(f"<|channel|>commentary to=functions.act <|constrain|>json<|message|>{text}<|call|>"))
        assert (matcher.copy().admitted(tokens) == len(tokens)) is (text in case.fits), text


@in_use
def test_rules_admit_what_fits_and_nothing_else(case: InUse) -> None:
    for kind in ("gbnf", "xgrammar"):
        assert features(grammar_for(demand_of(case), kind).losses) == case.lost_by_rules
    for node, rules, _ in (
        json_rules(case.schema, "functions.act"),
        json_rules(case.schema, "functions.act", max_length=MAX_LENGTH, is_closed=True),  # as xgrammar gets them
    ):
        for text in (*case.fits, *case.fails):
            assert admits(node, rules, text) is (text in case.fits), text
