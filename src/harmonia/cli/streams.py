"""Input for `parse` and `inspect`: the options that describe it, and the parser that reads it.

With `--model` it is the output of a model of another family, which is read by its profile.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar, cast, get_args

import click
import msgspec

from harmonia.cli.options import file_argument, vocabulary_option
from harmonia.errors import InputError
from harmonia.inspection import As, Input, parse_input, read_declared, recognise
from harmonia.inspection.pasted_text import AsPasted, Pasted, recognise_pasted
from harmonia.inspection.saved_streams import looks_like_a_dump
from harmonia.json_codec import encode_any
from harmonia.messages import Role, ToolDescription
from harmonia.parser import Mode, Parsed, Tools
from harmonia.parser.headers import UNDECLARED, DeclaredTool
from harmonia.vocabulary import CHANNEL, SPELLING_BY_ID, Vocabulary, find_spellings

if TYPE_CHECKING:
    from harmonia.families.profiles import ModelProfile

Command = TypeVar("Command", bound=Callable[..., Any])

# What opens a call or a thought in the families of docs/guides/model-families.md.
_OTHER_FAMILIES: Final = re.compile(
    r"<think>|</think>|<tool_call>|\[TOOL_CALLS\]|<\|python_tag\|>|<\|?tool_call\|?>|<start_function_call>|```tool_code"
)
_DECLARED: Final = f"{__name__}.declared_tools"


class Reading(msgspec.Struct, frozen=True):
    """How to read the input, as the options say."""

    as_: As
    role: str | None
    tools: Tools | None
    stop_swallowed: bool
    quiet: bool
    vocabulary: Vocabulary


class PastedReading(msgspec.Struct, frozen=True):
    """The same for a file that may also hold conversations; `document` chooses one."""

    as_: AsPasted
    document: int
    role: str | None
    tools: Tools | None
    stop_swallowed: bool
    quiet: bool
    vocabulary: Vocabulary


def reading_options(command: Command) -> Command:
    """The file and the options that become a Reading."""
    return _with_options(command, get_args(As), "")


def pasting_options(command: Command) -> Command:
    """The same, for a file that may also be a conversation."""
    return _with_options(
        command,
        get_args(AsPasted),
        " harmony-json, chat, responses and markdown are conversations, which are rendered; JSON lines may hold "
        "several.",
    )


def _with_options(command: Command, kinds: tuple[str, ...], more: str) -> Command:
    for option in reversed(
        [
            file_argument,
            click.option(
                "--as",
                "as_",
                type=click.Choice(kinds),
                default="auto",
                show_default=True,
                help="What the input is. auto detects it, and reports it on stderr. sse is a saved stream: "
                "server-sent events or JSON lines of Chat Completions, Completions, Responses, llama.cpp or Ollama; "
                f"its token ids are used if it has them.{more}",
            ),
            click.option(
                "--role",
                type=click.Choice([role.value for role in Role]),
                help="The input is a completion that continues after <|start|>ROLE.",
            ),
            click.option(
                "--tools",
                metavar="FILE|NAMES",
                callback=_load_tools,
                help="The declared tools: names separated by commas, or a JSON file with names or definitions.",
            ),
            click.option(
                "--stop-swallowed",
                is_flag=True,
                help="The engine removes the last stop token, so it may be missing.",
            ),
            click.option("-q", "--quiet", is_flag=True, help="Do not report on stderr what the input was detected as."),
            vocabulary_option,
        ]
    ):
        command = option(command)
    return command


def read_input(file: BinaryIO, reading: Reading) -> Input:
    """Read the input, detect its kind, and report that."""
    taken = recognise(file.read(), reading.as_)
    _report_detection(taken, reading)
    return taken


def read_pasted(file: BinaryIO, reading: PastedReading) -> Pasted:
    """The same for an input that may be a conversation; what could not be read is reported, too."""
    pasted = recognise_pasted(file.read(), reading.as_, reading.document)
    _report_detection(pasted.input, reading)
    if not reading.quiet:
        if pasted.count > 1:
            click.echo(
                f"note: showing document {pasted.at} of 0 to {pasted.count - 1}; choose another with --document N",
                err=True,
            )
        for loss in pasted.losses:
            click.echo(f"note: {loss}", err=True)
    return pasted


def _report_detection(taken: Input, reading: Reading | PastedReading) -> None:
    if reading.quiet:
        return
    if reading.as_ == "auto":
        click.echo(f"detected input: {taken.description}", err=True)
    for note in taken.notes:
        click.echo(f"note: {note}", err=True)
    if reading.role is None and _begins_in_a_header(taken):
        click.echo("hint: the input begins inside a header; read it as a completion with --role assistant", err=True)
    if _is_of_another_family(taken):
        click.echo("hint: this looks like the output of another model; read it with --model NAME", err=True)


def run_parser(taken: Input, reading: Reading | PastedReading, mode: Mode = "tolerant") -> Parsed:
    """Feed the parser in the chunks of the input. A StreamError carries all events before it."""
    return parse_input(
        taken,
        reading.role,
        mode,
        reading.tools,
        stop_swallowed=reading.stop_swallowed,
        vocabulary=reading.vocabulary,
    )


def echo_json_line(value: Any) -> None:
    """A value as JSON on one line, including numbers of any size and lone surrogates."""
    click.echo(encode_any(value))


def _begins_in_a_header(taken: Input) -> bool:
    tokens = taken.tokens
    if tokens is not None:
        return tokens[:1] == [CHANNEL]
    return taken.text[:1000].lstrip().startswith(SPELLING_BY_ID[CHANNEL])


def _is_of_another_family(taken: Input) -> bool:
    return taken.kind == "text" and _OTHER_FAMILIES.search(taken.text) is not None and not find_spellings(taken.text)


# ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def declared_tools() -> Sequence[DeclaredTool]:
    """The tools that `--tools` declared."""
    return click.get_current_context().meta.get(_DECLARED, ())


def _load_tools(context: click.Context, _option: click.Parameter, given: str | None) -> Tools | None:
    if given is None:
        return None
    path = Path(given)
    if given.endswith(".json") or path.is_file():
        try:
            context.meta[_DECLARED] = declared = read_declared(json.loads(path.read_bytes()))
            return Tools(declared)
        except OSError as error:
            raise click.BadParameter(f"{given}: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise click.BadParameter(f"{given} is not JSON: {error}") from error
    return Tools([name.strip() for name in given.split(",") if name.strip()])


# Profiles and families are loaded where a model is named: most of what is parsed is Harmony.

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
    from harmonia.families.profiles import reading_options as options_of
    from harmonia.families.reader import read_answer
    from harmonia.families.registry import family_of

    described = [tool for tool in declared_tools() if isinstance(tool, ToolDescription)]
    options = options_of(profile, tools=reading.tools or UNDECLARED, descriptions=described)
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
