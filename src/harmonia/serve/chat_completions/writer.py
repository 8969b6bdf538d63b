"""Answers as JSON: chunks while the model writes, or one completion at the end.

The first chunk of a choice has the role, the last one the reason why it ended. Joining the chunks gives the completion,
except for what a chunk cannot take back: if a call was cut off, the last chunk has its index as `unfinished_call`, and
the completion leaves the call out; text that turned out to be a thought stays in the chunks only.

`hidden_because`, `unfinished_call` and `warnings` are ours. They stand beside `finish_reason`, so that clients do not
send them back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from harmonia.json_codec import encode_bytes, encode_string
from harmonia.messages import Json
from harmonia.run.engines.base import TokenLogprob, Usage
from harmonia.serve.chat_completions.request import CallKind, CreateCompletion
from harmonia.serve.wire.token_usage import write_logprob

FinishReason = Literal["stop", "length", "tool_calls"]
Logprobs = Sequence[TokenLogprob]


@dataclass(frozen=True, slots=True)
class Finished:
    """How a choice ended. `hidden_because` explains why there is neither content nor a call; `unfinished_call` is the
    index of a call that was cut off; `warnings` report constraints that were not verified."""

    reason: FinishReason
    usage: Usage
    reasoning_tokens: int
    hidden_because: str | None = None
    unfinished_call: int | None = None
    warnings: tuple[str, ...] = ()


class Envelope(msgspec.Struct, frozen=True):
    """What is the same in all chunks of an answer."""

    id: str
    created: int
    model: str
    request: CreateCompletion

    def head(self, kind: str) -> Json:
        head: Json = {"id": self.id, "object": kind, "created": self.created, "model": self.model}
        return head if self.request.service_tier is None else {**head, "service_tier": "default"}

    @property
    def uses_functions(self) -> bool:
        """Whether the client uses the older API, which has functions instead of tools."""
        return self.request.functions is not None

    def ending(self, finished: Finished) -> Json:
        """Why a choice ended."""
        is_older_call = self.uses_functions and finished.reason == "tool_calls"
        ending: Json = {"finish_reason": "function_call" if is_older_call else finished.reason}
        if finished.hidden_because is not None:
            ending["hidden_because"] = finished.hidden_because
        if finished.warnings:
            ending["warnings"] = list(finished.warnings)
        return ending


# ── chunks ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class ChunkSink:
    """Writes one choice as chunks; `chunks` are those that were not drained yet."""

    def __init__(self, envelope: Envelope, index: int) -> None:
        self.chunks: list[bytes] = []
        self.finished: Finished | None = None
        self._kind: CallKind = "function"
        self._envelope = envelope
        head = encode_bytes(envelope.head("chat.completion.chunk"))
        self._head = head[:-1] + b',"choices":[{"index":%d,"delta":' % index
        self._tail = b"}]" + (b',"usage":null' if envelope.request.wants_usage else b"") + b"}"
        # A content delta is written once a token.
        self._before_content = self._head + b'{"content":'
        self._after_content = b'},"logprobs":null,"finish_reason":null' + self._tail
        self._put({"role": "assistant", "content": ""})

    def begin_content(self) -> None:
        pass

    def add_content(self, text: str, logprobs: Logprobs) -> None:
        if logprobs:
            self._put({"content": text}, logprobs=_write_logprobs(logprobs))
        else:
            self.chunks.append(self._before_content + encode_string(text) + self._after_content)

    def take_back_content(self) -> bool:
        """Forget what was added since content last began. Returns whether that is possible."""
        return False

    def add_reasoning(self, text: str) -> None:
        self._put({"reasoning": text, "reasoning_content": text})

    def begin_call(self, index: int, id_: str, kind: CallKind, name: str) -> None:
        if self._envelope.uses_functions:
            self._put({"function_call": {"name": name, "arguments": ""}})
            return
        self._kind = kind
        called: Json = {"name": name, _input_field(kind): ""}
        self._put({"tool_calls": [{"index": index, "id": id_, "type": kind, kind: called}]})

    def add_arguments(self, index: int, text: str) -> None:
        if self._envelope.uses_functions:
            self._put({"function_call": {"arguments": text}})
            return
        self._put({"tool_calls": [{"index": index, self._kind: {_input_field(self._kind): text}}]})

    def finish(self, finished: Finished) -> None:
        self.finished = finished
        ending = self._envelope.ending(finished)
        if finished.unfinished_call is not None:
            ending["unfinished_call"] = finished.unfinished_call
        self._put({}, ending=ending)

    def drain(self) -> list[bytes]:
        """The chunks that were written since the last time."""
        chunks, self.chunks = self.chunks, []
        return chunks

    def _put(self, delta: Json, *, logprobs: Json | None = None, ending: Json | None = None) -> None:
        rest = {"logprobs": logprobs, **(ending or {"finish_reason": None})}
        self.chunks.append(self._head + encode_bytes(delta) + b"," + encode_bytes(rest)[1:-1] + self._tail)


def usage_chunk(envelope: Envelope, sinks: Sequence[ChunkSink]) -> bytes:
    """The last chunk, if the client asked for the usage."""
    return encode_bytes({**envelope.head("chat.completion.chunk"), "choices": [], "usage": _usage(sinks)})


# ── the completion ──────────────────────────────────────────────────────────────────────────────────────────────────


class MessageSink:
    """Gathers one choice into a message."""

    def __init__(self, envelope: Envelope, index: int) -> None:
        self.finished: Finished | None = None
        self._envelope = envelope
        self._index = index
        self._content: list[str] = []
        # How many pieces and log-probabilities there were when content last began.
        self._before = self._logprobs_before = 0
        self._reasoning: list[str] = []
        self._logprobs: list[TokenLogprob] = []
        self._calls: list[tuple[str, CallKind, str, list[str]]] = []

    def begin_content(self) -> None:
        self._before, self._logprobs_before = len(self._content), len(self._logprobs)

    def add_content(self, text: str, logprobs: Logprobs) -> None:
        self._content.append(text)
        self._logprobs += logprobs

    def take_back_content(self) -> bool:
        del self._content[self._before :]
        del self._logprobs[self._logprobs_before :]
        return True

    def add_reasoning(self, text: str) -> None:
        self._reasoning.append(text)

    def begin_call(self, index: int, id_: str, kind: CallKind, name: str) -> None:
        self._calls.append((id_, kind, name, []))

    def add_arguments(self, index: int, text: str) -> None:
        self._calls[index][3].append(text)

    def finish(self, finished: Finished) -> None:
        self.finished = finished
        if finished.unfinished_call is not None:
            del self._calls[finished.unfinished_call]

    def write(self) -> Json:
        """The choice; it has ended."""
        assert self.finished is not None
        content = "".join(self._content)
        message: Json = {"role": "assistant", "content": content or (None if self._calls else ""), "refusal": None}
        if self._reasoning:
            message["reasoning"] = message["reasoning_content"] = "".join(self._reasoning)
        if self._calls and self._envelope.uses_functions:
            _, _, name, parts = self._calls[0]
            message["function_call"] = {"name": name, "arguments": "".join(parts)}
        elif self._calls:
            message["tool_calls"] = [
                {"id": id_, "type": kind, kind: {"name": name, _input_field(kind): "".join(parts)}}
                for id_, kind, name, parts in self._calls
            ]
        logprobs = _write_logprobs(self._logprobs) if self._envelope.request.logprobs else None
        ending = self._envelope.ending(self.finished)
        return {"index": self._index, "message": message, "logprobs": logprobs, **ending}


Sink = ChunkSink | MessageSink


def write_completion(envelope: Envelope, sinks: Sequence[MessageSink]) -> bytes:
    """The whole answer."""
    choices = [sink.write() for sink in sinks]
    answer: Json = {**envelope.head("chat.completion"), "choices": choices, "usage": _usage(sinks)}
    if envelope.request.metadata is not None:
        answer["metadata"] = envelope.request.metadata
    return encode_bytes(answer)


# ── what both have ──────────────────────────────────────────────────────────────────────────────────────────────────


def _input_field(kind: CallKind) -> str:
    return "input" if kind == "custom" else "arguments"


def _usage(sinks: Sequence[Sink]) -> Json:
    """What all choices used together. They share one prompt, which is counted once."""
    endings = [sink.finished for sink in sinks if sink.finished is not None]
    prompt = max((each.usage for each in endings), key=lambda usage: usage.prompt_tokens)
    completion_tokens = sum(each.usage.completion_tokens for each in endings)
    return {
        "prompt_tokens": prompt.prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt.prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": prompt.cached_tokens, "cache_write_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": sum(each.reasoning_tokens for each in endings)},
    }


def _write_logprobs(logprobs: Logprobs) -> Json:
    return {"content": [write_logprob(each) for each in logprobs], "refusal": None}
