"""Checks of the installation: Python, the packages, the vocabulary."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Final

from harmonia.errors import HarmonyError
from harmonia.run.engines.grammar_mask import why_unusable
from harmonia.serve.config.settings import Settings
from harmonia.serve.doctor.findings import Finding, failure
from harmonia.vocabulary.ranks import read_shipped

_OLDEST: Final = (3, 11)
_CORE: Final = ("harmonia", "msgspec", "tiktoken", "click")
# The modules of each extra, and optional ones that make it faster.
_SERVER: Final = ("starlette", "uvicorn", "cryptography", "prometheus_client", "httpx2", "jsonschema")
_FASTER: Final = ("httptools", "uvloop")
_MCP: Final = ("mcp",)
_TRANSFORMERS: Final = ("transformers", "torch", "accelerate")
_GRAMMAR: Final = ("llguidance",)


def check_installation() -> Iterator[Finding]:
    """Check what every server needs."""
    found = f"{platform.python_implementation()} {platform.python_version()} on {platform.system()}, {sys.executable}"
    is_new = sys.version_info >= _OLDEST
    yield Finding("python", "ok" if is_new else "fail", found, "" if is_new else "install Python 3.11 or newer")
    yield Finding("packages", "ok", ", ".join(f"{name} {_version_of(name)}" for name in _CORE))
    yield _check_extra("server", _SERVER, _FASTER)
    yield _check_grammar()
    yield _check_vocabulary()


def check_wanted_extras(settings: Settings) -> Iterator[Finding]:
    """Check what these settings need in addition."""
    if settings.mcp is not None or settings.allow_client_mcp:
        yield _check_extra("mcp", _MCP)
    if settings.engine.startswith("transformers:"):
        yield _check_extra("transformers", _TRANSFORMERS)


def _check_extra(extra: str, modules: tuple[str, ...], faster: tuple[str, ...] = ()) -> Finding:
    name = f"extra {extra}"
    missing = [module for module in modules if find_spec(module) is None]
    install = f"pip install 'harmonia[{extra}]', or in a clone pip install '.[{extra}]'"
    if missing:
        return Finding(name, "fail", f"not installed: {', '.join(missing)}", install)
    there = ", ".join(f"{module} {_version_of(module)}" for module in modules)
    slower = [module for module in faster if find_spec(module) is None]
    if slower and sys.platform != "win32":
        return Finding(name, "warn", f"{there}; the server is slower without {', '.join(slower)}", install)
    return Finding(name, "ok", there)


def _check_grammar() -> Finding:
    """A missing grammar extra is a warning: constraints are then validated as far as possible, not enforced."""
    found = _check_extra("grammar", _GRAMMAR)
    if found.verdict == "fail":
        seen = f"{found.seen}; transformers cannot be constrained, and inputs of custom tools are not validated"
        return Finding(found.name, "warn", seen, found.advice)
    wrong = why_unusable()
    return found if wrong is None else Finding(found.name, "warn", wrong, "reinstall it")


def _check_vocabulary() -> Finding:
    try:
        read_shipped()
    except HarmonyError as error:
        return failure("vocabulary", error, "reinstall harmonia")
    return Finding("vocabulary", "ok", "complete; its digest is correct")


def _version_of(module: str) -> str:
    try:
        return version(module.replace("_", "-"))
    except PackageNotFoundError:
        return "(unknown version)"
