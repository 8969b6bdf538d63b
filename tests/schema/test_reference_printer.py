"""The printed text against openai-harmony 0.0.8, on generated schemas.

Exact mode equals the reference on whatever the reference accepts. Normal mode equals it where it loses nothing.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia.messages import ToolDescription as Tool
from harmonia.schema import declare_namespace, declare_tool, to_typescript
from harmonia.schema.literals import reference_number_text
from openai_harmony import (  # pyright: ignore[reportMissingTypeStubs] -- it ships without stubs
    DeveloperContent,
    HarmonyEncoding,
    Message,
    Role,
    ToolDescription,
    ToolNamespaceConfig,
)
from tests.support.oracle_cases import compared
from tests.support.repeated import repeated
from tests.support.strategies.schemas import (
    Schema,
    any_schemas,
    keys,
    lossless_objects,
    lossless_schemas,
    numbers,
    plain_texts,
    reference_schemas,
    texts,
)

EXACT_CASES = 700
LOSSLESS_CASES = 700
NAMESPACE_CASES = 200
NUMBER_CASES = 100
"""Each of these prints a hundred numbers."""


def reference_section(encoding: HarmonyEncoding, name: str, description: str | None, tools: list[Tool]) -> str:
    """What the reference prints for one namespace."""
    described = [
        ToolDescription.model_construct(name=tool.name, description=tool.description or "", parameters=tool.parameters)
        for tool in tools
    ]
    namespace = ToolNamespaceConfig(name=name, description=description, tools=described)
    content = DeveloperContent.new().with_tools(namespace)
    text = encoding.decode(encoding.render(Message.from_role_and_content(Role.DEVELOPER, content)))
    return text.removeprefix("<|start|>developer<|message|># Tools\n\n").removesuffix("<|end|>")


def reference_type(encoding: HarmonyEncoding, schema: Schema) -> str:
    """What the reference prints for one schema."""
    compared("schemas and the reference's TypeScript")
    text = reference_section(encoding, "n", None, [Tool("t", None, schema)])
    return text.removeprefix("## n\n\nnamespace n {\n\ntype t = (_: ").removesuffix(") => any;\n\n} // namespace n")


@repeated(given(schema=reference_schemas | any_schemas | lossless_schemas), some=140, many=EXACT_CASES)
def test_exact_mode_equals_the_reference(reference_encoding: HarmonyEncoding, schema: Schema) -> None:
    assert to_typescript(schema, exact_reference=True).text == reference_type(reference_encoding, schema)


@repeated(given(schema=lossless_schemas), some=140, many=LOSSLESS_CASES)
def test_normal_mode_equals_the_reference_where_it_loses_nothing(
    reference_encoding: HarmonyEncoding, schema: Schema
) -> None:
    result = to_typescript(schema)
    assert result.text == reference_type(reference_encoding, schema)
    assert result.declarations == () and result.losses == ()


@repeated(given(sample=st.lists(numbers, min_size=100, max_size=100)), some=25, many=NUMBER_CASES)
def test_exact_mode_spells_numbers_as_the_reference_reads_them(
    reference_encoding: HarmonyEncoding, sample: list[float]
) -> None:
    properties = {f"p{index}": {"default": number} for index, number in enumerate(sample)}
    text = reference_type(reference_encoding, {"type": "object", "properties": properties})
    printed = [line.partition(" // default: ")[2] for line in text.split("\n")[1:-1]]
    assert printed == [reference_number_text(number) for number in sample]


def test_exact_mode_prints_any_for_booleans() -> None:
    """The reference's core does so; its Python wrapper does not let them through, so it cannot be asked here."""
    assert to_typescript(True, exact_reference=True).text == "any"
    assert to_typescript(False, exact_reference=True).text == "any"


@pytest.mark.parametrize("schema", [{}, {"oneOf": []}, {"type": "array", "items": "x"}, {"default": None}])
def test_exact_mode_equals_the_reference_at_the_edges(reference_encoding: HarmonyEncoding, schema: Schema) -> None:
    assert to_typescript(schema, exact_reference=True).text == reference_type(reference_encoding, schema)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "array", "items": {"type": "string", "enum": ["p", "q"]}}, '"p" | "q"[]'),
        ({"type": "object", "properties": {"my-key": {}}}, "{\nmy-key?: any,\n}"),
        ({"type": "object", "properties": {"a": {"description": "b\nc"}}}, "{\n// b\nc\na?: any,\n}"),
        ({"type": "string", "enum": ['"']}, '"""'),
        ({"$ref": "https://example.com/"}, "any"),
        ({"type": ["array"]}, "array"),
    ],
)
def test_exact_mode_keeps_what_is_not_typescript(
    reference_encoding: HarmonyEncoding, schema: Schema, text: str
) -> None:
    assert to_typescript(schema, exact_reference=True).text == text == reference_type(reference_encoding, schema)


def tools_of(
    names: st.SearchStrategy[str], descriptions: st.SearchStrategy[str], schemas: st.SearchStrategy[Schema]
) -> st.SearchStrategy[list[Tool]]:
    tool = st.builds(Tool, names, descriptions, st.none() | schemas)
    return st.lists(tool, max_size=3, unique_by=lambda tool: tool.name)


@repeated(
    given(name=keys, description=st.none() | texts, tools=tools_of(keys, texts, reference_schemas)),
    some=40,
    many=NAMESPACE_CASES,
)
def test_exact_namespaces_equal_the_reference(
    reference_encoding: HarmonyEncoding, name: str, description: str | None, tools: list[Tool]
) -> None:
    printed = declare_namespace(name, description, tools, exact_reference=True)
    assert printed.text == reference_section(reference_encoding, name, description, tools)
    assert printed.losses == ()


identifiers = st.sampled_from(("functions", "get_weather", "browser", "say2"))
paragraphs = st.lists(plain_texts, max_size=3).map("\n".join) | st.sampled_from(("a\r\nb", "a\n", "\n\n", ""))


@repeated(
    given(
        name=identifiers,
        description=st.none() | paragraphs,
        tools=tools_of(identifiers, paragraphs, lossless_objects),
    ),
    some=40,
    many=NAMESPACE_CASES,
)
def test_namespaces_equal_the_reference_where_it_loses_nothing(
    reference_encoding: HarmonyEncoding, name: str, description: str | None, tools: list[Tool]
) -> None:
    printed = declare_namespace(name, description, tools)
    assert printed.text == reference_section(reference_encoding, name, description, tools)
    for tool in tools:
        assert declare_tool(tool.name, tool.description, tool.parameters).text in printed.text


def test_the_deepest_schema_that_the_reference_reads_is_within_the_limits(
    reference_encoding: HarmonyEncoding,
) -> None:
    schema: Schema = {"type": "string"}
    for _ in range(119):
        schema = {"type": "array", "items": schema}
    expected = reference_type(reference_encoding, schema)
    assert to_typescript(schema).text == to_typescript(schema, exact_reference=True).text == expected
