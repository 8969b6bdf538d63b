"""`harmonia doctor`: the shell's `harmonia.serve.doctor`."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any, Final

import click
import msgspec

from harmonia.cli.display import show, wrap_words
from harmonia.cli.option_groups import GroupedCommand, GroupedOption
from harmonia.cli.options import echo_json
from harmonia.cli.server_options import load_from_flags, server_options
from harmonia.serve.doctor import Finding, examine, examine_server

_GROUP: Final = "The examination"
_VERDICT_WIDTH: Final = 4
_NAME_WIDTH: Final = 18
_ONE_LINE: Final = 1_000_000
_COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command("doctor", cls=GroupedCommand)
@click.option(
    "--server",
    "url",
    metavar="URL",
    cls=GroupedOption,
    group=_GROUP,
    help="Look only at a server that runs there.",
)
@click.option(
    "--api-key",
    envvar="HARMONIA_API_KEY",
    show_envvar=True,
    cls=GroupedOption,
    group=_GROUP,
    help="A key for that server.",
)
@click.option(
    "--wait",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    cls=GroupedOption,
    group=_GROUP,
    help="How long an engine or a server may take to answer.",
)
@click.option("--json", "as_json", cls=GroupedOption, group=_GROUP, help="Print one JSON object.", is_flag=True)
@server_options
@click.pass_context
def command(
    context: click.Context,
    url: str | None,
    api_key: str | None,
    timeout_s: float,
    as_json: bool,
    config: str | None,
    **options: Any,
) -> None:
    """Say what of a set-up works, what does not, and what to do about it.

    Give it the options that you start `harmonia serve` with. Nothing is started and nothing is left changed: where a
    file is to be made, one is tried beside it and removed. An engine that is there is asked for a few tokens.

    ok: as it should be. warn: it will run, and could be better. fail: it will not run. skip: not looked at. Exit codes:
    0 nothing failed, 1 something did.
    """
    if url is not None:
        findings = examine_server(url, api_key=api_key, timeout_s=timeout_s)
    else:
        findings = examine(partial(load_from_flags, context, config, options), timeout_s=timeout_s)
    found = asyncio.run(_collect(findings, as_json=as_json))
    is_good = not any(finding.verdict == "fail" for finding in found)
    if as_json:
        echo_json({"ok": is_good, "findings": msgspec.to_builtins(found)})
    else:
        counted = Counter(finding.verdict for finding in found)
        click.echo(", ".join(f"{number} {verdict}" for verdict, number in sorted(counted.items())), err=True)
    if not is_good:
        sys.exit(1)


async def _collect(findings: AsyncGenerator[Finding], *, as_json: bool) -> list[Finding]:
    """All of them; printed as they come, because some take their time."""
    found: list[Finding] = []
    async with aclosing(findings):
        async for finding in findings:
            found.append(finding)
            if not as_json:
                _echo(finding)
    return found


def _echo(finding: Finding) -> None:
    indent = _VERDICT_WIDTH + 2 + _NAME_WIDTH + 2
    # What goes into a file or another program has one line for what was found, and one for what to do.
    width = max(shutil.get_terminal_size().columns - indent, 40) if sys.stdout.isatty() else _ONE_LINE
    verdict = click.style(f"{finding.verdict:<{_VERDICT_WIDTH}}", fg=_COLOURS.get(finding.verdict))
    first, *others = wrap_words(show(finding.seen), width)
    click.echo(f"{verdict}  {finding.name:<{_NAME_WIDTH}}  {first}")
    if finding.advice:
        others += wrap_words(f"-> {show(finding.advice)}", width)
    for line in others:
        click.echo(" " * indent + line)
