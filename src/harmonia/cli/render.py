"""`harmonia render`: the shell's `harmonia.render`."""

from __future__ import annotations

from datetime import date as Date
from typing import Any, BinaryIO, get_args

import click

from harmonia.cli.options import chosen_output, echo_json, effort_option, file_argument, read_text, vocabulary_option
from harmonia.errors import InputError
from harmonia.inspection.report import describe_rendered, with_settings
from harmonia.messages import Conversation, Role
from harmonia.renderer import CallStop, RecipientSection, Renderer
from harmonia.vocabulary import Vocabulary


def _date(_context: click.Context, _option: click.Parameter, written: str | None) -> str | None:
    if written is None or written == "today":
        return written and Date.today().isoformat()
    try:
        return Date.fromisoformat(written).isoformat()
    except ValueError as error:
        raise click.BadParameter(f"{written!r} is not a date of the form YYYY-MM-DD") from error


@click.command("render")
@file_argument
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "tokens", "json"]),
    default="text",
    show_default=True,
    help="json has the tokens, the text, the spans of the messages, what schemas lost and, with --training, the mask.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --output json.")
@effort_option
@click.option("--date", metavar="YYYY-MM-DD|today", callback=_date, help="Set the current date.")
@click.option(
    "--next-role",
    type=click.Choice([*(role.value for role in Role), "none"]),
    default="assistant",
    show_default=True,
    help="The role of the message that follows the prompt; none for a stored history.",
)
@click.option("--training", is_flag=True, help="Render for training: the last answer ends with <|return|>.")
@click.option(
    "--recipient-section",
    type=click.Choice(get_args(RecipientSection)),
    default="role",
    show_default=True,
    help="Where to=… is written: after the role, or after the channel, as the models mostly do.",
)
@click.option(
    "--call-stop",
    type=click.Choice(get_args(CallStop)),
    default="call",
    show_default=True,
    help="What ends a tool call in history.",
)
@click.option("--exact-reference", is_flag=True, help="Render as openai-harmony does, mistakes included.")
@click.option("--escape", is_flag=True, help="In text output, write typed special tokens as <\\|end|>.")
@vocabulary_option
def command(
    file: BinaryIO,
    output: str,
    as_json: bool,
    effort: str | None,
    date: str | None,
    next_role: str,
    training: bool,
    escape: bool,
    vocabulary: Vocabulary,
    **options: Any,
) -> None:
    """Render a conversation: {"messages": [{"role": "user", "content": "Hi"}]}."""
    output = chosen_output(output, as_json=as_json)
    conversation = Conversation.from_json(read_text(file).removeprefix("\ufeff"))
    if effort is not None or date is not None:
        try:
            conversation = with_settings(conversation, effort=effort, date=date)
        except InputError as error:
            raise click.UsageError(error.message) from error
    role = None if next_role == "none" else next_role
    rendered = Renderer(vocabulary).render(conversation, role, training=training, **options)
    match output:
        case "tokens":
            click.echo(" ".join(map(str, rendered.tokens)))
        case "json":
            echo_json(describe_rendered(rendered, mask=training, escape=escape))
        case _:
            click.echo(rendered.to_text(ambiguous="escape" if escape else "refuse"))
