"""Calls with their results: by name of the call, by order, and what finds no partner."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia import Conversation, ErrorCode, InputError, Message, ToolCall, parts_of
from harmonia.history import compare, prepare
from harmonia.history.preparation import turns_of
from harmonia.messages import call_id, join_results, pending_calls
from tests.support.strategies.chats import call, final, odd_chats, python, result, think, user


def pairs(*messages: Message) -> list[tuple[int, int | None]]:
    return [(exchange.index, exchange.result_index) for exchange in join_results(messages)]


def orphans(*messages: Message) -> list[int]:
    return [orphan.index for orphan in join_results(messages).orphans]


def texts(conversation: Conversation) -> list[str | None]:
    return [exchange.result and exchange.result.text for exchange in join_results(conversation)]


# ── by order ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_result_belongs_to_the_call_to_its_tool() -> None:
    parallel = [user(), call("functions.f"), call("functions.g"), result("functions.g"), result("functions.f")]
    assert pairs(*parallel) == [(1, 4), (2, 3)]


def test_calls_to_one_tool_are_answered_in_their_order() -> None:
    assert pairs(user(), call(), call(), call(), result(), result()) == [(1, 4), (2, 5), (3, None)]


def test_the_namespace_of_functions_may_be_left_out() -> None:
    assert pairs(user(), call("f"), result("functions.f"), call("functions.f"), result("f")) == [(1, 2), (3, 4)]


def test_a_call_that_was_never_answered_does_not_take_a_later_ones_result() -> None:
    assert pairs(user(), call(), user("Again."), call(), result()) == [(1, None), (3, 4)]
    assert pairs(user(), call(), call("functions.g"), result("functions.g"), call(), result()) == [
        (1, None),
        (2, 3),
        (4, 5),
    ]


def test_a_result_may_come_behind_the_next_word_of_the_user() -> None:
    assert pairs(user(), call(), user("Hurry."), result()) == [(1, 3)]


def test_a_built_in_tool_is_called_on_analysis() -> None:
    assert pairs(user(), python(), Message.tool("python", "2", channel="analysis")) == [(1, 2)]


def test_messages_to_roles_and_of_others_are_no_calls() -> None:
    assert pairs(Message("assistant", "Hm.", "analysis", "user"), Message("user", "x", None, "functions.f")) == []


# ── orphans and pending calls ───────────────────────────────────────────────────────────────────────────────────────


def test_a_result_without_a_call_is_an_orphan() -> None:
    assert orphans(user(), result()) == [1]
    assert orphans(user(), call(), result("functions.g")) == [2]
    assert orphans(user(), call(), result(), result()) == [3]
    assert orphans(user(), result(), call()) == [1]


def test_a_call_waits_until_there_is_an_answer_or_the_user_speaks() -> None:
    waiting = [user(), call(), call()]
    assert [exchange.id for exchange in pending_calls(waiting)] == ["call_1", "call_2"]
    assert [exchange.id for exchange in pending_calls([*waiting, result()])] == ["call_2"]
    assert orphans(*waiting) == []
    for over in (final(), user("Never mind.")):
        assert pending_calls([*waiting, over]) == ()
        assert orphans(*waiting, over) == [1, 2]
    reasons = {join_results([*waiting, over]).orphans[0].reason for over in (final(), user())}
    assert len(reasons) == 2


@given(odd_chats)
def test_every_call_and_every_result_is_somewhere(chat: Conversation) -> None:
    joined = join_results(chat)
    results = [exchange.result_index for exchange in joined if exchange.result_index is not None]
    assert len(results) == len(set(results))
    lonely = {orphan.index for orphan in joined.orphans}
    assert sorted(results + [index for index in lonely if chat[index].role == "tool"]) == [
        index for index, message in enumerate(chat) if message.role == "tool"
    ]
    unanswered = {exchange.index for exchange in joined if exchange.result is None}
    assert unanswered == {index for index in lonely if chat[index].role == "assistant"} | {
        exchange.index for exchange in joined.pending
    }
    for exchange in joined:
        assert exchange.call is chat[exchange.index]
        assert exchange.result_index is None or exchange.result_index > exchange.index


@given(odd_chats)
def test_ids_are_those_of_the_parts_and_do_not_change(chat: Conversation) -> None:
    joined = join_results(chat)
    assert [exchange.id for exchange in joined] == [part.id for part in parts_of(chat) if isinstance(part, ToolCall)]
    grown = join_results(chat.add_user("?").add(call()))
    assert [exchange.id for exchange in grown][: len(joined)] == [exchange.id for exchange in joined]


# ── adding results ──────────────────────────────────────────────────────────────────────────────────────────────────

TWO_CALLS = Conversation([user(), think(), call(arguments='{"a":1}'), call(arguments='{"a":2}')])


@pytest.mark.parametrize("name", ["call_3", 3, TWO_CALLS[3]])
def test_a_call_is_named_by_id_place_or_message(name: str | int | Message) -> None:
    assert texts(TWO_CALLS.add_tool_result(name, "two")) == [None, "two"]


def test_results_stand_in_the_order_of_the_calls_however_they_came() -> None:
    one_by_one = TWO_CALLS.add_tool_result("call_3", "two").add_tool_result("call_2", "one")
    at_once = TWO_CALLS.add_tool_results({"call_3": "two", "call_2": "one"})
    in_pairs = TWO_CALLS.add_tool_results([(TWO_CALLS[3], "two"), (2, "one")])
    assert [message.text for message in one_by_one[4:]] == ["one", "two"]
    assert one_by_one == at_once == in_pairs
    assert texts(one_by_one) == texts(Conversation.from_json(one_by_one.to_json())) == ["one", "two"]


def test_a_result_knows_its_call_in_what_is_prepared_copied_and_edited() -> None:
    answered = TWO_CALLS.add_tool_result("call_3", "two")
    prepared = prepare(answered.add(final())).conversation
    assert len(prepared) == 5
    for chat in (prepared, copy.deepcopy(answered), pickle.loads(pickle.dumps(answered)), answered[2:]):
        assert texts(chat) == [None, "two"]
    edited = Conversation([*answered.messages[:-1], answered[-1].replace(content="2")])
    assert texts(edited) == [None, "2"]


def test_a_result_whose_call_was_edited_is_joined_by_order() -> None:
    edited = [TWO_CALLS[2].replace(content="{}"), result().answering(TWO_CALLS[2])]
    assert pairs(*edited) == [(0, 1)]


def test_a_result_whose_call_is_gone_does_not_take_anothers_place() -> None:
    answered = TWO_CALLS.add_tool_results({"call_2": "one", "call_3": "two"})
    without_first = Conversation([*answered[:2], *answered[3:]])
    joined = join_results(without_first)
    assert [exchange.result and exchange.result.text for exchange in joined] == ["two"]
    assert [orphan.message.text for orphan in joined.orphans] == ["one"]


def test_the_same_message_twice_is_two_calls() -> None:
    twice = Conversation([user(), TWO_CALLS[2], TWO_CALLS[2]])
    once = twice.add_tool_result(TWO_CALLS[2], "one")
    assert texts(once) == ["one", None]
    assert texts(once.add_tool_result(TWO_CALLS[2], "two")) == ["one", "two"]


def test_a_second_result_that_names_its_call_is_an_orphan() -> None:
    one = call()
    assert orphans(one, result().answering(one), result().answering(one)) == [2]


def test_results_of_built_in_tools_are_on_the_channel_of_the_call() -> None:
    chat = Conversation([user(), python(), Message.call("functions.f", "{}", channel="analysis")])
    first, second = chat.add_tool_results({"call_1": "2", "call_2": "1"})[3:]
    assert (first.name, first.channel, first.recipient) == ("python", "analysis", "assistant")
    assert (second.name, second.channel) == ("functions.f", "commentary")
    other = chat.add_tool_result("call_1", "2", name="functions.python", channel="commentary")[-1]
    assert (other.name, other.channel) == ("functions.python", "commentary")


def test_an_answer_that_came_too_late_can_still_be_added() -> None:
    over = TWO_CALLS.add(final())
    assert texts(over.add_tool_result("call_2", "one")) == ["one", None]


@pytest.mark.parametrize("name", ["call_1", "call_9", "2", 0, -1, call("functions.other")])
def test_an_unknown_call_is_refused(name: str | int | Message) -> None:
    with pytest.raises(InputError) as caught:
        TWO_CALLS.add_tool_result(name, "?")
    assert caught.value.code is ErrorCode.HISTORY_UNKNOWN_CALL
    assert caught.value.at.message == (name if isinstance(name, int) else None)


def test_a_second_result_is_refused() -> None:
    answered = TWO_CALLS.add_tool_result("call_2", "one")
    adding: list[Callable[[], Conversation]] = [
        lambda: answered.add_tool_result("call_2", "again"),
        lambda: TWO_CALLS.add_tool_results([(2, "one"), ("call_2", "again")]),
    ]
    for add in adding:
        with pytest.raises(InputError) as caught:
            add()
        assert caught.value.code is ErrorCode.HISTORY_ANSWERED_CALL
        assert caught.value.at.message == 2


@given(st.lists(st.sampled_from(["functions.f", "functions.g", "python"]), min_size=1, max_size=6), st.data())
def test_any_order_of_adding_gives_the_same_conversation(names: list[str], data: st.DataObject) -> None:
    chat = Conversation([user(), *map(call, names)])
    order = data.draw(st.permutations(range(1, len(chat))))
    for index in order:
        before = texts(chat)
        chat = chat.add_tool_result(call_id(index), f"result {index}")
        before[index - 1] = f"result {index}"
        assert texts(chat) == before
    assert [message.text for message in chat[len(names) + 1 :]] == [
        f"result {index + 1}" for index in range(len(names))
    ]


# ── linear ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def count_lines(work: Callable[[], object]) -> int:
    """How many lines are run."""
    lines = 0

    def trace(_frame: object, event: str, _argument: object) -> object:
        nonlocal lines
        lines += event == "line"
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)  # pyright: ignore[reportArgumentType] -- the local trace function is itself
    try:
        work()
    finally:
        sys.settrace(previous)
    return lines


MANY = 150


def long_chats(count: int) -> list[Conversation]:
    parallel = Conversation([user(), *(call() for _ in range(count))])
    return [
        parallel,
        parallel.add(*(result() for _ in range(count))),
        parallel.add_tool_results([(index, "1") for index in range(count, 0, -1)]),
        Conversation(message for _ in range(count) for message in (user(), think(), call())),
        Conversation(message for _ in range(count) for message in (user(), think(), call(), result(), final())),
        Conversation(message for _ in range(count) for message in (user(), call(), user())).add(
            *(result() for _ in range(count))
        ),
    ]


WORK: dict[str, Callable[[Conversation], object]] = {
    "join": join_results,
    "turns": lambda chat: turns_of(chat.messages),
    "prepare": prepare,
    "results by place": lambda chat: chat.add_tool_results([(each.index, "1") for each in pending_calls(chat)]),
    "results by message": lambda chat: chat.add_tool_results([(each.call, "1") for each in pending_calls(chat)]),
    "compare": lambda chat: compare([*range(len(chat))] * 50, [*range(len(chat))] * 50),
}


@pytest.mark.parametrize("shape", range(6))
@pytest.mark.parametrize("name", WORK)
def test_the_work_is_linear(name: str, shape: int) -> None:
    work = WORK[name]
    small, large = long_chats(MANY)[shape], long_chats(2 * MANY)[shape]
    once, twice = count_lines(lambda: work(small)), count_lines(lambda: work(large))
    assert twice < 2.2 * once + 50
