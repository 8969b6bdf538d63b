"""What clients are told of a field that is wrong: words of JSON, and what would have been right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harmonia.errors import ErrorCode, InputError
from harmonia.serve.chat_completions.request import read_request as read_chat
from harmonia.serve.responses.request import read_request as read_response
from harmonia.serve.wire.validation import check_query, limit_of, one_of

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
RESPONSE: dict[str, Any] = {"input": "Hi"}


def told(read: Callable[[object], object], body: Any) -> tuple[str | None, str]:
    with pytest.raises(InputError) as raised:
        read(body)
    return raised.value.at.path, raised.value.message


@pytest.mark.parametrize(
    ("read", "body", "path", "words"),
    [
        (read_chat, [1], "$", ["the body must be a JSON object"]),
        (read_response, [1], "$", ["the body must be a JSON object"]),
        (
            read_response,
            {**RESPONSE, "reasoning": {"effort": "turbo"}},
            "$.reasoning.effort",
            ["'turbo'", "low, ", "max"],
        ),
        (read_chat, {**CHAT, "verbosity": "loud"}, "$.verbosity", ["'loud'", "low", "medium", "high"]),
        (read_response, {**RESPONSE, "temperature": "hot"}, "$.temperature", ["a number or null, got a string"]),
        (read_response, {**RESPONSE, "temperature": 3}, "$.temperature", ["a number of at most 2"]),
        (read_response, {**RESPONSE, "stream": 1}, "$.stream", ["true or false or null, got a whole number"]),
        (read_chat, {**CHAT, "user": "x" * 600}, "$.user", ["a string of at most 512 characters"]),
        (read_chat, {"model": "m", "messages": []}, "$.messages", ["a list of at least 1 entries"]),
        (read_chat, {"messages": CHAT["messages"]}, "$.model", ["model is missing"]),
        (read_chat, {**CHAT, "temprature": 1}, "$.temprature", ["did you mean 'temperature'?"]),
        (read_response, {**RESPONSE, "text": {"formt": 1}}, "$.text.formt", ["did you mean 'format'?"]),
        (read_response, {"messages": []}, "$.messages", ["input", "/v1/chat/completions"]),
        (read_chat, {"model": "m", "input": "Hi"}, "$.input", ["messages", "/v1/responses"]),
        (
            read_chat,
            {**CHAT, "response_format": {"type": "json_schema"}},
            "$.response_format.json_schema",
            ["json_schema is missing"],
        ),
    ],
)
def test_a_field_that_is_wrong_is_told_with_what_would_be_right(
    read: Callable[[object], object], body: Any, path: str, words: list[str]
) -> None:
    where, message = told(read, body)
    assert where == path
    assert "`" not in message  # msgspec's sign for the names of types
    for word in words:
        assert word in message


def test_an_empty_text_is_something_that_was_said() -> None:
    assert read_response({"input": ""}).input == ""


# ── queries ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_limit_is_a_number_in_its_range() -> None:
    assert [limit_of(query, 100) for query in ({}, {"limit": ""}, {"limit": "7"}, {"limit": "100"})] == [20, 20, 7, 100]


# The digits behind the first nine count too, and a thousand of them are no error of the server's.
@pytest.mark.parametrize("wrong", ["0", "101", "-1", "1.5", "x", "²", "00000005099999", "0000000" + "50" + "9" * 5000])
def test_no_other_limit_is_one(wrong: str) -> None:
    with pytest.raises(InputError) as caught:
        limit_of({"limit": wrong}, 100)
    assert (caught.value.code, caught.value.at.path) == (ErrorCode.SERVE_INVALID_FIELD, "$.limit")


def test_parameters_are_known_and_there_once() -> None:
    check_query({"after": "x"}, ("after",))
    with pytest.raises(InputError) as caught:
        check_query({"aftr": "x"}, ("after",))
    assert (caught.value.code, caught.value.at.path) == (ErrorCode.SERVE_UNKNOWN_FIELD, "$.aftr")
    with pytest.raises(InputError) as caught:
        one_of({"after": ["x", "y"]}, "after")
    assert (caught.value.code, caught.value.at.path) == (ErrorCode.SERVE_INVALID_FIELD, "$.after")
