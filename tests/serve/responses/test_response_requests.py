"""Requests: every field is honoured or refused by its name, and what is no text is described."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from harmonia import Conversation, Event, decode, parse
from harmonia.errors import ErrorCode, InputError
from harmonia.interchange import to_chat_body
from harmonia.run.engines import PROVIDER_TRAITS, Finish, Request
from harmonia.run.family_models import with_profile
from harmonia.serve.responses import request
from harmonia.serve.responses.request import CreateResponse
from tests.support.engines.scripted import ScriptedEngine, final, say
from tests.support.engines.scripted_text import ScriptedTextEngine
from tests.support.servers.served import WEATHER, create, served

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ"
    "RU5ErkJggg=="
)


def asked(folder: Path, **body: Any) -> tuple[str, Request, dict[str, Any]]:
    """The prompt, the request to the engine, and the response."""

    async def run() -> tuple[str, Request, dict[str, Any]]:
        engine = ScriptedEngine(final("Done."))
        body.setdefault("input", "Hi")
        async with served(engine, folder) as service:
            response = await create(service, **body)
        return decode(engine.prompts[0]), engine.requests[0], response

    return asyncio.run(run())


def refused(folder: Path, **body: Any) -> InputError:
    async def run() -> InputError:
        async with served(ScriptedEngine(final("Done.")), folder) as service:
            with pytest.raises(InputError) as caught:
                await create(service, **body)
            return caught.value

    return asyncio.run(run())


def test_a_request_that_says_nothing_of_sampling_is_not_left_to_the_engines_own_taste(tmp_path: Path) -> None:
    _, request, response = asked(tmp_path)
    assert (request.sampling.temperature, request.sampling.top_p) == (1.0, 1.0)
    assert (response["temperature"], response["top_p"]) == (1.0, 1.0)


def test_sampling_reaches_the_engine(tmp_path: Path) -> None:
    wanted = {"temperature": 0.5, "top_p": 0.9, "presence_penalty": 0.1, "frequency_penalty": -0.1}
    _, request, response = asked(tmp_path, max_output_tokens=77, **wanted)
    sampling = request.sampling
    assert {name: getattr(sampling, name) for name in wanted} == wanted
    assert sampling.max_tokens == 77
    assert {name: response[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("effort", "word"), [("low", "low"), ("high", "high"), ("minimal", "low"), ("none", "low"), ("xhigh", "high")]
)
def test_the_effort_is_said_in_harmonys_words(tmp_path: Path, effort: str, word: str) -> None:
    prompt, _, response = asked(tmp_path, reasoning={"effort": effort})
    assert f"Reasoning: {word}" in prompt
    assert response["reasoning"]["effort"] == effort


def test_a_format_is_told_to_the_model(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    form = {"type": "json_schema", "name": "place", "schema": schema, "strict": True}
    prompt, request, response = asked(tmp_path, text={"format": form})
    assert "# Response Formats\n\n## place" in prompt
    assert request.response_format is not None
    assert response["text"]["format"] == form
    assert "## json_object" in asked(tmp_path, text={"format": {"type": "json_object"}})[0]


def test_verbosity_is_an_instruction(tmp_path: Path) -> None:
    assert "Keep the answer short." in asked(tmp_path, text={"verbosity": "low"})[0]
    assert "# Instructions" not in asked(tmp_path, text={"verbosity": "medium"})[0]


def test_an_image_is_described_and_not_refused(tmp_path: Path) -> None:
    content = [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": PIXEL}]
    prompt, _, _ = asked(tmp_path, input=[{"role": "user", "content": content}])
    assert "What is this?" in prompt
    assert "[image: png" in prompt
    assert "iVBOR" not in prompt


def test_who_the_model_is_can_be_said(tmp_path: Path) -> None:
    prompt, _, _ = asked(tmp_path, harmonia_identity=" You are Ada. ", instructions="Be brief.")
    assert prompt.startswith("<|start|>system<|message|>You are Ada.\nKnowledge cutoff: ")
    assert "# Instructions\n\nBe brief." in prompt
    for nothing in (None, "", " \n"):
        prompt, _, _ = asked(tmp_path, harmonia_identity=nothing)
        assert prompt.startswith("<|start|>system<|message|>You are ChatGPT, a large language model")


def test_a_model_of_another_family_is_told_who_it_is_too(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedTextEngine("Done.")
        async with served(with_profile(engine, "auto"), tmp_path) as service:
            await create(service, input="Hi", harmonia_identity="You are Ada.")
        assert "system\nYou are Ada." in engine.prompts[0]

    asyncio.run(run())


class Provider:
    """Keeps what it would send, and answers."""

    name = "chat"
    traits = PROVIDER_TRAITS
    model = "script"

    def __init__(self) -> None:
        self.sent: list[Any] = []

    async def respond(self, conversation: Conversation, request: Request) -> AsyncGenerator[Event | Finish, None]:
        self.sent.append(to_chat_body(conversation).value)
        for event in parse(say(final("Done."))).events:
            yield event
        yield Finish("stop")

    async def close(self) -> None:
        pass


def test_a_provider_gets_it_as_a_system_message(tmp_path: Path) -> None:
    async def run() -> None:
        provider = Provider()
        async with served(provider, tmp_path) as service:
            body: dict[str, Any] = {"input": "Hi", "reasoning": {"effort": "low"}}
            await create(service, **body, harmonia_identity="You are Ada.", instructions="Be brief.")
            await create(service, **body)
        told, usual = ([each["content"] for each in body["messages"]] for body in provider.sent)
        assert told == ["You are Ada.", "Be brief.", "Hi"] and usual == ["Hi"]

    asyncio.run(run())


def test_the_date_is_that_of_the_clock(tmp_path: Path) -> None:
    assert "Current date: 2027-01-15" in asked(tmp_path)[0]


def test_labels_are_kept_and_have_no_effect(tmp_path: Path) -> None:
    plain = asked(tmp_path)[0]
    labels = {"metadata": {"a": "b"}, "user": "u", "safety_identifier": "s", "prompt_cache_key": "k"}
    cache = {"prompt_cache_options": {"mode": "auto"}, "stream_options": {"include_obfuscation": True}}
    prompt, _, response = asked(tmp_path, **labels, **cache, client_metadata={"x": 1}, service_tier="auto")
    assert prompt == plain
    assert {name: response[name] for name in labels} == labels


def test_a_search_that_is_not_here_is_left_out_with_a_warning(tmp_path: Path) -> None:
    prompt, _, response = asked(tmp_path, tools=[{"type": "web_search", "external_web_access": False}, WEATHER])
    assert "web_search" not in prompt
    assert len(response["warnings"]) == 1


METADATA = {"content_item_kinds": ["x"]}
# What clients carry along; the first is what Codex adds to its items.
CARRIED: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"role": "user", "content": "x", "internal_chat_message_metadata_passthrough": METADATA},
        ["input[1]: the unknown key 'internal_chat_message_metadata_passthrough' was ignored"],
    ),
    (
        {"role": "assistant", "content": [{"type": "output_text", "text": "x", "role": "assistant", "parsed": None}]},
        ["input[1].content[0]: the unknown key 'role' was ignored"],
    ),
    (
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "x", "y": 1}]},
        ["input[1].content[0]: the unknown key 'y' was ignored"],
    ),
    (
        {"role": "user", "content": [{"type": "input_image", "image_url": PIXEL, "y": 1}]},
        ["input[1].content[0]: the unknown key 'y' was ignored"],
    ),
    (
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "x", "y": 1}], "z": 1},
        [
            "input[1]: the unknown key 'z' was ignored",
            "input[1].content[0]: the unknown key 'y' was ignored",
        ],
    ),
    (
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "parsed_arguments": {}},
        ["input[1]: the unknown key 'parsed_arguments' was ignored"],
    ),
    ({"type": "mcp_list_tools", "server_label": "s", "tools": [], "y": None}, []),
]


@pytest.mark.parametrize(("item", "warnings"), CARRIED)
def test_unknown_keys_of_items_are_passed_over_with_a_warning(
    tmp_path: Path, item: dict[str, Any], warnings: list[str]
) -> None:
    hi = {"role": "user", "content": "Hi"}
    _, _, response = asked(tmp_path, input=[hi, item])
    assert response.get("warnings", []) == warnings
    # It was said once; what is stored is not complained of again.
    assert "warnings" not in asked(tmp_path, input="Go on", previous_response_id=response["id"])[2]


def test_unknown_keys_of_instructions_are_passed_over_with_a_warning(tmp_path: Path) -> None:
    told = [{"role": "developer", "content": [{"type": "input_text", "text": "Be brief.", "y": 1}], "z": 1}]
    prompt, _, response = asked(tmp_path, instructions=told)
    assert "Be brief." in prompt
    assert response["warnings"] == [
        "instructions[0]: the unknown key 'z' was ignored",
        "instructions[0].content[0]: the unknown key 'y' was ignored",
    ]


INVALID, UNKNOWN, UNSUPPORTED = (
    ErrorCode.SERVE_INVALID_FIELD,
    ErrorCode.SERVE_UNKNOWN_FIELD,
    ErrorCode.SERVE_UNSUPPORTED,
)
BAD_SEAL, NOT_STORED = ErrorCode.SERVE_BAD_SEAL, ErrorCode.SERVE_PREVIOUS_NOT_FOUND
NOT_FETCHED = ErrorCode.SCHEMA_REMOTE_REFERENCE
FORM = {"format": {"type": "json_schema", "name": "x"}}
NAMELESS: dict[str, Any] = {"type": "function", "name": "", "parameters": {}}
REMOTE = {"type": "function", "name": "f", "parameters": {"$ref": "http://x.test/s.json"}}
TOO_LARGE = {**WEATHER, "parameters": {"description": "x" * 300_000}}


REFUSED: list[tuple[dict[str, Any], ErrorCode, str]] = (
    [
        ({"input": "Hi", "frobnicate": 1}, UNKNOWN, "$.frobnicate"),
        ({"input": [{"role": "user", "contents": "Hi"}]}, INVALID, "$.input[0].content"),
        ({"input": [{"role": "user", "content": "Hi", "harmonia_x": 1}]}, UNKNOWN, "$.input[0].harmonia_x"),
        ({"input": "Hi", "tools": [{**WEATHER, "x": 1}]}, UNKNOWN, "$.tools[0].x"),
        ({"input": "Hi", "tool_choice": {"type": "function", "name": "f", "x": 1}}, UNKNOWN, "$.tool_choice.x"),
        ({"input": "Hi", "reasoning": {"effort": "low", "x": 1}}, UNKNOWN, "$.reasoning.x"),
        ({"input": "Hi", "temperature": 3}, INVALID, "$.temperature"),
        ({"input": "Hi", "temperature": "hot"}, INVALID, "$.temperature"),
        ({"input": 7}, INVALID, "$.input"),
        ({}, INVALID, "$.input"),
        ({"input": "Hi", "model": "gpt-9"}, ErrorCode.SERVE_UNKNOWN_MODEL, "$.model"),
        ({"input": "Hi", "background": True}, UNSUPPORTED, "$.background"),
        ({"input": "Hi", "conversation": "conv_1"}, UNSUPPORTED, "$.conversation"),
        ({"input": "Hi", "prompt": {"id": "p"}}, UNSUPPORTED, "$.prompt"),
        ({"input": "Hi", "service_tier": "priority"}, UNSUPPORTED, "$.service_tier"),
        ({"input": "Hi", "include": ["all"]}, INVALID, "$.include[0]"),
        ({"input": "Hi", "top_logprobs": 3}, UNSUPPORTED, "$.top_logprobs"),
        ({"input": "Hi", "metadata": {"a": 1}}, INVALID, "$.metadata[...]"),
        ({"input": "Hi", "tools": [{"type": "file_search"}]}, UNSUPPORTED, "$.tools[0].type"),
        ({"input": "Hi", "tools": [NAMELESS]}, INVALID, "$.tools[0].name"),
        ({"input": "Hi", "tools": [WEATHER, WEATHER]}, ErrorCode.TOOL_REPEATED_NAME, "$.tools[1]"),
        ({"input": "Hi", "tools": [WEATHER] * 600}, ErrorCode.TOOL_REPEATED_NAME, "$.tools[1]"),
        ({"input": "Hi", "tools": [TOO_LARGE]}, ErrorCode.SERVE_TOO_LARGE, "$.tools[0].parameters"),
        ({"input": "Hi", "tools": [WEATHER, REMOTE]}, NOT_FETCHED, '$.tools[1].parameters["$ref"]'),
        ({"input": "Hi", "tools": [{"type": "mcp", "server_label": "x"}]}, INVALID, "$.tools[0].server_label"),
        ({"input": "Hi", "tool_choice": "sometimes"}, INVALID, "$.tool_choice"),
        ({"input": "Hi", "tool_choice": "required"}, INVALID, "$.tool_choice"),
        ({"input": "Hi", "tool_choice": {"type": "function", "name": "x"}}, INVALID, "$.tool_choice"),
        ({"input": "Hi", "text": FORM}, INVALID, "$.text.format.schema"),
        ({"input": [{"type": "computer_call", "id": "x"}]}, UNSUPPORTED, "$.input[0].type"),
        ({"input": [{"type": "compaction", "encrypted_content": "x"}]}, UNSUPPORTED, "$.input[0].type"),
        ({"input": [{"role": "narrator", "content": "x"}]}, INVALID, "$.input[0].role"),
        ({"input": [{"role": "user", "content": [{"type": "x"}]}]}, UNSUPPORTED, "$.input[0].content[0].type"),
        ({"input": [{"role": "user", "content": [7]}]}, INVALID, "$.input[0].content[0]"),
        ({"input": [{"type": "function_call", "call_id": "c"}]}, INVALID, "$.input[0].name"),
        ({"input": [{"type": "reasoning", "encrypted_content": "hs1.x"}]}, BAD_SEAL, "$.input[0].encrypted_content"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, ErrorCode.SERVE_NOT_FOUND, "$.input[0].id"),
        ({"input": ["Hi"]}, INVALID, "$.input[0]"),
        ({"input": []}, INVALID, "$.input"),
        ({"input": "Hi", "previous_response_id": "resp_1"}, NOT_STORED, "$.previous_response_id"),
    ]
)  # fmt: skip


@pytest.mark.parametrize(("body", "code", "path"), REFUSED)
def test_what_cannot_be_honoured_is_refused_by_its_name(
    tmp_path: Path, body: dict[str, Any], code: ErrorCode, path: str
) -> None:
    error = refused(tmp_path, **body)
    assert (error.code, error.at.path) == (code, path)


def test_every_field_of_the_body_is_spoken_of_in_its_documentation() -> None:
    page = request.__doc__ or ""
    silent = {"stream_options", "service_tier", "access_programs", "image", "prompt_cache_options"}
    for field in CreateResponse.__struct_fields__:
        assert field in page or field in silent, field


@pytest.mark.parametrize("name", ["openai/SCRIPT", "script:latest", "org/script.gguf"])
def test_other_spellings_of_the_model_will_do(tmp_path: Path, name: str) -> None:
    assert asked(tmp_path, model=name)[2]["model"] == "script"
