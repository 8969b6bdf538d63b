"""What a parser holds back, and which message it reads, as those see it who look on."""

from __future__ import annotations

from hypothesis import given

import harmonia
from harmonia import Parser
from harmonia.events import MessageEnded
from harmonia.parser import FAULTS
from tests.support.strategies.streams import mutated_texts, mutated_tokens


def test_a_header_is_held_back_until_it_ends() -> None:
    parser = Parser()
    for text, pending, index in (
        ("<|start|>assis", "<|start|>assis", 0),
        ("tant<|channel|>fi", "<|start|>assistant<|channel|>fi", 0),
        ("nal<|message|>", "", 0),
        ("Four.", "", 0),
        ("<|e", "<|e", 0),
        ("nd|>", "", None),
        (" ", " ", None),
    ):
        parser.feed(text)
        assert (parser.pending, parser.message_index) == (pending, index)


def test_a_character_is_held_back_until_it_is_whole() -> None:
    parser = Parser()
    parser.feed("<|start|>user<|message|>")
    parser.feed("👋".encode()[:2])
    assert parser.pending == "\\xf0\\x9f"
    parser.feed("👋".encode()[2:])
    assert parser.pending == ""


def test_only_the_end_is_shown_of_what_is_long() -> None:
    parser = Parser()
    parser.feed("word " * 1000 + "end")
    assert len(parser.pending) == 200
    assert parser.pending.endswith("word end")
    for _ in range(50):
        parser.feed("more ")
    assert parser.pending.endswith("more more ")


@given(mutated_tokens())
def test_looking_changes_nothing_in_tokens(stream: tuple[list[int], str | None]) -> None:
    tokens, role = stream
    watched, parser = Parser(role), Parser(role)
    for token in tokens:
        assert watched.feed(token) == parser.feed(token)
        assert len(watched.pending) <= 200
        assert (watched.message_index is None) == (watched.state == "wait")
    assert watched.close() == parser.close()


@given(mutated_texts())
def test_what_is_held_back_is_the_end_of_what_was_read(stream: tuple[str, str | None]) -> None:
    text, role = stream
    text = text.encode(errors="replace").decode()
    parser = Parser(role)
    for end in range(1, len(text) + 1):
        parser.feed(text[end - 1])
        assert text[:end].endswith(parser.pending)


def test_the_index_is_that_of_the_message_that_comes() -> None:
    parser = Parser("assistant")
    indexes: list[int | None] = []
    for token in harmonia.encode("<|channel|>final<|message|>a<|end|><|start|>user<|message|>b<|end|>", special="all"):
        before = parser.message_index
        indexes += [
            event.index for event in parser.feed(token) if isinstance(event, MessageEnded) and before == event.index
        ]
    assert indexes == [0, 1]


def test_every_fault_says_what_it_means_in_a_sentence() -> None:
    for fault in FAULTS.values():
        assert fault.meaning.endswith("."), fault.code
        assert fault.meaning[0].isupper() or fault.meaning[0] == "`"
