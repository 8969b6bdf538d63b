"""`harmonia tokenize`: the shell's `harmonia.encode`."""

from __future__ import annotations

from typing import BinaryIO

import click

from harmonia.cli.options import echo_json, file_argument, read_text, vocabulary_option
from harmonia.inspection import describe_token
from harmonia.vocabulary import Vocabulary


@click.command("tokenize")
@file_argument
@click.option("-t", "--text", help="Encode this text instead of a file.")
@click.option("--special", is_flag=True, help="Read spellings such as <|end|> as special tokens, not as text.")
@click.option("--count", is_flag=True, help="Print the number of tokens only.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list with the id, bytes and text of each token.")
@vocabulary_option
def command(
    file: BinaryIO, text: str | None, special: bool, count: bool, as_json: bool, vocabulary: Vocabulary
) -> None:
    """Print the token ids of a text, separated by spaces. A line break at the end of the input is part of the text."""
    if count and as_json:
        raise click.UsageError("use --count or --json, not both")
    tokens = vocabulary.encode(read_text(file, text, "--text"), special="all" if special else ())
    if count:
        click.echo(len(tokens))
    elif as_json:
        echo_json([describe_token(token, vocabulary) for token in tokens])
    else:
        click.echo(" ".join(map(str, tokens)))
