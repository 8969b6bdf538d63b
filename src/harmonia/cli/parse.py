"""`harmonia parse`: the shell's `harmonia.parse`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, cast, get_args

import click
import msgspec

from harmonia.cli.streams import (
    Reading,
    echo_json_line,
    model_options,
    other_profile,
    read_input,
    read_taken,
    reading_options,
    run_parser,
    take_answer,
)
from harmonia.errors import StreamError
from harmonia.events import Event
from harmonia.inspection import (
    As,
    Input,
    describe_diagnostic,
    describe_event,
    describe_message,
    describe_position,
    is_malformed,
)
from harmonia.parser import Mode, Parsed, Tools
from harmonia.parts import Guessed
from harmonia.vocabulary import Vocabulary

_MALFORMED = 3


@click.command("parse")
@reading_options
@model_options
@click.option("--strict", is_flag=True, help="Stop at the first fault: print it as an error object and exit with 3.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["messages", "normalized", "normalised", "parts", "events"]),
    default="messages",
    show_default=True,
    help="messages: with diagnostics. normalized: normal form. parts: for a user interface. events: one per line.",
)
@click.option(
    "--guessed",
    type=click.Choice(get_args(Guessed)),
    default="hidden",
    show_default=True,
    help="Text without a known channel, such as bare text or JSON: keep it hidden, or show it as the answer, on final.",
)
@click.option("--check", is_flag=True, help="Exit with 3 if there is a fault at which --strict would stop.")
def command(
    file: BinaryIO,
    as_: As,
    role: str | None,
    tools: Tools | None,
    stop_swallowed: bool,
    quiet: bool,
    vocabulary: Vocabulary,
    model: str | None,
    profiles_file: str | None,
    thought_opened: bool | None,
    strict: bool,
    output: str,
    guessed: Guessed,
    check: bool,
) -> None:
    """Parse what a model sampled: text, token ids, text without its special tokens, or a saved stream. Prints JSON.

    With --model, parse the output of a model of another family into the same messages, parts and events.

    A line break at the end of the input is part of it.
    """
    reading = Reading(as_, role, tools, stop_swallowed, quiet, vocabulary)
    profile = other_profile(model, profiles_file, thought_opened, reading)
    taken = read_input(file, reading) if profile is None else take_answer(file.read(), profile, reading)
    mode: Mode = "strict" if strict else "tolerant"
    try:
        parsed = run_parser(taken, reading, mode) if profile is None else read_taken(taken, profile, reading, mode)
    except StreamError as error:
        _echo_error(error, output, file)
        sys.exit(_MALFORMED)
    if guessed == "shown":
        parsed = _with_guesses_shown(parsed)
    _echo_parsed(parsed, output, taken, tools, None if profile is None else profile.name)
    if check and is_malformed(parsed):
        sys.exit(_MALFORMED)


def _with_guesses_shown(parsed: Parsed) -> Parsed:
    from harmonia.parts import GuessedAsFinal, shown_message  # not needed without the option

    messages = tuple(shown_message(message) for message in parsed.messages)
    return msgspec.structs.replace(parsed, messages=messages, events=tuple(GuessedAsFinal().feed(parsed.events)))


def _echo_parsed(parsed: Parsed, output: str, taken: Input, tools: Tools | None, profile: str | None) -> None:
    match output:
        case "events":
            _echo_events(parsed.events)
        case "parts":
            from harmonia.parts import parts_of  # not needed for the other outputs

            echo_json_line(msgspec.to_builtins(parts_of(parsed.messages, tools)))
        case "messages":
            echo_json_line(
                {
                    "messages": [describe_message(message) for message in parsed.messages],
                    "diagnostics": [describe_diagnostic(diagnostic) for diagnostic in parsed.diagnostics],
                    "input": taken.kind,
                    "notes": taken.notes,
                }
                | ({} if profile is None else {"profile": profile})
            )
        case _:
            from harmonia.parts import normalise

            echo_json_line(normalise(parsed.messages))


def _echo_events(events: Sequence[Event]) -> None:
    for event in events:
        echo_json_line(describe_event(event))


def _echo_error(error: StreamError, output: str, file: BinaryIO) -> None:
    if output in ("normalized", "normalised"):
        echo_json_line({"error": error.code.value, "case": _case_of(file)})
        return
    if output == "events":  # what was found before the fault is not lost
        _echo_events(cast("Sequence[Event]", error.events))
    echo_json_line({"error": error.code.value, "message": error.message, "at": describe_position(error.at)})


def _case_of(file: BinaryIO) -> str | None:
    """The file's name without its extension; None for standard input."""
    name = getattr(file, "name", None)
    return None if not isinstance(name, str) or name in ("<stdin>", "-") else Path(name).stem
