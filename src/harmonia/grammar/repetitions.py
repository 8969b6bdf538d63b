"""The same grammar without repetitions of what may be empty.

`("a"?)*` is what `"a"*` is; but engines write a repetition as a rule that leads to itself, and where nothing is needed
in between, some refuse it as a rule that begins with itself. So only what is not empty is repeated.
"""

from __future__ import annotations

from harmonia.grammar.rules import Choice, Grammar, Literal, Name, Node, Repeat, Sequence
from harmonia.grammar.simplification import NEVER, may_be_empty


def without_empty_repetitions(grammar: Grammar) -> Grammar:
    """The grammar with the same texts. Rules are left in it that nobody needs any more, or that nothing can come of."""
    filling = _Filling(grammar)
    start = filling.mended(grammar.start)
    rules = {name: filling.mended(node) for name, node in grammar.rules.items()}
    return Grammar(start, {**rules, **filling.rules})


class _Filling:
    def __init__(self, grammar: Grammar) -> None:
        self._given = grammar.rules
        self._empty = may_be_empty(grammar.rules)
        self.rules: dict[str, Node] = {}

    def mended(self, node: Node) -> Node:
        match node:
            case Sequence(nodes):
                return Sequence(tuple(self.mended(each) for each in nodes))
            case Choice(nodes):
                return Choice(tuple(self.mended(each) for each in nodes))
            case Repeat(inner, least, most):
                if self._empty(inner):
                    return Repeat(self._filled(inner), 0, most)
                return Repeat(self.mended(inner), least, most)
            case _:
                return node

    def _filled(self, node: Node) -> Node:
        """What the node admits and is not empty."""
        if not self._empty(node):
            return self.mended(node)
        match node:
            case Name(name):
                filled = f"{name}-filled"
                if filled not in self.rules:
                    self.rules[filled] = NEVER
                    self.rules[filled] = self._filled(self._given[name])
                return Name(filled)
            case Choice(nodes):
                return Choice(tuple(self._filled(each) for each in nodes))
            case Sequence(nodes):
                # The first that is not empty, and whatever follows it.
                ways: list[Node] = []
                for index, each in enumerate(nodes):
                    rest = tuple(self.mended(one) for one in nodes[index + 1 :])
                    ways.append(Sequence((self._filled(each), *rest)))
                return Choice(tuple(ways))
            case Repeat(inner, _, most):
                return Repeat(self._filled(inner), 1, most)
            case Literal():
                return NEVER
            case _:
                return self.mended(node)
