"""Reads which tools a model may or must call.

    "auto" | "none" | "required"
    {"type": "function", "function": {"name": …}}                        Chat Completions; also custom
    {"type": "function", "name": …, "namespace": …}                      Responses; also custom
    {"type": "mcp", "server_label": …, "name": …}                        Responses; without a name, any of its tools
    {"type": "shell"}                                                    Responses: a built-in tool
    {"type": "allowed_tools", "mode": …, "tools": […]}                   flat, or under `allowed_tools`
    {"name": …}                                                          Chat Completions' older `function_call`

Reading is lenient, or exact with `check` and an API's row of structs, as in reader.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NoReturn, cast

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.messages import Json
from harmonia.tool_definitions.reader import Check, Spelling

# one  the tool that is named has to be called
Mode = Literal["auto", "none", "required", "one"]

WORDS: Final = ("auto", "none", "required")
ALLOWED: Final = "allowed_tools"


class NamedTool(msgspec.Struct, frozen=True):
    """A tool as a choice names it. `path` is that of its name, or of the object if that has a type beside it."""

    name: str | None
    kind: str | None = None
    namespace: str | None = None
    server: str | None = None
    path: str = "$"


class Choice(msgspec.Struct, frozen=True):
    """What a tool choice asks for. `tools` are those that may be called; None allows all."""

    mode: Mode = "auto"
    tools: tuple[NamedTool, ...] | None = None


class _Exact(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class _Name(_Exact, frozen=True, kw_only=True):
    name: str


class _NestedFunction(_Exact, frozen=True, kw_only=True):
    function: _Name
    type: Literal["function"]


class _NestedCustom(_Exact, frozen=True, kw_only=True):
    custom: _Name
    type: Literal["custom"]


class _AllowedTools(_Exact, frozen=True, kw_only=True):
    tools: list[Any]
    mode: Literal["auto", "required"] = "auto"


class _NestedAllowed(_Exact, frozen=True, kw_only=True):
    allowed_tools: _AllowedTools
    type: Literal["allowed_tools"]


class _FlatAllowed(_Exact, frozen=True, kw_only=True):
    tools: list[Json]
    type: Literal["allowed_tools"]
    mode: Literal["auto", "required", "none"] = "auto"


class FlatTool(_Exact, frozen=True, kw_only=True):
    type: str
    name: str | None = None
    namespace: str | None = None
    server_label: str | None = None


CHAT_CHOICE: Final[Spelling] = {"function": _NestedFunction, "custom": _NestedCustom, ALLOWED: _NestedAllowed}
LEGACY_CHOICE: Final[Spelling] = {"function": _Name}
# An API adds the types of its built-in tools.
RESPONSES_CHOICE: Final[Spelling] = {
    **dict.fromkeys(("function", "custom", "mcp"), FlatTool),
    ALLOWED: _FlatAllowed,
}


class _Reader:
    def __init__(
        self, code: ErrorCode, unknown_type: ErrorCode, spelling: Spelling | None, check: Check | None
    ) -> None:
        self._code = code
        self._unknown_type = unknown_type
        self._spelling = spelling
        self._check = check

    def read(self, given: object, path: str) -> Choice:
        if isinstance(given, str) and given in WORDS:
            return Choice(cast("Mode", given))
        if isinstance(given, str) and self._spelling is not None:
            self.refuse(f"{given[:60]!r} is not a tool choice; expected {', '.join(WORDS)} or an object", path)
        outer: Mapping[str, Any] = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {}
        if outer.get("type") != ALLOWED:
            return Choice("one", (self._named(cast("object", given), path),))
        fields, where = self._fields(outer, ALLOWED, path)
        tools, mode = fields.get("tools"), fields.get("mode", "auto")
        if not isinstance(tools, list) or mode not in WORDS:
            self.refuse("an allowed_tools choice has a mode, auto or required, and a list of tools", where)
        if mode == "required" and not tools:
            self.refuse("a call is required, but no tool is allowed", where)
        named = (self._named(each, f"{where}.tools[{at}]") for at, each in enumerate(cast("list[Any]", tools)))
        return Choice(cast("Mode", mode), tuple(named))

    def _named(self, given: object, path: str) -> NamedTool:
        if isinstance(given, str) and self._spelling is None:
            return NamedTool(given, path=path)
        if not isinstance(given, Mapping):
            self.refuse("a tool is named by an object with a type", path)
        outer = cast("Mapping[str, Any]", given)
        kind: Any = outer.get("type", "function")
        known = self._spelling or ("function", "custom")
        if not isinstance(kind, str) or kind not in known or kind == ALLOWED:
            names = [*known, *(() if ALLOWED in known else [ALLOWED])]
            said = f"the type is {str(kind)[:60]!r}; expected one of {', '.join(names)}"
            raise InputError(self._unknown_type, said, Position(path=f"{path}.type"))
        fields, where = self._fields(outer, kind, path)
        name: Any = fields.get("name")
        if kind in ("function", "custom") and not isinstance(name, str):
            self.refuse("a tool is named by its name", f"{where}.name")
        if where != path or "type" not in outer:
            path = f"{where}.name"
        return NamedTool(name, kind, fields.get("namespace"), fields.get("server_label"), path)

    def _fields(self, given: Mapping[str, Any], kind: str, path: str) -> tuple[Mapping[str, Any], str]:
        if self._spelling is not None and self._check is not None:
            self._check(given, self._spelling[kind], path)
        inner: Any = given.get(kind)
        return (cast("Mapping[str, Any]", inner), f"{path}.{kind}") if isinstance(inner, Mapping) else (given, path)

    def refuse(self, message: str, path: str) -> NoReturn:
        raise InputError(self._code, message, Position(path=path))


def read_tool_choice(
    given: object,
    path: str = "$",
    *,
    code: ErrorCode = ErrorCode.RUN_INVALID_OPTION,
    unknown_type: ErrorCode | None = None,
    spelling: Spelling | None = None,
    check: Check | None = None,
) -> Choice:
    """A tool choice in any spelling, or in that of one API. Without a spelling, a tool's name alone is one, too.

    `code` is that of an error, `unknown_type` that of a type that nobody knows, if it is another.
    """
    return Choice() if given is None else _Reader(code, unknown_type or code, spelling, check).read(given, path)
