"""What may go wrong between here and an engine, and what the caller sees of it. Every protocol over real sockets."""

from __future__ import annotations

import asyncio
import gc
import logging
import warnings
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonia.errors import EngineError, ErrorCode, InputError, Position
from harmonia.run.engines import Finish, Patience, Request
from harmonia.run.engines.http import Server
from harmonia.vocabulary import RETURN, encode
from tests.support.engines.engine_protocols import LLAMA_CPP, OLLAMA, PROTOCOLS, VLLM, Protocol
from tests.support.servers.wire_servers import SHORT, Asked, Heard, Wire, listen, serving, unused_port

TOKENS = encode("It rains in 東京, 🌧️ and 🫠.")
every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
Then = Callable[[Wire], Awaitable[None]]


def play(protocol: Protocol, *, tokens: int = 3, then: Then | None = None, **options: Any) -> Heard:
    """An answer of some tokens, and then something else than its end."""

    async def handle(asked: Asked, wire: Wire) -> None:
        await wire.begin(protocol.content_type)
        for message in protocol.say(TOKENS[:tokens]):
            await wire.chunk(protocol.frame(message))
        if then is not None:
            await then(wire)

    async def run() -> Heard:
        async with serving(handle) as served:
            engine = protocol.open(served.url, **options)
            heard = await listen(engine)
            await engine.close()
            await engine.close()
            return heard

    return run_clean(run())


def run_clean(coroutine: Any) -> Any:
    """Run, and see that no task, connection or generator was left behind: each would be a warning."""

    async def checked() -> Any:
        before = asyncio.all_tasks()
        result = await coroutine
        gc.collect()
        await asyncio.sleep(
            0
        )  # httpx2 drops a generator, which the event loop of 3.12 and later closes in its next turn
        assert asyncio.all_tasks() <= before
        return result

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = asyncio.run(checked())
        gc.collect()
    return result


def code_of(heard: Heard) -> ErrorCode:
    assert isinstance(heard.error, EngineError), repr(heard.error)
    return heard.error.code


@every_protocol
def test_a_whole_answer_is_heard(protocol: Protocol) -> None:
    async def end(wire: Wire) -> None:
        for message in protocol.finish(3):
            await wire.chunk(protocol.frame(message))
        await wire.end()

    heard = play(protocol, then=end)
    assert heard.error is None
    assert protocol.said(heard) == protocol.expected([*TOKENS[:3], RETURN] if protocol.gives_tokens else TOKENS[:3])
    assert heard.finish is not None and heard.finish.reason == "stop" and heard.finish.usage is not None
    assert heard.finish.usage.prompt_tokens == 7


@every_protocol
def test_a_connection_that_dies_half_way_keeps_what_came(protocol: Protocol) -> None:
    async def die(wire: Wire) -> None:
        wire.abort()

    heard = play(protocol, then=die)
    assert code_of(heard) == ErrorCode.ENGINE_DIED
    assert heard.finish is None
    # A reset may overtake bytes that were not read yet; what was heard is a beginning.
    expected, said = protocol.expected(TOKENS[:3]), protocol.said(heard)
    assert expected[: len(said)] == said


@every_protocol
def test_a_connection_that_is_closed_half_way_keeps_what_came(protocol: Protocol) -> None:
    heard = play(protocol)
    assert code_of(heard) == ErrorCode.ENGINE_DIED
    assert protocol.said(heard) == protocol.expected(TOKENS[:3])


@every_protocol
def test_a_stream_that_ends_in_order_but_unfinished_has_died(protocol: Protocol) -> None:
    heard = play(protocol, then=lambda wire: wire.end())
    assert code_of(heard) == ErrorCode.ENGINE_DIED
    assert protocol.said(heard) == protocol.expected(TOKENS[:3])


@every_protocol
def test_a_line_that_is_cut_off_has_died_and_is_no_garbage(protocol: Protocol) -> None:
    # Without chunks, the end of the connection is the only end there is.
    whole = b"".join(map(protocol.frame, protocol.say(TOKENS[:4])))

    async def run() -> Heard:
        async def handle(asked: Asked, wire: Wire) -> None:
            await wire.write(f"HTTP/1.1 200 OK\r\ncontent-type: {protocol.content_type}\r\n\r\n".encode())
            await wire.write(whole.rstrip()[:-5])

        async with serving(handle) as served:
            return await listen(protocol.open(served.url))

    heard = run_clean(run())
    assert code_of(heard) == ErrorCode.ENGINE_DIED
    assert protocol.said(heard) == protocol.expected(TOKENS[:3])


@every_protocol
def test_silence_in_the_middle_is_a_stall(protocol: Protocol) -> None:
    patience = msgspec.structs.replace(SHORT, idle_s=0.2)
    heard = play(protocol, then=lambda wire: wire.wait_for_reader_to_leave(), patience=patience)
    assert code_of(heard) == ErrorCode.ENGINE_STALLED
    assert protocol.said(heard) == protocol.expected(TOKENS[:3])


@every_protocol
def test_silence_before_the_first_token_is_a_stall_and_not_tried_again(protocol: Protocol) -> None:
    patience = msgspec.structs.replace(SHORT, first_s=0.2)
    heard = play(protocol, tokens=0, then=lambda wire: wire.wait_for_reader_to_leave(), patience=patience)
    assert code_of(heard) == ErrorCode.ENGINE_STALLED


@every_protocol
@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\xfe\x00 garbage \x00\n\n",
        b"<html>a proxy's page</html>\n\n",
        b"data: {\n\n",
        b'data: {"choices": 3, "content": 3, "response": 3}\n\n',
        b'data: {"choices": [{"text": "\xff"}], "content": "\xff", "response": "\xff"}\n\n',
    ],
    ids=["bytes", "html", "broken JSON", "wrong types", "broken UTF-8"],
)
def test_garbage_is_a_bad_answer_and_what_stood_before_it_is_kept(protocol: Protocol, garbage: bytes) -> None:
    if protocol is OLLAMA:
        garbage = garbage.removeprefix(b"data: ")
    heard = play(protocol, then=lambda wire: wire.chunk(garbage))
    assert code_of(heard) == ErrorCode.ENGINE_BAD_ANSWER
    assert protocol.said(heard) == protocol.expected(TOKENS[:3])


@every_protocol
def test_garbage_in_the_same_piece_as_tokens_takes_nothing_away(protocol: Protocol) -> None:
    piece = b"".join(map(protocol.frame, protocol.say(TOKENS[:4]))) + protocol.frame(b"{]")
    heard = play(protocol, tokens=0, then=lambda wire: wire.chunk(piece))
    assert code_of(heard) == ErrorCode.ENGINE_BAD_ANSWER
    assert protocol.said(heard) == protocol.expected(TOKENS[:4])


@every_protocol
def test_what_is_no_http_is_a_bad_answer(protocol: Protocol) -> None:
    async def handle(asked: Asked, wire: Wire) -> None:
        await wire.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")

    async def run() -> Heard:
        async with serving(handle) as served:
            return await listen(protocol.open(served.url))

    assert code_of(run_clean(run())) == ErrorCode.ENGINE_BAD_ANSWER


@pytest.mark.parametrize("protocol", [VLLM, LLAMA_CPP], ids=str)
@pytest.mark.parametrize("wrong", [201088, -1, 2**31])
def test_a_token_that_does_not_exist_is_named_with_its_place(protocol: Protocol, wrong: int) -> None:
    message = protocol.say(TOKENS[:1])[0]
    if protocol is VLLM:
        message["choices"][0]["token_ids"] = [*TOKENS[3:5], wrong, 0]
    else:
        message = {**message, "tokens": [*TOKENS[3:5], wrong, 0], "tokens_predicted": 7}
    heard = play(protocol, then=lambda wire: wire.chunk(protocol.frame(message)))
    assert code_of(heard) == ErrorCode.ENGINE_BAD_ANSWER
    assert isinstance(heard.error, EngineError) and heard.error.at == Position(token=5)
    assert heard.tokens == TOKENS[:5]


@every_protocol
def test_a_line_without_an_end_is_a_bad_answer(protocol: Protocol) -> None:
    async def run() -> EngineError:
        async def handle(asked: Asked, wire: Wire) -> None:
            await wire.begin(protocol.content_type)
            while True:
                await wire.chunk(b"data: " + b"x" * 65536)

        async with serving(handle) as served:
            server = Server(served.url, patience=SHORT, max_line_bytes=1 << 20)
            framing = "ndjson" if protocol is OLLAMA else "sse"
            with pytest.raises(EngineError) as caught:
                await anext(server.lines("/", {}, framing))
            return caught.value

    assert run_clean(run()).code == ErrorCode.ENGINE_BAD_ANSWER


@every_protocol
def test_nobody_at_the_address_is_unreachable(protocol: Protocol) -> None:
    heard = run_clean(listen(protocol.open(f"http://127.0.0.1:{unused_port()}")))
    assert code_of(heard) == ErrorCode.ENGINE_UNREACHABLE


@every_protocol
def test_a_server_that_hangs_up_without_a_word_is_tried_again(protocol: Protocol) -> None:
    async def run() -> tuple[Heard, int]:
        async def handle(asked: Asked, wire: Wire) -> None:
            if len(served.asked) == 1:
                return  # before the status
            await wire.begin(protocol.content_type)
            if len(served.asked) == 2:
                return  # before the first token
            await wire.chunk(b"".join(map(protocol.frame, [*protocol.say(TOKENS), *protocol.finish(len(TOKENS))])))
            await wire.end()

        async with serving(handle) as served:
            return await listen(protocol.open(served.url)), len(served.asked)

    heard, attempts = run_clean(run())
    assert heard.error is None and attempts == 3


@every_protocol
def test_a_server_that_always_hangs_up_is_unreachable(protocol: Protocol) -> None:
    async def run() -> tuple[Heard, int]:
        async def handle(asked: Asked, wire: Wire) -> None: ...

        async with serving(handle) as served:
            return await listen(protocol.open(served.url)), len(served.asked)

    heard, attempts = run_clean(run())
    assert code_of(heard) == ErrorCode.ENGINE_UNREACHABLE and attempts == SHORT.attempts


@every_protocol
def test_after_a_token_nothing_is_tried_again(protocol: Protocol) -> None:
    async def run() -> int:
        async def handle(asked: Asked, wire: Wire) -> None:
            await wire.begin(protocol.content_type)
            await wire.chunk(protocol.frame(protocol.say(TOKENS)[0]))

        async with serving(handle) as served:
            heard = await listen(protocol.open(served.url))
            assert code_of(heard) == ErrorCode.ENGINE_DIED
            return len(served.asked)

    assert run_clean(run()) == 1


def answering(protocol: Protocol, *answers: tuple[int, object, dict[str, str]], **options: Any) -> tuple[Heard, int]:
    """Each answer once, and then a whole one."""

    async def run() -> tuple[Heard, int]:
        async def handle(asked: Asked, wire: Wire) -> None:
            if len(served.asked) <= len(answers):
                status, body, headers = answers[len(served.asked) - 1]
                await wire.answer(status, body, **headers)
                return
            await wire.begin(protocol.content_type)
            await wire.chunk(b"".join(map(protocol.frame, [*protocol.say(TOKENS), *protocol.finish(len(TOKENS))])))
            await wire.end()

        async with serving(handle) as served:
            return await listen(protocol.open(served.url, **options)), len(served.asked)

    return run_clean(run())


@every_protocol
@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_server_is_asked_again(protocol: Protocol, status: int) -> None:
    heard, attempts = answering(protocol, (status, {"error": "busy"}, {"retry_after": "0"}), (status, b"", {}))
    assert heard.error is None and attempts == 3


@every_protocol
def test_a_server_that_stays_busy_is_not_asked_for_ever(protocol: Protocol) -> None:
    busy: tuple[int, object, dict[str, str]] = (503, {"error": "Loading model"}, {})
    heard, attempts = answering(protocol, *[busy] * 9)
    assert code_of(heard) == ErrorCode.ENGINE_REFUSED and attempts == SHORT.attempts


@pytest.mark.parametrize("retry_after", ["3600", "Wed, 21 Oct 2099 07:28:00 GMT"])
def test_a_server_that_wants_too_long_a_wait_is_not_waited_for(retry_after: str) -> None:
    heard, attempts = answering(VLLM, (429, {"error": "busy"}, {"retry_after": retry_after}))
    assert code_of(heard) == ErrorCode.ENGINE_REFUSED and attempts == 1


@pytest.mark.parametrize("retry_after", ["1", "Wed, 21 Oct 2015 07:28:00 GMT", "soon"])
def test_a_wait_may_be_seconds_a_date_or_nonsense(retry_after: str) -> None:
    heard, attempts = answering(VLLM, (429, {"error": "busy"}, {"retry_after": retry_after}))
    assert heard.error is None and attempts == 2


@every_protocol
@pytest.mark.parametrize("status", [301, 400, 401, 404, 422, 500])
def test_a_refusal_has_the_words_of_the_server_and_is_final(protocol: Protocol, status: int) -> None:
    heard, attempts = answering(protocol, (status, {"error": {"message": "no such model: überholt"}}, {}))
    assert code_of(heard) == ErrorCode.ENGINE_REFUSED and attempts == 1
    assert "no such model: überholt" in str(heard.error) and str(status) in str(heard.error)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": {"message": "words", "type": "x", "code": 400}}, "words"),
        ({"object": "error", "message": "words", "code": 400}, "words"),
        ({"error": "words"}, "words"),
        ({"detail": [{"loc": ["body"], "msg": "words"}]}, "words"),
        (b"plain words\n", "plain words"),
        (b"\xff words", "words"),
        (b"", "500"),
    ],
)
def test_every_shape_of_an_error_is_read(body: object, words: str) -> None:
    heard, _ = answering(VLLM, (500, body, {}))
    assert code_of(heard) == ErrorCode.ENGINE_REFUSED and words in str(heard.error)


@every_protocol
def test_a_prompt_that_is_too_long_is_known_by_each_engines_own_words(protocol: Protocol) -> None:
    status, body = protocol.context_error
    heard, attempts = answering(protocol, (status, body, {}))
    assert code_of(heard) == ErrorCode.ENGINE_OUT_OF_CONTEXT and attempts == 1


@every_protocol
def test_a_prompt_that_is_too_long_may_be_found_out_in_the_stream(protocol: Protocol) -> None:
    _, body = protocol.context_error
    heard = play(protocol, tokens=0, then=lambda wire: wire.chunk(protocol.frame(body)))
    assert code_of(heard) == ErrorCode.ENGINE_OUT_OF_CONTEXT


@every_protocol
@pytest.mark.parametrize(("tokens", "code"), [(0, ErrorCode.ENGINE_REFUSED), (3, ErrorCode.ENGINE_DIED)])
def test_an_error_inside_the_stream_has_its_words(protocol: Protocol, tokens: int, code: ErrorCode) -> None:
    message: Any = (
        {"error": "CUDA error: out of memory"} if protocol is OLLAMA else {"error": {"message": "CUDA error"}}
    )
    heard = play(protocol, tokens=tokens, then=lambda wire: wire.chunk(protocol.frame(message)))
    assert code_of(heard) == code and "CUDA error" in str(heard.error)
    assert protocol.said(heard) == protocol.expected(TOKENS[:tokens])


@every_protocol
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_pieces_may_end_anywhere(protocol: Protocol, data: st.DataObject) -> None:
    # Also inside a character, inside a line, and between the two bytes of a line's end.
    messages = [*protocol.say(TOKENS), *protocol.finish(len(TOKENS))]
    whole = b"".join(map(protocol.frame, messages))
    if data.draw(st.booleans()):
        whole = whole.replace(b"\n", b"\r\n")
    if protocol is not OLLAMA:
        whole = b": ping\n\nevent: message\nid: 1\nretry: 5\n" + whole
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), max_size=40)))

    async def run() -> Heard:
        async def handle(asked: Asked, wire: Wire) -> None:
            await wire.begin(protocol.content_type)
            for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
                await wire.chunk(whole[start:end])
                await asyncio.sleep(0)
            await wire.end()

        async with serving(handle) as served:
            return await listen(protocol.open(served.url))

    heard = asyncio.run(run())
    assert heard.error is None
    expected = [*TOKENS, RETURN] if protocol.gives_tokens else TOKENS
    assert protocol.said(heard) == protocol.expected(expected)


@every_protocol
def test_one_token_in_each_piece_is_heard_like_all_in_one(protocol: Protocol) -> None:
    whole = b"".join(map(protocol.frame, [*protocol.say(TOKENS), *protocol.finish(len(TOKENS))]))

    async def run(size: int) -> Heard:
        async def handle(asked: Asked, wire: Wire) -> None:
            await wire.begin(protocol.content_type)
            for start in range(0, len(whole), size):
                await wire.chunk(whole[start : start + size])
            await wire.end()

        async with serving(handle) as served:
            return await listen(protocol.open(served.url))

    single, all_at_once = run_clean(run(1)), run_clean(run(len(whole)))
    assert protocol.said(single) == protocol.said(all_at_once)
    assert single.finish == all_at_once.finish
    assert len(all_at_once.chunks) < len(TOKENS)  # what came together is one chunk


@every_protocol
def test_leaving_closes_the_connection_at_once(protocol: Protocol) -> None:
    async def run() -> None:
        async def handle(asked: Asked, wire: Wire) -> None:
            await wire.begin(protocol.content_type)
            await wire.chunk(protocol.frame(protocol.say(TOKENS)[0]))
            await wire.wait_for_reader_to_leave()
            left.set()

        left = asyncio.Event()
        async with serving(handle) as served:
            async with aclosing(protocol.open(served.url).generate([200006], Request())) as events:
                async for _ in events:
                    break
            await asyncio.wait_for(left.wait(), 30)

    run_clean(run())


@every_protocol
@pytest.mark.parametrize("moment", ["before the status", "before a token", "in the middle"])
def test_cancelling_closes_the_connection_at_once(protocol: Protocol, moment: str) -> None:
    async def run() -> None:
        async def handle(asked: Asked, wire: Wire) -> None:
            if moment != "before the status":
                await wire.begin(protocol.content_type)
            if moment == "in the middle":
                await wire.chunk(protocol.frame(protocol.say(TOKENS)[0]))
            reached.set()
            await wire.wait_for_reader_to_leave()
            left.set()

        async def consume() -> None:
            async for _ in protocol.open(served.url).generate([200006], Request()):
                heard.set()

        reached, left, heard = asyncio.Event(), asyncio.Event(), asyncio.Event()
        async with serving(handle) as served:
            task = asyncio.create_task(consume())
            await reached.wait()
            if moment == "in the middle":
                await heard.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(left.wait(), 30)

    run_clean(run())


@every_protocol
def test_cancelling_ends_the_wait_before_the_next_attempt(protocol: Protocol) -> None:
    async def run() -> int:
        async def handle(asked: Asked, wire: Wire) -> None:
            await wire.answer(503, {"error": "busy"})
            answered.set()

        answered = asyncio.Event()
        async with serving(handle) as served:
            engine = protocol.open(served.url, patience=Patience(wait_s=600, longest_wait_s=600))
            task = asyncio.create_task(listen(engine))
            await answered.wait()
            await served.all_gone.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return len(served.asked)

    assert run_clean(run()) == 1


def test_a_slow_reader_slows_the_server_down() -> None:
    # The server may not send more than sockets hold while nobody reads. Without backpressure it would send all.
    total = 64 * 1024 * 1024
    filler = b": " + b"x" * 65534 + b"\n"

    async def run() -> int:
        async def handle(asked: Asked, wire: Wire) -> None:
            nonlocal sent
            await wire.begin(VLLM.content_type)
            await wire.chunk(VLLM.frame(VLLM.say(TOKENS)[0]))
            while sent < total:
                await wire.chunk(filler + VLLM.frame(VLLM.say(TOKENS)[1]))
                sent += len(filler)
                progress.set()

        async with (
            serving(handle) as served,
            aclosing(VLLM.open(served.url).generate([200006], Request())) as events,
        ):
            await anext(events)
            # Until the server makes no more progress: it waits for us.
            while True:
                progress.clear()
                try:
                    await asyncio.wait_for(progress.wait(), 0.5)
                except TimeoutError:
                    break
            return sent

    sent, progress = 0, asyncio.Event()
    assert run_clean(run()) < total


@every_protocol
def test_an_engine_may_be_used_in_one_event_loop_after_another(protocol: Protocol) -> None:
    async def handle(asked: Asked, wire: Wire) -> None:
        await wire.begin(protocol.content_type)
        await wire.chunk(b"".join(map(protocol.frame, [*protocol.say(TOKENS), *protocol.finish(len(TOKENS))])))
        await wire.end()

    port = unused_port()
    engine = protocol.open(f"http://127.0.0.1:{port}")

    async def run() -> Heard:
        async with serving(handle, port):
            return await listen(engine)

    for _ in range(2):
        assert run_clean(run()).error is None


@every_protocol
def test_what_breaks_after_the_last_word_does_no_harm(protocol: Protocol) -> None:
    async def end(wire: Wire) -> None:
        # Without the mark of the end, and the connection cut.
        await wire.chunk(protocol.frame(protocol.finish(3)[0]))
        if protocol is LLAMA_CPP:
            await wire.chunk(protocol.frame(protocol.finish(3)[1]))

    heard = play(protocol, then=end)
    assert heard.error is None and heard.finish is not None and heard.finish.reason == "stop"


@every_protocol
@pytest.mark.parametrize("where", ["key", "address", "headers"])
def test_a_key_is_sent_and_never_told(protocol: Protocol, where: str, caplog: pytest.LogCaptureFixture) -> None:
    secret = "sk-very-secret-0123456789"
    caplog.set_level(logging.DEBUG)

    async def run() -> tuple[Heard, Asked, object]:
        async def handle(asked: Asked, wire: Wire) -> None:
            # A server that repeats what it was sent.
            await wire.answer(401, {"error": f"wrong key {secret}, {asked.headers}"})

        async with serving(handle) as served:
            url, options = served.url, dict[str, Any]()
            if where == "key":
                options["api_key"] = secret
            elif where == "address":
                url = url.replace("http://", f"http://user:{secret}@")
            else:
                options["headers"] = {"x-api-key": secret}
            engine = protocol.open(url, **options)
            return await listen(engine), served.asked[0], engine

    heard, asked, engine = run_clean(run())
    assert code_of(heard) == ErrorCode.ENGINE_REFUSED
    if where == "key":
        assert asked.headers["authorization"] == f"Bearer {secret}"
    elif where == "headers":
        assert asked.headers["x-api-key"] == secret
    else:
        assert asked.headers["authorization"].startswith("Basic ")
    error: BaseException | None = heard.error
    while error is not None:
        assert secret not in f"{error!r} {error}"
        assert asked.headers.get("authorization", secret) not in str(error)
        error = error.__cause__ or error.__context__
    assert secret not in repr(engine) + repr(Server("http://host", api_key=secret)) and secret not in caplog.text


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://host", "http://", "http://host:99999", "", "http://[::1"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InputError) as caught:
        Server(url)
    assert caught.value.code == ErrorCode.ENGINE_INVALID_OPTION


@pytest.mark.parametrize("name", Patience.__struct_fields__)
def test_patience_is_more_than_nothing(name: str) -> None:
    with pytest.raises(InputError) as caught:
        Patience(**{name: -1})
    assert caught.value.code == ErrorCode.ENGINE_INVALID_OPTION


def test_a_proxy_of_the_environment_is_not_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{unused_port()}")
    heard, _ = answering(VLLM)
    assert heard.error is None and isinstance(heard.finish, Finish)


@pytest.mark.parametrize("padding", range(470, 501, 3))
def test_half_a_key_is_not_told_either(padding: int) -> None:
    secret = "sk-very-secret-0123456789"
    heard, _ = answering(VLLM, (401, {"error": "x" * padding + " " + secret}, {}), api_key=secret)
    assert code_of(heard) == ErrorCode.ENGINE_REFUSED and "sk-" not in str(heard.error)


def test_a_key_from_a_file_may_have_the_files_last_newline() -> None:
    heard, _ = answering(VLLM, api_key="sk-very-secret-0123456789\n")
    assert heard.error is None and isinstance(heard.finish, Finish)


@pytest.mark.parametrize("secret", ["sk-secret\nx: y", "sk-secret\x00", "sk-secret“"])
@pytest.mark.parametrize("how", ["api_key", "headers"])
def test_a_key_that_no_header_can_have_is_refused_and_not_told(secret: str, how: str) -> None:
    with pytest.raises(InputError) as caught:
        Server("http://127.0.0.1:9", **{how: secret if how == "api_key" else {"x-key": secret}})  # pyright: ignore[reportArgumentType]
    assert caught.value.code == ErrorCode.ENGINE_INVALID_OPTION
    assert "sk-secret" not in repr(caught.value)


def test_a_header_that_is_a_switch_does_not_garble_the_message() -> None:
    heard, _ = answering(VLLM, (400, {"error": "1 token of 127"}, {}), headers={"x-switch": "1"})
    assert "1 token of 127" in str(heard.error)
