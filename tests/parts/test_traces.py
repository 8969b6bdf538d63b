"""Collections of traces in Markdown: what a block is, where chunks end, and what is told about a bad file."""

from __future__ import annotations

import pytest

from harmonia import ErrorCode, InputError, Position
from harmonia.parts import Trace, read_traces
from tests.support.paths import ROOT

SAMPLES = ROOT / "tests" / "data" / "harmony-samples.md"


def read_one(text: str) -> Trace:
    (trace,) = read_traces(text)
    return trace


def block(body: str, info: str = "harmony name:a", fence: str = "```") -> str:
    return f"{fence}{info}\n{body}\n{fence}\n"


def test_the_samples_are_read_in_order_with_their_lines() -> None:
    lines = SAMPLES.read_text().split("\n")
    traces = read_traces(SAMPLES.read_text())
    assert [trace.name for trace in traces] == [
        "simple-final",
        "tool-call-roundtrip",
        "multi-channel-one-turn",
        "chunk-split-sentinels",
        "two-tool-calls",
        "malformed-missing-end",
        "tool-args-pretty-json",
    ]
    assert all(lines[trace.line - 1] == f"```harmony name:{trace.name}" for trace in traces)
    assert all(trace.expected for trace in traces)


def test_text_is_verbatim_and_ends_before_the_line_break_of_the_fence() -> None:
    assert read_one(block("  one\n\n two ")).text == "  one\n\n two "


def test_a_marker_parts_two_chunks_and_empty_chunks_are_left_out() -> None:
    trace = read_one(block("<<<CHUNK>>>one<<<CHUNK>>><<<CHUNK>>>\ntwo<<<CHUNK>>>"))
    assert trace.chunks == ("one", "\ntwo")
    assert trace.text == "one\ntwo"


@pytest.mark.parametrize(
    ("body", "chunks"),
    [
        ("<|sta\nrt|>assistant", ("<|sta", "rt|>assistant")),
        ("<\n|start|>", ("<", "|start|>")),
        ("<|start|\n>", ("<|start|", ">")),
        ("<|s\nta\nrt|>", ("<|s", "ta", "rt|>")),
        ("<|sta<<<CHUNK>>>\nrt|>", ("<|sta", "rt|>")),
        ("<<<CHUNK>>><|reserved_\n200013|>", ("<|reserved_", "200013|>")),
        ("<|nothing\nspecial|>", ("<|nothing\nspecial|>",)),
        ("<|start|>\n<|end|>", ("<|start|>\n<|end|>",)),
    ],
)
def test_a_line_break_inside_a_special_token_is_a_chunk_boundary(body: str, chunks: tuple[str, ...]) -> None:
    assert read_one(block(body)).chunks == chunks


@pytest.mark.parametrize("fence", ["```", "`````", "~~~", "~~~~~", "   ```", "\t```"])
def test_fences_may_be_longer_of_tildes_and_indented(fence: str) -> None:
    assert read_one(block("text", fence=fence)).text == "text"


def test_a_longer_fence_may_hold_a_shorter_one() -> None:
    assert read_one(block("```\ncode\n```", fence="````")).text == "```\ncode\n```"


def test_a_block_in_a_list_loses_the_indentation_of_its_fence() -> None:
    assert read_one("- item\n\n  ```harmony name:a\n  one\n    two\nthree\n  ```\n").text == "one\n  two\nthree"


@pytest.mark.parametrize("info", ["harmony name:a", " harmony  name: a ", "Harmony NAME :a", "harmony\tname:a"])
def test_white_space_and_case_of_the_info_do_not_matter(info: str) -> None:
    assert read_one(block("text", info)).name == "a"


def test_a_file_from_another_system_reads_the_same() -> None:
    text = block("one\ntwo") + block('{"a": 1}', "expected name:a")
    assert read_traces("\ufeff" + text.replace("\n", "\r\n")) == read_traces(text)


def test_other_blocks_and_unnamed_examples_are_ignored() -> None:
    other = block("```harmony name:b", "python", "````") + block("text", "harmony") + block("text", "")
    assert [trace.name for trace in read_traces(f"words\n{other}\n{block('text')}")] == ["a"]


def test_what_is_expected_may_stand_anywhere_or_be_missing() -> None:
    text = block("[1]", "expected name:b") + block("one") + block("two", "harmony name:b")
    assert [(trace.name, trace.expected) for trace in read_traces(text)] == [("a", None), ("b", [1])]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(block("x") + "\n" + block("y"), 5, id="a name twice"),
        pytest.param(block("x") + 2 * block("1", "expected name:a"), 7, id="expected twice"),
        pytest.param("\n" + block("1", "expected name:a"), 2, id="expected without harmony"),
        pytest.param(block("x") + block('{\n"a": ]\n}', "expected name:a"), 6, id="not JSON"),
        pytest.param(block("x") + block("NaN", "expected name:a"), 5, id="NaN"),
        pytest.param(block("x") + block("", "expected name:a"), 5, id="nothing expected"),
        pytest.param(block("x") + "```expected name:a\n```\n", 5, id="not even a line"),
        pytest.param("\n```harmony name:a\ntext\n", 2, id="never closed"),
        pytest.param("```python\ntext\n~~~\n", 1, id="another block never closed"),
        pytest.param(block("x", "harmony nam:a"), 1, id="no name"),
        pytest.param(block("x", "harmony name:"), 1, id="an empty name"),
        pytest.param(block("x", "harmony name:a b"), 1, id="a name of two words"),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_bad_file_is_refused_with_the_line(text: str, line: int, line_end: str) -> None:
    lines = [one + line_end for one in text.split("\n")]
    with pytest.raises(InputError) as caught:
        read_traces("".join(lines))
    assert caught.value.code is ErrorCode.PARSE_INVALID_INPUT
    assert caught.value.message.startswith(f"line {line}: ")
    # A block without a line points to its fence, for lack of anything better.
    is_bare = lines[line - 1].strip() == "```"
    assert caught.value.at == Position(character=len("".join(lines[: line - 2 if is_bare else line - 1])))
