"""`harmonia detokenize`: the shell's `harmonia.decode`."""

from __future__ import annotations

import re
from typing import BinaryIO

import click

from harmonia.cli.options import echo_json, file_argument, read_text, vocabulary_option
from harmonia.errors import ErrorCode, InputError, Position
from harmonia.vocabulary import Vocabulary

# ASCII digits only, and no more than a 64-bit number has.
_ID = re.compile(r"-?[0-9]{1,18}")
# Possessive, so that nothing is tried twice: a run of white space would take cubic time.
_LIST = re.compile(rf"(\[)?\s*+(?:{_ID.pattern}(?:[\s,]++{_ID.pattern})*+)?+[\s,]*+(?(1)\])\s*+")


@click.command("detokenize")
@file_argument
@click.option("-i", "--ids", help="Decode these ids instead of a file.")
@click.option("--strict", is_flag=True, help="Fail if the tokens are not valid UTF-8.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with the text and the bytes.")
@vocabulary_option
def command(file: BinaryIO, ids: str | None, strict: bool, as_json: bool, vocabulary: Vocabulary) -> None:
    """Decode token ids to text. The ids are a JSON list, or numbers separated by white space or commas.

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
            (f"{stray[0]!r} is not part of a token id" if stray else "not a list of token ids")
            + "; expected numbers such as 13225 2375, or a JSON list",
            Position(character=stray.start() if stray else None),
        )
    return [int(match) for match in _ID.findall(text)]
