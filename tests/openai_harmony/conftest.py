"""The two sides, as fixtures: the reference can only be imported when its vocabulary is there."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from tests.support.both_sides import OURS, Side

if TYPE_CHECKING:
    from openai_harmony import HarmonyEncoding


@pytest.fixture(scope="session")
def theirs(reference_encoding: HarmonyEncoding) -> Side:
    return Side(import_module("openai_harmony"), reference_encoding)


@pytest.fixture(params=["ours", "theirs"])
def side(request: pytest.FixtureRequest, theirs: Side) -> Side:
    return OURS if request.param == "ours" else theirs
