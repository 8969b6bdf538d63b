"""Numbers, strings and comments as text, at their edges."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harmonia.schema.document import Json, path_text, place_of, steps_to
from harmonia.schema.literals import (
    NotJsonError,
    comment,
    json_text,
    lines_of,
    number_text,
    pattern_literal,
    reference_lines_of,
    reference_number_text,
    string_literal,
    trailing_comment,
)
from tests.support.strategies.schemas import HOSTILE_TEXTS, texts, values

LINE_BREAKS = "\n\r\u2028\u2029"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (-5, "-5"),
        (2**64, "18446744073709551616"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.1, "0.1"),
        (1e15, "1000000000000000.0"),
        (1e16, "1e16"),
        (1.5e20, "1.5e20"),
        (1e-4, "0.0001"),
        (1e-5, "0.00001"),
        (-1.25e-5, "-0.0000125"),
        (1e-6, "1e-6"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e308"),
    ],
)
def test_numbers_are_spelled_as_serde_json_spells_them(number: float, text: str) -> None:
    assert number_text(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (2**64 - 1, "18446744073709551615"),
        (2**64, "1.8446744073709552e19"),
        (-(2**63) - 1, "-9.223372036854776e18"),
        (10**30, "1e30"),
        (0.3, "0.3"),
        # Its reader is off by one in the last place where digits and power of ten do not both fit.
        (3e25, "3.0000000000000005e25"),
        (90.07463706229417, "90.07463706229416"),
    ],
)
def test_the_reference_reads_some_numbers_inexactly(number: float, text: str) -> None:
    assert reference_number_text(number) == text


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_json_have_no_text(number: float) -> None:
    for spell in (number_text, reference_number_text):
        with pytest.raises(NotJsonError):
            spell(number)


def test_an_integer_beyond_every_float_has_no_text_in_the_reference() -> None:
    with pytest.raises(NotJsonError):
        reference_number_text(10**400)


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers())
def test_a_printed_number_reads_back_as_itself(number: float) -> None:
    assert json.loads(number_text(number)) == number


@given(values)
def test_printed_json_reads_back_as_itself_and_stays_on_its_line(value: Json) -> None:
    text = json_text(value)
    assert json.loads(text) == value
    assert not set(text) & set(LINE_BREAKS)


@given(texts)
def test_no_text_leaves_its_comment_or_its_quotes(text: str) -> None:
    for line in comment(text, "  ").removesuffix("\n").split("\n"):
        assert line.startswith("  // ") and not set(line) & set(LINE_BREAKS)
    first, *others = trailing_comment(text, "  ").split("\n")
    assert first.startswith(" // ") and all(line.startswith("  // ") for line in others)
    assert not set(trailing_comment(text, "")) & set("\r\u2028\u2029")
    assert json.loads(string_literal(text)) == text and not set(string_literal(text)) & set(LINE_BREAKS)
    assert not set(pattern_literal(text)) & set(LINE_BREAKS)


@given(st.text(st.sampled_from("ab\n\r\u2028\x0b\x85"), max_size=8))
@example("a\r\n")
@example("\n\n")
@example("a\n\r\nb\r")
def test_lines_are_those_of_rust_where_rust_and_javascript_agree(text: str) -> None:
    if not set(text.replace("\r\n", "\n")) & set("\r\u2028\u2029") and text:
        assert lines_of(text) == reference_lines_of(text)


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_lines_lose_nothing_but_line_breaks(text: str) -> None:
    kept = "".join(character for character in text if character not in LINE_BREAKS)
    assert "".join(lines_of(text)) == kept


def test_paths_are_json_paths() -> None:
    steps = ("properties", "my-key", "$defs", "oneOf", 2, "naïve", 'a"b')
    assert steps_to(place_of(steps)) == steps
    assert path_text(place_of(steps)) == '$.properties["my-key"]["$defs"].oneOf[2].naïve["a\\"b"]'
    assert path_text(None, "$.tools[0]") == "$.tools[0]"
