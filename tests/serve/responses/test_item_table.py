"""The table of item types: what follows from a row."""

from __future__ import annotations

import pytest

from harmonia.messages import Message
from harmonia.parts import call_of
from harmonia.run.tools import Tool
from harmonia.serve.responses.items.base import CallOutput, ClientCall, SealedItem
from harmonia.serve.responses.items.table import BUILT_IN, BY_TYPE, CALLS, ITEMS, item_type, read_item

# What a model may write for each tool that the API defines.
ARGUMENTS = {
    "shell": '{"commands": ["ls"], "timeout_ms": 5}',
    "local_shell": '{"command": ["ls"], "env": {}}',
    "apply_patch": '{"type": "create_file", "path": "a", "diff": "+x"}',
}
CLIENT_CALLS = [each for each in ITEMS if issubclass(each, ClientCall)]


def test_every_type_is_read_under_its_name_in_both_dialects() -> None:
    assert len(BY_TYPE) == len(ITEMS)
    for name, kind in BY_TYPE.items():
        assert item_type({"type": name}) is kind
        assert item_type({"type": f"harmonia:{name}"}) is kind
    assert item_type({"role": "user"}) is BY_TYPE["message"]
    assert item_type({"type": "web_search_call"}) is None


def test_items_that_the_server_writes_have_prefixes_of_their_own() -> None:
    prefixes = [each.id_prefix for each in ITEMS if each.id_prefix]
    assert len(set(prefixes)) == len(prefixes)
    assert all(each.id_prefix for each in ITEMS if issubclass(each, SealedItem))


@pytest.mark.parametrize("kind", CLIENT_CALLS, ids=lambda each: each.type_name())
def test_a_call_that_the_client_runs_has_a_type_for_its_result(kind: type[ClientCall]) -> None:
    assert issubclass(BY_TYPE[f"{kind.type_name()}_output"], CallOutput)


@pytest.mark.parametrize("kind", CLIENT_CALLS, ids=lambda each: each.type_name())
def test_what_is_written_of_a_call_reads_back_as_the_same_call(kind: type[ClientCall]) -> None:
    tool = kind.declaration or Tool("look_up", "Looks up.", None)
    text = ARGUMENTS.get(kind.tool_type, '{"q": "x"}' if kind.tool_type == "function" else "plain text")
    call = call_of(Message.call(f"functions.{tool.name}", text))
    assert call is not None
    item = {"type": kind.type_name(), "id": "x", "status": "completed", **kind.begin(tool), **kind.written(call)}
    read = read_item(item, "$")
    assert isinstance(read, kind)
    called = read.called()
    again = call_of(Message.call(f"functions.{called.name}", called.text))
    assert again is not None
    assert (again.name, again.value) == (call.name, call.value)
    other = read_item({**item, "call_id": "other"}, "$")
    assert isinstance(other, kind)
    assert read.binding() != other.binding()


def test_tools_that_the_api_defines_come_from_the_table() -> None:
    assert BUILT_IN.keys() == ARGUMENTS.keys()
    assert all(each.declaration is not None and each.type_name() in CALLS for each in BUILT_IN.values())
