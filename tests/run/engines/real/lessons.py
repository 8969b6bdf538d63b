"""What the taught model knows: one conversation with a tool, in the loop and through the server, and one without.

The prompts are those of the real loop and of the real server, which run here with a scripted engine; so the model has
read what they will ask it, whatever they write into its head.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harmonia.messages import Conversation, Message, SystemContent
from harmonia.run.engines.base import Engine
from harmonia.run.loop import run
from tests.run.engines.real.real_engines import run_watched
from tests.support.engines.scripted import ScriptedEngine, calls, final, say, think
from tests.support.servers.served import WEATHER, Json, create, served

WEATHER_QUESTION = "What is the weather in Rome?"
WEATHER_ANSWER = "It is 21 degrees in Rome, and the sky is clear."
WEATHER_SCRIPT = (
    think("I should look it up.") + calls("get_weather", '{"city":"Rome"}'),
    final(WEATHER_ANSWER),
)
GREETING = "Good morning!"
GREETING_ANSWER = "Good morning to you 🌍, how can I help?"
GREETING_SCRIPT = (think("A greeting. I greet back.") + final(GREETING_ANSWER),)


def get_weather(city: str) -> dict[str, object]:
    """The weather in a city, now."""
    return {"city": city, "celsius": 21, "sky": "clear"}


def begin(question: str) -> Conversation:
    return Conversation([Message.system(SystemContent()), Message.user(question)])


def find_lessons() -> list[tuple[list[int], list[int]]]:
    """Prompts, and what to say to each."""
    weather = ScriptedEngine(*WEATHER_SCRIPT)
    run_watched(run(weather, begin(WEATHER_QUESTION), tools=[get_weather]).result())
    greeting = ScriptedEngine(*GREETING_SCRIPT)
    run_watched(run(greeting, begin(GREETING)).result())
    asked = ScriptedEngine(*WEATHER_SCRIPT)
    with TemporaryDirectory() as folder:
        run_watched(ask_server(asked, Path(folder)))
    prompts = [*weather.prompts, *greeting.prompts, *asked.prompts]
    return list(zip(prompts, map(say, (*WEATHER_SCRIPT, *GREETING_SCRIPT, *WEATHER_SCRIPT)), strict=True))


async def ask_server(engine: Engine, folder: Path, **body: Any) -> tuple[Json, Json]:
    """The question through the Responses API, with a tool of the client's: both responses."""
    async with served(engine, folder) as service:
        given: Json = {"tools": [WEATHER], "temperature": 0.0, "max_output_tokens": 100, **body}
        first = await create(service, input=WEATHER_QUESTION, **given)
        result = json.dumps(get_weather("Rome"))
        output = {"type": "function_call_output", "call_id": first["output"][-1]["call_id"], "output": result}
        if given.get("store") is False:
            question = {"role": "user", "content": WEATHER_QUESTION}
            return first, await create(service, input=[question, *first["output"], output], **given)
        return first, await create(service, input=[output], previous_response_id=first["id"], **given)
