"""`harmonia chat`: a conversation in the terminal, or one question."""

from __future__ import annotations

import asyncio
import difflib
import sys
from contextlib import AsyncExitStack, redirect_stdout
from pathlib import Path
from typing import Any, Final, TextIO, get_args

import click
import msgspec

from harmonia.cli.chats.asking import Asker, find_console, has_terminal
from harmonia.cli.chats.chat_files import SavedChats, with_files
from harmonia.cli.chats.commands import Commands, Leave
from harmonia.cli.chats.session import Approval, McpPolicy, Options, Session, open_session
from harmonia.cli.display import readable, shorten, show
from harmonia.cli.options import (
    api_key_option,
    color_option,
    decode,
    echo_json,
    effort_option,
    is_coloured,
    profiles_option,
)
from harmonia.errors import HarmonyError
from harmonia.inspection.report import describe_diagnostic
from harmonia.messages import Message, Role
from harmonia.parts import Guessed, call_of, is_visible
from harmonia.run.default_paths import questions_file
from harmonia.run.engines.base import Sampling
from harmonia.run.engines.registry import kinds, names
from harmonia.run.events import RunEnded
from harmonia.run.options import RunLimits, RunOptions

_INTERRUPTED: Final = 130
_KINDS_OF_VALUES: Final = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text"}
_NAMES: Final = "\n".join(f"  {name:18} {opens}" for name, opens in names().items())
_EPILOG: Final = f"\b\nEngines:\n{_NAMES}\n\nIn brackets: what the engine returns."


@click.command("chat", epilog=_EPILOG)
@click.argument("question", nargs=-1)
@click.option(
    "-m",
    "--engine",
    envvar="HARMONIA_ENGINE",
    show_envvar=True,
    show_default="auto, or the engine of the continued chat",
    help="The engine: one of the names below.",
)
@click.option("--model", metavar="NAME", help="The model, if the engine has several.")
@click.option(
    "--profile",
    metavar="NAME|auto",
    help="How a model that is not a gpt-oss writes: a profile, or auto to choose one by the model's name. Its calls "
    "are read from text, so you are asked before they run, unless you pass --approve all.",
)
@profiles_option
@api_key_option
@click.option("-s", "--system", "instructions", metavar="TEXT", help="Instructions for the model.")
@effort_option
@click.option(
    "-o",
    "--option",
    "settings",
    type=(str, str),
    multiple=True,
    metavar="NAME VALUE",
    help="A sampling setting, such as temperature 0.5, or an engine setting, such as delay_s 0.02 for demo.",
)
@click.option(
    "-T",
    "--tool",
    "functions",
    multiple=True,
    metavar="MODULE:NAME|FILE.py[:NAME]",
    help="A Python function that the model may call; without :NAME, all functions marked with @tool. The module is "
    "imported, so its code runs.",
)
@click.option(
    "--mcp",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="MCP servers whose tools the model may call: a JSON file with mcpServers.",
)
@click.option(
    "--mcp-policy",
    type=click.Choice(get_args(McpPolicy)),
    default="ask",
    show_default=True,
    help="What to do with a new tool of an MCP server.",
)
@click.option(
    "--approve",
    "approval",
    type=click.Choice(get_args(Approval)),
    help="When calls run: ask before each; certain runs calls confirmed by token ids; all also runs calls read from "
    "text. [default: ask, or certain without a terminal]",
)
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A text file to ask about.",
)
@click.option("-c", "--continue", "continues", is_flag=True, help="Continue the last chat.")
@click.option("--cid", "chat_id", metavar="ID", help="Continue this chat.")
@click.option(
    "--fork",
    "forks",
    is_flag=True,
    help="Continue the last chat (or --cid) as a new one; the original stays unchanged.",
)
@click.option("--list", "lists", is_flag=True, help="List the saved chats, the newest last; also with --json.")
@click.option("--save/--no-save", "saves", default=True, help="Save the chat, to continue it later.  [default: save]")
@click.option("-R", "--reasoning", is_flag=True, help="Show the model's reasoning, on stderr.")
@click.option(
    "--guessed",
    type=click.Choice(get_args(Guessed)),
    default="hidden",
    envvar="HARMONIA_GUESSED",
    show_default=True,
    help="Text in a damaged answer whose channel is unknown: hide it, or show it as the answer.",
)
@click.option("-u", "--usage", is_flag=True, help="Report the cost in tokens, on stderr.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the answer and errors.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer, its calls and its costs as JSON.")
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Record the engine's prompts and samples in this file, for -m replay:FILE.",
)
@click.option(
    "--time-limit", "time_s", type=click.FloatRange(min=0, min_open=True), help="Stop after this many seconds."
)
@color_option
@click.pass_context
def command(
    context: click.Context,
    question: tuple[str, ...],
    lists: bool,
    settings: tuple[tuple[str, str], ...],
    color: str,
    **options: Any,
) -> None:
    """Talk with a gpt-oss model, or ask it one QUESTION. Text on standard input counts as a question, too.

    The answer goes to stdout; reasoning, calls and costs go to stderr. Ctrl-C stops an answer and keeps what arrived.
    Exit codes: 0 answered, 1 an error or an empty answer, 4 no engine found, 130 stopped.
    """
    context.color = is_coloured(color)
    if lists:
        _list_chats(as_json=options["as_json"])
        return
    sampling, engine_options = _read_settings(settings)
    run = RunOptions(
        sampling=sampling,
        effort=options.pop("effort"),
        guessed=options.pop("guessed"),
        limits=RunLimits(time_s=options.pop("time_s")),
    )
    chosen = Options(run=run, engine_options=engine_options, **options)
    asked = _question(question, chosen.files)
    if asked is None and chosen.as_json:
        raise click.UsageError("--json needs a question on the command line or on standard input")
    try:
        # What tools print, now or later in their threads, must not be mistaken for the answer.
        out = sys.stdout
        with redirect_stdout(sys.stderr):
            code = asyncio.run(_chat(chosen, asked, out))
    except asyncio.CancelledError:  # Ctrl-C for the second time
        code = _INTERRUPTED
    if code:
        sys.exit(code)


async def _chat(options: Options, question: str | None, out: TextIO) -> int:
    async with AsyncExitStack() as stack:
        console = find_console(stack)
        session = await open_session(options, console, stack, out)
        if question is not None:
            return await _ask_once(session, options, with_files(question, options.files))
        assert console is not None
        asker = Asker(console, questions_file() if options.saves else None)
        return await _converse(session, options, asker)


# ── one question ────────────────────────────────────────────────────────────────────────────────────────────────────


async def _ask_once(session: Session, options: Options, question: str) -> int:
    try:
        ended = await session.ask(question)
    except HarmonyError as error:
        if options.as_json:
            # What came before is part of it; the command says on stderr what happened.
            failed = {"error": {"code": error.code.value, "message": error.message}}
            echo_json(_describe(session, options) | failed, session.screen.out)
        raise
    if options.as_json:
        echo_json(_describe(session, options, ended), session.screen.out)
    elif options.usage:
        session.screen.say_costs(session.usage)
    if ended.reason == "stopped":
        return _INTERRUPTED
    return 0 if ended.reason != "limit" and _answer(session) else 1


def _describe(session: Session, options: Options, ended: RunEnded | None = None) -> dict[str, Any]:
    """What came of the question. Without an end it failed."""
    diagnostics = [describe_diagnostic(diagnostic) for diagnostic in session.screen.diagnostics]
    if not options.reasoning:
        # What was found may be a thought.
        diagnostics = [{name: each[name] for name in each if name != "found"} for each in diagnostics]
    return {
        "text": _answer(session),
        "reason": "error" if ended is None else ended.reason,
        "limit": None if ended is None else ended.limit,
        "hidden_because": None if ended is None else ended.hidden_because,
        "error": None,
        "engine": session.model.name,
        "model": session.model.model,
        "chat": session.chat_id,
        "calls": [
            {
                "id": call.id,
                "recipient": call.call.recipient,
                "arguments": call.call.value if call.call.is_json else call.call.text,
                "result": call.result.text,
                "is_error": call.result.is_error,
                "duration_s": round(call.duration_s, 3) if call.id in session.screen.ran else None,
            }
            for call in session.screen.calls
        ],
        "usage": session.screen.costs(session.usage),
        "diagnostics": diagnostics,
        "messages": [
            message.to_dict() for message in session.conversation if options.reasoning or not _is_hidden(message)
        ],
    }


def _answer(session: Session) -> str:
    """What was said on `final` since the last question."""
    said = session.conversation[session.last_question() + 1 :]
    finals = (message.text for message in said if message.channel == "final" and is_visible(message))
    return "\n\n".join(text for text in finals if text.strip())


def _is_hidden(message: Message) -> bool:
    """Whether it is something that the user was not meant to see: a thought, or what may be one."""
    if message.role is not Role.ASSISTANT:
        return message.channel == "analysis"  # the result of a call that was made in a thought
    is_call = message.channel == "commentary" and call_of(message) is not None
    return not is_visible(message) and not is_call


# ── a conversation ──────────────────────────────────────────────────────────────────────────────────────────────────


async def _converse(session: Session, options: Options, asker: Asker) -> int:
    commands = Commands(session)
    session.screen.can_continue = True
    names = dict.fromkeys((session.model.name, show(session.model.model)))
    click.echo(f"{', '.join(names)}. /help lists the commands.", err=True)
    if options.files:
        commands.add_files(options.files)
    while True:
        try:
            typed = (await asker.line("> ")).strip()
        except KeyboardInterrupt:
            click.secho("press Ctrl-D to leave", dim=True, err=True)
            continue
        except EOFError:
            return 0
        if not typed:
            continue
        try:
            if typed.startswith("/") and not typed.startswith("//"):
                ended = await commands.run(typed)
            else:
                ended = await session.ask(commands.question(typed.removeprefix("/")))
        except Leave:
            return 0
        except HarmonyError as error:
            # The question is in the history of the prompt, and what came is kept.
            click.echo(readable(f"error: {error}"), err=True)
            continue
        if ended is not None and not options.quiet:
            session.screen.say_costs(session.usage)


# ── options ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _question(words: tuple[str, ...], files: tuple[Path, ...]) -> str | None:
    """The question: standard input, then the command line; None for a conversation."""
    asked, piped = "" if words == ("-",) else " ".join(words).strip(), ""
    stdin = sys.stdin
    if stdin is not None and not stdin.isatty():  # pyright: ignore[reportUnnecessaryComparison] -- None: it is closed
        piped = decode(stdin.buffer.read(), "standard input").removeprefix("\ufeff").strip("\r\n")
    question = "\n\n".join(part for part in (piped, asked) if part.strip())
    if not question and not has_terminal():
        about = f" about {', '.join(path.name for path in files)}" if files else ""
        raise click.UsageError(f"no question: give one on the command line{about}, or on standard input")
    return question or None


def _read_settings(settings: tuple[tuple[str, str], ...]) -> tuple[Sampling, dict[str, Any]]:
    """Settings of the sampling, and of whatever engine has one of this name."""
    sampling_types = {field.name: field.type for field in msgspec.structs.fields(Sampling)}
    engine_types = {name: type_ for kind in kinds() for name, type_ in kind.options.items()}
    known = {**sampling_types, **engine_types}
    values: dict[str, Any] = {}
    for name, written in settings:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
            raise click.BadParameter(f"unknown setting {name!r}; {hint}", param_hint="--option")
        try:
            values[name] = msgspec.convert(written, known[name], strict=False)
        except msgspec.ValidationError as error:
            expected = next(words for type_, words in _KINDS_OF_VALUES.items() if type_ in str(known[name]))
            raise click.BadParameter(f"{name} is {expected}, not {written!r}", param_hint="--option") from error
    return (
        Sampling(**{name: value for name, value in values.items() if name in sampling_types}),
        {name: value for name, value in values.items() if name not in sampling_types},
    )


def _list_chats(*, as_json: bool) -> None:
    chats = SavedChats().list()
    if not chats and not as_json:
        click.echo("no saved chats", err=True)
    for chat in chats:
        if as_json:
            echo_json(chat)
        else:
            click.echo(f"{chat.id}  {chat.messages:>4}  {shorten(chat.model, 20)}  {shorten(chat.question, 80)}")
