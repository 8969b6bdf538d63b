"""Bounded runs of the two fuzzers of the server, as processes: the same seed, the same number of requests."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

FUZZ = ROOT / "fuzz"
# Against a hang; nothing is measured with it.
WATCHDOG_S = 600


def _run(program: str, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, FUZZ / program, *options],
        capture_output=True,
        text=True,
        timeout=WATCHDOG_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return done.stdout


def test_a_bounded_fuzz_of_the_server_finds_nothing() -> None:
    said = _run("fuzz_server.py", "--requests", "1000", "--seed", "1")
    found = re.search(r"fuzz: ([0-9,]+) requests, 0 answers of 500", said)
    assert found is not None and int(found[1].replace(",", "")) >= 1000
    # Most of it would be worth nothing if all of it were refused at the door.
    assert int((re.search(r" 200: ([0-9,]+)", said) or ["", "0"])[1].replace(",", "")) > 200


@pytest.mark.skipif(importlib.util.find_spec("schemathesis") is None, reason="schemathesis is not installed")
def test_the_server_does_what_its_own_document_says() -> None:
    said = _run("fuzz_document.py", "--cases", "5")
    found = re.search(r"schemathesis: ([0-9,]+) cases, 0 failures", said)
    assert found is not None and int(found[1].replace(",", "")) > 100


@pytest.mark.parametrize("name", ["fuzz_server.py", "fuzz_document.py"])
def test_a_fuzzer_of_the_server_states_its_invariant_first(name: str) -> None:
    assert (FUZZ / name).read_text().startswith('"""Invariant: ')


def test_the_fuzzer_would_see_a_fault() -> None:
    """An application that breaks at one field."""
    program = (
        "import asyncio, sys; sys.path.insert(0, sys.argv[1]); import fuzz_server as f\n"
        "class Broken:\n"
        "    async def __call__(self, scope, receive, send):\n"
        "        await send({'type': 'http.response.start', 'status': 500, 'headers': []})\n"
        "        await send({'type': 'http.response.body', 'body': b'oops'})\n"
        "try:\n"
        "    asyncio.run(f.Fuzzer(Broken(), 1).run(10, None))\n"
        "except f.Found:\n"
        "    sys.exit(7)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, FUZZ], capture_output=True, timeout=WATCHDOG_S, check=False)
    assert done.returncode == 7, done.stderr[-2000:]
