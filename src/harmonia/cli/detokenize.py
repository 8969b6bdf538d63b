"""`harmonia detokenize`: the shell's `harmonia.decode`."""

from __future__ import annotations

import re
from typing import BinaryIO

import click

from harmonia.cli.options import echo_json, file_argument, read_text, vocabulary_option
from harmonia.errors import ErrorCode, InputError, Position
from harmonia.vocabulary import Vocabulary

# ASCII digits only, and no more of them than a number of 64 bits has.
_ID = re.compile(r"-?[0-9]{1,18}")
# Nothing is tried twice: a run of white space would take the cube of its length.
_LIST = re.compile(rf"(\[)?\s*+(?:{_ID.pattern}(?:[\s,]++{_ID.pattern})*+)?+[\s,]*+(?(1)\])\s*+")


@click.command("detokenize")
@file_argument
@click.option("-i", "--ids", help="Take these ids instead of a file.")
@click.option("--strict", is_flag=True, help="Refuse tokens that are not valid UTF-8 together.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with the text and the bytes.")
@vocabulary_option
def command(file: BinaryIO, ids: str | None, strict: bool, as_json: bool, vocabulary: Vocabulary) -> None:
    """Write the text of token ids: a JSON list, or numbers with white space or commas between them.

    The bytes are written as they are, with no line break added.
    """
    tokens = _read_ids(read_text(file, ids, "--ids"))
    data = vocabulary.decode_bytes(tokens)
    text = vocabulary.decode(tokens, errors="strict" if strict else "replace")
    if as_json:
        echo_json({"text": text, "bytes": data.hex()})
    else:
        click.echo(data, nl=False)


def _read_ids(text: str) -> list[int]:
    if _LIST.fullmatch(text.strip()) is None:
        stray = re.search(r"[^\s,0-9\[\]-]", text)
        raise InputError(
            ErrorCode.VOCABULARY_UNKNOWN_TOKEN,
            "that is not a list of token ids",
            Position(character=stray.start() if stray else None),
        )
    return [int(match) for match in _ID.findall(text)]
