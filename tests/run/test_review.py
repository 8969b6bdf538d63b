"""The run and the agent under consumers, engines and approvers that do not behave."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from array import array
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from harmonia import Conversation, ErrorCode, InputError, Message, Role, render
from harmonia.events import Event, TurnEnded
from harmonia.messages import pending_calls
from harmonia.run.agent import Agent
from harmonia.run.engines import PROVIDER_TRAITS, Chunk, Finish, Request, Usage
from harmonia.run.events import CallStarted, PendingCall, RunEnded, TurnEvent
from harmonia.run.loop import Run, run
from harmonia.run.options import RunLimits
from harmonia.run.providers.answer import Answer, text_header
from harmonia.run.tool_calls import Approve, Decision, Edit, Refuse
from harmonia.run.tools import Tool
from tests.support.engines.scripted import ScriptedEngine, calls, final, say, think
from tests.support.watchdog import WATCHDOG_S

T = TypeVar("T")
CALL = calls("get_weather", '{"city": "Paris"}')


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(coroutine, WATCHDOG_S))


def result_of(this: Run) -> RunEnded:
    return wait_for(this.result())


def events_of(this: Run) -> list[TurnEvent]:
    async def collect() -> list[TurnEvent]:
        return [event async for event in this]

    return wait_for(collect())


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"Sunny in {city}"


async def is_left_alone() -> bool:
    """Whether no cancellation is on its way to this task."""
    await asyncio.sleep(0)
    task = asyncio.current_task()
    return task is not None and task.cancelling() == 0


# ── stopping ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_approver_may_stop_the_run_that_asks_it() -> None:
    async def scenario() -> RunEnded:
        async def approve(pending: PendingCall) -> Decision:
            this.stop()
            return Refuse()

        this = run(ScriptedEngine(CALL, final("No.")), "Go.", tools=[get_weather], approve=approve)
        ended = await this.result()
        assert await is_left_alone()
        return ended

    ended = wait_for(scenario())
    assert ended.reason == "stopped"
    assert not pending_calls(ended.conversation)


def test_an_engine_may_stop_its_run() -> None:
    class Engine(ScriptedEngine):
        async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
            yield Chunk(say("<|channel|>final<|message|>Once"))
            this.stop()
            yield Chunk(say(" upon"))
            raise AssertionError("it was stopped")

    this = run(Engine(""), "Go.")

    async def scenario() -> RunEnded:
        ended = await this.result()
        assert await is_left_alone()
        return ended

    assert wait_for(scenario()).reason == "stopped"


def test_a_stop_that_the_engine_keeps_to_itself_leaves_no_cancellation_behind() -> None:
    class Engine(ScriptedEngine):
        async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
            asyncio.get_running_loop().call_soon(this.stop)
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            yield Chunk(say(final("I did not hear.")))
            yield Finish("stop")

    this = run(Engine(""), "Go.")

    async def scenario() -> RunEnded:
        ended = await this.result()
        assert await is_left_alone()
        return ended

    assert wait_for(scenario()).reason == "stopped"


def test_a_task_that_was_cancelled_before_can_stop_a_run_too() -> None:
    async def scenario() -> RunEnded:
        begun = asyncio.Event()

        async def clean_up() -> RunEnded:
            try:
                begun.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pass
            this = run(ScriptedEngine([asyncio.Event()]), "Go.")
            asyncio.get_running_loop().call_later(0, this.stop)
            return await this.result()

        task = asyncio.create_task(clean_up())
        await begun.wait()
        task.cancel()
        return await task

    assert wait_for(scenario()).reason == "stopped"


def test_another_thread_may_stop_a_run() -> None:
    class Engine(ScriptedEngine):
        async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
            yield Chunk(say("<|channel|>final<|message|>Once"))
            threading.Thread(target=this.stop).start()
            await asyncio.Event().wait()

    this = run(Engine(""), "Go.")
    ended = result_of(this)
    assert ended.reason == "stopped"
    assert ended.conversation[-1].text == "Once"


def test_a_call_that_would_be_handed_over_is_answered_where_the_run_is_stopped() -> None:
    both = calls("elsewhere", "{}") + "<|start|>assistant" + calls("forever", "{}")

    async def forever() -> None:
        """It does not end."""
        await asyncio.Event().wait()

    async def scenario() -> Run:
        this = run(ScriptedEngine(both), "Go.", tools=[Tool("elsewhere", "It runs elsewhere."), forever])
        async for event in this:
            if isinstance(event, CallStarted):
                asyncio.get_running_loop().call_later(0, this.stop)
        return this

    this = wait_for(scenario())
    assert this.ended is not None
    assert this.ended.reason == "stopped"
    assert this.ended.pending == ()
    assert not pending_calls(this.conversation)


def test_a_call_that_was_done_when_the_run_was_stopped_has_its_result() -> None:
    async def book() -> str:
        """Book a table, once."""
        this.stop()
        return "Booked."

    this = run(ScriptedEngine(calls("book", "{}")), "Go.", tools=[book])
    ended = result_of(this)
    assert ended.reason == "stopped"
    assert ended.conversation[-1].text == "Booked."


def test_a_call_is_not_begun_behind_a_stop() -> None:
    heard: list[str] = []

    async def approve(pending: PendingCall) -> Decision:
        for _ in range(5):
            await asyncio.sleep(0)
        return Approve()

    async def get_weather(city: str) -> str:
        """The weather."""
        heard.append(city)
        return "Sunny"

    async def scenario() -> Run:
        engine = ScriptedEngine(CALL + "<|start|>assistant" + CALL)
        this = run(engine, "Go.", tools=[get_weather], approve=approve)
        async for event in this:
            if isinstance(event, CallStarted):
                this.stop()
        return this

    assert not pending_calls(wait_for(scenario()).conversation)
    assert heard == []


def test_what_came_is_kept_where_closing_the_engine_is_cancelled() -> None:
    async def scenario() -> Conversation:
        closing = asyncio.Event()

        class Engine(ScriptedEngine):
            async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
                try:
                    yield Chunk(say("<|channel|>final<|message|>Once"))
                    yield Chunk(say(" upon"))
                finally:
                    closing.set()
                    await asyncio.Event().wait()

        this = run(Engine(""), "Story?")

        async def consume() -> None:
            async for event in this:
                if getattr(event, "text", "") == "Once":
                    break
            await this.close()

        task = asyncio.create_task(consume())
        await closing.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return this.conversation

    assert wait_for(scenario())[-1].text == "Once"


def test_a_time_limit_does_not_keep_a_run_alive_that_was_left() -> None:
    async def scenario() -> int:
        engine = ScriptedEngine(final("A long story."))
        async for event in run(engine, "Story?", limits=RunLimits(time_s=3600)):
            if getattr(event, "text", ""):
                break
        gc.collect()
        for _ in range(5):
            await asyncio.sleep(0)
        return engine.running

    assert wait_for(scenario()) == 0


def test_a_run_that_somebody_waits_for_cannot_be_closed() -> None:
    async def scenario() -> None:
        this = run(ScriptedEngine([asyncio.Event()]), "Go.")
        task = asyncio.create_task(this.result())
        for _ in range(5):
            await asyncio.sleep(0)
        with pytest.raises(InputError) as caught:
            await this.close()
        assert caught.value.code is ErrorCode.RUN_INVALID_OPTION
        this.stop()
        assert (await task).reason == "stopped"

    wait_for(scenario())


# ── what engines send ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("chunk", [1, 3, 7, 1000])
def test_what_follows_the_end_is_left_out_however_it_is_cut(chunk: int) -> None:
    engine = ScriptedEngine(final("One.") + "<|start|>assistant" + final("Two.") + "<|start|>assistant", chunk=chunk)
    ended = result_of(run(engine, "Go."))
    assert [message.text for message in ended.conversation][-2:] == ["Go.", "One."]
    assert ended.reason == "answered"


def test_an_empty_chunk_behind_the_end_is_nothing() -> None:
    engine = ScriptedEngine([final("One."), Chunk(), Finish("stop", Usage(7, 5, 3))])
    assert result_of(run(engine, "Go.")).usage == Usage(7, 5, 3)


def test_tokens_may_come_in_any_sequence() -> None:
    engine = ScriptedEngine([Chunk(array("I", say(final("One."))))])
    assert result_of(run(engine, "Go.")).conversation[-1].text == "One."


# ── going on ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_engine_that_speaks_text_goes_on_with_a_message_that_was_begun() -> None:
    engine = ScriptedEngine("lo there.<|return|>", is_text=True)
    begun = Message(Role.ASSISTANT, "Hel", channel="final")
    ended = result_of(run(engine, "Go.", prefix=begun))
    assert ended.reason == "answered"
    assert ended.conversation[-1].text == "Hello there."


def test_a_begun_call_that_goes_on_as_text_is_not_certain() -> None:
    engine = ScriptedEngine('is"}<|call|>', final("No."), is_text=True)
    begun = Message(
        Role.ASSISTANT,
        '{"city": "Par',
        channel="commentary",
        recipient="functions.get_weather",
        content_type="<|constrain|>json",
    )
    ended = result_of(run(engine, "Go.", prefix=begun, tools=[get_weather]))
    assert ErrorCode.TOOL_NOT_CERTAIN.value in ended.conversation[-2].text


def test_typed_control_tokens_in_a_begun_message_stay_text_for_a_text_engine() -> None:
    engine = ScriptedEngine(" is how it ends.<|return|>", is_text=True)
    begun = Message(Role.ASSISTANT, "<|return|>", channel="final")
    ended = result_of(run(engine, "Go.", prefix=begun))
    assert ended.conversation[-1].text.endswith(" is how it ends.")
    assert len(ended.conversation) == 3


def test_what_was_cut_off_behind_a_whole_message_goes_on_with_the_next_one() -> None:
    cut = think("A whole thought.") + '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"ci'
    first = result_of(run(ScriptedEngine([cut, Finish("length")]), "Go.", tools=[get_weather]))
    assert first.reason == "length"
    engine = ScriptedEngine(final("Done."))
    ended = result_of(run(engine, first.conversation, tools=[get_weather], resume=True))
    assert [message.text for message in ended.conversation][-2:] == ["A whole thought.", "Done."]
    assert engine.prompts == [render(first.conversation).tokens]


def test_a_call_that_waits_for_its_result_is_not_resumed() -> None:
    first = result_of(run(ScriptedEngine(CALL), "Go.", tools=[Tool("get_weather", "Elsewhere.")]))
    assert first.reason == "calls"
    with pytest.raises(InputError) as caught:
        run(ScriptedEngine(final("x")), first.conversation, resume=True)
    assert caught.value.code is ErrorCode.RUN_INVALID_OPTION


# ── what callers ask for ────────────────────────────────────────────────────────────────────────────────────────────


def test_no_call_is_run_where_the_choice_is_none() -> None:
    ended = result_of(run(ScriptedEngine(CALL, final("No.")), "Go.", tools=[get_weather], tool_choice="none"))
    assert ErrorCode.TOOL_NOT_ALLOWED.value in ended.conversation[-2].text


def test_the_limit_of_calls_holds_within_one_completion() -> None:
    engine = ScriptedEngine("<|start|>assistant".join([CALL] * 5))
    heard: list[str] = []

    def get_weather(city: str) -> str:
        heard.append(city)
        return "Sunny"

    ended = result_of(run(engine, "Go.", tools=[get_weather], limits=RunLimits(calls=2)))
    assert (ended.reason, ended.limit, len(heard)) == ("limit", "calls", 2)
    assert not pending_calls(ended.conversation)


@pytest.mark.parametrize("choice", ["required", "get_weather"])
def test_a_call_is_demanded_once(choice: str) -> None:
    engine = ScriptedEngine(CALL, final("Sunny."))
    result_of(run(engine, "Go.", tools=[get_weather], tool_choice=choice))
    assert [request.tool_choice == "auto" for request in engine.requests] == [False, True]


def test_an_effort_that_is_none_is_the_callers_fault() -> None:
    with pytest.raises(InputError) as caught:
        run(ScriptedEngine(final("x")), "Go.", effort="much")
    assert caught.value.code is ErrorCode.RUN_INVALID_OPTION


def test_edited_arguments_that_are_no_json_are_the_callers_fault() -> None:
    engine = ScriptedEngine(CALL, final("x"))
    this = run(engine, "Go.", tools=[get_weather], approve=lambda _: Edit({"city": object()}))
    with pytest.raises(InputError) as caught:
        result_of(this)
    assert caught.value.code is ErrorCode.RUN_INVALID_OPTION
    assert not pending_calls(this.conversation)


def test_a_provider_that_only_reasons_is_said_to_have_done_so() -> None:
    class Provider:
        name = "provider"
        traits = PROVIDER_TRAITS
        model = "some"

        def __init__(self, channel: str | None) -> None:
            self._channel = channel

        async def respond(self, conversation: Conversation, request: Request) -> AsyncGenerator[Event | Finish, None]:
            answer = Answer()
            if self._channel is not None:
                answer.open(0, text_header(self._channel))
                answer.add(0, "Hm.")
            answer.finish(is_whole=True)
            for event in answer.take():
                yield event
            yield Finish("stop")

        async def close(self) -> None:
            pass

    ends = [result_of(run(Provider(channel), "Go.")) for channel in (None, "analysis", "final")]
    assert [ended.reason for ended in ends] == ["silent", "silent", "answered"]
    assert len({ended.hidden_because for ended in ends}) == 3
    turns = [each for each in events_of(run(Provider("final"), "Go.")) if isinstance(each, TurnEnded)]
    assert turns == [TurnEnded("return", None)]


# ── the agent ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_answer_has_nothing_of_the_conversation_before_it() -> None:
    before = [Message.user("1?"), Message(Role.ASSISTANT, "Old.", channel="final")]
    with Agent(ScriptedEngine(final("New.")), tools=[get_weather], conversation=before) as agent:
        assert agent.ask("2?").text == "New."
        assert agent.ask("3?").text == "New."


def test_an_interrupted_answer_is_kept_whatever_the_engine_does_to_end() -> None:
    class Engine(ScriptedEngine):
        async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
            try:
                yield Chunk(say("<|channel|>final<|message|>Once"))
                signal.pthread_kill(main or 0, signal.SIGINT)
                await asyncio.Event().wait()
            finally:
                for _ in range(20):
                    await asyncio.sleep(0)

    main = threading.main_thread().ident
    with Agent(Engine("")) as agent:
        with pytest.raises(KeyboardInterrupt):
            agent.ask("Story?")
        assert agent.conversation[-1].text == "Once"


def test_the_next_question_ends_a_stream_that_was_left_behind() -> None:
    with Agent(ScriptedEngine(final("One."), final("Two."))) as agent:
        stream = agent.stream("1?")
        while not getattr(next(stream), "text", ""):
            pass
        assert agent.ask("2?").text == "Two."
        assert list(stream) == []
        assert [message.text for message in agent.conversation][1:] == ["1?", "One", "2?", "Two."]


def test_an_agent_that_is_asked_by_its_own_tool_says_so() -> None:
    async def ask_again() -> str:
        """Ask the same agent."""
        return agent.ask("And?").text

    with Agent(ScriptedEngine(calls("ask_again", "{}"), final("Done.")), tools=[ask_again]) as agent:
        answer = agent.ask("Go.")
    assert ErrorCode.TOOL_FAILED.value in answer.conversation[-2].text
    assert answer.text == "Done."


def test_an_agent_answers_one_question_at_a_time() -> None:
    def ask_again() -> str:
        """Ask the same agent, from a thread of its own."""
        return agent.ask("And?").text

    with Agent(ScriptedEngine(calls("ask_again", "{}"), final("Done.")), tools=[ask_again]) as agent:
        answer = agent.ask("Go.")
        assert agent.ask("Again.").text == "Done."
    assert ErrorCode.TOOL_FAILED.value in answer.conversation[-2].text
    assert answer.text == "Done."


def test_a_closed_agent_says_so() -> None:
    agent = Agent("demo")
    agent.close()
    agent.close()
    with pytest.raises(InputError) as caught:
        agent.ask("Hi")
    assert caught.value.code is ErrorCode.RUN_INVALID_OPTION


def test_an_engine_that_cannot_be_closed_does_not_keep_the_thread() -> None:
    class Engine(ScriptedEngine):
        async def close(self) -> None:
            raise ConnectionError("no")

    before = threading.active_count()
    agent = Agent(Engine(""))
    with pytest.raises(ConnectionError):
        agent.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("last", ["agent.ask('Hi')", "stream = agent.stream('Hi'); next(stream)"])
def test_a_program_ends_in_peace_with_an_agent_that_nobody_closed(last: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"from harmonia.run.agent import Agent\nagent = Agent('demo')\n{last}\n")
    command = [sys.executable, "-W", "error", str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WATCHDOG_S, check=False, env=os.environ)
    assert (ended.returncode, ended.stderr) == (0, "")
