"""What somebody does with langchain-openai, over either API. Prints what came of it as one JSON object."""

import json
import os
import sys
from typing import Literal

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}, 20 degrees"


class Report(BaseModel):
    city: str
    unit: Literal["celsius", "fahrenheit"]
    degrees: int


def use(uses_responses: bool) -> dict:
    model = ChatOpenAI(
        model="demo",
        base_url=os.environ["BASE_URL"],
        api_key="none",
        max_retries=0,
        use_responses_api=uses_responses,
        seed=None if uses_responses else 7,
    )
    said: dict = {}
    said["answer"] = model.invoke("Hello!").text
    chunks = list(model.stream("Hello!"))
    said["streamed"] = "".join(chunk.text for chunk in chunks)
    said["chunks"] = len(chunks)

    bound = model.bind_tools([get_weather])
    messages = [HumanMessage("How is the weather in Paris?")]
    asked = bound.invoke(messages)
    said["calls"] = [[call["name"], call["args"]] for call in asked.tool_calls]
    messages += [
        asked,
        *(ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"]) for call in asked.tool_calls),
    ]
    said["with_tool"] = bound.invoke(messages).text

    gathered = None
    for chunk in bound.stream("How is the weather in Paris?"):
        gathered = chunk if gathered is None else gathered + chunk
    said["streamed_calls"] = [[call["name"], call["args"]] for call in gathered.tool_calls]

    said["report"] = model.with_structured_output(Report).invoke("Report on Paris").model_dump()
    said["report_by_call"] = (
        model.with_structured_output(Report, method="function_calling").invoke("Report on Paris").model_dump()
    )
    said["usage"] = asked.usage_metadata["total_tokens"] > 0
    return said


json.dump({"responses": use(True), "chat": use(False)}, sys.stdout)
