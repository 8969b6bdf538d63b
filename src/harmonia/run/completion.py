"""One completion while it arrives: chunks to events, and what of it may enter the history.

1. What an engine sends is read by the one parser, tolerantly: a fault of the model's is a diagnostic, never a crash.
2. Where the engine says that a stop token ended the completion, and keeps the token to itself, it is put back; which it
   was follows from whom the message is addressed to. A call that lost only that is as certain as any other.
3. Messages of another role than the assistant's never enter the history, nor do calls that were cut off, nor what could
   not be rendered again. They are reported as left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harmonia.errors import InputError
from harmonia.events import Event, MessageEnded, TurnEnded
from harmonia.messages import Message, Role
from harmonia.parser import Parser, Tools
from harmonia.parser.tools import is_tool_address
from harmonia.parts import visible_text
from harmonia.provenance import Stop
from harmonia.renderer import Renderer
from harmonia.renderer.rendered import text_of
from harmonia.run.engines.engine import FinishReason
from harmonia.vocabulary import CALL, RETURN, SPELLING_BY_ID


class Completion:
    """What the model says in one sampling. An upstream's events are those of the parser already; an engine's chunks go
    through one.

    `given` are the tokens of a message that the prompt began, behind `<|start|>assistant`: the message goes on, and the
    caller knows its beginning. An engine that gives text got them as text, too.
    """

    __slots__ = ("_given", "_is_upstream", "_one_call", "_parser", "feed", "hidden_because", "is_over", "messages")

    def __init__(
        self,
        tools: Tools,
        given: Sequence[int] = (),
        *,
        is_text: bool = False,
        is_upstream: bool = False,
        one_call: bool = False,
    ) -> None:
        self._parser = Parser(Role.ASSISTANT, tools=tools)
        # The run calls it for every chunk, and hands the events on that `note` has to see.
        self.feed: Final = self._parser.feed
        self.messages: list[Message] = []
        self.hidden_because: str | None = None
        self.is_over = False
        self._is_upstream = is_upstream
        self._one_call = one_call
        self._given = len(given)
        if given:
            self.feed(text_of(given, ambiguous="escape") if is_text else given)

    @property
    def sampled_tokens(self) -> int:
        """How many tokens came; none where the engine speaks text."""
        return max(self._parser.token_count - self._given, 0)

    def note(self, event: MessageEnded | TurnEnded) -> None:
        """Keep what is to be kept."""
        if isinstance(event, MessageEnded):
            self.messages.append(event.message)
        else:
            self.hidden_because = event.hidden_because
            # <|return|> hands over for good. Behind <|call|> an engine may let the model make another call.
            self.is_over = event.stop == "return" or (self._one_call and event.stop == "call")

    def end(self, reason: FinishReason | None) -> list[Event]:
        """What happens because no more comes. `reason` is None where it was cut off on this side, or broke."""
        if self.is_over:
            return []  # what stands behind <|return|> in the same chunk is no part of the answer
        if self._is_upstream:
            # Its messages have ended; that the turn has, and what there is to see, is left to say.
            self._is_upstream = False
            event = TurnEnded(_stop_of(self.messages), why_hidden(self.messages))
            self.note(event)
            return [event]
        parser = self._parser
        events: list[Event] = []
        header = parser.header
        if reason == "stop" and header is not None:
            stop = CALL if header.is_call else RETURN
            events += parser.feed(stop if parser.reads_tokens else SPELLING_BY_ID[stop])
        events += parser.close()
        for event in events:
            if isinstance(event, MessageEnded | TurnEnded):
                self.note(event)
        return events


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
    messages: Sequence[Message], renderer: Renderer, *, is_cut: bool
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """What enters the history, and what is left out. `is_cut` says that the last message may lack its end."""
    kept: list[Message] = []
    left_out: list[Message] = []
    for message in messages:
        (kept if _may_stay(message, renderer, is_cut=is_cut) else left_out).append(message)
    return tuple(kept), tuple(left_out)


def _may_stay(message: Message, renderer: Renderer, *, is_cut: bool) -> bool:
    origin = message.origin
    if message.role is not Role.ASSISTANT or (origin is not None and origin.forged):
        return False
    is_whole = origin is None or origin.stop is not None
    # A call that was cut off is no call, and a header that was cut off is no text.
    if is_cut and not is_whole and (is_tool_address(message.recipient) or message.channel is None):
        return False
    if message.sampled is not None:
        return True  # it is rendered as it was sampled
    try:
        renderer.render([message], None)
    except InputError:
        return False
    return True
