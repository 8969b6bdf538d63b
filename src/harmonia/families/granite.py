"""The formats of IBM's Granite models:

    <|tool_call|>[{"name": "get_weather", "arguments": {"city": "Oslo"}}]        Granite 3, one list
    <tool_call>[{"name": …}]                                                     Granite 3.1: the mark was no token
    <function_call> {"name": "get_weather", "arguments": {"city": "Oslo"}}       Granite 20B Function Calling
    <tool_call>                                                                  Granite 4
    {"name": "get_weather", "arguments": {"city": "Oslo"}}
    </tool_call>
    Here is my thought process: … Here is my response: …                         thoughts of Granite 3.2
    <think> … </think> <response> … </response>                                  and of 3.3

All of them are read. They are written as Granite 4 writes them (GRANITE) or as Granite 3 does (GRANITE_3).

Sources: ibm-granite/granite-3.3-8b-instruct, ibm-granite/granite-4.0-h-tiny, ibm-granite/granite-20b-functioncalling,
and IBM's prompt engineering guides.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Final

from harmonia.families.call_bodies import Body, JsonCalls
from harmonia.families.hermes import Hermes
from harmonia.families.passages import ANYWHERE, TEXT_AND_CALLS, Layout, Mark, Passage, ends, forged, literal, thoughts
from harmonia.families.reader import TextReader
from harmonia.families.registry import DEFAULT_READING, Reader, ReadingOptions, ToolFormat
from harmonia.families.tool_descriptions import described_as_openai, json_call, result_text
from harmonia.messages import ToolDescription

_THINKING: Final = ("<think>", "</think>")
_SPOKEN_THINKING: Final = ("Here is my thought process:", "Here is my response:")


def _spoken(words: str) -> Mark:
    # Quantised models say "Here's" at times.
    return Mark((*"Here", "[ ']", "i{0,1}", "s", *words, ":"))


_THOUGHT_WORDS: Final = _spoken(" my thought process")
_RESPONSE_WORDS: Final = _spoken(" my response")


def _body(_options: ReadingOptions, _mark: str) -> Body:
    return JsonCalls()


@cache
def _layout(thinking: tuple[str, str] | tuple[()]) -> Layout:
    first: list[Passage] = []
    if thinking:
        spoken = Passage("thought", _THOUGHT_WORDS, _RESPONSE_WORDS, only_first=True, may_stray=False)
        # The first is the one that a prompt opens.
        first = [spoken] if thinking == _SPOKEN_THINKING else [*thoughts([thinking]), spoken]
        closing = literal("</response>")
        first.append(Passage("text", literal("<response>"), closing, may_stay_open=True, only_first=True))
    return Layout(
        [
            *first,
            Passage("call", literal("<|tool_call|>"), inside=ANYWHERE, body=_body),
            Passage(
                "call", literal("<tool_call>"), literal("</tool_call>"), TEXT_AND_CALLS, body=_body, may_stay_open=True
            ),
            Passage("call", literal("<function_call>"), inside=TEXT_AND_CALLS, body=_body),
            *forged("<tool_response>", "<function_response>"),
            *ends("<|end_of_text|>", "<|endoftext|>", "<|start_of_role|>"),
        ]
    )


class Granite(Hermes):
    """Granite 4: calls in tags, as Hermes has them, with words of its own around the tools."""

    format = ToolFormat.GRANITE
    words = (
        "To call a tool, write an object with its name and its arguments, in tags",
        "Write one pair of tags for each call, and nothing after the last. The result comes in the next message.",
    )

    def declare(self, tools: Sequence[ToolDescription]) -> str:
        """The tools as Granite 4's chat template declares them in the system turn."""
        listed = "".join(f"\n{described_as_openai(tool)}" for tool in tools)
        return (
            "You are a helpful assistant with access to the following tools. You may call one or more tools to assist "
            "with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n"
            f"<tools>{listed}\n</tools>\n\nFor each tool call, return a json object with function name and arguments "
            'within <tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": '
            "<args-json-object>}\n</tool_call>. If a tool does not exist in the provided list of tools, notify the "
            "user that you do not have the ability to fulfill the request."
        )

    def reader(self, options: ReadingOptions = DEFAULT_READING) -> Reader:
        return TextReader(_layout(_THINKING if options.thinking is None else options.thinking), options)


class Granite3(Granite):
    """Granite 3: one list of calls after a mark, and results in a turn of their own."""

    words = (
        "When a tool is required to answer, respond only with <|tool_call|> and a JSON list of the calls",
        "The result comes in the next message.",
    )

    def declare(self, tools: Sequence[ToolDescription]) -> str:
        """The list that stands in the turn `available_tools`."""
        functions = [json.loads(described_as_openai(tool))["function"] for tool in tools]
        return json.dumps(functions, ensure_ascii=False, indent=4)

    def write_calls(self, calls: Sequence[tuple[str, str]]) -> str:
        return f"<|tool_call|>[{', '.join(json_call(*call) for call in calls)}]"

    def write_result(self, name: str, text: str, *, is_error: bool) -> str:
        return result_text(text, is_error=is_error)


GRANITE: Final = Granite()
GRANITE_3: Final = Granite3()
