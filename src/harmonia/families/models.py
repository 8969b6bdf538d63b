"""A model by its name: its answers read and its prompts written in one call each.

    parse_answer(text, "Qwen/Qwen3-8B")          the whole answer, as `harmonia.parse` gives what gpt-oss wrote
    answer_reader("Qwen/Qwen3-8B")               the same while it comes
    prompt_for("Qwen/Qwen3-8B", conversation)    the prompt for the model's next turn

A model is given by its name, by a profile, or, if nothing else is known of it, by a tool format. `profiles` are the
caller's own, which come before the built-in ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.families.described_tools import ToolLike, described_tools
from harmonia.families.profiles import ModelProfile, reading_options, resolve_profile
from harmonia.families.reader import read_answer, text_chunks
from harmonia.families.registry import Reader, ReadingOptions, ToolFormat, family_of
from harmonia.families.templates import PromptText, write_prompt
from harmonia.messages import Conversation, Message, ToolDescription
from harmonia.parser import Mode, Parsed, Tools, parse
from harmonia.parser.tools import UNDECLARED

# The tools that a model had: names, or what describes them.
SomeTools = Iterable[str | ToolLike]
SomeModel = ModelProfile | ToolFormat | str


def profile_of(model: SomeModel, profiles: Iterable[ModelProfile] | None = None) -> ModelProfile:
    """The profile of a model that is told by its name; a profile is its own. A format, or its name where no profile
    fits it, is a model of which nothing else is known."""
    if isinstance(model, ModelProfile):
        return model
    if not isinstance(model, str) or not model.strip():  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
        raise InputError(ErrorCode.FORMATS_INVALID_OPTION, f"expected a model name or a ModelProfile, not {model!r}")
    profile = resolve_profile(model, profiles)
    is_format = isinstance(model, ToolFormat) or (model in tuple(ToolFormat) and not profile.pattern)
    if not is_format or profile.format == model:
        return profile
    template = "harmony" if model == ToolFormat.HARMONY else "plain"
    return ModelProfile(str(model), str(model), ToolFormat(model), template)


def parse_answer(
    answer: str | Iterable[str],
    model: SomeModel,
    *,
    tools: SomeTools | None = None,
    thought_opened: bool | None = None,
    mode: Mode = "tolerant",
    profiles: Iterable[ModelProfile] | None = None,
) -> Parsed:
    """Read what a model wrote, whole or in pieces; for gpt-oss as well.

    `tools` are those that were declared to it: an empty list says that there were none. `thought_opened` says whether
    the prompt ended inside a thought, where it is otherwise than the profile says. Strict raises the first fault.
    """
    profile = profile_of(model, profiles)
    if profile.format is ToolFormat.HARMONY:
        known, _ = _declared(tools)
        return parse(_whole(answer), "assistant", mode, known)
    return read_answer(family_of(profile.format), answer, _options(profile, tools, thought_opened), mode)


def answer_reader(
    model: SomeModel,
    *,
    tools: SomeTools | None = None,
    thought_opened: bool | None = None,
    profiles: Iterable[ModelProfile] | None = None,
) -> Reader:
    """A reader for one answer of a model that does not speak Harmony, fed with text as it comes."""
    profile = profile_of(model, profiles)
    return family_of(profile.format).reader(_options(profile, tools, thought_opened))


def prompt_for(
    model: SomeModel,
    conversation: Conversation | Iterable[Message] | str,
    *,
    tools_part: str | None = None,
    profiles: Iterable[ModelProfile] | None = None,
) -> PromptText:
    """A conversation as the text after which the model goes on, written with the chat template of its profile. A text
    is what the user asks.

    Tools that the conversation declares are told of as the family does, or by `tools_part`, such as the words of
    `tool_system_prompt`. That text is written as it is; in all that the messages say, marks are broken.
    """
    profile = profile_of(model, profiles)
    if tools_part is not None and not isinstance(tools_part, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
        raise InputError(ErrorCode.FORMATS_INVALID_OPTION, f"tools_part must be text, not {type(tools_part).__name__}")
    messages = [Message.user(conversation)] if isinstance(conversation, str) else conversation
    thinking = profile.thinking
    written = write_prompt(
        profile.template,
        family_of(profile.format),
        Conversation(messages),
        tools_part=tools_part,
        thinking="opened" if thinking is not None and thinking.opened_by_prompt else "free",
        thought_marks=None if thinking is None else thinking.marks,
    )
    return msgspec.structs.replace(written, stop=profile.stop) if profile.stop else written


def _whole(answer: str | Iterable[str]) -> str:
    """An answer in one piece, as the parser of Harmony is given it here."""
    pieces = list(text_chunks(answer))
    for piece in pieces:
        if not isinstance(piece, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
            raise InputError(ErrorCode.PARSE_INVALID_CHUNK, f"a chunk must be text, not {type(piece).__name__}")
    return "".join(pieces)


def _options(profile: ModelProfile, tools: SomeTools | None, thought_opened: bool | None) -> ReadingOptions:
    known, described = _declared(tools)
    options = reading_options(profile, tools=known, descriptions=described)
    if thought_opened is None:
        return options
    return msgspec.structs.replace(options, prompt_opens_thought=thought_opened)


def _declared(tools: SomeTools | None) -> tuple[Tools, tuple[ToolDescription, ...]]:
    """The tools by their names, and as they are described."""
    if tools is None:
        return UNDECLARED, ()
    if isinstance(tools, str | Mapping):
        raise InputError(ErrorCode.FORMATS_INVALID_OPTION, "tools must be a list of names or descriptions")
    listed = list(tools)
    described = described_tools(tool for tool in listed if not isinstance(tool, str))
    names = [tool for tool in listed if isinstance(tool, str)]
    return Tools([*names, *(tool.name for tool in described)]), described
