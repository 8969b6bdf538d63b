"""The ordinary tokens: the published file, byte by byte, or an error."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.vocabulary import Vocabulary, ranks
from tests.vocabulary.texts import shipped_tokens


@pytest.fixture(scope="module")
def published_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("published") / "o200k_base.tiktoken"
    ranks.write_tiktoken_file(shipped_tokens(), path)
    return path


def hash_that_tiktoken_expects() -> str:
    from tiktoken_ext import openai_public

    expected: list[str] = []

    def note_hash(_url: str, *, expected_hash: str) -> dict[bytes, int]:
        expected.append(expected_hash)
        return {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openai_public, "load_tiktoken_bpe", note_hash)
        openai_public.o200k_base()
    return expected[0]


def test_the_shipped_tokens_are_the_published_file(published_file: Path) -> None:
    digest = hashlib.sha256(published_file.read_bytes()).hexdigest()
    assert digest == "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
    assert digest == hash_that_tiktoken_expects()
    assert digest == ranks.PUBLISHED_SHA256


def test_there_are_199_998_different_tokens_with_all_bytes_among_them() -> None:
    tokens = shipped_tokens()
    assert len(tokens) == len(set(tokens)) == ranks.TOKEN_COUNT == 199_998
    assert {bytes([byte]) for byte in range(256)} <= set(tokens)


def test_no_token_is_longer_than_the_long_runs_assume() -> None:
    assert max(map(len, shipped_tokens())) == 128


def test_the_shipped_file_is_compressed_and_packs_to_itself() -> None:
    shipped = Path(ranks.__file__).with_name("o200k.bin").read_bytes()
    packed = zlib.decompress(shipped)
    assert len(shipped) < 1_000_000 < len(packed)
    assert hashlib.sha256(packed).hexdigest() == ranks.PACKED_SHA256
    assert bytes(map(len, shipped_tokens())) + b"".join(shipped_tokens()) == packed


def test_a_file_of_the_users_gives_the_same_tokens(published_file: Path) -> None:
    assert ranks.read_tiktoken_file(published_file) == shipped_tokens()
    assert ranks.read_tiktoken_file(str(published_file)) == shipped_tokens()
    assert Vocabulary(file=published_file).encode("A file of mine.") == Vocabulary().encode("A file of mine.")


def flip_a_bit(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def swap_two_lines(data: bytes) -> bytes:
    first, second, rest = data.split(b"\n", 2)
    return b"\n".join((second, first, rest))


WRONG: list[Callable[[bytes], bytes]] = [
    flip_a_bit,
    swap_two_lines,
    lambda data: data[:-1],
    lambda data: data[: len(data) // 2],
    lambda data: data + b"\n",
    lambda data: data.replace(b"\n", b"\r\n"),
    lambda _data: b"",
    lambda _data: b"IQ== 0\n",
]


@pytest.mark.parametrize("damage", WRONG)
def test_a_file_with_other_bytes_is_refused(
    damage: Callable[[bytes], bytes], published_file: Path, tmp_path: Path
) -> None:
    path = tmp_path / "o200k_base.tiktoken"
    path.write_bytes(damage(published_file.read_bytes()))
    with pytest.raises(InputError) as caught:
        Vocabulary(file=path).encode("text")
    assert caught.value.code is ErrorCode.VOCABULARY_WRONG_FILE
    assert caught.value.at == Position(path=str(path))


@pytest.mark.parametrize("name", ["missing.tiktoken", ".", "a\0b"], ids=["missing", "directory", "impossible"])
def test_a_file_that_cannot_be_read_is_refused(name: str, tmp_path: Path) -> None:
    path = str(tmp_path / name)
    with pytest.raises(InputError) as caught:
        Vocabulary(file=path).decode([0])
    assert caught.value.code is ErrorCode.VOCABULARY_MISSING
    assert caught.value.at == Position(path=path)


def repack(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda data: zlib.compress(change(zlib.decompress(data)))


DAMAGED: dict[str, tuple[Callable[[bytes], bytes], ErrorCode]] = {
    "bit": (flip_a_bit, ErrorCode.VOCABULARY_MISSING),
    "truncated": (lambda data: data[:-1], ErrorCode.VOCABULARY_MISSING),
    "empty": (lambda _data: b"", ErrorCode.VOCABULARY_MISSING),
    "other": (lambda _data: b"a pointer to a large file", ErrorCode.VOCABULARY_MISSING),
    "repacked bit": (repack(flip_a_bit), ErrorCode.VOCABULARY_WRONG_FILE),
    "repacked half": (repack(lambda data: data[: len(data) // 2]), ErrorCode.VOCABULARY_WRONG_FILE),
    "repacked nothing": (repack(lambda _data: b""), ErrorCode.VOCABULARY_WRONG_FILE),
}


@pytest.mark.parametrize(("damage", "code"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_shipped_file_is_refused(
    damage: Callable[[bytes], bytes], code: ErrorCode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = Path(ranks.__file__).with_name("o200k.bin").read_bytes()
    (tmp_path / "o200k.bin").write_bytes(damage(shipped))
    monkeypatch.setattr(ranks, "__file__", str(tmp_path / "ranks.py"))
    with pytest.raises(InputError) as caught:
        Vocabulary().encode("text")
    assert caught.value.code is code


def test_a_missing_shipped_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "__file__", str(tmp_path / "ranks.py"))
    with pytest.raises(InputError) as caught:
        Vocabulary().encode("text")
    assert caught.value.code is ErrorCode.VOCABULARY_MISSING


def test_a_vocabulary_that_could_not_be_read_is_read_once_it_can(published_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "late.tiktoken"
    vocabulary = Vocabulary(file=path)
    with pytest.raises(InputError):
        vocabulary.encode("text")
    path.write_bytes(published_file.read_bytes())
    assert vocabulary.encode("text") == Vocabulary().encode("text")
