"""The braces in which FunctionGemma and Gemma 4 declare, call and answer: like JSON, with texts in marks of their own.

    call:get_weather{city:<escape>Paris<escape>,days:3}              FunctionGemma
    call:get_weather{city:<|"|>Paris<|"|>,days:3}                    Gemma 4

A text stands between two of these marks, and nothing in it is escaped. Names of members stand bare, or in marks too.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, cast

from harmonia.families.call_bodies import ReadCall
from harmonia.parser.arguments import read_json

ESCAPE: Final = "<escape>"
QUOTE: Final = '<|"|>'

_HEAD: Final = re.compile(r"\s*(?:call\s*:\s*)?(?P<name>[\w.:/-]+)\s*(?=\{)")
_QUOTED: Final = re.compile(r"\s*(?:<escape>(.*?)<escape>|<\|\"\|>(.*?)<\|\"\|>|\"((?:[^\"\\]|\\.)*)\")", re.DOTALL)
_BARE: Final = re.compile(r"[^,:{}\[\]]*")
_WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_DEEPEST: Final = 60


def read_gemma_call(text: str) -> list[ReadCall]:
    """The call in a body, or none. Arguments that cannot be read stay as they are written."""
    head = _HEAD.match(text)
    if head is None:
        return []
    start = head.end()
    end = len(text.rstrip())
    written = text[start:end]
    try:
        arguments = json.dumps(read_braces(written), ensure_ascii=False)
    except ValueError:
        arguments = written
    return [ReadCall(head["name"], arguments, 0, start, end)]


def read_braces(text: str) -> Any:
    """The value of a text in braces; ValueError where it is something else. Some models write JSON here."""
    try:
        return read_json(text)
    except ValueError:
        value, end = _value(text, 0, 0)
        if text[end:].strip():
            raise ValueError(f"more behind the value, at {end}") from None
        return value


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    if depth > _DEEPEST:
        raise ValueError("nested too deep")
    if quoted := _QUOTED.match(text, at):
        return _text_of(quoted), quoted.end()
    at = _skip_blank(text, at)
    match text[at : at + 1]:
        case "{":
            return _members(text, at + 1, depth)
        case "[":
            return _items(text, at + 1, depth)
        case _:
            bare = _BARE.match(text, at)
            assert bare is not None  # it fits nothing, too
            return _bare(bare.group().strip()), bare.end()


def _members(text: str, at: int, depth: int) -> tuple[dict[str, Any], int]:
    members: dict[str, Any] = {}
    while True:
        at = _skip_blank(text, at)
        if text[at : at + 1] == "}":
            return members, at + 1
        if quoted := _QUOTED.match(text, at):
            name, at = _text_of(quoted), quoted.end()
        else:
            bare = _BARE.match(text, at)
            name, at = ("", at) if bare is None else (bare.group().strip(), bare.end())
        at = _skip_blank(text, at)
        if not name or text[at : at + 1] != ":":
            raise ValueError(f"no member at {at}")
        members[name], at = _value(text, at + 1, depth + 1)
        at = _skip_comma(text, at, "}")


def _items(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    while True:
        at = _skip_blank(text, at)
        if text[at : at + 1] == "]":
            return items, at + 1
        item, at = _value(text, at, depth + 1)
        items.append(item)
        at = _skip_comma(text, at, "]")


def _skip_comma(text: str, at: int, closing: str) -> int:
    at = _skip_blank(text, at)
    if text[at : at + 1] == ",":
        return at + 1
    # FunctionGemma forgets the comma behind a text at times.
    if text[at : at + 1] == closing or text.endswith((ESCAPE, QUOTE), 0, at):
        return at
    raise ValueError(f"neither a comma nor {closing} at {at}")


def _skip_blank(text: str, at: int) -> int:
    while text[at : at + 1].isspace():
        at += 1
    return at


def _text_of(match: re.Match[str]) -> str:
    escaped, quoted, plain = match.groups()
    return escaped if escaped is not None else quoted if quoted is not None else read_json(f'"{plain}"')


def _bare(word: str) -> Any:
    if word in _WORDS:
        return _WORDS[word]
    if not word or ESCAPE in word or QUOTE in word:
        raise ValueError("no value, or a text that is not closed")
    try:
        value = read_json(word)
    except ValueError:
        return word
    return value


def write_braces(value: Any, mark: str, *, mark_names: bool = False) -> str:
    """A value as the model would write it, its members in the order of their names as the chat templates have them."""
    match value:
        case str():
            return f"{mark}{value}{mark}"
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case dict():
            members = sorted(cast("dict[str, Any]", value).items(), key=lambda member: member[0].lower())
            around = mark if mark_names else ""
            written = (
                f"{around}{name}{around}:{write_braces(item, mark, mark_names=mark_names)}" for name, item in members
            )
            return f"{{{','.join(written)}}}"
        case list():
            items = (write_braces(item, mark, mark_names=mark_names) for item in cast("list[Any]", value))
            return f"[{','.join(items)}]"
        case _:
            return json.dumps(value)
