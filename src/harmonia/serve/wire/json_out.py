"""JSON values as bytes, as fast as can be, and for every value that a client may have sent."""

from __future__ import annotations

import json

import msgspec

_ENCODER = msgspec.json.Encoder()

encode_text = _ENCODER.encode


def encode(value: object) -> bytes:
    """The value as JSON."""
    try:
        return _ENCODER.encode(value)
    except OverflowError:
        # A schema of a client's may have integers of more than 64 bits.
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
