"""What models of other families really wrote, as answers in a run: its calls are run, and it goes on."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

import pytest

from harmonia import Role, visible_text
from harmonia.families import ToolFormat
from harmonia.families.profiles import ModelProfile, Thinking
from harmonia.families.registry import FAMILY_FORMATS
from harmonia.families.templates import chat_template, template_names
from harmonia.run.events import CallEnded, SamplingEnded, TurnEvent
from harmonia.run.loop import Run, run
from harmonia.run.tools import Tool
from tests.families.family_examples import Example, descriptions_of, examples_of
from tests.support.engines.scripted_text import ScriptedTextEngine
from tests.support.watchdog import WATCHDOG_S

# The template whose models were taught the format.
TEMPLATES = {chat_template(name).native: name for name in reversed(template_names())}
EXAMPLES = [
    pytest.param(tool_format, example, id=f"{tool_format.value}-{example.name}")
    for tool_format in FAMILY_FORMATS
    for example in examples_of(tool_format)
]


def profile_of(tool_format: ToolFormat, example: Example) -> ModelProfile:
    marks = example.thinking or ("<think>", "</think>")
    has_marks = example.thinking is not None or _is_begun(tool_format, example)
    thinking = Thinking(*marks, opened_by_prompt=example.prompt_opens_thought) if has_marks else None
    return ModelProfile("recorded", "recorded", tool_format, TEMPLATES[tool_format], thinking=thinking)


def tools_of(example: Example, ran: list[tuple[str, Any]]) -> list[Tool]:
    """The declared tools, or, where the record does not tell them, those that were called."""

    def note(name: str, arguments: Any) -> None:
        ran.append((name, arguments))

    described = {tool.name: tool for tool in descriptions_of(example.tools)}
    names = dict.fromkeys([*described, *(part["call"] for part in example.parts if "call" in part)])
    return [
        Tool(
            name,
            described[name].description if name in described else None,
            described[name].parameters if name in described else {"type": "object"},
            partial(note, name),
        )
        for name in names
    ]


def _is_begun(tool_format: ToolFormat, example: Example) -> bool:
    """Whether the prompt of a run can have opened the thought, as the recorded one did. A label is the answer's own."""
    return example.prompt_opens_thought and tool_format is not ToolFormat.TEXT


def answer_of(tool_format: ToolFormat, example: Example) -> str:
    label = "Thought:" if example.prompt_opens_thought and tool_format is ToolFormat.TEXT else ""
    return label + example.raw


def after(tool_format: ToolFormat, example: Example) -> str:
    """What a model writes before its next answer, where the prompt has opened a thought for it again."""
    return f"{(example.thinking or ('', '</think>'))[1]}\n\n" if _is_begun(tool_format, example) else ""


def events_of(running: Run) -> list[TurnEvent]:
    async def collect() -> list[TurnEvent]:
        return [event async for event in running]

    return asyncio.run(asyncio.wait_for(collect(), WATCHDOG_S))


@pytest.mark.parametrize("chunk", [1, 10_000])
@pytest.mark.parametrize(("tool_format", "example"), EXAMPLES)
def test_a_recorded_answer_is_run(tool_format: ToolFormat, example: Example, chunk: int) -> None:
    ran: list[tuple[str, Any]] = []
    engine = ScriptedTextEngine(answer_of(tool_format, example), after(tool_format, example) + "Done.", chunk=chunk)
    profile = profile_of(tool_format, example)
    running = run(engine, "Go on.", tools=tools_of(example, ran), profile=profile, allow_unverified=True)
    events = events_of(running)
    calls = [part for part in example.parts if "call" in part]
    meant = [
        (part["call"], json.loads(part["arguments"]))
        for part in calls
        if part["status"] == "unverified" and part.get("arguments", "").startswith("{")
    ]
    assert sorted(ran, key=str) == sorted(meant, key=str)
    # Whoever was called has answered, and the others were told why not.
    assert sum(isinstance(event, CallEnded) for event in events) == len(calls)
    assert running.ended is not None and running.ended.pending == ()
    shown = [part["text"].strip() for part in example.parts if "text" in part]
    seen = visible_text(running.conversation)
    assert all(text in seen for text in shown)
    if calls:
        assert running.ended.reason == "answered" and seen.endswith("Done.")
        assert engine.prompts[1].startswith(engine.prompts[0][: engine.prompts[0].index("Go on.")])
    else:
        assert len(engine.prompts) == 1 and running.ended.reason == ("answered" if shown else "silent")


@pytest.mark.parametrize(("tool_format", "example"), EXAMPLES)
def test_nothing_of_a_recorded_answer_is_lost(tool_format: ToolFormat, example: Example) -> None:
    engine = ScriptedTextEngine(answer_of(tool_format, example), after(tool_format, example) + "Done.")
    running = run(
        engine, "Go on.", tools=tools_of(example, []), profile=profile_of(tool_format, example), allow_unverified=True
    )
    first = next(event for event in events_of(running) if isinstance(event, SamplingEnded))
    # Only what a model writes in somebody else's name does not enter the conversation, and it is told.
    assert all(message.role is not Role.ASSISTANT or message.channel is None for message in first.left_out)
    said = "".join(message.text for message in (*first.messages, *first.left_out))
    for part in example.parts:
        for text in (part.get("text"), part.get("think")):
            assert text is None or text.strip() in said


def test_every_format_was_recorded() -> None:
    assert {example.values[0] for example in EXAMPLES} == set(FAMILY_FORMATS)
