"""What a model thinks is not shown, wherever its thoughts begin and whatever closes them, or does not (law 7)."""

from __future__ import annotations

import pytest

from formats.family_laws import check_family_laws
from harmonia.errors import ErrorCode
from harmonia.events import MessageEnded, Repaired, TextDelta
from harmonia.formats.families import FAMILY_FORMATS, family_of
from harmonia.formats.family import ReadingOptions
from harmonia.formats.tool_format import ToolFormat
from harmonia.parts import PartEnded, PartStream, Text, Think, ToolCall, parts_of, visible_text
from harmonia.provenance import Trust

MARKS = ("<think>", "</think>")
CALL = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
MARKED = ReadingOptions(thinking=MARKS)
BEGUN = ReadingOptions(thinking=MARKS, prompt_opens_thought=True)
OWN = ReadingOptions()


def read(tool_format: str, text: str, options: ReadingOptions) -> list[str]:
    """The answer in short: `think …`, `text …` and `call …`, after every law was checked at every cut."""
    family = family_of(ToolFormat(tool_format))
    events = check_family_laws(family, text, options, range(len(text)))
    messages = [event.message for event in events if isinstance(event, MessageEnded)]
    shown = "".join(event.text for event in events if isinstance(event, TextDelta) and event.header.is_visible)
    for seen in (shown, visible_text(messages)):
        assert "SECRET" not in seen
    short: list[str] = []
    for part in parts_of(messages):
        match part:
            case Think():
                short.append(f"think {part.text}")
            case Text():
                short.append(f"text {part.text}")
            case ToolCall():
                short.append(f"call {part.name}")
    return short


@pytest.mark.parametrize(
    ("tool_format", "text", "options", "parts"),
    [
        # A call in a thought that nobody closed: what follows is thought as well.
        ("hermes", f"<think>a\n{CALL}\nSECRET</think>\n4", OWN, ["think a", "call f", "think SECRET", "text 4"]),
        ("hermes", f"a\n{CALL}\n  SECRET", BEGUN, ["think a", "call f", "think SECRET"]),
        ("hermes", f"<think>a\n{CALL}{CALL}SECRET", OWN, ["think a", "call f", "call f", "think SECRET"]),
        ("hermes", f"<think>a\n{CALL}</think>4", OWN, ["think a", "call f", "text 4"]),
        ("hermes", f"<think>a\n{CALL}\nSECRET\n  {CALL}\n</think>\n4", OWN,
         ["think a", "call f", "think SECRET", "call f", "text 4"]),
        ("openai", '[THINK]a[TOOL_CALLS]f[ARGS]{"b": 1} SECRET[/THINK]4', OWN,
         ["think a", "call f", "think SECRET", "text 4"]),
        ("gemini", "<|channel>thought\na<|tool_call>call:f{}<tool_call|>SECRET<channel|>4", OWN,
         ["think a", "call f", "think SECRET", "text 4"]),
        # Thoughts in what only looked as if it would become a call.
        ("openai", '{"name": <think>SECRET</think> 3}', OWN, ['text {"name":', "think SECRET", "text 3}"]),
        ("openai", '{"name": "<think>"}', OWN, ['text {"name": "<think>"}']),
        ("gemini", "[f(<think>SECRET</think>)]", OWN, ["text [f(", "think SECRET", "text )]"]),
        ("text", "Action: wait\n<think>SECRET</think>\nFinal Answer: 4", MARKED,
         ["text Action: wait", "think SECRET", "text 4"]),
        # What is drafted between marks is no label.
        ("text", "<think>Final Answer: SECRET\nAction: f\nAction Input: {}\n</think>\nFinal Answer: 4", MARKED,
         ["think Final Answer: SECRET\nAction: f\nAction Input: {}", "text 4"]),
        ("text", "b\nFinal Answer: SECRET\n</think>\nFinal Answer: 4", BEGUN,
         ["think b\nFinal Answer: SECRET", "text 4"]),
        ("text", "Thought: a\nAction: think of SECRET\nFinal Answer: 4", MARKED,
         ["think a", "think Action: think of SECRET", "text 4"]),
        # A family that knows several marks reads all of them.
        ("openai", "[THINK]SECRET[/THINK]4", MARKED, ["think SECRET", "text 4"]),
        ("openai", "<think>SECRET</think>4", ReadingOptions(thinking=("[THINK]", "[/THINK]")),
         ["think SECRET", "text 4"]),
        ("gemini", "<think>SECRET</think>4", ReadingOptions(thinking=("<|channel>thought\n", "<channel|>")),
         ["think SECRET", "text 4"]),
    ],
)  # fmt: skip
def test_a_thought_is_not_shown(tool_format: str, text: str, options: ReadingOptions, parts: list[str]) -> None:
    assert read(tool_format, text, options) == parts


@pytest.mark.parametrize("tool_format", FAMILY_FORMATS)
def test_what_stands_before_a_closing_mark_that_none_opened_was_a_thought(tool_format: ToolFormat) -> None:
    text = "Hm, well.\n</think>\nFour."
    family = family_of(tool_format)
    events = check_family_laws(family, text, MARKED, range(len(text)))
    thought, said = [event.message for event in events if isinstance(event, MessageEnded)]
    assert (thought.channel, thought.text, said.channel, said.text) == ("analysis", "Hm, well.\n", "final", "Four.")
    assert thought.origin is not None and thought.origin.trust is Trust.GUESSED
    assert [event.diagnostic.code for event in events if isinstance(event, Repaired)] == [ErrorCode.FAMILY_STRAY_MARK]
    assert visible_text([thought, said]) == "Four."
    # Parts that are told while they come say it when the mark does.
    ended = [update.part for update in PartStream().feed(events) if isinstance(update, PartEnded)]
    assert ended == parts_of([thought, said]) == [Think("Hm, well."), Text("Four.")]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("<think>a</think>Say </think> again.", ["think a", "text Say  again."]),  # it opens its thoughts itself
        ("Thoughts end with `</think>`.", ["text Thoughts end with `</think>`."]),  # it speaks of it
        (f"{CALL}\nFour.</tool_call>", ["call f", "text Four."]),
        ("SECRET</think>Four.</think> Five.", ["think SECRET", "text Four. Five."]),
        ("</think>Four.", ["text Four."]),
    ],
)
def test_not_every_closing_mark_makes_a_thought_of_what_came_before(text: str, parts: list[str]) -> None:
    family = family_of(ToolFormat.HERMES)
    events = check_family_laws(family, text, OWN, range(len(text)))
    found = parts_of(event.message for event in events if isinstance(event, MessageEnded))
    assert [getattr(part, "text", None) for part in found] == [
        None if part.startswith("call") else part.partition(" ")[2] for part in parts
    ]
    assert [
        "think" if isinstance(part, Think) else "call" if isinstance(part, ToolCall) else "text" for part in found
    ] == [part.partition(" ")[0] for part in parts]


@pytest.mark.parametrize("tool_format", FAMILY_FORMATS)
@pytest.mark.parametrize(
    "text",
    ["Use `<think>` tags and wait.", "Say '</think>' last.", 'Between "<think>" and "</think>".', "It is `<think>`"],
)
def test_a_mark_in_quotation_marks_is_text(tool_format: ToolFormat, text: str) -> None:
    assert read(tool_format.value, text, MARKED) == [f"text {text}"]
    events = check_family_laws(family_of(tool_format), text, MARKED)
    assert not any(isinstance(event, Repaired) for event in events)


def test_a_mark_of_calls_in_quotation_marks_is_text() -> None:
    text = "A call stands between `<tool_call>` and `</tool_call>`."
    assert read("hermes", text, OWN) == [f"text {text}"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('"<think>SECRET</think>"', ['text "', "think SECRET", 'text "']),
        ("`<think>'SECRET", ["text `", "think 'SECRET"]),
        # A thought may end with a quotation, and the answer begin with one.
        ("<think>SECRET `a`</think>`a`", ["think SECRET `a`", "text `a`"]),
    ],
)
def test_a_quotation_mark_on_one_side_quotes_nothing(text: str, parts: list[str]) -> None:
    assert read("hermes", text, OWN) == parts


@pytest.mark.parametrize("tool_format", FAMILY_FORMATS)
@pytest.mark.parametrize("options", [MARKED, BEGUN])
def test_a_thought_without_an_end_is_all_that_is_left(tool_format: ToolFormat, options: ReadingOptions) -> None:
    text = "SECRET\n\nmore" if options.prompt_opens_thought else "<think>SECRET\n\nmore"
    assert read(tool_format.value, text, options) == ["think SECRET\n\nmore"]


@pytest.mark.parametrize(
    ("tool_format", "text"),
    [
        ("gemini", "Run this:\n```python\nprint(1)\n```\nand `that`."),
        ("gemini", '```json\n{"a": 1}\n```'),
        ("granite", "Dear all,\nHere is my response: no."),
    ],
)
def test_words_and_code_fences_close_nothing_where_nothing_is_open(tool_format: str, text: str) -> None:
    assert read(tool_format, text, OWN) == [f"text {text}"]
    events = check_family_laws(family_of(ToolFormat(tool_format)), text)
    assert not any(isinstance(event, Repaired) for event in events)


def test_white_space_behind_a_label_is_none_of_the_answer() -> None:
    def texts(text: str) -> list[str]:
        events = check_family_laws(family_of(ToolFormat.TEXT), text, cuts=range(len(text)))
        return [event.message.text for event in events if isinstance(event, MessageEnded)]

    assert texts("Final Answer: \n  Four. ") == ["Four. "]
    assert texts("Final Answer: ") == []
    assert texts("Well.\nFinal Answer:\nFinal Answer: Four.") == ["Well.\n", "Four."]
