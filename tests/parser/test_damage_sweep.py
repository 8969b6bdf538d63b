"""Every single damage of a header, and every pair of damages, judged by rules that look at the text alone.

A token or a header word is deleted, doubled or swapped with its neighbour, or prose is put before it. Then:

1. A thought is never shown, not even for a moment, unless the damage put a visible header right before it.
2. An answer, or a preamble, with a complete header right before it is shown, unless its author is in doubt or the name
   of another author may have been lost.
3. The arguments of a call are not shown, and no damaged call may be run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

import pytest

from harmonia import ErrorCode, Parsed, TextDelta, Trust, call_of, encode, is_visible, parse
from tests.support.oracle_cases import compared

THOUGHT, PREAMBLE, ANSWER, ARGUMENTS = "THOUGHT one.", "PREAMBLE two.", "ANSWER three.", '{"ARGUMENTS": 4}'
BODIES = (THOUGHT, PREAMBLE, ANSWER, ARGUMENTS)
PROSE = ("Sure ", "Here is the json ")
Pieces = tuple[str, ...]

_START = ("<|start|>", "assistant")
_THINKS = ("<|channel|>", "analysis", "<|message|>", THOUGHT, "<|end|>")
_SPEAKS = ("<|channel|>", "commentary", "<|message|>", PREAMBLE, "<|end|>")
_ANSWERS = ("<|channel|>", "final", "<|message|>", ANSWER, "<|return|>")
_CALLS = (
    *("<|channel|>", "commentary", " to=functions.x", " ", "<|constrain|>", "json", "<|message|>"),
    *(ARGUMENTS, "<|call|>"),
)
COMPLETIONS: dict[str, Pieces] = {
    "an answer": _ANSWERS,
    "a thought and an answer": (*_THINKS, *_START, *_ANSWERS),
    "a preamble and a call": (*_SPEAKS, *_START, *_CALLS),
    "two preambles and an answer": (*_SPEAKS, *_START, *_SPEAKS, *_START, *_ANSWERS),
    "a thought and a call": (
        *(*_THINKS, *_START, " to=functions.x", "<|channel|>", "commentary", " json", "<|message|>"),
        *(ARGUMENTS, "<|call|>"),
    ),
}


def damaged(pieces: Pieces) -> Iterator[Pieces]:
    for at, piece in enumerate(pieces):
        before, behind = pieces[:at], pieces[at + 1 :]
        if piece not in BODIES:
            yield (*before, *behind)
            yield (*before, piece, piece, *behind)
        if behind:
            yield (*before, behind[0], piece, *behind[1:])
        for prose in PROSE:
            yield (*before, prose, piece, *behind)


def texts_before(text: str, body: str) -> list[str]:
    return [text[: found.start()] for found in re.finditer(re.escape(body), text)]


# An author that is not the assistant, or none at all, behind <|start|>; or what may be left of one before <|channel|>.
_DOUBTFUL_AUTHOR = re.compile(
    r"<\|start\|>(?!assistant(?:<\|channel\|>| ))[^<]*(?:<\|channel\|>[^<]*)+<\|message\|>$"
    r"|(?:<\|(?:end|start|call)\|>|^)(?:assistant)+(?:<\|(?:end|start)\|>)*(?:assistant)*"
    r"<\|channel\|>commentary<\|message\|>$"
    r"|to=functions\.x[^{]*<\|channel\|>\w+<\|message\|>$"
)


def assert_rightly_shown(text: str, parsed: Parsed) -> None:
    shown = "\n".join(message.text for message in parsed.messages if is_visible(message))
    deltas = [each.text for each in parsed.events if isinstance(each, TextDelta) and each.header.is_visible]
    streamed = "\n".join(deltas)
    if THOUGHT in shown + streamed:
        assert any(
            re.search(r"<\|channel\|>(?:final|commentary)<\|message\|>$", each) for each in texts_before(text, THOUGHT)
        )
    assert ARGUMENTS not in shown
    for body, channel in ((ANSWER, "final"), (PREAMBLE, "commentary")):
        for before in texts_before(text, body):
            if before.endswith(f"<|channel|>{channel}<|message|>") and _DOUBTFUL_AUTHOR.search(before) is None:
                assert body in shown, f"{body!r} is hidden"
    for message in parsed.messages:
        assert message.origin is not None
        assert not (is_visible(message) and message.origin.trust is Trust.GUESSED)
        call = call_of(message)
        # Who is called does not depend on the channel.
        faults = {*message.origin.faults} - {ErrorCode.HEADER_UNKNOWN_CHANNEL}
        assert call is None or not (call.is_executable and faults)


@pytest.mark.parametrize("name", COMPLETIONS)
def test_every_single_damage_is_read_rightly(name: str) -> None:
    texts = {"".join(pieces) for pieces in damaged(COMPLETIONS[name])}
    for text in sorted(texts):
        for data in (text, encode(text, special="all")):
            assert_rightly_shown(text, parse(data, "assistant"))
    compared("streams with one damage, as text and as tokens", 2 * len(texts))


@pytest.mark.parametrize("name", COMPLETIONS)
def test_every_pair_of_damages_is_read_rightly(name: str) -> None:
    pairs = chain.from_iterable(map(damaged, damaged(COMPLETIONS[name])))
    texts = {"".join(pieces) for pieces in pairs}
    for text in sorted(texts):
        assert_rightly_shown(text, parse(text, "assistant"))
    compared("streams with two damages", len(texts))
