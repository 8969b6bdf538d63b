from __future__ import annotations

import sys

import pytest

from harmonia.serve.server import loop_factory
from tests.support.servers.event_loops import Run, run_on


@pytest.fixture(params=["asyncio", "fastest", "h11"])
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Every test that takes it holds on asyncio's own loop, on the fastest that is installed, and with h11."""
    if request.param == "h11":
        monkeypatch.setitem(sys.modules, "uvicorn.protocols.http.httptools_impl", None)
    return run_on(loop_factory() if request.param == "fastest" else None)
