"""HTTP to a server that a stranger named: public addresses only, and answers of bounded size.

1. The address is checked that is connected to, not the name: the name is resolved once for each request, and the
   connection goes to that address. A name that resolves to another address later (DNS rebinding) changes nothing.
2. Redirects are not followed by whoever uses this; if they were, each would be checked in the same way.
3. The environment has no say: no proxy, and no password from a `.netrc`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Collection
from typing import Final

import httpx2

MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024

_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_PORTS: Final = {"http": 80, "https": 443}

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class PublicTransport(httpx2.AsyncBaseTransport):
    """Connects to public addresses, and to the `private_hosts` that the operator named."""

    def __init__(self, private_hosts: Collection[str]) -> None:
        self._private_hosts = frozenset(host.lower() for host in private_hosts)
        self._inner = httpx2.AsyncHTTPTransport(trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.host
        if host.lower() not in self._private_hosts:
            address = await _resolve(host, request.url.port or _PORTS[request.url.scheme])
            # The header Host has the name already; TLS is told it, too.
            request.url = request.url.copy_with(host=address)
            request.extensions = {**request.extensions, "sni_hostname": host}
        response = await self._inner.handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Bounded(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def is_public(address: Address) -> bool:
    """Whether an address belongs to the internet, also where it stands for another one."""
    if isinstance(address, ipaddress.IPv6Address):
        meant = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if meant is None and address in _NAT64:
            meant = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if meant is not None and not is_public(meant):
            return False
    return address.is_global and not address.is_multicast


async def _resolve(host: str, port: int) -> str:
    """An address of a host. Where one of its addresses is not public, none is taken: such a name is a trap."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise httpx2.ConnectError("the name of the host is not known") from None
    addresses = [str(each[4][0]).partition("%")[0] for each in found]
    if not addresses or not all(is_public(ipaddress.ip_address(each)) for each in addresses):
        raise httpx2.ConnectError("the host is not public; its operator allows private ones by client_mcp_hosts")
    return addresses[0]


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_ANSWER_BYTES
        async for piece in self._stream:
            left -= len(piece)
            if left < 0:
                raise httpx2.ReadError(f"the answer has more than {MAX_ANSWER_BYTES} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()
