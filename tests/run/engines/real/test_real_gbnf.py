"""The grammar in the real llama.cpp, on the real vocabulary: what is well-formed comes out as the model wants it, no
damage comes out however much the model wants it, and a model without a mind says nothing that is not well-formed.

The model that wants something has learnt it by heart: by the number in its prompt, it says one of the completions of
tests/grammar/damages.py. Without a grammar it says even the damaged ones, word by word; that is tested first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import jsonschema
import pytest

import harmonia
from harmonia.grammar import Demand, TextForm, declared_tools
from harmonia.grammar.completion import completion_grammar
from harmonia.grammar.gbnf_writer import write_gbnf
from harmonia.grammar.rules import Chars, Grammar, Literal, Node, Repeat, sequence
from harmonia.messages import ResponseFormat, ToolDescription, ToolNamespace
from harmonia.vocabulary import CALL, END, END_OF_TEXT, FIRST_SPECIAL, RETURN, VOCABULARY_SIZE
from tests.grammar.apply_patch import APPLY_PATCH
from tests.grammar.damages import DAMAGES, DEMAND, FUNCTIONS, WELL_FORMED, Damage, sampled
from tests.run.engines.real.real_engines import LlamaServer, start_llama
from tests.run.engines.real.tiny_gpt_oss import make_taught, write_gguf

pytestmark = pytest.mark.engines

ENDING = (CALL, RETURN, END_OF_TEXT)
# As much of a completion as the tiny model learns; every fault has shown itself by then.
LEARNT_TOKENS = 40


# Completions that are wanted


def _until_it_ends(tokens: Sequence[int]) -> tuple[int, ...]:
    """As much of it as an engine that stops at the first stop token can sample, without that token."""
    stops = [index for index, token in enumerate(tokens) if token in ENDING]
    return tuple(tokens[: stops[0]] if stops else tokens)[:LEARNT_TOKENS]


# What is the same as its twin up to the stop token is no damage that this engine could do or leave: which stop token
# there is, and whether one follows it, is the run's.
WANTED_DAMAGES = [each for each in DAMAGES if _until_it_ends(each.tokens) != _until_it_ends(each.twin)]
LESSONS = list(
    dict.fromkeys(
        [*(each.tokens for each in WANTED_DAMAGES), *(each.twin for each in DAMAGES), *map(sampled, WELL_FORMED)]
    )
)


def _prompt(tokens: tuple[int, ...]) -> list[int]:
    text = f"<|start|>user<|message|>{LESSONS.index(tokens)}<|end|><|start|>assistant"
    return harmonia.encode(text, special="all")


@pytest.fixture(scope="module")
def willing_llama(
    engines_installed: None, merges: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LlamaServer]:
    lessons = [(_prompt(tokens), [*_until_it_ends(tokens), RETURN]) for tokens in LESSONS]
    file = tmp_path_factory.mktemp("willing") / "tiny.gguf"
    write_gguf(make_taught(lessons), file, merges)
    with start_llama(file, 1024) as server:
        yield server


def _say(server: LlamaServer, prompt: Sequence[int], grammar: str | None, **options: Any) -> tuple[list[int], bool]:
    """What it says, without the token that ends it, and whether it came to an end by itself."""
    body: dict[str, Any] = {
        "prompt": list(prompt),
        "return_tokens": True,
        "cache_prompt": False,
        "n_predict": LEARNT_TOKENS + 5,
    }
    if grammar is not None:
        body["grammar"] = grammar
    answer = server.post("/completion", {**body, **options})
    tokens: list[int] = answer["tokens"]
    has_stopped = answer["stop_type"] == "eos"
    return (tokens[:-1] if has_stopped and tokens[-1] in ENDING else tokens), has_stopped


@cache
def _grammar(demand_name: str) -> str:
    return write_gbnf(completion_grammar(DEMANDS[demand_name])).text


@pytest.mark.parametrize("damage", WANTED_DAMAGES, ids=lambda damage: damage.code)
def test_a_damage_comes_out_without_the_grammar_and_not_with_it(willing_llama: LlamaServer, damage: Damage) -> None:
    wanted = list(_until_it_ends(damage.tokens))
    said, _ = _say(willing_llama, _prompt(damage.tokens), None, temperature=0.0)
    assert said == wanted
    said, has_stopped = _say(willing_llama, _prompt(damage.tokens), _grammar("auto"), temperature=0.0)
    assert said != wanted
    if has_stopped:
        _read_strictly(said, DEMAND)


@pytest.mark.parametrize("tokens", dict.fromkeys(each.twin for each in DAMAGES))
def test_the_twin_of_a_damage_comes_out_as_it_is(willing_llama: LlamaServer, tokens: tuple[int, ...]) -> None:
    _comes_out(willing_llama, tokens)


@pytest.mark.parametrize("text", WELL_FORMED)
def test_what_is_well_formed_comes_out_as_it_is(willing_llama: LlamaServer, text: str) -> None:
    _comes_out(willing_llama, sampled(text))


def _comes_out(server: LlamaServer, tokens: tuple[int, ...]) -> None:
    assert len(tokens) <= LEARNT_TOKENS
    assert _say(server, _prompt(tokens), _grammar("auto"), temperature=0.0) == (list(tokens[:-1]), True)


# Completions that nobody wants

CITY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "size": {"enum": ["small", "large"]},
        "tags": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "maxItems": 3},
        "share": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        "founded": {"type": "string", "format": "date"},
    },
    "required": ["name", "size", "founded"],
    "additionalProperties": False,
}
CUSTOM = ToolNamespace("functions", None, (ToolDescription("apply_patch", "Edit files."),))
DEMANDS = {
    "auto": DEMAND,
    "none": Demand(declared_tools([FUNCTIONS]), tool_choice="none"),
    "required": Demand(declared_tools([FUNCTIONS]), tool_choice="required"),
    "named": Demand(declared_tools([FUNCTIONS]), tool_choice="functions.get_weather"),
    "format": Demand(response_format=ResponseFormat("city", CITY)),
    "custom": Demand(
        declared_tools([CUSTOM], {"functions.apply_patch": TextForm("lark", APPLY_PATCH)}), tool_choice="required"
    ),
}
SCHEMAS: dict[str, Any] = {f"functions.{tool.name}": tool.parameters for tool in FUNCTIONS.tools}
# Without these likings a text hardly ever ends: of two hundred thousand tokens, one closes a string.
CLOSING = ('"', '"}', "}", "]", '",', "\n", "\n\n", '":', "***", " End", "final", " to")
LIKED = {
    **{harmonia.encode(text)[0]: 14.0 for text in CLOSING},
    **dict.fromkeys((END, CALL, RETURN), 16.0),
}
SPECIAL_LIKED = {**dict.fromkeys(range(FIRST_SPECIAL, VOCABULARY_SIZE), 16.0), **LIKED}


def _read_strictly(tokens: Sequence[int], demand: Demand) -> Sequence[harmonia.Message]:
    """The messages of a completion, with the stop token put back that its last message asks for."""
    last = harmonia.decode(list(tokens)).rpartition("<|start|>")[2].partition("<|message|>")[0]
    whole = [*tokens, CALL if " to=" in last else RETURN]
    parsed = harmonia.parse(whole, role="assistant", mode="strict", tools=[tool.name for tool in demand.tools])
    assert not parsed.diagnostics
    return parsed.messages


@pytest.mark.parametrize("liked", [LIKED, SPECIAL_LIKED], ids=["ends", "special tokens"])
@pytest.mark.parametrize("name", DEMANDS)
def test_whatever_a_random_model_says_is_well_formed(
    random_llama: LlamaServer, name: str, liked: dict[int, float]
) -> None:
    demand, grammar = DEMANDS[name], _grammar(name)
    prompt = harmonia.encode("<|start|>user<|message|>Go on.<|end|><|start|>assistant", special="all")
    ended = 0
    for seed in range(3):
        tokens, has_stopped = _say(
            random_llama,
            prompt,
            grammar,
            temperature=1.0,
            samplers=["temperature"],
            seed=seed,
            n_predict=100,
            logit_bias=[[token, bias] for token, bias in liked.items()],
        )
        if has_stopped:
            ended += 1
            _fits(_read_strictly(tokens, demand), name)
    assert ended > 0


def _fits(messages: Sequence[harmonia.Message], name: str) -> None:
    last = messages[-1]
    if last.recipient is None:
        assert name in ("auto", "none", "format")
        if name == "format":
            jsonschema.validate(json.loads(last.text), CITY)
    elif last.recipient == "functions.apply_patch":
        assert re.fullmatch(r"\*\*\* Begin Patch\n(?s:.+)\*\*\* End Patch\n?", last.text)
    else:
        assert name in ("auto", "required") or last.recipient == "functions.get_weather"
        jsonschema.validate(json.loads(last.text), SCHEMAS[last.recipient])


# What the writer knows of llama.cpp


def _says(server: LlamaServer, node: Node, **options: Any) -> str:
    tokens, _ = _say(server, [1, 2, 3], write_gbnf(Grammar(node, {})).text, n_predict=4, temperature=1.0, **options)
    return harmonia.decode(tokens)


def test_a_special_token_counts_as_its_spelling_in_llama_cpp(random_llama: LlamaServer) -> None:
    # This is why text is kept from spelling one.
    tokens, _ = _say(random_llama, [1, 2, 3], "root ::= .*", n_predict=1, logit_bias=[[END, 100.0]])
    assert tokens == [END]
    tokens, _ = _say(random_llama, [1, 2, 3], 'root ::= [^x]* "x"', n_predict=1, logit_bias=[[END, 100.0]])
    assert tokens == [END]
    any_text = Repeat(Chars((), is_negated=True))
    assert (
        END
        not in _say(
            random_llama,
            [1, 2, 3],
            write_gbnf(Grammar(any_text, {})).text,
            n_predict=4,
            logit_bias=[[END, 100.0]],
        )[0]
    )


@pytest.mark.parametrize("least", [1, 1500, 1999, 2000, 4000])
def test_long_repetitions_are_taken(random_llama: LlamaServer, least: int) -> None:
    letters = Chars(((ord("a"), ord("c")),))
    assert _says(random_llama, sequence("x", Repeat(letters, least, least + 1700))).startswith("x")


def test_repetitions_of_what_may_be_empty_are_taken(random_llama: LlamaServer) -> None:
    node = sequence("x", Repeat(Repeat(Literal("y"), 0, 1)), "z")
    assert set(_says(random_llama, node)) <= set("xyz")
