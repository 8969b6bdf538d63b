"""The body of a chat completion: each field of the API is honoured, or refused by its name."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

from harmonia import HarmonyError, InputError, ReasoningEffort
from harmonia.errors import ErrorCode
from harmonia.run.engines import Request
from harmonia.run.engines.demo import DemoEngine
from harmonia.run.sampling import Model
from harmonia.serve.chat_completions.request import CreateCompletion, read_request
from harmonia.serve.config.settings import Limits, Settings
from tests.support.engines.scripted import ScriptedEngine, calls, final
from tests.support.servers.chat_service import HI, WEATHER, ask, body, completions_of, fold, stream

INVALID, UNKNOWN, UNSUPPORTED, TOO_LARGE = (
    ErrorCode.SERVE_INVALID_FIELD,
    ErrorCode.SERVE_UNKNOWN_FIELD,
    ErrorCode.SERVE_UNSUPPORTED,
    ErrorCode.SERVE_TOO_LARGE,
)
UNKNOWN_CALL = ErrorCode.INTERCHANGE_UNKNOWN_CALL
ODD_FORM: Any = {"type": "json_schema", "json_schema": {"name": "a b"}}
NO_GRAMMAR: Any = {"type": "custom", "custom": {"name": "x", "format": {"type": "grammar"}}}
NO_CUSTOM: Any = {"type": "custom", "custom": {"name": "get_weather"}}
ODD_ALLOWED: Any = {"type": "allowed_tools", "allowed_tools": {"tools": [5]}}
NAMED: Any = {"type": "function", "function": {"name": "get_weather"}}


def error_of(value: Any, settings: Settings | None = None, engine: Model | None = None) -> tuple[ErrorCode, str | None]:
    with pytest.raises(InputError) as raised:
        ask(completions_of(engine or ScriptedEngine(final("Yes.")), settings), value)
    return raised.value.code, raised.value.at.path


def request_of(**fields: Any) -> Request:
    """What the engine is asked for."""
    engine = ScriptedEngine(final("{}" if "response_format" in fields else "Yes."))
    ask(completions_of(engine), body(**fields))
    return engine.requests[0]


def test_every_field_of_the_api_is_known() -> None:
    known = {field for field in CreateCompletion.__struct_fields__}
    assert set(get_type_hints(CompletionCreateParamsStreaming)) <= known
    assert known - set(get_type_hints(CompletionCreateParamsStreaming)) == {"top_k", "min_p", "repetition_penalty"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", 0.5),
        ("top_p", 0.5),
        ("top_k", 5),
        ("min_p", 0.1),
        ("presence_penalty", -1.5),
        ("frequency_penalty", 2),
        ("repetition_penalty", 1.1),
        ("seed", -7),
    ],
)
def test_the_engine_samples_as_it_is_asked_to(field: str, value: float) -> None:
    assert getattr(request_of(**{field: value}).sampling, field) == value


def test_the_smallest_limit_of_tokens_counts() -> None:
    assert request_of().sampling.max_tokens is None
    assert request_of(max_tokens=7).sampling.max_tokens == 7
    assert request_of(max_completion_tokens=7).sampling.max_tokens == 7
    assert request_of(max_completion_tokens=9, max_tokens=8).sampling.max_tokens == 8
    engine = ScriptedEngine(final("Yes."))
    ask(completions_of(engine, Settings(limits=Limits(output_tokens=5))), body(max_tokens=7))
    assert engine.requests[0].sampling.max_tokens == 5


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("none", "low"),
        ("minimal", "low"),
        ("low", "low"),
        ("medium", "medium"),
        ("high", "high"),
        ("xhigh", "high"),
        ("max", "high"),
    ],
)
def test_an_effort_that_harmony_has_not_is_the_nearest_that_it_has(given: str, meant: str) -> None:
    assert request_of(reasoning_effort=given).reasoning_effort == ReasoningEffort(meant)


def test_choices_have_different_seeds_and_stay_in_range() -> None:
    engine = ScriptedEngine(final("Yes."))
    ask(completions_of(engine), body(n=3, seed=2**63 - 1))
    assert [request.sampling.seed for request in engine.requests] == [2**63 - 1, -(2**63), -(2**63) + 1]


def test_the_form_of_the_answer_is_asked_for() -> None:
    schema: Any = {"type": "object", "properties": {"a": {"type": "integer"}}}
    named: Any = {"name": "sum", "description": "A sum.", "schema": schema, "strict": True}
    form = request_of(response_format={"type": "json_schema", "json_schema": named}).response_format
    assert form is not None
    assert (form.name, form.schema, form.description) == ("sum", schema, "A sum.")
    assert request_of(response_format={"type": "text"}).response_format is None
    anything = request_of(response_format={"type": "json_object"}).response_format
    assert anything is not None
    assert anything.schema == {"type": "object"}


@pytest.mark.parametrize(
    "fields",
    [
        {"store": False},
        {"modalities": ["text"]},
        {"logit_bias": {}},
        {"service_tier": "auto"},
        {"user": "u", "safety_identifier": "s", "prompt_cache_key": "k", "prompt_cache_retention": "24h"},
        {"prompt_cache_options": {"mode": "implicit"}},
        {"metadata": {"a": "b"}},
        {"stop": []},
        {"logprobs": False},
        {"parallel_tool_calls": True, "tools": []},
        dict.fromkeys(("audio", "store", "stop", "n", "tools", "tool_choice", "prediction", "nobody_knows_it")),
    ],
)
def test_what_asks_for_nothing_is_taken(fields: dict[str, Any]) -> None:
    assert (
        ask(completions_of(ScriptedEngine(final("Yes."))), body(**fields))["choices"][0]["message"]["content"] == "Yes."
    )


def test_metadata_and_the_service_tier_are_said_again() -> None:
    completion = ask(completions_of(ScriptedEngine(final("Yes."))), body(metadata={"a": "b"}, service_tier="auto"))
    assert (completion["metadata"], completion["service_tier"]) == ({"a": "b"}, "default")


REFUSED: list[tuple[Any, ErrorCode, str]] = [
    ({"nobody_knows_it": 1}, UNKNOWN, "$.nobody_knows_it"),
    ({"audio": {"voice": "x", "format": "wav"}}, UNSUPPORTED, "$.audio"),
    ({"prediction": {"type": "content", "content": "x"}}, UNSUPPORTED, "$.prediction"),
    ({"web_search_options": {}}, UNSUPPORTED, "$.web_search_options"),
    ({"moderation": {"model": "m"}}, UNSUPPORTED, "$.moderation"),
    ({"modalities": ["text", "audio"]}, UNSUPPORTED, "$.modalities"),
    ({"logit_bias": {"5": 1}}, UNSUPPORTED, "$.logit_bias"),
    ({"store": True}, UNSUPPORTED, "$.store"),
    ({"service_tier": "flex"}, UNSUPPORTED, "$.service_tier"),
    ({"stream_options": {"include_usage": True}}, INVALID, "$.stream_options"),
    ({"stream": True, "stream_options": {"x": 1}}, UNKNOWN, "$.stream_options.x"),
    ({"stream": "yes"}, INVALID, "$.stream"),
    ({"model": 5}, INVALID, "$.model"),
    ({"messages": []}, INVALID, "$.messages"),
    ({"messages": "Hi"}, INVALID, "$.messages"),
    ({"n": 0}, INVALID, "$.n"),
    ({"n": True}, INVALID, "$.n"),
    ({"messages": [{"role": "user", "content": "x", "name": "a\n"}]}, INVALID, "$.messages[0].name"),
    ({"n": 10**40}, INVALID, "$.n"),
    ({"n": 9}, INVALID, "$.n"),
    ({"max_tokens": 0}, INVALID, "$.max_tokens"),
    ({"max_completion_tokens": 2**31}, INVALID, "$.max_completion_tokens"),
    ({"temperature": 2.1}, INVALID, "$.temperature"),
    ({"top_p": -0.1}, INVALID, "$.top_p"),
    ({"presence_penalty": 3}, INVALID, "$.presence_penalty"),
    ({"seed": 2**63}, INVALID, "$.seed"),
    ({"stop": ["a", "b", "c", "d", "e"]}, INVALID, "$.stop"),
    ({"stop": ""}, INVALID, "$.stop"),
    ({"stop": ["a", ""]}, INVALID, "$.stop[1]"),
    ({"reasoning_effort": "much"}, INVALID, "$.reasoning_effort"),
    ({"verbosity": "loud"}, INVALID, "$.verbosity"),
    ({"logprobs": True}, UNSUPPORTED, "$.logprobs"),
    ({"top_logprobs": 2}, INVALID, "$.top_logprobs"),
    ({"top_logprobs": 21, "logprobs": True}, INVALID, "$.top_logprobs"),
    ({"metadata": {str(at): "" for at in range(17)}}, INVALID, "$.metadata"),
    ({"metadata": {"a": 5}}, INVALID, "$.metadata[...]"),
    ({"user": 5}, INVALID, "$.user"),
    ({"response_format": {"type": "xml"}}, INVALID, "$.response_format.type"),
    ({"response_format": {"type": "json_schema"}}, INVALID, "$.response_format.json_schema"),
    ({"response_format": {"type": "text", "json_schema": {"name": "x"}}}, INVALID, "$.response_format.json_schema"),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a b"}}},
        INVALID,
        "$.response_format.json_schema.name",
    ),
    ({"tools": [{"type": "web_search"}]}, INVALID, "$.tools[0].type"),
    ({"tools": [5]}, INVALID, "$.tools[0]"),
    ({"tools": [{"type": "function"}]}, INVALID, "$.tools[0].function"),
    ({"tools": [WEATHER, {"type": "function", "function": {"name": ""}}]}, INVALID, "$.tools[1].function.name"),
    ({"tools": [{"type": "function", "function": {"name": "x", "y": 1}}]}, UNKNOWN, "$.tools[0].function.y"),
    ({"tools": [WEATHER, WEATHER]}, ErrorCode.TOOL_REPEATED_NAME, "$.tools[1].function.name"),
    ({"tools": [WEATHER] * 513}, TOO_LARGE, "$.tools"),
    (
        {"tools": [{"type": "custom", "custom": {"name": "x", "format": {"type": "grammar"}}}]},
        INVALID,
        "$.tools[0].custom.format.grammar",
    ),
    ({"tools": [WEATHER], "functions": []}, INVALID, "$.functions"),
    ({"tool_choice": "required"}, INVALID, "$.tool_choice"),
    ({"tool_choice": "some"}, INVALID, "$.tool_choice"),
    ({"tool_choice": NAMED}, INVALID, "$.tool_choice.function.name"),
    ({"tool_choice": {"type": "mcp"}}, INVALID, "$.tool_choice.type"),
    (
        {"tools": [WEATHER], "tool_choice": {"type": "custom", "custom": {"name": "get_weather"}}},
        INVALID,
        "$.tool_choice.custom.name",
    ),
    (
        {"tools": [WEATHER], "tool_choice": {"type": "allowed_tools", "allowed_tools": {"tools": [5]}}},
        INVALID,
        "$.tool_choice.allowed_tools.tools[0]",
    ),
    ({"tools": [WEATHER], "function_call": "auto"}, INVALID, "$.function_call"),
    ({"functions": [WEATHER["function"]], "tool_choice": "auto"}, INVALID, "$.tool_choice"),
    ({"functions": [WEATHER["function"]], "function_call": {"name": "x"}}, INVALID, "$.function_call.name"),
    ({"functions": [WEATHER["function"]], "function_call": "required"}, INVALID, "$.function_call"),
]


@pytest.mark.parametrize(("fields", "code", "path"), REFUSED)
def test_what_cannot_be_honoured_is_refused_by_its_name(fields: dict[str, Any], code: ErrorCode, path: str) -> None:
    assert error_of(body(**fields)) == (code, path)


REFUSED_MESSAGES: list[tuple[Any, ErrorCode, str]] = [
    ({"role": "robot", "content": "x"}, INVALID, "$.messages[1].role"),
    ({"content": "x"}, INVALID, "$.messages[1].role"),
    ({"role": "user"}, INVALID, "$.messages[1].content"),
    ({"role": "user", "content": 5}, INVALID, "$.messages[1].content"),
    ({"role": "user", "content": ["x"]}, INVALID, "$.messages[1].content[0]"),
    ({"role": "user", "content": [{"type": "text"}]}, INVALID, "$.messages[1].content[0].text"),
    ({"role": "user", "content": [{"type": "hologram"}]}, UNSUPPORTED, "$.messages[1].content[0].type"),
    ({"role": "user", "content": "x", "harmonia_y": 1}, UNKNOWN, "$.messages[1].harmonia_y"),
    ({"role": "user", "content": "x", "name": "a b"}, INVALID, "$.messages[1].name"),
    ({"role": "user", "content": "x", "name": "to=x"}, INVALID, "$.messages[1].name"),
    ({"role": "user", "content": "x", "name": "<|end|>"}, INVALID, "$.messages[1].name"),
    ({"role": "assistant", "audio": {"id": "x"}}, UNSUPPORTED, "$.messages[1].audio"),
    ({"role": "assistant", "tool_calls": [{}]}, INVALID, "$.messages[1].tool_calls[0].id"),
    ({"role": "assistant", "tool_calls": [{"id": "a", "type": "x"}]}, INVALID, "$.messages[1].tool_calls[0].type"),
    ({"role": "assistant", "reasoning": "a", "reasoning_content": "b"}, INVALID, "$.messages[1]"),
    ({"role": "tool", "content": "x"}, INVALID, "$.messages[1].tool_call_id"),
    (
        {"role": "tool", "content": "x", "tool_call_id": "y"},
        ErrorCode.INTERCHANGE_UNKNOWN_CALL,
        "$.messages[1].tool_call_id",
    ),
]


# What clients carry along; the first is what the Agents SDK for JavaScript sends back with every answer.
CARRIED: list[tuple[Any, list[str]]] = [
    (
        {"role": "assistant", "content": [{"type": "text", "text": "x", "role": "assistant", "refusal": None}]},
        ["messages[1].content[0]: the unknown key 'role' was ignored"],
    ),
    (
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "x", "id": "y"}]},
        ["messages[1].content[0]: the unknown key 'id' was ignored"],
    ),
    ({"role": "assistant", "content": "x", "citations": []}, ["messages[1]: the unknown key 'citations' was ignored"]),
    (
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a/b", "colour": 1}, "z": 2}]},
        [
            "messages[1].content[0]: the unknown key 'z' was ignored",
            "messages[1].content[0].image_url: the unknown key 'colour' was ignored",
        ],
    ),
    (
        {
            "role": "assistant",
            "tool_calls": [{"id": "a", "x": 1, "function": {"name": "f", "arguments": "{}", "parsed": {}, "y": None}}],
        },
        [
            "messages[1].tool_calls[0]: the unknown key 'x' was ignored",
            "messages[1].tool_calls[0].function: the unknown key 'parsed' was ignored",
        ],
    ),
    ({"role": "user", "content": "x", "y": None}, []),
]


@pytest.mark.parametrize(("message", "warnings"), CARRIED)
def test_unknown_keys_of_messages_are_passed_over_with_a_warning(message: Any, warnings: list[str]) -> None:
    engine = ScriptedEngine(final("Yes."))
    value = body([*HI, message])
    choice = ask(completions_of(engine), value)["choices"][0]
    assert choice["message"]["content"] == "Yes."
    assert choice.get("warnings", []) == warnings
    assert fold(stream(completions_of(engine), value))["choices"][0].get("warnings", []) == warnings


def test_many_unknown_keys_are_not_all_named() -> None:
    messages = [*HI, *({"role": "user", "content": "x", f"key{at % 1000}": at} for at in range(2000))]
    choice = ask(completions_of(ScriptedEngine(final("Yes.")), Settings(limits=Limits(items=9999))), body(messages))
    warnings = choice["choices"][0]["warnings"]
    assert len(warnings) == 9 and warnings[-1] == "more unknown keys were ignored"


@pytest.mark.parametrize(("message", "code", "path"), REFUSED_MESSAGES)
def test_a_message_that_is_wrong_is_refused_with_its_place(message: Any, code: ErrorCode, path: str) -> None:
    assert error_of(body([*HI, message])) == (code, path)


def test_the_name_of_a_result_must_be_that_of_its_call() -> None:
    called: Any = {
        "role": "assistant",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    }
    messages = [*HI, called, {"role": "tool", "tool_call_id": "a", "name": "g", "content": "x"}]
    assert error_of(body(messages)) == (INVALID, "$.messages[2]")


def test_a_body_that_is_no_object_is_refused() -> None:
    values: list[Any] = [None, [], "x", 5]
    for value in values:
        with pytest.raises(InputError) as raised:
            read_request(value)
        assert (raised.value.code, raised.value.at.path) == (INVALID, "$")


def test_an_unknown_model_is_refused() -> None:
    assert error_of({**body(), "model": "other"}) == (ErrorCode.SERVE_UNKNOWN_MODEL, "$.model")


def test_limits_of_the_server_count() -> None:
    settings = Settings(limits=Limits(items=1, choices=1, tools=1, schema_bytes=20))
    assert error_of(body([*HI, *HI]), settings) == (TOO_LARGE, "$.messages")
    assert error_of(body(n=2), settings) == (INVALID, "$.n")
    assert error_of(body(tools=[WEATHER]), settings) == (TOO_LARGE, "$.tools[0].function.parameters")
    form = {"type": "json_schema", "json_schema": {"name": "f", "schema": {"description": "x" * 20}}}
    assert error_of(body(response_format=form), settings) == (TOO_LARGE, "$.response_format.json_schema.schema")


def test_a_schema_that_cannot_be_read_is_refused_with_its_place() -> None:
    broken: Any = {"type": "function", "function": {"name": "x", "parameters": {"properties": {"a": {"$ref": "#/b"}}}}}
    code, path = error_of(body(tools=[WEATHER, broken]))
    assert code is ErrorCode.SCHEMA_UNKNOWN_REFERENCE
    assert path is not None
    assert path.startswith("$.tools[1].function.parameters.properties.a")


def test_integers_of_any_size_may_stand_in_a_schema() -> None:
    huge: Any = {"type": "function", "function": {"name": "x", "parameters": {"type": "object", "maximum": 10**30}}}
    assert (
        ask(completions_of(ScriptedEngine(final("Yes."))), body(tools=[huge]))["choices"][0]["finish_reason"] == "stop"
    )


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (NAMED, "functions.get_weather"),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}, "auto"),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}}, "required"),
    ],
)
def test_the_engine_is_told_of_the_tool_choice(choice: Any, expected: str) -> None:
    engine = ScriptedEngine(calls("get_weather", '{"city":"Rome"}'), final("No."))
    ask(completions_of(engine), body(tools=[WEATHER], tool_choice=choice))
    assert engine.requests[0].tool_choice == expected


def test_text_engines_have_no_log_probabilities_of_tokens() -> None:
    engine = ScriptedEngine(final("Yes."), is_text=True)
    assert error_of(body(logprobs=True), engine=engine) == (UNSUPPORTED, "$.logprobs")


def test_nothing_but_our_errors_is_raised_for_values_of_every_kind() -> None:
    odd: list[Any] = [None, False, 0, -1, 10**400, 1.5, "", "x", [], [None], [{}], {}, {"type": "x"}, {"": None}]
    service = completions_of(DemoEngine())
    taken = 0
    for field in CreateCompletion.__struct_fields__:
        for value in odd:
            try:
                ask(service, {**body(max_tokens=4), field: value})
                taken += 1
            except HarmonyError:
                pass
    assert taken > 30


def test_obfuscation_may_be_asked_for_and_is_not_done() -> None:
    value = body(stream_options={"include_obfuscation": True, "include_usage": True})
    came = stream(completions_of(ScriptedEngine(final("Yes."))), value)
    assert fold(came)["choices"][0]["message"]["content"] == "Yes."
    assert not any("obfuscation" in chunk for chunk in came)
