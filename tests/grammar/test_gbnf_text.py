"""GBNF as text: how rules are written, and that no text of them spells a control token."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonia.errors import ErrorCode, InputError
from harmonia.grammar import Demand, TextForm
from harmonia.grammar.completion import completion_grammar
from harmonia.grammar.gbnf_writer import write_gbnf
from harmonia.grammar.plain_grammar import MAX_COUNTED, without_control_spellings
from harmonia.grammar.rules import (
    Chars,
    Choice,
    Grammar,
    JsonValue,
    Literal,
    Loss,
    Name,
    Node,
    Repeat,
    Sequence,
    Special,
    Text,
    sequence,
)
from harmonia.grammar.simplification import NEVER, without_empty_repetitions
from harmonia.messages import ResponseFormat
from harmonia.vocabulary import CALL, CHANNEL, RETURN
from tests.grammar.damages import DEMAND
from tests.grammar.rule_reader import admits

A = Chars(((ord("a"), ord("c")),))


def written(node: Node, **rules: Node) -> str:
    return write_gbnf(Grammar(node, rules)).text


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (Literal('a"\\\n\x07é🦜'), r'root ::= "a\"\\\n\x07\u00E9\U0001F99C"'),
        (Special(CHANNEL), f"root ::= <[{CHANNEL}]>"),
        (A, "root ::= [a-c]"),
        (Chars(((0, 9), (11, 0x10FFFF)), is_negated=True), r"root ::= [\n]"),
        # Neither U+0000 nor half of a surrogate pair.
        (Chars(((10, 10),), is_negated=True), r"root ::= [\x01-\t\x0B-\uD7FF\uE000-\U0010FFFF]"),
        (Chars(((ord("]"), ord("]")), (ord("^"), ord("^")), (ord("-"), ord("-")))), r"root ::= [\x2D\x5D-\x5E]"),
        (Choice((Literal("a"), Sequence(()))), 'root ::= "a" | ""'),
        (sequence("a", Choice((Literal("b"), Literal("c")))), 'root ::= "a" ("b" | "c")'),
        (Repeat(Literal("ab")), 'root ::= ("ab")*'),
        (Repeat(A, 1), "root ::= [a-c]+"),
        (Repeat(A, 0, 1), "root ::= [a-c]?"),
        (Repeat(A, 2, 2), "root ::= [a-c]{2}"),
        (Repeat(A, 2, 5), "root ::= [a-c]{2} [a-c]{0,3}"),
        (Repeat(A, 2), "root ::= [a-c]{2} [a-c]*"),
        # Nothing that may be empty is repeated: llama.cpp would refuse it.
        (Repeat(Repeat(A)), "root ::= ([a-c]+)*"),
        (Repeat(sequence(Repeat(A, 0, 1), Repeat(Literal("x")))), 'root ::= ([a-c] "x"* | "x"+)*'),
        # What ends a completion is left to the engine.
        (sequence("a", Special(CALL)), 'root ::= "a"'),
        (sequence("a", Special(RETURN)), 'root ::= "a"'),
    ],
)
def test_how_it_is_written(node: Node, text: str) -> None:
    assert written(node) == text + "\n"


def test_what_is_repeated_and_bounded_has_a_rule_of_its_own() -> None:
    assert written(Repeat(sequence("a", Repeat(A, 0, 40)), 0, 60)) == (
        'root ::= root-p1{0,60}\nroot-p1 ::= "a" [a-c]{0,40}\n'
    )


def test_a_long_repetition_is_written_in_pieces() -> None:
    text = written(Repeat(A, 1500, 4000))
    bounds = [int(bound) for bound in re.findall(r"\{(?:0,)?([0-9]+)\}", text)]
    assert max(bounds) <= 1000
    assert text.startswith("root ::= [a-c]{1000} [a-c]{500} root-p1\nroot-p1 ::= [a-c]{0,999} | [a-c]{1000} root-p2\n")


def test_names_are_legal_and_differ() -> None:
    text = written(
        sequence(Name("root"), Name("a_b"), Name("a-b"), Name("ä")),
        **{"root": Literal("1"), "a_b": Literal("2"), "a-b": Literal("3"), "ä": Literal("4")},
    )
    names = [line.partition(" ::= ")[0] for line in text.splitlines()]
    assert len({*names}) == len(names) == 5
    assert all(re.fullmatch("[A-Za-z0-9-]+", name) for name in names)


def test_a_completion_is_written_without_its_end() -> None:
    made = write_gbnf(completion_grammar(DEMAND))
    assert made.kind == "gbnf"
    assert made.ends_by_engine
    assert f"<[{CHANNEL}]>" in made.text
    assert f"<[{CALL}]>" not in made.text and f"<[{RETURN}]>" not in made.text
    names = {line.partition(" ::= ")[0] for line in made.text.splitlines()}
    used = re.findall(
        r"(?<![\w\\-])[a-z][A-Za-z0-9-]*", re.sub(r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]', " ", made.text)
    )
    assert set(used) <= names


def test_what_is_lost_is_told_with_whose_it_is() -> None:
    schema = {"type": "object", "properties": {"tags": {"type": "array", "uniqueItems": True}}}
    demand = Demand(response_format=ResponseFormat("tags", schema))
    losses = write_gbnf(completion_grammar(demand)).losses
    assert losses == (Loss("response_format", "$.properties.tags.uniqueItems", "uniqueItems", losses[0].message),)


def test_two_values_do_not_mix_their_rules() -> None:
    one = JsonValue({"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}, "x")
    two = JsonValue({"type": "object", "properties": {"b": {}}, "required": ["b"], "additionalProperties": False}, "y")
    text = written(sequence(one, two, Text(TextForm("lark", "start: word\nword: /w/"), "z")))
    lines = [line.partition(" ::= ")[0] for line in text.splitlines()]
    assert len(set(lines)) == len(lines)
    assert r'"\"a\""' in text and r'"\"b\""' in text and '"w"' in text


# Spelled control tokens

_SPELLED = re.compile(r"<\|[a-z]")
_signs = st.text(st.sampled_from("<|aA>"), max_size=4)
_nodes: st.SearchStrategy[Node] = st.recursive(
    st.one_of(
        _signs.map(Literal),
        st.sampled_from(
            (
                Chars(((ord("a"), ord("z")),)),
                Chars(((ord("<"), ord("<")), (ord("|"), ord("|")))),
                Chars((), is_negated=True),
            )
        ),
        st.just(Special(CHANNEL)),
        st.sampled_from((Name("one"), Name("two"))),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda nodes: Sequence(tuple(nodes))),
        st.lists(inner, min_size=1, max_size=3).map(lambda nodes: Choice(tuple(nodes))),
        st.tuples(inner, st.integers(0, 2), st.sampled_from((None, 2, 3))).map(lambda made: Repeat(*made)),
    ),
    max_leaves=6,
)
_texts = st.text(st.sampled_from("<|aA>\U000f1389"), max_size=6) | st.lists(
    st.sampled_from(("<|", "<", "|", "a", "<|a", "<|A", "<<|")), max_size=3
).map("".join)


def _not_left(node: Node) -> Node:
    """Behind a sign, so that no rule begins with itself."""
    return sequence("A", node)


@settings(deadline=None, max_examples=100)
@given(_nodes, _nodes, _nodes, st.lists(_texts, min_size=1, max_size=8))
def test_only_what_spells_a_token_is_taken_out(start: Node, one: Node, two: Node, texts: list[str]) -> None:
    rules: dict[str, Any] = {"one": _not_left(one), "two": _not_left(two)}
    try:
        safe = without_control_spellings(without_empty_repetitions(Grammar(start, rules)))
    except InputError as error:
        assert error.code is ErrorCode.GRAMMAR_INVALID_OPTION
        safe = Grammar(NEVER, {})
    for text in texts:
        expected = admits(start, rules, text) and not _SPELLED.search(text)
        assert admits(safe.start, safe.rules, text) is expected, text


def test_a_long_sequence_is_as_exact_as_a_short_one() -> None:
    start = Sequence(tuple(Repeat(Literal(sign), 0, 1) for _ in range(40) for sign in "<|aA"))
    safe = without_control_spellings(Grammar(start, {}))
    for text in ("", "<", "<|", "<|A", "<<|", "|a", "<|a", "<A|a", "<|<|a", "<|<|", "a<|aA", "A" * 40):
        assert admits(start, {}, text)
        assert admits(safe.start, safe.rules, text) is (_SPELLED.search(text) is None), text


def test_a_long_bounded_text_does_without_the_sign_that_begins_a_token() -> None:
    any_text = Chars((), is_negated=True)
    short = without_control_spellings(Grammar(Repeat(any_text, 0, MAX_COUNTED), {}))
    long = without_control_spellings(Grammar(Repeat(any_text, 0, MAX_COUNTED + 1), {}))
    assert admits(short.start, short.rules, "a < b")
    assert not admits(long.start, long.rules, "a < b")
    assert admits(long.start, long.rules, "a > b")


def test_a_grammar_that_can_only_spell_a_token_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        written(Literal("<|start|>"))
    assert caught.value.code is ErrorCode.GRAMMAR_INVALID_OPTION
