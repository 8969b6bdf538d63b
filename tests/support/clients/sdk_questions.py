"""What the tests of OpenAI's SDK ask: about the weather, with a tool and with a form for the answer."""

from __future__ import annotations

from typing import Literal

from openai.types.chat import ChatCompletionFunctionToolParam
from openai.types.responses import FunctionToolParam
from pydantic import BaseModel

QUESTION = "How is the weather in Paris?"
WEATHER = "sunny, 20 degrees"

_PARAMETERS: dict[str, object] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL: FunctionToolParam = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city.",
    "parameters": _PARAMETERS,
    "strict": True,
}
CHAT_TOOL: ChatCompletionFunctionToolParam = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": _PARAMETERS,
        "strict": True,
    },
}


class Report(BaseModel):
    """A form that an answer has to fit."""

    city: str
    unit: Literal["celsius", "fahrenheit"]
    degrees: int
