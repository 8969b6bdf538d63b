"""Results as the lines of the report: values, ratios and verdicts, before they are set as text, Markdown or JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from benchmarks.cases import Row
from benchmarks.measure import Result, Results

# aim, reached, MISSED    rows with a mark: the aim, only what it must, not even that
# better, even, LOSES     rows without a mark, against the rival; growth has no rival
Verdict = Literal["aim", "reached", "MISSED", "better", "even", "LOSES", ""]

_EVEN = 0.03


@dataclass(frozen=True)
class Cell:
    """Harmonia with one tokenizer: its value, how it compares with the rival's, and what that means."""

    value: float | None
    ratio: float | None
    verdict: Verdict


@dataclass(frozen=True)
class Line:
    """A row with its numbers. `rival` is None where the rival failed, and `rival_failed` says how."""

    row: Row
    rival: float | None
    rival_failed: str | None
    core: Cell
    fast: Cell


def make_lines(rows: tuple[Row, ...], results: Results) -> list[Line]:
    """The lines of these rows."""
    lines: list[Line] = []
    for row in rows:
        by_rival = results[row.case]
        rival = by_rival.get(row.against, Result())
        lines.append(
            Line(
                row,
                rival.value(row.quantity),
                rival.failed,
                *(_cell(row, name, results) for name in row.ours),
            )
        )
    return lines


def _cell(row: Row, name: str, results: Results) -> Cell:
    result = results[row.case].get(name)
    ours = None if result is None else result.value(row.quantity)
    if ours is None:
        return Cell(None, None, "")
    if row.measure == "growth":
        assert row.compared_with is not None
        smaller = results[row.compared_with][name].value(row.quantity)
        growth = ours / smaller if smaller else None
        return Cell(ours, growth, "" if growth is None else judge(row, growth))
    rival = results[row.case].get(row.against, Result()).value(row.quantity)
    if not rival:
        return Cell(ours, None, "")
    ratio = ours / rival if row.measure == "share" else rival / ours
    return Cell(ours, ratio, judge(row, ratio))


def judge(row: Row, ratio: float) -> Verdict:
    """What a ratio means for the row."""

    def reaches(mark: float) -> bool:
        return ratio >= mark if row.measure == "faster" else ratio <= mark

    if row.must is not None:
        if not reaches(row.must):
            return "MISSED"
        return "aim" if row.aim is not None and reaches(row.aim) else "reached"
    if row.measure == "growth":  # it is compared with no rival
        return ""
    if abs(ratio - 1) <= _EVEN:
        return "even"
    return "better" if reaches(1) else "LOSES"
