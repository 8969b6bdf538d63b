"""How a chat begins: the engine, the tools and the saved conversation that the options name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
import msgspec

from harmonia.cli.chats.asking import Approvals, Asker
from harmonia.cli.chats.saved import SavedChats, state_folder
from harmonia.cli.chats.screen import Screen
from harmonia.cli.chats.session import Session
from harmonia.cli.display import readable, show
from harmonia.cli.tools import import_functions
from harmonia.messages import Conversation, DeveloperContent, Message, Role, SystemContent
from harmonia.run.engines.discovery import discover, open_model
from harmonia.run.engines.engine import Sampling
from harmonia.run.limits import RunLimits
from harmonia.run.loop import Model
from harmonia.run.tools import ToolLike, ToolSet

if TYPE_CHECKING:
    from harmonia.run.tools.mcp import McpTools

# ask      every call is asked about
# certain  what was certainly called runs; nothing else does
# all      what was read from text runs, too
Approval = Literal["ask", "certain", "all"]


class EngineOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """Options of engines that can be written in a shell. Which of them an engine has, it says itself."""

    context_tokens: int | None = None
    delay_s: float | None = None  # demo
    tokens_per_chunk: int | None = None
    timing: str | None = None  # replay
    strict: bool | None = None
    device: str | None = None  # transformers
    dtype: str | None = None


class Options(msgspec.Struct, frozen=True):
    """The options of the command line."""

    engine: str
    model: str | None
    api_key: str | None
    instructions: str | None
    effort: str | None
    sampling: Sampling
    engine_options: EngineOptions
    functions: tuple[str, ...]
    mcp: Path | None
    approval: Approval | None
    files: tuple[Path, ...]
    chat_id: str | None
    continues: bool
    forks: bool
    saves: bool
    reasoning: bool
    usage: bool
    quiet: bool
    as_json: bool
    time_s: float | None


async def open_session(options: Options, asker: Asker | None, stack: AsyncExitStack) -> Session:
    """A chat that is ready for its first question. Without an `asker`, nobody can be asked."""
    approval = options.approval or ("ask" if asker is not None else "certain")
    if approval == "ask" and asker is None:
        raise click.UsageError("--approve ask needs a terminal to ask in")
    saved = SavedChats()
    chat_id, conversation = None, Conversation()
    if options.continues or options.chat_id or options.forks:
        chat_id, conversation = saved.load(options.chat_id)
    if options.instructions is not None:
        conversation = _with_instructions(conversation, options.instructions)
    functions = [tool for written in options.functions for tool in _import_functions(written)]
    model = await _open_model(options)
    stack.push_async_callback(model.close)
    screen = Screen(
        reasoning=options.reasoning,
        quiet=options.quiet,
        silent=options.as_json,
        context_tokens=_context_tokens(model),
    )
    tools, refresh = ToolSet(functions), None
    if options.mcp is not None:
        mcp = await _connect(options.mcp, asker, stack)
        tools, refresh = _with_mcp(functions, mcp, screen)
    missing = sorted(name for name in _declared(conversation) if tools.find(name) is None)
    if missing:
        screen.say(f"note: the chat has tools that are not here ({', '.join(missing)}); -T and --mcp bring them")
    session = Session(
        model,
        screen,
        tools,
        conversation,
        options.effort,
        options.sampling,
        RunLimits(time_s=options.time_s),
        allow_unverified=approval == "all",
        chat_id=None if options.forks else chat_id,
        saved=saved if options.saves else None,
        refresh_tools=refresh,
    )
    if approval == "ask":
        session.approve = Approvals(Asker(), session.stop)
    return session


# ── the model ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def _open_model(options: Options) -> Model:
    given: dict[str, Any] = {} if options.api_key is None else {"api_key": options.api_key}
    given |= msgspec.to_builtins(options.engine_options)
    if options.engine != "auto":
        return await open_model(options.engine, options.model, **given)
    found = await discover(options.model, api_key=options.api_key)
    if not options.quiet:
        click.secho(f"found {readable(str(found))}", dim=True, err=True)
    return found.open(**given)


def _context_tokens(model: Model) -> int | None:
    traits = getattr(model, "traits", None)  # a provider has none: it does not say
    return None if traits is None else traits.context_tokens


# ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _import_functions(written: str) -> list[ToolLike]:
    try:
        return import_functions(written)
    except click.BadParameter as error:
        error.param_hint = "--tool"
        raise


async def _connect(path: Path, asker: Asker | None, stack: AsyncExitStack) -> McpTools:
    from harmonia.run.tools.mcp import Change, connect, read_servers

    asks = None if asker is None else Asker()

    async def consent(change: Change) -> bool:
        click.secho(f"a {change.kind} tool of an MCP server:", bold=True, err=True)
        click.echo(readable(change.text), err=True)
        if asks is None:
            click.echo("not agreed to: there is no terminal to ask in", err=True)
            return False
        try:
            answer = await asks.line("agree to this tool? [y/n]: ")
        except (EOFError, KeyboardInterrupt):
            return False
        return answer.strip().lower() in ("y", "yes")

    pins = state_folder() / "mcp-pins.json"
    return await stack.enter_async_context(connect(read_servers(path), pins=pins, consent=consent))


def _with_mcp(
    functions: list[ToolLike], mcp: McpTools, screen: Screen
) -> tuple[ToolSet, Callable[[], Awaitable[ToolSet | None]]]:
    """The tools with those of the servers, and how they are brought up to date between two questions."""
    before = mcp.tools
    _say_errors(mcp, screen)

    async def refresh() -> ToolSet | None:
        nonlocal before
        if not mcp.is_stale:
            return None
        now = await mcp.refresh()
        _say_errors(mcp, screen)
        old, new = {tool.name for tool in before}, {tool.name for tool in now}
        if gone := sorted(old - new):
            screen.say(f"note: no longer offered: {', '.join(map(show, gone))}")
        if come := sorted(new - old):
            screen.say(f"note: now offered: {', '.join(map(show, come))}")
        before = now
        return ToolSet([*functions, *now])

    return ToolSet([*functions, *before]), refresh


def _say_errors(mcp: McpTools, screen: Screen) -> None:
    for status in mcp.servers:
        if status.error is not None:
            screen.say(f"note: {show(status.name)}: {status.error}")
            for note in getattr(status.error, "__notes__", ()):
                screen.say(note)


# ── the conversation ────────────────────────────────────────────────────────────────────────────────────────────────


def _declared(conversation: Conversation) -> set[str]:
    """The whole names of the tools that a saved chat tells the model about."""
    return {
        f"{namespace.name}.{tool.name}"
        for message in conversation
        for content in message.contents
        if isinstance(content, SystemContent | DeveloperContent)
        for namespace in (content.tools or {}).values()
        for tool in namespace.tools
    }


def _with_instructions(conversation: Conversation, instructions: str) -> Conversation:
    if any(message.role is Role.DEVELOPER for message in conversation):
        raise click.UsageError("the chat has instructions already; leave --system out, or begin another chat")
    head = [message for message in conversation if message.role is Role.SYSTEM]
    return Conversation([*head, Message.developer(instructions), *conversation[len(head) :]])
