"""The prompt builder: what every family is told, and what Harmony must not be told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia import Conversation, Message, Role, render
from harmonia.errors import ErrorCode, InputError
from harmonia.families.profiles import all_profiles, resolve_profile
from harmonia.families.prompt_builder import (
    DEFAULT_PROMPT,
    GROUNDING,
    OPENING,
    PromptOptions,
    build_prompt,
    describe_tool,
    tool_system_prompt,
)
from harmonia.families.registry import ToolFormat, family_of, variant_of
from harmonia.families.tool_descriptions import ToolLike, described_tools
from harmonia.messages import DeveloperContent, ToolDescription, ToolNamespace
from harmonia.messages.builtin_tools import BROWSER, PYTHON

OTHERS = [tool_format for tool_format in ToolFormat if tool_format is not ToolFormat.HARMONY]
# The formats, and their variants in the package's profiles.
PROFILES = [profile for profile in all_profiles() if profile.format is not ToolFormat.HARMONY]
FAMILIES = [
    *(family_of(tool_format) for tool_format in OTHERS),
    *(variant_of(family_of(profile.format), profile.template) for profile in PROFILES),
]
CODE_MODE = PromptOptions(code_mode=True)

SQL = ToolDescription(
    "sql_select",
    "Runs a SELECT statement.",
    {
        "type": "object",
        "properties": {
            "sql": {"type": "string", "description": "The statement,\n  one line."},
            "limit": {"type": "integer", "default": 100},
            "tags": {"type": "array", "items": {"type": "string"}},
            "where": {
                "type": "object",
                "properties": {"table": {"enum": ["a", "b"], "description": "Which one."}},
                "required": ["table"],
            },
        },
        "required": ["sql"],
    },
)

# What families write, and their templates say, to call a tool; Harmony's own too, which the model needs nobody to tell.
CALL_MARKS = [
    "Tool Calling Format", "<tool_call", "</tool_call", "[TOOL_CALLS]", "[ARGS]", "<function_call", "<|tool_call|>",
    "<|python_tag|>", "tool_code", "<start_function_call>", "<end_function_call>", "<escape>", "functionCall",
    "tool_calls", "<function=", "<parameter=", "Action:", "Action Input", "Thought:", "Observation:", "Final Answer",
    '"arguments"', '"parameters"', '"name"', "<tools>", "<|channel|>", "<|message|>", "<|call|>", "<|constrain|>",
    "to=functions", "commentary", "<|tool_call>", "call:",
]  # fmt: skip


def prompt_of(tool_format: ToolFormat, tools: list[ToolLike], options: PromptOptions = DEFAULT_PROMPT) -> str:
    return tool_system_prompt(tool_format, tools, options)


# ── what Harmony is not told ────────────────────────────────────────────────────────────────────────────────────────

WORDS = st.text(alphabet="abcdefgh XYZ.,", max_size=30)
NAMES = st.text(alphabet="abcdefgh_", min_size=1, max_size=12)
TYPES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([{"type": kind} for kind in ("string", "integer", "number", "boolean", "null")])
    | st.fixed_dictionaries({"enum": st.lists(NAMES, min_size=1, max_size=3)}),
    lambda inner: (
        st.fixed_dictionaries({"type": st.just("array"), "items": inner})
        | st.fixed_dictionaries({"properties": st.dictionaries(NAMES, inner, max_size=3), "description": WORDS})
    ),
    max_leaves=5,
)
PARAMETERS: st.SearchStrategy[Any] = st.none() | st.fixed_dictionaries(
    {"properties": st.dictionaries(NAMES, TYPES, max_size=4), "required": st.lists(NAMES, max_size=2)}
)
TOOL_SETS = st.lists(
    st.builds(ToolDescription, NAMES, st.none() | WORDS, PARAMETERS), max_size=5, unique_by=lambda tool: tool.name
)


@given(TOOL_SETS, st.booleans(), st.booleans())
def test_harmony_is_told_of_no_call_format(tools: list[ToolDescription], code_mode: bool, grounding: bool) -> None:
    options = PromptOptions(code_mode=code_mode, grounding=grounding)
    prompt = prompt_of(ToolFormat.HARMONY, [*tools], options)
    lines = set(prompt.splitlines())
    assert not [mark for mark in CALL_MARKS if mark.lower() in prompt.lower()]
    for family in FAMILIES:
        # Not one line of what another family is told beyond the common part.
        told = family.call_format(tools)
        assert not [line for line in told.splitlines() if len(line.strip()) > 3 and line in lines]


@pytest.mark.parametrize("code_mode", [False, True])
@pytest.mark.parametrize("tool_format", OTHERS)
def test_all_others_are_told_of_theirs(tool_format: ToolFormat, code_mode: bool) -> None:
    options = PromptOptions(code_mode=code_mode)
    prompt = prompt_of(tool_format, [SQL], options)
    common = prompt_of(ToolFormat.HARMONY, [SQL], options)
    described = described_tools([SQL])
    told = prompt.removeprefix(f"{common}\n\n## Tool Calling Format\n\n")
    assert told != prompt, "the rest is the same as Harmony's"
    assert [mark for mark in CALL_MARKS[1:] if mark in told], "its marks are in the list that Harmony is held to"
    assert ("sql_select" in told or "tool_name" in told or "name" in told) if not code_mode else "python" in prompt
    if not code_mode:
        assert told == family_of(tool_format).call_format(described)


@pytest.mark.parametrize(
    ("model", "mark"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", '"parameters"'),
        ("mistralai/Mistral-Small-3.2-24B-Instruct-2506", "[TOOL_CALLS]"),
        ("google/functiongemma-270m-it", "<start_function_call>"),
        ("google/gemma-3-27b-it", "```tool_code"),
        ("ibm-granite/granite-3.3-8b-instruct", "<|tool_call|>"),
        ("ibm-granite/granite-4.0-h-tiny", "<tool_call>"),
        ("qwen3:8b", "<tool_call>"),
        ("somebody/unknown", "Action Input:"),
    ],
)
def test_a_model_is_told_to_write_as_it_was_trained_to(model: str, mark: str) -> None:
    profile = resolve_profile(model)
    prompt = tool_system_prompt(profile, [SQL])
    assert mark in prompt
    assert prompt.endswith(variant_of(family_of(profile.format), profile.template).call_format((SQL,)))


def test_the_seeds_test_of_the_system_prompt() -> None:
    built = build_prompt(resolve_profile("gpt-oss-20b"), [], [ToolDescription("sql_select")])
    content = built.messages[0].content
    assert isinstance(content, DeveloperContent)
    prompt = content.instructions or ""
    assert not any(mark in prompt for mark in ("<tool_call>", "[TOOL_CALLS]", "<function_call>"))
    assert "sql_select" in prompt
    assert "## Available Tools" in prompt


# ── what everybody is told ──────────────────────────────────────────────────────────────────────────────────────────


def test_the_prompt_has_its_parts_in_order() -> None:
    assert (
        prompt_of(ToolFormat.HARMONY, [SQL, ToolDescription("now", "The time.")])
        == f"""\
{OPENING}

## Factual Grounding

{GROUNDING}

## Available Tools

### sql_select

Runs a SELECT statement.

Parameters:
- `sql` (string, required): The statement, one line.
- `limit` (integer, optional, default 100)
- `tags` (array<string>, optional)
- `where` (object, optional)
  - `table` ("a" or "b", required): Which one.

### now

The time.

Parameters: none"""
    )


def test_grounding_and_opening_words_are_the_applications_choice() -> None:
    prompt = prompt_of(ToolFormat.HARMONY, [SQL], PromptOptions("You are a clerk.", grounding=False))
    assert prompt.startswith("You are a clerk.\n\n## Available Tools")
    assert prompt_of(ToolFormat.HERMES, [SQL], PromptOptions("")).startswith("## Factual Grounding")


@pytest.mark.parametrize("tool_format", ToolFormat)
def test_without_tools_only_the_opening_is_left(tool_format: ToolFormat) -> None:
    assert prompt_of(tool_format, []) == prompt_of(tool_format, [], CODE_MODE) == OPENING


@pytest.mark.parametrize(
    ("schema", "line"),
    [
        ({"type": "string"}, "Argument: string"),
        ({"type": "object", "additionalProperties": True}, "- any other name (any, optional)"),
        ({"properties": {"a": {"type": ["integer", "null"]}}}, "- `a` (integer or null, optional)"),
        (
            {"properties": {"a": {"$ref": "#/$defs/A", "description": "An A."}}, "$defs": {"A": {"type": "number"}}},
            "- `a` (number, optional): An A.",
        ),
        (
            {"properties": {"a": {"type": "array", "items": {"properties": {"b": {"const": 1}}}}}},
            "- `a` (array<object>, optional)\n  - `b` (1, optional)",
        ),
    ],
)
def test_parameters_are_said_in_words(schema: dict[str, Any], line: str) -> None:
    assert line in describe_tool(ToolDescription("f", None, schema))


def test_namespaces_and_definitions_are_tools_too() -> None:
    tools: list[ToolLike] = [
        ToolNamespace("functions", None, (ToolDescription("plain"),)),
        BROWSER,
        PYTHON,
        {"type": "function", "function": {"name": "nested", "description": "Nested."}},
        {"type": "function", "name": "flat", "parameters": {"type": "object"}},
        {"name": "served", "inputSchema": {"type": "object"}},
        {"type": "namespace", "name": "crm", "tools": [{"type": "function", "name": "list"}]},
    ]
    browser = [f"browser.{tool.name}" for tool in BROWSER.tools]
    names = ["plain", *browser, "python", "nested", "flat", "served", "crm.list"]
    assert [tool.name for tool in described_tools(tools)] == names


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(InputError) as raised:
        described_tools([SQL, SQL])
    assert raised.value.code is ErrorCode.FORMATS_INVALID_OPTION


@pytest.mark.parametrize(
    ("given", "code", "path"),
    [
        ({"type": "web_search"}, ErrorCode.FORMATS_INVALID_OPTION, "$[1]"),
        ({"type": "function"}, ErrorCode.INTERCHANGE_INVALID_VALUE, "$[1]"),
        ({"type": "function", "function": {"name": 3}}, ErrorCode.INTERCHANGE_INVALID_VALUE, "$[1].function.name"),
        ("sql_select", ErrorCode.FORMATS_INVALID_OPTION, "$[1]"),
    ],
)
def test_what_describes_no_tool_is_refused(given: Any, code: ErrorCode, path: str) -> None:
    with pytest.raises(InputError) as raised:
        described_tools([SQL, given])
    assert (raised.value.code, raised.value.at.path) == (code, path)


# ── deferred tools ──────────────────────────────────────────────────────────────────────────────────────────────────

DEFERRED: list[ToolLike] = [
    {"type": "function", "name": "kept", "defer_loading": False},
    {"type": "function", "name": "hidden_one", "defer_loading": True},
    {"type": "function", "function": {"name": "hidden_two", "defer_loading": True}},
    {"type": "function", "function": {"name": "hidden_three"}, "defer_loading": True},
    {"type": "custom", "name": "hidden_four", "defer_loading": True},
    {
        "type": "namespace",
        "name": "crm",
        "tools": [{"type": "function", "name": "list"}, {"type": "function", "name": "hidden", "defer_loading": True}],
    },
    {"type": "namespace", "name": "hidden_all", "tools": [{"type": "function", "name": "a", "defer_loading": True}]},
    ToolDescription("hidden_by_name"),
]


@pytest.mark.parametrize("code_mode", [False, True])
@pytest.mark.parametrize("tool_format", ToolFormat)
def test_nothing_is_said_of_deferred_tools(tool_format: ToolFormat, code_mode: bool) -> None:
    options = PromptOptions(code_mode=code_mode, deferred=frozenset({"hidden_by_name"}))
    prompt = prompt_of(tool_format, DEFERRED, options)
    assert "hidden" not in prompt
    assert "kept" in prompt
    assert ("crm_list" if code_mode else "crm.list") in prompt


def test_a_tool_that_is_deferred_by_a_wrong_name_is_an_error() -> None:
    for name in ("kept", "hidden_two", "crm.list", "crm.hidden", "hidden_all.a"):
        described_tools(DEFERRED, (name,))
    with pytest.raises(InputError, match="did you mean 'hidden_by_name'") as raised:
        described_tools(DEFERRED, ("hidden_by_nam",))
    assert raised.value.code is ErrorCode.FORMATS_INVALID_OPTION


# ── code mode ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("tool_format", ToolFormat)
def test_in_code_mode_there_is_one_tool_over_the_others(tool_format: ToolFormat) -> None:
    prompt = prompt_of(tool_format, [SQL], CODE_MODE)
    assert prompt.count("\n### ") == 1
    assert "### python\n" in prompt
    assert "def sql_select(sql: str, limit: int = 100," in prompt
    assert "- `code` (string, required)" in prompt
    assert "### sql_select" not in prompt
    assert ("## Tool Calling Format" in prompt) == (tool_format is not ToolFormat.HARMONY)


# ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("profile", all_profiles(), ids=lambda profile: profile.name)
def test_the_prompt_stands_before_the_history(profile: Any) -> None:
    history = Conversation([Message.system(), Message.user("How many?")])
    built = build_prompt(profile, history, [SQL])
    assert [message.role for message in built.messages] == [Role.SYSTEM, Role.DEVELOPER, Role.USER]
    content = built.messages[1].content
    assert isinstance(content, DeveloperContent)
    assert content.instructions == tool_system_prompt(profile, [SQL])
    assert build_prompt(profile, [], [SQL]).messages == (built.messages[1],)


def test_harmony_renders_it_as_instructions() -> None:
    built = build_prompt(ToolFormat.HARMONY, [Message.user("<|call|>")], [ToolDescription("a", "<|end|> Really.")])
    text = render(Conversation(built.messages)).tokens
    # Law 1 holds for what the owner of a tool writes: its marks are ordinary text.
    assert text.count(200007) == 2
    assert 200012 not in text
