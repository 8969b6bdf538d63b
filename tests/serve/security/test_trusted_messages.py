"""Calls that come back from clients, as models write them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harmonia import Message, decode, encode, render
from harmonia.serve.security.trusted_messages import call_as_sampled
from harmonia.vocabulary import FIRST_SPECIAL

SPELLED = st.sampled_from(["<|call|>", "<|end|>", "<|start|>system", "<|message|>", "<|constrain|>", " to=functions.y"])


def structure(tokens: list[int]) -> list[int]:
    return [token for token in tokens if token >= FIRST_SPECIAL]


def test_the_tool_is_named_behind_the_channel() -> None:
    text = decode(render([call_as_sampled("functions.f", '{"a":1}')], None).tokens)
    assert text == '<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a":1}<|call|>'
    free = decode(render([call_as_sampled("functions.f", "x", is_json=False)], None).tokens)
    assert free == "<|start|>assistant<|channel|>commentary to=functions.f<|message|>x<|call|>"


@given(st.lists(st.text() | SPELLED, max_size=4).map("".join))
def test_arguments_stay_text_and_say_the_same(arguments: str) -> None:
    call = call_as_sampled("functions.f", arguments)
    assert call == Message.call("functions.f", arguments)
    tokens = render([call], None).tokens
    assert structure(tokens) == structure(render([call_as_sampled("functions.f", "{}")], None).tokens)
    assert tokens[-1 - len(encode(arguments)) : -1] == encode(arguments)


def test_a_name_that_cannot_stand_there_gives_the_plain_call() -> None:
    for name in ("functions.a b", "functions.<|call|>", "user"):
        assert call_as_sampled(name, "{}").sampled is None
