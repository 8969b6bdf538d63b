"""Parse the body of a request: strict JSON (RFC 8259), and nothing that two programs could read differently.

1. UTF-8 without a byte order mark, one value, nothing after it.
2. Refused: a repeated key, NaN and Infinity, a number beyond a double, a lone surrogate (in keys, too), more nesting or
   more values than the limits.
3. Each is an InputError with SERVE_INVALID_BODY and its place: `at.character` for a fault of the text, `at.path` for a
   value. Too many values are SERVE_TOO_LARGE.
4. Linear in the bytes, without recursion of our own. The scanner is the standard library's, in C: with a hook for
   duplicate keys it takes about twice the time of msgspec, which has no such hook.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from harmonia.errors import NOWHERE, ErrorCode, InputError, Position
from harmonia.json_codec import json_path

# A value takes some 60 bytes of memory while its text may take two; without this limit a body of `[],[],…` would grow
# thirtyfold.
MOST_VALUES: Final = 1_000_000

# The greatest double has 309 digits. Programs read longer numbers differently.
_LONGEST_NUMBER: Final = 309
_LONG_DIGITS: Final = re.compile(rb"[0-9]{%d}" % (_LONGEST_NUMBER + 1))
# Decoded UTF-8 has no surrogates; only an escape makes one.
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
# Strings are skipped, so that their brackets and commas do not count.
_STRUCTURE: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[][{},]', re.DOTALL)
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_INFINITY: Final = float("inf")
_HOLDERS: Final = frozenset((dict, list))


class _Wrong:
    """Marks a refused value until its path is known."""

    __slots__ = ("key", "why")

    def __init__(self, why: str, key: str | None = None) -> None:
        self.why = why
        self.key = key


def read_json(data: bytes, *, depth: int, values: int = MOST_VALUES) -> Any:
    """Parse the body. `depth` is how deep arrays and objects may be nested."""
    text = _text_of(data)
    # A cheap bound; only a body that exceeds it is counted exactly.
    if data.count(b",") >= values:
        _refuse_many(text, values)
    wrong: list[_Wrong] = []

    def mark(why: str, key: str | None = None) -> _Wrong:
        wrong.append(_Wrong(why, key))
        return wrong[-1]

    try:
        value = _decoder(mark, has_long_digits=_has_long_digits(data)).decode(text)
    except json.JSONDecodeError as error:
        what = f"{error.msg[:1].lower()}{error.msg[1:]}"
        raise _refusal(f"the body is not valid JSON: {what}, at character {error.pos}", error.pos) from None
    except RecursionError:
        _refuse_depth(text, depth)
        raise _refusal(f"the body is nested deeper than {depth} levels") from None
    if data.count(b"[") + data.count(b"{") > depth and _is_deeper(value, depth):
        _refuse_depth(text, depth)
    if wrong or _SURROGATE_ESCAPE.search(data):
        _refuse_wrong(value)
    return value


def _text_of(data: bytes) -> str:
    if data.startswith(_BYTE_ORDER_MARK):
        raise _refusal("the body begins with a byte order mark; send JSON without one", 0)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        place = len(data[: error.start].decode())
        raise _refusal(f"the body is not UTF-8, at character {place}", place) from None
    if not text or text.isspace():
        raise _refusal("the body is empty; expected JSON")
    return text


def _has_long_digits(data: bytes) -> bool:
    """Whether there is a run of too many digits. Looking at every 310th byte first is fast; searching all of a long
    body would block every other thread."""
    step = _LONGEST_NUMBER + 1
    return any(
        data[at : at + 1].isdigit() and _LONG_DIGITS.search(data, max(at - step, 0), at + step) is not None
        for at in range(0, len(data), step)
    )


def _decoder(mark: Callable[..., _Wrong], *, has_long_digits: bool) -> json.JSONDecoder:
    def make_object(pairs: list[tuple[str, Any]]) -> Any:
        made = dict(pairs)
        if len(made) == len(pairs):
            return made
        seen: set[str] = set()
        return mark("the key is repeated", next(key for key, _ in pairs if key in seen or seen.add(key)))

    def make_float(digits: str) -> float | _Wrong:
        if len(digits) > _LONGEST_NUMBER:
            return mark(f"a number of {len(digits)} characters; at most {_LONGEST_NUMBER} are allowed")
        made = float(digits)
        return made if -_INFINITY < made < _INFINITY else mark("a number that is too large for a double")

    def make_integer(digits: str) -> int | _Wrong:
        if len(digits) > _LONGEST_NUMBER:
            return mark(f"a number of {len(digits)} characters; at most {_LONGEST_NUMBER} are allowed")
        return int(digits)

    def make_constant(name: str) -> _Wrong:
        return mark(f"{name} is not valid JSON")

    return json.JSONDecoder(
        object_pairs_hook=make_object,
        parse_float=make_float,
        # Without a hook int() is called in C, so the hook is only used if needed.
        parse_int=make_integer if has_long_digits else None,
        parse_constant=make_constant,
    )


def _children(holder: Any) -> Iterable[Any]:
    return cast("dict[str, Any]", holder).values() if type(holder) is dict else holder


def _is_deeper(value: Any, depth: int) -> bool:
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    for _ in range(depth):
        if not level:
            return False
        level = [child for holder in level for child in _children(holder) if type(child) in _HOLDERS]
    return bool(level)


def _refuse_depth(text: str, depth: int) -> None:
    level = 0
    for found in _STRUCTURE.finditer(text):
        first = text[found.start()]
        if first in "[{":
            level += 1
            if level > depth:
                place = found.start()
                raise _refusal(f"the body is nested deeper than {depth} levels, at character {place}", place)
        elif first in "]}":
            level -= 1


def _refuse_many(text: str, values: int) -> None:
    commas = holders = 0
    for found in _STRUCTURE.finditer(text):
        first = text[found.start()]
        if first in ",[{":
            commas += first == ","
            holders += first != ","
            if commas >= values or holders > values:
                raise InputError(
                    ErrorCode.SERVE_TOO_LARGE,
                    f"the body has more than {values} values",
                    Position(character=found.start()),
                )


def _refuse_wrong(value: Any) -> None:
    """Raise for the first value, in text order, that was marked or has a lone surrogate."""
    # A stack of values to visit. A path is (parent's path, step), and is written only for an error.
    todo: list[tuple[Any, Any]] = [(value, None)]
    while todo:
        found, path = todo.pop()
        if isinstance(found, _Wrong):
            written = _written(path if found.key is None else (path, found.key))
            raise _refusal(f"{found.why}, at {written}", path=written)
        if isinstance(found, str):
            _refuse_surrogates(found, path)
        elif type(found) in _HOLDERS:
            steps = cast("Iterable[str | int]", found if type(found) is dict else range(len(found)))
            for step in steps:
                if isinstance(step, str):
                    _refuse_surrogates(step, path)
            todo += [(child, (path, step)) for step, child in zip(steps, _children(found), strict=True)][::-1]


def _refuse_surrogates(text: str, path: Any) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        written = _written(path)
        raise _refusal(f"a lone surrogate, at {written}", path=written) from None


def _written(path: Any) -> str:
    steps: list[str | int] = []
    while path is not None:
        path, step = path
        steps.append(step)
    return json_path(reversed(steps))


def _refusal(message: str, character: int | None = None, path: str | None = None) -> InputError:
    at = NOWHERE if character is None and path is None else Position(character=character, path=path)
    return InputError(ErrorCode.SERVE_INVALID_BODY, message, at)
