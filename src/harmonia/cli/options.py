"""Options, input and output that several verbs share."""

from __future__ import annotations

import os
from typing import Any, BinaryIO, TextIO

import click

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.json_codec import encode_any
from harmonia.messages import ReasoningEffort
from harmonia.vocabulary import Vocabulary

file_argument = click.argument("file", type=click.File("rb"), default="-", metavar="[FILE|-]")


api_key_option = click.option(
    "--api-key", envvar="HARMONIA_API_KEY", show_envvar=True, help="The API key of the engine or provider."
)
effort_option = click.option(
    "-r", "--effort", type=click.Choice([effort.value for effort in ReasoningEffort]), help="Set the reasoning effort."
)
profiles_option = click.option(
    "--profiles",
    "profiles_file",
    metavar="FILE",
    help="Your own profiles, in TOML. Default: ~/.config/harmonia/profiles.toml.",
)
color_option = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="auto: in a terminal, unless NO_COLOR is set.",
)


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
    if given is None:
        return decode(file.read())
    if getattr(file, "name", "<stdin>") not in ("<stdin>", "-"):
        raise click.UsageError(f"give a file or {option}, not both")
    return given


def decode(data: bytes, source: str = "the input") -> str:
    """Data of an input as text."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            ErrorCode.VOCABULARY_INVALID_UTF8,
            f"{source} is not UTF-8 at byte {error.start}: {error.reason}",
            Position(character=len(data[: error.start].decode())),
        ) from error


def echo_json(value: Any, file: TextIO | None = None) -> None:
    """A value as JSON on one line, including numbers of any size and lone surrogates."""
    click.echo(encode_any(value), file=file)


def chosen_output(output: str, *, as_json: bool) -> str:
    """The value of --output, with the flag --json, which must not contradict it."""
    is_given = click.get_current_context().get_parameter_source("output") is click.core.ParameterSource.COMMANDLINE
    if as_json and is_given and output != "json":
        raise click.UsageError(f"use --output {output} or --json, not both")
    return "json" if as_json else output


def is_coloured(color: str) -> bool | None:
    """What --color asks for; None leaves it to click: in a terminal."""
    if color != "auto":
        return color == "always"
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None


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
