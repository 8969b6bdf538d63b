"""A request for a response, read: what the model will get, and what is kept of the request.

previous_response_id -> stored turns ─┐
input, instructions, tools ───────────┴─> conversation, tools, choice
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from harmonia.errors import EngineError, ErrorCode, InputError, Position
from harmonia.grammar.json_schema.emptiness import fits_nothing
from harmonia.history import DOCUMENTED, fit
from harmonia.json_codec import encode_bytes
from harmonia.messages import Conversation, Json, Message, Role, SystemContent
from harmonia.run.families.engine import ProfiledEngine
from harmonia.run.prompt import build, compose
from harmonia.run.tools import ToolResult
from harmonia.run.worker_pool import SHARE, in_worker
from harmonia.serve.models.server_tools import ServerTool
from harmonia.serve.responses.conversation import Entry, Reading, Waiting, additional_tools, read_entries
from harmonia.serve.responses.items import (
    SLUG,
    Item,
    ItemReference,
    McpCall,
    McpListTools,
    MessageItem,
    read_item,
    texts_of,
)
from harmonia.serve.responses.request import CreateResponse
from harmonia.serve.responses.tool_choice import Chosen, read_choice
from harmonia.serve.responses.tools import Offer, read_tools, remote_servers
from harmonia.serve.security.identity import Caller, new_id
from harmonia.serve.security.sealed_content import UNBOUND, expires_at, is_unbound
from harmonia.serve.store import StoredItem
from harmonia.serve.wire.custom_formats import check_forms
from harmonia.serve.wire.request_warnings import RequestWarnings
from harmonia.serve.wire.schema_limits import SchemaBudget
from harmonia.serve.wire.trusted_messages import read_messages, write_messages
from harmonia.serve.wire.validation import invalid, unsupported

if TYPE_CHECKING:
    from harmonia.serve.service import Service

_VERBOSITY: Final = {"low": "Keep the answer short.", "high": "Answer at length and in detail."}
# Items that stand for a call. One that was cut off is none.
_CALLS: Final = ("function_call", "custom_tool_call", "mcp_call")
_PREVIOUS: Final = "$.previous_response_id"


class ReplayedTurn(msgspec.Struct, frozen=True):
    """A request and its answer as messages: the conversation as the run composed it, and what the model said and was
    told behind it. `begun` is the message that the model went on with; then the first of `said` is that, and more.
    `handed` has, by their identities, the calls that the client knows of; `items` has for messages of `said` which item
    of the answer each comes from."""

    conversation: Conversation
    begun: Message | None
    said: tuple[Message, ...]
    handed: Mapping[int, Message]
    items: Mapping[int, int]


class PreparedRequest:
    """A request, read. `conversation` is what the run begins with; `inputs` is what the store keeps; `warnings` say
    what of it was left out."""

    def __init__(
        self,
        service: Service,
        request: CreateResponse,
        caller: Caller,
        past: list[Entry],
        fresh: list[Entry],
        given: list[Json],
        offer: Offer,
        hosted: Sequence[ServerTool],
        warnings: RequestWarnings,
    ) -> None:
        self.request = request
        self.caller = caller
        self.model = service.known_model(request.model)
        self.offer = offer
        self.hosted = hosted
        self.chosen: Chosen = read_choice(request.tool_choice, offer)
        self.waiting: list[Waiting] = []
        self.written: Mapping[int, Message] = {}  # messages that the client wrote itself, by their identities
        self._service = service
        self._seals = _CallersSeals(service, caller.owner)
        self._entries = [*past, *fresh]
        self._instructions = _instructions(request, warnings)
        self.conversation = Conversation()
        self.begun: Message | None = None  # the message at its end that the model is to go on with
        self.begun_tokens = 0  # of it, behind `<|start|>assistant`
        reading = self._converse({})
        self.warnings = [*offer.warnings, *warnings.texts, *reading.warnings.texts]
        # They are kept opened, because seals expire.
        fresh = [
            msgspec.structs.replace(each, messages=reading.unsealed.get(each.path, each.messages)) for each in fresh
        ]
        self._entries = [*past, *fresh]
        self.inputs = _stored_inputs(given, fresh)

    @classmethod
    async def read(
        cls, request: CreateResponse, caller: Caller, service: Service, stack: AsyncExitStack
    ) -> PreparedRequest:
        """Everything about the request that can be wrong by itself shows here. The stack closes what was opened."""
        service.known_model(request.model)
        schemas = SchemaBudget(service.settings.limits)
        SHARE.set(caller.owner)
        if request.response_format is not None:
            await in_worker(partial(_check_format, request, schemas))
        if request.harmonia_continue and service.traits is None:
            unsupported(
                "the provider behind this server takes messages, and cannot go on within one", "$.harmonia_continue"
            )
        if request.harmonia_continue and isinstance(service.model, ProfiledEngine):
            unsupported("only a model that speaks Harmony goes on within a message", "$.harmonia_continue")
        most = service.settings.limits.items
        given = request.input if request.input is not None else []
        if len(given) > most and not isinstance(given, str):
            raise InputError(ErrorCode.SERVE_TOO_LARGE, f"there are more than {most} items", Position(path="$.input"))
        if isinstance(given, str):
            given = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": given}]}]
        warnings = RequestWarnings()
        fresh, given = await _resolve(read_entries(given, "$.input", warnings), given, caller, service)
        past = await _chain(request.previous_response_id, caller, service)
        tools = request.tools or []
        remote = await service.connect_remote(remote_servers(tools), stack)
        for each in remote:
            await in_worker(partial(schemas.admit, each.tool.parameters, "$.tools"))
        hosted = (*service.tools, *remote)
        lists = [*additional_tools(past), ("$.tools", tools), *additional_tools(fresh)]
        read = partial(read_tools, lists, hosted, service.settings.limits, schemas)
        offer = await in_worker(read) if any(given for _, given in lists) else read()
        if offer.forms:
            await in_worker(partial(check_forms, offer.forms))
        asked = cls(service, request, caller, past, fresh, given, offer, hosted, warnings)
        if asked.begun is not None:
            asked.begun_tokens = await asyncio.to_thread(asked._count_begun, asked.begun)  # it may be long
            context = None if service.traits is None else service.traits.context_tokens
            if context is not None and asked.begun_tokens >= context:
                # The engine would say so, too, when all of it had been read again to go on with it.
                told = f"the message to go on with has {asked.begun_tokens} tokens; the context has {context}"
                raise EngineError(ErrorCode.ENGINE_OUT_OF_CONTEXT, told)
        return asked

    def converse(self, approved: Mapping[str, ToolResult]) -> None:
        """Make the conversation, with the results of calls that were approved and have run."""
        self._converse(approved)

    def _converse(self, approved: Mapping[str, ToolResult]) -> Reading:
        reading = self._read(self._entries, approved)
        self.waiting = reading.waiting
        self.written = reading.written
        conversation = reading.finish(self._instructions)
        if self.request.harmonia_continue:
            self.begun = self._begun_by(reading)
            conversation = conversation[:-1]
        self.conversation = self._with_head(conversation)
        return reading

    def unlisted_servers(self) -> list[str]:
        """The MCP servers that the request names and whose tools are to be listed: those that have a tool which no list
        in the conversation has. An answer that the model goes on with is the one that had the lists."""
        if self.request.harmonia_continue:
            return []
        listed: dict[str, set[str]] = {}
        for item in (entry.item for entry in self._entries):
            if isinstance(item, McpListTools) and item.error is None:
                listed.setdefault(item.server_label, set()).update(str(tool.get("name")) for tool in item.tools)
        return [
            server
            for server in self.offer.servers
            if server not in listed or any(tool.name not in listed[server] for tool in self.offer.of_server(server))
        ]

    def follow(self, output: Sequence[Entry]) -> ReplayedTurn:
        """What the model got and what it said, where this request was answered with these items. Nothing is run: what
        came of a call that was approved stands at the head of the output, after the lists of tools, and is part of the
        prompt."""
        told = 0
        while told < len(output) and _precedes_sampling(output[told].item):
            told += 1
        entries = [*self._entries, *output]
        before = self._read(entries[: len(self._entries) + told], {})
        after = self._read(entries, {})
        prompt, whole = before.finish(self._instructions), after.finish(self._instructions)
        if self.begun is not None:
            # Whatever goes on with it has taken its place.
            prompt = prompt[:-1]
        self.conversation = self._with_head(prompt)
        handed = {**before.handed, **after.handed}
        said = whole.messages[len(prompt) :]
        places = {entry.path: at for at, entry in enumerate(output)}
        items = {id(each): places[path] for each in said if (path := after.paths.get(id(each))) in places}
        return ReplayedTurn(self._composed(self.fitted()), self.begun, said, handed, items)

    def _begun_by(self, reading: Reading) -> Message:
        last = self._entries[-1] if self._entries else None
        # Of a stored response only what was cut off: where that is a call, it is not there to be gone on with.
        is_whole = last is not None and last.is_past and last.item.status != "incomplete"
        if reading.unfinished is None or is_whole:
            path = "$.input" if last is None else last.path
            invalid("harmonia_continue goes on with a text or the reasoning of the assistant at the end of input", path)
        return reading.unfinished

    def _read(self, entries: Sequence[Entry], approved: Mapping[str, ToolResult]) -> Reading:
        reading = Reading(self.offer, self._seals, approved)
        reading.read(entries)
        return reading

    def _with_head(self, conversation: Conversation) -> Conversation:
        today = datetime.fromtimestamp(self._service.clock(), UTC).date().isoformat()
        system = SystemContent(conversation_start_date=today)
        head = [Message.system(system)]
        identity = (self.request.harmonia_identity or "").strip()
        if identity and self._service.traits is not None:
            head = [Message.system(system.replace(model_identity=identity))]
        elif identity:
            # A provider writes its own system content, and gets a text beside it.
            head.append(Message.system(identity))
        has_head = len(conversation) > 0 and conversation[0].role is Role.DEVELOPER
        if not has_head and (len(self.offer.toolset) or self.request.response_format is not None):
            # Tools and formats stand in front of the conversation, not with instructions in its middle.
            head.append(Message.developer())
        return Conversation([*head, *conversation])

    def count_tokens(self) -> int:
        """The tokens of the prompt that a run will begin with."""
        composed = self._composed(self.fitted())
        return len(build(composed, self.begun, DOCUMENTED, self._service.renderer).tokens)

    def _count_begun(self, begun: Message) -> int:
        return len(build(Conversation(), begun, DOCUMENTED, self._service.renderer).given)

    def _composed(self, conversation: Conversation) -> Conversation:
        """The conversation as a run will complete it: with tools, effort and format."""
        request = self.request
        return compose(
            conversation, self.chosen.toolset, effort=request.effort, response_format=request.response_format
        )

    def fitted(self) -> Conversation:
        """The conversation for the run; with truncation, without its oldest turns where it does not fit."""
        traits = self._service.traits
        context = None if traits is None else traits.context_tokens
        if self.request.truncation != "auto" or context is None:
            return self.conversation
        room = context - (self.request.max_output_tokens or min(context // 4, 4096)) - self.begun_tokens
        if room < 1:
            invalid("it leaves no room for the prompt", "$.max_output_tokens")
        return fit(self._composed(self.conversation), room, render=self._service.renderer.render).conversation


class _CallersSeals:
    """A `SealOpener` for one caller."""

    def __init__(self, service: Service, owner: str) -> None:
        self._service = service
        self._owner = owner

    def open(self, seal: str, bound_to: bytes, path: str, *, takes_unbound: bool = False) -> list[Message]:
        return self._service.seals.open_messages(
            seal,
            owner=self._owner,
            model=self._service.model_names[0],
            bound_to=bound_to,
            unbound=UNBOUND if takes_unbound else None,
            at=Position(path=path),
        )

    def is_unbound(self, seal: str) -> bool:
        return is_unbound(seal)

    def expires_at(self, seal: str) -> int:
        return expires_at(seal)


def _precedes_sampling(item: Item) -> bool:
    return isinstance(item, McpListTools) or (isinstance(item, McpCall) and item.approval_request_id is not None)


# ── what came before ────────────────────────────────────────────────────────────────────────────────────────────────


async def _chain(previous: str | None, caller: Caller, service: Service) -> list[Entry]:
    """What came before, the oldest first: input, then output, of each response."""
    if previous is None:
        return []
    turns = await service.store.chain(caller.owner, previous)
    if not turns:
        raise InputError(
            ErrorCode.SERVE_PREVIOUS_NOT_FOUND,
            f"there is no stored response {previous[:100]!r}, or one before it is gone",
            Position(path=_PREVIOUS),
        )
    if turns[-1].response.status == "in_progress":
        raise InputError(ErrorCode.SERVE_IN_PROGRESS, f"{previous} has not ended yet", Position(path=_PREVIOUS))
    entries = (
        _entry_of(item, is_ours=is_ours)
        for turn in turns
        for items, is_ours in ((turn.inputs, False), (turn.outputs, True))
        for item in items
    )
    return [entry for entry in entries if entry is not None]


def _entry_of(stored: StoredItem, *, is_ours: bool) -> Entry | None:
    wire: Json = json.loads(stored.wire)
    kind = str(wire.get("type") or "message").removeprefix(SLUG)
    if wire.get("status") == "incomplete" and kind in _CALLS:
        return None
    messages = None if stored.sampled is None else tuple(read_messages(stored.sampled))
    return Entry(read_item(wire, _PREVIOUS), _PREVIOUS, messages, is_past=True, is_ours=is_ours)


async def _resolve(
    entries: list[Entry], given: list[Json], caller: Caller, service: Service
) -> tuple[list[Entry], list[Json]]:
    """The entries, and the items as they were given, with the stored items in the place of references to them."""
    wanted = [entry.item.id for entry in entries if isinstance(entry.item, ItemReference) and entry.item.id is not None]
    if not wanted:
        return entries, given
    found = await service.store.items(caller.owner, wanted)
    resolved, items = list(entries), list(given)
    for at, entry in enumerate(entries):
        stored = found.get(entry.item.id or "") if isinstance(entry.item, ItemReference) else None
        known = None if stored is None else _entry_of(stored, is_ours=True)
        if stored is not None and known is not None:
            resolved[at] = Entry(known.item, entry.path, known.messages, is_ours=True)
            items[at] = json.loads(stored.wire)
    return resolved, items


# ── what is kept ────────────────────────────────────────────────────────────────────────────────────────────────────


def _stored_inputs(given: list[Json], entries: list[Entry]) -> list[StoredItem]:
    """The new input as it is kept. Every item has an id, and no two have the same."""
    stored: list[StoredItem] = []
    taken: set[str] = set()
    for wire, entry in zip(given, entries, strict=True):
        id_ = wire.get("id")
        if not isinstance(id_, str) or not id_ or id_ in taken:
            id_ = new_id("in")
        taken.add(id_)
        kept = _spelled_out({**wire, "type": wire.get("type") or "message", "id": id_})
        if entry.messages is None:
            kept.pop("encrypted_content", None)  # the item says something else, so it is of no use
        sampled = None if entry.messages is None else write_messages(entry.messages)
        stored.append(StoredItem(id_, encode_bytes(kept), sampled))
    return stored


def _spelled_out(item: Json) -> Json:
    """The item with the content of a message as parts: clients that list items read nothing else."""
    content = item.get("content")
    if item["type"] != "message" or not isinstance(content, str):
        return item
    part: Json = {"type": "input_text", "text": content}
    if item.get("role") == "assistant":
        part = {"type": "output_text", "text": content, "annotations": []}
    return {**item, "content": [part]}


def _check_format(request: CreateResponse, schemas: SchemaBudget) -> None:
    form, path = request.response_format, "$.text.format.schema"
    if form is not None:
        schemas.admit(form.schema, path, is_demanded=request.demands_form)
        if not request.demands_form and fits_nothing(form.schema):
            invalid("no value fits this schema", path)


def _instructions(request: CreateResponse, warnings: RequestWarnings) -> list[str]:
    """The instructions of a request: a text, or messages of the developer's; and how long the answer should be."""
    given = request.instructions
    texts: list[str] = [given] if isinstance(given, str) else []
    if isinstance(given, list):
        for entry in read_entries(given, "$.instructions", warnings):
            item = entry.item
            if not isinstance(item, MessageItem) or item.role not in ("developer", "system"):
                invalid("instructions are messages of the developer or the system", entry.path)
            texts += texts_of(item.content, f"{entry.path}.content", warnings)
    verbosity = None if request.text is None else request.text.verbosity
    return [*texts, *([_VERBOSITY[verbosity]] if verbosity in _VERBOSITY else [])]
