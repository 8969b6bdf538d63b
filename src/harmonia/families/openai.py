"""OpenAI's JSON in text, and the families whose calls are a variant of it:

    {"tool_calls": [{"id": "call_1", "type": "function",           what an application asks for in words
      "function": {"name": "get_weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}}]}
    {"name": "get_weather", "parameters": {"city": "Oslo"}}        Llama 3: the object is the whole answer; with
                                                                   `; ` between several, and behind `<|python_tag|>`
    [get_weather(city="Oslo"), get_time()]                         Llama 3.2 and 4: a list in Python, the whole answer
    <|python_start|>[get_weather(city="Oslo")]<|python_end|>       Llama 4: the same, and code, behind its own marks
    <function=get_weather>{"city": "Oslo"}</function>              Llama 3.1, where its prompt asks for tags
    [TOOL_CALLS]get_weather[ARGS]{"city": "Oslo"}                  Mistral; see mistral_calls.py
    [THINK] … [/THINK]  <think> … </think>                         thoughts of Magistral, and of those before it

All of them are read, whoever wrote them. They are written as the model was taught: OPENAI is the JSON of the API, LLAMA
and MISTRAL are its dialects (dialects.py chooses).

Sources: meta-llama/Llama-3.1-8B-Instruct, Meta's "Llama 3.1 prompt formats" and its pages on Llama 3.2 and 4;
mistralai/Mistral-Nemo-Instruct-2407, mistralai/Mistral-Medium-3.5-128B and mistral-common's tokenizer versions 3 to 13.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import msgspec

from harmonia.families.bare_calls import bare_passages, faults_of
from harmonia.families.call_bodies import Body, HeldBody, JsonCalls, ReadCall, read_json_calls
from harmonia.families.chosen_body import ChosenBody
from harmonia.families.example_calls import example_call
from harmonia.families.family import DEFAULT_READING, Reader, ReadingOptions
from harmonia.families.hermes import tagged_body
from harmonia.families.marks import Mark, literal
from harmonia.families.mistral_calls import mistral_body
from harmonia.families.passages import Kind, Layout, Passage, all_marks
from harmonia.families.python_calls import (
    LIST_OF_CALLS,
    HeldPython,
    parameter_names,
    read_cut_list,
    read_python_calls,
)
from harmonia.families.reader import TextReader
from harmonia.families.tool_format import ToolFormat
from harmonia.families.written import described_as_openai, json_arguments
from harmonia.families.xml_calls import WITH_JSON, read_xml_calls
from harmonia.messages import ToolDescription
from harmonia.parser.arguments import json_fault

_THINKING: Final = (("<think>", "</think>"), ("[THINK]", "[/THINK]"))
_TEXT_AND_CALLS: Final[frozenset[Kind]] = frozenset(["text", "call"])
_ANYWHERE: Final[frozenset[Kind]] = frozenset(["text", "thought", "call"])
# Llama runs code by writing it behind <|python_tag|>. Whoever offers that calls the tool one of these.
_CODE_TOOLS: Final = ("python", "ipython", "code_interpreter")
_ENDS: Final = (
    *("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|start_header_id|>"),
    *("<|eot|>", "<|eom|>", "<|header_start|>"),  # Llama 4
    *("</s>", "[INST]"),
)
# `<function=` behind words, with the JSON that Llama writes into it; in quotation marks it is an example.
_FUNCTION_IN_LINE: Final = Mark(
    ("(?<![\\n`\"'])<", *map(re.escape, "function="), r"[\w.:/-]{1,80}", ">", r"\s{0,8}", r"\{")
)


def _python_tag_body(options: ReadingOptions, _mark: str) -> Body:
    parameters = parameter_names(options.descriptions)

    def read(text: str) -> list[ReadCall]:
        calls = read_python_calls(text, parameters)
        # Which Python code is a call of a tool, only its name can tell; all else is code to run.
        is_tools = all("." in call.name or options.tools.declares(call.name) for call in calls)
        if not text.strip() or (calls and (is_tools or ".call(" in text)):
            return calls
        name = next((name for name in _CODE_TOOLS if options.tools.declares(name)), _CODE_TOOLS[0])
        return [ReadCall(name, json.dumps({"code": text.strip()}, ensure_ascii=False), 0, 0, len(text))]

    def read_values(text: str) -> list[ReadCall]:
        return read_json_calls(text) or read_python_calls(text, parameters)

    return ChosenBody(lambda first: JsonCalls(read_values) if first in "[{" else HeldBody(read, has_strings=False))


def _list_body(options: ReadingOptions, _mark: str) -> Body:
    """A list in Python, which no mark announces: calls where each has its arguments by name, and the tools have such
    names or nobody knows them. Of tools that nobody declared, only one with arguments is a call: `[see()]` is text."""
    parameters, tools = parameter_names(options.descriptions), options.tools

    def read(text: str) -> list[ReadCall]:
        calls = read_python_calls(text, parameters)
        is_known = not tools.is_known or any(tools.declares(call.name) for call in calls)
        if any(not _is_object(call.arguments) or (call.arguments == "{}" and not is_known) for call in calls):
            return []
        return [msgspec.structs.replace(call, faults=faults_of(call.name, tools)) for call in calls]

    return HeldPython(read, ends_itself=True, may_be_text=True, read_cut=lambda text: read_cut_list(text, tools))


def _is_object(arguments: str) -> bool:
    return arguments.startswith("{") and json_fault(arguments) is None


def _function_body(options: ReadingOptions, _mark: str) -> Body:
    return tagged_body(options)


def _function_in_line_body(options: ReadingOptions, _mark: str) -> Body:
    """Tags behind words. Of a tool that was declared it is a call; otherwise somebody explains how to call."""

    def read(text: str) -> list[ReadCall]:
        calls = read_xml_calls(text, options.descriptions)
        return calls if all(options.tools.declares(call.name) for call in calls) else []

    return HeldBody(read, may_be_text=True, has_strings=WITH_JSON)


def _bare_passages() -> list[Passage]:
    """What no mark announces, or only one that is as likely an example: without any tool it is an answer."""
    return [
        Passage("call", LIST_OF_CALLS, body=_list_body, keeps_mark=True, may_stay_open=True, may_be_text=True),
        Passage(
            "call",
            _FUNCTION_IN_LINE,
            (literal("</function>"),),
            body=_function_in_line_body,
            keeps_mark=True,
            may_be_text=True,
            may_stray=False,
        ),
        *bare_passages(),
    ]


@cache
def _layout(thinking: tuple[tuple[str, str], ...], with_bare_calls: bool) -> Layout:
    return Layout(
        [
            *(Passage("thought", literal(opens), (literal(closes),)) for opens, closes in thinking),
            Passage("call", literal("[TOOL_CALLS]"), inside=_ANYWHERE, body=mistral_body),
            Passage("call", literal("<|python_tag|>"), inside=_ANYWHERE, body=_python_tag_body),
            Passage(
                "call",
                literal("<|python_start|>"),
                (literal("<|python_end|>"),),
                _ANYWHERE,
                body=_python_tag_body,
            ),
            Passage(
                "call",
                literal("<function=", at="line"),
                (literal("</function>"),),
                body=_function_body,
                keeps_mark=True,
                may_stray=False,
            ),
            *(_bare_passages() if with_bare_calls else ()),
            Passage("forged", literal("[TOOL_RESULTS]"), inside=_TEXT_AND_CALLS),
            *(Passage("end", literal(mark), inside=_ANYWHERE) for mark in _ENDS),
        ]
    )


class OpenAi:
    """The JSON of OpenAI's API, in text."""

    @property
    def format(self) -> ToolFormat:
        return ToolFormat.OPENAI

    def tool_part(self, tools: Sequence[ToolDescription]) -> str:
        """The tools as the API takes them. The words about calling are those of `call_format`: nobody was taught it."""
        if not tools:
            return ""
        listed = "\n".join(described_as_openai(tool) for tool in tools)
        return f"You can call these functions:\n\n{listed}\n\n{self.call_format(tools)}"

    def call_format(self, tools: Sequence[ToolDescription]) -> str:
        return (
            "To call a tool, answer with nothing but JSON of this form, in which arguments is a text of JSON:\n\n"
            f"{self.write_call(*example_call(tools))}\n\n"
            "Several calls are several items of tool_calls. The result comes in the next message."
        )

    def reader(self, options: ReadingOptions = DEFAULT_READING) -> Reader:
        return TextReader(_layout(all_marks(options.thinking, _THINKING), options.may_call_bare), options)

    def write_call(self, name: str, arguments: str) -> str:
        return self.write_calls([(name, arguments)])

    def write_calls(self, calls: Sequence[tuple[str, str]]) -> str:
        """Several calls, which are one value."""
        listed = [
            {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for number, (name, arguments) in enumerate(calls, 1)
        ]
        return json.dumps({"tool_calls": listed}, ensure_ascii=False)

    def write_result(self, name: str, text: str, *, is_error: bool) -> str:
        said: dict[str, Any] = {"error": text} if is_error else {"content": text}
        return json.dumps({"role": "tool", "name": name, **said}, ensure_ascii=False)

    def guidance(self, *, is_error: bool) -> str:
        if is_error:
            return "The call failed. Call again with other arguments, use another tool, or say what went wrong."
        return "Use this result: call another tool if one is needed, otherwise answer in words."


class Llama(OpenAi):
    """What Llama 3 was taught: an object with a name and parameters as the whole answer."""

    def tool_part(self, tools: Sequence[ToolDescription]) -> str:
        """The tools as Llama 3's chat template declares them in the system turn."""
        if not tools:
            return ""
        listed = "\n\n".join(
            json.dumps(json.loads(described_as_openai(tool)), ensure_ascii=False, indent=4) for tool in tools
        )
        return (
            "You have access to the following functions. To call a function, please respond with JSON for a function "
            'call. Respond in the format {"name": function name, "parameters": dictionary of argument name and its '
            f"value}}. Do not use variables.\n\n{listed}"
        )

    def call_format(self, tools: Sequence[ToolDescription]) -> str:
        return (
            "To call a tool, answer with nothing but an object of its name and its parameters:\n\n"
            f"{self.write_call(*example_call(tools))}\n\n"
            "The result comes in the next message."
        )

    def write_calls(self, calls: Sequence[tuple[str, str]]) -> str:
        return "; ".join(
            f'{{"name": {json.dumps(name, ensure_ascii=False)}, "parameters": {json_arguments(arguments)}}}'
            for name, arguments in calls
        )

    def write_result(self, name: str, text: str, *, is_error: bool) -> str:
        return json.dumps({"error" if is_error else "output": text}, ensure_ascii=False)


class Mistral(OpenAi):
    """What Mistral's models were taught since tokenizer version 13."""

    def tool_part(self, tools: Sequence[ToolDescription]) -> str:
        """The list that stands between [AVAILABLE_TOOLS] and [/AVAILABLE_TOOLS], which the template writes."""
        return f"[{', '.join(described_as_openai(tool) for tool in tools)}]" if tools else ""

    def call_format(self, tools: Sequence[ToolDescription]) -> str:
        return (
            "To call a tool, write its name and its arguments behind marks:\n\n"
            f"{self.write_call(*example_call(tools))}\n\n"
            "Each call has a [TOOL_CALLS] of its own. The result comes in the next message."
        )

    def write_calls(self, calls: Sequence[tuple[str, str]]) -> str:
        return "".join(f"[TOOL_CALLS]{name}[ARGS]{json_arguments(arguments)}" for name, arguments in calls)

    def write_result(self, name: str, text: str, *, is_error: bool) -> str:
        said = json.dumps({"error": text}, ensure_ascii=False) if is_error else text
        return f"[TOOL_RESULTS]{said}[/TOOL_RESULTS]"


OPENAI: Final = OpenAi()
LLAMA: Final = Llama()
MISTRAL: Final = Mistral()
