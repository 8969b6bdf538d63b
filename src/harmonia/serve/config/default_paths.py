"""Where a server keeps what it was given no place for: in the user's state folder."""

from __future__ import annotations

from pathlib import Path

from harmonia.run.default_paths import store_file
from harmonia.serve.config.settings import Settings
from harmonia.serve.security.keys import default_path


def store_address(settings: Settings) -> str:
    """The address of the store: `sqlite:///PATH`."""
    return settings.store or f"sqlite:///{store_file()}"


def seal_key_path(settings: Settings) -> Path:
    """The file with the keys that seal reasoning."""
    return Path(settings.seal_key_file) if settings.seal_key_file else default_path()
