"""A slow, obvious reader of rules: does a grammar admit a text, and which texts does it admit? For tests only.

Special tokens are read as characters of a private plane, so that a text can have them: `special(200005)`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from harmonia.grammar.rules import Chars, Choice, Literal, Name, Node, Repeat, Sequence, Special, ranges_of

# Behind so many repetitions and nestings a generated text comes to its end.
MOST = 4


def special(token: int) -> str:
    return chr(0xF0000 + token - 199_998)


def admits(node: Node, rules: Mapping[str, Node], text: str) -> bool:
    """Whether the whole text is one that the node admits."""
    return len(text) in _Matcher(rules, text).ends(node, 0)


class _Matcher:
    def __init__(self, rules: Mapping[str, Node], text: str) -> None:
        self._rules = rules
        self._text = text
        self._found: dict[tuple[str, int], set[int]] = {}

    def ends(self, node: Node, at: int) -> set[int]:
        match node:
            case Literal(text):
                return {at + len(text)} if self._text.startswith(text, at) else set()
            case Special(token):
                return {at + 1} if self._text[at : at + 1] == special(token) else set()
            case Chars():
                code = ord(self._text[at]) if at < len(self._text) else -1
                return {at + 1} if any(low <= code <= high for low, high in ranges_of(node)) else set()
            case Name(name):
                if (name, at) not in self._found:
                    self._found[name, at] = self.ends(self._rules[name], at)
                return self._found[name, at]
            case Choice(nodes):
                return {end for each in nodes for end in self.ends(each, at)}
            case Sequence(nodes):
                places = {at}
                for each in nodes:
                    places = {end for place in places for end in self.ends(each, place)}
                return places
            case Repeat(inner, least, most):
                places, found, count = {at}, set[int](), 0
                while places:
                    if count >= least:
                        places -= found
                        found |= places
                    if count == most:
                        break
                    places = {end for place in places for end in self.ends(inner, place)}
                    count += 1
                return found
            case _:
                raise AssertionError(node)


class Generator:
    """Texts that rules admit, at random, and never without end: deep down it takes the shortest way out."""

    def __init__(self, rules: Mapping[str, Node], randomness: random.Random) -> None:
        self._rules = rules
        self._random = randomness
        self._heights: dict[str, int] = dict.fromkeys(rules, 1_000)
        changes = True
        while changes:
            changes = False
            for name, node in rules.items():
                height = 1 + self._height(node)
                if height < self._heights[name]:
                    self._heights[name] = height
                    changes = True

    def text(self, node: Node, depth: int = 0) -> str:
        match node:
            case Literal(text):
                return text
            case Special(token):
                return special(token)
            case Chars():
                low, high = self._random.choice(ranges_of(node))
                return chr(self._random.choice((low, high, self._random.randint(low, high))))
            case Name(name):
                return self.text(self._rules[name], depth + 1)
            case Choice(nodes):
                lowest = min(self._height(each) for each in nodes)
                ways = nodes if depth < 2 * MOST else [each for each in nodes if self._height(each) == lowest]
                return self.text(self._random.choice(ways), depth)
            case Sequence(nodes):
                return "".join(self.text(each, depth) for each in nodes)
            case Repeat(inner, least, most):
                count = least
                if depth < 2 * MOST:
                    count = self._random.randint(least, least + MOST if most is None else min(most, least + MOST))
                return "".join(self.text(inner, depth) for _ in range(count))
            case _:
                raise AssertionError(node)

    def _height(self, node: Node) -> int:
        match node:
            case Name(name):
                return self._heights[name]
            case Choice(nodes):
                return min((self._height(each) for each in nodes), default=1_000)
            case Sequence(nodes):
                return max((self._height(each) for each in nodes), default=0)
            case Repeat(inner, least):
                return self._height(inner) if least else 0
            case _:
                return 0
