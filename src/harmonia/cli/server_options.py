"""The flags of `serve` and `doctor`: one for each common setting, with type and default from the setting itself.

A flag that is not given leaves its setting to the environment and the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from msgspec import inspect

from harmonia.cli.options import GroupedOption
from harmonia.run.engines.registry import names
from harmonia.serve.config.settings import Limits
from harmonia.serve.config.sources import CONFIG_VARIABLE, FILES, Flag, Loaded, load_settings
from harmonia.serve.config.sources import SETTINGS as _SETTINGS
from harmonia.serve.store.store_urls import URL_FORMS

SETTINGS: Final = "Settings and logs"
PRECEDENCE: Final = (
    "You can also set each of a server's settings in the environment: HARMONIA_PORT for --port, HARMONIA_LIMITS_DEPTH "
    "for --limit depth. Flags override the environment, which overrides the --config file. docs/reference/settings.md "
    "describes every setting."
)

# By heading and setting: the help.
_FLAGS: Final = {
    "Listening": {
        "host": "Address to listen on; the default is reachable from this machine only.",
        "port": "Port to listen on; 0 takes any free port.",
        "api_key_file": "API keys: a file that `harmonia keys` writes. Without it, everyone may use the server.",
        "insecure": "Allow listening without API keys on an address that other machines can reach.",
        "hosts": "Another host name that clients use to reach the server, such as the name of a proxy.",
        "origins": "Origin of web pages that may call the server, such as https://chat.example.org.",
        "page": "Serve the page with chat and inspector.",
    },
    "Model": {
        "engine": f"Engine or provider: {', '.join(names())}. auto looks for one on this machine, then uses demo.",
        "model": "Model, if the engine has several.",
        "aliases": "Another name by which clients may request the model.",
        "profile": "Format of a model that is not a gpt-oss: a profile, or auto to choose by the model's name.",
        "profiles": "Your own profiles, in TOML; by default ~/.config/harmonia/profiles.toml.",
        "engine_options": "Option of the engine, such as context_tokens 16384. For its API key, set "
        "HARMONIA_ENGINE_API_KEY.",
    },
    "Answers": {
        "analysis": "hidden seals reasoning, so that clients can send it back but not read it; shown shows it.",
        "guessed": "Text in a damaged answer whose channel is unknown: hide it, or show it as the answer.",
        "calls": "Return and run only tool calls confirmed by token ids, or also calls read from text.",
        "grammar": "When to constrain an engine that takes grammars. always; demanded: only if a request requires a "
        "call or a format; off.",
        "retry_malformed": "Sample again, once, if an answer is so damaged that nothing can be shown or run.",
        "dialect": "Dialect of responses and events if the request does not choose one.",
        "limits": f"A limit, such as output_tokens 4096. Names: {', '.join(Limits.__struct_fields__)}.",
    },
    "Storage and tools": {
        "store": f"Where to store responses: {URL_FORMS}; by default in the user's state folder.",
        "seal_key_file": "Keys that seal reasoning; created if missing; by default in the user's state folder.",
        "mcp": "MCP servers whose tools run here: JSON with mcpServers.",
        "allow_client_mcp": "Connect to MCP servers that clients name.",
    },
    SETTINGS: {
        "config": f"Settings file, in TOML.  [env var: {CONFIG_VARIABLE}]",
        "log_format": "Format of the log.",
        "log_content": "Also log requests and answers.",
    },
}
# Flags that are not called as their setting is; switches have --no- before their name.
_NAMES: Final = {
    "insecure": "--insecure/--secure",
    "hosts": "--allow-host",
    "origins": "--allow-origin",
    "aliases": "--alias",
    "engine_options": "--option",
    "limits": "--limit",
    "allow_client_mcp": "--allow-client-mcp/--no-client-mcp",
}
_METAVARS: Final = {
    **dict.fromkeys(("config", *FILES), "FILE"),
    **dict.fromkeys(("hosts", "engine", "model", "aliases"), "NAME"),
    **dict.fromkeys(("origins", "store"), "URL"),
    **dict.fromkeys(("engine_options", "limits"), "NAME VALUE"),
    **{"host": "ADDRESS", "port": "NUMBER", "profile": "NAME|auto"},
}
_SHORT: Final = {"engine": "-m", "engine_options": "-o"}
_PAIRS: Final = ("engine_options", "limits")


def server_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of a server to a verb."""
    for group, flags in reversed(_FLAGS.items()):
        for name, about in reversed(flags.items()):
            settings = _type_of(name)
            flag = _NAMES.get(name) or f"--{name.replace('_', '-')}"
            default = _SETTINGS[name].default if name in _SETTINGS else None
            if isinstance(default, bool):
                flag = flag if "/" in flag else f"{flag}/--no-{flag.removeprefix('--')}"
                default = flag.split("/")[not default].lstrip("-")
            about += " Repeatable." if settings.get("multiple") else ""
            about += f"  [default: {default}]" if default not in (None, (), {}) else ""
            spelled = [each for each in (_SHORT.get(name), flag, name) if each is not None]
            options = {"metavar": _METAVARS.get(name), **settings, "help": about}
            function = click.option(*spelled, cls=GroupedOption, group=group, **options)(function)
    return function


def _type_of(name: str) -> dict[str, Any]:
    if name in _PAIRS:
        return {"type": (str, str), "multiple": True}
    if name == "config" or name in FILES:
        return {"type": click.Path(dir_okay=False)}
    match _SETTINGS[name].type:
        case inspect.LiteralType(values=values):
            return {"type": click.Choice([str(each) for each in values])}
        case inspect.IntType(ge=low, le=high):
            return {"type": click.IntRange(low, high)}
        case inspect.BoolType():
            return {"default": None}
        case inspect.VarTupleType():
            return {"multiple": True}
        case _:
            return {}


def load_from_flags(context: click.Context, config: str | None, options: Mapping[str, Any]) -> Loaded:
    """The settings, with the given flags over everything else."""
    spelled = {
        parameter.name: max(parameter.opts, key=len)
        for parameter in context.command.params
        if isinstance(parameter, GroupedOption)
    }
    flags: dict[str, Flag] = {}
    for name, value in options.items():
        if value is None or value == ():
            continue
        match name:
            case "limits":
                flags |= {f"limits.{limit}": Flag(f"--limit {limit}", text) for limit, text in value}
            case "engine_options":
                flags[name] = Flag("--option", {option: _read_option(text) for option, text in value})
            case _:
                flags[name] = Flag(spelled[name], value)
    return load_settings(flags, config=config and Path(config))


def _read_option(text: str) -> Any:
    """The value of an engine option: JSON such as a number, true or false, or else a text."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
