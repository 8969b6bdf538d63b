"""`/v1/harmony/trace`: a turn of a chat for the inspector, the prompt that the model got and what it sampled behind it.

What is inspected was rendered here, from a request and its answer; the inspection itself is that of `inspect`.
"""

from __future__ import annotations

from typing import Final

from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from harmonia.serve.config.settings import Limits
from harmonia.serve.http.admission import Running
from harmonia.serve.http.body import read_value
from harmonia.serve.http.protocols import HttpService
from harmonia.serve.http.request_state import EXCHANGE, Exchange
from harmonia.serve.inspector.bodies import Includable, TraceRequest
from harmonia.serve.inspector.inspections import inspect_tokens
from harmonia.serve.inspector.routes import Workshop
from harmonia.serve.inspector.turn_trace import RenderedTurn
from harmonia.serve.inspector.work_limits import check_number, encode_answer, object_of
from harmonia.serve.wire.validation import read_struct

# Above so many tokens an inspection goes to a thread.
LARGE_TOKENS: Final = 2048


def turn_trace_routes(service: HttpService, limits: Limits, running: Running, workshop: Workshop) -> list[Route]:
    endpoint = _Trace(service, limits, running, workshop)
    return [Route("/v1/harmony/trace", endpoint, methods=["POST"], name="harmony_trace")]


class _Trace:
    def __init__(self, service: HttpService, limits: Limits, running: Running, workshop: Workshop) -> None:
        self._service = service
        self._limits = limits
        self._running = running
        self._workshop = workshop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope[EXCHANGE]
        caller = exchange.caller()
        with self._running.place(exchange):
            value = await read_value(exchange, self._limits)
            asked = read_struct(object_of(value), TraceRequest)
            turn = await self._service.render_turn(caller, asked.request, asked.output, asked.sampled)
            work = (turn, asked.include)
            is_large = len(turn.tokens) > LARGE_TOKENS
            status, data = await self._workshop.do(self._inspect, work) if is_large else self._inspect(work)
            await self._running.send(exchange, data, status)

    def _inspect(self, work: tuple[RenderedTurn, list[Includable]]) -> tuple[int, bytes]:
        turn, include = work
        check_number(len(turn.tokens), "$")
        answer = inspect_tokens(turn.tokens, include, taken_for="a turn of a chat", notes=turn.notes)
        answer["prompt_tokens"] = turn.prompt_tokens
        answer["left_out"] = {"messages": turn.left_out, "tokens": turn.left_out_tokens} if turn.left_out else None
        answer["faults"] = list(turn.faults)
        return 200, encode_answer(answer)
