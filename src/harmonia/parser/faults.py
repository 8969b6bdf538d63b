"""The table of faults: what can be wrong with a stream, what a strict parser raises, how a tolerant one recovers.

The parser refers to a fault by its code; everything else about the fault is in faults.json, from which
docs/reference/faults.md is generated. (JSON, because that takes 0.1 ms of every import, and TOML 1.6.)
Examples are input with special tokens spelled out; those marked as completions start after the prompt's
`<|start|>assistant`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from harmonia.errors import ErrorCode
from harmonia.provenance import Trust

# raises   a strict parser raises StreamError with this code
# reports  well-formed but worth knowing: both modes report it and continue
StrictDoes = Literal["raises", "reports"]


class Fault(msgspec.Struct, frozen=True):
    """One kind of damage. `trust` is the highest trust that a message with this fault can have."""

    code: ErrorCode
    found: str
    tolerant: str
    example: str = ""
    trust: Trust = Trust.CERTAIN
    strict: StrictDoes = "raises"
    completion: bool = False
    shown_by: str = ""  # a description of the input, where no example text can show it
    hint: str = ""  # the usual cause, and what helps
    meaning: str = ""  # an explanation in one or two sentences


def _fault(row: dict[str, Any]) -> Fault:
    return Fault(ErrorCode(row.pop("code")), trust=Trust[row.pop("trust")], **row)


_ROWS: Final[list[dict[str, Any]]] = msgspec.json.decode(Path(__file__).with_name("faults.json").read_bytes())

# Every fault that a diagnostic can report, whatever the model; and those of models that speak Harmony, and of others.
# The readers in harmonia/families find the latter.
ALL_FAULTS: Final = {fault.code: fault for fault in map(_fault, _ROWS)}
FAULTS: Final = {code: fault for code, fault in ALL_FAULTS.items() if not code.startswith("family.")}
FAMILY_FAULTS: Final = {code: fault for code, fault in ALL_FAULTS.items() if code.startswith("family.")}
