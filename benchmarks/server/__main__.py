"""The command: `python -m benchmarks.server [--quick] [--only NAME] [--json FILE] [--markdown FILE]`.

The table goes to standard output, progress to standard error. The exit code is 1 where a server gives something else
than it should or dies, 2 where the command is misused, and 0 otherwise, whatever the numbers say.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from benchmarks.machine import describe_machine, installed_versions
from benchmarks.measure import say
from benchmarks.options import options_parser
from benchmarks.processes import RivalDied
from benchmarks.report import write_between_markers
from benchmarks.server.cases import Case, make_cases
from benchmarks.server.client import WrongAnswer
from benchmarks.server.processes import ServerProcess, cores, pinned
from benchmarks.server.report import BEGIN, Report, Rounds
from benchmarks.server.rows import ROWS, Row, select

_PACKAGES = ("harmonia", "uvicorn", "uvloop", "httptools", "starlette", "msgspec", "tiktoken", "gigatoken")
_PASSES = 3

OpenServer = Callable[[str], ServerProcess]
Pair = tuple[ServerProcess, ServerProcess]


def main(arguments: Sequence[str] | None = None, open_server: OpenServer = ServerProcess) -> int:
    """Measure the rows that `arguments` choose; `open_server` starts a server."""
    options = _parse(arguments)
    try:
        rows = select(options.only)
    except KeyError as error:
        print(f"error: {error.args[0]}", file=sys.stderr)
        return 2
    machine = describe_machine()
    try:
        with pinned():
            rounds = _measure(rows, open_server, quick=options.quick)
    except WrongAnswer as error:
        print(f"error: a server does not give what it should, so nothing is reported. {error}", file=sys.stderr)
        return 1
    except RivalDied as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    is_pinned = cores()[0] is not None
    report = Report(rows, rounds, machine, installed_versions(_PACKAGES), is_pinned, options.quick)
    print(report.as_text())
    if options.json is not None:
        options.json.write_text(report.as_json() + "\n", encoding="utf-8")
        say(f"wrote {options.json}")
    if options.markdown is not None:
        write_between_markers(options.markdown, report.as_markdown(), BEGIN)
        say(f"wrote {options.markdown}")
    return 0


def _measure(rows: tuple[Row, ...], open_server: OpenServer, *, quick: bool) -> Rounds:
    wanted = {row.case for row in rows}
    cases = {name: case for name, case in make_cases(quick=quick).items() if name in wanted}
    rounds: Rounds = {}
    passes = 1 if quick else _PASSES
    # The rounds of a case are spread over passes through all cases, so that a bad minute spoils a part of each.
    for pass_ in range(passes):
        with ExitStack() as shared:
            pair: Pair | None = None
            for name, case in cases.items():
                say(f"pass {pass_ + 1} of {passes}: {name}")
                numbers = range(case.quick_rounds if quick else case.rounds)[pass_::passes]
                if quick and not case.needs_fresh:
                    pair = pair or _open_pair(open_server, shared)
                    _run(case, numbers, pair, rounds)
                else:
                    with ExitStack() as own:
                        _run(case, numbers, _open_pair(open_server, own), rounds)
    return rounds


def _open_pair(open_server: OpenServer, stack: ExitStack) -> Pair:
    return stack.enter_context(open_server("ours")), stack.enter_context(open_server("prepared"))


def _run(case: Case, numbers: range, pair: Pair, rounds: Rounds) -> None:
    case.prepare(*pair)
    for number in numbers:
        for row, sample in case.measure(*pair, number).items():
            rounds.setdefault(row, []).append(sample)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options_parser(
        "python -m benchmarks.server",
        "The server against its own stack sending prepared bytes.",
        (row.name for row in ROWS),
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
