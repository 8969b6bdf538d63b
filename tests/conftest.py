"""The oracles: the reference implementation and the published tokenizer, both fed from our own vocabulary.

The number of cases that were compared with them is printed at the end of a run.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import pytest
from hypothesis import HealthCheck, settings

from harmonia.vocabulary.ranks import read_shipped, write_tiktoken_file
from tests.support.oracle_cases import CASES

if TYPE_CHECKING:
    from openai_harmony import HarmonyEncoding

# A slow example is the machine's fault here, not the test's.
settings.register_profile("harmonia", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("harmonia")

# A shell that starts something in the background lets it ignore Ctrl-C, and some tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class OrdinaryEncoder(Protocol):
    """What the tests use of tiktoken."""

    def encode_ordinary(self, text: str) -> list[int]: ...


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    _keep_to_the_end()


def pytest_runtest_logstart(location: tuple[str, int | None, str]) -> None:
    """What the tests of a module loaded for all that follow, such as the vocabulary, lives to the end too."""
    global _module
    if location[0] != _module:
        _module = location[0]
        _keep_to_the_end()


_module = ""


def _keep_to_the_end() -> None:
    """No collection of garbage has to look at what is there now. Tests that collect garbage to see that nothing was
    left behind would otherwise walk ten thousand collected tests, and all that was imported, each time."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["cases"] = dict(CASES)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    CASES.update(getattr(node, "workeroutput", {}).get("cases", {}))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if CASES:
        terminalreporter.section("cases compared with an oracle")
        for name, count in sorted(CASES.items()):
            terminalreporter.line(f"{count:>9,}  {name}")


@pytest.fixture(scope="session")
def reference_encoding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HarmonyEncoding]:
    """openai-harmony, which finds its vocabulary through an environment variable and so needs no network."""
    folder: Path = tmp_path_factory.mktemp("vocabulary")
    write_tiktoken_file(read_shipped(), folder / "o200k_base.tiktoken")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "TIKTOKEN_ENCODINGS_BASE", str(folder))
        from openai_harmony import HarmonyEncodingName, load_harmony_encoding

        yield load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)


@pytest.fixture(scope="session")
def published_tiktoken() -> OrdinaryEncoder:
    """tiktoken with the expression that o200k was published with."""
    from tiktoken._tiktoken import CoreBPE  # pyright: ignore[reportUnknownVariableType] -- it ships without types
    from tiktoken_ext import openai_public

    # The expression stands in a function that also downloads the vocabulary; this vocabulary is ours.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openai_public, "load_tiktoken_bpe", lambda *_arguments, **_options: {})  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        pattern = openai_public.o200k_base()["pat_str"]
    ranks = {token: rank for rank, token in enumerate(read_shipped())}
    return cast(OrdinaryEncoder, CoreBPE(ranks, {}, pattern))
