"""What a check found, as values.

ok    it is as it should be
warn  the server will start, and something is worse than it could be
fail  the server will not start, or not work
skip  there was nothing to look at, or what it builds on is broken
"""

from __future__ import annotations

from typing import Literal

import msgspec

from harmonia.errors import HarmonyError

Verdict = Literal["ok", "warn", "fail", "skip"]


class Finding(msgspec.Struct, frozen=True):
    """One check: its name, what was found, and what to do about it where there is something to do."""

    name: str
    verdict: Verdict
    seen: str
    advice: str = ""


def failure(name: str, error: HarmonyError, advice: str = "") -> Finding:
    """What an error says; its own notes are better advice than anybody else's."""
    return Finding(name, "fail", error.message, "; ".join(getattr(error, "__notes__", ())) or advice)
