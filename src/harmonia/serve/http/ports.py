"""Check that the server can listen on its address; if not, say why, and which program has the port."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import Final

from harmonia.errors import EngineError, ErrorCode, InputError, Position
from harmonia.run.engines.http import Patience
from harmonia.run.engines.registry import probe
from harmonia.serve.config.settings import Settings

_ALL_ADDRESSES: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
# The other program may never respond.
_PATIENCE: Final = Patience(connect_s=0.5, first_s=1.0, idle_s=1.0, attempts=1)


class PortTaken(InputError):
    """Another program listens there. `is_ours`: it is a Harmonia server."""

    is_ours: bool = False


def address_for_clients(host: str, port: int) -> str:
    """The URL for a client on this machine of a server that listens there."""
    host = _ALL_ADDRESSES.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


async def check_port(settings: Settings) -> None:
    """Raise an InputError if the server could not listen."""
    error = await asyncio.to_thread(_try_to_bind, settings.host, settings.port)
    if error is None:
        return
    place = f"{settings.host} port {settings.port}"
    match error:
        case socket.gaierror():
            raise _refuse("host", f"{settings.host!r} is not an address of this machine: {error.strerror}")
        case OSError(errno=errno.EADDRINUSE):
            is_ours, who = await who_listens(settings.host, settings.port)
            refused = PortTaken(ErrorCode.SERVE_INVALID_OPTION, f"{place} is used by {who}", Position(path="$.port"))
            refused.is_ours = is_ours
            refused.add_note("stop that program, or choose another port with --port; 0 takes any free port")
            raise refused
        case OSError(errno=errno.EACCES):
            refused = _refuse("port", f"{place} is not permitted: {error.strerror}")
            refused.add_note("ports below 1024 usually need administrator rights; choose a higher one with --port")
            raise refused
        case OSError(errno=errno.EADDRNOTAVAIL):
            raise _refuse("host", f"{settings.host!r} is not an address of this machine")
        case _:
            raise _refuse("host", f"cannot listen on {place}: {error.strerror or error}")


async def who_listens(host: str, port: int) -> tuple[bool, str]:
    """Whether a Harmonia server responds at an address, and which program does, in words."""
    url = address_for_clients(host, port)
    try:
        seen = await probe(url, patience=_PATIENCE)
    except EngineError as error:
        if error.code is ErrorCode.ENGINE_BAD_ANSWER:
            return False, "a program that is not an engine"
        return False, "a program that does not respond"
    if seen.kind == "harmonia":
        return True, "a Harmonia server"
    if seen.problem:
        return False, "a server that requires a key"
    return False, f"an engine: {seen}"


def _try_to_bind(host: str, port: int) -> OSError | None:
    """Why the address cannot be bound; None if it can. Nothing is left listening."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:  # not even a valid name
        return error if isinstance(error, OSError) else socket.gaierror(socket.EAI_NONAME, "not a valid name")
    fault: OSError | None = None
    is_free = False
    for family, kind, protocol, _, address in addresses:
        try:
            with socket.socket(family, kind, protocol) as tried:
                if os.name == "posix":  # as servers do, so that the last one's closed connections do not count
                    tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                tried.bind(address)
            is_free = True
        except OSError as error:
            # `localhost` may have an address of a family that this machine does not support.
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                return error
            fault = error
    return None if is_free else fault


def _refuse(setting: str, message: str) -> InputError:
    return InputError(ErrorCode.SERVE_INVALID_OPTION, message, Position(path=f"$.{setting}"))
