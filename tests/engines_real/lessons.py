"""What the taught model knows: one conversation with a tool, and one without.

The prompts are those of the real loop, which runs here with a scripted engine; so the model has read what the loop will
ask it, whatever the loop writes into its head.
"""

from __future__ import annotations

from engines_real.real_engines import run_watched
from harmonia.messages import Conversation, Message, SystemContent
from harmonia.run.loop import run
from scripted import ScriptedEngine, calls, final, say, think

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
    prompts = [*weather.prompts, *greeting.prompts]
    return list(zip(prompts, map(say, (*WEATHER_SCRIPT, *GREETING_SCRIPT)), strict=True))
