"""A real model that does not speak Harmony, in real engines, through the whole run: a call, its result, an answer.

The model is a tiny Qwen3 with a vocabulary of its own, which has learnt one conversation by heart: the prompts are
those that the run writes for a Qwen3, with a scripted engine in the model's place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from harmonia import ErrorCode, Role, visible_text
from harmonia.errors import EngineError, InputError
from harmonia.events import SpannedEvent
from harmonia.run.engines import Chunk, Finish, LlamaCppEngine, Request, Sampling, TextEngine
from harmonia.run.engines.transformers import TransformersEngine
from harmonia.run.engines.transformers.vocabulary import MAX_HELD_TOKENS, OwnVocabulary, SampledText
from harmonia.run.events import CallEnded, SamplingEnded, TurnEvent
from harmonia.run.loop import Run, run
from tests.run.engines.real.lessons import get_weather
from tests.run.engines.real.real_engines import LlamaServer, run_watched, start_llama, until
from tests.run.engines.real.tiny_qwen3 import Lesson, make_model, make_tokenizer, save, teach, write_gguf
from tests.support.engines.scripted_text import ScriptedTextEngine

pytestmark = pytest.mark.engines

NAME = "tiny-qwen3-8b"
QUESTION = "What is the weather in Rome?"
ANSWER = "It is 21 degrees in Rome 🌍, and the sky is clear."
CALL = (
    "<think>\nI look it up.\n</think>\n\n"
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'
)
SCRIPT = (CALL, f"<think>\nNow I know.\n</think>\n\n{ANSWER}")
GREEDY = Sampling(max_tokens=150, temperature=0.0)
MARKS = ("<|im_start|>", "<|im_end|>", "<think>")
MANY = 900
CONTEXT = 2048


class Files(NamedTuple):
    folder: Path
    gguf: Path


def ask(engine: Any, **options: Any) -> Run:
    given: dict[str, Any] = {"profile": "auto", "allow_unverified": True, **options}
    return run(engine, QUESTION, tools=[get_weather], **given)


def events_of(running: Run) -> list[TurnEvent]:
    async def collect() -> list[TurnEvent]:
        return [event async for event in running]

    return run_watched(collect())


def find_lessons() -> list[Lesson]:
    engine = ScriptedTextEngine(*SCRIPT, model=NAME)
    events_of(ask(engine))
    return list(zip(engine.prompts, SCRIPT, strict=True))


def make_files(folder: Path, *, is_taught: bool) -> Files:
    lessons = find_lessons()
    tokenizer = make_tokenizer([text for lesson in lessons for text in lesson])
    model = make_model(tokenizer)
    if is_taught:
        teach(model, tokenizer, lessons)
    place = folder / NAME
    save(model, tokenizer, place)
    write_gguf(model, tokenizer, folder / f"{NAME}.gguf")
    return Files(place, folder / f"{NAME}.gguf")


@pytest.fixture(scope="module")
def taught(engines_installed: None, tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_files(tmp_path_factory.mktemp("taught_qwen3"), is_taught=True)


@pytest.fixture(scope="module")
def untaught(engines_installed: None, tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_files(tmp_path_factory.mktemp("random_qwen3"), is_taught=False)


@pytest.fixture(scope="module")
def taught_server(taught: Files) -> Iterator[LlamaServer]:
    with start_llama(taught.gguf, CONTEXT, NAME) as server:
        yield server


@pytest.fixture(scope="module")
def untaught_server(untaught: Files) -> Iterator[LlamaServer]:
    with start_llama(untaught.gguf, CONTEXT, NAME) as server:
        yield server


@pytest.fixture(params=["transformers", "llama.cpp"])
def engine(request: pytest.FixtureRequest) -> TextEngine:
    """The taught model in each of the engines."""
    if request.param == "transformers":
        return TransformersEngine(request.getfixturevalue("taught").folder, device="cpu")
    return LlamaCppEngine(request.getfixturevalue("taught_server").url, NAME)


@pytest.fixture(params=["transformers", "llama.cpp"])
def untaught_engine(request: pytest.FixtureRequest) -> TextEngine:
    """The random model in each of the engines."""
    if request.param == "transformers":
        return TransformersEngine(request.getfixturevalue("untaught").folder, device="cpu")
    return LlamaCppEngine(request.getfixturevalue("untaught_server").url, NAME)


async def generate(engine: TextEngine, prompt: str, stop: tuple[str, ...] = (), **sampling: Any) -> tuple[str, Finish]:
    text = ""
    async for piece in engine.generate_text(prompt, Request(Sampling(**sampling)), stop, MARKS):
        if isinstance(piece, Finish):
            return text, piece
        assert not piece.tokens
        text += piece.text
    raise AssertionError("it did not finish")


def test_a_real_model_of_another_family_calls_a_tool_and_answers(engine: TextEngine) -> None:
    running = ask(engine, sampling=GREEDY)
    events = events_of(running)
    (call,) = (event for event in events if isinstance(event, CallEnded))
    assert (call.call.value, call.call.status, call.result.is_error) == ({"city": "Rome"}, "unverified", False)
    assert running.ended is not None and running.ended.reason == "answered"
    assert visible_text(running.conversation) == ANSWER
    assert [(message.role, message.channel) for message in list(running.conversation)[-5:]] == [
        (Role.ASSISTANT, "analysis"),
        (Role.ASSISTANT, "commentary"),
        (Role.TOOL, "commentary"),
        (Role.ASSISTANT, "analysis"),
        (Role.ASSISTANT, "final"),
    ]


def test_both_engines_come_to_the_same_conversation(taught: Files, taught_server: LlamaServer) -> None:
    engines = (TransformersEngine(taught.folder, device="cpu"), LlamaCppEngine(taught_server.url, NAME))
    talks = [ask(each, sampling=GREEDY) for each in engines]
    for running in talks:
        events_of(running)
    assert talks[0].conversation == talks[1].conversation


def test_the_second_prompt_of_a_run_hits_the_engines_cache(engine: TextEngine) -> None:
    first, second = (
        event.usage for event in events_of(ask(engine, sampling=GREEDY)) if isinstance(event, SamplingEnded)
    )
    # All of the first prompt, and what was sampled behind it up to its end, or nearly: text may be split otherwise.
    assert second.cached_tokens >= first.prompt_tokens


def test_without_leave_the_call_is_not_run(engine: TextEngine) -> None:
    events = events_of(ask(engine, sampling=GREEDY, allow_unverified=False))
    (call,) = (event for event in events if isinstance(event, CallEnded))
    assert call.result.is_error and ErrorCode.TOOL_NOT_CERTAIN.value in call.result.text


@pytest.mark.parametrize("seed", range(4))
def test_a_random_model_is_no_reason_to_crash_and_everything_is_kept(untaught_engine: TextEngine, seed: int) -> None:
    sampling = Sampling(max_tokens=80, temperature=1.0, seed=seed)
    running = Run(
        untaught_engine,
        QUESTION,
        tools=[get_weather],
        profile="auto",
        allow_unverified=True,
        sampling=sampling,
        keep_sampled=True,
    )
    events = events_of(running)
    assert running.ended is not None
    ended = next(event for event in events if isinstance(event, SamplingEnded))
    assert ended.as_sampled is not None and 0 < ended.usage.completion_tokens <= 80
    first = events[: events.index(ended)]
    spans = [(event.start_char, event.end_char) for event in first if isinstance(event, SpannedEvent)]
    starts, ends = zip(*spans, strict=True)
    assert (0, *ends) == (*starts, len(ended.as_sampled.text))


# ── the route itself ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_text_is_continued_up_to_a_stop_string(engine: TextEngine) -> None:
    prompt = find_lessons()[0][0]
    text, finish = run_watched(generate(engine, prompt, ("up.\n</th",), max_tokens=100, temperature=0.0))
    assert text == "<think>\nI look it " and finish.reason == "stop"
    text, finish = run_watched(generate(engine, prompt, ("<|im_end|>",), max_tokens=100, temperature=0.0))
    assert text == CALL and finish.reason == "stop"
    assert finish.usage is not None and finish.usage.completion_tokens > 10


def test_so_many_tokens_are_a_length(engine: TextEngine) -> None:
    prompt = find_lessons()[0][0]
    text, finish = run_watched(generate(engine, prompt, ("<|im_end|>",), max_tokens=5, temperature=0.0))
    assert CALL.startswith(text) and text
    assert finish.reason == "length" and finish.usage is not None and finish.usage.completion_tokens == 5


def test_log_probabilities_have_the_texts_of_the_models_own_vocabulary(engine: TextEngine) -> None:
    prompt = find_lessons()[0][0]
    request = Request(Sampling(max_tokens=1, temperature=0.0, logprobs=2))

    async def first() -> Chunk:
        async with aclosing(engine.generate_text(prompt, request, (), MARKS)) as stream:
            piece = await anext(stream)
            assert isinstance(piece, Chunk)
            return piece

    (logprob,) = run_watched(first()).logprobs
    assert (logprob.token, logprob.text, len(logprob.top)) == (None, "<think>", 2)
    assert logprob.top[0].text == "<think>" and -0.2 < logprob.logprob < 0


def test_leaving_stops_the_engine(untaught_server: LlamaServer) -> None:
    async def check() -> None:
        before = untaught_server.sampled_tokens
        engine = LlamaCppEngine(untaught_server.url)
        stream = engine.generate_text("Hi", Request(Sampling(max_tokens=MANY, temperature=1.0)))
        await anext(stream)
        await stream.aclose()
        await until(lambda: not untaught_server.is_busy)
        assert untaught_server.sampled_tokens - before < MANY

    run_watched(check())


def test_cancelling_stops_the_thread(untaught: Files) -> None:
    async def check() -> None:
        engine = TransformersEngine(untaught.folder, device="cpu")
        stream = engine.generate_text("Hi", Request(Sampling(max_tokens=100_000, temperature=1.0)))
        task = asyncio.ensure_future(anext(stream))
        await task
        task = asyncio.ensure_future(_drain(stream))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await engine.close()
        with pytest.raises(EngineError) as caught:
            await anext(engine.generate_text("Hi", Request()))
        assert caught.value.code is ErrorCode.ENGINE_UNREACHABLE

    run_watched(check())


async def _drain(stream: Any) -> None:
    async for _ in stream:
        pass


# ── the model's own vocabulary ──────────────────────────────────────────────────────────────────────────────────────


def test_such_a_model_continues_no_harmony(taught: Files) -> None:
    engine = TransformersEngine(taught.folder, device="cpu")
    assert not engine.traits.takes_tokens and not engine.traits.gives_tokens and engine.traits.takes_grammar is None
    with pytest.raises(InputError) as caught:
        run_watched(anext(engine.generate([1, 2], Request())))
    assert caught.value.code is ErrorCode.ENGINE_INVALID_OPTION


def test_a_loaded_model_needs_its_tokenizer(taught: Files, engines_installed: None) -> None:
    loaded = TransformersEngine(taught.folder, device="cpu")._model  # pyright: ignore[reportPrivateUsage] -- it was loaded there
    with pytest.raises(InputError) as caught:
        TransformersEngine(loaded)
    assert caught.value.code is ErrorCode.ENGINE_INVALID_OPTION
    engine = TransformersEngine(loaded, tokenizer=taught.folder)
    prompt, completion = find_lessons()[1]
    text, _ = run_watched(generate(engine, prompt, max_tokens=100, temperature=0.0))
    assert text == completion


def test_a_gpt_oss_without_a_tokenizer_has_no_text_route(random_model: Any) -> None:
    with pytest.raises(InputError) as caught:
        run_watched(generate(TransformersEngine(random_model), "Hi", max_tokens=1))
    assert caught.value.code is ErrorCode.ENGINE_INVALID_OPTION


def own_vocabulary(files: Files) -> tuple[OwnVocabulary, Any]:
    import importlib

    transformers: Any = importlib.import_module("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(files.folder)
    return OwnVocabulary(tokenizer, ()), tokenizer


def test_a_special_token_that_is_no_mark_of_the_prompt_was_typed(taught: Files) -> None:
    own, tokenizer = own_vocabulary(taught)
    tokens, notes = own.encode("<|im_start|>user\n<|endoftext|><|im_end|>", ("<|im_start|>", "<|im_end|>"))
    special = [tokenizer.convert_ids_to_tokens(token) for token in tokens if token in tokenizer.all_special_ids]
    assert "<|endoftext|>" not in special and "<\\|endoftext|>" in own.decode(tokens)
    assert len(notes) == 1
    assert own.encode("<|im_start|>user\nHi<|im_end|>", ("<|im_start|>", "<|im_end|>"))[1] == ()


@pytest.mark.parametrize("text", ["Hello 🌍!", "日本語のテキスト", "a" * 50, "<think>\n👩‍👩‍👧‍👦</think>", ""])
def test_the_text_of_tokens_comes_in_whole_characters(taught: Files, text: str) -> None:
    own, tokenizer = own_vocabulary(taught)
    sampled = SampledText(own, ["<|im_end|>"])
    pieces = [sampled.take(token) for token in tokenizer(text)["input_ids"]] + [sampled.close()]
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)


def test_bytes_that_are_no_text_are_not_waited_for_for_ever(taught: Files) -> None:
    own, tokenizer = own_vocabulary(taught)
    (half,) = tokenizer("🌍")["input_ids"][:1]
    sampled = SampledText(own, [])
    pieces = [sampled.take(half) for _ in range(3 * MAX_HELD_TOKENS)]
    assert "".join(pieces).count("\ufffd") >= MAX_HELD_TOKENS


def test_the_token_that_ends_the_turn_is_no_text(taught: Files) -> None:
    own, tokenizer = own_vocabulary(taught)
    sampled = SampledText(own, [])
    assert sampled.take(tokenizer.eos_token_id) == "" and sampled.is_over and sampled.close() == ""
