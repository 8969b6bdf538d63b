"""`harmonia parse`: the shell's `harmonia.parse`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, cast, get_args

import click
import msgspec

from harmonia.cli.options import echo_json
from harmonia.cli.streams import Reading, read_input, reading_options, run_parser
from harmonia.errors import StreamError
from harmonia.events import Event
from harmonia.inspection import (
    describe_diagnostic,
    describe_event,
    describe_message,
    describe_position,
    is_malformed,
)
from harmonia.parts import Guessed, GuessedAsFinal, normalise, parts_of, shown_message

_MALFORMED = 3


@click.command("parse")
@reading_options
@click.option("--strict", is_flag=True, help="Stop at the first fault: print it as an error object and exit with 3.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["messages", "normalized", "normalised", "parts", "events"]),
    default="messages",
    show_default=True,
    metavar="[messages|normalized|parts|events]",  # and normalised
    help="messages: with diagnostics. normalized: messages in normal form, without diagnostics. parts: for a user "
    "interface. events: one per line.",
)
@click.option(
    "--guessed",
    type=click.Choice(get_args(Guessed)),
    default="hidden",
    show_default=True,
    help="Text in a damaged answer whose channel is unknown: hide it, or show it as the answer.",
)
@click.option("--check", is_flag=True, help="Exit with 3 if there is a fault at which --strict would stop.")
def command(file: BinaryIO, reading: Reading, strict: bool, output: str, guessed: Guessed, check: bool) -> None:
    """Parse what a model sampled: text, token ids, text without its special tokens, or a saved stream. Prints JSON.

    With --model, parse the output of a model of another family into the same messages, parts and events.

    A line break at the end of the input is part of it. Exit codes: 0 parsed, 1 an error, 2 wrong usage, 3 a fault with
    --strict or --check.
    """
    taken = read_input(file, reading).input
    try:
        parsed = run_parser(taken, reading, "strict" if strict else "tolerant")
    except StreamError as error:
        _echo_error(error, output, file)
        sys.exit(_MALFORMED)
    if guessed == "shown":
        messages = tuple(shown_message(message) for message in parsed.messages)
        parsed = msgspec.structs.replace(parsed, messages=messages, events=tuple(GuessedAsFinal().feed(parsed.events)))
    match output:
        case "events":
            for event in parsed.events:
                echo_json(describe_event(event))
        case "parts":
            echo_json(parts_of(parsed.messages, reading.declared))
        case "messages":
            described = {
                "messages": [describe_message(message) for message in parsed.messages],
                "diagnostics": [describe_diagnostic(diagnostic) for diagnostic in parsed.diagnostics],
                "input": taken.kind,
                "notes": taken.notes,
            }
            echo_json(described if reading.profile is None else {**described, "profile": reading.profile.name})
        case _:
            echo_json(normalise(parsed.messages))
    if check and is_malformed(parsed):
        sys.exit(_MALFORMED)


def _echo_error(error: StreamError, output: str, file: BinaryIO) -> None:
    if output in ("normalized", "normalised"):
        name = str(getattr(file, "name", "-"))
        echo_json({"error": error.code.value, "case": None if name in ("<stdin>", "-") else Path(name).stem})
        return
    if output == "events":  # what was found before the fault is not lost
        for event in cast("Sequence[Event]", error.events):
            echo_json(describe_event(event))
    echo_json({"error": error.code.value, "message": error.message, "at": describe_position(error.at)})
