"""The ways in which one stream may arrive: whole, by token, by character, by byte, and cut in two anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harmonia import Event, Parser, encode

Chunks = Sequence[str | bytes | int | list[int]]


def ways_to_feed(text: str) -> Iterator[Chunks]:
    """All of them; special tokens that the text spells are special tokens in each."""
    tokens, data = encode(text, special="all"), text.encode()
    yield [text]
    yield list(text)
    yield [data]
    yield [data[at : at + 1] for at in range(len(data))]
    yield [tokens]
    yield tokens
    for at in range(1, len(text)):
        yield [text[:at], text[at:]]
    for at in range(1, len(data)):
        yield [data[:at], data[at:]]
    for at in range(1, len(tokens)):
        yield [tokens[:at], tokens[at:]]


def feed(parser: Parser, chunks: Chunks) -> Iterator[list[Event]]:
    """What the parser says to each chunk, and at the end."""
    for chunk in chunks:
        yield parser.feed(chunk)
    yield parser.close()
