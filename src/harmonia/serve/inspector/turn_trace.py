"""A turn as the model had it: the prompt that it got, and what it sampled behind that, as one list of tokens.

1. The prompt is the one that a run of this request begins with: read, composed and rendered by the same functions.
   Nothing is sampled, and no call is run.
2. Items that the server made are the tokens they were sampled as, where it can vouch for them; all others are what was
   said, written canonically.
3. Where the operator hides reasoning, no message is in it that the client was not shown (law 7): what is neither
   visible nor a call that was handed over is left out, in the prompt as well, and so is what such a call was told. How
   much that was is counted.
4. Output that was damaged, or given up and asked for again, is shown as it was sampled, where the client has that
   sealed and reasoning is shown: then the faults are where the model made them, and not mended. It is looked at, and
   never asked with.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.history import DOCUMENTED, prepare
from harmonia.messages import Conversation, Json, Message, Role
from harmonia.parts import is_visible
from harmonia.renderer import Renderer
from harmonia.renderer.result import text_of
from harmonia.run.events import AsSampled
from harmonia.serve.inspector.request import SampledEntry
from harmonia.serve.responses.context import PreparedRequest, ReplayedTurn
from harmonia.serve.responses.conversation import read_entries
from harmonia.serve.responses.request import read_request
from harmonia.serve.security.identity import Caller
from harmonia.vocabulary import RETURN, default_vocabulary

if TYPE_CHECKING:
    from harmonia.serve.service import Service

_KNOWN_FAULTS: Final = frozenset(code.value for code in ErrorCode)


@dataclass(frozen=True, slots=True)
class RenderedTurn:
    """`prompt_tokens` of the tokens are the prompt, `<|start|>assistant` included. `left_out` messages, which had
    `left_out_tokens`, are hidden here. `faults` are the codes of those that the model's output had; `notes` say what
    is not shown of it."""

    tokens: list[int]
    prompt_tokens: int
    left_out: int = 0
    left_out_tokens: int = 0
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The tokens as text with the special ones spelled out; what somebody typed that spells one is escaped."""
        return text_of(self.tokens, ambiguous="escape")


@dataclass(frozen=True, slots=True)
class _Damaged:
    """A sampling as it came, and the items that stand for it."""

    first: int
    end: int
    raw: AsSampled

    @property
    def tokens(self) -> Sequence[int]:
        # Of a text it is told what a model's vocabulary would make of it: spellings are control tokens, as the parser
        # took them. This is looked at only.
        return self.raw.tokens or default_vocabulary().encode(self.raw.text, special="all")


async def render_turn(
    service: Service, caller: Caller, request: Json, output: Sequence[Json], sampled: Sequence[SampledEntry] = ()
) -> RenderedTurn:
    """The turn in which this request was answered with these items. Raises where the request could not be asked."""
    most = service.settings.limits.items
    for name, given in (("output", output), ("sampled", sampled)):
        if len(given) > most:
            raise InputError(ErrorCode.SERVE_TOO_LARGE, f"there are more than {most} items", Position(path=f"$.{name}"))
    hides = service.settings.analysis == "hidden"

    def render(asked: PreparedRequest) -> RenderedTurn:
        damaged = [] if hides else _open(sampled, caller, service)
        turn = _render(asked.follow(entries), service.renderer, damaged, hides=hides)
        faults = tuple(fault for entry in sampled for fault in entry.faults if fault in _KNOWN_FAULTS)
        return replace(turn, faults=faults, notes=_notes(sampled, damaged, hides=hides))

    entries = await asyncio.to_thread(read_entries, output, "$.output")
    async with AsyncExitStack() as stack:
        try:
            asked = await PreparedRequest.read(read_request(request), caller, service, stack)
            return await asyncio.to_thread(render, asked)  # both may be long
        except InputError as error:
            raise _placed(error) from error


def _placed(error: InputError) -> InputError:
    """The same error; the request is part of the body here."""
    path = error.at.path
    if path is None or path.startswith(("$.output", "$.sampled")):
        return error
    at = msgspec.structs.replace(error.at, path=f"$.request{path.removeprefix('$')}")
    return InputError(error.code, error.message, at)


def _open(sampled: Sequence[SampledEntry], caller: Caller, service: Service) -> list[_Damaged]:
    opened: list[_Damaged] = []
    for at, entry in enumerate(sampled):
        if entry.encrypted_content is not None:
            place = Position(path=f"$.sampled[{at}].encrypted_content")
            raw = service.seals.open_sampled(
                entry.encrypted_content, owner=caller.owner, model=service.model_names[0], at=place
            )
            opened.append(_Damaged(entry.first_item, entry.first_item + entry.items, raw))
    return sorted(opened, key=lambda each: each.first)


def _notes(sampled: Sequence[SampledEntry], damaged: Sequence[_Damaged], *, hides: bool) -> tuple[str, ...]:
    if not sampled:
        return ()
    happened = dict.fromkeys(
        "damaged and mended" if entry.unmet is None else "given up and asked for again" for entry in sampled
    )
    was = f"output of the model's was {' and '.join(happened)}"
    if hides:
        return (f"{was}; the tokens as sampled are hidden here, because they may have reasoning in them",)
    notes = [f"{was}; it is shown as it was sampled"] if damaged else []
    if len(damaged) < len(sampled):
        notes.append("some of that was too long to be kept as sampled: only what became of it is shown")
    if any(each.raw.text for each in damaged):
        notes.append("the engine gives text: the tokens of what was sampled are those of its text")
    return tuple(notes)


class _Pieces:
    """Collects the tokens of messages, and counts those that stay away."""

    def __init__(self, handed: Mapping[int, Message], *, hides: bool) -> None:
        self.tokens: list[int] = []
        self.left_out = 0
        self.left_out_tokens = 0
        self._handed = handed
        self._hides = hides

    def add(self, message: Message, tokens: Sequence[int]) -> None:
        if self._hides and _is_hidden(message, self._handed):
            self.left_out += 1
            self.left_out_tokens += len(tokens)
        else:
            self.tokens += tokens


def _render(
    followed: ReplayedTurn, renderer: Renderer, damaged: Sequence[_Damaged] = (), *, hides: bool
) -> RenderedTurn:
    pieces = _Pieces(followed.handed, hides=hides)
    for message, tokens in _rendered(prepare(followed.conversation, DOCUMENTED).conversation, renderer):
        pieces.add(message, tokens)
    opening = renderer.render([]).tokens  # <|start|>assistant
    begun = followed.begun
    begins: Sequence[int] = opening
    if begun is not None and not (hides and _is_hidden(begun, followed.handed)):
        begins = renderer.render([begun], None).tokens[:-1]
    prompt_tokens = len(pieces.tokens) + len(begins)
    waiting = deque(damaged)
    end = 0  # of the items that what was put in stands for

    def put_in(until: int | None) -> None:
        nonlocal end
        while waiting and (until is None or waiting[0].first <= until):
            each = waiting.popleft()
            # One that goes on with what was just put in needs no beginning.
            goes_on = each.raw.given and each.first < end
            pieces.tokens += each.tokens if goes_on else [*opening, *each.raw.given, *each.tokens]
            end = max(end, each.end)

    for message, tokens in _rendered(Conversation(followed.said), renderer):
        item = followed.items.get(id(message))
        if message.role is Role.ASSISTANT and item is not None:
            put_in(item)
            if item < end:
                continue
        # One that the model did not go on with has no end.
        pieces.add(message, begins if message is begun else _as_sampled(message, tokens))
    put_in(None)
    if len(pieces.tokens) < prompt_tokens:
        pieces.tokens += begins  # nothing came, or nothing that is shown
    return RenderedTurn(pieces.tokens, prompt_tokens, pieces.left_out, pieces.left_out_tokens)


def _rendered(conversation: Conversation, renderer: Renderer) -> Iterator[tuple[Message, list[int]]]:
    rendered = renderer.render(conversation, None)
    for message, span in zip(conversation, rendered.spans, strict=True):
        yield message, rendered.tokens[span.start_token : span.end_token]


def _as_sampled(message: Message, tokens: list[int]) -> Sequence[int]:
    """With the stop that was sampled, or with none where the message was cut off: in history these are another's."""
    if message.sampled is not None:
        return message.sampled.tokens
    if message.origin is not None and message.origin.stop == "return":
        return [*tokens[:-1], RETURN]
    return tokens


def _is_hidden(message: Message, handed: Mapping[int, Message]) -> bool:
    match message.role:
        case Role.ASSISTANT:
            return id(message) not in handed and not is_visible(message)
        case Role.TOOL:
            return message.answers is None or id(message.answers) not in handed
        case _:
            return False
