"""From the events of a run to the events of a response, and to the response itself.

1. An item is opened when its header is complete and closed once; its events have its index, and sequence numbers count
   up by one. `output_item.done` has the item as the response has it.
2. Text on `analysis`, and all other text that is not known to be for the user, goes into a reasoning item: sealed, and
   readable only if the operator shows reasoning. So does a call that could not be delivered, with the error that the
   model got instead, and, if the answer has a format, text beside it: clients parse every message. Text that turns out
   to be a thought when it ends goes there, too, unless it was streamed: what was sent stays.
3. A call goes to the client only if it was certainly made. A streamed call that turns out not to be certain stays
   incomplete and ends the response.
4. There is exactly one terminal event, and it is the last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from harmonia.errors import EngineError, ErrorCode
from harmonia.events import ArgumentsDelta, Header, HeaderCompleted, MessageEnded, MessageStarted, TextDelta
from harmonia.json_codec import encode_bytes, encode_string
from harmonia.messages import Json, Message, call_id
from harmonia.parts import call_of, is_visible
from harmonia.provenance import Trust
from harmonia.run.events import CallEnded, PendingCall, RunEnded, SamplingEnded, TurnEvent
from harmonia.run.loop import Run
from harmonia.run.tools import Tool, ToolResult
from harmonia.run.tools.results import result_message
from harmonia.serve.responses.items.base import (
    SLUG,
    CallItem,
    ClientCall,
    Item,
    MessageItem,
    ReasoningItem,
    SealedItem,
    ServerCall,
)
from harmonia.serve.responses.items.mcp import McpCall, McpListTools, listed_tool, write_error
from harmonia.serve.responses.items.table import call_item, read_item
from harmonia.serve.responses.malformed_samplings import FIELD, MalformedSamplings
from harmonia.serve.responses.prepared_request import Backend, PreparedRequest
from harmonia.serve.responses.request import new_resource, usage_of
from harmonia.serve.security.keys import new_id
from harmonia.serve.wire.error_responses import api_error_of, in_clients_words, no_call, not_met
from harmonia.serve.wire.event_stream import StreamEvent
from harmonia.serve.wire.request_tools import tools_of_server
from harmonia.serve.wire.token_usage import TokenUsage, write_logprob

# Why a response that did not fail is not complete.
Incomplete = Literal["max_output_tokens", "max_tool_calls", "time_limit", "no_visible_output", "uncertain_call"]

# OpenAI's clients know only these reasons. Ours stand beside them, as `harmonia_reason`.
_OPENAI_REASONS: Final[dict[Incomplete, str]] = {
    "max_output_tokens": "max_output_tokens",
    "max_tool_calls": "max_messages",
    "time_limit": "max_output_tokens",
    "no_visible_output": "content_filter",  # something was withheld
    "uncertain_call": "content_filter",
}
_OF_LIMITS: Final[dict[str, Incomplete]] = {"tokens": "max_output_tokens", "time": "time_limit"}
# The codes of failures that OpenAI's clients know; all others are a server_error to them.
_OPENAI_CODES: Final = ("server_error", "rate_limit_exceeded", "context_length_exceeded")
# A schema may have any number of constraints that could not be verified.
_MOST_WARNINGS: Final = 32
_REASON: Final = "harmonia_reason"
# What open-responses calls these.
_OTHER_NAMES: Final = {
    "response.reasoning_text.delta": "response.reasoning.delta",
    "response.reasoning_text.done": "response.reasoning.done",
}


@dataclass(slots=True)
class OutputItem:
    """An item while it grows. `messages` are what the model sampled, and the result it was given."""

    wire: Json
    index: int
    kind: type[Item]
    messages: tuple[Message, ...] = ()
    is_done: bool = False
    texts: list[str] = field(default_factory=list[str])
    logprobs: list[Json] = field(default_factory=list[Json])
    delta_head: bytes = b""  # of its delta events, up to the sequence number
    delta_tail: bytes = b""  # and after the text
    delta_type: str = ""

    @property
    def is_streamed_call(self) -> bool:
        return issubclass(self.kind, CallItem) and self.kind.is_streamed


class ResponseWriter:
    """Folds a run into a response. Feed it every event; the events it returns go to the client, in this order."""

    def __init__(self, backend: Backend, prepared: PreparedRequest, response_id: str) -> None:
        request, dialect = prepared.request, prepared.caller.dialect
        self.created_at = int(backend.clock())
        self.resource = new_resource(
            request, response_id, self.created_at, prepared.model, dialect=dialect, warnings=prepared.warnings
        )
        self.run: Run | None = None  # once it has begun
        self.items: list[OutputItem] = []
        self.unsaved: deque[OutputItem] = deque()  # done, and not in the store yet
        self.stop_because: Incomplete | None = None
        self.is_over = False
        self.failure: Exception | None = None
        self._backend = backend
        self._request = request
        self._tools = prepared.allowed_tools
        self._shows_analysis = backend.settings.analysis == "shown"
        self._shows_logprobs = request.wants_logprobs
        self._demands_call = prepared.tool_choice not in ("auto", "none")
        self._token_usage = TokenUsage(prepared.prefix_tokens)
        self._seals = backend.seals_of(prepared.caller)
        self._is_open_responses = dialect == "open-responses"
        self._names = _OTHER_NAMES if self._is_open_responses else {}
        # The other dialect has no field for it.
        reports_malformed = request.seals_items and not self._is_open_responses
        self._malformed = MalformedSamplings(self._seals.seal_sampled) if reports_malformed else None
        self._sequence = 0
        self._message_index: int | None = None
        self._open: OutputItem | None = None
        self._unended: OutputItem | None = None  # its message was cut off; what comes next says what that means
        self._by_message: dict[int, OutputItem] = {}
        self._by_call: dict[str, OutputItem | Message] = {}
        self._has_call = False
        self._prefix_text = ""  # of the message that the model continues

    # ── the whole ───────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def is_empty(self) -> bool:
        """Whether nothing came from the model or from a tool. A list of tools is neither."""
        return all(item.kind is McpListTools for item in self.items)

    def start(self) -> list[StreamEvent]:
        """The response exists, and is in progress."""
        return [self._event(f"response.{each}", {"response": self.resource}) for each in ("created", "in_progress")]

    def list_servers(self, servers: Sequence[str]) -> list[StreamEvent]:
        """The tools of these MCP servers, an item for each server, before anything else."""
        events: list[StreamEvent] = []
        for server in servers:
            item = self._new_item(McpListTools, {"server_label": server, "tools": []})
            events.append(self._added(item))
            item.wire["tools"] = [listed_tool(each) for each in tools_of_server(self._tools, server)]
            events += self._mcp_events(item, "mcp_list_tools.in_progress", "mcp_list_tools.completed")
            events += self._close(item)
        return events

    def add_approved(
        self, tool: Tool, request_id: str, call: Message, result: ToolResult, *, by_hand: bool = False
    ) -> list[StreamEvent]:
        """An approved call has run, or a person answered it by hand, before the model is asked again."""
        item = self._new_item(McpCall, McpCall.begin(tool))
        item.wire["approval_request_id"] = request_id
        if by_hand:
            item.wire["harmonia_by_hand"] = True
        events = [self._added(item), *self._mcp_events(item, "mcp_call.in_progress")]
        item.wire["arguments"] = call.text
        return [*events, *self._input_events(item, has_delta=True), *self._mcp_ended(item, result)]

    def continue_message(self, prefix: Message) -> Sequence[StreamEvent]:
        """The model continues a message that the client has. Its header is never sampled, and its item has only what
        is new; its seal holds the whole message."""
        self._message_index = 0
        self._prefix_text = prefix.text
        header = Header(prefix.author, prefix.channel, is_visible=is_visible(prefix))
        return self._open_message(header, {"harmonia_continues": True})

    def feed(self, event: TurnEvent) -> Sequence[StreamEvent]:
        """The events that the client gets for this one."""
        kind = event.__class__
        if kind is TextDelta or kind is ArgumentsDelta:
            delta = self.delta(cast("TextDelta | ArgumentsDelta", event))
            return () if delta is None else (delta,)
        self._token_usage.count(event)
        if self._malformed is not None:
            self._malformed.note(event, len(self.items))
        if self.stop_because is not None and kind is not RunEnded:
            return ()  # it is being stopped, and nothing may follow an incomplete item
        match event:
            case MessageStarted():
                self._message_index = None
            case HeaderCompleted() if self._message_index != event.index:  # else its content type came late
                self._message_index = event.index
                return [*self._close_unended(), *self._open_message(event.header)]
            case MessageEnded():
                return self._message_ended(event.message)
            case SamplingEnded():
                self._sampling_ended(event)
            case CallEnded():
                return self._call_ended(event)
            case RunEnded():
                events = [each for pending in event.pending for each in self._pending(pending)]
                return [*events, *self._run_ended(event)]
            case _:
                pass
        return ()

    # ── messages ────────────────────────────────────────────────────────────────────────────────────────────────

    def _close_unended(self) -> Sequence[StreamEvent]:
        """The message before had no end, and another one begins: a text is whole, but a call is uncertain."""
        item, self._unended = self._unended, None
        if item is not None and item.is_streamed_call:
            self.stop_because = "uncertain_call"
            return ()
        return () if item is None else self._close_text(item)

    def _open_message(self, header: Header, more: Json | None = None) -> Sequence[StreamEvent]:
        self._open = None
        if header.is_forged or self.stop_because is not None:
            return ()
        if header.is_call:
            return self._open_call(header)
        if header.is_visible and not (self._request.response_format is not None and header.channel != "final"):
            phase = "final_answer" if header.channel == "final" else "commentary"
            item = self._new_item(MessageItem, {"role": "assistant", "content": [], "phase": phase, **(more or {})})
            part: Json = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        else:
            item = self._new_reasoning(more)
            if self._shows_analysis and header.channel != "analysis" and not self._is_open_responses:
                item.wire["harmonia_channel"] = header.channel  # not a thought, but withheld
            part = {"type": "reasoning_text", "text": ""}
        self._open = item
        if item.kind is ReasoningItem and not self._shows_analysis:
            return [self._added(item)]
        self._prepare_deltas(item, f"response.{part['type']}.delta", content_index=True)
        return [self._added(item), self._part_event(item, "added", part)]

    def _open_call(self, header: Header) -> Sequence[StreamEvent]:
        tool = self._tools.find(header.recipient or "")
        is_certain = header.trust is Trust.CERTAIN and self._backend.served.calls_are_certain
        if tool is None or not is_certain or not self._tools.is_allowed(tool):
            return ()
        kind = call_item(tool)
        if not kind.is_streamed:
            return ()  # it is sent when it is complete
        item = self._open = self._new_item(kind, kind.begin(tool))
        if self._has_input_events(kind):
            self._prepare_deltas(item, f"{kind.input_event}.delta")
        return [self._added(item), *(self._mcp_events(item, "mcp_call.in_progress") if kind is McpCall else ())]

    def delta(self, event: TextDelta | ArgumentsDelta) -> StreamEvent | None:
        """The event for a piece of text, if the client gets one. This runs once a token."""
        item = self._open
        if item is None:
            return None
        text = event.text
        item.texts.append(text)
        if not item.delta_head:
            return None
        sequence = self._sequence
        self._sequence = sequence + 1
        if self._shows_logprobs and item.kind is MessageItem and isinstance(event, TextDelta):
            logprobs = [write_logprob(each) for each in self._token_usage.logprobs_of(event)]
            item.logprobs += logprobs
            tail = b',"logprobs":%b}' % encode_bytes(logprobs)
        else:
            tail = item.delta_tail
        # One format, and nothing encoded but the text.
        data = b'%b%d,"delta":%b%b' % (item.delta_head, sequence, encode_string(text), tail)
        return StreamEvent(data, item.delta_type)

    def _message_ended(self, message: Message) -> Sequence[StreamEvent]:
        item, self._open = self._open, None
        if item is None:
            return ()
        if item.kind is MessageItem and not self._request.stream and not is_visible(message):
            del self.items[item.index]  # the last; the client has not heard of it yet
            thought = self._new_reasoning()
            thought.texts, item = item.texts, thought
        item.messages = (message,)
        if item.is_streamed_call:
            item.wire["arguments"] = message.text
        if message.origin is not None and message.origin.stop is None:
            self._unended = item
            return ()
        if not item.is_streamed_call:
            return self._close_text(item)
        call = call_of(message)
        if call is None or call.status not in ("certain", self._backend.settings.calls):
            self.stop_because = "uncertain_call"
            return ()
        self._by_message[id(message)] = item
        if item.kind is McpCall:
            return self._input_events(item)
        self._has_call = True
        return [*self._input_events(item), *self._close(item)]

    def _close_text(self, item: OutputItem, status: str = "completed") -> list[StreamEvent]:
        events: list[StreamEvent] = []
        if item.kind is MessageItem or self._shows_analysis:
            kind = "output_text" if item.kind is MessageItem else "reasoning_text"
            text = "".join(item.texts)
            part: Json = {"type": kind, "text": text}
            done: Json = {"content_index": 0, "text": text}
            if item.kind is MessageItem:
                part |= {"annotations": [], "logprobs": item.logprobs}
                done["logprobs"] = item.logprobs
            item.wire["content"] = [part]
            events.append(self._item_event(item, f"response.{kind}.done", done))
            events.append(self._part_event(item, "done", part))
        return [*events, *self._close(item, status)]

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _warn(self, warnings: Sequence[str]) -> None:
        known: list[str] = self.resource.get("warnings", [])
        new = [each for each in warnings if each not in known]
        if new:
            self.resource["warnings"] = [*known, *new][:_MOST_WARNINGS]

    def _sampling_ended(self, event: SamplingEnded) -> None:
        self._warn([in_clients_words(each, self._tools) for each in event.unverified_constraints])
        assert self.run is not None
        for at, message in enumerate(event.messages, len(self.run.conversation) - len(event.messages)):
            if call_of(message) is not None:
                self._by_call[call_id(at)] = self._by_message.get(id(message), message)
        self._by_message.clear()

    def _call_ended(self, event: CallEnded) -> Sequence[StreamEvent]:
        known = self._by_call.pop(event.id, None)
        item = known if isinstance(known, OutputItem) else None
        if known is None or (item is not None and (item.kind is not McpCall or item.is_done)):
            return ()
        call = known if isinstance(known, Message) else known.messages[0]
        tool = self._tools.find(call.recipient or "")
        name = (call.recipient or "") if tool is None else self._tools.recipient_of(tool)
        messages = (call, result_message(name, event.result, call.channel))
        if item is not None:
            item.messages = messages
            return self._mcp_ended(item, event.result)
        # It could not be delivered or run. The model was told why, and continues; the client need not know.
        item = self._new_reasoning()
        item.messages = messages
        if not self._shows_analysis:
            return [self._added(item), *self._close_text(item)]
        error = event.result.text
        text = f"A call that was not made: {call.recipient}({call.text})\n{error}"
        item.texts = [text]
        if not self._is_open_responses:
            item.wire["harmonia_call"] = {"name": call.recipient, "arguments": call.text, "error": error}
        return [
            self._added(item),
            self._part_event(item, "added", {"type": "reasoning_text", "text": ""}),
            self._item_event(item, "response.reasoning_text.delta", {"content_index": 0, "delta": text}),
            *self._close_text(item),
        ]

    def _mcp_ended(self, item: OutputItem, result: ToolResult) -> list[StreamEvent]:
        item.wire["output"] = None if result.is_error else result.text
        item.wire["error"] = write_error(result.text) if result.is_error else None
        status = "failed" if result.is_error else "completed"
        return [*self._mcp_events(item, f"mcp_call.{status}"), *self._close(item, status)]

    def _pending(self, pending: PendingCall) -> Sequence[StreamEvent]:
        """A call that waits for the client. Those that were streamed are known already."""
        known = self._by_call.pop(pending.id, None)
        tool = self._tools.find(pending.call.recipient)
        if isinstance(known, OutputItem) or tool is None:
            return ()
        kind = call_item(tool)
        item = self._new_item(kind, kind.begin(tool))
        item.messages = (pending.message,)
        fields = kind.written(pending.call)
        if issubclass(kind, ClientCall):
            item.wire |= kind.announced(fields)
        events = [self._added(item)]
        self._has_call = True
        item.wire |= fields
        return [*events, *self._input_events(item, has_delta=True), *self._close(item)]

    def _has_input_events(self, kind: type[CallItem]) -> bool:
        return kind.input_event is not None and (kind.is_standard or not self._is_open_responses)

    def _input_events(self, item: OutputItem, *, has_delta: bool = False) -> list[StreamEvent]:
        """What the model wrote is complete; with all of it as a delta, if it was not streamed."""
        kind = cast("type[CallItem]", item.kind)
        if not self._has_input_events(kind):
            return []
        done = {name: item.wire[name] for name in kind.input_fields}
        delta = {"delta": item.wire[kind.input_fields[0]]}
        events = [self._item_event(item, f"{kind.input_event}.delta", delta)] if has_delta else []
        return [*events, self._item_event(item, f"{kind.input_event}.done", done)]

    # ── ends ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _run_ended(self, event: RunEnded) -> Sequence[StreamEvent]:
        lacks_call = self._demands_call and not self._made_call
        match event.reason:
            case "answered" | "silent" if lacks_call:
                return self.fail(no_call())
            case "unmet":
                assert event.unmet is not None
                if event.unmet.kind != "format" or self._request.demands_form:
                    return self.fail(not_met(event.unmet, self._tools, "$.text.format"))
                self._warn(["text.format: the answer does not match this format; set strict to make that an error"])
                return self._end("completed")
            case "answered" | "calls":
                return self._end("completed")
            case "silent":
                if self._has_call or any(item.kind is MessageItem for item in self.items):
                    return self._end("completed")
                self._warn((f"no part of the answer is visible: {event.hidden_because}",))
                return self._end_incomplete("no_visible_output")
            case "length":
                return self._end_incomplete("max_output_tokens")
            case "limit":
                if event.limit == "samplings" and not self._made_call:
                    return self._end_incomplete("uncertain_call")  # it only made calls that are not allowed
                return self._end_incomplete(_OF_LIMITS.get(event.limit or "", "max_tool_calls"))
            case "cut_off":
                return self.fail(EngineError(ErrorCode.ENGINE_DIED, "the stream ended inside a message"))
            case "stopped":
                if self.stop_because == "uncertain_call" and lacks_call:
                    return self.fail(no_call())
                return self.cancel() if self.stop_because is None else self._end_incomplete(self.stop_because)

    @property
    def _made_call(self) -> bool:
        return self._has_call or any(issubclass(item.kind, ServerCall) for item in self.items)

    def fail(self, error: Exception) -> list[StreamEvent]:
        """The response failed after it began. What came is kept."""
        self.failure = error
        if self.is_over:
            return []
        shown = api_error_of(error)
        known = self._is_open_responses or shown.code in _OPENAI_CODES
        self.resource["error"] = {"code": shown.code if known else "server_error", "message": shown.message}
        if not self._is_open_responses:
            self.resource[_REASON] = shown.code
        events = self._close_open()
        if self._is_open_responses:
            # Its clients expect the error first. OpenAI's own client would raise there, and lose what came.
            events.append(self._event("error", {"error": shown.to_dict()}))
        return [*events, *self._end("failed")]

    def fail_instead(self, unsent: Sequence[StreamEvent], error: Exception) -> list[StreamEvent]:
        """The response failed before these events were sent. They stand, except a terminal event."""
        if self.is_over:
            unsent = unsent[:-1]
            self._sequence -= 1
            self.is_over = False
            self.resource["incomplete_details"] = None
            self.resource.pop(_REASON, None)
        return [*unsent, *self.fail(error)]

    def _end_incomplete(self, reason: Incomplete) -> list[StreamEvent]:
        """The response ends here, before it is complete. open-responses has a field of its own for any reason."""
        if not self._is_open_responses:
            self.resource[_REASON] = reason
        known = reason if self._is_open_responses else _OPENAI_REASONS[reason]
        self.resource["incomplete_details"] = {"reason": known}
        return self._end("incomplete")

    def cancel(self) -> list[StreamEvent]:
        """The response was cancelled, unless it is over."""
        if self._is_open_responses and not self.is_over:
            self.resource["incomplete_details"] = {"reason": "cancelled"}
        return self._end("cancelled")

    def _close_open(self) -> list[StreamEvent]:
        """Close unfinished items as incomplete."""
        self._open = None
        events: list[StreamEvent] = []
        for item in self.items:
            if item.is_done:
                continue
            if item.kind in (MessageItem, ReasoningItem):
                events += self._close_text(item, "incomplete")
            else:
                item.wire["arguments"] = "".join(item.texts)
                events += self._close(item, "incomplete")
        return events

    def _end(self, status: str) -> list[StreamEvent]:
        if self.is_over:
            return []
        events = self._close_open()
        self.is_over = True
        self.resource["status"] = status
        self.resource["completed_at"] = int(self._backend.clock()) if status == "completed" else None
        self.resource["output"] = [item.wire for item in self.items]
        if self.run is not None:
            # open-responses has no field for the cost of each channel.
            channels = None if self._is_open_responses else self._token_usage.channels
            self.resource["usage"] = usage_of(self.run.usage, self._token_usage.reasoning_tokens, channels)
        malformed = () if self._malformed is None else self._malformed.finish(len(self.items))
        if malformed:
            self.resource[FIELD] = malformed
        name = "incomplete" if status == "cancelled" else status
        return [*events, self._event(f"response.{name}", {"response": self.resource})]

    # ── items ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _new_item(self, kind: type[Item], fields: Json) -> OutputItem:
        """An item in progress: every field is there, and empty."""
        name = kind.type_name()
        type_ = f"{SLUG}{name}" if self._is_open_responses and not kind.is_standard else name
        wire: Json = {"type": type_, "id": new_id(kind.id_prefix), "status": "in_progress", **fields}
        item = OutputItem(wire, len(self.items), kind)
        self.items.append(item)
        return item

    def _new_reasoning(self, more: Json | None = None) -> OutputItem:
        # Clients read the length of both.
        return self._new_item(ReasoningItem, {"summary": [], "content": [], **(more or {})})

    def _close(self, item: OutputItem, status: str = "completed") -> list[StreamEvent]:
        item.is_done = True
        item.wire["status"] = status
        is_sealed = issubclass(item.kind, SealedItem) and (item.kind.is_always_sealed or self._request.seals_items)
        if is_sealed and item.messages:
            read = cast("SealedItem", read_item(item.wire, "$"))
            before = self._prefix_text if item.wire.get("harmonia_continues") else ""
            # An item that does not say what was sampled comes back as what it says.
            if item.kind is not MessageItem or before + "".join(item.texts) == item.messages[0].text:
                item.wire["encrypted_content"] = self._seals.seal(item.messages, bound_to=read.binding(before))
        self.unsaved.append(item)
        return [self._event("response.output_item.done", {"output_index": item.index, "item": item.wire})]

    def _added(self, item: OutputItem) -> StreamEvent:
        return self._event("response.output_item.added", {"output_index": item.index, "item": item.wire})

    def _part_event(self, item: OutputItem, which: str, part: Json) -> StreamEvent:
        return self._item_event(item, f"response.content_part.{which}", {"content_index": 0, "part": part})

    def _mcp_events(self, item: OutputItem, *names: str) -> list[StreamEvent]:
        """open-responses does not have them."""
        return [] if self._is_open_responses else [self._item_event(item, f"response.{name}", {}) for name in names]

    def _item_event(self, item: OutputItem, name: str, fields: Json) -> StreamEvent:
        return self._event(name, {"item_id": item.wire["id"], "output_index": item.index, **fields})

    def _prepare_deltas(self, item: OutputItem, name: str, *, content_index: bool = False) -> None:
        item.delta_type = self._names.get(name, name)
        fields: Json = {"type": item.delta_type, "item_id": item.wire["id"], "output_index": item.index}
        if content_index:
            fields["content_index"] = 0
        item.delta_head = encode_bytes(fields)[:-1] + b',"sequence_number":'
        item.delta_tail = b',"logprobs":[]}' if item.kind is MessageItem else b"}"

    def _event(self, name: str, fields: Json) -> StreamEvent:
        name = self._names.get(name, name)
        data = encode_bytes({"type": name, "sequence_number": self._sequence, **fields})
        self._sequence += 1
        return StreamEvent(data, name)
