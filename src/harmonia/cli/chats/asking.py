"""Asking the person at the terminal: for the next question, and whether a call may run.

prompt_toolkit makes lines editable, keeps what was asked, and takes pasted lines as one question; without it, plain
lines do. Either way the prompt is written to stderr: stdout is for answers.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harmonia.cli.display import show
from harmonia.parts import Call
from harmonia.run.approval import Answer, Approve, Decision, Edit, Refuse
from harmonia.run.turn_events import PendingCall

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

_CHOICES = "[y] run  [a] always  [n] refuse  [e] edit the arguments  [w] write the answer"


class Asker:
    """Reads lines from the terminal. `history` is the file in which questions are kept."""

    def __init__(self, history: Path | None = None) -> None:
        self._session = _new_session(history)

    async def line(self, prompt: str, default: str = "") -> str:
        """One answer. EOFError at the end of input, KeyboardInterrupt for Ctrl-C."""
        if self._session is None:
            return _read_plainly(prompt)
        # Its own handling of signals would take away ours for good. In its raw mode Ctrl-C is a key like others.
        return await self._session.prompt_async(prompt, default=default, handle_sigint=False)


class Approvals:
    """Asks about each call, and remembers the tools that were allowed for good. Ctrl-C calls `stop`."""

    def __init__(self, asker: Asker, stop: Callable[[], None]) -> None:
        self._asker = asker
        self._stop = stop
        self._always: set[str] = set()

    async def __call__(self, pending: PendingCall) -> Decision:
        call = pending.call
        # For good means calls that were certainly made; of others a person has to see each one.
        if call.recipient in self._always and call.status == "certain":
            return Approve()
        click.secho(f"the model wants to call {show(call.recipient)}", bold=True, err=True)
        click.echo("  " + "\n  ".join(map(show, _pretty(call.value, call.text).split("\n"))), err=True)
        if call.status != "certain":
            click.secho(f"  careful: nobody can say that the model meant this as a call ({call.status})", err=True)
        try:
            return await self._ask(call)
        except EOFError:
            return Refuse()
        except KeyboardInterrupt:
            self._stop()
            await asyncio.sleep(0)  # the run breaks in here
            return Refuse()

    async def _ask(self, call: Call) -> Decision:
        while True:
            answer = (await self._asker.line(f"{_CHOICES}: ")).strip().lower()
            match answer:
                case "y" | "yes":
                    return Approve()
                case "a" | "always":
                    self._always.add(call.recipient)
                    return Approve()
                case "n" | "no":
                    reason = await self._asker.line("why (may be empty): ")
                    return Refuse(reason.strip() or None)
                case "e" | "edit":
                    edited = await self._asker.line("arguments: ", call.text)
                    if not call.is_json:
                        return Edit(edited)
                    try:
                        return Edit(json.loads(edited))
                    except (ValueError, RecursionError) as error:
                        click.echo(f"that is not JSON: {error}", err=True)
                case "w" | "write":
                    return Answer(await self._asker.line("answer: "))
                case _:
                    pass


def _pretty(value: Any, text: str) -> str:
    return text if value is None else json.dumps(value, ensure_ascii=False, indent=2)


def _read_plainly(prompt: str) -> str:
    """A line without an editor. It holds up the event loop: in a thread, nothing could break into it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        click.echo(prompt, nl=False, err=True)
        return input()
    finally:
        signal.signal(signal.SIGINT, before)


def _new_session(history: Path | None) -> PromptSession[str] | None:
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import FileHistory
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
        output=create_output(stdout=sys.stderr),
    )
