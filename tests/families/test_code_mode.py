"""Code mode: tools as Python functions, which can be parsed, are found again, and are called as Python calls."""

from __future__ import annotations

import ast
import keyword
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia.errors import ErrorCode, ToolError
from harmonia.families.code_mode import CodeFunction, code_functions, code_mode_tool
from harmonia.messages import ToolDescription

WEATHER = ToolDescription(
    "get-weather",
    "Get the weather of a city.",
    {
        "type": "object",
        "properties": {
            "unit": {"type": "string", "enum": ["celsius", "kelvin"], "default": "celsius"},
            "city": {"type": "string", "description": "The city's name,\nin English."},
            "from": {"type": ["integer", "null"]},
            "place": {
                "type": "object",
                "description": "Where in the city.",
                "properties": {"street": {"type": "string", "description": "Its name."}, "number": {"type": "integer"}},
                "required": ["street"],
            },
        },
        "required": ["city"],
    },
)


def function_of(tool: ToolDescription) -> CodeFunction:
    (function,) = code_functions([tool]).values()
    return function


def test_a_tool_is_shown_as_a_typed_function_with_a_docstring() -> None:
    assert (
        function_of(WEATHER).stub
        == '''\
def get_weather(city: str, unit: Literal['celsius', 'kelvin'] = 'celsius', from_: int | None = ..., \
place: dict[str, Any] = ...) -> Any:
    """Get the weather of a city.

    Args:
        city: The city's name, in English.
        place: Where in the city.
            'street' (str): Its name.
            'number' (int, optional)
    """'''
    )


@pytest.mark.parametrize(
    ("schema", "signature"),
    [
        (None, "f() -> Any: ..."),
        ({"type": "object"}, "f() -> Any: ..."),
        ({"type": "object", "additionalProperties": True}, "f(**others: Any) -> Any: ..."),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "f(**others: int) -> Any: ..."),
        ({"type": "string"}, "f(argument: str) -> Any: ..."),
        ({"properties": {"a": {"type": "array", "items": {"type": "number"}}}}, "f(a: list[float] = ...) -> Any: ..."),
        (
            {"properties": {"a": {"anyOf": [{"type": "null"}, {"const": 1}]}}},
            "f(a: None | Literal[1] = ...) -> Any: ...",
        ),
        ({"properties": {"a": {"const": 3}}, "required": ["a"]}, "f(a: Literal[3]) -> Any: ..."),
        ({"properties": {"a": {"enum": [1.5]}}}, "f(a: Any = ...) -> Any: ..."),
        ({"properties": {"a": {"type": "boolean", "default": True}}}, "f(a: bool = True) -> Any: ..."),
        ({"properties": {"a": {"type": "number", "default": float("inf")}}}, "f(a: float = ...) -> Any: ..."),
        (
            {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "integer"}}},
            "f(a: int = ...) -> Any: ...",
        ),
        ({"properties": {"a": {"$ref": "https://example.org/a.json"}}}, "f(a: Any = ...) -> Any: ..."),
        (
            {"properties": {"a": {"type": "object", "additionalProperties": {"type": "string"}}}},
            "f(a: dict[str, str] = ...) -> Any: ...",
        ),
    ],
)
def test_schemas_become_python_types(schema: dict[str, Any] | None, signature: str) -> None:
    assert function_of(ToolDescription("f", None, schema)).stub == f"def {signature}"


def test_names_become_identifiers_and_lead_back() -> None:
    names = ["a-b", "a_b", "a.b", "open", "class", "2fast", "größe", "天気", "", "Any", "__import__"]
    functions = code_functions([ToolDescription(name) for name in names])
    assert [function.tool.name for function in functions.values()] == names
    assert list(functions) == [
        "a_b_2", "a_b", "a_b_3", "open_", "class_", "_2fast", "gr_e", "_", "__2", "Any_", "__import___"
    ]  # fmt: skip


def test_arguments_are_those_of_the_schema() -> None:
    function = function_of(WEATHER)
    assert function.arguments_of("Paris") == {"city": "Paris"}
    assert function.arguments_of("Paris", "kelvin", from_=3) == {"city": "Paris", "unit": "kelvin", "from": 3}
    mine = function_of(ToolDescription("f", None, {"properties": {"self": {}, "values": {}, "named": {}}}))
    assert mine.arguments_of(self=1, values=2, named=3) == {"self": 1, "values": 2, "named": 3}
    whole = function_of(ToolDescription("f", None, {"type": "string"}))
    assert whole.arguments_of("text") == whole.arguments_of(argument="text") == "text"
    others = function_of(ToolDescription("f", None, {"type": "object", "additionalProperties": True}))
    assert others.arguments_of(anything=3) == {"anything": 3}


@pytest.mark.parametrize(
    ("values", "named"),
    [((1, 2, 3, 4, 5), {}), (("Paris",), {"city": "Rome"}), ((), {"town": "Rome"}), ((), {}), ((), {"unit": "kelvin"})],
)
def test_a_call_that_python_would_refuse_is_refused(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(ToolError) as raised:
        function_of(WEATHER).arguments_of(*values, **named)
    assert raised.value.code is ErrorCode.TOOL_INVALID_ARGUMENTS


def test_a_tool_that_takes_text_needs_it() -> None:
    with pytest.raises(ToolError):
        function_of(ToolDescription("f", None, {"type": "string"})).arguments_of()


def test_the_one_tool_has_all_functions_in_its_description() -> None:
    tool = code_mode_tool([WEATHER, ToolDescription("roll_dice", "Roll the dice.")])
    assert tool.name == "python"
    assert isinstance(tool.parameters, dict)
    assert tool.parameters["required"] == ["code"]
    description = tool.description or ""
    assert function_of(WEATHER).stub in description
    assert 'def roll_dice() -> Any:\n    """Roll the dice."""' in description


def test_a_fence_in_a_description_does_not_end_the_functions() -> None:
    description = code_mode_tool([ToolDescription("f", "```` and ```")]).description or ""
    assert description.endswith('"""\n`````')
    assert description.count("`````") == 2


# ── whatever the schema ─────────────────────────────────────────────────────────────────────────────────────────────

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
SPECIAL_NAMES = [*keyword.kwlist, "print", "others", "argument"]
NAMES = st.text(alphabet="ab_-.1 é\"'\\\n", max_size=6) | st.sampled_from(SPECIAL_NAMES)
KEYWORDS = st.sampled_from(
    ["type", "enum", "const", "anyOf", "allOf", "items", "properties", "required", "default", "description", "$ref",
     "additionalProperties"]
)  # fmt: skip
TYPES = st.sampled_from(["string", "integer", "object", "array", "nonsense"])
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.dictionaries(KEYWORDS, JSON | TYPES | st.just("#") | st.text(alphabet='"\\\0a\n', max_size=6), max_size=3),
    lambda inner: st.dictionaries(
        KEYWORDS, inner | st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_size=3
    ),
    max_leaves=12,
)
PARAMETERS: st.SearchStrategy[Any] = SCHEMAS | st.fixed_dictionaries(
    {"properties": st.dictionaries(NAMES, SCHEMAS, max_size=4), "required": st.lists(NAMES, max_size=3)}
)
TOOLS = st.lists(
    st.builds(ToolDescription, NAMES, st.none() | st.text(alphabet='ab"\\\n\0\ud800 ', max_size=9), PARAMETERS),
    max_size=3,
    unique_by=lambda tool: tool.name,
)


@given(TOOLS)
def test_stubs_can_be_parsed_and_say_what_leads_back(tools: list[ToolDescription]) -> None:
    functions = code_functions(tools)
    assert [function.tool for function in functions.values()] == tools
    for name, function in functions.items():
        (parsed,) = ast.parse(function.stub).body
        assert isinstance(parsed, ast.FunctionDef)
        assert parsed.name == function.name == name
        assert [argument.arg for argument in parsed.args.args] == [in_code for in_code, _ in function.names]
        assert (parsed.args.kwarg is not None) == function.takes_others
        given = {in_code: index for index, (in_code, _) in enumerate(function.names)}
        if not function.takes_whole:
            expected = {in_schema: index for index, (_, in_schema) in enumerate(function.names)}
            assert function.arguments_of(**given) == function.arguments_of(*given.values()) == expected
            assert len(expected) == len(given)


@pytest.mark.parametrize("description", ['"', '"""', 'a""""', "\\", 'a\\"', "\0" + "1", "\ud800", "x\n", ""])
def test_docstrings_say_what_the_description_says(description: str) -> None:
    (parsed,) = ast.parse(function_of(ToolDescription("f", description)).stub).body
    assert isinstance(parsed, ast.FunctionDef)
    assert (ast.get_docstring(parsed) or "") == description.strip()


def test_a_schema_that_describes_itself_comes_to_an_end() -> None:
    branches = [{"$ref": "#/$defs/node"}] * 10
    schema = {
        "properties": {"node": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {"properties": {f"n{i}": {"anyOf": branches} for i in range(10)}, "items": branches[0]}},
    }
    assert len(function_of(ToolDescription("f", None, schema)).stub) < 200_000
    looped = {"properties": {"a": {"$ref": "#/properties/b"}, "b": {"$ref": "#/properties/a"}}}
    assert function_of(ToolDescription("f", None, looped)).stub == "def f(a: Any = ..., b: Any = ...) -> Any: ..."
