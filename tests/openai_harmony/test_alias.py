"""The name `openai_harmony`: by a call, by the shim distribution, and what is said where both are installed."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import harmonia
from tests.support.paths import ROOT

SHIM = ROOT / "shims" / "openai_harmony"
PROGRAM = """
import openai_harmony
from openai_harmony import Message, RenderConversationConfig, Role, load_harmony_encoding
encoding = load_harmony_encoding("HarmonyGptOss")
print(openai_harmony.__name__, len(encoding.render(Message.from_role_and_content(Role.USER, "Hi"))))
"""
# What the drop-in needs, and nothing else that is installed beside it.
NEEDED = (
    *("annotated_types", "msgspec", "pydantic", "pydantic_core", "regex", "tiktoken", "typing_extensions.py"),
    "typing_inspection",
)


def run(*arguments: str, path: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shim distribution, built and unpacked as pip does it."""
    folder = tmp_path_factory.mktemp("shim")
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*wheel, str(SHIM)], check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    installed = folder / "installed"
    zipfile.ZipFile(built).extractall(installed)
    return installed


@pytest.fixture(scope="module")
def without_the_original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages in which openai-harmony is not installed."""
    folder = tmp_path_factory.mktemp("packages")
    packages = Path(sysconfig.get_paths()["platlib"])
    for name in NEEDED:
        (folder / name).symlink_to(packages / name)
    (folder / "harmonia").symlink_to(Path(harmonia.__file__).parent)
    return folder


def test_after_the_call_the_original_name_gives_the_drop_in() -> None:
    twice = "harmonia.install_as_openai_harmony()\n" * 2
    done = run("-c", f"import harmonia\n{twice}{PROGRAM}")
    assert (done.stdout, done.stderr) == ("harmonia.openai_harmony 5\n", "")


def test_a_call_that_comes_too_late_is_refused() -> None:
    done = run("-c", "import harmonia, openai_harmony; harmonia.install_as_openai_harmony()")
    assert "alias.too_late" in done.stderr or "was already imported" in done.stderr
    assert done.returncode == 1


def test_without_pydantic_the_command_that_installs_it_is_said() -> None:
    done = run("-c", "import sys; sys.modules['pydantic'] = None\nfrom harmonia import openai_harmony")
    assert (
        "harmonia.openai_harmony needs pydantic: install harmonia with its extra [dropin], or pip install"
        in done.stderr
    )


def test_the_shim_provides_the_name(shim: Path, without_the_original: Path) -> None:
    path = (shim, without_the_original)
    done = run("-S", "-c", PROGRAM, path=path)
    assert (done.stdout, done.stderr) == ("harmonia.openai_harmony 5\n", "")
    said = run("-S", "-m", "harmonia.openai_harmony", path=path)
    assert (said.stdout, said.returncode) == ("import openai_harmony gives Harmonia's drop-in.\n", 0)


def test_neither_is_said(without_the_original: Path) -> None:
    said = run("-S", "-m", "harmonia.openai_harmony", path=(without_the_original,))
    assert "There is no module openai_harmony" in said.stdout
    assert said.returncode == 1


def test_the_original_alone_is_said() -> None:
    said = run("-m", "harmonia.openai_harmony")
    assert said.stdout.startswith("import openai_harmony gives the original, openai-harmony 0.0.8, from ")
    assert said.returncode == 1


def test_both_are_detected_and_explained(shim: Path) -> None:
    done = run("-c", PROGRAM, path=(shim,))
    assert done.stdout == "harmonia.openai_harmony 5\n"
    assert "RuntimeWarning: Both openai-harmony 0.0.8 and harmonia-openai-harmony 0.2.0 are installed." in done.stderr
    said = run("-m", "harmonia.openai_harmony", path=(shim,))
    assert "gives Harmonia's drop-in.\nBoth openai-harmony 0.0.8 and" in said.stdout
    assert "pip uninstall -y openai-harmony harmonia-openai-harmony" in said.stdout
    assert (said.returncode, said.stderr) == (1, "")


def test_what_uninstalling_one_of_both_leaves_is_explained(shim: Path, without_the_original: Path) -> None:
    damaged = without_the_original.parent / "damaged"
    (metadata,) = shim.glob("*.dist-info")
    damaged.mkdir()
    (damaged / metadata.name).symlink_to(metadata)
    for is_a_folder in (False, True):
        if is_a_folder:
            (damaged / "openai_harmony").mkdir()  # the original leaves its compiled module behind
        said = run("-S", "-m", "harmonia.openai_harmony", path=(damaged, without_the_original))
        assert said.stdout.startswith("harmonia-openai-harmony: installed, but files are missing")
        assert said.returncode == 1


def test_the_original_over_the_shim_is_explained_too(shim: Path) -> None:
    """The original was installed last, so its files are found first."""
    packages = Path(sysconfig.get_paths()["platlib"])
    said = run("-m", "harmonia.openai_harmony", path=(packages, shim))
    assert "gives the original, openai-harmony 0.0.8" in said.stdout
    assert "Both openai-harmony 0.0.8 and" in said.stdout
    assert said.returncode == 1
