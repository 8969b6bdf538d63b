"""The format of NousResearch's Hermes models, which Qwen took over and most others can read:

    <think>                                               a thought (Qwen3, Hermes 4)
    </think>
    <tool_call>                                           a call, one for each pair of tags
    {"name": "get_weather", "arguments": {"city": "Oslo"}}
    </tool_call>
    <tool_response>                                       a result, in a turn of the user's or the tool's
    12 degrees
    </tool_response>

Sources: the chat templates of Qwen/Qwen2.5-7B-Instruct, Qwen/Qwen3-8B, Qwen/Qwen3-Coder-30B-A3B-Instruct and
NousResearch/Hermes-3-Llama-3.1-8B.

Read as well, because models write it: several objects or a list of them in one pair of tags, code fences, `parameters`
for `arguments`, arguments as a string of JSON, a missing closing tag, and Qwen3-Coder's `<function=name>` (see
call_bodies.py). Without `<tool_call>` around it, that is another family's way to call, and so is Qwen2.5-Coder's habit
of putting calls into `<tools>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from harmonia.families.call_bodies import Body, ChosenBody, JsonCalls, tagged_body
from harmonia.families.passages import TEXT_AND_CALLS, Kind, Layout, Passage, ends, forged, literal, thoughts
from harmonia.families.reader import TextReader
from harmonia.families.registry import DEFAULT_READING, Family, Reader, ReadingOptions, ToolFormat
from harmonia.families.tool_descriptions import described_as_openai, json_call, result_text
from harmonia.messages import ToolDescription

_THINKING: Final = ("<think>", "</think>")
_IN_THOUGHTS: Final[frozenset[Kind]] = frozenset(["thought"])


def _call_body(options: ReadingOptions, _mark: str) -> Body:
    """What stands in `<tool_call>`: JSON or tags, which the first character tells."""
    return ChosenBody(lambda first: tagged_body(options) if first == "<" else JsonCalls())


@cache
def _layout(thinking: tuple[str, str] | tuple[()]) -> Layout:
    closing = literal("</tool_call>")
    function, end = literal("<function=", at="line"), literal("</function>")
    return Layout(
        [
            *thoughts([thinking] if thinking else []),
            Passage("call", literal("<tool_call>"), closing, TEXT_AND_CALLS, body=_call_body),
            # Qwen3 sometimes forgets `</think>` before a call. Inside a line it only speaks of the tag.
            Passage("call", literal("<tool_call>", at="line"), closing, _IN_THOUGHTS, body=_call_body),
            Passage("call", function, end, body=tagged_body, keeps_mark=True, is_foreign=True),
            Passage("call", literal("<tools>", at="line"), literal("</tools>"), body=_call_body, is_foreign=True),
            *forged("<tool_response>"),
            *ends("<|im_end|>", "<|im_start|>", "<|endoftext|>"),
        ]
    )


class Hermes(Family):
    """The family that writes calls as JSON in `<tool_call>`."""

    format = ToolFormat.HERMES
    words = (
        "To call a tool, write an object with its name and its arguments, in tags",
        "Write one pair of tags for each call and nothing after the last one. The result comes in <tool_response> "
        "tags; never write those yourself.",
    )

    def declare(self, tools: Sequence[ToolDescription]) -> str:
        """The tools as Qwen's chat templates declare them at the end of the system turn, word for word."""
        listed = "".join(f"\n{described_as_openai(tool)}" for tool in tools)
        return (
            "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
            f"You are provided with function signatures within <tools></tools> XML tags:\n<tools>{listed}\n</tools>\n\n"
            "For each function call, return a json object with function name and arguments within "
            "<tool_call></tool_call> XML tags:\n<tool_call>\n"
            '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
        )

    def reader(self, options: ReadingOptions = DEFAULT_READING) -> Reader:
        return TextReader(_layout(_THINKING if options.thinking is None else options.thinking), options)

    def write_calls(self, calls: Sequence[tuple[str, str]]) -> str:
        return "\n".join(f"<tool_call>\n{json_call(*call)}\n</tool_call>" for call in calls)

    def write_result(self, name: str, text: str, *, is_error: bool) -> str:
        return f"<tool_response>\n{result_text(text, is_error=is_error)}\n</tool_response>"


HERMES: Final = Hermes()
