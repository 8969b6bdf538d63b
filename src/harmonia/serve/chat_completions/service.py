"""The service behind /v1/chat/completions.

1. A request that is wrong is refused before anything is begun, and so is one whose prompt cannot be rendered or is
   longer than the context. An engine that refuses at once is a status as well. One that reads a long prompt is not
   waited for: the stream begins with the role, and what goes wrong from there on is an error in it.
2. Whether it is streamed or not, an answer is the same: both are made of the same events, by the same code.
3. However it ends, nothing is left running.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Final, Protocol, cast

from harmonia.errors import EngineError, ErrorCode, InputError
from harmonia.events import HeaderCompleted, MessageStarted, Skipped
from harmonia.json_codec import encode_bytes
from harmonia.messages import Conversation, Json, Message
from harmonia.renderer import Renderer
from harmonia.run.engines.base import Traits
from harmonia.run.events import RunEnded, SamplingEnded, SamplingGivenUp, SamplingStarted, TurnEvent
from harmonia.run.loop import Run
from harmonia.run.model_source import Model
from harmonia.run.options import RunLimits, RunOptions
from harmonia.run.prompt import Prompt
from harmonia.run.tools import Tool
from harmonia.run.worker_pool import SHARE, in_worker
from harmonia.serve.chat_completions.answer import Choice, Finished, Sink, Terms
from harmonia.serve.chat_completions.conversation import read_conversation
from harmonia.serve.chat_completions.request import CreateCompletion, read_messages, read_request
from harmonia.serve.chat_completions.tools import Chosen, Offer, check_form, read_choice, read_tools
from harmonia.serve.chat_completions.writer import ChunkSink, Envelope, MessageSink, usage_chunk, write_completion
from harmonia.serve.config.settings import Settings
from harmonia.serve.models.cached_tokens import SentPrompts, cache_salt
from harmonia.serve.models.server_tools import ServerTool
from harmonia.serve.security.identity import Caller, new_id
from harmonia.serve.wire.custom_formats import check_forms
from harmonia.serve.wire.error_responses import api_error_of
from harmonia.serve.wire.event_stream import StreamEvent
from harmonia.serve.wire.request_warnings import RequestWarnings
from harmonia.serve.wire.schema_errors import locate
from harmonia.serve.wire.schema_limits import SchemaBudget
from harmonia.serve.wire.validation import invalid, unsupported

# How often a model is asked again that calls what it may not call; with tools that run here it is asked more often.
_SAMPLINGS: Final = 4
_SAMPLINGS_WITH_TOOLS: Final = 32
# Chunks of all choices that wait for a client which reads slowly.
_WAITING_CHUNKS: Final = 64
# How long an engine is waited for before a stream begins. Clients try again after a status of an engine that is busy or
# gone, but not after an error within a stream; proxies wait for the head of an answer for many times as long.
_FIRST_WORDS_S: Final = 0.5
# The engine has said something.
_FIRST_WORDS: Final = (MessageStarted, HeaderCompleted, Skipped, SamplingEnded, SamplingGivenUp, RunEnded)


class ChatService(Protocol):
    """What is needed of the service: its engine, its tools and its settings."""

    @property
    def settings(self) -> Settings: ...
    @property
    def model(self) -> Model: ...
    @property
    def renderer(self) -> Renderer: ...
    @property
    def tools(self) -> Sequence[ServerTool]: ...
    @property
    def clock(self) -> Callable[[], float]: ...
    def known_model(self, name: str) -> str:
        """The name of the model; raises where it is not served here."""
        ...


class ChatCompletions:
    """All chat completions of a server. Nothing of them is kept."""

    def __init__(self, service: ChatService, sent_prompts: SentPrompts | None = None) -> None:
        self._service = service
        self._sent_prompts = sent_prompts or SentPrompts(service.renderer)

    async def create(self, value: object, caller: Caller) -> StartedCompletion:
        """Begin an answer. Raises where the request is wrong; afterwards everything is told by events."""
        request = read_request(value)
        self._service.known_model(request.model)
        SHARE.set(caller.owner)
        has_schemas = bool(request.tools or request.functions or request.form)
        read = partial(_read_offer, self._service, request)
        offer = await in_worker(read) if has_schemas else read()
        started = StartedCompletion(self._service, request, caller, self._sent_prompts, offer)
        await started.begin()
        return started


@dataclass(slots=True)
class _Running:
    """One choice on its way."""

    run: Run
    pulled: AsyncGenerator[TurnEvent, None]
    first: list[TurnEvent] = field(default_factory=list[TurnEvent])  # what was pulled before anybody asked


def _hosted(service: ChatService) -> list[Tool]:
    # Nobody can be asked here, so what has to be asked about is not offered.
    return [each.tool for each in service.tools if each.approval == "run"]


def _read_offer(service: ChatService, request: CreateCompletion) -> Offer:
    """The tools of a request, and the check of its form: all that takes schemas of the client's."""
    limits = service.settings.limits
    schemas = SchemaBudget(limits)
    check_form(request, schemas)
    return read_tools(request, _hosted(service), limits, schemas)


class StartedCompletion:
    """An answer that was begun; see serve/http/protocols.py."""

    def __init__(
        self,
        service: ChatService,
        request: CreateCompletion,
        caller: Caller,
        sent_prompts: SentPrompts,
        offer: Offer,
    ) -> None:
        settings = service.settings
        limits = settings.limits
        self._request = request
        self._owner = caller.owner
        self._sent_prompts = sent_prompts
        self._failure: Exception | None = None
        self._opening: asyncio.Task[None] | None = None  # waits for the first words of the first choice
        model = service.known_model(request.model)
        if request.choices > limits.choices:
            invalid(f"at most {limits.choices} choices are made", "$.n")
        self._traits = traits = cast("Traits | None", getattr(service.model, "traits", None))
        if request.logprobs and (traits is None or not (traits.gives_logprobs and traits.gives_tokens)):
            unsupported("the engine behind this server has no log-probabilities of tokens", "$.logprobs")
        self._offer = offer
        self._chosen = read_choice(request, self._offer)
        now = service.clock()
        self._envelope = Envelope(
            new_id("chatcmpl").replace("_", "-", 1),  # as OpenAI's
            int(now),
            model,
            None if request.service_tier is None else "default",
            request.metadata,
            request.wants_usage,
            bool(request.logprobs),
            self._offer.is_older,
        )
        is_sure = traits is None or traits.gives_tokens
        trusts_text = settings.calls == "unverified"
        warnings = RequestWarnings()
        conversation = read_conversation(
            read_messages(request.messages, limits.items, warnings),
            self._offer,
            date=datetime.fromtimestamp(now, UTC).date().isoformat(),
            instruction=request.instruction,
            has_head=len(self._offer.toolset) > 0 or request.form is not None,
            warnings=warnings,
        )
        self._terms = Terms(
            self._offer,
            self._chosen.toolset,
            self._chosen.demanded,
            settings.analysis == "shown",
            trusts_text,
            is_sure,
            bool(request.logprobs),
            request.stops,
            request.form is not None,
            request.demands_form,
            tuple(warnings.texts),
        )
        # From text no call is ever certain, so it does not help to ask again.
        samplings = 1 if not (is_sure or trusts_text) else _SAMPLINGS_WITH_TOOLS if _hosted(service) else _SAMPLINGS
        run_limits = RunLimits(
            samplings=samplings, tokens=request.most_tokens(limits.output_tokens), time_s=limits.request_s
        )
        self._running = [
            self._open(service, conversation, self._chosen, run_limits, choice) for choice in range(request.choices)
        ]

    def _open(
        self, service: ChatService, conversation: Conversation, chosen: Chosen, limits: RunLimits, choice: int
    ) -> _Running:
        request = self._request
        written = {id(message): message for message in conversation}

        def most_cached(prompt: Prompt, prefix: Message | None, sampled: Sequence[Message]) -> int:
            return self._sent_prompts.explain(self._owner, prompt, prefix, sampled, written)

        options = RunOptions(
            tools=chosen.toolset,
            sampling=request.sampling(choice),
            tool_choice=chosen.choice,
            response_format=request.form,
            effort=request.effort,
            limits=limits,
            allow_unverified=service.settings.calls == "unverified",
            # The older form has place for one call.
            parallel_calls=request.parallel_tool_calls is not False and not self._offer.is_older,
            check_format=False,  # the request reader has checked it, within bounds
            grammar=service.settings.grammar,
            retry_malformed=service.settings.retry_malformed,
            guessed=service.settings.guessed,
            renderer=service.renderer,
            most_cached=most_cached,
            cache_salt=cache_salt(self._owner),
        )
        run = Run(service.model, conversation, options)
        return _Running(run, aiter(run))

    async def begin(self) -> None:
        """Everything that can be wrong with the request shows here; where it is streamed, what an engine says at once,
        too."""
        running = self._running[0]
        if self._offer.forms:
            await in_worker(partial(check_forms, self._offer.forms))
        try:
            await self._pull_first(running, (SamplingStarted, RunEnded))
            if self.wants_stream:
                self._check_context(running.first)
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
            raise locate(error, self._schemas()) from error

    def _check_context(self, first: Sequence[TurnEvent]) -> None:
        """The engine would say so, too, but perhaps only in the middle of a stream."""
        context = None if self._traits is None else self._traits.context_tokens
        for event in first:
            if isinstance(event, SamplingStarted) and context is not None and event.prompt_tokens >= context:
                told = f"the prompt has {event.prompt_tokens} tokens; the context has {context}"
                raise EngineError(ErrorCode.ENGINE_OUT_OF_CONTEXT, told)

    def _schemas(self) -> Iterator[tuple[Json | bool | None, str]]:
        """The schemas that the client sent, with their paths."""
        for client in self._offer.clients:
            yield client.tool.parameters, f"{client.path}.parameters"
        if self._request.form is not None:
            yield self._request.form.schema, "$.response_format.json_schema.schema"

    # ── the contract ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def wants_stream(self) -> bool:
        return self._request.wants_stream

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
                for chunk in sink.take():
                    yield StreamEvent(chunk)
                choice = await self._begin_choice(running, sink)
                for chunk in sink.take():
                    yield StreamEvent(chunk)
                async for event in running.pulled:
                    choice.feed(event)
                    if sink.chunks:
                        for chunk in sink.take():
                            yield StreamEvent(chunk)
                    if choice.wants_stop:
                        running.run.stop()
            else:
                async with aclosing(self._merge(sinks)) as merged:
                    async for chunk in merged:
                        yield StreamEvent(chunk)
            if self._envelope.has_usage:
                yield StreamEvent(usage_chunk(self._envelope, _endings(sinks)))
        except Exception as error:
            self._failure = error
            for sink in sinks:  # what was said before it
                for chunk in sink.take():
                    yield StreamEvent(chunk)
            yield StreamEvent(encode_bytes({"error": api_error_of(error).to_dict()}))
        finally:
            await self._close()

    async def result(self) -> bytes:
        sinks = [MessageSink(self._envelope, index) for index in range(len(self._running))]
        try:
            await _gather([self._exhaust(running, sink) for running, sink in zip(self._running, sinks, strict=True)])
        except Exception as error:
            self._failure = error
            raise
        finally:
            await self._close()
        return write_completion(self._envelope, [sink.write() for sink in sinks], _endings(sinks))

    # ── following ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _begin_choice(self, running: _Running, sink: Sink) -> Choice:
        choice = Choice(self._terms, sink, _new_call_id)
        if self._opening is not None and running is self._running[0]:
            await self._opening
        for event in running.first:
            choice.feed(event)
        return choice

    async def _exhaust(self, running: _Running, sink: MessageSink) -> None:
        choice = await self._begin_choice(running, sink)
        async for event in running.pulled:
            choice.feed(event)
            if choice.wants_stop:
                running.run.stop()

    async def _merge(self, sinks: list[ChunkSink]) -> AsyncGenerator[bytes, None]:
        """The chunks of several choices, as they come. A client that reads slowly slows all of them down."""
        waiting: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING_CHUNKS)

        async def forward(running: _Running, sink: ChunkSink) -> None:
            try:
                for chunk in sink.take():
                    await waiting.put(chunk)
                choice = await self._begin_choice(running, sink)
                for chunk in sink.take():
                    await waiting.put(chunk)
                async for event in running.pulled:
                    choice.feed(event)
                    for chunk in sink.take():
                        await waiting.put(chunk)
                    if choice.wants_stop:
                        running.run.stop()
            finally:
                # Where the queue is full, somebody takes from it, and looks at the tasks then.
                if not waiting.full():
                    waiting.put_nowait(None)

        tasks = [
            asyncio.create_task(forward(running, sink)) for running, sink in zip(self._running, sinks, strict=True)
        ]
        try:
            while True:
                while not waiting.empty():
                    chunk = waiting.get_nowait()
                    if chunk is not None:
                        yield chunk
                if any(task.done() and task.exception() is not None for task in tasks) or all(
                    task.done() for task in tasks
                ):
                    break
                chunk = await waiting.get()
                if chunk is not None:
                    yield chunk
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            await _end(tasks)

    async def _close(self) -> None:
        if self._opening is not None and not self._opening.done():
            await _end([self._opening])
        for running in self._running:
            await running.pulled.aclose()


async def _gather(jobs: Sequence[Coroutine[None, None, None]]) -> None:
    """All of them together; the first that fails ends the others."""
    if len(jobs) == 1:
        await jobs[0]
        return
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        await asyncio.gather(*tasks)
    finally:
        await _end(tasks)


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _endings(sinks: Sequence[ChunkSink] | Sequence[MessageSink]) -> list[Finished]:
    return [sink.finished for sink in sinks if sink.finished is not None]


def _new_call_id() -> str:
    return new_id("call")
