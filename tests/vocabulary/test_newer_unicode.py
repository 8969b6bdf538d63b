"""The characters on which the two tokenizers differ: exactly those, asked of both about every code point."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Protocol

import pytest

from harmonia.vocabulary.ranks import write_tiktoken_file
from harmonia.vocabulary.tokenizers import GIGATOKEN_VERSION, RANGES, has_newer_characters
from tests.support.oracle_cases import compared
from tests.vocabulary.texts import (
    BLOCKS,
    SURROUNDINGS,
    OrdinaryEncoder,
    block_ids,
    characters,
    needs_fast,
    shipped_tokens,
)

NEWER = {chr(point) for first, last in RANGES for point in range(first, last + 1)}


class _Tokens(Protocol):
    def tolist(self) -> list[int]: ...


class Gigatoken(Protocol):
    def encode(self, input: str) -> _Tokens: ...


@pytest.fixture(scope="module")
def gigatoken(tmp_path_factory: pytest.TempPathFactory) -> Gigatoken:
    from gigatoken.gigatoken_rs import BPETokenizer

    path: Path = tmp_path_factory.mktemp("gigatoken") / "o200k_base.tiktoken"
    write_tiktoken_file(shipped_tokens(), path)
    return BPETokenizer.from_tiktoken(path, "o200k", {})


@needs_fast
def test_the_ranges_were_measured_for_the_installed_gigatoken() -> None:
    from importlib.metadata import version

    assert version("gigatoken") == GIGATOKEN_VERSION


@needs_fast
def test_the_tokenizers_differ_on_each_of_them(published_tiktoken: OrdinaryEncoder, gigatoken: Gigatoken) -> None:
    def differ(text: str) -> bool:
        return gigatoken.encode(text).tolist() != published_tiktoken.encode_ordinary(text)

    alike = [
        hex(ord(character))
        for character in sorted(NEWER)
        if not any(differ(surrounding.format(character)) for surrounding in SURROUNDINGS)
    ]
    assert alike == []
    print(f"{len(NEWER):,} characters on which gigatoken and tiktoken differ")


@needs_fast
@pytest.mark.exhaustive
@pytest.mark.parametrize("block", BLOCKS, ids=block_ids)
def test_the_tokenizers_agree_on_all_others(
    block: range, published_tiktoken: OrdinaryEncoder, gigatoken: Gigatoken
) -> None:
    others = [character for character in characters(block) if character not in NEWER]
    for surrounding in SURROUNDINGS:
        text = "".join(map(surrounding.format, others))
        assert gigatoken.encode(text).tolist() == published_tiktoken.encode_ordinary(text), surrounding
    compared("characters in their surroundings, in gigatoken and tiktoken", len(others) * len(SURROUNDINGS))


def test_the_ranges_are_sorted_and_apart() -> None:
    bounds = [bound for first, last in RANGES for bound in (first, last + 1)]
    assert bounds == sorted(bounds)
    assert all(RANGES[at][1] + 1 < RANGES[at + 1][0] for at in range(len(RANGES) - 1))


def test_each_of_them_is_found_wherever_it_stands() -> None:
    for character in NEWER:
        assert has_newer_characters(character)
        assert has_newer_characters(f"naïve 😀{character}あ")


def test_common_scripts_are_not_taken_for_them() -> None:
    latin_to_arabic, devanagari_to_telugu, thai = range(0x20, 0x700), range(0x900, 0xC00), range(0xE00, 0xE80)
    signs, east_asian, hangul = range(0x2000, 0x2C00), range(0x3000, 0xA000), range(0xAC00, 0xD7A4)
    emoji, rare_han = range(0x1F300, 0x1FB00), range(0x20000, 0x2A6E0)
    for block in (latin_to_arabic, devanagari_to_telugu, thai, signs, east_asian, hangul, emoji, rare_han):
        assert not has_newer_characters("".join(map(chr, block)))
    assert not has_newer_characters("")


def test_lone_surrogates_are_left_for_the_engine_to_refuse() -> None:
    assert not has_newer_characters("a\ud800b\udfff")
    assert has_newer_characters("\ud800" + Random(1).choice(sorted(NEWER)))
