"""Captures: what was recorded is replayed chunk by chunk, and a file that is damaged says where."""

from __future__ import annotations

import asyncio
import json
import math
import tempfile
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia import encode
from harmonia.errors import EngineError, ErrorCode, HarmonyError, InputError, Position
from harmonia.messages import ReasoningEffort, ResponseFormat
from harmonia.run.engines import Alternative, Chunk, Engine, Finish, Request, Sampling, TokenLogprob, Traits, Usage
from harmonia.run.engines.demo import DemoEngine
from harmonia.run.engines.recording import RecordingEngine, ReplayEngine, read_capture
from tests.support.engines.demo_runs import TOOLS, WEATHER, collect, prompt_of, run
from tests.support.engines.scripted import ScriptedEngine
from tests.support.repeated import repeated

Item = Chunk | Finish | HarmonyError
PROMPT = prompt_of("Hi")


TRAITS = Traits(gives_tokens=False, context_tokens=99)


class Polite(ScriptedEngine):
    """An engine that lets others go on before each chunk."""

    async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        async for item in super().generate(prompt, request):
            await asyncio.sleep(0)
            yield item


def plain(chunk: Chunk) -> tuple[list[int], str, tuple[TokenLogprob, ...]]:
    return list(chunk.tokens), chunk.text, chunk.logprobs


def record(path: Path, *runs: Sequence[Item], request: Request | None = None) -> None:
    async def all_of_them() -> None:
        engine = RecordingEngine(ScriptedEngine(*runs, traits=TRAITS), path, clock=lambda: 0.0)
        for _ in runs:
            await collect(engine, PROMPT, request or Request())
        await engine.close()

    asyncio.run(all_of_them())


def run_recorded(
    engine: Engine, path: Path, prompt: Sequence[int], request: Request, **options: Any
) -> tuple[list[Chunk], Finish | HarmonyError]:
    async def one() -> tuple[list[Chunk], Finish | HarmonyError]:
        recording = RecordingEngine(engine, path, **options)
        try:
            return await collect(recording, prompt, request)
        finally:
            await recording.close()

    return asyncio.run(one())


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


# ── the law ─────────────────────────────────────────────────────────────────────────────────────────────────────────

texts = st.text(st.characters(codec="utf-8")) | st.sampled_from(
    ["\ud83d", "\ude00", "a\u2028b\nc\r\n", "\x00", "<|end|>"]
)
numbers = st.floats(allow_nan=False)
token_ids = st.integers(0, 201_087)
alternatives = st.builds(Alternative, st.none() | token_ids, texts, numbers)
logprobs = st.builds(TokenLogprob, st.none() | token_ids, texts, numbers, st.lists(alternatives, max_size=2).map(tuple))
chunks = st.builds(
    Chunk,
    tokens=st.lists(token_ids, min_size=1, max_size=4),
    logprobs=st.lists(logprobs, max_size=2).map(tuple),
) | st.builds(Chunk, text=texts)
usages = st.none() | st.builds(Usage, st.integers(0), st.integers(0), st.integers(0))
finishes = st.builds(
    Finish, st.sampled_from(("stop", "length", "unknown")), usages, st.lists(texts, max_size=2).map(tuple)
)
errors = st.builds(
    EngineError,
    st.sampled_from((ErrorCode.ENGINE_DIED, ErrorCode.ENGINE_STALLED)),
    texts,
    st.builds(Position, token=st.none() | st.integers(0, 9)),
)
runs_of_an_engine = st.lists(st.tuples(st.lists(chunks, max_size=4), finishes | errors), min_size=1, max_size=3)


@repeated(given(runs_of_an_engine), some=30, many=100)
def test_a_replay_gives_what_was_recorded(runs: list[tuple[list[Chunk], Finish | EngineError]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "capture.jsonl")
        record(path, *[[*said, end] for said, end in runs])
        engine = ReplayEngine(path)
    for said, end in runs:
        replayed, ended = run(engine, PROMPT, Request())
        assert [plain(chunk) for chunk in replayed] == [plain(chunk) for chunk in said]
        if isinstance(end, EngineError):
            assert isinstance(ended, EngineError)
            assert (ended.code, ended.message, ended.at) == (end.code, end.message, end.at)
        else:
            assert ended == end


def test_the_request_and_the_engine_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "capture.jsonl"
    request = Request(
        Sampling(max_tokens=5, temperature=0.5, seed=2**70, logprobs=1),
        TOOLS,
        "required",
        ResponseFormat("weather", WEATHER),
        ReasoningEffort.HIGH,
    )
    record(path, [Finish("stop")], request=request)
    capture = read_capture(path)
    assert (capture.engine, capture.model, capture.traits) == ("scripted", "script", TRAITS)
    assert (capture.runs[0].request, capture.runs[0].prompt) == (request, PROMPT)


def test_the_whole_of_a_demo_run_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "capture.jsonl"
    request = Request(Sampling(logprobs=2), TOOLS)
    prompt = prompt_of("Weather in 漢 🎉 Paris?")
    expected = run(DemoEngine(), prompt, request)
    assert run_recorded(DemoEngine(), path, prompt, request) == expected
    assert run(ReplayEngine(path), prompt, request) == expected


def test_a_recording_engine_is_the_engine_to_others(tmp_path: Path) -> None:
    inner = ScriptedEngine()
    engine = RecordingEngine(inner, tmp_path / "capture.jsonl")
    assert (engine.name, engine.model, engine.traits) == (inner.name, inner.model, inner.traits)
    asyncio.run(engine.close())
    asyncio.run(engine.close())
    assert inner.closed == 2


def test_a_number_that_json_has_not_is_still_json(tmp_path: Path) -> None:
    path = tmp_path / "capture.jsonl"
    record(path, [Chunk([1], logprobs=(TokenLogprob(1, "a", -math.inf),)), Finish("stop")])
    assert b"Infinity" not in path.read_bytes()
    assert read_capture(path).runs[0].chunks[0].chunk.logprobs[0].logprob == -math.inf


# ── what does not end well ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_that_its_caller_closed_is_marked_and_ends_there(tmp_path: Path) -> None:
    path = tmp_path / "capture.jsonl"
    inner = ScriptedEngine([Chunk([1]), Chunk([2]), Finish("stop")])

    async def close_early() -> None:
        engine = RecordingEngine(inner, path)
        stream = engine.generate(PROMPT, Request())
        await anext(stream)
        await stream.aclose()
        await engine.close()

    asyncio.run(close_early())
    assert inner.closed_early == 1
    assert [line["type"] for line in lines_of(path)] == ["capture", "run", "chunk", "cancelled"]
    replayed, end = run(ReplayEngine(path), PROMPT, Request())
    assert [list(chunk.tokens) for chunk in replayed] == [[1]]
    assert isinstance(end, Finish) and end.reason == "unknown" and end.usage is None and end.notes


def test_a_run_that_was_cancelled_is_marked(tmp_path: Path) -> None:
    path = tmp_path / "capture.jsonl"
    prompt = prompt_of("/demo endless")

    async def cancel() -> None:
        engine = RecordingEngine(DemoEngine(), path)
        begun = asyncio.Event()

        async def read() -> None:
            async for _ in engine.generate(prompt, Request()):
                begun.set()

        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await engine.close()

    asyncio.run(cancel())
    assert lines_of(path)[-1]["type"] == "cancelled"


def test_a_run_that_is_closed_behind_its_finish_was_not_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "capture.jsonl"
    record(path, [Finish("stop")])  # `collect` goes away at the Finish
    assert lines_of(path)[-1]["type"] == "finish"


def test_an_engine_that_breaks_in_its_own_way_leaves_a_run_that_is_marked(tmp_path: Path) -> None:
    class Broken(ScriptedEngine):
        async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
            yield Chunk([1])
            raise ZeroDivisionError

    path = tmp_path / "capture.jsonl"
    with pytest.raises(ZeroDivisionError):
        run_recorded(Broken(), path, PROMPT, Request())
    assert lines_of(path)[-1]["type"] == "cancelled"


def test_every_line_is_in_the_file_before_the_caller_has_its_chunk(tmp_path: Path) -> None:
    path = tmp_path / "capture.jsonl"

    async def look() -> None:
        engine = RecordingEngine(ScriptedEngine([Chunk([1]), Chunk([2]), Finish("stop")]), path)
        number = 2
        async for _ in engine.generate(PROMPT, Request()):
            number += 1
            assert len(lines_of(path)) == number
        await engine.close()

    asyncio.run(look())


def test_runs_at_the_same_time_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "capture.jsonl"

    async def both() -> None:
        engine = RecordingEngine(Polite([Chunk([1])] * 3 + [Finish()], [Chunk([2])] * 3 + [Finish()]), path)
        await asyncio.gather(*(collect(engine, PROMPT, Request()) for _ in range(2)))
        await engine.close()

    asyncio.run(both())
    kinds = [line["run"] for line in lines_of(path)[3:]]
    assert kinds != sorted(kinds)
    tokens = [[list(timed.chunk.tokens) for timed in each.chunks] for each in read_capture(path).runs]
    assert tokens == [[[1]] * 3, [[2]] * 3]


# ── damage ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "capture.jsonl"
    record(path, [Chunk([1, 2]), Chunk(text="é"), Finish("stop", Usage(1, 2, 0))], [Chunk([3]), Finish("length")])
    return path


def test_a_file_that_ends_anywhere_is_read_up_to_there_or_says_that_it_is_none(capture: Path) -> None:
    whole = capture.read_bytes()
    first = whole.index(b"\n") + 1
    for cut in range(len(whole)):
        capture.write_bytes(whole[:cut])
        if cut < first:
            assert damage_of(capture).at == Position(path=f"{capture}:1")
            continue
        found = read_capture(capture)
        assert found.is_torn == (not whole[:cut].endswith(b"\n"))
        # No more than the line that was being written is lost.
        kept = [json.loads(line)["type"] for line in whole[:cut].split(b"\n")[1:-1]]
        assert len(found.runs) == kept.count("run")
        assert sum(len(each.chunks) for each in found.runs) == kept.count("chunk")
        assert sum(each.end is not None for each in found.runs) == kept.count("finish")


def test_a_run_that_broke_off_says_so_at_its_end(capture: Path) -> None:
    lines = capture.read_bytes().split(b"\n")
    capture.write_bytes(b"\n".join([*lines[:3], b'{"type":"chu']))
    replayed, end = run(ReplayEngine(capture), PROMPT, Request())
    assert len(replayed) == 1 and isinstance(end, Finish) and end.reason == "unknown" and end.notes


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (1, b"{}"),
        (1, b"[]"),
        (1, b'{"type":"capture","version":2,"engine":"x","model":"x","traits":{}}'),
        (1, b'{"type":"capture","version":1,"engine":"x"}'),
        (2, b"not JSON"),
        (2, b""),
        (2, b"\xff"),
        (2, b'{"type":"run","run":1,"prompt":[],"request":{}}'),
        (2, b'{"type":"run","run":0,"prompt":["x"],"request":{}}'),
        (2, b'{"type":"run","run":0,"prompt":[],"request":{"sampling":{"no_such":1}}}'),
        (3, b'{"type":"surprise","run":0}'),
        (3, b'{"type":"chunk","run":7,"at_s":0}'),
        (3, b'{"type":"chunk","run":-1,"at_s":0}'),
        (3, b'{"type":"chunk","run":0,"at_s":-1,"tokens":[1]}'),
        (3, b'{"type":"chunk","run":0,"at_s":0,"logprobs":[{"token":1,"text":"","logprob":"much"}]}'),
        (5, b'{"type":"finish","run":0,"at_s":9,"reason":"boredom","usage":null,"notes":[]}'),
        (6, b'{"type":"chunk","run":0,"at_s":99,"tokens":[1]}'),
    ],
)
def test_a_damaged_line_is_named(capture: Path, number: int, line: bytes) -> None:
    lines = capture.read_bytes().split(b"\n")
    lines[number - 1] = line
    capture.write_bytes(b"\n".join(lines))
    assert damage_of(capture).at == Position(path=f"{capture}:{number}")


@repeated(given(st.data()), some=40, many=200)
def test_damage_anywhere_raises_nothing_else(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "capture.jsonl")
        record(path, [Chunk([1], logprobs=(TokenLogprob(1, "a", -1.0),)), Finish("stop", Usage())])
        whole = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 3))):
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(whole)
        try:
            read_capture(path)
        except EngineError as error:
            assert error.code is ErrorCode.ENGINE_CAPTURE_MISMATCH
            assert error.at.path is not None and error.at.path.startswith(f"{path}:")


def test_a_file_that_is_not_there_is_an_invalid_option(tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        ReplayEngine(tmp_path / "nothing")
    assert raised.value.code is ErrorCode.ENGINE_INVALID_OPTION
    assert raised.value.at == Position(path=str(tmp_path / "nothing"))


def damage_of(path: Path) -> EngineError:
    with pytest.raises(EngineError) as raised:
        ReplayEngine(path)
    assert raised.value.code is ErrorCode.ENGINE_CAPTURE_MISMATCH
    return raised.value


# ── replay ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given_", "token"),
    [
        (prompt_of("Ho"), PROMPT.index(*encode("Hi"))),
        (PROMPT[:-1], len(PROMPT) - 1),
        ([*PROMPT, 5], len(PROMPT)),
        ([], 0),
        ([-1, 10**9], 0),
    ],
)
def test_another_prompt_is_refused_at_its_first_other_token(capture: Path, given_: list[int], token: int) -> None:
    engine = ReplayEngine(capture)
    said, end = run(engine, given_, Request())
    assert said == [] and isinstance(end, EngineError)
    assert (end.code, end.at) == (ErrorCode.ENGINE_CAPTURE_MISMATCH, Position(token=token))
    # The run was not used up: the right prompt still has it.
    assert isinstance(run(engine, PROMPT, Request())[1], Finish)


def test_a_replay_that_is_not_strict_answers_anything(capture: Path) -> None:
    said, end = run(ReplayEngine(capture, strict=False), [1, 2, 3], Request())
    assert len(said) == 2 and isinstance(end, Finish) and end.reason == "stop"


def test_runs_are_replayed_once_each_in_their_order(capture: Path) -> None:
    engine = ReplayEngine(capture)
    ends = [run(engine, PROMPT, Request())[1] for _ in range(3)]
    assert [end.reason for end in ends if isinstance(end, Finish)] == ["stop", "length"]
    assert isinstance(ends[2], EngineError) and ends[2].code is ErrorCode.ENGINE_CAPTURE_MISMATCH


def test_the_recorded_pace_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "capture.jsonl"
    times = iter([10.0, 10.5, 12.0, 15.0])
    run_recorded(ScriptedEngine([Chunk([1]), Chunk([2]), Finish()]), path, PROMPT, Request(), clock=lambda: next(times))
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    run(ReplayEngine(path, timing="recorded", sleep=sleep), PROMPT, Request())
    assert waits == [0.5, 1.5, 3.0]
    waits.clear()
    run(ReplayEngine(path, sleep=sleep), PROMPT, Request())
    assert waits == []


def test_a_replay_has_the_model_and_the_traits_of_what_was_recorded(capture: Path) -> None:
    engine = ReplayEngine(capture)
    assert (engine.name, engine.model, engine.traits) == ("replay", "script", TRAITS)
    asyncio.run(engine.close())


def test_a_timing_that_means_nothing_is_refused(capture: Path) -> None:
    with pytest.raises(InputError) as raised:
        ReplayEngine(capture, timing="later")  # pyright: ignore[reportArgumentType] -- that is the test
    assert raised.value.code is ErrorCode.ENGINE_INVALID_OPTION
