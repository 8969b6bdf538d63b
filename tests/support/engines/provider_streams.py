"""Streams of providers, in the dialects that servers speak, and what they say.

Each says the same: it thinks, and then answers, or calls two tools at once. How it says so differs in everything that a
dialect can differ in: names of fields and events, ids that change, numbers that are wrong, pieces that interleave.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from harmonia.run.engines import Usage

Api = Literal["chat", "responses"]
Said = tuple[str | None, str | None, str, str | None]  # channel, recipient, text, stop

THOUGHT = "They want 東京, 🌧️."
ANSWER = "It rains in 東京: 🌧️ 👩‍👩‍👧 all day."
PARIS = '{"city": "Paris", "unit": "°C"}'
TOKYO = '{"city": "東京"}'

ANSWERED: tuple[Said, ...] = (("analysis", None, THOUGHT, "end"), ("final", None, ANSWER, "return"))
CALLED: tuple[Said, ...] = (
    ("analysis", None, THOUGHT, "end"),
    ("commentary", "functions.get_weather", PARIS, "call"),
    ("commentary", "functions.get_weather", TOKYO, "call"),
)


@dataclass(frozen=True)
class Stream:
    name: str
    api: Api
    events: tuple[Any, ...]
    said: tuple[Said, ...]
    usage: Usage | None = None
    reason: str = "stop"
    ending: bytes = b"data: [DONE]\n\n"
    comments: bytes = b""

    def frames(self) -> list[bytes]:
        return [self.frame(event) for event in self.events]

    def frame(self, event: Any) -> bytes:
        name = f"event: {event['type']}\n".encode() if self.api == "responses" and "type" in event else b""
        return (
            self.comments
            + name
            + b"data: "
            + json.dumps(event, ensure_ascii=len(self.name) % 2 == 0).encode()
            + b"\n\n"
        )

    @property
    def content(self) -> bytes:
        return b"".join(self.frames()) + self.ending

    def __str__(self) -> str:
        return f"{self.api}: {self.name}"


def pieces(text: str, size: int = 5) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


# ── Chat Completions ────────────────────────────────────────────────────────────────────────────────────────────────


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1763000000,
        "model": "gpt-oss-20b",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}],
    }


def call_delta(index: int | None, arguments: str | None = None, **fields: Any) -> dict[str, Any]:
    function = {name: fields.pop(name) for name in ("name",) if name in fields}
    if arguments is not None:
        function["arguments"] = arguments
    numbered = {} if index is None else {"index": index}
    return {**numbered, **fields, "function": function}


def chat_usage(**more: Any) -> dict[str, Any]:
    return {"prompt_tokens": 70, "completion_tokens": 40, "total_tokens": 110, **more}


def reasoning_chunks(*fields: str, details: bool = False) -> list[Any]:
    chunks: list[Any] = []
    for piece in pieces(THOUGHT):
        delta: dict[str, Any] = {field: piece for field in fields}
        if details:
            delta["reasoning_details"] = [{"type": "reasoning.text", "text": piece, "format": "unknown", "index": 0}]
        chunks.append(chunk(content="" if details else None, **delta))
    return chunks


def content_chunks() -> list[Any]:
    return [chunk(content=piece) for piece in pieces(ANSWER)]


FIRST = chunk(role="assistant", content="")
INTERLEAVED = [
    chunk(tool_calls=[call_delta(0, "", id="call_a", type="function", name="get_weather")]),
    chunk(tool_calls=[call_delta(0, PARIS[:10])]),
    chunk(tool_calls=[call_delta(1, "", id="call_b", type="function", name="get_weather")]),
    chunk(tool_calls=[call_delta(1, TOKYO[:4]), call_delta(0, PARIS[10:12])]),
    chunk(tool_calls=[call_delta(0, PARIS[12:])]),
    chunk(tool_calls=[call_delta(1, TOKYO[4:])]),
]
WITH_CACHE = chat_usage(
    prompt_tokens_details={"cached_tokens": 64}, completion_tokens_details={"reasoning_tokens": 12, "audio_tokens": 0}
)

CHAT = (
    Stream(
        "OpenAI, an answer",
        "chat",
        (
            FIRST,
            *reasoning_chunks("reasoning_content"),
            *content_chunks(),
            chunk("stop"),
            {**chunk(), "choices": [], "usage": WITH_CACHE},
        ),
        ANSWERED,
        Usage(70, 40, 64),
    ),
    Stream(
        "OpenAI, calls that interleave",
        "chat",
        (FIRST, *reasoning_chunks("reasoning_content"), *INTERLEAVED, chunk("tool_calls")),
        CALLED,
    ),
    Stream(
        "vLLM",
        "chat",
        (
            FIRST,
            *reasoning_chunks("reasoning", "reasoning_content"),
            *(
                chunk(tool_calls=[delta])
                for index, arguments in enumerate((PARIS, TOKYO))
                for delta in (
                    call_delta(index, "", id=f"chatcmpl-tool-{index}", type="function", name="get_weather"),
                    *(call_delta(index, piece) for piece in pieces(arguments)),
                )
            ),
            {**chunk("tool_calls"), "usage": None},
            {**chunk(), "choices": [], "usage": chat_usage(prompt_tokens_details=None)},
        ),
        CALLED,
        Usage(70, 40, 0),
    ),
    Stream(
        "Ollama, whose calls are all number 0",
        "chat",
        (
            chunk(role="assistant", content="", reasoning=THOUGHT),
            chunk(content="", tool_calls=[call_delta(0, PARIS, id="call_x", type="function", name="get_weather")]),
            chunk(content="", tool_calls=[call_delta(0, TOKYO, id="call_y", type="function", name="get_weather")]),
            chunk("tool_calls", content=""),
            {**chunk(), "choices": [], "usage": chat_usage()},
        ),
        CALLED,
        Usage(70, 40, 0),
    ),
    Stream(
        "llama.cpp",
        "chat",
        (
            chunk(role="assistant", content=None),
            *reasoning_chunks("reasoning_content"),
            *content_chunks(),
            chunk("stop"),
            {**chunk(), "choices": [], "usage": chat_usage(), "timings": {"cache_n": 60, "prompt_n": 10}},
        ),
        ANSWERED,
        Usage(70, 40, 60),
    ),
    Stream(
        "LM Studio, names in pieces and no numbers",
        "chat",
        (
            FIRST,
            *reasoning_chunks("reasoning"),
            chunk(tool_calls=[call_delta(None, id="1", type="function", name="get_")]),
            chunk(tool_calls=[call_delta(None, name="weather")]),
            *(chunk(tool_calls=[call_delta(None, piece)]) for piece in pieces(PARIS)),
            chunk(tool_calls=[call_delta(None, TOKYO, id="2", type="function", name="get_weather")]),
            chunk("tool_calls"),
        ),
        CALLED,
        ending=b"",
    ),
    Stream(
        "OpenRouter",
        "chat",
        (
            *reasoning_chunks("reasoning", details=True),
            *content_chunks(),
            {**chunk("stop", content=""), "provider": "Somebody"},
            {**chunk("stop", content=""), "usage": {**WITH_CACHE, "cost": 0.01}},
        ),
        ANSWERED,
        Usage(70, 40, 64),
        comments=b": OPENROUTER PROCESSING\n\n",
    ),
    Stream(
        "OpenRouter, details only",
        "chat",
        (*reasoning_chunks(details=True), *content_chunks(), chunk("stop")),
        ANSWERED,
    ),
    Stream(
        "parts",
        "chat",
        (
            *(
                chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": piece}]}])
                for piece in pieces(THOUGHT)
            ),
            *(chunk(content=[{"type": "text", "text": piece}]) for piece in pieces(ANSWER)),
            chunk("stop"),
        ),
        ANSWERED,
    ),
)


# ── Responses ───────────────────────────────────────────────────────────────────────────────────────────────────────


def event(type_: str, **fields: Any) -> dict[str, Any]:
    return {"type": type_ if type_ == "error" else f"response.{type_}", "sequence_number": 0, **fields}


def response(status: str, output: Sequence[Any] = (), **fields: Any) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "status": status, "output": list(output), **fields}


RESPONSES_USAGE = {
    "input_tokens": 70,
    "input_tokens_details": {"cached_tokens": 64},
    "output_tokens": 40,
    "output_tokens_details": {"reasoning_tokens": 12},
    "total_tokens": 110,
}
REASONING_ITEM: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": THOUGHT}],
    "status": "completed",
}
MESSAGE_ITEM: dict[str, Any] = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": ANSWER, "annotations": []}],
}
PARIS_ITEM: dict[str, Any] = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "get_weather",
    "arguments": PARIS,
    "status": "completed",
}
TOKYO_ITEM: dict[str, Any] = {**PARIS_ITEM, "id": "fc_2", "call_id": "call_2", "arguments": TOKYO}


def text_events(
    item: dict[str, Any], index: int, text: str, kind: str, part: str = "content_part", last: int | None = None
) -> list[Any]:
    place = {"item_id": item["id"], "output_index": index, "content_index": 0}
    empty: dict[str, Any] = {**item, "content": [], "status": "in_progress"}
    return [
        event("output_item.added", output_index=index, item=empty),
        event(f"{part}.added", **place, part={"type": kind, "text": ""}),
        *(event(f"{kind}.delta", **place, delta=piece) for piece in pieces(text)),
        event(f"{kind}.done", **place, text=text),
        event(f"{part}.done", **place, part={"type": kind, "text": text}),
        event("output_item.done", output_index=index if last is None else last, item=item),
    ]


def call_events(item: dict[str, Any], index: int) -> list[Any]:
    place = {"item_id": item["id"], "output_index": index}
    return [
        event("output_item.added", output_index=index, item={**item, "arguments": "", "status": "in_progress"}),
        *(event("function_call_arguments.delta", **place, delta=piece) for piece in pieces(item["arguments"])),
        event("function_call_arguments.done", **place, arguments=item["arguments"], name=item["name"]),
        event("output_item.done", output_index=index, item=item),
    ]


def interleave(one: list[Any], other: list[Any]) -> list[Any]:
    longest = max(len(one), len(other))
    return [event for at in range(longest) for events in (one, other) for event in events[at : at + 1]]


BEGIN = (event("created", response=response("in_progress")), event("in_progress", response=response("in_progress")))
END = event("completed", response=response("completed", (REASONING_ITEM, MESSAGE_ITEM), usage=RESPONSES_USAGE))
CALLS_END = event("completed", response=response("completed", (REASONING_ITEM, PARIS_ITEM, TOKYO_ITEM)))
THINKS = text_events(REASONING_ITEM, 0, THOUGHT, "reasoning_text")
ANSWERS = text_events(MESSAGE_ITEM, 1, ANSWER, "output_text")

RESPONSES = (
    Stream("OpenAI, an answer", "responses", (*BEGIN, *THINKS, *ANSWERS, END), ANSWERED, Usage(70, 40, 64)),
    Stream(
        "OpenAI, calls that interleave",
        "responses",
        (*BEGIN, *THINKS, *interleave(call_events(PARIS_ITEM, 1), call_events(TOKYO_ITEM, 2)), CALLS_END),
        CALLED,
        ending=b"",
    ),
    Stream(
        "OpenAI, a summary in parts",
        "responses",
        (
            *BEGIN,
            event("output_item.added", output_index=0, item={"type": "reasoning", "id": "rs_1", "summary": []}),
            *(
                event("reasoning_summary_text.delta", item_id="rs_1", output_index=0, summary_index=part, delta=piece)
                for part, text in enumerate(("One.", "Two."))
                for piece in pieces(text, 2)
            ),
            event(
                "output_item.done",
                output_index=0,
                item={
                    "type": "reasoning",
                    "id": "rs_1",
                    "summary": [{"type": "summary_text", "text": text} for text in ("One.", "Two.")],
                    "encrypted_content": "gAAAA",
                },
            ),
            *ANSWERS,
            event("completed", response=response("completed")),
        ),
        (("analysis", None, "One.\n\nTwo.", "end"), ANSWERED[1]),
    ),
    Stream(
        "OpenAI, a preamble with its phase",
        "responses",
        (
            *text_events({**MESSAGE_ITEM, "phase": "commentary"}, 0, ANSWER, "output_text"),
            *call_events(PARIS_ITEM, 1),
            event("completed", response=response("completed")),
        ),
        (("commentary", None, ANSWER, "end"), CALLED[1]),
    ),
    Stream(
        "a preamble without its phase",
        "responses",
        (*text_events(MESSAGE_ITEM, 0, ANSWER, "output_text"), *call_events(PARIS_ITEM, 1), event("completed")),
        (("commentary", None, ANSWER, "end"), CALLED[1]),
    ),
    Stream(
        "vLLM, with parts of its own and new ids at the end",
        "responses",
        (
            *BEGIN,
            *text_events({**REASONING_ITEM, "id": "msg_0"}, 0, THOUGHT, "reasoning_text", "reasoning_part"),
            *call_events(PARIS_ITEM, 1),
            *call_events(TOKYO_ITEM, 2),
            event(
                "completed",
                response=response(
                    "completed",
                    ({**REASONING_ITEM, "id": "rs_9"}, {**PARIS_ITEM, "id": "fc_8"}, {**TOKYO_ITEM, "id": "fc_9"}),
                    usage=RESPONSES_USAGE,
                ),
            ),
        ),
        CALLED,
        Usage(70, 40, 64),
    ),
    Stream(
        "gpt-oss's own server, which counts from -1 and streams no calls",
        "responses",
        (
            *BEGIN,
            *text_events(REASONING_ITEM, -1, THOUGHT, "reasoning_text", last=0),
            event("output_item.done", output_index=1, item=PARIS_ITEM),
            event("output_item.done", output_index=2, item=TOKYO_ITEM),
            event("completed", response=response("completed")),
        ),
        CALLED,
    ),
    Stream(
        "llama.cpp, without numbers",
        "responses",
        tuple(
            {name: value for name, value in each.items() if name not in ("output_index", "sequence_number")}
            for each in (*BEGIN, *THINKS, *ANSWERS, END)
        ),
        ANSWERED,
        Usage(70, 40, 64),
        ending=b"",
    ),
    Stream(
        "Open Responses",
        "responses",
        (*BEGIN, *text_events(REASONING_ITEM, 0, THOUGHT, "reasoning"), *ANSWERS, END),
        ANSWERED,
        Usage(70, 40, 64),
    ),
    Stream(
        "the end only",
        "responses",
        (event("completed", response=response("completed", (REASONING_ITEM, MESSAGE_ITEM), usage=RESPONSES_USAGE)),),
        ANSWERED,
        Usage(70, 40, 64),
    ),
    Stream(
        "whole items only",
        "responses",
        (
            event("output_item.done", output_index=0, item=REASONING_ITEM),
            event("output_item.done", output_index=1, item=MESSAGE_ITEM),
            event("completed", response=response("completed", (REASONING_ITEM, MESSAGE_ITEM))),
        ),
        ANSWERED,
    ),
    Stream(
        "the Harmony guide, an answer",
        "responses",
        (
            *(event("stream.delta", delta={"channel": "analysis", "text": piece}) for piece in pieces(THOUGHT)),
            *(event("stream.delta", delta=piece) for piece in pieces(ANSWER)),
            event("completed"),
        ),
        ANSWERED,
    ),
    Stream(
        "the Harmony guide, calls",
        "responses",
        (
            *(event("reasoning_text.delta", delta=piece) for piece in pieces(THOUGHT)),
            *(
                event("output_tool_call.delta", call_id=f"call_{at}", name="get_weather", delta=piece)
                for at, arguments in enumerate((PARIS, TOKYO))
                for piece in pieces(arguments)
            ),
            event("completed"),
        ),
        CALLED,
    ),
)

STREAMS = (*CHAT, *RESPONSES)

# ── answers in one piece ────────────────────────────────────────────────────────────────────────────────────────────


def chat_answer(finish: str = "stop", **message: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}],
        "usage": WITH_CACHE,
    }


WHOLE_CALLS = [
    {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": PARIS}},
    {"id": "call_2", "type": "function", "function": {"name": "get_weather", "arguments": TOKYO}},
]
WHOLE: tuple[tuple[Api, dict[str, Any], tuple[Said, ...]], ...] = (
    ("chat", chat_answer(content=ANSWER, reasoning=THOUGHT), ANSWERED),
    ("chat", chat_answer("tool_calls", content=None, reasoning_content=THOUGHT, tool_calls=WHOLE_CALLS), CALLED),
    ("responses", response("completed", (REASONING_ITEM, MESSAGE_ITEM), usage=RESPONSES_USAGE), ANSWERED),
    ("responses", response("completed", (REASONING_ITEM, PARIS_ITEM, TOKYO_ITEM), usage=RESPONSES_USAGE), CALLED),
)
