"""A grammar as a structural tag of xgrammar's, which vLLM and SGLang take: one grammar in its EBNF, as JSON.

What xgrammar does, and what follows from it:

1. Special tokens are `Token(200005)`; but wherever a character is admitted, a special token counts as the characters
   that spell it. So the text is kept from spelling one: see plain_grammar.py.
2. A token that the engine stops at is refused inside a grammar, and admitted, whichever it is, after the end. So the
   rules end where `<|call|>` or `<|return|>` would stand, and the run puts the right one there.
3. A negated set of characters has halves of surrogate pairs, which are no text. All sets are written as what they have.
4. Masks are made beforehand for each place in a rule, as far as a token does not leave the rule. A choice within a
   sequence is a rule of its own to xgrammar, so that in a repeated `"a" | "b" ("c" | "d")` every token leaves one, and
   a mask takes a hundred milliseconds. So choices stand at the top of their rule, and rules of one character in the
   place of their names: then it takes less than one.
5. It cannot count characters: a string with a maxLength of 200 takes it twenty seconds to compile, in its own reading
   of JSON Schema too. Longer ones are reported as not enforced.
6. Names that are not one of the declared ones take it seconds, too. So an object that declares properties and says
   nothing of others has none but these, as in xgrammar's own reading.

JSON is written as rules, although xgrammar reads JSON Schema, because it passes over what it does not know (`not`,
`multipleOf`, a length beside a pattern) and admits special tokens in strings. Our rules say what they do not hold.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Final

import msgspec

from harmonia.grammar.plain_grammar import PLAIN_TEXT, expanded, without_control_spellings
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
    choice,
    ranges_of,
)
from harmonia.vocabulary import CALL, END_OF_TEXT, RETURN

# Of strings; each character more is a rule more, and a tenth of a second of compiling.
MAX_LENGTH: Final = 16
# So many alternatives may come of a sequence with choices in it; beyond it they stay where they are.
MAX_WAYS: Final = 64

_ROOT: Final = "root"
_ENDING: Final = frozenset((CALL, RETURN, END_OF_TEXT))
_EMPTY: Final = '""'
_ANY_TEXT: Final = Repeat(Chars((), is_negated=True))
_PLAIN: Final = frozenset(" !#$%&'()*+,./:;<=>?@_`{|}~")


def write_xgrammar(grammar: Grammar) -> WrittenGrammar:
    """The grammar for xgrammar, from 0.1.32 on, without the token that ends a completion."""
    # The text that spells no control token is any text here: that is what is taken out of all of them.
    rules = {name: _ANY_TEXT if node == PLAIN_TEXT else node for name, node in grammar.rules.items()}
    plain, losses = expanded(Grammar(grammar.start, rules), max_length=MAX_LENGTH)
    safe = without_control_spellings(plain)
    flat = _Flattening(safe)
    lines = [f"{_ROOT} ::= {_written(flat.node(safe.start))}"]
    lines += (f"{_rule(name)} ::= {_written(flat.node(node))}" for name, node in safe.rules.items())
    tag = {"type": "structural_tag", "format": {"type": "grammar", "grammar": "\n".join(lines) + "\n"}}
    return WrittenGrammar("xgrammar", msgspec.json.encode(tag).decode(), losses, ends_by_engine=True)


class _Flattening:
    """Puts short rules in the place of their names, and choices at the top."""

    def __init__(self, grammar: Grammar) -> None:
        self._short = {name: node for name, node in grammar.rules.items() if _is_short(node)}

    def node(self, node: Node) -> Node:
        return choice(*(way[0] if len(way) == 1 else Sequence(way) for way in self._ways(node)))

    def _ways(self, node: Node) -> list[tuple[Node, ...]]:
        """The alternatives of a node, each a sequence without choices."""
        match node:
            case Name(name) if name in self._short:
                return self._ways(self._short[name])
            case Choice(nodes):
                return list(dict.fromkeys(way for each in nodes for way in self._ways(each)))
            case Sequence(nodes):
                parts = [self._ways(each) for each in nodes]
                if prod(len(part) for part in parts) > MAX_WAYS:
                    return [tuple(self.node(each) for each in nodes)]
                return [tuple(each for part in way for each in part) for way in product(*parts)]
            case Repeat(inner, 0, 1):
                return list(dict.fromkeys([*self._ways(inner), ()]))
            case Repeat(inner, least, most):
                return [(Repeat(self.node(inner), least, most),)]
            case Special(token) if token in _ENDING:
                return [()]
            case _:
                return [(node,)]


def _is_short(node: Node) -> bool:
    """Whether a node is little more than one character."""
    match node:
        case Choice(nodes) | Sequence(nodes):
            return all(_is_short(each) for each in nodes)
        case Chars() | Literal():
            return True
        case _:
            return False


def _rule(name: str) -> str:
    # Whatever a rule is called, it is none of xgrammar's own words.
    return f"r_{name.replace('-', '_')}"


def _written(node: Node) -> str:
    match node:
        case Literal(text):
            return '"' + "".join(_escaped(character) for character in text) + '"'
        case Special(token):
            return f"Token({token})"
        case Chars():
            ranges = (
                _escaped(chr(low)) + (f"-{_escaped(chr(high))}" if high > low else "") for low, high in ranges_of(node)
            )
            return f"[{''.join(ranges)}]"
        case Sequence(nodes):
            return " ".join(_part(each) for each in nodes) or _EMPTY
        case Choice(nodes):
            return " | ".join(_written(each) for each in nodes)
        case Repeat(inner):
            return f"{_part(inner)}{node.times}"
        case Name(name):
            return _rule(name)
        case _:
            raise AssertionError(node)  # they were made into rules


def _part(node: Node) -> str:
    """A node that others stand beside."""
    written = _written(node)
    return f"({written})" if isinstance(node, Choice | Sequence | Repeat) else written


def _escaped(character: str) -> str:
    if (character.isascii() and character.isalnum()) or character in _PLAIN:
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
