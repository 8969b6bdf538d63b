"""What a conversation is made of: values that can be compared, edited by copying, and written as JSON.

    Conversation = Message*
    Message      = Author (Role, name) + channel? + recipient? + content type? + content
    content      = text | SystemContent | DeveloperContent | several of these

A message's JSON has the reference's fields: `{"role": "user", "content": "Hi"}`, where the content is a string or a
list of objects with a `type`. What the reference wrote can be read (it writes efforts as "High", we write "high"). An
InputError has the JSON path of what is wrong; unknown fields are refused, because a misspelled `chanel` would otherwise
change the prompt in silence.
"""

from harmonia.messages.conversation import (
    Conversation,
    call_id,
    is_admitted,
    is_builtin,
    is_call,
    is_final,
    is_forged,
    is_reasoning,
    is_tool_address,
    join_results,
    pending_calls,
)
from harmonia.messages.message import (
    INSTRUCTION_ORDER,
    Author,
    ChannelConfig,
    Content,
    DeveloperContent,
    Json,
    Message,
    Namespaces,
    ReasoningEffort,
    ResponseFormat,
    Role,
    SystemContent,
    ToolDescription,
    ToolNamespace,
)

__all__ = [
    "INSTRUCTION_ORDER",
    "Author",
    "ChannelConfig",
    "Content",
    "Conversation",
    "DeveloperContent",
    "Json",
    "Message",
    "Namespaces",
    "ReasoningEffort",
    "ResponseFormat",
    "Role",
    "SystemContent",
    "ToolDescription",
    "ToolNamespace",
    "call_id",
    "is_admitted",
    "is_builtin",
    "is_call",
    "is_final",
    "is_forged",
    "is_reasoning",
    "is_tool_address",
    "join_results",
    "pending_calls",
]
