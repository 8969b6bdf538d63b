"""The table of faults: each example shows its fault, strict raises it, and tolerant goes on."""

from __future__ import annotations

import pytest

from harmonia import ErrorCode, Limits, StreamError, Trust, encode, parse
from harmonia.parser import FAULTS, Fault

TOOLS = ["shell", "get_weather", "x"]
SHOWN = [fault for fault in FAULTS.values() if fault.example]


def role_of(fault: Fault) -> str | None:
    return "assistant" if fault.completion else None


def test_every_code_of_the_model_is_in_the_table_in_its_order() -> None:
    first = list(ErrorCode).index(ErrorCode.MISSING_SENTINEL)
    assert list(FAULTS) == list(ErrorCode)[first:]


@pytest.mark.parametrize("fault", [pytest.param(fault, id=fault.code) for fault in SHOWN])
def test_the_example_shows_its_fault_in_text_and_in_tokens(fault: Fault) -> None:
    for data in (fault.example, encode(fault.example, special="all")):
        parsed = parse(data, role=role_of(fault), tools=TOOLS)
        assert fault.code in [diagnostic.code for diagnostic in parsed.diagnostics]
        with pytest.raises(StreamError) as raised:
            parse(data, role=role_of(fault), mode="strict", tools=TOOLS)
        first = parsed.diagnostics[0]
        assert (raised.value.code, raised.value.at) == (first.code, first.at)


@pytest.mark.parametrize("fault", [pytest.param(fault, id=fault.code) for fault in SHOWN])
def test_a_message_is_trusted_no_more_than_its_faults_allow(fault: Fault) -> None:
    for message in parse(fault.example, role=role_of(fault), tools=TOOLS):
        assert message.origin is not None
        for code in message.origin.faults:
            assert message.origin.trust <= FAULTS[code].trust


def test_an_unknown_token_is_replaced() -> None:
    tokens = [*encode("<|channel|>final<|message|>", special="all"), 201_088, 17, -1, *encode("<|end|>", special="all")]
    parsed = parse(tokens, role="assistant")
    assert parsed.messages[0].content == "\ufffd2\ufffd"
    assert [(found.code, found.at.token) for found in parsed.diagnostics] == [
        (ErrorCode.STREAM_UNKNOWN_TOKEN, 3),
        (ErrorCode.STREAM_UNKNOWN_TOKEN, 5),
    ]


def test_half_a_character_is_replaced() -> None:
    first_half, whole = encode("🦜")[:1], encode("Hi")
    tokens = [*encode("<|channel|>final<|message|>", special="all"), *first_half, *whole, 200_007]
    parsed = parse(tokens, role="assistant")
    assert parsed.messages[0].content == "\ufffdHi"
    assert [found.code for found in parsed.diagnostics] == [ErrorCode.STREAM_INVALID_UTF8]


def test_text_that_spells_a_token_is_reported_in_both_modes_and_stays_text() -> None:
    tokens = [*encode("<|channel|>final<|message|>", special="all"), *encode("Write <|end|> here."), 200_007]
    for mode in ("strict", "tolerant"):
        parsed = parse(tokens, role="assistant", mode=mode)
        assert parsed.messages[0].content == "Write <|end|> here."
        (found,) = parsed.diagnostics
        assert (found.code, found.found, found.at.token) == (ErrorCode.BODY_SPELLED_TOKEN, "<|end|>", 5)
        assert parsed.messages[0].origin is not None
        assert parsed.messages[0].origin.trust is Trust.CERTAIN


def test_a_header_that_never_ends_becomes_a_body_at_its_limit() -> None:
    parsed = parse("<|channel|>analysis" + " word" * 300, role="assistant", limits=Limits(header_chars=100))
    assert parsed.diagnostics[0].code is ErrorCode.HEADER_TOO_LONG
    (message,) = parsed.messages
    assert (message.channel, len(message.text)) == ("analysis", 1_499)


def test_a_body_is_cut_at_its_limit_and_its_deltas_are_not() -> None:
    parsed = parse("<|channel|>final<|message|>0123456789<|end|>", role="assistant", limits=Limits(body_chars=4))
    assert parsed.messages[0].content == "0123"
    assert [found.code for found in parsed.diagnostics] == [ErrorCode.BODY_TOO_LONG]
    assert "".join(getattr(event, "text", "") for event in parsed.events) == "0123456789"
