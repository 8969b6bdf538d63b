"""What somebody does with LlamaIndex, over either API. Prints what came of it as one JSON object."""

import asyncio
import json
import os
import sys
from typing import Literal

from llama_index.core.agent.workflow import AgentStream, FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.workflow import Context
from llama_index.llms.openai import OpenAIResponses
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

SERVER = {"model": "demo", "api_base": os.environ["BASE_URL"], "api_key": "none", "max_retries": 0}
calls: list[str] = []


def get_weather(city: str) -> str:
    """The weather of a city."""
    calls.append(city)
    return f"sunny in {city}, 20 degrees"


class Report(BaseModel):
    city: str
    unit: Literal["celsius", "fahrenheit"]
    degrees: int


async def use(llm) -> dict:
    said: dict = {"answer": str(await llm.acomplete("Hello!"))}
    pieces = [piece.delta async for piece in await llm.astream_chat([ChatMessage(role="user", content="Hello!")])]
    said["streamed"], said["pieces"] = "".join(filter(None, pieces)), len(pieces)

    agent = FunctionAgent(tools=[get_weather], llm=llm, system_prompt="You know the weather.")
    context = Context(agent)
    running = agent.run("How is the weather in Paris?", ctx=context)
    deltas = [event.delta async for event in running.stream_events() if isinstance(event, AgentStream)]
    said["with_tool"], said["deltas"] = str(await running), "".join(deltas)
    said["next"] = str(await agent.run("How is the weather in Rome?", ctx=context))

    said["report"] = llm.as_structured_llm(Report).complete("Report on Paris").raw.model_dump()
    return said


async def main() -> None:
    chat = OpenAILike(is_chat_model=True, is_function_calling_model=True, context_window=100_000, **SERVER)
    responses = OpenAIResponses(context_window=100_000, **SERVER)
    json.dump({"responses": await use(responses), "chat": await use(chat), "calls": calls}, sys.stdout)


asyncio.run(main())
