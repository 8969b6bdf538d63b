"""Where a server keeps what it was given no place for: in the user's state folder."""

from __future__ import annotations

from pathlib import Path

from harmonia.run.state_folder import state_folder
from harmonia.serve.seal_keys import default_path
from harmonia.serve.settings import Settings


def store_address(settings: Settings) -> str:
    """The address of the store: `sqlite:///PATH`."""
    return settings.store or f"sqlite:///{state_folder() / 'responses.sqlite3'}"


def seal_key_path(settings: Settings) -> Path:
    """The file with the keys that seal reasoning."""
    return Path(settings.seal_key_file) if settings.seal_key_file else default_path()
