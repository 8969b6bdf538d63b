"""What is measured: cases (an input and what to do with it) and the rows of the report that are made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

Json = dict[str, Any]
# cold    render a conversation that was never seen, the renderer's cache emptied before each
# warm    render a conversation again that was rendered before
# append  add a message to a conversation that was rendered before, and render that
# encode  text to tokens; one measurement takes all the texts of a round
# parse   the tokens of a completion to messages, all at once
# stream  the same as the tokens arrive, taking every delta of text
# read    the same through the reference's API, reading the properties that `reads` names at every token
# turn    the loop around an engine that gives these tokens, less the time of reading that engine's stream; of the
#         reference, its parser alone
# build   the tools of a conversation to a grammar; of an engine, compiling it
# masks   which tokens the grammar admits, before each token of a call
Action = Literal["cold", "warm", "append", "encode", "parse", "stream", "read", "turn", "build", "masks"]


@dataclass(frozen=True)
class Case:
    """Inputs and what to do with them. Each round has new ones, which depend on nothing but the case and the round;
    unless there is only one to think of, and then `varies` is False.

    `make` gives a conversation (for `append` a message, for `encode` a text, for the others tokens).
    In a round, `count` of them are measured, those of `given` first, and their median is the result; the result of the
    case is the best of its rounds. With `fresh`, each round has new processes. `fails` names rivals that are known to
    fail.
    """

    name: str
    action: Action
    make: Callable[[Random], Any]
    rivals: tuple[str, ...] = ("openai-harmony", "core", "fast")
    base: Callable[[Random], list[Json]] | None = None
    count: int = 20
    rounds: int = 12
    fresh: bool = False
    varies: bool = True
    fails: tuple[str, ...] = ()
    given: tuple[Any, ...] = ()
    chunk_tokens: int = 1  # how many tokens arrive at a time
    with_channel: bool = False  # whether every delta is taken with the channel it is on
    reads: tuple[str, ...] = ()  # for `read`: properties of a StreamableParser
    each: bool = False  # for `encode`: whether each text is measured by itself, as messages are
    frozen: bool = False  # for `append`: whether the base is frozen, as the loop does it with the head of its prompts
    tolerant: bool = False  # whether the drop-in runs with `strict=False`, which the reference does not have

    def rounds_for(self, *, quick: bool) -> int:
        return min(1 if self.fresh else 2, self.rounds) if quick else self.rounds

    def inputs(self, round_: int, *, quick: bool) -> list[Any]:
        """The inputs of a round; quick rounds have the first few."""
        count = min(4, self.count) if quick and self.action != "encode" else self.count
        seed = f"{self.name}/{round_ if self.varies else 0}"
        made = range(len(self.given), count)
        return [*self.given[:count], *(self.make(Random(f"{seed}/{index}")) for index in made)]

    def base_conversation(self) -> list[Json]:
        """What messages are appended to."""
        assert self.base is not None
        return self.base(Random(f"{self.name}/base"))


@dataclass(frozen=True)
class Start:
    """A fresh process that imports, loads and renders once.

    With `engine_loaded`, Harmonia is told to use its real tokenizer at once, in place of the plain-Python starter.
    With `bare`, the process does nothing else, so that its whole life can be timed from outside. `completion` is parsed
    when the clock has stopped, before memory is looked at.
    """

    name: str
    make: Callable[[Random], list[Json]]
    rivals: tuple[str, ...] = ("openai-harmony", "core", "fast")
    engine_loaded: bool = False
    bare: bool = False
    rounds: int = 15
    completion: tuple[int, ...] = ()

    def rounds_for(self, *, quick: bool) -> int:
        return min(2, self.rounds) if quick else self.rounds

    def messages(self) -> list[Json]:
        return self.make(Random(self.name))


# faster   the rival's time over ours: more is better
# share    ours over the rival's, for start-up and memory: less is better
# growth   our time over our time for a tenth of the input: 10 is linear, less than `must` is near enough
Measure = Literal["faster", "share", "growth"]
Quantity = Literal["seconds", "process_seconds", "resident_bytes"]


@dataclass(frozen=True)
class Row:
    """A line of the report: which case, compared how, what it must reach and what we aim for."""

    name: str
    title: str
    case: str
    measure: Measure = "faster"
    quantity: Quantity = "seconds"
    must: float | None = None
    aim: float | None = None
    compared_with: str | None = None  # for growth: the case with a tenth of the input
    against: str = "openai-harmony"
    ours: tuple[str, str] = ("core", "fast")  # who stands in the columns of these names
    size_bytes: int | None = None  # of the input, where a throughput is worth showing
