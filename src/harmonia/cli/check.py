"""`harmonia check`: the shell's `harmonia.run.provider_check.check`."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections import Counter
from contextlib import aclosing

import click
import msgspec

from harmonia.cli.display import show, wrap_words
from harmonia.cli.options import echo_json
from harmonia.run.provider_check import KINDS, NAMES, Outcome, Report, check, check_each

_FAILED = 1
_UNREACHABLE = 4
_NAME_WIDTH = max(map(len, NAMES))
_VERDICT_WIDTH = len("unknown")
_ONE_LINE = 1_000_000


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
@click.option("--api-key", envvar="HARMONIA_API_KEY", show_envvar=True, help="The provider's API key.")
@click.option("--why", is_flag=True, help="Explain why each check matters.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    url: str, model: str | None, kind: str, only: tuple[str, ...], api_key: str | None, why: bool, as_json: bool
) -> None:
    """Test a provider at URL: does it accept and return token ids, keep special tokens, and handle Harmony?

    You can leave out http://, as in localhost:8000. Checks that are skipped for the same reason share one line; with
    --json or --why, each has its own.

    ok: works as it should. warn: missing or unusual, but Harmonia can work with it. fail: answers will be misread or
    lost. skip: nothing to check. unknown: the cause may be the model. Exit codes: 0 no check failed, 1 a check failed,
    4 the server does not answer.
    """
    if as_json:
        report = asyncio.run(check(url, model=model, kind=kind, only=only, api_key=api_key))
        echo_json({**msgspec.to_builtins(report), "ok": report.is_good})
    else:
        report = asyncio.run(_echo_each(url, model, kind, only, api_key, why))
        counted = Counter(outcome.verdict for outcome in report.outcomes)
        summary = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counted.items()))
        checks = "1 check" if len(report.outcomes) == 1 else f"{len(report.outcomes)} checks"
        click.echo(f"{checks}: {summary}", err=True)
    if not report.is_reachable:
        sys.exit(_UNREACHABLE)
    if not report.is_good:
        sys.exit(_FAILED)


async def _echo_each(
    url: str, model: str | None, kind: str, only: tuple[str, ...], api_key: str | None, why: bool
) -> Report:
    """Print each outcome as soon as it is there: a slow model takes minutes for all of them."""
    outcomes: list[Outcome] = []
    alike: list[Outcome] = []  # skipped for the same reason, and not printed yet
    async with aclosing(check_each(url, model=model, kind=kind, only=only, api_key=api_key)) as found:
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
    indent = _VERDICT_WIDTH + 2 + _NAME_WIDTH + 2
    # What goes into a file or another program has one line for each outcome.
    width = max(shutil.get_terminal_size().columns - indent, 40) if sys.stdout.isatty() else _ONE_LINE
    lines = wrap_words(show(outcome.seen), width)
    if why:
        lines += wrap_words(f"({outcome.why})", width)
    click.echo(f"{outcome.verdict:<{_VERDICT_WIDTH}}  {outcome.name:<{_NAME_WIDTH}}  {lines[0]}")
    for line in lines[1:]:
        click.echo(" " * indent + line)
