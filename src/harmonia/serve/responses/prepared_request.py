"""A request for a response, prepared: what the model will get, and what the store keeps of the request.

previous_response_id -> stored turns ─┐
input, instructions, tools ───────────┴─> conversation, tools, choice
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final, Self

import msgspec

from harmonia.errors import EngineError, ErrorCode
from harmonia.history import DOCUMENTED, fit
from harmonia.json_codec import encode_bytes
from harmonia.messages import Conversation, Json, Message
from harmonia.run.cancellation import SHARE, in_worker
from harmonia.run.sampling import VERBOSITY, build, compose, with_head
from harmonia.run.tools import ToolResult
from harmonia.serve.config.settings import Settings
from harmonia.serve.models.served_model import ServedModel
from harmonia.serve.models.server_tools import ServerTool
from harmonia.serve.responses.conversation import (
    CallerSeals,
    ConversationReader,
    Entry,
    Source,
    additional_tools,
    read_entries,
)
from harmonia.serve.responses.items.base import CallItem, ItemReference, MessageItem, texts_of
from harmonia.serve.responses.items.mcp import McpCall, McpListTools
from harmonia.serve.responses.items.table import read_item
from harmonia.serve.responses.request import CreateResponse
from harmonia.serve.responses.tools import connect_servers, read_choice, read_tools
from harmonia.serve.security.keys import Caller, new_id
from harmonia.serve.security.sealed_content import Seals
from harmonia.serve.security.trusted_messages import read_messages, write_messages
from harmonia.serve.store.base import Store, StoredItem
from harmonia.serve.wire.request_tools import SchemaBudget, check_text_forms, tools_of_server
from harmonia.serve.wire.validation import RequestWarnings, invalid, refuse, too_large, unsupported

_PREVIOUS: Final = "$.previous_response_id"


@dataclass(frozen=True, slots=True)
class Backend:
    """What responses are made with."""

    settings: Settings
    served: ServedModel
    store: Store
    seals: Seals
    tools: tuple[ServerTool, ...]  # of the operator's MCP servers
    clock: Callable[[], float]

    def seals_of(self, caller: Caller) -> CallerSeals:
        return CallerSeals(self.seals, caller.owner, self.served.names[0])


class ReplayedTurn(msgspec.Struct, frozen=True):
    """A request and its answer as messages."""

    conversation: Conversation  # the prompt
    prefix: Message | None  # the message that the model continued; then the first of `output` is the whole of it
    output: tuple[Message, ...]  # what the model and its tools said
    delivered: Mapping[int, Message]  # by identity, the calls that the client knows of
    items: Mapping[int, int]  # by identity, which item of the answer a message of `output` comes from


class PreparedRequest:
    """A request that was read. `conversation` is what the run starts with; `inputs` is what the store keeps; `warnings`
    report what was left out."""

    def __init__(self, request: CreateResponse, caller: Caller, backend: Backend) -> None:
        self.request = request
        self.caller = caller
        self.model = backend.served.find(request.model)
        self.warnings: list[str] = []
        self.prefix: Message | None = None  # the message at the end that the model is to continue
        self.prefix_tokens = 0  # of it, after `<|start|>assistant`
        self._backend = backend
        self._served = backend.served
        self._seals = backend.seals_of(caller)
        self._today = datetime.fromtimestamp(backend.clock(), UTC).date().isoformat()

    async def read(self, stack: AsyncExitStack) -> Self:
        """Raise whatever is wrong with the request by itself. The stack closes what was opened."""
        request, store, traits = self.request, self._backend.store, self._served.traits
        schemas = SchemaBudget(self._backend.settings.limits)
        SHARE.set(self.caller.owner)
        if request.response_format is not None:
            schema, is_demanded = request.response_format.schema, request.demands_form
            admit = partial(schemas.admit, schema, "$.text.format.schema", is_demanded=is_demanded, is_answer=True)
            await in_worker(admit)
        if request.harmonia_continue and (traits.takes_messages or not traits.speaks_harmony):
            message = "harmonia_continue needs an engine with a gpt-oss model: no other model can continue a message"
            unsupported(message, "$.harmonia_continue")
        given = [] if request.input is None else request.input
        if isinstance(given, str):
            given = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": given}]}]
        most = self._backend.settings.limits.items
        if len(given) > most:
            too_large(f"input has more than {most} items", "$.input")
        warnings = RequestWarnings()
        fresh, given = await _resolve(read_entries(given, "$.input", warnings), given, self.caller, store)
        past = await _chain(request.previous_response_id, self.caller, store)
        await self._read_tools(past, fresh, schemas, stack)
        self._instructions = _instructions(request, warnings)
        self._entries = [*past, *fresh]
        reader = self.converse({})
        self.warnings += [*warnings.texts, *reader.warnings.texts]
        # Seals expire, so items are kept opened.
        fresh = [
            (item, msgspec.structs.replace(source, messages=reader.unsealed.get(source.path, source.messages)))
            for item, source in fresh
        ]
        self._entries = [*past, *fresh]
        self.inputs = _stored_inputs(given, fresh)
        if self.prefix is not None:
            build_prefix = partial(build, Conversation(), self.prefix, DOCUMENTED, self._served.renderer)
            self.prefix_tokens = len((await asyncio.to_thread(build_prefix)).given)  # it may be long
            context = traits.context_tokens
            if context is not None and self.prefix_tokens >= context:
                # The engine would report it, too, but only after it had read all of it again.
                sizes = f"the message to continue has {self.prefix_tokens} tokens; the context has {context}"
                raise EngineError(ErrorCode.ENGINE_OUT_OF_CONTEXT, sizes)
        return self

    async def _read_tools(
        self, past: list[Entry], fresh: list[Entry], schemas: SchemaBudget, stack: AsyncExitStack
    ) -> None:
        definitions, settings = self.request.tools or [], self._backend.settings
        remote = await connect_servers(definitions, settings, stack)
        for each in remote:
            await in_worker(partial(schemas.admit, each.tool.parameters, "$.tools"))
        self.hosted = (*self._backend.tools, *remote)
        lists = [*additional_tools(past), ("$.tools", definitions), *additional_tools(fresh)]
        read = partial(read_tools, lists, self.hosted, settings.limits, schemas, self.warnings)
        self.tools = await in_worker(read) if any(tools for _, tools in lists) else read()
        await check_text_forms(self.tools)
        labels = (str(tool.get("server_label")) for _, tools in lists for tool in tools if tool.get("type") == "mcp")
        self._servers = tuple(dict.fromkeys(labels))  # the MCP servers that the request names
        self.tool_choice, self.allowed_tools, _ = read_choice(self.request.tool_choice, self.tools)

    def converse(self, approved: Mapping[str, ToolResult]) -> ConversationReader:
        """Make the conversation, with the results of calls that were approved and have run."""
        reader = ConversationReader(self._entries, self.tools, self._seals, approved)
        self.decided = reader.decided
        self.written: Mapping[int, Message] = reader.written  # by identity, the messages that the client wrote itself
        if self.request.harmonia_continue:
            item, source = self._entries[-1] if self._entries else (None, None)
            # A stored response can be continued only if it was cut off. A call that was cut off is not there.
            is_whole = item is not None and source is not None and source.is_past and item.status != "incomplete"
            if reader.unfinished is None or is_whole:
                last = "an unfinished text or reasoning of the assistant as the last item of input"
                invalid(f"harmonia_continue needs {last}", "$.input" if source is None else source.path)
            self.prefix = reader.unfinished
        self._compose(reader.finish(self._instructions))
        return reader

    def unlisted_servers(self) -> list[str]:
        """The MCP servers of the request whose tools are to be listed: those with a tool that no list in the
        conversation has. If the model continues a message, that response has had the lists."""
        if self.request.harmonia_continue:
            return []
        listed: dict[str, set[str]] = {}
        for item, _ in self._entries:
            if isinstance(item, McpListTools) and item.error is None:
                listed.setdefault(item.server_label, set()).update(str(tool.get("name")) for tool in item.tools)
        return [
            server
            for server in self._servers
            if server not in listed
            or any(tool.own_name not in listed[server] for tool in tools_of_server(self.tools, server))
        ]

    def replay(self, output: Sequence[Entry]) -> ReplayedTurn:
        """The turn in which this request was answered with these items. Nothing is run: the results of approved calls
        are at the head of the output, after the lists of tools, and are part of the prompt."""
        given = 0
        for item, _ in output:
            if not isinstance(item, McpListTools) and not (isinstance(item, McpCall) and item.approval_request_id):
                break
            given += 1
        entries = [*self._entries, *output]
        before = ConversationReader(entries[: len(self._entries) + given], self.tools, self._seals)
        after = ConversationReader(entries, self.tools, self._seals)
        prompt, whole = before.finish(self._instructions), after.finish(self._instructions)
        self._compose(prompt)
        # What continues the prefix has replaced it.
        said = whole.messages[len(prompt) - (self.prefix is not None) :]
        delivered = {**before.delivered, **after.delivered}
        places = {source.path: at for at, (_, source) in enumerate(output)}
        items = {id(each): places[path] for each in said if (path := after.paths.get(id(each))) in places}
        return ReplayedTurn(self.fitted(), self.prefix, said, delivered, items)

    def _compose(self, conversation: Conversation) -> None:
        """Set the conversation as the run gets it: with its head, and without the message to continue."""
        request, tools = self.request, self.allowed_tools
        whole = with_head(
            conversation if self.prefix is None else conversation[:-1],
            date=self._today,
            identity=(request.harmonia_identity or "").strip() or None,
            is_provider=self._served.traits.takes_messages,
            has_declarations=len(tools) > 0 or request.response_format is not None,
        )
        self.conversation = compose(whole, tools, effort=request.effort, response_format=request.response_format)

    def count_tokens(self) -> int:
        """The tokens of the prompt that a run will start with."""
        return len(build(self.fitted(), self.prefix, DOCUMENTED, self._served.renderer).tokens)

    def fitted(self) -> Conversation:
        """The conversation for the run; with truncation, without the oldest turns if it does not fit."""
        context = self._served.traits.context_tokens
        if self.request.truncation != "auto" or context is None:
            return self.conversation
        room = context - (self.request.max_output_tokens or min(context // 4, 4096)) - self.prefix_tokens
        if room < 1:
            invalid(f"this leaves no room for the prompt in a context of {context} tokens", "$.max_output_tokens")
        return fit(self.conversation, room, render=self._served.renderer.render).conversation


# ── earlier responses ───────────────────────────────────────────────────────────────────────────────────────────────


async def _chain(previous: str | None, caller: Caller, store: Store) -> list[Entry]:
    """The items of earlier responses, the oldest first: input, then output, of each."""
    if previous is None:
        return []
    turns = await store.chain(caller.owner, previous)
    if not turns:
        lost = f"the response {previous[:100]!r}, or one before it, is not stored or was deleted"
        refuse(ErrorCode.SERVE_PREVIOUS_NOT_FOUND, f"{lost}; send its items as input", _PREVIOUS)
    if turns[-1].response.status == "in_progress":
        message = f"{previous} is still in progress; wait until it has ended, or cancel it"
        refuse(ErrorCode.SERVE_IN_PROGRESS, message, _PREVIOUS)
    entries: list[Entry | None] = []
    for turn in turns:
        entries += [_entry_of(item, is_ours=False) for item in turn.inputs]
        entries += [_entry_of(item, is_ours=True) for item in turn.outputs]
    return [entry for entry in entries if entry is not None]


def _entry_of(stored: StoredItem, *, is_ours: bool) -> Entry | None:
    item = read_item(json.loads(stored.wire), _PREVIOUS)
    if item.status == "incomplete" and isinstance(item, CallItem):
        return None  # it was cut off, so it is not a call
    messages = None if stored.sampled is None else tuple(read_messages(stored.sampled))
    return item, Source(_PREVIOUS, messages, is_past=True, is_ours=is_ours)


async def _resolve(
    entries: list[Entry], given: list[Json], caller: Caller, store: Store
) -> tuple[list[Entry], list[Json]]:
    """The entries, and the items as they were sent, with stored items in place of references to them."""
    wanted = [item.id for item, _ in entries if isinstance(item, ItemReference) and item.id is not None]
    if not wanted:
        return entries, given
    found = await store.items(caller.owner, wanted)
    resolved, items = list(entries), list(given)
    for at, (item, source) in enumerate(entries):
        stored = found.get(item.id or "") if isinstance(item, ItemReference) else None
        known = None if stored is None else _entry_of(stored, is_ours=True)
        if stored is not None and known is not None:
            resolved[at] = (known[0], Source(source.path, known[1].messages, is_ours=True))
            items[at] = json.loads(stored.wire)
    return resolved, items


# ── what is stored ──────────────────────────────────────────────────────────────────────────────────────────────────


def _stored_inputs(given: list[Json], entries: list[Entry]) -> list[StoredItem]:
    """The new input as it is stored. Every item has an id, and no two have the same."""
    stored: list[StoredItem] = []
    taken: set[str] = set()
    for wire, (_, source) in zip(given, entries, strict=True):
        id_ = wire.get("id")
        if not isinstance(id_, str) or not id_ or id_ in taken:
            id_ = new_id("in")
        taken.add(id_)
        kept: Json = {**wire, "type": wire.get("type") or "message", "id": id_}
        content = wire.get("content")
        if kept["type"] == "message" and isinstance(content, str):  # clients that list items read only parts
            is_answer = wire.get("role") == "assistant"
            part: Json = {"type": "output_text", "annotations": []} if is_answer else {"type": "input_text"}
            kept["content"] = [{**part, "text": content}]
        if source.messages is None:
            kept.pop("encrypted_content", None)  # the item says something else, so the seal is of no use
        sampled = None if source.messages is None else write_messages(source.messages)
        stored.append(StoredItem(id_, encode_bytes(kept), sampled))
    return stored


def _instructions(request: CreateResponse, warnings: RequestWarnings) -> list[str]:
    """The instructions of a request: a string, or messages of the developer; and how long the answer should be."""
    given = request.instructions
    texts: list[str] = [given] if isinstance(given, str) else []
    if isinstance(given, list):
        for item, source in read_entries(given, "$.instructions", warnings):
            if not isinstance(item, MessageItem) or item.role not in ("developer", "system"):
                invalid("instructions must be a string, or messages with the role developer or system", source.path)
            texts += texts_of(item.content, f"{source.path}.content", warnings)
    verbosity = None if request.text is None else VERBOSITY.get(request.text.verbosity or "")
    return [*texts, *([verbosity] if verbosity else [])]
