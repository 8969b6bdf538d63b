"""For scripts: an agent that is asked and answers, with no `async` in sight.

    agent = Agent("demo", tools=[get_weather])
    print(agent.ask("What is the weather in Paris?").text)

It keeps the conversation from one question to the next. Its event loop runs in a thread of its own, so it works where a
loop is already running, as in a notebook. Ctrl-C stops the answer, keeps what came, and goes on as KeyboardInterrupt.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any, Self, TypeVar

import msgspec

from harmonia.messages import Conversation, Message, ReasoningEffort, ResponseFormat
from harmonia.parts import visible_text
from harmonia.run.approval import Approver
from harmonia.run.engines.discovery import open_model
from harmonia.run.engines.engine import Sampling, Usage
from harmonia.run.limits import RunLimits
from harmonia.run.loop import Model, Run, SomeTools
from harmonia.run.tools import ToolSet
from harmonia.run.turn_events import CallEnded, RunEnd, RunEnded, TurnEvent

T = TypeVar("T")


class AgentAnswer(msgspec.Struct, frozen=True):
    """What an agent answered: the text for the user, the calls on the way to it, and how the run ended."""

    text: str
    calls: tuple[CallEnded, ...]
    reason: RunEnd
    conversation: Conversation
    usage: Usage
    hidden_because: str | None = None

    def __str__(self) -> str:
        return self.text


class Agent:
    """A model with instructions and tools, and the conversation with it so far.

    `model` is an engine, or the name of one: "auto", "demo", "ollama:http://localhost:11434", as for the command. Use
    it as a context manager, or `close` it, to give back its connection.
    """

    def __init__(
        self,
        model: Model | str = "auto",
        *,
        instructions: str | None = None,
        tools: SomeTools = (),
        effort: ReasoningEffort | str | None = None,
        sampling: Sampling | None = None,
        response_format: ResponseFormat | None = None,
        limits: RunLimits | None = None,
        approve: Approver | None = None,
        allow_unverified: bool = False,
        conversation: Conversation | Iterable[Message] = (),
    ) -> None:
        self.tools = tools if isinstance(tools, ToolSet) else ToolSet(tools)
        self.conversation = conversation if isinstance(conversation, Conversation) else Conversation(conversation)
        if instructions is not None:
            self.conversation = Conversation([Message.developer(instructions), *self.conversation])
        self._options: dict[str, Any] = {
            "effort": effort,
            "sampling": sampling,
            "response_format": response_format,
            "limits": limits,
            "approve": approve,
            "allow_unverified": allow_unverified,
        }
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="harmonia-agent", daemon=True)
        self._thread.start()
        try:
            self.model: Model = self._wait(open_model(model)) if isinstance(model, str) else model
        except BaseException:
            self._end_thread()
            raise

    def ask(self, question: str) -> AgentAnswer:
        """Ask, and wait for the answer; tools are called on the way."""
        calls: list[CallEnded] = []
        before = len(self.conversation)
        ended: RunEnded | None = None
        for event in self.stream(question):
            if isinstance(event, CallEnded):
                calls.append(event)
            elif isinstance(event, RunEnded):
                ended = event
        assert ended is not None
        said = ended.conversation[before:]
        return AgentAnswer(
            visible_text(said), tuple(calls), ended.reason, ended.conversation, ended.usage, ended.hidden_because
        )

    def stream(self, question: str) -> Iterator[TurnEvent]:
        """Ask, and see every event of the run as it happens."""
        run = Run(self.model, self.conversation.add(Message.user(question)), tools=self.tools, **self._options)
        events = aiter(run)
        try:
            while (event := self._wait(anext(events, None))) is not None:
                yield event
        finally:
            self._wait(run.close())
            self.conversation = run.conversation

    def close(self) -> None:
        """Give back the engine's connection and end the thread."""
        if self._loop.is_closed():
            return
        self._wait(self.model.close())
        self._end_thread()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __del__(self) -> None:
        # An agent that nobody closed ends with the last reference to it.
        if hasattr(self, "_thread") and not self._loop.is_closed():
            self._end_thread()

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _end_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
