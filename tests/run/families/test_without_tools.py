"""A run without tools of a model whose calls no mark announces: what only looks like one is its answer."""

from __future__ import annotations

import asyncio

import pytest

from harmonia import visible_text
from harmonia.run.loop import run
from tests.support.engines.scripted_text import ScriptedTextEngine
from tests.support.watchdog import WATCHDOG_S


@pytest.mark.parametrize(
    "answer", ['{"name": "Bob", "parameters": {"a": 5}}', "[f(x=1)]", "[f(x=1)] is how you call it"]
)
def test_without_tools_an_answer_that_looks_like_a_call_is_told_after_one_sampling(answer: str) -> None:
    engine = ScriptedTextEngine(answer, model="meta-llama/Llama-3.1-8B-Instruct")
    running = run(engine, "Hello", profile="auto")
    ended = asyncio.run(asyncio.wait_for(running.result(), WATCHDOG_S))
    assert (ended.reason, visible_text(ended.conversation)) == ("answered", answer)
    assert len(engine.prompts) == 1
