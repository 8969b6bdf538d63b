"""Schemas, forms and names that were made to do harm: each is refused with a code, or bounded and told; nothing hangs,
and nothing ends the process."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest

from harmonia import parse
from harmonia.errors import ErrorCode, HarmonyError, InputError
from harmonia.grammar import GRAMMAR_KINDS, Demand, GrammarKind, TextForm, declared_tools
from harmonia.grammar.completion import grammar_for
from harmonia.grammar.text_forms import text_rules
from harmonia.messages import Json, ToolDescription, ToolNamespace
from harmonia.run.engines.grammar_mask import Matcher
from tests.grammar.damages import sampled
from tests.grammar.rule_reader import admits


def demand_of(schema: Any, name: str = "act", form: TextForm | None = None) -> Demand:
    tools = ToolNamespace("functions", None, (ToolDescription(name, "", schema),))
    texts = {} if form is None else {f"functions.{name}": form}
    return Demand(declared_tools([tools], texts), tool_choice="required")


def nested(depth: int, keyword: str, inner: Any) -> Json:
    return reduce(lambda made, _: {keyword: [made] if keyword.endswith("Of") else made}, range(depth), inner)


def doubled(keyword: str, levels: int = 40) -> Json:
    """A few lines that are 2 ** levels schemas, if they are written out."""
    definitions: Json = {f"a{at}": {keyword: [{"$ref": f"#/$defs/a{at + 1}"}] * 2} for at in range(levels)}
    return {"$ref": "#/$defs/a0", "$defs": {**definitions, f"a{levels}": {"type": "string"}}}


_NAMES = [f"p{at}" for at in range(400)]
SCHEMAS: dict[str, Any] = {
    "deep": nested(900, "items", True),
    "deep in anyOf": nested(900, "anyOf", True),
    "deep in allOf": nested(900, "allOf", True),
    "deep in a value": {"const": nested(900, "a", 1)},
    "alternatives multiplied": {
        "allOf": [{"anyOf": [{"required": [f"a{at}"]}, {"required": [f"b{at}"]}]} for at in range(20)]
    },
    "a circle": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    "a circle of conditions": {"allOf": [{"$ref": "#"}], "anyOf": [{"$ref": "#"}, {"type": "object"}]},
    "many branches": {"oneOf": [{"properties": {"k": {"const": at}}, "required": ["k"]} for at in range(400)]},
    "many values": {"enum": [f"value {at}" for at in range(5_000)]},
    "many properties": {"type": "object", "properties": {name: {"type": "string"} for name in _NAMES}},
    "no values": {"enum": []},
    "required and forbidden": {"type": "object", "required": ["a"], "additionalProperties": False},
    "a long expression": {"type": "string", "pattern": "a?" * 1_000},
    "a very long text": {"type": "string", "pattern": "a" * 20_000},
    "a large repetition": {"type": "string", "pattern": f"a{{{'9' * 5_000}}}"},
    "an expression that is none": {"type": "string", "pattern": "(("},
    "half of a pair in a value": {"enum": ["\ud83d"]},
    "half of a pair in a name": {"type": "object", "properties": {"\ud83d": {"type": "null"}}},
    "a bound beyond all floats": {"type": "integer", "minimum": 10**400},
    "counts that are none": {"minLength": float("inf"), "maxItems": float("nan"), "minProperties": -1},
    "a reference that is no text": {"$ref": "#/%ff"},
    "a reference to a large index": {"$ref": f"#/anyOf/{'9' * 5_000}", "anyOf": [True]},
    "keywords with values of others": {
        "type": {"a": 1},
        "properties": [],
        "required": "x",
        "items": 3,
        "anyOf": {},
        "enum": "x",
        "minimum": "1",
        "pattern": 3,
        "format": [],
        "allOf": [None],
    },
}


def check_schema(schema: Any, kind: GrammarKind) -> None:
    try:
        written = grammar_for(demand_of(schema), kind)
        written.text.encode()
        if kind == "llguidance":
            Matcher(written).mask()
    except HarmonyError as error:
        assert isinstance(error, InputError)


schemas = pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())


@pytest.mark.parametrize("kind", ["llguidance", "gbnf"])
@schemas
def test_any_schema_gives_a_grammar_or_an_error_with_a_code(schema: Any, kind: GrammarKind) -> None:
    check_schema(schema, kind)


@pytest.mark.exhaustive
@schemas
def test_any_schema_gives_a_grammar_or_an_error_for_xgrammar_too(schema: Any) -> None:
    check_schema(schema, "xgrammar")


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_schemas_that_double_are_refused_after_bounded_work(keyword: str) -> None:
    refusals: dict[GrammarKind, ErrorCode] = {
        "gbnf": ErrorCode.SCHEMA_TOO_LARGE,
        "llguidance": ErrorCode.GRAMMAR_TOO_LARGE,
    }
    for kind, code in refusals.items():
        with pytest.raises(InputError) as raised:
            grammar_for(demand_of(doubled(keyword)), kind)
        assert raised.value.code is code


FORMS = {
    "no text": "start: start",
    "groups": "start: " + "(" * 5_000 + '"a"' + ")" * 5_000,
    "rules that double": "start: r0\n" + "".join(f"r{at}: r{at + 1} r{at + 1}\n" for at in range(60)) + 'r60: "a"',
    "terminals that double": "start: T0\n" + "".join(f"T{at}: T{at + 1} T{at + 1}\n" for at in range(60)) + 'T60: "a"',
    "a circle": 'start: a\na: b\nb: a | "x"',
    "a circle of terminals": 'start: A\nA: "a" B\nB: "b" A | "c"',
    "a large number": f'start: "a"~{"9" * 5_000}',
    "a large number in braces": f'start: "a"{{{"9" * 5_000}}}',
    "a large number in an expression": f"start: /a{{{'9' * 5_000}}}/",
    "half of a pair": 'start: "\ud83d"',
    "half of a pair, escaped": r'start: "\ud83d"',
    "a text that ends it": 'start: "a"\n}\nother: "b"',
}


@pytest.mark.parametrize("kind", GRAMMAR_KINDS)
@pytest.mark.parametrize("definition", FORMS.values(), ids=FORMS.keys())
def test_any_form_gives_a_grammar_or_an_error_with_a_code(definition: str, kind: GrammarKind) -> None:
    try:
        written = grammar_for(demand_of(None, form=TextForm("lark", definition)), kind)
        written.text.encode()
        if kind == "llguidance":
            Matcher(written).mask()
    except HarmonyError as error:
        assert isinstance(error, InputError)


@pytest.mark.parametrize("kind", GRAMMAR_KINDS)
@pytest.mark.parametrize(
    "definition",
    [
        'start: "a"{1001}',
        'start: "a"~1001',
        "start: /a{1001}/",
        "start: " + "(" * 26 + '"a"' + ")" * 26,
        'start: "a"\n' + "".join(f'a{at}: "a"\n' for at in range(300)),
        'start: "' + "a" * 32_768 + '"',
    ],
)
def test_the_bounds_of_forms_are_the_same_for_all_engines(definition: str, kind: GrammarKind) -> None:
    with pytest.raises(InputError) as raised:
        grammar_for(demand_of(None, form=TextForm("lark", definition)), kind)
    assert raised.value.code is ErrorCode.GRAMMAR_TOO_LARGE


@pytest.mark.parametrize("kind", GRAMMAR_KINDS)
@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ('start: a b\r\na: "x"\r\n | "y"\r\nb: "y"\r\n', "yy"),
        ('start: A{2,3} B{1,} C{2}\nA.2: "a"\nB: "b"\nC: "~1001{1001}"', "aabb~1001{1001}~1001{1001}"),
        ("start: INT WS? LF\n%import common (INT, WS)\n%import common.LF", "12\n"),
        ("start: " + "(" * 25 + '"a"' + ")" * 25, "a"),
    ],
)
def test_forms_that_every_engine_takes(definition: str, text: str, kind: GrammarKind) -> None:
    form = TextForm("lark", definition)
    written = grammar_for(demand_of(None, form=form), kind)
    assert written.losses == ()
    for said, is_right in ((text, True), (f"{text}?", False)):
        if kind == "llguidance":
            tokens = list(sampled(f"<|channel|>commentary to=functions.act<|message|>{said}<|call|>"))
            is_taken = Matcher(written).admitted(tokens) == len(tokens)
        else:  # the engine is not here; these are the rules that were written for it
            node, rules, _ = text_rules(form, "functions.act", "text")
            is_taken = admits(node, rules, said)
        assert is_taken is is_right


@pytest.mark.parametrize("kind", GRAMMAR_KINDS)
@pytest.mark.parametrize("name", ["a b", "a\nb", "", 'a"b', "a{b", "x=z", "a<|end|>", "a<b", "a."])
def test_a_name_that_cannot_stand_in_a_header_is_refused(name: str, kind: GrammarKind) -> None:
    with pytest.raises(InputError) as raised:
        grammar_for(demand_of(None, name), kind)
    assert raised.value.code is ErrorCode.GRAMMAR_INVALID_OPTION


@pytest.mark.parametrize("name", ["a.b", "a-b", "größe", "名前", "mcp__server__tool", "a/b", "9"])
def test_names_of_the_world_can_be_called(name: str) -> None:
    demand = demand_of(None, name)
    tokens = list(sampled(f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{{}}<|call|>"))
    assert (
        parse(tokens, role="assistant", mode="strict", tools=[tool.name for tool in demand.tools])
        .messages[-1]
        .recipient
    )
    assert Matcher(grammar_for(demand, "llguidance")).admitted(tokens) == len(tokens)
    assert grammar_for(demand, "gbnf").text and grammar_for(demand, "xgrammar").text
