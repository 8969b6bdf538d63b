"""Reads tool declarations back into schemas: the inverse of declarations.py, as far as there is one.

A prompt contains less than its schemas: integers are numbers in it, and limits are words in a comment. The schemas read
here print as the same text again, which the caller checks; text that was not printed by declarations.py gives None.
Work is linear, and depth is limited.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple, NoReturn

from harmonia.schema.values import Json

_DEPTH: Final = 32
_HEADING: Final = re.compile(r"## ([\w$./:@-]++)\n\n((?://[^\n]*+\n)*+)namespace \1 \{\n\n")
_TOOL: Final = re.compile(r"((?://[^\n]*+\n)*+)type ([\w$./:@-]++) = \((_: )?")
_KEY: Final = re.compile(r'(\w++|"(?:[^"\\\n]|\\.)*+")(\?)?: ')
_COMMENTS: Final = re.compile(r"(?:[ ]*+//[^\n]*+\n)*+")
_DEFAULT: Final = re.compile(r" // default: ([^\n]*)")
_STRING: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_SPACES: Final = re.compile(r"[ \n]*")
_WORDS: Final = {
    "string": {"type": "string"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "null": {"type": "null"},
    "any": {},
}


class ReadTool(NamedTuple):
    """A declared tool."""

    name: str
    description: str | None
    parameters: dict[str, Any] | None


class ReadNamespace(NamedTuple):
    """A declared namespace."""

    name: str
    description: str | None
    tools: list[ReadTool]


class _Unreadable(Exception):
    pass


def read_namespaces(text: str) -> list[ReadNamespace] | None:
    """The namespaces of the text below `# Tools`; None if it was not printed by declarations.py."""
    reader = _Reader(text)
    try:
        return reader.namespaces()
    except _Unreadable:
        return None


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def namespaces(self) -> list[ReadNamespace]:
        found: list[ReadNamespace] = []
        while True:
            heading = self._match(_HEADING)
            name, end = heading[1], f"}} // namespace {heading[1]}"
            tools: list[ReadTool] = []
            while not self._skip(end):
                tools.append(self._tool())
            found.append(ReadNamespace(name, _comment(heading[2]), tools))
            if self._at == len(self._text):
                return found
            self._expect("\n\n")

    def _tool(self) -> ReadTool:
        declared = self._match(_TOOL)
        parameters = self._type(0) if declared[3] else None
        self._expect(") => any;\n\n")
        return ReadTool(declared[2], _comment(declared[1]), parameters)

    def _type(self, depth: int) -> dict[str, Any]:
        if depth > _DEPTH:
            self._fail()
        options = [self._option(depth)]
        while self._skip(" | "):
            options.append(self._option(depth))
        if len(options) == 1:
            return options[0]
        if all("enum" in option for option in options):
            return {"type": "string", "enum": [value for option in options for value in option["enum"]]}
        if all(option.keys() == {"type"} and isinstance(option["type"], str) for option in options):
            return {"type": [option["type"] for option in options]}
        return {"anyOf": options}

    def _option(self, depth: int) -> dict[str, Any]:
        if self._skip("{"):
            found = self._object(depth)
        elif self._skip("("):
            found = self._type(depth + 1)
            self._expect(")")
        elif literal := _STRING.match(self._text, self._at):
            self._at = literal.end()
            found = {"type": "string", "enum": [self._literal(literal[0])]}
        else:
            word = next((word for word in _WORDS if self._skip(word)), None)
            found = dict(_WORDS[word]) if word is not None else self._fail()
        while self._skip("[]"):
            found = {"type": "array", "items": found}
        return found

    def _object(self, depth: int) -> dict[str, Any]:
        properties: dict[str, Json] = {}
        required: list[str] = []
        self._expect("\n")
        while True:
            comments = self._match(_COMMENTS)[0]
            self._match(_SPACES)
            if self._skip("}"):
                break
            declared = self._match(_KEY)
            key = self._literal(declared[1]) if declared[1].startswith('"') else declared[1]
            schema = self._type(depth + 1)
            self._expect(",")
            if default := _DEFAULT.match(self._text, self._at):
                self._at = default.end()
                schema["default"] = self._default(default[1], schema)
            if described := _comment(comments):
                schema["description"] = described
            properties[key] = schema
            if not declared[2]:
                required.append(key)
            self._expect("\n")
        if comments or len(properties) < len(required):
            self._fail()
        return {"type": "object", "properties": properties, **({"required": required} if required else {})}

    def _default(self, text: str, schema: dict[str, Any]) -> Json:
        if "enum" in schema and text in schema["enum"]:
            return text
        return self._literal(text)

    def _literal(self, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError:
            self._fail()

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self._text, self._at)
        if found is None:
            self._fail()
        self._at = found.end()
        return found

    def _skip(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _expect(self, text: str) -> None:
        if not self._skip(text):
            self._fail()

    def _fail(self) -> NoReturn:
        raise _Unreadable


def _comment(lines: str) -> str | None:
    """The text of comment lines: a description."""
    said = [line.strip().removeprefix("//").removeprefix(" ") for line in lines.splitlines()]
    return "\n".join(said) or None
