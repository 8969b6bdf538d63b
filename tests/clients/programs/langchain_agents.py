"""What somebody does with LangChain's agents, over either API. Prints what came of it as one JSON object."""

import json
import os
import sys
from typing import Literal

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field

calls: list[str] = []


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    calls.append(city)
    return f"sunny in {city}, 20 degrees"


class Report(BaseModel):
    city: str
    unit: Literal["celsius", "fahrenheit"]
    degrees: int


class Reports(BaseModel):
    reports: list[Report] = Field(min_length=1)


def use(uses_responses: bool) -> dict:
    model = ChatOpenAI(
        model="demo",
        base_url=os.environ["BASE_URL"],
        api_key="none",
        max_retries=0,
        use_responses_api=uses_responses,
    )
    said: dict = {}

    def ask(agent, text: str, **config) -> dict:
        return agent.invoke({"messages": [("user", text)]}, config)

    weather = create_agent(model, [get_weather], system_prompt="You know the weather.", checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    said["answer"] = ask(weather, "How is the weather in Paris?", **thread)["messages"][-1].text
    state = ask(weather, "How is the weather in Rome?", **thread)
    said["next"], said["kept"] = state["messages"][-1].text, len(state["messages"])

    texts = []
    inputs = {"messages": [("user", "How is the weather in Oslo?")]}
    for chunk, metadata in create_agent(model, [get_weather]).stream(inputs, stream_mode="messages"):
        if chunk.type == "AIMessageChunk" and metadata["langgraph_node"] == "model":
            texts.append(chunk.text)
    said["streamed"], said["pieces"] = "".join(texts), len(texts)

    reporter = create_agent(model, [get_weather], response_format=Report)
    said["report"] = ask(reporter, "How is the weather in Paris, in celsius?")["structured_response"].model_dump()
    lister = create_agent(model, [], response_format=Reports)
    said["reports"] = ask(lister, "Report on Paris")["structured_response"].model_dump()["reports"]
    text = f"Report on Paris. Answer with JSON of this schema: {json.dumps(Report.model_json_schema())}"
    said["report_json_mode"] = model.with_structured_output(Report, method="json_mode").invoke(text).model_dump()
    return said


json.dump({"responses": use(True), "chat": use(False), "calls": calls}, sys.stdout)
