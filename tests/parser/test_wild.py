"""Outputs from the wild: what models and servers really wrote, collected from public reports.

Each has what a user would expect and how certain that is. Where we differ on purpose, `argued` says why.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from harmonia import Message, Trust, call_of, encode, parse
from harmonia.parser import FAULTS
from tests.support.oracle_cases import compared
from tests.support.paths import ROOT

TRACES: list[dict[str, Any]] = [
    json.loads(line) for line in (ROOT / "tests" / "data" / "wild-traces.jsonl").read_text().splitlines()
]
FIELDS = ("role", "channel", "recipient", "content_type", "content")


def summarise(message: Message) -> dict[str, Any]:
    return {name: getattr(message, name) for name in FIELDS}


@pytest.mark.parametrize("trace", [pytest.param(trace, id=f"{trace['id']}-{trace['kind']}") for trace in TRACES])
@pytest.mark.parametrize("source", ["text", "tokens", "bytes"])
def test_a_trace_from_the_wild_gives_what_one_would_expect(trace: dict[str, Any], source: str) -> None:
    raw = trace["raw"]
    data = {"text": raw, "tokens": encode(raw, special="all"), "bytes": raw.encode()}[source]
    parsed = parse(data, role="assistant" if trace["prefill"] else None, tools=trace.get("tools"))
    messages = [summarise(message) for message in parsed.messages]
    if trace["expected"] is None:
        return
    expected = [{name: message.get(name) for name in FIELDS} for message in trace["expected"]]
    if "argued" in trace:
        assert messages != expected, "there is nothing left to argue about"
    else:
        assert messages == expected
        compared(f"outputs from the wild, certainty {trace['certainty']}, read from {source}")


@pytest.mark.parametrize("trace", [pytest.param(trace, id=trace["id"]) for trace in TRACES])
def test_no_call_of_a_damaged_trace_is_run_if_its_header_was_mended(trace: dict[str, Any]) -> None:
    parsed = parse(encode(trace["raw"], special="all"), role="assistant" if trace["prefill"] else None)
    for message in parsed.messages:
        call = call_of(message)
        if call is not None and call.is_executable:
            assert message.origin is not None
            assert all(FAULTS[code].trust is Trust.CERTAIN for code in message.origin.faults)


def test_nothing_certain_is_argued_away() -> None:
    assert not [trace["id"] for trace in TRACES if trace["certainty"] == "high" and "argued" in trace]
