"""`/v1/harmony/…`: rendering, parsing, inspecting and tokenizing over HTTP.

What takes long is done in a thread of a small pool, so that streams beside it go on; when the pool is busy, such a
request waits. Small ones are done at once, because a thread would cost more than they do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date as Date
from typing import Any, Final, Protocol, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harmonia.errors import StreamError
from harmonia.messages import Json
from harmonia.parts.inspection import describe_event, describe_position
from harmonia.serve import harmony_service
from harmonia.serve.harmony_service import MOST_BODY_BYTES, encode_answer
from harmonia.serve.http.bodies import read_value
from harmonia.serve.http.exchange import EXCHANGE
from harmonia.serve.settings import Limits, Settings

# Above this a request goes to a thread: about as much as takes a few milliseconds.
LARGE: Final = 64 * 1024
_WORKERS: Final = 2
_MALFORMED: Final = 422
# What a value counts beside its characters.
_VALUE_WEIGHT: Final = 8


class HarmonyHost(Protocol):
    """What these routes need of the service."""

    @property
    def settings(self) -> Settings: ...


def routes(service: HarmonyHost) -> list[Route]:
    limits = service.settings.limits
    limits = msgspec.structs.replace(limits, body_bytes=min(limits.body_bytes, MOST_BODY_BYTES))
    # Its threads start when they are needed, and end when the routes are gone.
    pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="harmonia-harmony")
    work: dict[str, Callable[[Any], Json]] = {
        "render": lambda value: harmony_service.render(value, limits, Date.today()),
        "parse": lambda value: harmony_service.parse(value, limits),
        "inspect": lambda value: harmony_service.inspect(value, limits),
        "tokenize": harmony_service.tokenize,
        "detokenize": harmony_service.detokenize,
    }
    return [
        Route(f"/v1/harmony/{name}", _handler(do, limits, pool), methods=["POST"], name=f"harmony_{name}")
        for name, do in work.items()
    ]


def _handler(do: Callable[[Any], Json], limits: Limits, pool: ThreadPoolExecutor) -> Callable[[Request], Any]:
    def answer(value: Any) -> Response:
        try:
            return Response(encode_answer(do(value)), media_type="application/json")
        except StreamError as error:
            return Response(encode_answer(_describe_fault(error, value)), _MALFORMED, media_type="application/json")

    async def handle(request: Request) -> Response:
        value = await read_value(request.scope[EXCHANGE], limits)
        if not is_large(value):
            return answer(value)
        return await asyncio.get_running_loop().run_in_executor(pool, answer, value)

    return handle


def is_large(value: Any) -> bool:
    """Whether a value is worth a thread. Looks at no more of it than it takes to know."""
    weight = 0
    todo: list[Any] = [value]
    while todo and weight <= LARGE:
        found = todo.pop()
        weight += _VALUE_WEIGHT
        if isinstance(found, str):
            weight += len(found)
        elif isinstance(found, list):
            listed = cast("list[Any]", found)
            if len(listed) * _VALUE_WEIGHT > LARGE:
                return True
            todo += listed
        elif isinstance(found, dict):
            entries = cast("dict[str, Any]", found)
            if len(entries) * _VALUE_WEIGHT > LARGE:
                return True
            weight += sum(map(len, entries))
            todo += entries.values()
    return weight > LARGE


def _describe_fault(error: StreamError, value: Json) -> Json:
    """The fault that a strict parse stopped at: the one error shape, and where it is. What was found before it is not
    lost, where events were asked for. All of it is about the caller's own input."""
    described: Json = {
        "error": {
            "message": error.message,
            "type": "malformed_harmony",
            "param": "tokens" if value.get("tokens") is not None else "text",
            "code": error.code.value,
            "at": describe_position(error.at),
        }
    }
    if value.get("output") == "events":
        described["events"] = [describe_event(cast(Any, event)) for event in error.events]
    return described
