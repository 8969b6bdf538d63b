"""A bounded run of the fuzzer: the same seed, the same number of inputs, from the seeds in fuzz/corpus."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

FUZZ = ROOT / "fuzz"
RUNS = (300, pytest.param(1_000, marks=pytest.mark.exhaustive))


@pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None,
    reason="atheris is not installed",
)
@pytest.mark.parametrize("runs", RUNS)
def test_a_bounded_fuzz_of_the_parser_finds_nothing(runs: int, tmp_path: Path) -> None:
    grown = tmp_path / "corpus"  # libFuzzer writes what it discovers into the first folder
    grown.mkdir()
    options = [f"-runs={runs}", "-seed=1", "-max_len=300", "-timeout=20", f"-artifact_prefix={tmp_path}/"]
    done = subprocess.run(
        [sys.executable, FUZZ / "fuzz_parser.py", *options, grown, FUZZ / "corpus"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert f"Done {runs} runs" in done.stderr


def test_the_fuzzer_states_its_invariant_first() -> None:
    assert (FUZZ / "fuzz_parser.py").read_text().startswith('"""Invariant: ')


def test_there_are_seeds() -> None:
    assert len(list((FUZZ / "corpus").iterdir())) > 80
