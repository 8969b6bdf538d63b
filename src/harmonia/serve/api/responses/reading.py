"""From what a client sent, and what the store has, to the conversation that the model gets.

    prior input -> prior output -> new input, in this order

1. Items that the server made come back as the tokens they were sampled as: from the store, or from behind a seal.
2. Whatever a client wrote is text, in every field (law 1); a seal that does not open is the client's error.
3. A client that changed what it sends beside a seal gets what it changed, without the tokens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from harmonia.errors import ErrorCode, InputError, Position, ToolError
from harmonia.interchange import canonical
from harmonia.interchange.documents import Report
from harmonia.interchange.joining import ReadMessages
from harmonia.messages import Conversation, DeveloperContent, Json, Message, Role
from harmonia.parts import call_of
from harmonia.run.tools import ToolResult
from harmonia.run.tools.results import error_result
from harmonia.serve.api.fields import invalid
from harmonia.serve.api.responses import items as wire
from harmonia.serve.api.responses.items import Item, read_item, texts_of
from harmonia.serve.api.responses.output_items import call_fields
from harmonia.serve.api.responses.tools import Offer
from harmonia.serve.api.sampled_calls import call_as_sampled

# Opens an encrypted_content; the path is for the error.
OpenSeal = Callable[[str, str], list[Message]]

_CHANNELS: Final = {None: "final", "final_answer": "final", "commentary": "commentary"}


class Entry(msgspec.Struct, frozen=True):
    """An item with its path in the request, and its messages where we vouch for them. `is_past` is what stands in a
    response before this one."""

    item: Item
    path: str
    messages: tuple[Message, ...] | None = None
    is_past: bool = False


class Waiting(msgspec.Struct, frozen=True):
    """A call that waited for an approval, and what was decided."""

    request_id: str
    message: Message
    approves: bool
    reason: str | None


def read_entries(values: Sequence[object] | str, path: str) -> list[Entry]:
    """The items of an input; a text is what the user says."""
    if isinstance(values, str):
        return [Entry(wire.MessageItem(role="user", content=values), path)]
    return [Entry(read_item(value, f"{path}[{at}]"), f"{path}[{at}]") for at, value in enumerate(values)]


def additional_tools(entries: Sequence[Entry]) -> list[tuple[str, Sequence[Json]]]:
    """The lists of tools that stand among the items."""
    return [
        (f"{entry.path}.tools", entry.item.tools) for entry in entries if isinstance(entry.item, wire.AdditionalTools)
    ]


class Reading:
    """Reads entries one after the other. `approved` has the results of calls that were approved and have run.

    `unsealed` has, by their paths, the messages of items whose seals were opened and still say what the items say.
    """

    def __init__(self, offer: Offer, open_seal: OpenSeal, approved: Mapping[str, ToolResult] | None = None) -> None:
        self.waiting: list[Waiting] = []
        self.unsealed: dict[str, tuple[Message, ...]] = {}
        self._offer = offer
        self._open_seal = open_seal
        self._approved = approved or {}
        self._read = ReadMessages(Report())
        self._requests: dict[str, Message] = {}
        self._unvouched: set[str] = set()  # requests that neither the store nor a seal knows
        self._answered: set[str] = set()
        self._decided: set[str] = set()

    def read(self, entries: Sequence[Entry]) -> None:
        self._answered = {
            entry.item.approval_request_id
            for entry in entries
            if isinstance(entry.item, wire.McpCall) and entry.item.approval_request_id is not None
        }
        for entry in entries:
            self._read_entry(entry)

    def finish(self, instructions: Sequence[str] = ()) -> Conversation:
        """The conversation, with the instructions and all developer messages at its head as one message."""
        messages = self._read.finish()
        texts = list(instructions)
        body = 0
        while body < len(messages) and messages[body].role is Role.DEVELOPER:
            content = messages[body].content
            texts.append((content.instructions or "") if isinstance(content, DeveloperContent) else messages[body].text)
            body += 1
        head = Message.developer("\n\n".join(text for text in texts if text) or None)
        return Conversation([head, *messages[body:]] if texts else messages[body:])

    # ── items ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _read_entry(self, entry: Entry) -> None:
        item, path = entry.item, entry.path
        match item:
            case wire.MessageItem():
                self._read_message(item, entry)
            case wire.ReasoningItem():
                self._read_reasoning(item, entry)
            case wire.FunctionCall():
                made = self._json_call(item.name, item.namespace, None, item.arguments)
                self._add_call(made, item.call_id, entry, item.encrypted_content)
            case wire.CustomCall():
                recipient = self._offer.recipient_of(item.name, item.namespace)
                made = call_as_sampled(recipient, item.input, is_json=False)
                self._add_call(made, item.call_id, entry, item.encrypted_content)
            case wire.ShellCall():
                made = self._json_call("shell", None, None, _dump(_given(item.action)))
                self._add_call(made, item.call_id, entry, item.encrypted_content)
            case wire.LocalShellCall():
                action = {name: value for name, value in _given(item.action).items() if name != "type"}
                made = self._json_call("local_shell", None, None, _dump(action))
                self._add_call(made, item.call_id, entry, item.encrypted_content)
            case wire.PatchCall():
                made = self._json_call("apply_patch", None, None, _dump(item.operation))
                self._add_call(made, item.call_id, entry, item.encrypted_content)
            case wire.FunctionOutput() | wire.CustomOutput() | wire.ShellOutput():
                self._add_result(item.call_id, _output_texts(item.output, f"{path}.output"), path)
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
            case wire.McpApprovalRequest():
                if item.id is None:
                    invalid("it has no id under which it could be decided", f"{path}.id")
                made = self._json_call(item.name, None, item.server_label, item.arguments)
                message = self._requests[item.id] = self._add_call(made, item.id, entry, item.encrypted_content)
                if message is made:
                    self._unvouched.add(item.id)
            case wire.McpApprovalResponse():
                self._read_approval(item, entry)
            case wire.McpListTools() | wire.AdditionalTools():
                pass
            case wire.ItemReference():
                raise InputError(
                    ErrorCode.SERVE_NOT_FOUND, f"there is no stored item {item.id!r}", Position(path=f"{path}.id")
                )

    def _read_message(self, item: wire.MessageItem, entry: Entry) -> None:
        texts = texts_of(item.content, f"{entry.path}.content")
        match item.role:
            case "user":
                self._read.add(canonical.user(_one_or_all(texts)))
            case "system" | "developer":
                self._read.add(canonical.developer("\n".join(texts)))
            case "assistant":
                made = canonical.assistant("".join(texts), _CHANNELS[item.phase])
                self._read.add(self._as_sampled(made, entry, item.encrypted_content))

    def _read_reasoning(self, item: wire.ReasoningItem, entry: Entry) -> None:
        messages = entry.messages
        if messages is None and item.encrypted_content is not None:
            messages = self._opened(item.encrypted_content, entry.path)
            self.unsealed[entry.path] = messages
        if messages is None:
            texts = texts_of(item.content, f"{entry.path}.content")
            if texts:
                self._read.add(canonical.assistant("".join(texts), "analysis"))
            return
        # What was hidden may be a call that could not be run, with the answer that says so.
        at = 0
        while at < len(messages):
            message = messages[at]
            following = messages[at + 1] if at + 1 < len(messages) else None
            if call_of(message) is not None and following is not None and following.role is Role.TOOL:
                self._read.add_call(message, None, following, entry.path)
                at += 1
            else:
                self._read.add(message)
            at += 1

    def _read_mcp_call(self, item: wire.McpCall, entry: Entry) -> None:
        output = item.output if item.output is not None else _error_text(item.error)
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
        if id_ in self._answered:
            return  # it has run, and the call that says so follows
        if item.approve and entry.is_past:
            # That response ended before it came to it. Nobody expects it to be done now.
            stopped = error_result(ToolError(ErrorCode.TOOL_REFUSED, "the call was not run: the response ended before"))
            self._read.add_result(id_, None, stopped.text, path, f"{path}.approval_request_id")
            return
        if item.approve and id_ in self._unvouched:
            # What the model did not certainly call is not run, whoever approves of it (law 5).
            raise InputError(
                ErrorCode.SERVE_BAD_SEAL,
                "only a call that the model made here can be approved: send its mcp_approval_request back as it came, "
                "with its encrypted_content",
                Position(path=f"{path}.approval_request_id"),
            )
        self.waiting.append(Waiting(id_, message, item.approve, item.reason))
        result = self._approved.get(id_)
        if not item.approve:
            because = f": {item.reason}" if item.reason else ""
            result = error_result(ToolError(ErrorCode.TOOL_REFUSED, f"the user refused this call{because}"))
        if result is not None:
            self._read.add_result(id_, None, result.text, path, f"{path}.approval_request_id")

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _json_call(self, name: str, namespace: str | None, server: str | None, arguments: str) -> Message:
        return call_as_sampled(self._offer.recipient_of(name, namespace, server), arguments)

    def _add_call(self, made: Message, id_: str, entry: Entry, seal: str | None) -> Message:
        message = self._as_sampled(made, entry, seal)
        self._read.add_call(message, id_, path=entry.path)
        return message

    def _add_result(self, id_: str, texts: tuple[str, ...], path: str, field: str = "call_id") -> None:
        self._read.add_result(id_, None, _one_or_all(texts), path, f"{path}.{field}")

    def _as_sampled(self, made: Message, entry: Entry, seal: str | None) -> Message:
        """The message as it was sampled, where we can vouch for that and the client left what it says as it was."""
        if entry.messages:
            return entry.messages[0]
        if seal is None:
            return made
        messages = self._opened(seal, entry.path)
        if not messages or not _says_the_same(messages[0], made, entry.item):
            return made
        self.unsealed[entry.path] = messages
        return messages[0]

    def _opened(self, seal: str, path: str) -> tuple[Message, ...]:
        return tuple(self._open_seal(seal, f"{path}.encrypted_content"))


def _says_the_same(sampled: Message, made: Message, item: Item) -> bool:
    """Whether the item says what was sampled; `made` is the message that follows from the item."""
    mine, yours = sampled.recipient, made.recipient
    call = call_of(sampled)
    if call is None or yours is None:
        return mine == yours and sampled.channel == made.channel and sampled.text == made.text
    # Models leave the namespace out at times.
    if mine != yours and f"functions.{mine}" != yours:
        return False
    fields = call_fields(str(item.__struct_config__.tag), call)
    return all(_given(getattr(item, name)) == _given(value) for name, value in fields.items())


def _given(value: Any) -> Any:
    """An object without the fields that say nothing: clients leave out what is null, or put it in."""
    if not isinstance(value, dict):
        return value
    return {name: each for name, each in cast("Json", value).items() if each is not None}


def _one_or_all(texts: tuple[str, ...]) -> str | tuple[str, ...]:
    return "".join(texts) if len(texts) < 2 else texts


def _output_texts(output: str | list[Any], path: str) -> tuple[str, ...]:
    """What a tool answered. Parts of a shell's output have no text of their own, and are told as JSON."""
    if isinstance(output, str):
        return (output,)
    if all(isinstance(part, dict) and "stdout" in cast("Json", part) for part in output) and output:
        return (_dump(output),)
    return texts_of(output, path)


def _error_text(error: str | Json | None) -> str:
    return "" if error is None else error if isinstance(error, str) else _dump(error)


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
