"""JSON values, keys, comments and type names as TypeScript text. Pure functions; no schema is read here.

1. The results of `json_text`, `string_literal` and `property_key` are on one line without a JavaScript line break, so
   they can be put in a `//` comment or in a type without ending either.
2. Numbers are spelled as serde_json spells them (`1e20`, `0.00001`, `-0.0`), because the reference does.
3. `reference_json_text` also repeats the reference's mistakes: serde_json reads a decimal fraction with up to one
   unit of error in its last place, and an integer beyond 64 bits as a float.
4. `Names` gives helper types legal names that are the same on every run: `walk_Node` for `#/$defs/Node` of the tool
   `walk`, or `walk_Node_2` if that name is already used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from json.encoder import encode_basestring
from math import isfinite
from typing import Final

from harmonia.schema.document import Json

# What ends a line, and with it a `//` comment, in JavaScript (ECMA-262, LineTerminator). Python's
# str.splitlines knows seven more, which are ordinary characters here.
_LINE_BREAK = re.compile("\r\n|[\n\r\u2028\u2029]")
_SEPARATORS = {0x2028: "\\u2028", 0x2029: "\\u2029"}
_BREAKS_IN_PATTERN = {0x0A: "\\n", 0x0D: "\\r", **_SEPARATORS}


class NotJsonError(ValueError):
    """The value is not JSON: NaN, an infinity, or a Python object that JSON does not have."""


def lines_of(text: str) -> list[str]:
    """The lines of a text as JavaScript counts them; a line break at the end does not start a new line."""
    # isprintable is one pass in C and false for every line break: nearly all descriptions stop here.
    if text.isprintable():
        return [text]
    lines = _LINE_BREAK.split(text)
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return lines


def reference_lines_of(text: str) -> list[str]:
    r"""The lines as Rust's `str::lines` counts them: ended by \n or \r\n; a lone \r is an ordinary character."""
    lines = text.split("\n")
    last = lines.pop()
    lines = [line.removesuffix("\r") for line in lines]
    if last:
        lines.append(last)
    return lines


def comment(text: str, indent: str) -> str:
    """The text as whole `//` lines, each ended by a newline."""
    if text.isprintable():
        return f"{indent}// {text}\n"
    return "".join([f"{indent}// {line}\n" for line in lines_of(text)])


def trailing_comment(text: str, indent: str) -> str:
    """The text as a comment after a type, without a final newline; further lines follow below, indented."""
    return " // " + f"\n{indent}// ".join(lines_of(text))


def string_literal(text: str) -> str:
    """A JSON string that is also safe inside a comment, where U+2028 and U+2029 would end the line."""
    literal = encode_basestring(text)
    return literal if text.isprintable() else literal.translate(_SEPARATORS)


def bare_string(text: str) -> str:
    """The text itself where it fits on a line, otherwise its string literal."""
    return text if text.isprintable() or not _LINE_BREAK.search(text) else string_literal(text)


def pattern_literal(pattern: str) -> str:
    """A regular expression between slashes, on one line, for people: `/` inside is not escaped."""
    return f"/{pattern if pattern.isprintable() else pattern.translate(_BREAKS_IN_PATTERN)}/"


def is_identifier(text: str) -> bool:
    # JavaScript's identifiers are Python's, and `$` counts as a letter.
    return text.isidentifier() or ("$" in text and text.replace("$", "_").isidentifier())


def property_key(key: str) -> str:
    return key if is_identifier(key) else string_literal(key)


def number_text(number: int | float) -> str:
    """A number as serde_json prints it: the shortest digits that read back as the same value."""
    if isinstance(number, int):
        return str(number)
    if not isfinite(number):
        raise NotJsonError(f"{number} is not a JSON number")
    text = repr(number)
    digits, mark, exponent = text.partition("e")
    if not mark:
        return text
    # Both print decimals from 1e-4 and exponents from 1e16 on; at 1e-5 Python has begun with exponents, Rust not.
    if exponent == "-05":
        sign = "-" if digits.startswith("-") else ""
        return f"{sign}0.0000{digits.removeprefix('-').replace('.', '')}"
    return f"{digits}e{int(exponent)}"


def reference_number_text(number: int | float) -> str:
    """A number after Python's `json.dumps`, serde_json's reader and serde_json's writer."""
    if isinstance(number, int):
        if -(2**63) <= number < 2**64:
            return str(number)
    elif not isfinite(number):
        raise NotJsonError(f"{number} is not a JSON number")
    return number_text(_read_as_serde_json(repr(number)))


def _read_as_serde_json(text: str) -> float:
    """serde_json without its `float_roundtrip` feature: 64 bits of digits, then one rounded multiplication.

    Digits that no longer fit are dropped: in the integer part they count as powers of ten, in the fraction not at
    all.
    """
    mantissa, _, exponent_text = text.removeprefix("-").partition("e")
    integer, _, fraction = mantissa.partition(".")
    exponent = int(exponent_text or 0)
    significand = 0
    full = False
    for place, digit in enumerate(integer + fraction):
        full = full or significand * 10 + int(digit) >= 2**64
        if not full:
            significand = significand * 10 + int(digit)
            exponent -= place >= len(integer)
        elif place < len(integer):
            exponent += 1
    value = float(significand)
    while exponent < -308 and value:
        value /= 1e308
        exponent += 308
    if exponent > 308:
        raise NotJsonError(f"{text} is out of range")
    value = value * float(f"1e{exponent}") if exponent >= 0 else value / float(f"1e{max(-exponent, 0)}")
    if not isfinite(value):
        raise NotJsonError(f"{text} is out of range")
    return -value if text.startswith("-") else value


def json_text(value: Json) -> str:
    """Compact JSON on one line. The text of an object or a list is also the TypeScript type of that one value."""
    return _json_text(value, string_literal, number_text)


def reference_json_text(value: Json) -> str:
    """Compact JSON as serde_json writes what it has read."""
    return _json_text(value, encode_basestring, reference_number_text)


def _json_text(value: Json, string: Callable[[str], str], number: Callable[[int | float], str]) -> str:
    match value:
        case str():
            return string(value)
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return number(value)
        case list():
            return f"[{','.join([_json_text(item, string, number) for item in value])}]"
        case dict():
            pairs = [f"{string(key)}:{_json_text(item, string, number)}" for key, item in value.items()]
            return f"{{{','.join(pairs)}}}"
        case _:  # pyright: ignore[reportUnnecessaryComparison]  # callers may hand us what JSON cannot hold
            raise NotJsonError(f"{type(value).__name__} is not a JSON value")


_NOT_IN_A_NAME = re.compile(r"[^0-9A-Za-z_$]")

# What TypeScript does not accept as the name of a type: its own types and the reserved words of JavaScript.
# fmt: off
RESERVED: Final = frozenset({
    "any", "unknown", "never", "void", "null", "undefined", "string", "number", "boolean", "symbol",
    "object", "bigint",
    "break", "case", "catch", "class", "const", "continue", "debugger", "default", "delete", "do", "else",
    "enum", "export", "extends", "false", "finally", "for", "function", "if", "import", "in", "instanceof",
    "new", "return", "super", "switch", "this", "throw", "true", "try", "typeof", "var", "while", "with",
    "implements", "interface", "let", "package", "private", "protected", "public", "static", "yield",
})
# fmt: on


class Names:
    """The names in use in one namespace."""

    __slots__ = ("_counts", "_taken")

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        # The last number given to each name, so that the search for a free one does not start over.
        self._counts: dict[str, int] = {}

    def claim(self, owner: str, steps: tuple[str | int, ...]) -> str:
        """A free name for the schema at `steps`, for the tool `owner`."""
        part = str(steps[-1]) if steps else "Root"
        wanted = _NOT_IN_A_NAME.sub("_", f"{owner}_{part}" if owner else part) or "_"
        if wanted[0].isdigit() or wanted in RESERVED:
            wanted = f"_{wanted}"
        name = wanted
        while name in self._taken:
            count = self._counts[wanted] = self._counts.get(wanted, 1) + 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name
