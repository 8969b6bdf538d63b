"""The messages of two prompts side by side."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from harmonia import Message
from harmonia.history import align, prepare
from harmonia.history.preparation import FINISHED_TURN

USER, ANSWER = Message.user("Hi"), Message.assistant("Hello.", channel="final")
THOUGHT = Message.assistant("Hm.", channel="analysis")
MORE = Message.user("And?")


def message(text: str, kind: str) -> Message:
    return Message.user(text) if kind == "user" else Message.assistant(text, channel=kind)


_messages = st.lists(
    st.builds(message, st.sampled_from("abc"), st.sampled_from(["user", "analysis", "final"])), max_size=12
)


def kinds(before: list[Message], after: list[Message]) -> list[str]:
    return [row.kind for row in align(before, after)]


def test_the_same_are_the_same() -> None:
    assert kinds([USER, ANSWER], [USER, ANSWER]) == ["same", "same"]
    assert align([], []) == []


def test_what_goes_on_was_added() -> None:
    assert kinds([USER], [USER, ANSWER, MORE]) == ["same", "added", "added"]


def test_an_edited_message_changed() -> None:
    rows = align([USER, ANSWER, MORE], [USER, ANSWER.replace(content="Hallo."), MORE])
    assert [row.kind for row in rows] == ["same", "changed", "same"]
    assert (rows[1].before, rows[1].after) == (1, 1)


def test_reasoning_that_an_answer_followed_went_for_that_reason() -> None:
    rows = align([USER, THOUGHT, ANSWER], [USER, ANSWER, MORE])
    assert [(row.kind, row.reason) for row in rows] == [
        ("same", None),
        ("dropped", FINISHED_TURN),
        ("same", None),
        ("added", None),
    ]


def test_the_answer_may_be_in_the_second_prompt_only() -> None:
    rows = align([USER, THOUGHT], [USER, ANSWER, MORE])
    assert [(row.kind, row.reason) for row in rows][1] == ("dropped", FINISHED_TURN)


def test_what_went_for_no_reason_of_ours_has_none() -> None:
    assert [row.reason for row in align([USER, ANSWER], [ANSWER])] == [None, None]


@given(_messages)
def test_every_message_that_history_drops_is_told_with_its_reason(messages: list[Message]) -> None:
    prepared = prepare(messages)
    rows = align(messages, list(prepared.conversation))
    dropped = [row for row in rows if row.kind == "dropped"]
    assert Counter(messages[row.before or 0] for row in dropped) == Counter(each.message for each in prepared.dropped)


@given(_messages, _messages)
def test_each_message_is_in_one_row_and_in_its_order(before: list[Message], after: list[Message]) -> None:
    rows = align(before, after)
    assert [row.before for row in rows if row.before is not None] == list(range(len(before)))
    assert [row.after for row in rows if row.after is not None] == list(range(len(after)))
    for row in rows:
        match row.kind:
            case "same":
                assert before[row.before or 0] == after[row.after or 0]
            case "changed":
                assert before[row.before or 0] != after[row.after or 0]
            case "dropped":
                assert row.after is None
            case "added":
                assert row.before is None


def test_prompts_of_two_thousand_messages_are_aligned_in_few_steps() -> None:
    compared = 0

    class Counted(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        def __hash__(self) -> int:
            return str.__hash__(self)

    def prompt(shift: int) -> list[Message]:
        return [Message.user(Counted(f"message {(at + shift) % 7 if at % 3 else at + shift}")) for at in range(2000)]

    rows = align(prompt(0), prompt(9))
    assert len(rows) >= 2000
    assert compared < 40_000
