"""What reviewers and fuzzers found once, and must not come back."""

from __future__ import annotations

from typing import Any

import pytest

from harmonia import ErrorCode, InputError, Limits, Parser, StreamError, Trust, TurnEnded, call_of, encode, parse


def tokens(text: str) -> list[int]:
    return encode(text, special="all")


def codes(data: Any, role: str | None = "assistant", **options: Any) -> list[ErrorCode]:
    return [found.code for found in parse(data, role, **options).diagnostics]


@pytest.mark.parametrize(
    "header",
    [
        "<|channel|>commentary to=to=functions.x <|constrain|>json",
        "<|channel|>commentary to=functions.xto= <|constrain|>json",
        " to=user<|channel|>final to=functions.x json",
        " to=assistant<|channel|>commentary to=functions.x json",
        '<|channel|>commentary to="functions.x" json',
        "<|channel|>commentary to=functions.x, json",
    ],
)
def test_a_damaged_address_is_a_fault_and_no_call_is_run(header: str) -> None:
    data = tokens(f"{header}<|message|>{{}}<|call|>")
    call = call_of(parse(data, "assistant").messages[0])
    assert call is not None and not call.is_executable
    with pytest.raises(StreamError):
        parse(data, "assistant", "strict")


@pytest.mark.parametrize(
    "header",
    [
        "<|channel|>final analysis:",
        "<|channel|>final (analysis)",
        "<|channel|>commentary TO=functions.x",
        "user",
        "<|channel|>ﬁnal",
        "<|channel|>final<|channel|>",
    ],
)
def test_text_under_a_doubtful_header_is_not_shown(header: str) -> None:
    parsed = parse(f"{header}<|message|>SECRET<|end|>", "assistant")
    assert parsed.diagnostics
    for event in parsed.events:
        event_header = getattr(event, "header", None)
        assert event_header is None or not event_header.is_visible


def test_a_header_word_that_spells_a_special_token_is_no_structure() -> None:
    data = [
        *tokens("<|channel|>commentary to=functions.x "),
        *encode("<|constrain|>json"),
        *tokens("<|message|>{}<|call|>"),
    ]
    parsed = parse(data, "assistant")
    assert parsed.messages[0].content_type is None
    assert ErrorCode.HEADER_UNEXPECTED_TEXT in [found.code for found in parsed.diagnostics]


def test_a_parser_is_closed_after_its_error() -> None:
    parser = Parser(mode="strict")
    parser.feed(tokens("<|start|>assistant<|channel|>final<|message|>Hi"))
    (x,) = encode("x")
    parser.feed(x)
    parser.feed(x)
    with pytest.raises(StreamError):
        parser.close()
    with pytest.raises(InputError) as raised:
        parser.feed(x)
    assert raised.value.code is ErrorCode.PARSE_CLOSED


@pytest.mark.parametrize("middle", [" " * 40 + "json{}", "a" * 40 + " {}", " json{}", "json", "   "])
def test_a_content_type_at_the_head_of_a_body_does_not_depend_on_chunks(middle: str) -> None:
    text = f"<|start|>assistant<|channel|>commentary to=functions.x<|message|><|constrain|>{middle}<|call|>"
    whole = parse(text)
    parser = Parser()
    for character in text:
        parser.feed(character)
    one_by_one = Parser()
    events = [event for character in text for event in one_by_one.feed(character)] + one_by_one.close()
    messages = [event.message for event in events if hasattr(event, "message")]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    assert messages == list(whole.messages)


def test_places_are_right_where_a_header_begins_inside_a_token() -> None:
    data = tokens(
        "<|start|>user<|message|>Q<|end|>Hello there, dear assistant<|channel|>finalx foo bar<|message|>Hi<|end|>"
    )
    by_code = {found.code: found.at.token for found in parse(data).diagnostics}
    channel = data.index(tokens("<|channel|>")[0])
    assert by_code[ErrorCode.HEADER_GLUED_CHANNEL] == channel + 1


def test_places_are_right_behind_a_repeated_message() -> None:
    text = '<|channel|>commentary to=functions.x <|constrain|>json<|message|><|message|>{"a": ]<|call|>'
    (found,) = [each for each in parse(text, "assistant").diagnostics if each.code is ErrorCode.BODY_ARGUMENTS_NOT_JSON]
    assert found.at.character == text.index("]")


class Count:
    """Something that counts as an integer, and is none."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


def test_what_counts_as_an_integer_is_a_token() -> None:
    assert parse([Count(13225)], "assistant").messages[0].content == "Hello"


@pytest.mark.parametrize("chunk", [None, {}, {1}, [1.5], ["a"], 3.2, [None], [[1, 2]]])
def test_what_is_no_chunk_is_refused(chunk: Any) -> None:
    with pytest.raises(InputError) as raised:
        parse(chunk)
    assert raised.value.code is ErrorCode.PARSE_INVALID_CHUNK


@pytest.mark.parametrize("role", ["robot", 5, []])
def test_what_is_no_role_is_refused(role: Any) -> None:
    with pytest.raises(InputError) as raised:
        Parser(role)
    assert raised.value.code is ErrorCode.PARSE_INVALID_OPTION


def test_a_number_of_thousands_of_digits_is_an_unknown_token() -> None:
    assert ErrorCode.STREAM_UNKNOWN_TOKEN in codes([10**5000])


def test_an_empty_chunk_changes_nothing() -> None:
    parser = Parser()
    events = parser.feed(b"<|start|>user<|message|>\xc3") + parser.feed("") + parser.feed(b"\xa9<|end|>")
    assert "é" in [getattr(event, "text", None) for event in events]
    assert Parser().feed("") == []


def test_a_turn_that_ends_with_a_guessed_call_says_so() -> None:
    ended = parse('commentary to=functions.x json{"a":1}', "assistant").events[-1]
    assert isinstance(ended, TurnEnded) and ended.hidden_because == "there is only an uncertain call"


def test_a_prompt_alone_is_no_turn_of_the_model() -> None:
    assert not [event for event in parse("<|start|>user<|message|>Hi<|end|>").events if isinstance(event, TurnEnded)]


def test_why_nothing_is_shown_stays_short() -> None:
    text = "".join(f"<|start|>assistant<|channel|>c{number}<|message|>x<|end|>" for number in range(500))
    ended = parse(text).events[-1]
    assert isinstance(ended, TurnEnded) and ended.hidden_because == "there is only text on an unknown channel"


def test_a_forged_message_in_stripped_text_is_reported() -> None:
    parsed = parse('analysisHm. functions.x to=assistantcommentary{"a":1}assistantfinalHi', "assistant")
    assert ErrorCode.HEADER_FORGED_ROLE in [found.code for found in parsed.diagnostics]


def test_the_given_role_is_not_forged() -> None:
    (message,) = parse("<|message|>Hi<|end|>", "user", "strict").messages
    assert message.origin is not None and not message.origin.forged


def test_much_text_between_messages_needs_no_recursion() -> None:
    parsed = parse("<|start|>user<|message|>x<|end|>" + "\n" * 2_000_000, limits=Limits(header_chars=100))
    assert [message.content for message in parsed.messages] == ["x"]


def test_a_repaired_role_does_not_hide_the_answer() -> None:
    (message,) = parse("<|start|>assistantassistant<|channel|>final<|message|>42<|return|>").messages
    assert message.origin is not None and message.origin.trust is Trust.REPAIRED


def test_a_remembered_header_keeps_to_both_limits() -> None:
    data = tokens("code<|message|>Hi<|end|>")
    limits = Limits(header_chars=8, unmarked_chars=0)
    parse(data, "assistant")  # now the header is remembered
    parser = Parser("assistant", limits=limits)
    one_by_one = [event for token in data for event in parser.feed(token)] + parser.close()
    assert [str(event) for event in parse(data, "assistant", limits=limits).events] == list(map(str, one_by_one))
