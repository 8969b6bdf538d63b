"""Addresses of engines and providers: what people may see of one, and where its API is."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

_HIDDEN: Final = "…"
_PATHS: Final = ("transformers:", "replay:")  # these are files and have no login
_ENDPOINTS: Final = ("/chat/completions", "/responses", "/completions", "/models")


def redact(url: str) -> str:
    """A URL without its login and its query, which may contain a password or a key. Text that is not a URL may contain
    them anywhere, so everything up to its last @ is removed."""
    kind, found, rest = url.partition("://")
    if not found:
        return url if url.startswith(_PATHS) or "@" not in url else f"{_HIDDEN}@{url.rpartition('@')[2]}"
    host, slash, path = rest.partition("/")
    _, colon, port = host.rpartition(":")
    if "@" in host:
        host = f"{_HIDDEN}@{host.rpartition('@')[2]}"
    elif colon and "@" in path and not port.rstrip("]").isdecimal():
        # A password with a slash in it.
        host, slash, path = f"{_HIDDEN}@{rest.rpartition('@')[2]}", "", ""
    path, query, _ = path.partition("?")
    host, host_query, _ = host.partition("?")
    return f"{kind}://{host}{slash}{path}{'?' + _HIDDEN if query or host_query else ''}"


def api_address(url: str) -> str:
    """The address below which `/chat/completions` and `/responses` are.

    http://host:8000                      http://host:8000/v1
    https://host/api/v1/                  https://host/api/v1
    https://host/v1/chat/completions      https://host/v1
    """
    address = url.rstrip("/")
    for endpoint in _ENDPOINTS:
        address = address.removesuffix(endpoint)
    try:
        path = urlsplit(address).path
    except ValueError:
        return address  # opening it reports what is wrong
    return address if path.strip("/") else f"{address}/v1"
