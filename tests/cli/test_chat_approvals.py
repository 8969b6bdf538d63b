"""What a person can answer when a call waits for approval in the terminal."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from harmonia.cli.chats.asking import Approvals, Asker
from harmonia.messages import Message
from harmonia.parts import call_of
from harmonia.parts.message_parts import CallStatus
from harmonia.run.events import PendingCall
from harmonia.run.tool_calls import Answer, Approve, Decision, Edit, Refuse


class _ScriptedAsker(Asker):
    """Answers from a list; an exception in it is raised."""

    def __init__(self, *answers: str | BaseException) -> None:
        self.answers = list(answers)
        self.said: list[str] = []

    def say(self, line: str, *, bold: bool = False) -> None:
        self.said.append(line)

    async def line(self, prompt: str, default: str = "") -> str:
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer or default


def _pending(status: CallStatus = "certain") -> PendingCall:
    message = Message.call("functions.get_weather", '{"city": "Paris"}')
    call = call_of(message)
    assert call is not None
    return PendingCall("call_1", msgspec.structs.replace(call, status=status), message)


def _decide(asker: _ScriptedAsker, *pending: PendingCall) -> list[Decision]:
    async def all_of_them() -> list[Decision]:
        approvals = Approvals(asker, lambda: asker.said.append("stopped"))
        return [await approvals(each) for each in pending]

    return asyncio.run(all_of_them())


@pytest.mark.parametrize(
    ("answers", "decision"),
    [
        (["y"], Approve()),
        (["what?", " YES "], Approve()),
        (["n", ""], Refuse(None)),
        (["no", " too far "], Refuse("too far")),
        (["e", '{"city": "Lyon"}'], Edit({"city": "Lyon"})),
        (["e", ""], Edit({"city": "Paris"})),
        (["w", "21 degrees"], Answer("21 degrees")),
        ([EOFError()], Refuse()),
    ],
)
def test_each_answer_is_a_decision(answers: list[str | BaseException], decision: Decision) -> None:
    asker = _ScriptedAsker(*answers)
    assert _decide(asker, _pending()) == [decision]
    assert not asker.answers
    assert "functions.get_weather" in asker.said[0]
    assert "Paris" in asker.said[1]


def test_edited_arguments_that_are_not_json_are_edited_again() -> None:
    asker = _ScriptedAsker("e", '{"city": ', "e", '{"city": "Lyon"}')
    assert _decide(asker, _pending()) == [Edit({"city": "Lyon"})]
    assert asker.said[-1].startswith("not valid JSON")


def test_always_holds_for_later_calls_that_are_certain_only() -> None:
    asker = _ScriptedAsker("a", "n", "")
    assert _decide(asker, _pending(), _pending(), _pending("guessed")) == [Approve(), Approve(), Refuse(None)]
    assert any("not certain" in line for line in asker.said)


def test_ctrl_c_at_the_question_stops_the_run_and_refuses() -> None:
    asker = _ScriptedAsker(KeyboardInterrupt())
    assert _decide(asker, _pending()) == [Refuse()]
    assert asker.said[-1] == "stopped"
