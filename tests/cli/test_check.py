"""`harmonia check` as a person calls it: a real process, a real provider."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from harmonia.run.provider_check import NAMES
from tests.support import commands
from tests.support.engines.harmony_provider import provider_in_a_thread
from tests.support.servers.server_processes import server_process
from tests.support.servers.wire_servers import unused_port


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return commands.run(["check", *arguments], os.environ)


def test_a_good_provider_exits_with_0_and_has_a_line_for_each_check() -> None:
    with provider_in_a_thread() as url:
        ran = run(url)
    assert ran.returncode == 0, ran.stderr
    lines = [line.split() for line in ran.stdout.splitlines() if not line.startswith(" ")]
    assert [(words[0], words[1]) for words in lines] == [("ok", name) for name in NAMES]
    assert ran.stderr == f"{len(NAMES)} checks: {len(NAMES)} ok\n"


def test_a_harmonia_server_is_known_as_one(tmp_path: Path) -> None:
    with server_process(folder=tmp_path) as server:
        report = json.loads(run(server.url, "--json", "--only", "chat.answers").stdout)
    assert report["engine"] == "harmonia" and report["ok"] is True


def test_a_fault_exits_with_1_and_json_says_which() -> None:
    with provider_in_a_thread("drops_developer") as url:
        ran = run(url, "--json", "--only", "chat.developer", "--only", "chat.answers")
    assert (ran.returncode, ran.stderr) == (1, "")
    report = json.loads(ran.stdout)
    assert report["ok"] is False
    assert (report["engine"], report["model"], report["url"]) == ("vllm 0.32.0", "gpt-oss-20b", url)
    found = {outcome["name"]: outcome["verdict"] for outcome in report["outcomes"]}
    assert found == {
        "reachable": "ok",
        "engine": "ok",
        "apis": "ok",
        "models": "ok",
        "chat.answers": "ok",
        "chat.developer": "fail",
    }
    assert all(outcome["seen"] and outcome["why"] for outcome in report["outcomes"])


def test_nobody_there_exits_with_4_in_both_forms() -> None:
    url = f"http://127.0.0.1:{unused_port()}"
    for form in ((), ("--json",)):
        assert run(url, *form).returncode == 4


def test_why_says_why() -> None:
    with provider_in_a_thread() as url:
        ran = run(url, "--only", "chat.answers", "--why")
    assert "(every request must name a model)" in ran.stdout


def test_wrong_usage_is_told_apart_from_a_provider_that_fails() -> None:
    assert run().returncode == 2
    assert run("http://127.0.0.1:1", "--kind", "toaster").returncode == 2
    assert run("http://127.0.0.1:1", "--only", "toast").returncode == 1
    assert run("ftp://nowhere").returncode == 1


def test_what_is_skipped_for_one_reason_has_one_line_and_all_lines_in_json() -> None:
    with provider_in_a_thread("has_no_chat") as url:
        ran, told, why = run(url, "--only", "chat"), run(url, "--only", "chat", "--json"), run(url, "--why")
    names = [name for name in NAMES if name.startswith("chat.")]
    lines = [line.split()[:2] for line in ran.stdout.splitlines()]
    assert lines[-2:] == [["skip", "chat.answers"], ["skip", "chat.stop"]] and len(lines) == 4 + 2
    assert f"{len(names) - 1} checks: see chat.answers" in ran.stdout
    assert ran.stderr == f"{4 + len(names)} checks: 4 ok, {len(names)} skip\n"
    assert [outcome["name"] for outcome in json.loads(told.stdout)["outcomes"]][4:] == names
    assert [line.split()[1] for line in why.stdout.splitlines() if not line.startswith(" ")] == list(NAMES)


def test_a_wrong_path_exits_with_1() -> None:
    with provider_in_a_thread() as url:
        ran = run(f"{url}/wrong")
    assert ran.returncode == 1
    assert [line.split()[0] for line in ran.stdout.splitlines()] == ["ok", "unknown", "fail", "warn", "skip"]


@pytest.mark.parametrize("address", ["http://[", "http://[41283]", "http://host:99999", "ftp://host"])
def test_what_is_no_address_is_told_in_a_line(address: str) -> None:
    ran = run(address)
    assert ran.returncode == 1 and len(ran.stderr.splitlines()) == 1
    assert ran.stderr.startswith("error: ") and "[engine.invalid_option]" in ran.stderr


def test_an_address_without_a_scheme_is_one() -> None:
    with provider_in_a_thread() as url:
        ran = run(url.removeprefix("http://"), "--only", "chat.answers")
    assert ran.returncode == 0, ran.stdout
