"""The report: a table for the terminal, the same for the documentation, and every round as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from statistics import median

from benchmarks.server.cases import Sample
from benchmarks.server.rows import Row
from benchmarks.tables import align

BEGIN = "<!-- results: written by `python -m benchmarks.server --markdown`, do not edit -->"

_HEADINGS = ("what", "prepared", "ours", "ratio", "must", "verdict")

Rounds = dict[str, list[Sample]]  # by row


@dataclass(frozen=True)
class Line:
    """A row with its numbers: medians of the rounds, and the median of what each round compares to."""

    row: Row
    prepared: float | None
    ours: float
    ratio: float | None

    @property
    def verdict(self) -> str:
        row = self.row
        if row.must is None:
            return ""
        found = self.ours if row.measure == "value" else self.ratio
        assert found is not None
        return "reached" if (found >= row.must if row.more_is_better else found <= row.must) else "MISSED"


def make_line(row: Row, samples: list[Sample]) -> Line:
    prepared = [sample.prepared for sample in samples if sample.prepared is not None]
    compared = [
        sample.ours / base
        for sample in samples
        if (base := sample.budget if row.measure == "budget" else sample.prepared) is not None and base > 0
    ]
    return Line(
        row,
        median(prepared) if prepared else None,
        median(sample.ours for sample in samples),
        median(compared) if compared else None,
    )


@dataclass(frozen=True)
class Report:
    """A whole run."""

    rows: tuple[Row, ...]
    rounds: Rounds
    machine: dict[str, str]
    versions: dict[str, str]
    is_pinned: bool
    quick: bool

    @property
    def lines(self) -> list[Line]:
        return [make_line(row, self.rounds[row.name]) for row in self.rows]

    def as_text(self) -> str:
        """For the terminal: aligned columns."""
        return "\n".join([*align([_HEADINGS, *(_cells(line) for line in self.lines)]), "", *self._notes(), ""])

    def as_markdown(self) -> str:
        """For the documentation."""
        table = ["| " + " | ".join(_HEADINGS) + " |", "|---" + "|---:" * (len(_HEADINGS) - 2) + "|---|"]
        table += ["| " + " | ".join(_cells(line)) + " |" for line in self.lines]
        return "\n".join([*table, "", *(f"{note}\n" for note in self._notes())])

    def as_json(self) -> str:
        """Everything, each round included."""
        return json.dumps(
            {
                "machine": self.machine,
                "versions": self.versions,
                "pinned": self.is_pinned,
                "quick": self.quick,
                "rows": [
                    {
                        "name": line.row.name,
                        "title": line.row.title,
                        "measure": line.row.measure,
                        "quantity": line.row.quantity,
                        "must": line.row.must,
                        "prepared": line.prepared,
                        "ours": line.ours,
                        "ratio": line.ratio,
                        "verdict": line.verdict,
                        "rounds": [sample._asdict() for sample in self.rounds[line.row.name]],
                    }
                    for line in self.lines
                ],
            },
            indent=2,
        )

    def _notes(self) -> list[str]:
        machine = self.machine
        run = "A quick run: too few rounds to be quoted. " if self.quick else ""
        missed = [line.row.title for line in self.lines if line.verdict == "MISSED"]
        where = "client and server each on a core of its own" if self.is_pinned else "client and server share the cores"
        return [
            f"{run}Numbers are medians of the rounds. 'prepared' is the same uvicorn sending the same events from "
            "memory. The ratio is that of ours to the prepared application's, in the rows of the first event that of "
            "ours to twice the prepared application's plus the render, both taken within a round.",
            f"Machine: {machine['processor']}, {machine['memory']}, {machine['system']}, {machine['python']}, "
            f"load {machine['load']}; {where}.",
            "Versions: " + ", ".join(f"{name} {found}" for name, found in self.versions.items()) + ".",
            "Events and bytes were the same from both, before and while they were timed.",
            "Where Harmonia misses its mark: " + ("; ".join(missed) or "nowhere in this run") + ".",
        ]


def _cells(line: Line) -> tuple[str, ...]:
    row = line.row
    return (
        row.title,
        "–" if line.prepared is None else _value(row, line.prepared),
        _value(row, line.ours),
        "–" if line.ratio is None else f"{line.ratio:.2f}",
        _mark(row),
        line.verdict,
    )


def _value(row: Row, value: float) -> str:
    match row.quantity:
        case "events" | "requests":
            return f"{value:,.0f}/s"
        case "seconds":
            return f"{value * 1e3:.2f} ms" if value < 0.01 else f"{value * 1e3:.1f} ms"
        case "bytes":
            return f"{value / 1000:.1f} kB"
        case "cpu":
            return f"{value:.1f} s"


def _mark(row: Row) -> str:
    if row.must is None:
        return ""
    sign = "≥" if row.more_is_better else "≤"
    return f"{sign} {_value(row, row.must) if row.measure == 'value' else f'{row.must:g}'}"
