"""Calls: who is called with what, how sure that is, and what becomes of broken JSON."""

from __future__ import annotations

import sys

import pytest

from harmonia import ErrorCode, InputError, Message, ToolDescription, encode, parse
from harmonia.parts import Call, call_of, split_name


def call_in(text: str, *, as_tokens: bool = True, repair_json: bool = False) -> Call:
    parsed = parse(encode(text, special="all") if as_tokens else text)
    (call,) = [call for message in parsed.messages if (call := call_of(message, repair_json=repair_json)) is not None]
    return call


def header(fields: str) -> str:
    return f"<|start|>assistant<|channel|>{fields}<|message|>"


CALL = header("commentary to=functions.get_weather <|constrain|>json") + '{"city": "Paris"}<|call|>'
BROKEN = header("commentary to=functions.get_weather <|constrain|>json") + '{"city": "Paris"<|call|>'


def test_a_call_has_its_text_verbatim_and_its_value_beside_it() -> None:
    call = call_in(header("commentary to=functions.x <|constrain|>json") + ' {"a" :1}\n<|call|>')
    assert (call.recipient, call.server, call.name) == ("functions.x", None, "x")
    assert call.text == ' {"a" :1}\n'
    assert call.value == {"a": 1} and call.is_json and not call.is_repaired


@pytest.mark.parametrize("channel", ["analysis", "commentary", "final", "thoughts"])
def test_a_message_to_a_tool_is_a_call_on_any_channel(channel: str) -> None:
    assert call_in(header(f"{channel} to=functions.x") + "{}<|call|>").name == "x"


def test_a_message_to_a_tool_without_a_channel_is_a_call() -> None:
    assert call_in("<|start|>assistant to=functions.x<|message|>{}<|call|>").name == "x"


@pytest.mark.parametrize(
    "message",
    [
        Message.assistant("Hi"),
        Message("assistant", "Hi", "commentary", "all"),
        Message("assistant", "Hi", "final", "user"),
        Message.tool("functions.x", "{}"),
        Message.user("Hi").replace(recipient="functions.x"),
    ],
)
def test_other_messages_are_no_calls(message: Message) -> None:
    assert call_of(message) is None


@pytest.mark.parametrize(
    ("recipient", "parts"),
    [
        ("functions.get_weather", (None, "get_weather")),
        ("sql_select", (None, "sql_select")),
        ("python", (None, "python")),
        ("browser.search", ("browser", "search")),
        ("browser.search.deep", ("browser", "search.deep")),
        ("functions.a.b", (None, "a.b")),
        ("mcp__github__list_issues", ("github", "list_issues")),
        ("functions.mcp__github__list__all", ("github", "list__all")),
        ("github___list_issues", ("github", "list_issues")),
        ("functions.github___list_issues", ("github", "list_issues")),
        ("my_tool__x", (None, "my_tool__x")),
        ("mcp__github", (None, "mcp__github")),
        ("___x", (None, "___x")),
        ("x___", (None, "x___")),
        ("functions.", (None, "functions.")),
        ("functions", (None, "functions")),
        (".x", (None, ".x")),
    ],
)
def test_names_are_split_into_server_and_tool(recipient: str, parts: tuple[str | None, str]) -> None:
    assert split_name(recipient) == parts


def test_declared_builtin_and_unknown_tools_are_told_apart() -> None:
    tools = [ToolDescription("get_weather", "Weather."), "sql_select"]
    names = ["functions.get_weather", "sql_select", "python", "browser.search", "functions.other"]
    calls = [call_of(Message.call(name, "{}"), tools) for name in names]
    assert [call and call.kind for call in calls] == ["declared", "declared", "builtin", "builtin", "unknown"]


def test_a_call_read_from_tokens_is_certain_and_the_only_executable_one() -> None:
    call = call_in(CALL)
    assert call.status == "certain" and call.is_executable


def test_a_call_read_from_text_is_unverified() -> None:
    call = call_in(CALL, as_tokens=False)
    assert call.status == "unverified" and not call.is_executable


def test_a_call_that_somebody_wrote_is_unverified() -> None:
    call = call_of(Message.call("functions.x", "{}"))
    assert call is not None and call.status == "unverified" and not call.is_executable


def test_an_edited_call_is_no_longer_certain() -> None:
    (message,) = parse(encode(CALL, special="all")).messages
    call = call_of(message.replace(content="{}"))
    assert call is not None and not call.is_executable


@pytest.mark.parametrize(
    "text",
    [
        CALL.removesuffix("<|call|>"),
        CALL.replace("<|start|>", ""),
        CALL.replace("to=functions", "functions"),
        CALL.replace("to=", "to=functions.a to="),
        CALL.replace("<|message|>", " "),
        CALL.replace("<|channel|>", ""),
        "commentary to=functions.get_weather json{}",
    ],
)
@pytest.mark.parametrize("as_tokens", [True, False])
def test_a_damaged_call_is_guessed(text: str, as_tokens: bool) -> None:
    call = call_in(text, as_tokens=as_tokens)
    assert call.status == "guessed" and not call.is_executable


def test_arguments_that_are_not_json_have_no_value() -> None:
    call = call_in(header("analysis to=python code") + "print(1)<|call|>")
    assert call.text == "print(1)" and call.value is None and not call.is_json and call.is_executable


def test_null_is_json_and_nan_is_not() -> None:
    null, nan = (call_in(header("commentary to=functions.x json") + body + "<|call|>") for body in ("null", "NaN"))
    assert null.is_json and null.value is None
    assert not nan.is_json and nan.value is None


def test_broken_json_is_repaired_on_request_only() -> None:
    call = call_in(BROKEN)
    assert call.value is None and not call.is_repaired
    call = call_in(BROKEN, repair_json=True)
    assert call.value == {"city": "Paris"} and call.is_repaired and not call.is_json
    assert call.text == '{"city": "Paris"'


def test_a_call_with_repaired_arguments_is_guessed() -> None:
    call = call_in(BROKEN, repair_json=True)
    assert call.status == "guessed" and not call.is_executable


def test_json_that_is_not_broken_is_not_repaired() -> None:
    assert call_in(CALL, repair_json=True) == call_in(CALL)


@pytest.mark.parametrize("body", ["", "Paris", '"Paris', '{"a": NaN}', "{" * 5000])
def test_what_cannot_be_repaired_has_no_value(body: str) -> None:
    call = call_in(header("commentary to=functions.x json") + body + "<|call|>", repair_json=True)
    assert call.value is None and not call.is_repaired and call.text == body


def test_code_is_no_broken_json() -> None:
    call = call_in(header("analysis to=python code") + 'print({"a": 1}<|call|>', repair_json=True)
    assert call.value is None and not call.is_repaired and call.is_executable


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "json_repair", None)
    with pytest.raises(InputError) as caught:
        call_in(BROKEN, repair_json=True)
    assert caught.value.code is ErrorCode.PARSE_MISSING_EXTRA
    assert "pip install 'harmonia[repair]'" in caught.value.message
    assert call_in(CALL, repair_json=True).is_executable
