"""From the items of a client and of the store to the conversation that the model gets.

    prior input -> prior output -> new input, in this order

1. Items that the server made become the tokens they were sampled as, taken from the store or from a seal.
2. Whatever a client wrote is text, in every field (law 1); a seal that does not open is the client's error.
3. A seal opens only next to the item it was made for, unchanged (`SealedItem`). A client that changes an item sends it
   without its seal, and the model gets what the item says, without the tokens.
4. A seal made before seals were bound to items (hs1) opens in a reasoning item only, which is nothing but its seal.
   Next to any other item it is verified and not used, and nothing is approved with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from harmonia.errors import ErrorCode, InputError, Position, ToolError
from harmonia.interchange import message_defaults
from harmonia.interchange.message_defaults import ImportedMessages
from harmonia.messages import Conversation, Json, Message, Role
from harmonia.parts import call_of, is_visible
from harmonia.run.events import AsSampled
from harmonia.run.tools import ToolResult, ToolSet
from harmonia.run.tools.results import error_result
from harmonia.serve.responses.items.base import (
    AdditionalTools,
    CalledTool,
    CallOutput,
    ClientCall,
    Item,
    ItemReference,
    MessageItem,
    ReasoningItem,
    SealedItem,
    texts_of,
)
from harmonia.serve.responses.items.mcp import McpApprovalRequest, McpApprovalResponse, McpCall
from harmonia.serve.responses.items.table import read_item
from harmonia.serve.security.sealed_content import UNBOUND, Seals, expires_at, is_unbound
from harmonia.serve.security.trusted_messages import call_as_sampled
from harmonia.serve.wire.request_tools import recipient_for
from harmonia.serve.wire.validation import RequestWarnings, invalid, refuse

# How many items may continue one another. Each is appended to all before it, so more would be quadratic work.
_MOST_JOINED: Final = 32
_REASONING: Final = "analysis"
_CHANNELS: Final = {None: "final", "final_answer": "final", "commentary": "commentary"}


class CallerSeals:
    """Seals and opens items for one caller and one model."""

    def __init__(self, seals: Seals, owner: str, model: str) -> None:
        self.seal = partial(seals.seal_messages, owner=owner, model=model)
        self.seal_sampled = partial(seals.seal_sampled, owner=owner, model=model)
        self.open = partial(seals.open_messages, owner=owner, model=model)
        self._open_sampled = partial(seals.open_sampled, owner=owner, model=model)

    def open_sampled(self, seal: str, path: str) -> AsSampled:
        return self._open_sampled(seal, at=Position(path=path))


class Source(msgspec.Struct, frozen=True):
    """Where an item comes from."""

    path: str  # in the request
    messages: tuple[Message, ...] | None = None  # if the server can vouch for them
    is_past: bool = False  # it belongs to an earlier response
    is_ours: bool = False  # this server made and stored it


Entry = tuple[Item, Source]


class DecidedCall(msgspec.Struct, frozen=True):
    """A call that waited for an approval, and the decision."""

    request_id: str
    message: Message  # with the arguments to run it with
    approves: bool
    path: str  # where the decision stands
    sampled: Message | None  # the call as the model made it
    expires_at: int | None  # None if the server cannot vouch for the request, which can then only be refused
    by_hand: ToolResult | None = None  # a person's answer in place of the tool; then nothing is run


def read_entries(values: Sequence[object], path: str, warnings: RequestWarnings | None = None) -> list[Entry]:
    """The items of an input. Unknown keys go to `warnings`."""
    placed = ((value, f"{path}[{at}]") for at, value in enumerate(values))
    return [(read_item(value, where, warnings), Source(where)) for value, where in placed]


def additional_tools(entries: Sequence[Entry]) -> list[tuple[str, Sequence[Json]]]:
    """The lists of tools among the items, each with its path."""
    return [(f"{source.path}.tools", item.tools) for item, source in entries if isinstance(item, AdditionalTools)]


class ConversationReader:
    """Reads entries one after the other. `approved` has the results of calls that were approved and have run."""

    def __init__(
        self,
        entries: Sequence[Entry],
        tools: ToolSet,
        seals: CallerSeals,
        approved: Mapping[str, ToolResult] | None = None,
    ) -> None:
        self.decided: list[DecidedCall] = []
        # By path, the messages of items whose seals were opened and match what the items say.
        self.unsealed: dict[str, tuple[Message, ...]] = {}
        # By identity: the calls that the client knows of, because an item has them; the path of the entry that a
        # message comes from; and the messages that the client wrote, and neither the store nor a seal vouches for.
        self.delivered: dict[int, Message] = {}
        self.paths: dict[int, str] = {}
        self.written: dict[int, Message] = {}
        self.unfinished: Message | None = None  # text or reasoning of the last entry, which the model could continue
        self.warnings = RequestWarnings()  # about unknown keys of contents that came with this request
        self._joined = 0
        self._tools = tools
        self._seals = seals
        self._approved = approved or {}
        self._read = ImportedMessages()
        self._requests: dict[str, Message] = {}
        # Requests that the store or a seal vouches for, each with the call as it was sampled.
        self._trusted_requests: dict[str, tuple[McpApprovalRequest, Source, Message]] = {}
        self._answered: set[str] = set()
        self._arguments: dict[str, str] = {}  # of requests whose arguments a person changed
        self._decided_ids: set[str] = set()
        for item, _ in entries:
            if isinstance(item, McpApprovalResponse) and item.harmonia_arguments is not None:
                self._arguments[item.approval_request_id] = item.harmonia_arguments
            elif isinstance(item, McpCall) and item.approval_request_id is not None:
                self._answered.add(item.approval_request_id)
                self._arguments[item.approval_request_id] = item.arguments  # it ran with these
        messages = self._read.messages
        for item, source in entries:
            count, last = len(messages), messages[-1] if messages else None
            self._read_item(item, source)
            # A message that continues the one before has replaced it.
            fresh = count - 1 if count and messages[count - 1] is not last else count
            is_written = source.messages is None and source.path not in self.unsealed
            if fresh < count:
                is_written = is_written and id(last) in self.written  # it contains that text, too
            for message in messages[fresh:]:
                self.paths[id(message)] = source.path
                if is_written:
                    self.written[id(message)] = message

    def finish(self, instructions: Sequence[str] = ()) -> Conversation:
        """The conversation, with the instructions and all developer messages at its head as one message."""
        head = [Message.developer(text) for text in instructions if text]
        return Conversation(message_defaults.join_head([*head, *self._read.finish()]))

    # ── items ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _read_item(self, item: Item, source: Source) -> None:
        path = source.path
        before, self.unfinished = self.unfinished, None
        self._joined = self._joined if getattr(item, "harmonia_continues", None) else 0
        match item:
            case MessageItem():
                self._read_message(item, source, before)
            case ReasoningItem():
                self._read_reasoning(item, source, before)
            case ClientCall():
                self._add_call(self._as_sampled(self._written_call(item.called()), item, source), item.call_id, source)
            case CallOutput():
                id_, field = item.answers(path)
                texts = item.texts(path, None if source.is_past else self.warnings)
                self._read.add_result(id_, None, _one_or_all(texts), path, f"{path}.{field}")
            case McpCall():
                self._read_mcp_call(item, source)
            case McpApprovalRequest():
                self._read_approval_request(item, source)
            case McpApprovalResponse():
                self._read_approval(item, source)
            case ItemReference():
                message = f"no stored item has the id {item.id!r}; send the item itself"
                refuse(ErrorCode.SERVE_NOT_FOUND, message, f"{path}.id")
            case _:
                pass  # the model does not read it

    def _read_message(self, item: MessageItem, source: Source, before: Message | None) -> None:
        if item.content is None and item.role != "assistant" and not source.is_past:
            invalid("content is missing", f"{source.path}.content")
        texts = self._texts(item, source)
        match item.role:
            case "user":
                self._read.add(message_defaults.user(_one_or_all(texts)))
            case "system" | "developer":
                instructions = message_defaults.developer("\n".join(texts))
                if not self._is_left_out(instructions, source):
                    self._read.add(instructions)
            case "assistant":
                made = message_defaults.assistant("".join(texts), _CHANNELS[item.phase])
                continued = None
                if item.harmonia_continues and before is not None and before.channel == made.channel:
                    continued = before.text
                message = self._as_sampled(made, item, source, continued)
                if continued is not None:
                    whole = made.replace(content=continued + made.text)
                    # A client may have joined the two itself; then the one before is another message.
                    if message is made or message.text == whole.text:
                        message = whole if message is made else message
                        self._replace_last(source)
                # One that was sampled here may have been cut off before its first word: the model can continue it.
                if message is made and self._is_left_out(message, source):
                    self.unfinished = before
                else:
                    self._add_text(message)

    def _is_left_out(self, message: Message, source: Source) -> bool:
        """Whether the message is empty; then the response has a warning that it was left out."""
        if not message_defaults.is_empty(message):
            return False
        if not source.is_past:
            self.warnings.add_empty_message(source.path)
        return True

    def _read_reasoning(self, item: ReasoningItem, source: Source, before: Message | None) -> None:
        messages = source.messages
        if messages is None and item.encrypted_content is not None:
            messages = self._opened(item, source, item.encrypted_content, accepts_unbound=True)
            self.unsealed[source.path] = messages
        if messages is None:
            texts = self._texts(item, source)
            if not texts:
                return
            made = message_defaults.assistant("".join(texts), _REASONING)
            if item.harmonia_continues and before is not None and before.channel == made.channel:
                made = made.replace(content=before.text + made.text)
                self._replace_last(source)
            self._add_text(made)
            return
        # The seal holds the whole message. Whether that begins with the one before is not checked: the length of the
        # prompt, which clients see, would tell a client whether it guessed how hidden reasoning begins.
        if item.harmonia_continues and before is not None and messages and messages[0].channel == before.channel:
            self._replace_last(source)
        # The hidden messages may be a call that could not be run, and the answer that says so.
        for message, following in zip(messages, (*messages[1:], None), strict=True):
            if call_of(message) is not None and following is not None and following.role is Role.TOOL:
                self._read.add_call(message, None, following, source.path)
            elif message.role is not Role.TOOL:
                self._add_text(message)

    def _replace_last(self, source: Source) -> None:
        """Remove the last message, which the next one contains."""
        self._joined += 1
        if self._joined > _MOST_JOINED:
            invalid(f"more than {_MOST_JOINED} items continue one another; join them into one", source.path)
        self._read.messages.pop()

    def _add_text(self, message: Message) -> None:
        self._read.add(message)
        # Text that is hidden because of its header alone would become visible under another one.
        is_sure = is_visible(message) or message.channel == _REASONING
        if message.role is Role.ASSISTANT and call_of(message) is None and is_sure:
            self.unfinished = message

    def _texts(self, item: MessageItem | ReasoningItem, source: Source) -> tuple[str, ...]:
        # The client has already had the warnings about an earlier request.
        return texts_of(item.content, f"{source.path}.content", None if source.is_past else self.warnings)

    # ── MCP ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _read_mcp_call(self, item: McpCall, source: Source) -> None:
        output = item.result_text
        request = item.approval_request_id
        if request is not None and request in self._requests:
            self._read.add_result(request, None, output, source.path, f"{source.path}.approval_request_id")
            return
        call = self._as_sampled(self._written_call(item.called()), item, source)
        _, *results = source.messages or self.unsealed.get(source.path) or (call,)
        is_its_result = bool(results) and results[0].text == output
        if not is_its_result:
            self.unsealed.pop(source.path, None)
        self._read.add_call(call, item.id, results[0] if is_its_result else output, source.path)
        self.delivered[id(call)] = call

    def _read_approval_request(self, item: McpApprovalRequest, source: Source) -> None:
        if item.id is None:
            invalid("id is missing: the approval names the request by it", f"{source.path}.id")
        made = self._written_call(item.called())
        message = self._as_sampled(made, item, source)
        # If an id occurs twice, the last request is the one that is decided.
        self._trusted_requests.pop(item.id, None)
        if message is not made:
            self._trusted_requests[item.id] = (item, source, message)
        arguments = self._arguments.get(item.id, item.arguments)
        if arguments != item.arguments:
            # What ran is not what was sampled, and the result answers what ran.
            message = self._written_call(item.called()._replace(text=arguments))
        self._requests[item.id] = message
        self._add_call(message, item.id, source)

    def _read_approval(self, item: McpApprovalResponse, source: Source) -> None:
        id_, path = item.approval_request_id, source.path
        place = f"{path}.approval_request_id"
        message = self._requests.get(id_)
        if message is None:
            unknown = f"no mcp_approval_request before this item has the id {id_!r}"
            refuse(ErrorCode.INTERCHANGE_UNKNOWN_CALL, unknown, place)
        if id_ in self._decided_ids:
            invalid(f"another item already decides {id_[:100]!r}; send only one decision", place)
        self._decided_ids.add(id_)
        for name in ("harmonia_arguments", "harmonia_output"):
            if getattr(item, name) is not None and not item.approve:
                invalid(f"a refused call cannot have {name}; leave it out, or approve the call", f"{path}.{name}")
        if id_ in self._answered:
            return  # it has run, and the item with its result follows
        by_hand = None if item.harmonia_output is None else ToolResult(item.harmonia_output)
        if item.approve and source.is_past and by_hand is None:
            # That response ended before the call was run. Nobody expects it to run now.
            stopped = error_result(ToolError(ErrorCode.TOOL_REFUSED, "the call was not run: the response ended first"))
            self._read.add_result(id_, None, stopped.text, path, place)
            return
        if not source.is_past:
            if item.harmonia_arguments is not None:
                # What a person wrote must fit the tool, too. If the tool is gone, running it will report that.
                call = call_of(message)
                if call is None or not isinstance(call.value, dict):
                    what = "the arguments of a call must be one JSON object, as a string"
                    invalid(what, f"{path}.harmonia_arguments")
                try:
                    if self._tools.find(call.recipient) is not None:
                        self._tools.check(call)
                except ToolError as error:
                    invalid(error.message, f"{path}.harmonia_arguments")
            sampled, expires = self._trusted_call(id_)
            if item.approve and sampled is None and id_ not in self._approved:
                # What the model did not certainly call is not run, whoever approves it (law 5).
                expected = (
                    "only a call that the model made on this server, and whose seal has not expired, can be approved: "
                    "send its mcp_approval_request back unchanged, with its encrypted_content"
                )
                refuse(ErrorCode.SERVE_BAD_SEAL, expected, place)
            self.decided.append(DecidedCall(id_, message, item.approve, path, sampled, expires, by_hand))
        result = by_hand or self._approved.get(id_)
        if not item.approve:
            because = f": {item.reason}" if item.reason else ""
            result = error_result(ToolError(ErrorCode.TOOL_REFUSED, f"the user refused this call{because}"))
        if result is not None:
            self._read.add_result(id_, None, result.text, path, place)

    def _trusted_call(self, id_: str) -> tuple[Message, int] | tuple[None, None]:
        """The call of an approval request as it was sampled, and until when it can be decided: as long as the seal of
        the request opens. An old seal is good enough only next to an item of our own store."""
        item, source, sampled = self._trusted_requests.get(id_, (None, None, None))
        if item is not None and source is not None and sampled is not None and item.encrypted_content is not None:
            with suppress(InputError):
                self._opened(item, source, item.encrypted_content, accepts_unbound=source.is_ours)
                return sampled, expires_at(item.encrypted_content)
        return None, None

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _written_call(self, called: CalledTool) -> Message:
        recipient = recipient_for(self._tools, called.name, called.namespace, called.server)
        return call_as_sampled(recipient, called.text, is_json=called.is_json)

    def _add_call(self, message: Message, id_: str, source: Source) -> None:
        self._read.add_call(message, id_, path=source.path)
        self.delivered[id(message)] = message

    def _as_sampled(self, made: Message, item: SealedItem, source: Source, before: str | None = None) -> Message:
        """The message as it was sampled, if the server can vouch for it; otherwise `made`. `before` is the text that
        the item may continue."""
        if source.messages:
            return source.messages[0]
        seal = item.encrypted_content
        if seal is None:
            return made
        if is_unbound(seal):
            self._opened(item, source, seal, accepts_unbound=True)  # a forged seal is refused; a valid one is not used
            return made
        messages = None
        if before is not None:
            with suppress(InputError):
                messages = self._opened(item, source, seal, before)
        if messages is None:
            messages = self._opened(item, source, seal)
        # The call must go where its item leads now: the tools of this request may be others. Models sometimes leave
        # the namespace out.
        if not messages or made.recipient not in (messages[0].recipient, f"functions.{messages[0].recipient}"):
            return made
        self.unsealed[source.path] = messages
        return messages[0]

    def _opened(
        self, item: SealedItem, source: Source, seal: str, before: str = "", *, accepts_unbound: bool = False
    ) -> tuple[Message, ...]:
        """The messages in the seal of an item. A seal of version hs1 opens only with `accepts_unbound`."""
        at, unbound = Position(path=f"{source.path}.encrypted_content"), UNBOUND if accepts_unbound else None
        return tuple(self._seals.open(seal, bound_to=item.binding(before), unbound=unbound, at=at))


def _one_or_all(texts: tuple[str, ...]) -> str | tuple[str, ...]:
    return "".join(texts) if len(texts) < 2 else texts
