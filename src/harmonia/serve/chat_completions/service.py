"""The service of /v1/chat/completions.

1. A wrong request is refused before anything starts, and so is one whose prompt cannot be rendered or exceeds the
   context. An engine that refuses at once becomes a status, too. An engine that reads a long prompt is not waited for:
   the stream begins with the role, and what fails after that is an error in the stream.
2. An answer is the same whether it is streamed or not: both are made from the same events, by the same code.
3. However it ends, nothing is left running.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Final

from starlette.routing import Route

from harmonia.errors import EngineError, ErrorCode, InputError
from harmonia.events import HeaderCompleted, MessageStarted, Skipped
from harmonia.json_codec import encode_bytes
from harmonia.run.cancellation import SHARE, in_worker
from harmonia.run.events import RunEnded, SamplingEnded, SamplingGivenUp, SamplingStarted, TurnEvent
from harmonia.run.loop import Run
from harmonia.run.options import RunLimits, RunOptions
from harmonia.run.tools import ToolSet
from harmonia.serve.chat_completions.answer import Choice, Sink, Terms
from harmonia.serve.chat_completions.conversation import read_conversation
from harmonia.serve.chat_completions.request import (
    CreateCompletion,
    read_choice,
    read_messages,
    read_request,
    read_tools,
)
from harmonia.serve.chat_completions.writer import ChunkSink, Envelope, MessageSink, usage_chunk, write_completion
from harmonia.serve.config.settings import Settings
from harmonia.serve.http.endpoints import PREFIXES, GenerationEndpoint
from harmonia.serve.http.running_requests import RunningRequests
from harmonia.serve.http.telemetry import Metrics
from harmonia.serve.models.served_model import ServedModel
from harmonia.serve.models.server_tools import ServerTool
from harmonia.serve.security.keys import Caller, new_id
from harmonia.serve.wire.error_responses import api_error_of
from harmonia.serve.wire.event_stream import StreamEvent
from harmonia.serve.wire.request_tools import SchemaBudget, check_text_forms, locate
from harmonia.serve.wire.validation import RequestWarnings, invalid, unsupported

# Chunks of all choices that wait for a client that reads slowly.
_WAITING_CHUNKS: Final = 64
# How long to wait for an engine before a stream begins. Clients retry if a status reports that the engine is busy or
# gone, but not after an error inside a stream; proxies wait for the head of an answer many times as long.
_FIRST_WORDS_S: Final = 0.5
_FORMAT_SCHEMA: Final = "$.response_format.json_schema.schema"
# The engine has answered.
_FIRST_WORDS: Final = (MessageStarted, HeaderCompleted, Skipped, SamplingEnded, SamplingGivenUp, RunEnded)


class ChatCompletions:
    """All chat completions of a server. Nothing of them is kept."""

    def __init__(
        self, settings: Settings, served: ServedModel, tools: Sequence[ServerTool], clock: Callable[[], float]
    ) -> None:
        self.settings = settings
        self.served = served
        # No client can be asked for an approval here, so tools that need one are not offered.
        self.hosted = [each.tool for each in tools if each.approval == "run"]
        self.clock = clock

    async def create(self, value: object, caller: Caller) -> StartedCompletion:
        """Start an answer. Raises if the request is wrong; after that, everything is reported by events."""
        request = read_request(value)
        self.served.find(request.model)
        SHARE.set(caller.owner)
        has_schemas = bool(request.tools or request.functions or request.form)
        read = partial(self._read_tools, request)
        tools = await in_worker(read) if has_schemas else read()
        started = StartedCompletion(self, request, caller, tools)
        await started.begin()
        return started

    def _read_tools(self, request: CreateCompletion) -> ToolSet:
        """The tools of a request; and its format is checked: all that contains schemas of the client."""
        limits = self.settings.limits
        schemas = SchemaBudget(limits)
        if request.form is not None:
            schemas.admit(request.form.schema, _FORMAT_SCHEMA, is_demanded=request.demands_form, is_answer=True)
        return read_tools(request, self.hosted, limits, schemas)


@dataclass(slots=True)
class _Running:
    """One choice that is being generated."""

    run: Run
    pulled: AsyncGenerator[TurnEvent, None]
    first: list[TurnEvent] = field(default_factory=list[TurnEvent])  # what was pulled before the answer began


class StartedCompletion:
    """An answer that has started; see `Generation` in serve/http/running_requests.py."""

    def __init__(self, service: ChatCompletions, request: CreateCompletion, caller: Caller, tools: ToolSet) -> None:
        settings, served, limits = service.settings, service.served, service.settings.limits
        self._request = request
        self._served = served
        self._tools = tools
        self._failure: Exception | None = None
        self._opening: asyncio.Task[None] | None = None  # waits for the first words of the first choice
        choices = request.n or 1
        if choices > limits.choices:
            invalid(f"at most {limits.choices} choices can be generated at once", "$.n")
        if request.logprobs and not served.gives_logprobs:
            unsupported("the engine of this server does not return log-probabilities; leave this out", "$.logprobs")
        tool_choice, allowed, demanded = read_choice(request, tools)
        now = service.clock()
        id_ = new_id("chatcmpl").replace("_", "-", 1)  # like OpenAI's
        self._envelope = Envelope(id_, int(now), served.find(request.model), request)
        warnings = RequestWarnings()
        conversation = read_conversation(
            read_messages(request.messages, limits.items, warnings),
            tools,
            date=datetime.fromtimestamp(now, UTC).date().isoformat(),
            instruction=request.instruction,
            has_declarations=len(tools) > 0 or request.form is not None,
            warnings=warnings,
        )
        self._terms = Terms(request, settings, served, allowed, demanded, warnings.texts)
        written = {id(message): message for message in conversation}
        self._running: list[_Running] = []
        for choice in range(choices):
            options = RunOptions(
                sampling=request.sampling(choice),
                tool_choice=tool_choice,
                response_format=request.form,
                effort=request.effort,
                limits=RunLimits(
                    samplings=served.most_samplings(has_tools=bool(service.hosted)),
                    tokens=request.most_tokens(limits.output_tokens),
                    time_s=limits.request_s,
                ),
                # The older API has room for one call.
                parallel_calls=request.parallel_tool_calls is not False and request.functions is None,
            )
            run = served.run(conversation, allowed, options, owner=caller.owner, written=written)
            self._running.append(_Running(run, aiter(run)))

    async def begin(self) -> None:
        """Raise whatever is wrong with the request and, if it is streamed, whatever the engine refuses at once."""
        running = self._running[0]
        await check_text_forms(self._tools)
        try:
            await self._pull_first(running, (SamplingStarted, RunEnded))
            if self.wants_stream:
                context, started = self._served.traits.context_tokens, running.first[-1]
                if isinstance(started, SamplingStarted) and context is not None and started.prompt_tokens >= context:
                    # The engine would report it, too, but perhaps only in the middle of a stream.
                    sizes = f"the prompt has {started.prompt_tokens} tokens; the context has {context}"
                    raise EngineError(ErrorCode.ENGINE_OUT_OF_CONTEXT, sizes)
                self._opening = asyncio.create_task(self._pull_first(running, _FIRST_WORDS))
                await asyncio.wait([self._opening], timeout=_FIRST_WORDS_S)
                if self._opening.done():
                    await self._opening
        except BaseException:
            await self._close()
            raise

    async def _pull_first(self, running: _Running, until: tuple[type[TurnEvent], ...]) -> None:
        if running.first and isinstance(running.first[-1], until):
            return
        try:
            async for event in running.pulled:
                running.first.append(event)
                if isinstance(event, until):
                    return
        except InputError as error:
            raise locate(error, self._tools, self._request.form, _FORMAT_SCHEMA) from error

    # ── the contract ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def wants_stream(self) -> bool:
        return bool(self._request.stream)

    @property
    def output_tokens(self) -> int | None:
        return sum(running.run.usage.completion_tokens for running in self._running)

    @property
    def failure(self) -> Exception | None:
        return self._failure

    def cancel(self) -> None:
        for running in self._running:
            running.run.stop()

    async def events(self) -> AsyncGenerator[StreamEvent, None]:
        sinks = [ChunkSink(self._envelope, index) for index in range(len(self._running))]
        try:
            if len(sinks) == 1:
                # This loop runs once a token: no layer and no task in between.
                sink, running = sinks[0], self._running[0]
                for chunk in sink.drain():
                    yield StreamEvent(chunk)
                choice = await self._begin_choice(running, sink)
                for chunk in sink.drain():
                    yield StreamEvent(chunk)
                async for event in running.pulled:
                    choice.feed(event)
                    if sink.chunks:
                        for chunk in sink.drain():
                            yield StreamEvent(chunk)
                    if choice.wants_stop:
                        running.run.stop()
            else:
                async with aclosing(self._merge(sinks)) as merged:
                    async for chunk in merged:
                        yield StreamEvent(chunk)
            if self._request.wants_usage:
                yield StreamEvent(usage_chunk(self._envelope, sinks))
        except Exception as error:
            self._failure = error
            for sink in sinks:  # what came before it
                for chunk in sink.drain():
                    yield StreamEvent(chunk)
            yield StreamEvent(encode_bytes({"error": api_error_of(error).to_dict()}))
        finally:
            await self._close()

    async def result(self) -> bytes:
        sinks = [MessageSink(self._envelope, index) for index in range(len(self._running))]
        tasks = [
            asyncio.create_task(self._exhaust(running, sink))
            for running, sink in zip(self._running, sinks, strict=True)
        ]
        try:
            await asyncio.gather(*tasks)  # the first that fails ends the others
        except Exception as error:
            self._failure = error
            raise
        finally:
            await _end(tasks)
            await self._close()
        return write_completion(self._envelope, sinks)

    # ── following ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _begin_choice(self, running: _Running, sink: Sink) -> Choice:
        choice = Choice(self._terms, sink)
        if self._opening is not None and running is self._running[0]:
            await self._opening
        for event in running.first:
            choice.feed(event)
        return choice

    async def _follow(self, running: _Running, sink: Sink) -> AsyncGenerator[None, None]:
        """Feed a choice to its end, and yield whenever there may be chunks."""
        yield
        choice = await self._begin_choice(running, sink)
        yield
        async for event in running.pulled:
            choice.feed(event)
            yield
            if choice.wants_stop:
                running.run.stop()

    async def _exhaust(self, running: _Running, sink: MessageSink) -> None:
        async for _ in self._follow(running, sink):
            pass

    async def _merge(self, sinks: list[ChunkSink]) -> AsyncGenerator[bytes, None]:
        """The chunks of several choices, as they come. A client that reads slowly slows all of them down."""
        # A choice ends with None, or with what went wrong.
        waiting: asyncio.Queue[bytes | Exception | None] = asyncio.Queue(_WAITING_CHUNKS)

        async def forward(running: _Running, sink: ChunkSink) -> None:
            try:
                async for _ in self._follow(running, sink):
                    for chunk in sink.drain():
                        await waiting.put(chunk)
                await waiting.put(None)
            except Exception as error:
                await waiting.put(error)

        tasks = [asyncio.create_task(forward(*pair)) for pair in zip(self._running, sinks, strict=True)]
        left = len(tasks)
        try:
            while left:
                chunk = await waiting.get()
                if isinstance(chunk, Exception):
                    raise chunk
                if chunk is None:
                    left -= 1
                else:
                    yield chunk
        finally:
            await _end(tasks)

    async def _close(self) -> None:
        if self._opening is not None and not self._opening.done():
            await _end([self._opening])
        for running in self._running:
            await running.pulled.aclose()


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def chat_completion_routes(
    service: ChatCompletions, settings: Settings, running: RunningRequests, metrics: Metrics
) -> list[Route]:
    """`/v1/chat/completions` over HTTP, with and without `/v1`."""
    create = GenerationEndpoint(
        service.create, settings, running, metrics, ("openai", "open-responses"), is_named=False
    )
    return [Route(prefix + "/chat/completions", create, methods=["POST"]) for prefix in PREFIXES]
