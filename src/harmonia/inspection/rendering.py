"""A rendered conversation as a JSON value, and the settings that a user may change: shared by command and server."""

from __future__ import annotations

from typing import Any

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.messages import Conversation, Message, ReasoningEffort, Role, SystemContent
from harmonia.renderer.result import Rendered


def describe_rendered(rendered: Rendered, *, mask: bool = False, escape: bool = False) -> dict[str, Any]:
    """The tokens, the text, the spans, the losses of schemas, and optionally the mask.

    If a text spells a special token, `text` is None and `text_error` says why; with `escape` the spelling is escaped.
    """
    described: dict[str, Any] = {"tokens": rendered.tokens}
    try:
        described["text"] = rendered.to_text(ambiguous="escape" if escape else "refuse")
    except InputError as error:
        described["text"] = None
        described["text_error"] = {"code": error.code, "message": error.message, "at": error.at}
    described["spans"] = [msgspec.structs.asdict(span) for span in rendered.spans]
    described["losses"] = [msgspec.structs.asdict(loss) for loss in rendered.losses]
    if mask:
        described["mask"] = [int(trained) for trained in rendered.mask]
    return described


def with_settings(
    conversation: Conversation, *, effort: ReasoningEffort | str | None = None, date: str | None = None
) -> Conversation:
    """The conversation with these settings in its system message, which is added if there is none.

    Raises an InputError if the system message is plain text.
    """
    changes: dict[str, Any] = {}
    if effort is not None:
        changes["reasoning_effort"] = ReasoningEffort(effort)
    if date is not None:
        changes["conversation_start_date"] = date
    if not changes:
        return conversation
    messages = list(conversation)
    if all(message.role is not Role.SYSTEM for message in messages):
        messages.insert(0, Message.system())
    for at, message in enumerate(messages):
        for part, content in enumerate(message.contents):
            if isinstance(content, SystemContent):
                contents = list(message.contents)
                contents[part] = content.replace(**changes)
                messages[at] = message.replace(content=contents)
                return Conversation(messages)
    raise InputError(
        ErrorCode.RENDER_INVALID_OPTION,
        'the system message is plain text, so the effort or date cannot be set; use a content of type "system_content"',
    )
