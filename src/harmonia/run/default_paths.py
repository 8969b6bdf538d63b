"""Where Harmonia keeps what outlives a process: chats, pins, the server's store and its sealing keys."""

from __future__ import annotations

import os
from pathlib import Path


def state_folder() -> Path:
    """The XDG state folder. Made for its owner only, if it is not there."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(state) / "harmonia"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder
