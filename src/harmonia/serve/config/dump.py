"""The effective settings with their sources, as `harmonia serve --print-config` prints them.

1. Secrets are hidden; a key is shown as set or not set.
2. Loading the TOML gives the same settings again, except for hidden values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import msgspec

from harmonia.run.engines.http import redact
from harmonia.serve.config.sources import NONE, SETTINGS, Loaded

# Engine options that are never secret.
_HARMLESS: Final = frozenset({"device", "dtype", "timing", "ambiguous"})
_HIDDEN: Final = "…"


class Described(msgspec.Struct, frozen=True):
    """A setting, its value without secrets, and its source. `hides`: part of the value is hidden."""

    name: str
    value: Any
    source: str
    hides: bool = False


def describe(loaded: Loaded) -> tuple[Described, ...]:
    """Describe all settings, in the order of the structs."""
    described: list[Described] = []
    for name in SETTINGS:
        value: Any = loaded.settings
        for part in name.split("."):
            value = getattr(value, part)
        shown = _without_secrets(name, value)
        described.append(Described(name, shown, str(loaded.sources[name]), hides=shown != value))
    return tuple(described)


def to_toml(described: Iterable[Described]) -> str:
    """Write a settings file with each source in a comment. Unset and hidden settings are comments."""
    lines: list[tuple[str, str]] = []
    table = ""
    for each in described:
        above, _, key = each.name.rpartition(".")
        if above != table:
            table = above
            lines += [("", ""), (f"[{table}]", "")]
        lines.append((_line(key, each), each.source))
    width = max((len(line) for line, source in lines if source and len(line) <= 60), default=0)
    return "".join(f"{line:<{width}}  # {source}\n" if source else f"{line}\n" for line, source in lines)


def _line(key: str, each: Described) -> str:
    if each.hides:
        return f"# {key} = {_write(each.value)}"
    if each.value is None:
        # Over a default, unsetting must be written out.
        return f"# {key} is not set" if SETTINGS[each.name].default is None else f'{key} = "{NONE}"'
    return f"{key} = {_write(each.value)}"


def _without_secrets(name: str, value: Any) -> Any:
    match name:
        case "engine_api_key":
            return None if value is None else _HIDDEN
        case "engine":
            return redact(value)
        case "engine_options":
            options = cast("dict[str, Any]", value)
            safe = {key for key, each in options.items() if key in _HARMLESS or isinstance(each, bool | int | float)}
            return {key: each if key in safe else _HIDDEN for key, each in options.items()}
        case _:
            return value


def _write(value: Any) -> str:
    """A value as TOML, with inline tables."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            # JSON strings are TOML strings, except that TOML requires DEL to be escaped.
            return msgspec.json.encode(value).decode().replace("\x7f", "\\u007F")
        case int() | float():
            return repr(value)
        case Mapping():
            table = cast("Mapping[str, Any]", value)
            return "{" + ", ".join(f"{_write(key)} = {_write(table[key])}" for key in table) + "}"
        case list() | tuple():
            return "[" + ", ".join(_write(each) for each in cast("list[Any]", value)) + "]"
        case _:
            return _write(str(value))
