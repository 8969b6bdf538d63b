"""Nothing of `analysis` leaves the server: marked reasoning, well-formed and damaged, through every route and every
form of transport of a real server, and a search through everything that came out: bodies, headers, events, logs,
metrics, stderr. Where reasoning is shown, the same search finds it, or these tests could not fail.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from harmonia import EngineError, parse
from harmonia.errors import ErrorCode, Position, StreamError
from harmonia.events import ArgumentsDelta, TextDelta
from harmonia.parser import FAULTS
from harmonia.run.engines import Finish
from harmonia.vocabulary import SPELLING_BY_ID
from tests.parser.fault_injection import KINDS, units_of
from tests.support.engines.engine_protocols import PROTOCOLS, Protocol
from tests.support.engines.marked_engine import MarkedEngine, Part
from tests.support.engines.scripted import calls, final, say, think
from tests.support.oracle_cases import compared
from tests.support.servers.hidden_marks import LETTERS, MARK, RUNES, find_mark
from tests.support.servers.http_servers import Answer, request_of
from tests.support.servers.real_servers import RealServer, real_server
from tests.support.servers.served import WEATHER
from tests.support.servers.server_processes import async_server_process
from tests.support.servers.wire_servers import Asked, Wire, serving

Json = dict[str, Any]

THOUGHT = f"We think {MARK} of it. {MARK}"
ANSWER = think(THOUGHT) + final("The answer is four.")
CHAT_WEATHER: Json = {"type": "function", "function": {name: WEATHER[name] for name in ("name", "parameters")}}
HI: list[Json] = [{"role": "user", "content": "Hi"}]
DIALECTS = ("openai", "open-responses")


# ── everything that can be asked ────────────────────────────────────────────────────────────────────────────────────


async def _events(server: RealServer, path: str, body: Json, **headers: str) -> list[Json]:
    answer = await server.ask("POST", path, {**body, "stream": True}, **headers)
    lines = [line.removeprefix(b"data: ") for line in answer.body.split(b"\n") if line.startswith(b"data: ")]
    return [json.loads(line) for line in lines if line != b"[DONE]"]


async def _generate(server: RealServer, number: int = 0, *, every: bool = False) -> None:
    """One generation in one of the forms there are, by turns; or in every form."""
    response: Json = {"input": "Hi", "tools": [WEATHER]}
    chat: Json = {"model": "gpt-oss-20b", "messages": HI, "tools": [CHAT_WEATHER]}
    sealed: Json = {"include": ["reasoning.encrypted_content", "harmonia.encrypted_content"]}
    forms: list[tuple[str, Json, Json]] = []
    for dialect in DIALECTS:
        said = {"harmonia_dialect": dialect}
        for is_streamed in (True, False):
            forms += [
                ("/v1/responses", {**response, "stream": is_streamed}, said),
                ("/responses", {**response, **sealed, "store": False, "stream": is_streamed}, said),
                ("/v1/chat/completions", {**chat, "stream": is_streamed}, said),
                ("/chat/completions", {**chat, "n": 2, "stream": is_streamed}, said),
            ]
    for path, body, headers in forms if every else [forms[number % len(forms)]]:
        answer = await server.ask("POST", path, body, **headers)
        if path.endswith("/responses") and not body["stream"] and answer.status == 200:
            asked: Json = {"request": {"input": "Hi"}, "output": answer.json["output"], "include": ["text"]}
            asked["sampled"] = answer.json.get("harmonia_sampled", [])
            await server.ask("POST", "/v1/harmony/trace", asked, **headers)


async def _ask_everything(server: RealServer) -> None:
    """Every route, in every form; and every way in which reasoning comes back to the server."""
    await _generate(server, every=True)
    for dialect in DIALECTS:
        headers = {"harmonia_dialect": dialect}
        made = (await server.ask("POST", "/v1/responses", {"input": "Hi", "tools": [WEATHER]}, **headers)).json
        id_ = made["id"]
        for prefix in ("/v1", ""):
            one = f"{prefix}/responses/{id_}"
            await server.ask("GET", f"{one}?include=reasoning.encrypted_content", **headers)
            await server.ask("POST", f"{one}/cancel", **headers)
            await server.ask("GET", f"{one}/input_items", **headers)
            more = {"input": "Go on", "previous_response_id": id_}
            await server.ask("POST", f"{prefix}/responses/input_tokens", more, **headers)
            followed = (await server.ask("POST", f"{prefix}/responses", more, **headers)).json
            await server.ask("GET", f"{prefix}/responses/{followed['id']}/input_items", **headers)
            await server.ask("DELETE", f"{prefix}/responses/{followed['id']}", **headers)
        # Without a store: the client brings the seal. And by reference to what is stored.
        reasoning = next(item for item in made["output"] if item["type"].endswith("reasoning"))
        for brought in (reasoning, {"type": "item_reference", "id": reasoning["id"]}):
            body = {"input": [*HI, brought, {"role": "user", "content": "Go on"}]}
            kept = await server.ask("POST", "/v1/responses", body, **headers)
            assert kept.status == 200, kept.body
            await server.ask("GET", f"/v1/responses/{kept.json['id']}/input_items", **headers)
        if "encrypted_content" in reasoning:
            seal: str = reasoning["encrypted_content"]
            forged = {**reasoning, "encrypted_content": f"{seal[:-9]}AAAAAAAAA"}
            refused = await server.ask("POST", "/v1/responses", {"input": [*HI, forged, *HI]}, **headers)
            assert refused.status == 400
        # What the page asks for: the turn as the model had it, and more of a thought.
        for request in ({"input": HI}, {"input": "Go on", "previous_response_id": id_}):
            trace = {"request": request, "output": made["output"], "include": ["ids", "token_table", "text"]}
            traced = await server.ask("POST", "/v1/harmony/trace", trace, **headers)
            assert traced.status == 200, traced.body
        for brought in (reasoning, {"type": "item_reference", "id": reasoning["id"]}):
            body = {"input": [*HI, brought], "harmonia_continue": True}
            more = await server.ask("POST", "/v1/responses", body, **headers)
            assert more.status == 200, more.body
            trace = {"request": body, "output": more.json["output"], "include": ["ids", "token_table", "text"]}
            assert (await server.ask("POST", "/v1/harmony/trace", trace, **headers)).status == 200
        await _keep_chat(server, made["output"], headers)
        # Errors about what is stored.
        wrong = {
            "input": [{"type": "function_call_output", "call_id": "no", "output": "x"}],
            "previous_response_id": id_,
        }
        assert (await server.ask("POST", "/v1/responses", wrong, **headers)).status == 400
        await server.ask("GET", f"/v1/responses/{id_}?stream=true", **headers)
    for model in ("gpt-oss-20b", "another"):
        await server.ask("GET", f"/v1/models/{model}")
    for include in ({"include": ["message.output_text.logprobs"], "top_logprobs": 3}, {"top_logprobs": 1}):
        await _events(server, "/v1/responses", {"input": "Hi", **include})
        await server.ask("POST", "/v1/responses", {"input": "Hi", **include})
    chat = {"model": "gpt-oss-20b", "messages": HI, "logprobs": True, "top_logprobs": 3}
    await _events(server, "/v1/chat/completions", {**chat, "stream_options": {"include_usage": True}})
    await server.ask("POST", "/v1/chat/completions", {**chat, "n": 2, "stop": ["four"]})
    for name, body in (
        ("render", {"messages": HI}),
        ("parse", {"text": "<|channel|>final<|message|>Hi<|return|>", "role": "assistant"}),
        ("inspect", {"text": "<|channel|>final<|message|>Hi<|return|>", "role": "assistant"}),
        ("tokenize", {"text": "Hi"}),
        ("detokenize", {"tokens": [13225]}),
        ("diff", {"before": {"text": "Hi"}, "after": {"text": "Ho"}}),
        ("replay", {"text": "<|channel|>final<|message|>Hi<|return|>", "start": 0, "count": 9}),
    ):
        await server.ask("POST", f"/v1/harmony/{name}", body)
    for path in (
        "/v1/harmony/server",
        "/",
        "/v1/models",
        "/metrics",
        "/openapi.json",
        "/docs",
        "/health",
        "/ready",
        "/nothing",
        "/v1/responses",
    ):
        await server.ask("GET", path)


async def _keep_chat(server: RealServer, output: list[Json], headers: Json) -> None:
    """What the page does with an answer: keep it, find it, take it out in every format, bring it in again."""
    chat = (await server.ask("POST", "/v1/chats", {"title": "A chat"}, **headers)).json["id"]
    turns: list[Json] = [
        {"id": "turn_1", "parent": None, "role": "user", "items": [{"type": "message", **HI[0]}]},
        {"id": "turn_2", "parent": "turn_1", "role": "assistant", "items": output},
    ]
    for turn in turns:
        whole: Json = {**turn, "status": "completed", "created_at": 0, "details": {}}
        put = await server.ask("PUT", f"/v1/chats/{chat}/turns/{turn['id']}", whole, **headers)
        assert put.status == 200, put.body
    await server.ask("PATCH", f"/v1/chats/{chat}", {"title": "Another title"}, **headers)
    for path in ("/v1/chats", "/v1/chats?query=Hi", f"/v1/chats/{chat}"):
        assert (await server.ask("GET", path, **headers)).status == 200
    for kind in ("json", "markdown", "harmony", "tokens"):
        exported = await server.ask("GET", f"/v1/chats/{chat}/export?format={kind}", **headers)
        assert exported.status == 200, exported.body
        imported = {"text": exported.body.decode(), "name": f"chat.{kind}"}
        assert (await server.ask("POST", "/v1/chats/import", imported, **headers)).status == 200, kind
    await server.ask("DELETE", f"/v1/chats/{chat}/turns/turn_2", **headers)
    await server.ask("DELETE", f"/v1/chats/{chat}", **headers)


def _routes_asked(server: RealServer) -> set[tuple[str, str]]:
    lines = [json.loads(line) for line in server.log.getvalue().splitlines()]
    return {(line["route"], line["method"]) for line in lines if line["event"] == "request" and line["status"] < 400}


class Everything:
    """What came out of a run: over sockets, into the log, and to stderr and stdout."""

    def __init__(self, capture: pytest.CaptureFixture[str], records: pytest.LogCaptureFixture) -> None:
        self.heard = b""
        self.log = ""
        self._capture = capture
        self._records = records

    def run(self, work: Callable[[RealServer, MarkedEngine], Any], folder: Path, **options: Any) -> None:
        is_text: bool = options.pop("is_text", False)
        folder.mkdir(parents=True, exist_ok=True)

        async def main() -> None:
            engine = MarkedEngine(is_text=is_text)
            engine.parts = [ANSWER]
            async with real_server(engine, folder, **options) as server:
                try:
                    await work(server, engine)
                finally:
                    self.heard += bytes(server.heard)
            self.log += server.log.getvalue()

        with self._records.at_level(logging.DEBUG):
            asyncio.run(main())

    def assert_hidden(self) -> None:
        assert self.heard
        assert find_mark(self.heard) is None
        self.assert_not_logged()

    def assert_not_logged(self) -> None:
        assert self.log
        assert find_mark(self.log) is None
        said = self._capture.readouterr()
        assert find_mark(said.out + said.err) is None
        # Whoever adds a handler of his own to a logger of ours, or to the root.
        for record in self._records.records:
            assert find_mark(record.getMessage()) is None, record.name


@pytest.fixture
def everything(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Everything:
    return Everything(capfd, caplog)


# ── well-formed ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("calls_tool", [False, True])
def test_hidden_reasoning_is_in_nothing_that_comes_out(
    everything: Everything, tmp_path: Path, calls_tool: bool
) -> None:
    async def work(server: RealServer, engine: MarkedEngine) -> None:
        if calls_tool:
            engine.parts = [think(THOUGHT) + calls("get_weather", '{"city": "Paris"}')]
        await _ask_everything(server)
        routes = {(route.path, method) for route in server.app.routes for method in (route.methods or set())}
        # The files of the page are the same for everybody.
        told = {each for each in routes if each[1] != "HEAD" and each[0] != "/page/{file}"}
        assert told - _routes_asked(server) == set()

    everything.run(work, tmp_path)
    everything.assert_hidden()


def test_shown_reasoning_is_found_by_the_same_search(everything: Everything, tmp_path: Path) -> None:
    async def work(server: RealServer, _: MarkedEngine) -> None:
        await _ask_everything(server)

    everything.run(work, tmp_path, analysis="shown")
    assert find_mark(everything.heard) is not None
    everything.assert_not_logged()  # content is logged by another setting


@pytest.mark.parametrize("index", range(16))
def test_each_form_of_generation_shows_reasoning_where_it_is_shown(
    everything: Everything, tmp_path: Path, index: int
) -> None:
    """So that none of the forms searched above is one that would say nothing anyway."""

    async def work(server: RealServer, _: MarkedEngine) -> None:
        await _generate(server, index)

    everything.run(work, tmp_path, analysis="shown")
    assert find_mark(everything.heard) is not None


def test_the_search_finds_every_form() -> None:
    import base64
    from urllib.parse import quote

    from harmonia import encode

    assert find_mark("nothing") is None
    for form in (
        RUNES[3],
        LETTERS,
        json.dumps(RUNES[0]),
        quote(RUNES[2]),
        repr(RUNES[1].encode()),
        str(list(RUNES[4].encode())),
        base64.b64encode(f"x{MARK}yz".encode()).decode(),
        base64.urlsafe_b64encode(f"xy{MARK}yz".encode()).decode(),
        json.dumps(encode(MARK)),
        MARK.encode().hex(),
        "".join(f'data: {{"delta":"{letter}"}}\n\n' for letter in LETTERS),
    ):
        assert find_mark(f"before {form} behind") is not None, form


# ── damaged ─────────────────────────────────────────────────────────────────────────────────────────────────────────

STREAMS = (
    f"<|channel|>analysis<|message|>{MARK}. Yes<|end|><|start|>assistant<|channel|>final<|message|>Four.<|return|>",
    f"<|channel|>analysis<|message|>{MARK}<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather "
    '<|constrain|>json<|message|>{"city": "Paris"}<|call|>',
    f"<|channel|>commentary<|message|>Soon.<|end|><|start|>assistant<|channel|>analysis<|message|>{RUNES}<|end|>",
    f"<|channel|>analysis to=python code<|message|>print('{RUNES}')<|call|>",
)


def _damaged(most: int | None) -> Iterator[list[int]]:
    """Every kind of fault, at every position, or at so many positions of each."""
    for stream in STREAMS:
        units = units_of(say(stream), "assistant")
        for inject in KINDS.values():
            found = list(inject(units))
            step = 1 if most is None else max(1, len(found) // most)
            yield from ([unit.token for unit in damaged] for damaged in found[::step])


def _marked_faults() -> Iterator[str]:
    """The examples of the table of faults, with the mark in every place that is no answer."""
    for fault in FAULTS.values():
        example = fault.example if fault.completion else fault.example.removeprefix("<|start|>assistant")
        if not example:
            continue
        marked, at = "", 0
        for event in parse(say(example), "assistant").events:
            if isinstance(event, TextDelta) and not event.header.is_visible and event.header.recipient is None:
                marked += example[at : event.start_char] + MARK
                at = event.end_char
        marked += example[at:]
        # Behind the fault, and before it, there is reasoning in any case.
        yield f"{marked}<|start|>assistant{think(MARK)}"
        yield think(MARK) + marked


def _visible(tokens: Sequence[int]) -> str:
    """What the parser shows. It has tests of its own; here it says for which of these streams it may show the mark."""
    events = parse(list(tokens), "assistant").events
    return "".join(
        event.text for event in events if isinstance(event, TextDelta | ArgumentsDelta) and event.header.is_visible
    )


def _run_streams(everything: Everything, folder: Path, streams: Sequence[Sequence[int] | str], **options: Any) -> None:
    async def work(server: RealServer, engine: MarkedEngine) -> None:
        for number, stream in enumerate(streams):
            engine.parts = [stream]
            before = len(server.heard)
            await _generate(server, number)
            await _generate(server, number // 16 + 2)
            found = find_mark(bytes(server.heard[before:]))
            assert found is None, (stream if isinstance(stream, str) else spelled(stream), found)
        await server.ask("GET", "/metrics")

    everything.run(work, folder, **options)
    everything.assert_hidden()


def spelled(tokens: Sequence[int]) -> str:
    from harmonia import decode

    return decode([token for token in tokens if 0 <= token < 201088])


def test_no_damage_shows_reasoning(everything: Everything, tmp_path: Path) -> None:
    streams = list(_damaged(most=5))
    assert all(find_mark(_visible(stream)) is None for stream in streams)
    compared("damaged streams with marked reasoning, through a server", len(streams))
    _run_streams(everything, tmp_path, streams)


@pytest.mark.exhaustive
def test_no_damage_at_any_position_shows_reasoning(everything: Everything, tmp_path: Path) -> None:
    _run_streams(everything, tmp_path, list(_damaged(most=None)))


def test_no_fault_of_the_table_shows_reasoning(everything: Everything, tmp_path: Path) -> None:
    streams = list(_marked_faults())
    assert len(streams) > 60
    _run_streams(everything, tmp_path, streams)


@pytest.mark.parametrize("calls", ["certain", "unverified"])
def test_no_damage_shows_reasoning_of_an_engine_that_gives_text(
    everything: Everything, tmp_path: Path, calls: str
) -> None:
    streams: list[str] = [*STREAMS, *_marked_faults(), *map(spelled, _damaged(most=1))]
    _run_streams(everything, tmp_path, streams, is_text=True, calls=calls)


@pytest.mark.parametrize("is_text", [True, False])
def test_text_without_its_control_tokens_shows_no_reasoning(
    everything: Everything, tmp_path: Path, is_text: bool
) -> None:
    streams: list[str] = []
    for stream in STREAMS:
        for special in SPELLING_BY_ID.values():
            stream = stream.replace(special, "")
        streams += [stream, f"\n{stream}", stream.removeprefix("analysis"), f"assistant{stream}"]
    _run_streams(everything, tmp_path, streams, is_text=is_text)


# ── endings ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _died() -> Exception:
    return EngineError(ErrorCode.ENGINE_DIED, f"the engine said {MARK}", Position(path=f"$.{MARK}"))


def _caused() -> Exception:
    error = EngineError(ErrorCode.ENGINE_BAD_ANSWER, f"not JSON: {MARK}")
    error.__cause__ = ValueError(MARK)
    return error


ENDINGS: dict[str, Callable[[], Part]] = {
    "the engine dies": _died,
    "the engine is refused": lambda: EngineError(ErrorCode.ENGINE_REFUSED, f"status 400: {MARK}"),
    "the engine stalls": lambda: EngineError(ErrorCode.ENGINE_STALLED, "nothing came for 30 s"),
    "a fault with a cause": _caused,
    "a bug": lambda: RuntimeError(f"a bug with {MARK}"),
    "a bug with a strange name": lambda: type(f"X{LETTERS[0]}", (ValueError,), {"__str__": lambda _: MARK})(),  # type: ignore[return-value]
    "a malformed stream": lambda: StreamError(ErrorCode.STREAM_NO_MARKUP, f"found {MARK}", Position(token=3)),
    "length": lambda: Finish("length"),
    "no word": lambda: Finish("unknown"),
    "stop": lambda: Finish("stop"),
}


BEGINNINGS = (
    "",
    f"<|channel|>analysis<|message|>{MARK}",
    f"<|channel|>{RUNES}",
    f"<|channel|>analysis to={RUNES}",
    think(MARK) + "<|channel|>final<|message|>Four",
    think(MARK) + '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": ',
)


def _end_in_the_middle(everything: Everything, folder: Path, ending: str, forms: int, **options: Any) -> None:
    """Every beginning ends so, in so many forms of generation, by turns."""
    first = list(ENDINGS).index(ending)

    async def work(server: RealServer, engine: MarkedEngine) -> None:
        for number, beginning in enumerate(BEGINNINGS):
            engine.parts = [beginning, ENDINGS[ending]()]
            for form in range(forms):
                await _generate(server, first + number * forms + form)

    everything.run(work, folder, **options)
    everything.assert_hidden()


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("is_text", [False, True])
def test_no_ending_in_the_middle_shows_reasoning(
    everything: Everything, tmp_path: Path, ending: str, is_text: bool
) -> None:
    """Each ending in each of the sixteen forms; which beginning a form meets changes from ending to ending."""
    _end_in_the_middle(everything, tmp_path, ending, 3, is_text=is_text)


@pytest.mark.exhaustive
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("is_text", [False, True])
def test_no_ending_in_the_middle_of_anything_shows_reasoning(
    everything: Everything, tmp_path: Path, ending: str, is_text: bool
) -> None:
    _end_in_the_middle(everything, tmp_path, ending, 16, is_text=is_text)


def test_a_response_that_ran_out_of_tokens_shows_no_reasoning(everything: Everything, tmp_path: Path) -> None:
    async def work(server: RealServer, engine: MarkedEngine) -> None:
        for most in (1, 3, 8, 20):
            body = {"input": "Hi", "max_output_tokens": most}
            made = await server.ask("POST", "/v1/responses", body)
            assert made.json["status"] == "incomplete"
            await server.ask("POST", "/v1/responses", {"input": "On", "previous_response_id": made.json["id"]})
            await _events(server, "/v1/responses", body)
            chat = {"model": "gpt-oss-20b", "messages": HI, "max_tokens": most}
            await server.ask("POST", "/v1/chat/completions", chat)
            await _events(server, "/v1/chat/completions", chat)

    everything.run(work, tmp_path)
    everything.assert_hidden()


@pytest.mark.parametrize("how", ["cancelled", "deleted", "disconnected"])
@pytest.mark.parametrize("said", ["", RUNES], ids=["in the middle", "in a header"])
def test_a_response_that_was_ended_from_outside_shows_no_reasoning(
    everything: Everything, tmp_path: Path, how: str, said: str
) -> None:
    async def work(server: RealServer, engine: MarkedEngine) -> None:
        engine.parts = [
            f"<|channel|>analysis{said}<|message|>{MARK}" if not said else f"<|channel|>{said}",
            asyncio.Event(),
        ]
        client = await server.connect()
        await client.write(request_of("POST", "/v1/responses", {"input": "Hi", "stream": True}))
        assert (await client.read_head())[0] == 200
        chunks = client.chunks()
        first = await anext(chunks)
        id_ = json.loads(first.split(b"data: ", 1)[1])["response"]["id"]
        await engine.reached.wait()
        if how == "disconnected":
            client.abort()
        else:
            ended = await server.ask(
                *(("POST", f"/v1/responses/{id_}/cancel") if how == "cancelled" else ("DELETE", f"/v1/responses/{id_}"))
            )
            assert ended.status == 200
            async for _ in chunks:
                pass
            client.close()
        answer: Answer | None = None
        while how == "disconnected" and (answer is None or answer.json["status"] == "in_progress"):
            answer = await server.ask("GET", f"/v1/responses/{id_}")
        await server.ask("GET", f"/v1/responses/{id_}")
        engine.parts = [ANSWER]
        await server.ask("POST", "/v1/responses", {"input": "On", "previous_response_id": id_})

    everything.run(work, tmp_path)
    everything.assert_hidden()


# ── a whole process ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
@pytest.mark.parametrize("analysis", ["hidden", "shown"])
def test_a_server_process_says_nothing_of_it_either(tmp_path: Path, protocol: Protocol, analysis: str) -> None:
    """`harmonia serve`, as it is started, in front of an engine over HTTP that also dies in the middle."""

    async def handle(asked: Asked, wire: Wire) -> None:
        if asked.path != protocol.path or "stream" not in (asked.body or {}):
            await wire.answer(404, {"error": MARK})
            return
        handle_count.append(1)
        tokens = say(ANSWER)[:-1]
        await wire.begin(protocol.content_type)
        is_dying = len(handle_count) > 2
        for message in protocol.say(tokens[:6] if is_dying else tokens):
            await wire.chunk(protocol.frame(message))
        if is_dying:
            await wire.chunk(protocol.frame(f'{{"error": "{MARK}'.encode()))
            wire.abort()
            return
        for message in protocol.finish(len(tokens)):
            await wire.chunk(protocol.frame(message))
        await wire.end()

    handle_count: list[int] = []
    kind = {"lmstudio": "completions"}.get(protocol.name, protocol.name)

    async def main() -> tuple[bytes, str]:
        async with (
            serving(handle) as engine,
            async_server_process(
                *("--engine", f"{kind}:{engine.url}", "--model", "gpt-oss-20b", "--analysis", analysis), folder=tmp_path
            ) as server,
        ):
            heard = b""
            for path, body in (
                ("/v1/responses", {"input": "Hi", "stream": True}),
                ("/v1/chat/completions", {"model": "gpt-oss-20b", "messages": HI}),
                ("/v1/responses", {"input": "Hi", "stream": True}),
                ("/v1/chat/completions", {"model": "gpt-oss-20b", "messages": HI}),
            ):
                port = int(server.url.rstrip("/").rpartition(":")[2])
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(request_of("POST", path, body, connection="close"))
                heard += await reader.read()
                writer.close()
        return heard, "".join(server.said)

    heard, said = asyncio.run(main())
    assert len(handle_count) >= 4
    assert b"four" in heard
    assert find_mark(said) is None
    assert (find_mark(heard) is None) is (analysis == "hidden")
