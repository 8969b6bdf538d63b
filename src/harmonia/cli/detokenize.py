"""`harmonia detokenize`: the shell's `harmonia.decode`."""

from __future__ import annotations

import re
from typing import BinaryIO

import click

from harmonia.cli.options import file_argument, read_text, vocabulary_option
from harmonia.errors import ErrorCode, InputError, Position
from harmonia.vocabulary import Vocabulary

_LIST = re.compile(r"\[[\s,\d-]*\]|[\s,\d-]*")
_ID = re.compile(r"-?\d+")


@click.command("detokenize")
@file_argument
@click.option("-i", "--ids", help="Take these ids instead of a file.")
@click.option("--strict", is_flag=True, help="Refuse tokens that are not valid UTF-8 together.")
@vocabulary_option
def command(file: BinaryIO, ids: str | None, strict: bool, vocabulary: Vocabulary) -> None:
    """Write the text of token ids: a JSON list, or numbers with white space or commas between them.

    The bytes are written as they are, with no line break added.
    """
    tokens = _read_ids(read_text(file) if ids is None else ids)
    if strict:
        vocabulary.decode(tokens, errors="strict")
    click.echo(vocabulary.decode_bytes(tokens), nl=False)


def _read_ids(text: str) -> list[int]:
    if _LIST.fullmatch(text.strip()) is None:
        stray = re.search(r"[^\s,\d\[\]-]", text)
        raise InputError(
            ErrorCode.VOCABULARY_UNKNOWN_TOKEN,
            "that is not a list of token ids",
            Position(character=stray.start() if stray else 0),
        )
    return [int(match) for match in _ID.findall(text)]
