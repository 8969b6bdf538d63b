"""Each setting by name: its environment variable, its type, and how to read a value. Derived from the structs.

    port              HARMONIA_PORT               --port
    limits.depth      HARMONIA_LIMITS_DEPTH       --limit depth N

1. A value is read as its type and nothing else: a text in a file is not a number.
2. An error says what was expected. It never repeats a secret.
"""

# Why by hand: click's default_map and auto_envvar_prefix work by flag, and 21 of the 46 settings have none; errors
# would lose the setting's path. pydantic-settings would cost 0.09 s of processor time at each start, where all of
# `harmonia serve --print-config` takes 0.17 s, and would need a second model of the settings beside the structs.

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
# Unsets a number over a file or a default that sets it.
NONE: Final = "none"
FILES: Final = frozenset({"api_key_file", "seal_key_file", "mcp", "page_folder", "profiles"})

# The options of an engine may contain headers with a key.
_SECRETS: Final = frozenset({"engine_api_key", "engine_options"})
_SWITCHES: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
_APPROVALS: Final = ("run", "ask", "refuse")


class WrongValue(ValueError):
    """A value that a setting cannot have; the text says what was expected."""


class Setting(msgspec.Struct, frozen=True):
    """One setting. `name` is the key in the file, `table.key` in a table."""

    name: str
    python_type: Any
    type: Any  # without None
    may_be_none: bool
    default: Any

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper().replace(".", "_")

    @property
    def is_secret(self) -> bool:
        return self.name in _SECRETS

    @property
    def is_table(self) -> bool:
        return isinstance(self.type, inspect.DictType)

    @property
    def is_number(self) -> bool:
        return isinstance(self.type, inspect.IntType | inspect.FloatType)

    def from_text(self, text: str) -> Any:
        """Read the value of a variable or a flag. Commas separate a list; a table is JSON."""
        match self.type:
            case inspect.VarTupleType():
                return self.from_value([part.strip() for part in text.split(",") if part.strip()])
            case inspect.DictType():
                try:
                    return self.from_value(msgspec.json.decode(text))
                except (msgspec.DecodeError, UnicodeError, RecursionError):
                    raise WrongValue(f"expected {_EXPECTED[self.name]}") from None
            case inspect.BoolType():
                return self.from_value(_SWITCHES.get(text.strip().lower(), text))
            case _:
                return self.from_value(text.strip() if self.is_number else text, strict=not self.is_number)

    def from_value(self, value: Any, *, strict: bool = True) -> Any:
        """Read the value in a file, or one that a program passes."""
        if self.may_be_none and (value is None or (value == NONE and self.is_number)):
            return None
        converted: Any
        try:
            converted = msgspec.convert(value, self.python_type, strict=strict)
        except msgspec.ValidationError as error:
            expected = _EXPECTED.get(self.name) or _number_range(self.type)
            raise WrongValue(f"expected {expected}" if expected else str(error)[0].lower() + str(error)[1:]) from None
        if converted is None or (isinstance(converted, float) and not math.isfinite(converted)):
            raise WrongValue("expected a finite number")  # msgspec reads `null` as None
        texts = cast("tuple[object, ...]", converted) if isinstance(converted, tuple) else (converted,)
        if any(isinstance(each, str) and (not each.strip() or not each.isprintable()) for each in texts):
            raise WrongValue("expected printable text that is not empty")
        result = cast(Any, converted.strip() if isinstance(converted, str) else converted)
        if self.name in FILES and result.startswith("~"):
            return _with_home(result)
        try:
            return _CHECKS[self.name](result) if self.name in _CHECKS else result
        except (ValueError, InputError):
            raise WrongValue(f"expected {_EXPECTED[self.name]}") from None


# ── checks beyond the type; each raises a ValueError or an InputError ───────────────────────────────────────────────


def _check_host(host: str) -> str:
    if "/" in host or " " in host:
        raise ValueError
    return host.removeprefix("[").removesuffix("]")  # as in a URL


def _check_store(store: str) -> str:
    from harmonia.serve.store.store_urls import normalize_address  # loaded only if a store is configured

    return normalize_address(store)


def _check_origins(origins: tuple[str, ...]) -> tuple[str, ...]:
    for origin in origins:
        parts = urlsplit(origin)
        is_origin = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        if not is_origin or origin != f"{parts.scheme}://{parts.netloc}" or "@" in parts.netloc:
            raise ValueError
    return origins


def _check_approval(rules: dict[str, Any]) -> dict[str, Any]:
    """In TOML, `files.delete` without quotes is a table in a table and means the same."""
    flat: dict[str, Any] = {}
    for name, rule in rules.items():
        below = cast("dict[str, Any]", rule) if isinstance(rule, dict) else None
        flat |= {name: rule} if below is None else {f"{name}.{tool}": each for tool, each in below.items()}
    if any(rule not in _APPROVALS for rule in flat.values()):
        raise ValueError
    return flat


_CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    "host": _check_host,
    "store": _check_store,
    "hosts": lambda hosts: tuple(_check_host(host) and host for host in hosts),
    "origins": _check_origins,
    "mcp_approval": _check_approval,
}
_EXPECTED: Final = {
    "host": "an address or a name to listen on, such as 127.0.0.1 or ::1",
    "engine": "an engine or provider, such as auto, demo, http://127.0.0.1:8080 or transformers:PATH",
    "store": "sqlite:///PATH, where an absolute path makes four slashes",
    "hosts": "names or addresses under which clients reach the server, such as models.example.org",
    "origins": "origins of web pages, such as https://chat.example.org, without a path",
    "aliases": "a list of further names of the model",
    "engine_options": 'a table of engine options; in a variable, JSON such as {"context_tokens": 8192}',
    "mcp_approval": "a table that maps a server, server.tool or * to run, ask or refuse; in a variable, JSON such as "
    '{"files": "ask"}',
}


def _number_range(kind: Any) -> str:
    if not isinstance(kind, inspect.IntType | inspect.FloatType):
        return ""
    bounds = (("at least", kind.ge), ("more than", kind.gt), ("at most", kind.le))
    words = ["a whole number" if isinstance(kind, inspect.IntType) else "a number"]
    return ", ".join(words + [f"{word} {bound}" for word, bound in bounds if bound is not None])


def _with_home(path: str) -> str:
    """Expand `~`, which a shell does not do in a file or a variable."""
    try:
        return str(Path(path).expanduser())
    except RuntimeError:
        raise WrongValue("expected a path whose ~ can be expanded") from None


def _settings_of(struct: type[msgspec.Struct], table: str = "") -> Iterator[Setting]:
    hints = get_type_hints(struct, include_extras=True)
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    for field in info.fields:
        if isinstance(field.type, inspect.StructType):
            yield from _settings_of(field.type.cls, f"{field.name}.")
            continue
        kinds = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
        kind = next(each for each in kinds if not isinstance(each, inspect.NoneType))
        default = getattr(struct(), field.name)
        yield Setting(table + field.name, hints[field.name], kind, len(kinds) > 1, default)


SETTINGS: Final[dict[str, Setting]] = {setting.name: setting for setting in _settings_of(Settings)}
