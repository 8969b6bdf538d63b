"""Documents that run: every example is executed, and what it prints is what the page says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

import pytest

from harmonia import ErrorCode
from server_processes import server_process

ROOT = Path(__file__).parent.parent
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


def run_console(session: str) -> str:
    """What a session prints: lines that begin with `$ ` are commands, a `\\` at their end goes on."""
    printed: list[str] = []
    for line in session.replace("\\\n", "").splitlines():
        if not line.startswith("$ "):
            continue
        command = line.removeprefix("$ ")
        printed.append(line + "\n")
        environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(ROOT / "src")}
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
def test_the_examples_of_a_page_print_what_it_says(page: Path, server_url: str) -> None:
    blocks = [example for example in examples(page) if example.language == "python"]
    printed = run_blocks([example.code.replace(SERVER, server_url) for example in blocks])
    for example, output in zip(blocks, printed, strict=True):
        if example.output is not None:
            assert output == example.output, f"in {page.name}:\n{example.code}"
    for example in examples(page):
        if example.language == "console":
            assert run_console(example.code) == example.code.replace("\\\n", ""), f"in {page.name}"


def test_the_readme_has_working_code_by_line_ten() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert any(line.startswith("```python") for line in lines[:8])


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


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / shlex.split(target)[0]).exists(), f"{page.name}: {target}"
