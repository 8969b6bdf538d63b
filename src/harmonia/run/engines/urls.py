"""URLs, and names of engines with one, as people may see them: in errors, logs, findings and printed settings."""

from __future__ import annotations

from typing import Final

_HIDDEN: Final = "…"
_PATHS: Final = ("transformers:", "replay:")  # which are files and have no login


def redact(url: str) -> str:
    """A URL without its login and its query, which may have a password or a key. What is mistyped is no URL and may
    have them anywhere, so everything up to its last @ goes."""
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
