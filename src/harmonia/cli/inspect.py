"""`harmonia inspect`: a trace for people, in the terminal."""

from __future__ import annotations

import os
import shutil
import sys
from typing import BinaryIO, Literal

import click

from harmonia.cli.streams import Reading, echo_json_line, read_input, reading_options, run_parser
from harmonia.cli.trace_view import View
from harmonia.parser import Tools
from harmonia.parts.inspection import As, describe_trace, hint_for, is_malformed, trace
from harmonia.vocabulary import Vocabulary

_MALFORMED = 3


@click.command("inspect")
@reading_options
@click.option("--ids", is_flag=True, help="Show the token ids of each message, with their text.")
@click.option("--full", is_flag=True, help="Show everything: long bodies, all ids, all faults.")
@click.option("--json", "as_json", is_flag=True, help="Print the same as a JSON object.")
@click.option("--check", is_flag=True, help="Exit with 3 if there is a fault that `parse --strict` would stop at.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="auto: in a terminal, unless NO_COLOR is set.",
)
@click.option("--width", type=click.IntRange(min=40), help="The width to fill; the terminal's, or 80, by default.")
def command(
    file: BinaryIO,
    as_: As,
    role: str | None,
    tools: Tools | None,
    stop_swallowed: bool,
    quiet: bool,
    vocabulary: Vocabulary,
    ids: bool,
    full: bool,
    as_json: bool,
    check: bool,
    color: Literal["auto", "always", "never"],
    width: int | None,
) -> None:
    """Show what a model sampled: its messages, what each channel cost, and every fault with its place and a hint.

    A line break at the end of the input is part of it.
    """
    reading = Reading(as_, role, tools, stop_swallowed, quiet, vocabulary)
    taken = read_input(file, reading)
    parsed = run_parser(taken, reading)
    traced = trace(taken, parsed, tools, vocabulary)
    hints = [
        hint_for(diagnostic, traced, has_role=role is not None, has_tools=tools is not None)
        for diagnostic in traced.diagnostics
    ]
    if as_json:
        echo_json_line(describe_trace(traced, hints, ids=ids))
    else:
        view = View(width or max(shutil.get_terminal_size().columns, 40), vocabulary, _is_coloured(color), full, ids)
        # In pieces, because a trace may be long, and whoever reads may have seen enough.
        for line in view.lines(traced, hints):
            click.echo(_writable(line), color=view.colour)
    if check and is_malformed(parsed):
        sys.exit(_MALFORMED)


def _is_coloured(color: Literal["auto", "always", "never"]) -> bool:
    if color != "auto":
        return color == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _writable(line: str) -> str:
    """The line, with what the terminal's encoding does not have written as an escape."""
    encoding = sys.stdout.encoding or "utf-8"
    return line.encode(encoding, "backslashreplace").decode(encoding)
