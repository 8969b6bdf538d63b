"""The tokens of a prompt by part. The parts add up exactly to the whole prompt.

A token belongs to the part in which its first byte lies. Headers, stop tokens and the beginning of the next message are
`structure`; every other count is of bodies. In system and developer messages the tools are counted by tool; a namespace
has an entry of its own, for its heading and what it says of itself, and `# Tools` counts to the first of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Final, Literal

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
    is_call,
    is_final,
    is_reasoning,
)
from harmonia.renderer import render
from harmonia.renderer.segments import content_said
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
    counts, by_tool = Counter[str](), Counter[str]()
    contents = [content for message in messages for content in message.contents]
    has_functions = any(isinstance(content, DeveloperContent) and content.has_functions for content in contents)
    for span in rendered.spans:
        message = messages[span.message]
        body = rendered.tokens[span.body_token : span.stop_token]
        part = part_of(message)
        if not any(not isinstance(content, str) and content.tools for content in message.contents):
            counts[part] += len(body)
            continue
        for tool, tokens in _count_sections(message, body, has_functions=has_functions):
            counts[part if tool is None else "tools"] += tokens
            if tool is not None:
                by_tool[tool] += tokens
    by_message = tuple(span.end_token - span.start_token for span in rendered.spans)
    structure = len(rendered.tokens) - counts.total()
    return Budget(**counts, structure=structure, by_tool=dict(by_tool), by_message=by_message)


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


# A text, and the tool or namespace that it belongs to, None for the rest.
_Section = tuple[str | None, str]


def _count_sections(message: Message, body: list[int], *, has_functions: bool) -> list[tuple[str | None, int]]:
    decode_bytes = default_vocabulary().decode_bytes
    for exact_reference in (False, True):  # which of the two the renderer used shows here
        sections = [
            section
            for content in message.contents
            for section in _sections(content, has_functions=has_functions, exact_reference=exact_reference)
        ]
        if "".join(text for _, text in sections).encode() == decode_bytes(body):
            ends = list(accumulate(len(text.encode()) for _, text in sections))
            starts = accumulate((len(decode_bytes((token,))) for token in body[:-1]), initial=0)
            counts = Counter(bisect_right(ends, start) for start in starts)
            return [(sections[at][0], count) for at, count in counts.items()]
    return [(None, len(body))]  # it was rendered differently, for example as its sampled tokens


def _sections(content: Content, *, has_functions: bool, exact_reference: bool) -> Iterable[_Section]:
    """The text of a content, split where tools begin and end."""
    if isinstance(content, str):
        yield None, content
        return

    def said(content: SystemContent | DeveloperContent) -> str:
        return content_said(content, has_functions=has_functions, exact_reference=exact_reference).text

    whole = said(content)
    if not content.tools:
        yield None, whole
        return
    after = {"channel_config": None} if isinstance(content, SystemContent) else {"response_formats": None}
    before = said(content.replace(tools=None, **after))
    # Sections have an empty line between them, and one that is empty counts.
    begin = f"{before}\n\n" if before or not whole.startswith(_TOOLS) else ""
    yield None, begin
    tools = list(_tool_sections(content.tools, exact_reference=exact_reference))
    yield from tools
    yield None, whole[len(begin) + sum(len(text) for _, text in tools) :]


def _tool_sections(namespaces: Namespaces, *, exact_reference: bool) -> Iterable[_Section]:
    heading = _TOOLS
    for _, each in sorted(namespaces.items()):
        declared = declare_namespace(each.name, each.description, each.tools, exact_reference=exact_reference)
        text = f"{heading}\n\n{declared.text}"
        heading = ""
        begun = 0
        opening = f"\nnamespace {each.name} {{\n\n"
        start = text.index(opening) + len(opening) if each.tools else 0
        for tool in each.tools:
            own = declare_tool(tool.name, tool.description, tool.parameters, exact_reference=exact_reference).text
            if text.startswith(own, start):
                end = start + len(own)
            else:
                # Beside other tools its helper types may have other names. It ends where its own type does.
                end = text.index(_DECLARED, text.index(f"type {tool.name} = ", start)) + len(_DECLARED)
            yield each.name, text[begun:start]
            yield f"{each.name}.{tool.name}", text[start:end]
            begun = end
            start = end + len("\n\n")
        yield each.name, text[begun:]
