"""The model families other than gpt-oss: what a family provides, and the table of all families.

To add a family, write its module, name its tool format in `ToolFormat`, and give it a row in `FAMILIES`; a profile in
profiles.toml leads to it from a model's name. A family is imported when it is first used.

Whatever the family, its reader produces the events of harmonia/events.py and messages like those of the Harmony parser:

    a thought    the assistant on `analysis`
    text         the assistant on `final`
    a call       the assistant on `commentary`, to `functions.NAME`, as `json`; its text is the arguments

1. Any chunking gives the same events once adjacent deltas are joined.
2. Every character lies in the span of exactly one event. A delta has the text of its span, with one exception: where
   arguments are not written as JSON, or are JSON inside a JSON string, it has the JSON they mean.
3. Reading never raises, whatever the text. Each repair is a diagnostic.
4. A call read from text is never certain (law 5).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import StrEnum
from importlib import import_module
from typing import Final, Protocol, cast

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.events import Event
from harmonia.families.tool_descriptions import example_call
from harmonia.messages import ToolDescription
from harmonia.parser.headers import UNDECLARED, Tools


class ToolFormat(StrEnum):
    """How a family of models writes its calls and thoughts, by the names that profiles use."""

    HARMONY = "harmony"
    HERMES = "hermes"
    OPENAI = "openai"
    GEMINI = "gemini"
    GRANITE = "granite"
    TEXT = "text"


# Where each family is defined, as `module.VALUE` in this package; then, by chat template, its variants: models that are
# read the same but write calls and results their own way. Harmony has a renderer and a parser of its own.
FAMILIES: Final[Mapping[ToolFormat, Mapping[str, str]]] = {
    ToolFormat.HERMES: {"": "hermes.HERMES"},
    ToolFormat.OPENAI: {"": "json_calls.OPENAI", "llama3": "llama.LLAMA", "mistral": "mistral.MISTRAL"},
    ToolFormat.GEMINI: {"": "gemma.GEMMA_3", "functiongemma": "gemma.FUNCTION_GEMMA", "gemma4": "gemma.GEMMA_4"},
    ToolFormat.GRANITE: {"": "granite.GRANITE", "granite3": "granite.GRANITE_3"},
    ToolFormat.TEXT: {"": "react.REACT"},
}
FAMILY_FORMATS: Final = tuple(FAMILIES)


class ReadingLimits(msgspec.Struct, frozen=True):
    """How much text a reader holds back. Exceeding a limit is a diagnostic, never an exception.

    `call_chars`  a call that cannot be reported piece by piece
    `body_chars`  the text of a message: deltas continue, but the message in the end is cut there
    """

    call_chars: int = 1_000_000
    body_chars: int = 100_000_000


class ReadingOptions(msgspec.Struct, frozen=True):
    """Settings of a reader.

    `thinking` is the pair of marks around thoughts: None for the family's own, `()` for none at all. With
    `prompt_opens_thought`, the prompt ended with the opening mark, so the stream begins inside a thought.
    `descriptions` are the declared tools, for families whose calls do not name parameters.
    """

    thinking: tuple[str, str] | tuple[()] | None = None
    prompt_opens_thought: bool = False
    tools: Tools = UNDECLARED
    descriptions: tuple[ToolDescription, ...] = ()
    limits: ReadingLimits = ReadingLimits()

    @property
    def may_call_bare(self) -> bool:
        """Whether a call without a mark is possible: not if it is known that there are no tools."""
        return bool(self.tools.names) or not self.tools.is_known


DEFAULT_READING: Final = ReadingOptions()


class Reader(Protocol):
    """Reads one answer of a model, as text."""

    def feed(self, chunk: str) -> list[Event]:
        """The events of this chunk."""
        ...

    def close(self) -> list[Event]:
        """The remaining events, after the last chunk."""
        ...


class CallWriter(ABC):
    """How the models of a family, or of one of its variants, are told of tools, and how they write calls.

    `words` stand before and after the example of a call in the instructions.
    """

    format: ToolFormat
    words: tuple[str, str]
    after_result = "Use this result: call another tool if one is needed, otherwise answer the user."
    after_error = "The call failed. Call again with other arguments, use another tool, or say what went wrong."

    def tool_part(self, tools: Sequence[ToolDescription]) -> str:
        """The tools as the family's own chat template declares them; empty without tools."""
        return self.declare(tools) if tools else ""

    @abstractmethod
    def declare(self, tools: Sequence[ToolDescription]) -> str: ...

    def call_format(self, tools: Sequence[ToolDescription]) -> str:
        """Instructions for calling a tool, for the prompt."""
        before, after = self.words
        return f"{before}:\n\n{self.write_call(*example_call(tools))}\n\n{after}"

    def write_call(self, name: str, arguments: str) -> str:
        """A call as the model would have written it, for history; `arguments` is JSON text."""
        return self.write_calls([(name, arguments)])

    @abstractmethod
    def write_calls(self, calls: Sequence[tuple[str, str]]) -> str:
        """Calls that were made together, each as its name and its arguments."""

    @abstractmethod
    def write_result(self, name: str, text: str, *, is_error: bool) -> str:
        """The result of a tool, or its error."""

    def guidance(self, *, is_error: bool) -> str:
        """A sentence for the model after a result."""
        return self.after_error if is_error else self.after_result


class Family(CallWriter):
    """One family of models: a module with one value of this type."""

    @abstractmethod
    def reader(self, options: ReadingOptions = DEFAULT_READING) -> Reader:
        """A reader for one answer."""


def family_of(tool_format: ToolFormat | str) -> Family:
    """The family that writes this tool format."""
    if tool_format == ToolFormat.HARMONY:
        what = "harmony is not a family: read it with harmonia.Parser and write it with harmonia.render"
    elif tool_format not in FAMILY_FORMATS:
        what = f"unknown tool format {tool_format!r}; the known ones are: {', '.join(FAMILIES)}"
    else:
        return cast("Family", _load(FAMILIES[ToolFormat(tool_format)][""]))
    raise InputError(ErrorCode.FORMATS_INVALID_OPTION, what)


def variant_of(family: CallWriter, template: str) -> CallWriter:
    """The variant that the models of this chat template write; the family itself if the template has none."""
    name = FAMILIES[family.format].get(template)
    return family if name is None else cast("CallWriter", _load(name))


def _load(name: str) -> object:
    module, _, value = name.partition(".")
    return getattr(import_module(f"harmonia.families.{module}"), value)
