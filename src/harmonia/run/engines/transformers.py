"""A gpt-oss model in this process, in Hugging Face's transformers: token ids in, token ids out.

    event loop                        worker thread, one for each generation
    generate ──prompt──────────────▶  the prompt in pieces, then one forward pass for each token
             ◀──tokens, Finish──────  a channel with a limit: a slow reader stops the sampling

1. Importing this module loads neither torch nor transformers; making an engine does, and reads the model.
2. Several generations may run at once. Each has a thread and a cache of its own; their forward passes take turns, and
   one whose reader is slow holds up none of the others.
3. Closing or cancelling a generation stops its thread within one forward pass, and waits for that.
4. The random numbers of a generation are its own: `seed` repeats it, and nothing of torch's global state is touched.
5. What the last generation computed is kept: a prompt that begins alike is computed from the first token that differs.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from harmonia.errors import EngineError, ErrorCode, InputError, Position
from harmonia.run.engines.channel import Channel, Stopped
from harmonia.run.engines.engine import Chunk, Finish, FinishReason, Request, Sampling, TokenLogprob, Traits, Usage
from harmonia.run.engines.torch_sampler import TorchSampler, check_sampling
from harmonia.vocabulary import CALL, RETURN, VOCABULARY_SIZE

STOP_TOKENS: Final = frozenset({RETURN, CALL})

# A longer prompt is computed in pieces, so that cancelling does not have to wait for the whole of it.
PREFILL_TOKENS: Final = 512

# How many sampled tokens may wait for the reader.
CHANNEL_TOKENS: Final = 64


@dataclass(frozen=True, slots=True)
class _Sampled:
    token: int
    logprob: TokenLogprob | None


@dataclass(slots=True)
class _Computed:
    """The tokens that went through the model, and the keys and values it made of them."""

    tokens: list[int]
    cache: Any


class TransformersEngine:
    """A causal language model with the vocabulary of gpt-oss, run by transformers.

    `model` is what `AutoModelForCausalLM.from_pretrained` takes (a folder, or a name that transformers looks up and
    may download), or a model that is already loaded. It is read here, which blocks: in a program with an event loop
    use `await asyncio.to_thread(TransformersEngine, "path/to/model")`. `device` is "cpu", "cuda:0" and the like; None
    lets accelerate spread the model over the GPUs, or takes the CPU where there is none. `dtype` is the name of a type
    of torch's, such as "bfloat16"; None keeps what the model was saved in.

    Without a temperature above zero, sampling is greedy. Log-probabilities are those of the model, before temperature
    and penalties.
    """

    name = "transformers"

    def __init__(self, model: str | Path | object, *, device: str | None = None, dtype: str | None = None) -> None:
        self._torch = _import("torch")
        transformers = _import("transformers")
        if isinstance(model, str | Path):
            self._model: Any = _load(self._torch, transformers, str(model), device, dtype)
            self.model = str(model)
        elif device is not None or dtype is not None:
            raise InputError(ErrorCode.ENGINE_INVALID_OPTION, "a model that is already loaded has its device and dtype")
        else:
            self._model = model
            self.model = str(getattr(self._model.config, "_name_or_path", "")) or type(model).__name__
        self._model.eval()
        config = self._model.config
        if config.vocab_size < VOCABULARY_SIZE:
            raise InputError(
                ErrorCode.ENGINE_INVALID_OPTION,
                f"{self.model} has {config.vocab_size} tokens; a model that speaks Harmony has {VOCABULARY_SIZE}",
            )
        self._vocabulary_size: int = config.vocab_size
        self.traits = Traits(gives_logprobs=True, context_tokens=getattr(config, "max_position_embeddings", None))
        # Without a configuration the cache keeps every token in every layer. One that forgets what lies outside of the
        # sliding window is smaller, but cannot be cut back to where two prompts differ.
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
        if self._is_closed:
            raise EngineError(ErrorCode.ENGINE_UNREACHABLE, f"the engine with {self.model} was closed")
        tokens = [int(token) for token in prompt]
        self._check_prompt(tokens)
        check_sampling(request.sampling)
        channel: Channel[_Sampled | Finish] = Channel(CHANNEL_TOKENS)
        worker = threading.Thread(
            target=self._work, args=(tokens, request.sampling, channel), name=f"harmonia {self.model}", daemon=True
        )
        self._running[channel] = worker
        worker.start()
        try:
            while True:
                taken = await channel.take()
                sampled = [item for item in taken if isinstance(item, _Sampled)]
                if sampled:
                    logprobs = tuple(item.logprob for item in sampled if item.logprob is not None)
                    yield Chunk(tokens=tuple(item.token for item in sampled), logprobs=logprobs)
                if isinstance(taken[-1], Finish):
                    yield taken[-1]
                    return
        finally:
            channel.stop()
            try:
                await channel.wait_until_ended()
                worker.join()  # to say that it ends was the last thing it did
            finally:
                del self._running[channel]

    async def close(self) -> None:
        """Stop what is running and give back the memory. A generation that is stopped by this raises ENGINE_DIED."""
        self._is_closed = True
        running = dict(self._running)
        for channel in running:
            channel.stop(EngineError(ErrorCode.ENGINE_DIED, f"the engine with {self.model} was closed"))
        for worker in running.values():
            worker.join()
        self._kept = None
        self._model = None

    def _check_prompt(self, tokens: list[int]) -> None:
        if not tokens:
            raise InputError(
                ErrorCode.ENGINE_INVALID_OPTION, "the prompt is empty; a model continues one token or more"
            )
        for index, token in enumerate(tokens):
            if not 0 <= token < self._vocabulary_size:
                raise InputError(
                    ErrorCode.VOCABULARY_UNKNOWN_TOKEN,
                    f"the prompt has the token {token}, {self.model} has those below {self._vocabulary_size}",
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

    def _work(self, prompt: list[int], sampling: Sampling, channel: Channel[_Sampled | Finish]) -> None:
        failure: EngineError | None = None
        try:
            with self._torch.inference_mode():
                self._sample(prompt, sampling, channel)
        except Stopped:
            pass
        except Exception as error:
            said = str(error).strip() or type(error).__name__
            failure = EngineError(ErrorCode.ENGINE_DIED, f"{self.model} failed: {said}")
            failure.__cause__ = error
        finally:
            channel.end(failure)

    def _sample(self, prompt: list[int], sampling: Sampling, channel: Channel[_Sampled | Finish]) -> None:
        sampler = TorchSampler(self._torch, sampling, prompt)
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
                channel.put(_Sampled(token, logprob))
                if token in STOP_TOKENS:
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
        """What is computed already of the prompt, the last token excepted: somebody must say what follows it."""
        with self._kept_lock:
            kept, self._kept = self._kept, None
        if kept is None:
            return _Computed([], self._make_cache())
        pairs = zip(kept.tokens, prompt[:-1], strict=False)
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if not shared:
            return _Computed([], self._make_cache())
        if shared < len(kept.tokens):
            kept.cache.crop(shared - len(kept.tokens))  # a negative number is how many to forget
        return _Computed(prompt[:shared], kept.cache)

    def _keep(self, computed: _Computed) -> None:
        with self._kept_lock:
            if not self._is_closed:
                self._kept = computed


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
        raise InputError(
            ErrorCode.ENGINE_INVALID_OPTION, f"transformers loads no model from {model!r}: {said}"
        ) from error
