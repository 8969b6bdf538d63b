"""Prints a chat: the answer on stdout, everything else on stderr.

In a terminal, text of a model, a tool or a server cannot move the cursor, set colours or change the direction of
writing; what languages and emoji need is kept. A file gets the exact text.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from typing import Any, Final, TextIO

import click

from harmonia.cli.display import readable, shorten, show
from harmonia.errors import ErrorCode
from harmonia.events import (
    ArgumentsDelta,
    Diagnostic,
    Header,
    HeaderCompleted,
    MessageEnded,
    MessageStarted,
    Repaired,
    Skipped,
    SpannedEvent,
    TextDelta,
)
from harmonia.inspection.saved_streams import count
from harmonia.parser.faults import ALL_FAULTS
from harmonia.parts import Call
from harmonia.run.engines.base import Usage
from harmonia.run.events import (
    CallEnded,
    CallStarted,
    RunEnded,
    SamplingEnded,
    SamplingGivenUp,
    SamplingStarted,
    TurnEvent,
)

_RESULT_WIDTH: Final = 100
_WAITING: Final = "thinking …"
_CLEAR_LINE: Final = "\r\x1b[K"
# Faults that are reported and not repaired.
_NOT_REPAIRED: Final = (ErrorCode.BODY_ARGUMENTS_NOT_JSON,)


class Screen:
    """Prints the events of a run, and counts what they cost. Answers go to `out`, apart from what tools print."""

    def __init__(
        self,
        *,
        reasoning: bool,
        quiet: bool,
        silent: bool = False,
        context_tokens: int | None = None,
        out: TextIO | None = None,
    ) -> None:
        self.out = out or sys.stdout
        self.reasoning = reasoning
        self.can_continue = False  # whether somebody can type /continue
        self.approval_hint: str | None = None  # what lets calls run that are read from text, where nobody is asked
        self.silence_hint: str | None = None  # what may be wrong where there is nothing to read
        self._quiet = quiet
        self._silent = silent  # nothing of the answer, because it is printed as JSON in the end
        self._context_tokens = context_tokens
        self._shows_waiting = not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self.begin()

    def begin(self) -> None:
        """Another question."""
        self.diagnostics: list[Diagnostic] = []
        self.calls: list[CallEnded] = []
        self.channel_tokens: Counter[str] = Counter()
        self.ran: set[str] = set()  # the ids of the calls that were run, not only asked about
        self._headless_tokens = 0  # of the message whose channel is not known yet
        self._unreported: list[Diagnostic] = []  # faults that may be those of a stream that was cut off
        self._samplings = 0
        self._printing: str | None = None  # the channel whose text is in the middle of a line
        self._is_waiting = False
        self._gave_approval_hint = False
        self._spoke = False
        self._began = time.monotonic()
        self._first: float | None = None  # when the first header was read
        self._speaks_since: float | None = None  # the same of this sampling
        self._sampling_s = 0.0
        self._sampled = 0
        self._context_used = 0

    def show(self, event: TurnEvent) -> None:
        if isinstance(event, SpannedEvent):
            self._count(event)
            if self._unreported and not isinstance(event, MessageEnded | Skipped):
                self._report_faults()  # the model went on, so it was not the end of the stream that is to blame
        match event:
            case TextDelta():
                self._text(event.header, event.text)
            case SamplingStarted():
                self._speaks_since = None
                self._unreported = []
                self._samplings += 1
                if self._shows_waiting:
                    self._end_line()
                    click.secho(_WAITING, nl=False, dim=True, err=True)
                    self._is_waiting = True
            case HeaderCompleted():
                self._speaks_since = self._speaks_since or time.monotonic()
                self._first = self._first or self._speaks_since
            case MessageEnded():
                self._end_line()
            case SamplingEnded():
                self.finish()
                origin = event.messages[-1].origin if event.messages else None
                if event.reason == "stop" or (origin is not None and origin.stop is not None):
                    self._report_faults()
                self._context_used = event.usage.prompt_tokens + event.usage.completion_tokens
                self._sampling_s += time.monotonic() - (self._speaks_since or time.monotonic())
                self._sampled += event.usage.completion_tokens
                for note in event.notes:
                    self.say(f"note: {note}")
                for message in event.left_out:
                    # What it says may be hidden, so only what it is.
                    recipient = "" if message.recipient is None else f" to {show(message.recipient)}"
                    channel = "no channel" if message.channel is None else show(message.channel)
                    what = f"a message of {message.role.value}{recipient} on {channel}"
                    self.say(f"note: left out of the conversation: {what}")
            case SamplingGivenUp():
                self._sampled += event.usage.completion_tokens
                self.say(f"note: {event.unmet.message}; asking again")
            case Repaired():
                self.diagnostics.append(event.diagnostic)
                if ALL_FAULTS[event.diagnostic.code].strict == "raises":
                    self._unreported.append(event.diagnostic)
            case CallStarted():
                self.ran.add(event.id)
                self._say_call(event.call, event.arguments)
            case CallEnded():
                self.calls.append(event)
                mark = "✗" if event.result.is_error else "←"
                shown = shorten(event.result.text, _RESULT_WIDTH)
                if event.id in self.ran:
                    self.say(f"{mark} {shown} ({event.duration_s:.1f} s)")
                else:
                    # It was not run: the time is that of the person who was asked.
                    self._say_call(event.call, event.call.value if event.call.is_json else event.call.text)
                    self.say(f"{mark} {shown}")
                    # Once per question: the model may repeat such calls.
                    if event.call.status == "unverified" and self.approval_hint and not self._gave_approval_hint:
                        self._gave_approval_hint = True
                        self._warn(self.approval_hint)
            case RunEnded():
                self.finish()
                self._explain(event)
            case _:
                pass

    def _count(self, event: SpannedEvent) -> None:
        """Count what was sampled now: of a message that goes on, the tokens that it had before have no event."""
        tokens = 0
        if event.start_token is not None and event.end_token is not None:
            tokens = event.end_token - event.start_token
        match event:
            case MessageStarted():
                self._headless_tokens += tokens
                return
            case HeaderCompleted() | TextDelta() | ArgumentsDelta():
                channel = event.header.channel
            case MessageEnded():
                channel = event.message.channel
            case Skipped():
                channel = None
        if tokens or self._headless_tokens:
            self.channel_tokens[channel or "none"] += tokens + self._headless_tokens
            self._headless_tokens = 0

    def _report_faults(self) -> None:
        unreported, self._unreported = self._unreported, []
        for fault in unreported:
            repaired = "" if fault.code in _NOT_REPAIRED else "repaired: "
            self.say(f"note: {repaired}{ALL_FAULTS[fault.code].found} ({fault.code}), at {fault.at}")

    def _say_call(self, call: Call, arguments: object) -> None:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
        self.say(f"→ {show(call.recipient)} {shorten(text, _RESULT_WIDTH)}")

    def finish(self) -> None:
        """End the line, if one was begun: nothing more follows in this sampling."""
        self._stop_waiting()
        self._end_line()

    def say(self, line: str) -> None:
        """Print a line on stderr, dimmed."""
        self.finish()
        if not self._quiet:
            click.secho(readable(line), dim=True, err=True)

    def _text(self, header: Header, text: str) -> None:
        if header.is_visible:
            channel = "final" if header.channel == "final" else "commentary"
            if self._silent if channel == "final" else self._quiet:
                return
        elif self.reasoning and not header.is_call:
            channel = "analysis"
        else:
            return
        self._stop_waiting()
        if self._printing not in (None, channel):
            self._end_line()
        if self._printing is None and channel == "final" and self._spoke:
            click.echo("", file=self.out)  # between two answers
        self._printing = channel
        self._spoke = self._spoke or channel == "final"
        stream = self.out if channel == "final" else sys.stderr
        click.secho(readable(text, stream), nl=False, file=stream, dim=channel == "analysis" or None)
        stream.flush()

    def _end_line(self) -> None:
        if self._printing is not None:
            click.echo("", file=self.out if self._printing == "final" else sys.stderr)
            self._printing = None

    def _stop_waiting(self) -> None:
        if self._is_waiting:
            # Not with click, which removes escapes where colours are off.
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()
            self._is_waiting = False

    def _explain(self, ended: RunEnded) -> None:
        hint = "; /continue continues it" if self.can_continue else ""
        match ended.reason:
            case "unmet":
                self._warn("" if ended.unmet is None else ended.unmet.message)
            case "silent":
                self._warn(f"the answer has no visible text: {ended.hidden_because}")
                if self.silence_hint is not None:
                    self._warn(self.silence_hint)
            case "cut_off":
                self._warn(f"the answer was cut off, and the engine did not report why{hint}")
            case "length":
                self._warn(f"the answer was cut off at the token limit{hint or '; raise it with -o max_tokens N'}")
            case "limit":
                self._warn(f"stopped: reached the {(ended.limit or '').removesuffix('s')} limit")
            case "stopped":
                self._warn("stopped; the text so far is kept")
            case "answered" | "calls":
                pass

    def _warn(self, line: str) -> None:
        click.secho(readable(line), fg="yellow", err=True)

    # ── costs ───────────────────────────────────────────────────────────────────────────────────────────────────

    def costs(self, usage: Usage) -> dict[str, Any]:
        """Tokens, by channel too, how fast they came, and how much of the context the last prompt and answer fill."""
        speed = self._sampled / self._sampling_s if self._sampling_s > 0 else None
        return {
            "prompt_tokens": usage.prompt_tokens,
            "cached_tokens": usage.cached_tokens,
            "completion_tokens": usage.completion_tokens,
            "by_channel": dict(self.channel_tokens),
            "first_token_s": None if self._first is None else round(self._first - self._began, 3),
            "tokens_per_second": None if speed is None else round(speed, 1),
            "context_used": self._context_used,
            "context_tokens": self._context_tokens,
        }

    def say_costs(self, usage: Usage) -> None:
        costs = self.costs(usage)
        cached = f" ({costs['cached_tokens']:,} cached)" if costs["cached_tokens"] else ""
        several = f" in {self._samplings} samplings" if self._samplings > 1 else ""
        channels = ", ".join(f"{number:,} {channel}" for channel, number in costs["by_channel"].items())
        parts = [
            f"{count(costs['prompt_tokens'], 'prompt token')}{cached}{several}",
            f"{costs['completion_tokens']:,} sampled" + (f" ({channels})" if channels else ""),
        ]
        if costs["first_token_s"] is not None:
            parts.append(f"first token after {costs['first_token_s']:.2f} s")
        if costs["tokens_per_second"] is not None:
            parts.append(f"{costs['tokens_per_second']:,.0f} tokens/s")
        if self._context_tokens:
            used, context = self._context_used, self._context_tokens
            percent = 100 * used / context
            shown = f"{percent:.0f} %" if percent >= 1 or not used else "< 1 %"
            parts.append(f"context {used:,} of {context:,} ({shown})")
        self.say(" · ".join(parts))
