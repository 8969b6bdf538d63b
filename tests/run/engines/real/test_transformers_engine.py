"""The engine in this process: what it computes, what it keeps, and that it stops."""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import Generator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import harmonia
from harmonia.errors import EngineError, ErrorCode, InputError, Position
from harmonia.run.engines.base import Chunk, Request, Sampling
from harmonia.run.engines.transformers.engine import CHANNEL_TOKENS, PREFILL_TOKENS, TransformersEngine
from harmonia.vocabulary import VOCABULARY_SIZE
from tests.run.engines.real.real_engines import Answer, ask, read, run_watched, until

pytestmark = pytest.mark.engines

PROMPT = harmonia.encode("<|start|>user<|message|>Hello there, how are you?<|end|><|start|>assistant", special="all")
# Longer than the sliding window, and than one piece of a prompt.
LONG_PROMPT = [(7 * index * index + 13 * index) % 199_000 for index in range(PREFILL_TOKENS + 100)]


class Passes:
    """The forward passes of a model: how many tokens went into each, and what happens at one of them."""

    def __init__(self, fail_at: int | None) -> None:
        self.sizes: list[int] = []
        self._fail_at = fail_at

    def __call__(self, _model: Any, _arguments: Any, options: dict[str, Any]) -> None:
        if len(self.sizes) == self._fail_at:
            raise RuntimeError("out of memory")
        self.sizes.append(options["input_ids"].shape[1])


@contextmanager
def watch(model: Any, fail_at: int | None = None) -> Generator[Passes]:
    passes = Passes(fail_at)
    hook = model.register_forward_pre_hook(passes, with_kwargs=True)
    try:
        yield passes
    finally:
        hook.remove()


def generate_with_transformers(model: Any, prompt: list[int], count: int) -> list[int]:
    """What the library's own `generate` says, greedily."""
    torch: Any = importlib.import_module("torch")
    with torch.inference_mode():
        output = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones((1, len(prompt)), dtype=torch.long),
            max_new_tokens=count,
            do_sample=False,
            pad_token_id=0,
        )
    return output[0, len(prompt) :].tolist()


def worker_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("harmonia ")]


@pytest.mark.parametrize("prompt", [PROMPT, LONG_PROMPT, PROMPT[:1]], ids=["short", "long", "one token"])
def test_greedy_tokens_are_those_of_the_librarys_own_generate(random_model: Any, prompt: list[int]) -> None:
    engine = TransformersEngine(random_model)
    assert ask(engine, prompt, max_tokens=20).tokens == generate_with_transformers(random_model, prompt, 20)


def test_a_prompt_that_begins_alike_is_computed_from_where_it_differs(random_model: Any) -> None:
    engine = TransformersEngine(random_model)
    first = ask(engine, LONG_PROMPT, max_tokens=10)
    said = LONG_PROMPT + first.tokens
    with watch(random_model) as passes:
        # What was said, but for the last token, which was sampled and never read.
        longer = ask(engine, [*said, 5, 6], max_tokens=10)
        assert longer.finish is not None and longer.finish.usage is not None
        assert longer.finish.usage.cached_tokens == len(said) - 1
        assert passes.sizes[0] == 3
    # Back to the middle of the prompt, far outside of the sliding window; then the same again.
    for prompt, cached in (([*LONG_PROMPT[:300], 9], 300), ([*LONG_PROMPT[:300], 9], 300), ([1, 2, 3], 0)):
        answer = ask(engine, prompt, max_tokens=10)
        assert answer.finish is not None and answer.finish.usage is not None
        assert answer.finish.usage.cached_tokens == cached
        assert answer.tokens == generate_with_transformers(random_model, prompt, 10)
    assert longer.tokens == generate_with_transformers(random_model, [*said, 5, 6], 10)


def test_the_prompt_is_computed_in_pieces_and_each_token_once(random_model: Any) -> None:
    with watch(random_model) as passes:
        ask(TransformersEngine(random_model), LONG_PROMPT, max_tokens=4)
    assert passes.sizes == [PREFILL_TOKENS, len(LONG_PROMPT) - PREFILL_TOKENS, 1, 1, 1]


def test_nothing_is_computed_where_no_token_is_wanted(random_model: Any) -> None:
    with watch(random_model) as passes:
        answer = ask(TransformersEngine(random_model), PROMPT, max_tokens=0)
    assert passes.sizes == [] and answer.tokens == []
    assert answer.finish is not None and answer.finish.reason == "length"


def test_closing_the_stream_stops_the_passes(random_model: Any) -> None:
    async def check() -> None:
        engine = TransformersEngine(random_model)
        stream = engine.generate(PROMPT, Request(Sampling(max_tokens=100_000)))
        assert isinstance(await anext(stream), Chunk)
        await stream.aclose()
        count = len(passes.sizes)
        assert worker_threads() == []
        # Another one on the same engine computes its own tokens and no others.
        answer = Answer()
        await read(engine, PROMPT, answer, max_tokens=3)
        assert len(passes.sizes) == count + 3

    with watch(random_model) as passes:
        run_watched(check())


def test_cancelling_the_task_stops_the_passes(random_model: Any) -> None:
    async def check() -> None:
        answer = Answer()
        task = asyncio.ensure_future(read(TransformersEngine(random_model), PROMPT, answer, max_tokens=100_000))
        await until(lambda: len(answer.chunks) >= 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert worker_threads() == []
        # It was stopped, not finished: at most what the reader saw, what waited for it, and the pass that was running.
        assert len(passes.sizes) <= len(answer.tokens) + CHANNEL_TOKENS + 2

    with watch(random_model) as passes:
        run_watched(check())


def test_cancelling_does_not_wait_for_the_whole_prompt(random_model: Any) -> None:
    async def check() -> None:
        task = asyncio.ensure_future(read(TransformersEngine(random_model), LONG_PROMPT * 8, Answer()))
        await until(lambda: len(passes.sizes) >= 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert worker_threads() == []
        assert sum(passes.sizes) < len(LONG_PROMPT) * 8

    with watch(random_model) as passes:
        run_watched(check())


def test_a_stream_that_was_never_begun_starts_nothing(random_model: Any) -> None:
    async def check() -> None:
        await TransformersEngine(random_model).generate(PROMPT, Request()).aclose()

    with watch(random_model) as passes:
        run_watched(check())
    assert passes.sizes == []


def test_a_slow_reader_stops_the_sampling_and_holds_up_nobody_else(random_model: Any) -> None:
    async def check() -> None:
        engine = TransformersEngine(random_model)
        async with aclosing(engine.generate(PROMPT, Request(Sampling(max_tokens=1000)))) as slow:
            taken = await anext(slow)
            assert isinstance(taken, Chunk)
            await until(lambda: len(passes.sizes) >= len(taken.tokens) + CHANNEL_TOKENS)
            other = Answer()
            await read(engine, [1, 2, 3], other, max_tokens=50)
            assert other.tokens == generate_with_transformers(unwatched, [1, 2, 3], 50)
            # One more was sampled and waits for room.
            assert len(passes.sizes) - 50 <= len(taken.tokens) + CHANNEL_TOKENS + 1
            # What waited comes in one piece, and all of it.
            waited = await anext(slow)
            assert isinstance(waited, Chunk) and len(waited.tokens) >= CHANNEL_TOKENS
            tokens = [*taken.tokens, *waited.tokens]
        assert tokens == generate_with_transformers(unwatched, PROMPT, len(tokens))

    copy: Any = importlib.import_module("copy")
    unwatched = copy.deepcopy(random_model)
    with watch(random_model) as passes:
        run_watched(check())
    assert worker_threads() == []


def test_several_generations_at_once_do_not_disturb_each_other(random_model: Any) -> None:
    prompts = [[start, start + 1, start + 2] for start in range(5)]

    async def check() -> list[Answer]:
        engine = TransformersEngine(random_model)
        answers = [Answer() for _ in prompts]
        await asyncio.gather(
            *(read(engine, prompt, answer, max_tokens=15) for prompt, answer in zip(prompts, answers, strict=True))
        )
        return answers

    for prompt, answer in zip(prompts, run_watched(check()), strict=True):
        assert answer.tokens == generate_with_transformers(random_model, prompt, 15)
    assert worker_threads() == []


@pytest.mark.parametrize("fail_at", [0, 1, 7])
def test_a_model_that_fails_is_a_dead_engine_and_what_came_is_kept(random_model: Any, fail_at: int) -> None:
    engine = TransformersEngine(random_model)
    answer = Answer()
    with watch(random_model, fail_at) as passes, pytest.raises(EngineError) as caught:
        run_watched(read(engine, PROMPT, answer, max_tokens=20))
    assert len(passes.sizes) == fail_at
    assert caught.value.code is ErrorCode.ENGINE_DIED
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert answer.finish is None
    assert answer.tokens == generate_with_transformers(random_model, PROMPT, 20)[:fail_at]
    # And the engine goes on, without what the failed pass left behind.
    assert ask(engine, PROMPT, max_tokens=20).tokens == generate_with_transformers(random_model, PROMPT, 20)
    assert worker_threads() == []


def test_a_prompt_that_fills_the_context_is_refused_before_anything_is_computed(random_model: Any) -> None:
    engine = TransformersEngine(random_model)
    context = random_model.config.max_position_embeddings
    assert engine.traits.context_tokens == context
    with watch(random_model) as passes, pytest.raises(EngineError) as caught:
        ask(engine, [1] * context, max_tokens=1)
    assert caught.value.code is ErrorCode.ENGINE_OUT_OF_CONTEXT
    assert caught.value.at == Position(token=context)
    assert passes.sizes == []


def test_sampling_ends_where_the_context_does(random_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_model.config, "max_position_embeddings", len(PROMPT) + 5)
    answer = ask(TransformersEngine(random_model), PROMPT)
    assert len(answer.tokens) == 5
    assert answer.finish is not None and answer.finish.reason == "length"


@pytest.mark.parametrize("token", [-1, VOCABULARY_SIZE])
def test_a_token_that_does_not_exist_is_refused_by_its_place(random_model: Any, token: int) -> None:
    with pytest.raises(InputError) as caught:
        ask(TransformersEngine(random_model), [1, 2, token])
    assert caught.value.code is ErrorCode.VOCABULARY_UNKNOWN_TOKEN
    assert caught.value.at == Position(token=2)


def test_an_empty_prompt_is_refused(random_model: Any) -> None:
    with pytest.raises(InputError) as caught:
        ask(TransformersEngine(random_model), [])
    assert caught.value.code is ErrorCode.ENGINE_INVALID_OPTION


def test_a_model_is_read_from_its_folder(random_model: Any, tmp_path: Path) -> None:
    random_model.save_pretrained(tmp_path)
    engine = TransformersEngine(tmp_path, device="cpu", dtype="float32")
    assert (engine.name, engine.model) == ("transformers", str(tmp_path))
    assert (
        ask(engine, PROMPT, max_tokens=5).tokens == ask(TransformersEngine(random_model), PROMPT, max_tokens=5).tokens
    )


def test_a_folder_without_a_model_is_the_callers_fault(tmp_path: Path, engines_installed: None) -> None:
    with pytest.raises(InputError) as caught:
        TransformersEngine(tmp_path)
    assert caught.value.code is ErrorCode.ENGINE_INVALID_OPTION


def test_a_model_with_another_vocabulary_is_refused(engines_installed: None) -> None:
    from tests.run.engines.real.tiny_gpt_oss import make_config

    transformers: Any = importlib.import_module("transformers")
    with pytest.raises(InputError) as caught:
        TransformersEngine(transformers.GptOssForCausalLM(make_config(1000)))
    assert caught.value.code is ErrorCode.ENGINE_INVALID_OPTION


def test_a_loaded_model_keeps_its_device(random_model: Any) -> None:
    with pytest.raises(InputError) as caught:
        TransformersEngine(random_model, device="cpu")
    assert caught.value.code is ErrorCode.ENGINE_INVALID_OPTION


def test_closing_the_engine_ends_what_is_running_and_what_would_follow(random_model: Any) -> None:
    async def check() -> None:
        engine = TransformersEngine(random_model)
        stream = engine.generate(PROMPT, Request(Sampling(max_tokens=100_000)))
        assert isinstance(await anext(stream), Chunk)
        await engine.close()
        await engine.close()
        with pytest.raises(EngineError) as caught:
            [piece async for piece in stream]
        assert caught.value.code is ErrorCode.ENGINE_DIED
        with pytest.raises(EngineError) as caught:
            await anext(engine.generate(PROMPT, Request()))
        assert caught.value.code is ErrorCode.ENGINE_UNREACHABLE

    run_watched(check())
    assert worker_threads() == []
