"""`harmonia record`: record one run of a model."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from harmonia.cli.display import show
from harmonia.cli.options import api_key_option, echo_json, effort_option
from harmonia.errors import InputError
from harmonia.events import Event, MessageStarted, TextDelta
from harmonia.grammar import declared_tools
from harmonia.inspection.saved_streams import count
from harmonia.interchange import format_named, recognise
from harmonia.messages import (
    Conversation,
    DeveloperContent,
    Message,
    ReasoningEffort,
    ResponseFormat,
    Role,
    SystemContent,
)
from harmonia.parser import Parser
from harmonia.parts import is_visible_header
from harmonia.renderer import render
from harmonia.run.engines import Chunk, Request, Sampling
from harmonia.run.sampling import declared_namespaces
from harmonia.vocabulary import IncrementalDecoder

# Of Harmony text, of its token ids, and of the Markdown that `harmonia convert` writes.
_BEGINNINGS: Final = ("<|start|>", "200006", "## ")
_ENDS: Final = {"stop": "stop token", "length": "token limit"}
_LONG_CHARS: Final = 80  # a prompt that is longer is not repeated in a hint


class Summary(msgspec.Struct, frozen=True):
    """What was recorded."""

    file: str
    engine: str
    model: str
    prompt_tokens: int
    chunks: int
    sampled_tokens: int | None  # None where the engine gave text
    reason: str = "unknown"
    notes: tuple[str, ...] = ()


@click.command("record")
@click.argument("prompt", metavar="[PROMPT|FILE|-]", default="-")
@click.option("-o", "--output", "path", required=True, metavar="FILE", help="The recording; overwritten.")
@click.option(
    "-m",
    "--engine",
    "engine_name",
    default="auto",
    show_default=True,
    help="The engine: a name or a URL; `harmonia chat --help` lists them.",
)
@click.option("--model", metavar="NAME", help="The model, if the engine has several.")
@api_key_option
@effort_option
@click.option("--max-tokens", type=click.IntRange(min=1), help="Stop after this many tokens.")
@click.option("--temperature", type=click.FloatRange(min=0), help="The sampling temperature.")
@click.option("--seed", type=int, help="The sampling seed.")
@click.option("--logprobs", type=click.IntRange(min=0), help="Record log-probabilities, with this many alternatives.")
@click.option("--tool-choice", default="auto", show_default=True, help="auto, none, required, or the name of a tool.")
@click.option("--raw", is_flag=True, help="Print everything that was sampled, including special tokens.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on stdout, and nothing else.")
def command(
    prompt: str,
    path: str,
    engine_name: str,
    model: str | None,
    api_key: str | None,
    effort: str | None,
    tool_choice: str,
    raw: bool,
    as_json: bool,
    **sampling: Any,
) -> None:
    """Record one run of a model: the prompt, what was sampled, and the timing.

    PROMPT is the user's message, the name of a file, or - for standard input. A file holds text, or a conversation with
    its tools in any format that `harmonia convert` reads. Tools are offered to the model but not run. The answer goes
    to stdout, a summary to stderr. What was sampled before an error or Ctrl-C is kept; the API key is not recorded.

    `harmonia chat -m replay:FILE` and `harmonia inspect --role assistant FILE` read the recording. Exit codes: 0
    recorded, 1 an error, 2 wrong usage, 4 no engine found, 130 interrupted.
    """
    if path == "-":
        raise click.UsageError("--output must be a file: stdout has the answer")
    if raw and as_json:
        raise click.UsageError("--raw and --json both write to stdout; choose one")
    conversation, said = _read_conversation(prompt, effort)
    request = request_for(conversation, Sampling(**sampling), tool_choice)
    printer = Printer("nothing" if as_json else "everything" if raw else "visible")
    key = {"api_key": api_key} if api_key else {}
    summary = asyncio.run(_record(engine_name, model, key, path, conversation, request, printer))
    if as_json:
        echo_json(summary)
        return
    sampled = "text" if summary.sampled_tokens is None else count(summary.sampled_tokens, "token")
    click.echo(
        f"recorded {summary.engine} ({summary.model}): {count(summary.prompt_tokens, 'prompt token')}, {sampled} in "
        f"{count(summary.chunks, 'chunk')}, ended: {_ENDS.get(summary.reason, summary.reason)}",
        err=True,
    )
    for note in summary.notes:
        click.echo(f"note: {note}", err=True)
    # A replay compares prompts, so only the same words with the same effort will do.
    replay, about = ["harmonia", "chat", "-m", f"replay:{path}"], ""
    if said is None or len(said) > _LONG_CHARS or show(said) != said or said.startswith("-"):
        replay, about = [*replay, "-o", "strict", "false"], ", whatever you ask"
    else:
        replay += [*(("-r", effort) if effort else ()), said]
    click.echo(f"hint: {shlex.join(replay)} replays it{about}", err=True)


def request_for(conversation: Conversation, sampling: Sampling, tool_choice: str = "auto") -> Request:
    """What the conversation says to an engine: its tools, the form of the answer, the effort."""
    formats: list[ResponseFormat] = []
    effort: ReasoningEffort | None = None
    for message in conversation:
        for content in message.contents:
            if isinstance(content, SystemContent):
                effort = content.reasoning_effort or effort
            elif isinstance(content, DeveloperContent):
                formats += content.response_formats or ()
    tools = declared_tools(declared_namespaces(conversation))
    return Request(sampling, tools, tool_choice, formats[0] if len(formats) == 1 else None, effort)


def _read_conversation(given: str, effort: str | None) -> tuple[Conversation, str | None]:
    """What to say to the model, and what to give to `harmonia chat` to say the same; None if it cannot."""
    is_file = False
    with suppress(OSError):  # words that are too long for a name
        is_file = Path(given).is_file()
    is_read = given == "-" or is_file
    if not is_read and given.endswith(".json"):
        raise click.BadParameter(f"there is no file {given}", param_hint="PROMPT")
    text = given
    if is_read:
        data = sys.stdin.buffer.read() if given == "-" else Path(given).read_bytes()
        text = data.decode("utf-8-sig", "replace")
    system = SystemContent(reasoning_effort=ReasoningEffort(effort)) if effort else SystemContent()
    if is_read and (name := _format_of(text)) is not None:
        conversation = _import(text, name)
        has_system = any(isinstance(content, SystemContent) for message in conversation for content in message.contents)
        if effort is not None and has_system:
            raise click.UsageError("the conversation has a system message; set its reasoning effort there")
        # Of the APIs' conversations, the system message is the provider's part.
        if effort is not None or (name in ("chat", "responses") and not has_system):
            conversation = Conversation([Message.system(system), *conversation])
        return conversation, None
    if not text.strip():
        raise click.UsageError("there is nothing to send: give a prompt or a conversation")
    said = text.removesuffix("\n") if is_read else text
    return Conversation([Message.system(system), Message.user(said)]), None if is_read else text


def _format_of(text: str) -> str | None:
    """The format of a conversation; None for a text, which may mention special tokens, have headings, or be a number.

    So the text must begin as a conversation does.
    """
    beginning = text.lstrip()
    try:
        is_json = isinstance(json.loads(beginning), dict | list)
    except (ValueError, RecursionError):
        is_json = beginning.startswith(("{", "["))
    if not is_json and not beginning.startswith(_BEGINNINGS):
        return None
    try:
        return recognise(text)
    except InputError as error:
        if is_json:
            if not hasattr(error, "__notes__"):
                error.add_note("convert it first with `harmonia convert --from FORMAT`")
            raise
        return None


def _import(text: str, name: str) -> Conversation:
    if name == "harmony":  # a prompt ends where the answer begins
        text = text.rstrip().removesuffix("<|start|>assistant")
    imported = format_named(name).read(text)
    click.echo(f"detected format: {name}", err=True)
    for loss in imported.losses:
        click.echo(f"note: {show(str(loss))}", err=True)
    return imported.conversation


async def _record(
    engine_name: str,
    model: str | None,
    key: dict[str, str],
    path: str,
    conversation: Conversation,
    request: Request,
    printer: Printer,
) -> Summary:
    # Engines may need extras, which a `--help` should not.
    from harmonia.run.engines.recording import RecordingEngine
    from harmonia.run.engines.registry import open_engine

    prompt = render(conversation).tokens
    engine = await open_engine(engine_name, model, **key)
    try:
        recording = RecordingEngine(engine, path)
    except OSError:
        await engine.close()
        raise
    end: dict[str, Any] = {}
    try:
        async for item in recording.generate(prompt, request):
            if isinstance(item, Chunk):
                printer.feed(item)
            else:
                end = {"reason": item.reason, "notes": item.notes}
                break
    finally:
        printer.close()
        await recording.close()
    sampled = printer.tokens if engine.traits.gives_tokens else None
    return Summary(path, engine.name, engine.model, len(prompt), printer.chunks, sampled, **end)


class Printer:
    """Prints what comes in, as it comes in. `shown` is "visible", "everything" or "nothing"."""

    def __init__(self, shown: str) -> None:
        self.chunks = 0
        self.tokens = 0
        self._shown = shown
        self._parser = Parser(Role.ASSISTANT)
        self._decoder = IncrementalDecoder()
        self._begins_message = False  # after text of another
        self._last = ""

    def feed(self, chunk: Chunk) -> None:
        self.chunks += 1
        self.tokens += len(chunk.tokens)
        if self._shown == "visible":
            self._print_visible(self._parser.feed(list(chunk.tokens) or chunk.text))
        elif self._shown == "everything":
            self._print(self._decoder.feed(chunk.tokens) if len(chunk.tokens) else chunk.text)

    def close(self) -> None:
        if self._shown == "visible":
            self._print_visible(self._parser.close())
        elif self._shown == "everything":
            self._print(self._decoder.close())
        if self._last and not self._last.endswith("\n"):
            click.echo()

    def _print_visible(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, MessageStarted):
                self._begins_message = bool(self._last)
            elif isinstance(event, TextDelta) and is_visible_header(event.header):
                self._print(f"\n\n{event.text}" if self._begins_message else event.text)
                self._begins_message = False

    def _print(self, text: str) -> None:
        self._last = text or self._last
        # A file gets the very text; in a terminal nothing that a model wrote may move the cursor or set colours.
        click.echo("\n".join(map(show, text.split("\n"))) if sys.stdout.isatty() else text, nl=False)
