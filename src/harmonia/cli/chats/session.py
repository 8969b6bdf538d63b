"""A chat: one model, one conversation that grows, and what is set for the next question."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Unpack

from harmonia.cli.chats.saved import SavedChats
from harmonia.cli.chats.screen import Screen
from harmonia.errors import ErrorCode, InputError
from harmonia.messages import Conversation, Message, Role
from harmonia.run.engines.base import Usage
from harmonia.run.events import RunEnded
from harmonia.run.loop import Run
from harmonia.run.options import RunChanges, RunOptions, with_changes
from harmonia.run.sampling import Model
from harmonia.run.tools import ToolSet


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

    def save(self) -> Path | None:
        if self.saved is None or not any(message.role is Role.USER for message in self.conversation):
            return None
        self.chat_id = self.chat_id or SavedChats.new_id()
        return self.saved.save(self.chat_id, self.conversation, self.model.model, self.engine)

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
