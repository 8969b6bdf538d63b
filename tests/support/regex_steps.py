"""Count the steps of a backtracking search, and write the texts that make an expression backtrack.

CPython's `re` has no counter, so this walks the tree that `re` itself parses and tries what `re` would try, in the same
order. It knows what backtracks (repeats, branches, lookarounds, possessive and atomic forms) and none of the shortcuts
that `re` takes within a step; so its counts differ from the real ones by a constant factor.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from re import _constants as sre  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
from re import _parser as parser  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
from typing import Any, cast

# A repeat with a larger bound counts as one without: 500 steps at each of a million characters are a freeze, too. One
# with a smaller bound is cut, so that short texts are enough.
LARGEST_BOUND = 64
CUT_BOUND = 12

Match = Callable[[int], int]  # continues at a position; gives the end, or -1
_NAMES: Any = cast("Any", sre)


class TooManySteps(Exception):
    pass


class Counter:
    """One expression against one text."""

    def __init__(self, pattern: re.Pattern[Any], text: str, most: int) -> None:
        self.steps = 0
        self._most = most
        self._text = text
        self._flags = pattern.flags
        source: Any = pattern.pattern
        source = source.decode("latin-1") if isinstance(source, bytes) else source
        self._tree: Any = parsed(source, pattern.flags)
        self._groups: dict[int, tuple[int, int]] = {}

    def search(self, *, anchored: bool, whole: bool) -> int:
        """The steps of a match at the start, or of a search from every position with the matches left out."""
        size = len(self._text)
        run = self._sequence(self._tree, lambda at: at if not whole or at == size else -1)
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(200_000)
        try:
            at = 0
            while at <= size:
                self._groups.clear()
                end = run(at)
                if anchored:
                    break
                at = max(end, at + 1)
        finally:
            sys.setrecursionlimit(limit)
        return self.steps

    def _step(self) -> None:
        self.steps += 1
        if self.steps > self._most:
            raise TooManySteps

    def _sequence(self, items: Any, then: Match) -> Match:
        for item in reversed(list(items)):
            then = self._item(item, then)
        return then

    def _item(self, item: Any, then: Match) -> Match:
        kind, value = item
        if kind in (_NAMES.LITERAL, _NAMES.NOT_LITERAL, _NAMES.ANY, _NAMES.IN):
            fits = fits_of(item, self._flags)

            def one(at: int) -> int:
                self._step()
                return then(at + 1) if at < len(self._text) and fits(self._text[at]) else -1

            return one
        if kind is _NAMES.BRANCH:
            ways = [self._sequence(way, then) for way in value[1]]
            return lambda at: next((end for way in ways if (end := way(at)) >= 0), -1)
        if kind is _NAMES.SUBPATTERN:
            group, _, _, inner = value
            if group is None:
                return self._sequence(inner, then)
            begins: list[int] = []

            def closed(at: int) -> int:
                begin = begins.pop()
                before = self._groups.get(group)
                self._groups[group] = (begin, at)
                end = then(at)
                if end < 0:
                    begins.append(begin)
                    if before is None:
                        del self._groups[group]
                    else:
                        self._groups[group] = before
                return end

            body = self._sequence(inner, closed)

            def opened(at: int) -> int:
                begins.append(at)
                end = body(at)
                if end < 0:
                    begins.pop()
                return end

            return opened
        if kind is _NAMES.ATOMIC_GROUP:
            alone = self._sequence(value, lambda at: at)
            return lambda at: then(end) if (end := alone(at)) >= 0 else -1
        if kind in (_NAMES.MAX_REPEAT, _NAMES.MIN_REPEAT, _NAMES.POSSESSIVE_REPEAT):
            return self._repeat(kind, value, then)
        if kind is _NAMES.AT:
            return lambda at: then(at) if self._is_at(value, at) else -1
        if kind in (_NAMES.ASSERT, _NAMES.ASSERT_NOT):
            direction, inner = value
            width = parser_width(inner)
            looked = self._sequence(inner, lambda at: at)
            wanted = kind is _NAMES.ASSERT

            def look(at: int) -> int:
                begin = at if direction > 0 else at - width
                found = begin >= 0 and looked(begin) >= 0
                return then(at) if found == wanted else -1

            return look
        if kind is _NAMES.GROUPREF:

            def again(at: int) -> int:
                self._step()
                begin, end = self._groups.get(value, (0, -1))
                said = self._text[begin:end] if end >= 0 else None
                return then(at + len(said)) if said is not None and self._text.startswith(said, at) else -1

            return again
        if kind is _NAMES.GROUPREF_EXISTS:
            group, if_there, if_not = value
            there, absent = self._sequence(if_there, then), self._sequence(if_not or (), then)
            return lambda at: (there if group in self._groups else absent)(at)
        raise AssertionError(f"unknown construct {kind}")

    def _repeat(self, kind: Any, value: Any, then: Match) -> Match:
        least, most, inner = value
        least, most = int(least), int(most)
        most = sys.maxsize if most > LARGEST_BOUND else min(most, CUT_BOUND)
        least = min(least, CUT_BOUND)
        is_one = len(inner) == 1 and inner[0][0] in (_NAMES.LITERAL, _NAMES.NOT_LITERAL, _NAMES.ANY, _NAMES.IN)
        if is_one:
            return self._repeat_one(kind, least, most, fits_of(inner[0], self._flags), then)
        if kind is _NAMES.POSSESSIVE_REPEAT:
            once = self._sequence(inner, lambda at: at)

            def possessive(at: int) -> int:
                count = 0
                while count < most:
                    end = once(at)
                    if end < 0 or (end == at and count >= least):
                        break
                    at, count = end, count + 1
                return then(at) if count >= least else -1

            return possessive

        # The count and the begin of the present round, for the continuation behind the body.
        rounds: list[tuple[int, int]] = []

        def another(at: int) -> int:
            count, begin = rounds.pop()
            end = -1 if at == begin and count >= least else attempt(at, count + 1)
            rounds.append((count, begin))
            return end

        body = self._sequence(inner, another)

        def go_on(at: int, count: int) -> int:
            rounds.append((count, at))
            end = body(at)
            rounds.pop()
            return end

        def attempt(at: int, count: int) -> int:
            self._step()
            if count < least:
                return go_on(at, count)
            if kind is _NAMES.MIN_REPEAT:
                end = then(at)
                return end if end >= 0 or count >= most else go_on(at, count)
            end = go_on(at, count) if count < most else -1
            return end if end >= 0 else then(at)

        return lambda at: attempt(at, 0)

    def _repeat_one(self, kind: Any, least: int, most: int, fits: Callable[[str], bool], then: Match) -> Match:
        text = self._text

        def greedy(at: int) -> int:
            end = at
            while end < len(text) and end - at < most and fits(text[end]):
                self._step()
                end += 1
            self._step()
            last = end if kind is _NAMES.POSSESSIVE_REPEAT else at + least
            for each in range(end, last - 1, -1):
                if each - at >= least and (found := then(each)) >= 0:
                    return found
                self._step()
            return -1

        def lazy(at: int) -> int:
            end = at
            while True:
                self._step()
                if end - at >= least and (found := then(end)) >= 0:
                    return found
                if end >= len(text) or end - at >= most or not fits(text[end]):
                    return -1
                end += 1

        return lazy if kind is _NAMES.MIN_REPEAT else greedy

    def _is_at(self, where: Any, at: int) -> bool:
        text, size, lines = self._text, len(self._text), self._flags & re.MULTILINE
        name = str(where)
        if name in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
            return at == 0 or bool(lines and name == "AT_BEGINNING" and text[at - 1] == "\n")
        if name == "AT_END":
            return at == size or (at == size - 1 and text[at] == "\n") or bool(lines and text[at] == "\n")
        if name == "AT_END_STRING":
            return at == size
        before = at > 0 and (text[at - 1].isalnum() or text[at - 1] == "_")
        behind = at < size and (text[at].isalnum() or text[at] == "_")
        return (before != behind) == (name == "AT_BOUNDARY")


@cache
def parsed(source: str, flags: int) -> Any:
    return parser.parse(source, flags & ~re.DEBUG)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def parser_width(tree: Any) -> int:
    return int(tree.getwidth()[0])


def fits_of(item: Any, flags: int) -> Callable[[str], bool]:
    """Whether one character is what a literal, a class or a dot takes: asked of `re`, and remembered."""
    at = (id(item), flags)
    if at not in _FITS:
        _FITS[at] = (item, _asks_re(item, flags))
    return _FITS[at][1]


# The item is kept with its answer, so that no other one gets its id.
_FITS: dict[tuple[int, int], tuple[Any, Callable[[str], bool]]] = {}


def _asks_re(item: Any, flags: int) -> Callable[[str], bool]:
    tree: Any = parser.SubPattern(parser.State(), [item])  # pyright: ignore
    compiled = _compiled(tree, flags & (re.IGNORECASE | re.DOTALL | re.ASCII | re.UNICODE))
    known: dict[str, bool] = {}

    def fits(character: str) -> bool:
        if character not in known:
            known[character] = compiled.match(character) is not None
        return known[character]

    return fits


def _compiled(tree: Any, flags: int) -> re.Pattern[str]:
    tree.state.flags = flags
    from re import _compiler as compiler  # pyright: ignore

    return compiler.compile(tree, flags)  # pyright: ignore


# ── texts ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_COMMON = (" ", "\n", "a", "0", "_", ",", "<", '"', "\\", "é")


def adversarial(pattern: re.Pattern[Any], *sizes: int) -> Iterator[tuple[str, ...]]:
    """Texts of about these sizes: runs of what the expression repeats and of the characters it names, alone, in pairs
    and behind what leads to a repeat; each also with a last character that fits nothing."""
    source: Any = pattern.pattern
    source = source.decode("latin-1") if isinstance(source, bytes) else source
    tree = parsed(source, pattern.flags)
    pumps = dict.fromkeys((*_bodies(tree, pattern.flags), *_characters(tree, pattern.flags)))
    listed = [pump for pump in pumps if pump][:14]
    beginnings = list(dict.fromkeys(("", *_ways(tree, pattern.flags))))[:5]

    def run(pump: str, size: int) -> str:
        return pump * (size // len(pump) + 1)

    for pump, beginning in product(listed, beginnings):
        yield tuple(beginning + run(pump, size) for size in sizes)
        yield tuple(beginning + run(pump, size) + "\x00" for size in sizes)
        if beginning:
            yield tuple(run(beginning + pump, size) for size in sizes)
    for one, two in product(listed[:6], repeat=2):
        if one != two:
            yield tuple(run(one, size // 2) + run(two, size // 2) + "\x00" for size in sizes)
            yield tuple(run(one + two, size) for size in sizes)


def _shortest(tree: Any, flags: int) -> str:
    """A short text that the tree takes, where no lookaround objects."""
    said = ""
    for kind, value in tree:
        if kind in (_NAMES.LITERAL, _NAMES.NOT_LITERAL, _NAMES.ANY, _NAMES.IN):
            said += next(iter(_members((kind, value), flags)), "")
        elif kind is _NAMES.BRANCH:
            said += _shortest(value[1][0], flags)
        elif kind is _NAMES.SUBPATTERN:
            said += _shortest(value[3], flags)
        elif kind is _NAMES.ATOMIC_GROUP:
            said += _shortest(value, flags)
        elif kind in (_NAMES.MAX_REPEAT, _NAMES.MIN_REPEAT, _NAMES.POSSESSIVE_REPEAT):
            said += _shortest(value[2], flags) * min(int(value[0]), CUT_BOUND)
    return said


def _members(item: Any, flags: int) -> list[str]:
    kind, value = item
    fits = fits_of(item, flags)
    named = [chr(value)] if kind in (_NAMES.LITERAL, _NAMES.NOT_LITERAL) else []
    if kind is _NAMES.IN:
        for each, said in value:
            if each is _NAMES.LITERAL:
                named.append(chr(said))
            elif each is _NAMES.RANGE:
                named.append(chr(said[0]))
    return [character for character in dict.fromkeys((*named, *_COMMON)) if fits(character)][:4]


def _inner(kind: Any, value: Any) -> list[Any]:
    if kind is _NAMES.BRANCH:
        return list(value[1])
    if kind is _NAMES.SUBPATTERN:
        return [value[3]]
    if kind is _NAMES.ATOMIC_GROUP:
        return [value]
    if kind in (_NAMES.ASSERT, _NAMES.ASSERT_NOT):
        return [value[1]]
    if kind in (_NAMES.MAX_REPEAT, _NAMES.MIN_REPEAT, _NAMES.POSSESSIVE_REPEAT):
        return [value[2]]
    if kind is _NAMES.GROUPREF_EXISTS:
        return [each for each in value[1:] if each]
    return []


def _bodies(tree: Any, flags: int) -> Iterator[str]:
    """What is repeated, in each of its ways."""
    for kind, value in tree:
        for inner in _inner(kind, value):
            if kind in (_NAMES.MAX_REPEAT, _NAMES.MIN_REPEAT, _NAMES.POSSESSIVE_REPEAT) and int(value[1]) > 1:
                if len(inner) == 1:
                    if inner[0][0] in (_NAMES.LITERAL, _NAMES.NOT_LITERAL, _NAMES.ANY, _NAMES.IN):
                        yield from _members(inner[0], flags)[:2]
                    for way in _inner(*inner[0]):
                        yield _shortest(way, flags)
                yield _shortest(inner, flags)
            yield from _bodies(inner, flags)


def _characters(tree: Any, flags: int) -> Iterator[str]:
    for item in tree:
        kind, value = item
        if kind in (_NAMES.LITERAL, _NAMES.NOT_LITERAL, _NAMES.ANY, _NAMES.IN):
            yield from _members(item, flags)[:2]
        for inner in _inner(kind, value):
            yield from _characters(inner, flags)


def _ways(tree: Any, flags: int, before: str = "") -> Iterator[str]:
    """What leads to each repeat, and to the end."""
    for item in tree:
        kind, value = item
        if kind in (_NAMES.MAX_REPEAT, _NAMES.MIN_REPEAT, _NAMES.POSSESSIVE_REPEAT):
            yield before
        for inner in _inner(kind, value):
            yield from _ways(inner, flags, before)
        before += _shortest([item], flags)
    yield before
