"""What a model thinks is not shown, wherever its thoughts begin and whatever closes them, or does not (law 7)."""

from __future__ import annotations

import pytest

from harmonia.errors import ErrorCode
from harmonia.events import HeaderCompleted, MessageEnded, Repaired, TextDelta
from harmonia.families.reader import read_answer
from harmonia.families.registry import FAMILY_FORMATS, ReadingLimits, ReadingOptions, ToolFormat, family_of
from harmonia.parts import PartEnded, PartStream, Text, Think, ToolCall, call_of, parts_of, visible_text
from harmonia.provenance import Trust
from tests.families.family_laws import check_family_laws

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
        ("hermes", f"a\n{CALL}\n  SECRET", BEGUN, ["think a", "call f", "think SECRET"]),
        ("hermes", f"<think>a\n{CALL}{CALL}SECRET", OWN, ["think a", "call f", "call f", "think SECRET"]),
        ("openai", '[THINK]a[TOOL_CALLS]f[ARGS]{"b": 1} SECRET', OWN, ["think a", "call f", "think SECRET"]),
        ("gemini", "<|channel>thought\na<|tool_call>call:f{}<tool_call|>SECRET", OWN,
         ["think a", "call f", "think SECRET"]),
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


# ── calls inside of thoughts ────────────────────────────────────────────────────────────────────────────────────────

# What a family writes a call as inside of its thoughts, between its marks.
CALLS_IN_THOUGHTS = [
    ("hermes", "<think>", "</think>", f"\n{CALL}"),
    ("hermes", "<think>", "</think>",
     "\n<tool_call>\n<function=f>\n<parameter=a>1</parameter>\n</function>\n</tool_call>"),
    ("openai", "[THINK]", "[/THINK]", '[TOOL_CALLS]rm[ARGS]{"path": "/"}'),
    ("openai", "[THINK]", "[/THINK]", '[TOOL_CALLS][{"name": "rm", "arguments": {"path": "/"}}]'),
    ("openai", "<think>", "</think>", '<|python_tag|>{"name": "rm", "parameters": {"path": "/"}}'),
    ("openai", "<think>", "</think>", '<|python_start|>[rm(path="/")]<|python_end|>'),
    ("gemini", "<|channel>thought\n", "<channel|>", "<|tool_call>call:rm{path:<|\"|>/<|\"|>}<tool_call|>"),
    ("gemini", "<|channel>", "<channel|>", "<start_function_call>call:rm{a:1}<end_function_call>"),
    ("gemini", "<think>", "</think>", "<start_function_call>call:rm{a:1}<end_function_call>"),
    ("granite", "<think>", "</think>", '<|tool_call|>[{"name": "rm", "arguments": {}}]'),
    ("granite", "Here is my thought process:", "Here is my response:",
     '<|tool_call|>[{"name": "rm", "arguments": {}}]'),
]  # fmt: skip


@pytest.mark.parametrize(("tool_format", "opens", "closes", "call"), CALLS_IN_THOUGHTS)
def test_what_stands_inside_a_thought_that_is_closed_is_thought(
    tool_format: str, opens: str, closes: str, call: str
) -> None:
    thought = f"I could{call} but that is dangerous.{call} No."
    assert read(tool_format, f"{opens}{thought}{closes}I will not.", OWN) == [f"think {thought}", "text I will not."]
    family = family_of(ToolFormat(tool_format))
    for text, options in [
        (f"{opens}{thought}{closes}I will not.", OWN),
        (f"{thought}{closes}I will not.", ReadingOptions(thinking=(opens, closes), prompt_opens_thought=True)),
    ]:
        events = check_family_laws(family, text, options, range(len(text)))
        assert not any(isinstance(event, Repaired) for event in events)
        messages = [event.message for event in events if isinstance(event, MessageEnded)]
        assert [(message.channel, message.text) for message in messages] == [
            ("analysis", thought),
            ("final", "I will not."),
        ]
        # Nothing said that there is a call before the thought was closed.
        assert not any(event.header.is_call for event in events if isinstance(event, HeaderCompleted))


@pytest.mark.parametrize(("tool_format", "opens", "closes", "call"), CALLS_IN_THOUGHTS)
@pytest.mark.parametrize("end", ["", "<|im_end|>", "</s>", "<turn|>", "<|end_of_text|>"])
def test_a_call_in_a_thought_that_is_never_closed_is_a_guess(
    tool_format: str, opens: str, closes: str, call: str, end: str
) -> None:
    """The end of the turn closes no thought; where the mark is another family's, it is more text of the thought."""
    family = family_of(ToolFormat(tool_format))
    text = f"{opens}I look it up.{call}{end}"
    events = check_family_laws(family, text, OWN, range(len(text)))
    calls = [call_of(event.message) for event in events if isinstance(event, MessageEnded)]
    assert [call.status for call in calls if call is not None] in (["guessed"], [])
    assert end or [call is not None for call in calls] == [False, True]
    faults = [event.diagnostic.code for event in events if isinstance(event, Repaired)]
    assert end or faults == [ErrorCode.FAMILY_UNCLOSED, ErrorCode.FAMILY_CALL_IN_THOUGHT]


@pytest.mark.parametrize(("tool_format", "opens", "closes", "call"), CALLS_IN_THOUGHTS)
def test_a_call_after_a_thought_that_is_closed_is_one(tool_format: str, opens: str, closes: str, call: str) -> None:
    family = family_of(ToolFormat(tool_format))
    text = f"{opens}I could.{call} Yes.{closes}{call}"
    events = check_family_laws(family, text, OWN, range(len(text)))
    thought, made = [event.message for event in events if isinstance(event, MessageEnded)]
    found = call_of(made)
    assert thought.channel == "analysis" and found is not None and found.status == "unverified"


RM = '<tool_call>\n{"name": "rm", "arguments": {"path": "/"}}\n</tool_call>'


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        # A thought inside a thought: the last mark closes it.
        (f"<think>a<think>b</think>\n{RM}</think>4", [f"think a<think>b</think>\n{RM}", "text 4"]),
        (f"<think>a<think>b</think>\n{RM}", ["think a<think>b", "call rm"]),
        ("<think>a<think>b</think>c", ["think a<think>b", "text c"]),
        ("<think>a<think>b<think>c</think>d</think>e", ["think a<think>b<think>c</think>d", "text e"]),
        # A mark that is only repeated, or spoken of, opens nothing.
        (f"<think>\n<think>\n<think>a</think>\n{RM}", ["think <think>\n<think>a", "call rm"]),
        (f"<think>Use `<think>` tags.</think>{RM}", ["think Use `<think>` tags.", "call rm"]),
        # A closing mark that is spoken of closes nothing; one between two quotations does.
        (f'<think>It ends with "</think>".\n{RM}</think>4', [f'think It ends with "</think>".\n{RM}', "text 4"]),
        (f"<think>Is it (`</think>`)?\n{RM}\n</think>4", [f"think Is it (`</think>`)?\n{RM}", "text 4"]),
        ("<think>`a`</think>`b`", ["think `a`", "text `b`"]),
        # A code span or a quotation does not make it a call, either.
        (f"<think>I could write `{RM}`.</think>4", [f"think I could write `{RM}`.", "text 4"]),
        (f"<think>```\n{RM}\n```</think>4", [f"think ```\n{RM}\n```", "text 4"]),
        # A thought that is closed twice, and one after another.
        (f"<think>a\n{RM}</think>b</think>c", [f"think a\n{RM}", "text bc"]),
        (f"<think>a\n{RM}</think><think>b\n{RM}</think>4", [f"think a\n{RM}", f"think b\n{RM}", "text 4"]),
        (f"<think>a\n{RM}</think>{RM}<think>b", [f"think a\n{RM}", "call rm", "think b"]),
        # A call that is not complete, or not one.
        ('<think>\n<tool_call>{"name": "rm", "arguments": {"path": "</think>4', [
            'think <tool_call>{"name": "rm", "arguments": {"path": "', "text 4"]),
        ("<think>\n<tool_call></think>4", ["think <tool_call>", "text 4"]),
    ],
)  # fmt: skip
def test_marks_inside_of_thoughts(text: str, parts: list[str]) -> None:
    assert read("hermes", text, OWN) == parts
    if text.startswith("<think>"):
        begun = text.removeprefix("<think>")
        assert read("hermes", begun, BEGUN) == parts


def test_a_call_after_a_thought_inside_a_thought_is_a_guess_unless_both_are_closed() -> None:
    """Nobody can tell whether the outer thought was over."""

    def status(text: str) -> str | None:
        events = check_family_laws(family_of(ToolFormat.HERMES), text, OWN, range(len(text)))
        calls = [call_of(event.message) for event in events if isinstance(event, MessageEnded)]
        return next((call.status for call in calls if call is not None), None)

    assert status(f"<think>a<think>b</think>\n{RM}") == "guessed"
    assert status(f"<think>a<think>b</think>c</think>\n{RM}") == "unverified"
    assert status(f"<think><think>b</think>\n{RM}") == "unverified"


def test_what_passes_the_limit_inside_a_thought_is_thought() -> None:
    options = ReadingOptions(limits=ReadingLimits(call_chars=100))
    for end in ("", "</think>4"):
        text = f"<think>a\n{RM}{'x' * 100}{RM}{end}"
        events = check_family_laws(family_of(ToolFormat.HERMES), text, options, range(len(text)))
        messages = [event.message for event in events if isinstance(event, MessageEnded)]
        assert [message.channel for message in messages] == ["analysis", "final"][: len(messages)]
        assert messages[0].text == f"a\n{RM}{'x' * 100}{RM}"
        codes = [event.diagnostic.code for event in events if isinstance(event, Repaired)]
        assert codes == [ErrorCode.FAMILY_TOO_LONG, *([] if end else [ErrorCode.FAMILY_UNCLOSED])]


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("<|channel>thought\nHm.<channel|>Hello", "Hm.", "Hello"),
        ("<|channel>thought<channel|>Hello", "", "Hello"),
        ("<|channel>thought\n<channel|>Hello", "", "Hello"),
        ("<|channel>thought", "", ""),
        ("<|channel>thought\n", "", ""),
        ("<|channel>Hm.<channel|>Hello", "Hm.", "Hello"),
        ("<|channel>thoughts are free<channel|>Hello", "thoughts are free", "Hello"),
        ("<|channel>thought of it<channel|>Hello", "thought of it", "Hello"),
        ("<|channel>thou<channel|>Hello", "thou", "Hello"),
    ],
)
def test_the_label_of_a_thought_is_not_part_of_it(text: str, thought: str, answer: str) -> None:
    events = check_family_laws(family_of(ToolFormat.GEMINI), text, OWN, range(len(text)))
    messages = [event.message for event in events if isinstance(event, MessageEnded)]
    said = [("analysis", thought), ("final", answer)]
    assert [(message.channel, message.text.strip()) for message in messages] == said[: 1 + bool(answer)]


# In the format text an action takes all up to the next label as its input, which is then no JSON.
@pytest.mark.parametrize("tool_format", [each for each in FAMILY_FORMATS if each is not ToolFormat.TEXT])
def test_calls_before_a_closing_mark_that_none_opened_are_guesses(tool_format: ToolFormat) -> None:
    """The prompt had opened the thought, and nobody said so. The events have told the call; the messages mend it."""
    family = family_of(tool_format)
    text = f"I could.\n{family.write_call('rm', '{}')}\nbut no.\n</think>\nI will not."
    events = check_family_laws(family, text, MARKED, range(len(text)))
    if any(isinstance(event, HeaderCompleted) and event.header.is_call for event in events):
        codes = [event.diagnostic.code for event in events if isinstance(event, Repaired)]
        assert ErrorCode.FAMILY_CALL_IN_THOUGHT in codes or ErrorCode.FAMILY_UNREADABLE_CALL in codes
    calls = [call_of(message) for message in read_answer(family, text, MARKED)]
    assert all(call is None or call.status == "guessed" for call in calls)
