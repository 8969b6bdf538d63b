"""How many cached tokens a client may be told of: as many as its own key explains.

An engine's cache knows what everybody sent and what the model thought in hiding. How much of a prompt it has in memory
would tell a client whether a guess of either is right, token by token. So the figure is cut to the longest beginning of
the prompt of which this key has sent, or was answered, the same before.

1. What a client wrote and what this server vouches for (sampled here, and sent back by the store or by a seal) are told
   apart, token for token equal or not: a client that writes down what it believes the model thought explains nothing.
2. What was sampled counts as a whole message or not at all. Two hidden texts are not compared with one another.
3. Nothing of a prompt is kept but hashes, so many for a key and for so many keys, the latest ones. Whatever is
   forgotten, or happened in another process, makes the figure smaller.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Self

from harmonia.messages import Message, Role
from harmonia.renderer import Renderer
from harmonia.run.prompt import Prompt
from harmonia.serve.security.identity import NOBODY

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
        """How many of the first tokens of this prompt the owner's earlier prompts explain. This prompt, and what was
        sampled after it, are remembered. Of a prompt whose tokens are not known here, nothing is explained."""
        if not prompt.tokens:
            return 0
        before = _Chain()
        points: list[tuple[int, bytes]] = []
        start, data = 0, array("I", prompt.tokens).tobytes()
        for message, end in zip(prompt.conversation, prompt.ends, strict=True):
            points += before.add(data, start, end, is_written=_is_written(message, written))
            start = end
        after = before.copy()
        is_written = begun is None or _is_written(begun, written)
        points += before.add(data, start, len(prompt.tokens), is_written=is_written)
        known = self._known(owner)
        explained = max((end for end, found in points if found in known), default=0)
        # A message that was continued would be encoded anew, here on the event loop. What is not remembered only makes
        # the figure smaller.
        kept = self._renderer.render(sampled if begun is None else (), None)
        data, start = array("I", kept.tokens).tobytes(), 0
        for span in kept.spans:
            points += after.add(data, start, span.end_token, is_written=False)
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
    """What separates the engine's cache of this key from all others; None where the server asks for no keys."""
    return None if owner == NOBODY else hashlib.sha256(b"harmonia cache\0" + owner.encode()).hexdigest()


class _Chain:
    """Hashes of ever longer beginnings."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=_HASH_BYTES)

    def copy(self) -> Self:
        other = type(self)()
        other._hash = self._hash.copy()
        return other

    def add(self, data: bytes, start: int, end: int, *, is_written: bool) -> Iterator[tuple[int, bytes]]:
        """Go on with the tokens from `start` to `end`. Gives the places that have a hash."""
        self._hash.update(_WRITTEN if is_written else _VOUCHED)
        inside = range(start + BLOCK_TOKENS, end, BLOCK_TOKENS) if is_written else ()
        for at in (*inside, end):
            self._hash.update(data[start * _TOKEN_BYTES : at * _TOKEN_BYTES])
            yield at, self._hash.copy().digest()
            start = at


def _is_written(message: Message, written: Written) -> bool:
    match message.role:
        case Role.ASSISTANT:
            return id(message) in written
        case Role.TOOL:
            return message.answers is None or id(message.answers) in written
        case _:
            return True
