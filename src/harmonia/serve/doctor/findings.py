"""The results of checks.

ok    correct
warn  the server will start, but something could be better
fail  the server will not start, or will not work
skip  nothing to check, or an earlier check failed
"""

from __future__ import annotations

from typing import Literal

import msgspec

from harmonia.errors import HarmonyError

Verdict = Literal["ok", "warn", "fail", "skip"]


class Finding(msgspec.Struct, frozen=True):
    """The result of one check: its name, what was found, and what to do about it."""

    name: str
    verdict: Verdict
    seen: str
    advice: str = ""


def failure(name: str, error: HarmonyError, advice: str = "") -> Finding:
    """The finding for an error; the error's own notes are preferred to `advice`."""
    return Finding(name, "fail", error.message, "; ".join(getattr(error, "__notes__", ())) or advice)
