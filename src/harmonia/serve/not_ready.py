"""Why a server is not ready, in the words of `/ready`."""

from __future__ import annotations

from typing import Final

NO_ENGINE: Final = "engine"
ENGINE_AWAY: Final = "the engine cannot be reached"
STORE_FAILED: Final = "store"
STOPPING: Final = "stopping"
REASONS: Final = (NO_ENGINE, ENGINE_AWAY, STORE_FAILED, STOPPING)
