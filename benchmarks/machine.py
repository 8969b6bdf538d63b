"""The machine and the versions, without which a number says nothing."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("harmonia", "openai-harmony", "tiktoken", "gigatoken", "numpy", "msgspec", "pydantic")


def describe_machine() -> dict[str, str]:
    """Processor, memory, system and Python."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "load": "unknown" if load is None else f"{load:.1f} when the run began",
    }


def installed_versions(packages: Sequence[str] = _PACKAGES) -> dict[str, str]:
    """The versions of all packages that take part."""
    found: dict[str, str] = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown processor"


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (AttributeError, ValueError, OSError):
        return "unknown"
