"""What each keyword becomes, what is reported, what is refused. Each example can be read as documentation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

import harmonia.schema
from harmonia.errors import ErrorCode, InputError
from harmonia.messages import ToolDescription as Tool
from harmonia.schema import (
    Declaration,
    Loss,
    SchemaLimits,
    declare_namespace,
    declare_tool,
    to_typescript,
)
from tests.support.call_counts import calls_made_by
from tests.support.strategies.schemas import any_schemas, reference_schemas

Schema = dict[str, Any]


def printed(schema: Schema | bool) -> str:
    return to_typescript(schema).text


def printed_property(schema: Schema | bool) -> str:
    """What stands between the braces of an object with the one property `x`."""
    text = printed({"type": "object", "properties": {"x": schema}})
    return text.removeprefix("{\n").removesuffix("\n}")


def lost(schema: Schema) -> list[tuple[str, str]]:
    return [(loss.path, loss.keyword) for loss in to_typescript(schema).losses]


def refusal(schema: Any, **options: Any) -> tuple[ErrorCode, str | None]:
    with pytest.raises(InputError) as caught:
        to_typescript(schema, **options)
    return caught.value.code, caught.value.at.path


def test_the_package_exports_what_it_promises() -> None:
    assert harmonia.schema.__all__ == [
        "DEFAULT_LIMITS",
        "Declaration",
        "Declared",
        "Loss",
        "SchemaLimits",
        "TypeScript",
        "declare_namespace",
        "declare_tool",
        "to_typescript",
    ]


# Types and values


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (True, "any"),
        (False, "never"),
        ({}, "any"),
        ({"type": "string"}, "string"),
        ({"type": "integer"}, "number"),
        ({"type": "null"}, "null"),
        ({"type": "STRING"}, "string"),
        ({"type": ["integer", "null"]}, "number | null"),
        ({"type": ["object", "string"]}, "object | string"),
        ({"type": ["object", "null"], "properties": {"a": {"type": "string"}}}, "{\na?: string,\n} | null"),
        ({"type": ["array", "null"], "items": {"type": "string"}}, "string[] | null"),
        ({"type": ["array", "null"]}, "Array<any> | null"),
        ({"type": "string", "nullable": True}, "string | null"),
        ({"type": "string", "nullable": True, "enum": ["nullify"]}, '"nullify" | null'),
        ({"type": ["string", "null"], "nullable": True}, "string | null"),
        ({"const": "a"}, '"a"'),
        ({"const": None}, "null"),
        ({"const": {"a": [1, True]}}, '{"a":[1,true]}'),
        ({"type": "integer", "enum": [1, 2]}, "1 | 2"),
        ({"enum": ["a", 1, None, True, [1]]}, '"a" | 1 | null | true | [1]'),
        ({"type": ["string", "null"], "enum": ["a", None]}, '"a" | null'),
        ({"type": "string", "enum": ["a", 5]}, '"a"'),
        ({"enum": ['say "hi"', "two\nlines"]}, r'"say \"hi\"" | "two\nlines"'),
    ],
)
def test_types_and_values(schema: Schema | bool, text: str) -> None:
    assert printed(schema) == text
    assert to_typescript(schema).losses == ()


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "array"}, "Array<any>"),
        ({"type": "array", "items": {}}, "any[]"),
        ({"type": "array", "items": False}, "never[]"),
        ({"type": "array", "items": {"type": "string", "enum": ["p", "q"]}}, '("p" | "q")[]'),
        ({"type": "array", "items": {"type": ["string", "null"]}}, "(string | null)[]"),
        ({"items": {"type": "array", "items": {"type": "number"}}}, "number[][]"),
        ({"type": "array", "items": {"type": "string", "description": "A tag."}}, "// A tag.\nstring[]"),
        # An array may end before its prefix does, unless minItems forbids it.
        ({"prefixItems": [{"type": "string"}, {"type": "number"}]}, "[string?, number?, ...any[]]"),
        (
            {"prefixItems": [{"type": "string"}, {"type": "number"}], "minItems": 2, "items": False},
            "[string, number]",
        ),
        (
            {"items": [{"type": "string"}], "minItems": 1, "additionalItems": {"type": ["string", "null"]}},
            "[string, ...(string | null)[]]",
        ),
        ({"prefixItems": [{"type": "string"}], "minItems": 1, "maxItems": 1}, "[string]"),
    ],
)
def test_arrays_and_tuples(schema: Schema, text: str) -> None:
    assert printed(schema).removeprefix("// minItems: 1\n").removeprefix("// minItems: 2\n") == text


# Objects


def test_an_object_prints_one_line_per_property_in_the_order_of_the_schema() -> None:
    schema: Schema = {
        "type": "object",
        "description": "Where to look.",
        "properties": {
            "location": {"type": "string", "description": "City and state."},
            "format": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
            "days": {"type": "integer", "default": 3},
            "area": {"type": "object", "properties": {"km": {"type": "number"}}, "required": ["km"]},
        },
        "required": ["location"],
    }
    assert printed(schema) == (
        "// Where to look.\n"
        "{\n"
        "// City and state.\n"
        "location: string,\n"
        'format?: "celsius" | "fahrenheit", // default: celsius\n'
        "days?: number, // default: 3\n"
        "area?: {\n"
        "    km: number,\n"
        "    },\n"
        "}"
    )


def test_keys_that_are_no_identifiers_are_quoted() -> None:
    keys = ["plain", "$dollar", "naïve", "my-key", "1st", "²", "", 'a"b', "a\nb"]
    schema: Schema = {"type": "object", "properties": {key: True for key in keys}}
    assert printed(schema).split("\n")[1:-1] == [
        "plain?: any,",
        "$dollar?: any,",
        "naïve?: any,",
        '"my-key"?: any,',
        '"1st"?: any,',
        '"²"?: any,',
        '""?: any,',
        r'"a\"b"?: any,',
        r'"a\nb"?: any,',
    ]


def test_a_required_key_that_is_not_described_is_printed() -> None:
    assert printed({"required": ["a", "b"], "properties": {"b": True}}) == "{\nb: any,\na: any,\n}"


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "object"}, "{\n}"),
        ({"type": "object", "additionalProperties": False}, "{\n}"),
        ({"type": "object", "additionalProperties": True}, "{\n[key: string]: any,\n}"),
        ({"additionalProperties": {"type": "number"}}, "{\n[key: string]: number,\n}"),
        # TypeScript wants an index signature to admit the named properties too.
        (
            {"properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "number"}},
            "{\na?: string,\n[key: string]: number | string | undefined,\n}",
        ),
        (
            {"properties": {"a": {"type": "number"}}, "required": ["a"], "additionalProperties": {"type": "number"}},
            "{\na: number,\n[key: string]: number,\n}",
        ),
        (
            {"patternProperties": {"^x-": {"type": "number"}}},
            "{\n// keys matching /^x-/\n[key: string]: number,\n}",
        ),
        (
            {"patternProperties": {"^x": {"type": "number"}, "^y": {"type": "string"}}, "type": "object"},
            "{\n// keys matching /^x/\n// keys matching /^y/\n[key: string]: number | string,\n}",
        ),
    ],
)
def test_dictionaries(schema: Schema, text: str) -> None:
    assert printed(schema) == text
    assert to_typescript(schema).losses == ()


def test_an_index_signature_that_cannot_list_the_named_types_admits_all_and_says_so() -> None:
    named = {"a": {"type": "object"}}
    schema: Schema = {"type": "object", "properties": named, "additionalProperties": {"type": "number"}}
    assert printed(schema) == "{\na?: {\n    },\n[key: string]: number | any,\n}"
    assert lost(schema) == [("$", "additionalProperties")]


# What is said beside the type


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"description": "two\nlines"}, "// two\n// lines\nx?: any,"),
        ({"description": "a\r\nb\rc\u2028d\u2029e\n"}, "// a\n// b\n// c\n// d\n// e\nx?: any,"),
        ({"title": "Size"}, "// Size\n//\nx?: any,"),
        ({"examples": ["a", 5, {"b": None}]}, '// Examples:\n// - "a"\n// - 5\n// - {"b":null}\nx?: any,'),
        ({"example": 1.0}, "// Examples:\n// - 1.0\nx?: any,"),
        ({"default": {"a": [1e20]}}, 'x?: any, // default: {"a":[1e20]}'),
        ({"default": "two\nlines"}, r'x?: any, // default: "two\nlines"'),
        ({"type": "string", "enum": ["a"], "default": "a"}, 'x?: "a", // default: a'),
        ({"type": "integer", "minimum": 1, "maximum": 5}, "// minimum: 1, maximum: 5\nx?: number,"),
        ({"type": "string", "pattern": r"^\d+$"}, "// pattern: /^\\d+$/\nx?: string,"),
        ({"type": "string", "format": "date-time"}, "// format: date-time\nx?: string,"),
        ({"type": "array", "uniqueItems": True, "minItems": 1}, "// uniqueItems: true, minItems: 1\nx?: Array<any>,"),
        ({"deprecated": False, "uniqueItems": False}, "x?: any,"),
        ({"type": "object", "description": "An object."}, "// An object.\nx?:     // An object.\n{\n    },"),
    ],
)
def test_comments_of_a_property(schema: Schema, text: str) -> None:
    assert printed_property(schema) == text


def test_what_is_said_of_a_type_that_is_no_property_stands_before_it() -> None:
    item = {"type": "integer", "title": "Port", "description": "A port.", "maximum": 65535, "default": 80}
    assert printed({"type": "array", "items": item}) == (
        "// Port\n//\n// A port.\n// maximum: 65535\n// default: 80\nnumber[]"
    )


# Unions and intersections


def test_one_of_is_printed_one_variant_to_a_line() -> None:
    schema: Schema = {"oneOf": [{"type": "string", "description": "A name."}, {"type": "integer", "default": 5}]}
    assert printed_property(schema) == "x?:\n | string // A name.\n | number // default: 5\n,"
    assert printed({"oneOf": [{"type": "string"}, {"type": "null"}]}) == "\n | string\n | null"


def test_a_comment_behind_the_last_variant_does_not_swallow_what_follows() -> None:
    schema: Schema = {"oneOf": [{"type": "string"}, {"type": "number", "description": "two\nlines"}]}
    tool = declare_tool("t", None, schema).text
    assert tool == "type t = (_: \n | string\n | number // two\n   // lines\n) => any;"


def test_any_of_stands_on_one_line_where_it_fits() -> None:
    optional = {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "Name"}
    assert printed_property(optional) == "// Name\n//\nx?: string | null, // default: null"
    assert printed({"anyOf": [{"type": "string"}, {"type": "object"}]}) == "\n | string\n | {\n   }"


def test_a_union_inside_a_union_has_parentheses() -> None:
    schema: Schema = {"oneOf": [{"oneOf": [{"type": "string"}, {"type": "null"}]}, {"type": "number"}]}
    assert printed(schema) == "\n | (\n    | string\n    | null)\n | number"


def test_every_description_of_a_union_is_printed_once() -> None:
    same = {"description": "A name.", "oneOf": [{"type": "string", "description": "A name."}, {"type": "null"}]}
    assert printed_property(same) == "// A name.\nx?:\n | string\n | null\n,"
    other = {"description": "Who.", "oneOf": [{"type": "string", "description": "A name."}]}
    assert printed_property(other) == "// Who.\nx?:\n | string // A name.\n,"


def test_nullable_reaches_a_union_too() -> None:
    schema: Schema = {"oneOf": [{"type": "string"}, {"type": "number"}], "nullable": True}
    assert printed_property(schema) == "x?:\n | string\n | number\n | null\n,"
    assert printed(schema) == "\n | string\n | number\n | null"


def test_all_of_is_an_intersection() -> None:
    parts = [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"type": "string"}}}]
    assert printed({"allOf": parts}) == "{\na?: string,\n} & {\nb?: string,\n}"
    assert printed({"allOf": [{"type": "string"}, {"minLength": 3}]}) == "// minLength: 3\nstring"
    assert printed({"allOf": [{"type": ["string", "null"]}, {"enum": ["a", None]}]}) == '(string | null) & ("a" | null)'


def test_a_type_beside_its_variants_is_not_repeated_unless_it_says_more() -> None:
    assert printed({"type": "string", "oneOf": [{"const": "a"}, {"const": "b"}]}) == '\n | "a"\n | "b"'
    assert printed({"type": "string", "anyOf": [{"minLength": 3}, {"type": "string"}]}) == (
        "\n |    // minLength: 3\nstring\n | string"
    )
    one_of_two = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    }
    assert printed(one_of_two) == "{\na?: string,\n} & (\n | {\n   a: any,\n   }\n | {\n   b: any,\n   })"


# References


def test_a_reference_is_printed_in_place_with_its_own_description() -> None:
    schema: Schema = {
        "type": "object",
        "properties": {
            "home": {"$ref": "#/$defs/Town", "description": "Where you live."},
            "work": {"$ref": "#/$defs/Town"},
            "old": {"allOf": [{"$ref": "#/$defs/Town"}], "default": "x"},
        },
        "$defs": {"Town": {"type": "string", "description": "A town.", "minLength": 1}},
    }
    assert printed(schema) == (
        "{\n"
        "// Where you live.\n"
        "// minLength: 1\n"
        "home?:     // A town.\n"
        "    // minLength: 1\n"
        "string,\n"
        "// A town.\n"
        "// minLength: 1\n"
        "work?: string,\n"
        "// A town.\n"
        "// minLength: 1\n"
        'old?: string, // default: "x"\n'
        "}"
    )


@pytest.mark.parametrize(
    "reference",
    [
        "#/$defs/a~1b%20c",
        "#/definitions/list/0",
        "#/properties/direct",
        "#anchor",
        "https://example.com/tool.json#/properties/direct",
    ],
)
def test_any_local_reference_is_followed(reference: str) -> None:
    schema: Schema = {
        "$id": "https://example.com/tool.json",
        "type": "object",
        "properties": {"direct": {"const": 1}, "x": {"$ref": reference}},
        "$defs": {"a/b c": {"const": 1}, "named": {"$anchor": "anchor", "const": 1}},
        "definitions": {"list": [{"const": 1}]},
    }
    assert "\nx?: 1,\n" in printed(schema)


def test_a_recursive_reference_becomes_a_named_type() -> None:
    node = {
        "type": "object",
        "description": "A node.",
        "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
    }
    schema: Schema = {"type": "object", "properties": {"tree": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}}
    result = to_typescript(schema, name="walk")
    assert result.text == "{\n// A node.\ntree?: walk_Node,\n}"
    assert result.declarations == (Declaration("walk_Node", "// A node.\n{\nchildren?: walk_Node[],\n}"),)
    assert declare_tool("walk", "Walks.", schema).text == (
        "type walk_Node = // A node.\n"
        "{\n"
        "children?: walk_Node[],\n"
        "};\n"
        "\n"
        "// Walks.\n"
        "type walk = (_: {\n"
        "// A node.\n"
        "tree?: walk_Node,\n"
        "}) => any;"
    )


def test_a_schema_that_refers_to_itself_as_a_whole_is_named_too() -> None:
    result = to_typescript({"type": "object", "properties": {"next": {"$ref": "#"}}}, name="list")
    assert (result.text, result.declarations) == ("list_Root", (Declaration("list_Root", "{\nnext?: list_Root,\n}"),))


def test_two_types_that_refer_to_each_other_need_one_name() -> None:
    schema: Schema = {
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/B"}},
        "$defs": {
            "A": {"properties": {"b": {"$ref": "#/$defs/B"}}},
            "B": {"properties": {"a": {"$ref": "#/$defs/A"}}},
        },
    }
    result = to_typescript(schema)
    assert result.text == "{\na?: A,\nb?: {\n    a?: A,\n    },\n}"
    assert result.declarations == (Declaration("A", "{\nb?: {\n    a?: A,\n    },\n}"),)


@pytest.mark.parametrize(
    "definitions",
    [
        {"A": {"$ref": "#/$defs/A"}},
        {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
        {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "string"}]}},
        {"A": {"allOf": [{"$ref": "#"}, {"type": "object"}]}},
        # Each of the two may name the other, but not both of them may.
        {
            "A": {"anyOf": [{"properties": {"c": {"$ref": "#/$defs/C"}}}, {"$ref": "#/$defs/C"}]},
            "C": {"anyOf": [{"$ref": "#/$defs/A"}, {"properties": {"c": {"$ref": "#/$defs/C"}}}]},
        },
    ],
)
def test_a_reference_that_leads_only_to_itself_is_a_loss(definitions: Schema) -> None:
    result = to_typescript({"$ref": "#/$defs/A", "$defs": definitions}, limits=SchemaLimits(depth=10**9))
    assert [loss.keyword for loss in result.losses] == ["$ref"]


def test_helper_types_never_take_a_name_that_is_in_use() -> None:
    node = {"properties": {"next": {"$ref": "#/$defs/b"}}}
    schema: Schema = {"properties": {"b": {"$ref": "#/$defs/b"}}, "$defs": {"b": node}}

    tools = [Tool("a", parameters=schema), Tool("a_b"), Tool("a_b_2", parameters=schema)]
    text = declare_namespace("n", None, tools).text
    assert [line.split()[1] for line in text.split("\n") if line.startswith("type ")] == [
        "a_b_3",
        "a",
        "a_b",
        "a_b_2_b",
        "a_b_2",
    ]


def test_names_of_helper_types_are_legal() -> None:
    def name_of(definition: str, name: str = "") -> str:
        node = {"properties": {"next": {"$ref": f"#/$defs/{definition}"}}}
        schema = {"properties": {"x": {"$ref": f"#/$defs/{definition}"}}, "$defs": {definition: node}}
        return to_typescript(schema, name=name).declarations[0].name

    assert name_of("string") == "_string"
    assert name_of("1") == "_1"
    assert name_of("my-node", "my-tool") == "my_tool_my_node"
    assert name_of("é") == "_"


# The report


@pytest.mark.parametrize(
    "keyword",
    [
        *("not", "if", "then", "else", "dependentSchemas", "dependencies", "contains", "minContains", "contentSchema"),
        *("unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef", "x-vendor", "minimun"),
    ],
)
def test_what_cannot_be_expressed_is_reported(keyword: str) -> None:
    schema: Schema = {"type": "object", "properties": {"my-key": {"type": "string", keyword: {}}}}
    assert lost(schema) == [('$.properties["my-key"]', keyword)]
    assert printed(schema) == '{\n"my-key"?: string,\n}'


def test_what_a_reference_leads_to_is_reported_once_where_it_stands() -> None:
    schema: Schema = {
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"not": {"type": "string"}}},
    }
    result = to_typescript(schema)
    assert result.losses == (Loss('$["$defs"].A', "not", "TypeScript cannot exclude values."),)


@pytest.mark.parametrize(
    ("schema", "text", "keyword"),
    [
        ({"type": 5}, "any", "type"),
        ({"type": []}, "any", "type"),
        ({"type": ["string", 5]}, "string", "type"),
        ({"type": "text"}, "any", "type"),
        ({"type": "string", "enum": []}, "string", "enum"),
        ({"type": "string", "enum": [1]}, "1", "type"),
        ({"type": "object", "properties": []}, "{\n}", "properties"),
        ({"type": "object", "required": "a"}, "{\n}", "required"),
        ({"type": "object", "required": [1]}, "{\n}", "required"),
        ({"type": "object", "patternProperties": []}, "{\n}", "patternProperties"),
        ({"oneOf": 5}, "any", "oneOf"),
        ({"anyOf": []}, "any", "anyOf"),
        ({"$ref": 5}, "any", "$ref"),
        ({"description": 5}, "any", "description"),
        ({"title": 5}, "any", "title"),
        ({"examples": "a"}, "any", "examples"),
        ({"nullable": "yes"}, "any", "nullable"),
    ],
)
def test_a_malformed_keyword_is_dropped_and_reported(schema: Schema, text: str, keyword: str) -> None:
    assert printed(schema) == text
    assert lost(schema) == [("$", keyword)]


def test_a_malformed_schema_inside_another_is_any() -> None:
    schema: Schema = {"type": "object", "properties": {"a": "string"}}
    assert printed(schema) == "{\na?: any,\n}"
    assert lost(schema) == [("$.properties.a", "")]


# Refusals


@pytest.mark.parametrize("schema", ["string", 5, None, [], 1.5])
def test_what_is_no_schema_at_all_is_refused(schema: Any) -> None:
    assert refusal(schema) == (ErrorCode.SCHEMA_INVALID, "$")


@pytest.mark.parametrize("keyword", ["const", "default", "example"])
def test_a_number_that_is_not_json_is_refused(keyword: str) -> None:
    schema: Schema = {"properties": {"a": {keyword: [float("nan")]}}}
    assert refusal(schema) == (ErrorCode.SCHEMA_INVALID, f"$.properties.a.{keyword}")


def test_remote_references_are_refused() -> None:
    schema: Schema = {"properties": {"a": {"$ref": "https://example.com/other.json#/a"}}}
    assert refusal(schema) == (ErrorCode.SCHEMA_REMOTE_REFERENCE, '$.properties.a["$ref"]')


@pytest.mark.parametrize("reference", ["#/$defs/b", "#/$defs/a/type", "#/$defs/a/enum/1", "#nowhere", "#/enum/x"])
def test_references_to_nothing_are_refused(reference: str) -> None:
    schema: Schema = {"items": {"$ref": reference}, "$defs": {"a": {"type": "string", "enum": ["x"]}}}
    assert refusal(schema) == (ErrorCode.SCHEMA_UNKNOWN_REFERENCE, '$.items["$ref"]')


def test_a_refusal_names_the_reference_that_is_at_fault() -> None:
    schema: Schema = {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "elsewhere.json"}}}
    assert refusal(schema) == (ErrorCode.SCHEMA_REMOTE_REFERENCE, '$["$defs"].A["$ref"]')


# Limits


def nested(depth: int, wrap: str) -> Schema:
    schema: Schema = {"type": "string"}
    for _ in range(depth):
        match wrap:
            case "items":
                schema = {"type": "array", "items": schema}
            case "properties":
                schema = {"type": "object", "properties": {"a": schema}}
            case _:
                schema = {wrap: [schema]}
    return schema


@pytest.mark.parametrize("wrap", ["items", "properties", "oneOf", "anyOf", "allOf", "prefixItems"])
@pytest.mark.parametrize("limits", [SchemaLimits(), SchemaLimits(depth=10**9)], ids=["default", "unlimited"])
def test_a_schema_100_000_deep_is_refused_without_a_crash(wrap: str, limits: SchemaLimits) -> None:
    assert refusal(nested(100_000, wrap), limits=limits)[0] is ErrorCode.SCHEMA_TOO_DEEP


@pytest.mark.parametrize("wrap", ["items", "properties", "oneOf"])
@pytest.mark.parametrize("limits", [SchemaLimits(), SchemaLimits(depth=10**9)], ids=["default", "unlimited"])
def test_exact_mode_refuses_it_too(wrap: str, limits: SchemaLimits) -> None:
    schema = nested(100_000, wrap)
    assert refusal(schema, limits=limits, exact_reference=True) == (ErrorCode.SCHEMA_TOO_DEEP, "$")


def test_depth_counts_schemas_and_names_the_first_too_deep() -> None:
    limits = SchemaLimits(depth=3)
    assert to_typescript(nested(2, "items"), limits=limits).text == "string[][]"
    assert refusal(nested(3, "items"), limits=limits) == (ErrorCode.SCHEMA_TOO_DEEP, "$.items.items.items")


def test_a_long_chain_of_references_is_refused() -> None:
    definitions: Schema = {str(index): {"$ref": f"#/$defs/{index + 1}"} for index in range(1_000)}
    schema: Schema = {"$ref": "#/$defs/0", "$defs": definitions | {"1000": {}}}
    assert refusal(schema)[0] is ErrorCode.SCHEMA_TOO_DEEP


def test_a_deep_value_or_a_cycle_of_python_objects_is_refused() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    assert refusal({"default": value}) == (ErrorCode.SCHEMA_TOO_DEEP, "$")
    cycle: Schema = {"type": "array"}
    cycle["items"] = cycle
    assert refusal(cycle)[0] is ErrorCode.SCHEMA_TOO_DEEP


@pytest.mark.parametrize("wrap", ["allOf", "anyOf", "properties"])
def test_a_billion_laughs_are_cut_short(wrap: str) -> None:
    definitions: Schema = {"60": {}}
    for index in range(60):
        twice = [{"$ref": f"#/$defs/{index + 1}"}, {"$ref": f"#/$defs/{index + 1}"}]
        definitions[str(index)] = {wrap: dict(zip("ab", twice, strict=True)) if wrap == "properties" else twice}
    schema: Schema = {"$ref": "#/$defs/0", "$defs": definitions}
    assert refusal(schema)[0] is ErrorCode.SCHEMA_TOO_LARGE


def test_a_long_text_that_is_referred_to_often_is_cut_short() -> None:
    definition = {"type": "string", "description": "x" * 100_000}
    properties = {f"p{index}": {"$ref": "#/$defs/a"} for index in range(1_000)}
    schema: Schema = {"type": "object", "properties": properties, "$defs": {"a": definition}}
    code, path = refusal(schema)
    assert code is ErrorCode.SCHEMA_TOO_LARGE
    assert path == "$.properties.p9", "it stops where the text is too long, not at the end"


@pytest.mark.parametrize("exact_reference", [False, True])
def test_characters_are_counted_as_printed(exact_reference: bool) -> None:
    schema: Schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    text = to_typescript(schema).text
    assert to_typescript(schema, limits=SchemaLimits(characters=len(text)), exact_reference=exact_reference)
    limits = SchemaLimits(characters=len(text) - 1)
    assert refusal(schema, limits=limits, exact_reference=exact_reference) == (ErrorCode.SCHEMA_TOO_LARGE, "$")


def calls_to_print(schema: Schema) -> int:
    """How many functions are called to print a schema: its cost, on any machine."""
    return calls_made_by(lambda: to_typescript(schema, limits=SchemaLimits(schemas=10**9, characters=10**9)))


def many(kind: str, count: int) -> Schema:
    match kind:
        case "references":
            node: Schema = {"properties": {f"p{index}": {"$ref": f"#/$defs/{index}"} for index in range(count)}}
            return node | {"$defs": {str(index): {"items": {"$ref": f"#/$defs/{index}"}} for index in range(count)}}
        case "names":
            node = {"properties": {f"p{index}": {"$ref": f"#/$defs/{index}/n"} for index in range(count)}}
            return node | {"$defs": {str(i): {"n": {"items": {"$ref": f"#/$defs/{i}/n"}}} for i in range(count)}}
        case "properties":
            return {"properties": {f"p{index}": {"type": "string"} for index in range(count)}}
        case _:
            return {kind: [{"required": [str(index)]} for index in range(count)]}


@pytest.mark.parametrize("kind", ["properties", "oneOf", "anyOf", "allOf", "prefixItems", "references", "names"])
def test_work_is_linear(kind: str) -> None:
    assert calls_to_print(many(kind, 800)) < 4.4 * calls_to_print(many(kind, 200))


# Anything at all


@settings(max_examples=200, deadline=None)
@given(any_schemas | reference_schemas)
def test_printing_is_deterministic_and_raises_nothing_for_local_schemas(schema: Schema) -> None:
    first, second = to_typescript(schema, name="tool"), to_typescript(schema, name="tool")
    assert first == second
    assert len({declaration.name for declaration in first.declarations} | {"tool"}) == len(first.declarations) + 1


# Tools and namespaces


def test_a_tool_is_declared_with_its_description() -> None:
    assert declare_tool("now", "What time it is.\n\nIn UTC.", None).text == (
        "// What time it is.\n// \n// In UTC.\ntype now = () => any;"
    )
    assert declare_tool("now", None, {}).text == "type now = (_: any) => any;"
    assert declare_tool("now", "", {"type": "object"}).text == "type now = (_: {\n}) => any;"


def test_a_namespace_is_declared_with_its_tools() -> None:
    tools = [Tool("now", "The time."), Tool("say", None, {"properties": {"text": {"type": "string"}}})]
    assert declare_namespace("functions", "Some tools.", tools).text == (
        "## functions\n"
        "\n"
        "// Some tools.\n"
        "namespace functions {\n"
        "\n"
        "// The time.\n"
        "type now = () => any;\n"
        "\n"
        "type say = (_: {\n"
        "text?: string,\n"
        "}) => any;\n"
        "\n"
        "} // namespace functions"
    )


def test_a_namespace_without_tools_is_prose() -> None:
    assert declare_namespace("python", "Runs code.\n\nIn a box.", []).text == "## python\n\nRuns code.\n\nIn a box."
    assert declare_namespace("python", None, []).text == "## python\n"


def test_losses_and_errors_of_a_namespace_say_which_tool() -> None:
    bad: Schema = {"properties": {"a": {"not": {}}}}
    losses = declare_namespace("n", None, [Tool("x"), Tool("y", None, bad)]).losses
    assert [(loss.path, loss.keyword) for loss in losses] == [("$.tools[1].parameters.properties.a", "not")]
    with pytest.raises(InputError) as caught:
        declare_namespace("n", None, [Tool("x", None, {"$ref": "other.json"})])
    assert caught.value.at.path == '$.tools[0].parameters["$ref"]'


def test_a_name_that_is_no_identifier_is_printed_and_reported() -> None:
    result = declare_tool("get-weather", None, None)
    assert result.text == "type get-weather = () => any;"
    assert [(loss.path, loss.keyword) for loss in result.losses] == [("$.name", "name")]


@pytest.mark.parametrize("name", ["", "a b", "a\nb", "a;", "x = any; type y", "a}", '"', "a\u2028b"])
def test_a_name_that_could_end_its_declaration_is_refused(name: str) -> None:
    with pytest.raises(InputError) as caught:
        declare_tool(name, None, None)
    assert (caught.value.code, caught.value.at.path) == (ErrorCode.SCHEMA_INVALID, "$.name")
    with pytest.raises(InputError) as caught:
        declare_namespace("n", None, [Tool("fine"), Tool(name)])
    assert caught.value.at.path == "$.tools[1].name"
    with pytest.raises(InputError) as caught:
        declare_namespace(name, None, [])
    assert caught.value.at.path == "$.name"
