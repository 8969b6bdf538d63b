"""Texts of a form that a schema asks for: a format such as `date`, or a regular expression."""

from __future__ import annotations

import string
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

# One of each, from the names that are reserved for examples.
FORMATS: Final = {
    "date-time": "2025-01-31T12:00:00Z",
    "date": "2025-01-31",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "demo@example.com",
    "idn-email": "demo@example.com",
    "hostname": "example.com",
    "idn-hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "iri": "https://example.com/",
    "uri-reference": "/demo",
    "iri-reference": "/demo",
    "uri-template": "/demo/{id}",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "json-pointer": "/demo",
    "relative-json-pointer": "0/demo",
    "regex": "demo",
}

_MOST_REPEATS: Final = 1000
_LETTERS: Final = string.ascii_letters + string.digits + " _-.,;:!?@#/" + string.punctuation
_CATEGORIES: Final = {
    "CATEGORY_DIGIT": "1",
    "CATEGORY_NOT_DIGIT": "a",
    "CATEGORY_SPACE": " ",
    "CATEGORY_NOT_SPACE": "a",
    "CATEGORY_WORD": "a",
    "CATEGORY_NOT_WORD": "-",
}


def samples_of(pattern: str) -> Iterator[str]:
    """Texts that a regular expression probably matches, shortest first; none where nothing can be made of it.

    Whoever asks has to check: look-arounds and anchors in odd places are passed over.
    """
    try:
        # The tree of Python's own compiler. It is no public module; where it goes, there are no samples.
        tree = import_module("re._parser").parse(pattern)
    except Exception:
        return
    for more in (0, 1, 2, 5, 10, 20, 50):
        try:
            yield _say(tree, more, {})
        except (RecursionError, LookupError, ValueError, TypeError):
            return


def _say(tree: Any, more: int, groups: dict[int, str]) -> str:
    return "".join([_say_one(str(operation), argument, more, groups) for operation, argument in tree])


def _say_one(operation: str, argument: Any, more: int, groups: dict[int, str]) -> str:
    match operation:
        case "LITERAL":
            return chr(argument)
        case "NOT_LITERAL":
            return next(letter for letter in _LETTERS if ord(letter) != argument)
        case "ANY":
            return "a"
        case "IN":
            return _one_of(argument)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, most, what = argument
            times = min(int(least) + more, int(most), _MOST_REPEATS)
            return _say(what, more, groups) * times
        case "SUBPATTERN":
            number, _, _, what = argument
            said = _say(what, more, groups)
            if number is not None:
                groups[number] = said
            return said
        case "BRANCH":
            return _say(argument[1][0], more, groups)
        case "ATOMIC_GROUP":
            return _say(argument, more, groups)
        case "GROUPREF":
            return groups.get(argument, "")
        case _:
            return ""  # anchors and look-arounds


def _one_of(items: Any) -> str:
    """A character of a class."""
    listed = [(str(operation), argument) for operation, argument in items]
    if listed[0][0] != "NEGATE":
        operation, argument = listed[0]
        if operation == "LITERAL":
            return chr(argument)
        return chr(argument[0]) if operation == "RANGE" else _CATEGORIES[str(argument)]
    return next(letter for letter in _LETTERS if not any(_has(item, letter) for item in listed[1:]))


def _has(item: tuple[str, Any], letter: str) -> bool:
    operation, argument = item
    match operation:
        case "LITERAL":
            return ord(letter) == argument
        case "RANGE":
            return argument[0] <= ord(letter) <= argument[1]
        case _:
            is_kind = {"DIGIT": letter.isdigit(), "SPACE": letter.isspace(), "WORD": letter.isalnum() or letter == "_"}
            name = str(argument).removeprefix("CATEGORY_")
            return not is_kind[name.removeprefix("NOT_")] if name.startswith("NOT_") else is_kind[name]
