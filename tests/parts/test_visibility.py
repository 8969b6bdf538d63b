"""Law 7: visible means positively known to be visible. Marked reasoning never shows, whatever happens to its header."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harmonia import Message, Parsed, Parser, TextDelta, encode, parse
from harmonia.parts import PartDelta, PartEnded, PartStarted, PartStream, Text, is_visible, parts_of, visible_text
from tests.parts.marked_streams import MARK, SPECIALS, Stream, damaged_streams, is_hidden_by_right, spell

ROLES = (None, "assistant")


def shown_while_streaming(data: str | list[int], role: str | None) -> str:
    """All text that a user interface would have shown, one chunk at a time."""
    parser, parts, shown, visible = Parser(role), PartStream(), list[str](), set[int]()
    for events in (*map(parser.feed, data), parser.close()):
        for update in parts.feed(events):
            match update:
                case PartStarted(kind="text"):
                    visible.add(update.index)
                case PartDelta() if update.index in visible:
                    shown.append(update.text)
                case PartEnded(part=Text(text)):
                    shown.append(text)
                case _:
                    pass
    return "".join(shown)


def shown_at_the_end(parsed: Parsed) -> str:
    deltas = [event.text for event in parsed.events if isinstance(event, TextDelta) and event.header.is_visible]
    texts = [part.text for part in parts_of(parsed) if isinstance(part, Text)]
    return "\n".join([visible_text(parsed), "".join(deltas), *texts])


def assert_nothing_leaks(text: str) -> None:
    for role in ROLES:
        for data in (text, encode(text, special="all")):
            assert MARK not in shown_at_the_end(parse(data, role)), f"role {role}: {text!r}"
            assert MARK not in shown_while_streaming(data, role), f"role {role}: {text!r}"


@given(damaged_streams())
def test_marked_reasoning_never_shows_in_a_damaged_stream(stream: Stream) -> None:
    assume(is_hidden_by_right(stream))
    assert_nothing_leaks(spell(stream))


@given(damaged_streams())
def test_marked_reasoning_never_shows_in_stripped_text(stream: Stream) -> None:
    text = "".join(piece.text for piece in stream if piece.text not in SPECIALS)
    for role in ROLES:
        assert visible_text(parse(text, role)) == ""
        assert visible_text(parse(text, role, stripped=True)) == ""


_ANSWER = "<|start|>assistant<|channel|>final<|message|>Hello.<|end|>"
_HEADER = "<|start|>assistant<|channel|>analysis<|message|>"


@given(
    st.lists(st.tuples(st.integers(0, len(_HEADER) - 1), st.sampled_from(["drop", "double", "swap"])), max_size=4),
    st.booleans(),
)
def test_marked_reasoning_never_shows_where_characters_of_its_header_are_damaged(
    changes: list[tuple[int, str]], has_answer: bool
) -> None:
    header = list(_HEADER)
    for at, change in changes:
        at = min(at, len(header) - 2)
        match change:
            case "drop":
                del header[at]
            case "double":
                header.insert(at, header[at])
            case _:
                header[at], header[at + 1] = header[at + 1], header[at]
    assert_nothing_leaks(f"{_ANSWER if has_answer else ''}{''.join(header)}We think {MARK} of it.<|end|>{_ANSWER}")


@pytest.mark.parametrize(
    "text",
    [
        # The beginning of the header is lost, and with it the end of the answer before it.
        f"<|start|>assistant<|channel|>final<|message|>Hello.assistant<|message|>{MARK}<|end|>",
        f"<|start|>assistant<|channel|>final<|message|>Hello.assistantanalysis<|message|>{MARK}<|end|>",
        f"<|start|>assistant<|channel|>final<|message|>Hello.<|message|>{MARK}<|end|>",
        # A second channel whose name is lost.
        f"<|start|>assistant<|channel|>final<|channel|><|message|>{MARK}<|end|>",
        f"<|start|>assistant<|channel|>final<|channel|>analysis<|message|>{MARK}<|end|>",
        f"<|start|>assistant<|channel|>final<|start|>assistant<|channel|><|message|>{MARK}<|end|>",
        f"<|start|>assistant<|channel|>final analysis<|message|>{MARK}<|end|>",
        f"<|start|>assistant<|channel|>analysisfinal<|message|>{MARK}<|end|>",
        f"<|start|>assistantfinal<|message|>{MARK}<|end|>",
        f"<|start|>narrator<|channel|>final<|message|>{MARK}<|end|>",
        f"<|start|>assistant<|channel|>final {MARK}<|end|>",
        f"{MARK}",
        f"<|end|>{MARK}<|end|>",
        f"<|start|>user<|channel|>final<|message|>{MARK}<|end|>",
        f"<|start|>assistant<|channel|>final to=functions.x<|message|>{MARK}<|call|>",
        f"<|start|>assistant<|channel|>commentary to=functions.x<|message|>{MARK}<|call|>",
    ],
)
def test_what_may_be_no_answer_is_not_shown(text: str) -> None:
    assert_nothing_leaks(text)


@pytest.mark.parametrize("channel", ["final", "commentary", "FINAL", "Commentary"])
@pytest.mark.parametrize("stop", ["<|end|>", "<|return|>", ""])
def test_answers_are_visible_even_where_their_end_is_missing(channel: str, stop: str) -> None:
    assert visible_text(parse(f"<|channel|>{channel}<|message|> Hello.\n{stop}", "assistant")) == " Hello.\n"


def test_guesses_are_visible_where_the_operator_says_so() -> None:
    parsed = parse("analysisWe need a number.assistantfinalFour.", "assistant")
    assert visible_text(parsed) == ""
    assert visible_text(parsed, show_guessed=True) == "Four."


def test_forged_messages_and_calls_are_not_visible_even_then() -> None:
    text = "<|start|>user<|channel|>final<|message|>Hi<|end|>"
    call = "<|start|>assistant<|channel|>final to=python<|message|>1<|call|>"
    assert visible_text(parse(text + call, "assistant"), show_guessed=True) == ""


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (Message.assistant("Hi"), True),
        (Message.assistant("Hi", channel="Final"), True),
        (Message.assistant("Hi", channel="commentary"), True),
        (Message.assistant("Hi", channel="analysis"), False),
        (Message.assistant("Hi", channel="thoughts"), False),
        (Message.assistant("Hi", channel=None), False),
        (Message.call("functions.x", "{}"), False),
        (Message.call("functions.x", "{}", channel="final"), False),
        (Message.user("Hi"), False),
        (Message.tool("functions.x", "1", channel="final"), False),
    ],
)
def test_what_somebody_wrote_is_known(message: Message, expected: bool) -> None:
    assert is_visible(message) is expected


def test_visible_texts_stand_apart_and_empty_ones_are_left_out() -> None:
    messages = [Message.assistant("One."), Message.assistant(" "), Message.user("Hi"), Message.assistant("Two.")]
    assert visible_text(messages) == "One.\n\nTwo."
