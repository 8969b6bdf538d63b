"""Output of a model that was damaged: the response says its faults, and keeps what was sampled to be looked at."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harmonia import decode, parse
from harmonia.errors import ErrorCode, InputError
from harmonia.run.engines import Chunk, Finish
from harmonia.serve.inspector.request import SampledEntry
from harmonia.serve.inspector.turn_trace import RenderedTurn
from harmonia.serve.responses.malformed_samplings import MOST_FAULTS
from harmonia.serve.security.keys import Caller
from harmonia.serve.service import Service
from tests.serve.responses.test_response_continued import joined
from tests.serve.responses.test_response_tools import FREE, hosted
from tests.support.engines.scripted import ScriptedEngine, calls, final, say, think
from tests.support.servers.served import create, served

Json = dict[str, Any]
HI: Json = {"type": "message", "role": "user", "content": "Hi"}
SEALED: Json = {"store": False, "include": ["harmonia.encrypted_content"]}
OPENING = say("<|start|>assistant")
UNENDED = "<|channel|>analysis<|message|>Hm, secret.<|start|>assistant"
STRAY = "<|channel|>analysis<|message|>Hm, secret.<|end|>stray<|start|>assistant"


def entries_of(response: Json) -> list[SampledEntry]:
    return msgspec.convert(response.get("harmonia_sampled", []), list[SampledEntry])


async def traced(service: Service, body: Json, response: Json) -> RenderedTurn:
    return await service.render_turn(Caller(), body, response["output"], entries_of(response))


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (UNENDED + final("Yes."), "MissingSentinel"),
        (STRAY + final("Yes."), "stream.text_outside"),
        ("<|start|>assistant" + final("Yes."), "header.repeated_start"),
        (think("x") + final("Yes.") + "But on.", "stream.text_outside"),
    ],
)
@pytest.mark.parametrize("chunk", [1, 1000])
def test_the_trace_of_damaged_output_is_what_was_sampled_with_its_faults(
    tmp_path: Path, said: str, code: str, chunk: int
) -> None:
    async def run() -> None:
        engine = ScriptedEngine(said, chunk=chunk)
        async with served(engine, tmp_path, analysis="shown") as service:
            body: Json = {"input": [HI], **SEALED}
            response = await create(service, **body)
            (entry,) = response["harmonia_sampled"]
            assert entry["faults"] == [code]
            assert (entry["first_item"], entry["items"]) == (0, len(response["output"]))
            turn = await traced(service, body, response)
        assert turn.prompt_tokens == len(engine.prompts[0])
        sampled = turn.tokens[turn.prompt_tokens :]
        # Behind the end of the turn it was stopped, wherever it was.
        assert turn.tokens[: turn.prompt_tokens] == engine.prompts[0]
        assert sampled == say(said)[: len(sampled)]
        assert len(sampled) == len(say(said)) or said.endswith("But on.")
        found = [each for each in parse(turn.tokens).diagnostics if each.code.value == code]
        assert len(found) == 1
        assert (found[0].at.token or 0) >= turn.prompt_tokens - 2
        assert turn.faults == (code,)
        assert len(turn.notes) == 1

    asyncio.run(run())


def test_results_of_tools_stand_between_samplings(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(UNENDED + FREE, STRAY + final("4 kB."))
        async with served(engine, tmp_path, tools=[hosted()], analysis="shown") as service:
            body: Json = {"input": [HI], **SEALED}
            response = await create(service, **body)
            told = response["harmonia_sampled"]
            assert [(each["faults"], each["first_item"], each["items"]) for each in told] == [
                (["MissingSentinel"], 0, 2),
                (["stream.text_outside"], 2, 3),
            ]
            turn = await traced(service, body, response)
            begin = turn.prompt_tokens + len(engine.sampled[0])
            assert turn.tokens[turn.prompt_tokens : begin] == engine.sampled[0]
            assert turn.tokens[-len(engine.sampled[1]) - 2 :] == OPENING + engine.sampled[1]
            (result,) = parse(turn.tokens[begin : -len(engine.sampled[1]) - 2]).messages
            assert result.name == "functions.disk___free"
            # Where one of them is too long to be kept, the others are as they were sampled.
            del response["harmonia_sampled"][0]["encrypted_content"]
            turn = await traced(service, body, response)
            assert turn.tokens == engine.prompts[1] + engine.sampled[1]
            assert len(turn.notes) == 2

    asyncio.run(run())


def test_both_attempts_are_in_the_trace_where_one_was_given_up(tmp_path: Path) -> None:
    form: Json = {"type": "json_schema", "name": "number", "schema": {"type": "integer"}, "strict": True}

    async def run() -> None:
        engine = ScriptedEngine(think("x") + final("No."), "4<|return|>")
        async with served(engine, tmp_path, analysis="shown") as service:
            body: Json = {"input": [HI], "text": {"format": form}, **SEALED}
            response = await create(service, **body)
            (entry,) = response["harmonia_sampled"]
            assert (entry["faults"], entry["unmet"]) == ([], "format")
            assert (entry["first_item"], entry["items"]) == (0, 1)  # what was thought is kept
            turn = await traced(service, body, response)
        assert turn.tokens[: turn.prompt_tokens] == engine.prompts[0]
        assert turn.tokens[turn.prompt_tokens :] == say(
            think("x") + final("No.") + "<|start|>assistant<|channel|>final<|message|>4<|return|>"
        )
        assert turn.faults == ()
        assert len(turn.notes) == 1 and "given up" in turn.notes[0] and "damaged" not in turn.notes[0]

    asyncio.run(run())


def test_it_is_told_only_where_it_is_asked_for_and_something_is_wrong(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(UNENDED + final("Yes.")), tmp_path) as service:
            assert "harmonia_sampled" not in await create(service, input="Hi")
            other = Caller(dialect="open-responses")
            assert "harmonia_sampled" not in await create(service, other, input="Hi", **SEALED)
        async with served(ScriptedEngine(think("x") + final("Yes.")), tmp_path) as service:
            assert "harmonia_sampled" not in await create(service, input="Hi", **SEALED)
        # An answer that was long enough is not damaged.
        cut = ScriptedEngine([say(think("x") + "<|channel|>final<|message|>Ye"), Finish("length")])
        async with served(cut, tmp_path) as service:
            assert "harmonia_sampled" not in await create(service, input="Hi", **SEALED)

    asyncio.run(run())


def test_where_reasoning_is_hidden_only_the_codes_are_told(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(STRAY + final("Yes.")), tmp_path) as service:
            body: Json = {"input": [HI], **SEALED}
            response = await create(service, **body)
            assert "ecret" not in json.dumps(response)
            assert "stray" not in json.dumps(response)
            turn = await traced(service, body, response)
            assert "ecret" not in decode(turn.tokens)
            assert "stray" not in decode(turn.tokens)
            assert (turn.faults, turn.left_out) == (("stream.text_outside",), 2)
            assert len(turn.notes) == 1
            # It is not even opened, so that whatever a client sends says nothing.
            forged = [SampledEntry(["no.such_code", "stream.text_outside"], 0, 2, "x")]
            again = await service.render_turn(Caller(), body, response["output"], forged)
            assert again.tokens == turn.tokens
            assert again.faults == ("stream.text_outside",)

    asyncio.run(run())


def test_what_was_sampled_opens_for_its_owner_and_never_as_messages(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(UNENDED + final("Yes.")), tmp_path, analysis="shown") as service:
            body: Json = {"input": [HI], **SEALED}
            response = await create(service, **body)
            sealed = response["harmonia_sampled"][0]["encrypted_content"]
            items = response["output"]
            for item in ({**items[0], "encrypted_content": sealed}, {**items[1], "encrypted_content": sealed}):
                with pytest.raises(InputError) as caught:
                    await create(service, input=[HI, item, HI], **SEALED)
                assert caught.value.code is ErrorCode.SERVE_BAD_SEAL
                assert caught.value.at.path is not None
            for wrong in (items[0]["encrypted_content"], sealed[:-1], "x"):
                with pytest.raises(InputError) as caught:
                    await service.render_turn(Caller(), body, items, [SampledEntry([], 0, 2, wrong)])
                assert caught.value.code is ErrorCode.SERVE_BAD_SEAL
                assert caught.value.at.path == "$.sampled[0].encrypted_content"
            with pytest.raises(InputError) as caught:
                await service.render_turn(Caller(owner="other"), body, [], entries_of(response))
            assert caught.value.code is ErrorCode.SERVE_BAD_SEAL

    asyncio.run(run())


def test_an_answer_that_was_gone_on_with_is_one_list(tmp_path: Path) -> None:
    async def run() -> None:
        begun = [say(UNENDED + "<|channel|>final<|message|>The sum"), Finish("length")]
        engine = ScriptedEngine(begun, " is four.<|return|>So.")
        async with served(engine, tmp_path, analysis="shown") as service:
            body: Json = {"input": [HI], **SEALED}
            first = await create(service, **body)
            more: Json = {"input": [HI, *first["output"]], "harmonia_continue": True, **SEALED}
            second = await create(service, **more)
            (before,), (after,) = entries_of(first), entries_of(second)
            assert (before.first_item, before.items, before.faults) == (0, 2, ["MissingSentinel"])
            assert (after.first_item, after.items, after.faults) == (0, 1, ["stream.text_outside"])
            turn = await traced(service, more, second)
            assert turn.tokens[: turn.prompt_tokens] == engine.prompts[1]
            assert turn.tokens[turn.prompt_tokens :] == say(" is four.<|return|>So")
            # As one turn, the way a client keeps it that joins the two.
            whole = [first["output"][0], joined(first["output"][1], second["output"][0])]
            moved = msgspec.structs.replace(after, first_item=1)
            turn = await service.render_turn(Caller(), body, whole, [before, moved])
            assert turn.tokens == engine.prompts[0] + engine.sampled[0] + say(" is four.<|return|>So")
            turn = await service.render_turn(Caller(), body, whole, [moved])
            assert turn.tokens[-len(say(" is four.<|return|>So")) :] == say(" is four.<|return|>So")
            assert decode(turn.tokens).count("The sum") == 1

    asyncio.run(run())


def test_of_an_engine_that_gives_text_the_text_is_kept(tmp_path: Path) -> None:
    async def run() -> None:
        said = STRAY + final("Yes.")
        async with served(ScriptedEngine(said, is_text=True), tmp_path, analysis="shown") as service:
            body: Json = {"input": [HI], **SEALED}
            response = await create(service, **body)
            assert response["harmonia_sampled"][0]["faults"] == ["stream.text_outside"]
            turn = await traced(service, body, response)
            assert turn.tokens[turn.prompt_tokens :] == say(said)
            assert len(turn.notes) == 2

    asyncio.run(run())


def test_however_much_is_wrong_what_is_told_is_bounded(tmp_path: Path) -> None:
    async def run() -> None:
        many = "<|channel|>analysis<|message|>x<|end|>stray<|start|>assistant" * 1500 + final("Yes.")
        long = [Chunk(say(UNENDED + "<|channel|>final<|message|>") + say("word ") * 30_000)]
        async with served(ScriptedEngine(many, [*long, "<|return|>"], chunk=100), tmp_path) as service:
            (entry,) = (await create(service, input="Hi", **SEALED))["harmonia_sampled"]
            assert len(entry["faults"]) == MOST_FAULTS
            (entry,) = (await create(service, input="Hi", **SEALED))["harmonia_sampled"]
            assert (entry["faults"], "encrypted_content" in entry) == (["MissingSentinel"], False)

    asyncio.run(run())


@pytest.mark.parametrize("analysis", ["shown", "hidden"])
def test_a_call_that_was_not_made_is_told_where_reasoning_is_shown(tmp_path: Path, analysis: Any) -> None:
    async def run() -> None:
        engine = ScriptedEngine(calls("nobody", '{"secret": 1}'), final("No."), final("Again."))
        async with served(engine, tmp_path, analysis=analysis) as service:
            response = await create(service, input=[HI], **SEALED)
            item = response["output"][0]
            if analysis == "shown":
                assert item["harmonia_call"]["name"] == "functions.nobody"
                assert item["harmonia_call"]["arguments"] == '{"secret": 1}'
                assert json.loads(item["harmonia_call"]["error"])["code"] == "tool.unknown"
                assert "functions.nobody" in item["content"][0]["text"]
            else:
                assert "harmonia_call" not in item
                assert "ecret" not in json.dumps(response)
            # What the model gets is behind the seal, and not what is said for people.
            await create(service, input=[HI, *response["output"], HI], **SEALED)
            before, after = parse(engine.prompts[1][:-2]).messages, parse(engine.prompts[2][:-2]).messages
            assert [each.text for each in after[: len(before)]] == [each.text for each in before]
            assert "not made" not in "".join(each.text for each in after)

    asyncio.run(run())


@pytest.mark.parametrize("analysis", ["shown", "hidden"])
@pytest.mark.parametrize("channel", [None, "notes"])
def test_text_that_was_held_back_says_its_channel(tmp_path: Path, analysis: Any, channel: str | None) -> None:
    async def run() -> None:
        header = "" if channel is None else f"<|channel|>{channel}"
        engine = ScriptedEngine(f"{header}<|message|>Held.<|end|><|start|>assistant" + think("Hm.") + final("Yes."))
        async with served(engine, tmp_path, analysis=analysis) as service:
            response = await create(service, input=[HI], **SEALED)
            held, thought, _ = response["output"]
            assert ("harmonia_channel" in held) is (analysis == "shown")
            assert held.get("harmonia_channel") == (channel if analysis == "shown" else None)
            assert "harmonia_channel" not in thought
            await create(service, input=[HI, *response["output"], HI], **SEALED)

    asyncio.run(run())
