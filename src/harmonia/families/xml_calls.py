"""Calls as Qwen3-Coder writes them, which is no XML though it looks like it:

    <function=get_weather>
    <parameter=city>
    Dallas
    </parameter>
    </function>

Values are text as it stands; what type they have, only the tool's schema knows. Llama 3 writes an object of JSON in the
place of the parameters, whose texts may spell tags. Closing tags are forgotten at times: then the next opening one
closes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from harmonia.errors import ErrorCode
from harmonia.families.call_bodies import Body, HeldBody, ReadCall, read_json_calls, whole_characters
from harmonia.families.registry import ReadingOptions
from harmonia.json_codec import read_json
from harmonia.messages import ToolDescription

# How a call begins whose arguments are JSON.
WITH_JSON: Final = re.compile(r"\s*<function=[^<>\n]*>\s*\{")
_FUNCTION: Final = re.compile(r"<function=(?P<name>[^<>\n]*)>")
_FUNCTION_END: Final = re.compile(r"</function>|(?=<function=)")
_PARAMETER: Final = re.compile(r"<parameter=(?P<name>[^<>\n]*)>")
_PARAMETER_END: Final = re.compile(r"</parameter>|(?=<parameter=)")
_NOT_BLANK: Final = re.compile(r"\S")
_DECODER: Final = json.JSONDecoder()


def read_xml_calls(text: str, tools: Iterable[ToolDescription] = ()) -> list[ReadCall]:
    """The calls in a text, with the types that the tools' schemas give their parameters."""
    properties = {tool.name: _properties_of(tool) for tool in tools}
    calls: list[ReadCall] = []
    at = 0
    while (opening := _FUNCTION.search(text, at)) is not None:
        start = opening.end()
        closing = _FUNCTION_END.search(text, _behind_json(text, start))
        end = len(text) if closing is None else closing.start()
        faults = () if closing is None or closing.group() else (ErrorCode.FAMILY_UNCLOSED,)
        name = opening["name"].strip().strip("\"'")
        if name:
            arguments = _arguments_in(text[start:end], properties.get(name, {}))
            calls.append(ReadCall(name, arguments, opening.start(), start, end, faults))
        at = end
    return calls


def _behind_json(text: str, at: int) -> int:
    """The place after the JSON that stands here; this one where there is none, or where it is broken."""
    first = _NOT_BLANK.search(text, at)
    if first is None or first.group() != "{":
        return at
    try:
        return _DECODER.raw_decode(text, first.start())[1]
    except (ValueError, RecursionError):
        return at


def _arguments_in(text: str, properties: Mapping[str, Any]) -> str:
    stripped = text.strip()
    if _PARAMETER.search(text) is None:
        return stripped or "{}"
    values: dict[str, Any] = {}
    at = 0
    while (opening := _PARAMETER.search(text, at)) is not None:
        closing = _PARAMETER_END.search(text, opening.end())
        at = len(text) if closing is None else closing.start()
        name = opening["name"].strip()
        values[name] = typed_value(_without_line_breaks(text[opening.end() : at]), properties.get(name))
    return whole_characters(json.dumps(values, ensure_ascii=False))


def _without_line_breaks(text: str) -> str:
    """The template puts one line break before a value and one after it."""
    return text.removeprefix("\n").removesuffix("\n")


def typed_value(text: str, schema: Any) -> Any:
    """A value that is written without quotation marks: JSON if it reads as such, unless the schema wants a text."""
    kinds = _types_of(schema)
    if kinds == {"string"}:
        return text
    try:
        value = read_json(text)
    except ValueError:
        word = text.strip().lower()
        return {"true": True, "false": False}.get(word, text) if "boolean" in kinds else text
    return text if "string" in kinds and isinstance(value, str) else value


def _types_of(schema: Any) -> set[str]:
    if not isinstance(schema, Mapping):
        return set()
    found = cast("Mapping[str, Any]", schema)
    kinds = found.get("type")
    if isinstance(kinds, str):
        return {kinds}
    if isinstance(kinds, list):
        return {kind for kind in cast("list[Any]", kinds) if isinstance(kind, str)}
    values = found.get("enum")
    is_text = isinstance(values, list) and all(isinstance(value, str) for value in cast("list[Any]", values))
    return {"string"} if is_text else set()


def _properties_of(tool: ToolDescription) -> Mapping[str, Any]:
    parameters = tool.parameters if isinstance(tool.parameters, dict) else {}
    properties = parameters.get("properties")
    return cast("Mapping[str, Any]", properties) if isinstance(properties, dict) else {}


def tagged_body(options: ReadingOptions, _mark: str = "") -> Body:
    """A body of such calls. Quotation marks have no meaning in it, unless it holds Llama's JSON."""

    def read(text: str) -> list[ReadCall]:
        return read_xml_calls(text, options.descriptions) or read_json_calls(text)

    return HeldBody(read, has_strings=WITH_JSON)
