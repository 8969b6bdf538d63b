"""Where a provider's endpoint is, whatever form of its address people have at hand."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

_ENDPOINTS: Final = ("/chat/completions", "/responses", "/completions", "/models")


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
        return address  # whoever opens it says what is wrong
    return address if path.strip("/") else f"{address}/v1"
