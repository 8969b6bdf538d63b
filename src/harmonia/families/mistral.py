"""Mistral's calls. The tokenizer's version decides what follows `[TOOL_CALLS]`, and models mix the forms:

    [TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Bern"}, "id": "abcDEF123"}]     up to version 7
    [TOOL_CALLS]get_weather[CALL_ID]abcDEF123[ARGS]{"city": "Bern"}                             version 11
    [TOOL_CALLS]get_weather[ARGS]{"city": "Bern"}                                               since version 13

Several calls are one list, or each has a mark of its own. Some servers drop `[ARGS]` with the other special tokens.
All forms are read by the tool format `openai` (json_calls.py); calls are written as version 13 has them.

Sources: mistralai/Mistral-Nemo-Instruct-2407, mistralai/Mistral-Medium-3.5-128B and mistral-common's tokenizer versions
3 to 13.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from harmonia.families.call_bodies import (
    Arguments,
    Body,
    ChosenBody,
    JsonCalls,
    JsonScan,
    Named,
    Piece,
    ReadCall,
    pieces_of,
    read_json_calls,
)
from harmonia.families.registry import CallWriter, ReadingOptions, ToolFormat
from harmonia.families.tool_descriptions import as_json, described_as_openai, result_text
from harmonia.messages import ToolDescription

_HEAD: Final = re.compile(r"\s*+(?P<name>[\w.:/-]++)\s*+(?:\[CALL_ID\]\s*+\w*+\s*+)?+(?:\[ARGS\])?+\s*+\{")
_WITHOUT_OBJECT: Final = re.compile(r"\s*+(?P<name>[\w.:/-]++)\s*+(?:\[CALL_ID\]\s*+\w*+\s*+)?+\[ARGS\]\s*+")
# As far as this a head is looked for.
_HEAD_CHARS: Final = 400


def mistral_body(_options: ReadingOptions, _mark: str) -> Body:
    """A body for whatever stands after the mark."""
    return ChosenBody(lambda first: JsonCalls() if first in "[{" else NamedCall())


class NamedCall:
    """A name, and after it the arguments, which are told as they come. It ends with them.

    What does not begin so is read when it is complete: there may be JSON in it.
    """

    def __init__(self) -> None:
        self._scan = JsonScan()
        self._head: list[str] = []
        self._head_chars = 0
        self._is_named = False
        self._is_unreadable = False
        self._is_over = False

    @property
    def is_quoting(self) -> bool:
        return self._scan.is_quoting

    def feed(self, text: str) -> tuple[int, Sequence[Piece]]:
        if self._is_over:
            return 0, ()
        pieces: list[Piece] = []
        at = 0
        if not self._is_named:
            brace = -1 if self._is_unreadable else text.find("{")
            at = len(text) if brace < 0 else brace
            self._head.append(text[:at])
            self._head_chars += at
            if brace >= 0:
                pieces = self._name()
            self._is_unreadable = self._is_unreadable or self._head_chars > _HEAD_CHARS
            if self._is_unreadable:
                self._head.append(text[at:])
                return len(text), ()
        if self._is_named and at < len(text):
            end = self._scan.advance(text, at, 0)
            self._is_over = end is not None
            stop = len(text) if end is None else end
            pieces.append(Arguments(stop - at, text[at:stop]))
            at = stop
        return at, pieces

    def close(self) -> Sequence[Piece]:
        text = "".join(self._head)
        if self._is_named:
            return ()
        found = _WITHOUT_OBJECT.match(text)
        if found is None:
            return pieces_of(text, read_json_calls(text))
        # What stands after the mark is no object, and stays as it is written.
        end = len(text.rstrip())
        start = min(found.end(), end)
        return pieces_of(text, [ReadCall(found["name"], text[start:end], 0, start, end)])

    def _name(self) -> list[Piece]:
        head = _HEAD.fullmatch("".join(self._head) + "{")
        if head is None:
            self._is_unreadable = True
            return []
        self._is_named = True
        return [Named(self._head_chars, head["name"])]


class Mistral(CallWriter):
    """What Mistral's models were taught since tokenizer version 13."""

    format = ToolFormat.OPENAI
    words = (
        "To call a tool, write its name and its arguments after marks",
        "Each call has a [TOOL_CALLS] of its own. The result comes in the next message.",
    )

    def declare(self, tools: Sequence[ToolDescription]) -> str:
        """The list that stands between [AVAILABLE_TOOLS] and [/AVAILABLE_TOOLS], which the template writes."""
        return f"[{', '.join(map(described_as_openai, tools))}]"

    def write_calls(self, calls: Sequence[tuple[str, str]]) -> str:
        return "".join(f"[TOOL_CALLS]{name}[ARGS]{as_json(arguments)}" for name, arguments in calls)

    def write_result(self, name: str, text: str, *, is_error: bool) -> str:
        return f"[TOOL_RESULTS]{result_text(text, is_error=is_error)}[/TOOL_RESULTS]"


MISTRAL: Final = Mistral()
