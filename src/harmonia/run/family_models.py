"""Runs models that do not speak Harmony: their profile, their prompt as text, and their family's reader.

    conversation -> the profile's chat template -> text -> engine -> text -> the family's reader -> events

    model = with_profile(LlamaCppEngine(url, "qwen3-8b"), "auto")
    async for event in run(model, "Hello"): ...

Everything else is an ordinary run: events, messages, tools, limits.

1. A call that was read from text is unverified (law 5). It runs if the caller sets `allow_unverified=True`, or if an
   approver allows it. The traits of a profiled engine say so: it takes and gives text, and no grammar of Harmony.
2. The template writes of the head of a conversation what another model can use: the instructions, the tools as the
   family declares them, the form of the answer; not that it is ChatGPT.
3. Each prompt begins with the one before, up to where the model was to speak, unless the family omits thoughts.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.families import ToolFormat
from harmonia.families.profiles import (
    ModelProfile,
    profile_named,
    prompt_for,
    read_profiles,
    reading_options,
    resolve_profile,
)
from harmonia.families.registry import Family, Reader, family_of
from harmonia.families.templates import PromptText, chat_template
from harmonia.families.tool_descriptions import flat_tools
from harmonia.messages import Conversation, Json
from harmonia.run.default_paths import profiles_file
from harmonia.run.engines.base import Chunk, Engine, Finish, Request, TextEngine
from harmonia.run.tools import Tool, ToolSet
from harmonia.run.tools.arguments import INPUT
from harmonia.run.tools.tool import FUNCTIONS

if TYPE_CHECKING:
    from harmonia.run.providers.base import Provider


def user_profiles(file: str | os.PathLike[str] | None = None) -> tuple[ModelProfile, ...]:
    """The profiles of the file, which must exist; without one, those of the configuration folder, if there are any."""
    path = profiles_file() if file is None else Path(file)
    if file is None and not path.exists():
        return ()
    try:
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        why = f"is not UTF-8 at byte {error.start}" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise InputError(ErrorCode.FORMATS_INVALID_PROFILE, f"the file of profiles {path}: {why}") from error
    try:
        return read_profiles(text)
    except InputError as error:
        raise InputError(error.code, f"{path}: {error.message}", error.at) from None


# The profile that the model's own name leads to.
AUTO: Final = "auto"


def choose_profile(
    profile: ModelProfile | str | None, model: Engine | Provider, profiles_file: str | None = None
) -> ModelProfile | None:
    """The profile by which a model is run; None if it speaks Harmony, or if its provider applies the model's format.

    A text is the name of a profile (the user's own are those of `profiles_file`, or of the configuration folder), or
    `auto`. Without one, the profile that the model carries counts.
    """
    if profile is None:
        return model.profile if isinstance(model, ProfiledEngine) else None
    is_auto = profile == AUTO
    if isinstance(profile, str):
        own = user_profiles(profiles_file)
        profile = resolve_profile(model.model, own) if is_auto else profile_named(profile, own)
    if profile.format is ToolFormat.HARMONY:
        return None
    if model.traits.takes_messages:
        if is_auto:
            return None
        what = f"{model.name} accepts messages, so its provider applies the format of the model; leave the profile out"
        raise InputError(ErrorCode.RUN_INVALID_OPTION, what)
    return profile


def as_text_engine(engine: Engine) -> TextEngine:
    """The engine, if it continues text; otherwise an InputError that says which ones do."""
    if not engine.traits.takes_text:
        raise InputError(
            ErrorCode.ENGINE_INVALID_OPTION,
            f"{engine.name} continues only Harmony's tokens, so it cannot run a model of another family; "
            "llama.cpp, Ollama, vLLM, transformers and any server with /v1/completions can",
        )
    return cast("TextEngine", engine)


def with_profile(
    model: Engine | Provider, profile: ModelProfile | str | None, profiles_file: str | None = None
) -> Engine | Provider:
    """The model, carrying its profile if it needs one; see `choose_profile`."""
    chosen = choose_profile(profile, model, profiles_file)
    return model if chosen is None else ProfiledEngine(cast("Engine", model), chosen)


class ProfiledEngine:
    """An engine whose model does not speak Harmony, and the profile that says how it writes instead."""

    def __init__(self, engine: Engine, profile: ModelProfile) -> None:
        self._engine = as_text_engine(engine)
        self.profile = profile
        self.name = engine.name
        self.model = engine.model
        self.traits = msgspec.structs.replace(
            engine.traits, takes_tokens=False, gives_tokens=False, takes_grammar=None, speaks_harmony=False
        )

    def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        what = f"{self.model} has the profile {self.profile.name}, not Harmony, so it continues text only"
        raise InputError(ErrorCode.ENGINE_INVALID_OPTION, what)

    def generate_text(
        self, prompt: str, request: Request, stop: Sequence[str] = (), marks: Sequence[str] = ()
    ) -> AsyncGenerator[Chunk | Finish, None]:
        return self._engine.generate_text(prompt, request, stop, marks)

    async def close(self) -> None:
        await self._engine.close()


class FamilyRoute:
    """How one run communicates with a model of another family. `tools` are those of the run, all taking JSON."""

    def __init__(self, profile: ModelProfile, engine: TextEngine, tools: ToolSet) -> None:
        self.profile = profile
        self.tools = as_json_tools(tools)
        self._engine = engine
        self._family: Family = family_of(profile.format)
        chat_template(profile.template)  # raises if it is unknown

    def write(self, conversation: Conversation) -> PromptText:
        """The prompt that the model continues."""
        return prompt_for(self.profile, conversation)

    def reader(self, prompt: PromptText) -> Reader:
        """A reader for what the model says after this prompt."""
        tools = self.tools
        options = reading_options(self.profile, tools=tools.declared, descriptions=flat_tools(tools.namespaces))
        # Not every template can open a thought where the profile wants it.
        return self._family.reader(msgspec.structs.replace(options, prompt_opens_thought=prompt.opens_thought))

    def notes_on(self, request: Request) -> tuple[str, ...]:
        """What of a request this model does not get."""
        effort = request.reasoning_effort
        if effort is None:
            return ()
        return (f"the reasoning effort {effort.value} is not sent to {self.profile.name} models: only Harmony has it",)

    def generate(self, prompt: PromptText, request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        """Ask the engine."""
        return self._engine.generate_text(prompt.text, request, prompt.stop, prompt.marks)


def find_route(profile: ModelProfile | str | None, model: Engine | Provider, tools: ToolSet) -> FamilyRoute | None:
    """The route for a model of this profile, if it needs one; see `choose_profile`."""
    chosen = choose_profile(profile, model)
    return None if chosen is None else FamilyRoute(chosen, as_text_engine(cast("Engine", model)), tools)


def as_json_tools(tools: ToolSet) -> ToolSet:
    """The same tools; those that take free text take it in a JSON object, since no other family calls with text."""
    if all(tool.takes == "json" for tool in tools):
        return tools
    changed = [tool if tool.takes == "json" else _as_json_tool(tool) for tool in tools]
    described = {namespace.name: namespace.description for namespace in tools.namespaces if namespace.tools}
    return ToolSet(changed, descriptions=described)


def _as_json_tool(tool: Tool) -> Tool:
    # Models know the argument of the built-in python; a client's tool of that name is among the functions.
    name = "code" if tool.name == "python" and tool.namespace is None else INPUT
    parameters: Json = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    takes_text = tool.invoke

    def invoke(arguments: Any) -> Awaitable[Any] | Any:
        assert takes_text is not None
        return takes_text(arguments[name])

    unpack: Callable[[Any], Awaitable[Any] | Any] | None = None if takes_text is None else invoke
    # The form of the text stays: a run checks the text in the arguments against it.
    return replace(tool, parameters=parameters, invoke=unpack, takes="json", namespace=tool.namespace or FUNCTIONS)
