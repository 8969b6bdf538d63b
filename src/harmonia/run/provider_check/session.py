"""One provider under test: what it was asked, and what was heard. Every question is asked once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
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
from harmonia.run.providers.bodies import Body, chat_body, responses_body
from harmonia.run.providers.chat_completions import ChatReader
from harmonia.run.providers.responses import ResponsesReader

# ok       it does what it should
# warn     something is missing or unusual, and Harmonia can work with it
# fail     it is wrong: answers will be misread, mixed up or lost
# skip     there is nothing to check: no such endpoint, or what the check builds on is missing
# unknown  it cannot be determined: the model, not the provider, may be the cause
Verdict = Literal["ok", "warn", "fail", "skip", "unknown"]


class Found(NamedTuple):
    """A verdict and what was seen."""

    verdict: Verdict
    seen: str


class Judged(Exception):
    """Ends a check early with what was found."""

    def __init__(self, verdict: Verdict, seen: str) -> None:
        super().__init__(seen)
        self.found = Found(verdict, seen)


class Outcome(msgspec.Struct, frozen=True):
    """One check: its name, what was seen, and why it matters."""

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
        return not any(outcome.verdict == "fail" for outcome in self.outcomes)

    def __getitem__(self, name: str) -> Outcome:
        return {outcome.name: outcome for outcome in self.outcomes}[name]


T = TypeVar("T")
Api = Literal["chat", "responses"]
PATHS: Final[Mapping[Api, str]] = {"chat": "/chat/completions", "responses": "/responses"}

# Fields of a first question that a provider need not accept.
_OPTIONAL: Final[Mapping[Api, tuple[str, ...]]] = {
    "chat": ("reasoning_effort", "temperature", "seed"),
    "responses": ("reasoning", "temperature"),
}

# Greedy, with room to think and to answer.
SAMPLING: Final = Sampling(max_tokens=512, temperature=0.0, seed=1)
REQUEST: Final = Request(SAMPLING, reasoning_effort=ReasoningEffort.LOW)

# Structure in a text that should have none: control tokens, or what is left of them where they were stripped.
LEAK: Final = re.compile(
    r"<\|(?:start|end|message|channel|constrain|return|call)\|>|assistant(?:final|commentary|analysis)|"
    r"^analysis(?=[A-Z]|$)|\bto=functions\.|commentary to="
)


def is_absent(error: EngineError | None) -> bool:
    """Whether a server has no such endpoint. Some answer the same about a model that they do not have."""
    return isinstance(error, ServerError) and error.status in (404, 405, 501)


def is_denied(error: EngineError | None) -> bool:
    """Whether a server wants a key, or another one."""
    return isinstance(error, ServerError) and error.status in (401, 403)


def is_throttled(error: EngineError | None) -> bool:
    """Whether a server had too many requests, perhaps ours, which means nothing about what it supports."""
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
        return is_absent(self.error)

    @property
    def is_there(self) -> bool:
        """Whether there is such an endpoint, with an answer that can be read."""
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
    refused_fields: dict[Api, tuple[str, ...]] = field(default_factory=dict[Api, tuple[str, ...]])

    @property
    def base(self) -> str:
        """The part of the URL between the address of the engine and the paths of its APIs."""
        return self.api.url.removeprefix(self.root.url)

    def explain(self, error: EngineError) -> str:
        """An error's message and, where access is denied, what to do about it."""
        if not is_denied(error):
            return error.message
        wants = "it does not accept the key" if self.has_key else "it needs a key: --api-key or HARMONIA_API_KEY"
        return f"{error.message}; {wants}"

    async def once(self, key: object, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer to a question, which is asked only the first time."""
        if key not in self._heard:
            self._heard[key] = await ask()
        return self._heard[key]

    async def ask(
        self,
        api: Api,
        asked: Sequence[Message] | str,
        request: Request = REQUEST,
        *,
        stream: bool = False,
        edit: Callable[[Json], Json] = lambda body: body,
    ) -> Heard:
        """Ask at one of the two APIs, without the fields that it has refused."""
        body = self._body(api, asked, request)
        value = edit({**body.value, "stream": stream})
        if not stream:
            value.pop("stream_options", None)
        for name in self.refused_fields.get(api, ()):
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

    async def ask_first(self, api: Api, asked: str) -> Heard:
        """Ask the first question at an API. If it refuses optional fields by name, ask once more without them, and
        leave them out from then on."""
        heard = await self.ask(api, asked)
        words = heard.error.words if isinstance(heard.error, ServerError) and heard.is_refused else ""
        if named := tuple(name for name in _OPTIONAL[api] if name in words):
            self.refused_fields[api] = named
            again = await self.ask(api, asked)
            if again.error is None:
                return again
            del self.refused_fields[api]
        return heard

    async def break_off(self, api: Api, asked: str) -> None:
        """Ask for a stream, and leave after its first line."""
        with suppress(EngineError):
            lines = self.api.lines(PATHS[api], self._body(api, asked, REQUEST).value, "either")
            async with aclosing(lines) as reads:
                async for _ in reads:
                    return

    def _body(self, api: Api, asked: Sequence[Message] | str, request: Request) -> Body:
        conversation = Conversation([Message.user(asked)] if isinstance(asked, str) else asked)
        return (chat_body if api == "chat" else responses_body)(conversation, request, self.model, {})


_RUNNING: Final = re.compile(
    rb"(?:(?:vllm|sglang):num_(?:requests_running|running_reqs)\S*|harmonia_requests_in_flight) ([\d.e+]+)$"
)
_LOOKS: Final = 40
_BETWEEN_S: Final = 0.05


async def wait_until_idle(session: Session) -> bool | None:
    """True as soon as it is idle, False where it continues for seconds, None where it does not show."""
    for _ in range(_LOOKS):
        running = await _count_running(session)
        if not running:
            return None if running is None else True
        await asyncio.sleep(_BETWEEN_S)
    return False


async def _count_running(session: Session) -> float | None:
    with suppress(EngineError):
        if session.identity.kind == "llama.cpp":
            slots = objects_of(await session.root.fetch("/slots", list[Any]))
            return sum(bool(slot.get("is_processing")) for slot in slots) if slots else None
        if session.identity.kind in ("vllm", "sglang", "harmonia"):
            async with aclosing(session.root.lines("/metrics", None, "ndjson")) as reads:
                lines = [line async for read in reads for line in read]
            counts = [float(match[1]) for line in lines if (match := _RUNNING.match(line))]
            own = session.identity.kind == "harmonia"  # it counts the request for its metrics, too
            return sum(counts) - own if counts else None
    return None
