"""The options that all benchmarks have."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path


def options_parser(prog: str, description: str, rows: Iterable[str]) -> argparse.ArgumentParser:
    """A parser of them; `rows` are the names that `--only` chooses from."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--quick", action="store_true", help="a round or two of everything, to see that it works")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help=f"rows that begin so: {', '.join(rows)}"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round to FILE")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="rewrite the results in FILE, between its markers"
    )
    return parser
