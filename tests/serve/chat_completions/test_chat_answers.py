"""Answers, in chunks and whole: what a client sees of what the model said, and what it never sees."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from harmonia import EngineError, HarmonyError, StreamError, decode
from harmonia.errors import ErrorCode
from harmonia.messages import Json
from harmonia.run.engines import Chunk, Finish, Request, TokenLogprob, Traits, Usage
from harmonia.run.engines.base import Alternative
from harmonia.run.engines.demo import DemoEngine
from harmonia.run.tools import Tool
from harmonia.serve.config.settings import Settings
from harmonia.serve.models.server_tools import ServerTool
from tests.support.engines.scripted import Line, ScriptedEngine, calls, final, say, think
from tests.support.servers.chat_service import (
    CALLER,
    HI,
    WEATHER,
    answer,
    ask,
    body,
    chunks,
    completions_of,
    events_of,
    fold,
    stream,
    without_ids,
)

SHOWN = Settings(analysis="shown")
PATCH: Json = {"type": "custom", "custom": {"name": "patch", "description": "Patches a file."}}
CALLED = calls("get_weather", '{"city":"Rome"}')
Script = str | list[Line]


def both(script: tuple[Script, ...], settings: Settings | None = None, *, is_text: bool = False, **fields: Any) -> Json:
    """The only choice of an answer, which is the same whole and in chunks, of whatever size the engine's are."""
    asked = body(fields.pop("messages", None), **fields)
    whole = ask(completions_of(ScriptedEngine(*script, is_text=is_text), settings), asked)
    ChatCompletion.model_validate(whole, strict=True)
    asked["stream_options"] = {"include_usage": True}
    for size in (1, 3, 1000):
        came = stream(completions_of(ScriptedEngine(*script, chunk=size, is_text=is_text), settings), asked)
        folded = fold(came)
        if size == 1:
            assert folded == without_ids(whole)
        assert folded["choices"] == without_ids(whole)["choices"]
    [choice] = without_ids(whole)["choices"]
    return choice


def failure(
    script: tuple[Script, ...], settings: Settings | None = None, **fields: Any
) -> tuple[ErrorCode, list[Json]]:
    """The error of an answer, which is raised or told at the end, and the chunks before it."""
    asked = body(**fields)
    with pytest.raises(HarmonyError) as raised:
        ask(completions_of(ScriptedEngine(*script), settings), asked)
    *before, last = stream(completions_of(ScriptedEngine(*script), settings), asked)
    assert set(last) == {"error"}
    assert set(last["error"]) == {"message", "type", "param", "code"}
    assert not any("error" in chunk or chunk["choices"][0]["finish_reason"] for chunk in before)
    return raised.value.code, before


# ── texts ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_final_text_is_the_content() -> None:
    choice = both((think("Hm.") + final("Yes."),))
    assert choice == {
        "index": 0,
        "message": {"role": "assistant", "content": "Yes.", "refusal": None},
        "logprobs": None,
        "finish_reason": "stop",
    }


def test_reasoning_is_there_under_both_names_where_it_is_shown() -> None:
    message = both((think("Hm.") + think("Hm, hm.") + final("Yes."),), SHOWN)["message"]
    assert (message["reasoning"], message["reasoning_content"]) == ("Hm.\n\nHm, hm.", "Hm.\n\nHm, hm.")


def test_preambles_are_content_with_an_empty_line_behind_them() -> None:
    preamble = "<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant"
    blank = "<|channel|>commentary<|message|> \n<|end|><|start|>assistant"
    choice = both((preamble + blank + think("Hm.") + final("\n Yes. \n"),))
    assert choice["message"]["content"] == "Let me see.\n\n\n Yes. \n"


def test_a_silent_turn_says_why() -> None:
    silent = "<|channel|>analysis<|message|>Secret.<|end|>"
    choice = both((silent,))
    assert choice["message"]["content"] == ""
    assert (choice["finish_reason"], choice["hidden_because"]) == ("stop", "there is only text on analysis")
    odd = "<|channel|>secretchannel<|message|>Secret.<|end|>"
    assert both((odd,))["hidden_because"] == "there is only text on a channel that is not shown"
    assert both((final(" "),))["hidden_because"] == "there is no text"


def test_running_out_of_tokens_is_told() -> None:
    cut: list[Line] = [say("<|channel|>final<|message|>One two"), Finish("length", Usage(5, 5))]
    choice = both((cut,))
    assert (choice["message"]["content"], choice["finish_reason"]) == ("One two", "length")
    thinking: list[Line] = [say("<|channel|>analysis<|message|>Secret"), Finish("length", Usage(5, 5))]
    choice = both((thinking,))
    assert (choice["message"]["content"], choice["finish_reason"]) == ("", "length")
    assert choice["hidden_because"] == "there is only text on analysis"
    nobody_said_why: list[Line] = [say("<|channel|>final<|message|>One"), Finish("unknown")]
    assert both((nobody_said_why,))["finish_reason"] == "length"


def test_max_tokens_ends_the_answer() -> None:
    choice = ask(completions_of(DemoEngine()), body(max_tokens=30))["choices"][0]
    assert choice["finish_reason"] == "length"


def test_the_engines_own_end_need_not_be_a_token() -> None:
    unsaid: list[Line] = [say("<|channel|>final<|message|>Yes."), Finish("stop", Usage(5, 5))]
    assert both((unsaid,))["message"]["content"] == "Yes."


# ── stop strings ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_stop_string_cuts_the_text_and_stops_the_engine() -> None:
    endless: list[Line] = [say("<|channel|>final<|message|>One two three"), asyncio.Event()]
    engine = ScriptedEngine(endless)
    choice = ask(completions_of(engine), body(stop=["o thr", "zzz"]))["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("One tw", "stop")
    assert (engine.running, engine.closed_early) == (0, 1)
    engine = ScriptedEngine(endless)
    assert fold(stream(completions_of(engine), body(stop="o thr")))["choices"][0]["message"]["content"] == "One tw"
    assert (engine.running, engine.closed_early) == (0, 1)


def test_a_stop_string_at_the_very_beginning_leaves_an_empty_answer_that_hides_nothing() -> None:
    choice = both((think("Hm.") + final("Yes."),), stop="Y")
    assert (choice["message"]["content"], choice["finish_reason"]) == ("", "stop")
    assert "hidden_because" not in choice


def test_what_only_begins_like_a_stop_string_is_content() -> None:
    assert both((final("One two t"),), stop="two three")["message"]["content"] == "One two t"


def test_reasoning_does_not_stop_at_a_stop_string() -> None:
    message = both((think("A stop B.") + final("C stop D."),), SHOWN, stop="stop")["message"]
    assert (message["reasoning"], message["content"]) == ("A stop B.", "C ")


def test_a_stop_string_reaches_over_an_empty_line_between_texts() -> None:
    preamble = "<|channel|>commentary<|message|>One.<|end|><|start|>assistant"
    assert both((preamble + final("Two."),), stop=".\n\nT")["message"]["content"] == "One"


# ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_goes_to_the_client() -> None:
    choice = both((think("Hm.") + CALLED,), tools=[WEATHER])
    assert choice["message"] == {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "tool_calls": [{"type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Rome"}'}}],
    }
    assert choice["finish_reason"] == "tool_calls"


def test_the_chunks_of_a_call_have_its_id_and_name_once() -> None:
    came = stream(completions_of(ScriptedEngine(CALLED)), body(tools=[WEATHER]))
    deltas = [call for chunk in came for call in chunk["choices"][0]["delta"].get("tool_calls", [])]
    assert {delta["index"] for delta in deltas} == {0}
    first, *others = deltas
    assert first["id"].startswith("call_")
    assert (first["type"], first["function"]) == ("function", {"name": "get_weather", "arguments": ""})
    assert all(set(delta) == {"index", "function"} for delta in others)
    for chunk in came:
        ChatCompletionChunk.model_validate(chunk, strict=True)


def test_the_client_reads_its_own_names() -> None:
    odd: Json = {"type": "function", "function": {"name": "größe-von 天気", "parameters": {"type": "object"}}}
    engine = ScriptedEngine(final("No."))
    ask(completions_of(engine), body(tools=[odd]))
    legal = engine.requests[0].tools[0].name.removeprefix("functions.")
    assert legal != odd["function"]["name"]
    [call] = both((calls(legal, "{}"),), tools=[odd])["message"]["tool_calls"]
    assert call["function"]["name"] == odd["function"]["name"]


def test_several_calls_come_together_unless_one_is_asked_for() -> None:
    twice = CALLED + "<|start|>assistant" + calls("get_weather", '{"city":"Oslo"}')
    assert len(both((twice,), tools=[WEATHER])["message"]["tool_calls"]) == 2
    assert len(both((twice,), tools=[WEATHER], parallel_tool_calls=False)["message"]["tool_calls"]) == 1


def test_arguments_that_do_not_fit_are_the_clients_to_judge() -> None:
    [call] = both((calls("get_weather", '{"town": ]'),), tools=[WEATHER])["message"]["tool_calls"]
    assert call["function"]["arguments"] == '{"town": ]'


def test_custom_calls_have_an_input() -> None:
    text = "*** Begin Patch\n{not json}"
    custom = f"<|channel|>commentary to=functions.patch<|message|>{text}<|call|>"
    assert both((custom,), tools=[PATCH])["message"]["tool_calls"] == [
        {"type": "custom", "custom": {"name": "patch", "input": text}}
    ]


def test_the_older_form_is_answered_in_the_older_form() -> None:
    twice = CALLED + "<|start|>assistant" + calls("get_weather", "{}")
    choice = both((twice,), functions=[WEATHER["function"]], function_call={"name": "get_weather"})
    assert choice["finish_reason"] == "function_call"
    assert choice["message"]["function_call"] == {"name": "get_weather", "arguments": '{"city":"Rome"}'}


def test_a_preamble_before_a_call_is_content() -> None:
    preamble = "<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant"
    message = both((preamble + CALLED,), tools=[WEATHER])["message"]
    assert message["content"] == "Let me see."
    assert len(message["tool_calls"]) == 1


def test_a_call_that_was_cut_off_is_none() -> None:
    cut: list[Line] = [say(CALLED)[:-4], Finish("length", Usage(5, 5))]
    choice = both((cut,), tools=[WEATHER])
    assert "tool_calls" not in choice["message"]
    assert (choice["finish_reason"], choice["hidden_because"]) == ("length", "there is only a call that was cut off")
    last = stream(completions_of(ScriptedEngine(cut)), body(tools=[WEATHER]))[-1]["choices"][0]
    assert (last["finish_reason"], last["unfinished_call"]) == ("length", 0)


@pytest.mark.parametrize(
    "damaged",
    [
        "<|channel|>commentary to=functions.get_weather<|message|>{<|reserved_200013|>}<|call|>",
        [say(CALLED)[:-1], Finish("unknown")],
        "<|channel|>commentary to=functions.get_weather<|message|>{}<|start|>assistant" + final("x"),
    ],
)
def test_a_call_that_turns_out_to_be_uncertain_is_an_error(damaged: Script) -> None:
    code, before = failure((damaged, final("No.")), tools=[WEATHER])
    assert code is ErrorCode.TOOL_NOT_CERTAIN
    assert any(chunk["choices"][0]["delta"].get("tool_calls") for chunk in before)


def test_a_call_that_nobody_declared_is_told_to_the_model_and_to_nobody_else() -> None:
    choice = both((calls("steal", "{}"), final("Sorry.")), tools=[WEATHER])
    assert choice["message"] == {"role": "assistant", "content": "Sorry.", "refusal": None}


def test_a_model_that_never_learns_is_not_asked_for_ever() -> None:
    engine = ScriptedEngine(calls("steal", "{}"))
    choice = ask(completions_of(engine), body(tools=[WEATHER]))["choices"][0]
    assert len(engine.prompts) == 4
    assert choice["finish_reason"] == "length"
    assert choice["hidden_because"] == "there is only a call that was not delivered"


def test_calls_read_from_text_are_handed_over_only_where_the_operator_says_so() -> None:
    engine = ScriptedEngine(CALLED, is_text=True)
    choice = ask(completions_of(engine), body(tools=[WEATHER]))["choices"][0]
    assert "tool_calls" not in choice["message"]
    assert choice["hidden_because"] == "there is only a call that was not delivered"
    assert len(engine.prompts) == 1
    choice = both((CALLED,), Settings(calls="unverified"), is_text=True, tools=[WEATHER])
    assert choice["finish_reason"] == "tool_calls"


def test_a_call_from_text_that_was_cut_off_is_none() -> None:
    cut: list[Line] = [CALLED.removesuffix("<|call|>"), Finish("length")]
    choice = both((cut,), Settings(calls="unverified"), is_text=True, tools=[WEATHER])
    assert choice["finish_reason"] == "length"
    assert "tool_calls" not in choice["message"]


# ── the choice of tools ─────────────────────────────────────────────────────────────────────────────────────────────

OTHER: Json = {"type": "function", "function": {"name": "other"}}
NAMED: Json = {"type": "function", "function": {"name": "get_weather"}}


@pytest.mark.parametrize(
    "choice",
    ["required", NAMED, {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}}],
)
def test_a_demand_that_is_not_met_is_the_models_fault(choice: Any) -> None:
    # It is asked twice. Where one tool is left, its header is begun for it, and then this is a damaged call.
    code, before = failure((final("No."),), tools=[WEATHER, OTHER], tool_choice=choice)
    assert code is ErrorCode.SERVE_DEMAND_NOT_MET
    said = "No." if choice == "required" else ""
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in before) == said
    assert both((CALLED,), tools=[WEATHER, OTHER], tool_choice=choice)["finish_reason"] == "tool_calls"


def test_another_tool_does_not_meet_a_demand() -> None:
    code, _ = failure((calls("other", "{}"), final("No.")), tools=[WEATHER, OTHER], tool_choice=NAMED)
    assert code is ErrorCode.SERVE_DEMAND_NOT_MET


def test_running_out_of_tokens_before_the_call_is_no_fault() -> None:
    cut: list[Line] = [say("<|channel|>analysis<|message|>Hm"), Finish("length", Usage(5, 5))]
    assert both((cut,), tools=[WEATHER], tool_choice="required")["finish_reason"] == "length"


@pytest.mark.parametrize(
    "choice", ["none", {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [OTHER]}}]
)
def test_a_tool_that_may_not_be_called_is_not(choice: Any) -> None:
    message = both((CALLED, final("No.")), tools=[WEATHER, OTHER], tool_choice=choice)["message"]
    assert message == {"role": "assistant", "content": "No.", "refusal": None}


# ── tools of the server ─────────────────────────────────────────────────────────────────────────────────────────────


def hosted(approval: Any = "run") -> tuple[ServerTool, list[Any]]:
    seen: list[Any] = []

    def invoke(arguments: Any) -> str:
        seen.append(arguments)
        return "sunny"

    return ServerTool("sky", "look", Tool("sky___look", None, {"type": "object"}, invoke), approval), seen


def test_tools_of_the_server_run_here_and_are_no_part_of_the_answer() -> None:
    tool, seen = hosted()
    engine = ScriptedEngine(calls("sky___look", '{"up":true}'), final("It is sunny."))
    completion = ask(completions_of(engine, tools=[tool]), body(tool_choice="required"))
    assert seen == [{"up": True}]
    assert completion["choices"][0]["message"]["content"] == "It is sunny."
    assert completion["choices"][0]["finish_reason"] == "stop"
    assert "tool_calls" not in completion["choices"][0]["message"]
    assert completion["usage"]["prompt_tokens"] == sum(map(len, engine.prompts))
    engine = ScriptedEngine(calls("sky___look", "{}"), CALLED)
    completion = ask(completions_of(engine, tools=[tool]), body(tools=[WEATHER]))
    assert [call["function"]["name"] for call in completion["choices"][0]["message"]["tool_calls"]] == ["get_weather"]


def test_tools_that_somebody_has_to_allow_are_not_offered() -> None:
    tool, seen = hosted("ask")
    engine = ScriptedEngine(calls("sky___look", "{}"), final("No."))
    assert ask(completions_of(engine, tools=[tool]), body())["choices"][0]["message"]["content"] == "No."
    assert seen == []
    assert engine.requests[0].tools == ()


# ── several choices ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_choices_are_made_at_the_same_time_and_counted_together() -> None:
    asked = body(n=3, seed=0, stream_options={"include_usage": True})
    came = stream(completions_of(DemoEngine()), asked)
    for chunk in came:
        ChatCompletionChunk.model_validate(chunk, strict=True)
    assert len({chunk["id"] for chunk in came}) == 1
    assert came[0]["id"].startswith("chatcmpl-")
    order = [chunk["choices"][0]["index"] for chunk in came[:-1]]
    assert order != sorted(order)
    folded = fold(came)
    whole = ask(completions_of(DemoEngine()), body(n=3, seed=0))
    assert folded["choices"] == without_ids(whole)["choices"]
    texts = [choice["message"]["content"] for choice in folded["choices"]]
    assert len(set(texts)) == 3
    one = ask(completions_of(DemoEngine()), body())["usage"]
    assert whole["usage"]["prompt_tokens"] == one["prompt_tokens"]
    assert whole["usage"]["completion_tokens"] > 2 * one["completion_tokens"]


def test_one_choice_that_fails_ends_all_of_them() -> None:
    async def scenario() -> None:
        never = asyncio.Event()
        engine = ScriptedEngine(
            [say("<|channel|>final<|message|>One"), never],
            [say("<|channel|>final<|message|>Two"), EngineError(ErrorCode.ENGINE_DIED, "gone")],
        )
        came = await chunks(completions_of(engine), body(n=2))
        assert came[-1]["error"]["code"] == "engine_died"
        assert engine.running == 0
        engine = ScriptedEngine(["<|channel|>final", never], [EngineError(ErrorCode.ENGINE_DIED, "gone")])
        with pytest.raises(EngineError):
            await answer(completions_of(engine), body(n=2))
        assert engine.running == 0

    asyncio.run(scenario())


def test_a_client_that_reads_slowly_holds_all_choices_back() -> None:
    async def scenario() -> None:
        engine = ScriptedEngine("<|channel|>final<|message|>" + "word " * 2000)
        events = events_of(completions_of(engine), body(n=2))
        for _ in range(5):
            await anext(events)
        for _ in range(1000):
            await asyncio.sleep(0)  # whoever could run has run
        assert max(map(len, engine.sampled)) < 200
        await events.aclose()
        assert engine.running == 0

    asyncio.run(scenario())


# ── log-probabilities and usage ─────────────────────────────────────────────────────────────────────────────────────


def test_log_probabilities_are_those_of_the_content() -> None:
    asked = body(logprobs=True, top_logprobs=1)
    whole = ask(completions_of(DemoEngine()), asked)
    ChatCompletion.model_validate(whole, strict=True)
    choice = whole["choices"][0]
    content = choice["logprobs"]["content"]
    assert "".join(each["token"] for each in content) == choice["message"]["content"]
    assert all(bytes(each["bytes"]).decode() == each["token"] and len(each["top_logprobs"]) == 1 for each in content)
    assert fold(stream(completions_of(DemoEngine(tokens_per_chunk=3)), asked))["choices"][0] == choice


def test_log_probabilities_of_what_a_stop_string_cuts_off_are_cut_off() -> None:
    text = ask(completions_of(DemoEngine()), body())["choices"][0]["message"]["content"]
    for at in range(len(text) - 1):
        asked = body(logprobs=True, stop=text[at : at + 4])
        choice = ask(completions_of(DemoEngine(tokens_per_chunk=2)), asked)["choices"][0]
        shown = choice["message"]["content"]
        tokens = [each["token"] for each in (choice["logprobs"]["content"])]
        assert text.startswith("".join(tokens))
        assert "".join(tokens).startswith(shown)
        assert not tokens or len("".join(tokens[:-1])) < len(shown)


class LoggingEngine(ScriptedEngine):
    """Says log-probabilities of everything."""

    def __init__(self, *script: str) -> None:
        lines: list[list[Line]] = [
            [
                Chunk([token], logprobs=(TokenLogprob(token, f"t{token}", -0.5, (Alternative(token, "", -0.5),)),))
                for token in say(each)
            ]
            for each in script
        ]
        super().__init__(*lines)
        self.traits = Traits(gives_logprobs=True)


def test_nothing_hidden_has_log_probabilities() -> None:
    visible = "Let me see.", " \n", " Yes."
    first, blank, last = visible
    script = (
        f"<|channel|>commentary<|message|>{first}<|end|><|start|>assistant{think('Secret thoughts.')}"
        f"<|channel|>commentary<|message|>{blank}<|end|><|start|>assistant{final(last)}"
    )
    for stop in (None, "zzz", ["s. ", ".\n\n Q"]):
        engine = LoggingEngine(script)
        content = ask(completions_of(engine), body(logprobs=True, stop=stop))["choices"][0]["logprobs"]["content"]
        assert [each["token"] for each in content] == [f"t{token}" for token in [*say(first), *say(last)]]
        assert {each["logprob"] for each in content} == {-0.5}


@pytest.mark.parametrize("damage", ["surplus", "missing", "shifted"])
def test_log_probabilities_belong_to_the_token_whose_id_they_have(damage: str) -> None:
    thought, answer = say(think("Secret thoughts of mine.")), say(final("It is four, of course."))
    lines: list[Line] = []
    for tokens in (thought, answer):
        entries = [TokenLogprob(token, decode([token]), -0.5) for token in tokens]
        if tokens is thought:
            entries = {"surplus": entries * 3, "missing": [], "shifted": entries[1:]}[damage]
        lines.append(Chunk(tokens, logprobs=tuple(entries)))
    engine = ScriptedEngine(lines)
    engine.traits = Traits(gives_logprobs=True)
    choice = ask(completions_of(engine), body(logprobs=True))["choices"][0]
    content = choice["logprobs"]["content"]
    assert "".join(each["token"] for each in content) == choice["message"]["content"] == "It is four, of course."


def test_usage_counts_what_is_hidden_too() -> None:
    script: list[Line] = [say(think("Hm.") + final("Yes.")), Finish("stop", Usage(100, 9, 60))]
    asked = body(stream_options={"include_usage": True})
    expected = {
        "prompt_tokens": 100,
        "completion_tokens": 9,
        "total_tokens": 109,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 0},
    }
    service = completions_of(ScriptedEngine(script))
    first = ask(service, body())["usage"]
    assert first["prompt_tokens_details"]["cached_tokens"] == 0  # this key never sent any of it
    *before, last = stream(service, asked)
    assert last["choices"] == []
    usage = last["usage"]
    assert 2 < usage["completion_tokens_details"]["reasoning_tokens"] <= 9
    assert {name: usage[name] for name in expected} == expected
    assert all(chunk["usage"] is None for chunk in before)
    assert ask(service, body())["usage"] == usage
    assert all("usage" not in chunk for chunk in stream(completions_of(ScriptedEngine(script)), body()))


# ── errors and ends ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_engine_that_breaks_off_ends_the_stream_with_an_error() -> None:
    broken: list[Line] = [say("<|channel|>final<|message|>One"), EngineError(ErrorCode.ENGINE_DIED, "gone")]
    code, before = failure((broken,))
    assert code is ErrorCode.ENGINE_DIED
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in before) == "One"


def test_an_engine_that_refuses_is_an_error_before_the_stream() -> None:
    for error in (ErrorCode.ENGINE_OUT_OF_CONTEXT, ErrorCode.ENGINE_UNREACHABLE):
        engine = ScriptedEngine([EngineError(error, "no")])
        with pytest.raises(EngineError) as raised:
            asyncio.run(completions_of(engine).create(body(stream=True), CALLER))
        assert raised.value.code is error


@pytest.mark.parametrize("choices", [1, 2])
def test_a_bug_ends_the_stream_with_an_error_that_says_nothing_of_it(choices: int) -> None:
    async def scenario() -> None:
        script: list[Line] = [say("<|channel|>final<|message|>One"), KeyError("SECRET")]
        engine = ScriptedEngine(*[script] * choices)
        started = await completions_of(engine).create(body(stream=True, n=choices), CALLER)
        *_, last = [event.data async for event in started.events()]
        assert json.loads(last)["error"]["code"] == "server_error"
        assert b"SECRET" not in last
        assert isinstance(started.failure, KeyError)

    asyncio.run(scenario())


def test_a_failure_is_known_to_whoever_carries_the_events() -> None:
    async def scenario() -> None:
        engine = ScriptedEngine([say("<|channel|>final<|message|>One"), EngineError(ErrorCode.ENGINE_DIED, "gone")])
        started = await completions_of(engine).create(body(stream=True), CALLER)
        assert started.failure is None
        async for _ in started.events():
            pass
        assert isinstance(started.failure, EngineError)
        assert started.failure.code is ErrorCode.ENGINE_DIED
        assert started.output_tokens == 4

    asyncio.run(scenario())


def test_closing_the_stream_stops_the_engine() -> None:
    async def scenario() -> None:
        engine = ScriptedEngine([say("<|channel|>final<|message|>One two"), asyncio.Event()])
        events = events_of(completions_of(engine), body())
        await anext(events)
        await anext(events)
        started = await completions_of(engine).create(body(stream=True), CALLER)
        stream = started.events()
        await anext(stream)
        assert engine.running == 2
        await stream.aclose()
        assert engine.running == 1
        await events.aclose()

    asyncio.run(scenario())


@pytest.mark.parametrize("choices", [1, 2])
def test_cancelling_who_waits_for_the_result_stops_the_engine(choices: int) -> None:
    async def scenario() -> None:
        reached = asyncio.Event()

        class Waiting(ScriptedEngine):
            async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
                async with aclosing(super().generate(prompt, request)) as pieces:
                    async for piece in pieces:
                        reached.set()
                        yield piece

        engine = Waiting([say("<|channel|>final<|message|>One two"), asyncio.Event()])
        started = await completions_of(engine).create(body(n=choices), CALLER)
        task = asyncio.create_task(started.result())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert engine.running == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("choices", [1, 2])
def test_a_server_that_stops_ends_the_answer_with_what_there_is(choices: int) -> None:
    async def scenario() -> None:
        engine = ScriptedEngine([say("<|channel|>final<|message|>One two"), asyncio.Event()])
        started = await completions_of(engine).create(body(stream=True, n=choices), CALLER)
        came: list[Json] = []
        async for event in started.events():
            came.append(json.loads(event.data))
            if sum("content" in chunk["choices"][0]["delta"] for chunk in came) == 3 * choices:
                started.cancel()
                started.cancel()
        folded = fold(came)["choices"]
        assert [choice["finish_reason"] for choice in folded] == ["length"] * choices
        assert [choice["message"]["content"] for choice in folded] == ["One two"] * choices

    asyncio.run(scenario())


def test_the_models_fault_is_not_the_clients() -> None:
    with pytest.raises(StreamError):
        ask(completions_of(ScriptedEngine(final("No."))), body(tools=[WEATHER], tool_choice="required"))


def test_chunks_are_those_of_the_sdk() -> None:
    for chunk in stream(completions_of(DemoEngine(), SHOWN), body(HI, logprobs=True)):
        read = ChatCompletionChunk.model_validate(chunk, strict=True)
        assert (read.object, read.created, read.model) == ("chat.completion.chunk", 1762344900, "gpt-oss")


@pytest.mark.parametrize("chunk", [1, 1000])
@pytest.mark.parametrize("is_text", [False, True])
def test_one_call_where_parallel_calls_are_not_wanted(chunk: int, is_text: bool) -> None:
    first = calls("get_weather", '{"city":"A"}').replace("<|call|>", "<|end|>")
    two = first + "<|start|>assistant" + calls("get_weather", '{"city":"B"}')
    for parallel, cities in ((None, "AB"), (False, "A")):
        value = body(tools=[WEATHER], parallel_tool_calls=parallel)
        service = completions_of(ScriptedEngine(two, chunk=chunk, is_text=is_text), Settings(calls="unverified"))
        for answered in (ask(service, value), fold(stream(service, value))):
            (choice,) = answered["choices"]
            made = [json.loads(call["function"]["arguments"])["city"] for call in choice["message"]["tool_calls"]]
            assert (made, choice["finish_reason"]) == (list(cities), "tool_calls")


@pytest.mark.parametrize("choices", [1, 2])
def test_a_stream_begins_before_the_engine_has_read_the_prompt(choices: int) -> None:
    async def run() -> None:
        said = asyncio.Event()
        service = completions_of(ScriptedEngine([said, final("Yes.")]))
        started = await service.create(body(stream=True, n=choices), CALLER)
        async with aclosing(started.events()) as events:
            first = json.loads((await anext(events)).data)
            assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
            assert not said.is_set()
            said.set()
            came = [first, *[json.loads(event.data) async for event in events]]
        assert [choice["message"]["content"] for choice in fold(came)["choices"]] == ["Yes."] * choices

    asyncio.run(run())


def test_an_engine_that_fails_late_is_an_error_in_the_stream() -> None:
    async def run() -> None:
        said = asyncio.Event()
        service = completions_of(ScriptedEngine([said, EngineError(ErrorCode.ENGINE_DIED, "gone")]))
        started = await service.create(body(stream=True), CALLER)
        came: list[Json] = []
        async for event in started.events():
            came.append(json.loads(event.data))
            said.set()
        assert [choice["delta"]["role"] for choice in came[0]["choices"]] == ["assistant"]
        assert came[1]["error"]["code"] == "engine_died" and len(came) == 2

    asyncio.run(run())


def test_a_client_that_leaves_before_the_first_word_stops_the_engine() -> None:
    async def run() -> None:
        engine = ScriptedEngine([asyncio.Event()])
        started = await completions_of(engine).create(body(stream=True), CALLER)
        events = started.events()
        await anext(events)
        assert engine.running == 1
        await events.aclose()
        assert (engine.running, engine.closed_early) == (0, 1)

    asyncio.run(run())


@pytest.mark.parametrize("is_streamed", [True, False])
def test_what_an_engine_refuses_at_once_is_a_status(is_streamed: bool) -> None:
    async def run() -> None:
        engine = ScriptedEngine([EngineError(ErrorCode.ENGINE_UNREACHABLE, "gone")])
        service, value = completions_of(engine), body(stream=is_streamed)
        with pytest.raises(EngineError) as caught:
            await (chunks(service, value) if is_streamed else answer(service, value))
        assert caught.value.code is ErrorCode.ENGINE_UNREACHABLE

    asyncio.run(run())


def test_a_prompt_longer_than_the_context_is_a_status_however_slow_the_engine() -> None:
    async def run() -> None:
        engine = ScriptedEngine([asyncio.Event()])
        engine.traits = Traits(context_tokens=10)
        with pytest.raises(EngineError) as caught:
            await completions_of(engine).create(body(stream=True), CALLER)
        assert caught.value.code is ErrorCode.ENGINE_OUT_OF_CONTEXT
        assert engine.running == 0

    asyncio.run(run())
