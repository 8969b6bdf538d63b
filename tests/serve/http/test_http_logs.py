"""The log and the metrics: what is said of a request, and what is never said."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
from collections.abc import AsyncGenerator

import pytest

from harmonia.errors import EngineError, ErrorCode, InputError
from harmonia.serve.config.settings import Settings
from harmonia.serve.http.telemetry import LineFormatter, configure, stack_of, withdraw
from harmonia.serve.wire.event_stream import StreamEvent
from tests.support.servers.http_servers import Generated, numbered, running


def record(error: BaseException | None = None, message: str = "hello") -> logging.LogRecord:
    info = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord("harmonia.serve", logging.ERROR, __file__, 1, message, None, info)


def raised() -> Exception:
    try:
        try:
            raise KeyError("SECRET ONE")
        except KeyError as error:
            raise InputError(ErrorCode.SERVE_BUG, "SECRET TWO") from error
    except InputError as error:
        return error


@pytest.mark.parametrize("is_json", [True, False])
def test_of_an_exception_there_is_the_type_and_the_stack_and_no_word(is_json: bool) -> None:
    text = LineFormatter(is_json=is_json, with_messages=False).format(record(raised()))
    assert "SECRET" not in text
    assert "InputError[serve.bug]" in text
    assert "KeyError" in text
    assert "in raised" in text


@pytest.mark.parametrize("is_json", [True, False])
def test_with_content_its_words_are_there_as_well(is_json: bool) -> None:
    text = LineFormatter(is_json=is_json, with_messages=True).format(record(raised()))
    assert "SECRET ONE" in text and "SECRET TWO" in text


def test_a_chain_that_bites_its_tail_has_an_end() -> None:
    first, second = ValueError(), KeyError()
    first.__cause__, second.__cause__ = second, first
    assert stack_of(first) == ["KeyError", "ValueError"]


def test_text_from_outside_cannot_begin_a_line() -> None:
    line = LineFormatter(is_json=False, with_messages=False).format(record(message="a\nb\x1b[31m"))
    assert "\n" not in line and "\x1b" not in line


def test_a_request_is_one_line_without_its_content() -> None:
    async def play() -> str:
        async with running() as server:
            secret = "SECRET"
            await server.ask("POST", f"/v1/responses?q={secret}", {"input": secret}, x_secret=secret, user_agent=secret)
            await server.ask("GET", f"/v1/responses/{secret}?a={secret}", authorization=f"Bearer {secret}")
            await server.ask("GET", f"/{secret}")
            await server.ask(secret, "/health")
            await server.ask("POST", "/v1/responses", b'{"SECRET": 1, "SECRET": 2}')
            return server.log.getvalue()

    text = asyncio.run(play())
    assert "SECRET" not in text
    lines = [json.loads(line) for line in text.splitlines()]
    requests = [line for line in lines if line["event"] == "request"]
    assert [(line["route"], line["status"]) for line in requests if line["method"] != "other"] == [
        ("/v1/responses", 200),
        ("/v1/responses/{id}", 200),
        ("(unmatched)", 404),
        ("/v1/responses", 400),
    ]
    assert requests[-1]["code"] == "serve.invalid_body"
    assert all(line["request_id"].startswith("req_") and line["duration_ms"] >= 0 for line in requests)


def test_where_it_is_asked_for_the_log_has_what_was_asked_and_answered() -> None:
    async def play() -> list[dict[str, object]]:
        async with running(log_content=True) as server:
            for is_stream in (False, True):
                await server.ask(
                    "POST", "/v1/responses", {"input": "QUESTION", "stream": is_stream}, x_request_id="mine"
                )
            return server.lines()

    lines = asyncio.run(play())
    said = [(line["event"], line["content"]) for line in lines if line["event"] != "request"]
    asked = '{"input": "QUESTION", "stream": %s}'
    assert said == [
        ("asked", asked % "false"),
        ("answered", '[{"n":0},{"n":1},{"n":2}]'),
        ("asked", asked % "true"),
        *(("answered", f'{{"n":{number}}}') for number in range(3)),
    ]
    assert {line["request_id"] for line in lines} == {"mine"}


@pytest.mark.parametrize("analysis", ["hidden", "shown"])
def test_the_words_of_an_engines_fault_are_logged_only_where_reasoning_is_shown(analysis: str) -> None:
    async def play() -> list[dict[str, object]]:
        async with running(log_content=True, analysis=analysis) as server:
            server.service.responses.refuses = EngineError(ErrorCode.ENGINE_BAD_ANSWER, "not JSON in 'SECRET THOUGHTS'")
            await server.ask("POST", "/v1/responses", {"input": "QUESTION"})
            server.service.responses.refuses = RuntimeError("SECRET THOUGHTS")
            await server.ask("POST", "/v1/responses", {"input": "QUESTION"})
            return server.lines()

    lines = asyncio.run(play())
    assert [line["code"] for line in lines if line["event"] == "request"] == ["engine.bad_answer", "serve.bug"]
    assert ("SECRET" in str(lines)) == (analysis == "shown")


def test_as_text_a_request_is_one_line_too() -> None:
    stream = io.StringIO()
    handler = configure(Settings(), stream)
    try:
        logging.getLogger("harmonia.serve").info("request", extra={"harmonia_fields": {"a": 1, "b": None, "c": "x y"}})
        logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
        logging.getLogger("uvicorn.error").info("Started server process")
    finally:
        withdraw(handler)
    first, second = stream.getvalue().splitlines()
    assert re.fullmatch(r'\S+Z INFO request a=1 c="x y"', first)
    assert second.endswith("WARNING Invalid HTTP request received.")
    assert logging.getLogger("harmonia").handlers == []


def test_a_task_that_dies_alone_is_logged_without_its_words() -> None:
    async def die() -> None:
        raise ValueError("SECRET")

    async def play() -> str:
        async with running() as server:
            task = asyncio.create_task(die())
            await asyncio.wait({task})
            del task
            return server.log.getvalue()

    text = asyncio.run(play())
    assert "SECRET" not in text
    assert json.loads(text)["error"] == "ValueError"


def test_metrics_have_few_labels_and_no_content() -> None:
    async def ticks(generated: Generated) -> AsyncGenerator[StreamEvent, None]:
        for event in numbered(5):
            yield event
        generated.output_tokens = 40

    async def play() -> str:
        async with running() as server:
            server.service.responses.script = ticks
            for number in range(20):
                await server.ask("GET", f"/SECRET{number}")
                await server.ask("GET", f"/v1/responses/SECRET{number}")
            await server.ask("POST", "/v1/responses", {"stream": True})
            answer = await server.ask("GET", "/metrics")
            assert answer.headers["content-type"].startswith("text/plain")
            return answer.body.decode()

    text = asyncio.run(play())
    assert "SECRET" not in text
    samples = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}
    assert samples['harmonia_requests_total{method="GET",route="(unmatched)",status="404"}'] == 20
    assert samples['harmonia_requests_total{method="GET",route="/v1/responses/{id}",status="200"}'] == 20
    assert samples['harmonia_stream_events_total{route="/v1/responses"}'] == 5
    assert samples['harmonia_output_tokens_total{route="/v1/responses"}'] == 40
    assert samples['harmonia_first_event_seconds_count{route="/v1/responses"}'] == 1
    assert samples["harmonia_requests_in_flight"] == 1
    assert samples['harmonia_request_duration_seconds_count{route="/v1/responses/{id}"}'] == 20
