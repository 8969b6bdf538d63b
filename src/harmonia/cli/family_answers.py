"""`--model` of `parse` and `inspect`: the output of a model that does not use Harmony."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click
import msgspec

from harmonia.cli.streams import PastedReading, Reading, declared_tools
from harmonia.errors import InputError
from harmonia.inspection import Input, recognise
from harmonia.inspection.saved_streams import looks_like_a_dump
from harmonia.messages import ToolDescription
from harmonia.parser import Mode, Parsed
from harmonia.parser.tools import UNDECLARED

# Profiles and families are loaded where a model is named: most of what is parsed is Harmony.
if TYPE_CHECKING:
    from harmonia.families.profiles import ModelProfile

Command = TypeVar("Command", bound=Callable[..., Any])

_READABLE: Final = ("auto", "text", "sse")
_FOREIGN_IDS: Final = "the stream has token ids of the model's own vocabulary"


def model_options(command: Command) -> Command:
    """The options that name a model."""
    for option in reversed(
        [
            click.option(
                "--model",
                metavar="NAME",
                help="The model that wrote the input, if it is not a gpt-oss; its profile decides how it is read.",
            ),
            click.option(
                "--profiles",
                "profiles_file",
                metavar="FILE",
                help="Your own profiles, in TOML. Default: ~/.config/harmonia/profiles.toml.",
            ),
            click.option(
                "--thought-opened/--no-thought-opened",
                default=None,
                help="With --model: whether the prompt ended with the mark that opens reasoning. Default: from the "
                "profile.",
            ),
        ]
    ):
        command = option(command)
    return command


def other_profile(
    model: str | None, profiles_file: str | None, thought_opened: bool | None, reading: Reading | PastedReading
) -> ModelProfile | None:
    """The profile of a model that does not speak Harmony; None where Harmony is read."""
    if model is None:
        for name, given in (("--profiles", profiles_file), ("--thought-opened", thought_opened)):
            if given is not None:
                raise click.UsageError(f"{name} needs --model")
        return None
    if not model.strip():
        raise click.UsageError("--model is empty: give the name of the model")
    from harmonia.families.profiles import profile_of
    from harmonia.families.registry import ToolFormat
    from harmonia.run.family_models import user_profiles

    profile = profile_of(model, user_profiles(profiles_file))
    if profile.format is ToolFormat.HARMONY:
        if thought_opened is not None:
            raise click.UsageError(f"--thought-opened does not apply to {model}, which uses Harmony")
        return None
    if not (profile.pattern or profile.name == model or reading.quiet):
        click.echo(f"note: no profile matches {model}; using the profile {profile.name}", err=True)
    what = f"the output of {model} ({profile.format}, profile {profile.name})"
    if reading.as_ not in _READABLE:
        raise click.UsageError(f"--as {reading.as_} is for Harmony; {what} is text")
    if reading.role not in (None, "assistant"):
        raise click.UsageError(f"--role {reading.role} is for Harmony; {what} is an assistant's answer")
    if reading.stop_swallowed:
        raise click.UsageError(f"--stop-swallowed is for Harmony; {what} has no stop tokens")
    if thought_opened is not None and profile.thinking is not None:
        thinking = msgspec.structs.replace(profile.thinking, opened_by_prompt=thought_opened)
        profile = msgspec.structs.replace(profile, thinking=thinking)
    return profile


def take_answer(data: bytes, profile: ModelProfile, reading: Reading | PastedReading) -> Input:
    """The text, which may be inside a saved stream; reports what was detected."""
    taken = _recognise(data, cast("Any", reading.as_))
    if not reading.quiet:
        how = f"in the format {profile.format}, profile {profile.name}"
        click.echo(f"detected input: {taken.description} {how}", err=True)
        for note in taken.notes:
            click.echo(f"note: {note}", err=True)
    return taken


def read_taken(
    taken: Input, profile: ModelProfile, reading: Reading | PastedReading, mode: Mode = "tolerant"
) -> Parsed:
    """Read the answer as it was chunked. A StreamError has all the events before it."""
    from harmonia.families.profiles import reading_options
    from harmonia.families.reader import read_answer
    from harmonia.families.registry import family_of

    described = [tool for tool in declared_tools() if isinstance(tool, ToolDescription)]
    options = reading_options(profile, tools=reading.tools or UNDECLARED, descriptions=described)
    return read_answer(family_of(profile.format), _texts(taken), options, mode)


def _recognise(data: bytes, as_: Any) -> Input:
    if as_ == "auto":
        # Numbers and JSON objects may be what the model wrote. Only a stream that a server sent is told from it.
        text = recognise(data, "text")
        if not looks_like_a_dump(text.characters):
            return text
        try:
            taken = recognise(data)
        except InputError as error:
            return _with_note(text, error.message)
        if taken.tokens is not None:
            return _with_note(text, _FOREIGN_IDS)
        return taken if taken.kind == "sse" else text
    taken = recognise(data, as_)
    if taken.tokens is not None:
        raise click.UsageError(f"{_FOREIGN_IDS}; pass the text instead")
    return taken


def _with_note(text: Input, why: str) -> Input:
    note = f"this looks like a saved stream but is read as text: {why}"
    return msgspec.structs.replace(text, notes=[*text.notes, note])


def _texts(taken: Input) -> Iterable[str]:
    if taken.chunks and isinstance(taken.chunks[0], str):
        return cast("list[str]", taken.chunks)
    return [taken.characters]
