"""The Codex CLI, as it is installed from npm, does small real tasks with `harmonia serve` as its only provider.

The model is a replay, so that it says the same each time; the files that Codex then writes, and the commands that it
then runs, are real. Where the answer has to show what the server was told, the demo engine quotes it.
"""

from __future__ import annotations

import base64
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.client_processes import codex, offline
from tests.support.engines.scripted import calls, final, think
from tests.support.paths import ROOT
from tests.support.servers.server_processes import ServerProcess, server_process, write_capture
from tests.support.watchdog import WATCHDOG_S

pytestmark = pytest.mark.clients

PAGE = ROOT / "docs" / "guides" / "codex.md"
# An image of one pixel.
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@dataclass(frozen=True)
class Session:
    """A run of Codex that has ended. `events` are what it reports of itself; `last` is its last message."""

    work: Path
    exit_code: int
    events: list[dict[str, Any]]
    last: str
    stderr: str

    def items(self, kind: str) -> list[dict[str, Any]]:
        """What it did of one kind: commands, changes of files, messages."""
        ended = [event["item"] for event in self.events if event["type"] == "item.completed"]
        return [item for item in ended if item["type"] == kind]


def run_codex(
    server: ServerProcess,
    folder: Path,
    prompt: str,
    *flags: str,
    model: str = "gpt-oss-20b",
    resumes: bool = False,
    key: str | None = None,
) -> Session:
    """One run, in the folder `work`; the beginning of a session, or the next turn of the last one."""
    program, home, work, last = codex(), folder / "codex", folder / "work", folder / "last.txt"
    home.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    (home / "config.toml").write_text(config(server, model, has_key=key is not None))
    command = [
        *(str(program), "exec", *(("resume", "--last") if resumes else ())),
        *("--json", "--strict-config", "--skip-git-repo-check", "--output-last-message", str(last)),
        # Its sandbox needs namespaces that not every machine allows, and the commands are our own.
        "--dangerously-bypass-approvals-and-sandbox",
        *(*flags, prompt),
    ]
    ended = subprocess.run(
        command,
        cwd=work,
        env=offline(folder, CODEX_HOME=str(home), HARMONIA_API_KEY=key or ""),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WATCHDOG_S,
        check=False,
    )
    events = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    said = last.read_text() if last.exists() else ""
    return Session(work, ended.returncode, events, said, ended.stderr)


def config(server: ServerProcess, model: str, *, has_key: bool) -> str:
    """The file that our guide shows, for this server."""
    shown = PAGE.read_text().partition("```toml\n")[2].partition("```\n")[0]
    key = 'env_key = "HARMONIA_API_KEY"\n' if has_key else ""
    for old, new in (
        ('"http://127.0.0.1:8765/v1"\n', f'"{server.base_url}"\n{key}'),
        ('model = "gpt-oss-20b"\n', f'model = "{model}"\n'),
    ):
        assert shown.count(old) == 1
        shown = shown.replace(old, new)
    return shown


def answered_with(server: ServerProcess) -> list[str]:
    """The status of each response that the server gave."""
    return [
        part for line in server.said if "route=/v1/responses " in line for part in line.split() if "status=" in part
    ]


def custom(name: str, text: str) -> str:
    """A call of a tool that takes text."""
    return f"<|channel|>commentary to=functions.{name}<|message|>{text}<|call|>"


def test_a_file_is_written_and_run(tmp_path: Path) -> None:
    script = "cat > primes.py <<'END'\nprint([n for n in range(2, 30) if all(n % d for d in range(2, n))])\nEND\n"
    edit = r"sed -i 's/print(\(.*\))$/print(len(\1))/' primes.py"
    engine = write_capture(
        tmp_path / "capture.jsonl",
        [
            think("I write the file and run it.")
            + calls("exec_command", json.dumps({"cmd": f"{script}python3 primes.py"})),
            think("It runs. I edit it to count them, and check.")
            + calls(
                "exec_command",
                json.dumps({"cmd": f"{edit} && python3 primes.py | tee count.txt"}),
            ),
            think("Ten, as it should be.") + final("primes.py prints how many primes are below 30: 10."),
        ],
    )
    with server_process("-o", "strict", "false", folder=tmp_path, engine=engine) as server:
        session = run_codex(server, tmp_path, "Write a program that counts the primes below 30, and run it.")
    assert session.exit_code == 0, session.stderr
    assert session.last == "primes.py prints how many primes are below 30: 10."
    first, second = session.items("command_execution")
    assert (first["exit_code"], first["aggregated_output"]) == (0, "[2, 3, 5, 7, 11, 13, 17, 19, 23, 29]\n")
    assert (second["exit_code"], second["aggregated_output"]) == (0, "10\n")
    assert sorted(file.name for file in session.work.iterdir()) == ["count.txt", "primes.py"]
    assert (session.work / "count.txt").read_text() == "10\n"
    assert "print(len([n for n" in (session.work / "primes.py").read_text()
    assert answered_with(server) == ["status=200"] * 3
    # What it thought went back sealed, and stands nowhere in what Codex has kept.
    kept = "".join(file.read_text() for file in (tmp_path / "codex" / "sessions").rglob("*.jsonl"))
    assert "encrypted_content" in kept and "I write the file" not in kept


def test_the_output_of_a_command_reaches_the_model(tmp_path: Path) -> None:
    with server_process(folder=tmp_path) as server:
        session = run_codex(server, tmp_path, 'exec_command(cmd="echo $((6 * 7)) apples | tee apples.txt")')
    assert session.exit_code == 0, session.stderr
    assert (session.work / "apples.txt").read_text() == "42 apples\n"
    assert "functions.exec_command answered: " in session.last and "42 apples" in session.last


def test_an_image_is_described_to_a_model_that_reads_text(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "dot.png").write_bytes(PIXEL)
    with server_process(folder=tmp_path) as server:
        session = run_codex(server, tmp_path, 'view_image(path="dot.png")')
    assert session.exit_code == 0, session.stderr
    assert f"functions.view_image answered: [image: png, {len(PIXEL)} bytes, 1×1;" in session.last


def test_a_server_with_keys_is_used_with_a_key(
    guarded: ServerProcess, keys: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    session = run_codex(guarded, tmp_path, "Hello!", key=keys[1]["alice"])
    assert session.exit_code == 0, session.stderr
    assert session.last.endswith("You said: Hello!")
    stranger = run_codex(guarded, tmp_path, "Hello!", key="not-a-key-of-this-server")
    assert stranger.exit_code == 1
    assert "401" in stranger.events[-1]["error"]["message"]


def test_an_engine_that_dies_ends_the_turn_with_an_error(tmp_path: Path) -> None:
    with server_process(folder=tmp_path) as server:
        session = run_codex(
            server, tmp_path, "/demo engine-error", "-c", "model_providers.harmonia.stream_max_retries=1"
        )
    assert session.exit_code == 1
    assert session.events[-1]["type"] == "turn.failed"
    assert answered_with(server) == ["status=200"] * 2  # it came in the stream, and Codex tried once more


def test_a_tool_in_a_namespace_is_called(tmp_path: Path) -> None:
    with server_process(folder=tmp_path) as server:
        session = run_codex(server, tmp_path, 'close_agent(target="nobody")', "--enable", "multi_agent")
    assert session.exit_code == 0, session.stderr
    # Codex knew which tool of which namespace was meant: it says what is wrong with the argument.
    assert "multi_agent_v1.close_agent answered: invalid agent id nobody" in session.last


def test_a_file_is_patched_by_a_custom_tool(tmp_path: Path) -> None:
    """Codex offers apply_patch, with its grammar, to models that it knows."""
    patch = (
        "*** Begin Patch\n*** Update File: greet.py\n@@\n-print('hello')\n+print('good morning')\n"
        "*** Add File: notes.txt\n+changed the greeting\n*** End Patch\n"
    )
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "greet.py").write_text("print('hello')\n")
    engine = write_capture(
        tmp_path / "capture.jsonl",
        [
            think("A patch will do.") + custom("apply_patch", patch),
            calls("exec_command", '{"cmd": "python3 greet.py"}'),
            final("It says good morning now."),
        ],
    )
    with server_process("--alias", "gpt-5.5", "-o", "strict", "false", folder=tmp_path, engine=engine) as server:
        session = run_codex(server, tmp_path, "Greet politely.", "--enable", "multi_agent", model="gpt-5.5")
    assert session.exit_code == 0, session.stderr
    assert session.last == "It says good morning now."
    (changed,) = session.items("file_change")
    assert [Path(change["path"]).name for change in changed["changes"]] == ["greet.py", "notes.txt"]
    assert (session.work / "greet.py").read_text() == "print('good morning')\n"
    assert (session.work / "notes.txt").read_text() == "changed the greeting\n"
    (command,) = session.items("command_execution")
    assert command["aggregated_output"] == "good morning\n"


def test_tools_that_come_as_an_item_are_called(tmp_path: Path) -> None:
    """To its newest models Codex gives all tools in an item of the input, in namespaces, and one runs programs."""
    program = "const ran = await tools.exec_command({cmd: 'echo $((6 * 7)) | tee answer.txt'}); text(ran);"
    engine = write_capture(
        tmp_path / "capture.jsonl",
        [
            think("I run a program.") + custom("exec", program),
            "<|channel|>commentary to=collaboration.list_agents <|constrain|>json<|message|>{}<|call|>",
            final("The answer is 42."),
        ],
    )
    with server_process("--alias", "gpt-6-astra", "-o", "strict", "false", folder=tmp_path, engine=engine) as server:
        session = run_codex(server, tmp_path, "What is the answer?", "--enable", "multi_agent", model="gpt-6-astra")
    assert session.exit_code == 0, session.stderr
    assert session.last == "The answer is 42."
    assert (session.work / "answer.txt").read_text() == "42\n"
    assert answered_with(server) == ["status=200"] * 3


def test_an_answer_has_the_form_that_was_asked_for(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"title": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["title", "count"],
        "additionalProperties": False,
    }
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(schema))
    with server_process(folder=tmp_path) as server:
        session = run_codex(server, tmp_path, "Describe this folder.", "--output-schema", str(file))
    assert session.exit_code == 0, session.stderr
    answer = json.loads(session.last)
    assert set(answer) == {"title", "count"} and isinstance(answer["count"], int)


def test_a_conversation_goes_on_with_sealed_reasoning(tmp_path: Path) -> None:
    engine = write_capture(
        tmp_path / "capture.jsonl",
        [
            think("I write it down.") + calls("exec_command", '{"cmd": "echo blue > colour.txt"}'),
            final("Noted: blue."),
            think("It is in the file.") + calls("exec_command", '{"cmd": "cat colour.txt"}'),
            final("It was blue."),
        ],
    )
    with server_process("-o", "strict", "false", folder=tmp_path, engine=engine) as server:
        first = run_codex(server, tmp_path, "Remember the colour blue.")
        assert (first.exit_code, first.last) == (0, "Noted: blue."), first.stderr
        second = run_codex(server, tmp_path, "Which colour was it?", resumes=True)
    assert (second.exit_code, second.last) == (0, "It was blue."), second.stderr
    (command,) = second.items("command_execution")
    assert command["aggregated_output"] == "blue\n"
    assert answered_with(server) == ["status=200"] * 4
