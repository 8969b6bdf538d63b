"""`harmonia serve` as a person calls it: real processes, and what they print is tried."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from harmonia.cli import main
from harmonia.serve.config.sources import SETTINGS
from tests.support.commands import Command, environment_of, run_harmonia
from tests.support.paths import ROOT
from tests.support.servers.server_processes import server_process
from tests.support.servers.wire_servers import Asked, Wire, serving, unused_port
from tests.support.watchdog import WATCHDOG_S

EXAMPLE = ROOT / "examples" / "harmonia.toml"

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")


def run_line(line: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        text=True,
        env=environment_of(folder, **variables),
        timeout=WATCHDOG_S,
    )


@needs_curl
def test_the_line_for_curl_works_as_it_is_printed(tmp_path: Path) -> None:
    with server_process(folder=tmp_path) as server:
        ran = run_line(server.line_with("curl "), tmp_path)
        assert server.stop() == 0
    assert json.loads(ran.stdout)["status"] == "completed"


def test_the_line_for_python_works_as_it_is_printed(tmp_path: Path) -> None:
    pytest.importorskip("openai")
    with server_process("--model", 'it\'s "gpt-oss" $HOME', folder=tmp_path) as server:
        ran = run_line(server.line_with(" -c "), tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "") and "Hello!" in ran.stdout


@needs_curl
def test_with_keys_the_lines_take_the_key_from_the_variable(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    key = run_harmonia("keys", "new", "alice", "--file", str(keys), folder=tmp_path).stdout.strip()
    with server_process("--api-key-file", str(keys), folder=tmp_path) as server:
        assert key not in "".join(server.said)
        with_key = run_line(server.line_with("curl "), tmp_path, HARMONIA_API_KEY=key)
        without = run_line(server.line_with("curl "), tmp_path)
        python = run_line(server.line_with(" -c "), tmp_path, HARMONIA_API_KEY=key)
    assert json.loads(with_key.stdout)["status"] == "completed"
    assert json.loads(without.stdout)["error"]["code"] == "invalid_api_key"
    assert python.returncode == 0, python.stderr


def test_it_says_where_it_listens_what_it_serves_and_why(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'mine.db'}"
    with server_process("--analysis", "shown", "--alias", "gpt-5", "--store", store, folder=tmp_path) as server:
        said = "".join(server.said)
    assert server.url.startswith("http://127.0.0.1:")
    for fact in ("chosen by the setting engine", "gpt-5", store, "shown", f"{server.url}/docs"):
        assert fact in said
    assert (tmp_path / "mine.db").exists()


def test_for_programs_it_says_the_same_in_lines_of_json_only(tmp_path: Path) -> None:
    arguments = ["serve", "--port", "0", "--engine", "demo", "--log-format", "json"]
    with Command(arguments, environment_of(tmp_path, HARMONIA_PROT="1")) as process:
        assert process.stderr is not None
        first = json.loads(process.stderr.readline())
        process.send_signal(signal.SIGTERM)
        others = [json.loads(line) for line in process.stderr]
    assert (first["event"], first["level"], first["model"]) == ("listening", "info", "demo")
    assert first["url"].startswith("http://127.0.0.1:") and first["docs"] == f"{first['url']}/docs"
    assert {"version", "time", "engine", "store", "reasoning", "keys"} <= set(first)
    assert any("HARMONIA_PROT" in note for note in first["notes"])
    assert others[-1]["event"] == "stopped"


def test_where_the_sdk_is_not_installed_the_line_for_python_says_how_to_get_it(tmp_path: Path) -> None:
    hide = (
        "import importlib.util as util\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, package=None: None if name == 'openai' else find(name, package)\n"
    )
    with server_process(folder=tmp_path, first=hide) as server:
        assert "pip install openai" in server.line_with("Try it")
        assert server.line_with(" -c ").startswith("python3 -c ")


def test_a_store_that_cannot_be_opened_is_named_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "store.db"
    arguments = ("serve", "--port", "0", "--engine", "demo", "--store", f"sqlite:///{path}")
    ran = run_harmonia(*arguments, folder=tmp_path)
    assert ran.returncode == 1 and str(path) in ran.stderr and "[store.unavailable]" in ran.stderr


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
def test_make_serve_installs_nothing_that_only_tests_need() -> None:
    ran = subprocess.run(
        ["make", "-C", str(ROOT), "--dry-run", "--always-make", "serve"], capture_output=True, text=True, check=True
    )
    assert "'.[server,mcp]'" in ran.stdout and "--group" not in ran.stdout


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_stops_it_cleanly(tmp_path: Path, number: int, code: int) -> None:
    with server_process(folder=tmp_path) as server:
        assert server.stop(number) == code


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_stops_it_while_it_still_waits_for_its_engine(tmp_path: Path, number: int, code: int) -> None:
    async def run() -> int:
        is_asked = asyncio.Event()

        async def hang(_asked: Asked, wire: Wire) -> None:
            is_asked.set()
            await wire.wait_for_reader_to_leave()

        async with serving(hang) as engine:
            arguments = ["serve", "--port", "0", "--engine", engine.url]
            with Command(arguments, environment_of(tmp_path), stderr=subprocess.DEVNULL) as process:
                await asyncio.wait_for(is_asked.wait(), WATCHDOG_S)
                process.send_signal(number)
                return await asyncio.to_thread(process.wait)

    assert asyncio.run(run()) == code


def test_a_port_that_is_taken_is_refused_with_who_has_it(tmp_path: Path) -> None:
    with server_process(folder=tmp_path) as server:
        port = server.url.rpartition(":")[2]
        ran = run_harmonia("serve", "--port", port, "--engine", "demo", folder=tmp_path)
    assert ran.returncode == 1
    assert "Harmonia" in ran.stderr and "[serve.invalid_option]" in ran.stderr and "hint: " in ran.stderr


def test_an_engine_that_was_named_and_is_not_there_exits_with_4(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{unused_port()}"
    assert run_harmonia("serve", "--port", "0", "--engine", url, folder=tmp_path).returncode == 4


def test_other_addresses_need_keys_or_a_word(tmp_path: Path) -> None:
    ran = run_harmonia("serve", "--port", "0", "--engine", "demo", "--host", "0.0.0.0", folder=tmp_path)
    assert ran.returncode == 1 and "--insecure" in ran.stderr and "--api-key-file" in ran.stderr
    with server_process("--host", "0.0.0.0", "--insecure", folder=tmp_path) as server:
        assert server.url.startswith("http://0.0.0.0:")
        assert "http://127.0.0.1:" in server.line_with("curl ")
        assert "--allow-host" in server.line_with("note: ")
    with server_process("--host", "0.0.0.0", "--insecure", "--allow-host", "a.example", folder=tmp_path) as server:
        assert not any("--allow-host" in line for line in server.said)


def test_wrong_usage_exits_with_2_and_a_wrong_limit_with_1(tmp_path: Path) -> None:
    for arguments in (("--port", "x"), ("--analysis", "maybe"), ("--json",), ("extra",), ("--nonsense",)):
        assert run_harmonia("serve", *arguments, folder=tmp_path).returncode == 2
    ran = run_harmonia("serve", "--limit", "depht", "3", folder=tmp_path)
    assert ran.returncode == 1 and "limits.depth" in ran.stderr


def test_the_settings_are_printed_with_their_sources_and_can_be_read_again(tmp_path: Path) -> None:
    arguments = ("--config", str(EXAMPLE), "--limit", "depth", "7", "-o", "delay_s", "0.5", "--allow-host", "a")
    result = CliRunner(env={"HARMONIA_SEAL_DAYS": "3"}).invoke(main, ["serve", "--print-config", *arguments])
    assert (result.exit_code, result.stderr) == (0, "")
    printed = tomllib.loads(result.stdout)
    assert (printed["limits"]["depth"], printed["engine_options"], printed["hosts"]) == (7, {"delay_s": 0.5}, ["a"])
    assert (printed["seal_days"], printed["limits"]["concurrent"]) == (3.0, 64)
    path = tmp_path / "again.toml"
    path.write_text(result.stdout)
    again = CliRunner().invoke(main, ["serve", "--print-config", "--config", str(path)])
    assert tomllib.loads(again.stdout) == printed


def test_a_slip_in_a_variable_is_noted_beside_the_printed_settings() -> None:
    result = CliRunner(env={"HARMONIA_PROT": "1"}).invoke(main, ["serve", "--print-config"])
    assert "HARMONIA_PROT" in result.stderr and "HARMONIA_PROT" not in result.stdout


def test_the_settings_are_printed_as_json() -> None:
    result = CliRunner().invoke(main, ["serve", "--print-config", "--json", "--log-content", "--port", "7"])
    described = {each["name"]: each for each in json.loads(result.stdout)}
    assert set(described) == set(SETTINGS)
    assert (described["port"]["value"], described["port"]["source"]) == (7, "--port")
    assert (described["log_content"]["value"], described["log_content"]["source"]) == (True, "--log-content")


def test_a_flag_that_says_no_wins_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "h.toml"
    path.write_text("insecure = true\nlog_content = true\nallow_client_mcp = true\n")
    flags = ["--secure", "--no-log-content", "--no-client-mcp"]
    result = CliRunner().invoke(main, ["serve", "--print-config", "--config", str(path), *flags])
    printed = tomllib.loads(result.stdout)
    assert not (printed["insecure"] or printed["log_content"] or printed["allow_client_mcp"])


def test_a_missing_library_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "harmonia.serve.server", raising=False)
    result = CliRunner().invoke(main, ["serve", "--engine", "demo", "--port", "0"])
    assert result.exit_code == 1
    assert "pip install 'harmonia[server]'" in result.stderr and "[serve.missing_extra]" in result.stderr


@pytest.mark.parametrize(
    "url",
    [
        "vlm:http://ann:hushed@127.0.0.1:1",
        "http//ann:hushed@127.0.0.1:1",
        "http://ann:hush/ed@127.0.0.1:1",
        "responses:http://ann:hushed@127.0.0.1:1",
        "chat:http://ann:hush/ed@127.0.0.1:1",
        "htp://ann:hushed@127.0.0.1:1",
        "vllm:ann:hushed@127.0.0.1:1",
        "http://ann:hushed@127.0.0.1:1?key=hushed",
    ],
)
def test_no_command_prints_the_password_of_a_url(url: str, tmp_path: Path) -> None:
    for verb in (
        ("serve", "--port", "0", "--engine", url),
        ("serve", "--print-config", "--engine", url),
        ("doctor", "--engine", url),
        ("doctor", "--server", url),
        ("chat", "Hi", "--model", "m", "--engine", url),
        ("record", "Hi", "--model", "m", "--engine", url, "-o", str(tmp_path / "capture.jsonl")),
        ("check", url, "--model", "m"),
    ):
        result = CliRunner().invoke(main, verb, env={"XDG_STATE_HOME": str(tmp_path)})
        assert result.output, verb
        assert "hush" not in result.output, (verb, result.output)
