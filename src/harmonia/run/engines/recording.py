"""Recordings: what an engine was asked and what it gave, in a file, with its timing; and an engine that replays one.

    {"type":"capture","version":1,"engine":"demo","model":"demo","traits":{…}}       the first line
    {"type":"run","run":0,"prompt":[200006,…],"request":{…}}                         a call of `generate`
    {"type":"chunk","run":0,"at_s":0.012,"tokens":[200005]}                          or "text", and "logprobs"
    {"type":"finish","run":0,"at_s":0.5,"reason":"stop","usage":{…},"notes":[]}      one of these three
    {"type":"error","run":0,"at_s":0.5,"error":"EngineError","code":"engine.died","message":"…","at":{}}
    {"type":"cancelled","run":0,"at_s":0.5}

1. JSON, one object a line, UTF-8. `run` counts the runs, whose lines are mixed where they ran at the same time. `at_s`
   counts seconds from the beginning of the run.
2. Each line is handed to the system as soon as it is known, so a crash loses at most the line that was being written.
   A run without one of the three ends was interrupted.
3. Tokens, text, chunk boundaries and log-probabilities are kept as they came, including text that is not Unicode (half
   of a surrogate pair) and numbers that are not JSON ("-inf").
4. Nothing else is written: no address, no header, no key.
5. A replay gives the runs in their order, each once. With `strict`, a prompt that is not the recorded one is an error
   that shows where the two differ. A recorded error is raised again at the same place; a run that was cancelled or
   interrupted ends where it did, with the reason "unknown" and a note.
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
from harmonia.renderer import shared_prefix
from harmonia.run.engines.base import Alternative, Chunk, Engine, Finish, Request, TokenLogprob, Traits, invalid_option
from harmonia.run.engines.registry import Kind
from harmonia.vocabulary import decode

_VERSION: Final = 1
_FILE_MODE: Final = 0o600
_ERRORS: Final = {kind.__name__: kind for kind in (EngineError, InputError, StreamError, ToolError)}
_NEIGHBOURS: Final = 6
Json = dict[str, Any]
Timing = Literal["none", "recorded"]


class Timed(msgspec.Struct, frozen=True):
    """A chunk and when it came, in seconds from the beginning of the run."""

    at_s: float
    chunk: Chunk


class Run(msgspec.Struct):
    """One call of `generate`: `end` is None where the recording was interrupted, "cancelled" where the caller left."""

    prompt: list[int]
    request: Request
    chunks: list[Timed] = []
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
        os.fchmod(descriptor, _FILE_MODE)  # an existing file keeps its mode otherwise
    return descriptor


class RecordingEngine:
    """Another engine, every run of which is written to a file. An existing file is overwritten."""

    def __init__(
        self, engine: Engine, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._runs = 0
        self.name, self.model = engine.name, engine.model
        self.traits = msgspec.structs.replace(engine.traits, takes_text=False)  # only tokens are recorded
        # Unbuffered: what is written is out of this process. For the owner only: prompts and reasoning are in it.
        file = open(path, "wb", buffering=0, opener=_open_private)  # noqa: SIM115 -- closed with the engine
        self._file: BinaryIO = cast("BinaryIO", file)
        traits = msgspec.to_builtins(self.traits)
        self._write("capture", {"version": _VERSION, "engine": self.name, "model": self.model, "traits": traits})

    async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        run, self._runs = self._runs, self._runs + 1
        started = self._clock()
        try:
            described = msgspec.to_builtins(request)
        except (TypeError, RecursionError) as error:
            raise InputError(ErrorCode.MESSAGES_INVALID_VALUE, f"the request is not JSON: {error}") from error
        self._write("run", {"run": run, "prompt": [int(token) for token in prompt], "request": described})
        ended = False

        def write(kind: str, said: Json) -> None:
            self._write(kind, {"run": run, "at_s": round(self._clock() - started, 6), **said})

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
                kind, at = type(error).__name__, msgspec.to_builtins(error.at)
                write("error", {"error": kind, "code": error.code.value, "message": error.message, "at": at})
            ended = True
            raise
        finally:
            # The caller closed or cancelled it, or it raised an error that is not ours: the engine did not end it.
            if not ended and not self._file.closed:
                write("cancelled", {})

    async def close(self) -> None:
        self._file.close()
        await self._engine.close()

    def _write(self, kind: str, line: Json) -> None:
        self._file.write(encode_any({"type": kind, **line}).encode() + b"\n")


def _describe_chunk(chunk: Chunk) -> Json:
    logprobs = [
        {**_describe_logprob(each), "top": [_describe_logprob(other) for other in each.top]} for each in chunk.logprobs
    ]
    described: Json = {"tokens": [int(token) for token in chunk.tokens], "text": chunk.text, "logprobs": logprobs}
    return {name: value for name, value in described.items() if value}


def _describe_logprob(value: TokenLogprob | Alternative) -> Json:
    number = value.logprob if math.isfinite(value.logprob) else str(value.logprob)  # JSON has no infinity
    return {"token": value.token, "text": value.text, "logprob": number}


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Header(msgspec.Struct):
    type: Literal["capture"]
    version: int
    engine: str
    model: str
    traits: Traits


class _Line(msgspec.Struct):
    type: Literal["run", "chunk", "finish", "error", "cancelled"]
    run: int
    at_s: float = 0.0


class _Error(msgspec.Struct):
    error: str
    code: ErrorCode
    message: str
    at: Position


def read_capture(path: str | os.PathLike[str]) -> Capture:
    """The runs of a recording; EngineError with the line where the file is not a recording, or damaged, and InputError
    where it cannot be read.

    A last line that was not written to its end is left out: it is what a crash leaves.
    """
    name = os.fspath(path)
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except OSError as error:
        raise invalid_option(f"{name} cannot be read: {error.strerror}", Position(path=name)) from error
    is_torn = lines.pop() != b""
    runs: list[Run] = []
    number = 1
    try:
        try:
            header = msgspec.convert(json.loads(lines[0].decode() if lines else "null"), _Header)
        except (ValueError, msgspec.ValidationError) as error:
            raise ValueError("it is not a recording of `harmonia record`") from error
        if header.version != _VERSION:
            raise ValueError(f"it has version {header.version}, and only {_VERSION} can be read")
        for line in lines[1:]:
            number += 1
            # Not msgspec's decoder: it refuses half of a surrogate pair.
            _read_line(json.loads(line.decode()), runs)
    except (ValueError, msgspec.ValidationError, InputError, RecursionError) as error:
        raise EngineError(
            ErrorCode.ENGINE_CAPTURE_MISMATCH, f"{name} cannot be replayed: {error}", Position(path=f"{name}:{number}")
        ) from error
    return Capture(header.engine, header.model, header.traits, runs, is_torn)


def _read_line(value: Json, runs: list[Run]) -> None:
    line = msgspec.convert(value, _Line)
    if line.type == "run":
        if line.run != len(runs):
            raise ValueError(f"run {line.run} begins where run {len(runs)} should")
        prompt = msgspec.convert(value.get("prompt"), list[int])
        runs.append(Run(prompt, msgspec.convert(value.get("request"), Request)))
        return
    if not 0 <= line.run < len(runs):
        raise ValueError(f"run {line.run} has not begun")
    run = runs[line.run]
    if run.end is not None:
        raise ValueError(f"run {line.run} has ended already")
    if line.at_s < (run.chunks[-1].at_s if run.chunks else 0):
        raise ValueError("time goes backwards")
    if line.type == "chunk":
        # Not strict, for the numbers that were written as text.
        logprobs = msgspec.convert(value.get("logprobs", ()), tuple[TokenLogprob, ...], strict=False)
        chunk = msgspec.convert({**value, "logprobs": ()}, Chunk)
        run.chunks.append(Timed(line.at_s, msgspec.structs.replace(chunk, logprobs=logprobs)))
        return
    run.end_at_s = line.at_s
    if line.type == "finish":
        run.end = msgspec.convert(value, Finish)
    elif line.type == "error":
        error = msgspec.convert(value, _Error)
        run.end = _ERRORS.get(error.error, EngineError)(error.code, error.message, error.at)
    else:
        run.end = "cancelled"


# ── replaying ───────────────────────────────────────────────────────────────────────────────────────────────────────


class ReplayEngine:
    """Replays a file that `RecordingEngine` or `harmonia record` wrote, with the model and traits recorded there.

    With `timing="recorded"` it waits between chunks as long as the recorded engine did. `request` is not compared,
    only the prompt: it has all that a model was told.
    """

    name = "replay"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        timing: Timing = "none",
        strict: bool = True,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        if timing not in get_args(Timing):
            raise invalid_option(f"timing is {timing!r}; expected none or recorded")
        capture = read_capture(path)
        self.model, self.traits = capture.model, capture.traits
        self._path = os.fspath(path)
        self._runs = capture.runs
        self._is_timed = timing == "recorded"
        self._strict = strict
        self._sleep = sleep
        self._next = 0

    async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        run = self._next_run(list(prompt))
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
                yield Finish("unknown", notes=("the recording ends here, in the middle of an answer",))
            case _:
                yield Finish("unknown", notes=("the recorded run was cancelled here",))

    async def close(self) -> None:
        """There is nothing to release."""

    async def _wait(self, seconds: float) -> None:
        # Every chunk gives up the event loop, timed or not, so that a replay can be cancelled.
        await (self._sleep(max(seconds, 0)) if self._is_timed else asyncio.sleep(0))

    def _next_run(self, prompt: list[int]) -> Run:
        if self._next >= len(self._runs):
            message, at = f"it has {len(self._runs)} runs, and all of them have been replayed already", Position()
        else:
            run = self._runs[self._next]
            if not self._strict or prompt == run.prompt:
                self._next += 1
                return run
            token = shared_prefix(prompt, run.prompt)
            message = (
                f"run {self._next} was recorded with another prompt: at token {token} it has "
                f"{_neighbourhood(run.prompt, token)}, and it was given {_neighbourhood(prompt, token)}; "
                "`-o strict false` replays it anyway"
            )
            at = Position(token=token)
        raise EngineError(ErrorCode.ENGINE_CAPTURE_MISMATCH, f"{self._path} cannot be replayed: {message}", at)


def _neighbourhood(tokens: list[int], at: int) -> str:
    """The text around a token, which is marked: `…user⟦<|message|>⟧Hi…`."""
    start, end = max(at - _NEIGHBOURS, 0), at + 1 + _NEIGHBOURS
    here = _spell(tokens[at : at + 1]) if at < len(tokens) else "the end"
    text = f"{_spell(tokens[start:at])}⟦{here}⟧{_spell(tokens[at + 1 : end])}"
    return repr(f"{'…' if start else ''}{text}{'…' if end < len(tokens) else ''}")


def _spell(tokens: list[int]) -> str:
    try:
        return decode(tokens)
    except HarmonyError:
        return str(tokens)  # ids outside the vocabulary


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
