"""A slow, obvious second parser: the whole input at once, cut with one regular expression. No streaming, no state kept.

It reads well-formed streams and the simplest damage: a message that the next one cuts off, a header without
`<|start|>`, a stop too many, white space anywhere between messages, prose before the channel, a channel that is given
up for another. It was written from the description of the format, not from harmonia.parser, and shares nothing with it
but the numbers of the special tokens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from harmonia.vocabulary import SPELLING_BY_ID, decode
from tests.support.strategies.streams import Truth

_ROLES = ("system", "developer", "user", "assistant", "tool")
_STOPS = {"<|end|>": "end", "<|call|>": "call", "<|return|>": "return"}
_HEADER = re.compile(
    r"""\s* (?P<author> [^\s<]+ )
        (?: \s+ to= (?P<to> [^\s<]+ ) )?
        (?: \s* <\|channel\|> \s* (?P<channel> [^\s<]+ ) (?: \s+ to= (?P<late_to> [^\s<]+ ) )? )?
        (?: \s* (?P<type> <\|constrain\|> \s* [^\s<]+ ) | \s+ (?P<word> [^\s<]+ ) )?
        \s*""",
    re.VERBOSE,
)

# Words between the role and the channel: at least two, and none of them an address.
_PROSE = re.compile(r"\s*assistant(?P<said>(?=[^<=]*\w\s+\w)[^<=]+)(?=<\|channel\|>)")
# A channel that is followed by another one before the message begins.
_GIVEN_UP = re.compile(r"<\|channel\|>(?:analysis|commentary)(?: to=assistant)?(?=<\|channel\|>)")

# A piece of the input: a special token's spelling, or text. In token ids, text that spells a special token is text.
Piece = tuple[bool, str]


def pieces_of_tokens(tokens: Sequence[int]) -> list[Piece]:
    pieces: list[Piece] = []
    for is_special, run in groupby(tokens, key=lambda token: token in SPELLING_BY_ID):
        if is_special:
            pieces += [(True, SPELLING_BY_ID[token]) for token in run]
        else:
            pieces.append((False, decode(run)))
    return pieces


def pieces_of_text(text: str) -> list[Piece]:
    spellings = "|".join(map(re.escape, SPELLING_BY_ID.values()))
    return [(piece in SPELLING_BY_ID.values(), piece) for piece in re.split(f"({spellings})", text) if piece]


def read(pieces: list[Piece], role: str | None) -> list[Truth]:
    """The messages. `role` is what the prompt already wrote behind `<|start|>`."""
    if role is not None:
        pieces = [(True, "<|start|>"), (False, role), *pieces]
    messages: list[Truth] = []
    while pieces:
        is_special, piece = pieces.pop(0)
        if is_special and piece == "<|start|>":
            messages += _read_message(pieces, author="")
        elif is_special and piece == "<|channel|>":
            messages += _read_message(pieces, author="assistant<|channel|>")
        elif is_special and piece in _STOPS:
            continue  # a stop too many
        elif not piece.isspace():
            raise ValueError(f"{piece!r} is more damage than this parser knows")
    return messages


def _read_message(pieces: list[Piece], author: str) -> list[Truth]:
    """A message, and before it the prose that stands in front of its channel."""
    header = author
    while pieces[0] != (True, "<|message|>"):
        header += pieces.pop(0)[1]
    pieces.pop(0)
    content = ""
    while pieces and not pieces[0][0]:
        content += pieces.pop(0)[1]
    stop = _STOPS.get(pieces[0][1]) if pieces else None
    if stop is not None:
        pieces.pop(0)
    prose = _PROSE.match(header)
    said: list[Truth] = []
    if prose is not None:
        said = [Truth("assistant", None, None, None, None, prose["said"], None)]
        header = "assistant" + header[prose.end() :]
    return [*said, _truth(_GIVEN_UP.sub("", header), content, stop)]


def _truth(header: str, content: str, stop: str | None) -> Truth:
    found = _HEADER.fullmatch(header)
    if found is None:
        raise ValueError(f"{header!r} is more damage than this parser knows")
    role, _, name = found["author"].partition(":")
    if role not in _ROLES:
        role, name = "tool", found["author"]
    content_type = found["type"] or found["word"]
    return Truth(
        role,
        name or None,
        found["channel"],
        found["to"] or found["late_to"],
        content_type,
        content,
        stop,  # pyright: ignore[reportArgumentType] -- the values of _STOPS
    )
