"""What several verbs have in common."""

from __future__ import annotations

from typing import Any, BinaryIO

import click
import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.vocabulary import Vocabulary

file_argument = click.argument("file", type=click.File("rb"), default="-", metavar="[FILE|-]")


def _load_vocabulary(_context: click.Context, _option: click.Parameter, path: str | None) -> Vocabulary:
    return Vocabulary(path)


vocabulary_option = click.option(
    "--vocabulary",
    "vocabulary",
    type=click.Path(exists=True, dir_okay=False),
    envvar="HARMONIA_VOCABULARY",
    callback=_load_vocabulary,
    help="An o200k_base.tiktoken to use instead of the one inside the package.",
)


def read_text(file: BinaryIO, given: str | None = None, option: str = "") -> str:
    """The text of an input file, or `given`, which stands in its place where an option brought it."""
    if given is not None:
        if getattr(file, "name", "<stdin>") not in ("<stdin>", "-"):
            raise click.UsageError(f"give a file or {option}, not both")
        return given
    data = file.read()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            ErrorCode.VOCABULARY_INVALID_UTF8,
            f"the input is not UTF-8 at byte {error.start}: {error.reason}",
            Position(character=len(data[: error.start].decode())),
        ) from error


def echo_json(value: Any) -> None:
    """A value as JSON, on one line."""
    click.echo(msgspec.json.encode(value).decode())
