"""What a tool that takes text is given: the text that is meant by what a model wrote."""

from __future__ import annotations

import json
from typing import Any, Final, cast

from harmonia.messages import Json
from harmonia.parts import Call
from harmonia.run.tools.tool import Tool

# The argument that has the text, where it stands in a JSON object.
INPUT: Final = "input"


def text_for(tool: Tool, call: Call) -> str:
    """The text of a call. One that has to have a form is what was checked against it, without its wrapping."""
    return call.text if tool.text_form is None else unwrap_input(call.text)


def unwrap_input(text: str) -> str:
    """What is meant for a tool that takes text: models may write it as a JSON text, or as an object with one text."""
    stripped = text.strip()
    if stripped[:1] not in ('"', "{"):
        return text
    try:
        value: Any = json.loads(stripped)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, dict):
        given = cast("Json", value)
        value = given[INPUT] if set(given) == {INPUT} else None
    return value if isinstance(value, str) else text


def texts_of(tool: Tool, call: Call) -> tuple[str, ...]:
    """What may be meant as the text of a call, which has to have the tool's form; nothing where no text is there.

    Models wrap texts at times, and what is meant is in there. A model of another family calls with JSON only: then the
    tool takes an object with nothing but the text in it.
    """
    if tool.takes == "text":
        return tuple(dict.fromkeys((call.text, unwrap_input(call.text))))
    arguments: Any = call.value
    if not isinstance(arguments, dict) or not isinstance(tool.parameters, dict):
        return ()
    given = cast("Json", arguments)
    text: Any = next(iter(given.values())) if list(given) == tool.parameters.get("required") else None
    return (text,) if isinstance(text, str) else ()
