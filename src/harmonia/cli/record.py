"""`harmonia record`: record one run of a model."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from pathlib import Path
from typing import Final, NamedTuple

import click
import msgspec

from harmonia.cli.display import show
from harmonia.cli.options import echo_json
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
from harmonia.run.engines import Chunk, Engine, Request, Sampling
from harmonia.run.sampling import declared_namespaces
from harmonia.vocabulary import IncrementalDecoder

_HARMONY: Final = "harmony"
_APIS: Final = ("chat", "responses")
# Of Harmony text, of its token ids, and of the Markdown that `harmonia convert` writes.
_BEGINNINGS: Final = ("<|start|>", "200006", "## ")
_LONG_CHARS: Final = 80  # a prompt that is longer is not repeated in a hint


class Summary(msgspec.Struct, frozen=True):
    """What was captured."""

    file: str
    engine: str
    model: str
    prompt_tokens: int
    chunks: int
    sampled_tokens: int | None  # None where the engine gave text
    reason: str
    notes: tuple[str, ...]


@click.command("record")
@click.argument("prompt", metavar="[PROMPT|FILE|-]", default="-")
@click.option(
    "-o",
    "--output",
    "path",
    required=True,
    metavar="FILE",
    help="The recording; overwritten.",
)
@click.option("-m", "--engine", "engine_name", default="auto", show_default=True, help="The engine: a name or a URL.")
@click.option("--model", metavar="NAME", help="The model, if the engine has several.")
@click.option(
    "--api-key", envvar="HARMONIA_API_KEY", show_envvar=True, help="The engine's API key; never part of the recording."
)
@click.option(
    "-r", "--effort", type=click.Choice([effort.value for effort in ReasoningEffort]), help="Set the reasoning effort."
)
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
    max_tokens: int | None,
    temperature: float | None,
    seed: int | None,
    logprobs: int | None,
    tool_choice: str,
    raw: bool,
    as_json: bool,
) -> None:
    """Record one run of a model: the prompt, what was sampled, and the timing.

    PROMPT is the user's message, the name of a file, or - for standard input. A file holds text, or a conversation with
    its tools in any format that `harmonia convert` reads. Tools are offered to the model but not run. The answer goes
    to stdout, a summary to stderr. What was sampled before an error or Ctrl-C is kept.

    `harmonia chat -m replay:FILE` and `harmonia inspect --role assistant FILE` read the recording.
    """
    if path == "-":
        raise click.UsageError("--output must be a file: stdout has the answer")
    if raw and as_json:
        raise click.UsageError("--raw and --json both write to stdout; choose one")
    conversation, said = _read_conversation(prompt, effort)
    sampling = Sampling(max_tokens=max_tokens, temperature=temperature, seed=seed, logprobs=logprobs)
    request = request_for(conversation, sampling, tool_choice)
    shown = "nothing" if as_json else "everything" if raw else "visible"
    summary = asyncio.run(_record(engine_name, model, api_key, path, conversation, request, shown))
    if as_json:
        echo_json(msgspec.to_builtins(summary))
    else:
        click.echo(_describe(summary, _hint(path, said, effort)), err=True)


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


class Given(NamedTuple):
    """What to say to the model. `prompt` is what `harmonia chat` has to be given to say the same; None if it cannot."""

    conversation: Conversation
    prompt: str | None = None


def _read_conversation(given: str, effort: str | None) -> Given:
    is_read = True
    if given == "-":
        text = sys.stdin.buffer.read().decode("utf-8-sig", "replace")
    elif _is_file(given):
        text = Path(given).read_bytes().decode("utf-8-sig", "replace")
    elif given.endswith(".json"):
        raise click.BadParameter(f"there is no file {given}", param_hint="PROMPT")
    else:
        text, is_read = given, False
    system = SystemContent(reasoning_effort=ReasoningEffort(effort)) if effort else SystemContent()
    if is_read and (name := _format_of(text)) is not None:
        conversation = _import(text, name)
        has_system = any(isinstance(content, SystemContent) for message in conversation for content in message.contents)
        if effort is not None and has_system:
            raise click.UsageError("the conversation has a system message; set its reasoning effort there")
        # Of the APIs' conversations, the system message is the provider's part.
        if effort is not None or (name in _APIS and not has_system):
            conversation = Conversation([Message.system(system), *conversation])
        return Given(conversation)
    if not text.strip():
        raise click.UsageError("there is nothing to send: give a prompt or a conversation")
    said = text.removesuffix("\n") if is_read else text
    return Given(Conversation([Message.system(system), Message.user(said)]), None if is_read else text)


def _is_file(given: str) -> bool:
    try:
        return Path(given).is_file()
    except OSError:  # words that are too long for a name
        return False


def _format_of(text: str) -> str | None:
    """The format of a conversation; None for a text, which may mention special tokens, have headings, or be a number.

    So the text must begin as a conversation does.
    """
    beginning = text.lstrip()
    is_json = _looks_like_json(beginning)
    if not is_json and not beginning.startswith(_BEGINNINGS):
        return None
    try:
        return recognise(text)
    except InputError:
        if is_json:
            raise
        return None


def _import(text: str, name: str) -> Conversation:
    if name == _HARMONY:  # a prompt ends where the answer begins
        text = text.rstrip().removesuffix("<|start|>assistant")
    imported = format_named(name).read(text)
    click.echo(f"detected format: {name}", err=True)
    for loss in imported.losses:
        click.echo(f"note: {show(str(loss))}", err=True)
    return imported.conversation


def _looks_like_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return text.startswith(("{", "["))


async def _record(
    engine_name: str,
    model: str | None,
    api_key: str | None,
    path: str,
    conversation: Conversation,
    request: Request,
    shown: str,
) -> Summary:
    # Engines may need extras, which a `--help` should not.
    from harmonia.run.engines.recording import RecordingEngine

    prompt = render(conversation).tokens
    engine = await _open(engine_name, model, api_key)
    try:
        recording = RecordingEngine(engine, path)
    except OSError:
        await engine.close()
        raise
    printer = Printer(shown)
    try:
        async for item in recording.generate(prompt, request):
            if isinstance(item, Chunk):
                printer.take(item)
                continue
            return Summary(
                path,
                engine.name,
                engine.model,
                len(prompt),
                printer.chunks,
                printer.tokens if engine.traits.gives_tokens else None,
                item.reason,
                item.notes,
            )
        return Summary(path, engine.name, engine.model, len(prompt), printer.chunks, printer.tokens, "unknown", ())
    finally:
        printer.close()
        await recording.close()


async def _open(name: str, model: str | None, api_key: str | None) -> Engine:
    from harmonia.run.engines.registry import open_engine

    return await open_engine(name, model, **({"api_key": api_key} if api_key else {}))


class Printer:
    """Prints what comes in, as it comes in. `shown` is "visible", "everything" or "nothing"."""

    def __init__(self, shown: str) -> None:
        self.chunks = 0
        self.tokens = 0
        self._shown = shown
        self._parser = Parser(Role.ASSISTANT)
        self._decoder = IncrementalDecoder()
        self._index = -1  # of the visible message that is being printed
        self._last = ""

    def take(self, chunk: Chunk) -> None:
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
            if isinstance(event, MessageStarted) and self._last:
                self._index += 1
            elif isinstance(event, TextDelta) and is_visible_header(event.header):
                if self._index >= 0:
                    self._print("\n\n")
                    self._index = -1
                self._print(event.text)

    def _print(self, text: str) -> None:
        self._last = text or self._last
        # A file gets the very text; in a terminal nothing that a model wrote may move the cursor or set colours.
        is_terminal = sys.stdout.isatty()
        click.echo("\n".join(map(show, text.split("\n"))) if is_terminal else text, nl=False)


def _describe(summary: Summary, hint: str) -> str:
    sampled = "text" if summary.sampled_tokens is None else count(summary.sampled_tokens, "token")
    lines = [
        f"captured {summary.engine} ({summary.model}): {count(summary.prompt_tokens, 'token')} of prompt, {sampled} in "
        f"{count(summary.chunks, 'chunk')}, ended by {summary.reason}",
        *(f"note: {note}" for note in summary.notes),
        hint,
    ]
    return "\n".join(lines)


def _hint(path: str, prompt: str | None, effort: str | None) -> str:
    """How to replay the capture. A replay compares prompts, so only the same words with the same effort will do."""
    command = ["harmonia", "chat", "-m", f"replay:{path}"]
    if prompt is None or len(prompt) > _LONG_CHARS or show(prompt) != prompt or prompt.startswith("-"):
        return f"hint: {shlex.join([*command, '-o', 'strict', 'false'])} replays it, whatever you ask"
    return f"hint: {shlex.join([*command, *(('-r', effort) if effort else ()), prompt])} replays it"
