"""What a chat prints: the answer on stdout, everything else on stderr.

In a terminal nothing that a model, a tool or a server wrote can move the cursor, set colours or turn the direction of
writing; what languages and emoji need is left alone. A file gets the very text.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from typing import Any, Final

import click

from harmonia.cli.display import readable, shorten, show
from harmonia.cli.dumps import count
from harmonia.events import Diagnostic, Header, HeaderCompleted, MessageEnded, Repaired, TextDelta
from harmonia.messages import Message
from harmonia.parser import FAULTS
from harmonia.run.engines.engine import Usage
from harmonia.run.turn_events import CallEnded, CallStarted, RunEnded, SamplingEnded, SamplingStarted, TurnEvent

_RESULT_WIDTH: Final = 100
_WAITING: Final = "thinking …"
_CLEAR_LINE: Final = "\r\x1b[K"


class Screen:
    """Prints the events of a run, and counts what they cost."""

    def __init__(
        self, *, reasoning: bool, quiet: bool, silent: bool = False, context_tokens: int | None = None
    ) -> None:
        self.reasoning = reasoning
        self.can_continue = False  # whether somebody can type /continue
        self._quiet = quiet
        self._silent = silent  # nothing of the answer, because it is printed as JSON in the end
        self._context_tokens = context_tokens
        self._says_that_it_waits = not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self.begin()

    def begin(self) -> None:
        """Another question."""
        self.diagnostics: list[Diagnostic] = []
        self.calls: list[CallEnded] = []
        self.channel_tokens: Counter[str] = Counter()
        self._printing: str | None = None  # the channel whose text is in the middle of a line
        self._is_waiting = False
        self._is_first = True
        self._spoke = False
        self._began = time.monotonic()
        self._first: float | None = None  # when the first header was read
        self._speaks_since: float | None = None  # the same of this sampling
        self._sampling_s = 0.0
        self._sampled = 0
        self._context_used = 0

    def take(self, event: TurnEvent) -> None:
        match event:
            case TextDelta():
                self._text(event.header, event.text)
            case SamplingStarted():
                self._speaks_since = None
                self._is_first = True
                self._say_that_it_waits()
            case HeaderCompleted():
                self._speaks_since = self._speaks_since or time.monotonic()
                self._first = self._first or self._speaks_since
            case MessageEnded():
                message = event.message
                if message.sampled is not None:
                    # The prompt has the beginning of the first message: <|start|>assistant.
                    given = message.sampled.role_end if self._is_first else 0
                    self.channel_tokens[message.channel or "none"] += len(message.sampled.tokens) - given
                self._is_first = False
                self._end_line()
            case SamplingEnded():
                self.finish()
                self._context_used = event.usage.prompt_tokens + event.usage.completion_tokens
                self._sampling_s += time.monotonic() - (self._speaks_since or time.monotonic())
                self._sampled += event.usage.completion_tokens
                for note in event.notes:
                    self.say(f"note: {note}")
                for message in event.left_out:
                    # What it says may be hidden, so only what it is.
                    self.say(f"note: left out of the conversation: {_describe(message)}")
            case Repaired():
                self.diagnostics.append(event.diagnostic)
                if FAULTS[event.diagnostic.code].strict == "raises":
                    self.say(f"note: mended {event.diagnostic.code} at {event.diagnostic.at}")
            case CallStarted():
                self.say(f"→ {show(event.call.recipient)} {shorten(_brief(event.arguments), _RESULT_WIDTH)}")
            case CallEnded():
                self.calls.append(event)
                mark = "✗" if event.result.is_error else "←"
                shown = shorten(event.result.text, _RESULT_WIDTH)
                self.say(f"{mark} {shown} ({event.duration_s:.1f} s)")
            case RunEnded():
                self.finish()
                self._explain(event)
            case _:
                pass

    def finish(self) -> None:
        """Nothing more comes of this sampling: the line ends, if one was begun."""
        self._stop_waiting()
        self._end_line()

    def say(self, line: str) -> None:
        """Talk, on stderr, dimmed."""
        self.finish()
        if not self._quiet:
            click.secho(readable(line), dim=True, err=True)

    def _text(self, header: Header, text: str) -> None:
        channel = header.channel or ""
        if header.is_visible and channel == "final":
            if not self._silent:
                self._print("final", text)
        elif header.is_visible:
            if not self._quiet:
                self._print("commentary", text, err=True)
        elif self.reasoning and not header.is_call:
            self._print("analysis", text, err=True, dim=True)

    def _print(self, channel: str, text: str, *, err: bool = False, dim: bool = False) -> None:
        self._stop_waiting()
        if self._printing not in (None, channel):
            self._end_line()
        if self._printing is None and channel == "final" and self._spoke:
            click.echo("")  # between two answers
        self._printing = channel
        self._spoke = self._spoke or channel == "final"
        stream = sys.stderr if err else sys.stdout
        click.secho(readable(text, stream), nl=False, err=err, dim=dim or None)
        stream.flush()

    def _end_line(self) -> None:
        if self._printing is not None:
            click.echo("", err=self._printing != "final")
            self._printing = None

    def _say_that_it_waits(self) -> None:
        if self._says_that_it_waits:
            self._end_line()
            click.secho(_WAITING, nl=False, dim=True, err=True)
            self._is_waiting = True

    def _stop_waiting(self) -> None:
        if self._is_waiting:
            # Not by click, which takes escapes out where there are to be no colours.
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()
            self._is_waiting = False

    def _explain(self, ended: RunEnded) -> None:
        match ended.reason:
            case "answered" | "calls":
                pass
            case "silent":
                self._warn(f"the model said nothing to you: {ended.hidden_because}")
            case "cut_off":
                self._warn("the answer is cut off, and the engine does not say why (/continue goes on)")
            case "length":
                hint = " (/continue goes on)" if self.can_continue else ""
                self._warn(f"the answer is cut off: the tokens are used up{hint}")
            case "limit":
                self._warn(f"stopped: the limit of {ended.limit} is reached")
            case "stopped":
                self._warn("stopped; what came is kept")

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
        channels = ", ".join(f"{number:,} {channel}" for channel, number in costs["by_channel"].items())
        parts = [
            f"{costs['prompt_tokens']:,} prompt{cached}",
            f"{count(costs['completion_tokens'], 'token')} sampled" + (f" ({channels})" if channels else ""),
        ]
        if costs["first_token_s"] is not None:
            parts.append(f"{costs['first_token_s']:.2f} s to the first")
        if costs["tokens_per_second"] is not None:
            parts.append(f"{costs['tokens_per_second']:,.0f} tokens/s")
        if self._context_tokens:
            used, context = self._context_used, self._context_tokens
            parts.append(f"context {used:,} of {context:,} ({_percent(used, context)})")
        self.say(" · ".join(parts))


def _brief(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)


def _percent(part: int, whole: int) -> str:
    percent = 100 * part / whole
    return f"{percent:.0f} %" if percent >= 1 or not part else "< 1 %"


def _describe(message: Message) -> str:
    recipient = "" if message.recipient is None else f" to {show(message.recipient)}"
    channel = "no channel" if message.channel is None else show(message.channel)
    return f"a message of {message.role.value}{recipient} on {channel}"
