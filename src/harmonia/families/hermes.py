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

import json
from collections.abc import Sequence
from functools import cache
from typing import Final

from harmonia.families.call_bodies import Body, ChosenBody, JsonCalls, tagged_body
from harmonia.families.passages import ANYWHERE, TEXT_AND_CALLS, Kind, Layout, Passage, literal
from harmonia.families.reader import TextReader
from harmonia.families.registry import DEFAULT_READING, Reader, ReadingOptions, ToolFormat
from harmonia.families.tool_descriptions import described_as_openai, example_call, json_arguments
from harmonia.messages import ToolDescription

_THINKING: Final = ("<think>", "</think>")
_IN_THOUGHTS: Final[frozenset[Kind]] = frozenset(["thought"])


def _call_body(options: ReadingOptions, _mark: str) -> Body:
    """What stands in `<tool_call>`: JSON or tags, which the first character tells."""
    return ChosenBody(lambda first: tagged_body(options) if first == "<" else JsonCalls())


@cache
def _layout(thinking: tuple[str, str] | tuple[()]) -> Layout:
    call_closing = (literal("</tool_call>"),)
    passages = [
        Passage("call", literal("<tool_call>"), call_closing, TEXT_AND_CALLS, body=_call_body),
        # Qwen3 forgets `</think>` before a call at times. Inside of a line it only speaks of the tag.
        Passage("call", literal("<tool_call>", at="line"), call_closing, _IN_THOUGHTS, body=_call_body),
        Passage(
            "call",
            literal("<function=", at="line"),
            (literal("</function>"),),
            body=tagged_body,
            keeps_mark=True,
            is_foreign=True,
        ),
        Passage("call", literal("<tools>", at="line"), (literal("</tools>"),), body=_call_body, is_foreign=True),
        Passage("forged", literal("<tool_response>"), inside=TEXT_AND_CALLS),
        *(Passage("end", literal(mark), inside=ANYWHERE) for mark in ("<|im_end|>", "<|im_start|>", "<|endoftext|>")),
    ]
    if thinking:
        opens, closes = thinking
        passages.insert(0, Passage("thought", literal(opens), (literal(closes),)))
    return Layout(passages)


class Hermes:
    """The family that writes calls as JSON in `<tool_call>`."""

    format: ToolFormat = ToolFormat.HERMES

    def tool_part(self, tools: Sequence[ToolDescription]) -> str:
        """The tools as Qwen's chat templates declare them at the end of the system turn, word for word."""
        if not tools:
            return ""
        listed = "".join(f"\n{described_as_openai(tool)}" for tool in tools)
        return (
            "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
            f"You are provided with function signatures within <tools></tools> XML tags:\n<tools>{listed}\n</tools>\n\n"
            "For each function call, return a json object with function name and arguments within "
            "<tool_call></tool_call> XML tags:\n<tool_call>\n"
            '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
        )

    def call_format(self, tools: Sequence[ToolDescription]) -> str:
        return (
            "To call a tool, write an object with its name and its arguments, in tags:\n\n"
            f"{self.write_call(*example_call(tools))}\n\n"
            "Write one pair of tags for each call and nothing behind the last one. The result comes in <tool_response> "
            "tags; never write those yourself."
        )

    def reader(self, options: ReadingOptions = DEFAULT_READING) -> Reader:
        return TextReader(_layout(_THINKING if options.thinking is None else options.thinking), options)

    def write_call(self, name: str, arguments: str) -> str:
        named = json.dumps(name, ensure_ascii=False)
        return f'<tool_call>\n{{"name": {named}, "arguments": {json_arguments(arguments)}}}\n</tool_call>'

    def write_result(self, name: str, text: str, *, is_error: bool) -> str:
        said = json.dumps({"error": text}, ensure_ascii=False) if is_error else text
        return f"<tool_response>\n{said}\n</tool_response>"

    def guidance(self, *, is_error: bool) -> str:
        if is_error:
            return "The call failed. Mend its arguments and call again, use another tool, or say what went wrong."
        return "Go on with this result: call another tool if one is needed, otherwise answer."


HERMES: Final = Hermes()
