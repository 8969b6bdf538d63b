"""The service of /v1/responses: create, retrieve, delete, cancel, list input items, count input tokens."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Final
from weakref import WeakValueDictionary

from harmonia.errors import ErrorCode, InputError
from harmonia.json_codec import encode_bytes
from harmonia.messages import Json
from harmonia.serve.config.settings import Settings
from harmonia.serve.responses.context import Backend, PreparedRequest
from harmonia.serve.responses.items import visible_item
from harmonia.serve.responses.request import read_request
from harmonia.serve.responses.stream import StartedResponse
from harmonia.serve.security.identity import Caller
from harmonia.serve.store import StoredTurn
from harmonia.serve.wire.validation import Query, check_query, invalid, limit_of, one_of, unsupported

_MOST_INPUT_ITEMS: Final = 100


class Responses:
    """All responses of a server."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        # Weak: a response that nobody reads any more ends.
        self._running: WeakValueDictionary[str, StartedResponse] = WeakValueDictionary()

    async def prepare(self, value: object, caller: Caller, stack: AsyncExitStack) -> PreparedRequest:
        """Read a request. The stack closes what was opened for it."""
        return await PreparedRequest.read(read_request(value), caller, self._backend, stack)

    async def create(self, value: object, caller: Caller) -> StartedResponse:
        """Start a response. Raises if the request is wrong; after that, everything is reported by events."""
        stack = AsyncExitStack()
        try:
            prepared = await self.prepare(value, caller, stack)
        except BaseException:
            await stack.aclose()
            raise
        started = StartedResponse(self._backend, prepared, stack, self._forget)
        try:
            await started.begin()
        except BaseException:
            await started.events().aclose()
            raise
        self._running[started.id] = started
        return started

    def _forget(self, response_id: str) -> None:
        self._running.pop(response_id, None)

    async def retrieve(self, response_id: str, caller: Caller, query: Query | None = None) -> bytes:
        """A stored response as it is now."""
        query = query or {}
        check_query(query, ("include", "include[]", "stream", "starting_after", "include_obfuscation"))
        if query.get("stream") in ("true", "1"):
            unsupported("a stored response cannot be streamed again; leave stream out", "$.stream")
        running = self._owned(response_id, caller)
        if running is not None:
            await running.wait_until_stored()
        turn = await self._backend.store.load(caller.owner, response_id)
        if turn is None:
            raise _no_response(response_id)
        return _encode_turn(turn, self._backend.settings)

    async def delete(self, response_id: str, caller: Caller) -> bytes:
        """Delete a response and everything in it. One that is running is cancelled first."""
        running = self._owned(response_id, caller)
        if running is not None:
            await running.stop_and_wait()
        if not await self._backend.store.delete(caller.owner, response_id):
            raise _no_response(response_id)
        return encode_bytes({"id": response_id, "object": "response", "deleted": True})

    async def cancel(self, response_id: str, caller: Caller) -> bytes:
        """End a running response, and give it as it is then. One that has ended stays as it is."""
        running = self._owned(response_id, caller)
        if running is not None:
            await running.stop_and_wait()
            return running.encoded
        return await self.retrieve(response_id, caller)

    async def input_items(self, response_id: str, caller: Caller, query: Query | None = None) -> bytes:
        """The input of a response, a page at a time."""
        query = query or {}
        check_query(query, ("after", "before", "limit", "order", "include", "include[]"))
        if "before" in query:
            unsupported("pages only go forward; use after", "$.before")
        order = one_of(query, "order") or "desc"
        if order not in ("asc", "desc"):
            invalid(f"order must be asc or desc, got {order!r}", "$.order")
        limit = limit_of(query, _MOST_INPUT_ITEMS)
        page = await self._backend.store.input_items(
            caller.owner,
            response_id,
            after=one_of(query, "after"),
            limit=limit,
            order=order,
        )
        if page is None:
            raise _no_response(response_id)
        items = [visible_item(item.wire, self._backend.settings) for item in page.items]
        ids = [item.id for item in page.items]
        head = encode_bytes(
            {
                "object": "list",
                "first_id": ids[0] if ids else None,
                "last_id": ids[-1] if ids else None,
                "has_more": page.has_more,
            }
        )
        return head[:-1] + b',"data":[' + b",".join(items) + b"]}"

    async def input_tokens(self, value: object, caller: Caller) -> bytes:
        """How many tokens the prompt of a request has."""
        async with AsyncExitStack() as stack:
            prepared = await self.prepare(value, caller, stack)
            count = await asyncio.to_thread(prepared.count_tokens)  # a long prompt takes time
            return encode_bytes({"object": "response.input_tokens", "input_tokens": count})

    def _owned(self, response_id: str, caller: Caller) -> StartedResponse | None:
        running = self._running.get(response_id)
        return running if running is not None and running.owner == caller.owner else None


def _encode_turn(turn: StoredTurn, settings: Settings) -> bytes:
    body: Json = json.loads(turn.response.body)
    body["output"] = [json.loads(visible_item(item.wire, settings)) for item in turn.outputs]
    return encode_bytes(body)


def _no_response(response_id: str) -> InputError:
    return InputError(ErrorCode.SERVE_NOT_FOUND, f"no stored response has the id {response_id[:100]!r}")
