"""From the messages of a request to the conversation that the model gets.

1. There is one mapping, that of `harmonia.interchange`. Here contents become text and tools get the names that the
   model knows them by. What the mapping would lose is the client's error, unless it is known to be harmless.
2. The system message is the server's own. `system` and `developer` messages at the head become one developer message;
   further down each stays one of its own.
3. Whatever a client wrote is text (law 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harmonia.interchange import read_chat
from harmonia.interchange.message_defaults import join_head
from harmonia.messages import Conversation, Json, Message, Role
from harmonia.run.sampling import with_head
from harmonia.run.tools import ToolSet
from harmonia.serve.chat_completions.request import (
    AssistantMessage,
    ChatMessage,
    CustomCall,
    FunctionMessage,
    ToolMessage,
    read_call,
)
from harmonia.serve.security.trusted_messages import call_as_sampled
from harmonia.serve.wire.attachments import describe_part
from harmonia.serve.wire.request_tools import recipient_for
from harmonia.serve.wire.validation import RequestWarnings, invalid, text_of_part

# Losses that do not matter to a model: that a text was a refusal, that results were put in the order of their calls.
_HARMLESS: Final = frozenset(("refusal", "order"))
# The types of text parts, each with the field that has the text.
_TEXT_FIELDS: Final = {"text": "text", "refusal": "refusal"}


def read_conversation(
    messages: Sequence[ChatMessage],
    tools: ToolSet,
    *,
    date: str,
    instruction: str | None,
    has_declarations: bool,
    warnings: RequestWarnings,
) -> Conversation:
    """The conversation, with the server's system message at its head. Unknown keys go to `warnings`."""
    reader = _Reader(tools, warnings)
    written = [reader.write(message, f"$.messages[{at}]") for at, message in enumerate(messages)]
    imported = read_chat({"messages": written})
    for loss in imported.losses:
        if loss.what == "message":
            warnings.add_empty_message(loss.path)
        elif loss.what not in _HARMLESS:
            invalid(loss.why, loss.path)
    said = list(imported.conversation)
    if instruction is not None:
        at = next((at for at, message in enumerate(said) if message.role is not Role.DEVELOPER), len(said))
        said.insert(at, Message.developer(instruction))
    return with_head(join_head(reader.write_calls(said)), date=date, has_declarations=has_declarations)


class _Reader:
    """Writes messages as the mapping reads them. `customs` are the full names of tools whose input is text."""

    def __init__(self, tools: ToolSet, warnings: RequestWarnings) -> None:
        self.customs: set[str] = set()
        self._warnings = warnings
        self._tools = tools

    def write(self, message: ChatMessage, path: str) -> Json:
        written: Json = {"role": type(message).__struct_config__.tag}
        content = message.content
        if isinstance(content, list):  # each part on lines of its own
            placed = ((part, f"{path}.content[{at}]") for at, part in enumerate(content))
            content = "\n".join(text_of_part(*each, self._warnings, _TEXT_FIELDS, describe_part) for each in placed)
        if content is not None:
            written["content"] = content
        match message:
            case AssistantMessage():
                self._write_assistant(message, written, path)
            case ToolMessage():
                written["tool_call_id"] = message.tool_call_id
                if message.name is not None:
                    written["name"] = recipient_for(self._tools, message.name)
            case FunctionMessage():
                written["name"] = recipient_for(self._tools, message.name)
            case _:
                written["name"] = message.name
        return written

    def write_calls(self, messages: list[Message]) -> list[Message]:
        """The messages, with the calls as models write them; the mapping treats all of them as JSON."""
        written: dict[int, Message] = {}
        for at, message in enumerate(messages):
            recipient = message.recipient
            if message.role is Role.ASSISTANT and recipient is not None:
                call = call_as_sampled(recipient, message.text, is_json=recipient not in self.customs)
                written[id(message)] = messages[at] = call
            elif message.answers is not None and id(message.answers) in written:
                messages[at] = message.answering(written[id(message.answers)])
        return messages

    def _write_assistant(self, message: AssistantMessage, written: Json, path: str) -> None:
        written["name"] = message.name
        for name in ("refusal", "reasoning", "reasoning_content"):
            written[name] = getattr(message, name)
        if message.tool_calls and message.function_call is not None:
            invalid("a message cannot have function_call and tool_calls; send tool_calls", f"{path}.function_call")
        if (called := message.function_call) is not None:
            name = recipient_for(self._tools, called.name)
            written["function_call"] = {"name": name, "arguments": called.arguments}
        written["tool_calls"] = [
            self._write_call(each, f"{path}.tool_calls[{at}]") for at, each in enumerate(message.tool_calls or ())
        ]

    def _write_call(self, given: Json, path: str) -> Json:
        call = read_call(given, path, self._warnings)
        if isinstance(call, CustomCall):
            recipient, text = recipient_for(self._tools, call.custom.name), call.custom.input
            self.customs.add(recipient)
        else:
            recipient, text = recipient_for(self._tools, call.function.name), call.function.arguments
        return {"id": call.id, "type": "function", "function": {"name": recipient, "arguments": text}}
