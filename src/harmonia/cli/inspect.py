"""`harmonia inspect`: explain a trace in the terminal."""

from __future__ import annotations

import shutil
import sys
from typing import BinaryIO

import click
import msgspec

from harmonia.cli.options import color_option, echo_json, is_coloured
from harmonia.cli.streams import Reading, pasting_options, read_input, run_parser
from harmonia.cli.trace_view import View
from harmonia.inspection import describe_trace, hint_for, is_malformed, trace
from harmonia.inspection.inputs import describe_pasted

_MALFORMED = 3


@click.command("inspect")
@pasting_options
@click.option("--ids", is_flag=True, help="Show the token ids of each message, with their text.")
@click.option("--full", is_flag=True, help="Show everything: long bodies, all ids, all faults.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--check", is_flag=True, help="Exit with 3 if there is a fault at which `parse --strict` would stop.")
@color_option
@click.option("--width", type=click.IntRange(min=40), help="The line width; by default that of the terminal, or 80.")
def command(
    file: BinaryIO, reading: Reading, ids: bool, full: bool, as_json: bool, check: bool, color: str, width: int | None
) -> None:
    """Show what a model sampled: its messages, what each channel cost, and every fault with its position and a hint.

    A conversation in JSON, JSON lines or Markdown is shown as the model reads it.

    A line break at the end of the input is part of it. Exit codes: 0 shown, 1 an error, 2 wrong usage, 3 a fault with
    --check.
    """
    profile, tools, vocabulary = reading.profile, reading.declared, reading.vocabulary
    if profile is not None and ids:
        raise click.UsageError(f"--ids needs the vocabulary of gpt-oss; the profile {profile.name} has another one")
    pasted = read_input(file, reading)
    if pasted.is_conversation:
        # It is complete: there is no prompt before it.
        reading = msgspec.structs.replace(reading, role=None)
    parsed = run_parser(pasted.input, reading)
    traced = trace(pasted.input, parsed, tools, vocabulary)
    has_role, has_tools = reading.role is not None, tools is not None
    hints = [hint_for(each, traced, has_role=has_role, has_tools=has_tools) for each in traced.diagnostics]
    if as_json:
        named = {} if profile is None else {"profile": profile.name}
        echo_json(describe_trace(traced, hints, ids=ids) | describe_pasted(pasted) | named)
    else:
        wanted = is_coloured(color)
        columns = width or max(shutil.get_terminal_size().columns, 40)
        view = View(columns, vocabulary, sys.stdout.isatty() if wanted is None else wanted, full, ids, profile is None)
        # Characters that the terminal's encoding lacks are written as escapes.
        encoding = sys.stdout.encoding or "utf-8"
        # Line by line: a trace may be long, and the reader may close the pipe.
        for line in view.lines(traced, hints):
            click.echo(line.encode(encoding, "backslashreplace").decode(encoding), color=view.colour)
    if check and is_malformed(parsed):
        sys.exit(_MALFORMED)
