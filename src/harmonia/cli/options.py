"""Options, input and output that several verbs share."""

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
    help="Use this o200k_base.tiktoken instead of the one in the package.",
)


def read_text(file: BinaryIO, given: str | None = None, option: str = "") -> str:
    """The text of the input file, or `given`, where an option gave the text itself."""
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


class GroupedOption(click.Option):
    """An option that stands under a heading of its verb's help."""

    def __init__(self, *arguments: Any, group: str, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.group = group


class GroupedCommand(click.Command):
    """A verb whose help has its options under their headings, in the order in which they were declared."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                groups.setdefault(getattr(parameter, "group", "Help"), []).append(record)
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl(records)
