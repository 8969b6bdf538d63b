"""The faults of models that do not speak Harmony, in the manner of faults.py: what is wrong, and what is made of it.

They are found by the readers in harmonia/formats. The table stands here, because whoever shows a diagnostic asks for
what is known of its code, whatever the model.
"""

from __future__ import annotations

from typing import Final

from harmonia.errors import ErrorCode
from harmonia.parser.faults import FAULTS, Fault
from harmonia.provenance import Trust

_TABLE: Final = (
    Fault(
        ErrorCode.FAMILY_UNCLOSED,
        "a call or a thought without its closing mark: another begins, or the stream ends",
        "ends it there; a call that was cut off is not run",
        '<tool_call>\n{"name": "get_time", "arguments": {}}',
        Trust.REPAIRED,
        completion=True,
        hint="the token limit cut the answer off, or the engine takes the closing mark for a stop string",
        meaning="What was opened has to be closed, so it is not known whether all of it came.",
    ),
    Fault(
        ErrorCode.FAMILY_STRAY_MARK,
        "a closing mark where nothing is open",
        "leaves it out; where it closes a thought and none was opened, what came before it was one",
        "I see.</think>Four.",
        completion=True,
        hint="the prompt may have opened the thought: say so to the reader",
        meaning="A mark closes what another opened, and nothing is open here.",
    ),
    Fault(
        ErrorCode.FAMILY_UNREADABLE_CALL,
        "something that is no call, where a call should stand",
        "keeps it; it is neither shown nor run",
        "<tool_call>\nget the time\n</tool_call>",
        Trust.GUESSED,
        completion=True,
        meaning="What stands between the marks of a call has no name, or cannot be read at all.",
    ),
    Fault(
        ErrorCode.FAMILY_BROKEN_CALL,
        "a call in broken JSON, in which its name can be found",
        "takes the arguments from where they begin; it is not run",
        '<tool_call>\n{{"name": "get_time", "arguments": {}}}\n</tool_call>',
        Trust.REPAIRED,
        completion=True,
        hint="a small or coarsely quantised model, or a prompt whose example has doubled braces",
        meaning="The call as a whole cannot be read as JSON: a brace is missing, or there is one too many.",
    ),
    Fault(
        ErrorCode.FAMILY_FOREIGN_CALL,
        "a call in another format than the one that was asked for",
        "reads it; it is not run",
        "<function=get_time>\n</function>",
        Trust.GUESSED,
        completion=True,
        hint="the model may have another profile than the one that was given",
        meaning="The call can be read, though not as this family writes calls: somebody else's example may have been "
        "repeated.",
    ),
    Fault(
        ErrorCode.FAMILY_UNKNOWN_TOOL,
        "a call that no mark announces, of a tool that nobody declared",
        "reads it; it is not run",
        "",
        Trust.GUESSED,
        completion=True,
        shown_by='`[find(what="it")]` as an answer of a Llama whose tools are others',
        hint="the model invents a tool, or not all of its tools were declared",
        meaning="The answer has the form of a call and of nothing else, but its name is none of the declared tools'.",
    ),
    Fault(
        ErrorCode.FAMILY_CALL_IN_THOUGHT,
        "a call inside a thought that was never closed",
        "reads it as a guess; it is not run",
        "",
        Trust.GUESSED,
        completion=True,
        shown_by="`<think>I look it up.` and a call on the next line, with no `</think>` anywhere",
        hint="the model forgot the closing mark, or the token limit cut the thought off",
        meaning="A model that thinks about a call writes it like one that makes it. Inside a thought that is closed it "
        "is thought; here nobody can tell.",
    ),
    Fault(
        ErrorCode.FAMILY_TOO_LONG,
        "a call, or what may be a call inside a thought, that passes the limit `call_chars`",
        "ends the call there and skips the rest of it; what stands inside a thought is thought",
        "",
        Trust.GUESSED,
        shown_by="more characters behind the opening mark of a call than the caller allows",
        meaning="No call is as long as this. The reader does not wait for its end for ever.",
    ),
)

FAMILY_FAULTS: Final[dict[ErrorCode, Fault]] = {fault.code: fault for fault in _TABLE}

# Every fault that a diagnostic may be about.
ALL_FAULTS: Final[dict[ErrorCode, Fault]] = {**FAULTS, **FAMILY_FAULTS}
