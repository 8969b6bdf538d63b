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

from harmonia.families.call_bodies import Body, ChosenBody, JsonCalls, ReadCall, read_json_calls
from harmonia.families.registry import CallWriter, ReadingOptions, ToolFormat
from harmonia.families.tool_descriptions import as_json, described_as_openai, result_text
from harmonia.messages import ToolDescription

_HEAD: Final = re.compile(r"\s*+(?P<name>[\w.:/-]++)\s*+(?:\[CALL_ID\]\s*+\w*+\s*+)?+(?:\[ARGS\])?+\s*+\{")
_WITHOUT_OBJECT: Final = re.compile(r"\s*+(?P<name>[\w.:/-]++)\s*+(?:\[CALL_ID\]\s*+\w*+\s*+)?+\[ARGS\]\s*+")


def mistral_body(_options: ReadingOptions, _mark: str) -> Body:
    """A body for whatever follows the mark."""
    return ChosenBody(lambda first: JsonCalls() if first in "[{" else JsonCalls(_read_other, _HEAD))


def _read_other(text: str) -> list[ReadCall]:
    found = _WITHOUT_OBJECT.match(text)
    if found is None:
        return read_json_calls(text)
    # Arguments that are not an object stay as they are written.
    end = len(text.rstrip())
    start = min(found.end(), end)
    return [ReadCall(found["name"], text[start:end], 0, start, end)]


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
