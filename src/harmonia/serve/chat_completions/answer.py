"""One choice of an answer: the events of a run in, what a client sees of them out.

    content      the visible texts in order, with an empty line between two of them; cut at a stop string
    reasoning    all other texts, if the operator shows them
    calls        calls to the client's tools, from the moment they are certain

1. What goes to a `Sink`, joined, is the same however the engine cut its tokens (law 2).
2. Content is what `visible_text` gives for the messages, up to the first stop string. Nothing else is content (law 7).
   If the answer has a format, the answer alone is content: clients parse it. Text beside it goes with the reasoning.
   Text that turns out to be a thought when it ends is taken back if the sink can do that; a stream cannot.
3. A call begins only if its header is certain and names a tool of the client that may be called now. A call that is not
   certain at its end is an error, unless the model was cut off: then the choice ends with `length` and names the call.
4. The first stop string to be complete counts; of those that are complete at the same character, the longest. Only what
   may be the beginning of a stop string is held back. Work is linear in the text, for each stop string.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from harmonia.errors import ErrorCode, StreamError
from harmonia.events import ArgumentsDelta, Header, HeaderCompleted, MessageEnded, TextDelta
from harmonia.messages import Message, is_call
from harmonia.parts import call_of, is_visible
from harmonia.parts.message_parts import is_call_without_recipient, kind_of_header
from harmonia.provenance import Trust
from harmonia.run.engines.base import TokenLogprob
from harmonia.run.events import CallStarted, RunEnded, SamplingEnded, TurnEvent
from harmonia.run.tools import ToolSet
from harmonia.run.tools.arguments import unwrap_input
from harmonia.serve.chat_completions.request import CallKind, CreateCompletion
from harmonia.serve.chat_completions.writer import Finished, FinishReason, Logprobs, Sink
from harmonia.serve.config.settings import Settings
from harmonia.serve.models.served_model import ServedModel
from harmonia.serve.security.keys import new_id
from harmonia.serve.wire.error_responses import in_clients_words, no_call, not_met
from harmonia.serve.wire.token_usage import TokenUsage
from harmonia.vocabulary import decode_bytes

_BETWEEN_TEXTS: Final = "\n\n"
_CUT_SHORT: Final = frozenset(("length", "limit", "stopped"))
_CHANNELS: Final = ("analysis", "commentary", "final")
_MOST_WARNINGS: Final = 32


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for all choices of a request. `toolset` knows which tools may be called, one of `demanded` has to be,
    and `warnings` are about the request."""

    request: CreateCompletion
    settings: Settings
    served: ServedModel
    toolset: ToolSet
    demanded: frozenset[str]
    warnings: Sequence[str]


class Choice:
    """Feed it every event of a run. `wants_stop`: a stop string was found, and the run may end."""

    def __init__(self, terms: Terms, sink: Sink) -> None:
        self.wants_stop = False
        self._terms = terms
        self._tools = terms.toolset
        self._sink = sink
        self._token_usage = TokenUsage()
        self._content = _Joined()
        self._reasoning = _Joined()
        self._stops = Stops(terms.request.stops) if terms.request.stops else None
        self._wants_logprobs = bool(terms.request.logprobs)
        self._shows_reasoning = terms.settings.analysis == "shown"
        # The state before the text that is being read, which may turn out to be a thought.
        self._was_empty = True
        self._stops_before: _Place | None = None
        # Of the text that is held back: its log-probabilities, each with its bytes. An empty line has none.
        self._pending: list[tuple[TokenLogprob | None, int]] = []
        self._pending_before = 0
        self._ahead = 0  # bytes of the last token given out whose text is still held back
        self._calls = 0
        self._open: int | None = None  # a call without an end; the end of the sampling shows why
        self._unfinished: int | None = None
        self._is_demand_met = not terms.demanded
        self._messages: list[Message] = []
        self._warnings: dict[str, None] = dict.fromkeys(terms.warnings)
        # What the text of the current message becomes, and whether its header has come.
        self._kind: Literal["content", "reasoning", "call"] | None = None
        self._is_whole_only = False  # input of a custom tool, which models may wrap: it is sent when it is complete
        self._is_inside = False

    def feed(self, event: TurnEvent) -> None:
        """One more event."""
        if isinstance(event, TextDelta):
            if self._kind == "content":
                self._say(event)
            elif self._kind == "reasoning":
                self._think(event.text)
            return
        self._token_usage.count(event)
        match event:
            case ArgumentsDelta():
                if self._kind == "call" and not self._is_whole_only:
                    self._sink.add_arguments(self._calls - 1, event.text)
            case HeaderCompleted():
                # It comes a second time where a content type stands at the head of the body.
                if not self._is_inside:
                    self._is_inside = True
                    self._begin(event.header)
            case MessageEnded():
                self._end(event.message)
            case SamplingEnded():
                constraints = event.unverified_constraints
                self._warnings |= dict.fromkeys(in_clients_words(each, self._tools) for each in constraints)
                if self._open is not None:
                    if event.reason not in _CUT_SHORT:
                        raise self._not_certain()
                    self._unfinished, self._open = self._open, None
            case CallStarted():
                self._note_demand(event.call.recipient)
            case RunEnded():
                self._finish(event)
            case _:
                pass

    # ── messages ────────────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, header: Header) -> None:
        self._kind = None
        if self._open is not None:
            raise self._not_certain()  # it has no end, and another message begins
        if self.wants_stop:
            return
        kind = kind_of_header(header)
        if kind == "text" and self._terms.request.form is not None and header.channel != "final":
            kind = "think"
        if kind == "text":
            self._was_empty = self._content.is_empty
            self._stops_before = None if self._stops is None else self._stops.place
            self._content.begin()
            self._sink.begin_content()
            self._pending_before = len(self._pending)
            if self._wants_logprobs and not self._content.is_empty:
                self._pending.append((None, len(_BETWEEN_TEXTS)))
            self._kind = "content"
        elif kind == "think" and self._shows_reasoning:
            self._reasoning.begin()
            self._kind = "reasoning"
        elif kind == "tool_call":
            self._begin_call(header)

    def _begin_call(self, header: Header) -> None:
        tool = self._tools.find(header.recipient or "")
        is_certain = header.trust is Trust.CERTAIN and self._terms.served.calls_are_certain
        if tool is None or tool.path is None or not is_certain or not self._tools.is_allowed(tool):
            return  # not the client's, or the run reports to the model what is wrong with it
        kind: CallKind = "custom" if tool.takes == "text" else "function"
        self._sink.begin_call(self._calls, new_id("call"), kind, tool.name)
        self._calls += 1
        self._kind = "call"
        self._is_whole_only = kind == "custom"

    def _say(self, event: TextDelta) -> None:
        text = self._content.feed(event.text)
        if self._wants_logprobs:
            self._pending += [(each, _size_of(each)) for each in self._token_usage.logprobs_of(event)]
        if text and self._stops is not None:
            text = self._stops.feed(text)
            if self._stops.is_hit:
                self.wants_stop = True
        if text:
            self._sink.add_content(text, self._logprobs_for(text) if self._pending else ())

    def _think(self, text: str) -> None:
        shown = self._reasoning.feed(text)
        if shown:
            self._sink.add_reasoning(shown)

    def _end(self, message: Message) -> None:
        kind, self._kind = self._kind, None
        self._is_inside = False
        self._messages.append(message)
        if kind == "content":
            if self._content.is_blank:
                del self._pending[self._pending_before :]
            elif not is_visible(message) and not self.wants_stop:
                self._take_back(message.text)
        elif kind == "call":
            call = call_of(message, self._tools.declared)
            assert call is not None, "its header said so"
            if message.origin is not None and message.origin.stop is None:
                self._open = self._calls - 1
            elif call.status in ("certain", self._terms.settings.calls):
                if self._is_whole_only:
                    self._sink.add_arguments(self._calls - 1, unwrap_input(message.text))
                self._note_demand(call.recipient)
            else:
                raise self._not_certain()

    def _take_back(self, thought: str) -> None:
        """Content that was added is not for the user."""
        if not self._sink.take_back_content():
            return
        del self._pending[self._pending_before :]
        self._content.is_empty = self._was_empty
        if self._stops is not None and self._stops_before is not None:
            self._stops.go_back(self._stops_before)
        if self._shows_reasoning:
            self._reasoning.begin()
            self._think(thought)

    def _note_demand(self, recipient: str) -> None:
        tool = self._tools.find(recipient)
        if tool is not None and self._tools.recipient_of(tool) in self._terms.demanded:
            self._is_demand_met = True

    def _not_certain(self) -> StreamError:
        if not self._is_demand_met:  # a call was required, and a malformed one does not count
            return no_call()
        message = "the model wrote a malformed or truncated tool call, which was not delivered"
        return StreamError(ErrorCode.TOOL_NOT_CERTAIN, message)

    def _logprobs_for(self, text: str) -> Logprobs:
        """The log-probabilities of the tokens of this text, by their bytes; the others wait, or are cut off."""
        taken = len(self._pending)
        self._ahead, ahead = 0, self._ahead
        if self._stops is not None and (self._stops.is_hit or self._stops.is_holding):
            left = len(text.encode()) - ahead
            taken = 0
            for _, size in self._pending:
                if left <= 0:
                    break
                left -= size
                taken += 1
            self._ahead = max(-left, 0)
        given, self._pending = self._pending[:taken], self._pending[taken:]
        return [logprob for logprob, _ in given if logprob is not None]

    def _finish(self, ended: RunEnded) -> None:
        rest = "" if self._stops is None else self._stops.end()
        if rest:
            self._sink.add_content(rest, self._logprobs_for(rest) if self._pending else ())
        calls = self._calls - (self._unfinished is not None)
        reason: FinishReason = "tool_calls" if calls else "stop"
        is_stopped = ended.reason == "stopped" and not self.wants_stop  # by the server, not by a stop string
        if ended.reason in ("length", "limit", "cut_off") or is_stopped or self._unfinished is not None:
            reason = "length"
        if not self._is_demand_met and reason != "length":
            raise no_call()
        if ended.unmet is not None and ended.unmet.kind != "call":
            if ended.unmet.kind == "arguments" or self._terms.request.demands_form:
                raise not_met(ended.unmet, self._tools, "$.response_format")
            self._warnings["the answer does not match response_format; set strict to make that an error"] = None
        because = None
        if self._content.is_empty and not calls and not self.wants_stop:
            because = _why_hidden(self._messages, is_cut=self._unfinished is not None)
        warnings = tuple(self._warnings)[:_MOST_WARNINGS]
        tokens = self._token_usage.reasoning_tokens
        self._sink.finish(Finished(reason, ended.usage, tokens, because, self._unfinished, warnings))


class _Joined:
    """Joins texts with an empty line between two; those of white space alone are left out."""

    __slots__ = ("_blanks", "is_blank", "is_empty")

    def __init__(self) -> None:
        self.is_empty = True  # no text has come out yet
        self.is_blank = True  # of the text that is being read, nothing has
        self._blanks: list[str] = []  # its white space so far

    def begin(self) -> None:
        self.is_blank = True
        self._blanks = []

    def feed(self, text: str) -> str:
        if not self.is_blank:
            return text
        if not text or text.isspace():
            self._blanks.append(text)
            return ""
        before = "" if self.is_empty else _BETWEEN_TEXTS
        self.is_blank = self.is_empty = False
        return "".join((before, *self._blanks, text))


def _why_hidden(messages: Sequence[Message], *, is_cut: bool = False) -> str:
    """Why nothing is visible, without any model text."""
    found: dict[str, None] = {}
    for message in messages:
        channel = (message.channel or "").lower()
        if is_call(message):
            found["a call that was cut off" if is_cut else "a call that was not delivered"] = None
        elif not message.text.strip():
            continue
        elif is_call_without_recipient(message):
            found["a call without a recipient"] = None
        elif not is_visible(message, show_guessed=True):
            found[f"text on {channel}" if channel in _CHANNELS else "text on a channel that is not shown"] = None
        elif not is_visible(message):
            found["text without a known channel, which is hidden by default"] = None
    return f"there is only {' and '.join(found)}" if found else "there is no text"


def _size_of(logprob: TokenLogprob) -> int:
    return len(logprob.text.encode() if logprob.token is None else decode_bytes([logprob.token]))


# ── stop strings ────────────────────────────────────────────────────────────────────────────────────────────────────

# A state of the search: what is held back, and how much of each stop string that is.
_Place = tuple[str, Sequence[int]]


class Stops:
    """Looks for stop strings in one text. After `is_hit` there is no more output."""

    def __init__(self, stops: Iterable[str]) -> None:
        self._matchers = [_Matcher(stop) for stop in stops]
        self._held = ""
        self.is_hit = False

    def feed(self, text: str) -> str:
        """The text that can be output now."""
        if self.is_hit:
            return ""
        matchers = self._matchers
        for at, char in enumerate(text):
            longest = 0
            for matcher in matchers:
                if matcher.step(char):
                    longest = max(longest, matcher.length)
            if longest:
                self.is_hit = True
                return (self.end() + text[: at + 1])[:-longest]
        shown = self._held + text
        ready = len(shown) - max((matcher.matched for matcher in matchers), default=0)
        self._held = shown[ready:]
        return shown[:ready]

    @property
    def is_holding(self) -> bool:
        """Whether some text is held back."""
        return bool(self._held)

    @property
    def place(self) -> _Place:
        """The state now."""
        return self._held, [matcher.matched for matcher in self._matchers]

    def go_back(self, place: _Place) -> None:
        """Forget what came since that state. It contained no stop string."""
        self._held, matched = place
        for matcher, count in zip(self._matchers, matched, strict=True):
            matcher.matched = count

    def end(self) -> str:
        """No more text comes, so what was held back is not a stop string."""
        held, self._held = self._held, ""
        return held


class _Matcher:
    """Knuth, Morris and Pratt: the last `matched` characters of the text are the first ones of the stop string."""

    __slots__ = ("_fallback", "_stop", "length", "matched")

    def __init__(self, stop: str) -> None:
        self._stop = stop
        self.length = len(stop)
        self.matched = 0
        self._fallback = [0] * len(stop)
        border = 0
        for at in range(1, len(stop)):
            while border and stop[at] != stop[border]:
                border = self._fallback[border - 1]
            border += stop[at] == stop[border]
            self._fallback[at] = border

    def step(self, char: str) -> bool:
        """Read one more character. Returns whether the stop string is complete."""
        matched = self.matched
        while matched and self._stop[matched] != char:
            matched = self._fallback[matched - 1]
        matched += self._stop[matched] == char
        self.matched = matched
        return matched == self.length
