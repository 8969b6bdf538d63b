"""The tiny models, made once, and the engines that run them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harmonia.run.engines.base import Engine
from harmonia.run.engines.llama_cpp import LlamaCppEngine
from harmonia.run.engines.transformers import TransformersEngine
from tests.run.engines.real.lessons import find_lessons
from tests.run.engines.real.real_engines import LlamaServer, start_llama
from tests.run.engines.real.tiny_gpt_oss import byte_pair_merges, make_random, make_taught, write_gguf

NEEDED = ("torch", "transformers", "accelerate", "gguf", "xllamacpp")


@pytest.fixture(scope="session")
def engines_installed() -> None:
    for package in NEEDED:
        pytest.importorskip(package)
    # Two threads that wait for each other are slower than one on a busy machine, and the models are tiny.
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def random_model(engines_installed: None) -> Any:
    """One that never says anything sensible, and hardly ever stops. Tests that hook into it take their hooks off."""
    return make_random()


@pytest.fixture(scope="session")
def taught_model(engines_installed: None) -> Any:
    """One that has learnt the lessons by heart."""
    return make_taught(find_lessons())


@pytest.fixture(scope="session")
def merges() -> list[str]:
    return byte_pair_merges()


@pytest.fixture(scope="session")
def random_gguf(random_model: Any, merges: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("random") / "tiny.gguf"
    write_gguf(random_model, file, merges)
    return file


@pytest.fixture(scope="session")
def random_llama(random_gguf: Path) -> Iterator[LlamaServer]:
    with start_llama(random_gguf) as server:
        yield server


@pytest.fixture(scope="session")
def taught_llama(
    taught_model: Any, merges: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LlamaServer]:
    file = tmp_path_factory.mktemp("taught") / "tiny.gguf"
    write_gguf(taught_model, file, merges)
    with start_llama(file, 1024, "gpt-oss-20b") as server:
        yield server


@pytest.fixture(params=["transformers", "llama.cpp"])
def random_engine(request: pytest.FixtureRequest) -> Engine:
    """The random model in each of the engines."""
    if request.param == "transformers":
        return TransformersEngine(request.getfixturevalue("random_model"))
    return LlamaCppEngine(request.getfixturevalue("random_llama").url, context_tokens=1024)


@pytest.fixture(params=["transformers", "llama.cpp"])
def taught_engine(request: pytest.FixtureRequest) -> Engine:
    """The taught model in each of the engines."""
    if request.param == "transformers":
        return TransformersEngine(request.getfixturevalue("taught_model"))
    return LlamaCppEngine(request.getfixturevalue("taught_llama").url, context_tokens=1024)
