"""Ids found again from text: the law is that they spell it, and that there are as many as were missing."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from harmonia.run.engines.llama_cpp import MAX_MISSING, restore_tokens
from harmonia.vocabulary import CALL, END, decode_bytes, default_vocabulary, encode

# Characters of three and four bytes, most of which are several tokens.
CHARACTERS = st.sampled_from("🫠🏳👩‍👧𓀀𓀁𝒳漢ꦏ༼⿰")


def one_by_one(text: str) -> list[int]:
    """The text as the tokens of its single bytes: never what the tokenizer would choose."""
    by_bytes = {data: token for token, data in enumerate(default_vocabulary().token_bytes[:256])}
    return [by_bytes[bytes([byte])] for byte in text.encode()]


@given(st.text(CHARACTERS, min_size=1, max_size=1), st.booleans(), st.booleans())
@example("🫠", True, True)
def test_what_was_held_back_is_found(text: str, is_usual: bool, is_counted: bool) -> None:
    tokens = encode(text) if is_usual else one_by_one(text)
    *held_back, last = tokens
    found, is_exact = restore_tokens(text, last, len(held_back) if is_counted else None)
    assert is_exact and decode_bytes([*found, last]) == text.encode()
    if is_counted:
        assert len(found) == len(held_back)
    if is_usual or (is_counted and len(tokens) == len(text.encode())):
        assert found == held_back


@given(st.text(), st.integers(0, 199_997), st.integers(1, 3 * MAX_MISSING) | st.none())
def test_any_text_and_token_give_tokens_of_that_text(text: str, last: int, missing: int | None) -> None:
    found, is_exact = restore_tokens(text, last, missing)
    assert all(0 <= token < 199_998 for token in found)  # never a special token
    if is_exact:
        assert decode_bytes([*found, last]) == text.encode()


def test_a_special_token_may_come_with_its_spelling_or_without() -> None:
    assert restore_tokens("<|end|>", END, 1) == ([], True)
    found, is_exact = restore_tokens("\ufffd<|call|>", CALL, 1)
    assert not is_exact and decode_bytes(found) == "\ufffd".encode()
    found, is_exact = restore_tokens("\ufffd", CALL, 1)
    assert not is_exact and decode_bytes(found) == "\ufffd".encode()
