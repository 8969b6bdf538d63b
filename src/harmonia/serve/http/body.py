"""Read the body of a request: declared as JSON, within its limits of size and time, and strictly JSON."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from harmonia.errors import ErrorCode, InputError
from harmonia.serve.config.settings import Limits
from harmonia.serve.http.request_state import Arrival, Exchange
from harmonia.serve.wire.validation import read_json

# A longer body is parsed in a thread, so that other streams do not wait.
_LONG_BYTES: Final = 512 * 1024
# A body may take this long, plus a second for each so many bytes, up to `limits.receive_s`.
_FIRST_S: Final = 10.0
_LEAST_BYTES_PER_S: Final = 1000
_LONGEST_LENGTH: Final = 18
_JSON: Final = "application/json"


class ClientGone(Exception):
    """The client has left."""


async def read_value(exchange: Exchange, limits: Limits) -> Any:
    """Read the JSON value in the body."""
    _check_headers(exchange, limits)
    data = await _read_bytes(exchange, limits)
    if len(data) > _LONG_BYTES:
        return await asyncio.to_thread(read_json, data, depth=limits.depth)
    return read_json(data, depth=limits.depth)


def _check_headers(exchange: Exchange, limits: Limits) -> None:
    kind, *parameters = exchange.headers.get("content-type", "").lower().split(";")
    if kind.strip() != _JSON:
        raise _invalid(f"the content-type must be {_JSON}")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip().strip('"') not in ("utf-8", "utf8"):
            raise _invalid("the charset must be utf-8")
    if exchange.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise _invalid("the body must not be compressed: content-encoding is not supported")
    length = exchange.headers.get("content-length", "")
    # int() fails on thousands of digits.
    if length.isdecimal() and (len(length) > _LONGEST_LENGTH or int(length) > limits.body_bytes):
        raise _too_large(limits)


async def _read_bytes(exchange: Exchange, limits: Limits) -> bytes:
    pieces: list[bytes] = []
    try:
        async with asyncio.timeout(min(limits.receive_s, _FIRST_S)) as deadline:
            arrival = exchange.arrival = Arrival(deadline)
            while True:
                message = await exchange.receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                piece: bytes = message.get("body", b"")
                arrival.bytes += len(piece)
                if arrival.bytes > limits.body_bytes:
                    raise _too_large(limits)
                pieces.append(piece)
                if not message.get("more_body", False) and not arrival.is_ended:
                    exchange.has_read = True
                    return b"".join(pieces)
                in_time_s = _FIRST_S + arrival.bytes / _LEAST_BYTES_PER_S
                arrival.extend(arrival.began_at + min(limits.receive_s, in_time_s))
    except TimeoutError:
        raise InputError(
            ErrorCode.SERVE_TOO_SLOW,
            f"the body did not arrive within {limits.receive_s:g} seconds, arrived at less than {_LEAST_BYTES_PER_S} "
            "bytes per second, or was the slowest while other requests waited",
        ) from None
    finally:
        exchange.arrival = None


def _invalid(message: str) -> InputError:
    return InputError(ErrorCode.SERVE_INVALID_BODY, message)


def _too_large(limits: Limits) -> InputError:
    return InputError(ErrorCode.SERVE_TOO_LARGE, f"the body has more than {limits.body_bytes} bytes")
