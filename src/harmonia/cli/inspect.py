"""`harmonia inspect`: a trace for people, in the terminal."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any, BinaryIO, Literal

import click
import msgspec

from harmonia.cli.descriptions import describe_diagnostic, describe_message
from harmonia.cli.display import excerpt
from harmonia.cli.inputs import As
from harmonia.cli.streams import Reading, echo_json_line, is_malformed, read_input, reading_options, run_parser
from harmonia.cli.trace_view import View
from harmonia.cli.traces import Trace, TracedMessage, TracedText, TracedTurn, hint_for, marked_length, trace
from harmonia.events import Diagnostic
from harmonia.parser import Tools
from harmonia.vocabulary import Vocabulary

_MALFORMED = 3
_EXCERPT_CELLS = 76


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
        echo_json_line(_describe(traced, hints, ids=ids))
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


def _describe(traced: Trace, hints: list[str], *, ids: bool) -> dict[str, Any]:
    outside = [item for item in traced.items if isinstance(item, TracedText) and not item.is_space]
    turns = [item for item in traced.items if isinstance(item, TracedTurn)]
    return {
        "input": traced.kind,
        "notes": traced.notes,
        "characters": len(traced.text),
        "tokens": traced.tokens,
        "counts_are_exact": traced.has_ids,
        "messages": [_describe_message(item, ids=ids) for item in traced.messages],
        "outside": [{"text": item.text, "start_char": item.start_char, "tokens": len(item.ids)} for item in outside],
        "turns": [msgspec.structs.asdict(turn) for turn in turns],
        "channels": [msgspec.structs.asdict(count) for count in traced.channels],
        "diagnostics": [
            {**describe_diagnostic(diagnostic), "excerpt": _excerpt(diagnostic, traced.text), "hint": hint or None}
            for diagnostic, hint in zip(traced.diagnostics, hints, strict=True)
        ],
    }


def _excerpt(diagnostic: Diagnostic, text: str) -> dict[str, str] | None:
    at = diagnostic.at.character
    return None if at is None else excerpt(text, at, marked_length(diagnostic, text), _EXCERPT_CELLS)._asdict()


def _describe_message(item: TracedMessage, *, ids: bool) -> dict[str, Any]:
    described: dict[str, Any] = {
        "index": item.index,
        **describe_message(item.message),
        "flags": item.flags,
        "skipped": item.skipped,
        "tokens": {"header": len(item.header_ids), "body": len(item.body_ids), "stop": len(item.stop_ids)},
    }
    if ids:
        described["ids"] = {"header": item.header_ids, "body": item.body_ids, "stop": item.stop_ids}
    return described
