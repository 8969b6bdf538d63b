"""A parsed stream in reading order: the cost of each part, how far it can be trusted, and what it spells or declares.

Every token is counted once: in a message's header or body, as the token that stopped it, as white space between
messages, or outside. Text has no ids; it is encoded to count tokens, so these counts are approximate.

Spellings of control tokens in ordinary text are a sign of prompt injection. In token ids, a spelling and a control
token differ, so each spelling can be reported with what it was encoded as. In text they look the same, and only
spellings that are certainly text are found. Near misses such as `<|END|>` or `< |end| >` are found too: they are always
text, but may have been meant as more.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import ClassVar, Final, Literal

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
from harmonia.parts import is_visible
from harmonia.provenance import Trust
from harmonia.vocabulary import FIRST_SPECIAL, ID_BY_SPELLING, SPELLING_BY_ID, START, VOCABULARY_SIZE, Vocabulary

# A token index and a character index; there is no token index for text.
_Place = tuple[int | None, int]

_TOOL_KINDS: Final[dict[ToolKind, str]] = {
    "declared": "a declared tool",
    "builtin": "a built-in tool",
    "unknown": "an unknown tool",
}


class OptionWords(msgspec.Struct, frozen=True):
    """The names of options in hints: by default those of the command."""

    role: str = "--role"
    role_assistant: str = "--role assistant"
    tools: str = "--tools"
    stop_swallowed: str = "--stop-swallowed"


_COMMAND_WORDS: Final = OptionWords()


class TracedMessage(msgspec.Struct, frozen=True):
    """A message, the token ids of its three parts, and flags that describe it."""

    index: int
    message: Message
    header_ids: list[int]
    body_ids: list[int]
    stop_ids: list[int]
    start_token: int | None
    start_char: int
    flags: list[str]
    skipped: list[str]  # input inside the message that is not part of its text
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
    """Input outside messages: adjacent pieces, or white space alone, which is not a fault."""

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
        """The piece that is repeated, if all pieces are the same but for white space."""
        different = {piece.strip() for piece in self.pieces}
        return different.pop() if len(different) == 1 < len(self.pieces) else None


class TracedTurn(msgspec.Struct, frozen=True):
    """The end of a turn, which has no tokens of its own."""

    stop: str | None
    hidden_because: str | None
    tokens: ClassVar[int] = 0


class ChannelCount(msgspec.Struct, frozen=True):
    """The cost of a channel in tokens: headers, bodies and stops. `share` is a fraction of all tokens."""

    channel: str
    messages: int
    tokens: int
    header: int
    body: int
    stop: int
    share: float


class Trace(msgspec.Struct, frozen=True):
    """A traced input. `text` has special tokens spelled out; character positions refer to it."""

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
        """The diagnostic that a strict parser would have raised, or None."""
        return next((each for each in self.diagnostics if ALL_FAULTS[each.code].strict == "raises"), None)

    @property
    def messages(self) -> list[TracedMessage]:
        return [item for item in self.items if isinstance(item, TracedMessage)]


def trace(taken: Input, parsed: Parsed, tools: Tools | None, vocabulary: Vocabulary) -> Trace:
    """Put the events of a parse in order."""
    tokens = taken.tokens
    text = taken.text if tokens is None else spell_out(tokens, vocabulary)

    # The text is encoded as a whole: encoded piece by piece, it would have more tokens.
    encoded = vocabulary.encode(text, special="all") if tokens is None else []
    starts = _char_starts(encoded, vocabulary)

    def ids_of(start: _Place, end: _Place) -> list[int]:
        if tokens is not None:
            return tokens[start[0] : end[0]]
        return encoded[bisect_left(starts, start[1]) : bisect_left(starts, end[1])]

    numbers: dict[int | None, list[int]] = {}  # the numbers of diagnostics, by message
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
                if event.text.isspace() or (outside and outside[-1].text.isspace()):
                    end_outside()
                outside.append(event)
            case MessageEnded() if started is not None and completed is not None:
                # The diagnostics about the message itself, and not about what precedes it.
                codes = event.message.origin.faults if event.message.origin else ()
                begins = _after_white_space(started, text, tokens)
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
                        [each for each in numbers.get(event.index, []) if parsed.diagnostics[each - 1].code in codes],
                        completed.end_char,
                        event.start_char,
                    )
                )
                started = completed = None
            case TurnEnded():
                if event.hidden_because:  # otherwise the end of the turn is not shown between two pieces
                    end_outside()
                items.append(TracedTurn(event.stop, event.hidden_because))
            case _:
                pass
    end_outside()
    total = sum(len(item.ids) if isinstance(item, TracedText) else item.tokens for item in items)
    channels, has_ids, lacks_parsed = _count(items, total), tokens is not None, taken.lacks_what_was_parsed
    told = (parsed.diagnostics, taken.notes, lacks_parsed, taken.description)
    return Trace(taken.kind, has_ids, text, total, items, channels, *told)


def _char_starts(tokens: Sequence[int], vocabulary: Vocabulary) -> list[int]:
    """The character in which each token begins; several tokens may share one. A token belongs to the part where it
    begins."""
    starts: list[int] = []
    characters = 0
    for token in tokens:
        data = vocabulary.token_bytes[token]
        begun = sum(byte & 0xC0 != 0x80 for byte in data)
        starts.append(characters - (data[0] & 0xC0 == 0x80))
        characters += begun
    return starts


def _after_white_space(started: MessageStarted, text: str, tokens: Sequence[int] | None) -> _Place:
    """Where a message really begins: its first event includes the white space before `<|start|>`."""
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
    """The text of tokens with characters as the parser counts them: an invalid token is one character."""
    known = vocabulary.token_bytes
    data = b"".join(known[token] if 0 <= token < VOCABULARY_SIZE else "\ufffd".encode() for token in tokens)
    return data.decode(errors="replace")


def hint_for(
    diagnostic: Diagnostic, trace: Trace, *, has_role: bool, has_tools: bool, words: OptionWords = _COMMAND_WORDS
) -> str:
    """What to do about a fault; empty if there is nothing to suggest."""
    code, at = diagnostic.code, diagnostic.at.character
    match code:
        case ErrorCode.STREAM_MISSING_START if not has_role and at == 0:
            return f"if the input is a completion, pass {words.role_assistant}; then this is not a fault"
        case ErrorCode.MISSING_SENTINEL if at == len(trace.text):
            option = words.stop_swallowed
            return f"if the engine does not return the last stop token, pass {option}; then this is not a fault"
        case ErrorCode.MISSING_SENTINEL:
            return "the model did not sample the stop token, or the server removed it"
        case ErrorCode.STREAM_NO_MARKUP if trace.lacks_what_was_parsed:
            return "the server parsed the Harmony itself: request raw tokens from it"
        case ErrorCode.HEADER_GLUED_RECIPIENT | ErrorCode.HEADER_SPACED_RECIPIENT if not has_tools:
            return f"pass {words.tools} with the declared names, so that the recipient can be separated"
        case ErrorCode.HEADER_REPEATED_START if not has_role:
            return ""
        case ErrorCode.HEADER_FORGED_ROLE if trace.text.lstrip().startswith(SPELLING_BY_ID[START]):
            return f"if the input is a whole conversation and not a completion, omit {words.role}"
        case ErrorCode.HEADER_UNFINISHED if is_empty(trace):
            return ""
        case ErrorCode.HEADER_UNFINISHED if trace.text.endswith("assistant"):
            return "a prompt ends like this; the model's output comes after it"
        case _:
            return ALL_FAULTS[code].hint


def is_empty(trace: Trace) -> bool:
    """Whether the input is blank."""
    return not trace.text or trace.text.isspace()


def _flags(message: Message, header: Header, tools: Tools | None) -> list[str]:
    flags: list[str] = []
    origin = message.origin
    if header.is_call:
        kind = (tools or Tools()).kind_of(message.recipient or "")
        is_known = tools is not None or kind == "builtin"
        flags.append(f"call of {_TOOL_KINDS[kind]}" if is_known else "call")
    elif message.role is Role.ASSISTANT:
        is_shown = header.is_visible and is_visible(message)
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


def _count(items: Sequence[TracedMessage | TracedText | TracedTurn], total: int) -> list[ChannelCount]:
    """The costs by channel. A message without a channel counts for its role; input outside messages comes last."""
    messages: dict[str, list[TracedMessage]] = {}
    apart = {"outside messages": 0, "white space": 0}
    for item in items:
        if isinstance(item, TracedMessage):
            name = item.message.channel or f"no channel ({item.message.role.value})"
            messages.setdefault(name, []).append(item)
        elif isinstance(item, TracedText):
            apart["white space" if item.is_space else "outside messages"] += len(item.ids)
    counts: list[ChannelCount] = []
    for name, listed in messages.items():
        header, body = sum(len(each.header_ids) for each in listed), sum(len(each.body_ids) for each in listed)
        tokens = sum(each.tokens for each in listed)
        stop = tokens - header - body
        counts.append(ChannelCount(name, len(listed), tokens, header, body, stop, tokens / (total or 1)))
    return counts + [ChannelCount(name, 0, tokens, 0, 0, 0, tokens / total) for name, tokens in apart.items() if tokens]


def marked_length(diagnostic: Diagnostic, text: str) -> int:
    """The length of the faulty text at the position of a fault; 0 if that text is not there."""
    found, at = diagnostic.found, diagnostic.at.character or 0
    if text.startswith(found, at):
        return len(found)
    # Only the beginning of a shortened text is known.
    return 1 if found.endswith("…") and text.startswith(found[:-1], at) else 0


_SECTION: Final = "# Tools"
_HEADING: Final = re.compile(r"## (\S+)\s*")
_NAMESPACE: Final = re.compile(r"namespace (\S+) \{\s*")
# The value of a helper type is not a function.
_FUNCTION: Final = re.compile(r"type (.+?) = \((?:_: |\) => any;)")
_END_OF_FUNCTION: Final = "=> any;"


class SchemaCost(msgspec.Struct, frozen=True):
    """A tool by its full name, the tokens of its declaration, and their share of all tokens."""

    tool: str
    tokens: int
    share: float


def find_schema_costs(traced: Trace, vocabulary: Vocabulary) -> list[SchemaCost]:
    """The costs in the order of the declarations; a tool declared twice is listed twice."""
    costs: list[SchemaCost] = []
    for item in traced.messages:
        if item.message.role not in (Role.SYSTEM, Role.DEVELOPER):
            continue
        text = traced.text[item.body_char : item.stop_char]
        if _SECTION not in text:
            continue
        starts = vocabulary.char_offsets(item.body_ids)
        for tool, start, end in _declarations(text):
            tokens = bisect_left(starts, end) - bisect_left(starts, start)
            costs.append(SchemaCost(tool, tokens, tokens / (traced.tokens or 1)))
    return costs


def _declarations(text: str) -> Iterator[tuple[str, int, int]]:
    """The tools that are declared, each with its span in characters."""
    is_inside = False  # the section of tools
    heading: str | None = None  # the name of a namespace whose functions have not begun
    heading_at = 0
    namespace: str | None = None  # the one whose functions are being declared
    start = 0  # where the current declaration begins
    function: str | None = None
    at = 0
    for line in text.splitlines(keepends=True):
        here, at = at, at + len(line)
        said = line.rstrip()
        if namespace is not None:
            if found := _FUNCTION.match(said):
                function = found[1]
            if function is not None and said.endswith(_END_OF_FUNCTION) and not said.lstrip().startswith("//"):
                yield f"{namespace}.{function}", start, at
                function, start = None, at
            elif function is None and said == f"}} // namespace {namespace}":
                namespace = None
            continue
        is_heading = line.startswith(("# ", "## "))
        if is_heading and heading is not None:
            yield heading, heading_at, here
            heading = None
        if line.startswith("# "):
            is_inside = said == _SECTION
        elif is_inside and (found := _HEADING.fullmatch(line)):
            heading, heading_at = found[1], here
        elif is_inside and (found := _NAMESPACE.fullmatch(line)):
            namespace, heading, start = found[1], None, at
    if heading is not None:
        yield heading, heading_at, len(text)


# Every quantifier is bounded, so matching is linear. The characters are those that look like `<`, `|` and `>`; one
# blank or zero-width character may separate them.
_GAP: Final = "[\\s\u200b-\u200d\u2060\ufeff\\\\]?"
_BAR: Final = "[|\uff5c\u00a6\u2502\u2223]"
_LIKELY: Final = re.compile(
    f"[<\uff1c\u2039\u3008\u2329]{_GAP}{_BAR}{_GAP}([A-Za-z0-9_]{{1,24}}){_GAP}{_BAR}{_GAP}[>\uff1e\u203a\u3009\u232a]"
)
_FIELDS: Final = ("name", "recipient", "channel", "content_type")


class TypedSpelling(msgspec.Struct, frozen=True):
    """A spelling: its message, field and position, and what it was encoded as. `near` marks a near miss."""

    message: int
    role: str
    where: str
    text: str
    start_char: int
    end_char: int
    start_token: int | None
    ids: list[int]
    became: Literal["text", "special"]
    near: bool


def find_typed_spellings(traced: Trace, vocabulary: Vocabulary, most: int) -> list[TypedSpelling]:
    """The first `most` spellings, in order."""
    spellings = (
        each
        for item in traced.messages
        for is_body in (False, True)
        for each in _spellings_in(item, traced.text, vocabulary, is_body=is_body)
    )
    return list(islice(spellings, most))


def _spellings_in(item: TracedMessage, text: str, vocabulary: Vocabulary, *, is_body: bool) -> Iterator[TypedSpelling]:
    """The spellings in the header or in the body of a message."""
    if is_body:
        ids, start_token, start, end = item.body_ids, item.body_token, item.body_char, item.stop_char
    else:
        ids, start_token, start, end = item.header_ids, item.start_token, item.start_char, item.body_char
    offsets: list[int] | None = None
    for match in _LIKELY.finditer(text, start, end):
        if f"<|{match[1].lower()}|>" not in ID_BY_SPELLING:
            continue
        if offsets is None:
            offsets = vocabulary.char_offsets(ids)
        first = max(bisect_right(offsets, match.start() - start) - 1, 0)
        last = max(bisect_left(offsets, match.end() - start), first + 1)
        written = ids[first:last]
        is_special = any(FIRST_SPECIAL <= token < VOCABULARY_SIZE for token in written)
        if is_special and not is_body:
            continue  # the structure itself
        spelled = match.group()
        field = next((name for name in _FIELDS if spelled in (getattr(item.message, name) or "")), "header")
        yield TypedSpelling(
            item.index,
            item.message.role.value,
            "body" if is_body else field,
            spelled,
            match.start(),
            match.end(),
            None if start_token is None else start_token + first,
            written,
            "special" if is_special else "text",
            spelled not in ID_BY_SPELLING,
        )
