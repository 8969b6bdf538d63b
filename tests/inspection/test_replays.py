"""A replay says of each token what the parser made of it, and all of it is what a parse says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import harmonia
from harmonia.inspection import Input, describe_event, replay
from harmonia.inspection.report import Replayed
from tests.support.strategies.streams import mutated_texts, mutated_tokens

TEXT = "<|channel|>analysis<|message|>Hm 👋<|end|><|start|>assistant<|channel|>final<|message|>Four.<|return|>"
DELTAS = ("text_delta", "arguments_delta", "skipped")


def given_input(data: list[int] | str) -> Input:
    if isinstance(data, str):
        return Input("text", [data] if data else [], "")
    return Input("tokens", [data] if data else [], "")


def events_of(replayed: Replayed) -> list[dict[str, Any]]:
    return [event for step in replayed.steps for event in step.events] + (replayed.closing or [])


def joined(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what a replay leaves out, and with adjacent deltas made one."""
    made: list[dict[str, Any]] = []
    for event in events:
        kept = {name: value for name, value in event.items() if name not in ("header", "characters")}
        if event["type"] == "header_completed":
            kept["header"] = event["header"]
        if event["type"] == "message_ended":
            kept["message"] = {name: value for name, value in event["message"].items() if name != "content"}
        last = made[-1] if made else None
        if last is not None and last["type"] == kept["type"] and kept["type"] in DELTAS:
            last["text"] += kept["text"]
            last["end_token"], last["end_char"] = kept["end_token"], kept["end_char"]
        else:
            made.append(kept)
    return made


def check(data: list[int] | str, role: str | None) -> None:
    replayed = replay(given_input(data), 0, len(data) + 1, role)
    whole = harmonia.parse(data, role)
    assert joined(events_of(replayed)) == joined([describe_event(event) for event in whole.events])
    assert (replayed.total, len(replayed.steps)) == (len(data), len(data))


@given(mutated_tokens())
def test_the_steps_of_tokens_together_are_the_parse(stream: tuple[list[int], str | None]) -> None:
    check(*stream)


@given(mutated_texts())
def test_the_steps_of_characters_together_are_the_parse(stream: tuple[str, str | None]) -> None:
    check(*stream)


@given(st.data())
def test_a_stretch_is_the_same_wherever_it_begins(data: st.DataObject) -> None:
    tokens = harmonia.encode(TEXT, special="all")
    start = data.draw(st.integers(0, len(tokens) + 2))
    count = data.draw(st.integers(1, 30))
    whole = replay(given_input(tokens), 0, len(tokens), "assistant")
    part = replay(given_input(tokens), start, count, "assistant")
    assert part.start == min(start, len(tokens))
    assert (part.closing is None) == (part.start + len(part.steps) < len(tokens))
    for mine, theirs in zip(part.steps, whole.steps[part.start :], strict=False):
        assert mine == theirs


def test_each_step_says_where_the_parser_is() -> None:
    steps = replay(given_input(harmonia.encode(TEXT, special="all")), 0, 100, "assistant").steps
    assert [step.state for step in steps[:3]] == ["header", "header", "body"]
    assert [step.message for step in steps[:3]] == [0, 0, 0]
    assert steps[1].pending.endswith("<|channel|>analysis")
    assert (steps[2].channel, steps[2].pending) == ("analysis", "")
    waits = next(step for step in steps if step.state == "wait")
    assert (waits.id, waits.message, waits.channel) == (200007, None, None)
    assert steps[-1].text == "<|return|>"


def test_part_of_a_character_is_held_back_as_bytes() -> None:
    tokens = [200006, *harmonia.encode("user"), 200008, *harmonia.encode("𒀀")]
    held = [step.pending for step in replay(given_input(tokens), 3, 10).steps]
    assert held[0].startswith("\\xf0")
    assert held[-1] == ""


def test_an_end_of_a_message_does_not_repeat_its_text() -> None:
    replayed = replay(given_input(TEXT), 0, len(TEXT), "assistant")
    ended = [event for event in events_of(replayed) if event["type"] == "message_ended"]
    assert [event["characters"] for event in ended] == [4, 5]
    assert all("content" not in event["message"] for event in ended)


def test_ids_that_are_no_tokens_are_replayed_too() -> None:
    steps = replay(given_input([-1, 2**31 - 1]), 0, 5).steps
    assert [(step.id, step.text) for step in steps] == [(-1, "\ufffd"), (2**31 - 1, "\ufffd")]


@pytest.mark.parametrize("data", ["", []])
def test_nothing_is_replayed_of_nothing(data: Any) -> None:
    replayed = replay(given_input(data), 5, 10)
    assert (replayed.total, replayed.start, replayed.steps) == (0, 0, [])
    assert replayed.closing is not None


def test_stripped_text_is_told_at_the_end() -> None:
    replayed = replay(Input("stripped", ["analysisHm.assistantfinalFour."], ""), 0, 100)
    assert all(not step.events for step in replayed.steps)
    assert any(event["type"] == "message_ended" for event in replayed.closing or [])
