"""The guides for engines, as tests follow them: the commands of a page, with other addresses, and its Python."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openai import OpenAI

from tests.run.engines.real.lessons import GREETING, WEATHER_QUESTION
from tests.support.commands import environment_of
from tests.support.paths import ROOT
from tests.support.servers.served import WEATHER
from tests.support.watchdog import WATCHDOG_S

MODEL = "gpt-oss-20b"  # as the pages call it
CHAT_TOOL: Any = {"type": "function", "function": {name: WEATHER[name] for name in WEATHER if name != "type"}}
GUIDES = ROOT / "docs" / "guides"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Guide:
    """What a page tells its reader to type."""

    commands: tuple[str, ...]
    python: str

    def find(self, *words: str) -> list[str]:
        """The commands that begin like this; there is at least one."""
        start = " ".join(words)
        found = [command for command in self.commands if command.startswith(start)]
        assert found, f"no command begins with {start!r}"
        return found

    @property
    def serve(self) -> list[str]:
        """The options of the first `harmonia serve` that names an engine."""
        return shlex.split(self.find("harmonia serve --engine")[0])[2:]


def read_guide(name: str, addresses: Mapping[str, str]) -> Guide:
    """A page, each address in it replaced by another."""
    text = (GUIDES / name).read_text()
    for address, other in addresses.items():
        assert address in text, f"{address} is not in {name}"
        text = text.replace(address, other)
    blocks = _BLOCK.findall(text)
    lines = "".join(block for language, block in blocks if language == "sh").replace("\\\n", "").splitlines()
    return Guide(
        tuple(line for line in lines if line), "".join(code for language, code in blocks if language == "python")
    )


def run_shell(command: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        env=environment_of(folder, **variables),
        timeout=WATCHDOG_S,
    )


def run_python(code: str, folder: Path) -> list[str]:
    """The lines that it prints."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment_of(folder, PYTHONUTF8="1"),
        timeout=WATCHDOG_S,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def verdicts_of(ran: subprocess.CompletedProcess[str]) -> dict[str, list[str]]:
    """The names of what `harmonia doctor` and `harmonia check` looked at, by their verdicts."""
    found: dict[str, list[str]] = {}
    for line in ran.stdout.splitlines():
        if not line.startswith(" "):
            verdict, name, *_ = line.split()
            found.setdefault(verdict, []).append(name)
    assert found, ran.stderr
    return found


def only_json(ran: subprocess.CompletedProcess[str]) -> Any:
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def client_of(url: str) -> OpenAI:
    """A client of the server there, which asks once."""
    return OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def ask(client: OpenAI, **body: Any) -> Any:
    """A response, as JSON; to the greeting unless told otherwise. With `stream`, an iterator of events."""
    create: Any = client.responses.create
    answer = create(**{"model": MODEL, "input": GREETING, "temperature": 0.0, **body})
    return answer if body.get("stream") else answer.to_dict()


def ask_chat(client: OpenAI, question: str = WEATHER_QUESTION, **body: Any) -> Any:
    """The only choice of an answer, as JSON. With `stream`, an iterator of chunks."""
    create: Any = client.chat.completions.create
    messages = [{"role": "user", "content": question}]
    answer = create(**{"model": MODEL, "messages": messages, "temperature": 0.0, **body})
    return answer if body.get("stream") else answer.to_dict()["choices"][0]
