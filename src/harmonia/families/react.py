"""Calls in plain words, for models that were never trained to call tools: ReAct, as the paper and LangChain have it.

    Thought: I have to look it up.         a thought
    Action: search                         a call
    Action Input: {"query": "Oslo"}
    Observation: …                         a result
    Final Answer: Oslo.                    text, as is everything without a label

Sources: Yao et al., ReAct (arXiv 2210.03629), whose calls are `Action 1: Search[Oslo]`; LangChain's prompts
`hwchase17/react` and `hwchase17/structured-chat-agent`, the latter with an object of JSON after `Action:`.

1. Labels stand at the beginning of a line, in large or small letters, with or without a number, also in bold.
2. A model that is not stopped writes the observation itself, and continues from there. That is a message in the name of
   a tool that never answered: forged, and all that follows is part of it.
3. The input of an action is often not JSON. If the tool is described and has one parameter, or one that is required,
   the input is that parameter; otherwise it stays as it is written.
4. `Action:` with words that call nothing is text, or a thought if it follows one. With an input after it, it is a call
   that cannot be read.
5. Between the marks of a thought (`<think>`) no label counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, cast

from harmonia.families.call_bodies import (
    Body,
    HeldBody,
    ReadCall,
    arguments_text,
    properties_of,
    typed_value,
    whole_characters,
)
from harmonia.families.passages import ANYWHERE, Layout, Passage, label, literal
from harmonia.families.reader import TextReader
from harmonia.families.registry import DEFAULT_READING, Family, Reader, ReadingOptions, ToolFormat
from harmonia.families.tool_descriptions import example_call
from harmonia.json_codec import read_json
from harmonia.messages import ToolDescription

_BLANKS: Final = r"[ \t]{0,4}"
_INPUT: Final = re.compile(
    rf"^{_BLANKS}(?:\*\*)?Action{_BLANKS}\d{{0,3}}{_BLANKS}Input{_BLANKS}\d{{0,3}}{_BLANKS}(?:\*\*)?:(?:\*\*)?",
    re.IGNORECASE | re.MULTILINE,
)
_NAME: Final = re.compile(r"[\w.:/-]+")
_BRACKETED: Final = re.compile(r"(?P<name>[\w.:/-]+)\[(?P<input>.*)\]", re.DOTALL)
_FENCE: Final = "```"
_FENCE_LINE: Final = re.compile(r"```[\w-]*")
# Around a name, models put quotation marks, code marks and brackets.
_AROUND_NAME: Final = " \t\r\n`'\"*[]"


class _ActionReader:
    """Reads what stands after `Action:`, when it is complete: no mark closes it."""

    def __init__(self, options: ReadingOptions) -> None:
        self._options = options

    def read(self, text: str) -> list[ReadCall] | None:
        label_of_input = _INPUT.search(text)
        if label_of_input is None:
            return self._bare_call(text)
        name = text[: label_of_input.start()].strip(_AROUND_NAME)
        return [self._call(name, text, label_of_input.end(), len(text))] if _NAME.fullmatch(name) else []

    def _bare_call(self, text: str) -> list[ReadCall] | None:
        """A call without a label for its input."""
        said = text.strip()
        bracketed = _BRACKETED.fullmatch(said)
        if bracketed is not None:
            shift = len(text) - len(text.lstrip())
            start, end = bracketed.span("input")
            return [self._call(bracketed["name"], text, start + shift, end + shift)]
        structured = _structured(said)
        if structured is not None:
            name, given = structured
            arguments = self._arguments(name, given) if isinstance(given, str) else arguments_text(given)
            return [ReadCall(name, arguments, 0, 0, len(text))]
        name = said.strip(_AROUND_NAME)
        is_tool = self._options.tools.declares(name) or any(tool.name == name for tool in self._options.descriptions)
        return [ReadCall(name, "{}", 0, len(text), len(text))] if is_tool else None

    def _call(self, name: str, text: str, start: int, end: int) -> ReadCall:
        """The call whose input stands here, without the white space and the code fence around it."""
        start, end = _without_blanks(text, start, end)
        opening = _FENCE_LINE.match(text, start, end)
        if opening is not None and text.endswith(_FENCE, opening.end(), end):
            start, end = _without_blanks(text, opening.end(), end - len(_FENCE))
        return ReadCall(name, self._arguments(name, text[start:end]), 0, start, end)

    def _arguments(self, name: str, written: str) -> str:
        try:
            value = read_json(written)
        except ValueError:
            value = None
        if isinstance(value, dict):
            return written
        parameter = self._only_parameter(name)
        if parameter is None:
            return whole_characters(written) or "{}"
        key, schema = parameter
        # LangChain's models put quotation marks around an input that is a text.
        given = value if isinstance(value, str) else typed_value(written, schema)
        return arguments_text({key: given}) if written else "{}"

    def _only_parameter(self, name: str) -> tuple[str, Any] | None:
        """The one parameter that an input without a name can be meant for."""
        tool = next((tool for tool in self._options.descriptions if tool.name == name), None)
        if tool is None or not isinstance(tool.parameters, dict):
            return None
        properties, required = properties_of(tool), tool.parameters.get("required")
        keys = list(properties)
        if len(keys) > 1 and isinstance(required, list):
            keys = [key for key in keys if key in required]
        return (keys[0], properties[keys[0]]) if len(keys) == 1 else None


def _without_blanks(text: str, start: int, end: int) -> tuple[int, int]:
    """The same stretch without the white space at its ends."""
    written = text[start:end]
    start += len(written) - len(written.lstrip())
    return start, max(end - (len(written) - len(written.rstrip())), start)


def _structured(text: str) -> tuple[str, Any] | None:
    """`{"action": name, "action_input": …}`, also in a code fence."""
    try:
        value = read_json(_FENCE_LINE.sub("", text, count=1).removesuffix(_FENCE) if text.startswith(_FENCE) else text)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    item = cast("dict[str, Any]", value)
    name = item.get("action")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        return None
    return name, item.get("action_input")


def _body(options: ReadingOptions, _mark: str) -> Body:
    return HeldBody(_ActionReader(options).read)


@cache
def _layout(thinking: tuple[str, str] | tuple[()]) -> Layout:
    passages: list[Passage] = []
    if thinking:
        opens, closes = map(literal, thinking)
        # Between these marks a model drafts what it will write: labels count only after the thought.
        passages.append(Passage("thought", opens, closes, only_closing=True))
    for around in ("", "**"):
        passages += (
            Passage("thought", label("Thought", around), inside=ANYWHERE),
            Passage("call", label("Action", around), inside=ANYWHERE, body=_body, may_be_text=True),
            Passage("forged", label("Observation", around), inside=ANYWHERE),
            Passage("text", label("Final Answer", around), inside=ANYWHERE),
        )
    return Layout(passages)


class ReAct(Family):
    """The family of models without one: calls in labelled lines."""

    format = ToolFormat.TEXT
    after_result = "Continue with this observation: another action if one is needed, otherwise the final answer."
    after_error = "The action failed. Correct its input and try again, use another tool, or say what went wrong."

    def declare(self, tools: Sequence[ToolDescription]) -> str:
        """The tools one by one, and how to call them: no template declares tools for these models."""
        listed = "\n".join(map(_described, tools))
        return f"You can use these tools:\n\n{listed}\n\n{self.call_format(tools)}"

    def call_format(self, tools: Sequence[ToolDescription]) -> str:
        names = ", ".join(tool.name for tool in tools) or "the name of a tool"
        return (
            "Write labelled lines. To use a tool:\n\n"
            "Thought: why the tool is needed\n"
            f"Action: one of {names}\n"
            f"Action Input: the arguments as a JSON object, such as {example_call(tools)[1]}\n\n"
            "Then stop: the line `Observation:` with the result is written for you. When you know the answer:\n\n"
            "Thought: I know the answer\n"
            "Final Answer: the answer"
        )

    def reader(self, options: ReadingOptions = DEFAULT_READING) -> Reader:
        return TextReader(_layout(options.thinking or ()), options)

    def write_calls(self, calls: Sequence[tuple[str, str]]) -> str:
        return "\n".join(f"Action: {name}\nAction Input: {arguments}" for name, arguments in calls)

    def write_result(self, name: str, text: str, *, is_error: bool) -> str:
        return f"Observation: {'Error: ' if is_error else ''}{text}"


def _described(tool: ToolDescription) -> str:
    said = f"{tool.name}: {tool.description or 'no description'}"
    properties = properties_of(tool)
    return f"{said}\n  arguments: {json.dumps(properties, ensure_ascii=False)}" if properties else said


REACT: Final = ReAct()
