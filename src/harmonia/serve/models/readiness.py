"""Whether the engine still answers: one small question to it, where it is a server.

An engine in this process (demo, replay, transformers) is there for as long as the process is, and is not asked. Any
answer will do but one that says "not now": a server may list its models to nobody, or only to those with a key.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from harmonia.errors import EngineError, ErrorCode
from harmonia.run.engines.http import Server, ServerError

PATIENCE_S: Final = 3.0
# From a proxy whose engine is gone, and from one that still loads its model.
_AWAY: Final = frozenset({502, 503, 504})


async def check_engine(model: object) -> None:
    """Raises an EngineError where the engine cannot be reached."""
    server: object = getattr(model, "server", None)
    if not isinstance(server, Server):
        return
    # Providers have the version in their address.
    path = "/models" if getattr(model, "traits", None) is None else "/v1/models"
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
