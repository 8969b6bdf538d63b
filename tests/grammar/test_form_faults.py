"""Forms of custom tools that are none: found with llguidance and without it, in our words, and never the good ones."""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest

from harmonia.errors import ErrorCode, InputError
from harmonia.grammar import TextForm
from harmonia.grammar.llguidance_writer import write_llguidance
from harmonia.grammar.rules import Grammar, Text
from harmonia.grammar.text_forms import form_fault
from harmonia.run.constraints import attempts
from harmonia.run.constraints.attempts import find_fault
from harmonia.run.engines import grammar_mask as masking
from harmonia.tool_definitions import Syntax

BROKEN: list[tuple[Syntax, str, int]] = [
    ("lark", "start: NUM (", 11),
    ("lark", "start: X\n", 7),
    ("lark", "start: /(a/", 8),
    ("lark", 'start: "a"\nstart: "b"', 11),
    ("lark", 'start: "a"~3..1', 11),
    ("lark", 'start: "a"\n"b"', 11),
    ("regex", "(a", 0),
    ("regex", "a{2,1}", 1),
    ("regex", "ab[b-a]", 2),
    ("regex", "a|*", 2),
    ("regex", "ab)", 2),
    ("regex", "x[", 1),
    ("regex", "a\\", 1),
]
# What our rules do not know, and llguidance reads.
BEYOND: list[tuple[Syntax, str]] = [
    ("lark", "start: a-b\na-b: /x/"),
    ("lark", 'start: a\na: b\nb: a "x" | "y"'),
    ("lark", "start: /a/x"),
    ("lark", "%import common.SH_COMMENT\nstart: SH_COMMENT"),
    ("regex", r"\p{L}+"),
    ("regex", "(?i:a)b"),
    ("regex", "[[:alpha:]]"),
    ("regex", "([]))])"),  # a class that begins with a bracket
    ("regex", "(^a)"),
    ("regex", "^+a"),
]


@pytest.fixture(params=["with llguidance", "without it", "with a broken one"])
def somehow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    """llguidance is there, is not, or cannot be imported."""
    if request.param != "with llguidance":
        monkeypatch.setitem(sys.modules, "llguidance", None)
    if request.param == "with a broken one":
        monkeypatch.setattr(attempts, "is_installed", lambda: True)
        monkeypatch.setattr(masking, "is_installed", lambda: True)
    find_fault.cache_clear()
    yield request.param
    find_fault.cache_clear()


@pytest.mark.parametrize(("syntax", "definition", "at"), BROKEN)
def test_what_is_broken_is_found_with_its_place(somehow: str, syntax: Syntax, definition: str, at: int) -> None:
    fault = find_fault(TextForm(syntax, definition), "count")
    assert fault is not None
    assert (fault.code, fault.at.character) == (ErrorCode.GRAMMAR_INVALID_TEXT_FORM, at)
    assert "count" in fault.message
    assert "regex parse error" not in fault.message


@pytest.mark.parametrize(("syntax", "definition"), BEYOND)
def test_what_only_llguidance_reads_is_no_fault(somehow: str, syntax: Syntax, definition: str) -> None:
    assert find_fault(TextForm(syntax, definition), "count") is None
    assert form_fault(TextForm(syntax, definition), "count") is None


def test_a_complaint_of_llguidance_has_its_reason() -> None:
    with pytest.raises(InputError) as raised:
        write_llguidance(Grammar(Text(TextForm("regex", r"\p{L}("), "count"), {}))
    assert "unclosed group" in raised.value.message


def test_an_engine_that_cannot_be_imported_is_nobodys_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    monkeypatch.setattr(masking, "is_installed", lambda: True)
    assert "cannot be imported" in (masking.why_unusable() or "")
