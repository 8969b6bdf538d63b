"""What is shown of stored items: by what the operator shows now, and not by what was shown when they were made."""

from __future__ import annotations

import json
from typing import Final

from harmonia.json_codec import encode_bytes
from harmonia.messages import Json
from harmonia.serve.config.settings import Settings
from harmonia.serve.saved_chats.request import REASONING, is_reasoning

_MARK: Final = f'{REASONING}"'.encode()
_WITHOUT_TEXT: Final = ("type", "id", "status", "harmonia_continues", "encrypted_content")


def visible_item(wire: bytes, settings: Settings) -> bytes:
    """The JSON of an item; where the operator hides reasoning, without the text of any."""
    # Most items tell by their bytes that they are none, which is many times faster than to read them.
    if settings.analysis == "shown" or _MARK not in wire:
        return wire
    item: Json = json.loads(wire)  # with integers of any size
    return encode_bytes(without_reasoning_text(item)) if is_reasoning(item) else wire


def without_reasoning_text(item: Json) -> Json:
    """A reasoning item, as it would be if the server had never shown more of it. Its seal stays."""
    bare = {name: value for name, value in item.items() if name in _WITHOUT_TEXT}
    if "summary" in item:
        bare["summary"] = []
    if "content" in item and not item["content"]:
        bare["content"] = item["content"]
    return bare
