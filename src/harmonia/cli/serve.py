"""`harmonia serve`: the server, and what whoever starts it should see. All of it goes to stderr."""

from __future__ import annotations

import asyncio
import json
import shlex
import signal
import sys
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from harmonia.cli.display import readable
from harmonia.cli.options import GroupedCommand, GroupedOption, echo_json
from harmonia.cli.server_options import PRECEDENCE, SETTINGS, load_from_flags, server_options
from harmonia.errors import ErrorCode, InputError
from harmonia.serve.config.dump import describe, to_toml
from harmonia.serve.config.sources import Loaded, is_loopback

if TYPE_CHECKING:
    from harmonia.serve.models.selection import Chosen

_INTERRUPTED: Final = 130
_ALL_ADDRESSES: Final = ("", "0.0.0.0", "::")
# The variable in which the examples look for a key; other verbs do, too.
_KEY_VARIABLE: Final = "HARMONIA_API_KEY"
_EPILOG: Final = f"{PRECEDENCE} `harmonia doctor` finds what is wrong with a setup."


@click.command("serve", cls=GroupedCommand, epilog=_EPILOG)
@server_options
@click.option(
    "--print-config",
    cls=GroupedOption,
    group=SETTINGS,
    is_flag=True,
    help="Print all settings and where each comes from, as a file for --config, and exit.",
)
@click.option(
    "--json", "as_json", cls=GroupedOption, group=SETTINGS, is_flag=True, help="With --print-config: print JSON."
)
@click.pass_context
def command(context: click.Context, config: str | None, print_config: bool, as_json: bool, **options: Any) -> None:
    """Serve a gpt-oss model as OpenAI's API: Responses and Chat Completions, with Harmony handled here.

    Without any option it serves the engine that it finds on this machine, for this machine only. Ctrl-C stops it. Exit
    codes: 0 stopped by SIGTERM, 1 an error, 2 wrong usage, 4 no engine there, 130 interrupted.
    """
    loaded = load_from_flags(context, config, options)
    if print_config:
        for note in loaded.notes:
            click.echo(f"note: {readable(note)}", err=True)
        if as_json:
            echo_json(msgspec.to_builtins(describe(loaded)))
        else:
            click.echo(to_toml(describe(loaded)), nl=False)
        return
    if as_json:
        raise click.UsageError("--json needs --print-config")
    serve, service_type, loop_factory = _import_server()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        sys.exit(runner.run(_serve(loaded, serve, service_type)))


async def _serve(loaded: Loaded, serve: Any, service_type: Any) -> int:
    from harmonia.serve.http.ports import check_port
    from harmonia.serve.models.selection import choose_model

    settings = loaded.settings
    # Whoever reads the log as JSON gets nothing else on stderr; a person at a terminal gets lines.
    is_record = settings.log_format == "json" and not sys.stderr.isatty()
    signals = _Signals()
    try:
        # Before a model is loaded, which may take minutes.
        await check_port(settings)
        chosen = await choose_model(settings)

        def greet(listening: Any) -> None:
            for line in _greeting(loaded, chosen, listening.host, listening.port, is_record=is_record):
                click.echo(readable(line), err=True)

        async with service_type.open(settings, chosen.model) as service:
            signals.leave_to_server()
            await serve(service, settings, on_listening=greet)
        click.echo(_log_record("stopped") if is_record else "stopped", err=True)
    except asyncio.CancelledError:
        if signal.SIGTERM not in signals.received:
            raise
    return _INTERRUPTED if signal.SIGINT in signals.received else 0


class _Signals:
    """What ends the process. Until there is a server, SIGTERM cancels what is being opened, as Ctrl-C does; then the
    server stops by itself on both, and it is only noted which one it was."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self._task = asyncio.current_task()
        self._watch(signal.SIGTERM)

    def leave_to_server(self) -> None:
        self._task = None
        self._watch(signal.SIGINT)

    def _watch(self, number: signal.Signals) -> None:
        with suppress(NotImplementedError):  # on Windows
            asyncio.get_running_loop().add_signal_handler(number, self._receive, number)

    def _receive(self, number: signal.Signals) -> None:
        self.received.append(number)
        if self._task is not None:
            self._task.cancel()


def _import_server() -> tuple[Any, Any, Any]:
    """They need the extra, so they are imported when everything else is known to be right."""
    try:
        from harmonia.serve.server import loop_factory, serve
        from harmonia.serve.service import Service
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("harmonia"):
            raise
        raise InputError(
            ErrorCode.SERVE_MISSING_EXTRA,
            f"the server needs {error.name}: pip install 'harmonia[server]', or in a clone pip install '.[server]'",
        ) from error
    return serve, Service, loop_factory


# ── the greeting ────────────────────────────────────────────────────────────────────────────────────────────────────


def _greeting(loaded: Loaded, chosen: Chosen, host: str, port: int, *, is_record: bool) -> list[str]:
    """Where it listens, what it serves and why, who may use it, and how to try it; for programs, one line of JSON."""
    from harmonia.run.engines.http import redact
    from harmonia.serve.http.page import HOW_TO_BUILD, is_built
    from harmonia.serve.http.ports import address_for_clients

    url, place = address_for_clients(host, port), f"http://{f'[{host}]' if ':' in host else host}:{port}"
    settings, model = loaded.settings, chosen.model
    facts = {
        "engine": f"{redact(model.name)} ({chosen.why})",
        "model": ", also as ".join([model.model, *([", ".join(settings.aliases)] if settings.aliases else [])]),
        "store": settings.store_address(),
        "reasoning": "shown as part of the answers",
        "keys": f"from {settings.api_key_file}",
        "page": f"{url}/",
        "docs": f"{url}/docs",
    }
    if settings.analysis != "shown":
        facts["reasoning"] = (
            "hidden: sealed, so that clients can send it back but not read it; show it with --analysis shown"
        )
    if settings.api_key_file is None:
        who = "on this machine" if is_loopback(settings.host) else "who can reach this address"
        facts["keys"] = f"none: everyone {who} may use it"
    if not settings.page:
        facts["page"] = "switched off"
    elif not is_built(settings):
        facts["page"] = f"not built: {HOW_TO_BUILD}"
    if settings.mcp is not None:
        facts["mcp"] = settings.mcp
    if loaded.config is not None:
        facts["settings"] = str(loaded.config)
    notes = [*loaded.notes, *chosen.notes]
    if settings.host in _ALL_ADDRESSES and not settings.hosts:
        notes.append("clients can use its IP address or localhost; allow another host name with --allow-host NAME")
    if is_record:
        return [_log_record("listening", version=version("harmonia"), url=place, **facts, notes=notes)]
    has_keys = settings.api_key_file is not None
    first = [f", with a key in {_KEY_VARIABLE}"] if has_keys else []
    if find_spec("openai") is None:
        first.append(", the second line after `pip install openai`")
    return [
        f"Harmonia {version('harmonia')} listens at {place}",
        *(f"  {name:<9}  {fact}" for name, fact in facts.items()),
        *(f"  note: {note}" for note in notes),
        f"Try it{''.join(first)}; Ctrl-C stops it:",
        *(f"  {line}" for line in _examples(url, model.model, has_keys=has_keys)),
    ]


def _log_record(event: str, **fields: object) -> str:
    """A line of the log, in the form that `log_format = "json"` has."""
    moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"time": moment, "level": "info", "event": event, **fields})


def _examples(url: str, model: str, *, has_keys: bool) -> tuple[str, str]:
    """Requests to copy into a shell: with curl, and with OpenAI's SDK, which wants some key in any case."""
    body = msgspec.json.encode({"model": model, "input": "Hello!"}).decode()
    header = f' -H "authorization: Bearer ${_KEY_VARIABLE}"' if has_keys else ""
    # JSON's strings are Python's.
    model, base_url = (msgspec.json.encode(text).decode() for text in (model, f"{url}/v1"))
    imports, key = "from openai import OpenAI", '"none"'
    if has_keys:
        imports, key = f"import os; {imports}", f'os.environ["{_KEY_VARIABLE}"]'
    client = f"OpenAI(base_url={base_url}, api_key={key})"
    code = f'{imports}; print({client}.responses.create(model={model}, input="Hello!").output_text)'
    # The Python that has the SDK, if it is this one.
    python = shlex.quote(sys.executable) if sys.executable and find_spec("openai") is not None else "python3"
    return (
        f"curl {url}/v1/responses -H 'content-type: application/json'{header} -d {shlex.quote(body)}",
        f"{python} -c {shlex.quote(code)}",
    )
