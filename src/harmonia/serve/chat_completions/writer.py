"""Answers as JSON: chunks while the model writes, or one completion at the end.

The first chunk of a choice has the role, the last one the reason why it ended. Joining the chunks gives the completion,
except for what a chunk cannot take back: if a call was cut off, the last chunk has its index as `unfinished_call`, and
the completion leaves the call out; text that turned out to be a thought stays in the chunks only.

`hidden_because`, `unfinished_call` and `warnings` are ours. They stand beside `finish_reason`, so that clients do not
send them back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from harmonia.json_codec import encode_bytes, encode_string
from harmonia.messages import Json
from harmonia.run.engines.base import TokenLogprob
from harmonia.serve.chat_completions.answer import Finished, Logprobs
from harmonia.serve.chat_completions.tools import CallKind
from harmonia.serve.wire.token_usage import write_logprob


class Envelope(msgspec.Struct, frozen=True):
    """What is the same in all chunks of an answer. `uses_functions`: the client uses the older API, which has functions
    instead of tools."""

    id: str
    created: int
    model: str
    service_tier: str | None = None
    metadata: dict[str, str] | None = None
    has_usage: bool = False  # chunks have the field, because the client asked for it
    has_logprobs: bool = False
    uses_functions: bool = False


# ── chunks ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class ChunkSink:
    """Writes one choice as chunks; `chunks` are those that were not drained yet."""

    def __init__(self, envelope: Envelope, index: int) -> None:
        self.chunks: list[bytes] = []
        self.finished: Finished | None = None
        self._uses_functions = envelope.uses_functions
        head = _chunk_head(envelope)
        self._head = head + b'"choices":[{"index":%d,"delta":' % index
        self._tail = b"}]" + (b',"usage":null' if envelope.has_usage else b"") + b"}"
        # A content delta is written once a token.
        self._before_content = self._head + b'{"content":'
        self._after_content = b'},"logprobs":null,"finish_reason":null' + self._tail
        self._put({"role": "assistant", "content": ""})

    def begin_content(self) -> None:
        pass

    def add_content(self, text: str, logprobs: Logprobs) -> None:
        if logprobs:
            self._put({"content": text}, logprobs=write_logprobs(logprobs))
        else:
            self.chunks.append(self._before_content + encode_string(text) + self._after_content)

    def take_back_content(self) -> bool:
        return False

    def add_reasoning(self, text: str) -> None:
        self._put({"reasoning": text, "reasoning_content": text})

    def begin_call(self, index: int, id_: str, kind: CallKind, name: str) -> None:
        if self._uses_functions:
            self._put({"function_call": {"name": name, "arguments": ""}})
            return
        called: Json = {"name": name, "input" if kind == "custom" else "arguments": ""}
        self._kind = kind
        self._put({"tool_calls": [{"index": index, "id": id_, "type": kind, kind: called}]})

    def add_arguments(self, index: int, text: str) -> None:
        if self._uses_functions:
            self._put({"function_call": {"arguments": text}})
            return
        called = {"input": text} if self._kind == "custom" else {"arguments": text}
        self._put({"tool_calls": [{"index": index, self._kind: called}]})

    def finish(self, finished: Finished) -> None:
        self.finished = finished
        self._put({}, finished=finished)

    def drain(self) -> list[bytes]:
        """The chunks that were written since the last time."""
        chunks, self.chunks = self.chunks, []
        return chunks

    def _put(self, delta: Json, *, logprobs: Json | None = None, finished: Finished | None = None) -> None:
        rest: Json = {"logprobs": logprobs, "finish_reason": None}
        if finished is not None:
            rest = {"logprobs": None, **_ending(finished, uses_functions=self._uses_functions)}
            if finished.unfinished_call is not None:
                rest["unfinished_call"] = finished.unfinished_call
        self.chunks.append(self._head + encode_bytes(delta) + b"," + encode_bytes(rest)[1:-1] + self._tail)


def usage_chunk(envelope: Envelope, endings: Sequence[Finished]) -> bytes:
    """The last chunk, if the client asked for the usage."""
    return _chunk_head(envelope) + b'"choices":[],"usage":' + encode_bytes(write_usage(endings)) + b"}"


def _chunk_head(envelope: Envelope) -> bytes:
    head: Json = {
        "id": envelope.id,
        "object": "chat.completion.chunk",
        "created": envelope.created,
        "model": envelope.model,
    }
    if envelope.service_tier is not None:
        head["service_tier"] = envelope.service_tier
    return encode_bytes(head)[:-1] + b","


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
            message["tool_calls"] = [_write_call(*call) for call in self._calls]
        logprobs = write_logprobs(self._logprobs) if self._envelope.has_logprobs else None
        ending = _ending(self.finished, uses_functions=self._envelope.uses_functions)
        return {"index": self._index, "message": message, "logprobs": logprobs, **ending}


def write_completion(envelope: Envelope, choices: Iterable[Json], endings: Sequence[Finished]) -> bytes:
    """The whole answer."""
    answer: Json = {
        "id": envelope.id,
        "object": "chat.completion",
        "created": envelope.created,
        "model": envelope.model,
        "choices": list(choices),
        "usage": write_usage(endings),
    }
    if envelope.service_tier is not None:
        answer["service_tier"] = envelope.service_tier
    if envelope.metadata is not None:
        answer["metadata"] = envelope.metadata
    return encode_bytes(answer)


def _write_call(id_: str, kind: CallKind, name: str, parts: list[str]) -> Json:
    return {"id": id_, "type": kind, kind: {"name": name, "input" if kind == "custom" else "arguments": "".join(parts)}}


# ── what both have ──────────────────────────────────────────────────────────────────────────────────────────────────


def _ending(finished: Finished, *, uses_functions: bool) -> Json:
    reason = "function_call" if uses_functions and finished.reason == "tool_calls" else finished.reason
    ending: Json = {"finish_reason": reason}
    if finished.hidden_because is not None:
        ending["hidden_because"] = finished.hidden_because
    if finished.warnings:
        ending["warnings"] = list(finished.warnings)
    return ending


def write_usage(endings: Sequence[Finished]) -> Json:
    """What all choices used together. They share one prompt, which is counted once."""
    prompt = max(endings, key=lambda each: each.usage.prompt_tokens).usage
    completion_tokens = sum(each.usage.completion_tokens for each in endings)
    return {
        "prompt_tokens": prompt.prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt.prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": prompt.cached_tokens, "cache_write_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": sum(each.reasoning_tokens for each in endings)},
    }


def write_logprobs(logprobs: Logprobs) -> Json:
    """Log-probabilities of tokens of the content."""
    return {"content": [write_logprob(each) for each in logprobs], "refusal": None}
