"""Rendering: what is written where, spans, sampled messages, and what is not rendered twice."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given

from harmonia import (
    Author,
    Conversation,
    DeveloperContent,
    ErrorCode,
    InputError,
    Message,
    Renderer,
    Role,
    SystemContent,
    ToolDescription,
    Vocabulary,
    decode,
    encode,
    render,
)
from harmonia.provenance import Sampled
from harmonia.vocabulary import CALL, CHANNEL, CONSTRAIN, END, ID_BY_SPELLING, MESSAGE, RETURN, START
from tests.support.repeated import repeated
from tests.support.strategies.conversations import conversations

CALL_MESSAGE = Message.call("functions.get_weather", '{"location":"SF"}')


class CountingVocabulary(Vocabulary):
    """Counts what is encoded, which is what rendering costs."""

    def __init__(self) -> None:
        super().__init__()
        self.encoded: list[str] = []

    def encode(self, text: str, **options: Any) -> list[int]:
        self.encoded.append(text)
        return super().encode(text, **options)


def long_conversation(length: int) -> Conversation:
    developer = Message.developer("Be brief.", functions=[ToolDescription("f", "Does f.", {"type": "object"})])
    turns = (Message("user" if index % 2 else "assistant", f"message {index}") for index in range(length))
    return Conversation([Message.system(), developer, *turns])


# ── what is written where ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_prompt_ends_with_the_header_of_the_next_message() -> None:
    assert render([Message.user("Hi")]).text == "<|start|>user<|message|>Hi<|end|><|start|>assistant"


def test_a_stored_history_ends_with_its_last_message() -> None:
    assert render([Message.user("Hi")], next_role=None).text == "<|start|>user<|message|>Hi<|end|>"


def test_the_recipient_stands_in_the_role_section_or_in_the_channel_section() -> None:
    in_role = "<|start|>assistant to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>"
    in_channel = "<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
    body = '{"location":"SF"}<|call|>'
    assert render([CALL_MESSAGE], None).text == in_role + body
    assert render([CALL_MESSAGE], None, recipient_section="channel").text == in_channel + body


def test_without_a_channel_the_recipient_stays_in_the_role_section() -> None:
    message = CALL_MESSAGE.replace(channel=None)
    assert render([message], None, recipient_section="channel").tokens == render([message], None).tokens


@pytest.mark.parametrize(
    ("content_type", "written"),
    [
        ("json", " json"),
        ("code", " code"),
        ("<|constrain|>json", " <|constrain|>json"),
        ("<|constrain|> json", " <|constrain|> json"),
    ],
)
def test_content_types_are_written_as_they_are_spelled(content_type: str, written: str) -> None:
    rendered = render([CALL_MESSAGE.replace(content_type=content_type)], None)
    assert f"<|channel|>commentary{written}<|message|>" in rendered.text
    assert (CONSTRAIN in rendered.tokens) == ("constrain" in content_type)


@pytest.mark.parametrize(("stop", "token"), [("call", CALL), ("end", END)])
def test_a_call_ends_as_the_caller_chooses(stop: Any, token: int) -> None:
    assert render([CALL_MESSAGE], None, call_stop=stop).tokens[-1] == token


def test_training_ends_a_last_final_with_return_and_nothing_else() -> None:
    question, answer = Message.user("2 + 2?"), Message.assistant("4")
    assert render([question, answer], training=True).tokens[-1] == RETURN
    assert render([question, answer, question, answer], training=True).tokens.count(RETURN) == 1
    assert render([question, Message.assistant("Hm", channel="analysis")], training=True).tokens[-1] == END
    assert render([question], training=True).tokens[-1] == END
    assert render([question, CALL_MESSAGE], training=True).tokens[-1] == CALL
    assert render([], training=True).tokens == []


def test_a_message_to_everybody_is_no_call() -> None:
    message = Message(Author(Role.ASSISTANT), "x", "commentary", "all")
    assert render([message], None).text == "<|start|>assistant<|channel|>commentary<|message|>x<|end|>"


def test_the_system_message_says_where_calls_go_only_where_functions_are_declared() -> None:
    sentence = "Calls to these tools must go to the commentary channel: 'functions'."
    tool = ToolDescription("f")
    assert sentence in render([Message.system(), Message.developer(functions=[tool])]).text
    assert sentence not in render([Message.system(), Message.developer("No tools.")]).text


def test_an_unnamed_tool_is_refused_with_its_place() -> None:
    with pytest.raises(InputError) as caught:
        render([Message.user("x"), Message("tool", "result")])
    assert caught.value.code is ErrorCode.RENDER_UNNAMED_TOOL
    assert caught.value.at.message == 1


@pytest.mark.parametrize("content", [SystemContent(), DeveloperContent()])
def test_contents_stand_only_in_messages_of_their_role(content: Any) -> None:
    with pytest.raises(InputError) as caught:
        render([Message("user", content)])
    assert caught.value.code is ErrorCode.RENDER_MISPLACED_CONTENT


def test_a_lone_surrogate_is_refused_with_the_message_and_the_character() -> None:
    with pytest.raises(InputError) as caught:
        render([Message.user("fine"), Message.user("ab\ud800c")])
    assert caught.value.code is ErrorCode.VOCABULARY_LONE_SURROGATE
    assert (caught.value.at.message, caught.value.at.character) == (1, 2)


def test_an_unknown_next_role_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        render([], next_role="nobody")
    assert caught.value.code is ErrorCode.RENDER_INVALID_OPTION


@pytest.mark.parametrize("value", [object(), {1: 2}, float("inf"), 1j])
def test_a_schema_that_is_not_json_is_refused(value: Any) -> None:
    tool = ToolDescription("f", "", {"type": "object", "default": value})
    with pytest.raises(InputError) as caught:
        render([Message.developer(functions=[tool])])
    assert caught.value.code is ErrorCode.SCHEMA_INVALID


def test_integers_of_any_size_are_json() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "default": 10**40}}}
    text = render([Message.developer(functions=[ToolDescription("f", "", schema)])]).text
    assert f"default: {10**40}" in text


def test_what_is_remembered_depends_on_nothing_but_its_value() -> None:
    def parameters(required: Any) -> dict[str, Any]:
        return {"type": "object", "properties": {"a": {"type": "string"}}, "required": required}

    def conversation(required: Any) -> list[Message]:
        return [Message.developer(functions=[ToolDescription("f", "", parameters(required))])]

    # A tuple is a list in JSON, whichever of the two was rendered first.
    for forms in ((["a"], ("a",)), (("a",), ["a"])):
        renderer = Renderer()
        assert [("a: string" in renderer.render(conversation(form)).text) for form in forms] == [True, True]


def test_an_error_inside_a_schema_names_its_path_in_the_conversation() -> None:
    tools = [ToolDescription("ok"), ToolDescription("f", "", {"properties": {"a": {"$ref": "#/$defs/none"}}})]
    with pytest.raises(InputError) as caught:
        render([Message.user("x"), Message.developer(functions=tools)])
    assert caught.value.code is ErrorCode.SCHEMA_UNKNOWN_REFERENCE
    assert caught.value.at.message == 1
    path = caught.value.at.path or ""
    assert path.startswith("$.messages[1].content[0].tools.functions.tools[1].parameters.properties.a")


def test_a_value_of_the_wrong_type_is_refused_with_its_path() -> None:
    wrong: Any = 5
    with pytest.raises(InputError) as caught:
        render([Message.system(SystemContent(model_identity=wrong))])
    assert caught.value.code is ErrorCode.MESSAGES_INVALID_VALUE
    assert caught.value.at.path == "$.messages[0].content[0].model_identity"


@pytest.mark.parametrize(
    "message", [Message("user", ("fine", "\ud800")), Message.developer("\ud800"), Message.system("\ud800")]
)
def test_a_lone_surrogate_anywhere_is_called_so(message: Message) -> None:
    with pytest.raises(InputError) as caught:
        render([message])
    assert caught.value.code is ErrorCode.VOCABULARY_LONE_SURROGATE
    assert caught.value.at.message == 0


def test_a_schema_nested_without_end_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100_000):
        schema = {"items": schema}
    with pytest.raises(InputError) as caught:
        render([Message.developer(functions=[ToolDescription("f", "", schema)])])
    assert caught.value.code is ErrorCode.SCHEMA_TOO_DEEP


@pytest.mark.parametrize("options", [{"recipient_section": "body"}, {"call_stop": "return"}, {"call_stop": None}])
def test_an_option_that_means_nothing_is_refused(options: Any) -> None:
    with pytest.raises(InputError) as caught:
        render([Message.user("x")], **options)
    assert caught.value.code is ErrorCode.RENDER_INVALID_OPTION


@pytest.mark.parametrize("conversation", [["x"], [{"role": "user", "content": "x"}], 5])
def test_what_is_no_message_is_refused(conversation: Any) -> None:
    with pytest.raises(InputError) as caught:
        render(conversation)
    assert caught.value.code is ErrorCode.MESSAGES_INVALID_VALUE


def test_a_broken_vocabulary_is_no_messages_fault(tmp_path: Path) -> None:
    (tmp_path / "wrong.tiktoken").write_text("IQ== 0\n")
    with pytest.raises(InputError) as caught:
        Renderer(Vocabulary(tmp_path / "wrong.tiktoken")).render([Message.user("x")])
    assert caught.value.code is ErrorCode.VOCABULARY_WRONG_FILE
    assert caught.value.at.message is None


# ── what schemas lose ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_schema_says_and_the_prompt_does_not_is_reported() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "not": {"const": "x"}}}}
    conversation = [Message.user("x"), Message.developer(functions=[ToolDescription("f", "", schema)])]
    for _ in range(2):  # the second time from memory
        (loss,) = render(conversation).losses
        assert loss.keyword == "not"
        assert loss.path == "$.messages[1].content[0].tools.functions.tools[0].parameters.properties.a"
    assert render(conversation, exact_reference=True).losses == ()
    assert render([Message.user("x")]).losses == ()


# ── spans ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@repeated(given(conversations), some=30, many=150)
def test_spans_cover_the_tokens_without_gap_or_overlap(conversation: Conversation) -> None:
    rendered = render(conversation, next_role=None)
    spans = rendered.spans
    assert [span.message for span in spans] == list(range(len(conversation)))
    assert all(before.end_token == after.start_token for before, after in pairwise(spans))
    assert (spans[-1].end_token if spans else 0) == len(rendered.tokens)
    for span in spans:
        assert rendered.tokens[span.start_token] == START
        assert rendered.tokens[span.body_token - 1] == MESSAGE
        assert rendered.tokens[span.stop_token] in (END, CALL)
        assert span.end_token == span.stop_token + 1


def test_a_span_finds_the_body_of_its_message() -> None:
    rendered = render([Message.user("one"), Message.assistant("two")])
    span = rendered.spans[1]
    assert decode(rendered.tokens[span.body_token : span.stop_token]) == "two"


# ── what was sampled ──────────────────────────────────────────────────────────────────────────────────────────────────


def sampled_message(text: str, message: Message) -> Message:
    tokens = encode(text, special=set(ID_BY_SPELLING))
    return message.with_origin(None, Sampled(tuple(tokens), 2, tokens.index(MESSAGE) + 1))


def test_a_sampled_message_renders_as_it_was_sampled() -> None:
    # The model wrote the recipient behind the channel, no space before <|constrain|>, and cut its words oddly.
    header = "<|start|>assistant<|channel|>commentary to=functions.get_weather<|constrain|>json<|message|>"
    message = sampled_message(header + '{"location":"SF"}<|call|>', CALL_MESSAGE)
    assert render([message], None).text == header + '{"location":"SF"}<|call|>'
    assert render([message], None, exact_reference=True).text != header + '{"location":"SF"}<|call|>'


def test_a_sampled_return_becomes_end_in_history() -> None:
    message = sampled_message("<|start|>assistant<|channel|>final<|message|>4<|return|>", Message.assistant("4"))
    assert render([message], None).tokens[-1] == END
    assert render([message, Message.user("?")]).tokens.count(RETURN) == 0
    assert render([message], training=True).tokens[-1] == RETURN


@pytest.mark.parametrize(
    ("text", "message", "stop"),
    [
        ("<|start|>assistant<|channel|>final<|message|>4", Message.assistant("4"), END),
        (
            "<|start|>assistant<|channel|>commentary to=functions.f<|message|>{}",
            Message.call("functions.f", "{}"),
            CALL,
        ),
    ],
)
def test_a_message_that_was_cut_off_gets_the_stop_it_should_have_had(text: str, message: Message, stop: int) -> None:
    tokens = render([sampled_message(text, message)], None).tokens
    assert tokens == [*encode(text, special="all"), stop]


def test_an_edited_message_renders_canonically() -> None:
    message = sampled_message("<|start|>assistant<|channel|>final<|message|>4<|return|>", Message.assistant("4"))
    assert message.sampled is not None
    edited = message.replace(content="5")
    assert edited.sampled is None
    assert render([edited], None).text == "<|start|>assistant<|channel|>final<|message|>5<|end|>"


def test_sampled_tokens_are_no_part_of_the_value_or_its_json() -> None:
    plain = Message.assistant("4")
    message = sampled_message("<|start|>assistant<|channel|>final<|message|>4<|return|>", plain)
    assert message == plain
    assert message.to_json() == plain.to_json()
    assert Message.from_json(message.to_json()).sampled is None


# ── what is not rendered twice ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("length", [10, 100])
def test_appending_a_message_costs_that_message(length: int) -> None:
    vocabulary = CountingVocabulary()
    renderer = Renderer(vocabulary)
    conversation = long_conversation(length)
    renderer.render(conversation)
    vocabulary.encoded.clear()
    longer = conversation.add(Message.user("one more"))
    assert renderer.render(longer).tokens == Renderer().render(longer).tokens
    assert vocabulary.encoded == ["one more"]


def test_a_conversation_read_again_from_json_is_not_rendered_again() -> None:
    vocabulary = CountingVocabulary()
    renderer = Renderer(vocabulary)
    renderer.render(long_conversation(20))
    vocabulary.encoded.clear()
    renderer.render(Conversation.from_json(long_conversation(20).to_json()))
    assert vocabulary.encoded == []


def test_a_changed_earlier_message_is_noticed() -> None:
    vocabulary = CountingVocabulary()
    renderer = Renderer(vocabulary)
    conversation = long_conversation(20)
    renderer.render(conversation)
    vocabulary.encoded.clear()
    changed = Conversation(
        message.replace(content="changed") if index == 7 else message for index, message in enumerate(conversation)
    )
    assert renderer.render(changed).tokens == Renderer().render(changed).tokens
    assert vocabulary.encoded == ["changed"]


def test_a_schema_changed_in_place_is_noticed() -> None:
    parameters: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
    conversation = Conversation([Message.developer(functions=[ToolDescription("f", "", parameters)])])
    renderer = Renderer()
    before = renderer.render(conversation).tokens
    parameters["properties"]["a"]["type"] = "number"
    after = renderer.render(conversation).tokens
    assert after != before
    assert after == Renderer().render(conversation).tokens


def test_functions_declared_later_change_the_system_message() -> None:
    renderer = Renderer()
    conversation = Conversation([Message.system(), Message.user("x")])
    renderer.render(conversation)
    with_tools = conversation.add(Message.developer(functions=[ToolDescription("f")]))
    assert renderer.render(with_tools).tokens == Renderer().render(with_tools).tokens


def test_forms_do_not_share_what_is_remembered() -> None:
    renderer = Renderer()
    forms: list[dict[str, Any]] = [
        {},
        {"recipient_section": "channel"},
        {"call_stop": "end"},
        {"exact_reference": True},
        {},
    ]
    message = CALL_MESSAGE.replace(recipient="functions.x")
    rendered = [renderer.render([message], None, **form).tokens for form in forms]
    assert rendered == [Renderer().render([message], None, **form).tokens for form in forms]


def test_memory_for_rendered_messages_is_bounded() -> None:
    renderer = Renderer(cache_bytes=200_000)
    for index in range(2000):
        renderer.render([Message.user(f"message {index} " + "x " * 50)])
    assert 0 < len(renderer._memory) < 200  # pyright: ignore[reportPrivateUsage] -- the bound is about this


def test_what_is_in_use_stays_remembered() -> None:
    vocabulary = CountingVocabulary()
    renderer = Renderer(vocabulary, cache_bytes=200_000)
    for index in range(2000):
        renderer.render([Message.user("used all the time"), Message.user(f"message {index} " + "x " * 50)])
    assert vocabulary.encoded.count("used all the time") == 1


def test_a_message_larger_than_the_cache_is_rendered_all_the_same() -> None:
    renderer = Renderer(cache_bytes=1000)
    text = "word " * 1000
    assert renderer.render([Message.user(text)]).text == render([Message.user(text)]).text


def test_threads_may_share_a_renderer() -> None:
    renderer = Renderer(cache_bytes=20_000)
    expected = {index: Renderer().render(long_conversation(index)).tokens for index in range(1, 30)}
    wrong: list[int] = []

    def work() -> None:
        for index, tokens in expected.items():
            if renderer.render(long_conversation(index)).tokens != tokens:
                wrong.append(index)

    threads = [Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_changing_the_returned_tokens_does_not_change_the_next_rendering() -> None:
    renderer = Renderer()
    first = renderer.render([Message.user("x")])
    first.tokens.clear()
    assert renderer.render([Message.user("x")]).tokens == [
        START,
        *encode("user"),
        MESSAGE,
        *encode("x"),
        END,
        START,
        *encode("assistant"),
    ]
    assert CHANNEL not in renderer.render([Message.user("x")]).tokens
