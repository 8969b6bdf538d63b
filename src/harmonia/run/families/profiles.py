"""The user's own model profiles, from a file: one that is named, or the one in the user's configuration folder.

$XDG_CONFIG_HOME/harmonia/profiles.toml        (XDG_CONFIG_HOME is ~/.config where it is not set)
"""

from __future__ import annotations

import os
from pathlib import Path

from harmonia.errors import ErrorCode, InputError
from harmonia.families.profiles import ModelProfile, read_profiles


def user_profiles(file: str | os.PathLike[str] | None = None) -> tuple[ModelProfile, ...]:
    """The profiles of the file; without one, those of the configuration folder, if there are any.

    A file that was named has to be there. What is wrong in either is `formats.invalid_profile`, with the file's name.
    """
    path = default_profiles_file() if file is None else Path(file)
    if file is None and not path.exists():
        return ()
    try:
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise _invalid(f"the file of profiles {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _invalid(f"the file of profiles {path} is not UTF-8 at byte {error.start}") from None
    try:
        return read_profiles(text)
    except InputError as error:
        raise InputError(error.code, f"{path}: {error.message}", error.at) from None


def default_profiles_file() -> Path:
    """Where a user's profiles are looked for."""
    configuration = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(configuration) / "harmonia" / "profiles.toml"


def _invalid(message: str) -> InputError:
    return InputError(ErrorCode.FORMATS_INVALID_PROFILE, message)
