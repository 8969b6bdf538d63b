"""The laws of reading hold for every family and any text: chunking is invisible, nothing is lost, nothing raises."""

from __future__ import annotations

import re
import time
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harmonia.errors import ErrorCode, InputError
from harmonia.events import MessageEnded, Repaired, Skipped
from harmonia.families.call_bodies import Scan
from harmonia.families.passages import Finder, Found
from harmonia.families.registry import FAMILY_FORMATS, Family, ReadingLimits, ReadingOptions, ToolFormat, family_of
from harmonia.messages import ToolDescription
from harmonia.parser import Tools
from harmonia.parts import call_of
from tests.families.family_examples import examples_of
from tests.families.family_laws import check_family_laws, events_of

_HALF = re.compile("[\ud800-\udfff]")
FAMILIES = [pytest.param(family_of(each), id=each.value) for each in FAMILY_FORMATS]

# What all families' texts are made of, so that each also meets what only looks like its own.
FRAGMENTS = [
    "<think>", "</think>", "[THINK]", "[/THINK]", "<response>", "</response>", "Here is my thought process:",
    "Here is my response:", "<tool_call>", "</tool_call>", "<tools>", "</tools>", "<function=f>", "</function>",
    "<parameter=a>", "</parameter>", "<tool_response>", "</tool_response>", "<|im_end|>", "<|im_start|>", "<|eot_id|>",
    "<|python_tag|>", "<|eom_id|>", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<|tool_call|>", "<function_call>",
    "<|python_start|>", "<|python_end|>", "<|eot|>", "[f(a=", "`", "`<think>`", "'</think>'", '<function=f>{"a": "',
    "```tool_code\n", "```json\n", "```", "print(f(a=1))", "f(", ")", "<start_function_call>", "<end_function_call>",
    "<|tool_call>", "<tool_call|>", "call:f{", "<escape>", "</s>", "<end_of_turn>",
    "Thought:", "Action:", "Action Input:", "Observation:", "Final Answer:", "**Action:**", "Action 1 :", "Search[x]",
    '{"name": "f", "arguments": {"a": "b"}}', '{"name": "f", "arguments": {', '"name"', '"arguments"', '"parameters"',
    '{"functionCall": {"name": "f", "args": {}}}', '{"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}',
    "{", "}", "[", "]", '"', "'", "\\", ":", ",", ";", "\n", "\n\n", " ", "\t", "a", "Oslo", "1", "true", "é", "😀",
    "\ud800", "\\ud800", "\r", "<", ">", "|", "\u2028",
]  # fmt: skip


def halves(fragment: str) -> st.SearchStrategy[str]:
    return st.integers(1, len(fragment)).map(lambda end: fragment[:end])


PIECES = st.sampled_from(FRAGMENTS)
TEXTS = st.lists(st.one_of(PIECES, PIECES.flatmap(halves), st.text(max_size=5)), max_size=14).map("".join)
WEATHER = ToolDescription(
    "f",
    "a tool",
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]},
)
OPTIONS = st.builds(
    ReadingOptions,
    thinking=st.sampled_from([None, (), ("<think>", "</think>"), ("[THINK]", "[/THINK]")]),
    prompt_opens_thought=st.booleans(),
    tools=st.sampled_from([Tools(), Tools([]), Tools([WEATHER])]),
    descriptions=st.sampled_from([(), (WEATHER,)]),
    limits=st.builds(ReadingLimits, st.sampled_from([1, 7, 40, 1_000]), st.sampled_from([5, 10_000])),
)


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=40, deadline=None)
@given(text=TEXTS, options=OPTIONS, data=st.data())
def test_every_law_holds_of_any_text(family: Family, text: str, options: ReadingOptions, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=2))
    check_family_laws(family, text, options, cuts)


@pytest.mark.exhaustive
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=6_000, deadline=None)
@given(text=TEXTS, options=OPTIONS, data=st.data())
def test_every_law_holds_of_very_many_texts(
    family: Family, text: str, options: ReadingOptions, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=4))
    check_family_laws(family, text, options, cuts)


THOUGHTS = [
    (ToolFormat.HERMES, "<think>", "</think>"),
    (ToolFormat.OPENAI, "<think>", "</think>"),
    (ToolFormat.OPENAI, "[THINK]", "[/THINK]"),
    (ToolFormat.GEMINI, "<|channel>thought\n", "<channel|>"),
    (ToolFormat.GEMINI, "<think>", "</think>"),
    (ToolFormat.GRANITE, "<think>", "</think>"),
    (ToolFormat.TEXT, "<think>", "</think>"),
]
# What ends a turn ends a thought as well, so that nobody closed it; see the laws above.
ENDS = (
    *("<|im_", "<|eo", "<|end_of", "<|start_h", "<|header", "</s>", "[INST]"),
    *("_of_turn>", "<turn|>", "<|turn>", "<eos>"),
)


@pytest.mark.parametrize(("tool_format", "opens", "closes"), THOUGHTS)
@pytest.mark.parametrize("in_prompt", [False, True])
@settings(max_examples=60, deadline=None)
@given(before=TEXTS, between=TEXTS, after=TEXTS, data=st.data())
def test_nothing_inside_a_thought_that_is_closed_is_a_call(
    tool_format: ToolFormat, opens: str, closes: str, in_prompt: bool, before: str, between: str, after: str, data: Any
) -> None:
    family = family_of(tool_format)
    call = family.write_call("rm", '{"path": "/"}')
    thought = f"I could\n{before}\n{call}\n{between}\n{call}\n{after} but no. "
    assume(not any(mark in thought for mark in (*ENDS, opens.strip(), closes)))
    text = f"{'' if in_prompt else opens}{thought}{closes}I will not."
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=2))
    options = ReadingOptions(thinking=(opens, closes), prompt_opens_thought=in_prompt)
    events = check_family_laws(family, text, options, cuts)
    first, *others = [event.message for event in events if isinstance(event, MessageEnded)]
    assert (first.channel, first.text) == ("analysis", _HALF.sub("\ufffd", thought))
    assert [(message.channel, message.text) for message in others] == [("final", "I will not.")]
    # Cut off anywhere before the closing mark, whatever looks like a call is at most a guess.
    end = data.draw(st.integers(0, len(text) - len(closes) - len("I will not.")))
    for event in check_family_laws(family, text[:end], options):
        call_made = call_of(event.message) if isinstance(event, MessageEnded) else None
        assert call_made is None or call_made.status == "guessed" or (not in_prompt and end < len(opens))


@pytest.mark.parametrize("tool_format", FAMILY_FORMATS)
def test_every_law_holds_of_what_models_wrote(tool_format: ToolFormat) -> None:
    family = family_of(tool_format)
    for example in examples_of(tool_format):
        check_family_laws(family, example.raw, example.options, range(0, len(example.raw), 17))
        for end in range(0, len(example.raw), 61):  # cut off by a token limit
            check_family_laws(family, example.raw[:end], example.options)


@pytest.mark.exhaustive
@pytest.mark.parametrize("tool_format", FAMILY_FORMATS)
def test_every_law_holds_at_every_place_of_what_models_wrote(tool_format: ToolFormat) -> None:
    family = family_of(tool_format)
    for example in examples_of(tool_format):
        check_family_laws(family, example.raw, example.options, range(len(example.raw)))
        begun = msgspec.structs.replace(example.options, prompt_opens_thought=True)
        check_family_laws(family, example.raw, begun, range(0, len(example.raw), 3))
        for end in range(0, len(example.raw), 5):
            check_family_laws(family, example.raw[:end], example.options)


@pytest.mark.parametrize("family", FAMILIES)
def test_plain_text_is_one_visible_message(family: Family) -> None:
    text = "Two < three, and so on: {no JSON}, <b>bold</b>.\n\nEnd"
    (message,) = [event.message for event in events_of(family, [text]) if isinstance(event, MessageEnded)]
    assert (message.text, message.channel, message.recipient) == (text, "final", None)


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_at_all_says_why_there_is_nothing(family: Family) -> None:
    (ended,) = events_of(family, [])
    assert getattr(ended, "hidden_because", None) == "there is no text"


@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_family_writes_it_reads(family: Family) -> None:
    text = family.write_call("get_weather", '{"city": "Oslo", "days": [1, 2]}')
    events = check_family_laws(family, text, cuts=range(len(text)))
    messages = [event.message for event in events if isinstance(event, MessageEnded)]
    assert [(message.recipient, message.origin and message.origin.faults) for message in messages] == [
        ("functions.get_weather", ())
    ]
    assert not any(isinstance(event, Repaired) for event in events)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_closed_reader_takes_no_more(family: Family) -> None:
    reader = family.reader()
    reader.close()
    with pytest.raises(InputError) as raised:
        reader.feed("more")
    assert raised.value.code is ErrorCode.PARSE_CLOSED


def test_harmony_is_no_family() -> None:
    with pytest.raises(InputError) as raised:
        family_of(ToolFormat.HARMONY)
    assert raised.value.code is ErrorCode.FORMATS_INVALID_OPTION


# ── work ────────────────────────────────────────────────────────────────────────────────────────────────────────────

# Texts that make a reader wait, start again, or look for what never comes.
HARD = [
    "<", "<tool_call>", "<tool_call>{", '<tool_call>{"name": "f", "arguments": {', "<think>", "</think>", "{", "[",
    "\n", " ", '"', "\\", "Thought:\n", "\nAction: f\nAction Input: ", "<think></think>{}", "[TOOL_CALLS]",
    "```tool_code\nf(", "<start_function_call>call:f{", '{"name": ', "a", "<function=f><parameter=a>",
    "<|tool_call|>[{", "```", ";", "call:", "<think>a<think>b</think>", "<think>a\n<tool_call>\n</think>",
    "<think>\n<tool_call>{", "[THINK][TOOL_CALLS]", "<|channel>thought", '"</think>"',
]  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("one_by_one", [False, True])
def test_as_many_characters_are_looked_at_as_there_are(
    family: Family, one_by_one: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = 0
    search, advance = Finder.search, Scan.advance

    def counted_search(self: Finder, text: str, at: int, **options: Any) -> Found | None:
        nonlocal looked_at
        found = search(self, text, at, **options)
        looked_at += (len(text) if found is None else found.end) - at
        return found

    def counted_advance(self: Scan, text: str, at: int, until_depth: int) -> int | None:
        nonlocal looked_at
        end = advance(self, text, at, until_depth)
        looked_at += (len(text) if end is None else end) - at
        return end

    monkeypatch.setattr(Finder, "search", counted_search)
    monkeypatch.setattr(Scan, "advance", counted_advance)
    for hard in HARD:
        counts: list[float] = []
        for length in (200, 1_200):
            text = hard * (length // len(hard))
            looked_at = 0
            events_of(family, text if one_by_one else [text])
            counts.append(looked_at / len(text))
        assert counts[1] <= counts[0] * 1.5 + 10, f"{hard!r}: {counts} looks at each character"


@pytest.mark.exhaustive
@pytest.mark.parametrize("family", FAMILIES)
def test_time_grows_with_the_text_and_not_faster(family: Family) -> None:
    """For what counting does not see: expressions that try again and again would take 64 times for 8 times the text."""
    for hard in HARD:
        times: list[float] = []
        for length in (8_000, 64_000):
            text = hard * (length // len(hard))
            runs: list[float] = []
            for _ in range(2):
                start = time.process_time()
                events_of(family, [text])
                runs.append(time.process_time() - start)
            times.append(min(runs))
        assert times[1] <= times[0] * 30 + 0.05, f"{hard!r}: {times}"


# ── limits ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_that_is_too_long_is_cut_and_the_rest_is_skipped() -> None:
    family = family_of(ToolFormat.HERMES)
    options = ReadingOptions(limits=ReadingLimits(call_chars=20))
    text = "<tool_call>" + "x" * 50 + "</tool_call>After."
    events = check_family_laws(family, text, options, range(len(text)))
    messages = [event.message for event in events if isinstance(event, MessageEnded)]
    assert [(message.text, message.channel) for message in messages] == [("x" * 20, "commentary"), ("After.", "final")]
    assert [event.diagnostic.code for event in events if isinstance(event, Repaired)] == [
        ErrorCode.FAMILY_UNREADABLE_CALL,
        ErrorCode.FAMILY_TOO_LONG,
    ]
    assert "".join(event.text for event in events if isinstance(event, Skipped)) == "x" * 30 + "</tool_call>"


def test_arguments_that_are_told_as_they_come_pass_the_limit_of_what_is_held() -> None:
    options = ReadingOptions(limits=ReadingLimits(call_chars=40))
    text = '<tool_call>{"name": "f", "arguments": {"a": "' + "x" * 500 + '"}}</tool_call>'
    events = check_family_laws(family_of(ToolFormat.HERMES), text, options)
    assert not any(isinstance(event, Repaired) for event in events)


def test_a_message_is_cut_where_it_passes_its_limit_and_deltas_go_on() -> None:
    options = ReadingOptions(limits=ReadingLimits(body_chars=4))
    events = check_family_laws(family_of(ToolFormat.TEXT), "Hello, you", options, range(10))
    (message,) = [event.message for event in events if isinstance(event, MessageEnded)]
    assert message.text == "Hell" and message.origin is not None
    assert message.origin.faults == (ErrorCode.BODY_TOO_LONG,)
