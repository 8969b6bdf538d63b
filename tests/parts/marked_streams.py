"""Streams in which one message, the marked one, is reasoning, and ways to damage them that never make it an answer."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from hypothesis import strategies as st

MARK: Final = "SECRET"

SPECIALS: Final = (
    "<|start|>",
    "<|channel|>",
    "<|message|>",
    "<|end|>",
    "<|call|>",
    "<|return|>",
    "<|constrain|>",
    "<|endoftext|>",
    "<|reserved_200013|>",
)
# Words that a damaged header may have in excess. Those that name a visible channel stand only outside the marked one.
WORDS: Final = ("assistant", "analysis", " to=functions.x", " to=all", "json", "user", "tool", " ", "\n", "We", ":")
VISIBLE_WORDS: Final = ("final", "commentary")

Place = Literal["elsewhere", "header", "body"]


class Piece(NamedTuple):
    """A special token or a piece of text, and whether it belongs to the marked message."""

    text: str
    place: Place = "elsewhere"


Stream = tuple[Piece, ...]


def _pieces(place: Place, *texts: str) -> Stream:
    return tuple(Piece(text, place) for text in texts)


_HEADERS: Final = (
    _pieces("header", "<|start|>", "assistant", "<|channel|>", "analysis", "<|message|>"),
    _pieces("header", "<|start|>", "assistant", "<|channel|>", "Analysis", "\n", "<|message|>"),
    _pieces("header", "<|start|>", "assistant", "<|channel|>", "thoughts", "<|message|>"),
    _pieces("header", "<|start|>", "assistant", " to=python", "<|channel|>", "analysis", " code", "<|message|>"),
    _pieces("header", "<|start|>", "assistant", "<|message|>"),
)
_MARKED: Final = tuple(
    (*header, *_pieces("body", *body, stop))
    for header in _HEADERS
    for body in (("We think ", MARK, " of it."), (MARK,))
    for stop in ("<|end|>", "<|return|>")
)
_OTHERS: Final = (
    (),
    _pieces("elsewhere", "<|start|>", "assistant", "<|channel|>", "final", "<|message|>", "Hello.", "<|end|>"),
    _pieces("elsewhere", "<|start|>", "assistant", "<|channel|>", "commentary", "<|message|>", "Soon.", "<|end|>"),
    _pieces("elsewhere", "<|start|>", "assistant", "<|channel|>", "analysis", "<|message|>", "Hm.", "<|end|>"),
    _pieces("elsewhere", "<|start|>", "user", "<|message|>", "Hi", "<|end|>"),
    _pieces(
        *("elsewhere", "<|start|>", "assistant", "<|channel|>", "commentary", " to=functions.x ", "<|constrain|>"),
        *("json", "<|message|>", "{}", "<|call|>"),
    ),
)


@st.composite
def damaged_streams(draw: st.DrawFn, most_changes: int = 4) -> Stream:
    """A conversation around the marked message, with some pieces dropped, doubled, swapped, inserted or cut off."""
    pieces = [
        *draw(st.sampled_from(_OTHERS)),
        *draw(st.sampled_from(_OTHERS)),
        *draw(st.sampled_from(_MARKED)),
        *draw(st.sampled_from(_OTHERS)),
    ]
    for _ in range(draw(st.integers(0, most_changes))):
        at = draw(st.integers(0, len(pieces) - 1))
        match draw(st.sampled_from(("drop", "double", "swap", "insert", "truncate"))):
            case "drop" if pieces[at].text != MARK:
                del pieces[at]
            case "double":
                pieces.insert(at, pieces[at])
            case "swap" if at + 1 < len(pieces):
                pieces[at], pieces[at + 1] = pieces[at + 1], pieces[at]
            case "insert":
                pieces.insert(at, Piece(draw(st.sampled_from((*SPECIALS, *WORDS, *VISIBLE_WORDS)))))
            case "truncate" if at:
                del pieces[at:]
            case _:
                pass
        if not pieces:
            break
    return tuple(pieces)


def is_hidden_by_right(stream: Stream) -> bool:
    """Whether what is left of the marked header still tells that its text is none for the user.

    A special token of that header is left before every mark, and nothing between what is left of the header and the
    mark names a visible channel.
    """
    for at, piece in enumerate(stream):
        if piece.text != MARK:
            continue
        header = [index for index, other in enumerate(stream[:at]) if other.place == "header"]
        if not header:
            return False
        before = stream[header[0] : at]
        has_special = any(other.place == "header" and other.text in SPECIALS for other in before)
        if not has_special or any(other.text in VISIBLE_WORDS for other in before):
            return False
    return True


def spell(stream: Stream) -> str:
    return "".join(piece.text for piece in stream)
