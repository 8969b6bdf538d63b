"""The braces of FunctionGemma and Gemma 4: read, written, and read again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonia.families.gemma import ESCAPE, QUOTE, read_braces, read_gemma_call, write_braces

TEXTS = st.text(max_size=8).filter(lambda text: "<" not in text)
NAMES = st.text("abc_", min_size=1, max_size=4)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(NAMES, values, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("mark", [ESCAPE, QUOTE])
@settings(max_examples=40, deadline=None)
@given(value=st.dictionaries(NAMES, VALUES, max_size=4))
def test_what_is_written_is_read_again(mark: str, value: dict[str, Any]) -> None:
    assert read_braces(write_braces(value, mark)) == value
    marked = {f"{mark}{name}{mark}": item for name, item in value.items()}
    assert read_braces(write_braces(marked, mark)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", {}),
        ("{a:1}", {"a": 1}),
        ("{ a : 1.5 , b : true }", {"a": 1.5, "b": True}),
        ('{a:<|"|>x, {y}<|"|>}', {"a": "x, {y}"}),
        ("{a:<escape>x<escape>b:<escape>y<escape>}", {"a": "x", "b": "y"}),
        ('{<|"|>3<|"|>:<|"|>new<|"|>}', {"3": "new"}),
        ("{a:[1,[2,{b:null}],<escape>c<escape>]}", {"a": [1, [2, {"b": None}], "c"]}),
        ("{a:celsius}", {"a": "celsius"}),
        ('{"a": "b"}', {"a": "b"}),
        ('{a:"b\\n"}', {"a": "b\n"}),
        ("{a:<escape><escape>}", {"a": ""}),
    ],
)
def test_braces_mean_this(text: str, value: object) -> None:
    assert read_braces(text) == value


@pytest.mark.parametrize(
    "text", ["", "{", "{a", "{a:", "{a:}", "{:1}", "{a:1 b:2}", "{a:1}}", "[1", "{a:<escape>x}", "{" * 999]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"value|member|comma|deep|closed"):
        read_braces(text)


def test_a_call_has_a_name_and_arguments_at_their_places() -> None:
    text = " call:weather.get{city:<escape>Oslo<escape>} \n"
    (call,) = read_gemma_call(text)
    assert (call.name, json.loads(call.arguments)) == ("weather.get", {"city": "Oslo"})
    assert text[call.arguments_start : call.arguments_end] == "{city:<escape>Oslo<escape>}"


def test_arguments_that_cannot_be_read_stay_as_they_are_written() -> None:
    (call,) = read_gemma_call("call:f{a:")
    assert (call.name, call.arguments) == ("f", "{a:")


def test_without_a_name_there_is_no_call() -> None:
    assert read_gemma_call("just words") == []
    assert read_gemma_call("{a:1}") == []


def test_members_are_written_in_the_order_of_their_names() -> None:
    assert write_braces({"b": 1, "A": [True, None]}, QUOTE) == "{A:[true,null],b:1}"


def test_reading_looks_at_each_character_a_bounded_number_of_times() -> None:
    many = "{" + ",".join(f"a{number}:<escape>x<escape>" for number in range(20_000)) + "}"
    assert len(read_braces(many)) == 20_000
