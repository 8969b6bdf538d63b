"""Each setting by its name: its variable, its type, and how a value of it is read. Made from the structs themselves.

    port              HARMONIA_PORT               --port
    limits.depth      HARMONIA_LIMITS_DEPTH       --limit depth N

1. A value is read as its type and nothing else: a text is no number in a file, and `yes` is no number anywhere.
2. Whoever reads a wrong value is told what would be right. A secret is never repeated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast, get_type_hints
from urllib.parse import urlsplit

import msgspec
from msgspec import inspect

from harmonia.errors import InputError
from harmonia.serve.config.settings import Settings

PREFIX: Final = "HARMONIA_"
# What a number that may be left out is called where it is left out on purpose, over a file or a default that has one.
NONE: Final = "none"

# The options of an engine may have headers, and those a key.
_SECRETS: Final = frozenset({"engine_api_key", "engine_options"})
_FILES: Final = frozenset({"api_key_file", "seal_key_file", "mcp", "page_folder", "profiles"})
_WORDS: Final = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}
_APPROVALS: Final = ("run", "ask", "refuse")


class WrongValue(ValueError):
    """A value that a setting cannot have; the text says what was expected."""


class Setting(msgspec.Struct, frozen=True):
    """One setting. `name` is the key in the file, with a dot below a table; `default` is what it is without one."""

    name: str
    python_type: Any
    type: Any
    default: Any

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper().replace(".", "_")

    @property
    def path(self) -> str:
        return f"$.{self.name}"

    @property
    def is_secret(self) -> bool:
        """Whether a value is not to be repeated."""
        return self.name in _SECRETS

    @property
    def is_table(self) -> bool:
        return isinstance(self.type, inspect.DictType)

    @property
    def expected(self) -> str:
        return _SPECIAL_WORDS.get(self.name) or _words_for(self.type)

    def from_text(self, text: str) -> Any:
        """The value that a variable or a flag has. A list is separated by commas, a table is JSON."""
        value: Any = text
        match _without_none(self.type):
            case inspect.VarTupleType():
                value = [part.strip() for part in text.split(",") if part.strip()]
            case inspect.DictType():
                try:
                    value = msgspec.json.decode(text)
                except (msgspec.DecodeError, UnicodeError, RecursionError):
                    raise WrongValue(self.expected) from None
            case inspect.BoolType():
                value = _WORDS.get(text.strip().lower(), text)
            case inspect.IntType() | inspect.FloatType():
                return self._convert(text.strip(), strict=False)
            case _:
                pass
        return self._convert(value, strict=True)

    def from_value(self, value: Any) -> Any:
        """The value that a file has, or a program gave."""
        return self._convert(value, strict=True)

    def _convert(self, value: Any, *, strict: bool) -> Any:
        may_be_none = isinstance(self.type, inspect.UnionType)
        if may_be_none and (value is None or (value == NONE and _is_number(self.type))):
            return None
        try:
            converted = msgspec.convert(value, self.python_type, strict=strict)
        except msgspec.ValidationError:
            raise WrongValue(self.expected) from None
        if converted is None or (isinstance(converted, float) and not math.isfinite(converted)):
            raise WrongValue(self.expected)  # `null`, which msgspec reads as None
        return self._check(converted)

    def _check(self, value: Any) -> Any:
        if isinstance(value, str):
            value = value.strip()
            if not value or not value.isprintable():
                raise WrongValue(self.expected)
        if isinstance(value, tuple):
            texts = cast("tuple[str, ...]", value)
            if not all(each and each.strip() == each and each.isprintable() for each in texts):
                raise WrongValue(self.expected)
            value = texts
        if self.name in _FILES and isinstance(value, str):
            return _with_home(value)
        check = _CHECKS.get(self.name)
        return value if check is None else check(value)


def _check_host(host: str) -> str:
    host = host.removeprefix("[").removesuffix("]")  # as it stands in a URL
    if "/" in host or " " in host:
        raise WrongValue(_SPECIAL_WORDS["host"])
    return host


def _check_store(store: str) -> str:
    from harmonia.serve.store.sqlite.store import read_address  # only where a store is named

    try:
        path = read_address(store)
    except InputError:
        raise WrongValue(_SPECIAL_WORDS["store"]) from None
    return store if path is None else f"sqlite:///{path}"


def _check_hosts(hosts: tuple[str, ...]) -> tuple[str, ...]:
    if any("/" in host or " " in host for host in hosts):
        raise WrongValue(_SPECIAL_WORDS["hosts"])
    return hosts


def _check_origins(origins: tuple[str, ...]) -> tuple[str, ...]:
    for origin in origins:
        try:
            parts = urlsplit(origin)
            is_origin = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_origin = False
        else:
            is_origin = is_origin and origin == f"{parts.scheme}://{parts.netloc}" and "@" not in parts.netloc
        if not is_origin:
            raise WrongValue(_SPECIAL_WORDS["origins"])
    return origins


def _check_approval(rules: dict[str, Any]) -> dict[str, Any]:
    """Without quotes around it, `files.delete` is a table in a table of TOML's, and means the same."""
    flat: dict[str, Any] = {}
    for name, rule in rules.items():
        below = cast("dict[str, Any]", rule) if isinstance(rule, dict) else None
        flat |= {name: rule} if below is None else {f"{name}.{tool}": each for tool, each in below.items()}
    if any(rule not in _APPROVALS for rule in flat.values()):
        raise WrongValue(_SPECIAL_WORDS["mcp_approval"])
    return flat


_CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    "host": _check_host,
    "store": _check_store,
    "hosts": _check_hosts,
    "origins": _check_origins,
    "mcp_approval": _check_approval,
}
_SPECIAL_WORDS: Final = {
    "host": "an address or a name to listen at, such as 127.0.0.1 or ::1",
    "engine": "the name of an engine, such as auto, demo, http://127.0.0.1:8080 or transformers:PATH",
    "store": "sqlite:///PATH, where four slashes begin an absolute path",
    "hosts": "names or addresses under which clients reach the server, such as models.example.org",
    "origins": "origins of web pages, such as https://chat.example.org: a scheme, a host, a port if any, and no path",
    "aliases": "further names of the model",
    "engine_options": 'a table of options of the engine; in a variable, JSON such as {"context_tokens": 8192}',
    "mcp_approval": "a table in which a server, server.tool or * is run, ask or refuse; in a variable, JSON such as "
    '{"files": "ask"}',
}


def _with_home(path: str) -> str:
    """`~` is the shell's; in a file and in a variable it would be a folder of that name."""
    try:
        return str(Path(path).expanduser()) if path.startswith("~") else path
    except RuntimeError:
        raise WrongValue("a path whose ~ is known") from None


def _without_none(type_: Any) -> Any:
    if isinstance(type_, inspect.UnionType):
        return next(each for each in type_.types if not isinstance(each, inspect.NoneType))
    return type_


def _is_number(type_: Any) -> bool:
    return isinstance(_without_none(type_), inspect.IntType | inspect.FloatType)


def _words_for(type_: Any) -> str:
    match type_:
        case inspect.UnionType():
            words = _words_for(_without_none(type_))
            return f"{words}, or {NONE}" if _is_number(type_) else words
        case inspect.LiteralType(values=values):
            return " or ".join(sorted(map(str, values)))
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType(ge=low, le=high):
            return f"a whole number from {low} to {high}" if high is not None else f"a whole number, at least {low}"
        case inspect.FloatType(ge=0, le=high):
            return f"a number from 0 to {high:,.0f}"
        case inspect.FloatType(le=high):
            return f"a number greater than 0, at most {high:,.0f}"
        case inspect.VarTupleType():
            return "a list of texts"
        case inspect.DictType():
            return "a table"
        case _:
            return "a text that is not empty"


def _settings_of(struct: type[msgspec.Struct], below: str = "") -> Iterator[Setting]:
    hints = get_type_hints(struct, include_extras=True)
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    made: Any = struct()
    for field in info.fields:
        if isinstance(field.type, inspect.StructType):
            yield from _settings_of(field.type.cls, f"{field.name}.")
        else:
            yield Setting(below + field.name, hints[field.name], field.type, getattr(made, field.name))


SETTINGS: Final[dict[str, Setting]] = {setting.name: setting for setting in _settings_of(Settings)}
