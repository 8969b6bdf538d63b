"""`harmonia keys`: what is made, printed, listed and removed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from harmonia.cli import main
from harmonia.serve.security.keys import ApiKeys, default_seal_keys, read_seal_keys
from harmonia.serve.security.sealed_content import Seals

VERBS = ["new", "list", "remove", "seals", "rotate", "retire"]


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("HARMONIA_API_KEY_FILE", "HARMONIA_SEAL_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["keys", *map(str, arguments)])


def told(*arguments: str | Path) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert (result.exit_code, result.stderr, result.stdout.count("\n")) == (0, "", 1), result.output
    return json.loads(result.stdout)


def refused(*arguments: str | Path) -> str:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: ") and "[serve.invalid_option]" in result.stderr
    return result.stderr


def test_a_new_key_is_printed_alone_and_lets_its_owner_in(file: Path) -> None:
    result = run("new", "alice", "--file", file)
    assert result.exit_code == 0
    (key,) = result.stdout.splitlines()
    assert ApiKeys(file).find(key) == "alice"
    assert key not in file.read_text() and key not in result.stderr


def test_names_are_listed_and_removed(file: Path) -> None:
    made = told("new", "alice", "--file", file)
    assert made == {"name": "alice", "key": made["key"], "file": str(file)}
    with file.open("a") as more:
        more.write("bob bob-secret-0123456789\n")
    assert [line.split()[0] for line in run("list", "--file", file).stdout.splitlines()] == ["alice", "bob"]
    listed = told("list", "--file", file)["keys"]
    assert listed == [
        {"name": "alice", "line": 1, "is_hashed": True},
        {"name": "bob", "line": 2, "is_hashed": False},
    ]
    assert "bob-secret" not in run("list", "--file", file).output
    assert told("remove", "alice", "--file", file) == {"name": "alice", "file": str(file)}
    assert run("remove", "bob", "--file", file).exit_code == 0
    result = run("list", "--file", file)
    assert (result.exit_code, result.stdout) == (0, "") and result.stderr


def test_the_file_may_come_from_the_environment(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("new", "alice").exit_code == 2
    monkeypatch.setenv("HARMONIA_API_KEY_FILE", str(file))
    assert run("new", "alice").exit_code == 0
    assert told("list")["keys"][0]["name"] == "alice"
    monkeypatch.setenv("HARMONIA_SEAL_KEY_FILE", str(file.with_name("seal-keys")))
    assert told("rotate")["id"] == read_seal_keys(file.with_name("seal-keys"))[0].id


def test_what_cannot_be_done_is_one_error(file: Path) -> None:
    assert run("new", "alice", "--file", file).exit_code == 0
    refused("new", "alice", "--file", file)
    refused("new", "a b", "--file", file)
    refused("remove", "bob", "--file", file)
    refused("list", "--file", file.with_name("missing"))
    refused("seals", "--file", file.with_name("missing"))
    refused("retire", "0123abcd", "--file", file.with_name("missing"))
    refused("seals", "--file", file)
    refused("rotate", "--file", file)
    file.chmod(0o644)
    assert f"chmod 600 {file}" in refused("list", "--file", file)


def test_sealing_keys_are_rotated_listed_and_retired(tmp_path: Path) -> None:
    seals = Seals(default_seal_keys(), check_every_s=0)
    assert seals.path == tmp_path / "state" / "harmonia" / "seal-keys.json"
    old = seals.seal(b"thoughts", owner="alice", model="m")
    result = run("rotate")
    assert result.exit_code == 0
    (new_id,) = result.stdout.splitlines()
    assert seals.seal(b"", owner="alice", model="m").startswith(f"hs2.{new_id}.")
    assert seals.open(old, owner="alice", model="m") == b"thoughts"
    old_id = old[4:12]
    assert [line.split()[0] for line in run("seals").stdout.splitlines()] == [old_id, new_id]
    assert [(key["id"], key["seals"]) for key in told("seals")["keys"]] == [(old_id, False), (new_id, True)]
    refused("retire", new_id)
    assert told("retire", old_id)["id"] == old_id
    refused("retire", old_id)
    assert [key.id for key in read_seal_keys(seals.path)] == [new_id]
    for key in read_seal_keys(seals.path):
        assert key.secret.hex() not in run("seals").output


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_and_json(verb: str) -> None:
    result = run(verb, "--help")
    assert result.exit_code == 0 and "--json" in result.stdout and "--file" in result.stdout
    assert verb in run("--help").stdout


def test_the_real_command_needs_no_cryptography(file: Path) -> None:
    # What makes keys runs where no server is installed.
    code = (
        "import sys; sys.modules['cryptography'] = None; sys.modules['starlette'] = None\n"
        "from harmonia.cli import main; main()"
    )
    for arguments in (["new", "alice", "--file", str(file)], ["rotate"], ["seals"]):
        ran = subprocess.run(
            [sys.executable, "-c", code, "keys", *arguments], capture_output=True, text=True, env=dict(os.environ)
        )
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.strip()
