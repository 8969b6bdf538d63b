"""The grammar in llguidance, on the real vocabulary: what is well-formed comes through, and nothing else can."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any, Literal

import jsonschema
import pytest

from harmonia import Parser, StreamError, call_of, parse, render
from harmonia.errors import ErrorCode
from harmonia.grammar import Demand, TextForm, declared_tools
from harmonia.grammar.completion import Begun, completion_grammar
from harmonia.grammar.llguidance_writer import write_llguidance
from harmonia.messages import Json, Message, ResponseFormat, ToolDescription, ToolNamespace
from harmonia.parser import FAULTS
from harmonia.run.engines.grammar_mask import Matcher
from harmonia.vocabulary import CHANNEL, END, FIRST_SPECIAL
from tests.grammar.apply_patch import APPLY_PATCH
from tests.grammar.damages import (
    DAMAGES,
    DEMAND,
    FUNCTIONS,
    NOT_SAMPLED,
    TOOL_NAMES,
    WELL_FORMED,
    Damage,
    comes_through,
    sampled,
)
from tests.grammar.sampling import admitted_tokens, has_no_number_beyond_floats, sample, sample_restlessly
from tests.support.paths import ROOT

CITY: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "size": {"enum": ["small", "large"]},
        "tags": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "maxItems": 3},
    },
    "required": ["name", "size"],
    "additionalProperties": False,
}
CUSTOM = ToolNamespace("functions", None, (*FUNCTIONS.tools, ToolDescription("apply_patch", "Edit files.")))
FORMS = {"functions.apply_patch": TextForm("lark", APPLY_PATCH)}
DEMANDS = {
    "auto": DEMAND,
    "none": Demand(declared_tools([FUNCTIONS]), tool_choice="none"),
    "required": Demand(declared_tools([FUNCTIONS]), tool_choice="required"),
    "named": Demand(declared_tools([FUNCTIONS]), tool_choice="functions.get_weather"),
    "allowed": Demand(declared_tools([FUNCTIONS]), tool_choice="required", allowed=("functions.shell", "functions.x")),
    "format": Demand(response_format=ResponseFormat("city", CITY)),
    "format and tools": Demand(declared_tools([FUNCTIONS]), response_format=ResponseFormat("city", CITY)),
    "custom": Demand(declared_tools([CUSTOM], FORMS), tool_choice="functions.apply_patch"),
    "python": Demand(declared_tools([ToolNamespace("python"), FUNCTIONS]), tool_choice="python"),
}
SCHEMAS: dict[str, Any] = {f"functions.{tool.name}": tool.parameters for tool in FUNCTIONS.tools}


def matcher_for(name: str) -> Matcher:
    return _compiled(name).copy()


@cache
def _compiled(name: str) -> Matcher:
    written = write_llguidance(completion_grammar(DEMANDS[name]))
    assert written.losses == ()
    return Matcher(written)


def is_strictly_read(tokens: tuple[int, ...] | list[int], demand: Demand) -> tuple[Message, ...]:
    """The messages, with not a word said about them."""
    parsed = parse(list(tokens), role="assistant", mode="strict", tools=[tool.name for tool in demand.tools])
    assert not parsed.diagnostics
    return parsed.messages


# ── what is well-formed ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", WELL_FORMED)
def test_what_is_well_formed_comes_through(text: str) -> None:
    is_strictly_read(sampled(text), DEMAND)
    assert comes_through(matcher_for("auto"), sampled(text))


# Of the outputs from the wild that have no fault, those with the headers that Harmony's documentation has. The others
# are odd in ways that the parser lets pass, such as a content type `response` or a call that ends with `<|return|>`.
FROM_THE_WILD = {"cap-11": [], "x-60": ["read"]}


@pytest.mark.parametrize("identity", FROM_THE_WILD)
def test_outputs_from_the_wild_come_through(identity: str) -> None:
    lines = (ROOT / "tests" / "data" / "wild-traces.jsonl").read_text().splitlines()
    raw = next(trace["raw"] for trace in map(json.loads, lines) if trace["id"] == identity)
    tools = ToolNamespace("functions", None, tuple(ToolDescription(name) for name in FROM_THE_WILD[identity]))
    demand = Demand(declared_tools([tools] if tools.tools else []))
    is_strictly_read(sampled(raw), demand)
    assert comes_through(Matcher(write_llguidance(completion_grammar(demand))), sampled(raw))


SAID = (
    Message("assistant", "A thought.", channel="analysis"),
    Message("assistant", "A plan.", channel="commentary"),
    Message("assistant", '{"city": "Ulm"}', channel="commentary", recipient="functions.get_weather"),
    Message(
        "assistant",
        '{"city": "Ulm"}',
        channel="commentary",
        recipient="functions.get_weather",
        content_type="<|constrain|>json",
    ),
    Message("assistant", "An answer.", channel="final"),
)


@pytest.mark.parametrize("section", ["role", "channel"])
@pytest.mark.parametrize("message", SAID)
def test_what_the_renderer_writes_comes_through(message: Message, section: Literal["role", "channel"]) -> None:
    rendered = render([message], None, training=True, recipient_section=section).tokens
    begun = sampled("<|start|>assistant")
    assert tuple(rendered[: len(begun)]) == begun
    tokens = tuple(rendered[len(begun) :])
    matcher = matcher_for("auto")
    assert matcher.admitted(list(tokens)) == len(tokens)


@pytest.mark.parametrize(
    ("name", "text", "is_met"),
    [
        ("none", WELL_FORMED[0], True),
        ("none", WELL_FORMED[7], False),
        ("required", WELL_FORMED[7], True),
        ("required", WELL_FORMED[0], False),
        ("required", WELL_FORMED[3], False),
        ("named", WELL_FORMED[7], False),
        ("named", WELL_FORMED[12], True),
        ("allowed", WELL_FORMED[7], True),
        ("allowed", WELL_FORMED[12], False),
        ("format", WELL_FORMED[0], False),
        ("format", '<|channel|>final<|message|>{"name": "Ulm", "size": "small", "tags": [1, 99]}<|return|>', True),
        ("format", '<|channel|>final <|constrain|>json<|message|>{"name": "Ulm", "size": "large"}<|return|>', True),
        ("format", '<|channel|>final<|message|>{"name": "Ulm"}<|return|>', False),
        ("format", '<|channel|>final<|message|>{"name": "Ulm", "size": "huge"}<|return|>', False),
        ("format", '<|channel|>final<|message|>{"name": "Ulm", "size": "small", "tags": [100]}<|return|>', False),
        ("format and tools", WELL_FORMED[7], True),
        ("python", "<|channel|>analysis to=python code<|message|>print(1 < 2)<|call|>", True),
        ("python", "<|channel|>commentary to=python<|message|>import this<|call|>", True),
    ],
)
def test_a_tool_choice_and_a_response_format_decide_what_comes_through(name: str, text: str, is_met: bool) -> None:
    is_strictly_read(sampled(text), DEMANDS[name])
    assert comes_through(matcher_for(name), sampled(text)) is is_met


@pytest.mark.parametrize("name", DEMANDS)
def test_reasoning_is_admitted_under_every_demand(name: str) -> None:
    thought = sampled("<|channel|>analysis<|message|>Let me think.<|end|><|start|>assistant")
    assert matcher_for(name).admitted(list(thought * 3)) == 3 * len(thought)


PATCH = "*** Begin Patch\n*** Add File: a.txt\n+hi <b>\n*** Update File: b\n@@ def f():\n-x\n+y\n z\n*** End Patch"


def test_a_clients_lark_holds_the_text_of_its_tool() -> None:
    header = "<|channel|>commentary to=functions.apply_patch<|message|>"
    assert comes_through(matcher_for("custom"), sampled(f"{header}{PATCH}<|call|>"))
    for damaged in (PATCH.replace("+hi", "hi"), PATCH.removesuffix("*** End Patch"), PATCH.replace("Add", "Make")):
        assert not comes_through(matcher_for("custom"), sampled(f"{header}{damaged}<|call|>"))


def test_a_message_that_the_prompt_began_is_gone_on_with() -> None:
    demand = DEMANDS["named"]
    written = write_llguidance(completion_grammar(demand, Begun("commentary", "functions.get_weather")))
    assert comes_through(Matcher(written), sampled('{"city": "Ulm"}<|call|>'))
    assert not Matcher(written).admits(CHANNEL)


# ── what is damaged ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_fault_of_the_table_has_a_damage_or_a_reason_why_there_is_none() -> None:
    shown = {damage.code for damage in DAMAGES}
    assert shown | set(NOT_SAMPLED) == set(FAULTS)
    assert not shown & set(NOT_SAMPLED)


@pytest.mark.parametrize("damage", [pytest.param(each, id=f"{each.code}-{at}") for at, each in enumerate(DAMAGES)])
def test_a_damage_shows_its_fault_first_and_its_twin_none(damage: Damage) -> None:
    is_strictly_read(damage.twin, DEMAND)
    assert parse(list(damage.tokens), role="assistant", tools=TOOL_NAMES).diagnostics[0].code == damage.code


def noticed_at(tokens: tuple[int, ...]) -> int:
    """Behind how many tokens a strict parser raises; behind all of them where only their end shows the fault."""
    parser = Parser(role="assistant", mode="strict", tools=TOOL_NAMES)
    for count, token in enumerate(tokens, 1):
        try:
            parser.feed([token])
        except StreamError:
            return count
    return len(tokens) + 1


@pytest.mark.parametrize("damage", [pytest.param(each, id=f"{each.code}-{at}") for at, each in enumerate(DAMAGES)])
def test_no_damage_can_be_sampled(damage: Damage) -> None:
    assert comes_through(matcher_for("auto"), damage.twin)
    matcher = matcher_for("auto")
    count = matcher.admitted(list(damage.tokens))
    assert count < noticed_at(damage.tokens), "the fault is noticed by a parser, and was not refused until then"
    if count == len(damage.tokens):  # a completion that breaks off: the grammar wants more
        for token in damage.tokens:
            matcher.commit(token)
        assert not matcher.is_over


def test_no_special_token_is_admitted_inside_of_a_text() -> None:
    matcher = matcher_for("auto")
    for token in sampled("<|channel|>analysis<|message|>Hm"):
        matcher.commit(token)
    assert [token for token in admitted_tokens(matcher.mask()) if token >= FIRST_SPECIAL] == [END]


# ── what a model without a mind samples ─────────────────────────────────────────────────────────────────────────────


def check_completion(tokens: list[int], demand: Demand) -> None:
    try:
        is_strictly_read(tokens, demand)
    except StreamError as error:
        # The one thing that docs/concepts/grammars.md admits to: a number that is JSON, and larger than any float.
        assert error.code is ErrorCode.BODY_ARGUMENTS_NOT_JSON
        content = parse(tokens, role="assistant").messages[-1].content
        assert not has_no_number_beyond_floats(json.loads(str(content)))
    last = parse(tokens, role="assistant", tools=[tool.name for tool in demand.tools]).messages[-1]
    call = call_of(last)
    wanted = demand.tool_choice
    if wanted in ("none", "auto") and call is None:
        assert last.channel == "final"
        if demand.response_format is not None:
            jsonschema.validate(json.loads(str(last.content)), demand.response_format.schema)
        return
    assert call is not None and last.recipient is not None
    assert wanted in ("auto", "required", last.recipient)
    assert demand.allowed is None or last.recipient in demand.allowed
    if last.recipient in SCHEMAS:
        jsonschema.validate(json.loads(str(last.content)), SCHEMAS[last.recipient])


def test_a_number_beyond_all_floats_is_the_one_thing_that_gets_through() -> None:
    tokens = sampled('<|channel|>commentary to=functions.x <|constrain|>json<|message|>{"a": 1e999}<|call|>')
    assert comes_through(matcher_for("auto"), tokens)
    check_completion(list(tokens), DEMAND)


Sampler = Callable[[Matcher, Random], list[int]]


def sample_many(name: str, count: int, first_seed: int, sampler: Sampler) -> int:
    """How many completions came to an end by themselves. All of them are checked."""
    ended = 0
    for seed in range(first_seed, first_seed + count):
        matcher = matcher_for(name)
        tokens = sampler(matcher, Random(f"{name} {seed}"))
        if matcher.is_over:
            ended += 1
            check_completion(tokens, DEMANDS[name])
    return ended


@pytest.mark.parametrize("sampler", [sample, sample_restlessly])
@pytest.mark.parametrize("name", DEMANDS)
def test_whatever_is_sampled_to_its_end_is_well_formed_and_fits(name: str, sampler: Sampler) -> None:
    assert sample_many(name, 5, 0, sampler) >= 2


@pytest.mark.exhaustive
@pytest.mark.parametrize("sampler", [sample, sample_restlessly])
@pytest.mark.parametrize("name", DEMANDS)
def test_whatever_is_sampled_to_its_end_is_well_formed_and_fits_at_length(name: str, sampler: Sampler) -> None:
    assert sample_many(name, 60, 1_000, sampler) >= 30
