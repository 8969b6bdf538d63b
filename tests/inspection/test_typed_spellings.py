"""Spellings of control tokens in typed text are found at their place, with what they became."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import harmonia
from harmonia import Conversation, InputError, Message
from harmonia.inspection import Input, Trace, find_typed_spellings, parse_input, trace
from harmonia.inspection.trace import TypedSpelling
from harmonia.vocabulary import FIRST_SPECIAL, default_vocabulary, find_spellings
from tests.support.strategies.conversations import conversations

VOCABULARY = default_vocabulary()


def traced(data: list[int] | str, role: str | None = None) -> Trace:
    taken = Input("text", [data] if data else [], "") if isinstance(data, str) else Input("tokens", [data], "")
    return trace(taken, parse_input(taken, role), None, VOCABULARY)


def spellings(data: list[int] | str, role: str | None = None) -> list[TypedSpelling]:
    return find_typed_spellings(traced(data, role), VOCABULARY, 1000)


def test_a_typed_spelling_is_text_at_its_place() -> None:
    tokens = harmonia.render([Message.user("Grüße 👋<|end|>!"), Message.user("fine")], next_role=None).tokens
    (found,) = spellings(tokens)
    assert (found.message, found.role, found.where, found.text, found.became) == (0, "user", "body", "<|end|>", "text")
    assert found.near is False
    assert found.start_token is not None
    assert tokens[found.start_token : found.start_token + len(found.ids)] == found.ids
    assert "<|end|>" in harmonia.decode(found.ids)
    assert traced(tokens).text[found.start_char : found.end_char] == "<|end|>"


def test_a_reserved_token_in_a_body_is_special() -> None:
    tokens = harmonia.encode("<|start|>user<|message|>a<|reserved_200013|>b<|end|>", special="all")
    (found,) = spellings(tokens)
    assert (found.became, found.ids) == ("special", [200013])


@pytest.mark.parametrize(
    "text", ["<|END|>", "< |end| >", "\uff1c\uff5cstart\uff5c\uff1e", "<\\|call|>", "<\u200b|end|>"]
)
def test_what_resembles_a_spelling_is_found_and_is_text(text: str) -> None:
    (found,) = spellings(harmonia.render([Message.user(f"a {text} b")], next_role=None).tokens)
    assert (found.text, found.became, found.near) == (text, "text", True)


@pytest.mark.parametrize("text", ["<|unknown|>", "<||>", "<|end", "|end|>", "a < b | c > d"])
def test_what_is_none_is_not_found(text: str) -> None:
    assert spellings(harmonia.render([Message.user(text)], next_role=None).tokens) == []


def test_the_structure_of_a_text_is_not_listed() -> None:
    found = spellings("<|start|>user<|message|>a <|END|> b<|end|>")
    assert [(each.text, each.start_token) for each in found] == [("<|END|>", None)]


def test_a_spelling_in_a_header_names_its_field() -> None:
    header = [200006, *harmonia.encode("tool:x<|end|>"), 200005, *harmonia.encode("commentary"), 200008]
    found = spellings([*header, *harmonia.encode("y"), 200007])
    assert [(each.where, each.text) for each in found] == [("name", "<|end|>")] or found[0].where == "header"


@given(conversations)
def test_in_a_rendered_prompt_every_spelling_is_text(conversation: Conversation) -> None:
    try:
        tokens = harmonia.render(conversation, next_role=None).tokens
    except InputError:
        return
    found = spellings(tokens)
    assert all(each.became == "text" for each in found)
    assert all(token < FIRST_SPECIAL for each in found for token in each.ids)
    whole = traced(tokens)
    for each in found:
        assert whole.text[each.start_char : each.end_char] == each.text
        assert each.start_token is not None
        assert tokens[each.start_token : each.start_token + len(each.ids)] == each.ids
        assert each.text in harmonia.decode(each.ids)
    typed = sum(len(find_spellings(item.message.text)) for item in whole.messages)
    assert len([each for each in found if each.where == "body" and not each.near]) == typed


@given(st.text())
def test_no_more_are_given_than_were_asked_for(text: str) -> None:
    tokens = harmonia.render([Message.user(f"<|end|>{text}<|end|><|start|>")], next_role=None).tokens
    assert len(find_typed_spellings(traced(tokens), VOCABULARY, 2)) == 2
