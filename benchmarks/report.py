"""The report: a table for the terminal, the same for the documentation, and everything as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.cases import Row
from benchmarks.lines import Cell, Line
from benchmarks.measure import Results
from benchmarks.tables import align

BEGIN = "<!-- results: written by `python -m benchmarks --markdown`, do not edit -->"
END = "<!-- end of results -->"

_HEADINGS = ("what", "rival", "core", "ratio", "[fast]", "ratio", "must", "aim", "verdict: core, [fast]")


@dataclass(frozen=True)
class Report:
    """A whole run."""

    lines: list[Line]
    results: Results
    machine: dict[str, str]
    versions: dict[str, str]
    quick: bool

    def as_text(self) -> str:
        """For the terminal: aligned columns."""
        return "\n".join([*align([_HEADINGS, *(_cells(line) for line in self.lines)]), "", *self._notes(), ""])

    def as_markdown(self) -> str:
        """For the documentation."""
        table = ["| " + " | ".join(_HEADINGS) + " |", "|---" + "|---:" * (len(_HEADINGS) - 2) + "|---|"]
        table += ["| " + " | ".join(cell.strip() for cell in _cells(line)) + " |" for line in self.lines]
        return "\n".join([*table, "", *(f"{note}\n" for note in self._notes() if note)])

    def as_json(self) -> str:
        """Everything, each round included."""
        return json.dumps(
            {
                "machine": self.machine,
                "versions": self.versions,
                "quick": self.quick,
                "rows": [_line_to_dict(line) for line in self.lines],
                "rounds": {
                    case: {name: {**result.rounds, "failed": result.failed} for name, result in rivals.items()}
                    for case, rivals in self.results.items()
                },
            },
            indent=2,
        )

    def as_summary(self) -> str:
        """What was promised, without times: for a page that has little room."""
        lines = [line for line in self.lines if line.row.must is not None]
        return "\n".join(
            (
                "| what | must reach | plain install | with `[fast]` |",
                "|---|---:|---:|---:|",
                *(
                    f"| {line.row.title} | {_mark(line.row, line.row.must)} "
                    f"| {_ratio(line.row, line.core)} | {_ratio(line.row, line.fast)} |"
                    for line in lines
                ),
            )
        )

    def _notes(self) -> list[str]:
        machine, versions = self.machine, self.versions
        run = "A quick run: too few rounds to be quoted. " if self.quick else ""
        return [
            f"{run}Times are the best of the rounds, memory the median. The rival is openai-harmony, "
            "in the rows that begin with 'encode' tiktoken. 'core' is Harmonia as `pip install harmonia` gives it, "
            "'[fast]' with the extra of that name. "
            "In the rows that begin with 'drop-in', both are `harmonia.openai_harmony`: the rival's program with one "
            "import changed. "
            "5× means five times faster; '0.6 of' means 0.6 of the rival's time or memory.",
            f"Machine: {machine['processor']}, {machine['memory']}, {machine['system']}, {machine['python']}, "
            f"load {machine['load']}.",
            "Versions: " + ", ".join(f"{name} {found}" for name, found in versions.items()) + ".",
            "Tokens, messages and deltas were equal for every input before anything was timed.",
            *[
                f"{line.row.title.strip()}: the rival fails ({line.rival_failed})."
                for line in self.lines
                if line.rival_failed
            ],
            "",
            "Where Harmonia loses or misses its mark: " + ("; ".join(self.losses()) or "nowhere in this run") + ".",
        ]

    def losses(self) -> list[str]:
        """Each row and tokenizer that is worse than the rival or than what was promised."""
        return [
            f"{line.row.title.strip()} ({name}: {_ratio(line.row, cell)}, {cell.verdict})"
            for line in self.lines
            for name, cell in (("core", line.core), ("[fast]", line.fast))
            if cell.verdict in ("MISSED", "LOSES")
        ]


def write_between_markers(path: Path, content: str, begins: str = BEGIN) -> None:
    """Replace what stands between the two markers of the file, and nothing else."""
    page = path.read_text(encoding="utf-8")
    before, begin, rest = page.partition(begins)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} has no place for the results: it needs the lines {begins!r} and {END!r}")
    path.write_text(f"{before}{begin}\n\n{content.strip()}\n\n{end}{after}", encoding="utf-8")


def _cells(line: Line) -> tuple[str, ...]:
    row = line.row
    verdicts = [cell.verdict for cell in (line.core, line.fast) if cell.verdict]
    return (
        row.title,
        "fails" if line.rival_failed else _value(row, line.rival),
        _value(row, line.core.value),
        _ratio(row, line.core),
        _value(row, line.fast.value),
        _ratio(row, line.fast),
        _mark(row, row.must),
        _mark(row, row.aim),
        verdicts[0] if len(set(verdicts)) == 1 else ", ".join(verdicts),
    )


def _value(row: Row, value: float | None) -> str:
    if value is None:
        return "–"
    if row.quantity == "resident_bytes":
        return f"{value / 1e6:.1f} MB"
    shown = _seconds(value)
    return shown if row.size_bytes is None else f"{row.size_bytes / value / 1e6:.1f} MB/s"


def _seconds(value: float) -> str:
    scaled, unit = (value, "s") if value >= 1 else (value * 1e3, "ms") if value >= 1e-3 else (value * 1e6, "µs")
    return f"{scaled:.{0 if scaled >= 100 else 1 if scaled >= 10 else 2}f} {unit}"


def _ratio(row: Row, cell: Cell) -> str:
    if cell.ratio is None:
        return "–"
    if row.measure == "share":
        return f"{cell.ratio:.2f} of"
    digits = 0 if cell.ratio >= 100 else 1 if cell.ratio >= 10 else 2
    return f"{cell.ratio:.{digits}f}" + ("" if row.measure == "growth" else "×")


def _mark(row: Row, mark: float | None) -> str:
    if mark is None:
        return ""
    return {"faster": f"{mark:.0f}×", "share": f"{mark:.2g} of", "growth": f"≤ {mark:g}"}[row.measure]


def _line_to_dict(line: Line) -> dict[str, Any]:
    row = line.row
    return {
        "name": row.name,
        "title": row.title.strip(),
        "measure": row.measure,
        "quantity": row.quantity,
        "must": row.must,
        "aim": row.aim,
        "rival": {"name": row.against, "value": line.rival, "failed": line.rival_failed},
        "core": vars(line.core),
        "fast": vars(line.fast),
    }
