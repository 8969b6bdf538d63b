"""Our tokens against openai-harmony's, on generated conversations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings

from harmonia import Conversation, Message, Role, SystemContent, render
from tests.support.oracle_cases import compared
from tests.support.strategies.conversations import conversations, reference_json

if TYPE_CHECKING:
    from openai_harmony import HarmonyEncoding

CASES = 60
MANY_CASES = 5000


class Reference:
    """The reference's renderer below its pydantic layer, which would fill in defaults of its own."""

    def __init__(self, encoding: HarmonyEncoding) -> None:
        self._inner: Any = encoding._inner  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType] -- see above

    def completion(self, conversation: Conversation, role: Role = Role.ASSISTANT) -> list[int]:
        return self._inner.render_conversation_for_completion(
            conversation_json=json.dumps(reference_json(conversation)),
            next_turn_role=role.value,
            config={"auto_drop_analysis": False},
        )

    def history(self, conversation: Conversation) -> list[int]:
        return self._inner.render_conversation(
            conversation_json=json.dumps(reference_json(conversation)), config={"auto_drop_analysis": False}
        )

    def training(self, conversation: Conversation) -> list[int]:
        return self._inner.render_conversation_for_training(
            conversation_json=json.dumps(reference_json(conversation)), config={"auto_drop_analysis": False}
        )


@pytest.fixture(scope="session")
def reference(reference_encoding: HarmonyEncoding) -> Reference:
    return Reference(reference_encoding)


def compare_in_exact_mode(reference: Reference, conversation: Conversation) -> None:
    assert render(conversation, exact_reference=True).tokens == reference.completion(conversation)
    assert render(conversation, next_role=None, exact_reference=True).tokens == reference.history(conversation)
    assert render(conversation, training=True, exact_reference=True).tokens == reference.training(conversation)
    compared("conversations in exact mode, each for completion, history and training", 3)


def compare_in_default_mode(reference: Reference, conversation: Conversation) -> None:
    # In the description of a tool, these end a line for us and not for the reference, which splits at \n only.
    assume(
        not any(
            line_end in conversation.to_json() for line_end in ("\\r", "\\u000b", "\\f", "\x85", "\u2028", "\u2029")
        )
    )
    # The reference ends a message to `all` like a tool call, though it writes no recipient.
    plain = Conversation(
        message.replace(recipient=None) if message.recipient == "all" else message for message in conversation
    )
    assert render(conversation).tokens == reference.completion(plain)
    compared("conversations in default mode")


@settings(max_examples=CASES)
@given(conversations)
def test_exact_mode_gives_the_references_tokens(reference: Reference, conversation: Conversation) -> None:
    compare_in_exact_mode(reference, conversation)


@settings(max_examples=CASES)
@given(conversations)
def test_default_mode_gives_the_references_tokens_where_it_loses_nothing(
    reference: Reference, conversation: Conversation
) -> None:
    compare_in_default_mode(reference, conversation)


@pytest.mark.exhaustive
@settings(max_examples=MANY_CASES)
@given(conversations)
def test_exact_mode_gives_the_references_tokens_many_times(reference: Reference, conversation: Conversation) -> None:
    compare_in_exact_mode(reference, conversation)


@pytest.mark.exhaustive
@settings(max_examples=MANY_CASES)
@given(conversations)
def test_default_mode_gives_the_references_tokens_many_times(reference: Reference, conversation: Conversation) -> None:
    compare_in_default_mode(reference, conversation)


@pytest.mark.parametrize("role", list(Role))
def test_any_role_can_be_asked_for_next(reference: Reference, role: Role) -> None:
    conversation = Conversation([Message.system(SystemContent()), Message.user("Hi")])
    assert render(conversation, role).tokens == reference.completion(conversation, role)


def test_the_builtin_namespaces_are_the_references(reference_encoding: HarmonyEncoding) -> None:
    from harmonia import BROWSER, PYTHON
    from openai_harmony import ToolNamespaceConfig

    for ours, theirs in ((BROWSER, ToolNamespaceConfig.browser()), (PYTHON, ToolNamespaceConfig.python())):
        dumped = theirs.model_dump()
        assert (ours.name, ours.description) == (dumped["name"], dumped["description"])
        assert [(tool.name, tool.description, tool.parameters) for tool in ours.tools] == [
            (tool["name"], tool["description"], tool["parameters"]) for tool in dumped["tools"]
        ]
