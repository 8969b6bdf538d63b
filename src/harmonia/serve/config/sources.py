"""Load the settings: defaults < the file < the environment < flags.

1. Only `--config` or HARMONIA_CONFIG names the file; the working directory does not matter, except that relative paths
   in it start there, as they do in a flag.
2. Each setting has a source, and every error names the setting, the value and the source.
3. An unknown name is refused with the nearest known one. Variables of other programs are ignored; one that looks
   like a typing error is reported in `notes`.
4. Tables are merged key by key; everything else, lists included, comes from the last source that sets it.
5. A server that other machines can reach must have keys, or be configured as insecure.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.serve.config.setting_types import PREFIX, SETTINGS, WrongValue
from harmonia.serve.config.settings import Settings

CONFIG_VARIABLE: Final = "HARMONIA_CONFIG"
# Variables of other verbs and of the drop-in.
_OTHERS: Final = frozenset({CONFIG_VARIABLE, "HARMONIA_API_KEY", "HARMONIA_VOCABULARY", "HARMONIA_TOLERANT"})
_TABLES: Final = frozenset(name.partition(".")[0] for name in SETTINGS if "." in name)
_SHOWN_CHARACTERS: Final = 80


class Source(NamedTuple):
    """What set it: `name` is the flag, the variable, or the key in the file."""

    kind: Literal["default", "file", "environment", "flag"]
    name: str = ""

    def __str__(self) -> str:
        return "the default" if self.kind == "default" else self.name


class Flag(NamedTuple):
    """A value from the command line, and the flag as it is spelled there."""

    spelled: str
    value: Any


class Loaded(msgspec.Struct, frozen=True):
    """Settings, the source of each by its name, and notes for the operator."""

    settings: Settings
    sources: dict[str, Source]
    notes: tuple[str, ...] = ()
    config: Path | None = None


def load_settings(
    flags: Mapping[str, Flag] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    config: str | os.PathLike[str] | None = None,
) -> Loaded:
    """Load the settings of a server. `flags` are by setting name. Without `config`, HARMONIA_CONFIG may name it."""
    variables = os.environ if environment is None else environment
    named = config if config is not None else variables.get(CONFIG_VARIABLE) or None
    path = None if named is None else Path(named).expanduser()
    values: dict[str, Any] = {name: setting.default for name, setting in SETTINGS.items()}
    sources: dict[str, Source] = dict.fromkeys(SETTINGS, Source("default"))
    for name, value, source in (
        *(_from_file(path) if path is not None else ()),
        *_from_environment(variables),
        *((name, value, Source("flag", spelled)) for name, (spelled, value) in (flags or {}).items()),
    ):
        read = _read(name, value, source)
        values[name] = {**values[name], **read} if SETTINGS[name].is_table else read
        sources[name] = source
    settings = _build(values)
    _check_exposure(settings, sources)
    if settings.profiles is not None and settings.profile is None:
        shown = f"profiles is {_shown(settings.profiles)}, from {sources['profiles']}, but no profile is selected"
        raise _refused(f"{shown}; set profile to a name, or to auto to choose by the model's name", "$.profiles")
    return Loaded(settings, sources, tuple(_slips(variables)), path)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server there. `localhost` is the only name that guarantees it."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# ── the sources ─────────────────────────────────────────────────────────────────────────────────────────────────────

_Found = tuple[str, Any, Source]  # the name of a setting, its value unread


def _from_file(path: Path) -> Iterable[_Found]:
    for key, value in _read_toml(path).items():
        if key not in _TABLES:
            entries = {key: value}
        elif isinstance(value, dict):
            entries = {f"{key}.{inner}": each for inner, each in cast("dict[str, Any]", value).items()}
        else:
            raise _refused(f"{path}: {key} is {_shown(value)}; expected a table, [{key}]", f"$.{key}")
        for name, each in entries.items():
            yield name, each, Source("file", f"{path}: {name}")


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n"))
    except OSError as error:
        raise _refused(f"the settings file {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _refused(f"the settings file {path} is not UTF-8 at byte {error.start}") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _refused(f"the settings file {path} is not valid TOML: {error}") from None


def _from_environment(variables: Mapping[str, str]) -> Iterable[_Found]:
    for name, setting in SETTINGS.items():
        # Compose files and shells leave a variable empty to leave it out.
        if (text := variables.get(setting.variable, "")).strip():
            yield name, text, Source("environment", setting.variable)


def _read(name: str, value: Any, source: Source) -> Any:
    setting = SETTINGS.get(name)
    if setting is None:
        raise _refused(f"{source}: unknown setting {_shown(name)}; {_nearest(name)}", f"$.{name}")
    try:
        is_text = isinstance(value, str) and source.kind != "file"
        return setting.from_text(value) if is_text else setting.from_value(value)
    except WrongValue as error:
        shown = "invalid" if setting.is_secret else _shown(value)
        refused = _refused(f"{name} is {shown}, from {source}; {error}", f"$.{name}")
        if source.kind == "environment" and str(value).startswith("tcp://"):
            refused.add_note(
                "Kubernetes sets this variable for a service named harmonia; set enableServiceLinks: false in the pod, "
                "or rename the service"
            )
        raise refused from None


# ── checks of the whole ─────────────────────────────────────────────────────────────────────────────────────────────


def _build(values: Mapping[str, Any]) -> Settings:
    nested: dict[str, Any] = {}
    for name, value in values.items():
        table, _, inner = name.rpartition(".")
        (nested.setdefault(table, {}) if table else nested)[inner] = value
    return msgspec.convert(nested, Settings)


def _check_exposure(settings: Settings, sources: Mapping[str, Source]) -> None:
    if settings.insecure or settings.api_key_file is not None or is_loopback(settings.host):
        return
    error = _refused(
        f"host is {_shown(settings.host)}, from {sources['host']}: other machines can reach the server there, but it "
        "has no API keys",
        "$.host",
    )
    error.add_note(
        "create a key with `harmonia keys new NAME --file FILE` and add --api-key-file FILE; or add --insecure, if "
        "everyone who can reach that address may use the model"
    )
    raise error


def _slips(variables: Mapping[str, str]) -> Iterable[str]:
    known = {setting.variable for setting in SETTINGS.values()} | _OTHERS
    for variable in sorted(variables):
        if variable.startswith(PREFIX) and variable not in known:
            close = difflib.get_close_matches(variable, known, 1, cutoff=0.8)
            if close:
                yield f"{variable} is not a setting and has no effect; did you mean {close[0]}?"


def _nearest(name: str) -> str:
    close = difflib.get_close_matches(name, SETTINGS, 1)
    if not close:  # the right key in the wrong table
        close = [each for each in SETTINGS if each.rpartition(".")[2] == name.rpartition(".")[2]]
    return f"did you mean {close[0]}?" if close else f"known settings: {', '.join(SETTINGS)}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _refused(message: str, path: str | None = None) -> InputError:
    return InputError(ErrorCode.SERVE_INVALID_OPTION, message, Position(path=path))
