"""Check the vLLM adapter against a running vLLM, by hand: vLLM is too large for the tests.

    python tools/check_vllm.py model FOLDER      write the tiny gpt-oss of `make test-engines`, with a tokenizer
    python tools/check_vllm.py check URL MODEL   ask it, and print what was verified; exit code 1 if something was not

docs/guides/engines.md says how to start vLLM in between.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.run.engines.real import lessons, tiny_gpt_oss
from tests.run.engines.real.real_engines import Answer, read

from harmonia.errors import EngineError, ErrorCode
from harmonia.parts import visible_text
from harmonia.run.engines.base import Chunk, Request, Sampling
from harmonia.run.engines.vllm import VllmEngine
from harmonia.run.loop import run
from harmonia.vocabulary import CALL, FIRST_SPECIAL, RETURN, SPELLING_BY_ID, default_vocabulary

GREEDY = {"max_tokens": 100, "temperature": 0.0}
CONTEXT = 1024


def write_model(folder: Path) -> None:
    """The taught model, which speaks Harmony in three conversations."""
    tiny_gpt_oss.make_taught(lessons.find_lessons()).save_pretrained(folder)
    tokenizers: Any = importlib.import_module("tokenizers")
    merges = tiny_gpt_oss.byte_pair_merges()
    spell = tiny_gpt_oss.spell
    vocabulary = {spell(token): index for index, token in enumerate(default_vocabulary().token_bytes[:FIRST_SPECIAL])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, [tuple(merge.split(" ")) for merge in merges]))
    # The adapter sends ids, so only decoding has to be right; o200k's own expression is left out.
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens([tokenizers.AddedToken(text, special=True) for text in SPELLING_BY_ID.values()])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": SPELLING_BY_ID[RETURN]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


class Check:
    """Each method is one thing that is verified; its first line says what."""

    def __init__(self, url: str, model: str) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        self.engine = VllmEngine(url, model, context_tokens=CONTEXT)
        self.lessons = lessons.find_lessons()

    async def ask(self, prompt: list[int], **sampling: Any) -> Answer:
        answer = Answer()
        await read(self.engine, prompt, answer, **sampling)
        assert answer.finish is not None
        return answer

    async def calls(self) -> None:
        """a tool call, token by token, with <|call|> kept at its end"""
        await self._says(0, CALL)

    async def answers(self) -> None:
        """an answer, token by token, with <|return|> kept at its end"""
        await self._says(1, RETURN)

    async def emoji(self) -> None:
        """an answer with a character of several tokens"""
        await self._says(2, RETURN)

    async def _says(self, lesson: int, stop: int) -> None:
        prompt, expected = self.lessons[lesson]
        answer = await self.ask(prompt, **GREEDY)
        assert answer.tokens == expected, answer.text
        assert answer.tokens[-1] == stop
        assert answer.finish is not None and answer.finish.reason == "stop", answer.finish
        assert len(answer.chunks) > 1, "it came in one chunk"
        usage = answer.finish.usage
        assert usage is not None and (usage.prompt_tokens, usage.completion_tokens) == (len(prompt), len(expected)), (
            usage
        )

    async def length(self) -> None:
        """the number of tokens that was asked for"""
        answer = await self.ask(self.lessons[0][0], max_tokens=5, temperature=0.0)
        assert answer.tokens == self.lessons[0][1][:5]
        assert answer.finish is not None and answer.finish.reason == "length", answer.finish

    async def logprobs(self) -> None:
        """log-probabilities with token ids"""
        answer = await self.ask(self.lessons[0][0], logprobs=3, **GREEDY)
        assert [entry.token for entry in answer.logprobs] == answer.tokens
        assert all(entry.top and entry.top[0].token == entry.token for entry in answer.logprobs)

    async def seeds(self) -> None:
        """seeds: one repeats an answer, another gives another"""
        first, again, other = [
            (await self.ask([1, 2, 3], max_tokens=20, temperature=2.0, seed=seed)).tokens for seed in (1, 1, 2)
        ]
        assert first == again != other

    async def out_of_context(self) -> None:
        """a prompt that is too long"""
        await self._fails(ErrorCode.ENGINE_OUT_OF_CONTEXT, self.engine, [1] * (CONTEXT + 1))

    async def unknown_model(self) -> None:
        """a model that it does not have"""
        await self._fails(ErrorCode.ENGINE_REFUSED, VllmEngine(self.url, "no-such-model"), [1, 2, 3])

    async def _fails(self, code: ErrorCode, engine: VllmEngine, prompt: list[int]) -> None:
        try:
            await read(engine, prompt, Answer(), max_tokens=1)
        except EngineError as error:
            assert error.code is code, error
        else:
            raise AssertionError("it was accepted")

    async def cancellation(self) -> None:
        """cancellation: nothing is running there a little later"""
        stream = self.engine.generate([1, 2, 3], Request(Sampling(max_tokens=CONTEXT - 10, temperature=2.0, seed=1)))
        async with aclosing(stream):
            assert isinstance(await anext(stream), Chunk)
        until = time.monotonic() + 10
        while (running := self._running()) and time.monotonic() < until:
            await asyncio.sleep(0.1)
        assert not running, "it goes on"

    def _running(self) -> float:
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("vllm:num_requests_running"))

    async def loop(self) -> None:
        """the whole loop: a call, its result, an answer"""
        running = run(
            self.engine,
            lessons.begin(lessons.WEATHER_QUESTION),
            tools=[lessons.get_weather],
            sampling=Sampling(max_tokens=100, temperature=0.0),
        )
        await running.result()
        assert visible_text(running.conversation) == lessons.WEATHER_ANSWER


def check(url: str, model: str) -> int:
    checked = Check(url, model)
    checks: list[Callable[[], Awaitable[None]]] = [
        checked.calls,
        checked.answers,
        checked.emoji,
        checked.length,
        checked.logprobs,
        checked.seeds,
        checked.out_of_context,
        checked.unknown_model,
        checked.cancellation,
        checked.loop,
    ]
    failed = 0
    for each in checks:
        try:
            asyncio.run(_watched(each))
            print(f"verified  {each.__doc__}")
        except Exception as error:
            failed += 1
            print(f"FAILED    {each.__doc__}: {type(error).__name__}: {error}")
    return 1 if failed else 0


async def _watched(each: Callable[[], Awaitable[None]]) -> None:
    await asyncio.wait_for(each(), 120)


def main() -> int:
    match sys.argv[1:]:
        case ["model", folder]:
            write_model(Path(folder))
            return 0
        case ["check", url, model]:
            return check(url, model)
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
