r"""Regular expressions as rules: what ECMA 262, Python and Rust read alike, and nothing else.

    a  .  [a-z]  [^"]  \d \w \s \D \W \S  \n \t \x41 \u0041  (a) (?:a) (?<name>a)  a|b  a* a+ a? a{2} a{2,} a{2,3}  ^ $

Regex flavours differ in what a class such as `\w` has beyond ASCII. The rules admit what all of them do, so that any
later check of the text agrees. Greedy or lazy is all the same to a grammar. What looks around or back (`(?=`, `\b`,
`\1`) is refused, and so are anchors that are not at an end.
"""

from __future__ import annotations

import string
from functools import lru_cache, reduce
from typing import Final, NamedTuple, NoReturn

from harmonia.grammar.rules import (
    ALL,
    Chars,
    Choice,
    Literal,
    Node,
    Ranges,
    Repeat,
    Sequence,
    choice,
    common,
    is_among,
    joined,
    of,
    without,
)

# Longer or deeper ones nobody writes by hand, and an engine would choke on them.
MAX_CHARS: Final = 32_768
MAX_DEPTH: Final = 50
MAX_PARTS: Final = 2_000
MAX_COUNT: Final = 10_000
# Of a search; then it is given up.
MAX_STEPS: Final = 200_000
_REMEMBERED: Final = 4096

_DIGITS: Final = of(string.digits)
_WORD: Final = of(string.ascii_letters + string.digits + "_")
_SPACE: Final = of(" \t\n\r\f\v")
# What any flavour takes for a digit, a letter or white space: the first digit beyond ASCII is U+0660.
_ANY_DIGITS: Final = joined((*_DIGITS, (0x660, 0x10FFFF)))
_ANY_WORD: Final = joined((*_WORD, (0x80, 0x10FFFF)))
_MORE_SPACE: Final = of("\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff\u180e")
_ANY_SPACE: Final = joined((*_SPACE, (0x1C, 0x1F), *_MORE_SPACE, (0x2000, 0x200A)))
# Which characters `.` leaves out differs, too.
_LINE_ENDS: Final = of("\n\r\x85\u2028\u2029")

# By letter: what every flavour admits, and what some flavour does.
_CLASSES: Final[dict[str, tuple[Ranges, Ranges]]] = {
    "d": (_DIGITS, _ANY_DIGITS),
    "w": (_WORD, _ANY_WORD),
    "s": (_SPACE, _ANY_SPACE),
    "D": (without(ALL, _ANY_DIGITS), without(ALL, _DIGITS)),
    "W": (without(ALL, _ANY_WORD), without(ALL, _WORD)),
    "S": (without(ALL, _ANY_SPACE), without(ALL, _SPACE)),
}
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}


class Alternative(NamedTuple):
    """One of the alternatives at the top, and to which ends of the text it is tied."""

    node: Node
    at_start: bool
    at_end: bool


class UnreadableRegexError(ValueError):
    """An expression that is invalid, or needs more than rules. `at` is the offset in it. `is_certain`: every regex
    flavour refuses it."""

    def __init__(self, message: str, at: int, *, is_certain: bool = False) -> None:
        super().__init__(message)
        self.at = at
        self.is_certain = is_certain


def regex_alternatives(expression: str, *, flags: str = "") -> tuple[Alternative, ...]:
    """The alternatives of an expression that is searched for. `flags`: i ignores ASCII case, s lets `.` be any."""
    return _Reader(expression, flags).read()


def regex_node(expression: str, *, flags: str = "") -> Node:
    """An expression that the whole text has to match; anchors at its ends say nothing new."""
    return choice(*(alternative.node for alternative in regex_alternatives(expression, flags=flags)))


class _Reader:
    def __init__(self, expression: str, flags: str) -> None:
        self._text = expression
        self._ignores_case = "i" in flags
        self._dot_is_all = "s" in flags
        self._at = 0
        self._depth = 0
        self._parts = 0
        self._is_certain = True  # as long as nothing came that others read otherwise
        if len(expression) > MAX_CHARS:
            self._fail(f"an expression of more than {MAX_CHARS} characters")

    def read(self) -> tuple[Alternative, ...]:
        while self._text.startswith("(?", self._at) and self._flags():
            pass
        made: list[Alternative] = []
        while True:
            at_start = self._take("^") or self._take("\\A")
            if at_start and self._peek() in ("*", "+", "?", "{"):
                self._fail("an anchor that is repeated", self._at)
            node = self._sequence()
            at_end = self._take("$") or self._take("\\z") or self._take("\\Z")
            made.append(Alternative(node, at_start, at_end))
            if self._take("|"):
                continue
            if self._at < len(self._text):
                self._refuse(f"unexpected {self._text[self._at]!r}", self._at)
            return tuple(made)

    def _flags(self) -> bool:
        """Flags for the whole of it, at its beginning: `(?i)`."""
        end = self._text.find(")", self._at)
        letters = self._text[self._at + 2 : end] if end > 0 else ""
        if not letters or not set(letters) <= set("is"):
            return False
        self._ignores_case |= "i" in letters
        self._dot_is_all |= "s" in letters
        self._at = end + 1
        return True

    def _alternatives(self) -> Node:
        nodes = [self._sequence()]
        while self._take("|"):
            nodes.append(self._sequence())
        return choice(*nodes)

    def _sequence(self) -> Node:
        nodes: list[Node] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            if self._is_end_anchor():
                break
            node, last = self._repeated(self._item()), nodes[-1] if nodes else None
            if isinstance(node, Literal) and isinstance(last, Literal):
                nodes[-1] = Literal(last.text + node.text)  # characters that stand together are one text
            else:
                nodes.append(node)
        self._parts += len(nodes)
        if self._parts > MAX_PARTS:
            self._fail(f"more than {MAX_PARTS} parts")
        return nodes[0] if len(nodes) == 1 else Sequence(tuple(nodes))

    def _is_end_anchor(self) -> bool:
        """Whether an anchor stands where the alternative ends; elsewhere it is an item, and refused as one."""
        for anchor in ("$", "\\z", "\\Z"):
            if self._text.startswith(anchor, self._at) and self._depth == 0:
                return self._text[self._at + len(anchor) :][:1] in ("", "|")
        return False

    def _repeated(self, node: Node) -> Node:
        while self._at < len(self._text):
            begin = self._at
            if self._take("*"):
                node = Repeat(node)
            elif self._take("+"):
                node = Repeat(node, 1)
            elif self._take("?"):
                node = Repeat(node, 0, 1)
            elif self._text[self._at] == "{":
                bounds = self._bounds()
                if bounds is None:
                    return node
                node = Repeat(node, *bounds)
            else:
                return node
            if self._take("+"):
                self._fail("a possessive repetition", begin)
            self._take("?")  # lazy
        return node

    def _bounds(self) -> tuple[int, int | None] | None:
        begin = self._at
        end = self._text.find("}", begin)
        least, comma, most = self._text[begin + 1 : end].partition(",")
        if end < 0 or not least.isdecimal() or not (most.isdecimal() or not most):
            self._refuse("a brace that bounds nothing; write it as \\{", begin)
        if max(len(least), len(most)) > 9:
            self._fail(f"more than {MAX_COUNT} repetitions", begin)
        self._at = end + 1
        low = int(least)
        high = (int(most) if most else None) if comma else low
        if max(low, high or 0) > MAX_COUNT:
            self._fail(f"more than {MAX_COUNT} repetitions", begin)
        if high is not None and high < low:
            self._refuse("bounds in the wrong order", begin)
        return low, high

    def _item(self) -> Node:
        begin = self._at
        sign = self._text[begin]
        self._at += 1
        if sign in "^$":
            self._fail("an anchor that does not stand at an end", begin)
        if sign in "*+?{":
            self._refuse("nothing to repeat", begin)
        match sign:
            case "(":
                return self._group(begin)
            case "[":
                return self._characters(self._bracketed(begin))
            case ".":
                return Chars(ALL if self._dot_is_all else without(ALL, _LINE_ENDS))
            case "\\":
                ranges = self._escape(begin)
                return self._characters(ranges[0] if isinstance(ranges, tuple) else of(ranges))
            case _:
                return self._characters(of(sign))

    def _characters(self, ranges: Ranges) -> Node:
        if self._ignores_case:
            lower = common(ranges, ((ord("a"), ord("z")),))
            upper = common(ranges, ((ord("A"), ord("Z")),))
            ranges = joined((*ranges, *((a - 32, b - 32) for a, b in lower), *((a + 32, b + 32) for a, b in upper)))
        if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
            return Literal(chr(ranges[0][0]))
        return Chars(ranges) if ranges else Choice(())

    def _group(self, begin: int) -> Node:
        if self._take("?"):
            if self._take("P<") or (self._peek() == "<" and self._peek(1) not in ("=", "!")):
                end = self._text.find(">", self._at)
                if end < 0:
                    self._refuse("a group whose name does not end", begin)
                self._at = end + 1
            elif not self._take(":"):
                self._fail("lookaround or inline flags", begin)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._fail(f"more than {MAX_DEPTH} groups in each other", begin)
        node = self._alternatives()
        self._depth -= 1
        if not self._take(")"):
            self._refuse("the group is not closed", begin)
        return node

    def _bracketed(self, begin: int) -> Ranges:
        is_negated = self._take("^")
        if self._text.startswith("]", self._at):
            self._is_certain = False  # the end of an empty class, or a bracket as the first of its characters
        sure: list[tuple[int, int]] = []
        wide: list[tuple[int, int]] = []
        while True:
            if self._at >= len(self._text):
                self._refuse("a class that does not end", begin)
            if self._take("]"):
                break
            low = self._class_item()
            if isinstance(low, tuple):
                sure += low[0]
                wide += low[1]
                continue
            high = low
            if self._peek() == "-" and self._peek(1) != "]":
                self._at += 1
                if self._at >= len(self._text):
                    self._refuse("a class that does not end", begin)
                end = self._class_item()
                if isinstance(end, tuple) or end < low:
                    self._refuse("a range in the wrong order", begin)
                high = end
            sure.append((ord(low), ord(high)))
            wide.append((ord(low), ord(high)))
        return without(ALL, joined(wide)) if is_negated else common(ALL, joined(sure))

    def _class_item(self) -> str | tuple[Ranges, Ranges]:
        begin = self._at
        sign = self._text[begin]
        self._at += 1
        if sign == "[" and self._peek() in (":", "[", "=", "."):
            self._fail("a class within a class", begin)
        if self._text[begin : begin + 2] in ("&&", "--", "~~"):
            self._fail("an operation between classes", begin)
        return self._escape(begin, in_class=True) if sign == "\\" else sign

    def _escape(self, begin: int, *, in_class: bool = False) -> str | tuple[Ranges, Ranges]:
        letter = self._peek()
        self._at += 1
        if letter in _CLASSES and letter:
            return _CLASSES[letter]
        if letter in _CONTROLS and letter:
            return _CONTROLS[letter]
        if letter == "b" and in_class:
            return "\b"
        if letter in ("x", "u"):
            return self._numbered(begin, 2 if letter == "x" else 4)
        if not letter:
            self._refuse("a backslash at the end", begin)
        if letter.isalnum():
            self._fail(f"the escape \\{letter}", begin)
        return letter

    def _numbered(self, begin: int, digits: int) -> str:
        end = self._at + digits
        if self._peek() == "{":
            self._at += 1
            end = self._text.find("}", self._at)
        number = self._text[self._at : end] if end > 0 else ""
        if not number or not set(number) <= set(string.hexdigits) or int(number, 16) > 0x10FFFF:
            self._fail("an escape with an invalid number", begin)
        self._at = end + (self._text[end : end + 1] == "}" and self._text[self._at - 1] == "{")
        if 0xD800 <= int(number, 16) <= 0xDFFF:
            self._fail("a lone surrogate", begin)
        return chr(int(number, 16))

    def _peek(self, further: int = 0) -> str:
        return self._text[self._at + further : self._at + further + 1]

    def _take(self, text: str) -> bool:
        taken = self._text.startswith(text, self._at)
        self._at += len(text) * taken
        return taken

    def _refuse(self, what: str, at: int) -> NoReturn:
        """Every flavour refuses it."""
        raise UnreadableRegexError(what, at, is_certain=self._is_certain)

    def _fail(self, what: str, at: int | None = None) -> NoReturn:
        raise UnreadableRegexError(f"a grammar cannot express {what}", self._at if at is None else at)


# ── searching ───────────────────────────────────────────────────────────────────────────────────────────────────────


def is_found(expression: str, text: str) -> bool | None:
    """Whether the expression is found in the text, in bounded work; None if that cannot be said, because regex flavours
    read the expression differently, or because the search takes too long.

    Python's `re` may take exponential time over an expression such as `(a+)+$`, and nothing can stop it. Here a node
    maps the set of places where it may begin to the set of places where it may end, so no place is tried twice.
    """
    left = MAX_STEPS

    def ends_of(node: Node, starts: set[int]) -> set[int]:
        nonlocal left
        left -= 1 + len(starts)
        if left < 0:
            raise TimeoutError
        match node:
            case Literal(said):
                return {at + len(said) for at in starts if text.startswith(said, at)}
            case Chars():
                return {at + 1 for at in starts if at < len(text) and is_among(text[at], node)}
            case Sequence(nodes):
                return reduce(lambda found, each: ends_of(each, found), nodes, starts)
            case Choice(nodes):
                return set[int]().union(*(ends_of(each, starts) for each in nodes))
            case Repeat(inner, times, most):
                for _ in range(times):
                    starts = ends_of(inner, starts)
                found, fresh = set(starts), starts
                while fresh and (most is None or times < most):
                    fresh = ends_of(inner, fresh) - found
                    found |= fresh
                    times += 1
                return found
            case _:
                raise AssertionError(node)  # no expression has others

    try:
        for node, at_start, at_end in _alternatives(expression):
            ends = ends_of(node, {0} if at_start else set(range(len(text) + 1)))
            if len(text) in ends if at_end else ends:
                return True
    except (UnreadableRegexError, TimeoutError):
        return None
    return False


_alternatives = lru_cache(_REMEMBERED)(regex_alternatives)
