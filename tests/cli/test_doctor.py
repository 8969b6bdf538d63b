"""`harmonia doctor`: each thing that can be wrong with a set-up, made wrong for real."""

from __future__ import annotations

import asyncio
import json
import socket
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any

import pytest

from harmonia.serve.config.sources import Flag, load_settings
from harmonia.serve.doctor import Finding, Verdict, examine, examine_server
from harmonia.vocabulary import encode
from tests.support.commands import run_harmonia
from tests.support.engines.engine_protocols import OLLAMA, VLLM, Protocol
from tests.support.servers.server_processes import async_server_process, server_process
from tests.support.servers.wire_servers import Asked, Wire, serving, unused_port
from tests.support.watchdog import WATCHDOG_S

SECRET = "sk-SECRET-3141592653"
SAMPLED = encode("<|channel|>analysis<|message|>Hello", special="all")


async def collect(flags: Mapping[str, object], folder: Path, **variables: str) -> list[Finding]:
    """What is found of a set-up, whose files are in a folder unless told otherwise."""
    usual: dict[str, object] = {
        "engine": "demo",
        "port": 0,
        "store": f"sqlite:///{folder / 'store.db'}",
        "seal_key_file": str(folder / "seals.json"),
    }
    given = {name: Flag(f"--{name}", value) for name, value in {**usual, **flags}.items()}
    found: list[Finding] = []
    async with aclosing(examine(lambda: load_settings(given, environment=variables), timeout_s=WATCHDOG_S)) as findings:
        async for finding in findings:
            found.append(finding)
    return found


def examined(flags: Mapping[str, object], folder: Path, **variables: str) -> list[Finding]:
    return asyncio.run(collect(flags, folder, **variables))


def worst(found: list[Finding], name: str) -> Verdict:
    """The worst verdict on something. What is not ok says what to do about it."""
    order: tuple[Verdict, ...] = ("skip", "ok", "warn", "fail")
    assert all(each.advice or each.verdict in ("ok", "skip") or each.name == "engine" for each in found)
    return order[max(order.index(each.verdict) for each in found if each.name == name)]


def failed(found: list[Finding]) -> set[str]:
    return {each.name for each in found if each.verdict == "fail"}


def test_without_llguidance_it_says_what_is_not_held_or_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert worst(examined({}, tmp_path), "extra grammar") == "ok"
    monkeypatch.setitem(sys.modules, "llguidance", None)
    found = examined({}, tmp_path)
    assert worst(found, "extra grammar") == "warn"
    assert "harmonia[grammar]" in next(each.advice for each in found if each.name == "extra grammar")


# ── as a person calls it ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_good_set_up_exits_with_0_and_changes_nothing(tmp_path: Path) -> None:
    ran = run_harmonia("doctor", "--engine", "demo", "--port", "0", folder=tmp_path)
    assert ran.returncode == 0, ran.stdout
    assert {line.split()[0] for line in ran.stdout.splitlines()} == {"ok", "skip"}
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_fault_exits_with_1_and_json_says_which(tmp_path: Path) -> None:
    engine = f"http://127.0.0.1:{unused_port()}"
    ran = run_harmonia("doctor", "--engine", engine, "--port", "0", "--json", folder=tmp_path)
    assert (ran.returncode, ran.stderr) == (1, "")
    report = json.loads(ran.stdout)
    assert report["ok"] is False
    (engine_finding,) = [each for each in report["findings"] if each["verdict"] == "fail"]
    assert engine_finding["name"] == "engine" and engine_finding["seen"] and engine_finding["advice"]


def test_a_server_that_runs_is_looked_at(tmp_path: Path) -> None:
    with server_process(folder=tmp_path) as server:
        ran = run_harmonia("doctor", "--server", f"{server.url}/v1/", folder=tmp_path)
        same_port = run_harmonia(
            "doctor", "--engine", "demo", "--port", server.url.rpartition(":")[2], "--json", folder=tmp_path
        )
    assert ran.returncode == 0, ran.stdout
    assert [line.split()[:2] for line in ran.stdout.splitlines()] == [
        ["ok", name] for name in ("health", "ready", "models", "stream")
    ]
    verdicts = {each["name"]: each["verdict"] for each in json.loads(same_port.stdout)["findings"]}
    assert (verdicts["port"], same_port.returncode) == ("fail", 1)  # as `serve` would end there


def test_a_server_with_keys_wants_one_and_does_not_repeat_it(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    key = run_harmonia("keys", "new", "alice", "--file", str(keys), folder=tmp_path).stdout.strip()
    with server_process("--api-key-file", str(keys), folder=tmp_path) as server:
        arguments = ("doctor", "--server", server.url, "--json")
        without = run_harmonia(*arguments, folder=tmp_path)
        wrong = run_harmonia(*arguments, folder=tmp_path, HARMONIA_API_KEY=SECRET)
        right = run_harmonia(*arguments, folder=tmp_path, HARMONIA_API_KEY=key)
        port = server.url.rpartition(":")[2]
        same_port = run_harmonia("doctor", "--engine", "demo", "--port", port, "--json", folder=tmp_path)
    assert (without.returncode, wrong.returncode, right.returncode) == (1, 1, 0)
    assert {each["name"] for each in json.loads(without.stdout)["findings"] if each["verdict"] == "fail"} == {"models"}
    assert SECRET not in wrong.stdout + wrong.stderr and key not in right.stdout + right.stderr
    # /health says who it is to everybody.
    (health,) = [each for each in json.loads(without.stdout)["findings"] if each["name"] == "health"]
    assert "Harmonia" in health["seen"]
    (taken,) = [each for each in json.loads(same_port.stdout)["findings"] if each["verdict"] == "fail"]
    assert taken["name"] == "port" and f"doctor --server {server.url}" in taken["advice"]


@pytest.mark.parametrize("dialect", ["openai", "open-responses"])
def test_an_answer_that_failed_is_told_with_its_code(tmp_path: Path, dialect: str) -> None:
    async def run() -> list[Finding]:
        async def sample_nothing(asked: Asked, wire: Wire) -> None:
            if asked.path in VLLM_PAGES:
                await wire.answer(200, VLLM_PAGES[asked.path])
            else:
                await wire.answer(500 if asked.path == VLLM.path else 404, {"error": "out of memory"})

        async with (
            serving(sample_nothing) as engine,
            async_server_process("--engine", engine.url, "--dialect", dialect, folder=tmp_path) as server,
        ):
            return [finding async for finding in examine_server(server.url)]

    (failing,) = [each for each in asyncio.run(run()) if each.verdict == "fail"]
    assert failing.name == "stream" and failing.seen.rpartition(": ")[2] in {"engine_error", "engine_refused"}


@pytest.mark.parametrize(
    ("url", "name"), [("http://127.0.0.1:{}", "health"), ("127.0.0.1:{}", "health"), ("ftp://x:{}", "server")]
)
def test_nobody_there_is_one_finding(url: str, name: str) -> None:
    async def run() -> list[Finding]:
        return [finding async for finding in examine_server(url.format(unused_port()))]

    (finding,) = asyncio.run(run())
    assert (finding.name, finding.verdict) == (name, "fail") and finding.advice


def test_what_is_no_harmonia_is_told_so() -> None:
    async def run() -> list[Finding]:
        async def handle(asked: Asked, wire: Wire) -> None:
            await wire.answer(404, {"error": "no"})

        async with serving(handle) as served:
            return [finding async for finding in examine_server(served.url)]

    found = asyncio.run(run())
    assert worst(found, "server") == "warn" and failed(found) == {"health", "ready", "models"}


# ── settings and files ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_good_set_up_has_no_fault(tmp_path: Path) -> None:
    found = examined({}, tmp_path)
    assert {each.verdict for each in found} == {"ok", "skip"}
    assert {"python", "packages", "vocabulary", "settings", "store", "clock", "port", "engine"} <= {
        each.name for each in found
    }


def test_settings_that_are_wrong_are_the_only_fault_and_the_rest_is_skipped(tmp_path: Path) -> None:
    found = examined({"host": "0.0.0.0"}, tmp_path)
    assert failed(found) == {"settings"}
    assert "--insecure" in next(each.advice for each in found if each.name == "settings")
    assert failed(examined({}, tmp_path, HARMONIA_CONFIG=str(tmp_path / "missing"))) == {"settings"}


def test_a_slip_in_a_variable_is_a_warning(tmp_path: Path) -> None:
    assert worst(examined({}, tmp_path, HARMONIA_PROT="1"), "settings") == "warn"


def test_the_file_of_settings_is_nobody_elses_where_it_has_a_key(tmp_path: Path) -> None:
    config = tmp_path / "h.toml"
    config.write_text(f'engine_api_key = "{SECRET}"\n')
    config.chmod(0o644)
    found = examined({}, tmp_path, HARMONIA_CONFIG=str(config))
    assert worst(found, "config") == "warn" and SECRET not in repr(found)
    config.chmod(0o600)
    assert worst(examined({}, tmp_path, HARMONIA_CONFIG=str(config)), "config") == "ok"


def _store_in_a_file(folder: Path) -> str:
    (folder / "file").write_text("")
    return str(folder / "file" / "store.db")


def _store_of_another_kind(folder: Path) -> str:
    (folder / "other").write_text("These are my notes, and no database.")
    return str(folder / "other")


def _store_that_is_a_folder(folder: Path) -> str:
    return str(folder)


def _store_where_nothing_can_be_made(folder: Path) -> str:
    # Its mode says that root may write there, and the system says no.
    return "/proc/nope/store.db" if Path("/proc/self").exists() else _store_in_a_file(folder)


@pytest.mark.parametrize(
    "place", [_store_in_a_file, _store_of_another_kind, _store_that_is_a_folder, _store_where_nothing_can_be_made]
)
def test_a_store_that_cannot_be_used_fails(tmp_path: Path, place: Any) -> None:
    assert failed(examined({"store": f"sqlite:///{place(tmp_path)}"}, tmp_path)) == {"store"}


def test_a_store_and_keys_that_are_to_be_made_are_tried_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    places = {
        "store": f"sqlite:///{tmp_path / 'here' / 'a' / 'b' / 'store.db'}",
        "seal_key_file": str(tmp_path / "there" / "seals.json"),
    }
    found = examined(places, tmp_path)
    assert (worst(found, "store"), worst(found, "seal keys")) == ("ok", "ok")
    assert list(tmp_path.rglob("*")) == [tmp_path / "here"]


def test_a_store_that_another_program_is_writing_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("CREATE TABLE t (id INTEGER)")
        path.chmod(0o600)
        other.execute("BEGIN IMMEDIATE")
        assert worst(examined({}, tmp_path), "store") == "warn"


def test_a_store_that_a_server_made_is_good_and_one_that_others_read_is_not(tmp_path: Path) -> None:
    path = tmp_path / "made.db"
    with server_process("--store", f"sqlite:///{path}", folder=tmp_path) as server:
        assert worst(examined({"store": f"sqlite:///{path}"}, tmp_path), "store") == "ok"
        server.stop()
    assert worst(examined({"store": f"sqlite:///{path}"}, tmp_path), "store") == "ok"
    path.chmod(0o644)
    assert worst(examined({"store": f"sqlite:///{path}"}, tmp_path), "store") == "warn"
    assert worst(examined({"store": "sqlite://:memory:"}, tmp_path), "store") == "warn"


@pytest.mark.parametrize(("content", "mode"), [("alice sk-1234567890123456\n", 0o644), ("", 0o600), ("short\n", 0o600)])
def test_api_keys_that_are_open_missing_or_wrong_fail(tmp_path: Path, content: str, mode: int) -> None:
    path = tmp_path / "keys"
    path.write_text(content)
    path.chmod(mode)
    found = examined({"api_key_file": str(path)}, tmp_path)
    assert failed(found) == {"api keys"} and "sk-1234567890123456" not in repr(found)
    assert failed(examined({"api_key_file": str(tmp_path / "none")}, tmp_path)) == {"api keys"}


def test_no_keys_where_others_reach_it_is_a_warning(tmp_path: Path) -> None:
    assert worst(examined({"host": "0.0.0.0", "insecure": True}, tmp_path), "api keys") == "warn"


def test_sealing_keys_that_are_damaged_fail_and_those_of_tomorrow_are_doubted(tmp_path: Path) -> None:
    path = tmp_path / "seals.json"
    path.write_text("{}")
    path.chmod(0o600)
    assert failed(examined({}, tmp_path)) == {"seal keys"}
    path.unlink()
    run_harmonia("keys", "rotate", "--file", str(path), folder=tmp_path)
    found = examined({}, tmp_path)
    assert (worst(found, "seal keys"), worst(found, "clock")) == ("ok", "ok")
    file = json.loads(path.read_text())
    file["keys"][0]["created"] = "2999-01-01T00:00:00Z"
    path.write_text(json.dumps(file))
    assert worst(examined({}, tmp_path), "clock") == "warn"


def test_a_state_folder_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = run_harmonia("doctor", "--engine", "demo", "--port", "0", "--json", folder=tmp_path / "file")
    verdicts = {each["name"]: each["verdict"] for each in json.loads(ran.stdout)["findings"]}
    assert ran.returncode == 1 and verdicts["store"] == "fail" and verdicts["engine"] == "ok"


@pytest.mark.parametrize(
    ("content", "verdict"),
    [
        (None, "fail"),
        ("{", "fail"),
        ('{"mcpServers": {"a": {}}}', "fail"),
        ('{"mcpServers": {"a": {"command": "no-such-program-here"}}}', "warn"),
        ('{"mcpServers": {"a": {"command": "sh"}, "b": {"url": "http://127.0.0.1:1"}}}', "ok"),
    ],
)
def test_the_file_of_mcp_servers_is_read(tmp_path: Path, content: str | None, verdict: str) -> None:
    path = tmp_path / "mcp.json"
    if content is not None:
        path.write_text(content)
    assert worst(examined({"mcp": str(path)}, tmp_path), "mcp") == verdict


def test_a_port_that_another_program_has_fails(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:  # it takes what comes, and says nothing
        found = examined({"port": other.getsockname()[1]}, tmp_path)
    assert failed(found) == {"port"}


def test_an_address_of_another_machine_fails(tmp_path: Path) -> None:
    assert failed(examined({"host": "192.0.2.1", "insecure": True}, tmp_path)) == {"port"}


# ── the engine ──────────────────────────────────────────────────────────────────────────────────────────────────────

VLLM_PAGES: dict[str, object] = {
    "/v1/models": {"data": [{"id": "gpt-oss-20b", "owned_by": "vllm"}, {"id": "llama", "owned_by": "vllm"}]},
    "/version": {"version": "0.11.0"},
}
OLLAMA_PAGES: dict[str, object] = {
    "/v1/models": {"data": [{"id": "gpt-oss:20b", "owned_by": "library"}]},
    "/api/tags": {"models": [{"name": "gpt-oss:20b", "details": {"family": "gptoss"}}]},
}


def examined_with(
    folder: Path, protocol: Protocol, pages: Mapping[str, object], tokens: list[int], **flags: object
) -> list[Finding]:
    """What is found of an engine that has these pages and samples these tokens."""

    async def handle(asked: Asked, wire: Wire) -> None:
        if asked.path != protocol.path:
            await wire.answer(200 if asked.path in pages else 404, pages.get(asked.path, {"error": "not found"}))
            return
        if not tokens:
            await wire.answer(500, {"error": "out of memory"})
            return
        await wire.begin(protocol.content_type)
        for message in (*protocol.say(tokens), *protocol.finish(len(tokens))):
            await wire.chunk(protocol.frame(message))
        await wire.end()

    async def run() -> list[Finding]:
        async with serving(handle) as served:
            return await collect({"engine": served.url, **flags}, folder)

    return asyncio.run(run())


def test_an_engine_that_speaks_tokens_in_harmony_is_good(tmp_path: Path) -> None:
    found = examined_with(tmp_path, VLLM, VLLM_PAGES, SAMPLED)
    assert (worst(found, "engine"), worst(found, "tokens")) == ("ok", "ok")


def test_a_model_that_is_no_gpt_oss_is_told_by_its_name_and_by_its_words(tmp_path: Path) -> None:
    found = examined_with(tmp_path, VLLM, VLLM_PAGES, encode("Hello there"), model="llama")
    assert (worst(found, "engine"), worst(found, "tokens")) == ("warn", "warn")


def test_an_engine_that_speaks_text_is_warned_about(tmp_path: Path) -> None:
    found = examined_with(tmp_path, OLLAMA, OLLAMA_PAGES, SAMPLED)
    assert (worst(found, "engine"), worst(found, "tokens")) == ("warn", "ok")
    stripped = examined_with(tmp_path, OLLAMA, OLLAMA_PAGES, encode("analysisHello"))
    assert worst(stripped, "tokens") == "warn"


def test_an_engine_that_cannot_sample_fails(tmp_path: Path) -> None:
    assert failed(examined_with(tmp_path, VLLM, VLLM_PAGES, [])) == {"tokens"}


def test_a_folder_for_transformers_is_read_and_not_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    engine = {"engine": f"transformers:{folder}"}
    assert worst(examined(engine, tmp_path), "engine") == "warn"  # it may be a name that is downloaded
    folder.mkdir()
    assert worst(examined(engine, tmp_path), "engine") == "fail"
    (folder / "config.json").write_text('{"model_type": "llama"}')
    assert worst(examined(engine, tmp_path), "engine") == "fail"
    (folder / "config.json").write_text('{"model_type": "gpt_oss"}')
    assert worst(examined(engine, tmp_path), "engine") == "ok"
