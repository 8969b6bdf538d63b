"""For scripts: an agent that is asked and answers, with no `async` in sight.

    agent = Agent("demo", tools=[get_weather])
    print(agent.ask("What is the weather in Paris?").text)

It keeps the conversation from one question to the next. Its event loop runs in a thread of its own, so it works where a
loop is already running, as in a notebook. Ctrl-C stops the answer, keeps what came, and raises KeyboardInterrupt.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Coroutine, Iterable, Iterator
from concurrent.futures import Future, wait
from typing import Any, Self, TypeVar, Unpack

import msgspec

from harmonia.messages import Conversation, Message, Role
from harmonia.parts import visible_text
from harmonia.run.engines.base import Usage
from harmonia.run.engines.registry import open_model
from harmonia.run.events import CallEnded, LimitName, RunEnd, TurnEvent, Unmet
from harmonia.run.loop import Run
from harmonia.run.options import RunChanges, RunOptions, SomeTools, tool_set, with_changes
from harmonia.run.sampling import Model, invalid_option

T = TypeVar("T")

# How long the end of a program waits for a function that holds the agent's thread.
_LAST_WAIT_S = 1.0

# A Ctrl-C that comes just before the wait starts is noticed when the wait ends, so it ends now and then.
_WAKE_UP_S = 0.5


class AgentAnswer(msgspec.Struct, frozen=True):
    """What an agent answered: the text for the user, the calls on the way to it, and how the run ended."""

    text: str
    calls: tuple[CallEnded, ...]
    reason: RunEnd
    conversation: Conversation
    usage: Usage
    hidden_because: str | None = None
    limit: LimitName | None = None
    unmet: Unmet | None = None

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        # The conversation would fill the screen.
        calls = ", ".join(f"{call.call.name}({call.call.text})" for call in self.calls)
        return f"<AgentAnswer {self.reason}: {self.text!r}{f', calls: {calls}' if calls else ''}>"


class Agent:
    """A model with instructions and tools, and the conversation with it so far.

    `model` is an engine, or the name of one: "auto", "demo", "ollama:http://localhost:11434", as for the command;
    `model_name` is for providers, and for servers with several models. Use the agent as a context manager, or `close`
    it, to give back its connection. The options of its runs are given as one value, as keywords, or both.
    """

    def __init__(
        self,
        model: Model | str = "auto",
        *,
        model_name: str | None = None,
        api_key: str | None = None,
        instructions: str | None = None,
        conversation: Conversation | Iterable[Message] = (),
        tools: SomeTools = (),
        options: RunOptions | None = None,
        **changes: Unpack[RunChanges],
    ) -> None:
        self.options = with_changes(options, changes)
        self.tools = tool_set(tools)
        self.conversation = conversation if isinstance(conversation, Conversation) else Conversation(conversation)
        if instructions is not None:
            self.conversation = Conversation([Message.developer(instructions), *self.conversation])
        self._asking = threading.Lock()
        self._run: Run | None = None  # the one that is being answered
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run_loop, args=(self._loop,), name="harmonia-agent", daemon=True)
        self._thread.start()
        # An agent that is not closed ends with the last reference to it, or with the program.
        self._end_thread = weakref.finalize(self, _end_thread, self._loop, self._thread)
        key: dict[str, str] = {} if api_key is None else {"api_key": api_key}
        try:
            self.model: Model = self._wait(open_model(model, model_name, **key)) if isinstance(model, str) else model
        except BaseException:
            self._end_thread()
            raise

    def ask(self, question: str, **changes: Unpack[RunChanges]) -> AgentAnswer:
        """Ask, and wait for the answer; tools are called on the way. Options given here, such as a tool choice or a
        response format, replace the agent's own for this question."""
        return self._answer(question, changes)

    def resume(self) -> AgentAnswer:
        """Continue an answer that was cut off by a limit, by `stop`, or by an error."""
        return self._answer(None, {})

    def stop(self) -> None:
        """End the answer soon, from another thread or an approver; what came is kept."""
        if (run := self._run) is not None:
            run.stop()

    def _answer(self, question: str | None, changes: RunChanges) -> AgentAnswer:
        if not self._asking.acquire(blocking=False):
            raise invalid_option("the agent is answering another question; give each thread its own agent")
        try:
            run = self._begin(question, changes)
            before = len(run.conversation)
            calls = tuple(event for event in self._follow(run) if isinstance(event, CallEnded))
        finally:
            self._asking.release()
        ended = run.ended
        assert ended is not None
        said = ended.conversation[before:]
        if run.response_format is not None:
            said = [message for message in said if message.channel == "final"]  # what is said beside it has no form
        why = (ended.hidden_because, ended.limit, ended.unmet)
        return AgentAnswer(visible_text(said), calls, ended.reason, ended.conversation, ended.usage, *why)

    def stream(self, question: str) -> Iterator[TurnEvent]:
        """Ask, and yield every event of the run as it happens. The next question ends a stream that was not read."""
        yield from self._follow(self._begin(question, {}))

    def close(self) -> None:
        """Give back the engine's connection and end the thread."""
        if not self._end_thread.alive:
            return
        try:
            self._leave()
            self._wait(self.model.close())
        finally:
            self._end_thread()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _begin(self, question: str | None, changes: RunChanges) -> Run:
        """A run that answers the question, or that continues where the conversation ends."""
        if not self._end_thread.alive:
            raise invalid_option("the agent is closed")
        if threading.current_thread() is self._thread:
            raise invalid_option("an approver or async tool cannot ask its own agent: the agent is waiting for it")
        self._leave()
        conversation = self.conversation
        if question is not None:
            conversation = conversation.add(Message.user(question))
        else:
            changes["resume"] = len(conversation) > 0 and conversation[-1].role is Role.ASSISTANT
        self._run = Run(self.model, conversation, self.options, tools=self.tools, **changes)
        return self._run

    def _follow(self, run: Run) -> Iterator[TurnEvent]:
        events = aiter(run)
        try:
            while self._run is run and (event := self._wait(anext(events, None))) is not None:
                yield event
        finally:
            if self._run is run:
                self._leave()

    def _leave(self) -> None:
        """End the run, and keep what came of it."""
        run = self._run
        if run is None:
            return
        try:
            if threading.current_thread() is self._thread:  # the garbage collector may be anywhere
                self._loop.create_task(run.close())
            elif self._end_thread.alive:
                self._wait(run.close())
        finally:
            self.conversation = run.conversation
        self._run = None

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine. Ctrl-C cancels it and waits until it has ended."""
        outcome: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            task = self._loop.create_task(coroutine)
            tasks.append(task)
            task.add_done_callback(settle)

        def settle(task: asyncio.Task[T]) -> None:
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            if error is None:
                outcome.set_result(task.result())
            else:
                outcome.set_exception(error)

        def cancel() -> None:
            if tasks:
                tasks[0].cancel()
            else:  # it was interrupted before it could begin
                coroutine.close()
                outcome.set_exception(asyncio.CancelledError())

        try:
            self._loop.call_soon_threadsafe(start)
            while True:
                try:
                    return outcome.result(_WAKE_UP_S)
                except TimeoutError:
                    if outcome.done():
                        raise
        except BaseException:
            if not outcome.done():
                self._loop.call_soon_threadsafe(cancel)
                wait([outcome])
            raise


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:  # which ends all tasks and generators
        runner.get_loop().run_forever()


def _end_thread(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)
    if threading.current_thread() is not thread:
        thread.join(_LAST_WAIT_S)
