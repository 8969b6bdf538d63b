"""What is demanded of a model: guaranteed by an engine that takes a grammar, checked and asked for again otherwise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from harmonia import Conversation, Message, Parser, Repaired, TextDelta, decode, parse, visible_text
from harmonia.errors import EngineError, ErrorCode, InputError
from harmonia.events import ArgumentsDelta, Event, HeaderCompleted, MessageEnded, MessageStarted
from harmonia.grammar import Demand, TextForm, WrittenGrammar, grammar_for
from harmonia.messages import ResponseFormat, Role
from harmonia.run.agent import Agent
from harmonia.run.constraints import attempts
from harmonia.run.constraints.attempts import check_completion
from harmonia.run.engines import PROVIDER_TRAITS, Finish, Request, Sampling, Traits
from harmonia.run.engines.http import ServerError
from harmonia.run.engines.recording import RecordingEngine, ReplayEngine, read_capture
from harmonia.run.events import (
    CallEnded,
    RunEnded,
    SamplingEnded,
    SamplingGivenUp,
    SamplingStarted,
    TurnEvent,
)
from harmonia.run.loop import Run, run, run_turn
from harmonia.run.options import RunLimits
from harmonia.run.tools import Tool, ToolSet
from harmonia.run.tools.arguments import compile_schema
from tests.support.engines.masked import MaskedEngine
from tests.support.engines.scripted import ScriptedEngine, calls, final, say, think

Kind = TypeVar("Kind")

PLACE = ResponseFormat(
    "place",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "size": {"enum": ["small", "large"]}},
        "required": ["city", "size"],
        "additionalProperties": False,
    },
)
ROME = '{"city":"Rome","size":"large"}'
CALL = calls("get_weather", '{"city":"Rome"}')


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def get_time(city: str) -> str:
    """The time in a city."""
    return "noon"


def collect(made: Run) -> list[TurnEvent]:
    async def read() -> list[TurnEvent]:
        return [event async for event in made]

    return asyncio.run(read())


def of_kind(events: Sequence[object], kind: type[Kind]) -> list[Kind]:
    return [event for event in events if isinstance(event, kind)]


def last(events: Sequence[TurnEvent]) -> RunEnded:
    ended = events[-1]
    assert isinstance(ended, RunEnded)
    return ended


def texts(events: Sequence[TurnEvent]) -> str:
    return "".join(event.text for event in of_kind(events, TextDelta))


class Provider:
    """A provider that says what an engine is told to say, as messages."""

    name = "provider"
    traits = PROVIDER_TRAITS
    model = "script"

    def __init__(self, engine: ScriptedEngine) -> None:
        self._engine = engine
        self.conversations: list[Conversation] = []

    async def respond(self, conversation: Conversation, request: Request) -> AsyncGenerator[Event | Finish, None]:
        self.conversations.append(conversation)
        parser = Parser(Role.ASSISTANT)
        async for piece in self._engine.generate([], request):
            if isinstance(piece, Finish):
                yield piece
                return
            for event in parser.feed(piece.tokens):
                if event.__class__.__name__ != "TurnEnded":
                    yield event

    async def close(self) -> None:
        pass


# ── an engine that takes a grammar ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("choice", ["required", "get_time"])
def test_a_demanded_call_is_made_by_tokens_drawn_at_random(choice: str, seed: int) -> None:
    engine = MaskedEngine(seed)
    events = collect(run_turn(engine, "Hi", tools=[get_weather, get_time], tool_choice=choice))
    assert not of_kind(events, Repaired)
    ended = last(events)
    assert ended.reason == "calls"
    (pending,) = ended.pending
    assert pending.call.is_executable
    assert pending.call.name in (["get_time"] if choice == "get_time" else ["get_weather", "get_time"])
    assert ToolSet([get_weather, get_time]).check_arguments(pending.call)
    grammar = engine.requests[0].grammar
    assert grammar is not None and grammar.kind == "llguidance"


@pytest.mark.parametrize("seed", [1, 2])
def test_an_answer_of_tokens_drawn_at_random_has_its_form(seed: int) -> None:
    events = collect(run(MaskedEngine(seed), "Hi", tools=[get_weather], tool_choice="none", response_format=PLACE))
    assert last(events).reason == "answered"
    assert not of_kind(events, Repaired) and not of_kind(events, SamplingGivenUp)
    answer = json.loads(last(events).conversation[-1].text)
    compile_schema("place", PLACE.schema)(answer)


def test_under_a_grammar_always_the_whole_loop_is_well_formed_whatever_is_drawn() -> None:
    limits = RunLimits(samplings=4, tokens=1200)
    made = run(MaskedEngine(5), "Hi", tools=[get_weather], tool_choice="required", grammar="always", limits=limits)
    events = collect(made)
    assert not of_kind(events, Repaired)
    first = of_kind(events, CallEnded)[0]
    assert first.call.name == "get_weather" and not first.result.is_error
    for ended in of_kind(events, SamplingEnded):
        for message in ended.messages:
            assert message.origin is not None and not message.origin.faults


def test_only_allowed_tools_are_called() -> None:
    tools = ToolSet([get_weather, get_time]).allow(["get_time"])
    for seed in range(3):
        ended = last(collect(run_turn(MaskedEngine(seed), "Hi", tools=tools, tool_choice="required")))
        assert [pending.call.name for pending in ended.pending] == ["get_time"]


def test_a_custom_tool_gets_text_of_its_form_and_a_strict_one_arguments_that_fit() -> None:
    form = TextForm("lark", 'start: "BEGIN\\n" LINE LINE? "END"\nLINE: /[a-z]{1,8}\\n/')
    patch = Tool("patch", None, {"type": "string"}, takes="text", text_form=form)
    exact = Tool("exact", None, {"type": "object", "properties": {"n": {"type": "integer"}}}, strict=True)
    for name in ("patch", "exact"):
        ended = last(collect(run_turn(MaskedEngine(3), "Hi", tools=[patch, exact], tool_choice=name)))
        (pending,) = ended.pending
        if name == "patch":
            assert pending.call.text.startswith("BEGIN\n") and pending.call.text.endswith("END")
        else:
            assert isinstance(pending.call.value, dict)
    # The tools alone are a demand, whatever the choice.
    engine = MaskedEngine(3, most=1)
    collect(run_turn(engine, "Hi", tools=[patch]))
    assert engine.requests[0].grammar is not None


def test_where_nothing_is_demanded_there_is_a_grammar_only_if_it_is_always_wanted() -> None:
    for use, expected in (("demanded", False), ("always", True), ("off", False)):
        engine = MaskedEngine(most=1)
        collect(run_turn(engine, "Hi", tools=[get_weather], grammar=use))  # pyright: ignore[reportArgumentType]
        assert (engine.requests[0].grammar is not None) is expected
    engine = MaskedEngine(most=1)
    collect(run_turn(engine, "Hi", tools=[get_weather], tool_choice="required", grammar="off"))
    assert engine.requests[0].grammar is None
    with pytest.raises(InputError) as refused:
        run(engine, "Hi", grammar="sometimes")  # pyright: ignore[reportArgumentType]
    assert refused.value.code is ErrorCode.RUN_INVALID_OPTION


def test_a_grammar_is_written_once_for_each_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Demand] = []

    def count(demand: Demand, *others: Any) -> WrittenGrammar:
        written.append(demand)
        return grammar_for(demand, *others)

    monkeypatch.setattr(attempts, "grammar_for", count)
    form = ResponseFormat("unheard_of", {"type": "object", "properties": {"x": {"const": 4711}}})
    for _ in range(3):
        collect(run(MaskedEngine(most=1), "Hi", response_format=form))
    assert len(written) == 1
    collect(run(MaskedEngine(most=1), "Hi", response_format=form, tools=[get_time], tool_choice="required"))
    assert len(written) == 2


def test_what_the_grammar_cannot_hold_is_said_and_checked() -> None:
    # Whatever is drawn, nobody hits a number whose remainder is demanded, so the check has something to find.
    form = ResponseFormat("odd", {"type": "array", "items": {"enum": [1, 2]}, "minItems": 3, "uniqueItems": True})
    events = collect(run(MaskedEngine(1), "Hi", response_format=form))
    (ended,) = of_kind(events, SamplingEnded)
    assert any("uniqueItems" in note for note in ended.unverified_constraints)
    assert set(ended.unverified_constraints) <= set(ended.notes)
    assert last(events).reason == "unmet"
    unmet = last(events).unmet
    assert unmet is not None and unmet.kind == "format"
    # It was told as it came, so there is no second attempt.
    assert not of_kind(events, SamplingGivenUp)


def test_an_answer_that_is_cut_off_is_not_checked_and_that_is_said() -> None:
    events = collect(run(MaskedEngine(1, most=4), "Hi", response_format=PLACE))
    assert last(events).reason == "length"
    (ended,) = of_kind(events, SamplingEnded)
    assert "cut off" in ended.notes[-1]
    assert ended.unverified_constraints == ()


# ── an engine that takes none ───────────────────────────────────────────────────────────────────────────────────────


def test_what_is_met_at_once_is_told_in_its_order() -> None:
    script = think("Hm.") + final(ROME)
    checked = collect(run(ScriptedEngine(script), "Hi", response_format=PLACE))
    plain = collect(run(ScriptedEngine(script), "Hi"))
    kinds = [type(event) for event in checked]
    assert kinds == [type(event) for event in plain]
    assert texts(checked) == f"Hm.{ROME}"
    assert last(checked).reason == "answered"
    assert last(checked).unmet is None


def test_reasoning_is_told_at_once_and_the_answer_when_it_was_checked() -> None:
    async def read() -> None:
        gate = asyncio.Event()
        lines = [think("Hm."), "<|channel|>final<|message|>", ROME, gate, "<|return|>"]
        seen: list[TurnEvent] = []
        arrived = asyncio.Event()

        async def follow() -> None:
            async for event in run(ScriptedEngine(lines), "Hi", response_format=PLACE):
                seen.append(event)
                arrived.set()

        task = asyncio.create_task(follow())
        while texts(seen) != "Hm.":
            arrived.clear()
            await arrived.wait()
        for _ in range(50):
            await asyncio.sleep(0)
        assert texts(seen) == "Hm."
        gate.set()
        await task
        assert texts(seen) == f"Hm.{ROME}"

    asyncio.run(read())


@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_an_answer_that_does_not_fit_is_sampled_again_with_its_header_begun(chunk: int) -> None:
    engine = ScriptedEngine(think("Hm.") + final('{"city":"Rome"}'), f"{ROME}<|return|>", chunk=chunk)
    events = collect(run(engine, "Hi", response_format=PLACE, sampling=Sampling(seed=7)))
    (given_up,) = of_kind(events, SamplingGivenUp)
    assert given_up.unmet.kind == "format"
    assert [message.text for message in given_up.messages] == ["Hm."]
    assert [message.text for message in given_up.left_out] == ['{"city":"Rome"}']
    # The thought is kept, and the answer is begun behind it.
    assert decode(engine.prompts[1]).endswith("Hm.<|end|><|start|>assistant<|channel|>final<|message|>")
    # Those who sample several answers at a time take the seeds behind the first for the others.
    first, second = (request.sampling.seed or 0 for request in engine.requests)
    assert first == 7 and not 0 <= second - first < 1000
    assert texts(events) == f"Hm.{ROME}"
    ended = last(events)
    assert ended.reason == "answered"
    assert visible_text(ended.conversation) == ROME
    assert ended.usage.completion_tokens == sum(map(len, engine.sampled))
    # Nobody sees a message without its header, or a header without its message.
    started = of_kind(events, SamplingStarted)
    assert [each.prefix_tokens for each in started] == [0, len(say("<|channel|>final<|message|>"))]
    assert len(of_kind(events, MessageStarted)) == len(of_kind(events, HeaderCompleted)) == 2
    assert given_up.left_out_tokens == len(say(final('{"city":"Rome"}'))) + 2  # and <|start|>assistant


def test_a_call_that_is_not_made_is_begun_for_the_model() -> None:
    engine = ScriptedEngine(final("No."), '{"city":"Rome"}<|call|>', final("Sunny."))
    events = collect(run(engine, "Hi", tools=[get_weather, get_time], tool_choice="get_weather"))
    (given_up,) = of_kind(events, SamplingGivenUp)
    assert given_up.unmet.kind == "call"
    assert "No." not in texts(events)
    assert decode(engine.prompts[1]).endswith(
        "<|start|>assistant to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>"
    )
    (ended,) = of_kind(events, CallEnded)
    assert ended.result.text == "sunny in Rome"
    assert last(events).reason == "answered"


def test_where_several_tools_are_left_the_model_is_only_asked_again() -> None:
    engine = ScriptedEngine(final("No."), CALL, final("Sunny."))
    events = collect(run(engine, "Hi", tools=[get_weather, get_time], tool_choice="required"))
    assert decode(engine.prompts[1]).endswith("<|start|>assistant")
    assert len(of_kind(events, SamplingGivenUp)) == 1
    assert last(events).reason == "answered"


def test_arguments_that_do_not_fit_do_not_meet_a_tool_choice_either() -> None:
    engine = ScriptedEngine(calls("get_weather", '{"town":1}'), CALL, final("Sunny."))
    events = collect(run(engine, "Hi", tools=[get_weather, get_time], tool_choice="required"))
    assert [message.text for each in of_kind(events, SamplingGivenUp) for message in each.left_out] == ['{"town":1}']
    assert [ended.result.is_error for ended in of_kind(events, CallEnded)] == [False]


def test_a_demand_that_is_never_met_is_reported() -> None:
    engine = ScriptedEngine(think("Hm.") + final("No."), final("Still no."))
    events = collect(run(engine, "Hi", tools=[get_weather, get_time], tool_choice="required"))
    ended = last(events)
    assert (ended.reason, len(engine.prompts)) == ("unmet", 2)
    assert ended.unmet is not None and ended.unmet.kind == "call"
    assert of_kind(events, SamplingEnded)[-1].notes == (ended.unmet.message,)
    # What came is kept: the thought of the first attempt, and the second as it was.
    assert [message.text for message in ended.conversation[-2:]] == ["Hm.", "Still no."]
    assert texts(events) == "Hm.Still no."


def test_a_strict_tool_is_not_called_with_what_does_not_fit() -> None:
    schema: Any = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    exact = Tool("exact", None, schema, strict=True, checks_arguments=False, untrusted=True)
    fits = ScriptedEngine(calls("exact", '{"n":"x"}'), calls("exact", '{"n":1}'))
    ended = last(collect(run(fits, "Hi", tools=[exact])))
    assert [pending.call.value for pending in ended.pending] == [{"n": 1}]
    never = ScriptedEngine(calls("exact", '{"n":"x"}'))
    events = collect(run(never, "Hi", tools=[exact]))
    ended = last(events)
    assert (ended.reason, ended.pending, len(never.prompts)) == ("unmet", (), 2)
    assert ended.unmet is not None and ended.unmet.kind == "arguments"
    # The conversation is consistent: the call has an answer.
    assert ended.conversation[-1].role is Role.TOOL
    # A tool that is not strict gets what was written, as before.
    loose = Tool("exact", None, schema, checks_arguments=False)
    ended = last(collect(run(ScriptedEngine(calls("exact", '{"n":"x"}')), "Hi", tools=[loose])))
    assert len(ended.pending) == 1


def test_a_text_of_another_form_is_sampled_again() -> None:
    form = TextForm("regex", "[0-9]+")
    count = Tool("count", None, {"type": "string"}, takes="text", text_form=form)
    header = "<|channel|>commentary to=functions.count<|message|>"
    engine = ScriptedEngine(f"{header}many<|call|>", f"{header}17<|call|>")
    events = collect(run(engine, "Hi", tools=[count]))
    assert [each.unmet.kind for each in of_kind(events, SamplingGivenUp)] == ["arguments"]
    assert [pending.call.text for pending in last(events).pending] == ["17"]
    # Models wrap texts, and what is meant is in there.
    wrapped = ScriptedEngine(f'{header}{{"input":"17"}}<|call|>')
    assert not of_kind(collect(run(wrapped, "Hi", tools=[count])), SamplingGivenUp)


def test_a_form_that_takes_too_much_work_is_not_read_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each text has more readings than anybody can count.
    form = TextForm("lark", 'start: s\ns: s s | s s s | "a"')
    count = Tool("count", None, {"type": "string"}, takes="text", text_form=form)
    script = f"<|channel|>commentary to=functions.count<|message|>{'a' * 64}<|call|>"
    monkeypatch.setattr(attempts, "_MOST_WORK_S", 0.0)
    events = collect(run(ScriptedEngine(script), "Hi", tools=[count]))
    assert last(events).reason == "calls"
    (ended,) = of_kind(events, SamplingEnded)
    assert "too much work" in ended.unverified_constraints[0]


def test_second_attempts_keep_to_the_limits() -> None:
    engine = ScriptedEngine(final("No."), f"{ROME}<|return|>")
    ended = last(collect(run(engine, "Hi", response_format=PLACE, limits=RunLimits(samplings=1))))
    assert ended.reason == "answered"
    few = len(say(final("No.")))
    engine = ScriptedEngine(final("No."), f"{ROME}<|return|>")
    ended = last(collect(run(engine, "Hi", response_format=PLACE, limits=RunLimits(tokens=few))))
    assert (ended.reason, len(engine.prompts)) == ("unmet", 1)


def test_an_engine_that_speaks_text_is_asked_again_without_a_beginning() -> None:
    engine = ScriptedEngine(final("No."), final(ROME), is_text=True)
    events = collect(run(engine, "Hi", response_format=PLACE))
    assert decode(engine.prompts[1]).endswith("<|start|>assistant")
    assert texts(events) == ROME
    assert last(events).reason == "answered"


def test_a_providers_answer_is_checked_too() -> None:
    provider = Provider(ScriptedEngine(think("Hm.") + final("No."), final(ROME)))
    events = collect(run(provider, "Hi", response_format=PLACE))
    (given_up,) = of_kind(events, SamplingGivenUp)
    assert [message.text for message in given_up.left_out] == ["No."]
    assert texts(events) == f"Hm.{ROME}"
    # It is asked the same again: providers refuse reasoning with nothing behind it.
    assert [message.text for message in provider.conversations[1]][-1] == "Hi"
    assert [message.text for message in last(events).conversation[-2:]] == ["Hm.", ROME]
    never = Provider(ScriptedEngine(final("No.")))
    ended = last(collect(run(never, "Hi", tools=[get_weather], tool_choice="required")))
    assert (ended.reason, len(never.conversations)) == ("unmet", 2)


def test_whoever_leaves_before_the_check_loses_nothing_that_came() -> None:
    async def read() -> None:
        made = run(ScriptedEngine(think("Hm.") + "<|channel|>final<|message|>" + ROME), "Hi", response_format=PLACE)
        async for event in made:
            if isinstance(event, MessageEnded):
                break
        await made.close()
        assert made.conversation[-1].text == "Hm."

        gate = asyncio.Event()
        lines = [think("Hm."), "<|channel|>final<|message|>", ROME, gate]
        made = run(ScriptedEngine(lines), "Hi", response_format=PLACE)
        seen: list[TurnEvent] = []
        async for event in made:
            seen.append(event)
            if texts(seen) == "Hm.":
                made.stop()
        assert isinstance(seen[-1], RunEnded) and seen[-1].reason == "stopped"

    asyncio.run(read())


def test_calls_that_are_told_are_not_asked_for_again() -> None:
    schema: Any = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    exact = Tool("exact", None, schema, strict=True)
    several = f"{CALL}<|start|>assistant{calls('exact', '{}')}"
    engine = ScriptedEngine(several, final("Yes."))
    events = collect(run(engine, "Hi", tools=[get_weather, exact]))
    # Both are given up, though only one of them is wrong: nobody has heard of the other yet.
    (given_up,) = of_kind(events, SamplingGivenUp)
    assert [message.text for message in given_up.left_out] == ['{"city":"Rome"}', "{}"]
    assert [message.text for message in last(events).conversation][-2:] == ["Hi", "Yes."]

    # Its header is certain, so it was told; then the model went on without an end.
    damaged = CALL.removesuffix("<|call|>") + "<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|>"
    engine = ScriptedEngine(damaged, final("Yes."))
    events = collect(run(engine, "Hi", tools=[get_weather], retry_malformed=True))
    assert not of_kind(events, SamplingGivenUp)
    assert [ended.result.is_error for ended in of_kind(events, CallEnded)] == [True]
    assert [message.role for message in last(events).conversation][-2:] == [Role.TOOL, Role.ASSISTANT]


def test_an_answer_that_was_told_is_not_asked_for_again() -> None:
    exact = Tool("exact", None, {"type": "object", "required": ["n"]}, strict=True)
    script = final("Yes.").replace("<|return|>", "<|end|><|start|>assistant") + calls("exact", "{}")
    engine = ScriptedEngine(script, final("No."))
    events = collect(run(engine, "Hi", tools=[exact]))
    assert texts(events) == "Yes."
    assert (last(events).reason, len(engine.prompts)) == ("unmet", 1)


def test_an_error_in_the_second_attempt_keeps_what_was_told_of_both() -> None:
    died = EngineError(ErrorCode.ENGINE_DIED, "it died")
    made = run(ScriptedEngine(think("Hm.") + final("No."), ['{"city":', died]), "Hi", response_format=PLACE)
    seen: list[TurnEvent] = []

    async def read() -> None:
        async for event in made:
            seen.append(event)

    with pytest.raises(EngineError):
        asyncio.run(read())
    assert texts(seen) == 'Hm.{"city":'
    assert [message.text for message in made.conversation][-2:] == ["Hm.", '{"city":']
    assert not of_kind(seen, SamplingEnded)


def test_a_run_under_a_grammar_is_recorded_and_replayed(tmp_path: Path) -> None:
    capture = tmp_path / "capture.jsonl"

    async def read() -> tuple[RunEnded, RunEnded]:
        recording = RecordingEngine(MaskedEngine(2), capture)
        first = await run_turn(recording, "Hi", tools=[get_weather], tool_choice="required").result()
        await recording.close()
        return first, await run_turn(ReplayEngine(capture), "Hi", tools=[get_weather], tool_choice="required").result()

    first, again = asyncio.run(read())
    assert first.reason == "calls"
    assert (again.reason, again.conversation) == (first.reason, first.conversation)
    grammar = read_capture(capture).runs[0].request.grammar
    assert grammar is not None and grammar.kind == "llguidance"


# ── an engine that refuses a grammar ────────────────────────────────────────────────────────────────────────────────

REFUSALS = [
    InputError(ErrorCode.GRAMMAR_TOO_LARGE, "the grammar is too large"),
    ServerError("http://engine answered 400", 400, "failed to parse grammar"),
    EngineError(ErrorCode.ENGINE_REFUSED, "failed to parse grammar"),
]


def refusing(error: Exception, *script: str) -> ScriptedEngine:
    engine = ScriptedEngine([error], *script)
    engine.traits = Traits(takes_grammar="gbnf")
    return engine


@pytest.mark.parametrize("refusal", REFUSALS)
def test_where_the_engine_refuses_a_grammar_the_answer_is_checked(refusal: Exception) -> None:
    engine = refusing(refusal, final("No."), f"{ROME}<|return|>")
    events = collect(run(engine, "Hi", response_format=PLACE))
    assert [request.grammar is not None for request in engine.requests] == [True, False, False]
    assert engine.prompts[0] == engine.prompts[1]
    assert texts(events) == ROME
    assert last(events).reason == "answered"
    # Nobody sees that it was asked twice before it said anything.
    kinds = [type(event) for event in events]
    assert kinds.count(SamplingStarted) == 2 and kinds.count(SamplingGivenUp) == kinds.count(SamplingEnded) == 1
    (given_up,) = of_kind(events, SamplingGivenUp)
    assert "refused the grammar" in given_up.notes[0] and "http" not in given_up.notes[0]


def test_an_engine_that_is_busy_or_died_on_the_way_is_not_asked_without_its_grammar() -> None:
    engine = refusing(ServerError("busy", 503, "busy"), final(ROME))
    with pytest.raises(EngineError):
        collect(run(engine, "Hi", response_format=PLACE))
    begun = ScriptedEngine([think("Hm."), EngineError(ErrorCode.GRAMMAR_TOO_LARGE, "too much work")], final(ROME))
    begun.traits = Traits(takes_grammar="gbnf")
    with pytest.raises(EngineError):
        collect(run(begun, "Hi", response_format=PLACE))
    assert len(engine.prompts) == len(begun.prompts) == 1


# ── damage ──────────────────────────────────────────────────────────────────────────────────────────────────────────

# A header without its channel token: nobody can say that it is for the user.
HIDDEN = "final<|message|>HIDDEN<|return|>"


def test_damaged_output_is_sampled_again_where_that_is_wanted() -> None:
    engine = ScriptedEngine(think("Hm.") + HIDDEN, final("Yes."))
    events = collect(run(engine, "Hi", retry_malformed=True))
    (given_up,) = of_kind(events, SamplingGivenUp)
    assert given_up.unmet.kind == "malformed"
    assert [message.text for message in given_up.left_out] == ["HIDDEN"]
    assert texts(events) == "Hm.Yes."
    assert last(events).reason == "answered"
    assert last(collect(run(ScriptedEngine(HIDDEN, final("Yes.")), "Hi"))).reason == "silent"


def test_damaged_answers_are_held_back_where_tools_are_strict_too() -> None:
    exact = Tool("exact", None, {"type": "object"}, strict=True)
    events = collect(run(ScriptedEngine(HIDDEN, final("Yes.")), "Hi", tools=[exact], retry_malformed=True))
    (given_up,) = of_kind(events, SamplingGivenUp)
    assert [message.text for message in given_up.left_out] == ["HIDDEN"]
    assert texts(events) == "Yes."


def test_damage_that_comes_twice_ends_as_any_silence() -> None:
    ended = last(collect(run(ScriptedEngine(HIDDEN), "Hi", retry_malformed=True)))
    assert (ended.reason, ended.unmet) == ("silent", None)
    assert ended.hidden_because is not None


def test_output_with_something_to_show_is_kept_though_it_is_damaged() -> None:
    engine = ScriptedEngine(think("Hm.") + "<|channel|>final<|message|>Yes.<|end|>stray", final("No."))
    events = collect(run(engine, "Hi", retry_malformed=True))
    assert of_kind(events, Repaired)
    assert not of_kind(events, SamplingGivenUp)
    assert visible_text(last(events).conversation) == "Yes."


def test_a_grammar_helps_after_damage() -> None:
    engine = MaskedEngine(11, most=200)
    events = collect(run(engine, "Hi", retry_malformed=True, limits=RunLimits(samplings=1, calls=1)))
    if of_kind(events, SamplingGivenUp):
        assert [request.grammar is not None for request in engine.requests] == [False, True]

    scripted = ScriptedEngine(HIDDEN, final("Yes."))
    scripted.traits = Traits(takes_grammar="gbnf")
    collect(run(scripted, "Hi", retry_malformed=True))
    assert [request.grammar is not None for request in scripted.requests] == [False, True]
    scripted = ScriptedEngine(HIDDEN, final("Yes."))
    scripted.traits = Traits(takes_grammar="gbnf")
    collect(run(scripted, "Hi", retry_malformed=True, grammar="off"))
    assert [request.grammar for request in scripted.requests] == [None, None]


# ── schemas of strangers ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_strangers_schema_is_checked_within_bounds() -> None:
    endless: Any = {"$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}}
    endless["$defs"]["d40"] = {"type": "object"}
    endless["$ref"] = "#/$defs/d0"
    pattern: Any = {"type": "string", "pattern": "(a+)+$"}
    answer = parse(say(final('"' + "a" * 64 + 'b"')), role="assistant").messages
    verdict = asyncio.run(check_completion(answer, Demand(response_format=ResponseFormat("x", pattern)), ToolSet()))
    assert verdict.unmet is None
    answer = parse(say(final("{}")), role="assistant").messages
    verdict = asyncio.run(check_completion(answer, Demand(response_format=ResponseFormat("x", endless)), ToolSet()))
    assert verdict.unmet is None
    assert "too much work" in verdict.notes[0]


def test_a_strangers_schema_says_the_same_as_any_where_it_has_no_patterns() -> None:
    cases: tuple[Any, ...] = (
        {"city": "Rome", "size": "large"},
        {"city": 1, "size": "large"},
        {"city": "x"},
        {"x": 1},
        [],
        None,
    )
    for value in cases:
        outcomes: list[str | None] = []
        for untrusted in (False, True):
            try:
                compile_schema("place", PLACE.schema, untrusted=untrusted)(value)
            except Exception as error:
                outcomes.append(str(error))
            else:
                outcomes.append(None)
        assert outcomes[0] == outcomes[1]


def test_held_calls_stream_their_arguments_once_they_are_checked() -> None:
    events = collect(run(ScriptedEngine(CALL, final("x")), "Hi", tools=[get_weather], tool_choice="required"))
    assert "".join(event.text for event in of_kind(events, ArgumentsDelta)) == '{"city":"Rome"}'
    assert isinstance(last(events).conversation[-1], Message)


def test_an_agents_answer_of_a_form_is_the_answer_alone() -> None:
    script = "<|channel|>commentary<|message|>I look it up.<|end|><|start|>assistant" + final(ROME)
    with Agent(ScriptedEngine(script), response_format=PLACE) as agent:
        assert agent.ask("Where?").text == ROME
    with Agent(ScriptedEngine(final("No."), "No.<|return|>"), response_format=PLACE) as agent:
        answer = agent.ask("Where?")
        assert answer.reason == "unmet" and answer.unmet is not None


def test_a_definition_brings_what_it_demands() -> None:
    form = {"type": "grammar", "syntax": "regex", "definition": "[0-9]+"}
    flat = Tool.from_definition({"type": "custom", "name": "count", "format": form})
    assert flat.text_form == TextForm("regex", "[0-9]+")
    nested = {"name": "count", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /x/"}}}
    assert Tool.from_definition({"type": "custom", "custom": nested}).text_form == TextForm("lark", "start: /x/")
    assert Tool.from_definition({"type": "custom", "name": "count", "format": {"type": "text"}}).text_form is None
    assert Tool.from_definition({"type": "function", "name": "x", "strict": True}).strict
    with pytest.raises(InputError) as refused:
        Tool.from_definition({"type": "custom", "name": "count", "format": {**form, "syntax": "ebnf"}})
    assert (refused.value.code, refused.value.at.path) == (ErrorCode.TOOL_INVALID_DEFINITION, "$.format")
