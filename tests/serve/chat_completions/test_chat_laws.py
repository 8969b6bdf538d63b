"""Laws of chat completions, for whatever a model says: well-formed, damaged, and cut anywhere."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any

from hypothesis import assume, example, given
from hypothesis import strategies as st

from harmonia import HarmonyError, encode, parse, visible_text
from harmonia.messages import Json, Role
from harmonia.run.engines import Chunk, Finish, Usage
from harmonia.run.engines.demo import DemoEngine
from harmonia.run.engines.demo.engine import MISBEHAVIOURS
from harmonia.serve.chat_completions.service import ChatCompletions
from harmonia.serve.config.settings import Settings
from harmonia.serve.wire.error_responses import api_error_of
from tests.support.engines.scripted import Line, ScriptedEngine, calls, final, say, think
from tests.support.repeated import repeated
from tests.support.servers.chat_service import CALLER, WEATHER, body, completions_of, fold, without_ids

SECRET = "xyzzy"
# What a model may say, one behind the other: whole messages, and pieces of which nothing good comes.
WHOLE = [
    think(f"Hm {SECRET}."),
    think(f" {SECRET}\n"),
    "<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant",
    "<|channel|>commentary<|message|> <|end|><|start|>assistant",
    calls("get_weather", '{"city":"Rome"}') + "<|start|>assistant",
    final("Yes, häuser 🙂 it is."),
]
DAMAGED = [
    *(
        f"<|channel|>analysis<|message|>{SECRET}",
        f"<|channel|>thoughts<|message|>{SECRET}<|end|>",
        f"<|message|>{SECRET}",
    ),
    *(
        f"analysis{SECRET}",
        f"{SECRET}",
        f"<|channel|>analysis{SECRET}<|message|>",
        f"<|start|>user<|message|>{SECRET}<|end|>",
    ),
    *(
        f"<|channel|>analysis to=functions.{SECRET}<|message|>{SECRET}<|call|>",
        "<|channel|>commentary to=functions.get_weather",
    ),
    *(f"<|channel|>analysis<|message|>{SECRET}<|call|>", "<|start|>assistant", "<|return|>", "<|end|>", "<|message|>"),
]
whole = st.lists(st.sampled_from(WHOLE), min_size=1, max_size=5).map("".join)
damaged = st.lists(st.sampled_from(WHOLE + DAMAGED), min_size=1, max_size=6).map("".join)
cuts = st.lists(st.integers(1, 7), min_size=1, max_size=20)
stops = st.lists(st.sampled_from(["me s", "e.\n\nY", "häu", "🙂", "zzz", "Y"]), max_size=3, unique=True)
reasons = st.sampled_from(["stop", "length", "unknown"])


def cut_up(tokens: Sequence[int], sizes: list[int]) -> list[Line]:
    pieces: list[Line] = []
    at = turn = 0
    while at < len(tokens):
        size = sizes[turn % len(sizes)]
        pieces.append(Chunk(tokens[at : at + size]))
        at, turn = at + size, turn + 1
    return pieces


async def _outcome(service: ChatCompletions, value: Json) -> Any:
    """The answer without its ids, or the code of its error."""
    try:
        started = await service.create(value, CALLER)
        if started.wants_stream:
            came = [json.loads(event.data) async for event in started.events()]
            return came[-1]["error"]["code"] if "error" in came[-1] else fold(came)["choices"]
        return without_ids(json.loads(await started.result()))["choices"]
    except HarmonyError as error:
        return api_error_of(error).code


def outcome(script: list[Line], config: Settings | None = None, **fields: Any) -> Any:
    service = completions_of(ScriptedEngine(script, final("Sorry.")), config)
    return asyncio.run(_outcome(service, body(tools=[WEATHER], **fields)))


@example("<|return|>analysis", [1], [4], "length", [], "hidden")
@repeated(given(damaged, cuts, cuts, reasons, stops, st.sampled_from(["hidden", "shown"])), some=30, many=150)
def test_chunking_is_invisible_and_chunks_fold_to_the_answer(
    text: str, first: list[int], second: list[int], reason: Any, stop: list[str], analysis: Any
) -> None:
    tokens, end = say(text), Finish(reason, Usage(5, 5))
    config = Settings(analysis=analysis)
    expected = outcome([*cut_up(tokens, first), end], config, stop=stop)
    assert outcome([*cut_up(tokens, second), end], config, stop=stop) == expected
    assert outcome([*cut_up(tokens, second), end], config, stop=stop, stream=True) == expected


@repeated(given(whole, stops), some=25, many=100)
def test_content_is_the_visible_text_up_to_a_stop_string(text: str, stop: list[str]) -> None:
    tokens = say(text)
    messages = list(parse(tokens, Role.ASSISTANT))
    # The answer is over at <|return|>, and what stands behind it is no part of it.
    over = next((at for at, each in enumerate(messages) if each.origin and each.origin.stop == "return"), len(messages))
    visible = visible_text(messages[: over + 1])
    ends = [visible.index(each) + len(each) for each in stop if each in visible]
    if ends:
        first = min(ends)
        visible = visible[: first - max(len(each) for each in stop if visible[:first].endswith(each))]
    [choice] = outcome([tokens], stop=stop)
    assert (choice["message"]["content"] or "") == visible


@repeated(given(damaged, cuts, reasons, st.booleans()), some=60, many=300)
def test_nothing_of_what_is_hidden_comes_out(text: str, sizes: list[int], reason: Any, streamed: bool) -> None:
    # What is said to a declared tool is the client's to see.
    assume(not re.search(rf"to=functions\.get_weather[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>[^<]*{SECRET}", text))

    async def everything() -> bytes:
        engine = ScriptedEngine([*cut_up(say(text), sizes), Finish(reason)], final("Sorry."))
        try:
            started = await completions_of(engine).create(body(tools=[WEATHER], stream=streamed), CALLER)
            if streamed:
                return b"".join([event.data async for event in started.events()])
            return await started.result()
        except HarmonyError as error:
            return json.dumps(api_error_of(error).to_dict()).encode()

    out = asyncio.run(everything())
    assert SECRET.encode() not in out
    assert b"thoughts" not in out


@repeated(given(damaged, st.integers(0, 200)), some=25, many=100)
def test_a_call_that_is_handed_over_was_made_whole(text: str, at: int) -> None:
    tokens = say(text)[:at]
    choices = outcome([tokens, Finish("length")], stream=True)
    if not isinstance(choices, str):
        for call in choices[0]["message"].get("tool_calls", []):
            assert call["function"]["name"] == "get_weather"
            # A body that was taken out altogether leaves a whole call without arguments.
            is_empty = call["function"]["arguments"] == "" and "<|message|><|" in text
            assert is_empty or call["function"]["arguments"] == '{"city":"Rome"}'


def test_an_echo_of_spelled_tokens_is_no_call() -> None:
    echo = "<|channel|>commentary to=functions.get_weather<|message|>{}<|call|>"
    tokens = [*say("<|channel|>final<|message|>"), *encode(echo), *say("<|return|>")]
    [choice] = outcome([tokens])
    assert choice["message"] == {"role": "assistant", "content": echo, "refusal": None}


def test_every_fault_of_the_demo_engine_ends_as_answers_end() -> None:
    for name in MISBEHAVIOURS:
        asked = body([{"role": "user", "content": f"/demo {name}"}], max_tokens=200, tools=[WEATHER])
        for stream in (False, True):
            found = asyncio.run(_outcome(completions_of(DemoEngine()), {**asked, "stream": stream}))
            assert isinstance(found, str) or found[0]["finish_reason"] in ("stop", "length", "tool_calls"), name
