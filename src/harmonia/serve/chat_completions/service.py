"""The service of /v1/chat/completions.

1. A wrong request is refused before anything starts, and so is one whose prompt cannot be rendered or exceeds the
   context. An engine that refuses at once becomes a status, too. An engine that reads a long prompt is not waited for:
   the stream begins with the role, and what fails after that is an error in the stream.
2. An answer is the same whether it is streamed or not: both are made from the same events, by the same code.
3. However it ends, nothing is left running.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Final

from harmonia.errors import EngineError, ErrorCode, InputError
from harmonia.events import HeaderCompleted, MessageStarted, Skipped
from harmonia.json_codec import encode_bytes
from harmonia.messages import Conversation, Json, Message
from harmonia.run.cancellation import SHARE, in_worker
from harmonia.run.events import RunEnded, SamplingEnded, SamplingGivenUp, SamplingStarted, TurnEvent
from harmonia.run.loop import Run
from harmonia.run.options import RunLimits, RunOptions
from harmonia.run.sampling import Prompt
from harmonia.run.tools import ToolSet
from harmonia.serve.chat_completions.answer import Choice, Finished, Sink, Terms
from harmonia.serve.chat_completions.conversation import read_conversation
from harmonia.serve.chat_completions.request import CreateCompletion, read_messages, read_request
from harmonia.serve.chat_completions.tools import read_choice, read_tools
from harmonia.serve.chat_completions.writer import ChunkSink, Envelope, MessageSink, usage_chunk, write_completion
from harmonia.serve.config.settings import Settings
from harmonia.serve.models.served_model import ServedModel, cache_salt
from harmonia.serve.models.server_tools import ServerTool
from harmonia.serve.security.keys import Caller, new_id
from harmonia.serve.wire.error_responses import api_error_of
from harmonia.serve.wire.event_stream import StreamEvent
from harmonia.serve.wire.request_tools import SchemaBudget, check_text_forms, client_schemas, has_text_forms, locate
from harmonia.serve.wire.validation import RequestWarnings, invalid, unsupported

# Chunks of all choices that wait for a client that reads slowly.
_WAITING_CHUNKS: Final = 64
# How long to wait for an engine before a stream begins. Clients retry if a status reports that the engine is busy or
# gone, but not after an error inside a stream; proxies wait for the head of an answer many times as long.
_FIRST_WORDS_S: Final = 0.5
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
            path = "$.response_format.json_schema.schema"
            schemas.admit_format(request.form, path, is_demanded=request.demands_form)
        return read_tools(request, self.hosted, limits, schemas)


@dataclass(slots=True)
class _Running:
    """One choice that is being generated."""

    run: Run
    pulled: AsyncGenerator[TurnEvent, None]
    first: list[TurnEvent] = field(default_factory=list[TurnEvent])  # what was pulled before the answer began


class StartedCompletion:
    """An answer that has started; see serve/http/protocols.py."""

    def __init__(self, service: ChatCompletions, request: CreateCompletion, caller: Caller, tools: ToolSet) -> None:
        settings, served = service.settings, service.served
        limits = settings.limits
        self._request = request
        self._owner = caller.owner
        self._served = served
        self._failure: Exception | None = None
        self._opening: asyncio.Task[None] | None = None  # waits for the first words of the first choice
        model = served.find(request.model)
        if request.choices > limits.choices:
            invalid(f"at most {limits.choices} choices can be generated at once", "$.n")
        if request.logprobs and not served.gives_logprobs:
            unsupported("the engine of this server does not return log-probabilities; leave this out", "$.logprobs")
        self._tools = tools
        self._tool_choice, self._allowed_tools, demanded = read_choice(request, tools)
        now = service.clock()
        self._envelope = Envelope(
            id=new_id("chatcmpl").replace("_", "-", 1),  # like OpenAI's
            created=int(now),
            model=model,
            service_tier=None if request.service_tier is None else "default",
            metadata=request.metadata,
            has_usage=request.wants_usage,
            has_logprobs=bool(request.logprobs),
            uses_functions=request.functions is not None,
        )
        warnings = RequestWarnings()
        conversation = read_conversation(
            read_messages(request.messages, limits.items, warnings),
            tools,
            date=datetime.fromtimestamp(now, UTC).date().isoformat(),
            instruction=request.instruction,
            has_declarations=len(tools) > 0 or request.form is not None,
            warnings=warnings,
        )
        trusts_text = settings.calls == "unverified"
        self._terms = Terms(
            self._allowed_tools,
            demanded,
            shows_reasoning=settings.analysis == "shown",
            trusts_text=trusts_text,
            calls_are_certain=served.calls_are_certain,
            wants_logprobs=bool(request.logprobs),
            stops=request.stops,
            has_format=request.form is not None,
            demands_format=request.demands_form,
            warnings=tuple(warnings.texts),
        )
        run_limits = RunLimits(
            samplings=served.most_samplings(has_tools=bool(service.hosted)),
            tokens=request.most_tokens(limits.output_tokens),
            time_s=limits.request_s,
        )
        self._running = [self._open(settings, conversation, run_limits, choice) for choice in range(request.choices)]

    def _open(self, settings: Settings, conversation: Conversation, limits: RunLimits, choice: int) -> _Running:
        request, served = self._request, self._served
        written = {id(message): message for message in conversation}

        def most_cached(prompt: Prompt, prefix: Message | None, sampled: Sequence[Message]) -> int:
            return served.sent_prompts.explain(self._owner, prompt, prefix, sampled, written)

        options = RunOptions(
            sampling=request.sampling(choice),
            tool_choice=self._tool_choice,
            response_format=request.form,
            effort=request.effort,
            limits=limits,
            allow_unverified=settings.calls == "unverified",
            # The older API has room for one call.
            parallel_calls=request.parallel_tool_calls is not False and request.functions is None,
            check_format=False,  # the request reader has checked it, within limits
            grammar=settings.grammar,
            retry_malformed=settings.retry_malformed,
            guessed=settings.guessed,
            renderer=served.renderer,
            most_cached=most_cached,
            cache_salt=cache_salt(self._owner),
        )
        run = Run(served.model, conversation, options, tools=self._allowed_tools)
        return _Running(run, aiter(run))

    async def begin(self) -> None:
        """Raise whatever is wrong with the request and, if it is streamed, whatever the engine refuses at once."""
        running = self._running[0]
        if has_text_forms(self._tools):
            await in_worker(partial(check_text_forms, self._tools))
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
        """The engine would report it, too, but perhaps only in the middle of a stream."""
        context = self._served.traits.context_tokens
        for event in first:
            if isinstance(event, SamplingStarted) and context is not None and event.prompt_tokens >= context:
                sizes = f"the prompt has {event.prompt_tokens} tokens; the context has {context}"
                raise EngineError(ErrorCode.ENGINE_OUT_OF_CONTEXT, sizes)

    def _schemas(self) -> Iterator[tuple[Json | bool | None, str]]:
        """The schemas that the client sent, with their paths."""
        yield from client_schemas(self._tools)
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
            if self._envelope.has_usage:
                yield StreamEvent(usage_chunk(self._envelope, _endings(sinks)))
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
                for chunk in sink.drain():
                    await waiting.put(chunk)
                choice = await self._begin_choice(running, sink)
                for chunk in sink.drain():
                    await waiting.put(chunk)
                async for event in running.pulled:
                    choice.feed(event)
                    for chunk in sink.drain():
                        await waiting.put(chunk)
                    if choice.wants_stop:
                        running.run.stop()
            finally:
                # If the queue is full, its reader will take from it, and look at the tasks then.
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
