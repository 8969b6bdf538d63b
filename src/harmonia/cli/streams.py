"""What `parse` and `inspect` share: the options that say what the input is, and the parser that reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast, get_args

import click
import msgspec

from harmonia.cli.inputs import As, Input, recognise
from harmonia.cli.options import file_argument, vocabulary_option
from harmonia.errors import ErrorCode, InputError, StreamError
from harmonia.events import Event, MessageEnded, Repaired
from harmonia.messages import Role, ToolDescription
from harmonia.parser import FAULTS, Mode, Parsed, Parser, Tools
from harmonia.parser.tools import DeclaredTool
from harmonia.vocabulary import CHANNEL, SPELLING_BY_ID, Vocabulary

Command = TypeVar("Command", bound=Callable[..., Any])


class Reading(msgspec.Struct, frozen=True):
    """How the input is to be read: the options of the command line, together."""

    as_: As
    role: str | None
    tools: Tools | None
    stop_swallowed: bool
    quiet: bool
    vocabulary: Vocabulary


def reading_options(command: Command) -> Command:
    """The file, and the options about what it is: the fields of a Reading."""
    for option in reversed(
        [
            file_argument,
            click.option(
                "--as",
                "as_",
                type=click.Choice(get_args(As)),
                default="auto",
                show_default=True,
                help="What the input is. auto looks at it and says on stderr what it took it for. sse is a saved "
                "stream: server-sent events or JSON lines of Chat Completions, Completions, Responses, llama.cpp "
                "or Ollama; token ids are taken where it has them.",
            ),
            click.option(
                "--role",
                type=click.Choice([role.value for role in Role]),
                help="The input is a completion: it goes on behind <|start|>ROLE.",
            ),
            click.option(
                "--tools",
                metavar="FILE|NAMES",
                callback=_load_tools,
                help="The declared tools: names with commas between them, or a JSON file of names or definitions.",
            ),
            click.option(
                "--stop-swallowed",
                is_flag=True,
                help="The engine keeps the last stop token to itself: it may be missing.",
            ),
            click.option("-q", "--quiet", is_flag=True, help="Do not say on stderr what the input was taken for."),
            vocabulary_option,
        ]
    ):
        command = option(command)
    return command


def read_input(file: BinaryIO, reading: Reading) -> Input:
    """Read and recognise the input, and say what it was taken for."""
    taken = recognise(file.read(), reading.as_)
    if reading.quiet:
        return taken
    if reading.as_ == "auto":
        click.echo(f"took the input for {taken.took_for}", err=True)
    for note in taken.notes:
        click.echo(f"note: {note}", err=True)
    if reading.role is None and _begins_in_a_header(taken):
        click.echo("hint: it begins inside a header; --role assistant reads it as a completion", err=True)
    return taken


def run_parser(taken: Input, reading: Reading, mode: Mode = "tolerant") -> Parsed:
    """Feed the parser as the input was chunked. A StreamError has all the events before it."""
    parser = Parser(
        reading.role,
        mode,
        reading.tools,
        stop_swallowed=reading.stop_swallowed,
        stripped=taken.kind == "stripped",
        vocabulary=reading.vocabulary,
    )
    events: list[Event] = []
    try:
        for chunk in taken.chunks:
            events += parser.feed(chunk)
        events += parser.close()
    except StreamError as error:
        error.events = [*events, *error.events]
        raise
    return Parsed(
        tuple(event.message for event in events if isinstance(event, MessageEnded)),
        tuple(event.diagnostic for event in events if isinstance(event, Repaired)),
        tuple(events),
    )


def is_malformed(parsed: Parsed) -> bool:
    """Whether a strict parser would have raised."""
    return any(FAULTS[diagnostic.code].strict == "raises" for diagnostic in parsed.diagnostics)


def echo_json_line(value: Any) -> None:
    """A value as JSON on one line, whatever a model wrote: numbers of any size, halves of surrogate pairs."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(value, separators=(",", ":"))
    click.echo(text)


def _begins_in_a_header(taken: Input) -> bool:
    tokens = taken.tokens
    if tokens is not None:
        return tokens[:1] == [CHANNEL]
    return taken.text[:1000].lstrip().startswith(SPELLING_BY_ID[CHANNEL])


# ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _load_tools(_context: click.Context, _option: click.Parameter, given: str | None) -> Tools | None:
    if given is None:
        return None
    path = Path(given)
    if given.endswith(".json") or path.is_file():
        try:
            return Tools(_read_tools(json.loads(path.read_bytes())))
        except OSError as error:
            raise click.BadParameter(f"{given}: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise click.BadParameter(f"{given} is not JSON: {error}") from error
    return Tools([name.strip() for name in given.split(",") if name.strip()])


def _read_tools(value: Any) -> list[DeclaredTool]:
    """Names, OpenAI's definitions (with `function` or without), or an object that has them in `tools`."""
    if isinstance(value, dict):
        value = cast("dict[str, Any]", value).get("tools")
    if not isinstance(value, list):
        raise InputError(ErrorCode.PARSE_INVALID_OPTION, 'tools are a list, or an object with a list in "tools"')
    found: list[DeclaredTool] = []
    for at, tool in enumerate(cast("list[Any]", value)):
        if isinstance(tool, str):
            found.append(tool)
            continue
        definition = cast("dict[str, Any]", tool) if isinstance(tool, dict) else {}
        function = definition.get("function", definition)
        name = cast("dict[str, Any]", function).get("name") if isinstance(function, dict) else None
        if isinstance(name, str):
            found.append(ToolDescription(name))
        elif not isinstance(definition.get("type"), str) or definition["type"] == "function":
            # Tools of another type, such as web_search, are the server's own and have no name to call them by.
            raise InputError(ErrorCode.PARSE_INVALID_OPTION, f"the tool at {at} has no name")
    return found
