"""Results: what a tool gave as text, what is cut, what an error becomes, and the message of it."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import math
import re
import types
import uuid
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harmonia import ErrorCode, Message, Position, Role, ToolError, parse, render
from harmonia.run.tools import ToolResult, error_result, result_message, result_of

ANY_TEXT = st.text(st.characters(codec=None, categories=None))


class Colour(enum.Enum):
    RED = "red"


class Pair(NamedTuple):
    left: int
    right: str


@dataclasses.dataclass
class Place:
    name: str
    seen: datetime.date | None = None


class Row(msgspec.Struct, rename="camel"):
    row_count: int


class Model(pydantic.BaseModel):
    when: datetime.datetime
    places: list[str] = []


class Odd:
    pass


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n", "as it is\n"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        (2**70, str(2**70)),
        (1.5, "1.5"),
        ([1, "zwölf"], '[1, "zwölf"]'),
        ({"a": None}, '{"a": null}'),
        ({1: "a"}, '{"1": "a"}'),
        (Colour.RED, '"red"'),
        ({"c": Colour.RED}, '{"c": "red"}'),
        (Pair(1, "b"), '[1, "b"]'),
        (frozenset([1]), "[1]"),
        (Place("Rome", datetime.date(2024, 5, 1)), '{"name": "Rome", "seen": "2024-05-01"}'),
        (Row(3), '{"rowCount": 3}'),
        (Model(when=datetime.datetime(2024, 5, 1, 12)), '{"when": "2024-05-01T12:00:00", "places": []}'),
        (
            {"rows": [Model(when=datetime.datetime(2024, 5, 1))]},
            '{"rows": [{"when": "2024-05-01T00:00:00", "places": []}]}',
        ),
        (datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC), '"2024-05-01T00:00:00Z"'),
        (decimal.Decimal("1.10"), '"1.10"'),
        (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (PurePosixPath("a/b"), '"a/b"'),
        (types.MappingProxyType({"a": 1}), '{"a": 1}'),
        (b"text \xc3\xa4", "text ä"),
        (b"\xff\x00", "/wA="),
        ({"data": b"\xff\x00", "name": b"x"}, '{"data": "/wA=", "name": "x"}'),
        (ToolResult("done", is_error=True), "done"),
    ],
)
def test_a_value_becomes_text(value: object, text: str) -> None:
    assert result_of(value).text == text


def test_a_result_stays_an_error() -> None:
    assert result_of(ToolResult("no", is_error=True)) == ToolResult("no", is_error=True)


def cyclic() -> list[Any]:
    around: list[Any] = []
    around.append(around)
    return around


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (math.nan, "$"),
        ({"rows": [1, {"mean": math.inf}]}, "$.rows[1].mean"),
        (Odd(), None),
        ([Odd], None),
        (cyclic(), None),
    ],
)
def test_what_json_does_not_have_is_refused_with_its_place(value: object, path: str | None) -> None:
    with pytest.raises(ToolError) as caught:
        result_of(value)
    assert (caught.value.code, caught.value.at) == (ErrorCode.TOOL_FAILED, Position(path=path))


@given(ANY_TEXT.filter(lambda text: not re.search("[\ud800-\udfff]", text)))
def test_text_is_verbatim(text: str) -> None:
    assert result_of(text, None) == ToolResult(text)


@given(ANY_TEXT, st.one_of(st.none(), st.integers(0, 100)))
def test_every_result_can_be_rendered(text: str, limit_chars: int | None) -> None:
    for result in (
        result_of(text, limit_chars),
        result_of([text], limit_chars),
        error_result(ToolError(ErrorCode.TOOL_FAILED, text), limit_chars),
    ):
        assert render([Message.tool("functions.x", result.text)]).tokens


@given(st.text(min_size=1), st.integers(50, 200), st.integers(1, 30))
def test_a_long_result_keeps_its_ends_and_says_what_was_cut(text: str, limit_chars: int, times: int) -> None:
    text *= times
    result = result_of(text, limit_chars)
    if len(text) <= limit_chars:
        assert result == ToolResult(text)
        return
    assert len(result.text) <= limit_chars
    note = f"\n[… {result.cut_chars:,} of {len(text):,} characters cut …]\n"
    assert note in result.text
    head, _, tail = result.text.partition(note)
    assert text.startswith(head) and text.endswith(tail)
    assert len(head) + len(tail) + result.cut_chars == len(text)


@given(ANY_TEXT)
def test_an_error_is_json_whatever_it_says(message: str) -> None:
    result = error_result(ToolError(ErrorCode.TOOL_FAILED, message, Position(path="$.a")))
    told = json.loads(result.text)
    assert set(told) == {"error", "code", "at"}
    assert (told["code"], told["at"], result.is_error) == ("tool.failed", "$.a", True)
    assert told["error"] == message or re.search("[\ud800-\udfff]", message)


def test_a_long_error_is_cut_inside_its_json() -> None:
    result = error_result(ToolError(ErrorCode.TOOL_FAILED, '"' * 1000), 100)
    assert len(json.loads(result.text)["error"]) <= 100
    assert result.cut_chars > 900


@pytest.mark.parametrize(
    ("recipient", "channel", "author", "result_channel"),
    [
        ("functions.x", "commentary", "functions.x", "commentary"),
        ("functions.x", "analysis", "functions.x", "commentary"),
        ("shell", None, "shell", "commentary"),
        ("shell", "analysis", "shell", "commentary"),
        ("user", "analysis", "functions.user", "commentary"),
        ("python", "analysis", "python", "analysis"),
        ("python", "commentary", "python", "commentary"),
        ("python", None, "python", "commentary"),
        ("browser.search", "analysis", "browser.search", "analysis"),
        ("python", "final", "python", "commentary"),
        ("python", "<odd", "python", "commentary"),
        ("server.tool", "analysis", "server.tool", "commentary"),
    ],
)
def test_the_built_in_tools_answer_on_the_channel_of_the_call(
    recipient: str, channel: str | None, author: str, result_channel: str
) -> None:
    message = result_message(recipient, ToolResult("4"), channel)
    assert message == Message.tool(author, "4", channel=result_channel)


@given(ANY_TEXT | st.builds("{}{}".format, st.sampled_from(["system", "User", "TOOL", "final", "to="]), ANY_TEXT))
@example("SYSTEM")
@example("user_info")
@example("Final")
def test_an_answer_to_anything_can_be_rendered_and_read_back(recipient: str) -> None:
    message = result_message(recipient, ToolResult("4"), "analysis")
    read = parse(render([message], None).tokens, mode="strict").messages
    assert [(each.role, each.name, each.text) for each in read] == [(Role.TOOL, message.name, "4")]
