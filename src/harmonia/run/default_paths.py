"""Default paths of the files that outlive a process, for everything the user did not configure.

By hand, because the core needs the profiles: platformdirs would be a fourth dependency of it, for two lines.
"""

from __future__ import annotations

import os
from pathlib import Path


def state_folder() -> Path:
    """The XDG state folder of Harmonia. It is created for its owner only if it does not exist."""
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "harmonia"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def chats_folder() -> Path:
    """The chats of the terminal."""
    return state_folder() / "chats"


def questions_file() -> Path:
    """The questions that were typed in the terminal."""
    return state_folder() / "questions"


def pins_file() -> Path:
    """The tools of MCP servers that the user agreed to."""
    return state_folder() / "mcp-pins.json"


def seal_keys_file() -> Path:
    """The keys with which a server seals reasoning."""
    return state_folder() / "seal-keys.json"


def store_file() -> Path:
    """The store of a server."""
    return state_folder() / "responses.sqlite3"


def profiles_file() -> Path:
    """The user's own profiles of models, in the XDG configuration folder."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "harmonia" / "profiles.toml"
