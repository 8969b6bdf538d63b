"""A parsed stream in the order in which it was read, with what each part of it cost and is worth.

Every token is counted once: in a message's header, in its body, as the token that stopped it, as white space between
messages, or outside. For text, which has no ids, the tokens are those that it encodes to, so the counts are close and
not certain.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import msgspec

from harmonia.errors import ErrorCode
from harmonia.events import (
    Diagnostic,
    Header,
    HeaderCompleted,
    MessageEnded,
    MessageStarted,
    Skipped,
    SpannedEvent,
    TurnEnded,
)
from harmonia.inspection.inputs import Input
from harmonia.messages import Message, Role
from harmonia.parser import Parsed, ToolKind, Tools
from harmonia.parser.faults import ALL_FAULTS
from harmonia.parts.message_parts import ended_as_thought
from harmonia.provenance import Trust
from harmonia.vocabulary import SPELLING_BY_ID, START, VOCABULARY_SIZE, Vocabulary

# A token and a character of the input; there is no token where text was read.
_Place = tuple[int | None, int]

_TOOL_KINDS: Final[dict[ToolKind, str]] = {
    "declared": "a declared tool",
    "builtin": "a built-in tool",
    "unknown": "an unknown tool",
}


class OptionWords(msgspec.Struct, frozen=True):
    """How hints speak of the options of whoever reads them: the command's by default."""

    role: str = "--role"
    role_assistant: str = "--role assistant"
    tools: str = "--tools"
    stop_swallowed: str = "--stop-swallowed"


_OF_THE_COMMAND: Final = OptionWords()


class TracedMessage(msgspec.Struct, frozen=True):
    """A message, the ids of its three parts, and what there is to say about it in words."""

    index: int
    message: Message
    header_ids: list[int]
    body_ids: list[int]
    stop_ids: list[int]
    start_token: int | None
    start_char: int
    flags: list[str]
    skipped: list[str]  # input that stood inside the message and is no part of its text
    faults: list[int]  # numbers of diagnostics, counted from 1
    body_char: int
    stop_char: int

    @property
    def tokens(self) -> int:
        return len(self.header_ids) + len(self.body_ids) + len(self.stop_ids)

    @property
    def body_token(self) -> int | None:
        return None if self.start_token is None else self.start_token + len(self.header_ids)


class TracedText(msgspec.Struct, frozen=True):
    """Input that is part of no message: pieces that stood side by side, or white space alone, which is no fault."""

    pieces: list[str]
    ids: list[int]
    start_char: int

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def is_space(self) -> bool:
        return all(piece.isspace() for piece in self.pieces)

    @property
    def repeated(self) -> str | None:
        """The piece that all of it consists of, if there are several, whatever white space stands between them."""
        different = {piece.strip() for piece in self.pieces}
        return different.pop() if len(different) == 1 < len(self.pieces) else None


class TracedTurn(msgspec.Struct, frozen=True):
    """The end of a turn."""

    stop: str | None
    hidden_because: str | None


class ChannelCount(msgspec.Struct, frozen=True):
    """What a channel cost: `tokens`, of headers, bodies and stops. `share` is a fraction of all tokens."""

    channel: str
    messages: int
    tokens: int
    header: int
    body: int
    stop: int
    share: float


class Trace(msgspec.Struct, frozen=True):
    """All of it. `text` is the input with special tokens spelled out: positions in characters count in it."""

    kind: str
    has_ids: bool
    text: str
    tokens: int
    items: list[TracedMessage | TracedText | TracedTurn]
    channels: list[ChannelCount]
    diagnostics: Sequence[Diagnostic]
    notes: list[str]
    lacks_what_was_parsed: bool = False
    taken_for: str = ""

    @property
    def first_raised(self) -> Diagnostic | None:
        """What a strict parser would have raised, which stops at the first fault that is one; None for nothing."""
        return next((each for each in self.diagnostics if ALL_FAULTS[each.code].strict == "raises"), None)

    @property
    def messages(self) -> list[TracedMessage]:
        return [item for item in self.items if isinstance(item, TracedMessage)]


def trace(taken: Input, parsed: Parsed, tools: Tools | None, vocabulary: Vocabulary) -> Trace:
    """Put the events of a parse in order."""
    tokens = taken.tokens
    text = taken.text if tokens is None else spell_out(tokens, vocabulary)

    # All of a text is encoded at once: encoded piece by piece it would have more tokens than it has.
    encoded = vocabulary.encode(text, special="all") if tokens is None else []
    starts = _char_starts(encoded, vocabulary)

    def ids_of(start: _Place, end: _Place) -> list[int]:
        if tokens is not None:
            return tokens[start[0] : end[0]]
        return encoded[bisect_left(starts, start[1]) : bisect_left(starts, end[1])]

    numbers: dict[int | None, list[int]] = {}  # of the diagnostics, by message
    for number, diagnostic in enumerate(parsed.diagnostics, 1):
        numbers.setdefault(diagnostic.at.message, []).append(number)
    items: list[TracedMessage | TracedText | TracedTurn] = []
    outside: list[Skipped] = []
    started: MessageStarted | None = None
    completed: HeaderCompleted | None = None
    skipped: list[str] = []

    def end_outside() -> None:
        if outside:
            pieces = [piece.text for piece in outside]
            items.append(TracedText(pieces, ids_of(_start(outside[0]), _end(outside[-1])), outside[0].start_char))
            outside.clear()

    for event in parsed.events:
        match event:
            case MessageStarted():
                end_outside()
                started, skipped = event, []
            case HeaderCompleted():
                completed = event
            case Skipped() if started is not None:
                skipped.append(event.text)
            case Skipped():
                if event.text.isspace():
                    end_outside()
                outside.append(event)
                if event.text.isspace():
                    end_outside()
            case MessageEnded() if started is not None and completed is not None:
                begins = _behind_white_space(started, text, tokens)
                if begins != _start(started):
                    space = text[started.start_char : begins[1]]
                    items.append(TracedText([space], ids_of(_start(started), begins), started.start_char))
                items.append(
                    TracedMessage(
                        event.index,
                        event.message,
                        ids_of(begins, _end(completed)),
                        ids_of(_end(completed), _start(event)),
                        ids_of(_start(event), _end(event)),
                        *begins,
                        _flags(event.message, completed.header, tools),
                        skipped,
                        _faults_of(event.message, numbers.get(event.index, []), parsed.diagnostics),
                        completed.end_char,
                        event.start_char,
                    )
                )
                started = completed = None
            case TurnEnded():
                if event.hidden_because:  # otherwise nothing is shown that could stand between two pieces
                    end_outside()
                items.append(TracedTurn(event.stop, event.hidden_because))
            case _:
                pass
    end_outside()
    total = sum(_tokens_of(item) for item in items)
    return Trace(
        taken.kind,
        tokens is not None,
        text,
        total,
        items,
        _count(items, total),
        parsed.diagnostics,
        taken.notes,
        taken.lacks_what_was_parsed,
        taken.took_for,
    )


def _char_starts(tokens: Sequence[int], vocabulary: Vocabulary) -> list[int]:
    """The character in which each token begins; several may share one. A token belongs to the part it begins in."""
    starts: list[int] = []
    characters = 0
    for token in tokens:
        data = vocabulary.token_bytes[token]
        begun = sum(byte & 0xC0 != 0x80 for byte in data)
        starts.append(characters - (data[0] & 0xC0 == 0x80))
        characters += begun
    return starts


def _behind_white_space(started: MessageStarted, text: str, tokens: Sequence[int] | None) -> _Place:
    """Where a message really begins: the event that starts it has the white space before its `<|start|>`, too."""
    at, char = _start(started)
    spelled = text[char : started.end_char]
    spaces = len(spelled) - len(spelled.lstrip())
    if tokens is not None and spaces:
        span = tokens[at : started.end_token]
        at = (at or 0) + (span.index(START) if START in span else len(span))
    return at, char + spaces


def _start(event: SpannedEvent) -> _Place:
    return event.start_token, event.start_char


def _end(event: SpannedEvent) -> _Place:
    return event.end_token, event.end_char


def spell_out(tokens: Sequence[int], vocabulary: Vocabulary) -> str:
    """The text of tokens, as the parser counts it: what is no token is one character."""
    known = vocabulary.token_bytes
    data = b"".join(known[token] if 0 <= token < VOCABULARY_SIZE else "\ufffd".encode() for token in tokens)
    return data.decode(errors="replace")


def hint_for(
    diagnostic: Diagnostic,
    trace: Trace,
    *,
    has_role: bool,
    has_tools: bool,
    words: OptionWords = _OF_THE_COMMAND,
) -> str:
    """What somebody who finds this fault in a trace can do about it; empty where there is nothing to say."""
    code, at = diagnostic.code, diagnostic.at.character
    match code:
        case ErrorCode.STREAM_MISSING_START if not has_role and at == 0:
            return f"if it is a completion, {words.role_assistant} says so, and this is no fault"
        case ErrorCode.MISSING_SENTINEL if at == len(trace.text):
            said = f"{words.stop_swallowed} says so, and this is no fault"
            return f"if the engine keeps the last stop token to itself, {said}"
        case ErrorCode.STREAM_NO_MARKUP if trace.lacks_what_was_parsed:
            return "the server parsed the Harmony itself: ask it for raw tokens"
        case ErrorCode.HEADER_GLUED_RECIPIENT | ErrorCode.HEADER_SPACED_RECIPIENT if not has_tools:
            return f"{words.tools} with the declared names helps to take it apart"
        case ErrorCode.HEADER_REPEATED_START if not has_role:
            return ""
        case ErrorCode.HEADER_FORGED_ROLE if trace.text.lstrip().startswith(SPELLING_BY_ID[START]):
            return f"if it is a whole conversation and no completion, leave {words.role} out"
        case ErrorCode.HEADER_UNFINISHED if is_empty(trace):
            return ""
        case ErrorCode.HEADER_UNFINISHED if trace.text.endswith("assistant"):
            return "a prompt ends like this; what the model sampled comes behind it"
        case _:
            return ALL_FAULTS[code].hint


def is_empty(trace: Trace) -> bool:
    """Whether nothing at all was sampled."""
    return not trace.text or trace.text.isspace()


def _flags(message: Message, header: Header, tools: Tools | None) -> list[str]:
    flags: list[str] = []
    origin = message.origin
    if header.is_call:
        kind = (tools or Tools()).kind_of(message.recipient or "")
        is_said = tools is not None or kind == "builtin"
        flags.append(f"call of {_TOOL_KINDS[kind]}" if is_said else "call")
    elif message.role is Role.ASSISTANT:
        is_shown = header.is_visible and not ended_as_thought(message)
        flags.append("shown" if is_shown else "hidden")
    if origin is None:
        return flags
    if origin.forged:
        flags.append("forged")
    if origin.trust is not Trust.CERTAIN:
        flags.append(origin.trust.name.lower())
    if origin.source == "stripped":
        flags.append("from stripped text")
    elif origin.source == "text" and header.is_call:
        flags.append("from text: unverified")
    return flags


def _faults_of(message: Message, numbers: list[int], diagnostics: Sequence[Diagnostic]) -> list[int]:
    """Those that are about the message, and not about what stood before it."""
    codes = message.origin.faults if message.origin else ()
    return [number for number in numbers if diagnostics[number - 1].code in codes]


def _tokens_of(item: TracedMessage | TracedText | TracedTurn) -> int:
    match item:
        case TracedMessage():
            return item.tokens
        case TracedText():
            return len(item.ids)
        case TracedTurn():
            return 0


def _count(items: Sequence[TracedMessage | TracedText | TracedTurn], total: int) -> list[ChannelCount]:
    """The costs by channel; a message without one counts for its role, and what is part of none comes last."""
    messages: dict[str, list[TracedMessage]] = {}
    apart = {"outside messages": 0, "white space": 0}
    for item in items:
        match item:
            case TracedMessage():
                name = item.message.channel or f"no channel ({item.message.role.value})"
                messages.setdefault(name, []).append(item)
            case TracedText():
                apart["white space" if item.is_space else "outside messages"] += len(item.ids)
            case TracedTurn():
                pass
    counts = [
        ChannelCount(
            name,
            len(listed),
            sum(each.tokens for each in listed),
            sum(len(each.header_ids) for each in listed),
            sum(len(each.body_ids) for each in listed),
            sum(len(each.stop_ids) for each in listed),
            sum(each.tokens for each in listed) / (total or 1),
        )
        for name, listed in messages.items()
    ]
    return counts + [ChannelCount(name, 0, tokens, 0, 0, 0, tokens / total) for name, tokens in apart.items() if tokens]


def marked_length(diagnostic: Diagnostic, text: str) -> int:
    """How many characters from the place of the fault on are what was found; none, if it is not spelled there."""
    found, at = diagnostic.found, diagnostic.at.character or 0
    if text.startswith(found, at):
        return len(found)
    # Of what is shortened, only the beginning is known.
    return 1 if found.endswith("…") and text.startswith(found[:-1], at) else 0
