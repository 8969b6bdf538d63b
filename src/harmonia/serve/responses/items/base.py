"""What items have in common, and those of every conversation: messages, reasoning, calls to the client's tools.

A type of item is a class. Its fields are those of the API; its class variables and methods say how such items are
named, read, written and sealed. `table.py` lists the classes; reading, writing, tool choice, exports and the OpenAPI
document follow from that list.

    Item
    ├─ SealedItem          may carry the messages it stands for, sealed
    │   ├─ ClientCall      a call that the client runs
    │   └─ ServerCall      a call that runs here
    └─ CallAnswer          what a client sends about a call
        └─ CallOutput      the result of a call that the client has run
"""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, cast

import msgspec
from msgspec import Meta

from harmonia.json_codec import encode_bytes
from harmonia.messages import Json
from harmonia.parts import Call
from harmonia.run.tools import Tool
from harmonia.run.tools.arguments import unwrap_input
from harmonia.serve.config.settings import Settings
from harmonia.serve.security.keys import new_id
from harmonia.serve.wire.attachments import describe_part
from harmonia.serve.wire.validation import RequestWarnings, text_of_part
from harmonia.tool_definitions import FUNCTIONS

# Precedes the types of items that the dialect open-responses does not define.
SLUG: Final = "harmonia:"

Status = Literal["in_progress", "completed", "incomplete", "failed", "calling"]


class Item(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", kw_only=True):
    """Any item. `id` and `status` are the server's own, sent back to it."""

    id_prefix: ClassVar[str] = ""  # of the ids of items that the server writes
    is_standard: ClassVar[bool] = False  # open-responses knows this type by the same name

    id: str | None = None
    status: Status | None = None
    created_by: str | None = None
    caller: Json | None = None

    @classmethod
    def type_name(cls) -> str:
        return cast("str", cls.__struct_config__.tag)


class SealedItem(Item, frozen=True, kw_only=True):
    """An item whose seal, if it has one, holds the messages it stands for.

    1. A seal is bound to the type of its item and to everything that the item says in the open. `binding` gives this
       both when an item is sealed and when it comes back: next to an item that says something else a seal does not
       open. So whether it opens depends on what the client has seen, never on what the seal holds, and no guess about
       hidden text can be tested with it.
    2. Clients may leave out null fields, states, and ids that no other item names.
    """

    is_always_sealed: ClassVar[bool] = False  # clients that store everything themselves cannot do without the seal
    bound: ClassVar[tuple[str, ...]] = ()  # the fields that the seal is bound to

    encrypted_content: str | None = None

    def bound_values(self, before: str) -> list[Any]:
        """What the seal is bound to, apart from the type. `before` is the text that the item continues, if it does."""
        return [without_nulls(getattr(self, name)) for name in self.bound]

    def binding(self, before: str = "") -> bytes:
        # ASCII: half a surrogate pair in a text has no other encoding.
        return json.dumps([self.type_name(), *self.bound_values(before)], sort_keys=True).encode()


class CalledTool(NamedTuple):
    """The tool that a call item names, and the text that the model wrote for it."""

    name: str
    text: str
    namespace: str | None = None
    server: str | None = None
    is_json: bool = True


class CallItem(SealedItem, frozen=True, kw_only=True):
    """A call that the model made."""

    tool_type: ClassVar[str]  # the type of the tool in definitions and choices
    id_field: ClassVar[str] = "call_id"  # by which results name the call
    is_streamed: ClassVar[bool] = False  # while the model writes it; others are sent when they are complete
    # The events `….delta` and `….done` about what the model writes, and the fields of the item that `done` repeats.
    # The first of these is the text itself.
    input_event: ClassVar[str | None] = None
    input_fields: ClassVar[tuple[str, ...]] = ()

    def called(self) -> CalledTool:
        raise NotImplementedError

    @classmethod
    def begin(cls, tool: Tool) -> Json:
        """The fields of the item before the model has written anything: all of them, empty."""
        raise NotImplementedError

    @classmethod
    def written(cls, call: Call) -> Json:
        """What the model wrote, as fields of the item. The run has checked that it fits."""
        return {"arguments": call.text}


class ClientCall(CallItem, frozen=True, kw_only=True):
    """A call that the client runs. `declaration` declares the tool to the model if the definition does not."""

    declaration: ClassVar[Tool | None] = None
    empty: ClassVar[Json] = {}  # the fields of the item before the model has written anything

    call_id: str

    @classmethod
    def begin(cls, tool: Tool) -> Json:
        return {"call_id": new_id("call"), **cls.empty}

    @classmethod
    def announced(cls, fields: Json) -> Json:
        """Of what the model wrote, the fields that the first event has already."""
        return {}


class ServerCall(CallItem, frozen=True, kw_only=True):
    """A call to a tool of an MCP server, which runs here."""

    tool_type: ClassVar[str] = "mcp"

    name: str
    server_label: str
    arguments: str = ""

    def called(self) -> CalledTool:
        return CalledTool(self.name, self.arguments, server=self.server_label)

    @classmethod
    def begin(cls, tool: Tool) -> Json:
        return {"server_label": tool.server, "name": tool.own_name, "arguments": ""}


class CallAnswer(Item, frozen=True, kw_only=True):
    """What a client sends about a call: its result, or a decision."""

    @classmethod
    def answered(cls, item: Json) -> object:
        """The id of the call, from the item's JSON."""
        return item.get("call_id")


class CallOutput(CallAnswer, frozen=True, kw_only=True):
    """The result of a call that the client has run."""

    def answers(self, path: str) -> tuple[str, str]:
        """The id of the call, and the field that has it."""
        raise NotImplementedError

    def texts(self, path: str, warnings: RequestWarnings | None) -> tuple[str, ...]:
        """The result as the model reads it."""
        raise NotImplementedError


class ContentOutput(CallOutput, frozen=True, kw_only=True):
    """A result that is a text or a list of parts."""

    call_id: str
    output: str | list[Any]

    def answers(self, path: str) -> tuple[str, str]:
        return self.call_id, "call_id"

    def texts(self, path: str, warnings: RequestWarnings | None) -> tuple[str, ...]:
        parts = [] if isinstance(self.output, str) else self.output
        if parts and all(isinstance(part, dict) and "stdout" in cast("Json", part) for part in parts):
            return (dump(parts),)  # parts of a shell's output have no text of their own; the model reads them as JSON
        return texts_of(self.output, f"{path}.output", warnings)


class ItemReference(Item, frozen=True, tag="item_reference", kw_only=True):
    """A stored item, by its id."""


# ── contents ────────────────────────────────────────────────────────────────────────────────────────────────────────

TEXT_PARTS: Final = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
_TEXT_FIELDS: Final = {**dict.fromkeys(TEXT_PARTS, "text"), "refusal": "refusal"}


def texts_of(content: str | list[Any] | None, path: str, warnings: RequestWarnings | None = None) -> tuple[str, ...]:
    """The parts of a content as texts. What describes a file or an image stands on lines of its own. Unknown keys go
    to `warnings`."""
    if not isinstance(content, list):
        return () if content is None else (content,)
    warnings = warnings or RequestWarnings()
    texts = [
        part if isinstance(part, str) else text_of_part(part, f"{path}[{at}]", warnings, _TEXT_FIELDS, describe_part)
        for at, part in enumerate(content)
    ]
    described = [isinstance(part, dict) and cast("Json", part)["type"] not in _TEXT_FIELDS for part in content]
    for at in range(len(texts) - 1):
        if texts[at] and not texts[at].endswith("\n") and (described[at] or described[at + 1]):
            texts[at] += "\n"
    return tuple(texts)


def without_nulls(value: Any) -> Any:
    """An object without its null fields: some clients leave them out, others add them."""
    if not isinstance(value, dict):
        return value
    return {name: each for name, each in cast("Json", value).items() if each is not None}


def dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


Phase = Literal["commentary", "final_answer"]
Continues = Annotated[bool | None, Meta(description="It continues the item before it, of which it is the rest.")]

_REASONING: Final = "reasoning"
_SHOWN_OF_REASONING: Final = ("type", "id", "status", "harmonia_continues", "encrypted_content")


class MessageItem(SealedItem, frozen=True, tag="message", kw_only=True):
    """developer and system: instructions. user. assistant: an answer or commentary, by its phase."""

    id_prefix: ClassVar[str] = "msg"
    is_standard: ClassVar[bool] = True

    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Any] | None = None
    phase: Phase | None = None
    name: None = None
    harmonia_continues: Continues = None

    def bound_values(self, before: str) -> list[Any]:
        # The text of the whole message, even if the item has only the rest of it.
        return [self.role, self.phase or "final_answer", before + "".join(texts_of(self.content, "$"))]


class ReasoningItem(SealedItem, frozen=True, tag=_REASONING, kw_only=True):
    """What its seal holds; without a seal its text, if it has any."""

    id_prefix: ClassVar[str] = "rs"
    is_standard: ClassVar[bool] = True
    is_always_sealed: ClassVar[bool] = True

    summary: list[Any] | None = None
    content: list[Any] | None = None
    harmonia_continues: Continues = None
    harmonia_channel: Annotated[
        str | None,
        Meta(description="The channel of text that was withheld and is not reasoning. For people; it is not read."),
    ] = None
    harmonia_call: Annotated[
        Json | None, Meta(description="A call that was not made, and why. For people; it is not read.")
    ] = None


def is_reasoning(item: Json) -> bool:
    """Whether an item is reasoning, in either dialect."""
    return str(item.get("type")).removeprefix(SLUG) == _REASONING


def may_have_reasoning(data: bytes) -> bool:
    """Whether JSON may contain a reasoning item: its bytes usually rule it out, many times faster than decoding."""
    return b'reasoning"' in data


def without_reasoning_text(item: Json) -> Json:
    """A reasoning item as if the server had never shown its text. Its seal stays."""
    bare = {name: value for name, value in item.items() if name in _SHOWN_OF_REASONING}
    if "summary" in item:
        bare["summary"] = []
    if "content" in item and not item["content"]:
        bare["content"] = item["content"]
    return bare


def visible_item(wire: bytes, settings: Settings) -> bytes:
    """The JSON of a stored item, without the text of reasoning if the operator hides that now."""
    if settings.analysis == "shown" or not may_have_reasoning(wire):
        return wire
    item: Json = json.loads(wire)  # with integers of any size
    return encode_bytes(without_reasoning_text(item)) if is_reasoning(item) else wire


class _DefinedCall(ClientCall, frozen=True, kw_only=True):
    name: str
    namespace: str | None = None
    is_async: bool | None = msgspec.field(default=None, name="async")

    @classmethod
    def begin(cls, tool: Tool) -> Json:
        namespace = {} if tool.namespace == FUNCTIONS else {"namespace": tool.namespace}
        return {**super().begin(tool), "name": tool.name, **namespace}


class FunctionCall(_DefinedCall, frozen=True, tag="function_call", kw_only=True):
    tool_type: ClassVar[str] = "function"
    id_prefix: ClassVar[str] = "fc"
    is_standard: ClassVar[bool] = True
    is_streamed: ClassVar[bool] = True
    input_event: ClassVar[str | None] = "response.function_call_arguments"
    input_fields: ClassVar[tuple[str, ...]] = ("arguments", "name")
    bound: ClassVar[tuple[str, ...]] = ("call_id", "name", "namespace", "arguments")
    empty: ClassVar[Json] = {"arguments": ""}

    arguments: str = ""

    def called(self) -> CalledTool:
        return CalledTool(self.name, self.arguments, self.namespace)


class FunctionOutput(ContentOutput, frozen=True, tag="function_call_output", kw_only=True):
    name: str | None = None
    namespace: str | None = None


class CustomCall(_DefinedCall, frozen=True, tag="custom_tool_call", kw_only=True):
    tool_type: ClassVar[str] = "custom"
    id_prefix: ClassVar[str] = "ctc"
    input_event: ClassVar[str | None] = "response.custom_tool_call_input"
    input_fields: ClassVar[tuple[str, ...]] = ("input",)
    bound: ClassVar[tuple[str, ...]] = ("call_id", "name", "namespace", "input")
    empty: ClassVar[Json] = {"input": ""}

    input: str = ""

    def called(self) -> CalledTool:
        return CalledTool(self.name, self.input, self.namespace, is_json=False)

    @classmethod
    def written(cls, call: Call) -> Json:
        return {"input": unwrap_input(call.text)}


class CustomOutput(ContentOutput, frozen=True, tag="custom_tool_call_output", kw_only=True):
    name: str | None = None


class AdditionalTools(Item, frozen=True, tag="additional_tools", kw_only=True):
    """More tools, from here on."""

    tools: list[Json]
    role: str | None = None
