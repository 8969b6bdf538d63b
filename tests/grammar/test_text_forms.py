"""The forms that clients give their custom tools: bounded, and never more than the text of their own tool."""

from __future__ import annotations

import pytest

from harmonia.errors import ErrorCode, InputError
from harmonia.grammar import Demand, TextForm, declared_tools
from harmonia.grammar.completion import completion_grammar
from harmonia.grammar.llguidance_writer import write_llguidance
from harmonia.grammar.text_forms import MAX_FORM_CHARS, MAX_FORM_RULES, MAX_REPETITIONS, checked_form
from harmonia.messages import ToolDescription, ToolNamespace
from harmonia.run.engines.grammar_mask import Matcher
from harmonia.tool_definitions import Syntax
from tests.grammar.damages import sampled

TOOL = "functions.edit"


def matcher_of(definition: str, syntax: Syntax = "lark") -> Matcher:
    tools = (ToolNamespace("functions", None, (ToolDescription("edit"),)),)
    demand = Demand(declared_tools(tools, {TOOL: TextForm(syntax, definition)}), tool_choice=TOOL)
    return Matcher(write_llguidance(completion_grammar(demand)))


def is_taken(matcher: Matcher, text: str) -> bool:
    tokens = list(sampled(f"<|channel|>commentary to={TOOL}<|message|>{text}<|call|>"))
    return matcher.admitted(tokens) == len(tokens)


@pytest.mark.parametrize(
    ("definition", "text", "others"),
    [
        ('start: "a" b+\nb: "b" -> letter\n | "c"', "abcb", ("a", "ba")),
        ('start: "{" NAME "}" // a brace }\nNAME: /[a-z]{1,3}/', "{ab}", ("{}", "{abcd}")),
        ('start: expression\n?expression: "(" expression ")" | INT\n%import common.INT', "((12))", ("((12)", "x")),
        ('start: WORD ("," WORD)*\nWORD: /\\w+/\n%ignore " "', "a , b,c", ("a b", ",")),
        ('start: /a\\/b"#/ "//" "<|x|>"i', 'a/b"#//<|X|>', ("a/b",)),
        ('start: A | B\nA.2: "a"\nB.-1 : "b"', "b", ("ab",)),
        ('start: "{9999}" "a~9999"', "{9999}a~9999", ("a",)),
        ('plain: "a"\nstart: plain call\ncall: "b"\nPLAIN: "c"', "ab", ("ac", "a")),
    ],
)
def test_lark_holds_the_text(definition: str, text: str, others: tuple[str, ...]) -> None:
    assert is_taken(matcher_of(definition), text)
    assert not any(is_taken(matcher_of(definition), other) for other in others)


@pytest.mark.parametrize(
    ("definition", "text", "others"),
    [
        (r"\d{4}-\d{2}", "2026-11", ("2026-1", "x2026-11")),
        ("^[a-z/]+$", "a/b", ("A", "")),
        ("(?s).*end", "a\nb end", ("a",)),
        ("a\nb", "a\nb", ("ab",)),
        (r"a\/b|c", "a/b", ("a", "a/bc")),
    ],
)
def test_a_regular_expression_holds_the_whole_text(definition: str, text: str, others: tuple[str, ...]) -> None:
    assert is_taken(matcher_of(definition, "regex"), text)
    assert not any(is_taken(matcher_of(definition, "regex"), other) for other in others)


@pytest.mark.parametrize(
    ("definition", "at"),
    [
        ("start: <|end|>", 7),
        ("start: <[200007]>", 7),
        ('start: "a" <[*]>', 11),
        ('start: "a"\n}\nevil: "b"', 11),
        ('start: "a" }\nanalysis: <[200012]>\n{', 11),
        ('start: %json {"type": "object"}', 7),
        ('start: %lark {\nstart: "a"\n}', 7),
        ('%llguidance {"no_forcing": true}\nstart: "a"', 0),
        ("start: @other", 7),
        ('start[capture]: "a"', 0),
        ('start: "a', 7),
        ("start: /a", 7),
        ('other: "a"', 0),
        ("", 0),
        ("start: missing", 7),
        ('start: "a"\nstart: "b"', 11),
        ("start: /a(?=b)b/", 7),
    ],
)
def test_a_form_that_cannot_be_part_of_a_grammar_is_refused_with_its_place(definition: str, at: int) -> None:
    with pytest.raises(InputError) as raised:
        matcher_of(definition)
    assert (raised.value.code, raised.value.at.character) == (ErrorCode.GRAMMAR_INVALID_TEXT_FORM, at)


@pytest.mark.parametrize("definition", ["(a", "", "a\0", r"(?=a)b"])
def test_a_regular_expression_that_is_none_is_refused(definition: str) -> None:
    with pytest.raises(InputError) as raised:
        matcher_of(definition, "regex")
    assert raised.value.code is ErrorCode.GRAMMAR_INVALID_TEXT_FORM


CHAIN = "\n".join(f"a{at}: a{at + 1}" for at in range(5_000))


@pytest.mark.parametrize(
    "definition",
    [
        "start: /" + "a" * MAX_FORM_CHARS + "/",
        f"start: a0\n{CHAIN}"[:MAX_FORM_CHARS],
        "start: a0\n" + "\n".join(f"a{at}: a{at + 1}" for at in range(MAX_FORM_RULES)),
        "start: a0\n" + "\n".join(f"a{at}[lazy]: a{at + 1}" for at in range(MAX_FORM_RULES)),
        f'start: "a"{{1,{MAX_REPETITIONS + 1}}}',
        f"start: /[ab]{{{MAX_REPETITIONS + 1}}}/",
        f'start: "a"{{{"9" * 50}}}',
    ],
)
def test_a_form_that_is_too_large_is_refused_before_an_engine_sees_it(definition: str) -> None:
    with pytest.raises(InputError) as raised:
        checked_form(TextForm("lark", definition), TOOL)
    assert raised.value.code is ErrorCode.GRAMMAR_TOO_LARGE


def test_as_many_rules_as_are_allowed_do_not_fell_the_compiler() -> None:
    rules = "\n".join(f"a{at}: a{at + 1}" for at in range(MAX_FORM_RULES - 2))
    assert is_taken(matcher_of(f'start: a0\n{rules}\na{MAX_FORM_RULES - 2}: "x"'), "x")
