"""Streams for property tests: well-formed ones with their truth, damaged ones, and noise."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from hypothesis import strategies as st

from harmonia import Message
from harmonia.vocabulary import (
    CALL,
    CHANNEL,
    CONSTRAIN,
    END,
    END_OF_TEXT,
    ID_BY_SPELLING,
    MESSAGE,
    RETURN,
    SPELLING_BY_ID,
    START,
    START_OF_TEXT,
    encode,
    find_spellings,
)
from tests.support.laws import assert_every_split

__all__ = [
    "GIVEN_ROLES",
    "MEANINGFUL",
    "Stream",
    "Truth",
    "assert_every_split",
    "mutated_texts",
    "mutated_tokens",
    "random_bytes",
    "random_texts",
    "random_tokens",
    "truth_of",
    "well_formed",
]

StopName = Literal["end", "call", "return"]
GivenRole = Literal["assistant"] | None
GIVEN_ROLES: tuple[GivenRole, ...] = (None, "assistant")

# The special tokens that mean something in a stream.
MEANINGFUL = (START, CHANNEL, MESSAGE, CONSTRAIN, END, CALL, RETURN)
_RESERVED = 200013
_STOPS: dict[StopName, int] = {"end": END, "call": CALL, "return": RETURN}
_JSON_TYPES = ("json", "<|constrain|>json", "<|constrain|> json")


class Truth(NamedTuple):
    """What a message says, whoever reads it."""

    role: str
    name: str | None
    channel: str | None
    recipient: str | None
    content_type: str | None
    content: str
    stop: StopName | None


def truth_of(message: Message) -> Truth:
    """What a parser made of a message."""
    origin = message.origin
    assert origin is not None
    return Truth(
        message.role.value,
        message.name,
        message.channel,
        message.recipient,
        message.content_type,
        message.text,
        origin.stop,
    )


@dataclass(frozen=True)
class Stream:
    """A stream and its truth: a whole conversation, or a completion behind `<|start|>assistant`."""

    role: GivenRole
    segments: tuple[int | str, ...]
    messages: tuple[Truth, ...]

    @cached_property
    def tokens(self) -> list[int]:
        pieces = ([part] if isinstance(part, int) else encode(part) for part in self.segments)
        return [token for piece in pieces for token in piece]

    @cached_property
    def text(self) -> str:
        return "".join(SPELLING_BY_ID[part] if isinstance(part, int) else part for part in self.segments)


# ── bodies ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_PIECES = st.sampled_from(
    [
        *("<", "<|", "|>", "<|en", "<|end", "d|>", "<||>", "<|nothing|>", "<|start<", "{", "}", '{"a": 1}', "[]"),
        *("assistant", "final", "analysis", "commentary", " to=functions.x", "to=", " json", "user", "functions.x"),
        *("\n", "\n\n  ", "\t", " ", "é", "日本語", "🦜", "👩‍👩‍👧", "e\u0301", "Four.", "12345", "\u2028", "\ufffd"),
    ]
)
_any_text = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30), st.lists(_PIECES, max_size=8).map("".join)
)
# Text in which nobody could find a special token.
plain_bodies = _any_text.filter(lambda text: not find_spellings(text))
# Ordinary text that spells one: in token ids it stays text.
spelling_bodies = st.lists(_PIECES | st.sampled_from(list(ID_BY_SPELLING)[:20]), max_size=8).map("".join)
_json_bodies = st.one_of(
    st.sampled_from(["{}", "[]", '{"city": "Paris"}', ' {\n  "a": [1, 2.5, null]\n}', '"x"', "3"]),
    st.dictionaries(plain_bodies, st.integers() | plain_bodies | st.booleans(), max_size=3)
    .map(lambda value: json.dumps(value, ensure_ascii=False))
    .filter(lambda text: not find_spellings(text)),
)

# ── well-formed messages ────────────────────────────────────────────────────────────────────────────────────────────

_TOOLS = ("functions.get_weather", "functions.x", "python", "browser.search", "mcp-1.do_it", "functions.größe")
_RECIPIENTS = (*_TOOLS, "sql_select", "apply_patch", "日本.🦜")
_GAPS = st.sampled_from(["", "", " ", "\n", " \n ", "\t"])
_CHANNELS = ("analysis", "commentary", "final")


class _Spacing:
    """Where a header may have white space, how much of it it has."""

    def __init__(self, draw: st.DrawFn, *, is_on: bool) -> None:
        self._draw = draw
        self._is_on = is_on

    def maybe(self) -> list[str]:
        gap = self._draw(_GAPS) if self._is_on else ""
        return [gap] if gap else []

    def needed(self) -> str:
        return (self._draw(_GAPS) or " ") if self._is_on else " "


@st.composite
def _messages(
    draw: st.DrawFn, bodies: st.SearchStrategy[str], *, is_first_of_completion: bool, is_completion: bool, spaced: bool
) -> tuple[list[int | str], Truth]:
    spacing = _Spacing(draw, is_on=spaced and draw(st.booleans()))
    roles = ["assistant"] if is_completion else ["assistant", "assistant", "user", "system", "developer", "tool"]
    role = draw(st.sampled_from(roles))
    name = recipient = channel = content_type = None
    if role == "tool":
        name = draw(st.sampled_from(_TOOLS))
        recipient = draw(st.sampled_from([None, "assistant"]))
        channel = draw(st.sampled_from([None, "commentary", "analysis"]))
    elif role == "assistant":
        recipient = draw(st.sampled_from([None, None, "all", *_RECIPIENTS]))
        channel = draw(st.sampled_from([None, *_CHANNELS, *_CHANNELS]))
    else:
        name = draw(st.sampled_from([None, None, "alice", "zoë", "≠🦜"])) if role == "user" else None
        recipient = draw(st.sampled_from([None, None, "assistant"]))
    if name is not None and is_first_of_completion:
        name = None
    # A preamble has no content type: with one it would be a call without a recipient.
    is_preamble = role == "assistant" and channel == "commentary" and recipient in (None, "all")
    if channel is not None and not is_preamble:
        content_type = draw(st.sampled_from([None, "json", "code", *_JSON_TYPES]))
    is_call = role == "assistant" and recipient in _RECIPIENTS

    header: list[int | str] = []
    if not is_first_of_completion:
        header += [START, *spacing.maybe()]
        header.append(name if role == "tool" and name else role if name is None else f"{role}:{name}")
    is_in_role_section = channel is None or draw(st.booleans())
    if recipient is not None and is_in_role_section:
        header.append(f"{spacing.needed()}to={recipient}")
    header += spacing.maybe()
    if channel is not None:
        header += [CHANNEL, *spacing.maybe(), channel]
        if recipient is not None and not is_in_role_section:
            header.append(f"{spacing.needed()}to={recipient}")
    if content_type is not None:
        rest = content_type.removeprefix("<|constrain|>")
        if rest == content_type:
            header.append(spacing.needed() + rest)
        else:
            # Models leave the space before <|constrain|> out at times.
            header += [*([" "] if draw(st.booleans()) else []), CONSTRAIN, rest]
    header += [*spacing.maybe(), MESSAGE]

    content = draw(_json_bodies if is_call and content_type in _JSON_TYPES else bodies)
    stops: tuple[StopName, ...] = ("end",)
    if role == "assistant":
        stops = ("end", "call", "call") if is_call else ("end", "return")
    stop = draw(st.sampled_from(stops))
    parts = [*header, *([content] if content else []), _STOPS[stop]]
    return parts, Truth(role, name, channel, recipient, content_type, content, stop)


@st.composite
def well_formed(
    draw: st.DrawFn,
    role: st.SearchStrategy[GivenRole] = st.sampled_from(GIVEN_ROLES),  # noqa: B008 -- a strategy is a value
    bodies: st.SearchStrategy[str] = plain_bodies,
    *,
    spaced: bool = True,
    gaps: bool = True,
    max_messages: int = 4,
) -> Stream:
    """A well-formed stream. `spaced` allows white space around the parts of headers, `gaps` between messages."""
    given = draw(role)
    segments: list[int | str] = []
    truths: list[Truth] = []
    for at in range(draw(st.integers(1, max_messages))):
        if gaps and (at or given is None):
            segments += filter(None, [draw(_GAPS)])
        parts, truth = draw(
            _messages(
                bodies,
                is_first_of_completion=given is not None and at == 0,
                is_completion=given is not None,
                spaced=spaced,
            )
        )
        segments += parts
        truths.append(truth)
    if gaps:
        segments += filter(None, [draw(_GAPS)])
    return Stream(given, tuple(segments), tuple(truths))


# ── damage ──────────────────────────────────────────────────────────────────────────────────────────────────────────

# Tokens that are one byte, or two of four, of a character: alone they are no text.
_PARTS_OF_CHARACTERS = (158, 172, 224, 127, 187, 4103, 28823, 99, 250)
_UNKNOWN_IDS = (-1, 201088, 10**9, -(10**9))
_WORDS = [
    *(
        "assistant",
        "user",
        "system",
        "tool",
        "functions.x",
        "analysis",
        "commentary",
        "final",
        " to=",
        "to=functions.x",
    ),
    *(" to=functions.x", " to=assistant", " json", "json", "code", " ", "\n", "\n\n", "{", '{"a": 1}', "]", "Hello."),
    *("assistantfinal", "finalx", "analysisWe need", "commentary to=functions.x json{", "narrator", ":", "é", "🦜"),
    *(
        "<|",
        "|>",
        "<|end|>",
        "<|start|>",
        "We need to think about it",
        "Final",
        "ANALYSIS",
        "python",
        "<|mess",
        "age|>",
    ),
]
_specials = st.sampled_from([*MEANINGFUL, *MEANINGFUL, END_OF_TEXT, START_OF_TEXT, _RESERVED])
_odd_tokens = st.one_of(st.sampled_from(_PARTS_OF_CHARACTERS), st.sampled_from(_UNKNOWN_IDS), st.integers(0, 199_997))
_word_tokens = st.sampled_from(_WORDS).map(encode)
_few_tokens: st.SearchStrategy[list[int]] = st.one_of(_specials.map(lambda token: [token]), _word_tokens).flatmap(
    lambda tokens: st.just(tokens) | _odd_tokens.map(lambda token: [token])
)


@st.composite
def mutated_tokens(draw: st.DrawFn, bodies: st.SearchStrategy[str] = plain_bodies) -> tuple[list[int], GivenRole]:
    """A well-formed stream with a few faults: tokens left out, doubled, swapped, put in, replaced; the end cut off."""
    stream = draw(well_formed(bodies=bodies))
    tokens = list(stream.tokens)
    special_at = [at for at, token in enumerate(tokens) if token >= START_OF_TEXT]
    for _ in range(draw(st.integers(1, 4))):
        # Half of the faults hit a special token, where they do most.
        at = min(draw(st.one_of(st.integers(0, len(tokens)), st.sampled_from(special_at))), len(tokens))
        match draw(st.sampled_from(["delete", "double", "swap", "insert", "replace", "cut"])):
            case "delete":
                del tokens[at : at + draw(st.integers(1, 3))]
            case "double":
                tokens[at:at] = tokens[at : at + draw(st.integers(1, 3))]
            case "swap":
                tokens[at : at + 2] = tokens[at : at + 2][::-1]
            case "insert":
                tokens[at:at] = draw(_few_tokens)
            case "replace":
                tokens[at : at + 1] = draw(_few_tokens)
            case _:
                del tokens[draw(st.integers(at, len(tokens))) :]
    return tokens, stream.role


random_tokens = st.lists(_few_tokens, max_size=16).map(lambda pieces: [token for piece in pieces for token in piece])

_fragments = st.one_of(
    st.sampled_from([SPELLING_BY_ID[token] for token in MEANINGFUL]),
    st.sampled_from(_WORDS),
    st.sampled_from(
        ["<", "|", ">", "<|st", "art|>", "<|reserved_200013|>", "<|endoftext|>", "<|endofprompt|>", "<|x|>"]
    ),
    st.text(max_size=4),
    st.sampled_from(["\ud83d", "\udc00"]),
)
random_texts = st.lists(_fragments, max_size=16).map("".join)
random_bytes = st.lists(
    st.one_of(
        _fragments.map(lambda text: text.encode(errors="surrogatepass")),
        st.binary(max_size=3),
        st.sampled_from([b"\xe2\x82", b"\xf0\x9f", b"\xff", b"\xed\xa0\x80", b"\xc3"]),
    ),
    max_size=12,
).map(b"".join)


@st.composite
def mutated_texts(draw: st.DrawFn) -> tuple[str, GivenRole]:
    """A well-formed text with a few faults, which hit characters, words and spellings."""
    stream = draw(well_formed())
    pieces = [piece for piece in re.split(r"(<\|\w+\|>|\s+|=)", stream.text) if piece]
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(pieces) - 1, 0)))
        match draw(st.sampled_from(["delete", "double", "swap", "insert", "bite", "cut"])):
            case "delete":
                del pieces[at : at + 1]
            case "double":
                pieces[at:at] = pieces[at : at + 1]
            case "swap":
                pieces[at : at + 2] = pieces[at : at + 2][::-1]
            case "insert":
                pieces.insert(at, draw(_fragments))
            case "bite":
                pieces[at : at + 1] = [piece[1:] for piece in pieces[at : at + 1]]
            case _:
                del pieces[draw(st.integers(at, len(pieces))) :]
    return "".join(pieces), stream.role
