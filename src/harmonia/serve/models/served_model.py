"""The model as clients see it: its names, what its engine can do, and how many cached tokens a client may see.

An engine's cache knows what everybody sent and what the model thought in hiding. How much of a prompt it has in memory
would tell a client whether a guess of either is right, token by token. So the figure is cut to the longest prefix of
the prompt that this key has sent or received before.

1. What a client wrote and what this server vouches for (sampled here, and returned by the store or a seal) differ, even
   if their tokens are equal: a client that writes down what it believes the model thought explains nothing.
2. What was sampled counts as a whole message or not at all. Two hidden texts are not compared with one another.
3. Of a prompt only hashes are kept: the latest ones of each key, for a limited number of keys. What is forgotten, or
   happened in another process, makes the figure smaller.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.messages import Conversation, Message, Role
from harmonia.renderer import Renderer
from harmonia.run.engines.base import Traits
from harmonia.run.engines.registry import is_gpt_oss
from harmonia.run.loop import Run
from harmonia.run.options import RunOptions
from harmonia.run.sampling import Model, Prompt
from harmonia.run.tools import ToolSet
from harmonia.serve.config.settings import Settings
from harmonia.serve.security.keys import NOBODY

BLOCK_TOKENS: Final = 32  # of what a client wrote, beside the ends of its messages
MOST_HASHES: Final = 16_384  # of a key; half a million tokens in blocks, about 2 MB
MOST_KEYS: Final = 64
_HASH_BYTES: Final = 8
_TOKEN_BYTES: Final = 4
_WRITTEN: Final = b"w"
_VOUCHED: Final = b"v"

# By their identities, the assistant's messages that a client wrote itself.
Written = Mapping[int, Message]


class SentPrompts:
    """What each key has sent. One for a server."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self._keys: OrderedDict[str, dict[bytes, None]] = OrderedDict()

    def explain(
        self, owner: str, prompt: Prompt, begun: Message | None, sampled: Sequence[Message], written: Written
    ) -> int:
        """How many of the first tokens of this prompt the owner's earlier prompts explain; 0 if its tokens are unknown
        here. This prompt, and what was sampled after it, are remembered."""
        if not prompt.tokens:
            return 0
        before = hashlib.blake2b(digest_size=_HASH_BYTES)
        points: list[tuple[int, bytes]] = []
        start, data = 0, array("I", prompt.tokens).tobytes()
        for message, end in zip(prompt.conversation, prompt.ends, strict=True):
            points += _extend(before, data, start, end, is_written=_is_written(message, written))
            start = end
        after = before.copy()
        is_written = begun is None or _is_written(begun, written)
        points += _extend(before, data, start, len(prompt.tokens), is_written=is_written)
        known = self._known(owner)
        explained = max((end for end, found in points if found in known), default=0)
        # A continued message would be encoded again, here on the event loop. What is not remembered only makes the
        # figure smaller.
        kept = self._renderer.render(sampled if begun is None else (), None)
        data, start = array("I", kept.tokens).tobytes(), 0
        for span in kept.spans:
            points += _extend(after, data, start, span.end_token, is_written=False)
            start = span.end_token
        for _, found in points:
            known.pop(found, None)
            known[found] = None  # the latest at the end
        while len(known) > MOST_HASHES:
            del known[next(iter(known))]
        return explained

    def _known(self, owner: str) -> dict[bytes, None]:
        known = self._keys.setdefault(owner, {})
        self._keys.move_to_end(owner)
        while len(self._keys) > MOST_KEYS:
            self._keys.popitem(last=False)
        return known


def cache_salt(owner: str) -> str | None:
    """What separates the engine's cache of this key from all others; None if the server needs no keys."""
    return None if owner == NOBODY else hashlib.sha256(b"harmonia cache\0" + owner.encode()).hexdigest()


def _extend(
    chain: hashlib.blake2b, data: bytes, start: int, end: int, *, is_written: bool
) -> Iterator[tuple[int, bytes]]:
    """Add the tokens from `start` to `end` to a chain of hashes; yield the places that have a hash, with the hash."""
    chain.update(_WRITTEN if is_written else _VOUCHED)
    inside = range(start + BLOCK_TOKENS, end, BLOCK_TOKENS) if is_written else ()
    for at in (*inside, end):
        chain.update(data[start * _TOKEN_BYTES : at * _TOKEN_BYTES])
        yield at, chain.copy().digest()
        start = at


def _is_written(message: Message, written: Written) -> bool:
    source = message.answers if message.role is Role.TOOL else message
    return message.role not in (Role.ASSISTANT, Role.TOOL) or source is None or id(source) in written


_SAMPLINGS: Final = 4
_SAMPLINGS_WITH_TOOLS: Final = 32


class ServedModel:
    """One model in front of an engine or a provider. `sent_prompts` remembers which prompts each key has sent."""

    def __init__(self, model: Model, settings: Settings, renderer: Renderer | None = None) -> None:
        self.model = model
        self.renderer = renderer or Renderer()
        self.sent_prompts = SentPrompts(self.renderer)
        self._settings = settings
        self._name = settings.model or model.model
        self._allows_unverified = settings.calls == "unverified"

    @property
    def traits(self) -> Traits:
        """What the model can do."""
        return self.model.traits

    @property
    def gives_logprobs(self) -> bool:
        """Whether there are log-probabilities of tokens."""
        return self.traits.gives_logprobs and self.traits.gives_tokens

    @property
    def calls_are_certain(self) -> bool:
        """Whether a call can be certain: from text none is, unless the operator allows it."""
        return self.traits.reads_calls or self._allows_unverified

    def most_samplings(self, *, has_tools: bool) -> int:
        """How often a run may ask the model: again after its tools, and after calls that are not allowed."""
        if not self.calls_are_certain:
            return 1  # no call is ever certain, so asking again does not help
        return _SAMPLINGS_WITH_TOOLS if has_tools else _SAMPLINGS

    def run(
        self, conversation: Conversation, tools: ToolSet, options: RunOptions, *, owner: str, written: Written
    ) -> Run:
        """A run for a key, with what the operator decides added to its options."""
        settings = self._settings

        def most_cached(prompt: Prompt, prefix: Message | None, sampled: Sequence[Message]) -> int:
            return self.sent_prompts.explain(owner, prompt, prefix, sampled, written)

        options = msgspec.structs.replace(
            options,
            allow_unverified=self._allows_unverified,
            check_format=False,  # the reader of the request has checked it, within limits
            grammar=settings.grammar,
            retry_malformed=settings.retry_malformed,
            guessed=settings.guessed,
            renderer=self.renderer,
            most_cached=most_cached,
            cache_salt=cache_salt(owner),
        )
        return Run(self.model, conversation, options, tools=tools)

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which the model is served; answers have the first."""
        own = self._name
        if Path(own).is_absolute():
            own = Path(own).name  # where the operator keeps a model is not for clients
        return tuple(dict.fromkeys((own, *self._settings.aliases)))

    def find(self, name: str | None) -> str:
        """The served model that a request names. Other spellings of the same model are accepted; see `_plain`."""
        names = self.names
        if name is None or name in names:
            return name or names[0]
        wanted = _plain(name)
        if any(_plain(known) == wanted for known in names):
            return names[0]
        # The engine without a model plays any gpt-oss.
        if self.model.name == "demo" and is_gpt_oss(name):
            return names[0]
        raise InputError(
            ErrorCode.SERVE_UNKNOWN_MODEL,
            f"the model {name[:100]!r} is not served here; use {' or '.join(names)}",
            Position(path="$.model"),
        )


def _plain(name: str) -> str:
    """A model's name without what engines put around it: the organisation, the file, the quantisation."""
    name = name.lower().rsplit("/", 1)[-1].removesuffix(".gguf").replace(":", "-").replace("_", "-")
    return re.sub(r"-(mxfp4|q\d.*|f16|bf16|latest|gguf|instruct)$", "", name)
