"""Engines that are given text, for models of other families: what is asked, what comes, and where it ends."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia.errors import EngineError, ErrorCode, InputError
from harmonia.run.engines import Alternative, Chunk, Finish, Request, Sampling, TextEngine, TokenLogprob, Usage
from harmonia.run.engines.demo import DemoEngine
from harmonia.run.engines.transformers.vocabulary import StopStrings
from harmonia.run.family_models import as_text_engine
from tests.support.engines.engine_protocols import (
    LLAMA_CPP,
    LM_STUDIO,
    OLLAMA,
    PROTOCOLS,
    VLLM,
    Protocol,
    completion_message,
    llama_cpp_end,
    ollama_message,
    usage_message,
)
from tests.support.servers.wire_servers import Asked, Heard, Wire, serving

ALL = pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
PROMPT = "<|im_start|>user\nHi, 世界<|im_end|>\n<|im_start|>assistant\n"
STOP = ("<|im_end|>", "<|endoftext|>")
MARKS = ("<tool_call>", "</tool_call>")


def say(protocol: Protocol, *texts: str) -> list[Any]:
    """Messages of a server that says these texts, and that its model ended its turn."""
    match protocol.name:
        case "llama.cpp":
            said = [{"content": text, "stop": False, "tokens": [151_657]} for text in texts]
            return [*said, llama_cpp_end(len(texts))]
        case "ollama":
            return [*map(ollama_message, texts), *protocol.finish(len(texts))]
        case _:
            ends = [completion_message(text="", finish_reason="stop"), usage_message(7, len(texts), 5), b"[DONE]"]
            return [*(completion_message(text=text) for text in texts), *ends]


def converse(protocol: Protocol, messages: list[Any], request: Request | None = None) -> tuple[Heard, Asked]:
    async def run() -> tuple[Heard, Asked]:
        async def handle(asked: Asked, wire: Wire) -> None:
            await wire.begin(protocol.content_type)
            for message in messages:
                await wire.chunk(protocol.frame(message))
            await wire.end()

        async with serving(handle) as served:
            heard = Heard()
            engine = cast("TextEngine", protocol.open(served.url))
            try:
                async for event in engine.generate_text(PROMPT, request or Request(), STOP, MARKS):
                    if isinstance(event, Finish):
                        heard.finish = event
                    else:
                        heard.chunks.append(event)
                        heard.text += event.text
            except EngineError as error:
                heard.error = error
            return heard, served.asked[0]

    return asyncio.run(run())


@ALL
def test_the_prompt_goes_out_and_the_answer_comes_back_as_text(protocol: Protocol) -> None:
    heard, asked = converse(protocol, say(protocol, "Hello", " 世界", "!"))
    assert (asked.path, asked.body["prompt"]) == (protocol.path, PROMPT)
    assert heard.text == "Hello 世界!" and not any(chunk.tokens for chunk in heard.chunks)
    assert heard.finish is not None
    assert (heard.finish.reason, heard.finish.notes) == ("stop", ())
    assert heard.finish.usage is not None
    assert (heard.finish.usage.prompt_tokens, heard.finish.usage.completion_tokens) == (7, 3)


@ALL
def test_the_engine_is_told_where_to_stop(protocol: Protocol) -> None:
    _, asked = converse(protocol, say(protocol, "x"))
    stop = asked.body["options"]["stop"] if protocol is OLLAMA else asked.body["stop"]
    assert stop == list(STOP)


@ALL
def test_nothing_of_the_harmony_vocabulary_is_asked_for(protocol: Protocol) -> None:
    _, asked = converse(protocol, say(protocol, "x"))
    assert not {"stop_token_ids", "return_token_ids", "return_tokens"} & asked.body.keys()
    assert "<|return|>" not in str(asked.body) and "<|call|>" not in str(asked.body)


def test_marks_that_are_special_tokens_are_kept_in_the_text() -> None:
    _, llama_cpp = converse(LLAMA_CPP, say(LLAMA_CPP, "x"))
    assert llama_cpp.body["preserved_tokens"] == [*MARKS, *STOP]
    for protocol in (VLLM, LM_STUDIO):
        _, asked = converse(protocol, say(protocol, "x"))
        assert asked.body["skip_special_tokens"] is False
        # The stop string is no part of the answer.
        assert not {"include_stop_str_in_output", "no_stop_trim"} & asked.body.keys()


@ALL
def test_the_sampling_is_named_as_for_tokens(protocol: Protocol) -> None:
    _, asked = converse(protocol, say(protocol, "x"), Request(Sampling(max_tokens=5, temperature=0.0, top_k=3)))
    named = asked.body["options"] if protocol is OLLAMA else asked.body
    most = {"llama.cpp": "n_predict", "ollama": "num_predict"}.get(protocol.name, "max_tokens")
    assert (named[most], named["temperature"], named["top_k"]) == (5, 0.0, 3)


def test_the_tokens_of_llama_cpp_may_be_any_numbers() -> None:
    heard, _ = converse(LLAMA_CPP, [{"content": "x", "tokens": [300_000], "stop": False}, llama_cpp_end(1, "word")])
    assert (heard.error, heard.text) == (None, "x")
    assert heard.finish is not None and (heard.finish.reason, heard.finish.usage) == ("stop", Usage(7, 1, 5))


def test_the_limit_of_llama_cpp_is_a_length() -> None:
    heard, _ = converse(LLAMA_CPP, [{"content": "x", "stop": False}, llama_cpp_end(1, "limit")])
    assert heard.finish is not None and heard.finish.reason == "length"


def test_log_probabilities_have_text_and_no_numbers() -> None:
    entry = {"id": 12, "token": "Hi", "logprob": -0.5, "top_logprobs": [{"id": 13, "token": "Yo", "logprob": None}]}
    messages = [{"content": "Hi", "stop": False, "completion_probabilities": [entry]}, llama_cpp_end(1)]
    heard, asked = converse(LLAMA_CPP, messages, Request(Sampling(logprobs=0)))
    assert asked.body["n_probs"] == 1
    assert heard.chunks[0].logprobs == (TokenLogprob(None, "Hi", -0.5),)
    heard, _ = converse(LLAMA_CPP, messages, Request(Sampling(logprobs=1)))
    top = (Alternative(None, "Yo", float("-inf")),)
    assert heard.chunks[0].logprobs == (TokenLogprob(None, "Hi", -0.5, top),)


@ALL
def test_what_came_before_a_fault_is_kept(protocol: Protocol) -> None:
    heard, _ = converse(protocol, [say(protocol, "Hel")[0], {"error": {"message": "out of memory"}}])
    assert heard.text == "Hel"
    assert isinstance(heard.error, EngineError) and heard.error.code is ErrorCode.ENGINE_DIED


@ALL
def test_leaving_closes_the_connection(protocol: Protocol) -> None:
    async def run() -> None:
        left = asyncio.Event()

        async def handle(_asked: Asked, wire: Wire) -> None:
            await wire.begin(protocol.content_type)
            await wire.chunk(protocol.frame(say(protocol, "x")[0]))
            await wire.wait_for_reader_to_leave()
            left.set()

        async with serving(handle) as served:
            engine = cast("TextEngine", protocol.open(served.url))
            async with aclosing(engine.generate_text(PROMPT, Request(), STOP)) as stream:
                assert await anext(stream) == Chunk([], "x")
            await asyncio.wait_for(left.wait(), 30)

    asyncio.run(run())


def test_an_engine_without_the_route_is_refused_and_says_which_have_it() -> None:
    with pytest.raises(InputError) as caught:
        as_text_engine(DemoEngine())
    assert caught.value.code is ErrorCode.ENGINE_INVALID_OPTION
    assert "llama.cpp" in caught.value.message


# Stop strings, where the engine is in this process


def cut(pieces: list[str], stop: list[str]) -> tuple[str, bool]:
    stops = StopStrings(stop)
    text = "".join([stops.feed(piece) for piece in pieces]) + stops.close()
    return text, stops.is_over


def first_stop(text: str, stop: list[str]) -> tuple[str, bool]:
    """The obvious way: look after each character."""
    for end in range(1, len(text) + 1):
        found = [word for word in stop if word and text[:end].endswith(word)]
        if found:
            return text[: end - max(map(len, found))], True
    return text, False


@given(
    st.lists(st.text("ab<", max_size=4), max_size=8),
    st.lists(st.text("ab<", max_size=4), max_size=4),
)
def test_a_text_ends_before_the_first_stop_however_it_comes(pieces: list[str], stop: list[str]) -> None:
    assert cut(pieces, stop) == first_stop("".join(pieces), stop)
    assert cut(["".join(pieces)], stop) == cut(pieces, stop)


def test_nothing_is_held_back_longer_than_it_may_be_a_stop() -> None:
    stops = StopStrings(["<|im_end|>"])
    assert [stops.feed(piece) for piece in ("a<|im", "_e", "x", "y")] == ["a", "", "<|im_ex", "y"]
