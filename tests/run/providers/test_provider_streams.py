"""What providers send, in every dialect, over real sockets: whole, cut anywhere, and broken."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonia import call_of, is_visible
from harmonia.errors import EngineError, ErrorCode
from harmonia.events import ArgumentsDelta, Event, HeaderCompleted, MessageEnded, MessageStarted, TextDelta
from harmonia.messages import Conversation, Message
from harmonia.provenance import Trust
from harmonia.run.engines import Finish, Patience, Request
from harmonia.run.providers import ChatCompletionsProvider, ResponsesProvider
from tests.support.engines.provider_streams import (
    ANSWER,
    STREAMS,
    THOUGHT,
    WHOLE,
    Api,
    Said,
    Stream,
    chat_answer,
    chunk,
    event,
    response,
)
from tests.support.servers.wire_servers import SHORT, Asked, Wire, serving

QUESTION = Conversation([Message.user("Hi")])
every_stream = pytest.mark.parametrize("stream", STREAMS, ids=str)
every_api = pytest.mark.parametrize("api", ["chat", "responses"])
Handle = Callable[[Wire], Awaitable[None]]


@dataclass
class Got:
    events: list[Event] = field(default_factory=list[Event])
    finish: Finish | None = None
    error: EngineError | None = None

    @property
    def messages(self) -> list[Message]:
        return [event.message for event in self.events if isinstance(event, MessageEnded)]

    @property
    def said(self) -> tuple[Said, ...]:
        return tuple(
            (message.channel, message.recipient, message.text, message.origin.stop if message.origin else None)
            for message in self.messages
        )


def open_provider(api: Api, url: str, **options: Any) -> ChatCompletionsProvider | ResponsesProvider:
    options = {"patience": SHORT, **options}
    return (ChatCompletionsProvider if api == "chat" else ResponsesProvider)(url, "gpt-oss-20b", **options)


def ask(api: Api, handle: Handle, **options: Any) -> Got:
    """What a provider gives of an answer that `handle` writes. Nothing may stay open."""

    async def answer(asked: Asked, wire: Wire) -> None:
        assert asked.path == ("/v1/chat/completions" if api == "chat" else "/v1/responses")
        await handle(wire)

    async def run() -> Got:
        got = Got()
        async with serving(answer) as served:
            provider = open_provider(api, served.url, **options)
            try:
                async for event in provider.respond(QUESTION, Request()):
                    assert got.finish is None
                    if isinstance(event, Finish):
                        got.finish = event
                    else:
                        got.events.append(event)
            except EngineError as error:
                got.error = error
            await provider.close()
        assert_order(got.events)
        return got

    return asyncio.run(run())


def sending(*data: bytes, then: Handle | None = None) -> Handle:
    async def handle(wire: Wire) -> None:
        await wire.begin()
        for piece in data:
            await wire.chunk(piece)
        await (then(wire) if then is not None else wire.end())

    return handle


def assert_order(events: list[Event]) -> None:
    """One message after the other, each whole, and characters counted without a gap."""
    at, index, header, text = 0, -1, None, ""
    for each in events:
        match each:
            case MessageStarted():
                index += 1
                assert header is None and each.index == index
                text = ""
            case HeaderCompleted():
                header = each.header
                assert each.index == index and header.trust is Trust.CERTAIN
            case TextDelta() | ArgumentsDelta():
                assert each.header is header
                assert isinstance(each, ArgumentsDelta) == each.header.is_call
                assert (each.start_char, each.end_char) == (at, at + len(each.text))
                each.text.encode()  # no half of a character
                at, text = each.end_char, text + each.text
            case MessageEnded():
                assert header is not None and each.index == index
                assert each.message.text == text
                assert is_visible(each.message) == header.is_visible
                assert each.message.origin is not None and each.message.origin.source == "items"
                header = None
            case _:
                raise AssertionError(each)
    assert header is None


@every_stream
def test_every_dialect_says_what_it_says(stream: Stream) -> None:
    got = ask(stream.api, sending(*stream.frames(), stream.ending or b":\n\n"))
    assert got.error is None
    assert got.said == stream.said
    assert got.finish is not None
    assert (got.finish.reason, got.finish.usage) == (stream.reason, stream.usage)
    for call in filter(None, map(call_of, got.messages)):
        assert call.status == "certain" and call.is_executable


@every_stream
def test_where_the_bytes_are_cut_does_not_matter(stream: Stream) -> None:
    content = stream.content

    @settings(max_examples=5)
    @given(st.lists(st.integers(1, len(content) - 1), max_size=6))
    def check(cuts: list[int]) -> None:
        places = [0, *sorted(set(cuts)), len(content)]
        parts = [content[start:end] for start, end in pairwise(places)]
        got = ask(stream.api, sending(*parts))
        assert got.error is None
        assert got.said == stream.said

    check()


@every_stream
def test_a_stream_that_breaks_off_keeps_what_came_and_runs_nothing(stream: Stream) -> None:
    frames = stream.frames()

    @settings(max_examples=5)
    @given(st.integers(1, max(len(frames) - 3, 1)))
    def check(kept: int) -> None:
        async def die(wire: Wire) -> None:
            wire.abort()

        got = ask(stream.api, sending(*frames[:kept], then=die), patience=msgspec.structs.replace(SHORT, attempts=1))
        # The event that ends the answer may have come already.
        if got.error is None:
            assert got.said == stream.said
            return
        # A reset may overtake what was sent before it, so nothing may have come at all.
        assert got.error.code in (ErrorCode.ENGINE_DIED, ErrorCode.ENGINE_UNREACHABLE)
        for said, whole in zip(got.said, stream.said, strict=False):
            assert whole[2].startswith(said[2])
        for message in got.messages:
            assert message.origin is not None
            call = call_of(message)
            if message.origin.stop is None and call is not None:
                assert not call.is_executable

    check()


@pytest.mark.parametrize(("api", "answer", "said"), WHOLE)
def test_a_provider_that_does_not_stream_is_read_too(api: Api, answer: dict[str, Any], said: tuple[Said, ...]) -> None:
    got = ask(api, lambda wire: wire.answer(200, answer))
    assert (got.said, got.error) == (said, None)
    assert got.finish is not None
    assert got.finish.reason == "stop"
    assert got.finish.usage is not None and got.finish.usage.cached_tokens == 64
    assert "12 tokens of the completion were reasoning" in got.finish.notes


def test_an_answer_in_one_piece_may_be_laid_out_in_lines() -> None:
    body = msgspec.json.format(msgspec.json.encode(chat_answer(content=ANSWER)), indent=2)
    assert ask("chat", lambda wire: wire.answer(200, body)).said == (("final", None, ANSWER, "return"),)


# ── how an answer ends ──────────────────────────────────────────────────────────────────────────────────────────────

CUT = {
    "chat": [chunk(reasoning=THOUGHT), chunk(content=ANSWER), chunk("length")],
    "responses": [
        event("reasoning_text.delta", delta=THOUGHT),
        event("output_text.delta", delta=ANSWER),
        event("incomplete", response=response("incomplete", incomplete_details={"reason": "max_output_tokens"})),
    ],
}
CUT_CALL = {
    "chat": [
        chunk(tool_calls=[{"index": 0, "id": "a", "function": {"name": "get_weather", "arguments": '{"city": '}}]),
        chunk("length"),
    ],
    "responses": [
        event("output_item.added", item={"type": "function_call", "id": "a", "name": "get_weather", "arguments": ""}),
        event("function_call_arguments.delta", item_id="a", delta='{"city": '),
        event("incomplete", response=response("incomplete", incomplete_details={"reason": "max_output_tokens"})),
    ],
}


def framed(events: list[Any], end: bytes = b"data: [DONE]\n\n") -> Handle:
    return sending(*Stream("", "chat", tuple(events), ()).frames(), end)


@every_api
def test_an_answer_that_is_cut_off_says_length_and_has_no_stop(api: Api) -> None:
    got = ask(api, framed(CUT[api]))
    assert got.finish is not None and got.finish.reason == "length"
    assert got.said[-1] == ("final", None, ANSWER, None)


@every_api
def test_a_call_that_is_cut_off_is_not_run(api: Api) -> None:
    got = ask(api, framed(CUT_CALL[api]))
    assert got.said == (("commentary", "functions.get_weather", '{"city": ', None),)
    call = call_of(got.messages[0])
    assert call is not None and call.status == "unverified" and not call.is_executable


def test_a_whole_call_of_an_incomplete_answer_is_a_call_and_the_last_one_is_none() -> None:
    items = [
        {"type": "function_call", "name": "get_weather", "arguments": "{}", "status": "completed"},
        {"type": "function_call", "name": "get_weather", "arguments": '{"ci'},
    ]
    answer = response("incomplete", items, incomplete_details={"reason": "max_output_tokens"})
    assert [said[3] for said in ask("responses", lambda wire: wire.answer(200, answer)).said] == ["call", None]


@pytest.mark.parametrize(
    ("api", "events"),
    [
        ("chat", [chunk(refusal="I can't."), chunk("stop")]),
        ("chat", [chunk(refusal="I "), chunk(refusal="can't."), chunk("stop")]),
        ("responses", [event("refusal.delta", delta="I can't."), event("completed")]),
        ("responses", [event("refusal.done", refusal="I can't."), event("completed")]),
    ],
)
def test_a_refusal_is_an_answer_and_is_noted(api: Api, events: list[Any]) -> None:
    got = ask(api, framed(events))
    assert got.said == (("final", None, "I can't.", "return"),)
    assert got.finish is not None and got.finish.notes == ("the provider marks the text as a refusal",)


def test_a_filter_that_cuts_in_is_no_stop() -> None:
    got = ask("chat", framed([chunk(content="Well"), chunk("content_filter")]))
    assert got.finish is not None and got.finish.reason == "unknown"
    assert "content_filter" in got.finish.notes[0]


@every_api
def test_an_answer_with_nothing_in_it_says_so(api: Api) -> None:
    got = ask(api, framed([chunk("stop") if api == "chat" else event("completed")]))
    assert got.events == []
    assert got.finish is not None and got.finish.notes == ("the provider sent nothing to show and nothing to call",)


def test_text_before_calls_is_a_preamble_streamed_or_not() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    streamed = ask(
        "chat", framed([chunk(content="Let me "), chunk(content="see."), chunk(tool_calls=[call]), chunk("stop")])
    )
    whole = ask("chat", lambda wire: wire.answer(200, chat_answer("stop", content="Let me see.", tool_calls=[call])))
    assert streamed.said == whole.said
    assert whole.said == (
        ("commentary", None, "Let me see.", "end"),
        ("commentary", "functions.f", "{}", "call"),
    )


def test_half_a_character_waits_for_its_other_half() -> None:
    frames = [
        rb'data: {"choices":[{"delta":{"content":"a\ud83d"}}]}',
        rb'data: {"choices":[{"delta":{"content":"\ude00b"}}]}',
    ]
    got = ask("chat", sending(b"\n\n".join([*frames, b'data: {"choices":[{"finish_reason":"stop"}]}', b""])))
    assert got.said == (("final", None, "a😀b", "return"),)


def test_half_a_character_without_another_half_is_replaced() -> None:
    got = ask(
        "chat",
        sending(
            b'data: {"choices":[{"delta":{"content":"a\\ud83d"}}]}\n\n',
            b'data: {"choices":[{"finish_reason":"stop"}]}\n\n',
        ),
    )
    assert got.said == (("final", None, "a\N{REPLACEMENT CHARACTER}", "return"),)


def test_structure_in_a_visible_text_is_reported() -> None:
    leaked = "<|channel|>analysis<|message|>Hm<|end|>"
    got = ask("chat", framed([chunk(content=leaked), chunk("stop")]))
    assert got.said == (("final", None, leaked, "return"),)
    assert got.finish is not None and "did not parse" in got.finish.notes[0]


def test_what_has_no_place_is_noted_and_what_is_known_is_not() -> None:
    got = ask(
        "responses",
        framed(
            [
                event("output_item.done", item={"type": "web_search_call", "id": "ws_1"}),
                event("web_search_call.completed", item_id="ws_1"),
                event("output_text.annotation.added", annotation={}),
                event("brand.new"),
                event("output_text.delta", delta="Hi"),
                event("completed"),
            ]
        ),
    )
    assert got.finish is not None
    assert [("web_search_call" in note, "brand.new" in note) for note in got.finish.notes] == [
        (True, False),
        (False, True),
    ]


def test_deltas_and_a_whole_text_that_differ_are_noted() -> None:
    item = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Other"}]}
    got = ask(
        "responses",
        framed([event("output_text.delta", delta="Hi"), event("output_item.done", item=item), event("completed")]),
    )
    assert got.said == (("final", None, "Hi", "return"),)
    assert got.finish is not None and len(got.finish.notes) == 1


def test_arguments_that_differ_from_their_deltas_are_not_run() -> None:
    item = {"type": "function_call", "id": "a", "name": "pay", "arguments": '{"euro": 1000}'}
    events = [
        event("output_item.added", item={**item, "arguments": ""}),
        event("function_call_arguments.delta", item_id="a", delta='{"euro": 1}'),
        event("output_item.done", item=item),
        event("completed"),
    ]
    call = call_of(ask("responses", framed(events)).messages[0])
    assert call is not None and (call.text, call.is_executable) == ('{"euro": 1}', False)


@pytest.mark.parametrize(
    ("api", "events"),
    [
        ("chat", [chunk(reasoning=THOUGHT), chunk(content="It ra")]),
        ("responses", [event("reasoning_text.delta", delta=THOUGHT), event("output_text.delta", delta="It ra")]),
        (
            "responses",
            [event("stream.delta", delta={"channel": "analysis", "text": "Hm"}), event("stream.delta", delta="It")],
        ),
    ],
)
def test_text_is_given_as_it_comes(api: Api, events: list[Any]) -> None:
    seen = asyncio.Event()

    async def answer(asked: Asked, wire: Wire) -> None:
        await wire.begin()
        await wire.event(*events)
        await asyncio.wait_for(seen.wait(), 30)  # nothing more is sent until the text was seen
        await wire.event(*([chunk("stop")] if api == "chat" else [event("completed")]))
        await wire.end()

    async def run() -> None:
        async with serving(answer) as served:
            provider = open_provider(api, served.url)
            async for each in provider.respond(QUESTION, Request()):
                if isinstance(each, TextDelta) and each.header.is_visible:
                    seen.set()
            await provider.close()

    asyncio.run(run())


# ── faults ──────────────────────────────────────────────────────────────────────────────────────────────────────────

BEGUN = {
    "chat": [chunk(reasoning=THOUGHT), chunk(content="It ra")],
    "responses": [event("reasoning_text.delta", delta=THOUGHT), event("output_text.delta", delta="It ra")],
}
KEPT: tuple[Said, ...] = (("analysis", None, THOUGHT, "end"), ("final", None, "It ra", None))
REPORTED = {
    "chat": [
        {"error": {"message": "boom", "code": 500}},
        {**chunk("error", content=""), "error": {"message": "boom"}},
        {"object": "error", "message": "boom", "type": "x", "code": 500},
    ],
    "responses": [
        event("error", code="server_error", message="boom", param=None),
        event("error", error={"type": "server_error", "message": "boom"}),
        event("stream.error", error={"message": "boom"}),
        event("failed", response=response("failed", error={"code": "server_error", "message": "boom"})),
        {"error": {"message": "boom"}},
    ],
}


def assert_kept(got: Got, code: ErrorCode) -> None:
    assert got.error is not None and got.error.code is code
    # In a thought that nothing followed, nobody knows whether it was whole.
    assert [said[:3] for said in got.said] == [said[:3] for said in KEPT]
    assert got.said[-1] == KEPT[-1]
    assert got.finish is None


@every_api
def test_a_server_that_stalls_is_left(api: Api) -> None:
    async def stall(wire: Wire) -> None:
        await wire.wait_for_reader_to_leave()

    frames = Stream("", "chat", tuple(BEGUN[api]), ()).frames()
    patience = Patience(connect_s=5.0, first_s=30.0, idle_s=0.05, attempts=1)
    assert_kept(ask(api, sending(*frames, then=stall), patience=patience), ErrorCode.ENGINE_STALLED)


@every_api
def test_a_stream_that_ends_without_an_end_died(api: Api) -> None:
    assert_kept(ask(api, framed(BEGUN[api], b": bye\n\n")), ErrorCode.ENGINE_DIED)


@every_api
@pytest.mark.parametrize("garbage", [b"data: {nonsense\n\n", b"data: [1]\n\n", b"data: \xff\xfe\n\n", b"<html>\n"])
def test_garbage_in_a_stream_is_a_bad_answer(api: Api, garbage: bytes) -> None:
    assert_kept(ask(api, framed(BEGUN[api], garbage)), ErrorCode.ENGINE_BAD_ANSWER)


@pytest.mark.parametrize(("api", "error"), [(api, error) for api, errors in REPORTED.items() for error in errors])
def test_an_error_in_a_stream_keeps_what_came(api: Api, error: Any) -> None:
    got = ask(api, framed([*BEGUN[api], error]))
    assert_kept(got, ErrorCode.ENGINE_DIED)
    assert got.error is not None and "boom" in got.error.message


@pytest.mark.parametrize(("api", "error"), [(api, error) for api, errors in REPORTED.items() for error in errors])
def test_an_error_before_anything_else_is_a_refusal(api: Api, error: Any) -> None:
    got = ask(api, framed([error]))
    assert got.error is not None and got.error.code is ErrorCode.ENGINE_REFUSED
    assert got.events == []


@every_api
@pytest.mark.parametrize(
    ("status", "words", "code"),
    [
        (401, "wrong key", ErrorCode.ENGINE_REFUSED),
        (404, "no such model", ErrorCode.ENGINE_REFUSED),
        (400, "This model's maximum context length is 8 tokens", ErrorCode.ENGINE_OUT_OF_CONTEXT),
    ],
)
def test_an_answer_with_an_error_status_is_told_apart(api: Api, status: int, words: str, code: ErrorCode) -> None:
    got = ask(api, lambda wire: wire.answer(status, {"error": {"message": words}}))
    assert got.error is not None and got.error.code is code


def test_words_about_a_context_in_the_answer_itself_are_not_taken_for_an_error() -> None:
    failed = event("failed", response=response("failed", [], error={"message": "boom"}, instructions="context window"))
    got = ask("responses", framed([failed]))
    assert got.error is not None and got.error.code is ErrorCode.ENGINE_REFUSED


@every_api
def test_what_breaks_behind_the_end_does_no_harm(api: Api) -> None:
    end = [chunk("stop")] if api == "chat" else [event("completed")]
    got = ask(api, framed([*BEGUN[api], *end], b"data: {nonsense\n\n"))
    assert got.error is None
    assert got.said[-1][3] == "return"


@every_api
def test_leaving_closes_the_connection(api: Api) -> None:
    left = asyncio.Event()

    async def answer(asked: Asked, wire: Wire) -> None:
        await wire.begin()
        await wire.event(*BEGUN[api])
        await wire.wait_for_reader_to_leave()
        left.set()

    async def run() -> None:
        async with serving(answer) as served:
            provider = open_provider(api, served.url)
            answering = provider.respond(QUESTION, Request())
            async for each in answering:
                if isinstance(each, TextDelta):
                    break
            await answering.aclose()
            await asyncio.wait_for(left.wait(), 30)
            await provider.close()

    asyncio.run(run())


SECRET = "Between ourselves."


def message_item(**fields: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": SECRET}
    return {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [part], **fields}


@pytest.mark.parametrize(
    "item",
    [
        message_item(content=[{"type": "reasoning_text", "text": SECRET}]),
        message_item(content=[{"type": "thinking", "text": SECRET}]),
        message_item(content=[{"type": "something_new", "text": SECRET}]),
        message_item(phase="analysis"),
        message_item(phase="something_new"),
        message_item(phase=["final"]),
    ],
    ids=["reasoning_text", "thinking", "unknown part", "analysis", "unknown phase", "odd phase"],
)
@pytest.mark.parametrize("is_streamed", [False, True])
def test_what_a_provider_does_not_mark_as_an_answer_is_none(item: dict[str, Any], is_streamed: bool) -> None:
    added = event("output_item.added", output_index=0, item={**item, "content": []})
    done = event("output_item.done", output_index=0, item=item)
    delta = event("output_text.delta", output_index=0, item_id="m1", delta=SECRET)
    is_text = item["content"][0]["type"] == "output_text"
    before = [added, *([delta] if is_text else []), done] if is_streamed else []
    got = ask("responses", framed([*before, event("completed", response=response("completed", [item]))]))
    assert not any(SECRET in message.text for message in got.messages if is_visible(message))
    # It is either kept as reasoning, or said to be left out.
    assert got.finish is not None
    assert any(SECRET in message.text for message in got.messages) or "left out" in " ".join(got.finish.notes)


@pytest.mark.parametrize(
    "delta",
    [
        {"content": [{"type": "reasoning_text", "text": SECRET}]},
        {"content": [{"type": "something_new", "text": SECRET}]},
        {"channel": "analysis", "content": SECRET},
        {"phase": "analysis", "content": SECRET},
    ],
    ids=["reasoning_text", "unknown part", "channel", "phase"],
)
def test_what_a_chat_provider_does_not_mark_as_an_answer_is_none(delta: dict[str, Any]) -> None:
    got = ask("chat", framed([chunk(**delta), chunk(content="Yes."), chunk("stop")]))
    assert [message.text for message in got.messages if is_visible(message)] == ["Yes."]
    assert got.finish is not None
    assert any(SECRET in message.text for message in got.messages) or "left out" in " ".join(got.finish.notes)
