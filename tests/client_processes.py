"""Where the clients are that `make test-clients` installs, and the environment that they run in."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from serving_process import environment

CLIENTS = Path(__file__).parent / "clients"
JAVASCRIPT = CLIENTS / "javascript"
# Nothing listens there.
_NOWHERE = "http://127.0.0.1:9"


def offline(folder: Path, **more: str) -> dict[str, str]:
    """An environment from which only this machine is reached, so that a client that needs more fails."""
    return environment(
        folder,
        HTTP_PROXY=_NOWHERE,
        HTTPS_PROXY=_NOWHERE,
        ALL_PROXY=_NOWHERE,
        NO_PROXY="127.0.0.1,localhost",
        LITELLM_LOCAL_MODEL_COST_MAP="True",  # otherwise it tries for seconds to fetch a table of prices
        **more,
    )


def node() -> str:
    """The program that runs JavaScript; without it, or without the packages, the test is skipped."""
    found = shutil.which("node")
    if found is None or not (JAVASCRIPT / "node_modules").exists():
        pytest.skip("no node, or no packages for it; make test-clients installs them")
    return found


def codex() -> Path:
    """The Codex CLI."""
    node()
    program = JAVASCRIPT / "node_modules" / ".bin" / "codex"
    if not program.exists():
        pytest.skip("Codex is not installed; make test-clients does it")
    return program
