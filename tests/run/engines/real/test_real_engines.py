"""One tiny gpt-oss in transformers and in a llama.cpp server: both keep the contract of an engine, and both agree."""

from __future__ import annotations

import math
from contextlib import aclosing
from typing import Any

import pytest

import harmonia
from harmonia.errors import EngineError, ErrorCode
from harmonia.run.engines.base import Chunk, Engine, Request, Sampling, Usage
from harmonia.run.engines.llama_cpp import LlamaCppEngine
from harmonia.run.engines.transformers import TransformersEngine
from harmonia.vocabulary import CALL, RETURN
from tests.run.engines.real.lessons import GREETING_SCRIPT, WEATHER_SCRIPT, find_lessons
from tests.run.engines.real.real_engines import LlamaServer, ask, run_watched

pytestmark = pytest.mark.engines

PROMPT = harmonia.encode("<|start|>user<|message|>Hello there, how are you?<|end|><|start|>assistant", special="all")
# Four times the sliding window.
LONG_PROMPT = [(7 * index * index + 13 * index) % 199_000 for index in range(512)]


@pytest.mark.parametrize("prompt", [PROMPT, LONG_PROMPT], ids=["short", "beyond the sliding window"])
def test_the_engines_sample_the_same_greedy_tokens_with_the_same_log_probabilities(
    random_model: Any, random_llama: LlamaServer, prompt: list[int]
) -> None:
    llama = LlamaCppEngine(random_llama.url)
    ours = ask(TransformersEngine(random_model), prompt, max_tokens=12, temperature=0.0, logprobs=3)
    theirs = ask(llama, prompt, max_tokens=12, temperature=0.0, logprobs=3)
    assert ours.tokens == theirs.tokens
    assert [entry.token for entry in ours.logprobs] == ours.tokens
    assert [entry.token for entry in theirs.logprobs] == theirs.tokens
    for mine, other in zip(ours.logprobs, theirs.logprobs, strict=True):
        assert mine.logprob == pytest.approx(other.logprob, abs=0.01)
        assert [entry.logprob for entry in mine.top] == pytest.approx([entry.logprob for entry in other.top], abs=0.01)


def test_a_llama_tokenizes_as_we_do(random_llama: LlamaServer) -> None:
    text = "<|start|>user<|message|>Grüße, 你好!  2026\n\n\tif x == 1234567: it's 🌍<|end|>"
    answer = random_llama.post("/tokenize", {"content": text, "parse_special": True})
    assert answer["tokens"] == harmonia.encode(text, special="all")


def test_tokens_come_as_they_are_sampled(random_engine: Engine) -> None:
    answer = ask(random_engine, PROMPT, max_tokens=30, temperature=0.0)
    assert len(answer.chunks) > 1
    assert len(answer.tokens) == 30
    assert answer.finish is not None and answer.finish.reason == "length"
    usage = answer.finish.usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (len(PROMPT), 30)


def test_the_first_chunk_is_there_before_the_last_token_is_sampled(random_engine: Engine) -> None:
    async def check() -> None:
        stream = random_engine.generate(PROMPT, Request(Sampling(max_tokens=900, temperature=0.0)))
        async with aclosing(stream):
            chunk = await anext(stream)
            assert isinstance(chunk, Chunk) and len(chunk.tokens) < 900

    run_watched(check())


@pytest.mark.parametrize("lesson", [0, 1, 2], ids=["call", "answer", "greeting"])
def test_a_model_that_speaks_harmony_is_heard_to_its_stop_token(taught_engine: Engine, lesson: int) -> None:
    prompt, expected = find_lessons()[lesson]
    answer = ask(taught_engine, prompt, max_tokens=100, temperature=0.0)
    assert answer.text == (*WEATHER_SCRIPT, *GREETING_SCRIPT)[lesson]
    assert answer.tokens == expected
    assert answer.tokens[-1] == (CALL if lesson == 0 else RETURN)
    assert answer.finish is not None and answer.finish.reason == "stop"
    assert answer.finish.usage is not None
    assert answer.finish.usage.completion_tokens == len(expected)


def test_a_stop_token_that_is_the_last_that_was_asked_for_is_a_stop(taught_engine: Engine) -> None:
    prompt, expected = find_lessons()[1]
    answer = ask(taught_engine, prompt, max_tokens=len(expected), temperature=0.0)
    assert answer.tokens == expected
    assert answer.finish is not None and answer.finish.reason == "stop"


def test_a_seed_repeats_an_answer_and_another_gives_another(random_engine: Engine) -> None:
    def say(seed: int) -> list[int]:
        return ask(random_engine, PROMPT, max_tokens=12, temperature=1.0, seed=seed).tokens

    first = say(1)
    assert len(first) > 3
    assert say(1) == first
    assert say(2) != first


def test_each_token_has_its_log_probability_and_the_likeliest_beside_it(random_engine: Engine) -> None:
    answer = ask(random_engine, PROMPT, max_tokens=8, temperature=0.0, logprobs=4)
    assert len(answer.logprobs) == 8
    for entry in answer.logprobs:
        assert len(entry.top) == 4
        logprobs = [other.logprob for other in entry.top]
        assert logprobs == sorted(logprobs, reverse=True)
        assert entry.top[0].token == entry.token  # it was the likeliest
        assert math.exp(entry.logprob) <= 1


def test_without_being_asked_for_there_are_no_log_probabilities(random_engine: Engine) -> None:
    assert ask(random_engine, PROMPT, max_tokens=3, temperature=0.0).logprobs == []


def test_the_sampled_tokens_alone_can_have_log_probabilities(random_engine: Engine) -> None:
    answer = ask(random_engine, PROMPT, max_tokens=3, temperature=0.0, logprobs=0)
    assert len(answer.logprobs) == 3
    assert all(entry.top == () for entry in answer.logprobs)


def test_a_second_prompt_that_begins_alike_is_partly_cached(taught_engine: Engine) -> None:
    (first_prompt, first_completion), (second_prompt, _), *_ = find_lessons()
    ask(taught_engine, [1, 2, 3], max_tokens=1, temperature=0.0)  # whatever was asked before
    first = ask(taught_engine, first_prompt, max_tokens=100, temperature=0.0)
    assert first.tokens == first_completion
    assert second_prompt[: len(first_prompt) + len(first_completion)] == [*first_prompt, *first_completion]
    second = ask(taught_engine, second_prompt, max_tokens=100, temperature=0.0)
    assert second.finish is not None
    usage = second.finish.usage
    assert isinstance(usage, Usage)
    # All that was read and said before, but for the stop token: it was sampled and not read.
    assert usage.cached_tokens == len(first_prompt) + len(first_completion) - 1
    assert usage.prompt_tokens == len(second_prompt)


def test_a_prompt_longer_than_the_context_is_out_of_context(random_engine: Engine) -> None:
    assert random_engine.traits.context_tokens is not None
    with pytest.raises(EngineError) as caught:
        ask(random_engine, [1] * (random_engine.traits.context_tokens + 1), max_tokens=1)
    assert caught.value.code is ErrorCode.ENGINE_OUT_OF_CONTEXT
