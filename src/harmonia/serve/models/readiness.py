"""Whether the server is ready: why it may not be, in the words of `/ready`, and whether the engine still answers.

An engine in this process (demo, replay, transformers) lives as long as the process and is not asked. An engine that is
a server gets one small request; any answer but "not now" will do, because it may list its models only to those with a
key.
"""

from __future__ import annotations

import asyncio
from typing import Final, Literal, get_args

import msgspec

from harmonia.errors import EngineError, ErrorCode
from harmonia.run.engines.http import Server, ServerError
from harmonia.run.providers.base import HttpProvider

Reason = Literal[
    "no engine is configured", "the engine cannot be reached", "the store cannot be written", "the server is stopping"
]
NO_ENGINE, ENGINE_AWAY, STORE_FAILED, STOPPING = get_args(Reason)

PATIENCE_S: Final = 3.0
# Sent by a proxy whose engine is gone, and by an engine that is still loading its model.
_AWAY: Final = frozenset({502, 503, 504})


async def check_engine(model: object) -> None:
    """Raise an EngineError if the engine cannot be reached."""
    server: object = getattr(model, "server", None)
    if not isinstance(server, Server):
        return
    # Providers have the version in their address.
    path = "/models" if isinstance(model, HttpProvider) else "/v1/models"
    try:
        async with asyncio.timeout(PATIENCE_S):
            await server.fetch(path, msgspec.Raw)
    except TimeoutError:
        raise EngineError(ErrorCode.ENGINE_STALLED, f"{server.url} did not answer within {PATIENCE_S:g} s") from None
    except ServerError as error:
        if error.status in _AWAY:
            raise
    except EngineError as error:
        if error.code is not ErrorCode.ENGINE_BAD_ANSWER:
            raise
