"""Rounds: in each, every rival has its turn. The order changes from round to round, so that none is always first.

The rounds of a case are spread over several passes through all cases, with new processes each time. So a minute in
which the machine was busy spoils a part of every row, not the whole of one, and the best round is found elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.agreement import Digests, Disagreement, agree_on_case, agree_on_start
from benchmarks.cases import Case, Quantity, Start
from benchmarks.processes import Worker, start_fresh


@dataclass
class Result:
    """What a rival did in a case: for each quantity a value per round, or how it failed."""

    rounds: dict[Quantity, list[float]] = field(default_factory=dict[Quantity, list[float]])
    failed: str | None = None

    def value(self, quantity: Quantity) -> float | None:
        """The best round of a time; the median round of memory."""
        values = self.rounds.get(quantity)
        if not values:
            return None
        return median(values) if quantity == "resident_bytes" else min(values)


PASSES = 3

Results = dict[str, dict[str, Result]]  # by case, then by rival


class Measurement:
    """Agreement on all cases first, then the times of all cases."""

    def __init__(
        self,
        rivals: list[str],
        open_worker: Callable[[str], Worker],
        variables: dict[str, str],
        *,
        quick: bool,
    ) -> None:
        self._rivals = rivals
        self._open_worker = open_worker
        self._variables = variables
        self._quick = quick

    def run(self, starts: list[Start], cases: list[Case]) -> Results:
        """Raises Disagreement before anything was timed."""
        results: Results = {}
        agreed: dict[str, Digests] = {}
        for start in starts:
            say(f"comparing tokens: {start.name}")
            agree_on_start(start, {name: self._start(name, start) for name in self._taking_part(start)})
        workers: dict[str, Worker] = {}
        try:
            for case in cases:
                say(f"comparing results: {case.name}")
                names = self._taking_part(case)
                workers |= {name: self._open_worker(name) for name in names if name not in workers}
                agreed[case.name], failed = agree_on_case(
                    case, {name: workers[name] for name in names}, quick=self._quick
                )
                results[case.name] = {name: Result(failed=reason) for name, reason in failed.items()}
        finally:
            for worker in workers.values():
                worker.close()

        results |= {start.name: {name: Result() for name in self._taking_part(start)} for start in starts}
        for case in cases:
            names = [name for name in self._taking_part(case) if name not in results[case.name]]
            results[case.name] |= {name: Result() for name in names}
        passes = 1 if self._quick else PASSES
        for pass_ in range(passes):
            for start in starts:
                say(f"timing, pass {pass_ + 1} of {passes}: {start.name}")
                rounds = range(start.rounds_for(quick=self._quick))[pass_::passes]
                self._time_start(start, rounds, results[start.name])
            for case in cases:
                say(f"timing, pass {pass_ + 1} of {passes}: {case.name}")
                rounds = range(case.rounds_for(quick=self._quick))[pass_::passes]
                self._time_case(case, rounds, results[case.name], agreed[case.name])
        return results

    def _taking_part(self, case: Case | Start) -> list[str]:
        return [name for name in case.rivals if name in self._rivals]

    def _start(self, name: str, start: Start) -> dict[str, Any]:
        return start_fresh(name, start, self._variables)

    def _time_start(self, start: Start, rounds: range, results: dict[str, Result]) -> None:
        quantities: list[Quantity] = ["process_seconds"] if start.bare else ["seconds", "resident_bytes"]
        for round_ in rounds:
            for name in _in_turn(list(results), round_):
                answer = self._start(name, start)
                for quantity in quantities:
                    results[name].rounds.setdefault(quantity, []).append(answer[quantity])

    def _time_case(self, case: Case, rounds: range, results: dict[str, Result], agreed: Digests) -> None:
        names = [name for name, result in results.items() if result.failed is None]
        workers: dict[str, Worker] = {}
        try:
            for round_ in rounds:
                for name in _in_turn(names, round_):
                    if name not in workers:
                        workers[name] = self._open_worker(name)
                    answer = workers[name].ask({"case": case.name, "round": round_, "quick": self._quick})
                    if answer.get("digests") != agreed[round_]:
                        raise Disagreement(f"{case.name}: {name} gave another result when it was timed")
                    results[name].rounds.setdefault("seconds", []).append(median(answer["seconds"]))
                    if case.fresh:
                        workers.pop(name).close()
        finally:
            for worker in workers.values():
                worker.close()


def _in_turn(names: list[str], round_: int) -> list[str]:
    shift = round_ % len(names) if names else 0
    return names[shift:] + names[:shift]


def say(talk: str) -> None:
    """Progress, for the person who waits."""
    print(talk, file=sys.stderr, flush=True)
