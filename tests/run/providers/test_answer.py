"""Messages in any order and interleaved: the events of one never stand between those of another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia.errors import EngineError, ErrorCode
from harmonia.events import Event, HeaderCompleted, MessageEnded, MessageStarted
from harmonia.run.providers import answer as answers
from harmonia.run.providers.answer import Answer, call_header, text_header

HEADERS = {"think": text_header("analysis"), "say": text_header("final"), "call": call_header("functions.f")}
TEXTS = st.text(st.characters(categories=["L", "N", "So", "Cs"]), max_size=6)


def ended(events: list[Event]) -> list[tuple[str | None, str, str | None]]:
    return [
        (event.message.channel, event.message.text, event.stop) for event in events if isinstance(event, MessageEnded)
    ]


def assert_one_after_the_other(events: list[Event]) -> None:
    is_open = False
    for event in events:
        if isinstance(event, MessageStarted | MessageEnded):
            assert is_open == isinstance(event, MessageEnded)
            is_open = not is_open
        else:
            assert is_open
    assert not is_open


@given(st.data())
def test_interleaved_messages_come_whole_one_after_the_other(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(HEADERS)), min_size=1, max_size=5))
    answer, events = Answer(), list[Event]()
    texts: dict[int, str] = {}
    closed: set[int] = set()
    is_whole = data.draw(st.booleans())
    for key, kind in enumerate(kinds):
        answer.open(key, HEADERS[kind])
        texts[key] = ""
        for _ in range(data.draw(st.integers(0, 4))):
            each = data.draw(st.sampled_from([other for other in texts if other not in closed] or [key]))
            if each in closed:
                break
            text = data.draw(TEXTS)
            answer.add(each, text)
            texts[each] += text
            if data.draw(st.integers(0, 4)) == 0:
                answer.close(each)
                closed.add(each)
            events += answer.take()
    answer.finish(is_whole=is_whole)
    events += answer.take()
    assert_one_after_the_other(events)
    expected = sorted(mend(text) for key, text in texts.items() if text or kinds[key] == "call")
    assert sorted(text for _, text, _ in ended(events)) == expected
    headers = [event.header for event in events if isinstance(event, HeaderCompleted)]
    for header, (channel, _, stop) in zip(headers, ended(events), strict=True):
        assert channel == header.channel or (header.channel, channel) == ("final", "commentary")
        assert stop in (None, "call") if header.is_call else stop in (None, "end", "return")
        assert stop is not None or not is_whole


def mend(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def test_the_last_text_of_a_whole_answer_returns_and_the_others_end() -> None:
    answer = Answer()
    for key, kind in enumerate(("think", "say", "say")):
        answer.open(key, HEADERS[kind])
        answer.add(key, kind)
        answer.close(key)
    answer.finish(is_whole=True)
    assert ended(answer.take()) == [("analysis", "think", "end"), ("final", "say", "end"), ("final", "say", "return")]


def test_a_provider_that_names_the_channel_is_believed() -> None:
    answer = Answer()
    answer.open("say", HEADERS["say"], is_sure=True)
    answer.add("say", "Done.")
    answer.open("call", HEADERS["call"])
    answer.finish(is_whole=True)
    assert [channel for channel, _, _ in ended(answer.take())] == ["final", "commentary"]


def test_arguments_without_a_name_are_dropped_and_noted() -> None:
    answer = Answer()
    answer.open("call", None)
    answer.add("call", "{}")
    answer.finish(is_whole=True)
    assert answer.take() == []
    assert len(answer.notes) == 1


@pytest.mark.parametrize(("limit", "value"), [("MOST_CHARS", 10), ("MOST_MESSAGES", 2)])
def test_a_provider_without_an_end_is_stopped(limit: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, limit, value)
    answer = Answer()

    def send_much() -> None:
        for key in range(20):
            answer.open(key, HEADERS["think"])
            answer.add(key, "more")

    with pytest.raises(EngineError) as stopped:
        send_much()
    assert stopped.value.code is ErrorCode.ENGINE_BAD_ANSWER
