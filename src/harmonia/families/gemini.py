"""The formats of Google's Gemma models, and Gemini's JSON in text:

    ```tool_code                                                    Gemma 3, as its documentation asks for: Python in a
    get_weather(city="Oslo")                                        code fence; or a list of calls as the whole answer
    ```
    <start_function_call>call:get_weather{city:<escape>Oslo<escape>}<end_function_call>              FunctionGemma
    <|tool_call>call:get_weather{city:<|"|>Oslo<|"|>}<tool_call|>                                    Gemma 4
    {"functionCall": {"name": "get_weather", "args": {"city": "Oslo"}}}                              Gemini's API
    <|channel>thought … <channel|>                                                                   thoughts of Gemma 4

All of them are read, Python without evaluating anything (python_calls.py). They are written as the model was taught:
GEMINI is Gemma 3, FUNCTION_GEMMA and GEMMA_4 are its dialects (dialects.py chooses).

Sources: ai.google.dev/gemma/docs/capabilities/function-calling, …/gemma/docs/meme-generator (tool_code, tool_output),
…/gemma/docs/functiongemma/formatting-and-best-practices, and Gemma 4's chat template.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, cast

from harmonia.families.bare_calls import bare_passages, calls_in
from harmonia.families.call_bodies import Body, HeldBody, ReadCall
from harmonia.families.example_calls import example_call
from harmonia.families.family import DEFAULT_READING, Reader, ReadingOptions
from harmonia.families.gemma_calls import ESCAPE, QUOTE, read_gemma_call, write_braces
from harmonia.families.marks import literal
from harmonia.families.passages import Kind, Layout, Passage, all_marks
from harmonia.families.python_calls import (
    LIST_OF_CALLS,
    HeldPython,
    parameter_names,
    python_name,
    read_cut_list,
    read_python_calls,
)
from harmonia.families.reader import TextReader
from harmonia.families.tool_format import ToolFormat
from harmonia.families.written import described_as_openai
from harmonia.messages import ToolDescription
from harmonia.parser.arguments import read_json

# Gemma 4 names the channel of its thoughts, and may close it right after the name: `<|channel>thought<channel|>`.
_CHANNEL: Final = "<|channel>"
_LABEL: Final = "thought"
_THINKING: Final = (
    (f"{_CHANNEL}{_LABEL}\n", "<channel|>"),
    (_CHANNEL, "<channel|>"),
    ("<think>", "</think>"),
)
_TEXT_AND_CALLS: Final[frozenset[Kind]] = frozenset(["text", "call"])
_ANYWHERE: Final[frozenset[Kind]] = frozenset(["text", "thought", "call"])
_ENDS: Final = ("<end_of_turn>", "<start_of_turn>", "<turn|>", "<|turn>", "<eos>")
_FENCE_END: Final = (literal("```"),)


def _code_body(options: ReadingOptions, _mark: str) -> Body:
    parameters = parameter_names(options.descriptions)

    def read(text: str) -> list[ReadCall]:
        # Between these marks some write the JSON that other models would.
        calls = read_python_calls(text, parameters)
        as_json = [] if calls else calls_in(text, options.tools)
        return calls or [
            ReadCall(name, arguments, 0, 0, 0 if index else len(text))
            for index, (name, arguments) in enumerate(as_json)
        ]

    return HeldPython(read)


def _list_body(options: ReadingOptions, _mark: str) -> Body:
    parameters = parameter_names(options.descriptions)
    return HeldPython(
        lambda text: read_python_calls(text, parameters),
        ends_itself=True,
        may_be_text=True,
        read_cut=lambda text: read_cut_list(text, options.tools),
    )


def _braces_body(_options: ReadingOptions, _mark: str) -> Body:
    return HeldBody(read_gemma_call, has_strings=False)


def _bare_passages() -> list[Passage]:
    """What no mark announces: without any tool it is an answer."""
    return [Passage("call", LIST_OF_CALLS, body=_list_body, keeps_mark=True, may_be_text=True), *bare_passages()]


@cache
def _layout(thinking: tuple[tuple[str, str], ...], with_bare_calls: bool) -> Layout:
    return Layout(
        [
            *(
                Passage("thought", literal(opens), (literal(closes),), label=_LABEL if opens == _CHANNEL else "")
                for opens, closes in thinking
            ),
            Passage("call", literal("```tool_code"), _FENCE_END, body=_code_body, may_stray=False),
            Passage("call", literal("```tool_call"), _FENCE_END, body=_code_body, may_stray=False),
            Passage(
                "call",
                literal("<start_function_call>"),
                (literal("<end_function_call>"),),
                _ANYWHERE,
                body=_braces_body,
            ),
            Passage("call", literal("<|tool_call>"), (literal("<tool_call|>"),), _ANYWHERE, body=_braces_body),
            *(_bare_passages() if with_bare_calls else ()),
            Passage("forged", literal("```tool_output"), inside=_TEXT_AND_CALLS),
            Passage("forged", literal("<start_function_response>"), inside=_ANYWHERE),
            Passage("forged", literal("<|tool_response>"), inside=_ANYWHERE),
            *(Passage("end", literal(mark), inside=_ANYWHERE) for mark in _ENDS),
        ]
    )


class Gemini:
    """Gemma 3: Python in a code fence, as its documentation asks for."""

    @property
    def format(self) -> ToolFormat:
        return ToolFormat.GEMINI

    def tool_part(self, tools: Sequence[ToolDescription]) -> str:
        """Gemma 3's template declares no tools: these are the words of its documentation, around their JSON."""
        if not tools:
            return ""
        listed = "\n".join(described_as_openai(tool) for tool in tools)
        return (
            "At each turn, if you decide to invoke any of the function(s), it should be wrapped with ```tool_code```. "
            "The functions described below are imported and available, you can only use these. The response to a "
            f"function will be wrapped in ```tool_output```.\n\n{listed}"
        )

    def call_format(self, tools: Sequence[ToolDescription]) -> str:
        return (
            "To call a tool, write a Python call with named arguments in a code fence:\n\n"
            f"{self.write_call(*example_call(tools))}\n\n"
            "Its values are literals. Write nothing behind the fence: the result comes in a fence called tool_output, "
            "which you never write yourself."
        )

    def reader(self, options: ReadingOptions = DEFAULT_READING) -> Reader:
        return TextReader(_layout(all_marks(options.thinking, _THINKING), options.may_call_bare), options)

    def write_call(self, name: str, arguments: str) -> str:
        return self.write_calls([(name, arguments)])

    def write_calls(self, calls: Sequence[tuple[str, str]]) -> str:
        """Several calls, which stand in one fence."""
        lines = "\n".join(_python_call(name, arguments) for name, arguments in calls)
        return f"```tool_code\n{lines}\n```"

    def write_result(self, name: str, text: str, *, is_error: bool) -> str:
        return f"```tool_output\n{_said(text, is_error=is_error)}\n```"

    def guidance(self, *, is_error: bool) -> str:
        if is_error:
            return "The call failed. Call again with other arguments, or say what went wrong."
        return "Use this output to call more tools or to answer."


class FunctionGemma(Gemini):
    """FunctionGemma: braces with texts in <escape>, between marks that are tokens."""

    opening, closing = "<start_function_call>", "<end_function_call>"
    declaration = "<start_function_declaration>", "<end_function_declaration>"
    response = "<start_function_response>", "<end_function_response>"
    mark = ESCAPE
    words = "You are a model that can do function calling with the following functions"

    def tool_part(self, tools: Sequence[ToolDescription]) -> str:
        """The declarations as the chat template writes them in the developer's turn."""
        opens, closes = self.declaration
        listed = (f"{opens}{self._declared(tool)}{closes}" for tool in tools)
        return self.words + "".join(listed) if tools else ""

    def call_format(self, tools: Sequence[ToolDescription]) -> str:
        return (
            "To call a tool, write its name and its arguments between marks, every text between two "
            f"{self.mark}:\n\n{self.write_call(*example_call(tools))}\n\nThe result follows at once."
        )

    def write_calls(self, calls: Sequence[tuple[str, str]]) -> str:
        return "".join(f"{self.opening}call:{name}{self._braces(arguments)}{self.closing}" for name, arguments in calls)

    def write_result(self, name: str, text: str, *, is_error: bool) -> str:
        opens, closes = self.response
        member = "error" if is_error else "value"
        return f"{opens}response:{name}{write_braces({member: text}, self.mark)}{closes}"

    def _braces(self, arguments: str) -> str:
        try:
            return write_braces(read_json(arguments), self.mark)
        except ValueError:
            return f"{{{arguments}}}"

    def _declared(self, tool: ToolDescription) -> str:
        members = [f"description:{self.mark}{tool.description or ''}{self.mark}"]
        if isinstance(tool.parameters, dict) and tool.parameters:
            members.append(f"parameters:{self._schema(tool.parameters)}")
        return f"declaration:{tool.name}{{{','.join(members)}}}"

    def _schema(self, schema: dict[str, Any]) -> str:
        """A JSON Schema, whose types are written in capitals, as Google's API has them."""
        members = sorted(schema.items())
        return f"{{{','.join(f'{name}:{self._schema_member(name, value)}' for name, value in members)}}}"

    def _schema_member(self, name: str, value: Any) -> str:
        if name == "type":
            value = value.upper() if isinstance(value, str) else [str(each).upper() for each in value]
            return write_braces(value, self.mark)
        if name == "properties" and isinstance(value, dict):
            schemas = cast("dict[str, Any]", value)
            return f"{{{','.join(f'{key}:{self._schema_of(schemas[key])}' for key in sorted(schemas))}}}"
        return self._schema_of(value) if name in ("items", "additionalProperties") else write_braces(value, self.mark)

    def _schema_of(self, value: Any) -> str:
        return (
            self._schema(cast("dict[str, Any]", value)) if isinstance(value, dict) else write_braces(value, self.mark)
        )


class Gemma4(FunctionGemma):
    """Gemma 4: the same with other marks."""

    opening, closing = "<|tool_call>", "<tool_call|>"
    declaration = "<|tool>", "<tool|>"
    response = "<|tool_response>", "<tool_response|>"
    mark = QUOTE
    words = ""


def _python_call(name: str, arguments: str) -> str:
    name = python_name(name)
    try:
        value: Any = read_json(arguments)
    except ValueError:
        return f"{name}({arguments})"
    if not isinstance(value, dict):
        return f"{name}({value!r})"
    members = cast("dict[str, Any]", value)
    if not all(key.isidentifier() for key in members):
        return f"{name}(**{members!r})"
    return f"{name}({', '.join(f'{key}={_literal(item)}' for key, item in members.items())})"


def _literal(value: Any) -> str:
    # Texts in double quotes, as models write them; everything else as Python has it.
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _said(text: str, *, is_error: bool) -> str:
    return json.dumps({"error": text}, ensure_ascii=False) if is_error else text


GEMINI: Final = Gemini()
FUNCTION_GEMMA: Final = FunctionGemma()
GEMMA_4: Final = Gemma4()
