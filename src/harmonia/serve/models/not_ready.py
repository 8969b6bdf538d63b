"""Why a server is not ready, in the words of `/ready`."""

from __future__ import annotations

from typing import Final

NO_ENGINE: Final = "there is no engine"
ENGINE_AWAY: Final = "the engine cannot be reached"
STORE_FAILED: Final = "the store cannot be written"
STOPPING: Final = "the server is about to stop"
REASONS: Final = (NO_ENGINE, ENGINE_AWAY, STORE_FAILED, STOPPING)
