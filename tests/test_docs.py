"""Documents that run: every example is executed, and what it prints is what the page says."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from harmonia import ErrorCode
from harmonia.cli import main
from harmonia.families import read_profiles
from tests.support.paths import ROOT
from tests.support.servers.server_processes import server_process

SERVER = "127.0.0.1:8765"  # the address that the pages have
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

# A fenced block and its language; a ```text block right behind a ```python block is what that one prints.
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

_NEXT = "---- the next block ----"  # what is printed between two blocks


class Example(NamedTuple):
    language: str
    code: str
    output: str | None


def examples(page: Path) -> list[Example]:
    text = page.read_text()
    blocks = list(_BLOCK.finditer(text))
    found: list[Example] = []
    for index, block in enumerate(blocks):
        following = blocks[index + 1] if index + 1 < len(blocks) else None
        belongs = following and following[1] == "text" and not text[block.end() : following.start()].strip()
        found.append(Example(block[1], block[2], following[2] if following and belongs else None))
    return found


def run_blocks(blocks: list[str]) -> list[str]:
    """What each block prints. They continue each other, as a reader would run them, so one process runs them all."""
    if not blocks:
        return []
    script = f"\nprint({_NEXT!r}, flush=True)\n".join(blocks)
    ran = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split(f"{_NEXT}\n")


def run_console(session: str, folder: Path) -> str:
    """What a session prints: lines that begin with `$ ` are commands, a `\\` at their end continues them."""
    printed: list[str] = []
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "PYTHONPATH": str(ROOT / "src"),
        "XDG_STATE_HOME": str(folder),
    }
    for line in session.replace("\\\n", "").splitlines():
        if not line.startswith("$ "):
            continue
        command = line.removeprefix("$ ")
        printed.append(line + "\n")
        ran = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, cwd=ROOT, env=environment, check=False
        )
        printed.append(ran.stdout + ran.stderr)
    return "".join(printed)


@pytest.fixture
def server_url(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[str]:
    """Where a server listens, for pages whose Python asks one; no other page has to wait for it."""
    page: Path = request.getfixturevalue("page")
    if any(SERVER in example.code for example in examples(page) if example.language == "python"):
        with server_process(folder=tmp_path) as server:
            yield server.url.removeprefix("http://")
    else:
        yield SERVER


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_print_what_it_says(page: Path, server_url: str, tmp_path: Path) -> None:
    blocks = [example for example in examples(page) if example.language == "python"]
    printed = run_blocks([example.code.replace(SERVER, server_url) for example in blocks])
    for example, output in zip(blocks, printed, strict=True):
        if example.output is not None:
            assert output == example.output, f"in {page.name}:\n{example.code}"
    for example in examples(page):
        if example.language == "console":
            assert run_console(example.code, tmp_path) == example.code.replace("\\\n", ""), f"in {page.name}"


def test_the_readme_has_working_code_by_line_ten() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert any(line.startswith("```python") for line in lines[:8])


def test_the_readme_is_at_most_150_lines() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_the_installs_of_the_readme_are_possible() -> None:
    # As written, but nothing is downloaded or installed. pip reads NO_BUILD_ISOLATION the other way round.
    offline = {"PIP_DRY_RUN": "1", "PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    blocks = [example.code for example in examples(ROOT / "README.md") if example.language == "sh"]
    commands = [line.partition("  #")[0].strip() for block in blocks for line in block.splitlines()]
    assert commands
    for command in commands:
        arguments = shlex.split(command)
        assert arguments[0] == "pip", f"no test runs this command of the README: {command}"
        ran = subprocess.run(
            [sys.executable, "-m", *arguments], capture_output=True, text=True, cwd=ROOT, env={**os.environ, **offline}
        )
        assert ran.returncode == 0 and "does not provide the extra" not in ran.stderr, ran.stdout + ran.stderr


def test_the_measurements_of_the_readme_are_those_of_the_benchmarks() -> None:
    table = (ROOT / "README.md").read_text().partition("|---:|\n")[2].partition("\n\n")[0]
    results = (ROOT / "docs" / "reference" / "benchmarks.md").read_text()
    assert table and [row for row in table.splitlines() if f"\n{row}" not in results] == []


def commands_of(page: Path) -> list[list[str]]:
    """The calls of `harmonia` in the shell blocks of a page: the words after `harmonia`."""
    blocks = [example.code for example in examples(page) if example.language == "sh"]
    lines = [line for block in blocks for line in block.replace("\\\n", "").splitlines()]
    return [shlex.split(line.partition(" |")[0], comments=True)[1:] for line in lines if line.startswith("harmonia ")]


@pytest.mark.parametrize("page", [page for page in PAGES if commands_of(page)], ids=lambda page: page.name)
def test_the_command_accepts_what_the_pages_tell_a_reader_to_type(page: Path) -> None:
    for arguments in commands_of(page):
        command: click.Command | None = main
        while isinstance(command, click.Group):
            _, command, arguments = command.resolve_command(click.Context(command), arguments)
        assert command
        command.make_context(command.name, arguments)  # raises a UsageError for what it does not accept


def test_a_server_greets_as_its_page_says(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "guides" / "server.md").read_text()
    shown = next(block[2] for block in _BLOCK.finditer(page) if "listens at" in block[2]).splitlines()
    with server_process("--engine", "demo", folder=tmp_path) as server:
        printed = [line.rstrip("\n").replace(server.url, f"http://{SERVER}") for line in server.said]
    # The first line has the version and the last one the interpreter; the store and the page depend on the machine.
    for line, found in zip(shown[1:-1], printed[1:-1], strict=True):
        assert line == found or line.split()[0] == found.split()[0] in ("store", "page")


def test_profiles_and_settings_on_the_pages_can_be_read() -> None:
    profiles = [
        example.code
        for example in examples(ROOT / "docs" / "guides" / "model-families.md")
        if example.language == "toml"
    ]
    assert [profile.name for text in profiles for profile in read_profiles(text)] == ["house_model"]
    for page in PAGES:
        for example in examples(page):
            if example.language == "toml":
                tomllib.loads(example.code)
            elif example.language == "json":
                lines = example.code.splitlines() if example.code.startswith('{"type"') else [example.code]
                assert [json.loads(line) for line in lines], page.name


def test_every_error_code_has_a_paragraph_and_every_paragraph_a_code() -> None:
    pages = "".join((ROOT / "docs" / "reference" / name).read_text() for name in ("errors.md", "faults.md"))
    described = re.findall(r"^### `(.+)`$", pages, re.MULTILINE)
    assert described == [code.value for code in ErrorCode]


def test_the_pages_that_are_written_from_code_are_up_to_date() -> None:
    subprocess.run([sys.executable, str(ROOT / "tools" / "write_docs.py"), "--check"], check=True)


def test_the_index_lists_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / target).resolve() for target in re.findall(r"\]\(([^)#:]+\.md)\)", index.read_text())}
    assert {page.resolve() for page in PAGES if page.parent.parent == index.parent} <= listed


def test_extras_that_pages_mention_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for page in PAGES:
        assert {*re.findall(r"'\.\[(\w+)\]'", page.read_text())} <= set(extras), page.name


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", _BLOCK.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"))]:
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", _BLOCK.sub("", page.read_text())):
            linked = page.parent / target if target else page
            assert linked.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors_of(linked), f"{page.name}: {target}#{anchor}"


def test_files_that_pages_mention_exist() -> None:
    for page in PAGES:
        for path in re.findall(r"`((?:tests|fuzz|tools|benchmarks|examples)/[\w/.-]+)`", page.read_text()):
            assert (ROOT / path).exists(), f"{page.name}: {path}"


def test_where_changes_go_is_true() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    table = page.partition("## Where do I put")[2].partition("## The page")[0]
    rows = [line for line in table.splitlines() if line.startswith("| a")]
    assert len(rows) == 10
    for row in rows:
        paths = [ROOT / path for path in re.findall(r"`((?:src|ui)/[^`]+)`", row)]
        assert paths and all(path.exists() for path in paths), row
        assert sum(path.parts[len(ROOT.parts)] == "src" for path in paths) <= 3, row
