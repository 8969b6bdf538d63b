"""Fast paths for known headers.

There are few headers, and they recur; short answers arrive whole. A header whose exact tokens were read before, without
faults, need not be read again, and a message with such a header that ends in the same chunk need not pass from state to
state. The events are the same; tests compare them with those of the general path. Without them, an answer of two short
messages takes three times as long (26 µs instead of 8).
"""

from __future__ import annotations

from harmonia.events import ArgumentsDelta, HeaderCompleted, MessageEnded, MessageStarted, TextDelta
from harmonia.json_codec import json_fault
from harmonia.messages import Message, Role
from harmonia.parser.headers import is_json_type
from harmonia.parser.machine import KnownHeader, Machine
from harmonia.parser.parser_state import NO_TOKENS, STOPS
from harmonia.provenance import Origin, Sampled, Span, Trust
from harmonia.vocabulary import MESSAGE, SPELLING_BY_ID, START

_START_SPELLING = SPELLING_BY_ID[START]
_MESSAGE_SPELLING = SPELLING_BY_ID[MESSAGE]


class FastPaths(Machine):
    """The machine with short cuts for known headers."""

    __slots__ = ()

    def _known_header(self, ids: list[int]) -> KnownHeader | None:
        """The known header of these tokens: from `<|start|>`, or from the end of the prompt, to `<|message|>`."""
        known: KnownHeader | None = self._tools.remembered_headers.get((self._is_completion, *ids))
        limits = self._limits
        # The first text of a stream also counts against `unmarked_chars`.
        most = limits.header_chars if self._saw_special else min(limits.header_chars, limits.unmarked_chars)
        return known if known is not None and known.chars <= most else None

    def _push_known_header(self, known: KnownHeader, ids: list[int]) -> None:
        """Read a header at once. Nothing may be held back."""
        token, char = self._token or 0, self._char
        self._saw_special = True
        self._ids = ids
        if ids[0] == START:
            self._start_at = 0
            char += len(_START_SPELLING)
            self._text_from = (token + 1, char)
        self._token = token + len(ids)
        self._char = char + known.chars + len(_MESSAGE_SPELLING)
        self._role_end = known.role_end
        self._complete_header(known.reading, (self._token, self._char))

    def _push_known_message(self, known: KnownHeader, header_ids: list[int], body_ids: list[int], stop: int) -> bool:
        """Read a message at once, if its body has no faults. Nothing may be held back.

        This is `_push_known_header`, `_push_text` and `_end_message` in one: for short answers in one chunk, the calls
        between them would take most of the time.
        """
        header = known.reading.header
        data = b"".join(map(self._token_bytes.__getitem__, body_ids))
        try:
            content = data.decode()
        except UnicodeDecodeError:
            return False
        name = STOPS[stop]
        if (
            self._source != "tokens"
            or "<|" in content
            or len(content) > self._limits.body_chars
            or (name == "call" and not header.is_call)
            or (header.is_call and is_json_type(header.content_type) and json_fault(content) is not None)
        ):
            return False
        self._saw_special = True
        token, char, index = self._token or 0, self._char, self._index
        text_token, text_char = token, char
        if header_ids[0] == START:
            text_token, text_char = token + 1, char + len(_START_SPELLING)
        body_token, body_char = token + len(header_ids), text_char + known.chars + len(_MESSAGE_SPELLING)
        stop_token, stop_char = body_token + len(body_ids), body_char + len(content)
        end_token, end_char = stop_token + 1, stop_char + len(SPELLING_BY_ID[stop])
        prompt = self._prompt_tokens
        message = Message.parsed(
            header.author,
            content,
            header.channel,
            header.recipient,
            header.content_type,
            Origin(
                "tokens",
                Trust.CERTAIN,
                name,
                Span(token, body_token, char, body_char),
                Span(body_token, stop_token, body_char, stop_char),
                (),
                header.is_forged,
            ),
            Sampled((*prompt, *header_ids, *body_ids, stop), known.role_end, len(prompt) + len(header_ids)),
        )
        events = self._events
        events.append(MessageStarted(index, token, text_token, char, text_char))
        events.append(HeaderCompleted(index, header, text_token, body_token, text_char, body_char))
        if content:
            delta = ArgumentsDelta if header.is_call else TextDelta
            events.append(delta(content, header, body_token, stop_token, body_char, stop_char))
        events.append(MessageEnded(index, name, message, stop_token, end_token, stop_char, end_char))
        self._index = index + 1
        self._token, self._char = end_token, end_char
        self._from = self._text_from = (end_token, end_char)
        self._state = "wait"
        self._given = None
        self._prompt_tokens = NO_TOKENS
        self._follows_damage = False
        if header.author.role is Role.ASSISTANT:
            self._turn.is_open = True
            self._turn.note(header, content, name)
            if name != "end":
                self._end_turn_by(name)
        return True
