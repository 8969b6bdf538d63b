"""Which requests are accepted: by host name, by the origin of a web page, and by API key.

1. The Host header must name this server: an address it is bound to, a loopback name, or one of `settings.hosts`. After
   DNS rebinding, a page sends its own name.
2. A request from a web page is refused unless the page comes from this server or is in `settings.origins`. Only those
   in `settings.origins` get CORS headers.
3. If keys are set, everything needs one except `/health` and `/ready`, which answer yes or no, and the files of the
   page, which are the same for everyone. Loopback is no exception, because behind a proxy every request comes from
   there. Without keys, credentials are ignored: many clients always send some.
4. A link on another site may lead to the page, which cannot be framed, and nowhere else.
5. `/health` is answered under every host name, for load balancers.

Not Starlette's middlewares: CORSMiddleware lets requests of other origins through (it only leaves the headers out),
TrustedHostMiddleware knows no addresses and answers in plain text, and each would wrap `send`, once per token.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

from harmonia.errors import ErrorCode, InputError
from harmonia.serve.config.settings import Settings
from harmonia.serve.http.request_state import Exchange
from harmonia.serve.security.keys import ApiKeys, bearer_of

HEALTH: Final = "/health"
READY: Final = "/ready"

_PAGE: Final = "/"
_PAGE_FILES: Final = "/page/"
_WITHOUT_KEY: Final = frozenset({HEALTH, READY, _PAGE})
_LOCALHOST: Final = "localhost"
# A name or an address, in brackets if it has colons, and an optional port.
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_HEADER_NAMES: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,2000}")
_PREFLIGHT_S: Final = b"600"
# Headers that a page of another origin may read: of an exported file, its name and how much of it is hidden.
_EXPOSED: Final = b"x-request-id, retry-after, content-disposition, harmonia-left-out"

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class AccessPolicy:
    """Decides by the headers alone, before the body is read."""

    def __init__(self, settings: Settings, keys: ApiKeys | None) -> None:
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
        """Refuse a request with an InputError, or set its owner. Returns whether it needs a key if keys are set."""
        path: str = exchange.scope["path"]
        if path != HEALTH:
            self._check_host(exchange)
        self._check_origin(exchange)
        if path in _WITHOUT_KEY or path.startswith(_PAGE_FILES) or is_preflight(exchange):
            return False
        if self._keys is not None:
            key = bearer_of(exchange.headers)
            owner = None if key is None else self._keys.find(key)
            if owner is None:
                needed = "an API key is required: send the header Authorization: Bearer KEY"
                raise InputError(ErrorCode.SERVE_NO_KEY, needed if key is None else "the API key is unknown")
            exchange.owner = owner
        return True

    def preflight_headers(self, exchange: Exchange, methods: bytes) -> list[tuple[bytes, bytes]]:
        """The answer to a browser that asks before it sends a request of another page."""
        asked = exchange.headers.get("access-control-request-headers", "")
        headers = [(b"access-control-allow-methods", methods), (b"access-control-max-age", _PREFLIGHT_S)]
        # SDKs send more headers with each release; an allowed page may send any.
        if _HEADER_NAMES.fullmatch(asked):
            headers.append((b"access-control-allow-headers", asked.encode("latin-1")))
        if exchange.headers.get("access-control-request-private-network") == "true":
            headers.append((b"access-control-allow-private-network", b"true"))
        return headers

    def _check_host(self, exchange: Exchange) -> None:
        hosts = exchange.headers.getlist("host")
        found = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if found is None:
            raise _forbidden("the request must have exactly one Host header")
        name = found[1].strip("[]").lower().removesuffix(".")
        if name in self._names:
            return
        address = _address_of(name)
        if address is not None and (address.is_loopback or address == self._address or self._takes_addresses):
            return
        raise _forbidden("the name in the Host header is not allowed; the operator can add it with --allow-host")

    def _check_origin(self, exchange: Exchange) -> None:
        origins = exchange.headers.getlist("origin")
        if not origins:
            # For a link or an image a browser sends no Origin, but this.
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
            why = "web pages of this origin may not call this server; the operator can add it with --allow-origin"
            raise InputError(ErrorCode.SERVE_FORBIDDEN, why)


def is_preflight(exchange: Exchange) -> bool:
    """Whether a browser asks for permission. Such a request has no key."""
    return exchange.method == "OPTIONS" and "access-control-request-method" in exchange.headers


def _is_visit(exchange: Exchange) -> bool:
    """Whether a person follows a link to the page."""
    headers = exchange.headers
    is_document = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return is_document and exchange.method == "GET" and exchange.scope["path"] == _PAGE


def _is_same(origin: str, host: str, scheme: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    # A proxy may add TLS, so https is accepted, too.
    return parts.scheme in (scheme, "https") and parts.netloc == host and bool(host)


def _name_of(host: str) -> str:
    """The host name in a setting, without a port."""
    found = _HOST.fullmatch(host.strip())
    return (found[1] if found else host).strip("[]").lower().removesuffix(".")


def _address_of(name: str) -> Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _forbidden(message: str) -> InputError:
    return InputError(ErrorCode.SERVE_FORBIDDEN, message)
