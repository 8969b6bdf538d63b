"""What system and developer messages say, as text. Byte for byte what the models were trained to read.

A content is a list of sections with a blank line between them. The reference has all of these sections but one:
`# Response Formats` is in the format's documentation only.

`path` is the JSON path of the content, for errors and for the losses of its schemas.
"""

from __future__ import annotations

from typing import NamedTuple

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.json_codec import encode_json
from harmonia.messages import DeveloperContent, Namespaces, ResponseFormat, SystemContent
from harmonia.schema import Loss, declare_namespace
from harmonia.schema.document import as_json
from harmonia.schema.literals import lines_of

_CHANNEL_REQUIRED = " Channel must be included for every message."
_FUNCTIONS_ON_COMMENTARY = "\nCalls to these tools must go to the commentary channel: 'functions'."


class Said(NamedTuple):
    """The text of a content, and what its schemas say that the text does not."""

    text: str
    losses: tuple[Loss, ...] = ()


def system_said(content: SystemContent, path: str, *, has_functions: bool, exact_reference: bool = False) -> Said:
    """`has_functions` says whether a developer message of the conversation declares function tools."""
    sections: list[str] = []
    losses: tuple[Loss, ...] = ()
    about: list[str] = []
    if content.model_identity is not None:
        about.append(content.model_identity)
    if content.knowledge_cutoff is not None:
        about.append(f"Knowledge cutoff: {content.knowledge_cutoff}")
    if content.conversation_start_date is not None:
        about.append(f"Current date: {content.conversation_start_date}")
    if about:
        sections.append("\n".join(about))
    if content.reasoning_effort is not None:
        sections.append(f"Reasoning: {content.reasoning_effort}")
    if content.tools:
        tools, losses = _tools_section(content.tools, path, exact_reference=exact_reference)
        sections.append(tools)
    channels = content.channel_config
    if channels is not None and channels.valid_channels:
        sections.append(
            f"# Valid channels: {', '.join(channels.valid_channels)}."
            + (_CHANNEL_REQUIRED if channels.channel_required else "")
            + (_FUNCTIONS_ON_COMMENTARY if has_functions else "")
        )
    return Said("\n\n".join(sections), losses)


def developer_said(content: DeveloperContent, path: str, *, exact_reference: bool = False) -> Said:
    sections: list[str] = []
    losses: tuple[Loss, ...] = ()
    if content.instructions is not None:
        sections += ("# Instructions", content.instructions)
    if content.tools:
        tools, losses = _tools_section(content.tools, path, exact_reference=exact_reference)
        sections.append(tools)
    if content.response_formats:
        sections.append("# Response Formats")
        for index, response_format in enumerate(content.response_formats):
            sections.append(_response_format(response_format, f"{path}.response_formats[{index}]"))
    return Said("\n\n".join(sections), losses)


def declares_functions(content: DeveloperContent) -> bool:
    """Whether the system message has to say where calls to functions go."""
    functions = (content.tools or {}).get("functions")
    return functions is not None and bool(functions.tools)


def _tools_section(namespaces: Namespaces, path: str, *, exact_reference: bool) -> Said:
    declared = [
        declare_namespace(
            namespace.name,
            namespace.description,
            namespace.tools,
            exact_reference=exact_reference,
            path=f"{path}.tools.{key}",
        )
        for key, namespace in sorted(namespaces.items())
    ]
    text = "\n\n".join(("# Tools", *(namespace.text for namespace in declared)))
    return Said(text, tuple(loss for namespace in declared for loss in namespace.losses))


def _response_format(response_format: ResponseFormat, path: str) -> str:
    name = response_format.name
    if len(lines_of(name)) != 1:
        # It would write further sections of the message.
        raise InputError(
            ErrorCode.MESSAGES_INVALID_VALUE, f"the name {name!r} must be a single line", Position(path=f"{path}.name")
        )
    at = Position(path=f"{path}.schema")
    schema = encode_json(as_json(response_format.schema, f"{path}.schema"), code=ErrorCode.SCHEMA_INVALID, at=at)
    description = "".join(f"// {line}\n" for line in lines_of(response_format.description or "") if line)
    return f"## {name}\n\n{description}{schema}"
