"""`harmonia doctor`: the shell's `harmonia.serve.doctor`."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any, Final

import click
import msgspec

from harmonia.cli.display import echo_verdict, show
from harmonia.cli.options import GroupedCommand, GroupedOption, echo_json
from harmonia.cli.server_options import PRECEDENCE, load_from_flags, server_options
from harmonia.serve.doctor import Finding, examine, examine_server

_option: Final = partial(click.option, cls=GroupedOption, group="Checks")
_WIDTHS: Final = 4, 18


@click.command("doctor", cls=GroupedCommand, epilog=PRECEDENCE)
@_option("--server", "url", metavar="URL", help="Check only the running server at this URL.")
@_option("--api-key", envvar="HARMONIA_API_KEY", show_envvar=True, help="An API key for that server.")
@_option(
    "--wait",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for an engine or a server to answer.",
)
@_option("--json", "as_json", help="Print one JSON object.", is_flag=True)
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
    """Check a setup, and report what works, what does not, and how to fix it.

    Pass the options with which you start `harmonia serve`. Nothing is started and nothing is changed: to check that a
    file can be created, a temporary one is created beside it and removed. A running engine is asked for a few tokens.

    ok: fine. warn: works, but could be better. fail: does not work. skip: not checked. Exit codes: 0 no check failed,
    1 a check failed.
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
    """All findings; printed as they arrive, because some checks are slow."""
    found: list[Finding] = []
    async with aclosing(findings):
        async for finding in findings:
            found.append(finding)
            if not as_json:
                advice = [f"-> {show(finding.advice)}"] if finding.advice else []
                echo_verdict(finding.verdict, finding.name, _WIDTHS, show(finding.seen), *advice)
    return found
