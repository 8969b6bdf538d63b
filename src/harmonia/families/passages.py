"""Passages: the parts into which a family's marks divide an answer, and which marks count where.

plain text      without a mark, or after one for text            closed by anything that opens
a thought       `<think>` … `</think>`                           closed by its mark; nothing inside is a call
a call          `<tool_call>` … `</tool_call>`                   closed by its mark, or by itself
a forged one    `<tool_response>`                                a message in another name: all that follows relies on
                                                                 it, and is part of it
the end         `<|im_end|>`                                     what follows belongs to no turn
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from harmonia.families.call_bodies import Body
from harmonia.families.marks import Finder, Mark
from harmonia.families.registry import ReadingOptions

Kind = Literal["text", "thought", "call", "forged", "end"]
MakeBody = Callable[[ReadingOptions, str], Body]

_TEXT_ONLY: Final[frozenset[Kind]] = frozenset(["text"])
# Where an opening mark may count, besides plain text.
TEXT_AND_CALLS: Final[frozenset[Kind]] = frozenset(["text", "call"])
ANYWHERE: Final[frozenset[Kind]] = frozenset(["text", "thought", "call"])


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
    `label`          a word that may follow the opening mark of a thought and is not part of the thought
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
    label: str = ""
    is_foreign: bool = False


class Meaning(msgspec.Struct, frozen=True):
    """What a mark does where it was found: it opens a passage, closes the open one, or neither. Then it is stray, and
    `passage` is one that it would close; or it opens a thought inside the open one, which has the same closing mark."""

    does: Literal["opens", "closes", "nests", "is_stray"]
    passage: Passage | None = None


class Sought(msgspec.Struct, frozen=True):
    """The marks that mean something at a place, in the order of the finder."""

    finder: Finder
    meanings: tuple[Meaning, ...]
    marks: dict[Mark, Meaning]


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
        closable = [passage for passage in self._passages if passage.kind == "thought" and passage.closings]
        self._nesting = {passage: self._in_thought(passage, self._sought[passage].marks) for passage in closable}
        self._deciding = {
            passage: self._in_thought(passage, _ends_among(sought.marks)) for passage, sought in self._nesting.items()
        }

    def sought_in(self, passage: Passage | None) -> Sought:
        """What is sought in a passage; in plain text where it is None."""
        return self._plain if passage is None else self._sought[passage]

    def sought_in_thought(self, passage: Passage, *, is_undecided: bool) -> Sought:
        """What is sought in a thought that has a closing mark. Where it is undecided whether there is a call in it,
        only what decides that: where the thought ends."""
        return (self._deciding if is_undecided else self._nesting)[passage]

    def _in_thought(self, thought: Passage, others: dict[Mark, Meaning]) -> Sought:
        meanings = {mark: Meaning("closes") for mark in thought.closings}
        for passage in self._passages:
            is_same = passage.kind == "thought" and passage.closings == thought.closings
            if is_same and not passage.only_first:
                meanings.setdefault(passage.opening, Meaning("nests", passage))
        return _sought({**meanings, **others})

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
        return _sought(meanings)


def _sought(marks: dict[Mark, Meaning]) -> Sought:
    return Sought(Finder(list(marks)), tuple(marks.values()), marks)


def _ends_among(marks: dict[Mark, Meaning]) -> dict[Mark, Meaning]:
    return {
        mark: meaning
        for mark, meaning in marks.items()
        if meaning.passage is not None and meaning.passage.kind == "end"
    }


def _openings(passages: Sequence[Passage]) -> Sought:
    return _sought({passage.opening: Meaning("opens", passage) for passage in passages})


def all_marks(
    given: tuple[str, str] | tuple[()] | None, own: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    """The marks of thoughts, those that were given first. A family that has several reads its other ones as well: what
    stands between them is a thought whoever wrote it."""
    if not given:
        return own if given is None else ()
    return (given, *(marks for marks in own if marks != given))
