"""ASGI: routes, streaming, keys, limits, metrics."""
