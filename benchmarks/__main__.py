"""The command: `python -m benchmarks [--quick] [--only NAME] [--json FILE] [--markdown FILE] [--summary FILE]`.

The table goes to standard output, progress to standard error. The exit code is 1 where rivals disagree about a
result or one of them dies, 2 where the command is misused, and 0 otherwise, whatever the numbers say.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from benchmarks.agreement import Disagreement
from benchmarks.lines import make_lines
from benchmarks.machine import describe_machine, installed_versions
from benchmarks.measure import Measurement, say
from benchmarks.options import options_parser
from benchmarks.processes import RivalDied, Worker, WorkerProcess, environment
from benchmarks.report import Report, write_between_markers
from benchmarks.rivals import EXTRAS, NAMES
from benchmarks.suites import CASES, ROWS, STARTS, cases_of, select

OpenWorker = Callable[[str, dict[str, str]], Worker]


def main(arguments: Sequence[str] | None = None, open_worker: OpenWorker = WorkerProcess) -> int:
    """Run the benchmarks that `arguments` choose; `open_worker` starts the process of a rival."""
    options = _parse(arguments)
    try:
        rows = select(options.only)
    except KeyError as error:
        print(f"error: {error.args[0]}", file=sys.stderr)
        return 2
    rivals = [name for name in NAMES if name not in EXTRAS or find_spec(EXTRAS[name]) is not None]
    missing = [row.name for row in rows if row.against not in rivals]
    if missing:
        say(f"left out, because their rival is not installed: {', '.join(missing)}")
        rows = tuple(row for row in rows if row.against in rivals)
    machine = describe_machine()
    names = cases_of(rows)
    try:
        with environment() as variables:
            measurement = Measurement(rivals, lambda name: open_worker(name, variables), variables, quick=options.quick)
            results = measurement.run(
                [STARTS[name] for name in names if name in STARTS], [CASES[name] for name in names if name in CASES]
            )
    except Disagreement as error:
        print(f"error: the rivals do not give the same results, so nothing is reported. {error}", file=sys.stderr)
        return 1
    except RivalDied as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    report = Report(make_lines(rows, results), results, machine, installed_versions(), options.quick)
    print(report.as_text())
    if options.json is not None:
        options.json.write_text(report.as_json() + "\n", encoding="utf-8")
        say(f"wrote {options.json}")
    if options.markdown is not None:
        write_between_markers(options.markdown, report.as_markdown())
        say(f"wrote {options.markdown}")
    if options.summary is not None:
        write_between_markers(options.summary, report.as_summary())
        say(f"wrote {options.summary}")
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options_parser("python -m benchmarks", "Harmonia against its rivals.", (row.name for row in ROWS))
    parser.add_argument("--summary", type=Path, metavar="FILE", help="the same with what was promised only")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
