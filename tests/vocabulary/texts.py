"""Texts that tokenizers get wrong, and the engines to try them on. Everything random comes from a seed."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from random import Random
from typing import Protocol, cast

import pytest

from harmonia.vocabulary.ranks import read_shipped
from harmonia.vocabulary.tokenizers import Engine, load_engine

needs_fast = pytest.mark.skipif(find_spec("gigatoken") is None, reason="the extra `fast` is not installed")

ENGINE_NAMES = ("exact", pytest.param("fast", marks=needs_fast), "auto")


class OrdinaryEncoder(Protocol):
    """What the tests use of tiktoken."""

    def encode_ordinary(self, text: str) -> list[int]: ...
    def encode_single_piece(self, piece: bytes) -> list[int]: ...


@cache
def shipped_tokens() -> list[bytes]:
    return read_shipped()


@cache
def shared_engine(name: str) -> Engine:
    """One engine of each name for all tests of a process; engines have no state that a test could see."""
    return load_engine(name, shipped_tokens())


def core_with_pieces(pieces: str, tokens: list[bytes]) -> OrdinaryEncoder:
    from tiktoken._tiktoken import CoreBPE  # pyright: ignore[reportUnknownVariableType] -- it ships without types

    return cast(OrdinaryEncoder, CoreBPE(dict(zip(tokens, range(len(tokens)), strict=True)), {}, pieces))


@cache
def published_pieces() -> str:
    """The expression that o200k was published with; it stands in a function that would also load a vocabulary."""
    from tiktoken_ext import openai_public

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openai_public, "load_tiktoken_bpe", lambda *_arguments, **_options: {})  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] -- it ships without types
        return cast(str, openai_public.o200k_base()["pat_str"])


class OnePiece:
    """Says of some strings whether the published expression takes each as one piece.

    tiktoken looks a whole piece up before it merges anything. So in a vocabulary of all bytes and these strings, a
    string that is one piece is one token, and a string that falls into several pieces cannot be.
    """

    def __init__(self, strings: list[str]) -> None:
        several = {text.encode() for text in strings if len(text.encode()) > 1}
        self._core = core_with_pieces(published_pieces(), [bytes([byte]) for byte in range(256)] + sorted(several))

    def takes(self, text: str) -> bool:
        return len(self._core.encode_ordinary(text)) == 1


# ── every code point ────────────────────────────────────────────────────────────────────────────────────────────────

BLOCK = 0x8000
BLOCKS = [range(start, start + BLOCK) for start in range(0, 0x110000, BLOCK)]
block_ids = "U+{0.start:04X}".format

# Each shows another trait of a character: letter (of which case), mark, numeral, sign, white space, line break.
SURROUNDINGS = (
    "{0}0",
    "{0}{0}{0}0",
    "a{0}a0",
    "A{0}a0",
    "a{0}A0",
    "あ{0}Ab0",
    " {0}a0",
    "!{0}!0",
    "1{0}2",
    "it'{0}0",
    "{0}'s0",
    "  {0} 0",
    "\r\n{0}/0",
    "e\u0301{0}\u03010",
)


def characters(code_points: range) -> list[str]:
    """Those of the code points that are characters: surrogates are not."""
    return [chr(point) for point in code_points if not 0xD800 <= point < 0xE000]


# ── fuzz ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_ODD_CHARACTERS = (
    "'sStTrReEvVmMlLdDaAbBzZ0123456789/!.,-_ \t\n\r\v\f\x00\x1b\x1c\x1d\x1e\x1f\x7f\x85\xa0"
    "\u1680\u2003\u2028\u2029\u3000\u200b\u200c\u200d\u2060\ufeff\ufe0f\ufffd\u017f\u212a\u0130\u0131ßẞéÉёЁǅʰªº\u0301\u0300\u0345\u093e\u0e31あ你一ก①²½٣Ⅷ"
    "😀🏽👩🇩"
    # assigned in Unicode 15, 15.1, 16 and 17
    "\u0cf3\U00011f04\U00031350\u2ffc\u31ef\U0002ebf0\u1c89\ua7da\U00010d4e\U000105c0\ua7ce\u088f\U00010940\U000323b0"
    # a private one, one that is not assigned, the last one
    "\ue000\u0378\U0010ffff"
)
_ODD_STRINGS = (
    *("'s", "'S", "'ſ", "'LL", "'ll", "'Ve", "'re", "n't", "don't", "DON'T", "I'M", "''s"),
    *("  ", "\n\n", "\r\n", " \n ", "\t\t"),
    *("//", "/\n", "!\n/", "\n/", "...\r\n", "👨‍👩‍👧", "🏳️‍🌈", "e\u0301", "<|end|>", "<|start|>"),
    *("ABCdef", "camelCase", "HTTPServer", "1234567"),
    *("Straße", "ΑΣ", "привет", "مرحبا", "नमस्ते", "สวัสดี", "こんにちは", "漢字", "한국어"),
)  # fmt: skip


@cache
def _characters_by_category() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for character in characters(range(0x110000)):
        found.setdefault(unicodedata.category(character), []).append(character)
    return found


def odd_text(random: Random) -> str:
    length = random.randint(0, 40)
    match random.randrange(10):
        case 0 | 1 | 2:
            return "".join(random.choices(_ODD_CHARACTERS, k=length))
        case 3 | 4:
            return "".join(random.choices((*_ODD_CHARACTERS, *_ODD_STRINGS), k=length))
        case 5 | 6:
            by_category = _characters_by_category()
            categories = random.sample(sorted(by_category), random.randint(1, 5))
            pool = [random.choice(by_category[category]) for category in categories for _ in range(4)]
            return "".join(random.choices([*pool, *random.sample(_ODD_CHARACTERS, 5)], k=length))
        case 7:
            below, above = (0, 0xD800), (0xE000, 0x110000)
            return "".join(chr(random.randrange(*random.choice((below, above)))) for _ in range(length))
        case 8:
            few = random.choices(_ODD_CHARACTERS, k=random.randint(1, 6))
            return "".join(character * random.randint(1, random.choice((3, 30, 200))) for character in few)
        case _:
            return "".join(random.choices(random.sample(_ODD_CHARACTERS, 3), k=random.choice((50, 500))))


def odd_texts(seed: int, count: int) -> Iterator[str]:
    random = Random(seed)
    return (odd_text(random) for _ in range(count))


def odd_ascii_texts(seed: int, count: int) -> Iterator[str]:
    """ASCII only, with pieces short enough for the tokenizer in plain Python."""
    random = Random(seed)
    odd = [character for character in _ODD_CHARACTERS if character.isascii()]
    strings = [string for string in _ODD_STRINGS if string.isascii()]
    everything = [chr(code) for code in range(128)]
    for _ in range(count):
        pool = random.choice((odd, odd + strings, everything, random.sample(everything, 4)))
        yield "".join(random.choices(pool, k=random.randint(0, 30)))
