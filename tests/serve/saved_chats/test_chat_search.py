"""Words are found where people see them, and nowhere else."""

from __future__ import annotations

import unicodedata
from typing import Any

import msgspec
import pytest

from harmonia.errors import ErrorCode, InputError
from harmonia.serve.saved_chats.search import look_for, visible_texts, words_of
from harmonia.serve.store.base import Excerpt, StoredChatTurn
from tests.support.strategies.stored_chats import a_chat, a_turn, answered, said

Json = dict[str, Any]


def find(query: str, *items: Json, title: str = "") -> Excerpt | None:
    """In a chat that has each item in a turn of its own."""
    turns = [
        StoredChatTurn(f"turn_{at}", None, msgspec.json.encode(a_turn(f"turn_{at}", None, item)))
        for at, item in enumerate(items)
    ]
    return look_for(words_of(query))(a_chat(title=title), turns)


SEEN: list[Json] = [
    said("needle"),
    {"type": "message", "role": "user", "content": "needle"},
    answered("needle"),
    {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "needle"}]},
    {"type": "message", "role": "user", "content": [{"type": "input_file", "filename": "needle.txt", "file_data": ""}]},
    {"type": "function_call", "name": "needle", "call_id": "c", "arguments": "{}"},
    {"type": "function_call", "name": "f", "call_id": "c", "arguments": '{"x":"needle"}'},
    {"type": "function_call_output", "call_id": "c", "output": "needle"},
    {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "needle"}]},
    {"type": "mcp_call", "name": "f", "server_label": "needle", "arguments": "{}"},
    {"type": "mcp_call", "name": "f", "server_label": "s", "arguments": "{}", "error": {"message": "needle"}},
    {"type": "mcp_approval_request", "name": "f", "server_label": "s", "arguments": "needle"},
    {"type": "mcp_approval_response", "approval_request_id": "a", "approve": False, "reason": "needle"},
    {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True, "harmonia_output": "needle"},
]
UNSEEN: list[Json] = [
    {"type": "reasoning", "summary": [], "encrypted_content": "needle"},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "needle"}]},
    {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "needle"}]},
    {"type": "harmonia:reasoning", "content": [{"type": "reasoning_text", "text": "needle"}]},
    {"type": "mcp_list_tools", "server_label": "needle", "tools": [{"name": "needle", "description": "needle"}]},
    {**answered("x"), "encrypted_content": "needle", "id": "needle"},
    {"type": "message", "role": "user", "content": [{"type": "input_file", "filename": "x", "file_data": "needle"}]},
]


@pytest.mark.parametrize("item", SEEN, ids=lambda item: item["type"])
def test_what_people_see_is_found(item: Json) -> None:
    found = find("NEEDLE", said("first"), item)
    assert found is not None and found.turn == "turn_1" and "needle" in found.text


@pytest.mark.parametrize("item", UNSEEN, ids=lambda item: item["type"])
def test_what_is_hidden_is_not_found(item: Json) -> None:
    assert find("needle", item) is None
    assert "needle" not in "".join(visible_texts({"items": [item]}))


def test_all_words_have_to_be_in_the_chat() -> None:
    assert find("green tea", said("tea"), answered("it is green")) is not None
    assert find("green tea", said("tea"), answered("it is black")) is None
    assert find("green tea", answered("it is green"), title="Tea") is not None
    found = find("green tea leaves", said("tea"), answered("green leaves"), said("green"))
    assert found is not None and found.turn == "turn_1"


def test_a_title_with_all_words_is_found_without_looking_further() -> None:
    assert find("tea GREEN", said("green tea"), title="Green Tea") == Excerpt(None, "Green Tea")


@pytest.mark.parametrize(
    ("query", "text"), [("straße", "STRASSE"), ("CAFÉ", "cafe\u0301"), ("ÉTÉ", "été"), ("weiß", "WEISS"), ("ﬁn", "FIN")]
)
def test_case_and_ways_of_writing_do_not_matter(query: str, text: str) -> None:
    assert find(query, said(f"ßß {text} x")) is not None


@pytest.mark.parametrize("query", ['say "hi"', "a\\b", "\tx", "fi", "k", "ss", "é"])
@pytest.mark.parametrize(
    "text", ['I say "hi"', "the a\\b", "x\ty", "\ufb01sh", "\u212a", "stra\u00dfe", "caf\u00e9", "café fi"]
)
def test_the_shortcut_for_plain_turns_changes_nothing(query: str, text: str) -> None:
    folded = unicodedata.normalize("NFC", text).casefold()
    expected = all(word in folded for word in query.casefold().split())
    assert (find(query, said(text)) is not None) == expected


def test_an_excerpt_is_short_around_the_word_and_on_one_line() -> None:
    found = find("needle", said("ß" * 1000 + "\n\nthe\x1b needle\n" + "y" * 1000))
    assert found is not None
    assert found.text.startswith("… ") and found.text.endswith(" …") and len(found.text) < 170
    assert "the needle y" in found.text
    assert find("needle", said("a needle")) == Excerpt("turn_0", "a needle")


def test_queries_have_limits() -> None:
    assert words_of("  Tea\n tea TEA green ") == ["tea", "green"]
    for wrong in ("x" * 201, " ".join("abcdefghijklmnopq")):
        with pytest.raises(InputError) as caught:
            words_of(wrong)
        assert (caught.value.code, caught.value.at.path) == (ErrorCode.SERVE_INVALID_FIELD, "$.query")


def test_marks_without_end_behind_a_letter_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    marks = "\u0301\u0316"
    longest = 0
    normalize = unicodedata.normalize

    def watched(form: Any, text: str) -> str:
        nonlocal longest
        run = 0
        for character in text:
            run = run + 1 if unicodedata.combining(character) else 0
            longest = max(longest, run)
        return normalize(form, text)

    monkeypatch.setattr(unicodedata, "normalize", watched)
    # To sort them takes the square of their number: of these, minutes in which no other thread runs.
    found = find("needle cafe\u0301", said(f"cafe\u0301 e{marks * 100_000} needle"))
    assert found is not None and longest < 64


def test_the_place_of_a_word_is_found_behind_much_that_folds_into_more() -> None:
    for before in (0, 1, 4095, 4096, 4097, 9000):
        found = find("needle", said("ß" * before + "ﬃ the needle"))
        assert found is not None and found.text.endswith("the needle")
