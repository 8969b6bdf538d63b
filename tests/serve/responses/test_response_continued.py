"""`harmonia_continue`: the model goes on within the message at the end of the input, from the tokens it was."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from harmonia import decode, encode
from harmonia.errors import EngineError, ErrorCode, InputError
from harmonia.renderer import Renderer
from harmonia.run.engines import PROVIDER_TRAITS, Chunk, Finish, Usage
from harmonia.run.engines.base import TokenLogprob
from harmonia.run.engines.demo import DemoEngine
from harmonia.serve.security.keys import Caller
from tests.support.engines.scripted import ScriptedEngine, calls, final, say, think
from tests.support.servers.served import WEATHER, create, fold, served, stream

Json = dict[str, Any]

HI: Json = {"type": "message", "role": "user", "content": "Hi"}
SEALED: Json = {"store": False, "include": ["harmonia.encrypted_content"]}
CUT = Finish("length")


def joined(before: Json, after: Json) -> Json:
    """The two as one, as a client joins them that keeps everything itself."""
    made = {**before, **{name: after[name] for name in ("status", "encrypted_content") if name in after}}
    if before.get("content"):
        part = before["content"][0]
        made["content"] = [{**part, "text": part["text"] + after["content"][0]["text"]}]
    return made


def odd(text: str) -> list[int]:
    """Tokens that nobody would write for this text."""
    return [token for letter in text for token in encode(letter)]


@pytest.mark.parametrize("analysis", ["shown", "hidden"])
@pytest.mark.parametrize("channel", ["analysis", "commentary", "final"])
@pytest.mark.parametrize("is_stored", [True, False])
def test_the_prompt_ends_within_the_message_as_it_was_sampled(
    tmp_path: Path, analysis: Any, channel: str, is_stored: bool
) -> None:
    async def run() -> None:
        begun = [*say(f"<|channel|>{channel}<|message|>"), *odd("The sum")]
        rest = (
            say(" is four.<|return|>") if channel == "final" else say(" is<|end|><|start|>assistant" + final("Four."))
        )
        engine = ScriptedEngine([begun, CUT], [rest], final("And on."))
        async with served(engine, tmp_path, analysis=analysis) as service:
            asked: Json = {**SEALED, "store": is_stored}
            first = await create(service, input=[HI], **asked)
            assert first["status"] == "incomplete"
            (item,) = first["output"]
            given = {"type": "item_reference", "id": item["id"]} if is_stored else item
            body: Json = {**asked, "input": [HI, given], "harmonia_continue": True}
            events = await stream(service, **body)
            second = events[-1]["response"]
            assert fold(events) == second["output"]
            assert engine.prompts[1] == [*engine.prompts[0], *begun]
            assert second["output"][0]["harmonia_continues"] is True
            if channel != "analysis" or analysis == "shown":
                assert second["output"][0]["content"][0]["text"] == (" is four." if channel == "final" else " is")
            # Behind it stands one message, the tokens of both, however the client keeps them.
            tail = [*begun, *rest[:-1], *say("<|end|><|start|>user<|message|>")]
            histories = [[HI, joined(item, second["output"][0]), *second["output"][1:]], [HI, item, *second["output"]]]
            continued: list[Json] = [{**SEALED, "input": [*history, HI]} for history in histories]
            if is_stored:
                continued.append({"previous_response_id": second["id"], "input": "Hi"})
            for body in continued:
                await create(service, **body)
                prompt = engine.prompts.pop()
                if channel == "analysis":
                    assert decode(prompt).count("<|start|>assistant<|channel|>") == 1
                else:
                    assert prompt[len(engine.prompts[0]) :][: len(tail)] == tail

    asyncio.run(run())


def test_a_text_that_somebody_edited_is_gone_on_with_as_text(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(" and on.<|return|>", final("Yes."))
        async with served(engine, tmp_path) as service:
            item: Json = {"type": "message", "role": "assistant", "content": "On <|end|>", "phase": "final_answer"}
            response = await create(service, input=[HI, item], harmonia_continue=True, **SEALED)
            ending = [*say("<|start|>assistant<|channel|>final<|message|>"), *encode("On <|end|>")]
            assert engine.prompts[0][-len(ending) :] == ending
            (after,) = response["output"]
            assert (after["phase"], after["content"][0]["text"]) == ("final_answer", " and on.")
            await create(service, input=[HI, item, after, HI])
            assert [*ending, *say(" and on.<|end|><|start|>user<|message|>Hi")] == engine.prompts[1][
                len(engine.prompts[0]) - len(ending) :
            ][: len(ending) + len(say(" and on.<|end|><|start|>user<|message|>Hi"))]

    asyncio.run(run())


@pytest.mark.parametrize("analysis", ["shown", "hidden"])
def test_an_answer_cut_anywhere_goes_on_to_the_same_answer(tmp_path: Path, analysis: Any) -> None:
    """Law 2 through the server: the demo engine goes on token by token, so every cut gives the whole again."""

    async def run() -> None:
        async with served(DemoEngine(), tmp_path, analysis=analysis) as service:
            question: Json = {"type": "message", "role": "user", "content": "Say something about æøå and 日本."}
            whole = await create(service, input=[question], **SEALED)
            total = whole["usage"]["output_tokens"]
            for cut in range(6, total - 1):
                part = await create(service, input=[question], max_output_tokens=cut, **SEALED)
                before = part["output"]
                if not before or before[-1]["status"] != "incomplete":
                    continue
                body: Json = {**SEALED, "input": [question, *before], "harmonia_continue": True}
                rest = await create(service, **body)
                items = [*before[:-1], joined(before[-1], rest["output"][0]), *rest["output"][1:]]
                assert part["usage"]["output_tokens"] + rest["usage"]["output_tokens"] == total, cut
                turn = await service.render_turn(Caller(), {"input": [question]}, items)
                expected = await service.render_turn(Caller(), {"input": [question]}, whole["output"])
                assert turn.tokens == expected.tokens, cut
                traced = await service.render_turn(Caller(), body, rest["output"])
                if analysis == "shown":
                    assert traced.tokens == expected.tokens
                    assert traced.prompt_tokens == expected.prompt_tokens + cut

    asyncio.run(run())


def test_what_was_begun_is_counted_as_input(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(
            [say("<|channel|>analysis<|message|>One two"), CUT], " three<|end|>" + "<|start|>assistant" + final("x")
        )
        async with served(engine, tmp_path) as service:
            first = await create(service, input=[HI], **SEALED)
            body: Json = {"input": [HI, *first["output"]], "harmonia_continue": True}
            second = await create(service, **body, **SEALED)
            usage = second["usage"]
            assert usage["input_tokens"] == len(engine.prompts[1])
            assert usage["output_tokens_details"]["reasoning_tokens"] == 2
            assert usage["harmonia_channels"] == {"analysis": 2, "final": 7}
            counted = json.loads(await service.responses.input_tokens(body, Caller()))
            assert counted["input_tokens"] == len(engine.prompts[1])

    asyncio.run(run())


def test_log_probabilities_are_those_of_the_new_tokens(tmp_path: Path) -> None:
    async def run() -> None:
        tokens = say(" four<|return|>")
        engine = ScriptedEngine(
            [
                Chunk(tokens[:1], logprobs=(TokenLogprob(tokens[0], " four", -0.5),)),
                Chunk(tokens[1:], logprobs=(TokenLogprob(tokens[1], "", -0.1),)),
                Finish("stop", Usage(1, 2)),
            ]
        )
        engine.traits = type(engine.traits)(gives_logprobs=True)
        async with served(engine, tmp_path) as service:
            item: Json = {"type": "message", "role": "assistant", "content": "It is"}
            body: Json = {"include": ["message.output_text.logprobs"], "harmonia_continue": True}
            response = await create(service, input=[HI, item], **body)
            (logprob,) = response["output"][0]["content"][0]["logprobs"]
            assert (logprob["token"], logprob["logprob"]) == (" four", -0.5)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("items", "at"),
    [
        ([HI], "$.input[0]"),
        ([HI, {"type": "reasoning"}], "$.input[1]"),
        ([HI, {"type": "function_call", "name": "get_weather", "call_id": "c", "arguments": "{"}], "$.input[1]"),
        (
            [
                HI,
                {"type": "function_call", "name": "get_weather", "call_id": "c", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "x"},
            ],
            "$.input[2]",
        ),
        ([HI, {"type": "message", "role": "developer", "content": "x"}], "$.input[1]"),
    ],
)
def test_what_cannot_be_gone_on_with_is_refused(tmp_path: Path, items: list[Json], at: str) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(final("x")), tmp_path) as service:
            with pytest.raises(InputError) as refused:
                await create(service, input=items, tools=[WEATHER], harmonia_continue=True)
            assert (refused.value.code, refused.value.at.path) == (ErrorCode.SERVE_INVALID_FIELD, at)

    asyncio.run(run())


def test_a_stored_response_goes_on_where_it_was_cut_off(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(
            [say("<|channel|>final<|message|>One"), CUT], [say(" two"), CUT], " three<|return|>", final("Yes.")
        )
        async with served(engine, tmp_path) as service:
            response = await create(service, input=[HI])
            for number in (1, 2):
                body: Json = {"previous_response_id": response["id"], "harmonia_continue": True}
                response = await create(service, **body)
                assert engine.prompts[number] == [*engine.prompts[number - 1], *engine.sampled[number - 1]]
            assert response["status"] == "completed"
            with pytest.raises(InputError) as refused:
                await create(service, previous_response_id=response["id"], harmonia_continue=True)
            assert refused.value.at.path == "$.previous_response_id"
            await create(service, previous_response_id=response["id"], input="Go on")
            assert decode(engine.prompts[3]).count("One two three<|end|><|start|>user") == 1
            assert decode(engine.prompts[3]).count("One") == 1

    asyncio.run(run())


def test_items_that_go_on_for_ever_are_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(final("x")), tmp_path) as service:
            more: Json = {"type": "message", "role": "assistant", "content": "x", "harmonia_continues": True}
            await create(service, input=[HI, {**more, "harmonia_continues": None}, *[more] * 32, HI])
            with pytest.raises(InputError) as refused:
                await create(service, input=[HI, {**more, "harmonia_continues": None}, *[more] * 33, HI])
            assert refused.value.at.path == "$.input[34]"

    asyncio.run(run())


def test_reasoning_that_holds_a_call_is_not_gone_on_with(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(calls("nobody", "{}"), final("x")), tmp_path) as service:
            first = await create(service, input=[HI], **SEALED)
            with pytest.raises(InputError) as refused:
                await create(service, input=[HI, first["output"][0]], harmonia_continue=True)
            assert refused.value.at.path == "$.input[1]"

    asyncio.run(run())


class Provider:
    name = "responses"
    traits = PROVIDER_TRAITS
    model = "script"

    def respond(self, *_: Any) -> Any:
        raise AssertionError

    async def close(self) -> None:
        pass


def test_a_provider_cannot_go_on_within_a_message(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(Provider(), tmp_path) as service:  # type: ignore[arg-type]
            item: Json = {"type": "message", "role": "assistant", "content": "x"}
            with pytest.raises(InputError) as refused:
                await create(service, input=[HI, item], harmonia_continue=True)
            assert (refused.value.code, refused.value.at.path) == (
                ErrorCode.SERVE_UNSUPPORTED,
                "$.harmonia_continue",
            )

    asyncio.run(run())


def test_an_engine_that_speaks_text_goes_on_as_well(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(" four.<|return|>", is_text=True)
        async with served(engine, tmp_path) as service:
            item: Json = {"type": "message", "role": "assistant", "content": "It is"}
            response = await create(service, input=[HI, item], harmonia_continue=True)
            assert response["output"][0]["content"][0]["text"] == " four."
            assert response["status"] == "completed"

    asyncio.run(run())


def test_what_follows_a_thought_that_goes_on_is_new(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(
            [say("<|channel|>analysis<|message|>Hm"), CUT], " so<|end|><|start|>assistant" + think("No.") + final("x")
        )
        async with served(engine, tmp_path, analysis="shown") as service:
            first = await create(service, input=[HI], **SEALED)
            second = await create(service, input=[HI, *first["output"]], harmonia_continue=True, **SEALED)
            assert [item.get("harmonia_continues") for item in second["output"]] == [True, None, None]

    asyncio.run(run())


@pytest.mark.parametrize(("before", "begun"), [(0, 100_000), (60_000, 20_000)])
def test_a_prompt_that_does_not_fit_is_refused_as_any_other(tmp_path: Path, before: int, begun: int) -> None:
    async def run() -> None:
        async with served(DemoEngine(), tmp_path) as service:
            asked: Json = {**HI, "content": "a b " * before + "Hi"}
            item: Json = {"type": "message", "role": "assistant", "content": "a b " * begun}
            with pytest.raises(EngineError) as refused:
                await create(service, input=[asked, item], harmonia_continue=True)
            assert refused.value.code is ErrorCode.ENGINE_OUT_OF_CONTEXT

    asyncio.run(run())


def test_a_long_message_is_rendered_in_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[bool] = []
    render = Renderer.render

    def watched(renderer: Renderer, conversation: Any, *others: Any, **options: Any) -> Any:
        if any("a b " in message.text for message in conversation):
            places.append(threading.current_thread() is threading.main_thread())
        return render(renderer, conversation, *others, **options)

    monkeypatch.setattr(Renderer, "render", watched)

    async def run() -> None:
        async with served(ScriptedEngine([say("c"), CUT]), tmp_path) as service:
            item: Json = {"type": "message", "role": "assistant", "content": "a b " * 20_000}
            await create(service, input=[HI, item], harmonia_continue=True, store=False)

    asyncio.run(run())
    assert places and not any(places)


def test_hidden_reasoning_cannot_be_guessed_by_its_beginning(tmp_path: Path) -> None:
    """Whether a text of the client's is how a sealed one begins must not change the prompt, whose length is told."""

    async def run() -> None:
        engine = ScriptedEngine([say("<|channel|>analysis<|message|>secret plan"), CUT])
        async with served(engine, tmp_path) as service:
            (sealed,) = (await create(service, input=[HI], **SEALED))["output"]
            counts: set[int] = set()
            for guess in ("secret", "sacred", "public"):
                before: Json = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": guess}]}
                body: Json = {"input": [HI, before, {**sealed, "harmonia_continues": True}]}
                counts.add(json.loads(await service.responses.input_tokens(body, Caller()))["input_tokens"])
            assert len(counts) == 1

    asyncio.run(run())


@pytest.mark.parametrize("is_asked", [True, False])
def test_what_is_hidden_for_its_header_does_not_become_visible(tmp_path: Path, is_asked: bool) -> None:
    """A text whose header was guessed is hidden, on whatever channel: nothing goes on with it on that channel."""

    async def run() -> None:
        engine = ScriptedEngine("final<|message|>HIDDEN", final("x"))
        async with served(engine, tmp_path, retry_malformed=False) as service:
            hidden, *others = (await create(service, input=[HI], **SEALED))["output"]
            assert (hidden["type"], hidden["content"], others) == ("reasoning", [], [])
            if is_asked:
                with pytest.raises(InputError) as refused:
                    await create(service, input=[HI, hidden], harmonia_continue=True)
                assert refused.value.at.path == "$.input[1]"
                return
            more: Json = {"type": "message", "role": "assistant", "content": "x", "harmonia_continues": True}
            turn = await service.render_turn(Caller(), {"input": [HI, hidden, more, HI]}, [])
            assert "HIDDEN" not in decode(turn.tokens)

    asyncio.run(run())
