"""Texts of custom tools: a client's Lark grammar or regular expression as rules, and how it is refused."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonia.errors import ErrorCode, InputError
from harmonia.grammar.regex_rules import UnreadableRegexError, regex_alternatives, regex_node
from harmonia.grammar.text_forms import MAX_FORM_CHARS, MAX_FORM_RULES, text_rules
from harmonia.tool_definitions import TextForm
from tests.grammar.apply_patch import APPLY_PATCH
from tests.grammar.rule_reader import Generator, admits


def reads(definition: str, text: str) -> bool:
    node, rules, _ = text_rules(TextForm("lark", definition), "functions.x", "text")
    return admits(node, rules, text)


def refusal(definition: str) -> tuple[ErrorCode, int | None]:
    with pytest.raises(InputError) as caught:
        text_rules(TextForm("lark", definition), "functions.x", "text")
    return caught.value.code, caught.value.at.character


def test_the_grammar_of_a_patch_admits_patches() -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n@@ def f():\n-    return 1\n+    return 2\n*** End Patch\n"
    assert reads(APPLY_PATCH, patch)
    assert reads(APPLY_PATCH, "*** Begin Patch\n*** Add File: a\n+x\n+\n*** Delete File: b\n*** End Patch")
    assert not reads(APPLY_PATCH, "*** Begin Patch\n*** End Patch")
    assert not reads(APPLY_PATCH, patch.replace("*** Update File: a.py\n", ""))
    assert not reads(APPLY_PATCH, patch.replace("-    return", "*    return"))


@pytest.mark.parametrize(
    ("definition", "admitted", "refused"),
    [
        ('start: "a" | "b"', ["a", "b"], ["", "ab", "c"]),
        ('start: "a"\n    | "b"   // or this\n    | "c"', ["a", "b", "c"], ["d"]),
        ('start: ("a" "b")+ ["c"]', ["ab", "ababc"], ["c", "abcab"]),
        ('start: A~2 B~1..2\nA: "a"\nB: "b"i', ["aab", "aaBb"], ["ab", "aabbb"]),
        ('start: "0".."9"+', ["019"], ["a", ""]),
        ('start: "a\\n\\"\\\\\\u00e9/"', ['a\n"\\é/'], ["a"]),
        ("start: /[a-c]+x?/i", ["aBcX", "b"], ["x", "d"]),
        ("start: /a\\/b/", ["a/b"], ["a\\/b"]),
        ("start: X\nX.2: /./s", ["\n", "a"], ["ab"]),
        ("?start: _a\n!_a: B\nB: C\nC: /c/", ["c"], ["b"]),
        ("%import common.INT -> NUMBER\nstart: NUMBER", ["123"], ["a"]),
        # Rules that begin with themselves.
        ('start: start "+" n | n\nn: /[0-9]/', ["1", "1+2", "1+2+3"], ["+", "1+", "1+2+"]),
        ('start: "(" start ")" | "x"', ["x", "((x))"], ["(x"]),
        # White space that is ignored.
        ('start: "a" B\nB: "b" "c"\n%ignore / +/', ["abc", "a bc", "a   bc  "], ["ab c", " abc"]),
    ],
)
def test_lark(definition: str, admitted: list[str], refused: list[str]) -> None:
    assert [text for text in admitted if not reads(definition, text)] == []
    assert [text for text in refused if reads(definition, text)] == []


@pytest.mark.parametrize(
    ("definition", "at"),
    [
        ('begin: "a"', 0),
        ("start: other", 7),
        ('start: "a', 7),
        ('start: "a" )', 11),
        ('start: ("a"', 7),
        ("start: /(?=a)/", 8),
        ("start: /a(b/", 9),
        ("start: /a/x", 7),
        ('start: "a"\nstart: "b"', 11),
        ("start: X\n%import python.NAME", 9),
        ("start: X\n%declare X", 9),
        ("start: %json {}", 7),
        ('start{x}: "a"', 5),
        ('start: "a"\nother "a"', 17),
        ('start: "b".."a"', 7),
        ('start: "a"~3..2', 11),
        ('start: "\\q"', 7),
        ("start: $", 7),
        ('start: a\na: b "x"\nb: a "y" | "z"', None),
        ("start: start", None),
    ],
)
def test_a_grammar_that_cannot_be_read_is_refused_where_it_is_wrong(definition: str, at: int | None) -> None:
    assert refusal(definition) == (ErrorCode.GRAMMAR_INVALID_TEXT_FORM, at)


@pytest.mark.parametrize(
    "definition",
    [
        "start: " + "a" * MAX_FORM_CHARS,
        'start: "a"\n' + "".join(f'a{number}: "a"\n' for number in range(MAX_FORM_RULES)),
        "start: " + "(" * 60 + '"a"' + ")" * 60,
    ],
)
def test_a_grammar_that_is_too_large_is_refused(definition: str) -> None:
    assert refusal(definition)[0] is ErrorCode.GRAMMAR_TOO_LARGE


def test_what_is_ignored_is_reported() -> None:
    losses = text_rules(TextForm("lark", 'start: "a"\n%ignore " "'), "functions.x", "text")[2]
    assert [(loss.about, loss.path, loss.feature) for loss in losses] == [("functions.x", "character 11", "%ignore")]


@settings(deadline=None)
@given(st.text(st.sampled_from('start:aB"/|()[]?*+~. \n%\\-><{}0'), max_size=40))
def test_any_definition_gives_rules_or_an_error_with_a_code(definition: str) -> None:
    try:
        text_rules(TextForm("lark", 'start: "x"\n' + definition), "functions.x", "text")
    except InputError as error:
        assert error.code in (ErrorCode.GRAMMAR_INVALID_TEXT_FORM, ErrorCode.GRAMMAR_TOO_LARGE)


# Regular expressions


def test_a_regular_expression_is_for_the_whole_text() -> None:
    node, rules, losses = text_rules(TextForm("regex", "^[a-z]{2,3}$"), "functions.x", "text")
    assert losses == ()
    assert admits(node, rules, "abc")
    assert not admits(node, rules, "abcd")
    with pytest.raises(InputError) as caught:
        text_rules(TextForm("regex", "a(?!b)"), "functions.x", "text")
    assert (caught.value.code, caught.value.at.character) == (ErrorCode.GRAMMAR_INVALID_TEXT_FORM, 1)


@pytest.mark.parametrize(
    ("expression", "at"),
    [
        ("a\\b", 1),
        ("(a)\\1", 3),
        ("a++", 1),
        ("*a", 0),
        ("[a", 0),
        ("[b-a]", 0),
        ("[a&&b]", 2),
        ("a$b", 1),
        ("(a|^b)", 3),
        ("a{2,1}", 1),
        ("a{99999}", 1),
        ("a{x}", 1),
        ("\\p{L}", 0),
        ("\\ud800", 0),
        ("(?<=a)b", 0),
        ("(a", 0),
        ("a)", 1),
    ],
)
def test_an_expression_that_has_no_rules_is_refused_where_it_is_wrong(expression: str, at: int) -> None:
    with pytest.raises(UnreadableRegexError) as caught:
        regex_node(expression)
    assert caught.value.at == at


_atoms = st.sampled_from(
    ("a", "b", "ab", ".", "[ab]", "[^a]", r"\d", r"\w", r"\s", r"\S", r"\W", r"\D", r"[^\w]", r"\.", r"\x61", r"\u0062",
     "-", "[a-]", "[]a]"[1:], "é")
)  # fmt: skip
_expressions = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(("*", "+", "?", "{2}", "{1,2}", "{1,}", "*?"))).map(
            lambda pair: f"({pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=5,
)


@settings(deadline=None, max_examples=100)
@given(_expressions, st.text(st.sampled_from("abcAB01 \n.-é_\u0660"), max_size=5), st.integers(0, 10**6))
def test_rules_of_an_expression_admit_what_it_matches(expression: str, text: str, seed: int) -> None:
    node = regex_node(expression)
    made = Generator({}, random.Random(seed)).text(node)
    assert re.fullmatch(expression, made), made
    if text.isascii():
        assert admits(node, {}, text) is (re.fullmatch(expression, text, re.ASCII) is not None)
    elif admits(node, {}, text):
        assert re.fullmatch(expression, text)


def test_anchors_are_told_of_each_alternative() -> None:
    found = [(each.at_start, each.at_end) for each in regex_alternatives("^a|b$|c|^d$")]
    assert found == [(True, False), (False, True), (False, False), (True, True)]
