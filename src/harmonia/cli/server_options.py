"""The flags that `serve` and `doctor` share: one for each common setting. Those that are not given leave the setting to
the environment and the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

import click
import msgspec

from harmonia.cli.option_groups import GroupedOption
from harmonia.parts import Guessed
from harmonia.run.constraints.demand import GrammarUse
from harmonia.serve.config.settings import DEFAULT_PORT, Analysis, Calls, Limits
from harmonia.serve.config.sources import CONFIG_VARIABLE, Flag, Loaded, load_settings
from harmonia.serve.security.identity import Dialect

_LISTENING: Final = "Where it listens, and for whom"
_MODEL: Final = "The model"
_ANSWERS: Final = "Answers"
_KEPT: Final = "What is kept, and tools"
SETTINGS: Final = "Settings and logs"

_file = partial(click.Path, dir_okay=False)


def _option(group: str, *names: str, **settings: Any) -> Callable[[Any], Any]:
    return click.option(*names, cls=GroupedOption, group=group, **settings)


_OPTIONS: Final = (
    _option(_LISTENING, "--host", metavar="ADDRESS", help="The address.  [default: 127.0.0.1, this machine only]"),
    _option(
        _LISTENING,
        "--port",
        type=click.IntRange(0, 65535),
        metavar="NUMBER",
        help=f"The port; 0 takes any that is free.  [default: {DEFAULT_PORT}]",
    ),
    _option(
        _LISTENING,
        "--api-key-file",
        type=_file(),
        metavar="FILE",
        help="Who may use it: a file that `harmonia keys` writes. Without one, everybody who reaches it.",
    ),
    _option(
        _LISTENING,
        "--insecure/--secure",
        "insecure",
        default=None,
        help="Listen where other machines reach it, though there are no API keys.  [default: secure]",
    ),
    _option(
        _LISTENING,
        "--allow-host",
        "hosts",
        multiple=True,
        metavar="NAME",
        help="A further name under which clients reach it, such as that of a proxy in front. Repeatable.",
    ),
    _option(
        _LISTENING,
        "--allow-origin",
        "origins",
        multiple=True,
        metavar="URL",
        help="Web pages that may use it, such as https://chat.example.org. Repeatable.",
    ),
    _option(
        _LISTENING,
        "--page/--no-page",
        "page",
        default=None,
        help="Serve the page, chat and inspector, at its address.  [default: page]",
    ),
    _option(
        _MODEL,
        "-m",
        "--engine",
        metavar="NAME",
        help="Who answers: auto, demo, a URL, vllm:URL, llama.cpp:URL, ollama:URL, transformers:PATH, replay:FILE, "
        "responses:URL, chat:URL, …; auto looks on this machine, and takes demo where it finds none.  [default: auto]",
    ),
    _option(_MODEL, "--model", metavar="NAME", help="The model, where the engine has several."),
    _option(
        _MODEL,
        "--alias",
        "aliases",
        multiple=True,
        metavar="NAME",
        help="A further name under which clients may ask for it. Repeatable.",
    ),
    _option(
        _MODEL,
        "--profile",
        metavar="NAME|auto",
        help="How the model writes, where it is no gpt-oss: a profile, or auto for the one that fits its name.",
    ),
    _option(
        _MODEL,
        "--profiles",
        metavar="FILE",
        help="Your own profiles, in TOML; without it those of ~/.config/harmonia/profiles.toml.",
    ),
    _option(
        _MODEL,
        "-o",
        "--option",
        "engine_options",
        type=(str, str),
        multiple=True,
        metavar="NAME VALUE",
        help="A setting of the engine, such as context_tokens 16384. Repeatable. Its key: HARMONIA_ENGINE_API_KEY.",
    ),
    _option(
        _ANSWERS,
        "--analysis",
        type=click.Choice(get_args(Analysis)),
        help="Reasoning: sealed, so that clients can send it back but not read it; or shown.  [default: hidden]",
    ),
    _option(
        _ANSWERS,
        "--guessed",
        type=click.Choice(get_args(Guessed)),
        help="Text that a damaged answer leaves without a known channel, such as bare JSON: hidden, or shown as the "
        "answer.  [default: hidden]",
    ),
    _option(
        _ANSWERS,
        "--calls",
        type=click.Choice(get_args(Calls)),
        help="Which tool calls are handed out and run: those that token ids confirm; or also those that were read from "
        "text.  [default: certain]",
    ),
    _option(
        _ANSWERS,
        "--grammar",
        type=click.Choice(get_args(GrammarUse)),
        help="When an engine that takes a grammar is held to one: where a request demands something, always, or never."
        "  [default: demanded]",
    ),
    _option(
        _ANSWERS,
        "--retry-malformed/--no-retry-malformed",
        "retry_malformed",
        default=None,
        help="Sample once more what is so damaged that nothing can be shown or run.  [default: retry-malformed]",
    ),
    _option(
        _ANSWERS,
        "--dialect",
        type=click.Choice(get_args(Dialect)),
        help="How responses and events are written, where the request does not say.  [default: openai]",
    ),
    _option(
        _ANSWERS,
        "--limit",
        "limits",
        type=(str, str),
        multiple=True,
        metavar="NAME VALUE",
        help=f"What one request may use: {', '.join(Limits.__struct_fields__)}. Repeatable.",
    ),
    _option(
        _KEPT,
        "--store",
        metavar="URL",
        help="Where responses are kept: sqlite:///PATH.  [default: a file in the user's state folder]",
    ),
    _option(
        _KEPT,
        "--seal-key-file",
        type=_file(),
        metavar="FILE",
        help="The keys that seal reasoning; made if it is not there.  [default: in the user's state folder]",
    ),
    _option(_KEPT, "--mcp", type=_file(), metavar="FILE", help="MCP servers whose tools run here: JSON, mcpServers."),
    _option(
        _KEPT,
        "--allow-client-mcp/--no-client-mcp",
        "allow_client_mcp",
        default=None,
        help="Connect to MCP servers that clients name.  [default: no-client-mcp]",
    ),
    _option(
        SETTINGS,
        "--config",
        type=_file(),
        metavar="FILE",
        help=f"A file of settings, TOML.  [env var: {CONFIG_VARIABLE}]",
    ),
    _option(SETTINGS, "--log-format", type=click.Choice(["text", "json"]), help="[default: text]"),
    _option(
        SETTINGS,
        "--log-content/--no-log-content",
        "log_content",
        default=None,
        help="Log what is asked and answered, too.  [default: no-log-content]",
    ),
)


def server_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The flags of a server, for a verb that takes them all."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def load_from_flags(context: click.Context, config: str | None, options: Mapping[str, Any]) -> Loaded:
    """The settings, with the flags that were given over all else."""
    return load_settings(_flags(context, options), config=config and Path(config))


def _flags(context: click.Context, options: Mapping[str, Any]) -> dict[str, Flag]:
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
    return flags


def _read_option(text: str) -> Any:
    """An option of an engine as people write it: a number, true or false, JSON; and everything else is a text."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
