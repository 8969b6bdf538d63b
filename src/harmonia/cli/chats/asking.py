"""Ask the person at the terminal: for the next question, and whether a call may run.

With prompt_toolkit lines can be edited, have a history, and pasted lines are one question; without it, plain lines are
read. The prompt goes to the terminal, never to stdout, which is for answers: through stdin and stderr if they are the
terminal, and through /dev/tty if one of them is a pipe or a file.
"""

from __future__ import annotations

import asyncio
import json
import select
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

import click

from harmonia.cli.display import show
from harmonia.parts import Call
from harmonia.run.events import PendingCall
from harmonia.run.tool_calls import Answer, Approve, Decision, Edit, Refuse

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

_CHOICES = "[y] run  [a] always run  [n] refuse  [e] edit the arguments  [w] write the result yourself"
_LOOK_UP_S = 0.5


class Console(NamedTuple):
    """A terminal: where a person types, and where that person reads."""

    keys: TextIO
    screen: TextIO


def has_terminal() -> bool:
    """Whether stdin and stderr are a terminal, so that there can be a conversation."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty())


def find_console(stack: AsyncExitStack) -> Console | None:
    """The terminal, also where stdin is a pipe or stderr a file; None where there is none at all."""
    if has_terminal():
        return Console(sys.stdin, sys.stderr)
    try:
        keys = stack.enter_context(open("/dev/tty", encoding="utf-8", errors="replace"))  # noqa: SIM115 -- the stack closes it
        screen = stack.enter_context(open("/dev/tty", "w", encoding="utf-8", errors="replace"))  # noqa: SIM115
    except OSError:
        return None
    return Console(keys, screen)


class Asker:
    """Reads lines from a terminal. `history` is the file in which questions are kept."""

    def __init__(self, console: Console, history: Path | None = None) -> None:
        self._console = console
        self._session = _new_session(console, history)

    def say(self, line: str, *, bold: bool = False) -> None:
        """Print what the person must read before answering, in the place where the question is asked."""
        click.secho(line, bold=bold or None, file=self._console.screen)

    async def line(self, prompt: str, default: str = "") -> str:
        """One answer. EOFError at the end of input, KeyboardInterrupt for Ctrl-C."""
        if self._session is None:
            return _read_plainly(prompt, self._console)
        # Its signal handling would replace ours for good. In its raw mode Ctrl-C is a key like any other.
        return await self._session.prompt_async(prompt, default=default, handle_sigint=False)


class Approvals:
    """Asks about each call, and remembers the tools that may always run. Ctrl-C calls `stop`."""

    def __init__(self, asker: Asker, stop: Callable[[], None]) -> None:
        self._asker = asker
        self._stop = stop
        self._always: set[str] = set()

    async def __call__(self, pending: PendingCall) -> Decision:
        call = pending.call
        # "Always" covers certain calls only; a person decides about each of the others.
        if call.recipient in self._always and call.status == "certain":
            return Approve()
        say = self._asker.say
        say(f"the model wants to call {show(call.recipient)}", bold=True)
        shown = call.text if call.value is None else json.dumps(call.value, ensure_ascii=False, indent=2)
        say("  " + "\n  ".join(map(show, shown.split("\n"))))
        if call.status != "certain":
            say(f"  careful: it is not certain that the model meant this as a call ({call.status})")
        try:
            return await self._ask(call)
        except EOFError:
            return Refuse()
        except KeyboardInterrupt:
            self._stop()
            await asyncio.sleep(0)  # the run breaks in here
            return Refuse()

    async def _ask(self, call: Call) -> Decision:
        edited = call.text
        while True:
            answer = (await self._asker.line(f"{_CHOICES}: ")).strip().lower()
            match answer:
                case "y" | "yes":
                    return Approve()
                case "a" | "always":
                    self._always.add(call.recipient)
                    return Approve()
                case "n" | "no":
                    reason = await self._asker.line("reason (optional): ")
                    return Refuse(reason.strip() or None)
                case "e" | "edit":
                    edited = await self._asker.line("arguments: ", edited)
                    if not call.is_json:
                        return Edit(edited)
                    try:
                        return Edit(json.loads(edited))
                    except (ValueError, RecursionError) as error:
                        self._asker.say(f"not valid JSON: {error}; press e to edit it again")
                case "w" | "write":
                    return Answer(await self._asker.line("result: "))
                case _:
                    pass


def _read_plainly(prompt: str, console: Console) -> str:
    """A line without an editor. It blocks the event loop: a read in a thread could not be interrupted."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        click.echo(prompt, nl=False, file=console.screen)
        # A Ctrl-C just before a blocking read is noticed only when the read ends, so wait until a line was typed. Not
        # for a pipe, whose data may already be in a buffer.
        is_terminal = sys.platform != "win32" and console.keys.isatty()
        while is_terminal and not select.select([console.keys], [], [], _LOOK_UP_S)[0]:
            pass
        if console.keys is sys.stdin:
            return input()
        line = console.keys.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")
    finally:
        signal.signal(signal.SIGINT, before)


def _new_session(console: Console, history: Path | None) -> PromptSession[str] | None:
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import FileHistory
        from prompt_toolkit.input import create_input
        from prompt_toolkit.key_binding import KeyBindings
        from prompt_toolkit.key_binding.key_processor import KeyPressEvent
        from prompt_toolkit.output import create_output
    except ImportError:
        return None
    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _new_line(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction] -- the decorator keeps it
        event.current_buffer.insert_text("\n")

    if history is not None:
        history.touch(mode=0o600)
    return PromptSession(
        history=None if history is None else FileHistory(str(history)),
        key_bindings=keys,
        input=create_input(console.keys),
        output=create_output(console.screen),
    )
