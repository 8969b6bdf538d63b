"""A trace for somebody who stares at one that is broken: messages in order, what they cost, and what is wrong.

Colours repeat what the words say. Everything fits into the width, and nothing is cut without saying how much.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click
import msgspec

from harmonia.cli.display import Line, cells, excerpt, shorten, show, wrap
from harmonia.cli.traces import ChannelCount, Trace, TracedMessage, TracedText, TracedTurn, marked_length, strict_raises
from harmonia.events import Diagnostic
from harmonia.parser import FAULTS
from harmonia.vocabulary import SPELLING_BY_ID, Vocabulary

_INDENT: Final = "    "
# Of a body that is long, these many lines are shown at its beginning and at its end; of ids and of faults likewise.
_FIRST_LINES, _LAST_LINES = 10, 4
_FIRST_IDS, _LAST_IDS = 80, 20
_FIRST_FAULTS = 20

_CHANNEL_COLOURS: Final = {"analysis": "blue", "commentary": "yellow", "final": "green"}
_ALARMING: Final = ("forged", "guessed")
_DOUBTFUL: Final = ("repaired", "from text: unverified", "from stripped text")


class View(msgspec.Struct, frozen=True):
    """How a trace is shown."""

    width: int
    vocabulary: Vocabulary
    colour: bool = False
    full: bool = False
    ids: bool = False

    def lines(self, trace: Trace, hints: Sequence[str]) -> Iterator[str]:
        """The lines of the whole view; `hints` has one for each diagnostic."""
        yield from (self._paint(line, bold=True) for line in self._wrapped("", self._summary(trace), ""))
        for item in trace.items:
            match item:
                case TracedMessage():
                    yield ""
                    yield from self._message(item, trace)
                case TracedText() if item.text.strip():
                    yield ""
                    yield from self._outside(item)
                case TracedText():
                    pass  # white space between messages is as it should be
                case TracedTurn() if item.hidden_because:
                    yield ""
                    said = f"the turn ends with nothing to show: {show(item.hidden_because)}"
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

    # ── the beginning ───────────────────────────────────────────────────────────────────────────────────────────

    @staticmethod
    def _summary(trace: Trace) -> str:
        return ", ".join(
            [
                f"{trace.kind}: {_count(len(trace.messages), 'message')}",
                f"{_about(trace)}{_count(trace.tokens, 'token')}",
                _count(len(trace.text), "character"),
                _count(len(trace.diagnostics), "fault"),
            ]
        )

    # ── messages ────────────────────────────────────────────────────────────────────────────────────────────────

    def _message(self, traced: TracedMessage, trace: Trace) -> Iterator[str]:
        message, stop = traced.message, traced.message.origin and traced.message.origin.stop
        colour = _CHANNEL_COLOURS.get(message.channel or "", "magenta" if message.channel else "cyan")
        fields = [message.role.value + (f" {message.name}" if message.name else "")]
        fields += [f"on {message.channel}"] if message.channel else []
        fields += [f"to {message.recipient}"] if message.recipient is not None else []
        fields += [f"as {message.content_type}"] if message.content_type is not None else []
        title = shorten(f"#{traced.index}  {'  '.join(fields)}", self.width)
        yield self._paint(title, fg=colour, bold=True)
        header, body = traced.header_tokens, traced.body_tokens
        facts = [
            f"ended by <|{stop}|>" if stop else "not ended by a token",
            f"{_about(trace)}{_count(header + body, 'token')}",
            f"{header:,} header, {body:,} body",
            f"from {_place(traced, trace)} on",
        ]
        yield from self._joined(self._flags(traced.flags), facts)
        yield from (self._paint(line, fg="red") for line in self._fault_list(traced, trace.diagnostics))
        for skipped in traced.skipped:
            yield self._paint(shorten(f"{_INDENT}skipped inside it: {skipped}", self.width), fg="yellow")
        yield from self._body(message.text, colour)
        if self.ids:
            for name, listed in (("header", traced.header_ids), ("body", traced.body_ids), ("stop", traced.stop_ids)):
                yield from self._ids(name, listed)

    def _flags(self, flags: Sequence[str]) -> list[tuple[str, str]]:
        """Each flag as it is, and as it is painted."""
        colours = {**dict.fromkeys(_ALARMING, "red"), **dict.fromkeys(_DOUBTFUL, "yellow")}
        return [(flag, self._paint(flag, fg=colours.get(flag), bold=flag in _ALARMING or None)) for flag in flags]

    def _joined(self, flags: Sequence[tuple[str, str]], facts: Sequence[str]) -> Iterator[str]:
        """Flags and facts, as many on a line as fit."""
        line, used = _INDENT, len(_INDENT)
        for plain, painted in [*flags, *((fact, self._paint(fact, dim=True)) for fact in facts)]:
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
            named = ", ".join(f"[{number}]\xa0{diagnostics[number - 1].code.value}" for number in traced.faults)
            yield from (line.replace("\xa0", " ") for line in self._wrapped("! ", named, _INDENT))

    def _body(self, text: str, colour: str) -> Iterator[str]:
        if not text.strip():
            yield _INDENT + self._paint(f"(white space only: {shorten(text, 40)})" if text else "(empty)", dim=True)
            return
        width = max(self.width - len(_INDENT) - 2, 10)
        first, left_out, last = self._shortened(text, width)
        for line in first:
            yield self._body_line(line, colour)
        if left_out:
            said = f"⋮ {_count(left_out, 'character')} left out; --full shows them"
            yield _INDENT + self._paint(said, dim=True)
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
        yield self._paint("-   part of no message", fg="yellow", bold=True)
        yield from self._body(item.text, "yellow")
        if self.ids:
            yield from self._ids("ids", item.ids)

    def _ids(self, name: str, listed: Sequence[int]) -> Iterator[str]:
        """Ids with their text: special tokens bare, ordinary text in quotes, parts of characters as bytes."""
        if not listed:
            return
        words = [self._token(token) for token in listed]
        if not self.full and len(words) > _FIRST_IDS + _LAST_IDS:
            left_out = len(words) - _FIRST_IDS - _LAST_IDS
            words = [*words[:_FIRST_IDS], f"⋮ {left_out:,} left out; --full shows them ⋮", *words[-_LAST_IDS:]]
        start = f"{_INDENT}{name:<7}"
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
            return f"{token} (no token)"
        data = self.vocabulary.token_bytes[token]
        try:
            return f'{token} "{show(data.decode())}"'
        except UnicodeDecodeError:
            return f"{token} bytes {data.hex(' ')}"

    # ── counts ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _counts(self, trace: Trace) -> Iterator[str]:
        unit = f"{_about(trace)}tokens"
        rows = [("by channel", "messages", unit, "header", "body", "share")]
        counts = trace.channels
        if len(counts) > 1:
            header, body = sum(each.header for each in counts), sum(each.body for each in counts)
            counts = [*counts, ChannelCount("together", len(trace.messages), trace.tokens, header, body, 1.0)]
        for count in counts:
            numbers = (f"{count.messages:,}", f"{count.tokens:,}", f"{count.header:,}", f"{count.body:,}")
            rows.append((shorten(count.channel, 28), *numbers, f"{count.share:.1%}"))
        widths = [max(cells(row[at]) for row in rows) for at in range(len(rows[0]))]
        for number, row in enumerate(rows):
            name = row[0] + " " * (widths[0] - cells(row[0]))
            line = name + "".join(f"  {cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
            yield self._paint(line, bold=True) if number == 0 else line

    # ── faults ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _faults(self, trace: Trace, hints: Sequence[str]) -> Iterator[str]:
        if not trace.diagnostics:
            yield self._paint("no faults", fg="green", bold=True)
            return
        yield self._paint(_count(len(trace.diagnostics), "fault"), fg="red", bold=True)
        listed = list(enumerate(zip(trace.diagnostics, hints, strict=True), 1))
        for number, (diagnostic, hint) in listed if self.full else listed[:_FIRST_FAULTS]:
            yield ""
            yield from self._fault(number, diagnostic, hint, trace)
        if not self.full and len(listed) > _FIRST_FAULTS:
            yield ""
            yield self._paint(f"⋮ {len(listed) - _FIRST_FAULTS:,} more; --full shows them", dim=True)

    def _fault(self, number: int, diagnostic: Diagnostic, hint: str, trace: Trace) -> Iterator[str]:
        fault, at, found = FAULTS[diagnostic.code], diagnostic.at, diagnostic.found
        yield self._paint(f"[{number}] {diagnostic.code.value}", fg="red", bold=True) + (
            f"  at {at}" if str(at) else ""
        )
        yield from self._wrapped("", fault.found, _INDENT)
        if at.character is not None:
            length = marked_length(diagnostic, trace.text)
            line, marker = excerpt(trace.text, at.character, length, self.width - len(_INDENT))
            yield _INDENT + line
            yield _INDENT + self._paint(marker, fg="red", bold=True) if self.colour else _INDENT + marker
            if found and not length:
                yield from self._wrapped("found: ", show(found), _INDENT)
        yield from self._wrapped("made of it: ", fault.tolerant, _INDENT)
        strict = "strict raises it" if strict_raises(diagnostic) else "strict reports it, too: it is well-formed"
        yield from self._wrapped("hint: ", f"{hint}; {strict}", _INDENT)

    def _wrapped(self, label: str, text: str, indent: str) -> Iterator[str]:
        yield from textwrap.wrap(
            text,
            max(self.width, 20),
            initial_indent=indent + label,
            subsequent_indent=indent + " " * len(label),
            break_on_hyphens=False,
        ) or [indent + label]


def _place(traced: TracedMessage, trace: Trace) -> str:
    span = traced.message.origin.header if traced.message.origin else None
    if trace.has_ids and span is not None and span.start_token is not None:
        return f"token {span.start_token:,}"
    return f"character {traced.start_char:,}"


def _about(trace: Trace) -> str:
    return "" if trace.has_ids else "about "


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
