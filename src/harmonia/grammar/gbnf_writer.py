"""Write a grammar as llama.cpp reads it: GBNF.

What llama.cpp does, and what follows from it:

1. Special tokens stand by their numbers, `<[200005]>`; but wherever a character is admitted, a special token counts as
   the characters that spell it. So the text is kept from spelling one: see plain_grammar.py.
2. Tokens that end the generation are never matched: one is sampled after the end of the grammar, whichever the
   model likes. So the rules end where `<|call|>` or `<|return|>` would stand, and the run puts the right one there.
3. A repetition is written out as so many rules. One of 2,000 or more is refused, and one whose upper bound is beyond
   that is taken for one without; so long ones are written in pieces. Within a group all repetitions count as one, so
   what is repeated has a rule of its own.
4. Left recursion is refused, a repetition of what may be empty among it, and U+0000 ends a text.
5. Bytes are matched as the character that they would be, even if they spell it too long (F0 80 A0 80 for U+0800). No
   rule can tell, and no model does it; a parser says that it is not UTF-8.
6. Names that are not one of the declared ones take a rule for each letter of those. So an object that declares
   properties and says nothing of others has none but these, which is also what its owner most likely means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from harmonia.grammar.plain_grammar import expanded, without_control_spellings
from harmonia.grammar.rules import (
    Chars,
    Choice,
    Grammar,
    Literal,
    Name,
    Node,
    Repeat,
    Sequence,
    Special,
    WrittenGrammar,
    common,
    ranges_of,
    rebuilt,
)
from harmonia.grammar.simplification import NOTHING, without_empty_repetitions
from harmonia.vocabulary import CALL, END_OF_TEXT, RETURN

_ROOT: Final = "root"
# Half of what llama.cpp writes out at most.
_PIECE: Final = 1_000
_SIGNS: Final[dict[tuple[int, int | None], str]] = {(0, 1): "?", (0, None): "*", (1, None): "+"}
_ENDING: Final = frozenset((CALL, RETURN, END_OF_TEXT))
_CHARACTERS: Final = ((1, 0xD7FF), (0xE000, 0x10FFFF))
_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9 _.,:;/=+*|<>{}()!?@#$%&'`~]")
_SHORT_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def write_gbnf(grammar: Grammar) -> WrittenGrammar:
    """The grammar for llama.cpp, without the token that ends a completion."""
    rules = {name: _without_ends(node) for name, node in grammar.rules.items()}
    plain, losses = expanded(Grammar(_without_ends(grammar.start), rules))
    safe = without_control_spellings(without_empty_repetitions(plain))
    return WrittenGrammar("gbnf", _Writer(safe).write(), losses, ends_by_engine=True)


def _without_ends(node: Node) -> Node:
    return NOTHING if isinstance(node, Special) and node.token in _ENDING else rebuilt(node, _without_ends)


class _Writer:
    def __init__(self, grammar: Grammar) -> None:
        self._start = grammar.start
        self._given = grammar.rules
        self._names = _legal_names(grammar.rules)
        self._taken = {_ROOT, *self._names.values()}
        self._pieces: dict[tuple[object, ...], str] = {}
        self._lines: list[str] = []

    def write(self) -> str:
        self._add(_ROOT, self._start)
        for name, node in self._given.items():
            self._add(self._names[name], node)
        return "".join(f"{line}\n" for line in self._lines)

    def _add(self, name: str, node: Node) -> None:
        place = len(self._lines)
        self._lines.append("")
        self._lines[place] = f"{name} ::= {self._alternatives(node, name)}"

    def _alternatives(self, node: Node, rule: str) -> str:
        if isinstance(node, Choice):
            return " | ".join(self._sequence(each, rule) for each in node.nodes)
        return self._sequence(node, rule)

    def _sequence(self, node: Node, rule: str) -> str:
        nodes = node.nodes if isinstance(node, Sequence) and node.nodes else (node,)
        return " ".join(self._item(each, rule) for each in nodes)

    def _item(self, node: Node, rule: str) -> str:
        match node:
            case Literal(text):
                return f'"{_escaped(text)}"'
            case Special(token):
                return f"<[{token}]>"
            case Chars():
                ranges = common(ranges_of(node), _CHARACTERS)
                ends = (_escaped(chr(low)) + (f"-{_escaped(chr(high))}" if high > low else "") for low, high in ranges)
                return f"[{''.join(ends)}]"
            case Name(name):
                return self._names[name]
            case Repeat(inner, least, most):
                return self._repeated(inner, least, most, rule)
            case Sequence(()):
                return '""'
            case _:
                return f"({self._alternatives(node, rule)})"

    def _repeated(self, node: Node, least: int, most: int | None, rule: str) -> str:
        sign = _SIGNS.get((least, most))
        if sign is not None and not _has_bounds(node):
            return f"{self._single(node, rule)}{sign}"
        single = self._single(node, rule) if isinstance(node, Chars | Name | Special) else self._piece(node, rule)
        if sign is not None:
            return f"{single}{sign}"
        pieces = [f"{single}{{{_PIECE}}}"] * (least // _PIECE)
        if least % _PIECE:
            pieces.append(f"{single}{{{least % _PIECE}}}")
        if most is None:
            pieces.append(f"{single}*")
        elif most > least:
            pieces.append(self._up_to(single, most - least, rule))
        return " ".join(pieces) or '""'

    def _up_to(self, single: str, count: int, rule: str) -> str:
        if count <= _PIECE:
            return f"{single}{{0,{count}}}"
        key = (single, count)
        if key not in self._pieces:
            name = self._pieces[key] = self._fresh(rule)
            place = len(self._lines)
            self._lines.append("")
            longer = f"{single}{{{_PIECE}}} {self._up_to(single, count - _PIECE, rule)}"
            self._lines[place] = f"{name} ::= {single}{{0,{_PIECE - 1}}} | {longer}"
        return self._pieces[key]

    def _single(self, node: Node, rule: str) -> str:
        written = self._item(node, rule)
        is_one = isinstance(node, Chars | Name | Special) or (isinstance(node, Literal) and len(node.text) == 1)
        return written if is_one or written.startswith("(") else f"({written})"

    def _piece(self, node: Node, rule: str) -> str:
        key = (node,)
        if key not in self._pieces:
            self._pieces[key] = self._fresh(rule)
            self._add(self._pieces[key], node)
        return self._pieces[key]

    def _fresh(self, rule: str) -> str:
        number = 1
        while f"{rule}-p{number}" in self._taken:
            number += 1
        self._taken.add(f"{rule}-p{number}")
        return f"{rule}-p{number}"


def _has_bounds(node: Node) -> bool:
    match node:
        case Repeat(inner, least, most):
            return (least, most) not in _SIGNS or _has_bounds(inner)
        case Sequence(nodes) | Choice(nodes):
            return any(_has_bounds(each) for each in nodes)
        case _:
            return False


def _legal_names(rules: Mapping[str, Node]) -> dict[str, str]:
    """Names of letters, digits and hyphens, as llama.cpp wants them, each only once."""
    made: dict[str, str] = {}
    taken = {_ROOT}
    for name in rules:
        base = re.sub("[^A-Za-z0-9-]", "-", name) or "rule"
        legal, number = base, 1
        while legal in taken:
            number += 1
            legal = f"{base}-{number}"
        taken.add(legal)
        made[name] = legal
    return made


def _escaped(text: str) -> str:
    def escape(found: re.Match[str]) -> str:
        code = ord(found[0])
        if code < 0x80:
            return _SHORT_ESCAPES.get(found[0], f"\\x{code:02X}")
        return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"

    return _NOT_PLAIN.sub(escape, text)
