"""A real llama.cpp server that is left, frozen, killed, or not there at all: what the caller sees, and what it does."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

import harmonia
from harmonia.errors import EngineError, ErrorCode
from harmonia.run.engines.base import Chunk, Request, Sampling
from harmonia.run.engines.http import Patience
from harmonia.run.engines.llama_cpp import LlamaCppEngine
from tests.run.engines.real.real_engines import Answer, LlamaServer, ask, read, run_watched, start_llama, until

pytestmark = pytest.mark.engines

PROMPT = harmonia.encode("<|start|>user<|message|>Hello there, how are you?<|end|><|start|>assistant", special="all")
# Nearly all of the context: seconds of work.
MANY = 900


def test_closing_the_stream_stops_the_server(random_llama: LlamaServer) -> None:
    async def check() -> None:
        before = random_llama.sampled_tokens
        engine = LlamaCppEngine(random_llama.url)
        stream = engine.generate(PROMPT, Request(Sampling(max_tokens=MANY, temperature=0.0)))
        assert isinstance(await anext(stream), Chunk)
        assert random_llama.is_busy
        await stream.aclose()
        await until(lambda: not random_llama.is_busy)
        assert random_llama.sampled_tokens - before < MANY

    run_watched(check())


def test_cancelling_the_task_stops_the_server(random_llama: LlamaServer) -> None:
    async def check() -> None:
        before = random_llama.sampled_tokens
        answer = Answer()
        task = asyncio.ensure_future(
            read(LlamaCppEngine(random_llama.url), PROMPT, answer, max_tokens=MANY, temperature=0.0)
        )
        await until(lambda: len(answer.chunks) >= 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not random_llama.is_busy)
        assert random_llama.sampled_tokens - before < MANY

    run_watched(check())


def test_a_server_that_was_left_answers_the_next_one(random_llama: LlamaServer) -> None:
    async def leave() -> None:
        stream = LlamaCppEngine(random_llama.url).generate(PROMPT, Request(Sampling(max_tokens=MANY)))
        await anext(stream)
        await stream.aclose()

    run_watched(leave())
    assert len(ask(LlamaCppEngine(random_llama.url), PROMPT, max_tokens=5, temperature=0.0).tokens) == 5


def test_a_server_killed_in_the_middle_is_a_dead_engine_and_what_came_is_kept(random_gguf: Path) -> None:
    with start_llama(random_gguf) as server:

        async def check() -> None:
            engine = LlamaCppEngine(server.url, patience=Patience(attempts=2, wait_s=0.01))
            whole = Answer()
            await read(engine, PROMPT, whole, max_tokens=4, temperature=0.0)
            answer = Answer()
            reading = asyncio.ensure_future(read(engine, PROMPT, answer, max_tokens=MANY, temperature=0.0))
            await until(lambda: len(answer.tokens) >= 4)
            server.kill()
            with pytest.raises(EngineError) as caught:
                await reading
            assert caught.value.code is ErrorCode.ENGINE_DIED
            assert answer.finish is None
            assert answer.tokens[:4] == whole.tokens
            # And now there is nobody.
            with pytest.raises(EngineError) as caught:
                await read(engine, PROMPT, Answer(), max_tokens=1)
            assert caught.value.code is ErrorCode.ENGINE_UNREACHABLE

        run_watched(check())


def test_a_server_that_freezes_is_stalled_and_what_came_is_kept(random_llama: LlamaServer) -> None:
    async def check() -> None:
        answer = Answer()
        engine = LlamaCppEngine(random_llama.url, patience=Patience(idle_s=0.5))
        reading = asyncio.ensure_future(read(engine, PROMPT, answer, max_tokens=MANY, temperature=0.0))
        await until(lambda: len(answer.tokens) >= 2)
        with random_llama.frozen(), pytest.raises(EngineError) as caught:
            await reading
        assert caught.value.code is ErrorCode.ENGINE_STALLED
        assert len(answer.tokens) >= 2
        # It wakes up, sees that nobody listens, and is free again.
        await until(lambda: not random_llama.is_busy)

    run_watched(check())


def test_nobody_at_the_address_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    engine = LlamaCppEngine(f"http://127.0.0.1:{port}", patience=Patience(attempts=2, wait_s=0.01))
    with pytest.raises(EngineError) as caught:
        ask(engine, PROMPT, max_tokens=1)
    assert caught.value.code is ErrorCode.ENGINE_UNREACHABLE


def test_a_context_used_up_while_sampling_is_a_length(random_llama: LlamaServer) -> None:
    answer = ask(LlamaCppEngine(random_llama.url), [1] * 1000, temperature=0.0)
    assert answer.finish is not None and answer.finish.reason == "length"
    assert len(answer.tokens) <= 24


def test_a_token_that_does_not_exist_is_refused(random_llama: LlamaServer) -> None:
    with pytest.raises(EngineError) as caught:
        ask(LlamaCppEngine(random_llama.url), [1, 2, 300_000], max_tokens=1)
    assert caught.value.code is ErrorCode.ENGINE_REFUSED
