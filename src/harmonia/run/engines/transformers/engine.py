"""A model in this process, in Hugging Face's transformers: token ids in, token ids out; text for other families.

    event loop                        worker thread, one for each generation
    generate ──prompt──────────────▶  the prompt in pieces, then one forward pass for each token
             ◀──tokens, Finish──────  a channel with a limit: a slow reader stops the sampling

1. Importing this module loads neither torch nor transformers; making an engine does, and reads the model.
2. Several generations may run at once. Each has its own thread and cache; their forward passes take turns, and a slow
   reader does not delay the others.
3. Closing or cancelling a generation stops its thread within one forward pass, and waits for that.
4. The random numbers of a generation are its own: `seed` repeats it, and nothing of torch's global state is touched.
5. Under a grammar, each token is one that it admits; llguidance makes the masks, and where it is not installed the
   engine takes no grammar.
6. What the last generation computed is kept: a prompt that begins alike is computed from the first token that differs.
"""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec

from harmonia.errors import EngineError, ErrorCode, InputError, Position
from harmonia.renderer import shared_prefix
from harmonia.run.engines.base import (
    Chunk,
    Finish,
    FinishReason,
    Request,
    Sampling,
    TokenLogprob,
    Traits,
    Usage,
    check_sampling,
    grammar_of,
    invalid_option,
)
from harmonia.run.engines.grammar_mask import Matcher, is_installed
from harmonia.run.engines.registry import Kind
from harmonia.run.engines.transformers.sampler import TorchSampler
from harmonia.run.engines.transformers.vocabulary import OwnVocabulary, SampledText
from harmonia.vocabulary import CALL, RETURN, VOCABULARY_SIZE

Item = TypeVar("Item")

# How often a worker that waits for its reader looks whether the reader's event loop still exists.
_LOOK_S = 1.0


class Stopped(Exception):
    """The reader has left."""


class Channel(Generic[Item]):
    """What a worker thread makes, on its way into the event loop in which this is made.

    1. `put` waits while the reader is behind by `limit` items. That is the whole of the backpressure.
    2. After `stop`, the next `put` or `check` raises Stopped in the worker, also if it is waiting at that moment.
    3. What was put before the worker failed is read before its failure.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()
        self.ended = asyncio.Event()
        self._changed = threading.Condition()
        self._items: deque[Item] = deque()
        self._is_stopped = False
        self._failure: BaseException | None = None

    # The worker's side

    def put(self, item: Item) -> None:
        with self._changed:
            while not self._changed.wait_for(lambda: self._is_stopped or len(self._items) < self._limit, _LOOK_S):
                if self._loop.is_closed():
                    raise Stopped
            self.check()
            self._items.append(item)
        self._tell(self._ready)

    def check(self) -> None:
        if self._is_stopped:
            raise Stopped

    def end(self, failure: BaseException | None = None) -> None:
        """The last thing that a worker does, whatever happened."""
        if failure is not None:
            self._fail(failure)
        self._tell(self._ready, self.ended)

    def _tell(self, *events: asyncio.Event) -> None:
        try:
            for event in events:
                self._loop.call_soon_threadsafe(event.set)
        except RuntimeError:  # the loop is closed
            self._is_stopped = True

    # The reader's side

    async def take(self) -> list[Item]:
        """All waiting items, at least one; or raise the failure that ended it; or nothing if it ended without one."""
        while True:
            await self._ready.wait()
            with self._changed:
                self._ready.clear()
                items = list(self._items)
                self._items.clear()
                self._changed.notify_all()
            if items:
                if self._failure is not None or self.ended.is_set():
                    self._ready.set()  # there is something left to report
                return items
            if self._failure is not None:
                raise self._failure
            if self.ended.is_set():
                return []

    def stop(self, failure: BaseException | None = None) -> None:
        """Let the worker stop. `failure` is for the reader, if someone else stops it."""
        if failure is not None:
            self._fail(failure)
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        self._tell(self._ready)

    def _fail(self, failure: BaseException) -> None:
        with self._changed:
            self._failure = self._failure or failure


STOP_TOKENS: Final = frozenset({RETURN, CALL})

# A longer prompt is computed in pieces, so that cancelling does not have to wait for the whole of it.
PREFILL_TOKENS: Final = 512

# How many sampled tokens may wait for the reader.
CHANNEL_TOKENS: Final = 64


@dataclass(frozen=True, slots=True)
class _Sampled:
    token: int
    logprob: TokenLogprob | None
    text: str = ""  # in the model's own vocabulary, on the text route


@dataclass(slots=True)
class _Computed:
    """The tokens that went through the model, and the keys and values it made of them."""

    tokens: list[int]
    cache: Any


@dataclass(frozen=True, slots=True)
class _Job:
    """One generation. `spelled` is for the text route, `matcher` for a grammar."""

    prompt: list[int]
    sampling: Sampling
    channel: Channel[_Sampled | Finish]
    spelled: SampledText | None
    matcher: Matcher | None


class TransformersEngine:
    """A causal language model, run by transformers: a gpt-oss as tokens, one of another family as text.

    `model` is what `AutoModelForCausalLM.from_pretrained` takes (a folder, or a name that transformers looks up and
    may download), or a loaded model. It is read here, which blocks: in a program with an event loop use
    `await asyncio.to_thread(TransformersEngine, "path/to/model")`. `device` is "cpu", "cuda:0" and the like; None lets
    accelerate spread the model over the GPUs, or takes the CPU. `dtype` is a type of torch's, such as "bfloat16"; None
    keeps what the model was saved in. `tokenizer` is for the text route: what `AutoTokenizer.from_pretrained` takes,
    or a loaded one; None looks for it where the model was read from.

    Without a temperature above zero, sampling is greedy. Log-probabilities are those of the model, before a grammar,
    temperature and penalties.
    """

    name = "transformers"

    def __init__(
        self,
        model: str | Path | object,
        *,
        device: str | None = None,
        dtype: str | None = None,
        tokenizer: str | Path | object | None = None,
    ) -> None:
        self._torch = _import("torch")
        transformers = _import("transformers")
        if isinstance(model, str | Path):
            self._model: Any = _load(self._torch, transformers, str(model), device, dtype)
            self.model = str(model)
        elif device is not None or dtype is not None:
            raise invalid_option("device and dtype cannot be set for a model that is already loaded; leave them out")
        else:
            self._model = model
            self.model = str(getattr(self._model.config, "_name_or_path", "")) or type(model).__name__
        self._model.eval()
        config = self._model.config
        self._tokenizer = model if tokenizer is None and isinstance(model, str | Path) else tokenizer
        self._own: OwnVocabulary | None = None
        if config.vocab_size < VOCABULARY_SIZE:
            # It is of another family, which reads and writes text by its own tokenizer.
            self._own_vocabulary()
        self._vocabulary_size: int = config.vocab_size
        speaks_harmony = config.vocab_size >= VOCABULARY_SIZE
        self.traits = Traits(
            takes_tokens=speaks_harmony,
            gives_tokens=speaks_harmony,
            gives_logprobs=True,
            context_tokens=getattr(config, "max_position_embeddings", None),
            takes_grammar="llguidance" if speaks_harmony and is_installed() else None,
            takes_text=True,
        )
        # Without a configuration the cache keeps every token in every layer. One that forgets what is outside of the
        # sliding window is smaller, but cannot be cropped to where two prompts differ.
        self._make_cache: Callable[[], Any] = transformers.DynamicCache
        # Most models can leave out the scores of all positions but the last: 800 kB for each token of the prompt.
        takes = signature(self._model.forward).parameters
        self._last_only = {"logits_to_keep": 1} if "logits_to_keep" in takes else {}
        self._forward_turn = threading.Lock()
        self._kept_lock = threading.Lock()
        self._kept: _Computed | None = None
        self._running: dict[Channel[_Sampled | Finish], threading.Thread] = {}
        self._is_closed = False

    async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        """Continue the prompt. Tokens that were sampled while the reader was busy come in one chunk."""
        if self._vocabulary_size < VOCABULARY_SIZE:
            raise invalid_option(f"{self._foreign()} It has to run as text, with a profile.")
        grammar = grammar_of(request, self.traits.takes_grammar, "the transformers engine")
        matcher = None if grammar is None else await asyncio.to_thread(Matcher, grammar)
        async with aclosing(self._continue([int(token) for token in prompt], request, matcher=matcher)) as taken:
            async for items in taken:
                if isinstance(items, Finish):
                    yield items
                else:
                    logprobs = tuple(item.logprob for item in items if item.logprob is not None)
                    yield Chunk(tokens=tuple(item.token for item in items), logprobs=logprobs)

    async def generate_text(
        self, prompt: str, request: Request, stop: Sequence[str] = (), marks: Sequence[str] = ()
    ) -> AsyncGenerator[Chunk | Finish, None]:
        """The same for text, in the words of the model's own tokenizer."""
        own = await asyncio.to_thread(self._own_vocabulary)
        tokens, notes = await asyncio.to_thread(own.encode, prompt, (*marks, *stop))
        async with aclosing(self._continue(tokens, request, SampledText(own, stop))) as taken:
            async for items in taken:
                if isinstance(items, Finish):
                    yield msgspec.structs.replace(items, notes=(*notes, *items.notes))
                    continue
                text = "".join(item.text for item in items)
                logprobs = tuple(own.spell(item.logprob) for item in items if item.logprob is not None)
                if text or logprobs:
                    yield Chunk(text=text, logprobs=logprobs)

    async def _continue(
        self, tokens: list[int], request: Request, spelled: SampledText | None = None, matcher: Matcher | None = None
    ) -> AsyncGenerator[list[_Sampled] | Finish, None]:
        if self._is_closed:
            raise EngineError(ErrorCode.ENGINE_UNREACHABLE, f"the engine with {self.model} was closed")
        self._check_prompt(tokens)
        check_sampling(request.sampling)
        channel: Channel[_Sampled | Finish] = Channel(CHANNEL_TOKENS)
        job = _Job(tokens, request.sampling, channel, spelled, matcher)
        worker = threading.Thread(target=self._work, args=(job,), name=f"harmonia {self.model}", daemon=True)
        self._running[channel] = worker
        worker.start()
        try:
            while True:
                taken = await channel.take()
                sampled = [item for item in taken if isinstance(item, _Sampled)]
                if sampled:
                    yield sampled
                if isinstance(taken[-1], Finish):
                    yield taken[-1]
                    return
        finally:
            channel.stop()
            try:
                await channel.ended.wait()
                worker.join()  # setting `ended` was the last thing it did
            finally:
                del self._running[channel]

    async def close(self) -> None:
        """Stop what is running and release the memory. A generation that this stops raises ENGINE_DIED."""
        self._is_closed = True
        running = dict(self._running)
        for channel in running:
            channel.stop(EngineError(ErrorCode.ENGINE_DIED, f"the engine with {self.model} was closed"))
        for worker in running.values():
            worker.join()
        self._kept = None
        self._model = None

    def _own_vocabulary(self) -> OwnVocabulary:
        """The given tokenizer, or the one where the model was read from."""
        if self._own is None:
            needs = f"{self._foreign()} Its own tokenizer is needed to run it as text"
            if self._tokenizer is None:
                raise invalid_option(f"{needs}: pass tokenizer=…")
            tokenizer: Any = self._tokenizer
            if isinstance(tokenizer, str | Path):
                try:
                    tokenizer = _import("transformers").AutoTokenizer.from_pretrained(str(tokenizer))
                except (OSError, ValueError, RuntimeError, ImportError, KeyError) as error:
                    said = str(error).strip().partition("\n")[0]
                    raise invalid_option(f"{needs}, but none can be loaded from {self._tokenizer}: {said}") from error
            self._own = OwnVocabulary(tokenizer, _ends_of(self._model))
        return self._own

    def _foreign(self) -> str:
        size = self._model.config.vocab_size
        return f"{self.model} has {size} tokens; a model that speaks Harmony has {VOCABULARY_SIZE}."

    def _check_prompt(self, tokens: list[int]) -> None:
        if not tokens:
            raise invalid_option("the prompt is empty; it must have at least one token")
        for index, token in enumerate(tokens):
            if not 0 <= token < self._vocabulary_size:
                raise InputError(
                    ErrorCode.VOCABULARY_UNKNOWN_TOKEN,
                    f"the prompt contains the token {token}, but {self.model} ends at {self._vocabulary_size - 1}",
                    Position(token=index),
                )
        context = self.traits.context_tokens
        if context is not None and len(tokens) >= context:
            raise EngineError(
                ErrorCode.ENGINE_OUT_OF_CONTEXT,
                f"the prompt has {len(tokens)} tokens, which leaves no room in a context of {context}",
                Position(token=context),
            )

    # In the worker thread

    def _work(self, job: _Job) -> None:
        failure: EngineError | None = None
        try:
            with self._torch.inference_mode():
                self._sample(job)
        except Stopped:
            pass
        except Exception as error:
            said = str(error).strip() or type(error).__name__
            failure = EngineError(ErrorCode.ENGINE_DIED, f"{self.model} failed: {said}")
            failure.__cause__ = error
        finally:
            job.channel.end(failure)

    def _sample(self, job: _Job) -> None:
        prompt, sampling, channel, spelled = job.prompt, job.sampling, job.channel, job.spelled
        sampler = TorchSampler(self._torch, sampling, prompt, job.matcher)
        limits = (sampling.max_tokens, self.traits.context_tokens and self.traits.context_tokens - len(prompt))
        limit = min((limit for limit in limits if limit is not None), default=None)
        computed = self._take_kept(prompt)
        cached = len(computed.tokens)
        completion = 0
        reason: FinishReason = "length"
        try:
            scores: Any = None
            while limit is None or completion < limit:
                while len(computed.tokens) < len(prompt):
                    done = len(computed.tokens)
                    channel.check()
                    scores = self._forward(prompt[done : done + PREFILL_TOKENS], computed)
                token, logprob = sampler.pick(scores)
                completion += 1
                text = "" if spelled is None else spelled.take(token)
                is_over = token in STOP_TOKENS if spelled is None else spelled.is_over
                if spelled is not None and (is_over or completion == limit):
                    text += spelled.close()
                channel.put(_Sampled(token, logprob, text))
                if is_over:
                    reason = "stop"
                    break
                if completion != limit:
                    scores = self._forward([token], computed)
        except Stopped:
            self._keep(computed)
            raise
        # After any other failure the cache may be half a token ahead of its list, and is given up.
        self._keep(computed)
        channel.put(Finish(reason, Usage(len(prompt), completion, cached), sampler.notes))

    def _forward(self, tokens: list[int], computed: _Computed) -> Any:
        """The scores for what follows `tokens`, which follow what was computed before."""
        with self._forward_turn:
            device = self._model.get_input_embeddings().weight.device
            output = self._model(
                input_ids=self._torch.tensor([tokens], device=device),
                past_key_values=computed.cache,
                use_cache=True,
                **self._last_only,
            )
        computed.tokens += tokens
        return output.logits[0, -1]

    def _take_kept(self, prompt: list[int]) -> _Computed:
        """What is computed already of the prompt, except the last token, whose scores are needed."""
        with self._kept_lock:
            kept, self._kept = self._kept, None
        if kept is None or not (shared := shared_prefix(kept.tokens, prompt[:-1])):
            return _Computed([], self._make_cache())
        if shared < len(kept.tokens):
            kept.cache.crop(shared - len(kept.tokens))  # a negative number is how many to forget
        return _Computed(prompt[:shared], kept.cache)

    def _keep(self, computed: _Computed) -> None:
        with self._kept_lock:
            if not self._is_closed:
                self._kept = computed


def _ends_of(model: Any) -> tuple[int, ...]:
    """The tokens that end the model's turn, by its files."""
    settings = (getattr(model, "generation_config", None), model.config)
    named = [getattr(each, "eos_token_id", None) for each in settings]
    return tuple(end for ends in named if ends is not None for end in ([ends] if isinstance(ends, int) else ends))


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(
            ErrorCode.ENGINE_MISSING_EXTRA,
            f"the transformers engine needs {name}: pip install 'harmonia[transformers]' ({error})",
        ) from error


def _load(torch: Any, transformers: Any, model: str, device: str | None, dtype: str | None) -> Any:
    if device is None:
        device = "auto" if torch.cuda.is_available() else "cpu"
    try:
        return transformers.AutoModelForCausalLM.from_pretrained(model, device_map=device, dtype=dtype or "auto")
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        said = str(error).strip().partition("\n")[0]
        raise invalid_option(f"transformers cannot load a model from {model!r}: {said}") from error


KINDS: Final = (
    Kind(
        name="transformers",
        summary="a model in this process",
        make=TransformersEngine,
        argument="PATH",
        argument_as="model",
        model_as=None,
        options={"device": str, "dtype": str, "tokenizer": str},
        takes_key=False,
        speaks="tokens",
    ),
)
