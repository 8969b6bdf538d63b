"""Text that only its end shows to be a thought, through the server: an answer that is not streamed does not have it,
and a stream, which cannot take anything back, says at its end what it said before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harmonia.run.family_models import with_profile
from tests.support.engines.scripted_text import ScriptedTextEngine
from tests.support.servers.http_servers import Answer
from tests.support.servers.in_process import application, ask, events_of
from tests.support.servers.served import fold, text_of

Json = dict[str, Any]

THOUGHT = "SECRET of mine.\nAnd more SECRET."
ANSWER = "It is 21 degrees."
LATE = f"{THOUGHT}\n</think>\n\n{ANSWER}"
CHAT: Json = {"model": "Qwen/Qwen3-8B", "messages": [{"role": "user", "content": "How warm is it?"}]}
RESPONSE: Json = {"input": "How warm is it?"}


def asked(folder: Path, path: str, body: Json, *said: str, chunk: int = 1, **settings: Any) -> Answer:
    async def run() -> Answer:
        engine = with_profile(ScriptedTextEngine(*said, chunk=chunk), "auto")
        async with application(engine, folder, **settings) as (app, _):
            return await ask(app, "POST", path, body)

    answered = asyncio.run(run())
    assert answered.status == 200, answered.body
    return answered


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_a_chat_completion_does_not_show_it(tmp_path: Path, chunk: int) -> None:
    answered = asked(tmp_path, "/v1/chat/completions", CHAT, LATE, chunk=chunk)
    (choice,) = answered.json["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == (ANSWER, "stop")
    assert b"SECRET" not in answered.body
    shown = asked(tmp_path, "/v1/chat/completions", CHAT, LATE, chunk=chunk, analysis="shown")
    message = shown.json["choices"][0]["message"]
    assert (message["content"], message["reasoning"]) == (ANSWER, f"{THOUGHT}\n")


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_a_response_does_not_show_it(tmp_path: Path, chunk: int) -> None:
    answered = asked(tmp_path, "/v1/responses", RESPONSE, LATE, chunk=chunk)
    assert [item["type"] for item in answered.json["output"]] == ["reasoning", "message"]
    assert (answered.json["status"], text_of(answered.json)) == ("completed", ANSWER)
    assert b"SECRET" not in answered.body
    shown = asked(tmp_path, "/v1/responses", RESPONSE, LATE, chunk=chunk, analysis="shown").json
    assert shown["output"][0]["content"] == [{"type": "reasoning_text", "text": f"{THOUGHT}\n"}]
    assert text_of(shown) == ANSWER


def test_a_thought_alone_is_no_answer(tmp_path: Path) -> None:
    alone = f"{THOUGHT}</think>"
    chat = asked(tmp_path, "/v1/chat/completions", CHAT, alone)
    assert chat.json["choices"][0]["message"]["content"] == ""
    assert chat.json["choices"][0]["hidden_because"] == "there is only text on analysis"
    response = asked(tmp_path, "/v1/responses", RESPONSE, alone)
    assert response.json["harmonia_reason"] == "no_visible_output"
    assert b"SECRET" not in chat.body + response.body


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_stop_strings_count_in_the_answer_that_is_left(tmp_path: Path, chunk: int) -> None:
    # The thought ends with the beginning of the stop string; the answer begins with its rest, and has it later.
    said = "SECRET ab</think>cd, and then abcd it ends."
    answered = asked(tmp_path, "/v1/chat/completions", {**CHAT, "stop": ["abcd"]}, said, chunk=chunk)
    (choice,) = answered.json["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("cd, and then ", "stop")


def test_the_next_prompt_does_not_have_it(tmp_path: Path) -> None:
    async def run() -> str:
        engine = ScriptedTextEngine(LATE, ANSWER, LATE, ANSWER)
        async with application(with_profile(engine, "auto"), tmp_path) as (app, _):
            for is_streamed in (True, False):
                first = await ask(app, "POST", "/v1/responses", {**RESPONSE, "stream": is_streamed})
                said = events_of(first)[-1]["response"] if is_streamed else first.json
                body = {"input": "And now?", "previous_response_id": said["id"]}
                await ask(app, "POST", "/v1/responses", body)
        return "".join(engine.prompts)

    prompts = asyncio.run(run())
    assert ANSWER in prompts and "SECRET" not in prompts


def test_a_stream_has_told_it_and_keeps_to_that(tmp_path: Path) -> None:
    chunks = events_of(asked(tmp_path, "/v1/chat/completions", {**CHAT, "stream": True}, LATE))
    content = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert content == f"{THOUGHT}\n\n\n{ANSWER}"
    events = events_of(asked(tmp_path, "/v1/responses", {**RESPONSE, "stream": True}, LATE))
    items = fold(events)  # each item ends as it was told
    assert events[-1]["response"]["output"] == items
    assert [item["content"][0]["text"] for item in items] == [f"{THOUGHT}\n", ANSWER]
