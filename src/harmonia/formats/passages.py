"""Passages: what a family's marks divide an answer into, and which marks mean something where.

plain text      behind no mark, or behind one that says so       closed by anything that opens
a thought       `<think>` … `</think>`                           closed by its mark
a call          `<tool_call>` … `</tool_call>`                   closed by its mark, or by itself
a forged one    `<tool_response>`                                what the model writes in somebody else's name: all
                                                                 that follows rests on it, and is part of it
the end         `<|im_end|>`                                     what follows belongs to no turn
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from harmonia.formats.bodies import Body
from harmonia.formats.family import ReadingOptions
from harmonia.formats.marks import Finder, Mark

Kind = Literal["text", "thought", "call", "forged", "end"]
MakeBody = Callable[[ReadingOptions, str], Body]

_TEXT_ONLY: Final[frozenset[Kind]] = frozenset(["text"])


class Passage(msgspec.Struct, frozen=True, eq=False):
    """Something that a mark opens.

    `inside`         the kinds of passages in which its opening mark counts; in others it is ordinary text
    `may_stay_open`  nothing is wrong where no closing mark comes
    `only_closing`   no mark counts in it but its closing one, such as a label in a thought that has marks
    `may_be_text`    a call that may turn out to be text of the answer; so a thought may begin in it
    `may_stray`      whether its closing mark is out of place where nothing is open. Words and code fences are not:
                     there they are ordinary text
    `body`           what reads a call, made of the options and the opening mark as it was spelled
    `keeps_mark`     the opening mark is part of the body, such as the brace of bare JSON
    `only_first`     the mark counts only where nothing but thoughts came before it
    `is_foreign`     another family's way to call
    """

    kind: Kind
    opening: Mark
    closings: tuple[Mark, ...] = ()
    inside: frozenset[Kind] = _TEXT_ONLY
    may_stay_open: bool = False
    only_closing: bool = False
    may_be_text: bool = False
    may_stray: bool = True
    body: MakeBody | None = None
    keeps_mark: bool = False
    only_first: bool = False
    is_foreign: bool = False


class Meaning(msgspec.Struct, frozen=True):
    """What a mark does where it was found: it opens a passage, closes the open one, or neither: then it is stray, and
    `passage` is one that it would close."""

    does: Literal["opens", "closes", "is_stray"]
    passage: Passage | None = None


class Sought(msgspec.Struct, frozen=True):
    """The marks that mean something at a place."""

    finder: Finder
    meanings: tuple[Meaning, ...]


class Layout:
    """All passages of a family. What is sought in each is worked out once."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._passages = tuple(passages)
        self.thought = next((passage for passage in self._passages if passage.kind == "thought"), None)
        # Where the prompt opened a thought, a model may repeat the opening mark.
        self.opened_again = _openings([] if self.thought is None else [self.thought])
        self.first = _openings([passage for passage in self._passages if passage.only_first])
        self._plain = self._inside(None)
        self._sought = {passage: self._inside(passage) for passage in self._passages}

    def sought_in(self, passage: Passage | None) -> Sought:
        """What is sought in a passage; in plain text where it is None."""
        return self._plain if passage is None else self._sought[passage]

    def _inside(self, open_passage: Passage | None) -> Sought:
        kind: Kind = "text" if open_passage is None else open_passage.kind
        closings = () if open_passage is None else open_passage.closings
        meanings = {mark: Meaning("closes") for mark in closings}
        may_be_text = open_passage is not None and open_passage.may_be_text
        for passage in self._passages:
            counts = kind in passage.inside or (may_be_text and passage.kind == "thought")
            if counts and not passage.only_first and not (open_passage is not None and open_passage.only_closing):
                meanings.setdefault(passage.opening, Meaning("opens", passage))
        if open_passage is None:
            for passage in self._passages:
                for mark in passage.closings if passage.may_stray else ():
                    meanings.setdefault(mark, Meaning("is_stray", passage))
        return Sought(Finder(list(meanings)), tuple(meanings.values()))


def _openings(passages: Sequence[Passage]) -> Sought:
    return Sought(
        Finder([passage.opening for passage in passages]), tuple(Meaning("opens", passage) for passage in passages)
    )


def all_marks(
    given: tuple[str, str] | tuple[()] | None, own: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    """The marks of thoughts, those that were given first. A family that has several reads its other ones as well: what
    stands between them is a thought whoever wrote it."""
    if not given:
        return own if given is None else ()
    return (given, *(marks for marks in own if marks != given))
