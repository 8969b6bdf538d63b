"""The tokens of a prompt by part. The parts add up exactly to the whole prompt.

A token belongs to the part in which its first byte lies. Headers, stop tokens and the beginning of the next message are
`structure`; every other count is of bodies. In system and developer messages the tools are counted by tool; a namespace
has an entry of its own, for its heading and what it says of itself, and `# Tools` counts to the first of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from harmonia.history.preparation import RenderConversation, as_messages
from harmonia.messages import (
    Content,
    Conversation,
    DeveloperContent,
    Message,
    Namespaces,
    Role,
    SystemContent,
    ToolNamespace,
    is_call,
    is_final,
    is_reasoning,
)
from harmonia.renderer import render
from harmonia.renderer.segments import developer_said, system_said
from harmonia.schema import declare_namespace, declare_tool
from harmonia.vocabulary import default_vocabulary

PartName = Literal[
    "system", "instructions", "tools", "user", "reasoning", "calls", "results", "finals", "preambles", "other"
]


class Budget(msgspec.Struct, frozen=True):
    """Tokens by part: `total` is the whole prompt's. `by_tool` divides `tools`, `by_message` all but the last few.

    `instructions` are the developer's, response formats included; `preambles` are commentary for the user; `other` is
    assistant text without a channel or on an unknown one.
    """

    system: int = 0
    instructions: int = 0
    tools: int = 0
    user: int = 0
    reasoning: int = 0
    calls: int = 0
    results: int = 0
    finals: int = 0
    preambles: int = 0
    other: int = 0
    structure: int = 0
    by_tool: Mapping[str, int] = {}
    by_message: tuple[int, ...] = ()

    @property
    def parts(self) -> dict[str, int]:
        """The tokens of each part by its name."""
        return {name: value for name in self.__struct_fields__ if isinstance(value := getattr(self, name), int)}

    @property
    def total(self) -> int:
        return sum(self.parts.values())


def measure(conversation: Conversation | Iterable[Message], *, render: RenderConversation = render) -> Budget:
    """The tokens of a prompt by part. `render` renders it, if not `harmonia.render` with its defaults."""
    messages = as_messages(conversation)
    rendered = render(Conversation(messages))
    counts: dict[str, int] = {}
    by_tool: dict[str, int] = {}
    by_message: list[int] = []
    in_bodies = 0
    has_functions = _declare_functions(messages)
    for span in rendered.spans:
        message = messages[span.message]
        body = rendered.tokens[span.body_token : span.stop_token]
        by_message.append(span.end_token - span.start_token)
        in_bodies += len(body)
        part = part_of(message)
        if isinstance(message.content, str) or not any(_has_tools(content) for content in message.contents):
            counts[part] = counts.get(part, 0) + len(body)
            continue
        for label, tokens in _count_sections(message, part, body, has_functions=has_functions):
            name = "tools" if label.is_tool else part
            counts[name] = counts.get(name, 0) + tokens
            if label.is_tool:
                by_tool[label.name] = by_tool.get(label.name, 0) + tokens
    structure = len(rendered.tokens) - in_bodies
    return Budget(**counts, structure=structure, by_tool=by_tool, by_message=tuple(by_message))


_PART_BY_ROLE: Final[Mapping[Role, PartName]] = {
    Role.SYSTEM: "system",
    Role.DEVELOPER: "instructions",
    Role.USER: "user",
    Role.TOOL: "results",
}


def part_of(message: Message) -> PartName:
    """The part to which the body of a message belongs, apart from the tools in it."""
    part = _PART_BY_ROLE.get(message.author.role)
    if part is not None:
        return part
    if is_call(message):
        return "calls"
    if is_reasoning(message):
        return "reasoning"
    if is_final(message):
        return "finals"
    return "preambles" if (message.channel or "").lower() == "commentary" else "other"


# ── the sections of a body ──────────────────────────────────────────────────────────────────────────────────────────


_TOOLS: Final = "# Tools"
_DECLARED: Final = "=> any;"


class _Label(NamedTuple):
    name: str
    is_tool: bool


_Section = tuple[_Label, str]


def _has_tools(content: Content) -> bool:
    return not isinstance(content, str) and bool(content.tools)


def _declare_functions(messages: Sequence[Message]) -> bool:
    contents = (content for message in messages for content in message.contents)
    return any(isinstance(content, DeveloperContent) and content.has_functions for content in contents)


def _count_sections(
    message: Message, part: PartName, body: list[int], *, has_functions: bool
) -> Iterable[tuple[_Label, int]]:
    said = default_vocabulary().decode_bytes(body)
    for exact_reference in (False, True):  # which of the two the renderer used shows here
        sections = [
            section
            for content in message.contents
            for section in _sections(content, part, has_functions=has_functions, exact_reference=exact_reference)
        ]
        if "".join(text for _, text in sections).encode() == said:
            return _count_bytes(sections, body)
    return ((_Label(part, False), len(body)),)  # it was rendered differently, for example as its sampled tokens


def _count_bytes(sections: Sequence[_Section], body: list[int]) -> list[tuple[_Label, int]]:
    ends: list[int] = []
    for _, text in sections:
        ends.append((ends[-1] if ends else 0) + len(text.encode()))
    counts = [0] * len(sections)
    at = 0
    decode_bytes = default_vocabulary().decode_bytes
    for token in body:
        counts[bisect_right(ends, at)] += 1
        at += len(decode_bytes((token,)))
    return [(label, count) for (label, _), count in zip(sections, counts, strict=True)]


def _sections(content: Content, part: str, *, has_functions: bool, exact_reference: bool) -> Iterable[_Section]:
    """The text of a content, split where tools begin and end."""
    rest = _Label(part, False)
    if isinstance(content, str):
        yield rest, content
        return
    if isinstance(content, SystemContent):

        def say(content: SystemContent) -> str:
            return system_said(content, "$", has_functions=has_functions, exact_reference=exact_reference).text

        whole, before = say(content), say(content.replace(tools=None, channel_config=None))
    else:
        whole = developer_said(content, "$", exact_reference=exact_reference).text
        without_tools = content.replace(tools=None, response_formats=None)
        before = developer_said(without_tools, "$", exact_reference=exact_reference).text
    if not content.tools:
        yield rest, whole
        return
    # Sections have an empty line between them, and one that is empty counts.
    begin = f"{before}\n\n" if before or not whole.startswith(_TOOLS) else ""
    yield rest, begin
    tools = list(_tool_sections(content.tools, exact_reference=exact_reference))
    yield from tools
    yield rest, whole[len(begin) + sum(len(text) for _, text in tools) :]


def _tool_sections(namespaces: Namespaces, *, exact_reference: bool) -> Iterable[_Section]:
    heading = _TOOLS
    for _, namespace in sorted(namespaces.items()):
        declared = declare_namespace(
            namespace.name, namespace.description, namespace.tools, exact_reference=exact_reference
        )
        text = f"{heading}\n\n{declared.text}"
        yield from _namespace_sections(namespace, text, exact_reference=exact_reference)
        heading = ""


def _namespace_sections(namespace: ToolNamespace, text: str, *, exact_reference: bool) -> Iterable[_Section]:
    own = _Label(namespace.name, True)
    begun = 0
    opening = f"\nnamespace {namespace.name} {{\n\n"
    start = text.index(opening) + len(opening) if namespace.tools else 0
    for tool in namespace.tools:
        declared = declare_tool(tool.name, tool.description, tool.parameters, exact_reference=exact_reference).text
        if text.startswith(declared, start):
            end = start + len(declared)
        else:
            # Beside other tools its helper types may have other names. It ends where its own type does.
            end = text.index(_DECLARED, text.index(f"type {tool.name} = ", start)) + len(_DECLARED)
        yield own, text[begun:start]
        yield _Label(f"{namespace.name}.{tool.name}", True), text[start:end]
        begun = end
        start = end + len("\n\n")
    yield own, text[begun:]
