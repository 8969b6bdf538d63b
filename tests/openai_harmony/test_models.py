"""The pydantic side of the drop-in against the reference's, in one process: shapes, JSON, errors, what is mended."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
from collections.abc import Callable, Mapping
from enum import Enum
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from pydantic import BaseModel

from harmonia import Conversation as NativeConversation
from harmonia import DeveloperContent as NativeDeveloper
from harmonia import Message as NativeMessage
from harmonia import SystemContent as NativeSystem
from harmonia import openai_harmony as ours
from harmonia.messages import ToolNamespace as NativeNamespace
from tests.support.both_sides import OURS, Side, outcome
from tests.support.oracle_cases import compared
from tests.support.repeated import repeated
from tests.support.strategies.conversations import conversations, reference_json

CASES = 200
ENUMS = ["HarmonyEncodingName", "ReasoningEffort", "Role", "StreamState"]
MODELS = [
    *("Author", "ChannelConfig", "Content", "Conversation", "DeveloperContent", "Message", "RenderConversationConfig"),
    *("RenderOptions", "SystemContent", "TextContent", "ToolDescription", "ToolNamespaceConfig"),
]
OTHER_CLASSES = ["HarmonyEncoding", "HarmonyError", "StreamableParser"]
FUNCTIONS = ["load_harmony_encoding", "raise_disallowed_special_token"]


# ── the shape of the package ────────────────────────────────────────────────────────────────────────────────────────


def parameters_of(function: Callable[..., object]) -> list[tuple[object, ...]]:
    return [(it.name, it.kind, it.default) for it in inspect.signature(function).parameters.values()]


def shape_of(kind: type) -> dict[str, object]:
    """The public methods with their parameters, and the properties."""
    # A slot and a cached property are read like a property.
    return {
        name: parameters_of(getattr(kind, name)) if callable(getattr(kind, name)) else "property"
        for name in vars(kind)
        if not name.startswith("_") and not isinstance(getattr(kind, name), Enum) and name not in _made_by_pydantic
    }


_made_by_pydantic = {name for name in dir(BaseModel) if name.startswith("model_")}


def without_descriptions(schema: Any) -> Any:
    match schema:
        case {"description": str(), **rest}:
            return without_descriptions(rest)
        case {**items}:
            return {key: without_descriptions(value) for key, value in items.items()}
        case [*items]:
            return [without_descriptions(value) for value in items]
        case _:
            return schema


def test_every_name_that_the_reference_defines_is_there(theirs: Side) -> None:
    names: dict[str, object] = theirs.module.__dict__
    defined = {
        name
        for name, value in names.items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and getattr(value, "__module__", None) == theirs.module.__name__
    }
    assert defined == {*ENUMS, *MODELS, *OTHER_CLASSES, *FUNCTIONS, "T"}
    assert all(hasattr(ours, name) for name in defined)
    assert sorted(ours.__all__) == sorted(theirs.module.__all__)


@pytest.mark.parametrize("name", ENUMS)
def test_enums_are_the_references(theirs: Side, name: str) -> None:
    mine, reference = getattr(ours, name), getattr(theirs.module, name)
    shown, expected = (
        [(str(it), repr(it), f"{it}", it.value, isinstance(it, str), it == it.value) for it in enum]
        for enum in (mine, reference)
    )
    assert shown == expected
    assert outcome(lambda: mine("nobody")) == outcome(lambda: reference("nobody"))


@pytest.mark.parametrize("name", [*MODELS, *OTHER_CLASSES])
def test_classes_have_the_references_methods(theirs: Side, name: str) -> None:
    mine, reference = shape_of(getattr(ours, name)), shape_of(getattr(theirs.module, name))
    # There may be more, as StreamableParser.diagnostics, but not less and not otherwise.
    assert {method: mine.get(method) for method in reference} == reference
    if name != "HarmonyError":
        assert parameters_of(getattr(ours, name)) == parameters_of(getattr(theirs.module, name))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_the_references_parameters(theirs: Side, name: str) -> None:
    assert parameters_of(getattr(ours, name)) == parameters_of(getattr(theirs.module, name))


@pytest.mark.parametrize("name", MODELS)
def test_fields_defaults_and_schemas_are_the_references(theirs: Side, name: str) -> None:
    mine, reference = getattr(ours, name), getattr(theirs.module, name)

    def defaults(model: Any) -> dict[str, tuple[bool, str]]:
        return {
            name: (field.is_required(), repr(field.get_default(call_default_factory=True)))
            for name, field in model.model_fields.items()
        }

    assert list(defaults(mine).items()) == list(defaults(reference).items())
    for mode in ("validation", "serialization"):
        schemas = [without_descriptions(model.model_json_schema(mode=mode)) for model in (mine, reference)]
        assert schemas[0] == schemas[1]


# ── building in place ───────────────────────────────────────────────────────────────────────────────────────────────


def namespace(module: Any, name: str) -> Any:
    return module.ToolNamespaceConfig(name=name, description=None, tools=[module.ToolDescription.new("go", "Goes.")])


FLUENT_METHODS: list[tuple[str, str, Callable[[Any], Any] | None]] = [
    ("SystemContent", "with_model_identity", lambda _: "You are a lamp."),
    ("SystemContent", "with_reasoning_effort", lambda module: module.ReasoningEffort.HIGH),
    ("SystemContent", "with_conversation_start_date", lambda _: "2031-02-03"),
    ("SystemContent", "with_knowledge_cutoff", lambda _: "2030-01"),
    ("SystemContent", "with_channel_config", lambda module: module.ChannelConfig.require_channels(["final"])),
    ("SystemContent", "with_required_channels", lambda _: ["analysis"]),
    ("SystemContent", "with_tools", lambda module: namespace(module, "garden")),
    ("SystemContent", "with_browser_tool", None),
    ("SystemContent", "with_python_tool", None),
    ("DeveloperContent", "with_instructions", lambda _: "Be brief."),
    ("DeveloperContent", "with_tools", lambda module: namespace(module, "garden")),
    ("DeveloperContent", "with_function_tools", lambda module: namespace(module, "functions").tools),
    ("Message", "with_channel", lambda _: "final"),
    ("Message", "with_recipient", lambda _: "functions.go"),
    ("Message", "with_content_type", lambda _: "json"),
    ("Message", "adding_content", lambda _: "more"),
    ("Message", "adding_content", lambda module: module.TextContent(text="more")),
]


@pytest.mark.parametrize(("kind", "method", "argument"), FLUENT_METHODS)
def test_fluent_methods_change_the_object_and_return_it(
    theirs: Side, kind: str, method: str, argument: Callable[[Any], Any] | None
) -> None:
    written: list[str] = []
    for module in (ours, theirs.module):
        thing = module.Message.from_role_and_content(module.Role.USER, "x")
        if kind != "Message":
            thing = getattr(module, kind).new()
        before = json.dumps(thing.to_dict())
        returned = getattr(thing, method)(*([] if argument is None else [argument(module)]))
        assert returned is thing
        assert json.dumps(thing.to_dict()) != before
        written.append(json.dumps(thing.to_dict()))
    assert written[0] == written[1]


def test_tools_are_added_to_those_that_are_there(side: Side) -> None:
    content = side.module.SystemContent.new().with_python_tool().with_tools(namespace(side.module, "garden"))
    assert list(content.tools) == ["python", "garden"]


@pytest.mark.parametrize("name", ["browser", "python"])
def test_builtin_namespaces_are_the_references_and_nobody_shares_them(theirs: Side, name: str) -> None:
    make: Callable[[], Any] = getattr(ours.ToolNamespaceConfig, name)
    first = make()
    assert first.model_dump() == getattr(theirs.module.ToolNamespaceConfig, name)().model_dump()
    for tool in first.tools:
        tool.parameters = {**(tool.parameters or {}), "properties": {}}
        tool.description = "Changed."
    assert make().model_dump() == getattr(theirs.module.ToolNamespaceConfig, name)().model_dump()


def test_one_message_is_the_same_however_it_is_made(side: Side) -> None:
    module = side.module
    author = module.Author(role=module.Role.USER)
    text = module.TextContent(text="Hi")
    made = [
        module.Message(author=author, content=[text]),
        module.Message.from_author_and_content(author, "Hi"),
        module.Message.from_author_and_content(author, text),
        module.Message.from_role_and_content(module.Role.USER, "Hi"),
        module.Message.from_role_and_contents(module.Role.USER, (text,)),
        module.Message.from_dict({"role": "user", "content": "Hi"}),
        module.Message.from_dict({"role": "user", "content": [{"type": "text", "text": "Hi"}]}),
    ]
    assert all(message == made[0] for message in made)
    assert made[0] != module.Message.from_role_and_content(module.Role.USER, "Ho")
    assert made[0] != module.Message.from_role_and_content(module.Role.TOOL, "Hi")
    assert made[0] != module.Message.from_dict({"role": "user", "content": "Hi", "channel": "final"})
    assert module.Author.new(module.Role.TOOL, "browser") == module.Author(role="tool", name="browser")


def test_a_conversation_is_iterated_by_its_messages(side: Side) -> None:
    messages = [side.module.Message.from_role_and_content(side.module.Role.USER, text) for text in "abc"]
    conversation = side.module.Conversation.from_messages(tuple(messages))
    assert all(found is given for found, given in zip(conversation, messages, strict=True))
    assert list(side.module.Conversation()) == []


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def build_namespaces(module: Any, content: Any, tools: Mapping[str, NativeNamespace] | None) -> None:
    for tool_set in (tools or {}).values():
        described = [module.ToolDescription.new(it.name, it.description, it.parameters) for it in tool_set.tools]
        fields = {"name": tool_set.name, "description": tool_set.description, "tools": described}
        content.with_tools(module.ToolNamespaceConfig(**fields))


def build_content(module: Any, content: str | NativeSystem | NativeDeveloper) -> Any:
    if isinstance(content, str):
        return module.TextContent(text=content)
    if isinstance(content, NativeDeveloper):
        built = module.DeveloperContent.new()
        built.instructions = content.instructions
    else:
        effort, channels = content.reasoning_effort, content.channel_config
        built = module.SystemContent(
            model_identity=content.model_identity,
            reasoning_effort=effort and module.ReasoningEffort[effort.name],
            conversation_start_date=content.conversation_start_date,
            knowledge_cutoff=content.knowledge_cutoff,
            channel_config=channels
            and module.ChannelConfig(
                valid_channels=list(channels.valid_channels), channel_required=channels.channel_required
            ),
        )
    build_namespaces(module, built, content.tools)
    return built


def build_message(module: Any, message: NativeMessage) -> Any:
    contents: list[Any] = [build_content(module, content) for content in message.contents]  # pyright: ignore[reportArgumentType] -- the strategy has no other kinds
    built = module.Message.from_role_and_contents(module.Role(message.role.value), contents)
    built.author.name = message.name
    return built.with_channel(message.channel).with_recipient(message.recipient).with_content_type(message.content_type)


def build(module: Any, conversation: NativeConversation) -> Any:
    """The same plan, built through the constructors and the fluent methods of either side."""
    return module.Conversation.from_messages([build_message(module, message) for message in conversation])


@repeated(given(conversations), some=40, many=CASES)
def test_the_json_of_both_is_the_same_and_each_reads_the_others(theirs: Side, plan: NativeConversation) -> None:
    mine, reference = build(ours, plan), build(theirs.module, plan)
    written = mine.to_json()
    assert written == reference.to_json()
    assert mine.to_dict() == reference.to_dict()
    assert repr(ours.Conversation.from_json(written)) == repr(theirs.module.Conversation.from_json(written))
    # What is None is not written, and a reader fills in its default, so the second JSON is the one to compare.
    assert ours.Conversation.from_json(written).to_json() == theirs.module.Conversation.from_json(written).to_json()
    for message, its_reference in zip(mine, reference, strict=True):
        assert message.to_json() == its_reference.to_json()
        assert ours.Message.from_dict(its_reference.to_dict()).to_json() == (
            theirs.module.Message.from_dict(message.to_dict()).to_json()
        )
        assert repr(message) == repr(its_reference)
    compared("conversations as JSON of the drop-in")


@repeated(given(conversations), some=40, many=CASES)
def test_the_json_of_the_native_conversation_is_read_alike(theirs: Side, plan: NativeConversation) -> None:
    written = json.dumps(reference_json(plan))
    assert ours.Conversation.from_json(written).to_json() == theirs.module.Conversation.from_json(written).to_json()


ODD_MESSAGES: list[dict[str, Any]] = [
    {},
    {"role": "user"},
    {"content": "x"},
    {"role": "narrator", "content": "x"},
    {"role": None, "content": "x"},
    {"role": "USER", "content": "x"},
    {"role": "user", "content": None},
    {"role": "user", "content": 5},
    {"role": "user", "content": []},
    {"role": "user", "content": ["x"]},
    {"role": "user", "content": {"type": "text"}},
    {"role": "user", "content": [{}]},
    {"role": "user", "content": [{"text": "x"}]},
    {"role": "user", "content": [{"type": "image", "url": "x"}]},
    {"role": "user", "content": [{"type": None}]},
    {"role": "user", "content": [{"type": ["text"]}]},
    {"role": "user", "content": [{"type": "text"}]},
    {"role": "user", "content": [{"type": "text", "text": 5}]},
    {"role": "user", "content": [{"type": "text", "text": "x", "more": 1}]},
    {"role": "user", "content": "x", "name": 5},
    {"role": "user", "content": "x", "channel": 5},
    {"role": "user", "content": "x", "more": 1},
    {"role": "system", "content": [{"type": "system_content"}]},
    {"role": "system", "content": [{"type": "system_content", "reasoning_effort": "high"}]},
    {"role": "system", "content": [{"type": "system_content", "model_identity": None, "reasoning_effort": "High"}]},
    {"role": "developer", "content": [{"type": "developer_content", "tools": {"x": {"name": "x"}}}]},
    {"role": "developer", "content": [{"type": "developer_content", "tools": {"x": {"name": "x", "tools": []}}}]},
]


@pytest.mark.parametrize("data", ODD_MESSAGES, ids=json.dumps)
def test_odd_messages_are_read_or_refused_in_the_same_words(theirs: Side, data: dict[str, Any]) -> None:
    found, expected = (
        outcome(lambda module=module: module.Message.from_dict(data).to_json()) for module in (ours, theirs.module)
    )
    assert found == expected


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "5", "{}", '{"messages": 5}', '{"messages": [{}]}', '{"messages": []}']
)
def test_odd_conversations_are_read_or_refused_in_the_same_words(theirs: Side, text: str) -> None:
    found, expected = (
        outcome(lambda module=module: module.Conversation.from_json(text).to_json()) for module in (ours, theirs.module)
    )
    assert found == expected


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("Author", {"role": "narrator"}),
        ("Author", {}),
        ("TextContent", {"text": None}),
        ("ToolDescription", {"name": "x"}),
        ("ToolDescription", {"name": "x", "description": "y", "parameters": []}),
        ("ChannelConfig", {"valid_channels": "final", "channel_required": True}),
        ("SystemContent", {"reasoning_effort": "Endless"}),
        ("Message", {"author": {"role": "user"}, "content": "x"}),
        ("Message", {"author": {"role": "user"}, "content": ["x"]}),
        ("Conversation", {"messages": [5]}),
        ("RenderConversationConfig", {"auto_drop_analysis": "perhaps"}),
    ],
)
def test_pydantic_refuses_the_same_in_the_same_words(theirs: Side, name: str, fields: dict[str, Any]) -> None:
    found, expected = (
        outcome(lambda module=module: getattr(module, name)(**fields)) for module in (ours, theirs.module)
    )
    assert found[0] == "ValidationError"
    assert found == expected


# ── what the reference loses: dumps ─────────────────────────────────────────────────────────────────────────────────


class Request(BaseModel):
    """A model of a user's own."""

    latest: ours.Message
    conversation: ours.Conversation
    contents: list[ours.TextContent] = []


def test_messages_can_be_fields_of_a_users_model() -> None:
    latest = ours.Message.from_role_and_content(ours.Role.USER, "Hi").with_channel("final")
    system = ours.Message.from_role_and_content(ours.Role.SYSTEM, ours.SystemContent.new().with_python_tool())
    request = Request(latest=latest, conversation=ours.Conversation.from_messages([system, latest]))
    assert request.latest is latest
    for read in (Request.model_validate(request.model_dump()), Request.model_validate_json(request.model_dump_json())):
        assert read == request
        assert type(read.conversation.messages[0].content[0]) is ours.SystemContent
    # A request as a client writes it: plain JSON with types.
    client = {"latest": {"author": {"role": "user"}, "content": [{"type": "text", "text": "Hi"}]}, "conversation": {}}
    assert Request.model_validate(client).latest.to_dict()["content"] == [{"type": "text", "text": "Hi"}]


@repeated(given(conversations), some=40, many=CASES)
def test_a_dump_keeps_the_contents_and_is_read_back(plan: NativeConversation) -> None:
    conversation = build(ours, plan)
    for read in (
        ours.Conversation.model_validate(conversation.model_dump()),
        ours.Conversation.model_validate(conversation.model_dump(mode="json")),
        ours.Conversation.model_validate_json(conversation.model_dump_json()),
    ):
        assert read == conversation
        assert read.to_json() == conversation.to_json()


@pytest.mark.parametrize("option", ["exclude_none", "exclude_unset", "exclude_defaults"])
@pytest.mark.parametrize(
    ("role", "content"),
    [
        (ours.Role.USER, ours.TextContent(text="")),
        (ours.Role.SYSTEM, ours.SystemContent.new().with_knowledge_cutoff("2030-01")),
        (ours.Role.SYSTEM, ours.SystemContent.new().with_knowledge_cutoff("2030-01").with_python_tool()),
        (ours.Role.DEVELOPER, ours.DeveloperContent.new().with_instructions("Be brief.")),
        (ours.Role.DEVELOPER, ours.DeveloperContent.new().with_tools(ours.ToolNamespaceConfig.python())),
    ],
    ids=["text", "system", "system with tools", "instructions", "tools"],
)
def test_a_short_dump_is_read_back(option: str, role: ours.Role, content: ours.Content) -> None:
    message = ours.Message.from_role_and_content(role, content)
    options: dict[str, Any] = {option: True}
    assert ours.Message.model_validate(message.model_dump(**options)) == message


def test_a_dump_of_the_reference_has_lost_the_contents_and_is_still_read(theirs: Side) -> None:
    module = theirs.module
    dumped = module.Message.from_role_and_content(module.Role.USER, "Hi").model_dump()
    assert dumped["content"] == [{}]
    assert ours.Message.model_validate(dumped).content == [ours.Content()]


def test_copies_are_equal_and_apart() -> None:
    content = ours.DeveloperContent.new().with_function_tools(
        [ours.ToolDescription.new("go", "Goes.", {"type": "object"})]
    )
    conversation = ours.Conversation.from_messages(
        [
            ours.Message.from_role_and_content(ours.Role.DEVELOPER, content).with_channel("x"),
            ours.Message.from_author_and_content(ours.Author.new(ours.Role.TOOL, "go"), "ok"),
        ]
    )
    written = conversation.to_json()
    for other in (
        copy.deepcopy(conversation),
        conversation.model_copy(deep=True),
        pickle.loads(pickle.dumps(conversation)),
    ):
        assert other == conversation
        (changed,) = other.messages[0].content
        assert type(changed) is ours.DeveloperContent
        changed.with_instructions("Changed.")
        other.messages[1].author.name = "changed"
        assert conversation.to_json() == written
    shallow = copy.copy(conversation)
    assert shallow == conversation
    assert shallow.messages is conversation.messages


# ── rendering looks at what to_dict says ────────────────────────────────────────────────────────────────────────────


def rewritten(kind: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """A subclass whose `to_dict` says something else."""

    class Rewritten(kind):
        def to_dict(self) -> dict[str, Any]:
            return change(kind.to_dict(self))

    return Rewritten


def says_more(module: Any) -> list[Any]:
    shout = rewritten(module.TextContent, lambda said: {**said, "text": said["text"].upper()})
    return [
        module.Message.from_role_and_content(module.Role.USER, kind(text="hi")) for kind in (module.TextContent, shout)
    ]


def is_of_no_known_kind(module: Any) -> list[Any]:
    class Note(module.Content):
        words: list[str]

        def to_dict(self) -> dict[str, Any]:
            return {"type": "text", "text": " ".join(self.words)}

    return [module.Message.from_role_and_content(module.Role.USER, Note(words=["one", "two"]))]


def has_its_own_recipient(module: Any) -> list[Any]:
    kind = rewritten(module.Message, lambda said: {**said, "recipient": "functions.go"})
    return [it.from_role_and_content(module.Role.ASSISTANT, "x") for it in (module.Message, kind)]


def has_its_own_channel(module: Any) -> list[Any]:
    thought = rewritten(module.Message, lambda said: {**said, "channel": "analysis"})
    final = rewritten(module.Message, lambda said: {**said, "channel": "final"})
    return [kind.from_role_and_content(module.Role.ASSISTANT, "x") for kind in (thought, final)]


def declares_functions_of_its_own(module: Any) -> list[Any]:
    class Toolbox(module.Content):
        def to_dict(self) -> dict[str, Any]:
            functions = {"name": "functions", "tools": [{"name": "go", "description": "Goes."}]}
            return {"type": "developer_content", "tools": {"functions": functions}}

    return [
        module.Message.from_role_and_content(module.Role.SYSTEM, module.SystemContent.new()),
        module.Message.from_role_and_content(module.Role.DEVELOPER, Toolbox()),
    ]


@pytest.mark.parametrize(
    "make",
    [says_more, is_of_no_known_kind, has_its_own_recipient, has_its_own_channel, declares_functions_of_its_own],
)
def test_a_to_dict_of_ones_own_is_rendered(theirs: Side, make: Callable[[Any], list[Any]]) -> None:
    def rendered(side: Side) -> list[list[int]]:
        messages = make(side.module)
        conversation = side.module.Conversation.from_messages(messages)
        encoding = side.encoding
        return [
            *(encoding.render(message) for message in messages),
            encoding.render_conversation(conversation),
            encoding.render_conversation_for_training(conversation),
        ]

    assert rendered(OURS) == rendered(theirs)


# pydantic warns of such values itself, on both sides.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize("value", [5, True, 1.5, ["x"], {"x": 1}], ids=repr)
@pytest.mark.parametrize(
    "path", ["channel", "recipient", "content_type", "author.role", "author.name", "content.0.text"]
)
def test_what_was_assigned_without_validation_is_refused_by_rendering(side: Side, path: str, value: object) -> None:
    message = side.module.Message.from_role_and_content(side.module.Role.USER, "x")
    *way, last = path.split(".")
    target = message
    for step in way:
        target = target[int(step)] if step.isdigit() else getattr(target, step)
    setattr(target, last, value)
    with pytest.raises(ValueError, match=r"^invalid message JSON: "):
        side.encoding.render(message)
    with pytest.raises(ValueError, match=r"^invalid conversation JSON: "):
        side.encoding.render_conversation(side.module.Conversation(messages=[message]))


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize(
    ("field", "value"),
    [("reasoning_effort", "low"), ("model_identity", 5), ("tools", []), ("channel_config", {"valid_channels": []})],
)
def test_what_was_assigned_to_a_content_is_refused_by_rendering(side: Side, field: str, value: object) -> None:
    content = side.module.SystemContent.new()
    setattr(content, field, value)
    with pytest.raises(ValueError, match=r"^invalid message JSON: "):
        side.encoding.render(side.module.Message.from_role_and_content(side.module.Role.SYSTEM, content))


UNWRITABLE: dict[str, Callable[[Any], object]] = {
    "text": lambda _: "x",
    "nothing": lambda _: None,
    "no kind": lambda module: [module.Content()],
    "dict": lambda _: [{"type": "text", "text": "x"}],
}


@pytest.mark.parametrize("contents", UNWRITABLE.values(), ids=UNWRITABLE)
def test_contents_that_cannot_be_written_raise_the_same_type(theirs: Side, contents: Callable[[Any], object]) -> None:
    def raised(side: Side) -> str:
        message = side.module.Message.from_role_and_content(side.module.Role.USER, "x")
        message.content = contents(side.module)
        return outcome(lambda: side.encoding.render(message))[0]

    assert raised(OURS) == raised(theirs) != "gives"


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_a_role_may_be_assigned_by_its_word(theirs: Side) -> None:
    def rendered(side: Side) -> list[int]:
        message = side.module.Message.from_role_and_content(side.module.Role.USER, "x")
        message.author.role = "developer"
        return side.encoding.render(message)

    assert rendered(OURS) == rendered(theirs)


SCHEMA_VALUES: dict[str, Any] = {
    "a number for a key": {"type": "object", "properties": {1: {"type": "string"}, None: {"type": "number"}}},
    "bytes": {"type": "string", "default": b"x"},
    "a set": {"type": "string", "enum": {"x"}},
    "a tuple": {"type": "string", "enum": ("x", "y")},
    "infinity": {"type": "number", "default": float("inf")},
    "a large number": {"type": "number", "default": 10**30},
    "an enumeration": {"type": "string", "default": OURS.module.Role.USER},
}


@pytest.mark.parametrize("parameters", SCHEMA_VALUES.values(), ids=SCHEMA_VALUES)
def test_values_of_schemas_are_taken_or_refused_alike(theirs: Side, parameters: Any) -> None:
    def rendered(side: Side) -> tuple[str, object]:
        tool = side.module.ToolDescription.new("f", "d", parameters=parameters)
        content = side.module.DeveloperContent.new().with_function_tools([tool])
        message = side.module.Message.from_role_and_content(side.module.Role.DEVELOPER, content)
        kind, found = outcome(lambda: side.encoding.render(message))
        return kind, found if kind == "gives" else None

    assert rendered(OURS) == rendered(theirs)


def test_halves_of_a_pair_are_one_character(theirs: Side) -> None:
    def rendered(side: Side) -> list[int]:
        return side.encoding.render(side.module.Message.from_role_and_content(side.module.Role.USER, "\ud83d\ude00"))

    assert rendered(OURS) == rendered(theirs)


def test_a_conversation_of_the_callers_is_taken_by_its_json(side: Side) -> None:
    class Empty(side.module.Conversation):
        def to_dict(self) -> dict[str, Any]:
            return {"messages": []}

    conversation = Empty(messages=[side.module.Message.from_role_and_content(side.module.Role.USER, "x")])
    assert side.encoding.render_conversation(conversation) == []
