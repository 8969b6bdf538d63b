"""Calls written as Python are read and never evaluated."""

from __future__ import annotations

import json

import pytest

from harmonia.families import python_calls
from harmonia.families.call_bodies import HeldBody, Named, Plain, ReadCall, Unread
from harmonia.families.python_calls import parameter_names, read_python_calls
from harmonia.messages import ToolDescription

PARAMETERS = {"convert": ["amount", "currency", "new_currency"]}


def read(text: str) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in read_python_calls(text, PARAMETERS)]


def arguments_of(text: str) -> object:
    ((_, arguments),) = read(text)
    return json.loads(arguments)


def test_literals_of_every_kind_become_json() -> None:
    call = "f(a=1, b=-2.5, c='x', d=\"y\", e=True, f=None, g=[1, (2,)], h={'k': {'l': 'é'}}, i=true, j=null)"
    assert arguments_of(call) == {
        "a": 1, "b": -2.5, "c": "x", "d": "y", "e": True, "f": None, "g": [1, [2]], "h": {"k": {"l": "é"}}, "i": True,
        "j": None,
    }  # fmt: skip


def test_an_argument_without_a_name_takes_the_name_of_its_parameter() -> None:
    assert arguments_of("convert(3, 'USD', new_currency='EUR')") == {
        "amount": 3,
        "currency": "USD",
        "new_currency": "EUR",
    }


@pytest.mark.parametrize(
    "arguments",
    [
        "3", "x=y", "x=1 + 1", "x=f'{1}'", "x=open('a')", "x=__import__('os').system('true')", "**{'a': 1}", "x={1: 2}",
        "x=[i for i in y]", "x=lambda: 1", "x=1e999", "x=b'a'", "x=..., y=1", "x=1j",
    ],
)  # fmt: skip
def test_what_would_have_to_be_worked_out_stays_as_it_is_written(arguments: str) -> None:
    assert read(f"f({arguments})") == [("f", arguments)]


def test_an_argument_that_is_given_twice_is_not_decided() -> None:
    assert read("convert(3, amount=4)") == [("convert", "3, amount=4")]


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "import os", "1 + f(1)", "def f(): pass", "f(", "f)(", "lambda: f()", "f()()", "[f(), 1]", "(" * 5000,
        "a\0b", "f(x=" + "9" * 5000 + ")", "." * 3000, "a" + ".b" * 50_000 + "()",
    ],
)  # fmt: skip
def test_code_that_is_no_call_is_no_call(text: str) -> None:
    assert [call for call in read(text) if len(call[0]) < 1000] == []


def test_what_gemini_wraps_its_calls_in_is_taken_off() -> None:
    assert read("print(default_api.get_time())") == [("get_time", "{}")]
    assert read("result = functions.get_time()") == [("get_time", "{}")]
    assert read("brave_search.call(query='x')") == [("brave_search", '{"query": "x"}')]
    assert read("spotify.play(a=1)") == [("spotify.play", '{"a": 1}')]


def test_every_call_has_its_place_in_the_text() -> None:
    text = '  f(a="é😀")\nprint(\n  g(b=1),\n)\r\n[h(), i(c="x")]'
    calls = read_python_calls(text, {})
    assert [(call.name, text[call.arguments_start : call.arguments_end]) for call in calls] == [
        ("f", 'a="é😀"'),
        ("g", "b=1"),
        ("h", ""),
        ("i", 'c="x"'),
    ]
    assert all(text[call.start :].startswith(call.name) for call in calls)


def test_parameters_keep_the_order_in_which_they_were_declared() -> None:
    described = ToolDescription("f", None, {"type": "object", "properties": {"z": {}, "a": {}}})
    assert parameter_names([described, ToolDescription("g"), ToolDescription("h", None, True)]) == {
        "f": ["z", "a"],
        "g": [],
        "h": [],
    }


def body(text: str, *, may_be_text: bool = False) -> HeldBody:
    def read_calls(code: str) -> list[ReadCall] | None:
        return read_python_calls(code, {}) or (None if may_be_text else [])

    held = HeldBody(read_calls, is_python=True)
    held.feed(text)
    return held


def test_a_list_ends_with_its_bracket_also_where_texts_have_some() -> None:
    text = "[f(a=']', b=\"[\", c='it\\'s]')] and more"
    held = HeldBody(lambda code: read_python_calls(code, {}), is_python=True, ends_itself=True)
    taken, _ = held.feed(text)
    assert text[:taken] == text.removesuffix(" and more")
    assert held.feed("]") == (0, ())


def test_a_quotation_mark_that_is_never_closed_ends_with_its_line() -> None:
    assert body("f(a='").is_quoting
    assert not body("f(a='\n").is_quoting


def test_what_is_no_call_is_unreadable_or_text() -> None:
    assert body("no call").close() == [Unread("no call")]
    assert body("[x(", may_be_text=True).close() == [Plain("[x(")]
    assert isinstance(body("f()").close()[0], Named)


def test_a_tool_whose_name_python_does_not_take_is_read_either_way() -> None:
    names = {"get-weather": ["city"], "3d-view": [], "get-time": [], "get_time": []}

    def called(text: str) -> list[tuple[str, str]]:
        return [(call.name, call.arguments) for call in read_python_calls(text, names)]

    assert called("get-weather('Oslo')") == called("get_weather('Oslo')") == [("get-weather", '{"city": "Oslo"}')]
    assert called("[3d-view(), get_time()]") == [("3d-view", "{}"), ("get_time", "{}")]
    # Texts that have the name in them stay as they are.
    assert called('get-weather(city="get-weather(1) \'get-weather(2)")') == [
        ("get-weather", '{"city": "get-weather(1) \'get-weather(2)"}')
    ]
    assert read_python_calls("get-weather()", {}) == []


def test_places_in_a_long_line_are_found_without_going_through_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = 0
    bytes_of = python_calls._utf8_bytes  # pyright: ignore[reportPrivateUsage] -- the work is counted

    def counted(character: str) -> int:
        nonlocal looked_at
        looked_at += 1
        return bytes_of(character)

    monkeypatch.setattr(python_calls, "_utf8_bytes", counted)
    text = "[" + ", ".join(['f(a="é😀")'] * 300) + "]"
    calls = read_python_calls(text, {})
    assert {text[call.arguments_start : call.arguments_end] for call in calls} == {'a="é😀"'} and len(calls) == 300
    assert looked_at == len(text)
    looked_at = 0
    assert len(read_python_calls("[" + "f(), " * 300 + "]", {})) == 300 and looked_at == 0
