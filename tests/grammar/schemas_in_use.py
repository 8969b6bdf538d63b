"""Schemas as people send them: what libraries generate, what clients declare, what servers of tools publish.

Each has texts that fit it, in the order in which its properties are declared, and texts that do not. They were written
for these tests in the shapes that are met, not copied: see `origin`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from harmonia.messages import Json


class InUse(NamedTuple):
    """A schema, where its shape is met, texts that fit it and texts that do not, and the keywords that are reported as
    not held: by llguidance, and by the rules that GBNF and xgrammar get."""

    origin: str
    schema: Json
    fits: tuple[str, ...]
    fails: tuple[str, ...]
    lost_by_llguidance: frozenset[str] = frozenset()
    lost_by_rules: frozenset[str] = frozenset()


_STRICT: Final = InUse(
    "OpenAI structured outputs, strict: all required, nothing else, optional ones are nullable",
    {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "What it is called."},
            "due": {"type": ["string", "null"], "format": "date"},
            "priority": {"type": "string", "enum": ["low", "normal", "high"]},
            "assignee": {"anyOf": [{"$ref": "#/$defs/person"}, {"type": "null"}]},
            "steps": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"text": {"type": "string"}, "done": {"type": "boolean"}},
                    "required": ["text", "done"],
                    "additionalProperties": False,
                },
            },
        },
        "$defs": {
            "person": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "email": {"type": "string"}},
                "required": ["name", "email"],
                "additionalProperties": False,
            }
        },
        "required": ["title", "due", "priority", "assignee", "steps"],
        "additionalProperties": False,
        "$schema": "http://json-schema.org/draft-07/schema#",
    },
    (
        '{"title": "T", "due": null, "priority": "low", "assignee": null, "steps": []}',
        '{"title":"T","due":"2026-02-28","priority":"high","assignee":{"name":"A","email":"a@b.c"},'
        '"steps":[{"text":"x","done":true}]}',
    ),
    (
        '{"title": "T", "due": null, "priority": "low", "assignee": null}',
        '{"title": "T", "due": "soon", "priority": "low", "assignee": null, "steps": []}',
        '{"title": "T", "due": null, "priority": "low", "assignee": {"name": "A"}, "steps": []}',
        '{"title": "T", "due": null, "priority": "low", "assignee": null, "steps": [], "more": 1}',
    ),
)
_PYDANTIC_UNION: Final = InUse(
    "pydantic: a union with a discriminator, Optional as anyOf with null, Literal as const, $defs",
    {
        "$defs": {
            "Cat": {
                "properties": {
                    "kind": {"const": "cat", "default": "cat", "title": "Kind", "type": "string"},
                    "lives": {"title": "Lives", "type": "integer", "minimum": 0, "maximum": 9},
                },
                "required": ["lives"],
                "title": "Cat",
                "type": "object",
            },
            "Dog": {
                "properties": {
                    "kind": {"const": "dog", "title": "Kind", "type": "string"},
                    "name": {"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}], "default": None},
                },
                "required": ["kind"],
                "title": "Dog",
                "type": "object",
            },
        },
        "properties": {
            "pet": {
                "discriminator": {
                    "mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"},
                    "propertyName": "kind",
                },
                "oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}],
                "title": "Pet",
            },
            "weight": {"exclusiveMinimum": 0, "title": "Weight", "type": "number"},
        },
        "required": ["pet", "weight"],
        "title": "Owner",
        "type": "object",
    },
    (
        '{"pet": {"kind": "cat", "lives": 9}, "weight": 4.5}',
        '{"pet": {"kind": "dog", "name": null}, "weight": 12}',
        '{"pet": {"kind": "dog", "name": "Rex"}, "weight": 0.5}',
    ),
    (
        '{"pet": {"kind": "cow"}, "weight": 1}',
        '{"pet": {"kind": "dog", "name": ""}, "weight": 1}',
        '{"pet": {"kind": "cat", "lives": 10}, "weight": 1}',
        '{"pet": {"kind": "dog"}, "weight": 0}',
        '{"pet": {"kind": "dog"}}',
    ),
)
_PYDANTIC_TREE: Final = InUse(
    "pydantic: a model that has itself, a dict of lists, a tuple, a set, an alias with a dash",
    {
        "$defs": {
            "Node": {
                "properties": {
                    "children": {"items": {"$ref": "#/$defs/Node"}, "title": "Children", "type": "array"},
                    "node-name": {"title": "Node-Name", "type": "string"},
                },
                "required": ["children", "node-name"],
                "title": "Node",
                "type": "object",
                "additionalProperties": False,
            }
        },
        "properties": {
            "root": {"$ref": "#/$defs/Node", "description": "Where it begins."},
            "where": {
                "maxItems": 2,
                "minItems": 2,
                "prefixItems": [{"type": "number"}, {"type": "number"}],
                "type": "array",
            },
            "groups": {"additionalProperties": {"items": {"type": "integer"}, "type": "array"}, "type": "object"},
            "tags": {"items": {"type": "string"}, "type": "array", "uniqueItems": True},
        },
        "required": ["root", "where"],
        "type": "object",
        "additionalProperties": False,
    },
    (
        '{"root": {"children": [{"children": [], "node-name": "b"}], "node-name": "a"}, "where": [1.5, -2]}',
        '{"root": {"children": [], "node-name": "a"}, "where": [0, 1], "groups": {"x": [1], "y y": []}, "tags": ["a"]}',
    ),
    (
        '{"root": {"children": [{"node-name": "b"}], "node-name": "a"}, "where": [1, 2]}',
        '{"root": {"children": [], "node-name": "a"}, "where": [1]}',
        '{"root": {"children": [], "node-name": "a"}, "where": [1, 2], "groups": {"x": 1}}',
    ),
    frozenset(("uniqueItems",)),
    frozenset(("uniqueItems",)),
)
_ZOD: Final = InUse(
    "zod-to-json-schema: draft 7, formats and patterns of checks, an enum, a record, a default, `not: {}` for never",
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "id": {"type": "string", "format": "uuid"},
            "slug": {"type": "string", "pattern": "^[a-z0-9]+(?:-[a-z0-9]+)*$"},
            "url": {"type": "string", "format": "uri"},
            "count": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9007199254740991},
            "rating": {"type": "number", "minimum": 0, "maximum": 5},
            "role": {"type": "string", "enum": ["admin", "user"], "default": "user"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "at": {"type": ["string", "null"], "format": "date-time"},
        },
        "required": ["id", "slug", "count"],
        "additionalProperties": False,
    },
    (
        '{"id": "123e4567-e89b-12d3-a456-426614174000", "slug": "a-b1", "count": 1}',
        '{"id": "123e4567-e89b-12d3-a456-426614174000", "slug": "a", "url": "https://example.com/x", "count": 12,'
        ' "rating": 4.5, "role": "admin", "labels": {"k": "v"}, "at": "2026-01-02T03:04:05Z"}',
    ),
    (
        '{"id": "no", "slug": "a", "count": 1}',
        '{"id": "123e4567-e89b-12d3-a456-426614174000", "slug": "a_b", "count": 1}',
        '{"id": "123e4567-e89b-12d3-a456-426614174000", "slug": "a", "count": 0}',
        '{"id": "123e4567-e89b-12d3-a456-426614174000", "slug": "a", "count": 1, "rating": 5.5}',
    ),
    frozenset(),
    frozenset(("format",)),  # uri
)
_ZOD_4: Final = InUse(
    "zod 4: integers within the safe ones, an email by its own pattern, a tuple, a union, a record with propertyNames",
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "page": {"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991},
            "email": {
                "type": "string",
                "format": "email",
                "pattern": "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@"
                "([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$",
            },
            "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]},
            "either": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
            "map": {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {}},
        },
        "required": ["page", "email"],
        "additionalProperties": False,
    },
    (
        '{"page": -3, "email": "a.b@example.com"}',
        '{"page": 0, "email": "a@b.co", "pair": ["x", 1.5], "either": null, "map": {"any": [1, {}]}}',
    ),
    ('{"page": 1.5, "email": "a@b.co"}', '{"page": 1, "email": "a@b.co", "pair": [1, "x"]}', '{"page": 1}'),
    frozenset(("pattern",)),
    frozenset(("pattern", "format")),
)
_CODEX_SHELL: Final = InUse(
    "Codex: the tool that runs a command",
    {
        "type": "object",
        "properties": {
            "command": {"type": "array", "items": {"type": "string"}, "description": "The command to execute"},
            "workdir": {"type": "string", "description": "The working directory to execute the command in"},
            "timeout_ms": {"type": "number", "description": "The timeout for the command in milliseconds"},
            "with_escalated_permissions": {"type": "boolean"},
            "justification": {"type": "string"},
        },
        "required": ["command"],
        "additionalProperties": False,
    },
    (
        '{"command":["bash","-lc","ls -l | wc"]}',
        '{"command": ["bash", "-lc", "cat <<\'EOF\' > a\\nx\\nEOF"], "workdir": "/tmp", "timeout_ms": 1000}',
        '{"command": [], "timeout_ms": 1e4, "with_escalated_permissions": true, "justification": "so"}',
    ),
    ('{"command": "ls"}', '{"workdir": "/"}', '{"command": ["ls"], "cwd": "/"}'),
)
_CODEX_PLAN: Final = InUse(
    "Codex: the tool that keeps a plan",
    {
        "type": "object",
        "properties": {
            "explanation": {"type": "string"},
            "plan": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "step": {"type": "string"},
                        "status": {"type": "string", "description": "One of: pending, in_progress, completed"},
                    },
                    "required": ["step", "status"],
                    "additionalProperties": False,
                },
                "description": "The list of steps",
            },
        },
        "required": ["plan"],
        "additionalProperties": False,
    },
    (
        '{"plan": [{"step": "look", "status": "completed"}]}',
        '{"explanation": "So.", "plan": [{"step": "a", "status": "b"}, {"step": "c", "status": "d"}]}',
    ),
    ('{"explanation": "So."}', '{"plan": [{"step": "look"}]}'),
)
_MCP_FILES: Final = InUse(
    "MCP servers: a filesystem's edit, no additionalProperties, $schema, defaults, formats that nobody registered",
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "path": {"type": "string", "format": "path"},
            "edits": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "oldText": {"type": "string", "description": "Text to search for"},
                        "newText": {"type": "string", "description": "Text to replace with"},
                    },
                    "required": ["oldText", "newText"],
                    "additionalProperties": False,
                },
            },
            "dryRun": {"type": "boolean", "default": False},
            "mode": {"type": "integer", "format": "uint32", "minimum": 0},
        },
        "required": ["path", "edits"],
    },
    (
        '{"path": "a.txt", "edits": [{"oldText": "a", "newText": "b\\n\\t\\"c\\""}], "dryRun": true}',
        '{"path": "a.txt", "edits": [], "mode": 420}',
    ),
    ('{"path": "a.txt"}', '{"path": "a.txt", "edits": [{"oldText": "a"}]}', '{"path": "a", "edits": [], "mode": -1}'),
    frozenset(("format",)),
    frozenset(("format",)),
)
_MCP_EMPTY: Final = InUse(
    "MCP servers: a tool without arguments",
    {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
        "$schema": "http://json-schema.org/draft-07/schema#",
    },
    ("{}", "{ }", "{\n}"),
    ('{"a": 1}', "[]", "null"),
)
_MCP_QUERY: Final = InUse(
    "MCP servers: OpenAPI turned into a tool: nullable, example, a bounded page, a list of values, one without a type",
    {
        "type": "object",
        "properties": {
            "q": {"type": "string", "minLength": 1, "maxLength": 16, "example": "cats"},
            "page": {"type": "integer", "minimum": 1, "maximum": 100, "default": 1},
            "sort": {"enum": ["asc", "desc", None], "nullable": True},
            "filter": {"description": "Anything."},
            "since": {"type": "string", "format": "date-time"},
        },
        "required": ["q"],
    },
    (
        '{"q": "cats"}',
        '{"q": "cats", "page": 100, "sort": null, "filter": {"a": [1]}, "since": "2026-01-02T03:04:05.678+01:00"}',
    ),
    ('{"q": ""}', '{"q": "a", "page": 101}', '{"q": "a", "sort": "up"}', '{"q": "a", "since": "today"}'),
)
_LANGCHAIN: Final = InUse(
    "libraries that write it from docstrings: allOf around a $ref, definitions of draft 7, any of the types",
    {
        "title": "Search",
        "description": "Searches.",
        "type": "object",
        "properties": {
            "query": {"title": "Query", "type": "string"},
            "unit": {"description": "Of what.", "default": "metric", "allOf": [{"$ref": "#/definitions/Unit"}]},
            "limit": {"title": "Limit", "anyOf": [{"type": "integer"}, {"type": "string"}], "default": 5},
        },
        "required": ["query"],
        "definitions": {"Unit": {"title": "Unit", "enum": ["metric", "imperial"], "type": "string"}},
    },
    ('{"query": "x"}', '{"query": "x", "unit": "imperial", "limit": "all"}', '{"query": "x", "limit": 3}'),
    ('{"query": 1}', '{"query": "x", "unit": "both"}', '{"query": "x", "limit": 1.5}'),
)
_ODD_NAMES: Final = InUse(
    "people: names with quotes, slashes, dots, blanks, letters of the world; `required` of what nobody declared",
    {
        "type": "object",
        "properties": {
            "a/b~c": {"type": "integer"},
            'say "hi"': {"type": "boolean"},
            "größe.in cm": {"type": "number"},
            "名前": {"$ref": "#/properties/a~1b~0c"},
            "": {"type": "null"},
        },
        "required": ["名前", "undeclared"],
        "additionalProperties": {"type": "string"},
    },
    (
        '{"a/b~c": 1, "say \\"hi\\"": true, "größe.in cm": 1.5, "名前": 2, "": null, "undeclared": "x"}',
        '{"名前": 2, "undeclared": "x", "more": "y"}',
    ),
    ('{"名前": 2}', '{"名前": "2", "undeclared": "x"}', '{"名前": 2, "undeclared": 1}'),
)
_CONDITION: Final = InUse(
    "people: a condition, what depends on what, and exactly one of two; none of it can be said in rules",
    {
        "type": "object",
        "properties": {
            "by": {"type": "string", "enum": ["id", "name"]},
            "id": {"type": "integer"},
            "name": {"type": "string"},
        },
        "required": ["by"],
        "if": {"properties": {"by": {"const": "id"}}},
        "then": {"required": ["id"]},
        "else": {"required": ["name"]},
        "oneOf": [{"required": ["id"]}, {"required": ["name"]}],
        "dependentRequired": {"id": ["by"]},
        "additionalProperties": False,
    },
    ('{"by": "id", "id": 1}', '{"by": "name", "name": "x"}'),
    ('{"by": "id", "id": "1"}', '{"by": "no", "id": 1}', '{"by": "id"}'),
    frozenset(("if", "then", "else", "oneOf", "dependentRequired")),
    frozenset(("if", "oneOf", "dependentRequired")),
)

SCHEMAS_IN_USE: Final = {
    "openai strict": _STRICT,
    "pydantic union": _PYDANTIC_UNION,
    "pydantic tree": _PYDANTIC_TREE,
    "zod 3": _ZOD,
    "zod 4": _ZOD_4,
    "codex shell": _CODEX_SHELL,
    "codex plan": _CODEX_PLAN,
    "mcp files": _MCP_FILES,
    "mcp empty": _MCP_EMPTY,
    "mcp query": _MCP_QUERY,
    "definitions": _LANGCHAIN,
    "odd names": _ODD_NAMES,
    "conditions": _CONDITION,
}
