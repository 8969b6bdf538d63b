"""JSON Schema as rules: the JSON texts whose values match a schema, as a model writes them.

1. What the rules admit matches the schema, apart from reported losses: each keyword that is not enforced is a Loss with
   its place. A schema that no value matches is an error.
2. Properties come in the order of their declaration, each once; undeclared ones follow.
3. A value has one spelling, apart from white space and the escapes of unconstrained strings: see json_syntax.py.
"""

from __future__ import annotations

from collections.abc import Sequence as Several
from typing import Any, Final, cast

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.grammar.json_schema import json_syntax
from harmonia.grammar.json_schema.conditions import (
    Conditions,
    Part,
    Taker,
    Together,
    are_apart,
    fits_beside,
    says_nothing,
)
from harmonia.grammar.json_schema.json_syntax import (
    ARRAY,
    BOOLEAN,
    GENERIC,
    NULL,
    OBJECT,
    SPACE,
    STRING,
    VALUE,
    integer_node,
    number_node,
)
from harmonia.grammar.regex_rules import Alternative, UnreadableRegexError, regex_alternatives
from harmonia.grammar.rules import (
    ALL,
    Chars,
    Grammar,
    Literal,
    Loss,
    Name,
    Node,
    Repeat,
    choice,
    of,
    optional,
    sequence,
    without,
)
from harmonia.grammar.simplification import NEVER, NOTHING, can_be_met
from harmonia.schema.document import as_json, path_text, place_of
from harmonia.schema.work_budget import spend

# Engines write a repetition out, so a bound beyond this is reported and not enforced.
MAX_COUNT: Final = 5_000
# So many rules may come of one schema.
MAX_RULES: Final = 5_000
# The branches of a `oneOf` are compared, each with each; more than this are reported as if they overlapped.
MAX_COMPARED: Final = 100
# What a rule costs, against one look at a schema: it is made, pruned and written.
_RULE_STEPS: Final = 10

# Any text, each in its one spelling.
_REST: Final = "json-rest"
# The rules that are the same for all schemas.
_OF_JSON: Final[dict[str, Node]] = {
    **GENERIC,
    _REST: Repeat(Name("json-spelled")),
    "json-spelled": json_syntax.spelled_characters(ALL),
}

_DEPENDENT: Final = ("if", "dependentRequired", "dependentSchemas", "dependencies")
_NOT_ENFORCED: Final = {
    "not": "not enforced: rules cannot exclude values",
    **dict.fromkeys(_DEPENDENT, "not enforced: rules cannot depend on another part of the value"),
    "uniqueItems": "not enforced: rules cannot compare items",
    "contains": "not enforced: rules cannot search arrays",
    "unevaluatedProperties": "not enforced: it depends on which other schemas match",
    "unevaluatedItems": "not enforced: it depends on which other schemas match",
    "$dynamicRef": "not followed: only `$ref` is",
    "$recursiveRef": "not followed: only `$ref` is",
}


def json_rules(
    schema: object, about: str, prefix: str = "json", *, max_length: int = MAX_COUNT, is_closed: bool = False
) -> tuple[Node, dict[str, Node], tuple[Loss, ...]]:
    """The node of the JSON texts that fit the schema, the rules that it may need, and what is not enforced. What cannot
    be met is still in the rules: see simplification.py.

    The rules of two schemas may be put together if their prefixes differ: those of JSON itself are the same for all.
    `max_length` is for engines that cannot count far: bounds of strings beyond it are not enforced. Where `is_closed`,
    an object that declares properties and says nothing of others has none but these.
    """
    document = as_json(schema)
    if not isinstance(document, dict | bool):
        raise InputError(ErrorCode.SCHEMA_INVALID, f"The schema of {about} is not an object.", Position(path="$"))
    builder = _Builder(document, about, prefix, max_length, is_closed=is_closed)
    try:
        start = builder.value((Part(document, ()),))
        is_possible = can_be_met(Grammar(start, builder.rules), _OF_JSON.keys())
    except RecursionError as error:
        raise InputError(ErrorCode.SCHEMA_TOO_DEEP, f"The schema of {about} is nested too deeply.") from error
    if not is_possible:
        message = f"no value matches the schema of {about}"
        raise InputError(ErrorCode.GRAMMAR_INVALID_OPTION, message, Position(path="$"))
    return start, {**builder.rules, **_OF_JSON}, tuple(builder.losses.values())


class _Builder:
    def __init__(
        self, document: dict[str, Any] | bool, about: str, prefix: str, max_length: int, *, is_closed: bool
    ) -> None:
        self._about = about
        self._max_length = max_length
        self._is_closed = is_closed
        self._prefix = prefix
        self._made: dict[frozenset[Any], Node] = {}
        self.rules: dict[str, Node] = {}
        self.losses: dict[tuple[str, str], Loss] = {}
        self._taker = Taker(document if isinstance(document, dict) else {}, about, self._lose)

    def _lose(self, part: Part, feature: str, why: str) -> None:
        path = path_text(place_of((*part.steps, feature)))
        self.losses.setdefault((path, feature), Loss(self._about, path, feature, why))

    # Values

    def value(self, parts: Together) -> Node:
        """The rule for values that fit all parts. What leads back to itself is a rule by name, and so has an end."""
        parts = self._followed(parts)
        if any(part.schema is False for part in parts):
            return NEVER
        parts = tuple(part for part in parts if part.schema is not True and part.schema != {})
        if not parts:
            return VALUE
        key = frozenset(part.steps for part in parts)
        if key not in self._made:
            if len(self._made) >= MAX_RULES:
                message = f"The schema of {self._about} needs more than {MAX_RULES} rules."
                raise InputError(ErrorCode.SCHEMA_TOO_LARGE, message)
            spend(_RULE_STEPS)
            name = f"{self._prefix}-{len(self._made) + 1}"
            self._made[key] = Name(name)
            self.rules[name] = NEVER  # takes its place in the order
            found = self._taker.together(parts)
            self._compare_branches(found)
            made = choice(*(self._together(each, name, at) for at, each in enumerate(found)))
            if isinstance(made, Name | Literal):  # needs no name of its own
                self._made[key] = made
            self.rules[name] = made
        return self._made[key]

    def _followed(self, parts: Together) -> Together:
        """A part that is only a reference is where it leads."""
        made: dict[Any, Part] = {}
        for part in parts:
            seen: set[Any] = set()
            while isinstance(part.schema, dict) and set(part.schema) == {"$ref"} and part.steps not in seen:
                seen.add(part.steps)
                target = self._taker.target(part)
                if target is None:
                    break
                part = target
            made[part.steps] = part
        return tuple(made.values())

    def _compare_branches(self, found: list[Together]) -> None:
        """`oneOf` admits what fits one branch only; rules admit what fits any. That differs where branches overlap."""
        parts = (part for each in found for part in each if isinstance(part.fields.get("oneOf"), list))
        for union in {part.steps: part for part in parts}.values():
            branches = [(_branches_in(union, each), each) for each in found]
            if len(found) > MAX_COMPARED or any(
                branch and other_branch and branch != other_branch and not are_apart(one, other, self._taker)
                for index, (branch, one) in enumerate(branches)
                for other_branch, other in branches[index + 1 :]
            ):
                self._lose(union, "oneOf", "values that match several of the schemas are admitted too")

    def _together(self, parts: Together, name: str, at: int) -> Node:
        """One alternative: plain schemas that hold together."""
        conditions = Conditions(parts, self._lose)
        self._report_unheard(conditions)
        values = conditions.values()
        if values is not None:
            spend(len(values))
            kept = [value for value in values if fits_beside(value, conditions, self._taker, self._lose)]
            return choice(*(self._constant(value) for value in kept)) if kept else NEVER
        kinds = conditions.kinds()
        for part, form in conditions.each("format", _is_text):
            if form not in json_syntax.FORMATS:
                self._lose(part, "format", f"the format {form} is not supported")
        nodes: list[Node] = []
        if "object" in kinds:
            nodes.append(self._object(conditions, f"{name}-{at}"))
        if "array" in kinds:
            nodes.append(self._array(conditions))
        if "string" in kinds:
            nodes.append(self._string(conditions))
        if "number" in kinds:
            nodes.append(self._number(conditions))
        elif "integer" in kinds:
            nodes.append(integer_node(conditions.bounds()))
        nodes += [node for kind, node in (("boolean", BOOLEAN), ("null", NULL)) if kind in kinds]
        return choice(*nodes) if nodes else NEVER

    def _report_unheard(self, conditions: Conditions) -> None:
        for part in conditions.parts:
            schema = part.fields
            for keyword, why in _NOT_ENFORCED.items():
                if keyword in schema and not says_nothing(keyword, schema[keyword]):
                    self._lose(part, keyword, why)
            if "multipleOf" in schema and (schema["multipleOf"] != 1 or "number" in conditions.kinds()):
                self._lose(part, "multipleOf", "not enforced: rules cannot divide")

    def _constant(self, value: Any) -> Node:
        """A value that is known, with the white space that is free."""
        match value:
            case list():
                items = [self._constant(each) for each in cast("list[Any]", value)]
                return sequence("[", SPACE, *_listed(items), "]")
            case dict():
                pairs: list[Node] = [
                    sequence(json_syntax.string_text(name), ":", SPACE, self._constant(each))
                    for name, each in cast("dict[str, Any]", value).items()
                ]
                return sequence("{", SPACE, *_listed(pairs), "}")
            case str():
                return Literal(json_syntax.string_text(value))
            case None:
                return NULL
            case bool():
                return Literal("true" if value else "false")
            case _:
                return Literal(repr(value))

    # Numbers and strings

    def _number(self, conditions: Conditions) -> Node:
        bounds = conditions.bounds()
        if not bounds.are_whole:
            for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
                for part, value in conditions.each(keyword, lambda _: True):
                    if isinstance(value, float) and value in (bounds.low, bounds.high) and not value.is_integer():
                        self._lose(part, keyword, "numbers between it and the next integer are admitted too")
        return number_node(bounds)

    def _string(self, conditions: Conditions) -> Node:
        least, most = self._counts(conditions, "minLength", "maxLength", self._max_length)
        ways: list[tuple[Part, str, Node]] = []
        repeated: Repeat | None = None
        for part, expression in conditions.each("pattern", _is_text):
            spend(len(expression))
            alternatives = self._expression(part, expression)
            if alternatives is not None:
                ways.append((part, "pattern", json_syntax.matching(alternatives)))
                repeated = _repeated_characters(alternatives)
        for part, name in conditions.each("format", _is_text):
            if name in json_syntax.FORMATS:
                rule = f"{self._prefix}-{name}"  # the rules of a format are many, and so are written once
                self.rules[rule] = self.rules.get(rule) or json_syntax.formatted(name)
                ways.append((part, "format", Name(rule)))
        if not ways:
            return json_syntax.bounded(least, most)
        for part, keyword, _ in ways[1:]:
            self._lose(part, keyword, "only one pattern or format of a string is enforced")
        if (least, most) == (0, None):
            return ways[0][2]
        if len(ways) == 1 and repeated is not None:
            # The commonest of patterns, such as ^[a-z]+$: its own bounds and these are one.
            high = min((bound for bound in (most, repeated.most) if bound is not None), default=None)
            low = max(least, repeated.least)
            if high is not None and high < low:
                return NEVER
            return sequence('"', Repeat(json_syntax.spelled(repeated.node), low, high), '"')
        for keyword in ("minLength", "maxLength"):
            for part, _ in conditions.each(keyword, lambda _: True):
                self._lose(part, keyword, "the length of a string with a pattern or format is not enforced")
        return ways[0][2]

    def _expression(self, part: Part, expression: str) -> tuple[Alternative, ...] | None:
        try:
            return regex_alternatives(expression)
        except UnreadableRegexError as error:
            self._lose(part, "pattern", f"at character {error.at}: {error}")
            return None

    def _counts(self, conditions: Conditions, least: str, most: str, limit: int) -> tuple[int, int | None]:
        low, high = conditions.counts(least, most)
        for keyword in (least, most):
            for part, bound in conditions.each(keyword, lambda _: True):
                if isinstance(bound, int | float) and bound > limit:
                    self._lose(part, keyword, f"bounds beyond {limit} are not enforced")
        return (low if low <= limit else 0), (high if high is None or high <= limit else None)

    # Arrays

    def _array(self, conditions: Conditions) -> Node:
        least, most = self._counts(conditions, "minItems", "maxItems", MAX_COUNT)
        listed = conditions.listed_items()
        if (least, most, listed) == (0, None, 0) and not conditions.of_item(0) and conditions.of_item(0) is not None:
            return ARRAY
        if most is not None and most < least:
            return NEVER
        other = self._value_of(conditions.of_item(listed))
        own = [self._value_of(conditions.of_item(index)) for index in range(listed)]
        return sequence("[", SPACE, _items(own, other, least, most), "]")

    def _value_of(self, parts: Together | None) -> Node:
        return NEVER if parts is None else self.value(parts)

    # Objects

    def _object(self, conditions: Conditions, name: str) -> Node:
        least, most = conditions.counts("minProperties", "maxProperties")
        required = conditions.required()
        declared = list(dict.fromkeys((*conditions.declared(), *required)))
        spend(_RULE_STEPS * len(declared))
        for index in range(len(declared)):
            self.rules[f"{name}-{index}"] = NEVER  # takes its place in the order, before what it needs
        pairs: list[tuple[Node, bool]] = []
        for each in declared:
            node = self._value_of(conditions.of_property(each))
            pairs.append((sequence(json_syntax.string_text(each), ":", SPACE, node), each in required))
        other = self._other_pair(conditions, declared)
        possible = len(declared) if other is NEVER else None
        is_lost = {
            "minProperties": least > max(1, len(required)),
            "maxProperties": most is not None and most > 0 and (possible is None or possible > most),
        }
        for keyword in is_lost:
            for part, _ in conditions.each(keyword, lambda _: True) if is_lost[keyword] else ():
                self._lose(part, keyword, "not enforced: rules cannot count properties")
        if not pairs and other == sequence(STRING, ":", SPACE, VALUE) and least == 0 and most is None:
            return OBJECT
        if most == 0 and not required:
            return sequence("{", SPACE, "}")
        body = self._pairs(pairs, other, name)
        return sequence("{", SPACE, body if least > 0 or required else optional(body), "}")

    def _pairs(self, pairs: list[tuple[Node, bool]], other: Node, name: str) -> Node:
        """One pair at least: any of the optional ones up to the first that is required, and then what may follow it."""
        follows: Node = Repeat(sequence(",", SPACE, other))
        firsts: list[Node] = [sequence(other, follows)]
        for index in reversed(range(len(pairs))):
            pair, is_required = pairs[index]
            self.rules[f"{name}-{index}"] = follows
            first = sequence(pair, Name(f"{name}-{index}"))
            firsts = [first] if is_required else [first, *firsts]
            next_pair = sequence(",", SPACE, pair)
            follows = sequence(next_pair if is_required else optional(next_pair), Name(f"{name}-{index}"))
        return sequence(choice(*firsts), SPACE)

    def _other_pair(self, conditions: Conditions, declared: list[str]) -> Node:
        """A property that nobody declared. Who declared only patterns of names has their values after these names."""
        others = conditions.of_others()
        patterned = conditions.each("patternProperties", lambda value: isinstance(value, dict))
        if others is None and len(conditions.parts) == 1 and patterned and not declared:
            return self._patterned_pairs(patterned[0][0])
        for part, value in patterned:
            if value:
                self._lose(part, "patternProperties", "name patterns are enforced only if no property is declared")
        if others is None or (self._is_closed and declared and not others):
            return NEVER
        key = self._other_name(conditions, declared)
        return sequence(key, ":", SPACE, self.value(others))

    def _patterned_pairs(self, part: Part) -> Node:
        nodes: list[Node] = []
        patterns: dict[str, Any] = part.fields["patternProperties"]
        if len(patterns) > 1:
            self._lose(part, "patternProperties", "a name that matches several patterns need only satisfy one")
        for pattern in patterns:
            alternatives = self._expression(part, pattern)
            key = STRING if alternatives is None else json_syntax.matching(alternatives)
            nodes.append(sequence(key, ":", SPACE, self.value((part.child("patternProperties", pattern),))))
        return choice(*nodes) if nodes else NEVER

    def _other_name(self, conditions: Conditions, declared: list[str]) -> Node:
        names = conditions.each("propertyNames", lambda value: isinstance(value, dict | bool))
        if names and not declared:
            found = self._taker.together(tuple(part.child("propertyNames") for part, _ in names))
            nodes: list[Node] = []
            for each in found:
                said = Conditions(each, self._lose)
                values = said.values()
                if values is not None:
                    nodes += [self._constant(value) for value in values if isinstance(value, str)]
                elif "string" in said.kinds():
                    nodes.append(self._string(said))
            return choice(*nodes) if nodes else NEVER
        for part, value in names:
            if not says_nothing("propertyNames", value):
                self._lose(part, "propertyNames", "name schemas are enforced only if no property is declared")
        return other_strings(declared) if declared else STRING


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _items(own: list[Node], other: Node, least: int, most: int | None) -> Node:
    """The items, built from the end: each node is what may follow so many of them."""
    count = len(own) if most is None else min(len(own), most)
    left = None if most is None else most - count
    tail: Node = NOTHING
    if left != 0 and count == 0:
        more = Repeat(sequence(",", SPACE, other), max(0, least - 1), None if left is None else left - 1)
        tail = sequence(other, more, SPACE)
        return tail if least > 0 else optional(tail)
    if left != 0:
        tail = Repeat(sequence(",", SPACE, other), max(0, least - count), left)
    for index in reversed(range(count)):
        item = sequence(",", SPACE, own[index], tail) if index else sequence(sequence(own[index], tail), SPACE)
        tail = item if index < least else optional(item)
    return tail


def _branches_in(union: Part, parts: Together) -> frozenset[Any]:
    """Which branches of a `oneOf` an alternative is of."""
    length = len(union.steps)
    return frozenset(
        part.steps[length + 1]
        for part in parts
        if part.steps[:length] == union.steps and part.steps[length : length + 1] == ("oneOf",)
    )


def _listed(items: Several[Node]) -> list[Node | str]:
    made: list[Node | str] = []
    for index, item in enumerate(items):
        made += [item] if index == 0 else [",", SPACE, item]
    return [*made, SPACE] if made else []


def _repeated_characters(alternatives: tuple[Alternative, ...]) -> Repeat | None:
    """The repetition, where an expression is nothing else than one of single characters."""
    if len(alternatives) != 1 or not (alternatives[0].at_start and alternatives[0].at_end):
        return None
    node = alternatives[0].node
    return node if isinstance(node, Repeat) and isinstance(node.node, Chars) else None


def other_strings(taken: Several[str]) -> Node:
    """The strings that are none of these, each in its one spelling, so that no escape can hide one of them."""
    return sequence('"', _others({tuple(text) for text in taken}), '"')


def _others(taken: set[tuple[str, ...]]) -> Node:
    """What follows a common beginning: it ends where no taken one does, or goes on, as they do or otherwise."""
    nexts = sorted({text[0] for text in taken if text})
    free = json_syntax.spelled_characters(without(ALL, of("".join(nexts))))
    nodes: list[Node] = [sequence(free, Name(_REST))]
    for each in nexts:
        rest = {text[1:] for text in taken if text[:1] == (each,)}
        nodes.append(sequence(json_syntax.spelled_characters(of(each)), _others(rest)))
    if () not in taken:
        nodes.append(NOTHING)
    return choice(*nodes)
