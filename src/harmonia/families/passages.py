"""Marks, and the passages into which they divide an answer.

A mark is a sequence of atoms, each a regular expression for one character or a bounded number of them, so every prefix
of a mark has an expression too. Text that may still become a mark is held back, at most the length of the longest mark.

Passages, and which marks count where:

plain text      without a mark, or after one for text            closed by anything that opens
a thought       `<think>` … `</think>`                           closed by its mark; nothing inside is a call
a call          `<tool_call>` … `</tool_call>`                   closed by its mark, or by itself
a forged one    `<tool_response>`                                a message in another name: all that follows relies on
                                                                 it, and is part of it
the end         `<|im_end|>`                                     what follows belongs to no turn
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

import msgspec

from harmonia.families.call_bodies import Body
from harmonia.families.registry import ReadingOptions

# anywhere  wherever it is spelled
# line      at the beginning of a line, after a few blanks at most
Where = Literal["anywhere", "line"]

_LINE_START: Final = r"(?<![^\n])"
_BLANKS: Final = r"[ \t]{0,4}"
_HALVES: Final = "[\\ud800-\\udfff]"


class Mark(msgspec.Struct, frozen=True):
    """A mark as atoms. The first and the last are exactly one character each: marks are searched by the first one, and
    where a mark ends may not depend on what follows."""

    atoms: tuple[str, ...]
    at: Where = "anywhere"

    def whole(self) -> str:
        return self._before() + "".join(self.atoms)

    def beginning(self) -> str | None:
        """A regular expression for a text that ends with the beginning of the mark."""
        nested = ""
        for atom in reversed(self.atoms[:-1]):
            nested = f"(?:{atom}{nested})?"
        return f"{self._before()}{nested}\\Z" if nested or self.at == "line" else None

    def _before(self) -> str:
        return "" if self.at == "anywhere" else _LINE_START + _BLANKS


def literal(text: str, at: Where = "anywhere") -> Mark:
    """A mark with exactly this spelling."""
    return Mark(tuple(re.escape(character) for character in text), at)


def label(words: str, around: str = "") -> Mark:
    """A word with a colon at the beginning of a line, in any case, perhaps with a number: `Action:`, `action 2 :`, and
    `**Action:**` with `**`."""
    atoms = [re.escape(character) for character in around]
    for word in words.split():
        atoms += (f"[{letter.upper()}{letter.lower()}]" for letter in word)
        atoms += (_BLANKS, r"\d{0,3}", _BLANKS)
    return Mark((*atoms, ":", *(re.escape(character) for character in around)), "line")


class Finder:
    """Finds the first of several marks, or the position where one may have begun."""

    __slots__ = ("_candidate", "_has_lines", "_last", "_open")

    def __init__(self, marks: Sequence[Mark]) -> None:
        # The longest match counts; among marks of one length, the caller's order decides.
        by_length = sorted(range(len(marks)), key=lambda at: -len(marks[at].atoms))
        wholes = [f"(?P<m{at}>{marks[at].whole()})" for at in by_length]
        # A lone surrogate is found like a mark, so that it is reported at its position.
        wholes.append(f"(?P<half>{_HALVES})")
        beginnings = _different(mark.beginning() for mark in marks)
        self._last = re.compile("|".join(wholes))
        self._open = re.compile("|".join([*(f"(?:{beginning})" for beginning in beginnings), *wholes]))
        # Few characters and lines can begin a mark, and searching for those is much faster.
        firsts = _different([*(mark.atoms[0] for mark in marks if mark.at == "anywhere"), _HALVES])
        in_lines = _different(mark.atoms[0] for mark in marks if mark.at == "line")
        self._has_lines = bool(in_lines)
        if in_lines:
            firsts.append(f"\n(?={_BLANKS}(?:{'|'.join(in_lines)}|\\Z))")
        self._candidate = re.compile("|".join(firsts))

    def search(self, text: str, at: int, *, is_end: bool) -> Found | None:
        """The first mark from here on, or the beginning of one at the end of the text."""
        if self._has_lines and text[at - 1 : at] == "\n" and (found := self.match(text, at, is_end=is_end)) is not None:
            return found
        while (candidate := self._candidate.search(text, at)) is not None:
            start, at = candidate.span()
            found = self.match(text, start, is_end=is_end)
            if found is None and self._has_lines and text[start] == "\n":
                found = self.match(text, at, is_end=is_end)
            if found is not None:
                return found
        return None

    def match(self, text: str, at: int, *, is_end: bool) -> Found | None:
        """The mark at exactly this position, or its beginning."""
        match = (self._last if is_end else self._open).match(text, at)
        if match is None or match.end() == at:
            return None
        name = match.lastgroup
        which = None if name is None else HALF if name == "half" else int(name[1:])
        return Found(at, match.end(), which)


HALF: Final = -1


class Found(msgspec.Struct, frozen=True, gc=False):
    """A mark in a text: its number, HALF for a lone surrogate, None for the beginning of one."""

    start: int
    end: int
    which: int | None


def _different(patterns: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(pattern for pattern in patterns if pattern is not None))


# ── passages ──

Kind = Literal["text", "thought", "call", "forged", "end"]
MakeBody = Callable[[ReadingOptions, str], Body]

_TEXT_ONLY: Final[frozenset[Kind]] = frozenset(["text"])
# Where an opening mark may count, besides plain text.
TEXT_AND_CALLS: Final[frozenset[Kind]] = frozenset(["text", "call"])
ANYWHERE: Final[frozenset[Kind]] = frozenset(["text", "thought", "call"])


class Passage(msgspec.Struct, frozen=True, eq=False):
    """Something that a mark opens.

    `inside`         the kinds of passages in which its opening mark counts; in others it is ordinary text
    `may_stay_open`  a missing closing mark is not a fault
    `only_closing`   no mark counts in it but its closing one
    `may_be_text`    a call that may turn out to be text of the answer; so a thought may begin in it
    `may_stray`      its closing mark is a fault if nothing is open; words and code fences are ordinary text then
    `body`           makes the reader of a call, from the options and the opening mark as it was spelled
    `keeps_mark`     the opening mark is part of the body, such as the brace of bare JSON
    `only_first`     the mark counts only if nothing but thoughts came before it
    `label`          a word that may follow the opening mark of a thought and is not part of the thought
    `is_foreign`     another family's way to call
    """

    kind: Kind
    opening: Mark
    closing: Mark | None = None
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
    """What a mark does: it opens a passage, closes the open one, opens a nested thought with the same closing mark, or
    is stray; then `passage` is one that it would close."""

    does: Literal["opens", "closes", "nests", "is_stray"]
    passage: Passage | None = None


class Sought(msgspec.Struct, frozen=True):
    """The marks that have a meaning at some place, in the order of the finder."""

    finder: Finder
    meanings: tuple[Meaning, ...]
    marks: dict[Mark, Meaning]


class Layout:
    """All passages of a family, and which marks count in each."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._passages = tuple(passages)
        self.thought = next((passage for passage in self._passages if passage.kind == "thought"), None)
        # If the prompt opened a thought, a model may repeat the opening mark.
        self.opened_again = _openings([] if self.thought is None else [self.thought])
        self.first = _openings([passage for passage in self._passages if passage.only_first])
        self._plain = self._inside(None)
        self._sought = {passage: self._inside(passage) for passage in self._passages}
        closable = [passage for passage in self._passages if passage.kind == "thought" and passage.closing]
        self._nesting = {passage: self._in_thought(passage, self._sought[passage].marks) for passage in closable}
        self._deciding = {
            passage: self._in_thought(passage, _ends_among(sought.marks)) for passage, sought in self._nesting.items()
        }

    def sought_in(self, passage: Passage | None) -> Sought:
        """What is sought in a passage, or in plain text."""
        return self._plain if passage is None else self._sought[passage]

    def sought_in_thought(self, passage: Passage, *, is_undecided: bool) -> Sought:
        """What is sought in a thought that has a closing mark; only what may end it while it is undecided whether there
        is a call in it."""
        return (self._deciding if is_undecided else self._nesting)[passage]

    def _in_thought(self, thought: Passage, others: dict[Mark, Meaning]) -> Sought:
        meanings = {thought.closing: Meaning("closes")} if thought.closing else {}
        for passage in self._passages:
            is_same = passage.kind == "thought" and passage.closing == thought.closing
            if is_same and not passage.only_first:
                meanings.setdefault(passage.opening, Meaning("nests", passage))
        return _sought({**meanings, **others})

    def _inside(self, open_passage: Passage | None) -> Sought:
        kind: Kind = "text" if open_passage is None else open_passage.kind
        closing = None if open_passage is None else open_passage.closing
        meanings = {closing: Meaning("closes")} if closing else {}
        may_be_text = open_passage is not None and open_passage.may_be_text
        for passage in self._passages:
            counts = kind in passage.inside or (may_be_text and passage.kind == "thought")
            if counts and not passage.only_first and not (open_passage is not None and open_passage.only_closing):
                meanings.setdefault(passage.opening, Meaning("opens", passage))
        if open_passage is None:
            for passage in self._passages:
                if passage.closing and passage.may_stray:
                    meanings.setdefault(passage.closing, Meaning("is_stray", passage))
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
    """The marks of thoughts, those that were given first. A family with several pairs also reads its other ones: what
    is between them is a thought, whoever wrote it."""
    if not given:
        return own if given is None else ()
    return (given, *(marks for marks in own if marks != given))


def thoughts(pairs: Iterable[tuple[str, str]]) -> list[Passage]:
    return [Passage("thought", literal(opens), literal(closes)) for opens, closes in pairs]


def forged(*marks: str, inside: frozenset[Kind] = TEXT_AND_CALLS) -> list[Passage]:
    return [Passage("forged", literal(mark), inside=inside) for mark in marks]


def ends(*marks: str) -> list[Passage]:
    return [Passage("end", literal(mark), inside=ANYWHERE) for mark in marks]
