"""The laws of every format: what is kept, what is said to be lost, and what never becomes structure."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, assume, example, given
from hypothesis import strategies as st

import tests.support.strategies.conversations as wild
from harmonia import Conversation, DeveloperContent, InputError, Message, parse, render
from harmonia.interchange import (
    FORMATS,
    ConversationFormat,
    Exported,
    from_chat_messages,
    read_responses,
    recognise,
)
from harmonia.interchange.chat_completions import to_chat_messages
from harmonia.interchange.responses import to_responses_items
from harmonia.vocabulary import FIRST_SPECIAL
from tests.interchange.interchange_strategies import kept_conversations
from tests.support.repeated import repeated

every_format = pytest.mark.parametrize("format_", FORMATS.values(), ids=FORMATS)
apis = pytest.mark.parametrize("name", ["chat", "responses"])
# These carry Harmony's own structure, and refuse what it has no way to say.
RENDERED = ("harmony", "tokens")


def write(format_: ConversationFormat, conversation: Conversation) -> Exported:
    try:
        return format_.write(conversation)
    except InputError:
        # A header that cannot be written, a text that spells a special token, a schema that is none.
        assume(format_.name not in RENDERED)
        raise


def is_within(some: Iterable[Message], all_: Iterable[Message]) -> bool:
    """Whether these messages stand among the others in the same order."""
    rest = iter(all_)
    return all(any(message == other for other in rest) for message in some)


@repeated(given(conversation=wild.conversations), some=10, many=40)
@every_format
def test_what_no_loss_names_comes_back_in_its_order(format_: ConversationFormat, conversation: Conversation) -> None:
    written = write(format_, conversation)
    back = format_.read(written.value).conversation
    lost = {loss.message for loss in written.losses}
    kept = [message for index, message in enumerate(conversation) if index not in lost]
    assert is_within(kept, back)
    if not written.losses:
        assert back == conversation


@repeated(given(conversation=kept_conversations() | wild.conversations), some=6, many=20)
@every_format
def test_the_text_says_what_the_value_says(format_: ConversationFormat, conversation: Conversation) -> None:
    written = write(format_, conversation)
    assert format_.read(written.text).conversation == format_.read(written.value).conversation


@repeated(given(conversation=wild.conversations), some=10, many=40)
@example(conversation=Conversation([Message("developer", DeveloperContent(""), "a.0")]))
@every_format
def test_a_second_trip_loses_nothing_more(format_: ConversationFormat, conversation: Conversation) -> None:
    once = format_.read(write(format_, conversation).value).conversation
    assert format_.read(write(format_, once).value).conversation == once


@repeated(given(conversation=kept_conversations()), some=25, many=100)
@apis
def test_the_apis_keep_turns_tools_and_effort_without_a_loss(name: str, conversation: Conversation) -> None:
    written = FORMATS[name].write(conversation)
    read = FORMATS[name].read(written.value)
    assert (written.losses, read.losses) == ((), ())
    assert read.conversation == conversation


@repeated(given(conversation=wild.conversations), some=25, many=100)
@pytest.mark.parametrize("name", ["harmony-json", "markdown"])
def test_json_and_markdown_keep_everything(name: str, conversation: Conversation) -> None:
    written = FORMATS[name].write(conversation)
    assert written.losses == ()
    assert FORMATS[name].read(written.text).conversation == conversation


@repeated(given(conversation=wild.conversations), some=25, many=100)
def test_the_list_of_messages_says_of_what_it_is_not_the_whole(conversation: Conversation) -> None:
    for written, back in (
        (chat := to_chat_messages(conversation), from_chat_messages(chat.value).conversation),
        (items := to_responses_items(conversation), read_responses(items.value).conversation),
    ):
        lost = {loss.message for loss in written.losses}
        assert is_within((message for index, message in enumerate(conversation) if index not in lost), back)


def specials(conversation: Conversation) -> list[int]:
    tokens = render(conversation, next_role=None).tokens
    return [token for token in tokens if token >= FIRST_SPECIAL]


@repeated(given(conversation=kept_conversations()), some=8, many=25)
@pytest.mark.parametrize("name", ["harmony-json", "chat", "responses", "markdown"])
def test_typed_spellings_never_become_structure(name: str, conversation: Conversation) -> None:
    back = FORMATS[name].read(FORMATS[name].write(conversation).text).conversation
    assert specials(back) == specials(conversation)


@given(
    st.lists(
        st.tuples(st.sampled_from(["system", "developer", "user", "assistant"]), wild.texts.filter(bool)),
        min_size=1,
        max_size=4,
    )
)
def test_typed_spellings_in_an_imported_document_are_text(said: list[tuple[str, str]]) -> None:
    document = [{"role": role, "content": text} for role, text in said]
    plain = [{"role": role, "content": "x"} for role, _ in said]
    for read in (from_chat_messages, read_responses):
        assert specials(read(document).conversation) == specials(read(plain).conversation)


# Many conversations spell a special token, which the formats in RENDERED refuse.
@repeated(
    given(conversation=kept_conversations()), some=8, many=25, suppress_health_check=[HealthCheck.filter_too_much]
)
@every_format
def test_nothing_that_is_read_was_sampled(format_: ConversationFormat, conversation: Conversation) -> None:
    parsed = Conversation(parse(render(conversation, next_role=None).tokens))
    written = write(format_, parsed)
    assert bool(len(parsed)) == any(loss.what == "sampled" for loss in written.losses)
    read = format_.read(written.value).conversation
    assert all(message.sampled is None for message in read)


@repeated(given(conversation=kept_conversations().filter(len)), some=8, many=25)
@pytest.mark.parametrize("name", ["responses", "markdown", "harmony", "tokens"])
def test_what_is_written_is_recognised(name: str, conversation: Conversation) -> None:
    assert recognise(write(FORMATS[name], conversation).text) == name
