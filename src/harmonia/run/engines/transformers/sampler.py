"""From a model's scores to a token: grammar, penalties, temperature, top-k, top-p, min-p, and a seed of its own.

The order is that of vLLM and transformers; the grammar's mask comes before all others. Without a temperature above zero
the likeliest token is taken.
"""

from __future__ import annotations

import math
from typing import Any

from harmonia.run.engines.base import Alternative, Sampling, TokenLogprob
from harmonia.run.engines.grammar_mask import Matcher
from harmonia.vocabulary import VOCABULARY_SIZE, default_vocabulary

# torch's generators take 64 bits.
_SEED_BITS = 0xFFFF_FFFF_FFFF_FFFF


class TorchSampler:
    """Picks the tokens of one generation. `scores` are a row of the model's logits, of any type, on any device.

    With a matcher, only tokens that its grammar admits are picked, one mask for each; it is told what was picked.
    """

    def __init__(self, torch: Any, sampling: Sampling, prompt: list[int], matcher: Matcher | None = None) -> None:
        self._torch = torch
        self._sampling = sampling
        self._prompt = prompt
        self._matcher = matcher
        self._is_greedy = not sampling.temperature
        self._generator: Any = None
        # How often each token was sampled, and whether it was seen at all: tables, so that a penalty costs the same
        # for the last token as for the first.
        self._sampled_counts: Any = None
        self._was_seen: Any = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What was requested and has no effect."""
        idle = [name for name in ("top_p", "top_k", "min_p", "seed") if getattr(self._sampling, name) is not None]
        if not self._is_greedy or not idle:
            return ()
        return (f"sampling is greedy without a temperature above zero, so {', '.join(idle)} had no effect",)

    def pick(self, scores: Any) -> tuple[int, TokenLogprob | None]:
        """A token, and its log-probability where it was asked for."""
        torch = self._torch
        scores = scores.float()
        best, likeliest = scores.max(dim=-1)  # a score that is no number is the largest
        if not math.isfinite(best):
            raise ArithmeticError("the model's scores are not finite numbers")
        weighed = self._penalise(self._mask(scores))
        if weighed is not scores:
            likeliest = weighed.argmax(dim=-1)
        if self._is_greedy:
            token = int(likeliest)
        else:
            if self._generator is None:
                self._generator = torch.Generator(device=scores.device)
                if self._sampling.seed is None:
                    self._generator.seed()
                else:
                    self._generator.manual_seed(self._sampling.seed & _SEED_BITS)
            token = int(torch.multinomial(self._narrow(weighed), 1, generator=self._generator))
        if self._sampled_counts is not None:
            self._sampled_counts[token] += 1
            self._was_seen[token] = True
        if self._matcher is not None:
            self._matcher.commit(token)
        return token, None if self._sampling.logprobs is None else self._logprob(scores, token, self._sampling.logprobs)

    def _mask(self, scores: Any) -> Any:
        """The scores of the tokens that the grammar admits; of all others, minus infinity."""
        if self._matcher is None:
            return scores
        torch = self._torch
        # A bit for each token, the lowest of a byte first. A table of scores may be longer, or a little shorter.
        packed = torch.frombuffer(bytearray(self._matcher.mask()), dtype=torch.uint8).to(scores.device)
        bits = torch.arange(8, dtype=torch.uint8, device=scores.device)
        is_admitted = (packed.unsqueeze(-1) >> bits & 1).flatten().bool()
        held = torch.full_like(scores, -math.inf)
        size = min(scores.shape[-1], is_admitted.shape[-1])
        held[:size] = scores[:size].where(is_admitted[:size], -math.inf)
        return held

    def _penalise(self, scores: Any) -> Any:
        sampling = self._sampling
        presence, frequency = sampling.presence_penalty or 0.0, sampling.frequency_penalty or 0.0
        repetition = sampling.repetition_penalty or 1.0
        if not presence and not frequency and repetition == 1.0:
            return scores
        torch = self._torch
        if self._sampled_counts is None:
            self._sampled_counts = torch.zeros_like(scores)
            self._was_seen = torch.zeros_like(scores, dtype=torch.bool)
            self._was_seen[torch.tensor(self._prompt, dtype=torch.long, device=scores.device)] = True
        counts = self._sampled_counts
        repeated = torch.where(scores > 0, scores / repetition, scores * repetition)
        return torch.where(self._was_seen, repeated, scores) - frequency * counts - presence * (counts > 0)

    def _narrow(self, scores: Any) -> Any:
        """The probabilities of the tokens that may be taken; of all others, zero."""
        torch, sampling = self._torch, self._sampling
        # The largest becomes zero, so that a temperature near zero gives large negative numbers and no infinite ones.
        scores = (scores - scores.max()) / sampling.temperature
        if sampling.top_k is not None and 0 < sampling.top_k < scores.shape[-1]:
            kept, places = scores.topk(sampling.top_k)
            scores = torch.full_like(scores, -math.inf).scatter(-1, places, kept)
        chances = scores.softmax(dim=-1)
        if sampling.top_p is not None and sampling.top_p < 1:
            ordered, places = chances.sort(descending=True)
            # A token stays if those before it have not filled top_p, so the first one always stays.
            ordered = ordered.where(ordered.cumsum(dim=-1) - ordered < sampling.top_p, 0)
            chances = torch.zeros_like(chances).scatter(-1, places, ordered)
        if sampling.min_p:
            chances = chances.where(chances >= sampling.min_p * chances.max(), 0)
        return chances

    def _logprob(self, scores: Any, token: int, count: int) -> TokenLogprob:
        logprobs = scores.log_softmax(dim=-1)
        top: tuple[Alternative, ...] = ()
        if count:
            values, places = logprobs.topk(min(count, logprobs.shape[-1]))
            top = tuple(
                Alternative(place, _text_of(place), value)
                for place, value in zip(places.tolist(), values.tolist(), strict=True)
            )
        return TokenLogprob(token, _text_of(token), float(logprobs[token]), top)


def _text_of(token: int) -> str:
    # A model's table of scores may be padded beyond the vocabulary.
    return default_vocabulary().decode([token]) if token < VOCABULARY_SIZE else ""
