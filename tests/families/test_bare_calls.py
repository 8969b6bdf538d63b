"""JSON that no mark announces: read value by value, and text again where it is no call."""

from __future__ import annotations

import pytest

from harmonia.families.call_bodies import Arguments, Ended, Named, Piece, Plain, Unread, call_in
from harmonia.families.json_calls import BareCalls, calls_in
from harmonia.parser.headers import UNDECLARED, Tools

CALL = '{"name": "f", "parameters": {"a": 1}}'
KNOWN = Tools(["f"])


def read(text: str, tools: Tools = UNDECLARED) -> tuple[int, list[Piece]]:
    body = BareCalls(tools)
    taken, pieces = body.feed(text)
    return taken, [*pieces, *body.close()]


@pytest.mark.parametrize("between", ["; ", ";", "\n", ", ", " \n\n"])
def test_values_behind_each_other_are_calls_behind_each_other(between: str) -> None:
    taken, pieces = read(f"{CALL}{between}{CALL}")
    call = Named(0, "f"), Arguments(len(CALL), '{"a": 1}')
    assert pieces == [*call, Ended(0), Named(0, "f"), Arguments(len(between + CALL), '{"a": 1}')]
    assert taken == len(between) + 2 * len(CALL)


def test_words_behind_a_call_are_none_of_it() -> None:
    taken, pieces = read(f"{CALL} and more")
    assert (taken, len(pieces)) == (len(CALL) + 1, 2)


def test_several_calls_of_one_value_share_its_place() -> None:
    listed = f"[{CALL}, {CALL}]"
    _, pieces = read(listed)
    assert [piece.width for piece in pieces if isinstance(piece, Arguments)] == [len(listed), 0]


def test_what_is_no_call_was_text() -> None:
    for text in ('{"name": "f"}', '{"name": 1, "parameters": {}}', f'[{CALL}, {{"x": 1}}]', '{"name": ', '{"name": x}'):
        assert read(text) == (len(text), [Plain(text)])


def test_a_value_ends_the_body_where_it_is_no_call() -> None:
    assert read('{"name": "Bob"} {"name": "Eve"}') == (15, [Plain('{"name": "Bob"}')])


def test_half_a_call_of_a_known_tool_is_a_call() -> None:
    _, pieces = read('{"name": "f", "parameters": {"a": ', KNOWN)
    assert isinstance(pieces[0], Named) and pieces[0].name == "f"


def test_half_a_call_behind_a_call_is_unreadable() -> None:
    _, pieces = read(f'{CALL};{{"name": "f"')
    assert pieces[-2:] == [Ended(0), Unread(';{"name": "f"')]


@pytest.mark.parametrize(
    ("value", "call"),
    [
        ({"name": "f", "arguments": {}}, ("f", "{}")),
        ({"function": {"name": "f", "arguments": '{"a": 1}'}}, ("f", '{"a": 1}')),
        ({"functionCall": {"name": "f", "args": None}}, ("f", "{}")),
        ({"function": "f", "parameters": {"a": "é"}}, ("f", '{"a": "é"}')),
        ({"name": "", "arguments": {}}, None),
        ({"arguments": {}}, None),
        ([], None),
    ],
)
def test_a_call_is_a_name_and_arguments(value: object, call: tuple[str, str] | None) -> None:
    assert call_in(value, needs_arguments=True) == call


def test_a_name_that_no_tool_has_makes_no_call_where_the_tools_are_known() -> None:
    assert calls_in(CALL.replace('"f"', '"g"'), KNOWN) == []
    assert calls_in(f"```json\n{CALL}\n```", KNOWN) == [("f", '{"a": 1}')]
