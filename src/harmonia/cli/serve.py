"""`harmonia serve`: the server, and what whoever starts it should see. All of it goes to stderr."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from harmonia.cli.display import readable
from harmonia.cli.options import GroupedCommand, GroupedOption, echo_json
from harmonia.cli.server_options import SETTINGS, load_from_flags, server_options
from harmonia.errors import ErrorCode, InputError
from harmonia.serve.config.dump import describe, to_toml

if TYPE_CHECKING:
    from harmonia.serve.config.sources import Loaded

_INTERRUPTED: Final = 130
_EPILOG: Final = (
    "You can also set each of these in the environment: HARMONIA_PORT for --port, HARMONIA_LIMITS_DEPTH for --limit "
    "depth. Flags override the environment, which overrides the --config file. `harmonia doctor` finds what is wrong "
    "with a setup; docs/reference/settings.md describes every setting."
)


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
    from harmonia.cli.greeting import greeting, greeting_record, log_record
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
            if is_record:
                click.echo(greeting_record(loaded, chosen, listening.host, listening.port), err=True)
                return
            for line in greeting(loaded, chosen, listening.host, listening.port):
                click.echo(readable(line), err=True)

        async with service_type.open(settings, chosen.model) as service:
            signals.leave_to_server()
            await serve(service, settings, on_listening=greet)
        click.echo(log_record("stopped") if is_record else "stopped", err=True)
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
