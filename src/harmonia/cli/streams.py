"""Input for `parse` and `inspect`: the options that describe it, and the parser that reads it.

With `--model` it is the output of a model of another family, which is read by its profile.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar, cast, get_args

import click
import msgspec

from harmonia.cli.options import file_argument, profiles_option, vocabulary_option
from harmonia.errors import InputError
from harmonia.inspection import As, Input, is_completion, parse_input, read_declared, recognise
from harmonia.inspection.inputs import AsPasted, Pasted, recognise_pasted
from harmonia.inspection.saved_streams import looks_like_a_dump
from harmonia.messages import Role, ToolDescription
from harmonia.parser import Mode, Parsed, Tools
from harmonia.parser.headers import UNDECLARED, DeclaredTool
from harmonia.vocabulary import Vocabulary, find_spellings

# Profiles and families are loaded where a model is named: most of what is parsed is Harmony.
if TYPE_CHECKING:
    from harmonia.families.profiles import ModelProfile

Command = TypeVar("Command", bound=Callable[..., Any])

# What opens a call or a thought in the families of docs/guides/model-families.md.
_OTHER_FAMILIES: Final = re.compile(
    r"<think>|</think>|<tool_call>|\[TOOL_CALLS\]|<\|python_tag\|>|<\|?tool_call\|?>|<start_function_call>|```tool_code"
)
_FOREIGN_IDS: Final = "the stream has token ids of the model's own vocabulary"


class Reading(msgspec.Struct, frozen=True):
    """How to read the input, as the options say. `document` is which conversation, where conversations are read."""

    as_: AsPasted
    role: str | None
    tools: Sequence[DeclaredTool] | None
    stop_swallowed: bool
    quiet: bool
    vocabulary: Vocabulary
    document: int | None = None
    profile: ModelProfile | None = None

    @property
    def declared(self) -> Tools | None:
        return None if self.tools is None else Tools(self.tools)


def reading_options(command: Command) -> Command:
    """The file and the options that become a Reading, which the command gets as `reading`."""
    return _with_options(command, get_args(As), "")


def pasting_options(command: Command) -> Command:
    """The same, for a file that may also be a conversation."""
    about = " harmony-json, chat, responses and markdown are conversations, which are rendered; JSON lines are several."
    document = click.option(
        "--document",
        type=click.IntRange(min=0),
        default=0,
        metavar="N",
        help="Which conversation to show, if the file has several; the first is 0.",
    )
    return _with_options(command, get_args(AsPasted), about, document)


def _with_options(command: Command, kinds: tuple[str, ...], more: str, *others: Callable[..., Any]) -> Command:
    @wraps(command)
    def wrapped(
        file: BinaryIO, model: str | None, profiles_file: str | None, thought_opened: bool | None, **options: Any
    ) -> Any:
        read = {name: options.pop(name) for name in Reading.__struct_fields__ if name in options}
        reading = Reading(**read)
        profile = _other_profile(model, profiles_file, thought_opened, reading)
        return command(file=file, reading=msgspec.structs.replace(reading, profile=profile), **options)

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
                help="Do not report a missing last stop token (the engine removes it).",
            ),
            click.option("-q", "--quiet", is_flag=True, help="Do not report on stderr what the input was detected as."),
            vocabulary_option,
            click.option(
                "--model",
                metavar="NAME",
                help="The model that wrote the input, if it is not a gpt-oss; its profile decides how it is read.",
            ),
            profiles_option,
            click.option(
                "--thought-opened/--no-thought-opened",
                default=None,
                help="With --model: whether the prompt ended with the mark that opens reasoning, such as "
                "`<think>`. Default: from the profile.",
            ),
            *others,
        ]
    ):
        wrapped = option(wrapped)
    return cast("Command", wrapped)


def _load_tools(_context: click.Context, _option: click.Parameter, given: str | None) -> Sequence[DeclaredTool] | None:
    if given is None:
        return None
    path = Path(given)
    if not given.endswith(".json") and not path.is_file():
        return [name.strip() for name in given.split(",") if name.strip()]
    try:
        return read_declared(json.loads(path.read_bytes()))
    except OSError as error:
        raise click.BadParameter(f"{given}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"{given} is not JSON: {error}") from error


def read_input(file: BinaryIO, reading: Reading) -> Pasted:
    """Read the input, detect its kind, and report that and what could not be read."""
    data, how = file.read(), ""
    if reading.profile is not None:
        how = f", profile {reading.profile.name}"
        pasted = Pasted(_recognise_answer(data, cast("As", reading.as_)))
    elif reading.document is not None:
        pasted = recognise_pasted(data, reading.as_, reading.document)
    else:
        pasted = Pasted(recognise(data, cast("As", reading.as_)))
    if reading.quiet:
        return pasted
    taken = pasted.input
    if reading.as_ == "auto" or how:
        click.echo(f"detected input: {taken.description}{how}", err=True)
    notes = [*taken.notes]
    if pasted.count > 1:
        others = f"choose another with --document 0…{pasted.count - 1}"
        notes.append(f"showing conversation {pasted.at} of {pasted.count}; {others}")
    for note in (*notes, *pasted.losses):
        click.echo(f"note: {note}", err=True)
    if how:
        return pasted
    if reading.role is None and is_completion(taken):
        click.echo("hint: the input begins inside a header; read it as a completion with --role assistant", err=True)
    if taken.kind == "text" and _OTHER_FAMILIES.search(taken.text) and not find_spellings(taken.text):
        click.echo("hint: this looks like the output of another model; read it with --model NAME", err=True)
    return pasted


def run_parser(taken: Input, reading: Reading, mode: Mode = "tolerant") -> Parsed:
    """Feed the parser in the chunks of the input. A StreamError carries all events before it."""
    profile, stop_swallowed, vocabulary = reading.profile, reading.stop_swallowed, reading.vocabulary
    if profile is None:
        tools = reading.declared
        return parse_input(taken, reading.role, mode, tools, stop_swallowed=stop_swallowed, vocabulary=vocabulary)
    from harmonia.families.profiles import reading_options
    from harmonia.families.reader import read_answer
    from harmonia.families.registry import family_of

    described = [tool for tool in reading.tools or () if isinstance(tool, ToolDescription)]
    options = reading_options(profile, tools=reading.declared or UNDECLARED, descriptions=described)
    are_texts = bool(taken.chunks) and isinstance(taken.chunks[0], str)
    texts = cast("list[str]", taken.chunks) if are_texts else [taken.characters]
    return read_answer(family_of(profile.format), texts, options, mode)


# ── other families ──────────────────────────────────────────────────────────────────────────────────────────────────


def _other_profile(
    model: str | None, profiles_file: str | None, thought_opened: bool | None, reading: Reading
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
    if reading.as_ not in ("auto", "text", "sse"):
        raise click.UsageError(f"--as {reading.as_} is for Harmony; {what} is text")
    if reading.role not in (None, "assistant"):
        raise click.UsageError(f"--role {reading.role} is for Harmony; {what} is an assistant's answer")
    if reading.stop_swallowed:
        raise click.UsageError(f"--stop-swallowed is for Harmony; {what} has no stop tokens")
    if thought_opened is not None and profile.thinking is not None:
        thinking = msgspec.structs.replace(profile.thinking, opened_by_prompt=thought_opened)
        profile = msgspec.structs.replace(profile, thinking=thinking)
    return profile


def _recognise_answer(data: bytes, as_: As) -> Input:
    """The text, which may be inside a saved stream."""
    if as_ != "auto":
        taken = recognise(data, as_)
        if taken.tokens is not None:
            raise click.UsageError(f"{_FOREIGN_IDS}; pass the text instead")
        return taken
    # Numbers and JSON objects may be what the model wrote. Only a stream that a server sent is told from it.
    text = recognise(data, "text")
    if not looks_like_a_dump(text.characters):
        return text
    why = _FOREIGN_IDS
    try:
        taken = recognise(data)
        if taken.tokens is None:
            return taken if taken.kind == "sse" else text
    except InputError as error:
        why = error.message
    note = f"this looks like a saved stream but is read as text: {why}"
    return msgspec.structs.replace(text, notes=[*text.notes, note])
