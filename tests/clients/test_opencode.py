"""opencode, a coding agent, against the server: it runs a command that the model asks for, over either API.

It has no structured answers, and streams everything.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.client_processes import offline, opencode
from tests.support.servers.server_processes import ServerProcess, server_process
from tests.support.watchdog import WATCHDOG_S

pytestmark = pytest.mark.clients


def configuration(server: ServerProcess, package: str) -> dict[str, Any]:
    provider = {
        "npm": package,
        "name": "Harmonia",
        "options": {"baseURL": server.base_url, "apiKey": "none"},
        "models": {"demo": {"name": "demo", "tool_call": True}},
    }
    return {
        "autoupdate": False,
        "share": "disabled",
        "enabled_providers": ["harmonia"],
        "small_model": "harmonia/demo",  # names the sessions
        "provider": {"harmonia": provider},
        "permission": "allow",
    }


def run_opencode(server: ServerProcess, folder: Path, package: str, prompt: str, *flags: str) -> list[dict[str, Any]]:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    (work / "opencode.json").write_text(json.dumps(configuration(server, package)))
    homes = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "CACHE", "STATE")}
    ended = subprocess.run(
        [str(opencode()), "run", "--format", "json", "-m", "harmonia/demo", *flags, prompt],
        cwd=work,
        # It looks for its work in PWD.
        env=offline(folder, PWD=str(work), OPENCODE_DISABLE_MODELS_FETCH="1", **homes),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WATCHDOG_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    events = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    assert not [event for event in events if event["type"] == "error"], events
    return events


def texts(events: list[dict[str, Any]]) -> str:
    return "".join(event["part"]["text"] for event in events if event["type"] == "text")


@pytest.mark.parametrize("package", ["@ai-sdk/openai-compatible", "@ai-sdk/openai"], ids=["chat", "responses"])
def test_a_command_is_run_and_the_conversation_continued(package: str, tmp_path: Path) -> None:
    with server_process(folder=tmp_path) as server:
        first = run_opencode(server, tmp_path, package, "use bash for `echo $((6 * 7)) apples | tee apples.txt`")
        second = run_opencode(server, tmp_path, package, "Thanks!", "--continue")
    (used,) = (event["part"] for event in first if event["type"] == "tool_use")
    assert (used["tool"], used["state"]["status"], used["state"]["output"].strip()) == (
        "bash",
        "completed",
        "42 apples",
    )
    assert (tmp_path / "work" / "apples.txt").read_text() == "42 apples\n"
    assert "functions.bash answered: 42 apples" in texts(first)
    assert "Thanks!" in texts(second)
    route = "chat/completions" if package.endswith("compatible") else "responses"
    assert any(f"route=/v1/{route} status=200" in line for line in server.said)
