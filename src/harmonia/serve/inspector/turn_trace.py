"""A turn as the model had it: the prompt that it got, and what it sampled after that, as one list of tokens.

1. The prompt is the one that a run of this request starts with: read, composed and rendered by the same functions.
   Nothing is sampled, and no call is run.
2. Items that the server made become the tokens they were sampled as, if it can vouch for them; all others become what
   they say, written canonically.
3. If the operator hides reasoning, no message is shown that the client has not seen (law 7): what is neither visible
   nor a call that was delivered is left out, in the prompt as well, and so is the result of such a call. How much was
   left out is counted.
4. Output that was malformed, or given up and sampled again, is shown as it was sampled, if the client has that sealed
   and reasoning is shown: then the faults are where the model made them, not repaired. It never becomes part of a
   prompt.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Final, Protocol

from harmonia.errors import ErrorCode, InputError
from harmonia.history import DOCUMENTED, prepare
from harmonia.messages import Conversation, Json, Message, Role
from harmonia.parts import is_visible
from harmonia.renderer import Renderer
from harmonia.run.events import AsSampled
from harmonia.serve.inspector.request import SampledEntry
from harmonia.serve.responses.conversation import read_entries
from harmonia.serve.responses.prepared_request import Backend, PreparedRequest, ReplayedTurn
from harmonia.serve.responses.request import read_request
from harmonia.serve.security.keys import Caller
from harmonia.serve.wire.validation import too_large
from harmonia.serve.wire.work_limits import placed
from harmonia.vocabulary import RETURN, default_vocabulary

_KNOWN_FAULTS: Final = frozenset(code.value for code in ErrorCode)


@dataclass(frozen=True, slots=True)
class RenderedTurn:
    """The first `prompt_tokens` tokens are the prompt, `<|start|>assistant` included. `left_out` messages, which had
    `left_out_tokens`, are hidden. `faults` are the codes of the faults in the model's output; `notes` explain what is
    not shown of it."""

    tokens: list[int]
    prompt_tokens: int
    left_out: int = 0
    left_out_tokens: int = 0
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class RenderTurn(Protocol):
    """`TurnTraces.render`: a request and its answer as tokens."""

    async def __call__(
        self, caller: Caller, request: Json, output: Sequence[Json], sampled: Sequence[SampledEntry] = ()
    ) -> RenderedTurn: ...


@dataclass(frozen=True, slots=True)
class _RawSampling:
    """A sampling as it came, and the items that stand for it."""

    first: int
    end: int
    raw: AsSampled

    @property
    def tokens(self) -> Sequence[int]:
        # A text is encoded as the parser read it: spellings are control tokens. This is for looking at only.
        return self.raw.tokens or default_vocabulary().encode(self.raw.text, special="all")


class TurnTraces:
    """Renders turns with what responses are made with."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def render(
        self, caller: Caller, request: Json, output: Sequence[Json], sampled: Sequence[SampledEntry] = ()
    ) -> RenderedTurn:
        """The turn in which this request was answered with these items. Raises if the request is wrong."""
        settings, renderer = self._backend.settings, self._backend.served.renderer
        most = settings.limits.items
        for name, given in (("output", output), ("sampled", sampled)):
            if len(given) > most:
                too_large(f"{name} has more than {most} items", f"$.{name}")
        hides = settings.analysis == "hidden"

        def render(prepared: PreparedRequest) -> RenderedTurn:
            raw = [] if hides else self._open(sampled, caller)
            turn = _render(prepared.replay(entries), renderer, raw, hides=hides)
            faults = tuple(fault for entry in sampled for fault in entry.faults if fault in _KNOWN_FAULTS)
            return replace(turn, faults=faults, notes=_notes(sampled, raw, hides=hides))

        entries = await asyncio.to_thread(read_entries, output, "$.output")
        async with AsyncExitStack() as stack:
            try:
                prepared = await PreparedRequest(read_request(request), caller, self._backend).read(stack)
                return await asyncio.to_thread(render, prepared)  # both may be long
            except InputError as error:
                path = error.at.path
                if path is None or path.startswith(("$.output", "$.sampled")):
                    raise
                # Here the request is a part of the body.
                raise placed(error, f"$.request{path.removeprefix('$')}") from error

    def _open(self, sampled: Sequence[SampledEntry], caller: Caller) -> list[_RawSampling]:
        seals = self._backend.seals_of(caller)
        opened: list[_RawSampling] = []
        for at, entry in enumerate(sampled):
            if entry.encrypted_content is not None:
                raw = seals.open_sampled(entry.encrypted_content, f"$.sampled[{at}].encrypted_content")
                opened.append(_RawSampling(entry.first_item, entry.first_item + entry.items, raw))
        return sorted(opened, key=lambda each: each.first)


def _notes(sampled: Sequence[SampledEntry], raw: Sequence[_RawSampling], *, hides: bool) -> tuple[str, ...]:
    if not sampled:
        return ()
    happened = dict.fromkeys(
        "malformed and repaired" if entry.unmet is None else "given up and sampled again" for entry in sampled
    )
    was = f"output of the model was {' and '.join(happened)}"
    if hides:
        return (f"{was}; its tokens are hidden, because they may contain reasoning",)
    notes = [f"{was}; it is shown as it was sampled"] if raw else []
    if len(raw) < len(sampled):
        notes.append("some of that was too long to be kept as sampled: only the items it led to are shown")
    if any(each.raw.text for each in raw):
        notes.append("the engine gives text: these are the tokens of that text")
    return tuple(notes)


def _render(turn: ReplayedTurn, renderer: Renderer, raw: Sequence[_RawSampling], *, hides: bool) -> RenderedTurn:
    shown: list[int] = []
    left_out: list[int] = []  # the number of tokens of each message that is hidden

    def add(message: Message, tokens: Sequence[int]) -> None:
        if hides and _is_hidden(message, turn.delivered):
            left_out.append(len(tokens))
        else:
            shown.extend(tokens)

    for message, tokens in _rendered(prepare(turn.conversation, DOCUMENTED).conversation, renderer):
        add(message, tokens)
    opening = renderer.render([]).tokens  # <|start|>assistant
    prefix = turn.prefix
    begins: Sequence[int] = opening
    if prefix is not None and not (hides and _is_hidden(prefix, turn.delivered)):
        begins = renderer.render([prefix], None).tokens[:-1]
    prompt_tokens = len(shown) + len(begins)
    waiting = deque(raw)
    end = 0  # of the items that the raw samplings so far stand for

    def add_raw(until: int | None) -> None:
        nonlocal end
        while waiting and (until is None or waiting[0].first <= until):
            each = waiting.popleft()
            # One that continues the sampling just added needs no opening.
            continues = each.raw.given and each.first < end
            shown.extend(each.tokens if continues else [*opening, *each.raw.given, *each.tokens])
            end = max(end, each.end)

    for message, tokens in _rendered(Conversation(turn.output), renderer):
        item = turn.items.get(id(message))
        if message.role is Role.ASSISTANT and item is not None:
            add_raw(item)
            if item < end:
                continue
        # A message that the model did not continue has no end.
        add(message, begins if message is prefix else _as_sampled(message, tokens))
    add_raw(None)
    if len(shown) < prompt_tokens:
        shown.extend(begins)  # nothing came, or nothing that is shown
    return RenderedTurn(shown, prompt_tokens, len(left_out), sum(left_out))


def _rendered(conversation: Conversation, renderer: Renderer) -> Iterator[tuple[Message, list[int]]]:
    rendered = renderer.render(conversation, None)
    for message, span in zip(conversation, rendered.spans, strict=True):
        yield message, rendered.tokens[span.start_token : span.end_token]


def _as_sampled(message: Message, tokens: list[int]) -> Sequence[int]:
    """With the stop that was sampled, or without one if the message was cut off: history has another stop."""
    if message.sampled is not None:
        return message.sampled.tokens
    if message.origin is not None and message.origin.stop == "return":
        return [*tokens[:-1], RETURN]
    return tokens


def _is_hidden(message: Message, delivered: Mapping[int, Message]) -> bool:
    match message.role:
        case Role.ASSISTANT:
            return id(message) not in delivered and not is_visible(message)
        case Role.TOOL:
            return message.answers is None or id(message.answers) not in delivered
        case _:
            return False
