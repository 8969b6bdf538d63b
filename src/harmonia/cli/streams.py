"""What `parse` and `inspect` share: the options that say what the input is, and the parser that reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, get_args

import click
import msgspec

from harmonia.cli.options import file_argument, vocabulary_option
from harmonia.messages import Role
from harmonia.parser import Mode, Parsed, Tools
from harmonia.parts.inspection import As, Input, parse_input, read_declared, recognise
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
    return parse_input(
        taken,
        reading.role,
        mode,
        reading.tools,
        stop_swallowed=reading.stop_swallowed,
        vocabulary=reading.vocabulary,
    )


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
            return Tools(read_declared(json.loads(path.read_bytes())))
        except OSError as error:
            raise click.BadParameter(f"{given}: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise click.BadParameter(f"{given} is not JSON: {error}") from error
    return Tools([name.strip() for name in given.split(",") if name.strip()])
