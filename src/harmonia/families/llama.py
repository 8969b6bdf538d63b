"""Llama's calls, of which its versions have several kinds:

    {"name": "get_weather", "parameters": {"city": "Oslo"}}        Llama 3: the object is the whole answer; with
                                                                   `; ` between several, or after `<|python_tag|>`
    [get_weather(city="Oslo"), get_time()]                         Llama 3.2 and 4: a list in Python, the whole answer
    <|python_start|>[get_weather(city="Oslo")]<|python_end|>       Llama 4: the same, or code, between its own marks
    <function=get_weather>{"city": "Oslo"}</function>              Llama 3.1, where its prompt asks for tags

They are read by the tool format `openai` (json_calls.py), and written as Llama 3 was taught.

Sources: meta-llama/Llama-3.1-8B-Instruct, Meta's "Llama 3.1 prompt formats" and its pages on Llama 3.2 and 4.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from harmonia.families.call_bodies import (
    WITH_JSON,
    Body,
    ChosenBody,
    HeldBody,
    JsonCalls,
    ReadCall,
    faults_of,
    read_json_calls,
    read_xml_calls,
    tagged_body,
)
from harmonia.families.passages import ANYWHERE, Mark, Passage, literal
from harmonia.families.python_calls import LIST_OF_CALLS, parameter_names, read_cut_list, read_python_calls
from harmonia.families.registry import CallWriter, ReadingOptions, ToolFormat
from harmonia.families.tool_descriptions import described_as_openai, json_call
from harmonia.json_codec import json_fault
from harmonia.messages import ToolDescription

# Llama runs code by writing it after <|python_tag|>. The tool that runs it usually has one of these names.
_CODE_TOOLS: Final = ("python", "ipython", "code_interpreter")
ENDS: Final = (
    *("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|start_header_id|>"),
    *("<|eot|>", "<|eom|>", "<|header_start|>"),  # Llama 4
)
# `<function=` after words, with the JSON that Llama writes into it; in quotation marks it is an example.
_FUNCTION_IN_LINE: Final = Mark(
    ("(?<![\\n`\"'])<", *map(re.escape, "function="), r"[\w.:/-]{1,80}", ">", r"\s{0,8}", r"\{")
)


def _python_tag_body(options: ReadingOptions, _mark: str) -> Body:
    parameters = parameter_names(options.descriptions)

    def read(text: str) -> list[ReadCall]:
        calls = read_python_calls(text, parameters)
        # Only its name shows that Python code is a call of a tool; all else is code to run.
        is_tools = all("." in call.name or options.tools.declares(call.name) for call in calls)
        if not text.strip() or (calls and (is_tools or ".call(" in text)):
            return calls
        name = next((name for name in _CODE_TOOLS if options.tools.declares(name)), _CODE_TOOLS[0])
        return [ReadCall(name, json.dumps({"code": text.strip()}, ensure_ascii=False), 0, 0, len(text))]

    def read_values(text: str) -> list[ReadCall]:
        return read_json_calls(text) or read_python_calls(text, parameters)

    return ChosenBody(lambda first: JsonCalls(read_values) if first in "[{" else HeldBody(read, has_strings=False))


def _list_body(options: ReadingOptions, _mark: str) -> Body:
    """A list in Python without a mark. It consists of calls if each has its arguments by name, and if the tools are
    unknown or one of them is called. With other names, only calls with arguments count: `[see()]` is text."""
    parameters, tools = parameter_names(options.descriptions), options.tools

    def read(text: str) -> list[ReadCall] | None:
        calls = read_python_calls(text, parameters)
        is_known = not tools.is_known or any(tools.declares(call.name) for call in calls)
        for arguments in (call.arguments for call in calls):
            is_object = arguments.startswith("{") and json_fault(arguments) is None
            if not is_object or (arguments == "{}" and not is_known):
                return None
        return [msgspec.structs.replace(call, faults=faults_of(call.name, tools)) for call in calls] or None

    return HeldBody(read, is_python=True, ends_itself=True, read_cut=lambda text: read_cut_list(text, tools))


def _tags_in_line_body(options: ReadingOptions, _mark: str) -> Body:
    """Tags after words: a call if the tool is declared, otherwise an explanation of how to call."""

    def read(text: str) -> list[ReadCall] | None:
        calls = read_xml_calls(text, options.descriptions)
        return calls if calls and all(options.tools.declares(call.name) for call in calls) else None

    return HeldBody(read, has_strings=WITH_JSON)


def bare_llama_passages() -> list[Passage]:
    """What no mark announces, or only one that is as likely an example: without any tool it is an answer."""
    tags, end = _FUNCTION_IN_LINE, literal("</function>")
    return [
        Passage("call", LIST_OF_CALLS, body=_list_body, keeps_mark=True, may_stay_open=True, may_be_text=True),
        Passage("call", tags, end, body=_tags_in_line_body, keeps_mark=True, may_be_text=True, may_stray=False),
    ]


def llama_passages() -> list[Passage]:
    """Calls that a mark opens."""
    tags, end = literal("<function=", at="line"), literal("</function>")
    return [
        Passage("call", literal("<|python_tag|>"), inside=ANYWHERE, body=_python_tag_body),
        Passage("call", literal("<|python_start|>"), literal("<|python_end|>"), ANYWHERE, body=_python_tag_body),
        Passage("call", tags, end, body=tagged_body, keeps_mark=True, may_stray=False),
    ]


class Llama(CallWriter):
    """What Llama 3 was taught: an object with a name and parameters as the whole answer."""

    format = ToolFormat.OPENAI
    words = (
        "To call a tool, answer with nothing but an object of its name and its parameters",
        "The result comes in the next message.",
    )

    def declare(self, tools: Sequence[ToolDescription]) -> str:
        """The tools as Llama 3's chat template declares them in the system turn."""
        described = (json.loads(described_as_openai(tool)) for tool in tools)
        listed = "\n\n".join(json.dumps(tool, ensure_ascii=False, indent=4) for tool in described)
        return (
            "You have access to the following functions. To call a function, please respond with JSON for a function "
            'call. Respond in the format {"name": function name, "parameters": dictionary of argument name and its '
            f"value}}. Do not use variables.\n\n{listed}"
        )

    def write_calls(self, calls: Sequence[tuple[str, str]]) -> str:
        return "; ".join(json_call(name, arguments, "parameters") for name, arguments in calls)

    def write_result(self, name: str, text: str, *, is_error: bool) -> str:
        return json.dumps({"error" if is_error else "output": text}, ensure_ascii=False)


LLAMA: Final = Llama()
