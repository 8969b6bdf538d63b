"""Finds how a model writes by its name, reads its answers and writes its prompts.

    org/Qwen3-8B-Q4_K_M.gguf  ->  the first profile whose pattern is found in the name  ->  format, template, thoughts

    parse_answer(text, "Qwen/Qwen3-8B")          the whole answer, as `harmonia.parse` reads what gpt-oss wrote
    answer_reader("Qwen/Qwen3-8B")               the same while it arrives
    prompt_for("Qwen/Qwen3-8B", conversation)    the prompt for the model's next turn

Profiles are data: profiles.toml, and the user's own. Instead of a name, callers may pass a profile or, if nothing else
is known of the model, a tool format.

1. The first match wins. The user's profiles come before the built-in ones. A profile with the name of a built-in one
   replaces it in its place, so that changing a general rule does not move it before the special ones.
2. A pattern is a case-insensitive regular expression. It is searched in the last part of the name, the model's own name
   (`org/` and folders often mislead), and if no pattern matches there, in the whole name. A pattern with a `/` is
   always searched in the whole name.
3. A profile without a pattern matches every model that no other profile matches. The built-in one is `default`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final, cast

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.families.reader import read_answer, text_chunks
from harmonia.families.registry import Reader, ReadingOptions, ToolFormat, family_of
from harmonia.families.templates import PromptText, template_names, write_prompt
from harmonia.families.tool_descriptions import ToolLike, described_tools
from harmonia.json_codec import split_validation_error
from harmonia.messages import Conversation, Message, ToolDescription
from harmonia.parser import Mode, Parsed, parse
from harmonia.parser.headers import UNDECLARED, Tools

# Only the end of a longer name is searched: names may come from requests, and patterns are untrusted.
MAX_NAME_CHARS: Final = 1000
_TABLE: Final = "profile"
_KNOWN_FORMATS: Final = f"the known ones are: {', '.join(ToolFormat)}"


class Thinking(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The marks around a model's thoughts. If the prompt ends with the first, the answer begins in a thought."""

    opens: str
    closes: str
    opened_by_prompt: bool = False

    @property
    def marks(self) -> tuple[str, str]:
        return self.opens, self.closes


class ModelProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How models write whose names match `pattern`.

    `family` is a word for people and programs. `template` names the chat template of prompts; `stop` are the texts at
    which sampling ends, if they differ from the template's. Without `thinking`, thoughts have the marks of the format.
    Harmony is written by its renderer, so its format and its template go together.
    """

    name: str
    family: str
    format: ToolFormat
    template: str
    pattern: str = ""
    thinking: Thinking | None = None
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.format not in tuple(ToolFormat):
            raise _invalid(self.name, f"unknown `format` {self.format!r}; {_KNOWN_FORMATS}")
        msgspec.structs.force_setattr(self, "format", ToolFormat(self.format))  # it may be given as its name
        if empty := next((field for field in ("name", "family", "template") if not getattr(self, field)), None):
            raise _invalid(self.name, f"`{empty}` is empty")
        if (self.format is ToolFormat.HARMONY) is not (self.template == ToolFormat.HARMONY.value):
            raise _invalid(self.name, f"the tool format {self.format} does not work with the template {self.template}")
        if self.thinking is not None and not (self.thinking.opens and self.thinking.closes):
            raise _invalid(self.name, "a mark in `thinking` is empty")
        try:
            re.compile(self.pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise _invalid(self.name, f"`pattern` is not a valid regular expression: {error}") from None


def read_profiles(toml_text: str) -> tuple[ModelProfile, ...]:
    """The profiles of a TOML document: tables `[[profile]]`, with the fields of ModelProfile.

    Raises `formats.invalid_profile`, which names the profile, its field and its path in the document.
    """
    if not isinstance(toml_text, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
        what = f"expected the text of a TOML document, not {type(toml_text).__name__}"
        raise InputError(ErrorCode.FORMATS_INVALID_OPTION, what)
    profiles = _read_document(toml_text)
    known = (*template_names(), ToolFormat.HARMONY.value)
    for index, profile in enumerate(profiles):
        if profile.template not in known:
            what = f"unknown chat template {profile.template!r}; the known ones are: {', '.join(known)}"
            raise _invalid(profile.name, what, f"$.{_TABLE}[{index}].template")
    return profiles


def _read_document(toml_text: str) -> tuple[ModelProfile, ...]:
    """The profiles of a document; their templates are not checked."""
    import tomllib  # here, because importing this module does not need it

    try:
        document = tomllib.loads(toml_text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(ErrorCode.FORMATS_INVALID_PROFILE, f"not valid TOML: {error}") from None
    tables = document.get(_TABLE, [])
    others = [key for key in document if key != _TABLE] or ([] if isinstance(tables, list) else [_TABLE])
    if others:
        what = f"{others[0]!r} is unknown here; profiles are tables [[{_TABLE}]]"
        raise InputError(ErrorCode.FORMATS_INVALID_PROFILE, what, Position(path=f"$.{others[0]}"))
    profiles: dict[str, ModelProfile] = {}
    for index, table in enumerate(cast("list[Any]", tables)):
        path = f"$.{_TABLE}[{index}]"
        profile = _read_profile(table, path)
        if profile.name in profiles:
            raise _invalid(profile.name, "two profiles have this name", path)
        profiles[profile.name] = profile
    return tuple(profiles.values())


def all_profiles(own: Iterable[ModelProfile] = ()) -> tuple[ModelProfile, ...]:
    """The user's profiles and the package's, in the order in which they are tried."""
    profiles: list[object] = list(own) if isinstance(own, Iterable) else [own]  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
    if odd := [each for each in profiles if not isinstance(each, ModelProfile)]:
        what = f"expected ModelProfiles, such as read_profiles returns, not {type(odd[0]).__name__}"
        raise InputError(ErrorCode.FORMATS_INVALID_OPTION, what)
    given = {profile.name: profile for profile in cast("list[ModelProfile]", profiles)}
    package = {profile.name: profile for profile in _package_profiles()}
    first = (profile for name, profile in given.items() if name not in package)
    return (*first, *(given.get(name, profile) for name, profile in package.items()))


def resolve_profile(model: str, profiles: Iterable[ModelProfile] | None = None) -> ModelProfile:
    """The profile of a model; `profiles` are the user's own. An unknown model gets the default."""
    if not isinstance(model, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
        raise InputError(ErrorCode.FORMATS_INVALID_OPTION, f"expected the name of a model, not {model!r}")
    # Windows paths have the other slash.
    name = model[-MAX_NAME_CHARS:].replace("\\", "/").rstrip("/")
    last_part = name.rpartition("/")[2]
    candidates = all_profiles(profiles or ())
    for is_whole in (False, True):
        for profile in candidates:
            searched = name if is_whole or "/" in profile.pattern else last_part
            if profile.pattern and re.search(profile.pattern, searched, re.IGNORECASE):
                return profile
    return next(profile for profile in candidates if not profile.pattern)


def profile_named(name: str, profiles: Iterable[ModelProfile] | None = None) -> ModelProfile:
    """The profile of this name, whatever the model is called; `profiles` are the user's own."""
    known = {profile.name: profile for profile in all_profiles(profiles or ())}
    if name not in known:
        what = f"unknown profile {name!r}; the known ones are: {', '.join(known)}"
        raise InputError(ErrorCode.FORMATS_INVALID_OPTION, what)
    return known[name]


def reading_options(
    profile: ModelProfile, *, tools: Tools = UNDECLARED, descriptions: Iterable[ToolDescription] = ()
) -> ReadingOptions:
    """How to read the answers of a profile's models. Without `thinking`, thoughts have the marks of the family."""
    thinking = profile.thinking
    marks, is_opened = (None, False) if thinking is None else (thinking.marks, thinking.opened_by_prompt)
    return ReadingOptions(marks, is_opened, tools, tuple(descriptions))


@cache
def _package_profiles() -> tuple[ModelProfile, ...]:
    from importlib.resources import files

    return _read_document(files("harmonia.families").joinpath("profiles.toml").read_text("utf-8"))


def _read_profile(table: object, path: str) -> ModelProfile:
    given = cast("dict[str, object]", table).get("name") if isinstance(table, dict) else None
    name = given if isinstance(given, str) else None
    try:
        return msgspec.convert(table, ModelProfile)
    except InputError as error:
        raise InputError(error.code, error.message, Position(path=path)) from None
    except msgspec.ValidationError as error:
        what, inner = split_validation_error(error)
        if inner.startswith("$.format"):
            what += f"; {_KNOWN_FORMATS}"
        raise _invalid(name, what, path + inner.removeprefix("$")) from None


def _invalid(name: str | None, what: str, path: str | None = None) -> InputError:
    whose = f"the profile {name!r}" if name else "a profile without a name"
    return InputError(ErrorCode.FORMATS_INVALID_PROFILE, f"{whose}: {what}", Position(path=path))


# The tools that a model had: names or descriptions.
SomeTools = Iterable[str | ToolLike]
SomeModel = ModelProfile | ToolFormat | str


def profile_of(model: SomeModel, profiles: Iterable[ModelProfile] | None = None) -> ModelProfile:
    """The profile of a model, by its name. A tool format, or its name if no profile matches it, stands for a model of
    which nothing else is known."""
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

    `tools` are those that were declared to it: an empty list means that there were none. `thought_opened` overrides
    whether the prompt ended inside a thought. Strict raises the first fault.
    """
    profile = profile_of(model, profiles)
    if profile.format is ToolFormat.HARMONY:
        pieces: list[object] = list(text_chunks(answer))
        if odd := [piece for piece in pieces if not isinstance(piece, str)]:
            raise InputError(ErrorCode.PARSE_INVALID_CHUNK, f"a chunk must be text, not {type(odd[0]).__name__}")
        return parse("".join(cast("list[str]", pieces)), "assistant", mode, _declared(tools)[0])
    return read_answer(family_of(profile.format), answer, _options(profile, tools, thought_opened), mode)


def answer_reader(
    model: SomeModel,
    *,
    tools: SomeTools | None = None,
    thought_opened: bool | None = None,
    profiles: Iterable[ModelProfile] | None = None,
) -> Reader:
    """A reader for one answer of a model that does not speak Harmony, fed with text as it arrives."""
    profile = profile_of(model, profiles)
    return family_of(profile.format).reader(_options(profile, tools, thought_opened))


def prompt_for(
    model: SomeModel,
    conversation: Conversation | Iterable[Message] | str,
    *,
    tools_part: str | None = None,
    profiles: Iterable[ModelProfile] | None = None,
) -> PromptText:
    """A conversation, or a question of the user, as the prompt for the model's next turn, by its chat template.

    The family declares the conversation's tools, unless `tools_part` does, such as the output of `tool_system_prompt`.
    That text is written as it is; in the texts of messages, marks are broken.
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


def _options(profile: ModelProfile, tools: SomeTools | None, thought_opened: bool | None) -> ReadingOptions:
    known, described = _declared(tools)
    options = reading_options(profile, tools=known, descriptions=described)
    is_opened = options.prompt_opens_thought if thought_opened is None else thought_opened
    return msgspec.structs.replace(options, prompt_opens_thought=is_opened)


def _declared(tools: SomeTools | None) -> tuple[Tools, tuple[ToolDescription, ...]]:
    """The names of the tools, and their descriptions."""
    if tools is None:
        return UNDECLARED, ()
    if isinstance(tools, str | Mapping):
        raise InputError(ErrorCode.FORMATS_INVALID_OPTION, "tools must be a list of names or descriptions")
    listed = list(tools)
    described = described_tools(tool for tool in listed if not isinstance(tool, str))
    names = [tool for tool in listed if isinstance(tool, str)]
    return Tools([*names, *(tool.name for tool in described)]), described
