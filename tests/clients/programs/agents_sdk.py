"""What somebody does with OpenAI's Agents SDK, over either API. Prints what came of it as one JSON object."""

import asyncio
import json
import os
import sys
from typing import Literal

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from openai.types.shared import Reasoning
from pydantic import BaseModel

calls: list[str] = []


@function_tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    calls.append(city)
    return f"sunny in {city}, 20 degrees"


class Report(BaseModel):
    city: str
    unit: Literal["celsius", "fahrenheit"]
    degrees: int


async def use(model) -> dict:
    weather = Agent(name="Weather", instructions="You know the weather.", tools=[get_weather], model=model)
    said: dict = {}

    result = await Runner.run(weather, "How is the weather in Paris?")
    said["answer"] = result.final_output

    # The next turn, with everything that came before.
    history = [*result.to_input_list(), {"role": "user", "content": "How is the weather in Rome?"}]
    said["next"] = (await Runner.run(weather, history)).final_output

    streamed = Runner.run_streamed(weather, "How is the weather in Oslo?")
    deltas, items = [], []
    async for event in streamed.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            deltas.append(event.data.delta)
        elif event.type == "run_item_stream_event":
            items.append(event.name)
    said["streamed"] = streamed.final_output
    said["deltas"] = "".join(deltas)
    said["items"] = items

    triage = Agent(name="Triage", instructions="You hand over.", handoffs=[weather], model=model)
    handed = await Runner.run(triage, "Please use transfer_to_weather")
    said["handed_to"] = handed.last_agent.name

    reporter = Agent(
        name="Reporter",
        output_type=Report,
        model=model,
        model_settings=ModelSettings(reasoning=Reasoning(effort="low"), max_tokens=500, temperature=0.5),
    )
    said["report"] = (await Runner.run(reporter, "Report on Paris")).final_output.model_dump()
    return said


async def main() -> None:
    set_tracing_disabled(True)
    async with AsyncOpenAI(base_url=os.environ["BASE_URL"], api_key="none", max_retries=0) as client:
        responses = OpenAIResponsesModel(model="demo", openai_client=client)
        said = {
            "responses": await use(responses),
            "chat": await use(OpenAIChatCompletionsModel(model="demo", openai_client=client)),
        }
        # The server keeps the conversation.
        weather = Agent(name="Weather", tools=[get_weather], model=responses)
        first = await Runner.run(weather, "How is the weather in Lima?", auto_previous_response_id=True)
        second = await Runner.run(weather, "And what did I ask?", previous_response_id=first.last_response_id)
        said["kept"] = [first.final_output, second.final_output]
    json.dump(said | {"calls": calls}, sys.stdout)


asyncio.run(main())
