"""The tree of errors."""

from __future__ import annotations

import pickle

import pytest

from harmonia import (
    EngineError,
    ErrorCode,
    HarmonyError,
    InputError,
    Message,
    Position,
    StoreError,
    StreamError,
    ToolError,
    render,
)


@pytest.mark.parametrize("kind", [InputError, StreamError, ToolError, EngineError, StoreError])
def test_every_error_is_a_harmony_error_with_code_and_place(kind: type[HarmonyError]) -> None:
    error = kind(ErrorCode.SCHEMA_INVALID, "wrong", Position(path="$.a", message=3))
    assert isinstance(error, HarmonyError)
    assert (error.code, error.at) == (ErrorCode.SCHEMA_INVALID, Position(message=3, path="$.a"))
    assert str(error) == "wrong (at message 3, path $.a) [schema.invalid]"


def test_an_error_without_a_place_says_none() -> None:
    assert str(InputError(ErrorCode.SCHEMA_INVALID, "wrong")) == "wrong [schema.invalid]"


def test_an_error_survives_the_way_to_another_process() -> None:
    with pytest.raises(InputError) as caught:
        render([Message.user("x"), Message.user("\ud800")])
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), copy.code, copy.message, copy.at) == (
        InputError,
        caught.value.code,
        caught.value.message,
        Position(character=0, message=1),
    )
