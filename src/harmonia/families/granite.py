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
from harmonia.families.passages import ANYWHERE, TEXT_AND_CALLS, Layout, Mark, Passage, literal
from harmonia.families.reader import TextReader
from harmonia.families.registry import DEFAULT_READING, Reader, ReadingOptions, ToolFormat
from harmonia.families.tool_descriptions import described_as_openai, example_call, json_arguments
from harmonia.messages import ToolDescription

_THINKING: Final = ("<think>", "</think>")
_SPOKEN_THINKING: Final = ("Here is my thought process:", "Here is my response:")
_ENDS: Final = ("<|end_of_text|>", "<|endoftext|>", "<|start_of_role|>")


def _spoken(words: str) -> Mark:
    # Quantised models say "Here's" at times.
    return Mark((*"Here", "[ ']", "i{0,1}", "s", *words, ":"))


_THOUGHT_WORDS: Final = _spoken(" my thought process")
_RESPONSE_WORDS: Final = _spoken(" my response")


def _body(_options: ReadingOptions, _mark: str) -> Body:
    return JsonCalls()


@cache
def _layout(thinking: tuple[str, str] | tuple[()]) -> Layout:
    thoughts: list[Passage] = []
    if thinking:
        spoken = Passage("thought", _THOUGHT_WORDS, (_RESPONSE_WORDS,), only_first=True, may_stray=False)
        marked = Passage("thought", literal(thinking[0]), (literal(thinking[1]),))
        # The first is the one that a prompt opens.
        thoughts = [spoken] if thinking == _SPOKEN_THINKING else [marked, spoken]
        closing = (literal("</response>"),)
        thoughts.append(Passage("text", literal("<response>"), closing, may_stay_open=True, only_first=True))
    return Layout(
        [
            *thoughts,
            Passage("call", literal("<|tool_call|>"), inside=ANYWHERE, body=_body),
            Passage(
                "call",
                literal("<tool_call>"),
                (literal("</tool_call>"),),
                TEXT_AND_CALLS,
                body=_body,
                may_stay_open=True,
            ),
            Passage("call", literal("<function_call>"), inside=TEXT_AND_CALLS, body=_body),
            Passage("forged", literal("<tool_response>"), inside=TEXT_AND_CALLS),
            Passage("forged", literal("<function_response>"), inside=TEXT_AND_CALLS),
            *(Passage("end", literal(mark), inside=ANYWHERE) for mark in _ENDS),
        ]
    )


class Granite:
    """Granite 4: calls in tags, as Hermes has them, with words of its own around the tools."""

    @property
    def format(self) -> ToolFormat:
        return ToolFormat.GRANITE

    def tool_part(self, tools: Sequence[ToolDescription]) -> str:
        """The tools as Granite 4's chat template declares them in the system turn."""
        if not tools:
            return ""
        listed = "".join(f"\n{described_as_openai(tool)}" for tool in tools)
        return (
            "You are a helpful assistant with access to the following tools. You may call one or more tools to assist "
            "with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n"
            f"<tools>{listed}\n</tools>\n\nFor each tool call, return a json object with function name and arguments "
            'within <tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": '
            "<args-json-object>}\n</tool_call>. If a tool does not exist in the provided list of tools, notify the "
            "user that you do not have the ability to fulfill the request."
        )

    def call_format(self, tools: Sequence[ToolDescription]) -> str:
        return (
            "To call a tool, write an object with its name and its arguments, in tags:\n\n"
            f"{self.write_call(*example_call(tools))}\n\n"
            "Write one pair of tags for each call, and nothing behind the last. The result comes in the next message."
        )

    def reader(self, options: ReadingOptions = DEFAULT_READING) -> Reader:
        return TextReader(_layout(_THINKING if options.thinking is None else options.thinking), options)

    def write_call(self, name: str, arguments: str) -> str:
        return f"<tool_call>\n{_object(name, arguments)}\n</tool_call>"

    def write_result(self, name: str, text: str, *, is_error: bool) -> str:
        return f"<tool_response>\n{_said(text, is_error=is_error)}\n</tool_response>"

    def guidance(self, *, is_error: bool) -> str:
        if is_error:
            return "The call failed. Call again with other arguments, or tell the user that it cannot be done."
        return "Use this result: call another tool if one is needed, otherwise answer the user."


class Granite3(Granite):
    """Granite 3: one list of calls after a mark, and results in a turn of their own."""

    def tool_part(self, tools: Sequence[ToolDescription]) -> str:
        """The list that stands in the turn `available_tools`."""
        functions = [json.loads(described_as_openai(tool))["function"] for tool in tools]
        return json.dumps(functions, ensure_ascii=False, indent=4) if tools else ""

    def call_format(self, tools: Sequence[ToolDescription]) -> str:
        return (
            "When a tool is required to answer, respond only with <|tool_call|> and a JSON list of the calls:\n\n"
            f"{self.write_call(*example_call(tools))}\n\n"
            "The result comes in the next message."
        )

    def write_call(self, name: str, arguments: str) -> str:
        return self.write_calls([(name, arguments)])

    def write_calls(self, calls: Sequence[tuple[str, str]]) -> str:
        """Several calls, which are one list."""
        return f"<|tool_call|>[{', '.join(_object(name, arguments) for name, arguments in calls)}]"

    def write_result(self, name: str, text: str, *, is_error: bool) -> str:
        return _said(text, is_error=is_error)


def _object(name: str, arguments: str) -> str:
    return f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {json_arguments(arguments)}}}'


def _said(text: str, *, is_error: bool) -> str:
    return json.dumps({"error": text}, ensure_ascii=False) if is_error else text


GRANITE: Final = Granite()
GRANITE_3: Final = Granite3()
