"""Answers that models of other families really gave are the parts that a reader of them would name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harmonia.families.reader import read_answer
from harmonia.families.registry import FAMILY_FORMATS, ToolFormat, family_of
from harmonia.parts import Part, PartStream, Text, Think, ToolCall, parts_of
from tests.families.family_examples import Example, examples_of

EXAMPLES = [
    pytest.param(tool_format, example, id=f"{tool_format.value}-{example.name}")
    for tool_format in FAMILY_FORMATS
    for example in examples_of(tool_format)
]


def described(part: Part) -> dict[str, Any]:
    match part:
        case Think():
            return {"think": part.text}
        case Text():
            return {"text": part.text}
        case ToolCall():
            said = {"arguments": part.arguments} if part.is_json else {"raw": part.raw}
            return {"call": part.name, **said, "status": part.status}


def expected(part: dict[str, Any]) -> dict[str, Any]:
    arguments = part.get("arguments")
    return part if arguments is None else {**part, "arguments": json.loads(arguments)}


@pytest.mark.parametrize(("tool_format", "example"), EXAMPLES)
def test_a_recorded_answer_is_these_parts(tool_format: ToolFormat, example: Example) -> None:
    parsed = read_answer(family_of(tool_format), example.raw, example.options)
    assert [described(part) for part in parts_of(parsed, example.options.tools)] == [
        expected(part) for part in example.parts
    ]
    assert tuple(diagnostic.code.value for diagnostic in parsed.diagnostics) == example.faults


@pytest.mark.parametrize(("tool_format", "example"), EXAMPLES)
def test_parts_come_the_same_character_by_character(tool_format: ToolFormat, example: Example) -> None:
    reader = family_of(tool_format).reader(example.options)
    stream = PartStream(example.options.tools)
    updates = [update for character in example.raw for update in stream.feed(reader.feed(character))]
    updates += stream.feed(reader.close())
    streamed = [getattr(update, "part", None) for update in updates]
    whole = parts_of(read_answer(family_of(tool_format), example.raw, example.options), example.options.tools)
    assert [part for part in streamed if part is not None] == whole


def test_every_format_has_examples_with_a_source() -> None:
    for tool_format in FAMILY_FORMATS:
        examples = examples_of(tool_format)
        assert len(examples) >= 5 and all(example.source for example in examples)
        assert len({example.name for example in examples}) == len(examples)
