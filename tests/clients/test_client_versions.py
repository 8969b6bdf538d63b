"""The versions of the clients are written in one place, with which the locks agree."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import openai
import pytest

from tests.support.clients.client_processes import CLIENTS, JAVASCRIPT

TABLE: dict[str, Any] = tomllib.loads((CLIENTS / "clients.toml").read_text())


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.partition("[")[0]).lower()


def test_every_environment_has_a_lock_and_every_lock_an_environment() -> None:
    assert {path.stem for path in (CLIENTS / "locks").iterdir()} == set(TABLE["python"])


@pytest.mark.parametrize("name", TABLE["python"])
def test_a_lock_has_the_versions_of_the_table(name: str) -> None:
    lines = (CLIENTS / "locks" / f"{name}.txt").read_text().splitlines()
    locked = dict(line.split("==") for line in lines if not line.startswith("#"))
    locked = {normal(package): version for package, version in locked.items()}
    assert {normal(each): version for each, version in TABLE["python"][name].items()}.items() <= locked.items()


def test_the_javascript_lock_has_the_versions_of_the_table() -> None:
    versions = TABLE["javascript"]
    assert json.loads((JAVASCRIPT / "package.json").read_text())["dependencies"] == versions
    locked = json.loads((JAVASCRIPT / "package-lock.json").read_text())["packages"]
    assert locked[""]["dependencies"] == versions
    assert {name: locked[f"node_modules/{name}"]["version"] for name in versions} == versions


def test_the_sdk_of_make_test_is_the_one_of_the_clients() -> None:
    assert openai.__version__ == TABLE["python"]["openai-3"]["openai"]
