"""Load the settings: defaults < the file < the environment < flags.

    port              HARMONIA_PORT               --port
    limits.depth      HARMONIA_LIMITS_DEPTH       --limit depth N

1. Only `--config` or HARMONIA_CONFIG names the file; the working directory does not matter, except that relative paths
   in it start there, as they do in a flag.
2. A value is read as its type and nothing else: a text in a file is not a number. Each setting has a source, and every
   error names the setting, the value (never a secret), its source and what was expected.
3. An unknown name is refused with the nearest known one. Variables of other programs are ignored; one that looks
   like a typing error is reported in `notes`.
4. Tables are merged key by key; everything else, lists included, comes from the last source that sets it.
5. A server that other machines can reach must have keys, or be configured as insecure.

By hand: click's default_map and auto_envvar_prefix work by flag, and 21 of the 46 settings have none; errors would lose
the setting's path. pydantic-settings would cost 0.09 s of processor time at each start, where all of
`harmonia serve --print-config` takes 0.17 s, and would need a second model of the settings beside the structs.
"""

from __future__ import annotations

import difflib
import ipaddress
import math
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast, get_type_hints
from urllib.parse import urlsplit

import msgspec
from msgspec import inspect

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.serve.config.settings import Approval, Settings
from harmonia.serve.store.store_urls import URL_FORMS, normalize_address

PREFIX: Final = "HARMONIA_"
# Unsets a number over a file or a default that sets it.
NONE: Final = "none"
CONFIG_VARIABLE: Final = "HARMONIA_CONFIG"
FILES: Final = frozenset({"api_key_file", "seal_key_file", "mcp", "page_folder", "profiles"})

# The options of an engine may contain headers with a key.
_SECRETS: Final = frozenset({"engine_api_key", "engine_options"})
# Variables of other verbs and of the drop-in.
_OTHERS: Final = frozenset({CONFIG_VARIABLE, "HARMONIA_API_KEY", "HARMONIA_VOCABULARY", "HARMONIA_TOLERANT"})
_SHOWN_CHARACTERS: Final = 80
_ON, _OFF = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


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
                word = text.strip().lower()
                return self.from_value(word in _ON if word in (*_ON, *_OFF) else text)
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
        try:
            if self.name in FILES:  # in a file or a variable no shell has expanded `~`
                return str(Path(result).expanduser()) if result.startswith("~") else result
            return _CHECKS[self.name](result) if self.name in _CHECKS else result
        except RuntimeError:
            raise WrongValue("expected a path whose ~ can be expanded") from None
        except (ValueError, InputError):
            raise WrongValue(f"expected {_EXPECTED[self.name]}") from None


# ── checks beyond the type; each raises a ValueError or an InputError ───────────────────────────────────────────────


def _check_host(host: str) -> str:
    if "/" in host or " " in host:
        raise ValueError
    return host.removeprefix("[").removesuffix("]")  # as in a URL


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
    return msgspec.convert(flat, dict[str, Approval])


_CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    "host": _check_host,
    "store": normalize_address,
    "hosts": lambda hosts: tuple(_check_host(host) and host for host in hosts),
    "origins": _check_origins,
    "mcp_approval": _check_approval,
}
_EXPECTED: Final = {
    "host": "an address or a name to listen on, such as 127.0.0.1 or ::1",
    "engine": "an engine or provider, such as auto, demo, http://127.0.0.1:8080 or transformers:PATH",
    "store": URL_FORMS,
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
_TABLES: Final = frozenset(name.partition(".")[0] for name in SETTINGS if "." in name)

# ── sources ─────────────────────────────────────────────────────────────────────────────────────────────────────────


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
        shown = "invalid" if name in _SECRETS else _shown(value)
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
    known = {each.removeprefix(PREFIX) for each in (*(setting.variable for setting in SETTINGS.values()), *_OTHERS)}
    for variable in sorted(variables):
        name = variable.removeprefix(PREFIX)
        if variable.startswith(PREFIX) and name not in known:
            close = difflib.get_close_matches(name, known, 1, cutoff=0.7)
            if close:
                yield f"{variable} is not a setting and has no effect; did you mean {PREFIX}{close[0]}?"


def _nearest(name: str) -> str:
    # The keys are compared without their tables: the table may be wrong, or be all that is right.
    table, _, key = name.rpartition(".")
    places = sorted((place.rpartition(".") for place in SETTINGS), key=lambda place: place[0] != table)
    close = difflib.get_close_matches(key, [place[2] for place in places], 1)
    if close:
        return f"did you mean {next(''.join(place) for place in places if place[2] == close[0])}?"
    known = ["".join(place) for place in places if place[0] == table]
    return f"known settings: {', '.join(known or SETTINGS)}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _refused(message: str, path: str | None = None) -> InputError:
    return InputError(ErrorCode.SERVE_INVALID_OPTION, message, Position(path=path))
