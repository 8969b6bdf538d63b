"""A captured run again: the same chunks, the same end, and if you like the same pace.

1. Runs come in the order in which they were recorded, each once.
2. With `strict`, a prompt that is not the recorded one is an error that shows where the two part.
3. An error that was recorded is raised again at the same place. A run that was cancelled, or broke off, ends where it
   did, with the reason "unknown" and a note.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Final, Literal, get_args

from harmonia.errors import EngineError, ErrorCode, HarmonyError, InputError, Position
from harmonia.run.engines.base import Chunk, Finish, Request, Traits
from harmonia.run.engines.recording import Run, read_capture
from harmonia.run.engines.registry import Kind
from harmonia.vocabulary import VOCABULARY_SIZE, decode

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
