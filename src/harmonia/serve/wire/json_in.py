"""The body of a request as a value: JSON as RFC 8259 has it, and nothing that two programs would read in two ways.

1. UTF-8 without a byte order mark, one value, nothing behind it.
2. Refused: a key twice in one object, NaN and Infinity, a number that no double holds, half of a surrogate pair (in
   keys too), more nesting or more values than the limits.
3. Each of them is an InputError with SERVE_INVALID_BODY and its place: `at.character` where the text is at fault,
   `at.path` where a value is. SERVE_TOO_LARGE says that there are too many values.
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

# A value takes some 60 bytes of memory where its text may take two; without this limit a body of `[],[],…` becomes
# thirty times its size.
MOST_VALUES: Final = 1_000_000

# The greatest double has 309 digits. What is longer is read in one way by some programs and in another by others.
_LONGEST_NUMBER: Final = 309
_LONG_DIGITS: Final = re.compile(rb"[0-9]{%d}" % (_LONGEST_NUMBER + 1))
# Text that was UTF-8 has no surrogates; only an escape makes one.
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
# Strings are skipped whole, so that their brackets and commas do not count.
_STRUCTURE: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[][{},]', re.DOTALL)
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_INFINITY: Final = float("inf")
_HOLDERS: Final = frozenset((dict, list))


class _Wrong:
    """Stands in the place of a value that is refused, until its path is known."""

    __slots__ = ("key", "why")

    def __init__(self, why: str, key: str | None = None) -> None:
        self.why = why
        self.key = key


def read_json(data: bytes, *, depth: int, values: int = MOST_VALUES) -> Any:
    """The value in the body. `depth` is how many arrays and objects may be inside of one another."""
    text = _text_of(data)
    # Bounds that cost next to nothing; the exact count is only for those that exceed them.
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
        raise _refusal(f"the body is not JSON: {what}, at character {error.pos}", error.pos) from None
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
        raise _refusal("the body begins with a byte order mark; JSON is sent without one", 0)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        place = len(data[: error.start].decode())
        raise _refusal(f"the body is not UTF-8, at character {place}", place) from None
    if not text or text.isspace():
        raise _refusal("the body is empty; JSON was expected")
    return text


def _has_long_digits(data: bytes) -> bool:
    """Whether there is a run of too many digits. It has one of every so many bytes: to look at these first is quick,
    where to search all of a long body would hold up every other thread."""
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
        return mark("the key is there twice", next(key for key, _ in pairs if key in seen or seen.add(key)))

    def make_float(digits: str) -> float | _Wrong:
        if len(digits) > _LONGEST_NUMBER:
            return mark(f"a number of {len(digits)} characters, where {_LONGEST_NUMBER} are the most")
        made = float(digits)
        return made if -_INFINITY < made < _INFINITY else mark("a number that is too great for a double")

    def make_integer(digits: str) -> int | _Wrong:
        if len(digits) > _LONGEST_NUMBER:
            return mark(f"a number of {len(digits)} characters, where {_LONGEST_NUMBER} are the most")
        return int(digits)

    def make_constant(name: str) -> _Wrong:
        return mark(f"{name} is not JSON")

    return json.JSONDecoder(
        object_pairs_hook=make_object,
        parse_float=make_float,
        # int itself is called without leaving C, so the hook is only for texts that may need it.
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
    """Raises for the first value, in the order of the text, that was marked or has half of a surrogate pair."""
    # What is still to visit, the next one last. A path is made of (parent's path, step), and written only for an error.
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
        raise _refusal(f"half of a surrogate pair, at {written}", path=written) from None


def _written(path: Any) -> str:
    steps: list[str | int] = []
    while path is not None:
        path, step = path
        steps.append(step)
    return json_path(reversed(steps))


def _refusal(message: str, character: int | None = None, path: str | None = None) -> InputError:
    at = NOWHERE if character is None and path is None else Position(character=character, path=path)
    return InputError(ErrorCode.SERVE_INVALID_BODY, message, at)
