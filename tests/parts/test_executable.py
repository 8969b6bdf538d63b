"""Law 5: only what was certainly a call, whole and to a known tool, may be run without asking anybody."""

from __future__ import annotations

import pytest

from harmonia import Call, call_of, encode, parse

CALL = '<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{"cmd": "ls"}<|call|>'


def read(text: str, *, tools: list[str] | None = None, as_tokens: bool = True, stop_swallowed: bool = False) -> Call:
    data = encode(text, special="all") if as_tokens else text
    call = call_of(parse(data, role="assistant", tools=tools, stop_swallowed=stop_swallowed).messages[0], tools)
    assert call is not None
    return call


@pytest.mark.parametrize("tools", [None, ["bash"], ["functions.bash"]])
def test_a_whole_call_from_token_ids_is_executable(tools: list[str] | None) -> None:
    call = read(CALL, tools=tools)
    assert (call.status, call.is_executable) == ("certain", True)


def test_a_call_from_text_is_unverified() -> None:
    call = read(CALL, as_tokens=False)
    assert (call.status, call.is_executable) == ("unverified", False)


def test_a_call_without_its_stop_may_have_been_cut_off() -> None:
    cut = "<|channel|>commentary to=functions.bash code<|message|>rm -rf /"
    assert (read(cut).status, read(cut).is_executable) == ("guessed", False)
    call = read(cut, stop_swallowed=True)
    assert (call.status, call.is_executable) == ("unverified", False)


def test_arguments_that_are_not_the_json_they_promise_are_not_run() -> None:
    call = read(CALL.replace("}", "]"))
    assert (call.status, call.is_json, call.is_executable) == ("certain", False, False)


def test_free_form_arguments_are_run() -> None:
    assert read(CALL.replace(" <|constrain|>json", " code").replace('{"cmd": "ls"}', "ls -l")).is_executable


@pytest.mark.parametrize("tools", [[], ["other"]])
def test_a_tool_that_was_not_declared_is_not_run(tools: list[str]) -> None:
    call = read(CALL, tools=tools)
    assert (call.kind, call.status, call.is_executable) == ("unknown", "certain", False)


@pytest.mark.parametrize(
    "damaged",
    [
        CALL.replace("<|channel|>", "<|channel|>commentary<|channel|>"),
        CALL.replace("to=", "to= "),
        CALL.replace("functions.bash", "functions.bash functions.bash"),
        CALL.replace("to=functions.bash", "functions.bash"),
        "assistant" + CALL,
        CALL.removesuffix("<|call|>") + "<|start|>assistant<|channel|>final<|message|>Done.<|return|>",
    ],
)
def test_a_call_with_a_mended_header_is_not_run(damaged: str) -> None:
    call = read(damaged)
    assert (call.recipient.startswith("functions.bash"), call.is_executable) == (True, False)
