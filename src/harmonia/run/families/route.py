"""Running a model that does not speak Harmony: its prompt is text, and its family's reader reads its answer.

    conversation -> the profile's chat template -> text -> engine -> text -> the family's reader -> events

Everything around it is the same run: the events, the messages, the tools, the limits. What differs stands here.

1. A call that was read from text is unverified (law 5), so it runs where the caller says `allow_unverified=True`, or
   where an approver says so.
2. The head of the conversation is that of any run. The template writes of it what another model can use: the
   instructions, the tools as the family declares them, the form of the answer; not that it is ChatGPT.
3. Each prompt begins with the one before, up to where the model was to speak, unless the family leaves thoughts out.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from harmonia.families.models import prompt_for
from harmonia.families.profiles import ModelProfile, reading_options
from harmonia.families.registry import Family, Reader, family_of
from harmonia.families.templates import PromptText, chat_template
from harmonia.messages import Conversation, Json, ToolDescription
from harmonia.run.engines.base import Chunk, Engine, Finish, Request, TextEngine
from harmonia.run.families.engine import as_text_engine, choose_profile
from harmonia.run.prompt import Prompt
from harmonia.run.tools import Tool, ToolSet
from harmonia.run.tools.arguments import INPUT
from harmonia.run.tools.tool import FUNCTIONS

if TYPE_CHECKING:
    from harmonia.run.providers.base import Provider

# The one argument of a tool that takes text. Models know what python's is called.
_CODE: Final = "code"


class FamilyRoute:
    """How one run speaks with a model of another family. `tools` are those of the run, each of which takes JSON."""

    def __init__(self, profile: ModelProfile, engine: TextEngine, tools: ToolSet) -> None:
        self.profile = profile
        self.tools = as_json_tools(tools)
        self._engine = engine
        self._family: Family = family_of(profile.format)
        chat_template(profile.template)  # one that is unknown is told of before anything is asked

    def build(self, conversation: Conversation) -> Prompt:
        """The prompt after which the model goes on."""
        return Prompt(conversation, [], [], (), prompt_for(self.profile, conversation))

    def reader(self, prompt: Prompt) -> Reader:
        """A reader for what the model says behind this prompt."""
        options = reading_options(self.profile, tools=self.tools.declared, descriptions=_describe(self.tools))
        # Not every template can open a thought where the profile wants it.
        opens_thought = _written(prompt).opens_thought
        return self._family.reader(msgspec.structs.replace(options, prompt_opens_thought=opens_thought))

    def notes_on(self, request: Request) -> tuple[str, ...]:
        """What of a request this model cannot be told."""
        effort = request.reasoning_effort
        if effort is None:
            return ()
        return (f"the reasoning effort {effort.value} is not sent to {self.profile.name} models: only Harmony has it",)

    def generate(self, prompt: Prompt, request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        """Ask the engine."""
        written = _written(prompt)
        return self._engine.generate_text(written.text, request, written.stop, written.marks)


def find_route(profile: ModelProfile | str | None, model: Engine | Provider, tools: ToolSet) -> FamilyRoute | None:
    """The route for a model of this profile; None where there is none to take. See `choose_profile`."""
    chosen = choose_profile(profile, model)
    return None if chosen is None else FamilyRoute(chosen, as_text_engine(cast("Engine", model)), tools)


def as_json_tools(tools: ToolSet) -> ToolSet:
    """The same tools, with those that take free text taking a JSON object with it: no other family calls with text."""
    if all(tool.takes == "json" for tool in tools):
        return tools
    changed = [tool if tool.takes == "json" else _as_json_tool(tool) for tool in tools]
    described = {namespace.name: namespace.description for namespace in tools.namespaces if namespace.tools}
    return ToolSet(changed, descriptions=described)


def _as_json_tool(tool: Tool) -> Tool:
    # The built-in one: a client's tool of that name stands among the functions, and takes an input as others do.
    name = _CODE if tool.name == "python" and tool.namespace is None else INPUT
    parameters: Json = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    takes_text = tool.invoke

    def invoke(arguments: Any) -> Awaitable[Any] | Any:
        assert takes_text is not None
        return takes_text(arguments[name])

    unpack: Callable[[Any], Awaitable[Any] | Any] | None = None if takes_text is None else invoke
    # The form of the text stays: a run checks the text in the arguments against it.
    return replace(tool, parameters=parameters, invoke=unpack, takes="json", namespace=tool.namespace or FUNCTIONS)


def _describe(tools: ToolSet) -> tuple[ToolDescription, ...]:
    """The tools without namespaces, which no other family has: functions by their names, others by the whole."""
    return tuple(
        tool
        if namespace.name == FUNCTIONS
        else ToolDescription(f"{namespace.name}.{tool.name}", tool.description, tool.parameters)
        for namespace in tools.namespaces
        for tool in namespace.tools
    )


def _written(prompt: Prompt) -> PromptText:
    assert prompt.written is not None, "this route has built the prompt"
    return prompt.written
