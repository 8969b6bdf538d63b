"""The one JSON writer: what each of its forms accepts, how paths are spelled, what msgspec's errors say."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.json_codec import encode_any, encode_bytes, encode_json, json_path, pack, split_validation_error, unpack

HUGE = 2**80
HALF = "\ud800"


class Shape(msgspec.Struct, forbid_unknown_fields=True):
    sides: list[int] = []
    names: dict[int, str] = {}


def test_every_writer_writes_integers_beyond_64_bits() -> None:
    value = {"a": [HUGE, "naïve"]}
    written = f'{{"a":[{HUGE},"naïve"]}}'
    assert encode_json(value) == encode_any(value) == encode_bytes(value).decode() == written
    assert encode_bytes({"shape": Shape([1]), "n": HUGE}) == b'{"shape":{"sides":[1],"names":{}},"n":%d}' % HUGE


def test_the_strict_writer_refuses_what_is_not_json() -> None:
    at = Position(path="$.schema")
    for value in (math.nan, math.inf, {1, 2}):
        with pytest.raises(InputError) as caught:
            encode_json(value, code=ErrorCode.SCHEMA_INVALID, at=at)
        assert (caught.value.code, caught.value.at) == (ErrorCode.SCHEMA_INVALID, at)
    with pytest.raises(InputError) as caught:
        encode_json([HALF])
    assert caught.value.code is ErrorCode.VOCABULARY_LONE_SURROGATE


def test_the_other_writers_escape_half_of_a_surrogate_pair() -> None:
    assert encode_any(["é", HALF]) == '["\\u00e9","\\ud800"]'
    assert json.loads(encode_bytes([HALF])) == [HALF]
    assert encode_any([math.inf]) == "[Infinity]"


@pytest.mark.parametrize("value", [{"a": [1, None, "x"]}, [HUGE, {"b": 0.5}]])
def test_what_was_packed_is_unpacked(value: Any) -> None:
    decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder()
    assert unpack(pack(value), decoder) == value


def test_paths_are_rfc_9535_paths_that_can_be_written() -> None:
    assert json_path([]) == "$"
    assert json_path(["a", 0, "b c", "_d"], "$.x") == '$.x.a[0]["b c"]._d'
    assert json_path(["$defs", "naïve", HALF]) == '$["$defs"].naïve["\\ud800"]'


@pytest.mark.parametrize(
    ("value", "message", "path"),
    [
        ({"sides": ["a"]}, "expected a whole number, got a string", "$.sides[0]"),
        ({"names": {"a": "b"}}, "expected a whole number, got a string", "$.names"),
        (3, "expected an object, got a whole number", "$"),
        ({"a - at `b": 1}, "unknown field `a - at `b`", "$"),
    ],
)
def test_a_validation_error_is_split_into_message_and_path(value: object, message: str, path: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(value, Shape)
    assert split_validation_error(caught.value) == (message, path)
