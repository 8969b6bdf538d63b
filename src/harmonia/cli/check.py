"""`harmonia check`: the shell's `harmonia.run.provider_check.check`."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from contextlib import aclosing
from typing import Any

import click
import msgspec

from harmonia.cli.display import echo_verdict, show
from harmonia.cli.options import api_key_option, echo_json
from harmonia.inspection.saved_streams import count
from harmonia.run.provider_check import KINDS, NAMES, Outcome, Report, check, check_each

_WIDTHS = len("unknown"), max(map(len, NAMES))


@click.command("check")
@click.argument("url")
@click.option("--model", help="The model to ask. Default: a gpt-oss that the provider lists.")
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    default="auto",
    show_default=True,
    help="The kind of provider, if it cannot be detected.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Run only this check or group, such as tokens, chat or chat.call. Repeatable.",
)
@api_key_option
@click.option("--why", is_flag=True, help="Explain why each check matters.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(url: str, why: bool, as_json: bool, **options: Any) -> None:
    """Test a provider at URL: does it accept and return token ids, keep special tokens, and handle Harmony?

    You can leave out http://, as in localhost:8000. Checks that are skipped for the same reason share one line; with
    --json or --why, each has its own.

    ok: works as it should. warn: missing or unusual, but Harmonia can work with it. fail: answers will be misread or
    lost. skip: nothing to check. unknown: the cause may be the model. Exit codes: 0 no check failed, 1 a check failed,
    4 the server does not answer.
    """
    if as_json:
        report = asyncio.run(check(url, **options))
        echo_json({**msgspec.to_builtins(report), "ok": report.is_good})
    else:
        report = asyncio.run(_echo_each(url, why, **options))
        counted = Counter(outcome.verdict for outcome in report.outcomes)
        summary = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counted.items()))
        click.echo(f"{count(len(report.outcomes), 'check')}: {summary}", err=True)
    sys.exit(4 if not report.is_reachable else 0 if report.is_good else 1)


async def _echo_each(url: str, why: bool, *, kind: str, model: str | None, **options: Any) -> Report:
    """Print each outcome as soon as it is there: a slow model takes minutes for all of them."""
    outcomes: list[Outcome] = []
    alike: list[Outcome] = []  # skipped for the same reason, and not printed yet
    async with aclosing(check_each(url, model=model, kind=kind, **options)) as found:
        async for outcome in found:
            outcomes.append(outcome)
            if alike and (outcome.verdict, outcome.seen) != ("skip", alike[0].seen):
                _echo_alike(alike)
                alike = []
            if outcome.verdict == "skip" and not why:
                alike.append(outcome)
            else:
                _echo(outcome, why=why)
    _echo_alike(alike)
    return Report(url, kind, model, tuple(outcomes))


def _echo_alike(skipped: list[Outcome]) -> None:
    """One line for all that were skipped for one reason."""
    if len(skipped) > 1:
        first = skipped[0]
        skipped = [Outcome(f"{first.name} …", "skip", f"{len(skipped)} checks: {first.seen}", first.why)]
    for outcome in skipped:
        _echo(outcome, why=False)


def _echo(outcome: Outcome, *, why: bool) -> None:
    echo_verdict(outcome.verdict, outcome.name, _WIDTHS, show(outcome.seen), *([f"({outcome.why})"] if why else []))
