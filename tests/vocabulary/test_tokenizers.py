"""The engines: each gives tiktoken's tokens for every text, of any length, on any thread."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import NoReturn

import pytest

from harmonia.errors import ErrorCode, InputError
from harmonia.vocabulary.tokenizers import Engine, FastEngine, has_newer_characters, load_engine
from tests.support.oracle_cases import compared
from tests.vocabulary.texts import (
    BLOCKS,
    ENGINE_NAMES,
    SURROUNDINGS,
    OrdinaryEncoder,
    block_ids,
    characters,
    needs_fast,
    odd_texts,
    shared_engine,
    shipped_tokens,
)

# ── every code point ────────────────────────────────────────────────────────────────────────────────────────────────


def check_characters(engine: Engine, wanted: Iterable[str], published_tiktoken: OrdinaryEncoder) -> None:
    # The fast engine leaves a whole text to the exact one where it has a character that may be newer. So that this
    # does not hide what it would do with the others, each of these has texts of its own.
    alone = [character for character in wanted if has_newer_characters(character)]
    together = [character for character in wanted if not has_newer_characters(character)]
    for surrounding in SURROUNDINGS:
        for text in ["".join(map(surrounding.format, together)), *map(surrounding.format, alone)]:
            assert engine.encode(text) == published_tiktoken.encode_ordinary(text), surrounding
    compared("characters in their surroundings and tiktoken", len(SURROUNDINGS) * (len(alone) + len(together)))


@pytest.mark.parametrize("name", ENGINE_NAMES)
def test_common_code_points_and_some_others_are_encoded_as_tiktoken_does_it(
    name: str, published_tiktoken: OrdinaryEncoder
) -> None:
    wanted = characters(range(0x3100)) + Random(1).sample(characters(range(0x3100, 0x110000)), 3000)
    check_characters(shared_engine(name), wanted, published_tiktoken)


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", BLOCKS, ids=block_ids)
@pytest.mark.parametrize("name", ENGINE_NAMES)
def test_every_code_point_is_encoded_as_tiktoken_does_it(
    name: str, block: range, published_tiktoken: OrdinaryEncoder
) -> None:
    check_characters(shared_engine(name), characters(block), published_tiktoken)


# ── fuzz ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def check_odd_texts(engine: Engine, seed: int, count: int, published_tiktoken: OrdinaryEncoder) -> None:
    for text in odd_texts(seed, count):
        assert engine.encode(text) == published_tiktoken.encode_ordinary(text), ascii(text)
    compared("odd texts and tiktoken", count)


@pytest.mark.parametrize("name", ENGINE_NAMES)
def test_odd_texts_are_encoded_as_tiktoken_does_it(name: str, published_tiktoken: OrdinaryEncoder) -> None:
    check_odd_texts(shared_engine(name), 1, 12_000, published_tiktoken)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(2, 12))
@pytest.mark.parametrize("name", ENGINE_NAMES)
def test_many_odd_texts_are_encoded_as_tiktoken_does_it(
    name: str, seed: int, published_tiktoken: OrdinaryEncoder
) -> None:
    check_odd_texts(shared_engine(name), seed, 30_000, published_tiktoken)


def test_the_automatic_engine_is_exact_while_it_changes_over(published_tiktoken: OrdinaryEncoder) -> None:
    random = Random(1)
    for seed in range(2):
        engine = load_engine("auto", shipped_tokens())
        texts = [text for text in odd_texts(seed, 1000) if text.isascii()][:60]
        texts.insert(random.randrange(1, 60), "and now: 😀")
        for text in texts:
            assert engine.encode(text) == published_tiktoken.encode_ordinary(text), ascii(text)


# ── a million of a kind ─────────────────────────────────────────────────────────────────────────────────────────────

MILLION = 1_000_000
# The first is ten times what is cut (LONG_RUN); spaces and digits, below, are a million always.
LENGTHS = (100_000, pytest.param(MILLION, marks=pytest.mark.exhaustive))

# What is repeated is one piece, so that tiktoken can be asked without the expression on which it would panic.
UNITS = {
    "spaces": " ",
    "tabs": "\t",
    "letters": "a",
    "newlines": "\n",
    "Chinese": "你",
    "emoji": "😀",
    "mixed white space": " \n",
    "blocks of white space": " " * 8191 + "\n" * 8191,
    "marks": "\u0301",
    "mixed letters": "あa",
    "random letters": "".join(Random(1).choices("etaoinshrdlu", k=50_000)),
    "newer letters": "\U00033000",
}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("kind", UNITS)
def test_very_many_of_a_kind_are_encoded_exactly(kind: str, length: int, published_tiktoken: OrdinaryEncoder) -> None:
    text = UNITS[kind] * (length // len(UNITS[kind]))
    expected = published_tiktoken.encode_single_piece(text.encode())
    for name in ("exact", "auto"):  # which is fast where that is installed
        assert shared_engine(name).encode(text) == expected


@pytest.mark.parametrize("name", ENGINE_NAMES)
def test_a_million_digits_are_encoded_three_by_three(name: str, published_tiktoken: OrdinaryEncoder) -> None:
    three = published_tiktoken.encode_single_piece(b"777")
    seven = published_tiktoken.encode_single_piece(b"7")
    assert shared_engine(name).encode("7" * MILLION) == three * (MILLION // 3) + seven


@pytest.mark.parametrize("name", ENGINE_NAMES)
def test_a_million_spaces_leave_the_last_one_to_the_next_word(name: str, published_tiktoken: OrdinaryEncoder) -> None:
    spaces = published_tiktoken.encode_single_piece(b" " * (MILLION - 1))
    hello = published_tiktoken.encode_single_piece(b"hello")
    word = published_tiktoken.encode_single_piece(b" hello")
    assert shared_engine(name).encode("hello" + " " * MILLION + "hello") == hello + spaces + word


# ── threads ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ENGINE_NAMES)
def test_threads_may_share_an_engine(name: str, published_tiktoken: OrdinaryEncoder) -> None:
    engine = load_engine(name, shipped_tokens())
    texts = [*odd_texts(20, 1500), " " * 20_000, "a" * 20_000 + "\U00033000"]
    expected = [published_tiktoken.encode_ordinary(text) for text in texts]
    wrong: list[str] = []

    def work(seed: int) -> None:
        order = list(range(len(texts)))
        Random(seed).shuffle(order)
        wrong.extend(ascii(texts[at]) for at in order if engine.encode(texts[at]) != expected[at])

    threads = [Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    compared("texts encoded by 8 threads and tiktoken", 8 * len(texts))


FIRST_USE = """
from threading import Barrier, Thread

from harmonia.vocabulary.tokenizers import load_engine
from harmonia.vocabulary.ranks import read_shipped

engine = load_engine({name!r}, read_shipped())
barrier = Barrier(16)
found = []

def work():
    barrier.wait()
    try:
        found.append(str(engine.encode("für jeden Faden")))
    except Exception as error:
        found.append(repr(error))

threads = [Thread(target=work) for _ in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(found), *set(found))
"""


@pytest.mark.parametrize("name", ENGINE_NAMES)
def test_threads_may_share_an_engine_from_its_first_use_in_a_process(
    name: str, published_tiktoken: OrdinaryEncoder
) -> None:
    """What an engine imports at its first use is imported already in this process, so another one is needed."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST_USE.format(name=name)],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    expected = published_tiktoken.encode_ordinary("für jeden Faden")
    assert (done.stdout, done.stderr) == (f"16 {expected}\n", "")


def test_the_exact_engine_encodes_without_the_gil() -> None:
    """With no forced switches, another thread runs before the encoding ends only if the encoding lets it."""
    random = Random(1)
    words = ["".join(random.choices("etaoinshrdlu", k=random.randint(1, 12))) for _ in range(200_000)]
    text = " ".join(words)
    engine = shared_engine("exact")
    engine.encode(text)  # whatever it loads is loaded now

    def another_thread_runs_during_the_encoding() -> bool:
        order: list[str] = []
        ready = Event()

        def work() -> None:
            ready.set()
            order.append("begins")
            engine.encode(text)
            order.append("ends")

        thread = Thread(target=work)
        thread.start()
        ready.wait()
        order.append("another thread")
        thread.join()
        return order == ["begins", "another thread", "ends"]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        # The system may be slow to wake a thread; once is proof.
        assert any(another_thread_runs_during_the_encoding() for _ in range(20))
    finally:
        sys.setswitchinterval(interval)


# ── renewal ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@needs_fast
def test_a_renewed_tokenizer_goes_on_as_before(
    published_tiktoken: OrdinaryEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewals = count_folders(monkeypatch)
    engine = FastEngine(shipped_tokens(), tokens_until_renewal=3000)
    for text in odd_texts(40, 300):
        assert engine.encode(text) == published_tiktoken.encode_ordinary(text), ascii(text)
    assert 2 < len(renewals) < 10


@needs_fast
def test_a_tokenizer_that_cannot_be_renewed_goes_on_as_it_is(
    published_tiktoken: OrdinaryEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FastEngine(shipped_tokens(), tokens_until_renewal=100)
    refused = refuse_folders(monkeypatch)
    for text in odd_texts(41, 300):
        assert engine.encode(text) == published_tiktoken.encode_ordinary(text), ascii(text)
    assert len(refused) > 10


def count_folders(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    counted: list[None] = []
    temporary_directory = tempfile.TemporaryDirectory

    def count(prefix: str) -> tempfile.TemporaryDirectory[str]:
        counted.append(None)
        return temporary_directory(prefix=prefix)

    monkeypatch.setattr(tempfile, "TemporaryDirectory", count)
    return counted


def refuse_folders(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    refused: list[None] = []

    def refuse(*_arguments: object, **_options: object) -> NoReturn:
        refused.append(None)
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", refuse)
    return refused


# ── which engine ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_engine_knows_its_name() -> None:
    assert load_engine("exact", shipped_tokens()).name == "exact"


@needs_fast
def test_auto_takes_the_fast_engine_where_it_is_installed() -> None:
    assert shared_engine("fast").name == "fast"
    assert shared_engine("auto").name == "fast"


def pretend_version(monkeypatch: pytest.MonkeyPatch, version: str | None) -> None:
    real = metadata.version

    def pretended(name: str) -> str:
        if name != "gigatoken":
            return real(name)
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(metadata, "version", pretended)


@pytest.mark.parametrize("version", [None, "0.9.0", "0.11.0"])
def test_auto_takes_the_exact_engine_where_the_measured_gigatoken_is_not(
    version: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_version(monkeypatch, version)
    assert load_engine("auto", shipped_tokens()).name == "exact"


@pytest.mark.parametrize("version", [None, "0.9.0", "0.11.0"])
def test_fast_is_refused_where_the_measured_gigatoken_is_not(
    version: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another release may differ from tiktoken on other characters."""
    pretend_version(monkeypatch, version)
    with pytest.raises(InputError) as caught:
        load_engine("fast", shipped_tokens())
    assert caught.value.code is ErrorCode.VOCABULARY_MISSING_ENGINE


def test_fast_is_refused_and_auto_is_exact_where_gigatoken_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gigatoken", None)
    monkeypatch.setitem(sys.modules, "gigatoken.gigatoken_rs", None)
    with pytest.raises(InputError) as caught:
        load_engine("fast", shipped_tokens())
    assert caught.value.code is ErrorCode.VOCABULARY_MISSING_ENGINE
    assert load_engine("auto", shipped_tokens()).name == "exact"


@needs_fast
def test_nothing_but_the_fast_engine_needs_a_place_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """gigatoken reads its vocabulary from a file, and a locked-down container has no place for one."""
    refuse_folders(monkeypatch)
    engine = load_engine("auto", shipped_tokens())
    assert engine.name == "exact"
    assert engine.encode("é") == shared_engine("exact").encode("é")
    with pytest.raises(InputError) as caught:
        load_engine("fast", shipped_tokens())
    assert caught.value.code is ErrorCode.VOCABULARY_MISSING_ENGINE


def test_an_engine_of_another_name_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        load_engine("quick", shipped_tokens())
    assert caught.value.code is ErrorCode.VOCABULARY_MISSING_ENGINE


# ── on its own ──────────────────────────────────────────────────────────────────────────────────────────────────────

PROGRAM = """
import sys

def refuse(event, arguments):
    if event.startswith(("socket.", "urllib.")):
        raise SystemExit(f"it asked the network: {event} {arguments}")

sys.addaudithook(refuse)

from harmonia.vocabulary import Vocabulary

vocabulary = Vocabulary()
print(vocabulary.encode("Hello, world"), sorted({"tiktoken", "gigatoken", "numpy"} & sys.modules.keys()))
print(vocabulary.encode("Γειά σου, κόσμε"), Vocabulary(engine="exact").encode("Γειά σου, κόσμε"))
"""


@pytest.mark.parametrize("names", [(), ("TIKTOKEN_ENCODINGS_BASE", "TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")])
def test_no_network_and_no_environment_variable_is_needed(
    names: tuple[str, ...], tmp_path: Path, published_tiktoken: OrdinaryEncoder
) -> None:
    environment = {name: str(tmp_path / "nowhere") for name in names} | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    hello, greek = map(published_tiktoken.encode_ordinary, ("Hello, world", "Γειά σου, κόσμε"))
    assert (done.stdout, done.stderr) == (f"{hello} []\n{greek} {greek}\n", "")
    assert list(tmp_path.iterdir()) == []
