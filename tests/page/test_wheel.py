"""A wheel has the page in it: whoever installs one needs no Node.js, and nothing of the sources."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from harmonia.serve.config.settings import Settings
from harmonia.serve.http.page import is_built
from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not is_built(Settings()):
        pytest.skip("the page is not built")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


def test_it_has_the_built_page_and_not_its_sources(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "harmonia/serve/page/index.html" in names
    assert any(name.startswith("harmonia/serve/page/page/index-") and name.endswith(".js") for name in names)
    assert not [name for name in names if name.endswith((".ts", ".tsx", ".map")) or "node_modules" in name]


def test_its_page_is_found_where_the_wheel_is_installed(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = (
        "import harmonia; from harmonia.serve.http.page import load_page\n"
        "from harmonia.serve.config.settings import Settings\n"
        "print(harmonia.__file__); print('index.html' in load_page(Settings()))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
        check=True,
        capture_output=True,
        text=True,
    )
    assert ran.stdout.splitlines() == [str(tmp_path / "harmonia" / "__init__.py"), "True"]
