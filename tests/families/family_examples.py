"""What models of other families write, from tests/families/examples: the fields are explained in hermes.toml."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from harmonia.families.registry import ReadingOptions, ToolFormat
from harmonia.messages import ToolDescription
from harmonia.parser import Tools

_FOLDER = Path(__file__).parent / "examples"


class Example(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer of a model, and the parts that it is."""

    name: str
    source: str
    raw: str
    parts: tuple[dict[str, Any], ...]
    faults: tuple[str, ...] = ()
    prompt_opens_thought: bool = False
    tools: str = ""
    thinking: tuple[str, str] | None = None

    @property
    def options(self) -> ReadingOptions:
        described = descriptions_of(self.tools)
        return ReadingOptions(
            thinking=self.thinking,
            prompt_opens_thought=self.prompt_opens_thought,
            tools=Tools(described) if described else Tools(),
            descriptions=described,
        )


def examples_of(tool_format: ToolFormat) -> list[Example]:
    """The examples of one format; none where there is no file of them, which a test finds out."""
    path = _FOLDER / f"{tool_format.value}.toml"
    if not path.is_file():
        return []
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    return msgspec.convert(document["example"], list[Example])


def descriptions_of(tools: str) -> tuple[ToolDescription, ...]:
    """Tools in the form of OpenAI's API."""
    functions = [tool.get("function", tool) for tool in json.loads(tools)] if tools else []
    return tuple(ToolDescription(each["name"], each.get("description"), each.get("parameters")) for each in functions)
