"""Expands JSON values and text forms into rules, for engines that do not support them directly."""

from __future__ import annotations

from harmonia.grammar.json_schema.json_rules import MAX_COUNT, json_rules
from harmonia.grammar.lark_rules import text_rules
from harmonia.grammar.rules import Choice, Grammar, JsonValue, Loss, Node, Repeat, Sequence, Text


def expanded(
    grammar: Grammar, *, max_length: int = MAX_COUNT, is_closed: bool = False
) -> tuple[Grammar, tuple[Loss, ...]]:
    """The same grammar without JsonValue and Text, and what its rules do not enforce. The options are those of
    `json_rules`."""
    expansion = _Expansion(grammar, max_length, is_closed=is_closed)
    start = expansion.node(grammar.start)
    rules = {name: expansion.node(node) for name, node in grammar.rules.items()}
    return Grammar(start, {**rules, **expansion.rules}), tuple(dict.fromkeys(expansion.losses))


class _Expansion:
    def __init__(self, grammar: Grammar, max_length: int, *, is_closed: bool) -> None:
        self._taken = grammar.rules
        self._max_length = max_length
        self._is_closed = is_closed
        self._made: dict[tuple[str, int], Node] = {}
        self.rules: dict[str, Node] = {}
        self.losses: list[Loss] = []

    def node(self, node: Node) -> Node:
        match node:
            case JsonValue() | Text():
                return self._expanded(node)
            case Sequence(nodes):
                return Sequence(tuple(self.node(each) for each in nodes))
            case Choice(nodes):
                return Choice(tuple(self.node(each) for each in nodes))
            case Repeat(inner, least, most):
                return Repeat(self.node(inner), least, most)
            case _:
                return node

    def _expanded(self, node: JsonValue | Text) -> Node:
        key = (node.about, id(node.schema if isinstance(node, JsonValue) else node.form))
        if key not in self._made:
            prefix = f"value-{len(self._made) + 1}"
            while any(name.startswith(f"{prefix}-") for name in self._taken):
                prefix += "x"
            if isinstance(node, JsonValue):
                start, rules, losses = json_rules(
                    node.schema, node.about, prefix, max_length=self._max_length, is_closed=self._is_closed
                )
            else:
                start, rules, losses = text_rules(node.form, node.about, prefix)
            self._made[key] = start
            self.rules.update(rules)
            self.losses += losses
        return self._made[key]
