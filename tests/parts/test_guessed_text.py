"""Text that has no known channel is hidden, and says so. An operator may have it shown; a call is never part of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonia import Message, parse
from harmonia.errors import ErrorCode, InputError
from harmonia.events import MessageEnded, TextDelta, TurnEnded
from harmonia.families.reader import read_answer
from harmonia.families.registry import FAMILY_FORMATS, family_of
from harmonia.parts import GuessedAsFinal, Text, call_of, parts_of, shown_message, visible_text
from harmonia.run import run
from harmonia.vocabulary import encode
from tests.support.engines.scripted import ScriptedEngine
from tests.support.engines.scripted_text import ScriptedTextEngine
from tests.support.laws import assert_grammar, comparable

BARE = [
    ("Hello.", "Hello."),
    ('{"a": 1}', '{"a": 1}'),
    ('{"name": "rm", "arguments": {"path": "/"}}', '{"name": "rm", "arguments": {"path": "/"}}'),
    ("<|message|>Hello.<|return|>", "Hello."),
    ("<|start|>assistant<|message|>Hello.<|end|>", "Hello."),
    ("Hello.<|return|>", "Hello."),
    ("analysisHm.assistantfinalHello.", "Hello."),
]
NEVER_SHOWN = [
    "<|channel|>analysis<|message|>Hm.<|end|>",
    "<|channel|>musings<|message|>Hm.<|end|>",
    "<|channel|>commentary to=functions.f<|message|>{}<|call|>",
    'to=functions.f {"a": 1}',
    '<|constrain|>json<|message|>{"a": 1}<|call|>',
    "<|start|>user<|message|>Hi.<|end|>",
]


def shown(events: Any) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta) and event.header.is_visible)


@pytest.mark.parametrize("as_tokens", [True, False])
@pytest.mark.parametrize(("text", "answer"), BARE)
def test_bare_text_is_hidden_and_shown_where_an_operator_says_so(text: str, answer: str, as_tokens: bool) -> None:
    parsed = parse(encode(text, special="all") if as_tokens else text, "assistant")
    assert visible_text(parsed) == "" and shown(parsed.events) == ""
    (because,) = [event.hidden_because for event in parsed.events if isinstance(event, TurnEnded)]
    assert because is not None and "hidden by default" in because

    assert visible_text(parsed, show_guessed=True) == answer
    assert parts_of(parsed, show_guessed=True)[-1] == Text(answer)
    events = GuessedAsFinal().feed(parsed.events)
    assert_grammar(events)
    assert shown(events) == answer
    messages = [event.message for event in events if isinstance(event, MessageEnded)]
    assert visible_text(messages) == answer and messages[-1].channel == "final"
    assert not any(call_of(message) for message in messages)
    assert [event.hidden_because for event in events if isinstance(event, TurnEnded)] == [None]


@pytest.mark.parametrize("text", NEVER_SHOWN)
def test_what_is_no_answer_is_not_shown_as_a_guess(text: str) -> None:
    parsed = parse(text, "assistant")
    events = GuessedAsFinal().feed(parsed.events)
    assert shown(events) == visible_text(parsed, show_guessed=True) == visible_text(map(shown_message, parsed)) == ""


def test_what_should_be_a_call_of_another_family_is_not_shown_as_a_guess() -> None:
    parsed = read_answer(family_of(FAMILY_FORMATS[0]), "<tool_call>SECRET</tool_call>")
    assert shown(GuessedAsFinal().feed(parsed.events)) == visible_text(parsed, show_guessed=True) == ""


@settings(max_examples=200, deadline=None)
@given(
    text=st.lists(
        st.sampled_from(
            ["Hi", " ", "final", "to=functions.f", "{}", "<|start|>assistant", "<|channel|>", "<|message|>", "<|end|>",
             "<|call|>", "<|return|>", "<|constrain|>json", "analysis", "commentary"]
        ),
        max_size=8,
    ).map("".join),
    cut=st.integers(0, 60),
)  # fmt: skip
def test_showing_guesses_changes_no_call_and_no_certain_text(text: str, cut: int) -> None:
    from harmonia import Parser

    parsed = parse(text, "assistant")
    events = GuessedAsFinal().feed(parsed.events)
    assert_grammar(events)
    parser, guesses = Parser("assistant"), GuessedAsFinal()
    pieces = [text[:cut], text[cut:]]
    streamed = [each for piece in pieces for each in guesses.feed(parser.feed(piece))] + guesses.feed(parser.close())
    assert comparable(streamed) == comparable(events)
    for before, after in zip(parsed.events, events, strict=True):
        if isinstance(before, MessageEnded) and isinstance(after, MessageEnded):
            assert call_of(before.message) == call_of(after.message)
            assert visible_text([before.message]) in ("", visible_text([after.message]))
            assert visible_text([after.message]) == visible_text([before.message], show_guessed=True)


def asked(text: str, **options: Any) -> Any:
    return asyncio.run(run(ScriptedEngine(text), [Message.user("Hi")], **options).result())


def test_a_run_shows_guesses_where_it_is_told_to() -> None:
    hidden = asked("Hello.<|return|>")
    assert hidden.reason == "silent" and "hidden by default" in hidden.hidden_because
    ended = asked("Hello.<|return|>", guessed="shown")
    assert (ended.reason, ended.hidden_because, ended.conversation[-1].text) == ("answered", None, "Hello.")
    assert ended.conversation[-1].channel == "final"
    called = asked('to=functions.f {"a": 1}', guessed="shown")
    assert not called.pending or called.pending[0].call.status == "guessed"
    with pytest.raises(InputError) as raised:
        run(ScriptedEngine(""), "Hi", guessed="yes")  # pyright: ignore[reportArgumentType] -- a caller without types
    assert raised.value.code is ErrorCode.RUN_INVALID_OPTION


def test_a_run_of_another_family_shows_no_thought_as_a_guess() -> None:
    engine = ScriptedTextEngine("Hm.</think>Four.")
    ended = asyncio.run(run(engine, "Hi", guessed="shown", profile="qwen3").result())
    assert visible_text(ended.conversation[-1:]) == "Four."


def test_what_is_certain_is_shown_with_guesses_too() -> None:
    parsed = parse("<|channel|>final<|message|>Yes.<|call|>", "assistant")
    assert visible_text(parsed) == visible_text(parsed, show_guessed=True) == "Yes."
