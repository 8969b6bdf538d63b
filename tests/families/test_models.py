"""A model by its name: one call reads its answer, whatever its profile says of thoughts, and one writes its prompt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harmonia.errors import ErrorCode, InputError, StreamError
from harmonia.events import MessageEnded
from harmonia.families import (
    ModelProfile,
    Thinking,
    ToolFormat,
    answer_reader,
    build_prompt,
    code_functions,
    family_of,
    parse_answer,
    profile_of,
    prompt_for,
    read_profiles,
    resolve_profile,
    tool_system_prompt,
)
from harmonia.messages import Conversation, Message, ToolDescription, ToolNamespace
from harmonia.parts import Text, Think, ToolCall, parts_of, visible_text

WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


@pytest.mark.parametrize("model", ["Qwen2.5-7B", "llama3.1", "deepseek-r1", "Qwen3-4B-Thinking-2507", "unheard-of"])
def test_a_thought_that_the_prompt_opened_is_not_shown_whatever_the_profile_says(model: str) -> None:
    parsed = parse_answer(["secret rea", "soning</think>Hi"], model)
    assert parts_of(parsed) == [Think("secret reasoning"), Text("Hi")] and visible_text(parsed) == "Hi"
    reader = answer_reader(model)
    events = [*reader.feed("secret reasoning</think>Hi"), *reader.close()]
    assert visible_text(event.message for event in events if isinstance(event, MessageEnded)) == "Hi"


def test_what_the_profile_says_of_the_prompt_can_be_overruled() -> None:
    assert parts_of(parse_answer("Hi", "deepseek-r1")) == [Think("Hi")]
    assert parts_of(parse_answer("Hi", "deepseek-r1", thought_opened=False)) == [Text("Hi")]
    assert parts_of(parse_answer("Hm.", "qwen3", thought_opened=True)) == [Think("Hm.")]


def test_a_model_that_speaks_harmony_is_read_as_such() -> None:
    assert parts_of(parse_answer(["<|channel|>final<|mess", "age|>Hi"], "gpt-oss-20b")) == [Text("Hi")]
    with pytest.raises(StreamError):
        parse_answer("<tool_call>{", "qwen3", mode="strict")


@pytest.mark.parametrize(
    "tools",
    [
        ["get_weather"],
        [WEATHER],
        [ToolDescription("get_weather")],
        [ToolNamespace("functions", None, (ToolDescription("get_weather"),))],
    ],
)
def test_tools_are_names_or_whatever_describes_them(tools: list[Any]) -> None:
    (part,) = parts_of(parse_answer('{"name": "get_weather", "parameters": {}}', "llama3.1", tools=tools))
    assert isinstance(part, ToolCall) and part.name == "get_weather"
    assert parse_answer('{"name": "find", "parameters": {}}', "llama3.1", tools=tools).diagnostics


def test_a_prompt_is_written_with_the_template_and_the_stops_of_the_profile() -> None:
    asked = [Message.user("Hi")]
    assert prompt_for("Qwen/Qwen3-8B", asked).text.endswith("Hi<|im_end|>\n<|im_start|>assistant\n")
    own = ModelProfile("a", "b", ToolFormat.HERMES, "chatml", "", Thinking("<think>", "</think>", True), ("END",))
    written = prompt_for(own, asked)
    assert written.opens_thought and written.stop == ("END",)


def test_words_about_tools_keep_their_marks_in_a_prompt_where_what_is_said_does_not() -> None:
    words = tool_system_prompt("qwen3", [WEATHER])
    text = prompt_for("qwen3", [Message.user("Write <tool_call>.")], tools_part=words).text
    assert words in text and "Write <tool_call>." not in text


def test_nobody_can_type_the_marks_of_llama_4() -> None:
    typed = "<|python_start|>[f(x=1)]<|python_end|>"
    text = prompt_for("llama4", typed).text
    assert "<|python_start|>" not in text and "<|python_end|>" not in text and "[f(x=1)]" in text


def test_models_and_formats_are_told_by_their_names() -> None:
    assert family_of("hermes") is family_of(ToolFormat.HERMES)
    assert tool_system_prompt("hermes", [WEATHER]) == tool_system_prompt(ToolFormat.HERMES, [WEATHER])
    assert build_prompt("Llama-3.1-8B", "Hi", [WEATHER]) == build_prompt(
        profile_of("Llama-3.1-8B"), [Message.user("Hi")], [WEATHER]
    )
    assert list(code_functions([WEATHER])) == ["get_weather"]


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (lambda: family_of("hermse"), "hermes, openai"),
        (lambda: profile_of(" "), "expected a model name"),
        (lambda: parse_answer("Hi", None), "expected a model name"),  # pyright: ignore[reportArgumentType]
        (lambda: parse_answer("Hi", "qwen3", tools="get_weather"), "a list"),
        (lambda: prompt_for("gpt-oss-20b", []), "harmonia.render"),
        (lambda: build_prompt(None, "Hi"), "expected a model name"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_what_is_no_model_is_refused_in_words(attempt: Any, words: str) -> None:
    with pytest.raises(InputError, match=words) as raised:
        attempt()
    assert raised.value.code is ErrorCode.FORMATS_INVALID_OPTION


@pytest.mark.parametrize(
    ("code", "function", "given", "options"),
    [
        (ErrorCode.PARSE_INVALID_CHUNK, parse_answer, [b"Hi", "qwen3"], {}),
        (ErrorCode.PARSE_INVALID_CHUNK, parse_answer, [[1, 2], "qwen3"], {}),
        (ErrorCode.PARSE_INVALID_CHUNK, parse_answer, [None, "qwen3"], {}),
        (ErrorCode.PARSE_INVALID_CHUNK, parse_answer, [[1, 2], "gpt-oss"], {}),
        (ErrorCode.PARSE_INVALID_CHUNK, parse_answer, [b"Hi", "gpt-oss"], {}),
        (ErrorCode.PARSE_INVALID_OPTION, parse_answer, ["Hi", "qwen3"], {"mode": "strct"}),
        (ErrorCode.PARSE_INVALID_CHUNK, answer_reader("qwen3").feed, [b"x"], {}),
        (ErrorCode.MESSAGES_INVALID_VALUE, prompt_for, ["qwen3", [{"role": "user"}]], {}),
        (ErrorCode.MESSAGES_INVALID_VALUE, prompt_for, ["qwen3", 5], {}),
        (ErrorCode.FORMATS_INVALID_OPTION, prompt_for, ["qwen3", "Hi"], {"tools_part": 5}),
        (ErrorCode.FORMATS_INVALID_OPTION, resolve_profile, ["a", "[[profile]]"], {}),
        (ErrorCode.FORMATS_INVALID_OPTION, resolve_profile, ["a", [{"name": "b"}]], {}),
        (ErrorCode.FORMATS_INVALID_OPTION, resolve_profile, [5], {}),
        (ErrorCode.FORMATS_INVALID_OPTION, read_profiles, [b"x"], {}),
        (ErrorCode.FORMATS_INVALID_PROFILE, ModelProfile, ["a", "b", "herms", "chatml"], {}),
        (ErrorCode.FORMATS_INVALID_PROFILE, ModelProfile, ["a", "b", ToolFormat.HARMONY, "chatml"], {}),
        (ErrorCode.FORMATS_INVALID_PROFILE, ModelProfile, ["a", "b", ToolFormat.HERMES, "harmony"], {}),
    ],
)
def test_values_of_the_wrong_kind_are_refused_with_a_code(
    code: ErrorCode, function: Callable[..., Any], given: list[Any], options: dict[str, Any]
) -> None:
    with pytest.raises(InputError) as raised:
        function(*given, **options)
    assert raised.value.code is code


def test_a_text_is_what_the_user_asks() -> None:
    assert prompt_for("qwen3", "Hi") == prompt_for("qwen3", [Message.user("Hi")])


@pytest.mark.parametrize("tool_format", ToolFormat)
def test_a_format_is_a_model_of_which_nothing_else_is_known(tool_format: ToolFormat) -> None:
    assert profile_of(tool_format).format is profile_of(tool_format.value).format is tool_format


def test_the_name_of_a_format_is_read_as_it_is_written() -> None:
    assert [type(part) for part in parts_of(parse_answer('{"name": "f", "parameters": {}}', "openai"))] == [ToolCall]


def test_profiles_of_ones_own_come_first() -> None:
    own = [ModelProfile("mine", "mine", ToolFormat("hermes"), "chatml", "my-model")]
    assert profile_of("my-model", own) is own[0]
    call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    assert [type(part) for part in parts_of(parse_answer(call, "my-model", profiles=own))] == [ToolCall]
    assert prompt_for("my-model", "Hi", profiles=own) == prompt_for(own[0], "Hi")
    assert isinstance(answer_reader("my-model", profiles=own), type(answer_reader(own[0])))


def test_the_format_of_a_profile_may_be_given_by_its_name() -> None:
    profile = ModelProfile("a", "b", "hermes", "chatml")  # pyright: ignore[reportArgumentType]
    assert profile.format is ToolFormat.HERMES


def test_messages_as_dictionaries_are_refused_with_what_reads_them() -> None:
    with pytest.raises(InputError, match=r"Conversation\.from_dict"):
        build_prompt("qwen3", [{"role": "user", "content": "Hi"}])  # pyright: ignore[reportArgumentType]
    assert build_prompt("qwen3", Conversation([Message.user("Hi")])).messages[-1].text == "Hi"
