"""Reading bodies: what JSON is, what it is not, and where."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.serve.wire.validation import read_json

SCALARS = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)))
VALUES = st.recursive(SCALARS | TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=30)


def refusal(data: bytes, depth: int = 64, **limits: int) -> InputError:
    with pytest.raises(InputError) as caught:
        read_json(data, depth=depth, **limits)
    return caught.value


@given(VALUES, st.booleans())
def test_what_json_writes_is_read_again(value: Any, is_escaped: bool) -> None:
    assert read_json(json.dumps(value, ensure_ascii=is_escaped).encode(), depth=64) == value


@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_a_refusal(data: bytes) -> None:
    try:
        value = read_json(data, depth=8)
    except InputError as error:
        assert error.code is ErrorCode.SERVE_INVALID_BODY
    else:
        assert json.loads(data) == value


@given(st.text('{}[]",:0123456789eE+-. \\u\n\tnulltrfasd', max_size=40))
def test_whatever_is_read_the_standard_reader_reads_the_same(text: str) -> None:
    try:
        value = read_json(text.encode(), depth=8)
    except InputError as error:
        assert error.code is ErrorCode.SERVE_INVALID_BODY
    else:
        assert json.loads(text) == value


@pytest.mark.parametrize(
    ("data", "at"),
    [
        (b"", Position()),
        (b" \n\t", Position()),
        (b'\xef\xbb\xbf{"a": 1}', Position(character=0)),
        ('{"a": 1}'.encode("utf-16"), Position(character=0)),
        (b'{"\xc3\xa9": "\xff"}', Position(character=7)),
        (b'"\xed\xa0\x80"', Position(character=1)),  # a surrogate in what looks like UTF-8
        (b'{"a": 1} x', Position(character=9)),
        (b"{} {}", Position(character=3)),
        (b'{"a": }', Position(character=6)),
        (b"[1, 2", Position(character=5)),
        (b"01", Position(character=1)),
        (b"'a'", Position(character=0)),
        (b'"a\nb"', Position(character=2)),
        (b'{"a": {"b": 1, "c": 2, "b": 3}}', Position(path="$.a.b")),
        (b'[0, {"x y": 1, "x y": 1}]', Position(path='$[1]["x y"]')),
        (b'{"a": [1, NaN]}', Position(path="$.a[1]")),
        (b'{"a": -Infinity}', Position(path="$.a")),
        (b"Infinity", Position(path="$")),
        (b'{"a": 1e400}', Position(path="$.a")),
        (b'{"a": -1e400}', Position(path="$.a")),
        (b'{"a": ' + b"9" * 5000 + b"}", Position(path="$.a")),
        (b'{"a": 0.' + b"1" * 5000 + b"}", Position(path="$.a")),
        (rb'{"a": ["\ud83d"]}', Position(path="$.a[0]")),
        (rb'{"a": "\ude00 \ud83d"}', Position(path="$.a")),
        (rb'{"a": "\\ud83d\ude00"}', Position(path="$.a")),
        (rb'{"b": {"\uD800": 1}}', Position(path="$.b")),
    ],
)
def test_what_two_programs_might_read_in_two_ways_is_refused_with_its_place(data: bytes, at: Position) -> None:
    error = refusal(data)
    assert error.code is ErrorCode.SERVE_INVALID_BODY
    assert error.at == at


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (rb'"\ud83d\ude00"', "😀"),
        (rb'"\\ud83d"', "\\ud83d"),
        (b'"' + b"9" * 5000 + b'"', "9" * 5000),
        (b"9" * 309, int("9" * 309)),
        (b"1e-400", 0.0),
        (b"  [1]\r\n", [1]),
        (b'[{"a": 1}, {"a": 2}]', [{"a": 1}, {"a": 2}]),
    ],
)
def test_what_only_looks_wrong_is_read(data: bytes, value: Any) -> None:
    assert read_json(data, depth=64) == value


def test_the_first_fault_of_the_text_is_the_one_that_is_told() -> None:
    assert refusal(b'{"a": [1, {"b": NaN}], "c": 1e999}').at == Position(path="$.a[1].b")


def test_nesting_is_counted_in_arrays_and_objects_and_not_in_strings() -> None:
    assert read_json(b'[{"a": [0]}, "[[[[", [[1]]]', depth=3) is not None
    assert refusal(b'["[[", {"a": [[0]]}]', depth=3).at == Position(character=14)


@pytest.mark.parametrize("levels", [65, 900, 100_000])
@pytest.mark.parametrize("piece", [b"[", b'{"a":'])
def test_no_depth_is_too_deep_to_be_refused(levels: int, piece: bytes) -> None:
    closing = (b"]" if piece == b"[" else b"}") * levels
    error = refusal(piece * levels + b"0" + closing)
    assert error.code is ErrorCode.SERVE_INVALID_BODY
    assert error.at == Position(character=64 * len(piece))


def test_more_values_than_the_limit_are_refused_and_commas_in_strings_are_none() -> None:
    assert read_json(b"[1,2,3]", depth=2, values=3) == [1, 2, 3]
    assert read_json(b'[1,",,,,,,,,,",3]', depth=2, values=3) == [1, ",,,,,,,,,", 3]
    error = refusal(b"[1,2,3,4]", depth=2, values=3)
    assert error.code is ErrorCode.SERVE_TOO_LARGE
    assert error.at == Position(character=6)


@pytest.mark.parametrize("before", [0, 1, 8, 309, 310, 311, 1000])
@pytest.mark.parametrize("digits", [308, 309, 310, 311, 1000])
def test_a_number_that_is_too_long_is_found_wherever_it_stands(before: int, digits: int) -> None:
    data = b'["' + b"x" * before + b'",' + b"1" * digits + b"]"
    if digits <= 309:
        assert read_json(data, depth=9)[1] == int(b"1" * digits)
        return
    with pytest.raises(InputError) as caught:
        read_json(data, depth=9)
    assert (caught.value.code, caught.value.at.path) == (ErrorCode.SERVE_INVALID_BODY, "$[1]")
