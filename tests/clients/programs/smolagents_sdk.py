"""What somebody does with smolagents. Prints what came of it as one JSON object."""

import json
import os

from smolagents import ChatMessage, CodeAgent, OpenAIModel, ToolCallingAgent, tool
from smolagents.agents import ActionStep

calls: list[str] = []


@tool
def get_weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: The name of the city.
    """
    calls.append(city)
    return f"sunny in {city}, 20 degrees"


SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "degrees": {"type": "integer"},
    },
    "required": ["city", "unit", "degrees"],
    "additionalProperties": False,
}
model = OpenAIModel(
    model_id="gpt-oss-20b", api_base=os.environ["BASE_URL"], api_key="none", client_kwargs={"max_retries": 0}
)


def ask(text: str, **options) -> str:
    return model.generate([ChatMessage(role="user", content=text)], **options).content


said: dict = {"answer": ask("Hello!")}
deltas = list(model.generate_stream([ChatMessage(role="user", content="Hello!")]))
said["streamed"], said["pieces"] = "".join(delta.content or "" for delta in deltas), len(deltas)
form = {"type": "json_schema", "json_schema": {"name": "report", "strict": True, "schema": SCHEMA}}
said["report"] = json.loads(ask("Report on Paris", response_format=form))

options = {"tools": [get_weather], "model": model, "verbosity_level": -1}
agents = {
    "run": ToolCallingAgent(**options),
    "run_streamed": ToolCallingAgent(**options, stream_outputs=True),
    "code": CodeAgent(**options),
}
for name, agent in agents.items():
    answer = agent.run("How is the weather in Paris?")
    steps = [step for step in agent.memory.steps if isinstance(step, ActionStep)]
    called = [call.name for step in steps for call in step.tool_calls or ()]
    said[name] = {"answer": answer, "tools": called, "errors": [str(step.error) for step in steps if step.error]}
print("\n" + json.dumps(said | {"calls": calls}))  # after what its streams have printed
