"""Checks of a running server: that it is up and ready, what it serves, and that a stream arrives complete."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

import msgspec

from harmonia.errors import EngineError, ErrorCode, HarmonyError
from harmonia.run.engines.http import Patience, Server, ServerError
from harmonia.serve.doctor.findings import Finding, failure
from harmonia.serve.models.selection import is_harmonia

_TERMINAL: Final = ("response.completed", "response.incomplete")
_OUTPUT_TOKENS: Final = 64
_WITHOUT_KEY: Final = "set HARMONIA_API_KEY to a key of the server; `harmonia keys new` creates one"


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class _Fault(msgspec.Struct):
    code: str | None = None


class _Response(msgspec.Struct):
    error: _Fault | None = None
    harmonia_reason: str | None = None  # more exact than the code of the error


class _Event(msgspec.Struct):
    type: str = ""
    response: _Response | None = None
    error: _Fault | None = None  # of an `error` event

    @property
    def code(self) -> str | None:
        response = self.response or _Response()
        fault = self.error or response.error
        return response.harmonia_reason or (fault.code if fault else None)


async def examine_server(url: str, *, api_key: str | None = None, timeout_s: float = 30.0) -> AsyncGenerator[Finding]:
    """Check the server at a URL. Nothing is stored there."""
    root = (url if "//" in url else f"http://{url}").rstrip("/").removesuffix("/v1")
    patience = Patience(connect_s=5.0, first_s=timeout_s, idle_s=timeout_s, attempts=1)
    try:
        server = Server(root, api_key=api_key, patience=patience)
    except HarmonyError as error:
        yield failure("server", error, "use the address that `harmonia serve` prints")
        return
    try:
        is_ours = await is_harmonia(server.url, patience, api_key=api_key)
        try:
            await server.fetch("/health", msgspec.Raw)
            yield Finding("health", "ok", f"{server.url} is up{', a Harmonia server' if is_ours else ''}")
        except EngineError as error:
            if error.code is ErrorCode.ENGINE_UNREACHABLE:
                yield failure("health", error, "start it with `harmonia serve`, which prints its address")
                return
            advice = "check that a Harmonia server, and no other program, listens at this address"
            yield failure("health", error, advice)
        if not is_ours:
            advice = "use the address that `harmonia serve` prints; test other servers with `harmonia check`"
            yield Finding("server", "warn", f"{server.url} does not identify itself as a Harmonia server", advice)
        try:
            await server.fetch("/ready", msgspec.Raw)
            yield Finding("ready", "ok", "/ready reports ready")
        except EngineError as error:
            yield failure("ready", error, "read its log: the engine or the store is unavailable")
        finding, model = await _check_models(server)
        yield finding
        if model is not None:
            yield await _check_stream(server, model)
    except HarmonyError as error:
        yield failure("server", error)
    finally:
        await server.close()


async def _check_models(server: Server) -> tuple[Finding, str | None]:
    try:
        listed = (await server.fetch("/v1/models", _Models)).data
    except EngineError as error:
        is_refused = isinstance(error, ServerError) and error.status in (401, 403)
        return failure("models", error, _WITHOUT_KEY if is_refused else "read its log"), None
    if not listed:
        return Finding("models", "fail", "the server has no model", "read what it printed when it started"), None
    return Finding("models", "ok", f"the server has {', '.join(model.id for model in listed)}"), listed[0].id


async def _check_stream(server: Server, model: str) -> Finding:
    body: dict[str, Any] = {"model": model, "input": "Say hello.", "max_output_tokens": _OUTPUT_TOKENS}
    body |= {"stream": True, "store": False}
    started = time.monotonic()
    last, count = _Event(), 0
    try:
        async with aclosing(server.lines("/v1/responses", body, "sse")) as reads:
            async for lines in reads:
                for line in lines:
                    if line != b"[DONE]":
                        last, count = msgspec.json.decode(line, type=_Event), count + 1
    except EngineError as error:
        return failure("stream", error, "read its log")
    except (msgspec.DecodeError, UnicodeDecodeError):
        advice = "check that no proxy changes the stream"
        return Finding("stream", "fail", "an event of the stream is malformed", advice)
    if last.type not in _TERMINAL:
        because = f": {last.code}" if last.code else ""
        advice = "docs/reference/server-errors.md explains the code; the log has details" if because else "read its log"
        return Finding("stream", "fail", f"the stream ended with {last.type or 'no event'}{because}", advice)
    return Finding("stream", "ok", f"a complete stream of {count} events in {time.monotonic() - started:.1f} s")
