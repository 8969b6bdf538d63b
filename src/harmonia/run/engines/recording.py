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

import json
import math
import os
import stat
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

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
