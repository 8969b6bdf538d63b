"""Whether a server can listen at an address; and where it cannot, why, and who is there already."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import Final

from harmonia.errors import EngineError, ErrorCode, InputError, Position
from harmonia.run.engines.http import Patience
from harmonia.run.engines.probes import probe
from harmonia.serve.config.settings import Settings
from harmonia.serve.models.selection import is_harmonia

_ALL_ADDRESSES: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
# Whoever is there works for somebody else, and may never answer.
_PATIENCE: Final = Patience(connect_s=0.5, first_s=1.0, idle_s=1.0, attempts=1)


class PortTaken(InputError):
    """Somebody listens there already. `is_ours` says whether it is a Harmonia server."""

    is_ours: bool = False


def address_for_clients(host: str, port: int) -> str:
    """The URL under which a client on this machine reaches a server that listens there."""
    host = _ALL_ADDRESSES.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


async def check_port(settings: Settings) -> None:
    """Raises an InputError where the server could not listen."""
    error = await asyncio.to_thread(_try_to_bind, settings.host, settings.port)
    if error is None:
        return
    place = f"{settings.host} port {settings.port}"
    match error:
        case socket.gaierror():
            raise _refuse("host", f"{settings.host!r} is no address of this machine: {error.strerror}")
        case OSError(errno=errno.EADDRINUSE):
            is_ours, who = await who_listens(settings.host, settings.port)
            refused = PortTaken(ErrorCode.SERVE_INVALID_OPTION, f"{place} is taken by {who}", Position(path="$.port"))
            refused.is_ours = is_ours
            refused.add_note("stop that one; or choose another port with --port, where 0 takes any that is free")
            raise refused
        case OSError(errno=errno.EACCES):
            refused = _refuse("port", f"{place} is not for everybody: {error.strerror}")
            refused.add_note("ports below 1024 mostly need an administrator; choose a higher one with --port")
            raise refused
        case OSError(errno=errno.EADDRNOTAVAIL):
            raise _refuse("host", f"{settings.host!r} is no address of this machine")
        case _:
            raise _refuse("host", f"nothing can listen at {place}: {error.strerror or error}")


async def who_listens(host: str, port: int) -> tuple[bool, str]:
    """Whether a Harmonia server answers at an address, and who does, in words."""
    url = address_for_clients(host, port)
    if await is_harmonia(url):
        return True, "a Harmonia server"
    try:
        seen = await probe(url, patience=_PATIENCE)
    except EngineError as error:
        if error.code is ErrorCode.ENGINE_BAD_ANSWER:
            return False, "a program that is no engine"
        return False, "a program that does not answer"
    if seen.problem:
        return False, "a server that asks for a key"
    return False, f"an engine: {seen}"


def _try_to_bind(host: str, port: int) -> OSError | None:
    """Why nobody can listen there. Nothing is left listening."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:  # a name that no resolver can even be asked for
        return error if isinstance(error, OSError) else socket.gaierror(socket.EAI_NONAME, "it is no name")
    fault: OSError | None = None
    is_free = False
    for family, kind, protocol, _, address in addresses:
        try:
            with socket.socket(family, kind, protocol) as tried:
                if os.name == "posix":  # as servers do, so that the end of the last one does not count
                    tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                tried.bind(address)
            is_free = True
        except OSError as error:
            # `localhost` may have an address of a family that this machine has not.
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                return error
            fault = error
    return None if is_free else fault


def _refuse(setting: str, message: str) -> InputError:
    return InputError(ErrorCode.SERVE_INVALID_OPTION, message, Position(path=f"$.{setting}"))
