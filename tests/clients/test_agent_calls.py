"""Thirty questions with one or two tools, through OpenAI's Agents SDK: the arguments arrive as the model wrote them.

The model is replayed: what it says to each question is rendered here. One process of the client asks all questions,
over either API, whole and streamed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harmonia import Message, decode, render
from tests.support.clients.client_processes import CLIENTS, JAVASCRIPT, node, run_program
from tests.support.servers.server_processes import server_process, write_capture

pytestmark = pytest.mark.clients

CASES = CLIENTS / "call_cases.json"


def completion(case: dict[str, Any]) -> str:
    """What the model samples: it reasons, and calls."""
    arguments = json.dumps(case["arguments"], ensure_ascii=False)
    said = [
        Message.assistant(f"This needs {case['call']}.", channel="analysis"),
        Message.call(f"functions.{case['call']}", arguments),
    ]
    rendered = render(said, None, recipient_section="channel", call_stop="call").tokens
    return decode(rendered).removeprefix("<|start|>assistant")


@pytest.mark.parametrize("analysis", ["hidden", "shown"])
def test_each_call_arrives_with_its_arguments(analysis: str, tmp_path: Path) -> None:
    cases = json.loads(CASES.read_text())["cases"]
    assert len(cases) == 30
    engine = write_capture(tmp_path / "capture.jsonl", [completion(case) for case in cases] * 4)
    with server_process("--analysis", analysis, "-o", "strict", "false", folder=tmp_path, engine=engine) as server:
        ran = run_program(server, tmp_path, node(), JAVASCRIPT / "agents_calls.mjs", CASES)
    assert len(ran) == 4 * len(cases)
    for case, got in zip(cases * 4, ran, strict=True):
        assert got["calls"] == [[case["call"], case["arguments"]]], got
        assert got["answer"] == "done"
        # Chat Completions has no place for reasoning that is hidden.
        assert got["reasoned"] or not got["useResponses"]
