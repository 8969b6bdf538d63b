"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence


def align(table: Sequence[Sequence[str]]) -> list[str]:
    """The rows as lines with aligned columns, the first and the last to the left, and a rule below the headings."""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if column in (0, len(widths) - 1) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
    lines.insert(1, "─" * max(map(len, lines)))
    return lines
