"""What somebody does with Pydantic AI, over either API. Prints what came of it as one JSON object."""

import asyncio
import json
import os
import sys
from typing import Literal

from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, PromptedOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

calls: list[str] = []


def get_weather(city: str) -> str:
    """The weather of a city."""
    calls.append(city)
    return f"sunny in {city}, 20 degrees"


class Report(BaseModel):
    city: str
    unit: Literal["celsius", "fahrenheit"]
    degrees: int


async def use(model) -> dict:
    said: dict = {}
    weather = Agent(model, instructions="You know the weather.", tools=[get_weather])
    result = await weather.run("How is the weather in Paris?")
    said["answer"] = result.output
    again = await weather.run("How is the weather in Rome?", message_history=result.all_messages())
    said["next"] = again.output

    async with weather.run_stream("How is the weather in Oslo?") as stream:
        texts = [text async for text in stream.stream_text(delta=True, debounce_by=None)]
    said["streamed"], said["pieces"] = "".join(texts), len(texts)

    # A tool and a form of the answer, which is a tool as well unless it is said otherwise.
    reporter = Agent(model, output_type=Report, tools=[get_weather])
    said["report"] = (await reporter.run("How is the weather in Paris, in celsius?")).output.model_dump()
    async with reporter.run_stream("How is the weather in Paris, in celsius?") as stream:
        said["report_streamed"] = (await stream.get_output()).model_dump()
    for name, form in (("native", NativeOutput(Report)), ("prompted", PromptedOutput(Report))):
        said[f"report_{name}"] = (await Agent(model, output_type=form).run("Report on Paris")).output.model_dump()
    said["reports"] = [
        each.model_dump() for each in (await Agent(model, output_type=list[Report]).run("Report on Paris")).output
    ]
    return said


async def main() -> None:
    client = AsyncOpenAI(base_url=os.environ["BASE_URL"], api_key="none", max_retries=0)
    provider = OpenAIProvider(openai_client=client)
    said = {
        "responses": await use(OpenAIResponsesModel("demo", provider=provider)),
        "chat": await use(OpenAIChatModel("demo", provider=provider)),
    }
    json.dump(said | {"calls": calls}, sys.stdout)


asyncio.run(main())
