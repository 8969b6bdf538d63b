"""How long a test waits for what must happen: against a hang. Nothing is measured by it."""

from __future__ import annotations

from typing import Final

WATCHDOG_S: Final = 120.0
