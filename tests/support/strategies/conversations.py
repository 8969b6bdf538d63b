"""Conversations for property tests, in our values and in the reference's JSON."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from harmonia import (
    BROWSER,
    PYTHON,
    Author,
    ChannelConfig,
    Conversation,
    DeveloperContent,
    Message,
    ReasoningEffort,
    Role,
    SystemContent,
    ToolDescription,
    ToolNamespace,
)
from harmonia.messages import Json
from harmonia.vocabulary import ID_BY_SPELLING

SPELLINGS = [spelling for spelling in ID_BY_SPELLING if "reserved" not in spelling] + ["<|reserved_200013|>"]

# Text that people type, text that attackers type, and text that tokenizers stumble over.
fragments = st.sampled_from(
    [
        *SPELLINGS,
        *(
            "<|",
            "|>",
            "<|en",
            "d|>",
            " to=functions.x",
            "assistant",
            "// ",
            "namespace functions {",
            "}",
            "{}",
            '"',
            "\\",
        ),
        *("\n", "\n\n  ", "\t", "  ", "\u2028", "it's", "12345", "é", "日本語", "🦜", "e\u0301", "Ünïcode"),
    ]
)
texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.lists(st.one_of(fragments, st.text("abc <|>\n", max_size=6)), max_size=8).map("".join),
)
# Header fields as models and programs have them.
words = st.from_regex(r"[a-z][a-z0-9_.-]{0,14}", fullmatch=True).filter(lambda word: word not in set(Role))

simple_types: st.SearchStrategy[Json] = st.sampled_from(
    [{"type": "string"}, {"type": "number"}, {"type": "boolean"}, {"type": "integer"}]
)


def string_enum(values: list[str]) -> Json:
    return {"type": "string", "enum": values}


def described_string(text: str) -> Json:
    return {"type": "string", "description": text}


def array_of(items: Json) -> Json:
    return {"type": "array", "items": items}


def object_of(given: dict[str, Json], required: int) -> Json:
    return {"type": "object", "properties": given, "required": sorted(given)[: required % (len(given) + 1)]}


# Schemas that the reference writes without loss; tests/support/strategies/schemas.py has the others.
properties = st.one_of(
    simple_types,
    st.builds(string_enum, st.lists(words, min_size=1, max_size=3, unique=True)),
    st.builds(described_string, st.text("abc .,é", min_size=1, max_size=20)),
    st.builds(array_of, simple_types),
)
parameters = st.builds(
    object_of,
    st.dictionaries(st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True), properties, min_size=1, max_size=4),
    st.integers(0, 4),
)
tools = st.builds(
    ToolDescription,
    name=st.from_regex(r"[a-z_][a-z0-9_]{0,12}", fullmatch=True),
    description=texts,
    parameters=st.none() | parameters,
)
namespaces = st.one_of(
    st.sampled_from([BROWSER, PYTHON]),
    st.builds(
        ToolNamespace,
        st.just("functions") | st.from_regex(r"[a-z]{1,8}", fullmatch=True),
        st.none() | texts,
        st.lists(tools, max_size=3).map(tuple),
    ),
)
namespace_maps = st.none() | st.lists(namespaces, max_size=3).map(
    lambda given: {namespace.name: namespace for namespace in given}
)

system_contents = st.builds(
    SystemContent,
    model_identity=st.none() | texts,
    knowledge_cutoff=st.none() | texts,
    conversation_start_date=st.none() | texts,
    reasoning_effort=st.none() | st.sampled_from(ReasoningEffort),
    channel_config=st.none()
    | st.builds(ChannelConfig, valid_channels=st.lists(words, max_size=3).map(tuple), channel_required=st.booleans()),
    tools=namespace_maps,
)
developer_contents = st.builds(DeveloperContent, instructions=st.none() | texts, tools=namespace_maps)


@st.composite
def messages(draw: st.DrawFn, header_field: st.SearchStrategy[str] = words) -> Message:
    role = draw(st.sampled_from(Role))
    name = draw(header_field if role is Role.TOOL else st.none() | header_field)
    body: st.SearchStrategy[Any] = texts
    if role is Role.SYSTEM:
        body = texts | system_contents
    elif role is Role.DEVELOPER:
        body = texts | developer_contents
    content_types = st.sampled_from(["json", "code", "<|constrain|>json", "<|constrain|> json"])
    return Message(
        Author(role, name),
        draw(body | st.lists(body, max_size=3).map(tuple)),
        channel=draw(st.none() | st.sampled_from(["analysis", "commentary", "final"]) | header_field),
        recipient=draw(st.none() | st.sampled_from(["all", "functions.x", "assistant"]) | header_field),
        content_type=draw(st.none() | content_types),
    )


conversations = st.lists(messages(), max_size=6).map(Conversation)


def reference_json(conversation: Conversation) -> dict[str, Any]:
    """The conversation as the reference reads it: it writes its efforts with a capital."""
    value = conversation.to_dict()
    for message in value["messages"]:
        for content in message["content"] if isinstance(message["content"], list) else ():
            if content.get("reasoning_effort"):
                content["reasoning_effort"] = content["reasoning_effort"].capitalize()
    return value
