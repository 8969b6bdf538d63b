"""A chat template decides which variant of its format is written."""

from __future__ import annotations

import pytest

from harmonia.families.gemma import FUNCTION_GEMMA, GEMMA_4
from harmonia.families.granite import GRANITE, GRANITE_3
from harmonia.families.json_calls import OPENAI
from harmonia.families.llama import LLAMA
from harmonia.families.mistral import MISTRAL
from harmonia.families.registry import (
    FAMILY_FORMATS,
    CallWriter,
    ToolFormat,
    family_of,
    variant_of,
)
from harmonia.families.templates import template_names


@pytest.mark.parametrize(
    ("tool_format", "template", "variant"),
    [
        (ToolFormat.OPENAI, "llama3", LLAMA),
        (ToolFormat.OPENAI, "mistral", MISTRAL),
        (ToolFormat.OPENAI, "chatml", OPENAI),
        (ToolFormat.GEMINI, "functiongemma", FUNCTION_GEMMA),
        (ToolFormat.GEMINI, "gemma4", GEMMA_4),
        (ToolFormat.GRANITE, "granite3", GRANITE_3),
        (ToolFormat.GRANITE, "granite", GRANITE),
    ],
)
def test_the_template_chooses(tool_format: ToolFormat, template: str, variant: CallWriter) -> None:
    assert variant_of(family_of(tool_format), template) is variant


def test_a_variant_is_read_by_the_format_it_belongs_to() -> None:
    for tool_format in FAMILY_FORMATS:
        for template in template_names():
            assert variant_of(family_of(tool_format), template).format is tool_format


def test_calls_stand_behind_each_other_where_the_family_has_no_more_to_say() -> None:
    hermes = family_of(ToolFormat.HERMES)
    calls = [("f", "{}"), ("g", "{}")]
    assert hermes.write_calls(calls) == f"{hermes.write_call('f', '{}')}\n{hermes.write_call('g', '{}')}"
    assert (
        GRANITE_3.write_calls(calls) == '<|tool_call|>[{"name": "f", "arguments": {}}, {"name": "g", "arguments": {}}]'
    )
