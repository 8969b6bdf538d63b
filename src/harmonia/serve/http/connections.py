"""Which connections stay open when there are too many.

    SILENT --head of a request--> UNKNOWN --request admitted--> KNOWN
                                     ^--- request not admitted ---'

A request is admitted if the access policy accepted it with its key, or without one if the server has no keys. Health
checks and the files of the page need no key and leave their connection UNKNOWN.

1. Each group has its own budget, so a connection that sends nothing or has no key never takes the place of one that
   has.
2. When SILENT or UNKNOWN is full, the oldest connection of the address with the most connections is closed. A new
   connection is always accepted, so health checks work.
3. When KNOWN is full, the connection that has been idle longest is closed. If none is idle, the request is refused.
4. `limits.address_connections` bounds one address in the same way. It is off by default: behind a reverse proxy all
   clients have the proxy's address.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Final

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.serve.config.settings import Limits

# As many as the kernel queues: a burst of clients whose requests are still arriving is not cut.
SILENT_CONNECTIONS: Final = 1024
UNKNOWN_CONNECTIONS: Final = 256
# Beyond the requests that may generate: for short requests, and for clients that keep a connection open.
FURTHER_CONNECTIONS: Final = 768
# Of the files that the process may open; the store, the engine and tools need the rest.
_SHARE_OF_FILES: Final = 0.75
# The owner of one IPv6 address has its whole network.
_IPV6_NETWORK_BITS: Final = 64


class Group(Enum):
    """What is known about the client of a connection. The values are labels of a metric."""

    SILENT = "silent"
    UNKNOWN = "unknown"
    KNOWN = "known"


class Budgets(msgspec.Struct, frozen=True):
    """The most connections of each group."""

    silent: int
    unknown: int
    known: int

    @classmethod
    def of(cls, limits: Limits, files: int | None) -> Budgets:
        """The budgets of a server whose process may open this many files; None: no limit."""
        budgets = cls(SILENT_CONNECTIONS, UNKNOWN_CONNECTIONS, limits.concurrent + FURTHER_CONNECTIONS)
        if files is None or budgets.total <= files * _SHARE_OF_FILES:
            return budgets
        share = files * _SHARE_OF_FILES / budgets.total
        return cls(*(max(1, int(each * share)) for each in (budgets.silent, budgets.unknown, budgets.known)))

    @property
    def total(self) -> int:
        return self.silent + self.unknown + self.known


class Connection:
    """`is_idle`: it has no request in progress."""

    def __init__(self, registry: Connections, transport: asyncio.Transport, is_idle: Callable[[], bool]) -> None:
        self.group = Group.SILENT
        self.address = address_of(transport)
        self.is_idle = is_idle
        self._registry = registry
        self._transport = transport

    def begin_request(self) -> None:
        """The head of a request has arrived."""
        if self.group is Group.SILENT:
            self._registry.move(self, Group.UNKNOWN)

    def admit(self, *, is_operation: bool) -> None:
        """A request was accepted. Raises an InputError if there is no room for it, except for operators' requests."""
        if self._registry.make_room(self):
            self._registry.move(self, Group.KNOWN)
        elif not is_operation:
            raise InputError(ErrorCode.SERVE_BUSY, "the server has too many connections; send the request again later")

    def deny(self) -> None:
        """A request was refused, or needed no key."""
        if self.group is Group.KNOWN:
            self._registry.move(self, Group.UNKNOWN)

    def close(self) -> None:
        # Unread data would keep the connection open.
        if self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self._transport.close()


class Connections:
    """All connections of a server. `on_closed` is called for each that is closed to make room."""

    def __init__(
        self, budgets: Budgets, address_connections: int | None, on_closed: Callable[[Group], None] = lambda _: None
    ) -> None:
        self._budgets = {Group.SILENT: budgets.silent, Group.UNKNOWN: budgets.unknown, Group.KNOWN: budgets.known}
        self._address_connections = address_connections
        self._on_closed = on_closed
        # By group and address, the oldest first; of the known ones, the one with the oldest request.
        self._groups: dict[Group, dict[str, dict[Connection, None]]] = {group: {} for group in Group}
        self._counts = dict.fromkeys(Group, 0)

    def open(self, transport: asyncio.Transport, is_idle: Callable[[], bool]) -> Connection:
        """A connection was made."""
        connection = Connection(self, transport, is_idle)
        if self._is_address_full(connection.address, 1):
            self._close_first(self._waiting_of(connection.address))
        self._add(connection)
        return connection

    def count(self, group: Group) -> int:
        return self._counts[group]

    def move(self, connection: Connection, group: Group) -> None:
        """Move a connection to a group, as its newest."""
        if self.remove(connection):
            connection.group = group
            self._add(connection)

    def make_room(self, connection: Connection) -> bool:
        """Make room among the known connections, of which this one may already be one; return whether there is room."""
        if self._is_address_full(connection.address, 0) and not self._close_first(
            each for each in self._waiting_of(connection.address) if each is not connection
        ):
            return False
        if connection.group is Group.KNOWN or self._counts[Group.KNOWN] < self._budgets[Group.KNOWN]:
            return True
        # First of the address with the most connections.
        crowds = sorted(self._groups[Group.KNOWN].values(), key=len, reverse=True)
        return any(self._close_first(each for each in crowd if each.is_idle()) for crowd in crowds)

    def _waiting_of(self, address: str) -> Iterator[Connection]:
        """The connections of an address that may be closed to make room, in order."""
        yield from self._groups[Group.SILENT].get(address, ())
        yield from self._groups[Group.UNKNOWN].get(address, ())
        yield from (each for each in self._groups[Group.KNOWN].get(address, ()) if each.is_idle())

    def _is_address_full(self, address: str, more: int) -> bool:
        if self._address_connections is None:
            return False
        held = sum(len(by_address.get(address, ())) for by_address in self._groups.values())
        return held + more > self._address_connections

    def _add(self, connection: Connection) -> None:
        group = connection.group
        if group is not Group.KNOWN and self._counts[group] >= self._budgets[group]:
            self._close_first(max(self._groups[group].values(), key=len))
        self._groups[group].setdefault(connection.address, {})[connection] = None
        self._counts[group] += 1

    def remove(self, connection: Connection) -> bool:
        """A connection was lost or closed. False if it was closed before, to make room."""
        by_address = self._groups[connection.group]
        held = by_address.get(connection.address, {})
        if connection not in held:
            return False
        del held[connection]
        if not held:
            del by_address[connection.address]
        self._counts[connection.group] -= 1
        return True

    def _close_first(self, connections: Iterable[Connection]) -> bool:
        connection = next(iter(connections), None)
        if connection is None:
            return False
        self.remove(connection)
        connection.close()
        self._on_closed(connection.group)
        return True


def address_of(transport: asyncio.Transport) -> str:
    """The address of the client, of IPv6 its network; empty for a local socket."""
    peer = transport.get_extra_info("peername")
    if not isinstance(peer, tuple):
        return ""
    name = str(peer[0])  # pyright: ignore[reportUnknownArgumentType] -- asyncio does not type it
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name
    if address.version == 4 or address.ipv4_mapped is not None:
        return name if address.version == 4 else str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address), _IPV6_NETWORK_BITS), strict=False))
