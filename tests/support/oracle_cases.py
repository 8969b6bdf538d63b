"""How many cases were compared with an oracle. Tests count; conftest.py prints the counts at the end of a run."""

from __future__ import annotations

from collections import Counter

CASES: Counter[str] = Counter()


def compared(what: str, cases: int = 1) -> None:
    """Count cases that were compared and found equal."""
    CASES[what] += cases
