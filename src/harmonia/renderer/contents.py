"""What system and developer messages say, as text. Byte for byte what the models were trained to read.

A content is a list of sections with a blank line between them. The reference has all of these sections but one:
`# Response Formats` is in the format's documentation only.
"""

from __future__ import annotations

import json

from harmonia.errors import ErrorCode, InputError
from harmonia.messages import DeveloperContent, Namespaces, ResponseFormat, SystemContent
from harmonia.schema import declare_namespace

_CHANNEL_REQUIRED = " Channel must be included for every message."
_FUNCTIONS_ON_COMMENTARY = "\nCalls to these tools must go to the commentary channel: 'functions'."


def system_text(content: SystemContent, *, has_functions: bool, exact_reference: bool = False) -> str:
    """`has_functions` says whether a developer message of the conversation declares function tools."""
    sections: list[str] = []
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
        sections.append(_tools_section(content.tools, exact_reference=exact_reference))
    channels = content.channel_config
    if channels is not None and channels.valid_channels:
        sections.append(
            f"# Valid channels: {', '.join(channels.valid_channels)}."
            + (_CHANNEL_REQUIRED if channels.channel_required else "")
            + (_FUNCTIONS_ON_COMMENTARY if has_functions else "")
        )
    return "\n\n".join(sections)


def developer_text(content: DeveloperContent, *, exact_reference: bool = False) -> str:
    sections: list[str] = []
    if content.instructions is not None:
        sections += ("# Instructions", content.instructions)
    if content.tools:
        sections.append(_tools_section(content.tools, exact_reference=exact_reference))
    if content.response_formats:
        sections.append("# Response Formats")
        sections += map(_response_format, content.response_formats)
    return "\n\n".join(sections)


def declares_functions(content: DeveloperContent) -> bool:
    """Whether the system message has to say where calls to functions go."""
    functions = (content.tools or {}).get("functions")
    return functions is not None and bool(functions.tools)


def _tools_section(namespaces: Namespaces, *, exact_reference: bool) -> str:
    declared = (
        declare_namespace(namespace.name, namespace.description, namespace.tools, exact_reference=exact_reference).text
        for _, namespace in sorted(namespaces.items())
    )
    return "\n\n".join(("# Tools", *declared))


def _response_format(response_format: ResponseFormat) -> str:
    try:
        # Not msgspec's encoder, which has no integers of more than 64 bits.
        schema = json.dumps(response_format.schema, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            ErrorCode.SCHEMA_INVALID, f"the schema of response format {response_format.name!r} is not JSON: {error}"
        ) from error
    description = "".join(f"// {line}\n" for line in (response_format.description or "").splitlines())
    return f"## {response_format.name}\n\n{description}{schema}"
