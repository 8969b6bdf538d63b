"""`harmonia grammar`: the grammar that holds a model to well-formed Harmony, as an engine takes it."""

from __future__ import annotations

import re
from typing import Any, BinaryIO, Final, cast

import click
import msgspec

from harmonia.cli.display import show
from harmonia.cli.options import chosen_output, echo_json, read_text
from harmonia.cli.tools import import_functions, read_definitions
from harmonia.errors import ErrorCode, InputError, Position
from harmonia.grammar import GRAMMAR_KINDS, GrammarKind, grammar_for
from harmonia.json_codec import json_problem
from harmonia.messages import Conversation, DeveloperContent, Json, ResponseFormat
from harmonia.run.constraints.attempts import demand_of
from harmonia.run.options import check_strict_tools, check_text_forms, chosen_tools
from harmonia.run.sampling import declared_namespaces
from harmonia.run.tools.arguments import compile_schema
from harmonia.run.tools.tool_set import ToolLike, ToolSet
from harmonia.tool_definitions import read_response_format

_EXPECTED = (
    'a response format is a JSON Schema, {"type": "json_schema", "json_schema": {"name": …, "schema": …}}, or '
    '{"type": "json_object"}'
)
_NAME: Final = "answer"  # of a schema that has none
_PYTHON: Final = re.compile(r"\.py(?::|$)")


class _ToolsFile(click.File):
    """A file of definitions, opened; a Python file is imported and not read, so it stays a name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        is_python = isinstance(value, str) and _PYTHON.search(value)
        return value if is_python else super().convert(value, param, ctx)


@click.command("grammar")
@click.argument("conversation", type=click.File("rb"), required=False, metavar="[CONVERSATION|-]")
@click.option(
    "-e",
    "--engine",
    "kind",
    type=click.Choice(GRAMMAR_KINDS),
    default="llguidance",
    show_default=True,
    help="The notation: Lark for llguidance, GBNF for llama.cpp, or xgrammar's structural tag for vLLM.",
)
@click.option(
    "-t",
    "--tools",
    "tool_files",
    type=_ToolsFile("rb"),
    multiple=True,
    metavar="FILE|FILE.py[:NAME]",
    help="Tool definitions, in any form that `harmonia tools` reads, or Python functions; without :NAME, all "
    "functions marked with @tool. The Python file is imported, so its code runs. Repeatable.",
)
@click.option(
    "--tool-choice",
    default="auto",
    show_default=True,
    metavar="auto|none|required|NAME",
    help="Whether the model calls a tool: auto lets it choose, none forbids it, required demands a call, and NAME "
    "demands a call to this tool.",
)
@click.option("--allow", "allowed", multiple=True, metavar="NAME", help="Allow calls to this tool only. Repeatable.")
@click.option(
    "-f",
    "--response-format",
    type=click.File("rb"),
    metavar="FILE",
    help="The format of the answer: a JSON Schema, or the response format of an API request.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json contains the grammar's kind, its text, what it cannot enforce, and who samples the stop token.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --output json.")
@click.option("-q", "--quiet", is_flag=True, help="Do not report on stderr what the grammar cannot enforce.")
def command(
    conversation: BinaryIO | None,
    kind: GrammarKind,
    tool_files: tuple[BinaryIO | str, ...],
    tool_choice: str,
    allowed: tuple[str, ...],
    response_format: BinaryIO | None,
    output: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Print a grammar of what a model may sample after <|start|>assistant.

    The tools come from CONVERSATION and from --tools. The format of the answer comes from --response-format, or else
    is the last response format in CONVERSATION. What the grammar cannot enforce is reported on stderr.
    """
    output = chosen_output(output, as_json=as_json)
    told = None if conversation is None else Conversation.from_json(read_text(conversation).removeprefix("\ufeff"))
    given: list[ToolLike] = [] if told is None else [*declared_namespaces(told)]
    for file in tool_files:
        if isinstance(file, str):
            given += import_functions(file, option="--tools")
        else:
            given += read_definitions(read_text(file).removeprefix("\ufeff"))
    tools = ToolSet(given)
    if allowed:
        tools = tools.allow(allowed)
    form = _declared_format(told) if response_format is None else _read_format(read_text(response_format))
    if form is not None:
        compile_schema(form.name, form.schema, is_answers=True, is_demanded=True)
    # What a run refuses, nobody could use the grammar of.
    check_text_forms(tools)
    check_strict_tools(tools)
    written = grammar_for(demand_of(tools, chosen_tools(tool_choice, tools)[1], form), kind)
    if output == "json":
        echo_json(written)
    else:
        click.echo(written.text.removesuffix("\n"))
    for loss in () if quiet else written.losses:
        # The path and the words are from somebody's schema.
        click.echo(f"note: {show(f'{loss.about} {loss.path}: {loss.message}')}", err=True)


def _declared_format(conversation: Conversation | None) -> ResponseFormat | None:
    formats = [
        form
        for message in conversation or ()
        for content in message.contents
        if isinstance(content, DeveloperContent)
        for form in content.response_formats or ()
    ]
    return formats[-1] if formats else None


def _read_format(text: str) -> ResponseFormat | None:
    try:
        value: Any = msgspec.json.decode(text.removeprefix("\ufeff"))
    except (msgspec.DecodeError, RecursionError) as error:
        raise _refuse(json_problem(error, text)) from error
    if isinstance(value, bool):
        return ResponseFormat(_NAME, value)
    if not isinstance(value, dict):
        raise _refuse("it is neither an object nor a boolean")
    fields = cast("Json", value)
    if fields.get("type") not in ("text", "json_object", "json_schema"):
        return ResponseFormat(_NAME, fields)
    return read_response_format(fields, code=ErrorCode.GRAMMAR_INVALID_OPTION, defaults={"name": _NAME})


def _refuse(message: str) -> InputError:
    error = InputError(ErrorCode.GRAMMAR_INVALID_OPTION, f"the response format: {message}", Position(path="$"))
    error.add_note(_EXPECTED)
    return error
