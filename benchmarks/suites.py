"""All cases and rows, in the order of the report: first what Harmonia promises, then what a reader may ask."""

from __future__ import annotations

from benchmarks import bench_dropin, bench_encode, bench_grammar, bench_parse, bench_render, bench_start, bench_turn
from benchmarks.cases import Case, Row, Start

STARTS: dict[str, Start] = {start.name: start for start in (*bench_start.CASES, *bench_dropin.STARTS)}
CASES: dict[str, Case] = {
    case.name: case
    for suite in (bench_render, bench_parse, bench_encode, bench_dropin, bench_turn, bench_grammar)
    for case in suite.CASES
}

_ALL = (
    *bench_start.ROWS,
    *bench_render.ROWS,
    *bench_parse.ROWS,
    *bench_encode.ROWS,
    *bench_dropin.ROWS,
    *bench_turn.ROWS,
    *bench_grammar.ROWS,
)
_PROMISED = (
    *("start", "cold-short", "cold-5kb", "append", "spaces-100k", "spaces-1m", "memory"),
    *("parse-short", "parse-stream", "parse-whole"),
    *("dropin-cold-short", "dropin-append", "dropin-parse-short", "dropin-stream", "dropin-content", "dropin-memory"),
    *("turn", "turn-eight", "turn-long", "tools-again", "tools-first"),
    *("grammar-build", "grammar-xgrammar", "grammar-gbnf", "grammar-masks"),
)

ROWS: tuple[Row, ...] = (
    *sorted((row for row in _ALL if row.name in _PROMISED), key=lambda row: _PROMISED.index(row.name)),
    *(row for row in _ALL if row.name not in _PROMISED),
)


def select(only: list[str]) -> tuple[Row, ...]:
    """The rows of these names, or all; a name also selects the rows that it begins."""
    if not only:
        return ROWS
    for name in only:
        if not any(row.name.startswith(name) for row in ROWS):
            raise KeyError(f"there is no row {name!r}; there are {', '.join(row.name for row in ROWS)}")
    return tuple(row for row in ROWS if any(row.name.startswith(name) for name in only))


def cases_of(rows: tuple[Row, ...]) -> list[str]:
    """The names of the cases that these rows are made of, each once."""
    return list(dict.fromkeys(name for row in rows for name in (row.case, row.compared_with) if name is not None))
