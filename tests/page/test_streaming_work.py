"""A long answer: the page's work for a token does not grow with the answer. It is counted, not timed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

import httpx2
import pytest
from playwright.sync_api import CDPSession, expect

from harmonia import encode
from tests.support.clients.page_views import OpenPage, StartServer
from tests.support.engines.scripted import ScriptedEngine, final
from tests.support.servers.page_server import PageServer

_FINAL: Final = "<|channel|>final<|message|>"
_LETTERS: Final = "The quick brown fox jumps over a lazy dog, and runs. "
_ANSWERS: Final = {
    "blocks": (_FINAL, _LETTERS * 4 + "\n\n- with **bold** and `code`\n- two\n\n", "<|return|>"),
    "one paragraph": (_FINAL, _LETTERS, "<|return|>"),
    "one code block": (_FINAL + "```python\n", "print('The quick brown fox')  # jumps\n", "```\n<|return|>"),
    "reasoning that is closed": (
        "<|channel|>analysis<|message|>",
        _LETTERS,
        f"<|end|><|start|>assistant{final('Ok.')}",
    ),
}
_SIDES: Final = {"user": "input", "assistant": "output"}
_QUARTER: Final = 5_000
_CHUNK: Final = 25


def blocks_run(debugger: CDPSession) -> int:
    """How many blocks of the page's own script ran since this was asked last: each turn of a loop is one."""
    taken = cast("list[dict[str, Any]]", ask(debugger, "takePreciseCoverage")["result"])
    own = [script for script in taken if "/page/" in script["url"]]
    return sum(block["count"] for script in own for function in script["functions"] for block in function["ranges"])


def ask(debugger: CDPSession, what: str, **given: object) -> dict[str, Any]:
    send = cast("Callable[[str, dict[str, object]], dict[str, Any]]", debugger.send)  # pyright: ignore[reportUnknownMemberType] -- playwright has bare dictionaries
    return send(f"Profiler.{what}", given)


@pytest.mark.parametrize("kind", list(_ANSWERS))
def test_work_for_a_token_does_not_grow_with_the_answer(
    start_server: StartServer, open_page: OpenPage, kind: str
) -> None:
    """Each quarter of 20,000 tokens costs the same: blocks of script that ran, and nodes of the page that changed."""
    before, piece, after = _ANSWERS[kind]
    tokens = encode(piece)
    quarter = (tokens * (_QUARTER // len(tokens) + 1))[:_QUARTER]
    marks = [f"(quarter {at}) " for at in range(4)]
    gates = [asyncio.Event() for _ in range(5)]
    script: list[Any] = [gates[0], before]
    for mark, gate in zip(marks, gates[1:], strict=True):
        script += [quarter, mark, gate]
    visit = open_page(start_server(ScriptedEngine([*script, after], chunk=_CHUNK)))
    page = visit.page
    page.evaluate(
        """() => {
          window.changed = 0;
          new MutationObserver((records) => {
            for (const { addedNodes, removedNodes } of records)
              window.changed += addedNodes.length + removedNodes.length + 1;
          }).observe(document.body, {subtree: true, childList: true, characterData: true, attributes: true});
        }"""
    )
    answer = visit.begin_to_ask("Write much")
    debugger = visit.context.new_cdp_session(page)
    ask(debugger, "enable")
    ask(debugger, "startPreciseCoverage", callCount=True, detailed=True)
    ran: list[int] = []
    changed: list[int] = []
    for at, gate in enumerate(gates):
        visit.server.set(gate)
        if at == len(marks):
            break
        count = r"new RegExp('([\\d,]+) tokens').exec(document.querySelector('.progress')?.textContent ?? '')?.[1]"
        least = (at + 1) * _QUARTER
        page.wait_for_function(f"() => Number(({count} ?? '0').replaceAll(',', '')) * {_CHUNK} >= {least}")
        if kind != "reasoning that is closed":
            expect(answer).to_contain_text(marks[at].strip())
        ran.append(blocks_run(debugger))
        changed.append(page.evaluate("() => { const now = window.changed; window.changed = 0; return now; }"))
    visit.wait_until_idle()
    # Where little is done for a token, what is done for each picture counts; how many there are depends on the machine.
    assert max(ran[1:]) < 1.6 * ran[0] + 10_000, (ran, changed)
    assert max(changed[1:]) < 1.6 * changed[0] + 100, (ran, changed)
    if kind == "reasoning that is closed":
        assert answer.locator("details *").count() < 20


def long_chat(server: PageServer, turns: int) -> str:
    """The address of a chat with so many turns."""
    with httpx2.Client(base_url=server.url) as client:
        chat = client.post("/v1/chats", json={"title": f"{turns} turns"}).raise_for_status().json()["id"]
        parent = None
        for at in range(turns):
            role = "assistant" if at % 2 else "user"
            item = {
                "type": "message",
                "role": role,
                "content": [{"type": f"{_SIDES[role]}_text", "text": f"Turn {at}."}],
            }
            turn: dict[str, Any] = {"id": f"turn_{at}", "parent": parent, "role": role, "items": [item]}
            turn |= {"status": "completed", "created_at": at + 1, "details": {}}
            client.put(f"/v1/chats/{chat}/turns/turn_{at}", json=turn).raise_for_status()
            parent = turn["id"]
    return f"#/chat/{chat}"


def test_work_for_a_token_and_for_a_key_does_not_grow_with_the_chat(
    start_server: StartServer, open_page: OpenPage
) -> None:
    ran: dict[int, tuple[int, int]] = {}
    for turns in (4, 160):
        gates = [asyncio.Event(), asyncio.Event()]
        words = _LETTERS * 40
        engine = ScriptedEngine([_FINAL + "Begun.\n\n", gates[0], words, "Enough.", gates[1], "<|return|>"], chunk=5)
        server = start_server(engine)
        visit = open_page(server, long_chat(server, turns))
        expect(visit.answers).to_have_count(turns // 2)
        answer = visit.begin_to_ask("Go on")
        expect(answer).to_contain_text("Begun.")
        debugger = visit.context.new_cdp_session(visit.page)
        ask(debugger, "enable")
        ask(debugger, "startPreciseCoverage", callCount=True, detailed=True)
        blocks_run(debugger)
        server.set(gates[0])
        expect(answer).to_contain_text("Enough.")
        streamed = blocks_run(debugger)
        visit.composer.press_sequentially("Some words")
        expect(visit.composer).to_have_value("Some words")
        ran[turns] = (streamed, blocks_run(debugger))
        server.set(gates[1])
        visit.wait_until_idle()
        server.stop()
    assert ran[160][0] < 1.6 * ran[4][0] + 5_000, ran
    assert ran[160][1] < 1.6 * ran[4][1] + 5_000, ran
