"""Typed text loses every spelling of a control token, and nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia.families.templates import ControlSpellings

SPELLINGS = ControlSpellings(["<|im_end|>", "[INST]", "```tool_output"], [r"<\|[a-z]+\|>"], ["User:", "System:"])
PIECES = st.sampled_from(
    [
        "<|im_end|>",
        "<|",
        "|>",
        "im_end",
        "[INST]",
        "[",
        "INST]",
        "User:",
        "\n",
        "\\",
        "```",
        "tool_output",
        " ",
        "x",
        '"',
    ]
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)


def test_a_spelling_is_broken_behind_its_first_character() -> None:
    assert SPELLINGS.broken("a <|im_end|> [INST] ```tool_output") == "a <\\|im_end|> [\\INST] `\\``tool_output"


def test_a_pattern_finds_tokens_that_nobody_listed() -> None:
    assert SPELLINGS.broken("<|reserved|>") == "<\\|reserved|>"


def test_a_word_counts_at_the_start_of_a_line_only() -> None:
    assert SPELLINGS.broken("User: hi\nA User: hi\n  User: hi") == "\\User: hi\nA User: hi\n\\  User: hi"


def test_spellings_that_overlap_are_all_broken() -> None:
    spellings = ControlSpellings(["<a<b>", "<b>c"])
    assert spellings.broken("<a<b>c") == "<\\a<\\b>c"
    assert spellings.places(spellings.broken("<a<b>c")) == []


def test_text_without_a_spelling_stays_as_it_is() -> None:
    for text in ("a < b | c", "f <| x", "<div>", "[1, 2]", "see: User"):
        assert SPELLINGS.broken(text) == text


def test_without_spellings_everything_stays() -> None:
    assert ControlSpellings().broken("<|im_end|>") == "<|im_end|>"


def test_json_keeps_its_value() -> None:
    written = json.dumps({"a": "x<|im_end|>", "[INST]": ["[INST]"]})
    broken = SPELLINGS.broken_in_json(written)
    assert json.loads(broken) == json.loads(written)
    assert SPELLINGS.places(broken) == []


def test_every_text_in_a_value_is_broken() -> None:
    value = {"[INST]": ["<|im_end|>", 1, None, {"a": True}]}
    assert SPELLINGS.broken_in_value(value) == {"[\\INST]": ["<\\|im_end|>", 1, None, {"a": True}]}


@given(TEXTS)
def test_a_broken_text_has_no_spelling_and_all_its_characters(text: str) -> None:
    broken = SPELLINGS.broken(text)
    assert SPELLINGS.places(broken) == []
    assert len(broken) == len(text) + len(SPELLINGS.places(text))
    assert broken.replace("\\", "") == text.replace("\\", "")


@pytest.mark.parametrize("line_break", ["\n", "\r", "\r\n", "\v", "\f", "\x85", "\u2028", "\u2029"])
def test_whatever_breaks_a_line_begins_one(line_break: str) -> None:
    assert SPELLINGS.broken(f"a{line_break}User: hi") == f"a{line_break}\\User: hi"
