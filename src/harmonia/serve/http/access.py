"""Who may ask at all: the host that was asked for, the page that asks, and the key.

1. A request must name this server as somebody who means it would: an address it is bound to, a loopback name, or one of
   `settings.hosts`. A page whose name was made to point here (DNS rebinding) sends its own name.
2. A request of a web page is refused unless the page comes from this server or is in `settings.origins`. Only those in
   `settings.origins` get CORS headers.
3. Where keys are set, everything needs one but `/health` and `/ready`, which say yes or no and nothing else, and the
   files of the page, which are the same for all. That a
   request comes from loopback changes nothing, because behind a proxy all of them do. Where none are set, credentials
   are not looked at: many clients cannot help sending some.
4. A link on another site may lead to the page, which nobody can frame; it leads nowhere else.
5. `/health` is answered under every host name, for load balancers; it is the same for all.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

from harmonia.errors import ErrorCode, InputError
from harmonia.serve.config.settings import Settings
from harmonia.serve.http.protocols import Keys
from harmonia.serve.http.request_state import Exchange
from harmonia.serve.security.api_keys import bearer_of

HEALTH: Final = "/health"
READY: Final = "/ready"

_PAGE: Final = "/"
_PAGE_FILES: Final = "/page/"
_WITHOUT_KEY: Final = frozenset({HEALTH, READY, _PAGE})
_LOCALHOST: Final = "localhost"
# A name or an address, in brackets where it has colons, and perhaps a port.
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_HEADER_NAMES: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,2000}")
_PREFLIGHT_S: Final = b"600"
# What a page of another origin may read beside the body; of a file, its name and how much of it is hidden.
_EXPOSED: Final = b"x-request-id, retry-after, content-disposition, harmonia-left-out"

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class AccessPolicy:
    """Decides by the headers alone, before anything is read."""

    def __init__(self, settings: Settings, keys: Keys | None) -> None:
        self._keys = keys
        bound = settings.host.strip("[]").lower()
        address = _address_of(bound)
        self._takes_addresses = bound == "" or (address is not None and address.is_unspecified)
        self._address = address
        self._names = {_LOCALHOST, *(_name_of(name) for name in settings.hosts)}
        if address is None and bound:
            self._names.add(bound)
        self._origins = {origin.rstrip("/").lower() for origin in settings.origins}

    def check(self, exchange: Exchange) -> bool:
        """Raises an InputError for a request that may not come in, else knows its owner. Says whether it is one for
        which a key is needed where keys are set."""
        if exchange.scope["path"] != HEALTH:
            self._check_host(exchange)
        self._check_origin(exchange)
        path: str = exchange.scope["path"]
        if path in _WITHOUT_KEY or path.startswith(_PAGE_FILES) or is_preflight(exchange):
            return False
        if self._keys is not None:
            self._check_key(exchange, self._keys)
        return True

    def preflight_headers(self, exchange: Exchange, methods: bytes) -> list[tuple[bytes, bytes]]:
        """What a browser asks before it sends a request of another page's."""
        asked = exchange.headers.get("access-control-request-headers", "")
        headers = [(b"access-control-allow-methods", methods), (b"access-control-max-age", _PREFLIGHT_S)]
        # The SDKs send headers of their own, more with each release; the page is trusted with any.
        if _HEADER_NAMES.fullmatch(asked):
            headers.append((b"access-control-allow-headers", asked.encode("latin-1")))
        if exchange.headers.get("access-control-request-private-network") == "true":
            headers.append((b"access-control-allow-private-network", b"true"))
        return headers

    def _check_host(self, exchange: Exchange) -> None:
        hosts = exchange.headers.getlist("host")
        found = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if found is None:
            raise _forbidden("the request must name one host, in the header Host")
        name = found[1].strip("[]").lower().removesuffix(".")
        if name in self._names:
            return
        address = _address_of(name)
        if address is not None and (address.is_loopback or address == self._address or self._takes_addresses):
            return
        raise _forbidden(
            "this server is not known under the name in the header Host; its operator adds one by --allow-host"
        )

    def _check_origin(self, exchange: Exchange) -> None:
        origins = exchange.headers.getlist("origin")
        if not origins:
            # A browser that sends no Origin, for a link or an image, says this at least.
            if exchange.headers.get("sec-fetch-site", "").lower() == "cross-site" and not _is_visit(exchange):
                raise _forbidden("web pages of other sites may not call this server")
            return
        origin = origins[0].lower() if len(origins) == 1 else ""
        if origin in self._origins:
            exchange.more_headers += [
                (b"access-control-allow-origin", origins[0].encode("latin-1")),
                (b"access-control-expose-headers", _EXPOSED),
                (b"vary", b"origin"),
            ]
            return
        if not _is_same(origin, exchange.headers.get("host", "").lower(), exchange.scope.get("scheme", "http")):
            raise _forbidden(
                "web pages of this origin may not call this server; its operator adds one by --allow-origin"
            )

    def _check_key(self, exchange: Exchange, keys: Keys) -> None:
        key = bearer_of(exchange.headers)
        if key is None:
            raise InputError(ErrorCode.SERVE_NO_KEY, "an API key is needed: Authorization: Bearer KEY")
        owner = keys.find(key)
        if owner is None:
            raise InputError(ErrorCode.SERVE_NO_KEY, "the API key is not known")
        exchange.owner = owner


def is_preflight(exchange: Exchange) -> bool:
    """Whether a browser asks what it may ask. It brings no key then."""
    return exchange.method == "OPTIONS" and "access-control-request-method" in exchange.headers


def _is_visit(exchange: Exchange) -> bool:
    """Whether somebody follows a link to the page."""
    headers = exchange.headers
    is_document = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return is_document and exchange.method == "GET" and exchange.scope["path"] == _PAGE


def _is_same(origin: str, host: str, scheme: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    # A proxy may speak TLS for us, so https is as good.
    return parts.scheme in (scheme, "https") and parts.netloc == host and bool(host)


def _name_of(host: str) -> str:
    """The name in a setting, which may have a port."""
    found = _HOST.fullmatch(host.strip())
    return (found[1] if found else host).strip("[]").lower().removesuffix(".")


def _address_of(name: str) -> Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _forbidden(message: str) -> InputError:
    return InputError(ErrorCode.SERVE_FORBIDDEN, message)
