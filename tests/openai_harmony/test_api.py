"""HarmonyEncoding and StreamableParser of the drop-in against the reference's, in one process.

Rendered tokens are always the reference's. What is read is compared where the reference is right; where it is silently
wrong, the expectation is stated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings

from harmonia import Conversation as NativeConversation
from harmonia import ErrorCode, Position
from harmonia import openai_harmony as ours
from harmonia.vocabulary import CALL, END, RETURN
from tests.support.both_sides import OURS, Side, outcome
from tests.support.oracle_cases import compared
from tests.support.strategies.conversations import conversations, reference_json

CASES = 40
ENCODING = ours.load_harmony_encoding("HarmonyGptOss")


def tokens_of(text: str) -> list[int]:
    return ENCODING.encode(text, allowed_special="all")


# ── rendering: conversations that show one thing each ───────────────────────────────────────────────────────────────

Build = Callable[[Any], list[Any]]


def say(module: Any, role: str, content: Any, channel: str | None = None, recipient: str | None = None) -> Any:
    message = module.Message.from_role_and_content(module.Role(role), content)
    message.channel, message.recipient = channel, recipient
    return message


def system(change: Callable[[Any, Any], Any] = lambda _, content: content, after: str = "What grows here?") -> Build:
    """A system message, changed, and a question."""

    def build(module: Any) -> list[Any]:
        content = module.SystemContent.new()
        return [say(module, "system", change(module, content)), say(module, "user", after)]

    return build


def with_effort(name: str, instructions: str | None) -> Build:
    def build(module: Any) -> list[Any]:
        content = module.SystemContent.new().with_reasoning_effort(module.ReasoningEffort[name])
        developer = [] if instructions is None else [module.DeveloperContent.new().with_instructions(instructions)]
        return [
            say(module, "system", content),
            *(say(module, "developer", content) for content in developer),
            say(module, "user", "What grows here?"),
        ]

    return build


# One of everything that a schema of arguments may have.
KITCHEN_SINK: dict[str, Any] = {
    "type": "object",
    "description": "An order for the garden.",
    "required": ["plant", "beds"],
    "properties": {
        "plant": {
            "type": "string",
            "description": "What to plant.\nLatin names are fine.",
            "examples": ["Rosa", "Salvia"],
        },
        "count": {"type": "integer", "default": 3, "minimum": 1},
        "depth": {"type": "number", "nullable": True, "description": "In metres."},
        "soil": {"type": "string", "enum": ["sand", "loam", "clay"], "default": "loam"},
        "is_urgent": {"type": "boolean", "default": False},
        "note": {"type": ["string", "null"]},
        "size": {"oneOf": [{"type": "string", "description": "A word."}, {"type": "number", "default": 1.5}]},
        "beds": {"type": "array", "items": {"type": "object", "properties": {"row": {"type": "integer"}}}},
        "labels": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
        "owner": {
            "type": "object",
            "description": "Who pays.",
            "properties": {"name": {"type": "string"}, "address": {"type": "object", "properties": {}}},
            "required": ["name"],
        },
        "anything": {},
    },
}


def with_tools(*builtin: str, functions: bool = False) -> Build:
    def build(module: Any) -> list[Any]:
        content = module.SystemContent.new()
        for name in builtin:
            getattr(content, f"with_{name}_tool")()
        developer = module.DeveloperContent.new().with_instructions("Order plants.")
        if functions:
            order = module.ToolDescription.new("order", "Orders plants.\nCosts money.", deepcopy(KITCHEN_SINK))
            today = module.ToolDescription.new("today", "The date.")
            empty = module.ToolDescription.new("empty", "", {"type": "object", "properties": {}})
            developer.with_function_tools([order, today, empty])
        return [say(module, "system", content), say(module, "developer", developer), say(module, "user", "Roses!")]

    return build


def call_and_answer(module: Any) -> list[Any]:
    call = say(module, "assistant", '{"plant": "Rosa"}', "commentary", "functions.order").with_content_type("json")
    author = module.Author.new(module.Role.TOOL, "functions.order")
    answer = module.Message.from_author_and_content(author, "ok").with_recipient("assistant")
    return [*with_tools(functions=True)(module), call, answer.with_channel("commentary")]


# What is built, what stands in the prompt, what does not.
CONVERSATIONS: dict[str, tuple[Build, Sequence[str], Sequence[str]]] = {
    "nothing": (lambda _: [], [], ["system"]),
    "a question": (system(), ["Knowledge cutoff: 2024-06", "Reasoning: medium"], ["Current date"]),
    "a question without a system message": (lambda module: [say(module, "user", "Hi")], [], ["system"]),
    **{
        f"effort {name}, {'no ' if instructions is None else ''}instructions": (
            with_effort(name, instructions),
            [f"Reasoning: {name.lower()}", instructions or ""],
            ["developer"] if instructions is None else [],
        )
        for name in ("LOW", "MEDIUM", "HIGH")
        for instructions in (None, "Answer in verse.")
    },
    "dates": (
        system(lambda _, it: it.with_conversation_start_date("2031-02-03").with_knowledge_cutoff("2030-01")),
        ["Knowledge cutoff: 2030-01", "Current date: 2031-02-03"],
        [],
    ),
    "channels": (
        system(lambda _, it: it.with_required_channels(["final", "margin"])),
        ["Valid channels: final, margin. Channel must be included"],
        ["analysis"],
    ),
    "optional channels": (
        system(
            lambda module, it: it.with_channel_config(
                module.ChannelConfig(valid_channels=["final"], channel_required=False)
            )
        ),
        [],
        ["must be included"],
    ),
    "identity": (system(lambda _, it: it.with_model_identity("You are a lamp.")), ["You are a lamp."], ["ChatGPT"]),
    "bare system": (
        lambda module: [
            say(
                module,
                "system",
                module.SystemContent(
                    model_identity=None, reasoning_effort=None, knowledge_cutoff=None, channel_config=None
                ),
            )
        ],
        [],
        ["ChatGPT", "Reasoning", "2024-06", "channels"],
    ),
    "no tools": (with_tools(), ["# Instructions"], ["# Tools", "namespace"]),
    "functions": (
        with_tools(functions=True),
        ["namespace functions {", "type order = (_:", "type today = () => any;", "Calls to these tools must go to"],
        ["namespace browser"],
    ),
    "browser": (with_tools("browser"), ["namespace browser {"], ["namespace functions", "Calls to these tools"]),
    "browser and functions": (
        with_tools("browser", functions=True),
        ["namespace browser {", "namespace functions {"],
        ["## python"],
    ),
    "browser and python": (with_tools("browser", "python"), ["namespace browser {", "## python"], ["functions {"]),
    "a call and its answer": (call_and_answer, ["<|call|>", "<|start|>functions.order to=assistant"], []),
    "several contents": (
        lambda module: [say(module, "user", "One.").adding_content("Two.").adding_content("<|end|>")],
        ["<|message|>One.Two.<|end|><|end|>"],
        [],
    ),
}


def renderings(side: Side, messages: list[Any]) -> dict[str, list[int]]:
    """By all four methods, with every configuration."""
    module, encoding = side
    conversation = module.Conversation.from_messages(messages)
    found: dict[str, list[int]] = {}
    for drop in (None, True, False):
        config = [] if drop is None else [module.RenderConversationConfig(auto_drop_analysis=drop)]
        for role in module.Role:
            tokens = encoding.render_conversation_for_completion(conversation, role, *config)
            found[f"for {role.value}, {drop}"] = tokens
        found[f"history, {drop}"] = encoding.render_conversation(conversation, *config)
        found[f"training, {drop}"] = encoding.render_conversation_for_training(conversation, *config)
    for has_tools in (None, True, False):
        options = [] if has_tools is None else [module.RenderOptions(conversation_has_function_tools=has_tools)]
        for at, message in enumerate(messages):
            found[f"message {at}, {has_tools}"] = encoding.render(message, *options)
    return found


@pytest.mark.parametrize(("build", "present", "absent"), CONVERSATIONS.values(), ids=CONVERSATIONS)
def test_prompts_are_the_references(theirs: Side, build: Build, present: list[str], absent: list[str]) -> None:
    found = renderings(OURS, build(ours))
    assert found == renderings(theirs, build(theirs.module))
    prompt = ENCODING.decode_utf8(found["for assistant, None"])
    assert prompt.endswith("<|start|>assistant")
    assert [text for text in present if text not in prompt] == [] == [text for text in absent if text in prompt]


def read_or_refusal(side: Side, written: str) -> object:
    """All renderings of a conversation in JSON, or what refuses it: the reference has a plain RuntimeError there."""
    module = side.module
    try:
        return renderings(side, list(module.Conversation.from_json(written)))
    except RuntimeError as error:
        return str(error)


@settings(max_examples=CASES)
@given(conversations)
def test_any_conversation_gives_the_references_tokens(theirs: Side, conversation: NativeConversation) -> None:
    written = json.dumps(reference_json(conversation))
    assert read_or_refusal(OURS, written) == read_or_refusal(theirs, written)
    compared("conversations of the drop-in, by four methods with every configuration")


@pytest.mark.exhaustive
@settings(max_examples=2_000)
@given(conversations)
def test_any_conversation_gives_the_references_tokens_many_times(
    theirs: Side, conversation: NativeConversation
) -> None:
    written = json.dumps(reference_json(conversation))
    assert read_or_refusal(OURS, written) == read_or_refusal(theirs, written)
    compared("conversations of the drop-in, by four methods with every configuration")


def test_a_conversation_is_its_messages_one_after_the_other(side: Side) -> None:
    module, encoding = side
    messages = call_and_answer(module)
    options = module.RenderOptions(conversation_has_function_tools=True)
    joined = [token for message in messages for token in encoding.render(message, options)]
    conversation = module.Conversation.from_messages(messages)
    assert encoding.render_conversation(conversation) == joined
    assert encoding.render_conversation_for_completion(conversation, module.Role.ASSISTANT) == [
        *joined,
        *tokens_of("<|start|>assistant"),
    ]


# The role, the channel and the text of each message, and the texts that are left when analysis is dropped.
Turn = tuple[str, str | None, str]
DROPPED: dict[str, tuple[list[Turn], str]] = {
    "answered": ([("user", None, "Q"), ("assistant", "analysis", "T"), ("assistant", "final", "A")], "QA"),
    "asked again": (
        [("user", None, "Q"), ("assistant", "analysis", "T"), ("assistant", "final", "A"), ("user", None, "R")],
        "QAR",
    ),
    "ongoing": ([("user", None, "Q"), ("assistant", "analysis", "T"), ("assistant", "commentary", "C")], "QTC"),
    "only thought": ([("user", None, "Q"), ("assistant", "analysis", "T")], "QT"),
    "ongoing after an answer": (
        [
            ("assistant", "analysis", "S"),
            ("assistant", "final", "A"),
            ("user", None, "Q"),
            ("assistant", "analysis", "T"),
        ],
        "SAQT",
    ),
    "between two answers": (
        [
            ("assistant", "analysis", "S"),
            ("assistant", "final", "A"),
            ("user", None, "Q"),
            ("assistant", "analysis", "T"),
            ("assistant", "final", "B"),
        ],
        "AQTB",
    ),
    "commentary stays": ([("assistant", "commentary", "C"), ("assistant", "final", "A")], "CA"),
}


@pytest.mark.parametrize(("turns", "kept"), DROPPED.values(), ids=DROPPED)
def test_analysis_is_dropped_before_the_first_answer_when_the_last_turn_is_over(
    side: Side, turns: list[Turn], kept: str
) -> None:
    module, encoding = side
    messages = [say(module, role, text, channel) for role, channel, text in turns]
    conversation = module.Conversation.from_messages(messages)
    keep = module.RenderConversationConfig(auto_drop_analysis=False)

    def joined(letters: str) -> list[int]:
        texts = [message for message in messages if message.content[0].text in letters]
        return [token for message in texts for token in encoding.render(message)]

    assert encoding.render_conversation(conversation) == joined(kept)
    assert encoding.render_conversation(conversation, module.RenderConversationConfig()) == joined(kept)
    assert encoding.render_conversation(conversation, keep) == joined("QRSTABC")


@pytest.mark.parametrize(
    ("role", "channel", "recipient", "last"),
    [
        ("assistant", "final", None, RETURN),
        ("assistant", "analysis", None, END),
        ("assistant", None, None, END),
        ("assistant", "commentary", "functions.x", CALL),
        ("user", "final", None, END),
        ("developer", "final", None, END),
    ],
)
def test_training_ends_with_return_only_behind_a_final_answer(
    side: Side, role: str, channel: str | None, recipient: str | None, last: int
) -> None:
    module, encoding = side
    messages = [say(module, "user", "Q"), say(module, role, "A", channel, recipient)]
    conversation = module.Conversation.from_messages(messages)
    training = encoding.render_conversation_for_training(conversation)
    assert training[-1] == last
    assert training[:-1] == encoding.render_conversation(conversation)[:-1]
    assert training.count(RETURN) == (last == RETURN)


def test_what_is_changed_in_place_is_rendered_anew(theirs: Side) -> None:
    def rendered(side: Side) -> list[list[int]]:
        module, encoding = side
        messages = with_tools(functions=True)(module)
        found = [encoding.render(message) for message in messages]
        messages[0].content[0].with_browser_tool()
        messages[1].content[0].tools["functions"].tools[0].parameters["properties"].pop("plant")
        messages[2].content[0].text = "Lilies!"
        found += [encoding.render(message) for message in messages]
        messages[2].with_channel("x").with_recipient("y").author.name = "alice"
        return [*found, encoding.render(messages[2])]

    found = rendered(OURS)
    assert found == rendered(theirs)
    assert all(tokens not in found[:at] for at, tokens in enumerate(found))


def test_the_tokens_that_are_given_are_the_callers_own() -> None:
    message = say(ours, "assistant", "Hi", "final")
    conversation = ours.Conversation.from_messages([message])
    for render in (
        lambda: ENCODING.render(message),
        lambda: ENCODING.render_conversation(conversation),
        lambda: ENCODING.render_conversation_for_training(conversation),
    ):
        tokens = render()
        before = tokens.copy()
        tokens.clear()
        assert render() == before


MISPLACED: dict[str, Build] = {
    "system content of a user": lambda module: [say(module, "user", module.SystemContent.new())],
    "system content of a tool": lambda module: [say(module, "tool", module.SystemContent.new())],
    "developer content of the system": lambda module: [say(module, "system", module.DeveloperContent.new())],
    "developer content of the assistant": lambda module: [say(module, "assistant", module.DeveloperContent.new())],
    "a tool without a name": lambda module: [say(module, "tool", "ok")],
}


@pytest.mark.parametrize("build", MISPLACED.values(), ids=MISPLACED)
def test_what_cannot_be_rendered_is_refused_in_the_same_words(theirs: Side, build: Build) -> None:
    renders: list[Callable[[Side], object]] = [
        lambda side: side.encoding.render(build(side.module)[0]),
        lambda side: side.encoding.render_conversation(side.module.Conversation(messages=build(side.module))),
    ]
    for render in renders:
        with pytest.raises(RuntimeError) as reference:
            render(theirs)
        with pytest.raises(ours.HarmonyError) as found:
            render(OURS)
        assert str(found.value) == str(reference.value)
        assert found.value.code in (ErrorCode.RENDER_MISPLACED_CONTENT, ErrorCode.RENDER_UNNAMED_TOOL)


# ── the vocabulary ──────────────────────────────────────────────────────────────────────────────────────────────────

HALF = tokens_of("🦜")[0]
ODD_TOKENS: list[Any] = [
    *([-1], [2**32], [0, -1], [2**32 - 1], [201_088], [201_089], [200_014], [199_999], [True]),
    *(["x"], [1.5], [None], [[1]], 5, None, "x", b"ab", (200_006, 17), range(3)),
    *([187], [HALF], [17, HALF], [HALF, 17], [17, 187, 17], [HALF, 200_007], tokens_of("é🦜日本"), []),
]


@pytest.mark.parametrize("tokens", ODD_TOKENS, ids=repr)
@pytest.mark.parametrize("method", ["decode", "decode_utf8", "parse_messages_from_completion_tokens"])
def test_odd_tokens_are_taken_or_refused_in_the_same_words(theirs: Side, method: str, tokens: Any) -> None:
    found, expected = (outcome(lambda it=it: getattr(it.encoding, method)(tokens)) for it in (OURS, theirs))
    assert found == expected


@pytest.mark.parametrize("token", [-1, 2**32, "x", 1.5, None, [1], True, 0, 199_998, 200_014, 201_088, 201_089])
def test_an_odd_token_is_taken_or_refused_in_the_same_words(theirs: Side, token: Any) -> None:
    uses: list[Callable[[Side], object]] = [
        lambda it: it.encoding.is_special_token(token),
        lambda it: it.module.StreamableParser(it.encoding, it.module.Role.ASSISTANT).process(token).tokens,
    ]
    found, expected = ([outcome(lambda it=it, use=use: use(it)) for use in uses] for it in (OURS, theirs))
    assert found == expected


def test_reserved_tokens_are_text_and_back(side: Side) -> None:
    for token in (200_000, 200_014, 201_087, 201_088):
        text = f"<|reserved_{token}|>"
        assert side.encoding.decode([token]) == side.encoding.decode_utf8([token]) == text
        assert side.encoding.encode(text, allowed_special="all") == [token]


@pytest.mark.parametrize("errors", ["strict", "ignore", "replace", "backslashreplace", "nonsense"])
def test_decode_takes_what_bytes_decode_takes(theirs: Side, errors: str) -> None:
    found, expected = (outcome(lambda it=it: it.encoding.decode([17, 187], errors)) for it in (OURS, theirs))
    assert found == expected


@pytest.mark.parametrize(
    "text", ["", "plain", "a<|end|>b", "<|start|><|end|>", "<|reserved_201088|>", "🦜\ud83d\ude00\ud800"]
)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"allowed_special": "all"},
        {"allowed_special": {"<|end|>"}},
        {"allowed_special": {"<|end|>", "plain", "<|no|>"}},
        {"disallowed_special": ()},
        {"disallowed_special": {"<|start|>"}},
        {"disallowed_special": ["plain", "<|end|>"]},
        {"allowed_special": {"<|end|>"}, "disallowed_special": ()},
        {"allowed_special": {"<|end|>"}, "disallowed_special": {"<|end|>"}},
        {"allowed_special": "all", "disallowed_special": {"<|end|>"}},
    ],
)
def test_special_tokens_are_encoded_or_refused_alike(theirs: Side, text: str, options: dict[str, Any]) -> None:
    found, expected = (outcome(lambda it=it: it.encoding.encode(text, **options)) for it in (OURS, theirs))
    # Which of two spellings is named first depends on nothing but the text.
    assert found == expected


def test_the_lists_of_tokens_are_the_references(theirs: Side) -> None:
    assert ENCODING.name == theirs.encoding.name == "HarmonyGptOss"
    assert ENCODING.special_tokens_set == theirs.encoding.special_tokens_set
    # The reference's are sets, in any order.
    assert sorted(ENCODING.stop_tokens()) == sorted(theirs.encoding.stop_tokens())
    actions = theirs.encoding.stop_tokens_for_assistant_actions()
    assert sorted(ENCODING.stop_tokens_for_assistant_actions()) == sorted(actions)
    ids = range(199_990, 201_100)
    assert [*map(ENCODING.is_special_token, ids)] == [*map(theirs.encoding.is_special_token, ids)]


class Stranger(Enum):
    NARRATOR = "narrator"


def test_names_that_nobody_knows_are_refused_in_the_same_words(theirs: Side) -> None:
    stranger: Any = Stranger.NARRATOR
    uses: list[Callable[[Side], object]] = [
        lambda it: it.module.load_harmony_encoding("o200k"),
        lambda it: it.module.load_harmony_encoding(5),
        lambda it: it.module.load_harmony_encoding(None),
        lambda it: it.module.StreamableParser(it.encoding, stranger),
        lambda it: it.encoding.parse_messages_from_completion_tokens([], stranger),
        lambda it: it.encoding.render_conversation_for_completion(it.module.Conversation(), stranger),
    ]
    found, expected = ([outcome(lambda it=it, use=use: use(it)) for use in uses] for it in (OURS, theirs))
    assert {name for name, _ in expected} == {"ValueError"}
    assert found == expected


@pytest.mark.parametrize("name", ["HarmonyGptOss", ours.HarmonyEncodingName.HARMONY_GPT_OSS])
def test_an_encoding_is_loaded_by_its_name(name: str) -> None:
    assert ours.load_harmony_encoding(name).encode("Hi") == tokens_of("Hi")


# ── parsing ─────────────────────────────────────────────────────────────────────────────────────────────────────────

PROPERTIES = [
    *("state", "state_data", "current_role", "current_channel", "current_recipient", "current_content_type"),
    *("current_content", "last_content_delta", "tokens"),
]


def trace(side: Side, tokens: Sequence[int], role: str | None, *, strict: bool = True) -> list[dict[str, Any]]:
    """Everything that a parser says after each token, and after the end."""
    module = side.module
    parser = module.StreamableParser(side.encoding, None if role is None else module.Role(role), strict=strict)
    found: list[dict[str, Any]] = []
    steps: list[Callable[[], object]] = [lambda token=token: parser.process(token) for token in tokens]
    for step in (*steps, parser.process_eos):
        name, said = outcome(step)
        seen = {name: getattr(parser, name) for name in PROPERTIES}
        seen = {name: getattr(value, "value", value) for name, value in seen.items()}
        messages = [message.to_dict() for message in parser.messages]
        found.append({"raised": None if name == "gives" else (name, said), **seen, "messages": messages})
    return found


# Streams that the reference reads rightly, or refuses.
STREAMS: dict[str, tuple[str | None, str]] = {
    "an answer": ("assistant", "<|channel|>final<|message|>Four.<|return|>"),
    "several messages": (
        "assistant",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>Wait.<|end|>"
        "<|start|>assistant<|channel|>final<|message|>Four.<|return|>",
    ),
    "a whole conversation": (None, "<|start|>user<|message|>2+2?<|end|><|start|>assistant<|message|>4<|end|>"),
    "the role twice": ("assistant", "assistant<|channel|>final<|message|>Four.<|return|>"),
    "a call": ("assistant", '<|channel|>commentary to=functions.x <|constrain|>json<|message|>{"a": 1}<|call|>'),
    "constrain adjacent": ("assistant", "<|channel|>commentary to=functions.x<|constrain|>json<|message|>{}<|call|>"),
    "a recipient before the channel": (
        None,
        "<|start|>assistant to=functions.x<|channel|>commentary<|constrain|>json<|message|>{}<|call|>",
    ),
    "a tool's answer": (None, "<|start|>browser.search to=assistant<|channel|>commentary<|message|>{}<|end|>"),
    "a functions' answer": (None, "<|start|>functions.x to=assistant<|channel|>commentary<|message|>ok<|end|>"),
    "tricky characters": ("assistant", "<|channel|>final<|message|>👩‍👩‍👧 e\u0301 日本語\u202f🦜‑‑ \u2028é<|return|>"),
    "a reserved token": ("assistant", "<|channel|>final<|message|>a<|reserved_200014|>b<|return|>"),
    "an empty body": ("assistant", "<|channel|>final<|message|><|return|>"),
    "no end": ("assistant", "<|channel|>final<|message|>Fou"),
    "nothing": (None, ""),
    "nothing in a header": ("assistant", ""),
    "an unfinished header": ("assistant", "<|channel|>fin"),
    "text behind the end": ("assistant", "<|channel|>final<|message|>Hi<|end|>Ho<|start|>assistant<|message|>x<|end|>"),
    "two stops": ("assistant", "<|channel|>final<|message|>Hi<|end|><|end|><|start|>assistant<|message|>x<|end|>"),
    "an unknown role": (None, "<|start|>narrator<|message|>a<|end|><|start|>user<|message|>x<|end|>"),
    "no role": (None, "<|start|><|message|>a<|end|><|start|>user<|message|>x<|end|>"),
}


@pytest.mark.parametrize(("role", "text"), STREAMS.values(), ids=STREAMS)
def test_a_stream_is_read_as_by_the_reference_at_every_token(theirs: Side, role: str | None, text: str) -> None:
    tokens = tokens_of(text)
    found = trace(OURS, tokens, role)
    assert found == trace(theirs, tokens, role)
    whole, expected = (
        outcome(
            lambda it=it: [
                message.to_dict()
                for message in it.encoding.parse_messages_from_completion_tokens(
                    tokens, None if role is None else it.module.Role(role)
                )
            ]
        )
        for it in (OURS, theirs)
    )
    assert whole == expected
    if whole[0] == "gives":
        assert whole[1] == found[-1]["messages"]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("body", "text"),
    [
        ([187, *tokens_of("Hi")], "\ufffdHi"),
        ([*tokens_of("Hi"), 187], "Hi\ufffd"),
        ([HALF, *tokens_of("Hi")], "\ufffdHi"),
        ([*tokens_of("Hi"), HALF], "Hi\ufffd"),
        ([HALF, HALF, *tokens_of("🦜")], "\ufffd\ufffd🦜"),
        (tokens_of("a👩‍👩‍👧🦜é"), "a👩‍👩‍👧🦜é"),
        ([17, 4_000_000_000, 17], "2\ufffd2"),
    ],
)
def test_the_deltas_joined_are_the_content_whatever_the_bytes(strict: bool, body: list[int], text: str) -> None:
    parser = ours.StreamableParser(ENCODING, ours.Role.ASSISTANT, strict=strict)
    deltas: list[str] = []
    for token in (*tokens_of("<|channel|>final<|message|>"), *body):
        deltas.append(parser.process(token).last_content_delta or "")
        assert "".join(deltas) == parser.current_content
    for finish in (lambda: parser.process(RETURN), parser.process_eos):
        finish()
        assert [message.to_dict()["content"] for message in parser.messages] == [[{"type": "text", "text": text}]]
    # What is still held back when the message ends stands in the message alone.
    assert text.startswith("".join(deltas))


@pytest.mark.parametrize(
    ("header", "content_type"),
    [
        ("<|channel|>final <|constrain|>json", "<|constrain|>json"),
        ("<|channel|>final<|constrain|>json", "<|constrain|>json"),
        ("<|channel|>final json", "json"),
    ],
)
def test_a_content_type_without_a_recipient_is_no_recipient(header: str, content_type: str) -> None:
    # The reference takes it for the recipient.
    tokens = tokens_of(f"{header}<|message|>{{}}<|return|>")
    (message,) = ENCODING.parse_messages_from_completion_tokens(tokens, ours.Role.ASSISTANT)
    assert (message.channel, message.recipient, message.content_type) == ("final", None, content_type)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello there<|end|>", {}),
        ("<|channel|>final Hello there<|end|>", {"channel": "final"}),
        # The reference leaves the address in the text.
        (
            "<|channel|>commentary to=functions.x Hello there<|end|>",
            {"channel": "commentary", "recipient": "functions.x"},
        ),
    ],
)
def test_a_missing_message_token_is_put_back_unless_strict(theirs: Side, text: str, expected: dict[str, str]) -> None:
    tokens = tokens_of(f"{text}<|start|>assistant<|channel|>final<|message|>Bye.<|return|>")
    found = ENCODING.parse_messages_from_completion_tokens(tokens, ours.Role.ASSISTANT, strict=False)
    first = {"role": "assistant", "name": None, "content": [{"type": "text", "text": "Hello there"}], **expected}
    assert (found[0].to_dict(), found[1].content) == (first, [ours.TextContent(text="Bye.")])
    assert [diagnostic.code for diagnostic in found.diagnostics] == [ErrorCode.HEADER_MISSING_MESSAGE]
    assert [message.channel for message in found.parsed] == [message.channel for message in found]
    assert trace(OURS, tokens, "assistant", strict=False)[-1]["messages"] == [message.to_dict() for message in found]
    # Strictly, the stop is part of the header, which then never ends.
    lone = tokens_of(text)
    refusals = [
        outcome(lambda it=it: it.encoding.parse_messages_from_completion_tokens(lone, it.module.Role.ASSISTANT))
        for it in (OURS, theirs)
    ]
    assert refusals[0] == refusals[1]
    assert refusals[0][0] == "HarmonyError"


def test_nothing_raises_when_not_strict() -> None:
    for role, text in STREAMS.values():
        for tokens in (tokens_of(text), [-1, *tokens_of(text)[1:], 2**40, RETURN, RETURN]):
            assert [step["raised"] for step in trace(OURS, tokens, role, strict=False)] == [None] * (len(tokens) + 1)


# ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "role", "code", "token"),
    [
        ("<|channel|>final<|message|>Hi<|end|>Ho", ours.Role.ASSISTANT, ErrorCode.STREAM_TEXT_OUTSIDE, 5),
        ("<|channel|>final<|message|>Hi<|end|><|return|>", ours.Role.ASSISTANT, ErrorCode.STREAM_REPEATED_STOP, 5),
        ("<|start|>narrator<|message|>", None, ErrorCode.HEADER_UNKNOWN_ROLE, None),
        ("<|start|><|message|>", None, ErrorCode.HEADER_EMPTY_ROLE, None),
        ("<|channel|><|message|>", ours.Role.ASSISTANT, ErrorCode.HEADER_EMPTY_CHANNEL, 1),
        ("<|channel|>final", ours.Role.ASSISTANT, ErrorCode.HEADER_UNFINISHED, None),
    ],
)
def test_an_error_is_a_runtime_error_that_knows_its_code_and_place(
    text: str, role: ours.Role | None, code: ErrorCode, token: int | None
) -> None:
    tokens = tokens_of(text)
    with pytest.raises(ours.HarmonyError) as whole:
        ENCODING.parse_messages_from_completion_tokens(tokens, role)
    parser = ours.StreamableParser(ENCODING, role)

    def stream() -> None:
        for each in tokens:
            parser.process(each)
        parser.process_eos()

    with pytest.raises(RuntimeError) as streamed:
        stream()
    for error in (whole.value, streamed.value):
        assert isinstance(error, ours.HarmonyError)
        assert (error.code, str(error)) == (code, str(whole.value))
        assert isinstance(error.at, Position)
        assert token is None or error.at.token == token


def test_an_error_can_be_made_as_the_references() -> None:
    error = ours.HarmonyError("no")
    assert (error.args, str(error), error.code, error.at) == (("no",), "no", None, None)
    with pytest.raises(RuntimeError, match=r"disallowed special token '<\|end\|>'"):
        ours.raise_disallowed_special_token("<|end|>")


# ── what the properties give ────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_parser_gives_can_be_changed_without_changing_the_parser(side: Side) -> None:
    module = side.module
    parser = module.StreamableParser(side.encoding, module.Role.ASSISTANT)
    tokens = tokens_of("<|channel|>final<|message|>Hi<|end|><|start|>assistant<|channel|>final<|message|>Ho")
    for token in tokens:
        assert parser.process(token) is parser
    first, again = parser.messages, parser.messages
    assert first == again
    assert first is not again and first[0] is not again[0]
    first[0].with_channel("changed").content.clear()
    first.clear()
    parser.tokens.clear()
    data = parser.state_data
    data["content_tokens"].clear()
    data["header"]["author"]["role"] = "changed"
    assert parser.messages == again
    assert parser.tokens == tokens
    assert parser.state_data["content_tokens"] == tokens_of("Ho")
    assert parser.state_data["header"]["author"] == {"role": "assistant"}


def test_a_parser_goes_on_after_an_error_and_after_the_end(side: Side) -> None:
    module = side.module
    parser = module.StreamableParser(side.encoding, module.Role.ASSISTANT)
    for token in tokens_of("<|channel|>final<|message|>One"):
        parser.process(token)
    assert parser.process_eos() is parser
    assert parser.process_eos() is parser
    assert (parser.state, parser.current_role) == (module.StreamState.EXPECT_START, None)
    with pytest.raises(module.HarmonyError):
        parser.process(tokens_of("Two")[0])
    with pytest.raises(OverflowError):
        parser.process(-1)
    with pytest.raises(TypeError):
        parser.process("x")
    for token in tokens_of("<|start|>user<|message|>Three<|end|><|start|>assistant"):
        parser.process(token)
    with pytest.raises(module.HarmonyError):
        parser.process_eos()
    for token in tokens_of("<|channel|>final<|message|>Four"):
        parser.process(token)
    parser.process_eos()
    assert [(message.author.role.value, message.content[0].text) for message in parser.messages] == [
        ("assistant", "One"),
        ("user", "Three"),
        ("assistant", "Four"),
    ]
    # A token that was refused is a token that came; what is no token did not.
    everything = "<|channel|>final<|message|>OneTwo<|start|>user<|message|>Three<|end|><|start|>assistant"
    expected = [*tokens_of("<|channel|>final<|message|>One"), *tokens_of("Two")]
    assert parser.tokens[: len(expected)] == expected
    assert side.encoding.decode(parser.tokens) == f"{everything}<|channel|>final<|message|>Four"
