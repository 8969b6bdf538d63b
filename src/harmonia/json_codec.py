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
# What msgspec writes before and after a fault of the syntax.
_AROUND_PROBLEM: Final = re.compile(r"\AJSON is malformed: | \(byte \d+\)\Z")

# msgspec's sentences about values, in terms of JSON.
_REWORDED: Final = {
    "Object contains unknown field ": "unknown field ",
    "Invalid enum value ": "unknown value ",
    "Invalid value ": "unknown value ",
    "Expected `str` matching regex ": "expected a string of the form ",
}
_MISSING: Final = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_WRONG_TYPE: Final = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
_OUT_OF_RANGE: Final = re.compile(r"Expected `([^`]*)` (>=|<=|>|<) (\S+)")
_WRONG_LENGTH: Final = re.compile(r"Expected `([^`]*)` of length (>=|<=|>|<|==)? ?(\d+)")
_TYPES: Final = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_BOUNDS: Final = {">=": "of at least", "<=": "of at most", ">": "greater than", "<": "less than", "==": "of"}


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


def json_problem(error: Exception, text: str | bytes, name: str = "the input") -> str:
    """What msgspec found wrong with a text that should be JSON, without the offset."""
    what = _AROUND_PROBLEM.sub("", str(error)).replace("Input data was truncated", "it ends too early")
    return f"{name} is not valid JSON: {what}" if text.strip() else f"{name} is empty"


def split_validation_error(error: msgspec.ValidationError) -> tuple[str, str]:
    """What msgspec found wrong, in terms of JSON, and the JSON path where."""
    message = str(error)
    found = _PATH_OF_ERROR.search(message)
    return (_reword(message), "$") if found is None else (_reword(message[: found.start()]), found[1])


def _reword(sentence: str) -> str:
    for beginning, words in _REWORDED.items():
        if sentence.startswith(beginning):
            return words + sentence.removeprefix(beginning)
    if found := _MISSING.fullmatch(sentence):
        return f"`{found[1]}` is missing"
    if found := _WRONG_TYPE.fullmatch(sentence):
        return f"expected {_in_json(found[1])}, got {_in_json(found[2]).replace('true or false', 'a boolean')}"
    if found := _WRONG_LENGTH.fullmatch(sentence):
        unit = "characters" if found[1] == "str" else "entries"
        return f"expected {_in_json(found[1])} {_BOUNDS[found[2] or '==']} {found[3]} {unit}"
    if found := _OUT_OF_RANGE.fullmatch(sentence):
        return f"expected {_in_json(found[1])} {_BOUNDS[found[2]]} {found[3].removesuffix('.0')}"
    return sentence


def _in_json(types: str) -> str:
    names = [_TYPES.get(name, name) for name in types.split(" | ")]
    return " or ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])} or {names[-1]}"
