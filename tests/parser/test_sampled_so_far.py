"""A message that is cut off: what it was sampled as up to there, and going on from it elsewhere."""

from __future__ import annotations

import pytest

from harmonia import Parser, encode
from harmonia.events import MessageEnded
from harmonia.parser import Parsed, Tools, parse
from harmonia.run.sampling import Completion
from tests.support.engines.scripted import say, think

EMOJI = "👩🏽‍🚀 and 日本"
# Not the tokens that anybody would write for "Four".
COMPLETION = [
    *say(think(f"Hm {EMOJI}") + "<|channel|>final<|message|>"),
    *encode("F"),
    *encode("our"),
    *say("<|return|>"),
]
OPENING = say("<|start|>assistant")


def fed(tokens: list[int], chunk: int) -> Parser:
    parser = Parser("assistant")
    for at in range(0, len(tokens), chunk):
        parser.feed(tokens[at : at + chunk])
    return parser


@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_it_is_the_tokens_of_the_open_message_at_every_cut(chunk: int) -> None:
    start = 0
    in_body = False
    for cut, token in enumerate(COMPLETION, 1):
        in_body = token == say("<|message|>")[0] or (in_body and token not in say("<|end|><|return|>"))
        start = cut if token in say("<|end|>") else start
        sampled = fed(COMPLETION[:cut], chunk).sampled_so_far
        assert (sampled is not None) == in_body
        if sampled is not None:
            before = OPENING if start == 0 else []
            assert list(sampled.tokens) == [*before, *COMPLETION[start:cut]]
            assert sampled.tokens[sampled.header_end - 1] == say("<|message|>")[0]
            assert list(sampled.tokens[: sampled.role_end]) == OPENING


def test_a_completion_that_goes_on_from_any_cut_gives_the_same_messages() -> None:
    whole = parse(COMPLETION, role="assistant")
    for cut in range(1, len(COMPLETION)):
        first = Completion(Tools([]))
        for event in first.feed(COMPLETION[:cut]):
            if isinstance(event, MessageEnded):
                first.note(event)
        first.end("length")
        last = first.messages[-1] if first.messages else None
        if last is None or last.origin is None or last.origin.stop is not None:
            continue  # it was cut off between two messages, or in a header
        assert last.sampled is not None
        second = Completion(Tools([]), last.sampled.tokens[len(OPENING) :])
        for event in second.feed(COMPLETION[cut:]):
            if isinstance(event, MessageEnded):
                second.note(event)
        messages = [*first.messages[:-1], *second.messages]
        assert [each.text for each in messages] == [each.text for each in whole.messages]
        assert [each.sampled for each in messages] == [each.sampled for each in whole.messages]


@pytest.mark.parametrize(
    "text",
    [
        "<|channel|>analysis<|message|>x<|channel|>final<|message|>y",
        "<|channel|>final<|message|><|message|>y",
        "<|channel|>final<|message|><|constrain|>",
        "<|channel|>final",
        "",
    ],
)
def test_what_was_mended_or_is_in_a_header_is_none(text: str) -> None:
    assert fed(say(text), 1).sampled_so_far is None


def test_text_has_no_tokens() -> None:
    parser = Parser("assistant")
    parser.feed("<|channel|>final<|message|>Four")
    assert parser.sampled_so_far is None


def test_a_parse_keeps_nothing_of_a_message_that_was_cut_off() -> None:
    parsed: Parsed = parse(say("<|channel|>final<|message|>Four"), role="assistant")
    assert parsed.messages[0].sampled is None
