"""From what a client sent, and what the store has, to the conversation that the model gets.

    prior input -> prior output -> new input, in this order

1. Items that the server made come back as the tokens they were sampled as: from the store, or from behind a seal.
2. Whatever a client wrote is text, in every field (law 1); a seal that does not open is the client's error.
3. A seal opens beside the item that it was made for, as that was (seal_bindings.py). Who changed an item sends it
   without its seal, and gets what it says, without the tokens.
4. A seal from before seals were bound to items (hs1) opens in a reasoning item only, which is nothing but its seal.
   Beside any other item it is verified and not used, and nothing is approved with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol, cast

import msgspec

from harmonia.errors import ErrorCode, InputError, Position, ToolError
from harmonia.interchange import message_defaults
from harmonia.interchange.call_matching import ImportedMessages
from harmonia.interchange.documents import Report
from harmonia.messages import Conversation, DeveloperContent, Json, Message, Role
from harmonia.parts import call_of, is_visible
from harmonia.run.tools import ToolResult
from harmonia.run.tools.results import error_result
from harmonia.serve.responses import items as wire
from harmonia.serve.responses.items import Item, McpApprovalRequest, read_item, texts_of
from harmonia.serve.responses.output_items import error_text
from harmonia.serve.responses.seal_bindings import SealableItem, binding_of, without_nulls
from harmonia.serve.responses.tools import Offer
from harmonia.serve.wire.request_warnings import RequestWarnings
from harmonia.serve.wire.sampled_calls import call_as_sampled
from harmonia.serve.wire.validation import invalid


class SealOpener(Protocol):
    """Opens what stands as encrypted_content in items, for the caller of a request."""

    def open(self, seal: str, bound_to: bytes, path: str, *, takes_unbound: bool = False) -> list[Message]:
        """The messages behind the seal; `path` is for the error. Seals of version hs1 open only with
        `takes_unbound`."""
        ...

    def is_unbound(self, seal: str) -> bool:
        """Whether this is a seal of version hs1."""
        ...

    def expires_at(self, seal: str) -> int:
        """When a seal that was opened expires."""
        ...


# How many items may go on with one another. Each is put behind all that came before it, and more would be much work.
_MOST_JOINED: Final = 32
_REASONING: Final = "analysis"
_CHANNELS: Final = {None: "final", "final_answer": "final", "commentary": "commentary"}


class Entry(msgspec.Struct, frozen=True):
    """An item with its path in the request, and its messages where we vouch for them. `is_past` is what stands in a
    response before this one. `is_ours` is what this server made and stored, and not what a client sent."""

    item: Item
    path: str
    messages: tuple[Message, ...] | None = None
    is_past: bool = False
    is_ours: bool = False


class Waiting(msgspec.Struct, frozen=True):
    """A call that waited for an approval, and what was decided. `message` has the arguments that it is to be run with,
    `sampled` is the call as the model made it. `by_hand` is what a person answered in the tool's place; then nothing is
    run. `expires_at` is when nothing can be decided any more; None where we cannot vouch for the request, which then
    can only be refused. `path` is the place of the decision."""

    request_id: str
    message: Message
    approves: bool
    reason: str | None
    path: str
    sampled: Message | None
    expires_at: int | None
    by_hand: ToolResult | None = None

    @property
    def runs(self) -> bool:
        """Whether the tool is to be run."""
        return self.approves and self.by_hand is None


def read_entries(values: Sequence[object] | str, path: str, warnings: RequestWarnings | None = None) -> list[Entry]:
    """The items of an input; a text is what the user says. Unknown keys go to `warnings`."""
    if isinstance(values, str):
        return [Entry(wire.MessageItem(role="user", content=values), path)]
    return [Entry(read_item(value, f"{path}[{at}]", warnings), f"{path}[{at}]") for at, value in enumerate(values)]


def additional_tools(entries: Sequence[Entry]) -> list[tuple[str, Sequence[Json]]]:
    """The lists of tools that stand among the items."""
    return [
        (f"{entry.path}.tools", entry.item.tools) for entry in entries if isinstance(entry.item, wire.AdditionalTools)
    ]


class Reading:
    """Reads entries one after the other. `approved` has the results of calls that were approved and have run.

    `unsealed` has, by their paths, the messages of items whose seals were opened and still say what the items say.
    `handed` has the calls that the client knows of, because an item says them, by their identities. `paths` has, by
    their identities as well, the paths of the entries that the assistant's messages come from. `unfinished` is the text
    of the assistant's, or its reasoning, that the last entry is: the model could go on with it. `warnings` has the
    unknown keys of contents that came with this request.
    """

    def __init__(self, offer: Offer, seals: SealOpener, approved: Mapping[str, ToolResult] | None = None) -> None:
        self.waiting: list[Waiting] = []
        self.unsealed: dict[str, tuple[Message, ...]] = {}
        self.handed: dict[int, Message] = {}
        self.paths: dict[int, str] = {}
        # By their identities, messages that the client wrote, and neither the store nor a seal vouches for.
        self.written: dict[int, Message] = {}
        self.unfinished: Message | None = None
        self.warnings = RequestWarnings()
        self._joined = 0
        self._offer = offer
        self._seals = seals
        self._approved = approved or {}
        self._read = ImportedMessages(Report())
        self._requests: dict[str, Message] = {}
        # Requests that the store or a seal knows, each with the call as it was sampled.
        self._vouched: dict[str, tuple[McpApprovalRequest, Entry, Message]] = {}
        self._answered: set[str] = set()
        self._arguments: dict[str, str] = {}  # of requests, where somebody changed them
        self._decided: set[str] = set()

    def read(self, entries: Sequence[Entry]) -> None:
        self._answered = {
            entry.item.approval_request_id
            for entry in entries
            if isinstance(entry.item, wire.McpCall) and entry.item.approval_request_id is not None
        }
        for entry in entries:
            item = entry.item
            if isinstance(item, wire.McpApprovalResponse) and item.harmonia_arguments is not None:
                self._arguments[item.approval_request_id] = item.harmonia_arguments
            elif isinstance(item, wire.McpCall) and item.approval_request_id is not None:
                self._arguments[item.approval_request_id] = item.arguments  # it ran with these
        messages = self._read.messages
        for entry in entries:
            count, last = len(messages), messages[-1] if messages else None
            self._read_entry(entry)
            # What goes on with the message before has taken its place.
            fresh = count - 1 if count and messages[count - 1] is not last else count
            is_written = entry.messages is None and entry.path not in self.unsealed
            if fresh < count:
                is_written = is_written and id(last) in self.written  # it has the text of that one, too
            for message in messages[fresh:]:
                self.paths[id(message)] = entry.path
                if is_written:
                    self.written[id(message)] = message

    def finish(self, instructions: Sequence[str] = ()) -> Conversation:
        """The conversation, with the instructions and all developer messages at its head as one message."""
        messages = self._read.finish()
        texts = list(instructions)
        body = 0
        while body < len(messages) and messages[body].role is Role.DEVELOPER:
            content = messages[body].content
            texts.append((content.instructions or "") if isinstance(content, DeveloperContent) else messages[body].text)
            body += 1
        texts = [text for text in texts if text]
        head = Message.developer("\n\n".join(texts))
        return Conversation([head, *messages[body:]] if texts else messages[body:])

    # ── items ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _read_entry(self, entry: Entry) -> None:
        item, path = entry.item, entry.path
        before, self.unfinished = self.unfinished, None
        self._joined = self._joined if getattr(item, "harmonia_continues", None) else 0
        match item:
            case wire.MessageItem():
                self._read_message(item, entry, before)
            case wire.ReasoningItem():
                self._read_reasoning(item, entry, before)
            case wire.FunctionCall():
                made = self._json_call(item.name, item.namespace, None, item.arguments)
                self._add_call(made, item.call_id, entry, item.encrypted_content)
            case wire.CustomCall():
                recipient = self._offer.recipient_of(item.name, item.namespace)
                made = call_as_sampled(recipient, item.input, is_json=False)
                self._add_call(made, item.call_id, entry, item.encrypted_content)
            case wire.ShellCall():
                made = self._json_call("shell", None, None, _dump(without_nulls(item.action)))
                self._add_call(made, item.call_id, entry, item.encrypted_content)
            case wire.LocalShellCall():
                action = {name: value for name, value in without_nulls(item.action).items() if name != "type"}
                made = self._json_call("local_shell", None, None, _dump(action))
                self._add_call(made, item.call_id, entry, item.encrypted_content)
            case wire.PatchCall():
                made = self._json_call("apply_patch", None, None, _dump(item.operation))
                self._add_call(made, item.call_id, entry, item.encrypted_content)
            case wire.FunctionOutput() | wire.CustomOutput() | wire.ShellOutput():
                self._add_result(item.call_id, self._output_texts(item.output, entry), path)
            case wire.LocalShellOutput():
                id_ = item.call_id or item.id
                if id_ is None:
                    raise InputError(
                        ErrorCode.SERVE_INVALID_FIELD, "which call? There is no id", Position(path=f"{path}.id")
                    )
                self._add_result(id_, (item.output,), path, "id" if item.call_id is None else "call_id")
            case wire.PatchOutput():
                text = item.output if item.output is not None else item.status or "completed"
                failed = item.status == "failed" and item.output is not None
                self._add_result(item.call_id, (f"failed: {text}" if failed else text,), path)
            case wire.McpCall():
                self._read_mcp_call(item, entry)
            case McpApprovalRequest():
                if item.id is None:
                    invalid("it has no id under which it could be decided", f"{path}.id")
                made = self._json_call(item.name, None, item.server_label, item.arguments)
                message = self._as_sampled(made, entry, item.encrypted_content)
                # The last request of an id is the one that is decided about.
                self._vouched.pop(item.id, None)
                if message is not made:
                    self._vouched[item.id] = (item, entry, message)
                arguments = self._arguments.get(item.id, item.arguments)
                if arguments != item.arguments:
                    # What ran is not what was sampled, and its result answers what ran.
                    message = self._json_call(item.name, None, item.server_label, arguments)
                self._requests[item.id] = message
                self._put_call(message, item.id, entry)
            case wire.McpApprovalResponse():
                self._read_approval(item, entry)
            case wire.McpListTools() | wire.AdditionalTools():
                pass
            case wire.ItemReference():
                raise InputError(
                    ErrorCode.SERVE_NOT_FOUND, f"there is no stored item {item.id!r}", Position(path=f"{path}.id")
                )

    def _read_message(self, item: wire.MessageItem, entry: Entry, before: Message | None) -> None:
        if item.content is None and item.role != "assistant" and not entry.is_past:
            invalid("content is missing", f"{entry.path}.content")
        texts = self._texts(item.content, entry, "content")
        match item.role:
            case "user":
                self._read.add(message_defaults.user(_one_or_all(texts)))
            case "system" | "developer":
                instructions = message_defaults.developer("\n".join(texts))
                if not self._is_left_out(instructions, entry):
                    self._read.add(instructions)
            case "assistant":
                made = message_defaults.assistant("".join(texts), _CHANNELS[item.phase])
                goes_on_with = None
                if item.harmonia_continues and before is not None and before.channel == made.channel:
                    goes_on_with = before.text
                message = self._as_sampled(made, entry, item.encrypted_content, goes_on_with)
                if goes_on_with is not None:
                    whole = made.replace(content=goes_on_with + made.text)
                    # A client may have joined the two itself; then the one before is another message.
                    if message is made or message.text == whole.text:
                        message = whole if message is made else message
                        self._take_back(entry)
                # One that was sampled here may have been cut off before its first word: the model can go on with it.
                if message is made and self._is_left_out(message, entry):
                    self.unfinished = before
                else:
                    self._add_text(message)

    def _is_left_out(self, message: Message, entry: Entry) -> bool:
        """Whether the message says nothing; then the answer's warnings say that it is not there."""
        is_empty = message_defaults.is_empty(message)
        if is_empty and not entry.is_past:
            self.warnings.add_empty_message(entry.path)
        return is_empty

    def _read_reasoning(self, item: wire.ReasoningItem, entry: Entry, before: Message | None) -> None:
        messages = entry.messages
        if messages is None and item.encrypted_content is not None:
            messages = self._opened(item, entry, item.encrypted_content, takes_unbound=True)
            self.unsealed[entry.path] = messages
        if messages is None:
            texts = self._texts(item.content, entry, "content")
            if not texts:
                return
            made = message_defaults.assistant("".join(texts), _REASONING)
            if item.harmonia_continues and before is not None and before.channel == made.channel:
                made = made.replace(content=before.text + made.text)
                self._take_back(entry)
            self._add_text(made)
            return
        # Behind the seal is the whole message. Whether it begins with the one before is not asked: the length of the
        # prompt, which is told, would say to a client that guesses how hidden reasoning begins.
        if item.harmonia_continues and before is not None and messages and messages[0].channel == before.channel:
            self._take_back(entry)
        # What was hidden may be a call that could not be run, with the answer that says so.
        at = 0
        while at < len(messages):
            message = messages[at]
            following = messages[at + 1] if at + 1 < len(messages) else None
            if call_of(message) is not None and following is not None and following.role is Role.TOOL:
                self._read.add_call(message, None, following, entry.path)
                at += 1
            else:
                self._add_text(message)
            at += 1

    def _take_back(self, entry: Entry) -> None:
        """The last message; what goes on with it takes its place."""
        self._joined += 1
        if self._joined > _MOST_JOINED:
            invalid(f"more than {_MOST_JOINED} items go on with one another; join them", entry.path)
        self._read.messages.pop()

    def _add_text(self, message: Message) -> None:
        self._read.add(message)
        # What is hidden for its header alone would become visible with another.
        is_sure = is_visible(message) or message.channel == _REASONING
        if message.role is Role.ASSISTANT and call_of(message) is None and is_sure:
            self.unfinished = message

    def _read_mcp_call(self, item: wire.McpCall, entry: Entry) -> None:
        output = item.output if item.output is not None else error_text(item.error)
        request = item.approval_request_id
        if request is not None and request in self._requests:
            self._read.add_result(request, None, output, entry.path, f"{entry.path}.approval_request_id")
            return
        made = self._json_call(item.name, None, item.server_label, item.arguments)
        call = self._as_sampled(made, entry, item.encrypted_content)
        _, *told = entry.messages or self.unsealed.get(entry.path) or (call,)
        if told and told[0].text == output:
            self._read.add_call(call, item.id, told[0], entry.path)
        else:
            self.unsealed.pop(entry.path, None)  # its answer is another one
            self._read.add_call(call, item.id, output, entry.path)
        self.handed[id(call)] = call

    def _read_approval(self, item: wire.McpApprovalResponse, entry: Entry) -> None:
        id_, path = item.approval_request_id, entry.path
        message = self._requests.get(id_)
        if message is None:
            raise InputError(
                ErrorCode.INTERCHANGE_UNKNOWN_CALL,
                f"no approval was asked for under the id {id_!r}",
                Position(path=f"{path}.approval_request_id"),
            )
        if id_ in self._decided:
            invalid(f"it was decided about {id_[:100]!r} already", f"{path}.approval_request_id")
        self._decided.add(id_)
        for name in ("harmonia_arguments", "harmonia_output"):
            if getattr(item, name) is not None and not item.approve:
                invalid("a call that is refused has neither other arguments nor a result", f"{path}.{name}")
        if id_ in self._answered:
            return  # it has run, and the call that says so follows
        by_hand = None if item.harmonia_output is None else ToolResult(item.harmonia_output)
        if item.approve and entry.is_past and by_hand is None:
            # That response ended before it came to it. Nobody expects it to be done now.
            stopped = error_result(ToolError(ErrorCode.TOOL_REFUSED, "the call was not run: the response ended before"))
            self._read.add_result(id_, None, stopped.text, path, f"{path}.approval_request_id")
            return
        if not entry.is_past:
            if item.harmonia_arguments is not None:
                self._check_arguments(message, f"{path}.harmonia_arguments")
            sampled, expires_at = self._vouch(id_)
            if item.approve and sampled is None and id_ not in self._approved:
                # What the model did not certainly call is not run, whoever approves of it (law 5).
                raise InputError(
                    ErrorCode.SERVE_BAD_SEAL,
                    "only a call that the model made here, and whose seal has not expired, can be approved: send its "
                    "mcp_approval_request back as it came, with its encrypted_content",
                    Position(path=f"{path}.approval_request_id"),
                )
            decided = Waiting(id_, message, item.approve, item.reason, path, sampled, expires_at, by_hand)
            self.waiting.append(decided)
        result = by_hand or self._approved.get(id_)
        if not item.approve:
            because = f": {item.reason}" if item.reason else ""
            result = error_result(ToolError(ErrorCode.TOOL_REFUSED, f"the user refused this call{because}"))
        if result is not None:
            self._read.add_result(id_, None, result.text, path, f"{path}.approval_request_id")

    def _vouch(self, id_: str) -> tuple[Message, int] | tuple[None, None]:
        """The call that an approval was asked for, as it was sampled, and until when that can be decided: as long as
        the seal of the request opens. Only beside an item of our own store an old seal will do."""
        item, entry, sampled = self._vouched.get(id_, (None, None, None))
        if item is None or entry is None or sampled is None or item.encrypted_content is None:
            return None, None
        try:
            self._opened(item, entry, item.encrypted_content, takes_unbound=entry.is_ours)
        except InputError:
            return None, None
        return sampled, self._seals.expires_at(item.encrypted_content)

    def _check_arguments(self, message: Message, path: str) -> None:
        """Arguments that somebody wrote have to fit the tool, as those of a model have to. Where the tool is gone,
        running it will say so."""
        call = call_of(message)
        if call is None or not isinstance(call.value, dict):
            invalid("the arguments of a call are one JSON object", path)
        if self._offer.find(call.recipient) is None:
            return
        try:
            self._offer.toolset.check(call)
        except ToolError as error:
            invalid(error.message, path)

    def _texts(self, content: str | list[Any] | None, entry: Entry, field: str) -> tuple[str, ...]:
        # The client has had the warnings about what stands in an older request.
        warnings = None if entry.is_past else self.warnings
        return texts_of(content, f"{entry.path}.{field}", warnings)

    def _output_texts(self, output: str | list[Any], entry: Entry) -> tuple[str, ...]:
        """What a tool answered. Parts of a shell's output have no text of their own, and are told as JSON."""
        if isinstance(output, str):
            return (output,)
        if all(isinstance(part, dict) and "stdout" in cast("Json", part) for part in output) and output:
            return (_dump(output),)
        return self._texts(output, entry, "output")

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _json_call(self, name: str, namespace: str | None, server: str | None, arguments: str) -> Message:
        return call_as_sampled(self._offer.recipient_of(name, namespace, server), arguments)

    def _add_call(self, made: Message, id_: str, entry: Entry, seal: str | None) -> Message:
        message = self._as_sampled(made, entry, seal)
        self._put_call(message, id_, entry)
        return message

    def _put_call(self, message: Message, id_: str, entry: Entry) -> None:
        self._read.add_call(message, id_, path=entry.path)
        self.handed[id(message)] = message

    def _add_result(self, id_: str, texts: tuple[str, ...], path: str, field: str = "call_id") -> None:
        self._read.add_result(id_, None, _one_or_all(texts), path, f"{path}.{field}")

    def _as_sampled(self, made: Message, entry: Entry, seal: str | None, before: str | None = None) -> Message:
        """The message as it was sampled, where we can vouch for that. `before` is the text that the item may go on
        with."""
        if entry.messages:
            return entry.messages[0]
        if seal is None:
            return made
        item = cast("SealableItem", entry.item)
        if self._seals.is_unbound(seal):
            self._opened(item, entry, seal, takes_unbound=True)  # one that was forged is refused; no other is used
            return made
        messages = None
        if before is not None:
            with suppress(InputError):
                messages = self._opened(item, entry, seal, before)
        if messages is None:
            messages = self._opened(item, entry, seal)
        if not messages or not _has_recipient(messages[0], made.recipient):
            return made
        self.unsealed[entry.path] = messages
        return messages[0]

    def _opened(
        self, item: SealableItem, entry: Entry, seal: str, before: str = "", *, takes_unbound: bool = False
    ) -> tuple[Message, ...]:
        path = f"{entry.path}.encrypted_content"
        return tuple(self._seals.open(seal, binding_of(item, before), path, takes_unbound=takes_unbound))


def _has_recipient(sampled: Message, recipient: str | None) -> bool:
    """Whether the call goes where its item leads now: the tools of this request may be others."""
    # Models leave the namespace out at times.
    return sampled.recipient == recipient or f"functions.{sampled.recipient}" == recipient


def _one_or_all(texts: tuple[str, ...]) -> str | tuple[str, ...]:
    return "".join(texts) if len(texts) < 2 else texts


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
