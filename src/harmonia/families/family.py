"""What a family of models is to everything above it: how it declares tools, how it writes calls, how it is read.

Whatever the family, a reader gives the events of harmonia/events.py and messages as the Harmony parser gives them:

    a thought    the assistant on `analysis`
    text         the assistant on `final`
    a call       the assistant on `commentary`, to `functions.NAME`, as `json`; its text is the arguments

1. Any chunking gives the same events, once adjacent deltas are joined.
2. Every character lies in the span of exactly one event. What a delta says stands there, with one exception: arguments
   that are not written as JSON, or as JSON inside of JSON, are given as the JSON they mean.
3. Reading never raises, whatever the text. Each repair is a diagnostic.
4. A call that was read from text is never certain (law 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from harmonia.events import Event
from harmonia.families.tool_format import ToolFormat
from harmonia.messages import ToolDescription
from harmonia.parser.tools import UNDECLARED, Tools


class ReadingLimits(msgspec.Struct, frozen=True):
    """How much a reader holds back. Passing a limit is a diagnostic, never an exception.

    `call_chars`  a call that cannot be told piece by piece
    `body_chars`  the text of a message: deltas go on, the message at the end is cut there
    """

    call_chars: int = 1_000_000
    body_chars: int = 100_000_000


class ReadingOptions(msgspec.Struct, frozen=True):
    """What a reader is told. `thinking` has the marks of thoughts: None for the family's own, `()` for none at all. A
    family that has several marks of its own reads those as well as the given ones.

    `prompt_opens_thought` says that the prompt ended with the opening mark, so the stream begins inside a thought.
    `descriptions` are the declared tools as they were described, for families that name no parameters in their calls.
    """

    thinking: tuple[str, str] | tuple[()] | None = None
    prompt_opens_thought: bool = False
    tools: Tools = UNDECLARED
    descriptions: tuple[ToolDescription, ...] = ()
    limits: ReadingLimits = ReadingLimits()

    @property
    def may_call_bare(self) -> bool:
        """Whether what looks like a call without a mark may be one: not where it is known that there are no tools."""
        return bool(self.tools.names) or not self.tools.is_known


DEFAULT_READING: Final = ReadingOptions()


class Reader(Protocol):
    """Reads one answer of a model, text only."""

    def feed(self, chunk: str) -> list[Event]:
        """What happened with this piece of text."""
        ...

    def close(self) -> list[Event]:
        """What is left when no more comes."""
        ...


class Family(Protocol):
    """One family of models. Each is a small module with one value of this kind."""

    @property
    def format(self) -> ToolFormat: ...

    def tool_part(self, tools: Sequence[ToolDescription]) -> str:
        """The tools as the family's own chat template declares them; empty where there are none."""
        ...

    def call_format(self, tools: Sequence[ToolDescription]) -> str:
        """How to call a tool, in words for the prompt."""
        ...

    def reader(self, options: ReadingOptions = DEFAULT_READING) -> Reader:
        """A reader for one answer."""
        ...

    def write_call(self, name: str, arguments: str) -> str:
        """A call as the model would have written it, for history; `arguments` is JSON text."""
        ...

    def write_result(self, name: str, text: str, *, is_error: bool) -> str:
        """What a tool answered, or how it failed."""
        ...

    def guidance(self, *, is_error: bool) -> str:
        """What the model is told behind a result."""
        ...
