"""Servers in front of the demo engine, for real clients: one as it comes, one that shows its reasoning, and one that
asks for a key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from tests.support.commands import run_harmonia
from tests.support.servers.server_processes import ServerProcess, server_process


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(folder=tmp_path_factory.mktemp("server")) as started:
        yield started


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[OpenAI]:
    """The SDK wants a key in any case; a server without keys does not look at it."""
    with OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as opened:
        yield opened


@pytest.fixture(scope="module")
def open_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    """A client of a server that shows its reasoning."""
    with (
        server_process("--analysis", "shown", folder=tmp_path_factory.mktemp("shown")) as started,
        OpenAI(base_url=started.base_url, api_key="none", max_retries=0) as opened,
    ):
        yield opened


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A file of keys, and the key of each name in it, as the project's own command makes them."""
    file = tmp_path_factory.mktemp("keys") / "api-keys"

    def make(name: str) -> str:
        made = run_harmonia("keys", "new", name, "--file", str(file), folder=file.parent)
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()

    return file, {name: make(name) for name in ("alice", "bob")}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, keys: tuple[Path, dict[str, str]]) -> Iterator[ServerProcess]:
    with server_process("--api-key-file", str(keys[0]), folder=tmp_path_factory.mktemp("guarded")) as started:
        yield started
