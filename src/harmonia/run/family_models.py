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
from harmonia.messages import Conversation, Json, ToolDescription
from harmonia.run.default_paths import profiles_file
from harmonia.run.engines.base import Chunk, Engine, Finish, Request, TextEngine
from harmonia.run.tools import Tool, ToolSet
from harmonia.run.tools.arguments import INPUT
from harmonia.run.tools.tool import FUNCTIONS

if TYPE_CHECKING:
    from harmonia.run.providers.base import Provider


def user_profiles(file: str | os.PathLike[str] | None = None) -> tuple[ModelProfile, ...]:
    """The profiles of the file; without one, those of the configuration folder, if there are any.

    A file that was named has to be there. What is wrong in either is `formats.invalid_profile`, with the file's name.
    """
    path = profiles_file() if file is None else Path(file)
    if file is None and not path.exists():
        return ()
    try:
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise _invalid(f"the file of profiles {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _invalid(f"the file of profiles {path} is not UTF-8 at byte {error.start}") from None
    try:
        return read_profiles(text)
    except InputError as error:
        raise InputError(error.code, f"{path}: {error.message}", error.at) from None


def _invalid(message: str) -> InputError:
    return InputError(ErrorCode.FORMATS_INVALID_PROFILE, message)


# The profile that the model's own name leads to.
AUTO: Final = "auto"


def choose_profile(
    profile: ModelProfile | str | None, model: Engine | Provider, profiles_file: str | None = None
) -> ModelProfile | None:
    """The profile by which a model is run; None where it needs none: it speaks Harmony, or its provider knows how it
    speaks. A text is the name of a profile, the user's own among them, or `auto`. Without one, the model's own counts.
    The user's own are those of `profiles_file`, or of the configuration folder.
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
        raise InputError(
            ErrorCode.RUN_INVALID_OPTION,
            f"{model.name} accepts messages, so its provider applies the format of the model; leave the profile out",
        )
    return profile


def as_text_engine(engine: Engine) -> TextEngine:
    """The engine, where it continues text; an InputError that says which ones do, where it does not."""
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
    """The model, carrying its profile where it needs one; `choose_profile` finds it."""
    chosen = choose_profile(profile, model, profiles_file)
    return model if chosen is None else ProfiledEngine(cast("Engine", model), chosen)


class ProfiledEngine:
    """An engine whose model does not speak Harmony, and the profile that says how it speaks instead."""

    def __init__(self, engine: Engine, profile: ModelProfile) -> None:
        self._engine = as_text_engine(engine)
        self.profile = profile
        self.name = engine.name
        self.model = engine.model
        self.traits = msgspec.structs.replace(
            engine.traits, takes_tokens=False, gives_tokens=False, takes_grammar=None, speaks_harmony=False
        )

    def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        raise InputError(
            ErrorCode.ENGINE_INVALID_OPTION,
            f"{self.model} has the profile {self.profile.name} and does not speak Harmony, so it continues text only",
        )

    def generate_text(
        self, prompt: str, request: Request, stop: Sequence[str] = (), marks: Sequence[str] = ()
    ) -> AsyncGenerator[Chunk | Finish, None]:
        return self._engine.generate_text(prompt, request, stop, marks)

    async def close(self) -> None:
        await self._engine.close()


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

    def write(self, conversation: Conversation) -> PromptText:
        """The prompt that the model continues."""
        return prompt_for(self.profile, conversation)

    def reader(self, prompt: PromptText) -> Reader:
        """A reader for what the model says after this prompt."""
        options = reading_options(self.profile, tools=self.tools.declared, descriptions=_describe(self.tools))
        # Not every template can open a thought where the profile wants it.
        return self._family.reader(msgspec.structs.replace(options, prompt_opens_thought=prompt.opens_thought))

    def notes_on(self, request: Request) -> tuple[str, ...]:
        """What of a request this model cannot be told."""
        effort = request.reasoning_effort
        if effort is None:
            return ()
        return (f"the reasoning effort {effort.value} is not sent to {self.profile.name} models: only Harmony has it",)

    def generate(self, prompt: PromptText, request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        """Ask the engine."""
        return self._engine.generate_text(prompt.text, request, prompt.stop, prompt.marks)


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
