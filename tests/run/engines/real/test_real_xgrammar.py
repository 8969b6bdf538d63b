"""The grammar in xgrammar, on the real vocabulary: what is well-formed comes through, and nothing else can."""

from __future__ import annotations

import importlib
import json
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any, cast

import jsonschema
import pytest

from harmonia import call_of, encode, parse
from harmonia.grammar import Demand, Loss, TextForm, declared_tools
from harmonia.grammar.completion import completion_grammar
from harmonia.grammar.xgrammar_writer import MAX_LENGTH, write_xgrammar
from harmonia.messages import Json, ResponseFormat, ToolDescription, ToolNamespace
from harmonia.vocabulary import CALL, CHANNEL, END, FIRST_SPECIAL, RETURN, VOCABULARY_SIZE, default_vocabulary
from tests.grammar.damages import DAMAGES, DEMAND, FUNCTIONS, WELL_FORMED, Damage, comes_through, sampled
from tests.grammar.sampling import admitted_tokens, is_admitted, sample, sample_restlessly

if TYPE_CHECKING:
    from harmonia.run.engines.grammar_mask import Matcher

pytestmark = pytest.mark.engines

CITY: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 8},
        "size": {"enum": ["small", "large", "<|call|>"]},
        "tags": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "maxItems": 3},
    },
    "required": ["name", "size"],
    "additionalProperties": False,
}
PATCH = 'start: "*** Begin" LF line+ "*** End" LF?\nline: ("+" | "-") /(.*)/ LF\n%import common.LF\n'
EDITING = ToolNamespace("functions", None, (ToolDescription("edit", "Edit a file."),))
DEMANDS = {
    "auto": DEMAND,
    "none": Demand(declared_tools([FUNCTIONS]), tool_choice="none"),
    "required": Demand(declared_tools([FUNCTIONS]), tool_choice="required"),
    "named": Demand(declared_tools([FUNCTIONS]), tool_choice="functions.get_weather"),
    "allowed": Demand(declared_tools([FUNCTIONS]), tool_choice="required", allowed=("functions.shell", "functions.x")),
    "format": Demand(response_format=ResponseFormat("city", CITY)),
    "custom": Demand(
        declared_tools([EDITING], {"functions.edit": TextForm("lark", PATCH)}), tool_choice="functions.edit"
    ),
    "python": Demand(declared_tools([ToolNamespace("python"), FUNCTIONS]), tool_choice="python"),
}
SCHEMAS: dict[str, Any] = {f"functions.{tool.name}": tool.parameters for tool in FUNCTIONS.tools}


class XgrammarMatcher:
    """What `Matcher` is for llguidance. Behind the end it admits the tokens at which vLLM stops, and only these."""

    def __init__(self, name: str) -> None:
        self._xgrammar: Any = importlib.import_module("xgrammar")
        self._inner = self._xgrammar.GrammarMatcher(compiled(name), override_stop_tokens=[RETURN, CALL])
        self._bits = self._xgrammar.allocate_token_bitmask(1, VOCABULARY_SIZE)

    @property
    def is_over(self) -> bool:
        return self._inner.is_terminated()

    def mask(self) -> bytes:
        self._inner.fill_next_token_bitmask(self._bits)
        return self._bits.numpy().tobytes()

    def admits(self, token: int) -> bool:
        return is_admitted(self.mask(), token)

    def commit(self, token: int) -> None:
        assert self._inner.accept_token(token)


@cache
def compiler() -> Any:
    pytest.importorskip("torch")
    xgrammar: Any = pytest.importorskip("xgrammar")
    tokens = list(default_vocabulary().token_bytes)
    # As in vLLM: the stop token of the tokenizer's files, and the bytes of special tokens are their spellings.
    info = xgrammar.TokenizerInfo(tokens, xgrammar.VocabType.RAW, vocab_size=VOCABULARY_SIZE, stop_token_ids=[RETURN])
    return xgrammar.GrammarCompiler(info, max_threads=1)


@cache
def compiled(name: str) -> Any:
    written = write_xgrammar(completion_grammar(DEMANDS[name]))
    assert written.losses == ()
    assert written.ends_by_engine
    return compiler().compile_structural_tag(written.text)


def with_right_stop(tokens: list[int], demand: Demand) -> list[int]:
    """As a run does: the stop token that follows from the message, whichever the engine sampled."""
    assert tokens[-1] in (RETURN, CALL)
    (*_, last) = parse(tokens[:-1], role="assistant", tools=[tool.name for tool in demand.tools]).messages
    return [*tokens[:-1], RETURN if last.recipient is None else CALL]


@pytest.mark.parametrize("text", WELL_FORMED)
def test_what_is_well_formed_comes_through(text: str) -> None:
    assert comes_through(XgrammarMatcher("auto"), sampled(text))


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.code.value)
def test_no_damage_comes_through(damage: Damage) -> None:
    assert comes_through(XgrammarMatcher("auto"), damage.twin)
    assert not comes_through(XgrammarMatcher("auto"), damage.tokens)


@pytest.mark.parametrize(
    ("name", "text", "is_met"),
    [
        ("none", WELL_FORMED[0], True),
        ("none", WELL_FORMED[7], False),
        ("required", WELL_FORMED[7], True),
        ("required", WELL_FORMED[0], False),
        ("named", WELL_FORMED[7], False),
        ("named", WELL_FORMED[12], True),
        ("allowed", WELL_FORMED[7], True),
        ("allowed", WELL_FORMED[12], False),
        ("format", WELL_FORMED[0], False),
        ("format", '<|channel|>final<|message|>{"name": "Ulm", "size": "small", "tags": [1, 99]}<|return|>', True),
        ("format", '<|channel|>final<|message|>{"name": "Ulm"}<|return|>', False),
        ("format", '<|channel|>final<|message|>{"name": "Ulm", "size": "small", "tags": [100]}<|return|>', False),
        ("format", '<|channel|>final<|message|>{"name": "Ulm an der Donau", "size": "small"}<|return|>', False),
        ("custom", "<|channel|>commentary to=functions.edit<|message|>*** Begin\n+a <b>\n*** End<|call|>", True),
        ("custom", "<|channel|>commentary to=functions.edit<|message|>*** Begin\na <b>\n*** End<|call|>", False),
        ("python", "<|channel|>analysis to=python code<|message|>print(1 < 2)<|call|>", True),
    ],
)
def test_a_tool_choice_and_a_response_format_decide_what_comes_through(name: str, text: str, is_met: bool) -> None:
    assert comes_through(XgrammarMatcher(name), sampled(text)) is is_met


def test_no_special_token_is_admitted_within_a_text_or_a_string() -> None:
    for name, text, ends in (
        ("auto", "<|channel|>analysis<|message|>a", [END]),
        ("auto", "<|channel|>commentary to=functions.x<|message|>" + '{"a": "b', []),
        ("format", "<|channel|>final<|message|>" + '{"name": "b', []),
        ("custom", "<|channel|>commentary to=functions.edit<|message|>*** Begin\n+", []),
    ):
        matcher = XgrammarMatcher(name)
        for token in sampled(text):
            matcher.commit(token)
        assert [token for token in admitted_tokens(matcher.mask()) if token >= FIRST_SPECIAL] == ends
        assert is_admitted(matcher.mask(), encode("<")[0])


def test_a_value_that_spells_a_control_token_is_written_with_an_escape() -> None:
    matcher = XgrammarMatcher("format")
    head = sampled("<|channel|>final<|message|>")
    assert comes_through(matcher, (*head, *encode('{"name": "a", "size": "\\u003c|call|>"}'), RETURN))
    assert not comes_through(XgrammarMatcher("format"), (*head, *encode('{"name": "a", "size": "<|call|>"}'), RETURN))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", DEMANDS)
def test_whatever_a_mindless_sampler_ends_is_well_formed(name: str, seed: int) -> None:
    demand = DEMANDS[name]
    how = sample if seed % 2 else sample_restlessly
    matcher = XgrammarMatcher(name)
    tokens = how(cast("Matcher", matcher), Random(f"{name} {seed}"), most=300)
    if not matcher.is_over:
        return  # cut off; a grammar does not bound the length
    whole = with_right_stop(tokens, demand)
    parsed = parse(whole, role="assistant", mode="strict", tools=[tool.name for tool in demand.tools])
    assert not parsed.diagnostics
    last = parsed.messages[-1]
    call = call_of(last)
    if demand.tool_choice not in ("auto", "none"):
        assert call is not None
    if last.recipient in SCHEMAS:
        jsonschema.validate(json.loads(last.text), SCHEMAS[last.recipient])
    if last.channel == "final" and demand.response_format is not None:
        jsonschema.validate(json.loads(last.text), CITY)


def test_mindless_samplers_do_come_to_an_end() -> None:
    ended = 0
    for seed in range(8):
        matcher = XgrammarMatcher("required")
        sample(cast("Matcher", matcher), Random(seed), most=300)
        ended += matcher.is_over
    assert ended >= 4


def test_what_xgrammar_cannot_count_is_reported() -> None:
    schema: Json = {"type": "object", "properties": {"a": {"type": "string", "maxLength": MAX_LENGTH + 1}}}
    written = write_xgrammar(completion_grammar(Demand(response_format=ResponseFormat("a", schema))))
    (loss,) = written.losses
    assert (loss.about, loss.feature) == ("response_format", "maxLength")
    assert isinstance(loss, Loss) and "properties" in loss.path


def test_only_the_beginning_of_a_message_is_admitted_first() -> None:
    admitted = admitted_tokens(XgrammarMatcher("named").mask())
    assert CHANNEL in admitted
    assert all(" to=functions.get_weather".startswith(default_vocabulary().decode([token])) for token in admitted[:-1])
