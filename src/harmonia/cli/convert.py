"""`harmonia convert`: the shell's `harmonia.interchange`.

A single conversation is read whole. JSON lines, one conversation each, are converted one by one in constant memory;
text output of such a line is written as a JSON string, so that it stays on one line.
"""

from __future__ import annotations

import itertools
import os
import sys
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, BinaryIO, get_args

import click
import msgspec

from harmonia.cli.options import decode, file_argument
from harmonia.errors import ErrorCode, HarmonyError, InputError
from harmonia.inspection.saved_streams import count
from harmonia.interchange import FORMATS, ConversationFormat, Exported, Lossy, SystemAs, format_named, recognise
from harmonia.json_codec import encode_json, read_json

_LOST = 1
_NAMES = tuple(FORMATS)


@dataclass(frozen=True, slots=True)
class _Options:
    to: ConversationFormat
    system: SystemAs
    as_json: bool
    strict: bool
    quiet: bool


@click.command("convert")
@file_argument
@click.option(
    "-f",
    "--from",
    "from_",
    type=click.Choice(["auto", *_NAMES]),
    default="auto",
    show_default=True,
    help="The format of the input. auto detects it, and reports it on stderr.",
)
@click.option("-t", "--to", type=click.Choice(_NAMES), required=True, help="The format of the output.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write to this file instead of stdout.")
@click.option(
    "--system",
    type=click.Choice(get_args(SystemAs)),
    default="developer",
    show_default=True,
    help="Read a system message of chat or responses as developer instructions, or as a system message.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="If anything would be lost, write nothing and exit with 1. With JSON lines, stop at that line.",
)
@click.option("--json", "as_json", is_flag=True, help="Print an object with the output and the losses.")
@click.option("-q", "--quiet", is_flag=True, help="Do not report the detected format and the losses on stderr.")
def command(file: BinaryIO, from_: str, to: str, output: str | None, **given: Any) -> None:
    """Convert a conversation from one format to another, and report on stderr what is lost.

    harmony-json is the JSON of Harmonia and openai-harmony; chat and responses are messages or items, a request body,
    or a response; markdown is readable, and can be converted back; harmony is text with special tokens; tokens are ids.

    With JSON lines, each line is a conversation.
    """
    options = _Options(format_named(to), **given)
    first = file.readline()
    if _is_json_line(first) and (lines := _lines_after(file)) is not None:
        name = str(getattr(file, "name", ""))
        if output and os.path.exists(output) and os.path.exists(name) and os.path.samefile(name, output):
            raise click.UsageError("--output cannot be the input file: lines are written while the input is read")
        with click.open_file(output or "-", "w", encoding="utf-8") as out:
            _convert_lines(itertools.chain([first], lines), from_, options, out)
        return
    text = _decode(first + file.read())
    read = _reader(text, from_, options)
    written = _convert(read, text, options)
    if _report(written.losses, options, None):
        if options.as_json:
            click.echo(_describe(None, written.losses))
        sys.exit(_LOST)
    with click.open_file(output or "-", "w", encoding="utf-8") as out:
        shown = _describe(written.value, written.losses) if options.as_json else written.text
        out.write(shown if shown.endswith("\n") else f"{shown}\n")  # Markdown ends with a line break already


def _convert_lines(lines: Iterator[bytes], from_: str, options: _Options, out: IO[Any]) -> None:
    read: ConversationFormat | None = None
    for number, data in enumerate(lines, 1):
        if not data.strip():
            continue
        try:
            text = _decode(data)
            read = read or _reader(text, from_, options)
            written = _convert(read, text, options)
        except HarmonyError as error:
            told = type(error)(error.code, f"line {number}: {error.message}", error.at)
            for note in getattr(error, "__notes__", ()):
                told.add_note(note)
            raise told from error
        if _report(written.losses, options, number):
            sys.exit(_LOST)
        line = _describe(written.value, written.losses) if options.as_json else encode_json(written.value)
        out.write(f"{line}\n")


def _reader(text: str, from_: str, options: _Options) -> ConversationFormat:
    if from_ != "auto":
        return format_named(from_, system=options.system)
    name = recognise(text)
    if not options.quiet:
        click.echo(f"detected format: {name}", err=True)
    return format_named(name, system=options.system)


def _convert(read: ConversationFormat, text: str, options: _Options) -> Exported:
    imported = read.read(text)
    try:
        written = options.to.write(imported.conversation, call_ids=imported.call_ids)
    except InputError as error:
        if error.code is ErrorCode.RENDER_AMBIGUOUS_TEXT:
            error.add_note("use --to tokens: token ids tell typed text from special tokens")
        raise
    return Exported(written.value, (*imported.losses, *written.losses))


def _report(losses: tuple[Lossy, ...], options: _Options, line: int | None) -> bool:
    """Report the losses. True where --strict forbids them."""
    is_too_much = options.strict and bool(losses)
    if not options.quiet or is_too_much:
        where = "" if line is None else f"line {line}: "
        for loss in losses:
            click.echo(f"note: {where}{loss}", err=True)
    if is_too_much:
        click.echo(f"error: {count(len(losses), 'thing')} would be lost, which --strict forbids", err=True)
    return is_too_much


def _describe(output: Any, losses: tuple[Lossy, ...]) -> str:
    return encode_json({"output": output, "losses": msgspec.to_builtins(losses)})


# ── input and output ────────────────────────────────────────────────────────────────────────────────────────────────


def _is_json_line(line: bytes) -> bool:
    if not line.removeprefix(BOM_UTF8).lstrip().startswith((b"{", b"[", b'"')):
        return False
    try:
        return isinstance(read_json(line.decode("utf-8-sig")), dict | list | str)
    except ValueError:
        return False


def _lines_after(file: BinaryIO) -> Iterator[bytes] | None:
    """The remaining lines; None where all of them are blank."""
    blank: list[bytes] = []
    for line in file:
        blank.append(line)
        if line.strip():
            return itertools.chain(blank, file)
    return None


def _decode(data: bytes) -> str:
    """The text of the input. An input that is one JSON string stands for its value."""
    text = decode(data).removeprefix("\ufeff")
    return read_json(text) if text.lstrip().startswith('"') and _is_json_line(data) else text
