"""The vocabulary of a model that does not speak Harmony, from the model's own tokenizer: text in and text out.

1. The prompt has only those special tokens whose spellings are among its marks. A typed spelling of another one is
   escaped, as in Harmony's safe texts, and a note reports it.
2. No piece of the text ends inside a character, and nothing of it is lost: what a tokenizer spells only together with
   the next token is held back until that comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from harmonia.run.engines.base import Alternative, TokenLogprob


class StopStrings:
    """A text as it comes, up to the first of some strings. What may be the beginning of one is held back.

    The first is the one that ends first, so that it does not matter in which pieces the text comes.
    """

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = tuple(word for word in stop if word)
        self._held: str = ""
        self.is_over: bool = False

    def feed(self, text: str) -> str:
        """What is certain to stand before a stop."""
        if self.is_over:
            return ""
        text = self._held + text
        found = [(at + len(word), at) for word in self._stop if (at := text.find(word)) >= 0]
        if found:
            self.is_over = True
            self._held = ""
            return text[: min(found)[1]]
        # As much of the end of the text as may become a stop.
        longest = min(len(text), max(map(len, self._stop), default=1) - 1)
        lengths = range(longest, 0, -1)
        held = next((n for n in lengths if any(word.startswith(text[-n:]) for word in self._stop)), 0)
        kept = len(text) - held
        self._held = text[kept:]
        return text[:kept]

    def close(self) -> str:
        """What was held back, and turned out not to be a stop."""
        held, self._held = self._held, ""
        return held


# More tokens in a row that do not end a character are not text, and are not waited for.
MAX_HELD_TOKENS: Final = 16

_REPLACEMENT: Final = "\ufffd"


class OwnVocabulary:
    """A tokenizer of transformers', as the text route needs it. `ends` are the tokens that end a turn."""

    def __init__(self, tokenizer: Any, ends: Iterable[int]) -> None:
        self._tokenizer = tokenizer
        added = dict(tokenizer.added_tokens_decoder)
        self._specials = tuple(sorted({str(token) for token in added.values() if token.special}, key=len, reverse=True))
        own_end = tokenizer.eos_token_id
        self.ends = frozenset((*ends, *(() if own_end is None else (own_end,))))

    def encode(self, prompt: str, marks: Sequence[str]) -> tuple[list[int], tuple[str, ...]]:
        """The tokens of a prompt, with the one that begins all texts, and notes about it."""
        typed = [special for special in self._specials if special not in marks and special in prompt]
        for special in typed:
            prompt = prompt.replace(special, f"{special[:1]}\\{special[1:]}")
        note = f"a message spells out a special token: {', '.join(typed)} was escaped with a backslash"
        return list(self._tokenizer(prompt)["input_ids"]), (note,) if typed else ()

    def decode(self, tokens: Sequence[int]) -> str:
        return self._tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def spell(self, logprob: TokenLogprob) -> TokenLogprob:
        """The same with the texts of this vocabulary, whose ids mean nothing elsewhere."""
        top = tuple(Alternative(None, self._text_of(other.token), other.logprob) for other in logprob.top)
        return TokenLogprob(None, self._text_of(logprob.token), logprob.logprob, top)

    def _text_of(self, token: int | None) -> str:
        return "" if token is None else self.decode([token])


class SampledText:
    """The text of one generation, token by token, up to a stop string or a token that ends the turn."""

    def __init__(self, vocabulary: OwnVocabulary, stop: Sequence[str]) -> None:
        self._vocabulary = vocabulary
        self._stops = StopStrings(stop)
        # The tokens that were spelled last, without which the next may be spelled otherwise.
        self._known: list[int] = []
        self._held: list[int] = []
        self.is_over = False

    def take(self, token: int) -> str:
        """The text that this token makes certain."""
        if token in self._vocabulary.ends:
            self.is_over = True
            return ""
        self._held.append(token)
        text = self._spell()
        if text.endswith(_REPLACEMENT) and len(self._held) < MAX_HELD_TOKENS:
            return ""
        return self._pass_on(text)

    def close(self) -> str:
        """The rest, where no more comes."""
        return self._pass_on(self._spell()) + self._stops.close()

    def _spell(self) -> str:
        before = self._vocabulary.decode(self._known) if self._known else ""
        return self._vocabulary.decode([*self._known, *self._held])[len(before) :] if self._held else ""

    def _pass_on(self, text: str) -> str:
        if self._held:
            self._known, self._held = self._held, []
        certain = self._stops.feed(text)
        self.is_over = self.is_over or self._stops.is_over
        return certain
