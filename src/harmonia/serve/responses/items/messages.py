"""`message` and `reasoning` items, and what is shown of stored reasoning."""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import Meta

from harmonia.json_codec import encode_bytes
from harmonia.messages import Json
from harmonia.serve.config.settings import Settings
from harmonia.serve.responses.items.base import SLUG, SealedItem, texts_of

Phase = Literal["commentary", "final_answer"]
Continues = Annotated[bool | None, Meta(description="It continues the item before it, of which it is the rest.")]

REASONING: Final = "reasoning"
_REASONING_MARK: Final = f'{REASONING}"'.encode()
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


class ReasoningItem(SealedItem, frozen=True, tag=REASONING, kw_only=True):
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

    def bound_values(self, before: str) -> list[Any]:
        return []


def is_reasoning(item: Json) -> bool:
    """Whether an item is reasoning, in either dialect."""
    return str(item.get("type")).removeprefix(SLUG) == REASONING


def may_have_reasoning(data: bytes) -> bool:
    """Whether JSON may contain a reasoning item: its bytes usually rule it out, many times faster than decoding."""
    return _REASONING_MARK in data


def without_reasoning_text(item: Json) -> Json:
    """A reasoning item as if the server had never shown its text. Its seal stays."""
    bare = {name: value for name, value in item.items() if name in _SHOWN_OF_REASONING}
    if "summary" in item:
        bare["summary"] = []
    if "content" in item and not item["content"]:
        bare["content"] = item["content"]
    return bare


def visible_item(wire: bytes, settings: Settings) -> bytes:
    """The JSON of a stored item as it may be shown now, whatever the setting was when it was stored: without the text
    of reasoning if the operator hides that."""
    if settings.analysis == "shown" or not may_have_reasoning(wire):
        return wire
    item: Json = json.loads(wire)  # with integers of any size
    return encode_bytes(without_reasoning_text(item)) if is_reasoning(item) else wire
