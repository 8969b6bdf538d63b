"""Where the clients are that `make test-clients` installs, and the environment that they run in."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import environment_of
from tests.support.paths import ROOT
from tests.support.servers.server_processes import ServerProcess
from tests.support.watchdog import WATCHDOG_S

CLIENTS = ROOT / "tests" / "clients"
JAVASCRIPT = CLIENTS / "javascript"
# Nothing listens there.
_NOWHERE = "http://127.0.0.1:9"


def offline(folder: Path, **more: str) -> dict[str, str]:
    """An environment from which only this machine is reached, so that a client that needs more fails."""
    return environment_of(
        folder,
        HOME=str(folder),
        HTTP_PROXY=_NOWHERE,
        HTTPS_PROXY=_NOWHERE,
        ALL_PROXY=_NOWHERE,
        NO_PROXY="127.0.0.1,localhost",
        LITELLM_LOCAL_MODEL_COST_MAP="True",  # otherwise it tries for seconds to fetch a table of prices
        **more,
    )


def run_program(server: ServerProcess, folder: Path, *command: str | Path) -> Any:
    """Run a client's program to its end: the JSON of the last line that it printed. The server must not have reported
    an error."""
    ended = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=offline(folder, BASE_URL=server.base_url),
        capture_output=True,
        text=True,
        timeout=WATCHDOG_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert not [line for line in server.said if " ERROR " in line]
    return json.loads(ended.stdout.splitlines()[-1])


def programs_of(name: str) -> Path:
    """Where the programs of an environment of clients.toml are; without it the test is skipped."""
    folder = Path(sys.prefix) / "clients" / name / "bin"
    if not folder.exists():
        pytest.skip(f"the environment {name} does not exist; make test-clients makes it")
    return folder


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


def opencode() -> Path:
    """opencode's program for this machine. npm installs several builds of it; any of them runs."""
    node()
    found = sorted((JAVASCRIPT / "node_modules").glob("opencode-*/bin/opencode"))
    if not found:
        pytest.skip("opencode is not installed; make test-clients does it")
    return found[0]
