"""What stands behind [TOOL_CALLS], in pieces."""

from __future__ import annotations

import pytest

from harmonia.families.call_bodies import Arguments, Named, Piece, Unread
from harmonia.families.mistral import mistral_body
from harmonia.families.registry import DEFAULT_READING


def read(text: str) -> tuple[int, list[Piece]]:
    body = mistral_body(DEFAULT_READING, "[TOOL_CALLS]")
    taken, pieces = body.feed(text)
    return taken, [*pieces, *body.close()]


@pytest.mark.parametrize("head", ["f[ARGS]", "f", " f [CALL_ID]abc123XYZ[ARGS]", "my.tool-1[ARGS]\n"])
def test_a_name_and_an_object_are_a_call_that_ends_itself(head: str) -> None:
    taken, pieces = read(f'{head}{{"a": "}}"}} and more')
    name = head.strip().partition("[")[0].strip()
    assert pieces == [Named(len(head), name), Arguments(10, '{"a": "}"}')]
    assert taken == len(head) + 10


def test_a_call_that_is_over_takes_no_more() -> None:
    body = mistral_body(DEFAULT_READING, "[TOOL_CALLS]")
    body.feed("f{}")
    taken, pieces = body.feed("{}")
    assert (taken, list(pieces)) == (0, [])


def test_arguments_that_are_no_object_stay_as_they_are_written() -> None:
    assert read('f[ARGS]"Oslo" \n')[1] == [Named(7, "f"), Arguments(6, '"Oslo"')]


@pytest.mark.parametrize("text", ["two words", "x" * 1000, "a b {}"])
def test_anything_else_is_unreadable(text: str) -> None:
    assert read(text) == (len(text), [Unread(text)])
