"""The rows of the report: what is measured, what it must reach, and what a number means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# events    token events in a second                more is better
# requests  whole requests in a second              more is better
# seconds   until the first event                   less is better
# bytes     resident memory of one stream           less is better
# cpu       processor seconds for a million tokens  less is better
Quantity = Literal["events", "requests", "seconds", "bytes", "cpu"]
# share   ours over that of the prepared application
# budget  ours over twice that of the prepared application plus the render
# value   ours itself
Measure = Literal["share", "budget", "value"]


@dataclass(frozen=True)
class Row:
    """A line of the report. `must` is a least for what is counted by the second, and a most for everything else."""

    name: str
    title: str
    case: str
    quantity: Quantity
    measure: Measure = "share"
    must: float | None = None

    @property
    def more_is_better(self) -> bool:
        return self.quantity in ("events", "requests")


LEAST_SHARE = 1 / 4
MOST_BYTES = 100_000
STREAMS = 100

_NAMES = {"responses": "Responses", "chat": "Chat Completions"}


def _promised(api: str) -> tuple[Row, ...]:
    name = _NAMES[api]
    flow, first, burst, memory = f"{api}-flow", f"{api}-first", f"{api}-burst", f"{api}-memory"
    return (
        Row(f"{api}-events", f"{name}: token events per second", flow, "events", must=LEAST_SHARE),
        Row(first, f"{name}: first event of one more stream, {STREAMS} running", first, "seconds", "budget", 1),
        Row(f"{first}-99", f"{name}: the same, 99th percentile", first, "seconds", "budget", 1),
        Row(burst, f"{name}: first event of {STREAMS} streams at once, median", burst, "seconds", "budget", 1),
        Row(f"{burst}-99", f"{name}: the same, 99th percentile", burst, "seconds", "budget", 1),
        Row(memory, f"{name}: memory of an idle stream", memory, "bytes", "value", MOST_BYTES),
    )


def _told(api: str) -> tuple[Row, ...]:
    name = _NAMES[api]
    return (
        Row(f"{api}-cpu", f"{name}: processor seconds per million tokens", f"{api}-flow", "cpu"),
        Row(f"{api}-render", f"{name}: the render of that prompt alone", f"{api}-first", "seconds", "value"),
    )


ROWS: tuple[Row, ...] = (
    *_promised("responses"),
    *_promised("chat"),
    *_told("responses"),
    *_told("chat"),
    Row("responses-requests", "Responses: requests per second, not stored", "responses-requests", "requests"),
    Row("responses-stored", "Responses: requests per second, stored", "responses-stored", "requests"),
    Row("chat-requests", "Chat Completions: requests per second", "chat-requests", "requests"),
)


def select(only: list[str]) -> tuple[Row, ...]:
    """The rows of these names, or all; a name also selects the rows that it begins."""
    for name in only:
        if not any(row.name.startswith(name) for row in ROWS):
            raise KeyError(f"there is no row {name!r}; there are {', '.join(row.name for row in ROWS)}")
    return tuple(row for row in ROWS if not only or any(row.name.startswith(name) for name in only))
