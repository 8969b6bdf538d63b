"""Makes the drop-in importable as `openai_harmony`, for programs that import the original.

Three ways, from the smallest change to none: change the import; call `harmonia.install_as_openai_harmony()` before the
program imports anything; install the shim distribution (shims/openai_harmony), which provides the import name.

The shim and the original install into the same folder: the one installed last is imported, and uninstalling one breaks
the other. `python -m harmonia.openai_harmony` reports what `import openai_harmony` gives, and what to do.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from types import ModuleType
from typing import Final

from harmonia.errors import ErrorCode, InputError

NAME: Final = "openai_harmony"
_DROP_IN: Final = "harmonia.openai_harmony"
_ORIGINAL: Final = "openai-harmony"
_SHIM: Final = "harmonia-openai-harmony"


def install_as_openai_harmony() -> ModuleType:
    """Make `import openai_harmony` give the drop-in from now on, and return it. Calling this twice is harmless. Modules
    that already imported the original would keep a part of it, so that is an error."""
    drop_in = import_module(_DROP_IN)
    found = sys.modules.get(NAME)
    if found is not None and found is not drop_in:
        raise InputError(
            ErrorCode.ALIAS_TOO_LATE,
            f"openai_harmony was already imported from {getattr(found, '__file__', 'an unknown file')}; "
            "call install_as_openai_harmony before anything imports it",
        )
    sys.modules[NAME] = drop_in
    return drop_in


def become_openai_harmony() -> None:
    """Called by the shim when it is imported."""
    problem = explain_both()
    if problem is not None:
        warnings.warn(problem, RuntimeWarning, stacklevel=3)
    sys.modules[NAME] = import_module(_DROP_IN)


def explain_both() -> str | None:
    """The problem of having both the original and the shim, if both are installed."""
    original, shim = _version(_ORIGINAL), _version(_SHIM)
    if original is None or shim is None:
        return None
    return (
        f"Both {_ORIGINAL} {original} and {_SHIM} {shim} are installed. They provide the same module, so the one that "
        "was installed last is imported, and uninstalling one removes files of the other. Keep one: "
        f"pip uninstall -y {_ORIGINAL} {_SHIM}, and then install the one you want."
    )


def explain_import() -> tuple[bool, str]:
    """Whether `import openai_harmony` gives the drop-in, and an explanation."""
    installed = [name for name in (_ORIGINAL, _SHIM) if _version(name) is not None]
    try:
        module = import_module(NAME)
        is_empty = not hasattr(module, "HarmonyEncoding")
    except ModuleNotFoundError:
        module, is_empty = None, True
    if is_empty and installed:
        names = " ".join(installed)
        return False, (
            f"{' and '.join(installed)}: installed, but files are missing, because uninstalling one of the two removed "
            f"files of the other. Install what you want again: pip uninstall -y {names}, and then pip install it."
        )
    if module is None or is_empty:
        return False, "There is no module openai_harmony: neither the original nor the shim is installed."
    is_ours = module is sys.modules.get(_DROP_IN)
    original = f"{_ORIGINAL} {_version(_ORIGINAL) or 'of an unknown version'}"
    what = "Harmonia's drop-in" if is_ours else f"the original, {original}, from {module.__file__}"
    problem = explain_both()
    return is_ours and problem is None, f"import openai_harmony gives {what}." + (f"\n{problem}" if problem else "")


def _version(distribution: str) -> str | None:
    from importlib import metadata  # slow to import, and `import harmonia` imports this module

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
