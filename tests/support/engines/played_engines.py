"""Ollama and vLLM as a guide's reader has them, as far as their protocols go: they list a gpt-oss and continue prompts.

What they say is what the tiny model of `engines_real` has learnt, so that a guide's examples have the same answers here
and with a real engine. They answer in a thread, because who asks is another process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from harmonia.vocabulary import decode, encode
from tests.run.engines.real.lessons import GREETING_SCRIPT, WEATHER_QUESTION, WEATHER_SCRIPT
from tests.support.engines.engine_protocols import OLLAMA, VLLM, completion_message, ollama_message, usage_message
from tests.support.engines.scripted import say
from tests.support.servers.wire_servers import Asked, Wire, serving

OLLAMA_CONTEXT: Final = 4096  # what it takes unless a request says otherwise
VLLM_CONTEXT: Final = 8192
_CACHED: Final = 5
_LOGPROB: Final = -0.25


@dataclass
class PlayedEngine:
    """One of them, where it listens, and what it was asked to sample."""

    kind: str
    url: str = ""
    sampled: list[Any] = field(default_factory=list[Any])

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    async def handle(self, asked: Asked, wire: Wire) -> None:
        pages = _PAGES[self.kind]
        if asked.path in pages:
            await wire.answer(200, pages[asked.path])
        elif asked.path == "/v1/completions" and self.kind == "vllm":
            self.sampled.append(asked.body)
            await _complete(asked.body, wire)
        elif asked.path == "/api/generate" and self.kind == "ollama":
            self.sampled.append(asked.body)
            await _generate(asked.body, wire)
        else:
            await wire.answer(404, {"error": {"message": "not found"}})


_PAGES: Final[Mapping[str, Mapping[str, object]]] = {
    "vllm": {
        "/v1/models": {
            "object": "list",
            "data": [
                {
                    "id": "openai/gpt-oss-20b",
                    "object": "model",
                    "owned_by": "vllm",
                    "root": "openai/gpt-oss-20b",
                    "max_model_len": VLLM_CONTEXT,
                }
            ],
        },
        "/version": {"version": "0.32.0"},
    },
    "ollama": {
        "/v1/models": {"object": "list", "data": [{"id": "gpt-oss:20b", "object": "model", "owned_by": "library"}]},
        "/api/tags": {
            "models": [{"name": "gpt-oss:20b", "model": "gpt-oss:20b", "details": {"family": "gptoss"}}],
        },
        "/api/version": {"version": "0.12.11"},
    },
}


def _continue(prompt: str) -> list[int]:
    """What it says, with its stop token."""
    if "<|start|>functions.get_weather to=assistant" in prompt:
        return say(WEATHER_SCRIPT[1])
    if WEATHER_QUESTION in prompt and "type get_weather" in prompt:
        return say(WEATHER_SCRIPT[0])
    return say(GREETING_SCRIPT[0])  # whatever else it is asked


async def _complete(body: Any, wire: Wire) -> None:
    prompt = body["prompt"]
    if len(prompt) > VLLM_CONTEXT:
        await wire.answer(*VLLM.context_error)
        return
    text = prompt if isinstance(prompt, str) else decode(prompt)
    tokens = _continue(text)
    is_cut = len(tokens) > (body.get("max_tokens") or len(tokens))
    if is_cut:
        tokens = tokens[: body["max_tokens"]]
    messages = [
        completion_message(text=decode([token]), token_ids=[token], logprobs=_logprobs(token, body)) for token in tokens
    ]
    end = {"finish_reason": "length"} if is_cut else {"finish_reason": "stop", "stop_reason": tokens[-1]}
    messages[-1]["choices"][0] |= end
    used = usage_message(len(prompt), len(tokens), _CACHED)
    if not body["stream"]:
        choice = completion_message(text=decode(tokens), token_ids=tokens, **end)
        await wire.answer(200, choice | {"usage": used["usage"]})
        return
    await wire.begin(VLLM.content_type)
    for message in (*messages, used, b"[DONE]"):
        await wire.chunk(VLLM.frame(message))
    await wire.end()


def _logprobs(token: int, body: Any) -> dict[str, Any] | None:
    if body.get("logprobs") is None:
        return None
    name = f"token_id:{token}"
    return {"text_offset": [0], "tokens": [name], "token_logprobs": [_LOGPROB], "top_logprobs": [{name: _LOGPROB}]}


async def _generate(body: Any, wire: Wire) -> None:
    prompt: Any = body["prompt"]
    options: dict[str, Any] = body.get("options") or {}
    if not isinstance(prompt, str):
        await wire.answer(400, {"error": "json: cannot unmarshal array into Go struct field .prompt of type string"})
        return
    if body["model"] != "gpt-oss:20b":
        await wire.answer(404, {"error": f"model '{body['model']}' not found"})
        return
    if len(encode(prompt, special="all")) > options.get("num_ctx", OLLAMA_CONTEXT):
        await wire.answer(*OLLAMA.context_error)
        return
    assert body["raw"] is True
    tokens = _continue(prompt)[:-1]  # it keeps the stop token to itself
    (last,) = OLLAMA.finish(len(tokens))
    if options.get("num_predict", len(tokens)) < len(tokens):
        tokens = tokens[: options["num_predict"]]
        last |= {"done_reason": "length"}
    if not body["stream"]:
        await wire.answer(200, last | {"response": decode(tokens)})
        return
    await wire.begin(OLLAMA.content_type)
    for message in (*OLLAMA.say(tokens), last | ollama_message("", done=True)):
        await wire.chunk(OLLAMA.frame(message))
    await wire.end()


@contextmanager
def playing(kind: str) -> Generator[PlayedEngine]:
    """The engine, while the block runs."""
    engine = PlayedEngine(kind)
    loop = asyncio.new_event_loop()
    is_ready, may_stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with serving(engine.handle) as served:
            engine.url = served.url
            is_ready.set()
            await may_stop.wait()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert is_ready.wait(30)
        yield engine
    finally:
        loop.call_soon_threadsafe(may_stop.set)
        thread.join(30)
