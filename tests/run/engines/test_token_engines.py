"""vLLM and llama.cpp: what is asked of them, and what is heard of their answers, written as the real servers do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harmonia.errors import EngineError, ErrorCode, InputError
from harmonia.run.engines import (
    Alternative,
    Engine,
    LlamaCppEngine,
    Request,
    Sampling,
    TokenLogprob,
    Usage,
    VllmEngine,
)
from harmonia.vocabulary import CALL, CHANNEL, END, RETURN, START, decode, decode_bytes, default_vocabulary, encode
from tests.support.engines.engine_protocols import (
    LLAMA_CPP,
    VLLM,
    Protocol,
    completion_message,
    llama_cpp_end,
    llama_cpp_message,
    usage_message,
)
from tests.support.servers.wire_servers import SHORT, Asked, Heard, Wire, listen, serving

EVERYTHING = Sampling(
    max_tokens=99,
    temperature=0.5,
    top_p=0.9,
    top_k=11,
    min_p=0.1,
    seed=7,
    presence_penalty=0.2,
    frequency_penalty=0.3,
    repetition_penalty=1.1,
    logprobs=2,
)


def converse(
    protocol: Protocol, messages: list[Any], request: Request | None = None, engine: Any = None, **options: Any
) -> tuple[Heard, Asked]:
    async def run() -> tuple[Heard, Asked]:
        async def handle(asked: Asked, wire: Wire) -> None:
            await wire.begin(protocol.content_type)
            for message in messages:
                await wire.chunk(protocol.frame(message))
            await wire.end()

        async with serving(handle) as served:
            opened: Engine = (engine or protocol.open)(served.url, **options)
            return await listen(opened, [200006, 173781], request), served.asked[0]

    return asyncio.run(run())


def test_vllm_is_asked_in_tokens_and_by_its_own_names() -> None:
    heard, asked = converse(VLLM, VLLM.finish(0), Request(sampling=EVERYTHING))
    assert (asked.method, asked.path) == ("POST", "/v1/completions")
    assert asked.body == {
        "model": "gpt-oss-20b",
        "prompt": [200006, 173781],
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
        "stop_token_ids": [RETURN, CALL],
        "skip_special_tokens": False,
        "include_stop_str_in_output": True,
        "max_tokens": 99,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 11,
        "min_p": 0.1,
        "seed": 7,
        "presence_penalty": 0.2,
        "frequency_penalty": 0.3,
        "repetition_penalty": 1.1,
        "logprobs": 2,
    }
    assert heard.finish is not None and heard.finish.notes == ()


def test_vllm_without_a_limit_is_asked_for_all_that_fits() -> None:
    _, asked = converse(VLLM, VLLM.finish(0))
    assert asked.body["max_tokens"] is None  # its default is 16
    assert "temperature" not in asked.body and "logprobs" not in asked.body


def test_more_parameters_go_to_the_engine_as_they_are() -> None:
    _, asked = converse(VLLM, VLLM.finish(0), extra={"priority": 3, "stop_token_ids": [END]})
    assert asked.body["priority"] == 3 and asked.body["stop_token_ids"] == [END]


def test_the_cache_of_vllm_is_separated_by_the_salt() -> None:
    _, asked = converse(VLLM, VLLM.finish(0))
    assert "cache_salt" not in asked.body
    _, asked = converse(VLLM, VLLM.finish(0), Request(cache_salt="of this key"))
    assert asked.body["cache_salt"] == "of this key"


def test_vllm_counts_what_was_cached() -> None:
    heard, _ = converse(VLLM, [*VLLM.say(encode("Hi")), *VLLM.finish(1)])
    assert heard.finish is not None
    assert heard.finish.usage == Usage(prompt_tokens=7, completion_tokens=2, cached_tokens=5)


@pytest.mark.parametrize("details", [None, 0])
def test_vllm_may_not_say_what_was_cached(details: int | None) -> None:
    last = completion_message(text="", token_ids=[RETURN], finish_reason="stop")
    heard, _ = converse(VLLM, [last, usage_message(7, 1, details), b"[DONE]"])
    assert heard.finish is not None and heard.finish.usage == Usage(7, 1, 0)


@pytest.mark.parametrize("token_ids", [None, [], [13], [13, CALL]])
def test_the_stop_token_that_vllm_names_is_the_last_token(token_ids: list[int] | None) -> None:
    last = completion_message(text="", token_ids=token_ids, finish_reason="stop", stop_reason=CALL)
    heard, _ = converse(VLLM, [*VLLM.say([12]), last, b"[DONE]"])
    assert heard.tokens == [12, *(token for token in token_ids or [] if token != CALL), CALL]
    assert heard.finish is not None and heard.finish.reason == "stop"


@pytest.mark.parametrize(("reason", "expected"), [("stop", "stop"), ("length", "length"), ("abort", "unknown")])
def test_the_reasons_of_vllm(reason: str, expected: str) -> None:
    heard, _ = converse(VLLM, [completion_message(text="Hi", token_ids=[12], finish_reason=reason), b"[DONE]"])
    assert heard.finish is not None and heard.finish.reason == expected
    assert heard.finish.usage is None
    assert bool(heard.finish.notes) == (expected == "unknown")


def test_the_log_probabilities_of_vllm_have_ids() -> None:
    logprobs = {
        "text_offset": [0, 2],
        "tokens": ["token_id:12", "token_id:99999999"],
        "token_logprobs": [-0.5, None],
        "top_logprobs": [{"token_id:13": -0.75, "token_id:12": -0.5}, None],
    }
    last = completion_message(text="x", token_ids=[12, 13], logprobs=logprobs, finish_reason="length")
    heard, _ = converse(VLLM, [last, b"[DONE]"], Request(sampling=Sampling(logprobs=2)))
    assert [entry for chunk in heard.chunks for entry in chunk.logprobs] == [
        TokenLogprob(
            12, decode([12]), -0.5, (Alternative(12, decode([12]), -0.5), Alternative(13, decode([13]), -0.75))
        ),
        TokenLogprob(None, "token_id:99999999", float("-inf")),
    ]


def test_a_vllm_without_token_ids_says_what_to_do() -> None:
    heard, _ = converse(VLLM, [completion_message(text="Hi"), b"[DONE]"])
    assert isinstance(heard.error, EngineError) and heard.error.code == ErrorCode.ENGINE_BAD_ANSWER


def test_vllm_needs_a_model() -> None:
    with pytest.raises(InputError) as caught:
        VllmEngine("http://host", "")
    assert caught.value.code == ErrorCode.ENGINE_INVALID_OPTION


@pytest.mark.parametrize("address", ["", "/", "/v1", "/v1/"])
def test_the_address_of_vllm_may_have_its_version(address: str) -> None:
    def open_at(url: str) -> Engine:
        return VllmEngine(url + address, "m", patience=SHORT)

    _, asked = converse(VLLM, VLLM.finish(0), engine=open_at)
    assert asked.path == "/v1/completions"


def test_llama_cpp_is_asked_in_tokens_and_by_its_own_names() -> None:
    heard, asked = converse(LLAMA_CPP, LLAMA_CPP.finish(0), Request(sampling=EVERYTHING))
    assert (asked.method, asked.path) == ("POST", "/completion")
    fields, spelled = asked.body.pop("response_fields"), asked.body.pop("preserved_tokens")
    assert {"tokens", "stop", "stop_type", "timings"} <= set(fields) and "prompt" not in fields
    assert {"<|start|>", "<|end|>", "<|call|>", "<|return|>"} <= set(spelled)
    assert asked.body == {
        "model": "gpt-oss-20b",
        "prompt": [200006, 173781],
        "stream": True,
        "return_tokens": True,
        "cache_prompt": True,
        "n_predict": 99,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 11,
        "min_p": 0.1,
        "seed": 7,
        "presence_penalty": 0.2,
        "frequency_penalty": 0.3,
        "repeat_penalty": 1.1,
        "n_probs": 2,
    }
    assert heard.finish is not None and heard.finish.notes == ()
    assert heard.finish.usage == Usage(prompt_tokens=7, completion_tokens=1, cached_tokens=5)


@pytest.mark.parametrize("seed", [-1, 2**32, 2**40 + 3])
def test_a_seed_that_llama_cpp_cannot_have_is_cut_and_said(seed: int) -> None:
    heard, asked = converse(LLAMA_CPP, LLAMA_CPP.finish(0), Request(sampling=Sampling(seed=seed)))
    assert asked.body["seed"] == seed % 2**32
    assert heard.finish is not None and len(heard.finish.notes) == 1


@pytest.mark.parametrize(("stop_type", "reason"), [("limit", "length"), ("word", "stop"), ("none", "unknown")])
def test_the_reasons_of_llama_cpp(stop_type: str, reason: str) -> None:
    heard, _ = converse(LLAMA_CPP, [*LLAMA_CPP.say([12, 13]), llama_cpp_end(2, stop_type)])
    assert heard.tokens == [12, 13]
    assert heard.finish is not None and heard.finish.reason == reason


def test_an_older_llama_cpp_says_what_it_read_instead_of_what_was_cached() -> None:
    last = llama_cpp_end(1) | {"timings": {"prompt_n": 3}}
    heard, _ = converse(LLAMA_CPP, [llama_cpp_message(RETURN, 1, ""), last])
    assert heard.finish is not None and heard.finish.usage == Usage(7, 1, 4)


@pytest.mark.parametrize("top", [0, 1])
def test_the_log_probabilities_of_llama_cpp(top: int) -> None:
    entry = {
        "id": 12,
        "token": "-",
        "bytes": [45],
        "logprob": -0.25,
        "top_logprobs": [{"id": 12, "token": "-", "bytes": [45], "logprob": -0.25}],
    }
    message = llama_cpp_message(12, 1) | {"completion_probabilities": [entry]}
    heard, asked = converse(LLAMA_CPP, [message, llama_cpp_end(1)], Request(sampling=Sampling(logprobs=top)))
    assert asked.body["n_probs"] == 1  # 0 would report nothing
    alternatives = (Alternative(12, "-", -0.25),) if top else ()
    assert heard.chunks[0].logprobs == (TokenLogprob(12, "-", -0.25, alternatives),)


def test_behind_an_id_that_llama_cpp_held_back_no_token_has_the_log_probability_of_another() -> None:
    tokens = encode("a 🫠 b c")
    messages = [
        message
        | {
            "completion_probabilities": [
                {
                    "id": message["tokens"][0],
                    "token": message["content"],
                    "logprob": -float(message["tokens_predicted"]),
                }
            ]
        }
        for message in held_back(tokens)
    ]
    request = Request(sampling=Sampling(logprobs=0))
    heard, _ = converse(LLAMA_CPP, [*messages, llama_cpp_end(len(tokens), "limit")], request)
    given = [entry for chunk in heard.chunks for entry in chunk.logprobs]
    assert heard.tokens == tokens
    assert [(entry.token, entry.logprob) for entry in given] == [(tokens[0], -1.0)]
    assert heard.finish is not None and len(heard.finish.notes) == 2


def test_the_log_probabilities_of_llama_cpp_have_the_text_of_their_token_and_not_of_the_character() -> None:
    special: dict[str, Any] = {"id": RETURN, "token": "", "bytes": [], "logprob": -0.5}
    message: dict[str, Any] = llama_cpp_message(12, 1) | {
        "completion_probabilities": [{"id": 12, "token": "x-", "logprob": -0.25, "top_logprobs": [special]}]
    }
    heard, _ = converse(LLAMA_CPP, [message, llama_cpp_end(1)], Request(sampling=Sampling(logprobs=1)))
    alternatives = (Alternative(RETURN, "<|return|>", -0.5),)
    assert heard.chunks[0].logprobs == (TokenLogprob(12, "-", -0.25, alternatives),)


@pytest.mark.parametrize("text", ["🫠", " a 🫠", "漢字 𓀀𓀁", "🏳️‍🌈 and 👩‍👩‍👧‍👦"])
def test_ids_that_llama_cpp_holds_back_are_found_again(text: str) -> None:
    tokens = encode(text + "!")
    messages = held_back(tokens)
    assert len(messages) < len(tokens)  # there is something to find
    heard, _ = converse(LLAMA_CPP, [*messages, llama_cpp_end(len(tokens), "limit")])
    assert heard.tokens == tokens
    assert heard.finish is not None and len(heard.finish.notes) == 1


def test_ids_that_are_lost_leave_the_text_and_a_note() -> None:
    # A character that was never finished: the server writes U+FFFD for it, and goes on.
    broken = encode("🫠")[0]
    end = encode(" no")[0]
    messages = [llama_cpp_message(end, 2, "\ufffd no"), llama_cpp_end(2, "limit")]
    assert decode_bytes([broken]).decode(errors="replace") == "\ufffd"
    heard, _ = converse(LLAMA_CPP, messages)
    assert decode(heard.tokens) == "\ufffd no" and heard.tokens[-1] == end
    assert heard.finish is not None and len(heard.finish.notes) == 1


def test_a_special_token_behind_an_unfinished_character_is_kept() -> None:
    messages = [llama_cpp_message(END, 2, "\ufffd<|end|>"), llama_cpp_message(START, 3, "<|start|>")]
    heard, _ = converse(LLAMA_CPP, [*messages, llama_cpp_end(3, "limit")])
    assert heard.tokens[-2:] == [END, START] and decode(heard.tokens[:-2]) == "\ufffd"


def test_tokens_that_are_counted_before_they_come_are_not_taken_for_lost() -> None:
    # Speculative decoding counts all that were accepted with the first of them.
    tokens = [*encode("one two three"), CHANNEL]
    messages = [llama_cpp_message(token, len(tokens)) for token in tokens]
    heard, _ = converse(LLAMA_CPP, [*messages, llama_cpp_end(len(tokens), "limit")])
    assert heard.tokens == tokens
    assert heard.finish is not None and heard.finish.notes == ()


def test_a_spelling_that_was_sampled_as_text_is_not_restored_as_a_special_token() -> None:
    tokens = encode("🫠<|end|>")
    heard, _ = converse(LLAMA_CPP, [*held_back(tokens), llama_cpp_end(len(tokens), "limit")])
    assert heard.tokens == tokens and END not in heard.tokens


def test_llama_cpp_is_left_when_it_goes_on_behind_a_stop_token() -> None:
    messages = [llama_cpp_message(CALL, 1, ""), llama_cpp_message(12, 2), llama_cpp_message(12, 3)]
    heard, _ = converse(LLAMA_CPP, messages)
    assert heard.tokens == [CALL] and heard.error is None
    assert heard.finish is not None and heard.finish.reason == "stop" and len(heard.finish.notes) == 1


def test_a_whole_answer_of_llama_cpp_has_every_token() -> None:
    tokens = [*encode("🫠 \ufffd"), RETURN]
    whole = llama_cpp_end(len(tokens)) | {"content": "🫠", "tokens": tokens}

    async def run() -> tuple[Heard, Asked]:
        async def handle(asked: Asked, wire: Wire) -> None:
            await wire.answer(200, whole)

        async with serving(handle) as served:
            return await listen(LlamaCppEngine(served.url, streaming=False)), served.asked[0]

    heard, asked = asyncio.run(run())
    assert heard.tokens == tokens and asked.body["stream"] is False and "model" not in asked.body
    assert heard.finish is not None and heard.finish.reason == "stop" and heard.finish.notes == ()


def test_an_older_llama_cpp_without_ids_is_a_bad_answer() -> None:
    heard, _ = converse(LLAMA_CPP, [{"content": "Hi", "stop": False}])
    assert isinstance(heard.error, EngineError) and heard.error.code == ErrorCode.ENGINE_BAD_ANSWER


def held_back(tokens: list[int]) -> list[Any]:
    """The messages of llama.cpp for these tokens: none for one that ends inside a character."""
    token_bytes = default_vocabulary().token_bytes
    messages: list[Any] = []
    pending = b""
    for count, token in enumerate(tokens, 1):
        pending += token_bytes[token]
        try:
            text = pending.decode()
        except UnicodeDecodeError:
            continue
        messages.append(llama_cpp_message(token, count, text))
        pending = b""
    return messages
