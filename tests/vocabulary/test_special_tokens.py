"""The special tokens: as the reference names them, and found in text."""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia import vocabulary
from harmonia.vocabulary.codec import (
    END_OF_PROMPT,
    FIRST_SPECIAL,
    ID_BY_SPELLING,
    SPELLING_BY_ID,
    VOCABULARY_SIZE,
    find_spellings,
)
from tests.support.oracle_cases import compared

if TYPE_CHECKING:
    from openai_harmony import HarmonyEncoding


@pytest.mark.parametrize(
    ("token", "expected_id", "spelling"),
    [
        (vocabulary.START_OF_TEXT, 199998, "<|startoftext|>"),
        (vocabulary.END_OF_TEXT, 199999, "<|endoftext|>"),
        (vocabulary.RETURN, 200002, "<|return|>"),
        (vocabulary.CONSTRAIN, 200003, "<|constrain|>"),
        (vocabulary.CHANNEL, 200005, "<|channel|>"),
        (vocabulary.START, 200006, "<|start|>"),
        (vocabulary.END, 200007, "<|end|>"),
        (vocabulary.MESSAGE, 200008, "<|message|>"),
        (vocabulary.CALL, 200012, "<|call|>"),
        (END_OF_PROMPT, 200018, "<|endofprompt|>"),
    ],
)
def test_the_named_tokens_have_the_published_ids(token: int, expected_id: int, spelling: str) -> None:
    assert token == expected_id
    assert ID_BY_SPELLING[spelling] == expected_id


def test_every_special_id_has_the_name_that_the_reference_gives_it(reference_encoding: HarmonyEncoding) -> None:
    assert list(SPELLING_BY_ID) == list(range(199998, 201088))
    assert (FIRST_SPECIAL, VOCABULARY_SIZE) == (199998, 201088)
    for token, spelling in SPELLING_BY_ID.items():
        assert reference_encoding.decode([token]) == spelling
        assert reference_encoding.encode(spelling, allowed_special="all") == [token]
        assert reference_encoding.is_special_token(token)
    # The reference counts one id more, which the model has no row for.
    assert reference_encoding.special_tokens_set - ID_BY_SPELLING.keys() == {"<|reserved_201088|>"}
    compared("special tokens and the reference", len(SPELLING_BY_ID))


def test_one_id_has_two_spellings_and_no_spelling_has_two_ids() -> None:
    assert {spelling: ID_BY_SPELLING[spelling] for spelling in SPELLING_BY_ID.values()} == {
        spelling: token for token, spelling in SPELLING_BY_ID.items()
    }
    assert ID_BY_SPELLING.keys() - set(SPELLING_BY_ID.values()) == {"<|endofprompt|>"}
    assert SPELLING_BY_ID[200018] == "<|reserved_200018|>"
    assert ID_BY_SPELLING["<|endofprompt|>"] == ID_BY_SPELLING["<|reserved_200018|>"] == 200018


def slowly_found_spellings(text: str) -> list[tuple[int, str]]:
    """At each place, ask of every spelling whether it stands there."""
    found: list[tuple[int, str]] = []
    position = 0
    while position < len(text):
        here = [spelling for spelling in ID_BY_SPELLING if text.startswith(spelling, position)]
        if here:
            found.append((position, here[0]))
        position += len(here[0]) if here else 1
    return found


FRAGMENTS = (
    *("<", "|", ">", "<|", "|>", "<<|", "||>"),
    *("end", "END", "start", "reserved_", "reserved_200018", "endofprompt", "x", " ", "\n"),
    *("<|end|>", "<|start|>", "<|END|>", "<|end |>"),
    *("<|reserved_200000|>", "<|reserved_201087|>", "<|reserved_201088|>"),
    *("<|reserved_0200000|>", "<|reserved_٢00000|>", "<|endofprompt|>", "<|ёnd|>", "<｜end｜>"),
)  # fmt: skip


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join))
def test_spellings_are_found_like_the_slow_twin_finds_them(text: str) -> None:
    assert find_spellings(text) == slowly_found_spellings(text)


def test_every_spelling_is_found_between_others() -> None:
    spellings = list(ID_BY_SPELLING)
    Random(1).shuffle(spellings)
    text = "<|".join(spellings)
    assert [spelling for _, spelling in find_spellings(text)] == spellings
    assert all(text.startswith(spelling, offset) for offset, spelling in find_spellings(text))


def test_no_spelling_can_overlap_another() -> None:
    assert all(re.fullmatch(r"<\|[^<|>]+\|>", spelling) for spelling in ID_BY_SPELLING)
