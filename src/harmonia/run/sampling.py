"""One completion while it arrives: chunks to events, and what of it may enter the history.

1. What an engine sends is read by the one parser, tolerantly: a fault of the model's is a diagnostic, never a crash.
2. Where the engine says that a stop token ended the completion, and keeps the token to itself, it is put back; which it
   was follows from whom the message is addressed to. A call that lost only that is as certain as any other.
3. A text that was cut off keeps the tokens that it was sampled as: it renders as these and an end, and another
   completion can go on with it.
4. Messages of another role than the assistant's never enter the history, nor do calls that were cut off, nor what could
   not be rendered again. They are reported as left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Final, cast

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.events import Event, MessageEnded, Repaired, TurnEnded
from harmonia.messages import Message, Role
from harmonia.parser import Parser, Tools
from harmonia.parser.tools import is_tool_address
from harmonia.parts import GuessedAsFinal, visible_text
from harmonia.provenance import Sampled, Stop
from harmonia.renderer import Renderer
from harmonia.renderer.renderer import text_of
from harmonia.run.engines.base import Chunk, FinishReason
from harmonia.run.events import AsSampled, LogprobsGiven
from harmonia.vocabulary import CALL, RETURN, SPELLING_BY_ID

if TYPE_CHECKING:
    from harmonia.families.registry import Reader

_OUTSIDE_MESSAGES: Final = "stream."
# Some of what an engine sends: a token, tokens, or text.
_Piece = int | Sequence[int] | str


class Completion:
    """What the model says in one sampling. a provider's events are those of the parser already; an engine's chunks go
    through one.

    `given` are the tokens of a message that the prompt began, behind `<|start|>assistant`: the message goes on, and the
    caller knows its beginning. An engine that gives text got them as text, too. `keeps` what the engine sends, for
    `as_sampled`. A `reader` takes the parser's place where the model does not speak Harmony. With `shows_guessed`, text
    that is a guess, and may be the answer, is shown.
    """

    __slots__ = (
        "_doubted",
        "_given",
        "_guesses",
        "_has_turn_ended",
        "_is_closed",
        "_is_provider",
        "_kept",
        "_late",
        "_one_call",
        "_parser",
        "_read",
        "_reader",
        "feed",
        "hidden_because",
        "is_over",
        "messages",
        "opening",
    )

    def __init__(
        self,
        tools: Tools,
        given: Sequence[int] = (),
        *,
        is_text: bool = False,
        is_provider: bool = False,
        one_call: bool = False,
        keeps: bool = False,
        reader: Reader | None = None,
        shows_guessed: bool = False,
    ) -> None:
        self._parser = Parser(Role.ASSISTANT, tools=tools)
        self._reader = reader
        # The reader of another family takes text, and its engines give nothing else.
        read = self._parser.feed if reader is None else self._read_text
        self._doubted: list[int] = []
        self._read: Final[Callable[[_Piece], list[Event]]] = read
        self._guesses = GuessedAsFinal() if shows_guessed else None
        self._kept: list[_Piece] | None = [] if keeps and not is_provider else None
        self._late: list[ErrorCode] = []
        self._is_closed = False
        self._has_turn_ended = False
        # The run calls it for every chunk, and hands the events on that `note` has to see.
        feed = self._read if self._kept is None and self._guesses is None else self._feed_and_keep
        self.feed: Final[Callable[[_Piece], list[Event]]] = feed
        self.messages: list[Message] = []
        self.hidden_because: str | None = None
        self.is_over = False
        self._is_provider = is_provider
        self._one_call = one_call
        self._given = tuple(given)
        # The events of what the prompt began, for a run that began it itself.
        self.opening: list[Event] = []
        if given:
            self.opening = self._show(self._parser.feed(text_of(given, ambiguous="escape") if is_text else given))

    @property
    def sampled_tokens(self) -> int:
        """How many tokens came; none where the engine speaks text."""
        return max(self._parser.token_count - len(self._given), 0)

    def join_logprobs(self, chunk: Chunk) -> LogprobsGiven:
        """The log-probabilities of the tokens of a chunk that is about to be fed. Each belongs to the token whose id it
        has: an engine that sends too many, or others, must not put hidden tokens beside visible ones."""
        if not chunk.tokens:
            return LogprobsGiven(chunk.logprobs)
        pairs = takewhile(lambda pair: pair[0] == pair[1].token, zip(chunk.tokens, chunk.logprobs, strict=False))
        return LogprobsGiven(tuple(entry for _, entry in pairs), self.sampled_tokens)

    @property
    def as_sampled(self) -> AsSampled | None:
        """What the engine sent; None where nobody asked for it to be kept."""
        if self._kept is None:
            return None
        tokens: list[int] = []
        texts: list[str] = []
        for chunk in self._kept:
            if isinstance(chunk, int):
                tokens.append(chunk)
            elif isinstance(chunk, str):
                texts.append(chunk)
            else:
                tokens += chunk
        return AsSampled(tuple(tokens), "".join(texts), self._given, tuple(self._late))

    def note_late(self, events: Sequence[Event], chunk: _Piece = ()) -> None:
        """The engine went on behind `<|return|>`. It is no part of the answer, but whoever looks at what was sampled
        wants to see it. `events` are those of the chunk that ended the turn, `chunk` is one that came later."""
        if self._kept is not None and _stop_of(self.messages) == "return":
            self._collect([*events, *self.feed(chunk)])

    def _collect(self, events: Sequence[Event]) -> None:
        codes = (event.diagnostic.code for event in events if isinstance(event, Repaired))
        # It was stopped, perhaps within a header: what it did not come to is no fault.
        self._late += [code for code in codes if code.value.startswith(_OUTSIDE_MESSAGES)]

    def _read_text(self, chunk: _Piece) -> list[Event]:
        assert self._reader is not None
        events = self._reader.feed(cast("str", chunk))
        self._note_doubts(events)
        return events

    def _note_doubts(self, events: Sequence[Event]) -> None:
        from harmonia.families.reader import doubted_call  # loaded already, where there is a reader

        self._doubted += [index for event in events if (index := doubted_call(event)) is not None]

    def _feed_and_keep(self, chunk: _Piece) -> list[Event]:
        if self._kept is not None:
            self._kept.append(chunk)
        return self._show(self._read(chunk))

    def _show(self, events: list[Event]) -> list[Event]:
        return events if self._guesses is None else self._guesses.feed(events)

    def note(self, event: MessageEnded | TurnEnded) -> None:
        """Keep what is to be kept."""
        if isinstance(event, MessageEnded):
            self.messages.append(event.message)
            # Other families and providers have no token that hands over for a call, and a model that means to make
            # another one ends the first with <|end|>. Where <|call|> ends it, the end of the turn follows.
            is_handed = self._reader is not None or self._is_provider or event.stop == "end"
            if self._one_call and is_handed and is_tool_address(event.message.recipient):
                self.is_over = True
        else:
            self._has_turn_ended = True
            self.hidden_because = event.hidden_because
            # <|return|> hands over for good. Behind <|call|> an engine may let the model make another call.
            self.is_over = self.is_over or event.stop == "return" or (self._one_call and event.stop == "call")

    def end(self, reason: FinishReason | None) -> list[Event]:
        """What happens because no more comes. `reason` is None where it was cut off on this side, or broke."""
        if self._reader is not None:
            return self._end_reading(self._reader, reason)
        if self.is_over:
            # What stands behind <|return|> in the same chunk is no part of the answer.
            if self._kept is not None and not self._is_closed and _stop_of(self.messages) == "return":
                self._is_closed = True
                self._collect(self._parser.close())
            if self._has_turn_ended:
                return []
        if self.is_over or self._is_provider:
            # The messages have ended; that the turn has, and what there is to see, is left to say.
            self._is_provider = False
            event = TurnEnded(_stop_of(self.messages), why_hidden(self.messages))
            self.note(event)
            return [event]
        parser = self._parser
        events: list[Event] = []
        header = parser.header
        if reason == "stop" and header is not None:
            stop = CALL if header.is_call else RETURN
            events += self.feed(stop if parser.reads_tokens else SPELLING_BY_ID[stop])
        # A text that was cut off may be gone on with, as the tokens that it was. A call that was cut off is none.
        begun = None if header is None or header.is_call else parser.sampled_so_far
        events += self._show(parser.close())
        if begun is not None:
            events = [_as_begun(event, begun) if isinstance(event, MessageEnded) else event for event in events]
        for event in events:
            if isinstance(event, MessageEnded | TurnEnded):
                self.note(event)
        return events

    def _end_reading(self, reader: Reader, reason: FinishReason | None) -> list[Event]:
        if self._is_closed:
            return []
        self._is_closed = True
        # What follows the one call that was asked for is no part of the answer.
        events: list[Event] = []
        last: list[Event] = [TurnEnded(None)] if self.is_over else reader.close()
        self._note_doubts(last)
        for event in self._show(last):
            if isinstance(event, MessageEnded):
                event = _as_ended(event) if reason == "stop" else event
                self.note(event)
            elif isinstance(event, TurnEnded):
                event = msgspec.structs.replace(event, stop=_stop_of(self.messages))
                self.note(event)
            events.append(event)
        self._doubt_calls()
        return events

    def _doubt_calls(self) -> None:
        """What came later made guesses of these calls."""
        from harmonia.families.reader import as_doubted

        for index in self._doubted:
            if index < len(self.messages):
                self.messages[index] = as_doubted(self.messages[index])


def _as_begun(event: MessageEnded, begun: Sampled) -> MessageEnded:
    """The end of a message that has none, with what was sampled of it: only that was mended."""
    message = event.message
    if event.stop is not None or message.origin is None:
        return event
    kept = Message.parsed(
        message.author,
        message.text,
        message.channel,
        message.recipient,
        message.content_type,
        message.origin,
        begun,
    )
    return msgspec.structs.replace(event, message=kept)


def _as_ended(event: MessageEnded) -> MessageEnded:
    """The last message of another family's model, whose turn has ended: with it the message has, unless it is known to
    lack something."""
    message, origin = event.message, event.message.origin
    if event.stop is not None or origin is None or ErrorCode.FAMILY_UNCLOSED in origin.faults:
        return event
    stop: Stop = "call" if is_tool_address(message.recipient) else "return"
    whole = Message.parsed(
        message.author,
        message.text,
        message.channel,
        message.recipient,
        message.content_type,
        msgspec.structs.replace(origin, stop=stop),
        None,
    )
    return msgspec.structs.replace(event, stop=stop, message=whole)


def why_hidden(messages: Sequence[Message]) -> str | None:
    """Why there is nothing to show and nothing to call in these; None where there is something."""
    if visible_text(messages) or any(is_tool_address(message.recipient) for message in messages):
        return None
    channels = sorted({str(message.channel) for message in messages if message.text.strip()})
    return f"there is only text on {', '.join(channels)}" if channels else "there is no text"


def _stop_of(messages: Sequence[Message]) -> Stop | None:
    origin = messages[-1].origin if messages else None
    return None if origin is None else origin.stop


def sort_out(
    messages: Sequence[Message], renderer: Renderer | None, *, is_cut: bool
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """What enters the history, and what is left out. `is_cut` says that the last message may lack its end. Without a
    renderer it does not matter whether Harmony could write it."""
    kept: list[Message] = []
    left_out: list[Message] = []
    for message in messages:
        (kept if _may_stay(message, renderer, is_cut=is_cut) else left_out).append(message)
    return tuple(kept), tuple(left_out)


def _may_stay(message: Message, renderer: Renderer | None, *, is_cut: bool) -> bool:
    origin = message.origin
    if message.role is not Role.ASSISTANT or (origin is not None and origin.forged):
        return False
    is_whole = origin is None or origin.stop is not None
    # A call that was cut off is no call, and a header that was cut off is no text.
    if is_cut and not is_whole and (is_tool_address(message.recipient) or message.channel is None):
        return False
    if message.sampled is not None or renderer is None:
        return True  # it is rendered as it was sampled, or written as text
    try:
        renderer.render([message], None)
    except InputError:
        return False
    return True
