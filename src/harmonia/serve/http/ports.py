"""The sockets of the server. If its address cannot be used, the error says why, and which program has the port."""

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

_BACKLOG: Final = 1024
# `localhost` may have an address of a family that this machine does not support.
_UNSUPPORTED: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
# The other program may never respond.
_PATIENCE: Final = Patience(connect_s=0.5, first_s=1.0, idle_s=1.0, attempts=1)


class PortTaken(InputError):
    """Another program listens there. `is_ours`: it is a Harmonia server."""

    is_ours: bool = False


def address_for_clients(host: str, port: int) -> str:
    """The URL for a client on this machine of a server that listens there."""
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def bind(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen on all addresses of a host, on the same port. Raises an InputError if that is impossible."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise _refuse("host", f"{host!r} is not an address of this machine: {error}") from None
    sockets: list[socket.socket] = []
    fault: OSError | None = None
    for family, kind, protocol, _, address in dict.fromkeys(found):
        bound = socket.socket(family, kind, protocol)
        try:
            if os.name == "posix":  # so that closed connections of the last server do not count
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            # If the port is 0, the first socket decides.
            bound.bind((address[0], sockets[0].getsockname()[1] if sockets else port, *address[2:]))
            bound.listen(_BACKLOG)
            bound.setblocking(False)
            sockets.append(bound)
        except OSError as error:
            bound.close()
            fault = error
            if error.errno not in _UNSUPPORTED:
                break
    if fault is None or (sockets and fault.errno in _UNSUPPORTED):
        return sockets
    for each in sockets:
        each.close()
    raise _explain(fault, host, port) from None


async def check_port(settings: Settings) -> None:
    """Raise an InputError if the server could not listen. Nothing is left listening."""
    try:
        for each in await asyncio.to_thread(bind, settings.host, settings.port):
            each.close()
    except PortTaken as error:
        is_ours, who = await _who_listens(settings.host, settings.port)
        message = f"{settings.host} port {settings.port} is used by {who}"
        taken = PortTaken(error.code, message, error.at)
        taken.is_ours = is_ours
        taken.add_note("stop that program, or choose another port with --port; 0 takes any free port")
        raise taken from None


async def _who_listens(host: str, port: int) -> tuple[bool, str]:
    """Whether a Harmonia server responds at an address, and which program does, in words."""
    try:
        seen = await probe(address_for_clients(host, port), patience=_PATIENCE)
    except EngineError as error:
        is_something = error.code is ErrorCode.ENGINE_BAD_ANSWER
        return False, "a program that is not an engine" if is_something else "a program that does not respond"
    if seen.kind == "harmonia":
        return True, "a Harmonia server"
    return False, "a server that requires a key" if seen.problem else f"an engine: {seen}"


def _explain(error: OSError, host: str, port: int) -> InputError:
    place = f"{host} port {port}"
    match error.errno:
        case errno.EADDRINUSE:
            return PortTaken(ErrorCode.SERVE_INVALID_OPTION, f"{place} is already in use", Position(path="$.port"))
        case errno.EACCES:
            refused = _refuse("port", f"{place} is not permitted: {error.strerror}")
            refused.add_note("ports below 1024 usually need administrator rights; choose a higher one with --port")
            return refused
        case errno.EADDRNOTAVAIL:
            return _refuse("host", f"{host!r} is not an address of this machine")
        case _:
            return _refuse("host", f"cannot listen on {place}: {error.strerror or error}")


def _refuse(setting: str, message: str) -> InputError:
    return InputError(ErrorCode.SERVE_INVALID_OPTION, message, Position(path=f"$.{setting}"))
