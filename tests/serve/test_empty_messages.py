"""Empty messages of a request are left out of the prompt, and the answer says so, in both APIs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines.scripted import ScriptedEngine, final
from tests.support.servers.in_process import application, ask

Json = dict[str, Any]

USER: Json = {"role": "user", "content": "Hi"}
THOUGHT: Json = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}


def prompt_and_warnings(folder: Path, path: str, body: Json) -> tuple[tuple[int, ...], list[str]]:
    async def run() -> tuple[tuple[int, ...], list[str]]:
        engine = ScriptedEngine(final("Yes."))
        async with application(engine, folder) as (app, _):
            answered = await ask(app, "POST", path, {"model": "script", **body})
        assert answered.status == 200, answered.body
        where = answered.json["choices"][0] if "chat" in path else answered.json
        return tuple(engine.prompts[0]), where.get("warnings", [])

    return asyncio.run(run())


@pytest.mark.parametrize("role", ["system", "developer", "assistant"])
@pytest.mark.parametrize(("path", "field"), [("/v1/chat/completions", "messages"), ("/v1/responses", "input")])
def test_an_empty_message_is_not_in_the_prompt_and_the_answer_says_so(
    tmp_path: Path, role: str, path: str, field: str
) -> None:
    empty = {"role": role, "content": ""}
    without, said = prompt_and_warnings(tmp_path, path, {field: [USER]})
    assert said == []
    for messages, at in (([USER, empty], 1), ([empty, USER], 0), ([empty, empty, USER], 0)):
        prompt, warnings = prompt_and_warnings(tmp_path, path, {field: messages})
        assert prompt == without
        (warning,) = warnings
        assert warning.startswith(f"{field}[{at}]") and "empty" in warning


def test_reasoning_before_an_empty_answer_stays_in_the_prompt(tmp_path: Path) -> None:
    empty = {"role": "assistant", "content": ""}
    path = "/v1/responses"
    without, _ = prompt_and_warnings(tmp_path, path, {"input": [USER, THOUGHT]})
    assert prompt_and_warnings(tmp_path, path, {"input": [USER, THOUGHT, empty]})[0] == without


def test_empty_instructions_are_no_message(tmp_path: Path) -> None:
    path = "/v1/responses"
    without, _ = prompt_and_warnings(tmp_path, path, {"input": [USER]})
    assert prompt_and_warnings(tmp_path, path, {"input": [USER], "instructions": ""}) == (without, [])


@pytest.mark.parametrize("content", ["", None])
def test_what_a_user_or_a_tool_says_and_calls_stay(tmp_path: Path, content: str | None) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    made = {"role": "assistant", "content": content, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "a", "content": ""}
    empty_user = {"role": "user", "content": ""}
    function = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    body = {"messages": [USER, made, result, empty_user], "tools": [function]}
    prompt, warnings = prompt_and_warnings(tmp_path, "/v1/chat/completions", body)
    shorter, _ = prompt_and_warnings(tmp_path, "/v1/chat/completions", {**body, "messages": [USER, made, result]})
    assert warnings == [] and len(prompt) > len(shorter)
