"""Captures: what an engine was asked and what it gave, in a file, with its timing.

    {"type":"capture","version":1,"engine":"demo","model":"demo","traits":{…}}       the first line
    {"type":"run","run":0,"prompt":[200006,…],"request":{…}}                         a call of `generate`
    {"type":"chunk","run":0,"at_s":0.012,"tokens":[200005]}                          or "text", and "logprobs"
    {"type":"finish","run":0,"at_s":0.5,"reason":"stop","usage":{…},"notes":[]}      one of these three
    {"type":"error","run":0,"at_s":0.5,"error":"EngineError","code":"engine.died","message":"…","at":{}}
    {"type":"cancelled","run":0,"at_s":0.5}

1. JSON, one object a line, UTF-8. `run` counts the runs, whose lines may be mixed where they went on at the same time.
   `at_s` counts seconds from the beginning of the run.
2. Each line is handed to the system as soon as it is known, so a crash loses at most the line that was being written.
   A run without one of the three ends broke off.
3. Tokens, text, chunk boundaries and log-probabilities are kept as they came. A text that is no Unicode (half of a
   surrogate pair) and a number that is no JSON ("-inf") are kept, too.
4. Nothing else is written: no address, no header, no key.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import stat
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, cast, get_args

import msgspec

from harmonia.errors import EngineError, ErrorCode, HarmonyError, InputError, Position, StreamError, ToolError
from harmonia.json_codec import encode_any
from harmonia.run.engines.base import (
    Alternative,
    Chunk,
    Engine,
    Finish,
    FinishReason,
    Request,
    TokenLogprob,
    Traits,
    Usage,
)
from harmonia.run.engines.registry import Kind
from harmonia.vocabulary import VOCABULARY_SIZE, decode

VERSION: Final = 1

_FILE_MODE: Final = 0o600
Json = dict[str, Any]
_ERRORS: Final[dict[str, type[HarmonyError]]] = {
    kind.__name__: kind for kind in (EngineError, InputError, StreamError, ToolError)
}


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Timed(msgspec.Struct, frozen=True):
    """A chunk and when it came, in seconds from the beginning of the run."""

    at_s: float
    chunk: Chunk


class Run(msgspec.Struct, frozen=True):
    """One call of `generate`: `end` is None where the capture broke off, "cancelled" where the caller had enough."""

    prompt: list[int]
    request: Request
    chunks: list[Timed]
    end: Finish | HarmonyError | str | None = None
    end_at_s: float = 0.0


class Capture(msgspec.Struct, frozen=True):
    """All runs of a file. `is_torn` where the last line was not written to its end."""

    engine: str
    model: str
    traits: Traits
    runs: list[Run]
    is_torn: bool = False


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _open_private(path: str, flags: int) -> int:
    descriptor = os.open(path, flags, _FILE_MODE)
    if stat.S_ISREG(os.fstat(descriptor).st_mode) and hasattr(os, "fchmod"):
        os.fchmod(descriptor, _FILE_MODE)  # a file that was there keeps its mode otherwise
    return descriptor


class RecordingEngine:
    """Another engine, every run of which is written to a file. A file that is there is written over."""

    def __init__(
        self, engine: Engine, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._runs = 0
        # Unbuffered: what is written is out of this process. For the owner only: prompts and reasoning are in it.
        file = open(path, "wb", buffering=0, opener=_open_private)  # noqa: SIM115 -- closed with the engine
        self._file: BinaryIO = cast("BinaryIO", file)
        self._write(
            {
                "type": "capture",
                "version": VERSION,
                "engine": engine.name,
                "model": engine.model,
                "traits": msgspec.to_builtins(self.traits),
            }
        )

    @property
    def name(self) -> str:
        return self._engine.name

    @property
    def model(self) -> str:
        return self._engine.model

    @property
    def traits(self) -> Traits:
        return msgspec.structs.replace(self._engine.traits, takes_text=False)  # only tokens are recorded

    async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        run, self._runs = self._runs, self._runs + 1
        started = self._clock()
        listed = [int(token) for token in prompt]
        self._write({"type": "run", "run": run, "prompt": listed, "request": _describe_request(request)})
        ended = False

        def write(kind: str, said: Json) -> None:
            self._write({"type": kind, "run": run, "at_s": round(self._clock() - started, 6), **said})

        try:
            async with aclosing(self._engine.generate(prompt, request)) as stream:
                async for item in stream:
                    if isinstance(item, Finish):
                        ended = True
                        write("finish", msgspec.to_builtins(item))
                    else:
                        write("chunk", _describe_chunk(item))
                    yield item
            ended = True  # an engine that ends without a Finish leaves a run without an end
        except HarmonyError as error:
            if not ended:
                write("error", _describe_error(error))
            ended = True
            raise
        finally:
            # Closed by its caller, cancelled, or something that is no error of ours: it was not the engine that ended.
            if not ended and not self._file.closed:
                write("cancelled", {})

    async def close(self) -> None:
        self._file.close()
        await self._engine.close()

    def _write(self, line: Json) -> None:
        self._file.write(encode_any(line).encode() + b"\n")


def _describe_request(request: Request) -> Json:
    try:
        return msgspec.to_builtins(request)
    except (TypeError, RecursionError) as error:
        raise InputError(ErrorCode.MESSAGES_INVALID_VALUE, f"the request is not JSON: {error}") from error


def _describe_chunk(chunk: Chunk) -> Json:
    described: Json = {}
    if len(chunk.tokens):
        described["tokens"] = [int(token) for token in chunk.tokens]
    if chunk.text:
        described["text"] = chunk.text
    if chunk.logprobs:
        described["logprobs"] = [
            {**_describe_logprob(each), "top": [_describe_logprob(other) for other in each.top]}
            for each in chunk.logprobs
        ]
    return described


def _describe_logprob(value: TokenLogprob | Alternative) -> Json:
    number = value.logprob
    return {
        "token": value.token,
        "text": value.text,
        "logprob": number if math.isfinite(number) else str(number),  # JSON has no infinity
    }


def _describe_error(error: HarmonyError) -> Json:
    return {
        "error": type(error).__name__,
        "code": error.code.value,
        "message": error.message,
        "at": msgspec.to_builtins(error.at),
    }


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Logprob(msgspec.Struct):
    token: int | None
    text: str
    logprob: float | str
    top: list[_Logprob] = []


class _Header(msgspec.Struct):
    version: int
    engine: str
    model: str
    traits: Traits


class _RunLine(msgspec.Struct):
    run: int
    prompt: list[int]
    request: Request


class _ChunkLine(msgspec.Struct):
    run: int
    at_s: float
    tokens: list[int] = []
    text: str = ""
    logprobs: list[_Logprob] = []


class _FinishLine(msgspec.Struct):
    run: int
    at_s: float
    reason: FinishReason
    usage: Usage | None
    notes: tuple[str, ...]


class _ErrorLine(msgspec.Struct):
    run: int
    at_s: float
    error: str
    code: ErrorCode
    message: str
    at: Position


class _CancelledLine(msgspec.Struct):
    run: int
    at_s: float


_LINES: Final[dict[str, type[msgspec.Struct]]] = {
    "run": _RunLine,
    "chunk": _ChunkLine,
    "finish": _FinishLine,
    "error": _ErrorLine,
    "cancelled": _CancelledLine,
}


def read_capture(path: str | os.PathLike[str]) -> Capture:
    """The runs of a capture; EngineError with the line where the file is no capture, or damaged.

    A last line that was not written to its end is left out: it is what a crash leaves behind.
    """
    name = os.fspath(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise EngineError(
            ErrorCode.ENGINE_CAPTURE_MISMATCH, f"{name} cannot be read: {error.strerror}", Position(path=name)
        ) from error
    return _read(data, name)


def _read(data: bytes, name: str) -> Capture:
    lines = data.split(b"\n")
    is_torn = lines.pop() != b""
    if not lines:
        raise _damaged(name, 1, "the file contains no capture")
    value = _decode(lines[0], name, 1)
    if value.get("type") != "capture":
        raise _damaged(name, 1, "the first line is not the first line of a capture")
    if value.get("version") != VERSION:
        raise _damaged(name, 1, f"it has version {value.get('version')!r}, and only {VERSION} can be read")
    header = _convert(value, _Header, name, 1)
    runs: list[Run] = []
    for number, line in enumerate(lines[1:], 2):
        _take(runs, _decode(line, name, number), name, number)
    return Capture(header.engine, header.model, header.traits, runs, is_torn)


def _take(runs: list[Run], value: Json, name: str, number: int) -> None:
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _LINES:
        raise _damaged(name, number, f"a line has the type {kind!r}, which is unknown")
    line = _convert(value, _LINES[kind], name, number)
    if isinstance(line, _RunLine):
        if line.run != len(runs):
            raise _damaged(name, number, f"run {line.run} begins where run {len(runs)} should")
        runs.append(Run(line.prompt, line.request, []))
        return
    known = cast("_ChunkLine | _FinishLine | _ErrorLine | _CancelledLine", line)
    if not 0 <= known.run < len(runs):
        raise _damaged(name, number, f"run {known.run} has not begun")
    run = runs[known.run]
    if run.end is not None:
        raise _damaged(name, number, f"run {known.run} has ended already")
    if known.at_s < (run.chunks[-1].at_s if run.chunks else 0):
        raise _damaged(name, number, "time goes backwards")
    match known:
        case _ChunkLine():
            run.chunks.append(Timed(known.at_s, _chunk(known, name, number)))
            return
        case _FinishLine():
            end = Finish(known.reason, known.usage, known.notes)
        case _ErrorLine():
            end = _ERRORS.get(known.error, EngineError)(known.code, known.message, known.at)
        case _CancelledLine():
            end = "cancelled"
    runs[known.run] = msgspec.structs.replace(run, end=end, end_at_s=known.at_s)


def _chunk(line: _ChunkLine, name: str, number: int) -> Chunk:
    try:
        logprobs = tuple(
            TokenLogprob(
                each.token,
                each.text,
                float(each.logprob),
                tuple(Alternative(other.token, other.text, float(other.logprob)) for other in each.top),
            )
            for each in line.logprobs
        )
    except ValueError as error:
        raise _damaged(name, number, f"a log-probability is not a number: {error}") from error
    return Chunk(line.tokens or (), line.text, logprobs)


def _decode(line: bytes, name: str, number: int) -> Json:
    try:
        value = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise _damaged(name, number, f"the line is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise _damaged(name, number, "the line is not a JSON object")
    return cast("Json", value)


def _convert(value: Json, type_: type[Any], name: str, number: int) -> Any:
    try:
        return msgspec.convert({key: each for key, each in value.items() if key != "type"}, type_)
    except (msgspec.ValidationError, InputError, RecursionError) as error:
        raise _damaged(name, number, str(error)) from error


def _damaged(name: str, number: int, message: str) -> EngineError:
    return EngineError(
        ErrorCode.ENGINE_CAPTURE_MISMATCH, f"{name} cannot be replayed: {message}", Position(path=f"{name}:{number}")
    )


Timing = Literal["none", "recorded"]
_NEIGHBOURS: Final = 6


class ReplayEngine:
    """Replays a file that `RecordingEngine` or `harmonia record` wrote.

    With `timing="recorded"` it waits between chunks as long as the recorded engine did. `request` is not compared,
    only the prompt: it has all that a model was told.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        timing: Timing = "none",
        strict: bool = True,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        if timing not in get_args(Timing):
            raise InputError(ErrorCode.ENGINE_INVALID_OPTION, f"timing is {timing!r}; expected none or recorded")
        self._path = os.fspath(path)
        self._capture = read_capture(path)
        self._is_timed = timing == "recorded"
        self._strict = strict
        self._sleep = sleep
        self._next = 0

    @property
    def name(self) -> str:
        return "replay"

    @property
    def model(self) -> str:
        """The recorded engine's."""
        return self._capture.model

    @property
    def traits(self) -> Traits:
        """The recorded engine's."""
        return self._capture.traits

    async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        run = self._take(prompt)
        passed = 0.0
        for timed in run.chunks:
            await self._wait(timed.at_s - passed)
            passed = timed.at_s
            yield timed.chunk
        await self._wait(run.end_at_s - passed if run.end is not None else 0)
        match run.end:
            case Finish():
                yield run.end
            case HarmonyError():
                # A new one each time, because raising an error changes it.
                raise type(run.end)(run.end.code, run.end.message, run.end.at)
            case None:
                yield Finish("unknown", notes=("the capture ends here, in the middle of an answer",))
            case _:
                yield Finish("unknown", notes=("the recorded run was cancelled here",))

    async def close(self) -> None:
        """There is nothing to give back."""

    async def _wait(self, seconds: float) -> None:
        # The loop is let go at every chunk, timed or not, so that a replay can be cancelled.
        await (self._sleep(max(seconds, 0)) if self._is_timed else asyncio.sleep(0))

    def _take(self, prompt: Sequence[int]) -> Run:
        runs = self._capture.runs
        if self._next >= len(runs):
            raise self._mismatch(f"it has {len(runs)} runs, and all of them have been replayed already")
        run = runs[self._next]
        given = list(prompt)
        if self._strict and given != run.prompt:
            at = _first_difference(given, run.prompt)
            raise self._mismatch(
                f"run {self._next} was recorded with another prompt: at token {at} it has "
                f"{_neighbourhood(run.prompt, at)}, and it was given {_neighbourhood(given, at)}",
                Position(token=at),
            )
        self._next += 1
        return run

    def _mismatch(self, message: str, at: Position | None = None) -> EngineError:
        message = f"{self._path} cannot be replayed: {message}"
        return EngineError(ErrorCode.ENGINE_CAPTURE_MISMATCH, message, at or Position())


def _first_difference(one: list[int], other: list[int]) -> int:
    differing = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differing, min(len(one), len(other)))


def _neighbourhood(tokens: list[int], at: int) -> str:
    """The text around a token, which is marked: `…user⟦<|message|>⟧Hi…`."""
    before, behind = max(at - _NEIGHBOURS, 0), at + 1 + _NEIGHBOURS
    here = _spell(tokens[at : at + 1]) if at < len(tokens) else "the end"
    text = f"{_spell(tokens[before:at])}⟦{here}⟧{_spell(tokens[at + 1 : behind])}"
    return repr(f"{'…' if before else ''}{text}{'…' if behind < len(tokens) else ''}")


def _spell(tokens: list[int]) -> str:
    """As `decode` does, whatever ids somebody gave."""
    if all(0 <= token < VOCABULARY_SIZE for token in tokens):
        try:
            return decode(tokens)
        except HarmonyError:
            pass
    return str(tokens)


KINDS: Final = (
    Kind(
        name="replay",
        summary="a recorded run",
        make=ReplayEngine,
        argument="FILE",
        argument_as="path",
        model_as=None,
        options={"timing": str, "strict": bool},
        takes_key=False,
        speaks="tokens",
    ),
)
