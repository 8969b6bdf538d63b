"""JSON for the whole package: one writer, one spelling of JSON paths, one reader of msgspec's validation errors.

msgspec's encoder is the fastest, but it has no integers beyond 64 bits, writes null for NaN, and refuses half of a
surrogate pair. Schemas and model output contain all three, so each writer here says which of them it accepts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import partial
from math import isfinite
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from harmonia.errors import NOWHERE, ErrorCode, InputError, Position

T = TypeVar("T")

_ENCODER: Final = msgspec.json.Encoder()
_MSGPACK, _JSON = b"b", b"j"
# The names that may follow a dot in a JSON path (RFC 9535, member-name-shorthand); `$defs` is not one of them.
_SHORTHAND: Final = re.compile(r"[^\W\d]\w*")
# How msgspec ends a message: " - at `$.messages[0].role`", or " - at `key` in `$.limits`" for the key of an object.
_PATH_OF_ERROR: Final = re.compile(r" - at `(?:key` in `)*(\$[^`]*)`\Z")


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def encode_json(
    value: object,
    *,
    indent: int | None = None,
    code: ErrorCode = ErrorCode.MESSAGES_INVALID_VALUE,
    at: Position = NOWHERE,
) -> str:
    """Strict: integers of any size; anything that JSON or UTF-8 cannot express is an InputError."""
    try:
        separators = (",", ": ") if indent else (",", ":")
        text = json.dumps(value, ensure_ascii=False, separators=separators, allow_nan=False, indent=indent)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(code, f"not a JSON value: {error}", at) from error
    return refuse_surrogates(text)


def encode_bytes(value: object) -> bytes:
    """Fast: msgspec's encoder, and Python's for integers beyond 64 bits and half of a surrogate pair (escaped)."""
    try:
        return _ENCODER.encode(value)
    except (OverflowError, UnicodeEncodeError):
        return _encode_tolerantly(value, allow_nan=False).encode()


# A text as JSON bytes. It is msgspec's own method, without a Python call around it, for deltas.
encode_string = _ENCODER.encode


def encode_any(value: object) -> str:
    """Tolerant, for model output: numbers of any size, NaN and infinity; half of a surrogate pair is escaped."""
    return _encode_tolerantly(value, allow_nan=True)


def _encode_tolerantly(value: object, *, allow_nan: bool) -> str:
    dump = partial(json.dumps, value, separators=(",", ":"), allow_nan=allow_nan, default=msgspec.to_builtins)
    text = dump(ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return dump(ensure_ascii=True)
    return text


def refuse_surrogates(text: str) -> str:
    """The text, if UTF-8 can encode it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        problem = "a text contains half of a surrogate pair, which UTF-8 cannot encode"
        raise InputError(ErrorCode.VOCABULARY_LONE_SURROGATE, problem) from error
    return text


def pack(value: object) -> bytes:
    """A compact form for comparing and copying. Raises what msgspec raises for values that are not JSON."""
    try:
        return _MSGPACK + msgspec.msgpack.encode(value)
    except OverflowError:  # an integer beyond 64 bits
        return _JSON + json.dumps(msgspec.to_builtins(value)).encode()


def unpack(packed: bytes, decoder: msgspec.msgpack.Decoder[T]) -> T:
    """What `pack` packed, as a new value."""
    if packed.startswith(_JSON):
        return msgspec.convert(json.loads(packed[1:]), decoder.type)
    return decoder.decode(packed[1:])


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    return value if isfinite(value) else _refuse_constant(text)


_STRICT_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


def read_json(text: str) -> Any:
    """The value of a JSON text. NaN, infinite numbers and excessive nesting are ValueErrors, as other faults are."""
    try:
        return _STRICT_DECODER.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def json_fault(text: str) -> int | None:
    """The offset at which a text stops being JSON; None where it is JSON."""
    try:
        read_json(text)
    except ValueError as error:
        return min(getattr(error, "pos", 0), len(text))
    return None


# ── paths and errors ────────────────────────────────────────────────────────────────────────────────────────────────


def json_path(steps: Iterable[str | int], root: str = "$") -> str:
    """A JSON path such as `$.properties.tags[0]` or `$["$defs"].Node`; it is always printable UTF-8."""
    text = [root]
    for step in steps:
        if isinstance(step, int):
            text.append(f"[{step}]")
        else:
            text.append(f".{step}" if _SHORTHAND.fullmatch(step) else f"[{json.dumps(step)}]")
    return "".join(text)


def split_validation_error(error: msgspec.ValidationError) -> tuple[str, str]:
    """What msgspec found wrong, and the JSON path where."""
    message = str(error)
    found = _PATH_OF_ERROR.search(message)
    return (message, "$") if found is None else (message[: found.start()], found[1])
