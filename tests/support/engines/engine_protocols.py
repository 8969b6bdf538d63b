"""The four protocols of engines over HTTP, as their servers write them: what a test needs to play any of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harmonia.run.engines import CompletionsEngine, Engine, LlamaCppEngine, OllamaEngine, VllmEngine
from harmonia.vocabulary import RETURN, IncrementalDecoder, decode
from tests.support.servers.wire_servers import SHORT, Heard


@dataclass(frozen=True)
class Protocol:
    name: str
    path: str
    content_type: str
    open: Callable[..., Engine]
    say: Callable[[Sequence[int]], list[Any]]  # messages that say these tokens, one each
    finish: Callable[[int], list[Any]]  # the messages at the end, after so many tokens
    context_error: tuple[int, Any]
    gives_tokens: bool

    def frame(self, message: Any) -> bytes:
        data = message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()
        return data + b"\n" if self.content_type == "application/x-ndjson" else b"data: " + data + b"\n\n"

    def said(self, heard: Heard) -> list[int] | str:
        return heard.tokens if self.gives_tokens else heard.text

    def expected(self, tokens: Sequence[int]) -> list[int] | str:
        return list(tokens) if self.gives_tokens else decode(tokens)

    def __str__(self) -> str:
        return self.name


def _opens(make: Callable[..., Engine]) -> Callable[..., Engine]:
    def open_(url: str, **options: Any) -> Engine:
        return make(url, "gpt-oss-20b", **{"patience": SHORT, **options})

    return open_


def texts_of(tokens: Sequence[int]) -> list[str]:
    """The text that each token adds, as a server streams it: a character is whole or not there yet."""
    decoder = IncrementalDecoder()
    return [decoder.feed(token) for token in tokens]


def completion_message(**choice: Any) -> dict[str, Any]:
    return {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 1763000000,
        "model": "gpt-oss-20b",
        "choices": [{"index": 0, "logprobs": None, "finish_reason": None, "stop_reason": None, **choice}],
        "usage": None,
    }


def usage_message(prompt: int, completion: int, cached: int | None = None) -> dict[str, Any]:
    details = None if cached is None else {"cached_tokens": cached}
    return {
        **completion_message(),
        "choices": [],
        "usage": {
            "prompt_tokens": prompt,
            "total_tokens": prompt + completion,
            "completion_tokens": completion,
            "prompt_tokens_details": details,
        },
    }


def llama_cpp_message(token: int, count: int, content: str | None = None) -> dict[str, Any]:
    return {
        "index": 0,
        "content": decode([token]) if content is None else content,
        "tokens": [token],
        "stop": False,
        "id_slot": -1,
        "tokens_predicted": count,
        "tokens_evaluated": 7,
    }


def llama_cpp_end(count: int, stop_type: str = "eos") -> dict[str, Any]:
    return {
        "content": "",
        "tokens": [],
        "stop": True,
        "stop_type": stop_type,
        "truncated": False,
        "tokens_predicted": count,
        "tokens_evaluated": 7,
        "timings": {"cache_n": 5, "prompt_n": 2, "prompt_ms": 30.7, "predicted_n": count},
    }


def ollama_message(text: str, **more: Any) -> dict[str, Any]:
    base = {"model": "gpt-oss:20b", "created_at": "2025-10-17T23:14:07.414671Z", "response": text, "done": False}
    return base | more


VLLM = Protocol(
    "vllm",
    "/v1/completions",
    "text/event-stream; charset=utf-8",
    _opens(VllmEngine),
    lambda tokens: [completion_message(text=decode([token]), token_ids=[token]) for token in tokens],
    lambda count: [
        completion_message(text="<|return|>", token_ids=[RETURN], finish_reason="stop", stop_reason=RETURN),
        usage_message(7, count + 1, 5),
        b"[DONE]",
    ],
    (
        400,
        {
            "error": {
                "message": "This model's maximum context length is 1024 tokens. However, you requested 2016 tokens "
                "(2000 in the messages, 16 in the completion). Please reduce the length of the messages or completion.",
                "type": "BadRequestError",
                "param": None,
                "code": 400,
            }
        },
    ),
    gives_tokens=True,
)
LLAMA_CPP = Protocol(
    "llama.cpp",
    "/completion",
    "text/event-stream",
    _opens(LlamaCppEngine),
    lambda tokens: [llama_cpp_message(token, count) for count, token in enumerate(tokens, 1)],
    lambda count: [llama_cpp_message(RETURN, count + 1, ""), llama_cpp_end(count + 1)],
    (
        400,
        {
            "error": {
                "code": 400,
                "message": "request (2000 tokens) exceeds the available context size (512 tokens), try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 2000,
                "n_ctx": 512,
            }
        },
    ),
    gives_tokens=True,
)
OLLAMA = Protocol(
    "ollama",
    "/api/generate",
    "application/x-ndjson",
    _opens(OllamaEngine),
    lambda tokens: [ollama_message(text) for text in texts_of(tokens)],
    lambda count: [
        ollama_message(
            "",
            done=True,
            done_reason="stop",
            total_duration=174560334,
            load_duration=101397084,
            prompt_eval_count=7,
            prompt_eval_duration=13074791,
            eval_count=count,
            eval_duration=52479709,
        )
    ],
    (400, {"error": "the input length exceeds the context length"}),
    gives_tokens=False,
)
LM_STUDIO = Protocol(
    "lmstudio",
    "/v1/completions",
    "text/event-stream",
    _opens(CompletionsEngine),
    lambda tokens: [completion_message(text=text) for text in texts_of(tokens)],
    lambda count: [completion_message(text="", finish_reason="stop"), usage_message(7, count), b"[DONE]"],
    (
        400,
        {
            "error": "Trying to keep the first 5120 tokens when context the overflows. However, the model is loaded "
            "with context length of only 4096 tokens, which is not enough."
        },
    ),
    gives_tokens=False,
)
PROTOCOLS = (VLLM, LLAMA_CPP, OLLAMA, LM_STUDIO)
