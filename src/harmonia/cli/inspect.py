"""`harmonia inspect`: explain a trace in the terminal."""

from __future__ import annotations

import os
import shutil
import sys
from typing import BinaryIO, Literal

import click
import msgspec

from harmonia.cli.streams import (
    PastedReading,
    echo_json_line,
    model_options,
    other_profile,
    pasting_options,
    read_pasted,
    read_taken,
    run_parser,
    take_answer,
)
from harmonia.cli.trace_view import View
from harmonia.inspection import describe_trace, hint_for, is_malformed, trace
from harmonia.inspection.pasted_text import AsPasted, Pasted, describe_pasted
from harmonia.parser import Tools
from harmonia.vocabulary import Vocabulary

_MALFORMED = 3


@click.command("inspect")
@pasting_options
@model_options
@click.option(
    "--document",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Which conversation to show, if the file has several; the first is 0.",
)
@click.option("--ids", is_flag=True, help="Show the token ids of each message, with their text.")
@click.option("--full", is_flag=True, help="Show everything: long bodies, all ids, all faults.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--check", is_flag=True, help="Exit with 3 if there is a fault at which `parse --strict` would stop.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="auto: in a terminal, unless NO_COLOR is set.",
)
@click.option("--width", type=click.IntRange(min=40), help="The line width; by default that of the terminal, or 80.")
def command(
    file: BinaryIO,
    as_: AsPasted,
    role: str | None,
    tools: Tools | None,
    stop_swallowed: bool,
    quiet: bool,
    vocabulary: Vocabulary,
    model: str | None,
    profiles_file: str | None,
    thought_opened: bool | None,
    document: int,
    ids: bool,
    full: bool,
    as_json: bool,
    check: bool,
    color: Literal["auto", "always", "never"],
    width: int | None,
) -> None:
    """Show what a model sampled: its messages, what each channel cost, and every fault with its position and a hint.

    A conversation in JSON, JSON lines or Markdown is shown as the model reads it.

    A line break at the end of the input is part of it.
    """
    reading = PastedReading(as_, document, role, tools, stop_swallowed, quiet, vocabulary)
    profile = other_profile(model, profiles_file, thought_opened, reading)
    if profile is not None and ids:
        raise click.UsageError(f"--ids needs the vocabulary of gpt-oss; {model} has another one")
    pasted = read_pasted(file, reading) if profile is None else Pasted(take_answer(file.read(), profile, reading))
    taken = pasted.input
    if pasted.is_conversation:
        # It is complete: there is no prompt before it.
        role, reading = None, msgspec.structs.replace(reading, role=None)
    parsed = run_parser(taken, reading) if profile is None else read_taken(taken, profile, reading)
    traced = trace(taken, parsed, tools, vocabulary)
    hints = [
        hint_for(diagnostic, traced, has_role=role is not None, has_tools=tools is not None)
        for diagnostic in traced.diagnostics
    ]
    if as_json:
        described = describe_trace(traced, hints, ids=ids)
        named = {} if profile is None else {"profile": profile.name}
        echo_json_line(described | describe_pasted(pasted) | named)
    else:
        columns = width or max(shutil.get_terminal_size().columns, 40)
        view = View(columns, vocabulary, _is_coloured(color), full, ids, profile is None)
        # Line by line: a trace may be long, and the reader may close the pipe.
        for line in view.lines(traced, hints):
            click.echo(_writable(line), color=view.colour)
    if check and is_malformed(parsed):
        sys.exit(_MALFORMED)


def _is_coloured(color: Literal["auto", "always", "never"]) -> bool:
    if color != "auto":
        return color == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _writable(line: str) -> str:
    """The line, with characters that the terminal's encoding lacks written as escapes."""
    encoding = sys.stdout.encoding or "utf-8"
    return line.encode(encoding, "backslashreplace").decode(encoding)
