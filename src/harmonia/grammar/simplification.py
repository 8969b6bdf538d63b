"""Simplifies grammars: removes rules that cannot be met, and repetitions of what may be empty.

An empty choice is a rule that is never met. It may be written wherever something is impossible; a rule that leads only
to itself is never met either. `pruned` removes the alternatives that need such rules, and unused rules.

`("a"?)*` means the same as `"a"*`. But engines write a repetition as a recursive rule, and some refuse one whose body
may be empty as left recursion. `without_empty_repetitions` repeats only what is not empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Final

from harmonia.grammar.rules import (
    Chars,
    Choice,
    Grammar,
    Literal,
    Name,
    Node,
    Repeat,
    Sequence,
    choice,
    ranges_of,
    rebuilt,
)

NEVER: Final = Choice(())
NOTHING: Final = Sequence(())


def pruned(grammar: Grammar) -> Grammar | None:
    """The same grammar without what cannot be met; None where that is all of it."""
    fertile = _met(grammar.rules, _yields)
    start = _alive(grammar.start, fertile)
    if start is None:
        return None
    kept: dict[str, Node] = {}
    waiting = [start]
    while waiting:
        for name in names_in(waiting.pop()):
            if name not in kept:
                node = _alive(grammar.rules[name], fertile)
                assert node is not None
                kept[name] = node
                waiting.append(node)
    return Grammar(start, {name: kept[name] for name in grammar.rules if name in kept})


def can_be_met(grammar: Grammar, sound: Set[str]) -> bool:
    """Whether a text fits the grammar. The rules whose names are given are known to be met, and need not be there."""
    return _holds(grammar.start, _met(grammar.rules, _yields, sound), _yields)


def _met(rules: Mapping[str, Node], leaf: Callable[[Node], bool], known: Set[str] = frozenset()) -> Set[str]:
    """The names of the rules of which something holds, where that may depend on which others it holds of.

    One look at each mostly finds all, since rules are mostly written before those that they need. Where a second one
    finds more, only the rules that need one that was found are looked at again, so long chains of rules stay cheap.
    """
    found = set(known)
    left: list[str] = list(reversed(list(rules)))
    for _ in range(2):
        names, left = left, []
        for name in names:
            if _holds(rules[name], found, leaf):
                found.add(name)
            else:
                left.append(name)
        if len(left) in (0, len(names)):
            return found
    users: dict[str, list[str]] = {name: [] for name in left}
    for name in left:
        for needed in users.keys() & names_in(rules[name]):
            users[needed].append(name)
    waiting = dict.fromkeys(left)
    while waiting:
        name, _ = waiting.popitem()
        if _holds(rules[name], found, leaf):
            found.add(name)
            waiting.update((user, None) for user in users[name] if user not in found)
    return found


def _holds(node: Node, found: Set[str], leaf: Callable[[Node], bool]) -> bool:
    """Whether something holds of a node, where it holds of the rules that were found and of some leaves."""
    match node:
        case Name(name):
            return name in found
        case Choice(nodes):
            return any(_holds(each, found, leaf) for each in nodes)
        case Sequence(nodes):
            return all(_holds(each, found, leaf) for each in nodes)
        case Repeat(inner, least, most):
            return (most is None or most >= least) and (least == 0 or _holds(inner, found, leaf))
        case _:
            return leaf(node)


def _yields(node: Node) -> bool:
    return bool(ranges_of(node)) if isinstance(node, Chars) else True


def _is_empty(node: Node) -> bool:
    return isinstance(node, Literal) and not node.text


def _alive(node: Node, fertile: Set[str]) -> Node | None:
    """The node without what cannot be met; None where that is all of it."""
    match node:
        case Choice(nodes):
            alive = [each for each in (_alive(each, fertile) for each in nodes) if each is not None]
            return choice(*alive) if alive else None
        case Sequence(nodes):
            made: list[Node] = []
            for each in nodes:
                kept = _alive(each, fertile)
                if kept is None:
                    return None
                made += kept.nodes if isinstance(kept, Sequence) else (kept,)
            return made[0] if len(made) == 1 else Sequence(tuple(made))
        case Repeat(inner, least, most):
            if most is not None and most < least:
                return None
            kept = _alive(inner, fertile) if most != 0 else None
            if kept is None:
                return NOTHING if least == 0 else None
            return kept if (least, most) == (1, 1) else Repeat(kept, least, most)
        case _:
            return node if _holds(node, fertile, _yields) else None


def names_in(node: Node) -> list[str]:
    """The rules that a node needs, in the order in which it names them."""
    match node:
        case Name(name):
            return [name]
        case Choice(nodes) | Sequence(nodes):
            return [name for each in nodes for name in names_in(each)]
        case Repeat(inner):
            return names_in(inner)
        case _:
            return []


def may_be_empty(rules: Mapping[str, Node]) -> Callable[[Node], bool]:
    """Returns whether a node admits the empty text."""
    found = _met(rules, _is_empty)
    return lambda node: _holds(node, found, _is_empty)


# ── repetitions of what may be empty ──


def without_empty_repetitions(grammar: Grammar) -> Grammar:
    """An equivalent grammar. It may contain unused rules, and rules that cannot be met."""
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
        if isinstance(node, Repeat) and self._empty(node.node):
            return Repeat(self._filled(node.node), 0, node.most)
        return rebuilt(node, self.mended)

    def _filled(self, node: Node) -> Node:
        """The node without the empty text."""
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
                rests = [tuple(map(self.mended, nodes[index + 1 :])) for index in range(len(nodes))]
                ways = zip(nodes, rests, strict=True)
                return Choice(tuple(Sequence((self._filled(each), *rest)) for each, rest in ways))
            case Repeat(inner, _, most):
                return Repeat(self._filled(inner), 1, most)
            case Literal():
                return NEVER
            case _:
                return self.mended(node)
