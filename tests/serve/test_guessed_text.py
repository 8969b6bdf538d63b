"""Text without a known channel through the server: hidden with a reason, or shown where the operator says so."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines.scripted import ScriptedEngine
from tests.support.servers.http_servers import Answer
from tests.support.servers.in_process import application, ask, events_of
from tests.support.servers.served import fold, text_of

Json = dict[str, Any]

BARE = '{"city": "Oslo"}<|return|>'
ANSWER = '{"city": "Oslo"}'
CHAT: Json = {"model": "script", "messages": [{"role": "user", "content": "Where?"}]}
RESPONSE: Json = {"input": "Where?"}


def asked(folder: Path, path: str, body: Json, said: str, **settings: Any) -> Answer:
    async def run() -> Answer:
        async with application(ScriptedEngine(said, said), folder, **settings) as (app, _):
            return await ask(app, "POST", path, body)

    answered = asyncio.run(run())
    assert answered.status == 200, answered.body
    return answered


def test_a_chat_completion_hides_it_and_says_why_or_shows_it(tmp_path: Path) -> None:
    hidden = asked(tmp_path, "/v1/chat/completions", CHAT, BARE).json["choices"][0]
    assert not hidden["message"]["content"] and "hidden by default" in hidden["hidden_because"]
    shown = asked(tmp_path, "/v1/chat/completions", CHAT, BARE, guessed="shown").json["choices"][0]
    assert (shown["message"]["content"], shown["finish_reason"]) == (ANSWER, "stop")
    assert "hidden_because" not in shown and not shown["message"].get("tool_calls")


def test_a_streamed_chat_completion_does_the_same(tmp_path: Path) -> None:
    streamed = CHAT | {"stream": True}

    def said(**settings: Any) -> tuple[str, Json]:
        chunks = events_of(asked(tmp_path, "/v1/chat/completions", streamed, BARE, **settings))
        choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
        return "".join(choice["delta"].get("content") or "" for choice in choices), choices[-1]

    text, last = said()
    assert text == "" and "hidden by default" in last["hidden_because"]
    text, last = said(guessed="shown")
    assert text == ANSWER and last["finish_reason"] == "stop"


def test_a_response_hides_it_and_says_why_or_shows_it(tmp_path: Path) -> None:
    hidden = asked(tmp_path, "/v1/responses", RESPONSE, BARE).json
    assert hidden["status"] == "incomplete"
    assert text_of(hidden) == "" and any("hidden by default" in warning for warning in hidden["warnings"])
    shown = asked(tmp_path, "/v1/responses", RESPONSE, BARE, guessed="shown").json
    assert (shown["status"], text_of(shown)) == ("completed", ANSWER)


def test_a_streamed_response_does_the_same(tmp_path: Path) -> None:
    streamed = RESPONSE | {"stream": True}
    hidden = events_of(asked(tmp_path, "/v1/responses", streamed, BARE))[-1]["response"]
    assert text_of(hidden) == "" and any("hidden by default" in warning for warning in hidden["warnings"])
    events = events_of(asked(tmp_path, "/v1/responses", streamed, BARE, guessed="shown"))
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert "".join(deltas) == ANSWER and fold(events) == events[-1]["response"]["output"]
    assert text_of(events[-1]["response"]) == ANSWER


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_reasoning_and_calls_are_not_shown_as_guesses(tmp_path: Path, path: str) -> None:
    body = CHAT if "chat" in path else RESPONSE
    for said in ("<|channel|>analysis<|message|>SECRET<|end|>", 'to=functions.f {"a": "SECRET"}'):
        assert b"SECRET" not in asked(tmp_path, path, body, said, guessed="shown").body


def test_a_form_that_is_demanded_may_be_bare_json(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    form = {"type": "json_schema", "json_schema": {"name": "place", "schema": schema}}
    answered = asked(tmp_path, "/v1/chat/completions", CHAT | {"response_format": form}, BARE, guessed="shown")
    assert answered.json["choices"][0]["message"]["content"] == ANSWER
