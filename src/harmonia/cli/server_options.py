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

SETTINGS: Final = "Settings and logs"

# By heading and setting: the flag, the metavar (none for choices and switches), and the help.
_FLAGS: Final[dict[str, dict[str, tuple[str, str | None, str]]]] = {
    "Listening": {
        "host": ("--host", "ADDRESS", "Address to listen on; the default is reachable from this machine only."),
        "port": ("--port", "NUMBER", "Port to listen on; 0 takes any free port."),
        "api_key_file": (
            "--api-key-file",
            "FILE",
            "API keys: a file that `harmonia keys` writes. Without it, everyone who reaches the server may use it.",
        ),
        "insecure": (
            "--insecure/--secure",
            None,
            "Allow listening without API keys on an address that other machines can reach.",
        ),
        "hosts": (
            "--allow-host",
            "NAME",
            "Another host name that clients use to reach the server, such as the name of a proxy. Repeatable.",
        ),
        "origins": (
            "--allow-origin",
            "URL",
            "Origin of web pages that may call the server, such as https://chat.example.org. Repeatable.",
        ),
        "page": ("--page/--no-page", None, "Serve the page with chat and inspector."),
    },
    "Model": {
        "engine": (
            "--engine",
            "NAME",
            f"Engine or provider: {', '.join(names())}. auto looks for an engine on this machine, then uses demo.",
        ),
        "model": ("--model", "NAME", "Model, if the engine has several."),
        "aliases": ("--alias", "NAME", "Another name by which clients may request the model. Repeatable."),
        "profile": (
            "--profile",
            "NAME|auto",
            "Format of a model that is not a gpt-oss: a profile, or auto to choose by the model's name.",
        ),
        "profiles": (
            "--profiles",
            "FILE",
            "Your own profiles, in TOML; by default ~/.config/harmonia/profiles.toml.",
        ),
        "engine_options": (
            "--option",
            "NAME VALUE",
            "Option of the engine, such as context_tokens 16384. Repeatable. For its API key, set "
            "HARMONIA_ENGINE_API_KEY.",
        ),
    },
    "Answers": {
        "analysis": (
            "--analysis",
            None,
            "hidden seals reasoning, so that clients can send it back but not read it; shown shows it.",
        ),
        "guessed": (
            "--guessed",
            None,
            "Hide text of a damaged answer that has no known channel, such as bare JSON, or show it as the answer.",
        ),
        "calls": (
            "--calls",
            None,
            "Return and run only tool calls confirmed by token ids, or also calls read from text.",
        ),
        "grammar": (
            "--grammar",
            None,
            "When to constrain an engine that supports grammars: always, if a request demands something, or never.",
        ),
        "retry_malformed": (
            "--retry-malformed/--no-retry-malformed",
            None,
            "Sample again, once, if an answer is so damaged that nothing can be shown or run.",
        ),
        "dialect": ("--dialect", None, "Dialect of responses and events if the request does not choose one."),
        "limits": (
            "--limit",
            "NAME VALUE",
            f"Limit of a request: {', '.join(Limits.__struct_fields__)}. Repeatable.",
        ),
    },
    "Storage and tools": {
        "store": ("--store", "URL", "Where to store responses: sqlite:///PATH; by default in the user's state folder."),
        "seal_key_file": (
            "--seal-key-file",
            "FILE",
            "Keys that seal reasoning; created if missing; by default in the user's state folder.",
        ),
        "mcp": ("--mcp", "FILE", "MCP servers whose tools run here: JSON with mcpServers."),
        "allow_client_mcp": ("--allow-client-mcp/--no-client-mcp", None, "Connect to MCP servers that clients name."),
    },
    SETTINGS: {
        "config": ("--config", "FILE", f"Settings file, in TOML.  [env var: {CONFIG_VARIABLE}]"),
        "log_format": ("--log-format", None, "Format of the log."),
        "log_content": ("--log-content/--no-log-content", None, "Also log requests and answers."),
    },
}
_SHORT: Final = {"engine": "-m", "engine_options": "-o"}
_PAIRS: Final = ("engine_options", "limits")


def server_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of a server to a verb."""
    for group, flags in reversed(_FLAGS.items()):
        for name, (flag, metavar, about) in reversed(flags.items()):
            names = [each for each in (_SHORT.get(name), flag, name) if each is not None]
            options = {"metavar": metavar, **_type_of(name), "help": about + _default_of(name, flag)}
            function = click.option(*names, cls=GroupedOption, group=group, **options)(function)
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


def _default_of(name: str, flag: str) -> str:
    default = _SETTINGS[name].default if name in _SETTINGS else None
    if isinstance(default, bool):
        default = flag.split("/")[not default].lstrip("-")
    return f"  [default: {default}]" if default not in (None, (), {}) else ""


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
