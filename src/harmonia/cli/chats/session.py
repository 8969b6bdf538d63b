"""A chat: how it begins with what the options name, and how its one conversation grows."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, Unpack

import click
import msgspec

from harmonia.cli.chats.asking import Approvals, Asker, Console
from harmonia.cli.chats.chat_files import SavedChats
from harmonia.cli.chats.screen import Screen
from harmonia.cli.display import readable, show
from harmonia.cli.tools import import_functions
from harmonia.errors import ErrorCode, HarmonyError, InputError
from harmonia.messages import Conversation, Message, Role
from harmonia.run.default_paths import pins_file
from harmonia.run.engines.base import Usage
from harmonia.run.engines.recording import RecordingEngine
from harmonia.run.engines.registry import discover, find_kind, is_gpt_oss, open_model
from harmonia.run.events import RunEnded
from harmonia.run.loop import Run
from harmonia.run.options import RunChanges, RunOptions, with_changes
from harmonia.run.sampling import Model, declared_namespaces, engine_of
from harmonia.run.tools import ToolLike, ToolSet

if TYPE_CHECKING:
    from harmonia.families.profiles import ModelProfile
    from harmonia.run.tools.mcp import McpTools


# ask      every call is asked about
# certain  what was certainly called runs; nothing else does
# all      what was read from text runs, too
Approval = Literal["ask", "certain", "all"]
# What becomes of a tool of an MCP server that is new; a changed one is always asked about.
McpPolicy = Literal["ask", "trust_first", "refuse"]


class Options(msgspec.Struct, frozen=True):
    """The options of the command line."""

    engine: str | None
    model: str | None
    profile: str | None
    profiles_file: str | None
    api_key: str | None
    instructions: str | None
    run: RunOptions
    engine_options: dict[str, Any]
    functions: tuple[str, ...]
    mcp: Path | None
    mcp_policy: McpPolicy
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
    record: Path | None


@dataclass(slots=True)
class Session:
    """The state of a chat; `ask` and `resume` change it."""

    model: Model
    screen: Screen
    tools: ToolSet
    conversation: Conversation = field(default_factory=Conversation)
    options: RunOptions = field(default_factory=RunOptions)
    chat_id: str | None = None
    engine: str | None = None  # the name by which the model is found again
    saved: SavedChats | None = None
    refresh_tools: Callable[[], Awaitable[ToolSet | None]] | None = None  # None where they are as before
    usage: Usage = field(default_factory=Usage)  # of the last run
    _running: Run | None = None

    async def ask(self, question: str) -> RunEnded:
        """Ask, print the answer as it comes, and keep both."""
        return await self._run(self.conversation.add(Message.user(question)), resume=False)

    async def resume(self) -> RunEnded:
        """Go on with the answer that was cut off; where nothing of it came, or only calls, ask the model again."""
        last = self.conversation[-1].role if len(self.conversation) else None
        return await self._run(self.conversation, resume=last not in (Role.TOOL, Role.USER))

    async def retry(self) -> RunEnded:
        """Ask the last question again, without its answer."""
        return await self._run(self.conversation[: self.last_question() + 1], resume=False)

    def undo(self) -> None:
        """Take back the last question and its answer."""
        self.conversation = self.conversation[: self.last_question()]
        self.save()

    def fork(self) -> str:
        """Go on under another id; what was is left as it is."""
        self.chat_id = SavedChats.new_id()
        return self.chat_id

    def save(self) -> None:
        if self.saved is not None and any(message.role is Role.USER for message in self.conversation):
            self.chat_id = self.chat_id or SavedChats.new_id()
            self.saved.save(self.chat_id, self.conversation, self.model.model, self.engine)

    def change(self, **changes: Unpack[RunChanges]) -> None:
        """Change options of the runs to come."""
        self.options = with_changes(self.options, changes)

    def stop(self) -> None:
        """Stop the answer that is coming, if one is; what came is kept."""
        if self._running is not None:
            self._running.stop()

    def last_question(self) -> int:
        """Which message of the conversation it is."""
        for at in range(len(self.conversation) - 1, -1, -1):
            if self.conversation[at].role is Role.USER:
                return at
        raise InputError(ErrorCode.RUN_INVALID_OPTION, "there is no question yet")

    async def _run(self, conversation: Conversation, *, resume: bool) -> RunEnded:
        if self.refresh_tools is not None:
            self.tools = await self.refresh_tools() or self.tools
        self.screen.begin()
        run = Run(self.model, conversation, self.options, tools=self.tools if len(self.tools) else None, resume=resume)
        self._running = run
        try:
            with _on_interrupt(run.stop):
                async with run:
                    async for event in run:
                        self.screen.show(event)
        finally:
            # What came is kept, whatever ended it.
            self._running = None
            self.screen.finish()
            self.conversation, self.usage = run.conversation, run.usage
            self.save()
        assert run.ended is not None
        return run.ended


@contextmanager
def _on_interrupt(stop: Callable[[], None]) -> Generator[None]:
    """Ctrl-C stops the answer. A second one, for an engine that does not listen, ends the program."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    pressed = False

    def interrupt() -> None:
        nonlocal pressed
        if pressed and task is not None:
            task.cancel()
        pressed = True
        stop()

    try:
        loop.add_signal_handler(signal.SIGINT, interrupt)
    except (NotImplementedError, RuntimeError):  # no signals on this system, or not the main thread
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


# ── how it begins ───────────────────────────────────────────────────────────────────────────────────────────────────


async def open_session(options: Options, console: Console | None, stack: AsyncExitStack, out: TextIO) -> Session:
    """A chat that is ready for its first question. Without a `console`, nobody can be asked; answers go to `out`."""
    approval = options.approval or ("ask" if console is not None else "certain")
    if approval == "ask" and console is None:
        raise click.UsageError("--approve ask needs a terminal to ask in")
    if options.profiles_file is not None and options.profile is None:
        raise click.UsageError("--profiles needs --profile")
    saved = SavedChats()
    chat_id, conversation = None, Conversation()
    if options.continues or options.chat_id or options.forks:
        chat_id, conversation = saved.load(options.chat_id)
    if options.instructions is not None:
        if any(message.role is Role.DEVELOPER for message in conversation):
            raise click.UsageError("the chat has instructions already; leave --system out, or begin another chat")
        head = [message for message in conversation if message.role is Role.SYSTEM]
        conversation = Conversation([*head, Message.developer(options.instructions), *conversation[len(head) :]])
    functions = [tool for written in options.functions for tool in import_functions(written, option="--tool")]
    engine, model_name = options.engine, options.model
    if engine is None and chat_id is not None:
        engine, known = saved.engine_of(chat_id)
        model_name = model_name or (known if engine is not None else None)
    model = await _open_model(engine or "auto", model_name, options)
    if options.record is not None:
        model = await _record(model, options.record)
    stack.push_async_callback(model.close)
    context = model.traits.context_tokens
    screen = Screen(
        reasoning=options.reasoning, quiet=options.quiet, silent=options.as_json, context_tokens=context, out=out
    )
    if approval == "certain":
        screen.approval_hint = (
            "a call read from text needs approval: --approve all runs such calls, --approve ask asks in a terminal"
        )
    kind = find_kind(model.name)
    if options.profile is None and kind is not None and kind.is_server and not is_gpt_oss(model.model):
        screen.silence_hint = (
            f"{model.model} does not look like a gpt-oss, and other models do not speak Harmony; add --profile auto to "
            "run it in its own format"
        )
    tools, refresh = ToolSet(functions), None
    if options.mcp is not None:
        mcp = await _connect(options.mcp, options.mcp_policy, console, stack)
        tools, refresh = _with_mcp(functions, mcp, screen)
    used = {f"{space.name}.{tool.name}" for space in declared_namespaces(conversation) for tool in space.tools}
    if missing := sorted(name for name in used if tools.find(name) is None):
        screen.say(f"note: this chat used tools that are not loaded ({', '.join(missing)}); add them with -T or --mcp")
    profile: ModelProfile | str | None = options.profile
    if options.profiles_file is not None:  # a run finds a profile by its name, but not in a file
        from harmonia.run.family_models import choose_profile

        profile = choose_profile(options.profile, model, options.profiles_file)
    session = Session(
        model,
        screen,
        tools,
        conversation,
        msgspec.structs.replace(options.run, allow_unverified=approval == "all", profile=profile),
        chat_id=None if options.forks else chat_id,
        engine=name_to_keep(engine),
        saved=saved if options.saves else None,
        refresh_tools=refresh,
    )
    if approval == "ask" and console is not None:
        session.change(approve=Approvals(Asker(console), session.stop))
    return session


# ── the model ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def _open_model(engine: str, model: str | None, options: Options) -> Model:
    kind = find_kind(engine.partition(":")[0])
    # What runs in this process needs no key, whatever key the environment has for others.
    has_key = options.api_key is not None and (kind is None or kind.takes_key)
    given: dict[str, Any] = {"api_key": options.api_key} if has_key else {}
    given |= options.engine_options
    own = ("context_tokens",) if kind is None else tuple(kind.options)
    for name in options.engine_options:
        if name not in own:
            has = f"it has {', '.join(own)}" if own else "it has none of its own"
            raise InputError(
                ErrorCode.ENGINE_INVALID_OPTION, f"{engine} has no setting {name}; {has}, besides the sampling settings"
            )
    if engine != "auto":
        try:
            return await open_model(engine, model, **given)
        except HarmonyError as error:
            if options.api_key is None and "asks for a key" in error.message:
                error.add_note("pass its API key with --api-key, or set HARMONIA_API_KEY")
            raise
    found = await discover(model, api_key=options.api_key)
    if not options.quiet:
        click.secho(f"found {readable(str(found))}", dim=True, err=True)
    return found.open(**given)


def name_to_keep(engine: str | None) -> str | None:
    """The name by which a saved chat finds its engine again; None where it is to be looked for, or might have a key."""
    return None if engine is None or engine == "auto" or "@" in engine or "?" in engine else engine


async def _record(model: Model, path: Path) -> Model:
    if (sampler := engine_of(model)) is None:
        await model.close()
        raise click.UsageError(f"--record needs an engine that returns what it samples; {model.name} does not")
    try:
        return RecordingEngine(sampler, path)
    except OSError as error:
        await model.close()
        raise InputError(ErrorCode.RUN_INVALID_OPTION, f"cannot write {path}: {error.strerror}") from error


# ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _connect(path: Path, policy: McpPolicy, console: Console | None, stack: AsyncExitStack) -> McpTools:
    from harmonia.run.tools.mcp import Change, connect, read_servers

    asks = None if console is None else Asker(console)

    async def consent(change: Change) -> bool:
        if asks is None:
            name = show(f"{change.now.server} {change.now.tool}")
            first = ", or add --mcp-policy trust_first" if change.before is None else ""
            click.echo(
                f"{name} is {change.kind} and not offered: accept it by running this once in a terminal{first}",
                err=True,
            )
            return False
        asks.say(f"a {change.kind} tool of an MCP server:", bold=True)
        asks.say(readable(change.text))
        try:
            answer = await asks.line("agree to this tool? [y/n]: ")
        except (EOFError, KeyboardInterrupt):
            return False
        return answer.strip().lower() in ("y", "yes")

    servers, pins = read_servers(path), pins_file()
    return await stack.enter_async_context(connect(servers, pins=pins, policy=policy, consent=consent))


def _with_mcp(
    functions: list[ToolLike], mcp: McpTools, screen: Screen
) -> tuple[ToolSet, Callable[[], Awaitable[ToolSet | None]]]:
    """The tools with those of the servers, and how they are brought up to date between two questions."""
    before = mcp.tools
    said: dict[str, str] = {}
    _say_errors(mcp, screen, said)

    async def refresh() -> ToolSet | None:
        nonlocal before
        if not mcp.is_stale:
            return None
        now = await mcp.refresh()
        _say_errors(mcp, screen, said)
        old, new = {tool.name for tool in before}, {tool.name for tool in now}
        if gone := sorted(old - new):
            screen.say(f"note: no longer offered: {', '.join(map(show, gone))}")
        if come := sorted(new - old):
            screen.say(f"note: now offered: {', '.join(map(show, come))}")
        before = now
        return ToolSet([*functions, *now])

    return ToolSet([*functions, *before]), refresh


def _say_errors(mcp: McpTools, screen: Screen, said: dict[str, str]) -> None:
    """Report what is wrong with servers, each problem once; `said` has those already reported."""
    for status in mcp.servers:
        if status.error is None:
            said.pop(status.name, None)
        elif said.get(status.name) != str(status.error):
            said[status.name] = str(status.error)
            screen.say(f"note: {show(str(status.error))}")
            for note in getattr(status.error, "__notes__", ()):
                screen.say(note)
