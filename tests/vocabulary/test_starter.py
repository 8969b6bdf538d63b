"""The tokenizer in plain Python: exact on ASCII, and it knows when to stop."""

from __future__ import annotations

import pytest

from harmonia.vocabulary import tokenizers
from harmonia.vocabulary.tokenizers import WORK_LIMIT, Starter
from tests.support.oracle_cases import compared
from tests.vocabulary.texts import OrdinaryEncoder, odd_ascii_texts, shipped_tokens

COUNT = 20_000


def test_ascii_is_encoded_as_tiktoken_does_it(
    published_tiktoken: OrdinaryEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizers, "WORK_LIMIT", 1 << 60)
    tireless = Starter(shipped_tokens())
    left_over = 0
    for text in odd_ascii_texts(1, COUNT):
        tokens = tireless.encode(text)
        left_over += tokens is None
        assert tokens is None or tokens == published_tiktoken.encode_ordinary(text), ascii(text)
    assert left_over < COUNT // 10
    compared("ASCII texts in plain Python and tiktoken", COUNT - left_over)


def test_every_pair_of_ascii_characters_is_encoded_in_three_surroundings(
    published_tiktoken: OrdinaryEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizers, "WORK_LIMIT", 1 << 60)
    tireless = Starter(shipped_tokens())
    ascii_characters = [chr(code) for code in range(128)]
    texts = [
        surrounding.format(left + right)
        for left in ascii_characters
        for right in ascii_characters
        for surrounding in ("{}", "a{}Ab", " {} 1")
    ]
    for text in texts:
        assert tireless.encode(text) == published_tiktoken.encode_ordinary(text), ascii(text)
    compared("ASCII texts in plain Python and tiktoken", len(texts))


def test_it_says_none_once_its_work_is_done(published_tiktoken: OrdinaryEncoder) -> None:
    text = "one hundred characters, which is a text that a person might have typed in, wrapped at a hundred....\n"
    assert len(text) == 100
    tired = Starter(shipped_tokens())
    for _ in range(WORK_LIMIT // 100):
        assert tired.encode(text) == published_tiktoken.encode_ordinary(text)
    assert tired.encode(text) is None
    assert tired.encode("a") is None


def test_it_says_none_to_a_text_longer_than_its_work() -> None:
    assert Starter(shipped_tokens()).encode("a b " * WORK_LIMIT) is None


@pytest.mark.parametrize("text", ["é", "plain and é", "\x80", "\u2028", "😀", "\ud800"])
def test_it_says_none_to_anything_but_ascii(text: str) -> None:
    assert Starter(shipped_tokens()).encode(text) is None


def test_it_says_none_to_a_long_piece_that_is_no_token(published_tiktoken: OrdinaryEncoder) -> None:
    fresh = Starter(shipped_tokens())
    assert fresh.encode("ab" * 33) is None
    assert fresh.encode("ab" * 32) == published_tiktoken.encode_ordinary("ab" * 32)


def test_a_long_piece_that_is_a_token_is_found() -> None:
    longest = max(shipped_tokens(), key=len)
    assert Starter(shipped_tokens()).encode(longest.decode()) == [shipped_tokens().index(longest)]


def test_no_text_has_no_tokens() -> None:
    assert Starter(shipped_tokens()).encode("") == []
