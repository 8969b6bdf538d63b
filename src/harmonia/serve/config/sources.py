"""Where the settings come from: defaults < the file < the environment < flags.

1. The file is the one that `--config` or HARMONIA_CONFIG names, and no other: a server must not change its mind because
   of the folder that it was started in. Paths in it are relative to the working directory, as they are in a flag.
2. Each setting has a source, and every error names the setting, the value and the source.
3. What nobody knows is refused with the nearest name that there is. A variable of another program is none of ours; one
   that looks like a slip of the pen is noted.
4. Tables are put together key by key; everything else, lists included, is taken from the last source that has it.
5. A server that others could reach has keys, or was told that it needs none.
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
from harmonia.serve.config.setting_types import PREFIX, SETTINGS, Setting, WrongValue
from harmonia.serve.config.settings import Settings

CONFIG_VARIABLE: Final = "HARMONIA_CONFIG"
# Variables of other verbs, and of the drop-in.
_OTHERS: Final = frozenset({CONFIG_VARIABLE, "HARMONIA_API_KEY", "HARMONIA_VOCABULARY", "HARMONIA_TOLERANT"})
_TABLES: Final = frozenset(name.partition(".")[0] for name in SETTINGS if "." in name)
_MAX_SHOWN: Final = 80


class Source(NamedTuple):
    """Who set it: `name` is the flag, the variable, or the key in the file."""

    kind: Literal["default", "file", "environment", "flag"]
    name: str = ""

    def __str__(self) -> str:
        return "the default" if self.kind == "default" else self.name


class Flag(NamedTuple):
    """A value from the command line, and the flag as it is written there."""

    spelled: str
    value: Any


class Loaded(msgspec.Struct, frozen=True):
    """Settings, where each came from by its name, and what whoever starts the server should know of them."""

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
    """The settings of a server. `flags` are by the names of settings. Without `config`, HARMONIA_CONFIG may name it."""
    variables = os.environ if environment is None else environment
    path = _config_path(config, variables)
    values: dict[str, Any] = {name: setting.default for name, setting in SETTINGS.items()}
    sources: dict[str, Source] = dict.fromkeys(SETTINGS, Source("default"))
    for name, value, source in [
        *(_from_file(path) if path is not None else ()),
        *_from_environment(variables),
        *_from_flags(flags or {}),
    ]:
        setting = SETTINGS[name]
        values[name] = {**values[name], **value} if setting.is_table else value
        sources[name] = source
    settings = _build(values)
    _refuse_open_doors(settings, sources)
    _refuse_idle_profiles(settings, sources)
    return Loaded(settings, sources, tuple(_slips(variables)), path)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server there. Of all names, `localhost` alone may mean nothing else."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _config_path(config: str | os.PathLike[str] | None, variables: Mapping[str, str]) -> Path | None:
    if config is not None:
        return Path(config)
    named = variables.get(CONFIG_VARIABLE)
    return Path(named).expanduser() if named else None


# ── the three sources ───────────────────────────────────────────────────────────────────────────────────────────────


Found = tuple[str, Any, Source]


def _from_file(path: Path) -> Iterable[Found]:
    for name, value in _flatten(_read_toml(path), path):
        source = Source("file", f"{path}: {name}")
        yield name, _read(SETTINGS[name], value, source, is_text=False), source


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n"))
    except OSError as error:
        raise _refused(f"the file of settings {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _refused(f"the file of settings {path} is not UTF-8 at byte {error.start}") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _refused(f"the file of settings {path} is not TOML: {error}") from None


def _flatten(document: dict[str, Any], path: Path) -> Iterable[tuple[str, Any]]:
    for key, value in document.items():
        if key in _TABLES:
            if not isinstance(value, dict):
                raise _refused(f"{path}: {key} is {_shown(value)}; expected a table, [{key}]", f"$.{key}")
            for inner, inner_value in cast("dict[str, Any]", value).items():
                yield _known(f"{key}.{inner}", path), inner_value
        else:
            yield _known(key, path), value


def _known(name: str, path: Path) -> str:
    if name in SETTINGS:
        return name
    shown = _shown(name)
    raise _refused(f"{path}: there is no setting {shown}; {_nearest(name, SETTINGS)}", f"$.{name}")


def _from_environment(variables: Mapping[str, str]) -> Iterable[Found]:
    for name, setting in SETTINGS.items():
        text = variables.get(setting.variable, "")
        if text.strip():  # an empty one is how compose files and shells leave it out
            source = Source("environment", setting.variable)
            yield name, _read(setting, text, source, is_text=True), source


def _from_flags(flags: Mapping[str, Flag]) -> Iterable[Found]:
    for name, (spelled, value) in flags.items():
        if name not in SETTINGS:
            raise _refused(f"{spelled}: there is no setting {_shown(name)}; {_nearest(name, SETTINGS)}", f"$.{name}")
        source = Source("flag", spelled)
        yield name, _read(SETTINGS[name], value, source, is_text=isinstance(value, str)), source


def _read(setting: Setting, value: Any, source: Source, *, is_text: bool) -> Any:
    try:
        return setting.from_text(value) if is_text else setting.from_value(value)
    except WrongValue as error:
        shown = "not what it can be" if setting.is_secret else _shown(value)
        refused = _refused(f"{setting.name} is {shown}, from {source}; expected {error}", setting.path)
        if is_text and source.kind == "environment" and str(value).startswith("tcp://"):
            refused.add_note(
                "Kubernetes sets this variable for a service called harmonia; give the pod enableServiceLinks: false, "
                "or the service another name"
            )
        raise refused from None


# ── checks of the whole ─────────────────────────────────────────────────────────────────────────────────────────────


def _build(values: Mapping[str, Any]) -> Settings:
    nested: dict[str, Any] = {}
    for name, value in values.items():
        table, _, inner = name.rpartition(".")
        (nested.setdefault(table, {}) if table else nested)[inner] = value
    return msgspec.convert(nested, Settings)


def _refuse_open_doors(settings: Settings, sources: Mapping[str, Source]) -> None:
    if settings.insecure or settings.api_key_file is not None or is_loopback(settings.host):
        return
    error = _refused(
        f"host is {_shown(settings.host)}, from {sources['host']}: other machines may reach the server there, and "
        "it has no API keys",
        "$.host",
    )
    error.add_note(
        "make a key with `harmonia keys new NAME --file FILE`, and say --api-key-file FILE; or say --insecure, if "
        "whoever reaches that address may use the model"
    )
    raise error


def _refuse_idle_profiles(settings: Settings, sources: Mapping[str, Source]) -> None:
    if settings.profiles is not None and settings.profile is None:
        raise _refused(
            f"profiles is {_shown(settings.profiles)}, from {sources['profiles']}, and no profile is named; "
            "profile = auto takes the one that fits the model's name",
            "$.profiles",
        )


def _slips(variables: Mapping[str, str]) -> Iterable[str]:
    known = {setting.variable for setting in SETTINGS.values()} | _OTHERS
    for variable in sorted(variables):
        if variable.startswith(PREFIX) and variable not in known:
            close = difflib.get_close_matches(variable, known, 1, cutoff=0.8)
            if close:
                yield f"{variable} is no setting and does nothing; did you mean {close[0]}?"


def _nearest(name: str, known: Iterable[str]) -> str:
    known = list(known)
    close = difflib.get_close_matches(name, known, 1)
    if not close:  # the right key in the wrong table
        close = [each for each in known if each.rpartition(".")[2] == name.rpartition(".")[2]]
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _refused(message: str, path: str | None = None) -> InputError:
    return InputError(ErrorCode.SERVE_INVALID_OPTION, message, Position(path=path))
