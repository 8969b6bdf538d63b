"""Read the body of a request: its JSON, then the structs of an API; and the query of a URL.

1. JSON is strict (RFC 8259), and nothing that two programs could read differently: UTF-8 without a byte order mark, one
   value, no repeated key, NaN, Infinity, number beyond a double or lone surrogate, and no more nesting or values than
   the limits. Each fault is an InputError with SERVE_INVALID_BODY (too many values: SERVE_TOO_LARGE) and its place:
   `at.character` for a fault of the text, `at.path` for a value.
2. Linear in the bytes, without recursion of our own. The scanner is the standard library's, in C: with a hook for
   duplicate keys it takes about twice the time of msgspec, which has no such hook.
3. A field that is unknown, missing, of the wrong type or out of range is refused with its path, in terms of JSON, and
   with what was expected. An unknown field of a body, a tool or a tool choice asks for something.
4. Many clients send back whatever they were sent, with notes of their own. An unknown key of a message, an item, a call
   or a part of a content is dropped, and the answer's `warnings` name it (`RequestWarnings`); one that is null says
   nothing. An unknown key that begins with `harmonia_` is one of ours, misspelled, and is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from math import inf
from typing import Any, Final, NamedTuple, NoReturn, TypeVar, cast

import msgspec
from msgspec import inspect

from harmonia.errors import NOWHERE, ErrorCode, InputError, Position
from harmonia.json_codec import json_path, split_validation_error
from harmonia.messages import Json

T = TypeVar("T")
# The parameters of a URL; a repeated one is a list.
Query = Mapping[str, str | list[str]]


def doc(text: str, **limits: Any) -> msgspec.Meta:
    """The description of a field in the OpenAPI document, and its limits."""
    return msgspec.Meta(description=text, **limits)


def refuse(code: ErrorCode, message: str, path: str | None) -> NoReturn:
    """Raise the client's error for what stands at this path."""
    raise InputError(code, message, Position(path=path))


def invalid(message: str, path: str) -> NoReturn:
    """Refuse a value."""
    refuse(ErrorCode.SERVE_INVALID_FIELD, message, path)


def unsupported(message: str, path: str) -> NoReturn:
    """Refuse a part of the API that this server does not support."""
    refuse(ErrorCode.SERVE_UNSUPPORTED, message, path)


def too_large(message: str, path: str) -> NoReturn:
    """Refuse more than a limit allows."""
    refuse(ErrorCode.SERVE_TOO_LARGE, message, path)


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────────────────

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
_HOLDERS: Final = frozenset((dict, list))


class _Wrong(NamedTuple):
    """Marks a refused value until its path is known."""

    why: str
    key: str | None = None


def read_json(data: bytes, *, depth: int, values: int = MOST_VALUES) -> Any:
    """Parse the body. `depth` is how deep arrays and objects may be nested."""
    text = _text_of(data)
    # A cheap bound; only a body that exceeds it is counted exactly.
    if data.count(b",") >= values:
        _refuse_structure(text, values=values)
    wrong: list[_Wrong] = []

    def mark(why: str, key: str | None = None) -> _Wrong:
        wrong.append(_Wrong(why, key))
        return wrong[-1]

    def make_object(pairs: list[tuple[str, Any]]) -> Any:
        made = dict(pairs)
        if len(made) == len(pairs):
            return made
        seen: set[str] = set()
        return mark("the key is repeated", next(key for key, _ in pairs if key in seen or seen.add(key)))

    def make_number(digits: str, kind: type[float] = float) -> float | _Wrong:
        if len(digits) > _LONGEST_NUMBER:
            return mark(f"a number of {len(digits)} characters; at most {_LONGEST_NUMBER} are allowed")
        made = kind(digits)
        return made if -inf < made < inf else mark("a number that is too large for a double")

    decoder = json.JSONDecoder(
        object_pairs_hook=make_object,
        parse_float=make_number,
        # Without a hook int() is called in C, so the hook is only used if needed.
        parse_int=(lambda digits: make_number(digits, int)) if _has_long_digits(data) else None,
        parse_constant=lambda name: mark(f"{name} is not valid JSON"),
    )
    try:
        value = decoder.decode(text)
    except json.JSONDecodeError as error:
        what = f"{error.msg[:1].lower()}{error.msg[1:]}"
        raise _refusal(f"the body is not valid JSON: {what}, at character {error.pos}", error.pos) from None
    except RecursionError:
        _refuse_structure(text, depth=depth)
        raise _refusal(f"the body is nested deeper than {depth} levels") from None
    if data.count(b"[") + data.count(b"{") > depth and _is_deeper(value, depth):
        _refuse_structure(text, depth=depth)
    if wrong or _SURROGATE_ESCAPE.search(data):
        _refuse_wrong(value)
    return value


def _text_of(data: bytes) -> str:
    if data.startswith(b"\xef\xbb\xbf"):
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


def _children(holder: Any) -> Iterable[Any]:
    return cast("dict[str, Any]", holder).values() if type(holder) is dict else holder


def _is_deeper(value: Any, depth: int) -> bool:
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    for _ in range(depth):
        if not level:
            return False
        level = [child for holder in level for child in _children(holder) if type(child) in _HOLDERS]
    return bool(level)


def _refuse_structure(text: str, *, depth: float = inf, values: float = inf) -> None:
    """Raise at the first bracket or comma that exceeds a limit."""
    level = commas = holders = 0
    for found in _STRUCTURE.finditer(text):
        place = found.start()
        match text[place]:
            case ",":
                commas += 1
            case "[" | "{":
                holders, level = holders + 1, level + 1
            case "]" | "}":
                level -= 1
            case _:
                continue
        if level > depth:
            raise _refusal(f"the body is nested deeper than {depth} levels, at character {place}", place)
        if commas >= values or holders > values:
            message = f"the body has more than {values} values"
            raise InputError(ErrorCode.SERVE_TOO_LARGE, message, Position(character=place))


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


# ── structs ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_UNKNOWN: Final = re.compile(r"unknown field `(.*)`", re.DOTALL)
_MISSING: Final = re.compile(r"`(.*)` is missing", re.DOTALL)
_NOT_ALLOWED: Final = re.compile(r"unknown value (.*)", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[[^\[\]]*+\]")
_MOST_SHOWN: Final = 100


def read_struct(value: Any, kind: type[T], path: str = "$", *, hints: Mapping[str, str] | None = None) -> T:
    """Read a value as a struct that forbids unknown fields. `hints` explain some fields that it does not have."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        sentence, inner = split_validation_error(error)
        where = path + inner.removeprefix("$")
        if unknown := _UNKNOWN.match(sentence):
            structs = (each for each in _types_at(kind, inner) if isinstance(each, inspect.StructType))
            known = [field.encode_name for struct in structs for field in struct.fields]
            hint = (hints or {}).get(unknown[1]) if inner == "$" else None
            raise unknown_field(unknown[1], known, where, hint) from None
        if missing := _MISSING.match(sentence):
            where, message = f"{where}.{missing[1]}", f"{missing[1]} is missing"
        else:
            message = _reword(sentence, kind, inner, where)
        raise InputError(ErrorCode.SERVE_INVALID_FIELD, message, Position(path=where)) from None


def unknown_field(field: str, known: list[str], where: str = "$", hint: str | None = None) -> InputError:
    """The error for an unknown field, with the nearest known one."""
    field = field[:_MOST_SHOWN]
    if hint is None and (near := get_close_matches(field, known, 1)):
        hint = f"did you mean {near[0]!r}?"
    message = f"unknown parameter {field!r}" + (f"; {hint}" if hint else "")
    return InputError(ErrorCode.SERVE_UNKNOWN_FIELD, message, Position(path=f"{where}.{field}"))


def _reword(sentence: str, kind: Any, inner: str, where: str) -> str:
    """Add to a value that is not allowed which ones are."""
    if found := _NOT_ALLOWED.match(sentence):
        literals = (each for each in _types_at(kind, inner) if isinstance(each, inspect.LiteralType))
        allowed = ", ".join(str(value) for each in literals for value in each.values)
        name, given = where.rpartition(".")[2], found[1][:_MOST_SHOWN]
        return f"{name} is {given}; it may be {allowed}" if allowed else f"{name} may not be {given}"
    return sentence


def _types_at(kind: Any, inner: str) -> list[inspect.Type]:
    """The types at a path such as `$.tools[0].name`; empty if the path leads nowhere."""
    found = list(_plain(inspect.type_info(kind)))
    for step in _STEP.finditer(inner.removeprefix("$")):
        found = [below for each in found for below in _below(each, step[1])]
    return found


def _plain(type_: inspect.Type) -> Iterator[inspect.Type]:
    if isinstance(type_, inspect.Metadata):
        yield from _plain(type_.type)
    elif isinstance(type_, inspect.UnionType):
        for each in type_.types:
            yield from _plain(each)
    else:
        yield type_


def _below(type_: inspect.Type, name: str | None) -> Iterator[inspect.Type]:
    match type_:
        case inspect.StructType(fields=fields) if name is not None:
            for field in fields:
                if field.encode_name == name:
                    yield from _plain(field.type)
        case inspect.ListType(item_type=inner) | inspect.DictType(value_type=inner) if name is None:
            yield from _plain(inner)
        case _:
            pass


# ── the query of a URL ──────────────────────────────────────────────────────────────────────────────────────────────


def check_query(query: Query, known: tuple[str, ...]) -> None:
    """Refuse unknown parameters."""
    for name in query:
        if name not in known:
            raise unknown_field(name, list(known))


def one_of(query: Query, name: str) -> str | None:
    """The value of a parameter that must not be repeated."""
    value = query.get(name)
    if isinstance(value, list):
        invalid(f"{name} is given more than once", f"$.{name}")
    return value


def limit_of(query: Query, most: int) -> int:
    """The page size of a list; 20 by default."""
    given = one_of(query, "limit") or "20"
    # int() fails on thousands of digits with an error of its own.
    if not given.isascii() or not given.isdigit() or len(given) > len(str(most)) or not 1 <= int(given) <= most:
        invalid(f"limit is {given[:20]!r}; expected a number from 1 to {most}", "$.limit")
    return int(given)


# ── unknown keys ────────────────────────────────────────────────────────────────────────────────────────────────────

_OURS: Final = "harmonia_"
# More than this many different keys are no longer named.
_MOST_NAMED: Final = 8


class RequestWarnings:
    """Collects unknown keys while a request is read: each once, with the place where it first stood."""

    def __init__(self) -> None:
        self._places: dict[str, str] = {}
        self._has_more = False
        self._empty: list[str] = []  # the places of messages without any text

    def add_empty_message(self, path: str) -> None:
        """A message there says nothing, and is left out."""
        self._empty.append(path.removeprefix("$."))

    def drop_unknown(self, given: Json, known: Collection[str], path: str) -> Json:
        """The object without its unknown keys. Raises where one of them is ours."""
        if all(name in known for name in given):
            return given
        for name in given:
            if name not in known and given[name] is not None:
                self._note(name, known, path)
        return {name: value for name, value in given.items() if name in known}

    def drop_unknown_fields(self, given: Json, kind: Any, path: str) -> Json:
        """The same with the fields of a struct, and of the structs that it holds."""
        fields = _fields_of(kind)
        kept = self.drop_unknown(given, fields, path)
        for name, held in fields.items():
            value = kept.get(name) if held is not None else None
            if isinstance(value, dict):
                kept = {**kept, name: self.drop_unknown_fields(cast("Json", value), held, f"{path}.{name}")}
        return kept

    def _note(self, name: str, known: Collection[str], path: str) -> None:
        if name.startswith(_OURS):
            raise unknown_field(name, list(known), path)
        shown = name[:_MOST_SHOWN]
        if len(self._places) < _MOST_NAMED:
            self._places.setdefault(shown, path.removeprefix("$."))
        elif shown not in self._places:
            self._has_more = True

    @property
    def texts(self) -> list[str]:
        texts = [f"{path}: the unknown key {name!r} was ignored" for name, path in self._places.items()]
        if self._has_more:
            texts.append("more unknown keys were ignored")
        if self._empty:
            others = f", and {len(self._empty) - 1} more" if len(self._empty) > 1 else ""
            texts.append(f"{self._empty[0]}{others}: the message is empty and was left out")
        return texts


@cache
def _fields_of(kind: Any) -> dict[str, Any]:
    """The names that a struct has on the wire, each with the struct that it holds, or None."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    fields: dict[str, Any] = {} if info.tag_field is None else {info.tag_field: None}
    for field in info.fields:
        structs = (each.cls for each in _plain(field.type) if isinstance(each, inspect.StructType))
        fields[field.encode_name] = next(structs, None)
    return fields


# What the model does not read of a text part: citations, log-probabilities, hints for a cache.
_UNREAD: Final = ("type", "annotations", "logprobs", "prompt_cache_breakpoint")


def text_of_part(
    given: object,
    path: str,
    warnings: RequestWarnings,
    fields: Mapping[str, str],
    describe: Callable[[Json, str, RequestWarnings], str],
) -> str:
    """A part of a content as text. `fields` are the types of text parts, each with the field that has the text;
    `describe` gives a text for other parts."""
    if not isinstance(given, dict):
        invalid("a content part must be a JSON object with a type", path)
    part = cast("Json", given)
    kind = part.get("type")
    name = fields.get(kind) if isinstance(kind, str) else None
    if name is None:
        return describe(part, path, warnings)
    text = warnings.drop_unknown(part, (name, *_UNREAD), path).get(name)
    if not isinstance(text, str):
        invalid("expected a string", f"{path}.{name}")
    return text
