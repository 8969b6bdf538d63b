"""Real logits held by a grammar: whatever a model without any sense says, it is Harmony, and its calls run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Literal

import jsonschema
import pytest

import harmonia
from harmonia import call_of, parse
from harmonia.errors import ErrorCode, InputError
from harmonia.grammar import Demand, GrammarKind, declared_tools
from harmonia.grammar.completion import grammar_for
from harmonia.messages import Json, Message, ResponseFormat, ToolDescription, ToolNamespace
from harmonia.run.engines.base import Chunk, Engine, Finish, Request, Sampling
from harmonia.run.events import CallEnded, SamplingEnded, TurnEvent
from harmonia.run.loop import run
from harmonia.run.options import RunLimits
from harmonia.vocabulary import CALL, END_OF_TEXT, RETURN
from tests.run.engines.real.lessons import begin
from tests.run.engines.real.real_engines import run_watched

pytestmark = pytest.mark.engines

PROMPT = harmonia.encode("<|start|>user<|message|>What now?<|end|><|start|>assistant", special="all")
WEATHER: Json = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Rome", "Ulm", "Kyoto"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 7},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
PLACE: Json = {
    "type": "object",
    "properties": {"kind": {"enum": ["town", "village"]}, "is_old": {"type": "boolean"}},
    "required": ["kind", "is_old"],
    "additionalProperties": False,
}
TOOLS = (ToolDescription("get_weather", "The weather.", WEATHER), ToolDescription("look", "Look at it.", PLACE))
FUNCTIONS = ToolNamespace("functions", None, TOOLS)
SCHEMAS = {"functions.get_weather": WEATHER, "functions.look": PLACE}
DEMANDS = {
    "auto": Demand(declared_tools([FUNCTIONS])),
    "required": Demand(declared_tools([FUNCTIONS]), tool_choice="required"),
    "named": Demand(declared_tools([FUNCTIONS]), tool_choice="functions.look"),
    "format": Demand(response_format=ResponseFormat("place", PLACE)),
}
# Until so many have ended by themselves.
SEEDS, ENOUGH = range(24), 2
# A text is hardly ever ended by a model that likes all words alike, so those that begin one are cut off.
SHORT = 48


async def _sample(engine: Engine, request: Request) -> tuple[list[int], Finish]:
    tokens: list[int] = []
    finish = Finish()
    async with aclosing(engine.generate(PROMPT, request)) as stream:
        async for piece in stream:
            if isinstance(piece, Chunk):
                tokens += piece.tokens
            else:
                finish = piece
    return tokens, finish


def request_for(engine: Engine, demand: Demand, **sampling: Any) -> Request:
    kind = engine.traits.takes_grammar
    assert kind is not None
    grammar = grammar_for(demand, kind)
    assert grammar.losses == ()
    return Request(Sampling(max_tokens=SHORT, **sampling), demand.tools, demand.tool_choice, grammar=grammar)


def completed(tokens: Sequence[int], request: Request) -> list[int]:
    """With the stop token, where the grammar leaves it to the engine and the run puts it back."""
    assert request.grammar is not None
    if not request.grammar.ends_by_engine:
        return list(tokens)
    assert not {RETURN, CALL, END_OF_TEXT} & {*tokens}
    (*_, last) = parse(list(tokens), role="assistant", tools=[tool.name for tool in request.tools]).messages
    return [*tokens, RETURN if last.recipient is None else CALL]


@pytest.mark.parametrize("name", DEMANDS)
def test_whatever_a_random_model_ends_is_well_formed_and_fits(random_engine: Engine, name: str) -> None:
    demand = DEMANDS[name]
    ended = 0
    for seed in SEEDS[:4] if name == "auto" else SEEDS:
        request = request_for(random_engine, demand, temperature=2.0, seed=seed)
        tokens, finish = run_watched(_sample(random_engine, request))
        if finish.reason != "stop":
            assert finish.reason == "length"
            continue
        ended += 1
        parsed = parse(
            completed(tokens, request), role="assistant", mode="strict", tools=[tool.name for tool in demand.tools]
        )
        assert not parsed.diagnostics
        _check_last(parsed.messages[-1], demand)
        if ended == ENOUGH:
            break
    assert ended or name == "auto"  # where a text may be the end, hardly any comes to one


def _check_last(last: Message, demand: Demand) -> None:
    call = call_of(last)
    if demand.tool_choice in ("required", "functions.look"):
        assert call is not None
    if call is not None:
        assert last.recipient is not None
        jsonschema.validate(json.loads(last.text), SCHEMAS[last.recipient])
    if last.channel == "final" and demand.response_format is not None:
        jsonschema.validate(json.loads(last.text), PLACE)


def test_a_cut_off_completion_is_the_beginning_of_a_well_formed_one(random_engine: Engine) -> None:
    request = request_for(random_engine, DEMANDS["auto"], temperature=1.0, seed=3)
    tokens, _ = run_watched(_sample(random_engine, request))
    parsed = parse(tokens, role="assistant", tools=[tool.name for tool in DEMANDS["auto"].tools])
    # It lacks its end, and nothing else is wrong with it.
    assert {diagnostic.code for diagnostic in parsed.diagnostics} <= {
        ErrorCode.MISSING_SENTINEL,
        ErrorCode.HEADER_UNFINISHED,
        ErrorCode.BODY_ARGUMENTS_NOT_JSON,
        ErrorCode.STREAM_INVALID_UTF8,
    }


async def _count(engine: Engine, request: Request) -> tuple[int, int]:
    tokens = logprobs = 0
    async with aclosing(engine.generate(PROMPT, request)) as stream:
        async for piece in stream:
            if isinstance(piece, Chunk):
                tokens += len(piece.tokens)
                logprobs += len(piece.logprobs)
    return tokens, logprobs


def test_log_probabilities_are_counted_like_the_tokens(random_engine: Engine) -> None:
    request = request_for(random_engine, DEMANDS["named"], temperature=2.0, seed=1, logprobs=0)
    tokens, logprobs = run_watched(_count(random_engine, request))
    assert logprobs == tokens > 0


def test_a_grammar_of_another_kind_is_refused(random_engine: Engine) -> None:
    other: GrammarKind = "gbnf" if random_engine.traits.takes_grammar == "llguidance" else "llguidance"
    request = Request(Sampling(max_tokens=3), grammar=grammar_for(DEMANDS["auto"], other))
    with pytest.raises(InputError) as caught:
        run_watched(_sample(random_engine, request))
    assert caught.value.code is ErrorCode.ENGINE_INVALID_OPTION


def test_two_generations_at_once_have_a_grammar_each(random_engine: Engine) -> None:
    requests = [request_for(random_engine, DEMANDS[name], temperature=2.0, seed=1) for name in ("named", "format")]

    async def together() -> list[tuple[list[int], Finish]]:
        return await asyncio.gather(*(_sample(random_engine, request) for request in requests))

    for request, (tokens, finish) in zip(requests, run_watched(together()), strict=True):
        alone, _ = run_watched(_sample(random_engine, request))
        assert tokens == alone
        assert finish.reason in ("stop", "length")


# The whole product


def get_weather(city: Literal["Rome", "Ulm", "Kyoto"], days: Literal[1, 2, 3]) -> str:
    """The weather."""
    return f"{days} days of sun in {city}"


def events_of(engine: Engine, seed: int, **options: Any) -> list[TurnEvent]:
    # Hot, and another question each time: what it likes to begin with depends on what stands before it.
    sampling = Sampling(max_tokens=SHORT, temperature=8.0, top_k=0, top_p=1.0, seed=seed)
    running = run(engine, begin(f"What now, {seed}?"), sampling=sampling, limits=RunLimits(samplings=1), **options)

    async def collect() -> list[TurnEvent]:
        return [event async for event in running]

    return run_watched(collect())


def test_calls_that_are_demanded_of_a_random_model_run(random_engine: Engine) -> None:
    ran = 0
    for seed in SEEDS:
        events = events_of(random_engine, seed, tools=[get_weather], tool_choice="required")
        for event in events:
            if isinstance(event, CallEnded):
                assert "days of sun in" in event.result.text
                ran += 1
        if ran == ENOUGH:
            break
    assert ran


def test_an_answer_in_a_format_is_demanded_of_a_random_model(random_engine: Engine) -> None:
    answered = 0
    for seed in SEEDS:
        events = events_of(random_engine, seed, response_format=ResponseFormat("place", PLACE))
        for event in events:
            if isinstance(event, SamplingEnded) and event.reason == "stop":
                last = event.messages[-1]
                if last.channel == "final":
                    jsonschema.validate(json.loads(last.text), PLACE)
                    answered += 1
        if answered == ENOUGH:
            break
    assert answered
