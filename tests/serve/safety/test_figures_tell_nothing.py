"""No figure depends on what a client did not lawfully send or see: hidden reasoning, or what other keys asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia import encode
from harmonia.history import DOCUMENTED
from harmonia.messages import Conversation, Message
from harmonia.renderer import Renderer, shared_prefix
from harmonia.run.engines import Chunk, Finish, Request, Traits, Usage
from harmonia.run.sampling import Prompt, build
from harmonia.serve.models import served_model as sent_prompts
from harmonia.serve.models.served_model import SentPrompts, cache_salt
from harmonia.serve.security.keys import Caller
from harmonia.serve.service import Service
from tests.support.engines.scripted import calls, final, say, think
from tests.support.servers.served import WEATHER, create, served

Json = dict[str, Any]
HI: Json = {"type": "message", "role": "user", "content": "Where is the treasure?"}
SECRET = " ".join(f"thought{number}" for number in range(60))
ANN, BOB = Caller("ann"), Caller("bob")


class CachingEngine:
    """An engine with a cache that never forgets, shared by everybody, and that says how much it knew."""

    name = "caching"
    model = "script"
    traits = Traits()

    def __init__(self, *script: str) -> None:
        self._script = script
        self.seen: list[list[int]] = []
        self.requests: list[Request] = []
        self.known: list[int] = []

    async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        said = say(self._script[min(len(self.requests), len(self._script) - 1)])
        self.known.append(max((shared_prefix(before, list(prompt)) for before in self.seen), default=0))
        self.requests.append(request)
        self.seen.append([*prompt, *said])
        yield Chunk(said)
        yield Finish("stop", Usage(len(prompt), len(said), self.known[-1]))

    async def close(self) -> None:
        pass


def cached_of(response: Json) -> int:
    return response["usage"]["input_tokens_details"]["cached_tokens"]


def guess_of(text: str) -> Json:
    return {"type": "reasoning", "content": [{"type": "reasoning_text", "text": text}]}


async def figures(service: Service, caller: Caller, guess: str) -> list[Any]:
    """Every figure of every route that may be asked with this guess, all but what is sampled."""
    items: list[Json] = [HI, guess_of(guess)]
    found: list[Any] = []
    for more in ({}, {"harmonia_continue": True}):
        body: Json = {"input": items, "store": False, **more}
        found.append((await create(service, caller, **body))["usage"])
        found.append(json.loads(await service.responses.input_tokens(body, caller)))
        turn = await service.render_turn(caller, body, [])
        found += [turn.left_out, turn.left_out_tokens, turn.prompt_tokens]
    messages = [{"role": "user", "content": HI["content"]}, {"role": "assistant", "reasoning": guess, "content": "x"}]
    started = await service.chat_completions.create({"model": "script", "messages": messages}, caller)
    found.append(json.loads(await started.result())["usage"])
    return found


@pytest.mark.parametrize("analysis", ["hidden", "shown"])
@pytest.mark.parametrize("caller", [ANN, BOB])
def test_a_guess_of_hidden_reasoning_changes_no_figure(tmp_path: Path, caller: Caller, analysis: Any) -> None:
    """Neither for the key whose reasoning it is nor for another, and however often it is asked."""

    async def run() -> None:
        words = SECRET.split(" ")
        wrong = [word.replace("thought", "answer") for word in words]
        told: list[list[Any]] = []
        for guess in (words[:50], [*words[:25], *wrong[25:50]], wrong[:50]):
            engine = CachingEngine(think(SECRET) + final("In the sea."), final("x"))
            folder = tmp_path / f"{len(told)}"
            folder.mkdir()
            async with served(engine, folder, analysis=analysis) as service:
                first = await create(service, ANN, input=[HI], include=["harmonia.encrypted_content"])
                # What was sealed lawfully goes back as well, which the key may then be told of.
                await create(service, ANN, input=[HI, first["output"][0]], store=False)
                text = " ".join(guess)
                told.append([each for _ in range(2) for each in await figures(service, caller, text)])
                assert len(encode(text)) == len(encode(" ".join(words[:50])))
            right = engine.known[2:]
        assert told[0] == told[1] == told[2]
        assert len(set(right)) > 1  # the engine itself does tell

    asyncio.run(run())


def test_a_key_is_not_told_what_others_asked(tmp_path: Path) -> None:
    async def run() -> None:
        engine = CachingEngine(final("Yes."))
        async with served(engine, tmp_path) as service:
            await create(service, ANN, input=[HI])
            assert cached_of(await create(service, BOB, input=[HI])) == 0
            again = await create(service, BOB, input=[HI])
            assert cached_of(again) == engine.known[-1] == again["usage"]["input_tokens"]
        salts = [request.cache_salt for request in engine.requests]
        assert salts == [cache_salt("ann"), cache_salt("bob"), cache_salt("bob")]
        assert salts[0] != salts[1] and "ann" not in str(salts[0])

    asyncio.run(run())


@pytest.mark.parametrize("is_stored", [True, False])
def test_what_is_lawfully_sent_back_is_reported_as_cached(tmp_path: Path, is_stored: bool) -> None:
    """From the store, or by seals: the engine has read, or said, all but the stop token."""

    async def run() -> None:
        engine = CachingEngine(think(SECRET) + calls("get_weather", '{"city": "Rome"}'), final("Warm."))
        async with served(engine, tmp_path) as service:
            body: Json = {"tools": [WEATHER], "include": ["harmonia.encrypted_content"], "store": is_stored}
            first = await create(service, ANN, input=[HI], **body)
            call = first["output"][-1]
            result = {"type": "function_call_output", "call_id": call["call_id"], "output": "21"}
            if is_stored:
                second = await create(service, ANN, previous_response_id=first["id"], input=[result], **body)
            else:
                second = await create(service, ANN, input=[HI, *first["output"], result], **body)
            assert cached_of(second) == first["usage"]["total_tokens"] <= engine.known[-1]
            # Written down by the client, it is the client's; sealed reasoning is told of up to its end.
            bare = {name: value for name, value in call.items() if name != "encrypted_content"}
            third = await create(service, ANN, input=[HI, first["output"][0], bare, result], **{**body, "store": False})
            assert first["usage"]["input_tokens"] < cached_of(third) < cached_of(second)

    asyncio.run(run())


def test_of_a_long_text_whole_blocks_are_reported(tmp_path: Path) -> None:
    async def run() -> None:
        engine = CachingEngine(final("Yes."))
        async with served(engine, tmp_path) as service:
            text = "word " * 500
            for end in ("one", "two"):
                response = await create(service, ANN, input=text + end, store=False)
            assert engine.known[-1] - sent_prompts.BLOCK_TOKENS < cached_of(response) <= engine.known[-1]

    asyncio.run(run())


# ── the memory ──────────────────────────────────────────────────────────────────────────────────────────────────────

MESSAGES = [
    Message.user("a"),
    Message.user("b " * 100),
    Message.assistant("c", channel="final"),
    Message.assistant("d", channel="analysis"),
]


def prompt_of(messages: Sequence[Message]) -> Prompt:
    return build(Conversation(messages), None, DOCUMENTED, Renderer())


conversations = st.lists(st.sampled_from(MESSAGES), max_size=5)


@given(st.lists(st.tuples(st.sampled_from("ab"), conversations, st.booleans()), max_size=8))
def test_what_is_explained_was_sent_by_that_key_and_in_that_way(
    sent: Sequence[tuple[str, list[Message], bool]],
) -> None:
    memory = SentPrompts(Renderer())
    before: dict[tuple[str, bool], list[list[int]]] = {}
    for owner, messages, is_written in sent:
        prompt = prompt_of(messages)
        has_assistant = any(message.role == "assistant" for message in prompt.conversation)
        written = {id(message): message for message in messages} if is_written else {}
        explained = memory.explain(owner, prompt, None, (), written)
        ways = (True, False) if not has_assistant else (is_written,)
        same = [shared_prefix(each, prompt.tokens) for way in ways for each in before.get((owner, way), [])]
        other = [shared_prefix(each, prompt.tokens) for each in before.get((owner, not is_written), [])]
        assert explained <= max([*same, *other], default=0)
        if has_assistant and not same:
            first = next(at for at, each in enumerate(prompt.conversation) if each.role == "assistant")
            assert explained <= prompt.ends[first - 1] if first else explained == 0
        before.setdefault((owner, is_written), []).append(prompt.tokens)


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sent_prompts, "MOST_HASHES", 4)
    monkeypatch.setattr(sent_prompts, "MOST_KEYS", 2)
    memory = SentPrompts(Renderer())
    prompt = prompt_of([Message.user("x")])
    for number in range(100):
        memory.explain("ann", prompt_of([Message.user(str(number))]), None, (), {})
    memory.explain("ann", prompt, None, (), {})
    assert memory.explain("ann", prompt, None, (), {}) == len(prompt.tokens)
    for owner in ("bob", "eve"):
        memory.explain(owner, prompt, None, (), {})
    assert memory.explain("ann", prompt, None, (), {}) == 0
