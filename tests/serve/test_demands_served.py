"""Tool choices, forms and grammars of requests: what clients get, with an engine that takes a grammar and without."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import pytest
from openai import AsyncOpenAI, InternalServerError
from pydantic import BaseModel, ConfigDict

from harmonia.errors import ErrorCode, InputError
from harmonia.grammar import TextForm
from harmonia.messages import Json
from harmonia.run.constraints import attempts
from harmonia.run.engines import Chunk, Finish, Request
from harmonia.serve.app import AppService
from harmonia.serve.config.settings import Settings
from harmonia.serve.security.keys import Caller
from harmonia.serve.server import serve
from harmonia.serve.wire import request_tools
from harmonia.serve.wire.request_tools import SchemaBudget
from tests.support.engines.masked import MaskedEngine
from tests.support.engines.scripted import ScriptedEngine, calls, final, say, think
from tests.support.servers import chat_service
from tests.support.servers.chat_service import body, completions_of
from tests.support.servers.served import WEATHER, create, fold, served, stream, text_of
from tests.support.watchdog import WATCHDOG_S

ROME = '{"city":"Rome","size":"large"}'
SCHEMA: Json = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "size": {"type": "string", "enum": ["small", "large"]}},
    "required": ["city", "size"],
    "additionalProperties": False,
}
STRICT: Json = {"format": {"type": "json_schema", "name": "place", "schema": SCHEMA, "strict": True}}
LOOSE: Json = {"format": {"type": "json_schema", "name": "place", "schema": SCHEMA}}
OTHER: Json = {"type": "function", "name": "other"}
DIGITS: Json = {
    "type": "custom",
    "name": "count",
    "format": {"type": "grammar", "syntax": "regex", "definition": "[0-9]+"},
}


class Place(BaseModel):
    """What the SDK is told to parse."""

    model_config = ConfigDict(extra="forbid")
    city: str
    size: Literal["small", "large"]


def answered(folder: Path, engine: Any, *, is_streamed: bool = True, **fields: Any) -> Json:
    """The response, streamed and folded by a suspicious client, or whole."""

    async def run() -> Json:
        settings = fields.pop("settings", {})
        async with served(engine, folder, **settings) as service:
            fields.setdefault("input", "Hi")
            if not is_streamed:
                return await create(service, **fields)
            events = await stream(service, **fields)
            assert fold(events) == events[-1]["response"]["output"]
            return cast("Json", events[-1]["response"])

    return asyncio.run(run())


def refused(folder: Path, **fields: Any) -> InputError:
    async def run() -> InputError:
        async with served(ScriptedEngine(final("x")), folder) as service:
            with pytest.raises(InputError) as caught:
                await create(service, input="Hi", **fields)
            return caught.value

    return asyncio.run(run())


# ── forms of the answer ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize(
    "script",
    [[think("Hm.") + final(ROME)], [think("Hm.") + final("No."), f"{ROME}<|return|>"]],
    ids=["at once", "then"],
)
def test_an_answer_has_its_form_at_once_or_the_second_time(
    tmp_path: Path, script: list[str], is_streamed: bool
) -> None:
    engine = ScriptedEngine(*script)
    response = answered(tmp_path, engine, is_streamed=is_streamed, text=STRICT)
    assert response["status"] == "completed"
    assert text_of(response) == ROME
    assert [item["type"] for item in response["output"]] == ["reasoning", "message"]
    # What was given up was paid for, and nobody sees it.
    used = response["usage"]
    assert used["output_tokens"] == sum(map(len, engine.sampled))
    details = used["output_tokens_details"]
    assert (details["reasoning_tokens"] > 6) is (len(script) == 2)


def test_a_form_that_never_comes_fails_where_it_is_strict_and_is_a_warning_otherwise(tmp_path: Path) -> None:
    engine = ScriptedEngine(final("No."), "Still no.<|return|>")
    response = answered(tmp_path, engine, text=STRICT)
    assert response["status"] == "failed"
    assert response["harmonia_reason"] == "form_not_met"
    assert response["error"]["message"] == "the answer does not match text.format: it is not JSON"
    assert text_of(response) == "Still no."
    response = answered(tmp_path, ScriptedEngine(final("No."), "Still no.<|return|>"), text=LOOSE)
    assert response["status"] == "completed"
    assert any("text.format" in each for each in response["warnings"])
    failed = answered(tmp_path, ScriptedEngine(final("[1]"), "[1]<|return|>"), text={"format": {"type": "json_object"}})
    assert failed["harmonia_reason"] == "form_not_met"


def test_an_answer_that_is_cut_off_is_incomplete_and_no_fault(tmp_path: Path) -> None:
    response = answered(tmp_path, MaskedEngine(1, most=8), text=STRICT)
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


def test_what_no_grammar_holds_is_a_warning(tmp_path: Path) -> None:
    schema: Json = {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True, "maxItems": 1}
    form = {"type": "json_schema", "name": "once", "schema": schema, "strict": True}
    response = answered(tmp_path, MaskedEngine(2), text={"format": form})
    assert response["status"] == "completed"
    assert any("uniqueItems" in each for each in response["warnings"])
    chat = chat_service.ask(
        completions_of(MaskedEngine(2)),
        body(
            response_format={"type": "json_schema", "json_schema": {"name": "once", "schema": schema, "strict": True}}
        ),
    )
    assert any("uniqueItems" in each for each in chat["choices"][0]["warnings"])


def test_what_is_said_beside_an_answer_of_a_form_is_no_part_of_it(tmp_path: Path) -> None:
    script = "<|channel|>commentary<|message|>I look it up.<|end|><|start|>assistant" + final(ROME)
    response = answered(tmp_path, ScriptedEngine(script), text=STRICT, settings={"analysis": "shown"})
    assert [item["type"] for item in response["output"]] == ["reasoning", "message"]
    assert text_of(response) == ROME
    service = completions_of(ScriptedEngine(script), Settings(analysis="shown"))
    message = chat_service.ask(service, body(response_format=FORM))["choices"][0]["message"]
    assert (message["content"], message["reasoning"]) == (ROME, "I look it up.")


# ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", [1, 2])
def test_a_tool_choice_is_guaranteed_by_an_engine_that_takes_a_grammar(tmp_path: Path, seed: int) -> None:
    tools = [WEATHER, {**OTHER, "parameters": SCHEMA, "strict": True}, DIGITS]
    for choice, name in (
        ({"type": "function", "name": "other"}, "other"),
        ({"type": "custom", "name": "count"}, "count"),
        ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "get_weather"}]}, None),
    ):
        response = answered(tmp_path, MaskedEngine(seed), tools=tools, tool_choice=choice, parallel_tool_calls=False)
        assert response["status"] == "completed", response["error"]
        called = [item for item in response["output"] if item["type"].endswith("_call")]
        assert [item["name"] for item in called] == [name or "get_weather"]
        if name == "count":
            assert called[0]["input"].isdigit()
        else:
            assert isinstance(json.loads(called[0]["arguments"]), dict)


def test_no_call_is_made_where_none_may_be(tmp_path: Path) -> None:
    choices: tuple[Any, ...] = ("none", {"type": "allowed_tools", "mode": "auto", "tools": []})
    for choice in choices:
        response = answered(tmp_path, MaskedEngine(4), tools=[WEATHER], tool_choice=choice)
        assert not any(item["type"].endswith("_call") for item in response["output"])
        assert response["status"] in ("completed", "incomplete")


@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_call_is_asked_for_twice_and_the_client_sees_one(tmp_path: Path, is_streamed: bool) -> None:
    engine = ScriptedEngine(think("Hm.") + final("No."), '{"city":"Rome"}<|call|>')
    choice = {"type": "function", "name": "get_weather"}
    response = answered(tmp_path, engine, is_streamed=is_streamed, tools=[WEATHER, OTHER], tool_choice=choice)
    assert response["status"] == "completed"
    assert [item["type"] for item in response["output"]] == ["reasoning", "function_call"]
    assert json.loads(response["output"][1]["arguments"]) == {"city": "Rome"}


def test_a_strict_tool_and_a_custom_one_get_what_fits_or_the_response_fails(tmp_path: Path) -> None:
    strict = {**WEATHER, "strict": True}
    engine = ScriptedEngine(calls("get_weather", "{}"), calls("get_weather", '{"city":"Rome"}'))
    response = answered(tmp_path, engine, tools=[strict])
    assert [json.loads(item["arguments"]) for item in response["output"]] == [{"city": "Rome"}]
    wrong = calls("get_weather", '{"city":5}')
    response = answered(tmp_path, ScriptedEngine(wrong), tools=[strict])
    said = "the call to get_weather does not match the format of the tool"
    assert response["error"] == {"code": "server_error", "message": f"{said}: $.city is invalid: type is not met"}
    response = answered(tmp_path, ScriptedEngine(calls("get_weather", '{"secret":5}')), tools=[strict])
    said = response["error"]["message"]
    assert said.endswith("$ is invalid: it lacks city") and "secret" not in said
    header = "<|channel|>commentary to=functions.count<|message|>"
    response = answered(tmp_path, ScriptedEngine(f"{header}many<|call|>", f"{header}12<|call|>"), tools=[DIGITS])
    assert [item["input"] for item in response["output"]] == ["12"]
    response = answered(tmp_path, ScriptedEngine(f"{header}many<|call|>"), tools=[DIGITS])
    assert response["harmonia_reason"] == "form_not_met"


@pytest.mark.parametrize(
    ("syntax", "definition"), [("lark", "start: missing"), ("lark", "nothing here"), ("regex", "(unclosed")]
)
def test_a_grammar_that_is_none_is_the_clients_error_with_its_place(
    tmp_path: Path, syntax: str, definition: str
) -> None:
    form = {"type": "grammar", "syntax": syntax, "definition": definition}
    error = refused(tmp_path, tools=[OTHER, {"type": "custom", "name": "x", "format": form}])
    assert error.code is ErrorCode.GRAMMAR_INVALID_TEXT_FORM
    assert error.at.path == "$.tools[1].format.definition"
    nested = {
        "type": "custom",
        "custom": {"name": "x", "format": {"type": "grammar", "grammar": dict(list(form.items())[1:])}},
    }
    with pytest.raises(InputError) as caught:
        chat_service.ask(completions_of(ScriptedEngine(final("x"))), body(tools=[nested]))
    assert caught.value.at.path == "$.tools[0].custom.format.grammar.definition"


def test_the_place_in_a_grammar_is_told(tmp_path: Path) -> None:
    form = {"type": "grammar", "syntax": "lark", "definition": 'start: a\na: "x" ('}
    assert "(at line 2, character 7)" in refused(tmp_path, tools=[{**DIGITS, "format": form}]).message
    form = {"type": "grammar", "syntax": "regex", "definition": "ab("}
    assert "count is invalid: the group is not closed (at character 2)" in (
        refused(tmp_path, tools=[{**DIGITS, "format": form}]).message
    )


@pytest.mark.parametrize(
    ("schema", "inner"),
    [
        ({"type": "strng"}, ".type"),
        ({"type": "object", "properties": {"a": {"minimum": "5"}}}, ".properties.a.minimum"),
    ],
)
def test_a_schema_that_is_none_is_the_clients_error_where_it_is_strict(
    tmp_path: Path, schema: Json, inner: str
) -> None:
    named = {"name": "place", "schema": schema, "strict": True}
    error = refused(tmp_path, text={"format": {"type": "json_schema", **named}})
    assert (error.code, error.at.path) == (ErrorCode.SERVE_INVALID_FIELD, f"$.text.format.schema{inner}")
    error = refused(tmp_path, tools=[{**OTHER, "parameters": schema, "strict": True}])
    assert error.at.path == f"$.tools[0].parameters{inner}"
    with pytest.raises(InputError) as caught:
        chat_service.ask(
            completions_of(ScriptedEngine(final("x"))),
            body(response_format={"type": "json_schema", "json_schema": named}),
        )
    assert caught.value.at.path == f"$.response_format.json_schema.schema{inner}"
    tool = {"type": "function", "function": {"name": "x", "parameters": schema, "strict": True}}
    with pytest.raises(InputError) as caught:
        chat_service.ask(completions_of(ScriptedEngine(final("x"))), body(tools=[tool]))
    assert caught.value.at.path == f"$.tools[0].function.parameters{inner}"
    # What is only a wish is told as it is.
    loose = {"format": {"type": "json_schema", "name": "place", "schema": schema}}
    assert answered(tmp_path, ScriptedEngine(final("{}")), text=loose)["status"] == "completed"


@pytest.mark.parametrize("schema", [False, {"enum": []}, {"type": "string", "minLength": 5, "maxLength": 2}])
def test_an_answer_that_cannot_be_is_the_clients_error(tmp_path: Path, schema: Json | bool) -> None:
    form = {"type": "json_schema", "name": "place", "schema": schema}
    error = refused(tmp_path, text={"format": form})
    assert (error.code, error.at.path) == (ErrorCode.SERVE_INVALID_FIELD, "$.text.format.schema")


def test_warnings_have_the_clients_names(tmp_path: Path) -> None:
    tags: Json = {"type": "object", "properties": {"t": {"type": "array", "uniqueItems": True, "maxItems": 0}}}
    tool = {"type": "function", "name": "pick", "parameters": {**tags, "additionalProperties": False}}
    response = answered(tmp_path, MaskedEngine(3), tools=[tool], tool_choice="required")
    (warning,) = [each for each in response["warnings"] if "uniqueItems" in each]
    assert warning.startswith("the grammar does not enforce uniqueItems of pick")
    chat = chat_service.ask(
        completions_of(MaskedEngine(3)),
        body(tools=[{"type": "function", "function": dict(list(tool.items())[1:])}], tool_choice="required"),
    )
    assert not any("functions.pick" in each for each in chat["choices"][0]["warnings"])


def test_the_place_of_what_does_not_fit_has_no_name_of_the_models(tmp_path: Path) -> None:
    schema: Json = {"type": "object", "properties": {"a": {"additionalProperties": {"type": "integer"}}}}
    form = {"format": {"type": "json_schema", "name": "x", "schema": schema, "strict": True}}
    said = '{"a":{"HIDDEN":"b"}}'
    response = answered(tmp_path, ScriptedEngine(final(said), f"{said}<|return|>"), text=form)
    assert response["error"]["message"] == "the answer does not match text.format: $.a is invalid"


def test_a_grammar_is_bounded(tmp_path: Path) -> None:
    form = {"type": "grammar", "syntax": "regex", "definition": "a" * 300_000}
    error = refused(tmp_path, tools=[{"type": "custom", "name": "x", "format": form}])
    assert (error.code, error.at.path) == (ErrorCode.SERVE_TOO_LARGE, "$.tools[0].format.definition")


# ── damage ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_damaged_output_is_asked_for_again_unless_the_operator_says_otherwise(tmp_path: Path) -> None:
    hidden = think("Hm.") + "final<|message|>HIDDEN<|return|>"
    response = answered(tmp_path, ScriptedEngine(hidden, final("Yes.")))
    assert (response["status"], text_of(response)) == ("completed", "Yes.")
    assert [item["type"] for item in response["output"]] == ["reasoning", "message"]
    off = answered(tmp_path, ScriptedEngine(hidden, final("Yes.")), settings={"retry_malformed": False})
    assert off["harmonia_reason"] == "no_visible_output"
    # Whoever looks at the tokens sees what was given up.
    sealed = answered(tmp_path, ScriptedEngine(hidden, final("Yes.")), include=["harmonia.encrypted_content"])
    (told,) = sealed["harmonia_sampled"]
    assert told["faults"]


# ── Chat Completions ────────────────────────────────────────────────────────────────────────────────────────────────

FORM: Json = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, "strict": True}}


def test_chat_answers_have_their_form_streamed_or_not() -> None:
    for script in ([final(ROME)], [think("Hm.") + final("No."), f"{ROME}<|return|>"]):
        whole = chat_service.ask(completions_of(ScriptedEngine(*script)), body(response_format=FORM))
        assert whole["choices"][0]["message"]["content"] == ROME
        came = chat_service.stream(completions_of(ScriptedEngine(*script)), body(response_format=FORM))
        folded = chat_service.fold([*came])["choices"][0]
        assert (folded["message"]["content"], folded["finish_reason"]) == (ROME, "stop")


@pytest.mark.parametrize("is_streamed", [True, False])
def test_of_several_answers_each_is_asked_for_again_by_itself(is_streamed: bool) -> None:
    class Sometimes(ScriptedEngine):
        """Fails where its seed is the request's own, and at second attempts at nothing."""

        def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
            is_begun = list(prompt[-3:]) == say("<|channel|>final<|message|>")
            script = f"{ROME}<|return|>" if is_begun else final("No." if request.sampling.seed == 5 else ROME)
            seeds.append(request.sampling.seed)
            return ScriptedEngine(think("Hm.") + script if not is_begun else script).generate(prompt, request)

    seeds: list[int | None] = []
    request = body(response_format=FORM, n=3, seed=5)
    service = completions_of(Sometimes())
    whole = (
        chat_service.fold([*chat_service.stream(service, request)])
        if is_streamed
        else chat_service.ask(service, request)
    )
    assert [choice["message"]["content"] for choice in whole["choices"]] == [ROME] * 3
    # The second attempt at one of them is none of the others again.
    assert len(set(seeds)) == len(seeds) == 4


def test_a_stop_string_ends_an_answer_that_was_held_back() -> None:
    came = chat_service.stream(
        completions_of(ScriptedEngine(final(ROME))), body(response_format=FORM, stop=[',"size"'])
    )
    folded = chat_service.fold([*came])["choices"][0]
    assert (folded["message"]["content"], folded["finish_reason"]) == ('{"city":"Rome"', "stop")


def test_forms_are_compiled_where_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_main: list[bool] = []

    def watch(form: TextForm, name: str) -> None:
        is_main.append(threading.current_thread() is threading.main_thread())

    monkeypatch.setattr(request_tools, "find_fault", watch)
    answered(tmp_path, ScriptedEngine(final("x")), tools=[DIGITS])
    custom = {"name": "x", "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a"}}}
    chat_service.ask(completions_of(ScriptedEngine(final("x"))), body(tools=[{"type": "custom", "custom": custom}]))
    assert is_main == [False, False]


def test_a_chat_answer_that_never_has_its_form_is_the_models_fault() -> None:
    came = chat_service.stream(
        completions_of(ScriptedEngine(final("No."), "No.<|return|>")), body(response_format=FORM)
    )
    assert came[-1]["error"]["code"] == "form_not_met"
    loose = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}}
    service = completions_of(ScriptedEngine(final("No."), "No.<|return|>"))
    (choice,) = chat_service.ask(service, body(response_format=loose))["choices"]
    assert choice["message"]["content"] == "No."
    assert "response_format" in choice["warnings"][0]


def test_a_custom_tool_of_chat_gets_text_of_its_form() -> None:
    grammar = {"syntax": "regex", "definition": "[0-9]+"}
    tool = {"type": "custom", "custom": {"name": "count", "format": {"type": "grammar", "grammar": grammar}}}
    header = "<|channel|>commentary to=functions.count<|message|>"
    engine = ScriptedEngine(f"{header}many<|call|>", f'{header}{{"input":"12"}}<|call|>')
    (choice,) = chat_service.ask(completions_of(engine), body(tools=[tool]))["choices"]
    assert choice["message"]["tool_calls"][0]["custom"] == {"name": "count", "input": "12"}
    choice_of = {"type": "custom", "custom": {"name": "count"}}
    (choice,) = chat_service.ask(completions_of(MaskedEngine(3)), body(tools=[tool], tool_choice=choice_of))["choices"]
    assert choice["message"]["tool_calls"][0]["custom"]["input"].isdigit()


# ── a real client ───────────────────────────────────────────────────────────────────────────────────────────────────


async def with_sdk(engine: Any, folder: Path, use: Callable[[AsyncOpenAI], Awaitable[None]]) -> None:
    """What a client of OpenAI's does with a server in front of the engine."""
    async with served(engine, folder, port=0) as service:
        listening: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()
        task = asyncio.create_task(
            serve(cast("AppService", service), Settings(port=0), on_listening=listening.set_result, stop=stop)
        )
        try:
            address = await asyncio.wait_for(listening, WATCHDOG_S)
            async with AsyncOpenAI(base_url=f"http://127.0.0.1:{address.port}/v1", api_key="none") as client:
                await use(client)
        finally:
            stop.set()
            await asyncio.wait_for(task, WATCHDOG_S)


def test_the_sdk_parses_what_tokens_drawn_at_random_come_to(tmp_path: Path) -> None:
    async def use(client: AsyncOpenAI) -> None:
        for _ in range(3):
            parsed = await client.responses.parse(model="no-weights", input="Hi", text_format=Place)
            assert isinstance(parsed.output_parsed, Place)
            completion = await client.chat.completions.parse(
                model="no-weights", messages=[{"role": "user", "content": "Hi"}], response_format=Place
            )
            assert isinstance(completion.choices[0].message.parsed, Place)

    asyncio.run(with_sdk(MaskedEngine(6), tmp_path, use))


def test_the_sdk_does_not_try_again_what_the_model_did_wrong(tmp_path: Path) -> None:
    engine = ScriptedEngine(final("No."), "No.<|return|>", final("No."), "No.<|return|>")

    async def use(client: AsyncOpenAI) -> None:
        with pytest.raises(InternalServerError) as caught:
            await client.chat.completions.create(
                model="script", messages=[{"role": "user", "content": "Hi"}], response_format=cast("Any", FORM)
            )
        assert caught.value.response.headers["x-should-retry"] == "false"
        assert (caught.value.code, caught.value.param) == ("form_not_met", "response_format")

    asyncio.run(with_sdk(engine, tmp_path, use))
    assert len(engine.sampled) == 2


def test_the_caller_may_be_anybody(tmp_path: Path) -> None:
    """Grammars are kept for all; whose request it is does not matter."""

    async def run() -> None:
        async with served(MaskedEngine(1), tmp_path) as service:
            for owner in ("a", "b"):
                response = await create(service, Caller(owner=owner), input="Hi", text=STRICT, store=False)
                assert json.loads(text_of(response))["size"] in ("small", "large")

    asyncio.run(run())


def test_a_reference_to_nowhere_is_refused_where_it_is_demanded_and_a_readable_warning_otherwise(
    tmp_path: Path,
) -> None:
    lost: Json = {"type": "object", "properties": {"city": {"$ref": "#/$defs/nowhere"}}}
    form: Json = {"type": "json_schema", "name": "place", "schema": lost}
    assert refused(tmp_path, text={"format": {**form, "strict": True}}).at.path is not None
    response = answered(tmp_path, ScriptedEngine(final('{"city":"Rome"}')), text={"format": form})
    assert response["status"] == "completed"
    assert any("#/$defs/nowhere" in each for each in response["warnings"])
    assert "PointerToNowhere" not in json.dumps(response)


def test_a_choice_has_the_type_of_its_tool(tmp_path: Path) -> None:
    for tool, kind in ((WEATHER, "custom"), (DIGITS, "function")):
        for choice in (
            {"type": kind, "name": tool["name"]},
            {"type": "allowed_tools", "tools": [{"type": kind, "name": tool["name"]}]},
        ):
            assert (refused(tmp_path, tools=[tool], tool_choice=choice).at.path or "").endswith(".type")


def _bomb() -> Json:
    declared = {f"property_{at}": {"type": "string"} for at in range(230)}
    return {
        "anyOf": [{"$ref": "#/$defs/a"}] * 300,
        "$defs": {"a": {"type": "object", "properties": declared, "additionalProperties": False}},
    }


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("place", ["tool", "format"])
def test_one_budget_bounds_every_schema_of_a_request(tmp_path: Path, place: str, strict: bool) -> None:
    if place == "tool":
        error = refused(tmp_path, tools=[{"type": "function", "name": "x", "parameters": _bomb(), "strict": strict}])
        path = "$.tools[0].parameters"
    else:
        form = {"type": "json_schema", "name": "x", "schema": _bomb(), "strict": strict}
        error = refused(tmp_path, text={"format": form})
        path = "$.text.format.schema"
    assert error.code is ErrorCode.SCHEMA_TOO_LARGE
    assert (error.at.path or "").startswith(path)


def test_schemas_are_read_and_grammars_written_off_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[tuple[str, str]] = []
    for owner, name in ((SchemaBudget, "admit"), (attempts, "grammar_for"), (attempts, "_check")):
        real = getattr(owner, name)

        def noted(*given: Any, _real: Any = real, _name: str = name, **named: Any) -> Any:
            threads.append((_name, threading.current_thread().name))
            return _real(*given, **named)

        monkeypatch.setattr(owner, name, noted)
    schema: Json = {"type": "object", "properties": {"off_the_loop": {"type": "integer"}}, "required": ["off_the_loop"]}
    form = {"format": {"type": "json_schema", "name": "x", "schema": schema, "strict": True}}
    tool = {"type": "function", "name": "f", "parameters": schema, "strict": True}
    answered(tmp_path, MaskedEngine(3), tools=[tool], text=form)
    assert {name for name, _ in threads} >= {"admit", "grammar_for"}
    assert all(thread.startswith("harmonia-schemas") for _, thread in threads)
