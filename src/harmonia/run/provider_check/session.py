"""One provider under test: what it was asked, and what was heard. Every question is asked once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeVar

import msgspec

from harmonia.errors import EngineError, ErrorCode
from harmonia.events import ArgumentsDelta, MessageEnded, TextDelta
from harmonia.messages import Conversation, Json, Message, ReasoningEffort
from harmonia.parts import Call, call_of, is_visible
from harmonia.run.engines.base import Finish, Request, Sampling
from harmonia.run.engines.http import Server, ServerError, objects_of
from harmonia.run.engines.registry import Seen
from harmonia.run.providers.base import exchange
from harmonia.run.providers.bodies import chat_body, responses_body
from harmonia.run.providers.chat_completions import ChatReader
from harmonia.run.providers.responses import ResponsesReader

Verdict = Literal["ok", "warn", "fail", "skip", "unknown"]
VERDICTS: tuple[Verdict, ...] = ("ok", "warn", "fail", "skip", "unknown")


class Found(NamedTuple):
    """A verdict and what was seen."""

    verdict: Verdict
    seen: str


class Outcome(msgspec.Struct, frozen=True):
    """One check: what was looked at, what was seen, and why it matters."""

    name: str
    verdict: Verdict
    seen: str
    why: str


class Report(msgspec.Struct, frozen=True):
    """All checks of a provider. `engine` is what it seems to be, `model` the one that was asked."""

    url: str
    engine: str
    model: str | None
    outcomes: tuple[Outcome, ...]

    @property
    def is_reachable(self) -> bool:
        return not any(outcome.name == "reachable" and outcome.verdict == "fail" for outcome in self.outcomes)

    @property
    def is_good(self) -> bool:
        """Whether all that matters passed."""
        return not any(outcome.verdict == "fail" for outcome in self.outcomes)

    def __getitem__(self, name: str) -> Outcome:
        for outcome in self.outcomes:
            if outcome.name == name:
                return outcome
        raise KeyError(name)


T = TypeVar("T")
Api = Literal["chat", "responses"]
PATHS: Final[Mapping[Api, str]] = {"chat": "/chat/completions", "responses": "/responses"}

# Fields of a first question that a provider need not take.
_OPTIONAL: Final[Mapping[Api, tuple[str, ...]]] = {
    "chat": ("reasoning_effort", "temperature", "seed"),
    "responses": ("reasoning", "temperature"),
}

# Greedy, with room to think and to answer.
SAMPLING: Final = Sampling(max_tokens=512, temperature=0.0, seed=1)
REQUEST: Final = Request(SAMPLING, reasoning_effort=ReasoningEffort.LOW)

# Structure in a text that should have none: tokens, or what is left of them where they were stripped.
LEAK: Final = re.compile(
    r"<\|(?:start|end|message|channel|constrain|return|call)\|>|assistant(?:final|commentary|analysis)|"
    r"^analysis(?=[A-Z]|$)|\bto=functions\.|commentary to="
)


def is_absent(error: EngineError | None) -> bool:
    """Whether a server has no such endpoint. Some say the same of a model that they do not have."""
    return isinstance(error, ServerError) and error.status in (404, 405, 501)


def is_denied(error: EngineError | None) -> bool:
    """Whether a server wants a key, or another one."""
    return isinstance(error, ServerError) and error.status in (401, 403)


def is_throttled(error: EngineError | None) -> bool:
    """Whether a server had too many requests, perhaps ours: that says nothing about what it can do."""
    return isinstance(error, ServerError) and error.status == 429


def is_there(error: EngineError | None, *, has_said: bool) -> bool:
    is_refusal = isinstance(error, ServerError) and not is_absent(error) and not is_denied(error)
    return error is None or has_said or is_refusal


@dataclass(frozen=True, slots=True)
class Heard:
    """An answer. `pieces` is the number of parts in which its text came; `error` is what ended it, if anything did."""

    messages: tuple[Message, ...] = ()
    finish: Finish | None = None
    pieces: int = 0
    is_stream: bool = False
    error: EngineError | None = None

    @property
    def text(self) -> str:
        """What a user would see."""
        return "".join(each.text for each in self.messages if is_visible(each))

    @property
    def reasoning(self) -> str:
        return "".join(each.text for each in self.messages if each.channel == "analysis")

    @property
    def calls(self) -> list[Call]:
        return [call for each in self.messages if (call := call_of(each)) is not None]

    @property
    def content(self) -> tuple[str, str, tuple[tuple[str, str], ...]]:
        """What two answers must have in common to be the same."""
        return self.reasoning, self.text, tuple((call.name, call.text) for call in self.calls)

    @property
    def is_absent(self) -> bool:
        """Whether there is no such endpoint."""
        return is_absent(self.error)

    @property
    def is_there(self) -> bool:
        """Whether there is such an endpoint for whoever asks, which says something that can be read."""
        return is_there(self.error, has_said=bool(self.pieces or self.messages))

    @property
    def is_refused(self) -> bool:
        return isinstance(self.error, ServerError) and 400 <= self.error.status < 500


@dataclass(slots=True)
class Session:
    """The provider, and the answers so far."""

    root: Server
    api: Server
    identity: Seen
    model: str
    has_key: bool = False
    _heard: dict[object, Any] = field(default_factory=dict[object, Any])
    _refused_fields: dict[Api, tuple[str, ...]] = field(default_factory=dict[Api, tuple[str, ...]])

    @property
    def base(self) -> str:
        """What stands between the address of the engine and the paths of its APIs."""
        return self.api.url.removeprefix(self.root.url)

    def explain(self, error: EngineError) -> str:
        """What an error says and, where whoever asks is turned away, what to do about it."""
        if not is_denied(error):
            return error.message
        wants = "it does not accept the key" if self.has_key else "it needs a key: --api-key or HARMONIA_API_KEY"
        return f"{error.message}; {wants}"

    async def once(self, key: object, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer to a question, which is asked the first time only."""
        if key not in self._heard:
            self._heard[key] = await ask()
        return self._heard[key]

    async def ask(
        self,
        api: Api,
        conversation: Conversation,
        request: Request = REQUEST,
        *,
        stream: bool = False,
        edit: Callable[[Json], Json] = lambda body: body,
    ) -> Heard:
        """Ask at one of the two APIs of messages, without the fields that it has refused."""
        body = (chat_body if api == "chat" else responses_body)(conversation, request, self.model, {})
        value = edit({**body.value, "stream": stream})
        if not stream:
            value.pop("stream_options", None)
        for name in self.refused_fields(api):
            value.pop(name, None)
        reader = ChatReader(body.names) if api == "chat" else ResponsesReader(body.names)
        messages: list[Message] = []
        pieces = 0
        finish: Finish | None = None
        error: EngineError | None = None
        try:
            async with aclosing(exchange(self.api, PATHS[api], value, reader)) as events:
                async for event in events:
                    if isinstance(event, MessageEnded):
                        messages.append(event.message)
                    elif isinstance(event, Finish):
                        finish = event
                    pieces += isinstance(event, TextDelta | ArgumentsDelta)
        except EngineError as caught:
            if caught.code is ErrorCode.ENGINE_UNREACHABLE and not reader.lines_read:
                raise
            error = caught
        return Heard(tuple(messages), finish, pieces, reader.lines_read > 1, error)

    def refused_fields(self, api: Api) -> tuple[str, ...]:
        return self._refused_fields.get(api, ())

    async def ask_first(self, api: Api, conversation: Conversation) -> Heard:
        """Ask the first question at an API. If it refuses optional fields by name, ask once more without them, and
        leave them out from then on."""
        heard = await self.ask(api, conversation)
        if not heard.is_refused or not isinstance(heard.error, ServerError):
            return heard
        named = tuple(name for name in _OPTIONAL[api] if name in heard.error.words)
        if not named:
            return heard
        self._refused_fields[api] = named
        again = await self.ask(api, conversation)
        if again.error is None:
            return again
        del self._refused_fields[api]
        return heard

    async def break_off(self, api: Api, conversation: Conversation, request: Request) -> None:
        """Ask for a stream, and leave after its first line."""
        body = (chat_body if api == "chat" else responses_body)(conversation, request, self.model, {})
        try:
            async with aclosing(self.api.lines(PATHS[api], body.value, "either")) as reads:
                async for _ in reads:
                    return
        except EngineError:
            return


_RUNNING: Final = re.compile(
    rb"(?:(?:vllm|sglang):num_(?:requests_running|running_reqs)\S*|harmonia_requests_in_flight) ([\d.e+]+)$"
)
_LOOKS: Final = 40
_BETWEEN_S: Final = 0.05


async def wait_until_idle(session: Session) -> bool | None:
    """True as soon as it does nothing, False where it goes on for seconds, None where nobody can see it."""
    for _ in range(_LOOKS):
        running = await _count_running(session)
        if not running:
            return None if running is None else True
        await asyncio.sleep(_BETWEEN_S)
    return False


async def _count_running(session: Session) -> float | None:
    try:
        if session.identity.kind == "llama.cpp":
            slots = objects_of(await session.root.fetch("/slots", list[Any]))
            return sum(bool(slot.get("is_processing")) for slot in slots) if slots else None
        if session.identity.kind in ("vllm", "sglang", "harmonia"):
            async with aclosing(session.root.lines("/metrics", None, "ndjson")) as reads:
                lines = [line async for read in reads for line in read]
            counts = [float(match[1]) for line in lines if (match := _RUNNING.match(line))]
            own = session.identity.kind == "harmonia"  # it counts the request for its metrics, too
            return sum(counts) - own if counts else None
    except EngineError:
        pass
    return None
