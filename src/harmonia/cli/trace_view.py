"""A trace in the terminal: its messages in order, what they cost, and what is wrong.

Colours repeat what the words say. Everything fits into the width, and nothing is cut without saying how much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import click
import msgspec

from harmonia.cli.display import Line, shorten, wrap, wrap_words
from harmonia.errors import ErrorCode
from harmonia.events import Diagnostic
from harmonia.inspection.excerpts import cells, excerpt, show
from harmonia.inspection.saved_streams import count
from harmonia.inspection.trace import (
    ChannelCount,
    Trace,
    TracedMessage,
    TracedText,
    TracedTurn,
    is_empty,
    marked_length,
)
from harmonia.parser.faults import ALL_FAULTS
from harmonia.vocabulary import SPELLING_BY_ID, Vocabulary

_INDENT: Final = "    "
# Of a body that is long, these many lines are shown at its beginning and at its end; of ids and of faults likewise.
_FIRST_LINES, _LAST_LINES = 10, 4
_FIRST_IDS, _LAST_IDS = 80, 20
_FIRST_FAULTS = 20
_TITLE_LINES: Final = 4
# The columns of the table that a narrow window does without, the first one first.
_DISPENSABLE: Final = ("stop", "share", "messages")
_NARROWEST_NAME, _WIDEST_NAME = 12, 28

_CHANNEL_COLOURS: Final = {"analysis": "blue", "commentary": "yellow", "final": "green"}
_FLAG_STYLES: Final[dict[str, dict[str, Any]]] = {
    **{key: {"fg": "red", "bold": True} for key in ("forged", "guessed")},
    **{key: {"fg": "yellow"} for key in ("repaired", "from text: unverified", "from stripped text")},
}


class View(msgspec.Struct, frozen=True):
    """How a trace is shown."""

    width: int
    vocabulary: Vocabulary
    colour: bool = False
    full: bool = False
    ids: bool = False
    is_harmony: bool = True  # other families end a message with marks of their own

    def lines(self, trace: Trace, hints: Sequence[str]) -> Iterator[str]:
        """The lines of the whole view; `hints` has one for each diagnostic."""
        # A recording and JSON lines are not event streams, though --as has one name for them all.
        kind = "dump" if trace.kind == "sse" else trace.kind
        summary = (
            f"{kind}: {count(len(trace.messages), 'message')}, {_about(trace)}{count(trace.tokens, 'token')}, "
            f"{count(len(trace.text), 'character')}, {count(len(trace.diagnostics), 'fault')}"
        )
        yield from (self._paint(line, bold=True) for line in self._wrapped("", summary, ""))
        for note in trace.notes:
            yield from (self._paint(line, fg="yellow") for line in self._wrapped("note: ", show(note), ""))
        for item in trace.items:
            match item:
                case TracedMessage():
                    yield ""
                    yield from self._message(item, trace)
                case TracedText() if item.is_space:
                    pass  # white space between messages is as it should be
                case TracedText():
                    yield ""
                    yield from self._outside(item)
                case TracedTurn() if item.hidden_because:
                    yield ""
                    said = f"the turn has no visible text: {show(item.hidden_because)}"
                    yield from (self._paint(line, fg="yellow") for line in self._wrapped("", said, ""))
                case TracedTurn():
                    pass
        if trace.channels:
            yield ""
            yield from self._counts(trace)
        yield ""
        yield from self._faults(trace, hints)

    def _paint(self, text: str, **style: Any) -> str:
        return click.style(text, **style) if self.colour and text else text

    # ── messages ────────────────────────────────────────────────────────────────────────────────────────────────

    def _message(self, traced: TracedMessage, trace: Trace) -> Iterator[str]:
        message, stop = traced.message, traced.message.origin and traced.message.origin.stop
        colour = _CHANNEL_COLOURS.get(message.channel or "", "magenta" if message.channel else "cyan")
        fields = [message.role.value + (f" {message.name}" if message.name else "")]
        fields += [f"on {message.channel}"] if message.channel else []
        fields += [f"to {message.recipient}"] if message.recipient is not None else []
        fields += [f"as {message.content_type}"] if message.content_type is not None else []
        yield from (self._paint(line, fg=colour, bold=True) for line in self._title(f"#{traced.index}", fields))
        parts = [("header", traced.header_ids), ("body", traced.body_ids), ("stop", traced.stop_ids)]
        ending = f"ended by <|{stop}|>" if stop else "not ended by a token"
        if not self.is_harmony:
            ending = "complete" if stop else "ended with the input"
        place = f"character {traced.start_char:,}"
        if trace.has_ids and traced.start_token is not None:
            place = f"token {traced.start_token:,}"
        facts = [
            ending,
            f"{_about(trace)}{count(traced.tokens, 'token')}",
            ", ".join(f"{len(ids):,} {name}" for name, ids in (parts if traced.stop_ids else parts[:2])),
            f"starts at {place}",
        ]
        yield from self._joined(traced.flags, facts)
        yield from (self._paint(line, fg="red") for line in self._fault_list(traced, trace.diagnostics))
        for skipped, run in groupby(traced.skipped):
            said = self._repeated("skipped inside this message: ", skipped, len(list(run)), _INDENT)
            yield self._paint(said, fg="yellow")
        yield from self._body(message.text, colour)
        if self.ids:
            for name, listed in parts:
                yield from self._ids(name, listed)

    def _title(self, number: str, fields: Sequence[str]) -> Iterator[str]:
        """The number and the fields, as many on a line as fit; a field that is very long is cut."""
        room = self.width - len(_INDENT)
        line, gap = number, "  "
        for field in fields:
            shown = show(field)
            if cells(line) + 2 + cells(shown) > self.width:
                yield line
                *whole, shown = wrap_words(shorten(field, room * _TITLE_LINES), room)
                yield from (_INDENT + each for each in whole)
                line, gap = _INDENT, ""
            line += gap + shown
            gap = "  "
        yield line

    def _repeated(self, label: str, piece: str, times: int, indent: str = "") -> str:
        """A piece on one line, and how often it stands there."""
        if times == 1:
            return shorten(f"{indent}{label}{piece}", self.width)
        end = f"` × {times:,}"
        return f"{indent}{label}`{shorten(piece, self.width - len(indent + label) - 1 - len(end))}{end}"

    def _joined(self, flags: Sequence[str], facts: Sequence[str]) -> Iterator[str]:
        """Flags and facts, as many on a line as fit."""
        painted_flags = (self._paint(flag, **_FLAG_STYLES.get(flag, {})) for flag in flags)
        painted_facts = (self._paint(fact, dim=True) for fact in facts)
        line, used = _INDENT, len(_INDENT)
        for plain, painted in zip((*flags, *facts), (*painted_flags, *painted_facts), strict=True):
            gap = " · " if used > len(_INDENT) else ""
            if gap and used + len(gap) + len(plain) > self.width:
                yield line
                line, used, gap = _INDENT, len(_INDENT), ""
            line += gap + painted
            used += len(gap) + len(plain)
        yield line

    def _fault_list(self, traced: TracedMessage, diagnostics: Sequence[Diagnostic]) -> Iterator[str]:
        if traced.faults:
            # A number stays on the line of its code, which a space that does not break sees to.
            runs = groupby(traced.faults, lambda number: diagnostics[number - 1].code.value)
            named = ", ".join(f"{_numbers(list(numbers))}\xa0{code}" for code, numbers in runs)
            yield from (line.replace("\xa0", " ") for line in self._wrapped("! ", named, _INDENT))

    def _body(self, text: str, colour: str) -> Iterator[str]:
        if not text.strip():
            space = shorten(text, min(self.width - len(_INDENT) - 20, 40))
            yield _INDENT + self._paint(f"(white space only: {space})" if text else "(empty)", dim=True)
            return
        width = max(self.width - len(_INDENT) - 2, 10)
        first, left_out, last = self._shortened(text, width)
        for line in first:
            yield self._body_line(line, colour)
        if left_out:
            said = f"{count(left_out, 'character')} omitted; --full shows them"
            yield from (self._paint(line, dim=True) for line in self._wrapped("⋮ ", said, _INDENT))
        for line in last:
            yield self._body_line(line, colour)

    def _shortened(self, text: str, width: int) -> tuple[list[Line], int, list[Line]]:
        """The first lines, how many characters are left out, and the last lines."""
        most = _FIRST_LINES + _LAST_LINES + 1
        if self.full or (len(text) <= most * width and len(list(wrap(text, width))) <= most):
            return list(wrap(text, width)), 0, []
        # Only as much is looked at as can be shown, however long the body is.
        first = list(wrap(text[: _FIRST_LINES * width], width))[:_FIRST_LINES]
        shown = sum(line.chars for line in first)
        last = list(wrap(text[max(len(text) - _LAST_LINES * width, shown) :], width))[-_LAST_LINES:]
        return first, len(text) - shown - sum(line.chars for line in last), last

    def _body_line(self, line: Line, colour: str) -> str:
        return f"{_INDENT}{self._paint('┆' if line.goes_on else '│', fg=colour)} {line.shown}".rstrip()

    def _outside(self, item: TracedText) -> Iterator[str]:
        piece, title = item.repeated, "-   outside any message"
        if piece is not None:
            yield self._paint(self._repeated(f"{title}: ", piece, len(item.pieces)), fg="yellow", bold=True)
        else:
            yield self._paint(title, fg="yellow", bold=True)
            yield from self._body(item.text, "yellow")
        if self.ids:
            yield from self._ids("ids", item.ids)

    def _ids(self, name: str, listed: Sequence[int]) -> Iterator[str]:
        """Ids with their text: special tokens bare, ordinary text in quotes, parts of characters as bytes."""
        if not listed:
            return
        start = f"{_INDENT}{name:<7}"
        room = self.width - len(start)
        left_out = 0 if self.full else max(len(listed) - _FIRST_IDS - _LAST_IDS, 0)
        words = [shorten(self._token(token), room) for token in (listed[:_FIRST_IDS] if left_out else listed)]
        if left_out:
            said = f"⋮ {left_out:,} omitted; --full shows them ⋮"
            words.append(said if cells(said) <= room else f"⋮ {left_out:,} omitted ⋮")
            words += [shorten(self._token(token), room) for token in listed[-_LAST_IDS:]]
        line = ""
        for word in words:
            if line and cells(start) + cells(line) + 2 + cells(word) > self.width:
                yield start + line
                start, line = " " * len(start), ""
            line += ("  " if line else "") + word
        yield start + line

    def _token(self, token: int) -> str:
        if token in SPELLING_BY_ID:
            return f"{token} {SPELLING_BY_ID[token]}"
        if not 0 <= token < len(self.vocabulary.token_bytes):
            return f"{token} (not a token)"
        data = self.vocabulary.token_bytes[token]
        try:
            return f'{token} "{show(data.decode())}"'
        except UnicodeDecodeError:
            return f"{token} bytes {data.hex(' ')}"

    # ── counts ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _counts(self, trace: Trace) -> Iterator[str]:
        counts = trace.channels
        if len(counts) > 1:
            header, body, stop = (sum(getattr(each, name) for each in counts) for name in ("header", "body", "stop"))
            counts = [*counts, ChannelCount("total", len(trace.messages), trace.tokens, header, body, stop, 1.0)]
        names = ("messages", "tokens", "header", "body", "stop")
        columns = {name: [name, *(f"{getattr(each, name):,}" for each in counts)] for name in names}
        columns["tokens"][0] = f"{_about(trace)}tokens"
        columns["share"] = ["share", *(f"{each.share:.1%}" for each in counts)]
        widths = {name: 2 + max(map(len, column)) for name, column in columns.items()}
        for dispensable in _DISPENSABLE:
            if _NARROWEST_NAME + sum(widths.values()) > self.width:
                del columns[dispensable], widths[dispensable]
        widest = max(min(self.width - sum(widths.values()), _WIDEST_NAME), 1)
        channels = [shorten(name, widest) for name in ("by channel", *(each.channel for each in counts))]
        width = max(map(cells, channels))
        for number, channel in enumerate(channels):
            line = channel + " " * (width - cells(channel))
            line += "".join(f"{column[number]:>{widths[name]}}" for name, column in columns.items())
            yield self._paint(line, bold=True) if number == 0 else line

    # ── faults ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _faults(self, trace: Trace, hints: Sequence[str]) -> Iterator[str]:
        if not trace.diagnostics:
            yield self._paint("no faults", fg="green", bold=True)
            return
        yield self._paint(count(len(trace.diagnostics), "fault"), fg="red", bold=True)
        # Those that follow each other and have the same code are shown together, unless everything is.
        numbered = enumerate(trace.diagnostics, 1)
        runs = groupby(numbered, lambda each: each[0] if self.full else each[1].code)
        runs = [[number for number, _ in run] for _, run in runs]
        for numbers in runs if self.full else runs[:_FIRST_FAULTS]:
            yield ""
            yield from self._fault(numbers, trace, hints[numbers[0] - 1])
        if not self.full and len(runs) > _FIRST_FAULTS:
            yield ""
            left_out = sum(map(len, runs[_FIRST_FAULTS:]))
            yield self._paint(f"⋮ {left_out:,} more; --full shows them", dim=True)
        yield ""
        page = "docs/reference/faults.md" if self.is_harmony else "docs/reference/errors.md"
        yield from self._wrapped("", f"each code is explained in {page}", "")

    def _fault(self, numbers: Sequence[int], trace: Trace, hint: str) -> Iterator[str]:
        diagnostic = trace.diagnostics[numbers[0] - 1]
        fault, at, found = ALL_FAULTS[diagnostic.code], diagnostic.at, diagnostic.found
        yield from self._fault_title(numbers, diagnostic)
        if diagnostic.code is ErrorCode.HEADER_UNFINISHED and is_empty(trace):
            yield from self._wrapped("", "the completion is empty", _INDENT)
        else:
            yield from self._wrapped("", fault.found, _INDENT)
            if at.character is not None:
                length = marked_length(diagnostic, trace.text)
                line, marker = excerpt(trace.text, at.character, length, self.width - len(_INDENT))
                yield _INDENT + line
                yield _INDENT + self._paint(marker, fg="red", bold=True)
                if found and not length:
                    yield from self._wrapped("found: ", show(found), _INDENT)
        repair = fault.tolerant if fault.strict == "raises" else f"{fault.tolerant}; strict reports it too"
        yield from self._wrapped("repair: ", repair, _INDENT)
        if hint:
            yield from self._wrapped("hint: ", hint, _INDENT)

    def _fault_title(self, numbers: Sequence[int], diagnostic: Diagnostic) -> Iterator[str]:
        """The code, how often and where; on a second line what does not fit on the first."""
        name, place = f"{_numbers(numbers)} {diagnostic.code.value}", str(diagnostic.at)
        times = f"× {len(numbers):,}" if len(numbers) > 1 else ""
        where = ("the first at " if times else "at ") + place if place else ""
        said = ", ".join(filter(None, (times, where)))
        if not said or cells(f"{name}  {said}") <= self.width:
            yield self._paint(name, fg="red", bold=True) + (f"  {said}" if said else "")
            return
        yield self._paint(name, fg="red", bold=True)
        yield from self._wrapped("", said, _INDENT)

    def _wrapped(self, label: str, text: str, indent: str) -> Iterator[str]:
        start = indent + label
        for line in wrap_words(text, self.width - len(start)):
            yield (start + line).rstrip()
            start = " " * len(start)


def _about(trace: Trace) -> str:
    return "" if trace.has_ids else "about "


def _numbers(listed: Sequence[int]) -> str:
    return f"[{listed[0]}]" if len(listed) == 1 else f"[{listed[0]}–{listed[-1]}]"
