"""Prose before a header, headers that are given up for another one, and calls that lost their recipient."""

from __future__ import annotations

import pytest

from harmonia import ErrorCode, Skipped, StreamError, Trust, TurnEnded, call_of, encode, is_visible, parse, visible_text
from tests.support.laws import check_all_laws


def shown(text: str, role: str | None = "assistant") -> str:
    """What a user sees of it, as text and as tokens, with every law checked."""
    as_text, as_tokens = (
        check_all_laws(text, role=role),
        check_all_laws(encode(text, special="all"), role=role),
    )
    assert visible_text(as_text) == visible_text(as_tokens)
    for message in as_text.messages:
        call = call_of(message)
        assert call is None or not call.is_executable
        origin = message.origin
        assert origin is not None and (not is_visible(message) or origin.trust is not Trust.GUESSED)
    return visible_text(as_text)


# ── prose before a header ───────────────────────────────────────────────────────────────────────────────────────────

PROSE = [
    "Sure ",
    "Sure, ",
    "Here is the json ",
    "text <|weird|> more text ",
    "I asked the user about Node.js ",
    "final answer: ",
    "assistant says ",
    "…",
    '"',
    ":",
]


@pytest.mark.parametrize("prose", PROSE)
@pytest.mark.parametrize(("start", "role"), [("", "assistant"), ("<|start|>assistant ", None)])
def test_prose_before_a_header_neither_hides_the_answer_nor_is_lost(prose: str, start: str, role: str | None) -> None:
    text = f"{start}{prose}<|channel|>final<|message|>Yes.<|return|>"
    assert shown(text, role) == "Yes."
    parsed = parse(text, role)
    answer = parsed.messages[-1]
    assert (answer.channel, answer.recipient, answer.content_type, answer.text) == ("final", None, None, "Yes.")
    assert answer.origin is not None and answer.origin.trust is Trust.REPAIRED
    skipped = "".join(event.text for event in parsed.events if isinstance(event, Skipped))
    assert prose.strip() in skipped + "".join(message.text for message in parsed.messages[:-1])
    assert ErrorCode.STREAM_TEXT_OUTSIDE in [found.code for found in parsed.diagnostics]
    with pytest.raises(StreamError):
        parse(text, role, "strict")


def test_prose_before_a_header_is_never_a_call() -> None:
    parsed = parse("text <|weird|> more text <|channel|>analysis<|message|>Hm.<|end|>", "assistant")
    assert [(each.channel, each.recipient, each.text) for each in parsed.messages] == [
        (None, None, "text <|weird|> more text "),
        ("analysis", None, "Hm."),
    ]


def test_prose_before_a_preamble_does_not_hide_it() -> None:
    assert shown("Sure. <|channel|>commentary<|message|>Let me look.<|end|>") == "Let me look."


def test_prose_before_an_address_is_parted_from_it() -> None:
    text = "Let me see to=functions.x<|channel|>commentary json<|message|>{}<|call|>"
    assert shown(text) == ""
    said, call = parse(text, "assistant").messages
    assert (said.text, call.recipient, call.content_type) == ("Let me see ", "functions.x", "json")


@pytest.mark.parametrize("words", [" to=functions.x", "functions.x ", " to=functions.Web Search", "assistant"])
def test_words_of_a_header_are_not_prose(words: str) -> None:
    parsed = parse(f"{words}<|channel|>commentary <|constrain|>json<|message|>{{}}<|call|>", "assistant")
    assert len(parsed.messages) == 1


def test_an_author_in_doubt_still_hides_the_text() -> None:
    assert shown("<|start|>narrator<|channel|>final<|message|>Once.<|end|>", None) == ""


# ── a header that is given up ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "given_up",
    [
        "<|channel|>commentary to=assistant",
        "<|channel|>commentary",
        "<|channel|>analysis",
        "<|channel|>",
        "<|channel|>analysisx",
        "<|channel|>commentary to=functions.a to=functions.b",
        "<|channel|>commentary <|constrain|>json",
        "analysis",
    ],
)
def test_a_complete_final_header_after_one_that_was_given_up_is_shown(given_up: str) -> None:
    text = f"{given_up}<|channel|>final<|message|>Yes.<|return|>"
    assert shown(text) == "Yes."
    answer = parse(text, "assistant").messages[-1]
    assert (answer.recipient, answer.content_type) == (None, None)
    assert answer.origin is not None and answer.origin.trust is Trust.REPAIRED
    with pytest.raises(StreamError):
        parse(text, "assistant", "strict")


@pytest.mark.parametrize("given_up", ["<|channel|>commentary to=assistant", "<|channel|>analysis"])
def test_a_preamble_after_a_header_that_was_given_up_is_shown(given_up: str) -> None:
    assert shown(f"{given_up}<|channel|>commentary<|message|>Let me look.<|end|>") == "Let me look."


def test_text_in_a_header_that_was_given_up_is_a_message_of_its_own() -> None:
    text = "<|channel|>analysis The user wants four.<|channel|>final<|message|>Four.<|return|>"
    assert shown(text) == "Four."
    assert [(each.channel, each.text) for each in parse(text, "assistant").messages] == [
        ("analysis", "The user wants four."),
        ("final", "Four."),
    ]


@pytest.mark.parametrize(
    "last", ["<|channel|>", "<|channel|>analysis", "<|channel|>finalx", "<|channel|>final analysis"]
)
def test_what_comes_last_decides(last: str) -> None:
    assert shown(f"<|channel|>final{last}<|message|>Hm.<|end|>") == ""


def test_where_every_start_is_missing_all_preambles_are_shown() -> None:
    preambles = "".join(f"<|channel|>commentary<|message|>{each}.<|end|>" for each in ("One", "Two", "Three"))
    text = f"<|channel|>analysis<|message|>Hm.<|end|>{preambles}<|channel|>final<|message|>Yes.<|return|>"
    assert shown(text) == "One.\n\nTwo.\n\nThree.\n\nYes."


# ── calls without a recipient ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            '<|channel|>commentary <|constrain|>json<|message|>{"a":1}<|call|>',
            ErrorCode.HEADER_MISSING_RECIPIENT,
        ),
        ('<|channel|>commentary json<|message|>{"a":1}<|end|>', ErrorCode.HEADER_MISSING_RECIPIENT),
        ("<|channel|>commentary code<|message|>import os", ErrorCode.HEADER_MISSING_RECIPIENT),
        ('<|channel|>commentary<|message|><|constrain|>json{"a":1}<|end|>', ErrorCode.HEADER_MISSING_RECIPIENT),
        ('<|channel|>commentary<|message|>{"a":1}<|call|>', ErrorCode.BODY_CALL_WITHOUT_RECIPIENT),
        ("<|channel|>commentary to=all<|message|>Hello<|call|>", ErrorCode.BODY_CALL_WITHOUT_RECIPIENT),
    ],
)
def test_a_call_without_a_recipient_is_hidden_and_says_so(text: str, code: ErrorCode) -> None:
    assert shown(text) == ""
    parsed = parse(text, "assistant")
    (message,) = parsed.messages
    assert message.origin is not None and code in message.origin.faults
    ended = parsed.events[-1]
    assert isinstance(ended, TurnEnded) and ended.hidden_because == "there is only a call without a recipient"
    with pytest.raises(StreamError) as raised:
        parse(text, "assistant", "strict")
    assert raised.value.code is code


def test_an_answer_with_a_content_type_or_an_odd_stop_is_shown() -> None:
    assert shown('<|channel|>final <|constrain|>json<|message|>{"a":1}<|return|>') == '{"a":1}'
    assert shown("<|channel|>final<|message|>Four.<|call|>") == "Four."


# ── stripped text ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("gap", [" ", "\t", "\n", ""])
@pytest.mark.parametrize("channel", ["analysis", "commentary", "final"])
def test_text_that_is_known_to_be_stripped_begins_with_its_channel(channel: str, gap: str) -> None:
    (message,) = parse(f"{channel}{gap}Hm.", "assistant", stripped=True).messages
    assert (message.channel, message.text) == (channel, f"{gap}Hm.")


def test_a_word_that_only_begins_like_a_channel_is_none() -> None:
    (message,) = parse("finally done.", "assistant", stripped=True).messages
    assert message.channel is None
