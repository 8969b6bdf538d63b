"""Prepares a grammar for engines that know only rules: writes out JSON values and text forms, excludes control tokens.

An engine that matches special tokens by their spelling would admit one wherever the grammar admits its characters. So
no text of such a grammar may spell a control token: no lower-case letter follows `<|`, neither in one literal, nor in
adjacent characters of several rules. This is exact: the grammar is crossed with the three states of an automaton that
recognises the spelling.

    0  nothing has begun      1  `<`      2  `<|`

Each node is rewritten per pair of begin state and end states; a special token is not text and leads back to 0. End
states that make no difference to what follows are not separated: engines that try alternatives in parallel would
otherwise try the same one several times.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from harmonia.errors import ErrorCode, InputError
from harmonia.grammar.json_schema.json_rules import MAX_COUNT, json_rules
from harmonia.grammar.rules import (
    Chars,
    Choice,
    Grammar,
    JsonValue,
    Literal,
    Loss,
    Name,
    Node,
    Ranges,
    Repeat,
    Sequence,
    Special,
    Text,
    choice,
    common,
    joined,
    of,
    optional,
    ranges_of,
    rebuilt,
    sequence,
    without,
)
from harmonia.grammar.simplification import NEVER, NOTHING, names_in, pruned
from harmonia.grammar.text_forms import text_rules

# Text that spells no control token, for engines that need no such preparation.
_LESS_SIGNS: Final = Repeat(Literal("<"), 1)
# `<`, as many as come, and `<|<`: all that may have begun a spelling and has not become one yet.
_OPENED: Final = sequence(_LESS_SIGNS, Repeat(sequence("|", _LESS_SIGNS)))
_CLOSED: Final = choice(
    Chars(of("<|"), is_negated=True),
    sequence("|", Chars((*of("<"), (ord("a"), ord("z"))), is_negated=True)),
)
PLAIN_TEXT: Final = sequence(
    Repeat(choice(Chars(of("<"), is_negated=True), sequence(_OPENED, _CLOSED))),
    optional(sequence(_OPENED, optional("|"))),
)


def expanded(grammar: Grammar, *, max_length: int = MAX_COUNT) -> tuple[Grammar, tuple[Loss, ...]]:
    """The same grammar without JsonValue and Text, and what its rules do not enforce; see `json_rules`."""
    made: dict[tuple[str, int], Node] = {}
    rules: dict[str, Node] = {}
    losses: dict[Loss, None] = {}

    def expand(node: Node) -> Node:
        if not isinstance(node, JsonValue | Text):
            return rebuilt(node, expand)
        key = (node.about, id(node.schema if isinstance(node, JsonValue) else node.form))
        if key not in made:
            prefix = f"value-{len(made) + 1}"
            while any(name.startswith(f"{prefix}-") for name in grammar.rules):
                prefix += "x"
            if isinstance(node, JsonValue):
                found = json_rules(node.schema, node.about, prefix, max_length=max_length, is_closed=True)
            else:
                found = text_rules(node.form, node.about, prefix)
            made[key] = found[0]
            rules.update(found[1])
            losses.update(dict.fromkeys(found[2]))
        return made[key]

    start = expand(grammar.start)
    given = {name: expand(node) for name, node in grammar.rules.items()}
    return Grammar(start, {**given, **rules}), tuple(losses)


# A bounded repetition is written out, once for each state; longer ones do without `<` at all.
MAX_COUNTED: Final = 100

_LESS_THAN: Final = of("<")
_BAR: Final = of("|")
_LETTERS: Final[Ranges] = ((ord("a"), ord("z")),)

# A sequence with more nodes than this is written in parts.
_LONG: Final = 50

States: TypeAlias = frozenset[int]
# A rule by its name, and the state in which it begins.
Begun: TypeAlias = tuple[str, int]

_STATES: Final[States] = frozenset((0, 1, 2))
_NOWHERE: Final[States] = frozenset()
_ONLY: Final[tuple[States, ...]] = tuple(frozenset((state,)) for state in range(3))


def without_control_spellings(grammar: Grammar) -> Grammar:
    """The grammar without texts that spell control tokens. Raises an InputError if no text is left."""
    crossing = _Crossing(grammar)
    start = crossing.node(grammar.start, 0, _STATES)
    crossing.finish()
    made = pruned(Grammar(start, crossing.rules))
    if made is None:
        raise InputError(ErrorCode.GRAMMAR_INVALID_OPTION, "every text that the grammar admits spells a control token")
    return made


class _Crossing:
    def __init__(self, grammar: Grammar) -> None:
        self._given = grammar.rules
        self._ends = _Ends(grammar.rules)
        self._waiting: list[tuple[str, int, States]] = []
        self._named: dict[tuple[object, ...], str] = {}
        self._tails: dict[tuple[int, int, int, States], Node] = {}
        self._repeats: dict[Repeat, Repeat] = {}
        self._met: dict[tuple[str, int], tuple[bool, bool]] = {}
        self.rules: dict[str, Node] = {}

    def finish(self) -> None:
        """Write the rules that were named."""
        while self._waiting:
            name, begin, ends = self._waiting.pop()
            # In the order in which they were named.
            self.rules[self._named[name, begin, ends]] = self.node(self._given[name], begin, ends)

    def node(self, node: Node, begin: int, ends: States) -> Node:
        """Of what the node admits, that which leads from one state to one of these."""
        if begin and not any(self._meets(node, begin)):
            begin = 0  # it makes no difference to the node that a spelling was begun before it
        if begin == 0 and 0 in ends and self._is_calm(node):
            for name in names_in(node):
                self._rule(name, 0, _ONLY[0])
            return node
        match node:
            case Literal(text):
                return node if _literal_end(text, begin) in ends else NEVER
            case Chars():
                ways = _character_ends(ranges_of(node), begin)
                return Chars(joined(each for end in sorted(ways) if end in ends for each in ways[end]))
            case Special():
                return node if 0 in ends else NEVER
            case Name(name):
                return self._rule(name, begin, ends)
            case Choice(nodes):
                return Choice(tuple(self.node(each, begin, ends) for each in nodes))
            case Sequence(nodes):
                self._prepare_long(nodes, begin, ends)
                return self._sequence(nodes, 0, begin, ends)
            case Repeat():
                return self._repeat(node, begin, ends)
            case _:
                raise AssertionError(node)  # writers have put rules in the place of the others

    def _is_calm(self, node: Node) -> bool:
        """Whether a spelling begins nowhere in the node, but within the rules that it names: then it stays as it is."""
        match node:
            case Literal(text):
                return "<" not in text
            case Chars() | Name():
                return self._ends.of(node, 0) == _ONLY[0]
            case Sequence(nodes) | Choice(nodes):
                return all(self._is_calm(each) for each in nodes)
            case Repeat(inner):
                return self._is_calm(inner)
            case _:
                return True

    def _rule(self, name: str, begin: int, ends: States) -> Node:
        possible = self._ends.of(Name(name), begin)
        ends &= possible
        if not ends:
            return NEVER
        key = (name, begin, ends)
        if key not in self._named:
            whole = begin == 0 and ends == possible
            self._named[key] = name if whole else f"{name}-{begin}-{''.join(map(str, sorted(ends)))}"
            self.rules[self._named[key]] = NEVER
            self._waiting.append(key)
        return Name(self._named[key])

    def _prepare_long(self, nodes: tuple[Node, ...], begin: int, ends: States) -> None:
        """Write the parts of a long sequence from the end, or it would need a deep stack."""
        places: list[tuple[int, int]] = []
        states = {begin}
        for index, node in enumerate(nodes[:-_LONG]):
            if index and (len(nodes) - index) % _LONG == 0:
                places += ((index, state) for state in sorted(states))
            states = {end for state in states for end in self._ends.of(node, state)}
        for index, state in reversed(places):
            self._sequence(nodes, index, state, ends)

    def _sequence(self, nodes: tuple[Node, ...], index: int, begin: int, ends: States) -> Node:
        """The nodes from the one with this index on."""
        if not nodes:
            return NOTHING if begin in ends else NEVER
        if index == len(nodes) - 1:
            return self.node(nodes[index], begin, ends)
        key = (id(nodes), index, begin, ends)
        if key not in self._tails:
            # By what follows, the states in which the first may end.
            groups: dict[Node, set[int]] = {}
            for middle in sorted(self._ends.of(nodes[index], begin)):
                rest = self._sequence(nodes, index + 1, middle, ends)
                if (len(nodes) - index - 1) % _LONG == 0:
                    rest = self._shared(rest)  # or the same end would be written after each of many beginnings
                groups.setdefault(rest, set()).add(middle)
            made: list[Node] = []
            for rest, middles in groups.items():
                follows = rest if len(groups) == 1 else self._shared(rest)
                made.append(_after(self.node(nodes[index], begin, frozenset(middles)), follows))
            self._tails[key] = choice(*made) if made else NEVER
        return self._tails[key]

    def _repeat(self, node: Repeat, begin: int, ends: States) -> Node:
        is_simple = all(self._ends.of(node.node, state) <= _ONLY[0] for state in (0, begin))
        if is_simple or max(node.least, node.most or 0) > MAX_COUNTED:
            return self._simple_repeat(node, begin, ends)
        # Equal repetitions are counted by the same rules.
        return self._counted(self._repeats.setdefault(node, node), 0, begin, ends)

    def _simple_repeat(self, node: Repeat, begin: int, ends: States) -> Node:
        """A repetition that is never left within a spelling: only the first can meet one that began before it."""
        plain = self.node(node.node, 0, _ONLY[0])
        if begin == 0:
            return Repeat(plain, node.least, node.most) if 0 in ends else NEVER
        less = None if node.most is None else node.most - 1
        first = self.node(node.node, begin, _ONLY[0]) if node.most != 0 and 0 in ends else NEVER
        some = _after(first, Repeat(plain, max(0, node.least - 1), less))
        return Choice((some, NOTHING)) if node.least == 0 and begin in ends else some

    def _counted(self, node: Repeat, count: int, begin: int, ends: States) -> Node:
        """What leads from one state to one of others after so many repetitions."""
        if node.most is None:
            count = min(count, node.least)
        elif count == node.most:
            return NOTHING if begin in ends else NEVER
        key = ("count", id(node), count, begin, ends)
        if key not in self._named:
            name = self._named[key] = self._fresh()
            self.rules[name] = NEVER
            nodes: list[Node] = []
            for middle in sorted(self._ends.of(node.node, begin)):
                more = self._counted(node, count + 1, middle, ends)
                nodes.append(_after(self.node(node.node, begin, _ONLY[middle]), more))
            if count >= node.least and begin in ends:
                nodes.append(NOTHING)
            self.rules[name] = Choice(tuple(nodes))
        return Name(self._named[key])

    def _meets(self, node: Node, begin: int) -> tuple[bool, bool]:
        """Whether the node may be empty, and whether it may begin with what continues a spelling."""
        match node:
            case Literal(text):
                return not text, bool(text) and _continues(of(text[0]), begin)
            case Chars():
                return False, _continues(ranges_of(node), begin)
            case Name(name):
                if (name, begin) not in self._met:
                    self._met[name, begin] = (False, False)  # for rules that begin with themselves
                    self._met[name, begin] = self._meets(self._given[name], begin)
                return self._met[name, begin]
            case Choice(nodes):
                found = [self._meets(each, begin) for each in nodes]
                return any(empty for empty, _ in found), any(goes_on for _, goes_on in found)
            case Sequence(nodes):
                goes_on = False
                for each in nodes:
                    is_empty, does = self._meets(each, begin)
                    goes_on = goes_on or does
                    if not is_empty:
                        return False, goes_on
                return True, goes_on
            case Repeat(inner, least):
                is_empty, goes_on = self._meets(inner, begin)
                return is_empty or least == 0, goes_on
            case _:
                return False, False

    def _shared(self, node: Node) -> Node:
        """The node by a name, since it is needed more than once."""
        if isinstance(node, Name | Literal | Special | Chars) or node == NOTHING:
            return node
        key = ("shared", node)
        if key not in self._named:
            self._named[key] = self._fresh()
            self.rules[self._named[key]] = node
        return Name(self._named[key])

    def _fresh(self) -> str:
        return f"unspelled-{len(self._named)}"


class _Ends:
    """In which states a node may end, by the state in which it begins.

    Rules lead to each other, and back to themselves: what is known of one is made anew whenever more is known of one
    that it needs, until nothing changes. That a rule is begun within a spelling is rare, so it is looked at only where
    it is met.
    """

    def __init__(self, rules: Mapping[str, Node]) -> None:
        self._rules = rules
        self._known: dict[Begun, States] = {}
        self._users: dict[Begun, set[Begun]] = {}
        self._reader: Begun | None = None  # whose node is being looked at
        self._met: list[Begun] = []  # for the first time
        # The last first: rules are mostly written before those that they need.
        self._find([(name, 0) for name in rules])

    def of(self, node: Node, begin: int) -> States:
        found = self._look(node, begin)
        while self._met:
            self._find(self._taken())
            found = self._look(node, begin)
        return found

    def _find(self, waiting: list[Begun]) -> None:
        while waiting:
            self._reader = waiting.pop()
            name, begin = self._reader
            ends = self._look(self._rules[name], begin)
            if self._met:
                waiting += (self._reader, *self._taken())  # those first, and then this one again
            elif ends != self._known.get(self._reader):
                self._known[self._reader] = ends
                waiting += self._users.get(self._reader, ())
        self._reader = None

    def _taken(self) -> list[Begun]:
        met, self._met = self._met, []
        return met

    def _look(self, node: Node, begin: int) -> States:
        """As far as it is known."""
        match node:
            case Literal(text):
                end = _literal_end(text, begin)
                return _NOWHERE if end is None else _ONLY[end]
            case Chars():
                return frozenset(_character_ends(ranges_of(node), begin))
            case Name(name):
                rule = (name, begin)
                if self._reader is not None:
                    self._users.setdefault(rule, set()).add(self._reader)
                if rule not in self._known:
                    self._known[rule] = _NOWHERE
                    self._met.append(rule)
                return self._known[rule]
            case Choice(nodes):
                return _NOWHERE.union(*(self._look(each, begin) for each in nodes))
            case Sequence(nodes):
                states = _ONLY[begin]
                for each in nodes:
                    states = self._follow(states, each)
                return states
            case Repeat():
                found = fresh = _ONLY[begin] if node.least == 0 else self._look(node.node, begin)
                while fresh:
                    fresh = self._follow(fresh, node.node) - found
                    found |= fresh
                return found
            case _:
                return _ONLY[0]

    def _follow(self, states: States, node: Node) -> States:
        """Where the node may end, begun in any of the states."""
        return _NOWHERE.union(*(self._look(node, state) for state in states))


@lru_cache(maxsize=4096)  # the same few are met very often
def _literal_end(text: str, begin: int) -> int | None:
    """The state after a text; None where it spells a control token."""
    state = begin
    for character in text:
        if state == 2 and "a" <= character <= "z":
            return None
        state = 1 if character == "<" else 2 if state == 1 and character == "|" else 0
    return state


@lru_cache(maxsize=1_000)
def _character_ends(ranges: Ranges, begin: int) -> dict[int, Ranges]:
    """Of these characters, those that lead to each state."""
    bar = common(ranges, _BAR) if begin == 1 else ()
    found = {1: common(ranges, _LESS_THAN), 2: bar}
    out = _LETTERS if begin == 2 else ()
    found[0] = without(ranges, joined((*_LESS_THAN, *bar, *out)))
    return {end: found[end] for end in sorted(found) if found[end]}


def _continues(ranges: Ranges, begin: int) -> bool:
    return bool(common(ranges, _BAR if begin == 1 else _LETTERS))


def _after(one: Node, other: Node) -> Node:
    """One after the other, without the empty ones and the nesting."""
    nodes: list[Node] = []
    for node in (one, other):
        nodes += node.nodes if isinstance(node, Sequence) else (node,)
    return sequence(*nodes) if nodes else NOTHING
