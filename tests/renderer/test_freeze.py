"""Frozen messages: the same tokens, packed once."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from harmonia import Conversation, DeveloperContent, Message, Renderer, ToolDescription, render
from harmonia.renderer import freeze
from harmonia.renderer import renderer as packing


def tools(count: int) -> list[ToolDescription]:
    properties = {f"field_{index}": {"type": "string", "description": "A value."} for index in range(20)}
    return [
        ToolDescription(f"tool_{index}", "Does a thing.", {"type": "object", "properties": {**properties}})
        for index in range(count)
    ]


def head(count: int = 3) -> list[Message]:
    return [Message.system(), Message.developer("Be brief.", functions=tools(count))]


def test_a_frozen_message_renders_as_before() -> None:
    messages = [*head(), Message.user("Hi")]
    frozen = [freeze(message) for message in messages]
    assert frozen == messages
    assert render(frozen).tokens == render(messages).tokens
    assert Renderer().render(frozen, exact_reference=True).tokens == render(messages, exact_reference=True).tokens


def test_it_renders_with_and_without_functions_elsewhere() -> None:
    system = freeze(Message.system())
    assert render([system, head()[1]]).tokens == render(head()).tokens
    assert render([system]).tokens == render([Message.system()]).tokens


def test_a_change_of_the_original_is_nothing_to_a_frozen_copy() -> None:
    message = head()[1]
    frozen = freeze(message)
    before = render([frozen]).tokens
    content = message.content
    assert isinstance(content, DeveloperContent) and content.tools is not None
    schema: Any = content.tools["functions"].tools[0].parameters
    schema["properties"]["new"] = {"type": "integer"}
    assert render([frozen]).tokens == before
    assert render([message]).tokens != before, "the original is looked at again"


def test_a_frozen_message_is_packed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = freeze(head(100)[1])
    conversation = Conversation([frozen])
    renderer = Renderer()
    renderer.render(conversation)
    packed: list[object] = []
    pack = packing.pack

    def counted(contents: object) -> bytes:
        packed.append(contents)
        return pack(contents)

    monkeypatch.setattr(packing, "pack", counted)
    for index in range(5):
        conversation = conversation.add(Message.user(str(index)))
        renderer.render(conversation)
    assert not packed
    renderer.render([head(1)[1]])
    assert len(packed) == 1, "one that is not frozen is packed"


def test_freezing_twice_changes_nothing() -> None:
    frozen = freeze(head()[1])
    assert freeze(frozen) is frozen
    text = Message.user("Hi")
    assert freeze(text) is text


def test_an_edited_copy_is_looked_at_again() -> None:
    frozen = freeze(Message.developer("Be brief."))
    content = frozen.content
    assert isinstance(content, DeveloperContent)
    edited = frozen.replace(content=content.replace(instructions="Be long."))
    assert render([edited]).tokens == render([Message.developer("Be long.")]).tokens


def test_what_is_gone_leaves_nothing_behind() -> None:
    gc.collect()
    before = len(packing._FROZEN)  # pyright: ignore[reportPrivateUsage] -- there is no other way to see it
    frozen = [freeze(Message.developer(f"Be {index}.")) for index in range(50)]
    assert len(packing._FROZEN) == before + 50  # pyright: ignore[reportPrivateUsage]
    del frozen
    gc.collect()
    assert len(packing._FROZEN) == before  # pyright: ignore[reportPrivateUsage]
