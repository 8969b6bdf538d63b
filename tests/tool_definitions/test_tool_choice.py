"""One reader for tool choices: words, names, objects of both APIs."""

from __future__ import annotations

from typing import Any

import pytest

from harmonia import ErrorCode, InputError
from harmonia.serve.wire.validation import read_struct
from harmonia.tool_definitions import (
    CHAT_CHOICE,
    LEGACY_CHOICE,
    RESPONSES_CHOICE,
    Choice,
    FlatTool,
    NamedTool,
    Spelling,
    read_tool_choice,
)

NESTED: Any = {"type": "function", "function": {"name": "f"}}
NONE_ALLOWED: Any = {"type": "allowed_tools", "tools": [], "mode": "required"}
FLAT: Any = {"type": "function", "name": "f"}


@pytest.mark.parametrize("word", ["auto", "none", "required"])
@pytest.mark.parametrize("spelling", [None, CHAT_CHOICE, RESPONSES_CHOICE])
def test_words_are_modes(word: Any, spelling: Spelling | None) -> None:
    assert read_tool_choice(word, spelling=spelling, check=read_struct) == Choice(word)
    assert read_tool_choice(None, spelling=spelling) == Choice("auto")


@pytest.mark.parametrize(
    ("given", "spelling", "named"),
    [
        ("f", None, NamedTool("f")),
        (NESTED, None, NamedTool("f", "function", path="$.function.name")),
        (NESTED, CHAT_CHOICE, NamedTool("f", "function", path="$.function.name")),
        (FLAT, None, NamedTool("f", "function")),
        ({**FLAT, "namespace": "n"}, RESPONSES_CHOICE, NamedTool("f", "function", "n")),
        ({"name": "f"}, LEGACY_CHOICE, NamedTool("f", "function", path="$.name")),
        ({"type": "mcp", "server_label": "s"}, RESPONSES_CHOICE, NamedTool(None, "mcp", server="s")),
        ({"type": "shell"}, {"shell": FlatTool}, NamedTool(None, "shell")),
    ],
)
def test_one_tool_is_named(given: Any, spelling: Spelling | None, named: NamedTool) -> None:
    assert read_tool_choice(given, spelling=spelling, check=read_struct) == Choice("one", (named,))


@pytest.mark.parametrize(
    ("given", "spelling", "path"),
    [
        (
            {"type": "allowed_tools", "allowed_tools": {"tools": [NESTED]}},
            CHAT_CHOICE,
            "$.allowed_tools.tools[0].function.name",
        ),
        ({"type": "allowed_tools", "tools": [FLAT]}, RESPONSES_CHOICE, "$.tools[0]"),
        ({"type": "allowed_tools", "tools": ["f"]}, None, "$.tools[0]"),
    ],
)
def test_some_tools_are_allowed(given: Any, spelling: Spelling | None, path: str) -> None:
    choice = read_tool_choice(given, spelling=spelling, check=read_struct)
    assert (choice.mode, [(each.name, each.path) for each in choice.tools or ()]) == ("auto", [("f", path)])


@pytest.mark.parametrize(
    ("given", "spelling", "code", "path"),
    [
        (5, None, ErrorCode.RUN_INVALID_OPTION, "$"),
        ("some", CHAT_CHOICE, ErrorCode.RUN_INVALID_OPTION, "$"),
        ({"type": "web"}, None, ErrorCode.RUN_INVALID_OPTION, "$.type"),
        ({"type": "web"}, RESPONSES_CHOICE, ErrorCode.SERVE_UNSUPPORTED, "$.type"),
        ({"type": ["function"]}, RESPONSES_CHOICE, ErrorCode.SERVE_UNSUPPORTED, "$.type"),
        ({"type": "function"}, RESPONSES_CHOICE, ErrorCode.RUN_INVALID_OPTION, "$.name"),
        (FLAT, CHAT_CHOICE, ErrorCode.SERVE_UNKNOWN_FIELD, "$.name"),
        ({**FLAT, "x": 1}, RESPONSES_CHOICE, ErrorCode.SERVE_UNKNOWN_FIELD, "$.x"),
        ({"type": "allowed_tools", "tools": [5]}, RESPONSES_CHOICE, ErrorCode.SERVE_INVALID_FIELD, "$.tools[0]"),
        (NONE_ALLOWED, None, ErrorCode.RUN_INVALID_OPTION, "$"),
        (
            {"type": "allowed_tools", "tools": [{"type": "allowed_tools"}]},
            RESPONSES_CHOICE,
            ErrorCode.SERVE_UNSUPPORTED,
            "$.tools[0].type",
        ),
    ],
)
def test_what_names_no_tool_is_refused(given: Any, spelling: Spelling | None, code: ErrorCode, path: str) -> None:
    unknown = None if spelling is None else ErrorCode.SERVE_UNSUPPORTED
    with pytest.raises(InputError) as caught:
        read_tool_choice(given, unknown_type=unknown, spelling=spelling, check=read_struct)
    assert (caught.value.code, caught.value.at.path) == (code, path)
