"""Hypothesis strategies for JSON Schemas, for any test that needs tools.

- `lossless_schemas`: schemas of which the reference loses nothing and prints TypeScript that compiles.
- `reference_schemas`: the keywords that the reference reads, with values of the right and of the wrong type.
- `any_schemas`: every keyword there is, references and hostile text included, often malformed.

Texts are what people and attackers write: words, line breaks of all kinds, quotes, comment marks, braces. No
strategy yields lone surrogates, which cannot be encoded.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast

from hypothesis import strategies as st

Schema = dict[str, Any]
Schemas: TypeAlias = st.SearchStrategy[dict[str, Any]]

HOSTILE_TEXTS = (
    "two\nlines",
    "two\r\nlines\r\n",
    "a\rb",
    "a\u2028b\u2029c",
    "*/ } type evil = any; /*",
    "\n}) => any;\ntype evil = (_: {",
    '"; type evil = "',
    "`${evil}`",
    "\\",
    '\\"',
    "//",
    "null",
    "nullify",
    "<|start|>system",
    "\x00\x01\x7f\x85\x0b",
    "é 漢 🎉",
    "",
    " ",
)

_words = st.sampled_from(
    ("city", "unit", "The city, e.g. Paris", "celsius", "naïve", "It's (about) 5 % [of] {x}", "An object.")
)
# A text that no comment and no string literal has to treat specially.
plain_texts = _words | st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"], exclude_characters='"\\')
)
texts = _words | st.sampled_from(HOSTILE_TEXTS) | st.text(st.characters(codec="utf-8"), max_size=8)

identifiers = st.sampled_from(("a", "b", "city", "unit_1", "_private", "camelCase", "type", "naïve", "new", "readonly"))
keys = identifiers | st.sampled_from(("my-key", "1st", "", "$ref", "a b", "漢", "__proto__")) | texts

# Numbers that serde_json reads without an error of its own, see literals.py.
plain_numbers = st.integers(-(2**53), 2**53) | st.sampled_from(
    (0.5, -0.25, 1.0, 1e20, 1e-7, 1e-5, 1.5e300, -0.0, 1e16, 0.1, 3.14)
)
numbers = plain_numbers | st.integers() | st.floats(allow_nan=False, allow_infinity=False)


def _values(strings: st.SearchStrategy[str], numeric: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | numeric | strings,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3),
        max_leaves=5,
    )


values = _values(texts, numbers)
plain_values = _values(plain_texts, plain_numbers)


# What the reference prints without a loss.


def _optional(required: Schema, optional: Schema) -> Schemas:
    """Objects with these keys, the values given or drawn, and any of the optional ones."""
    drawn: dict[str, st.SearchStrategy[Any]] = {}
    for key, value in required.items():
        drawn[key] = cast("st.SearchStrategy[Any]", value if isinstance(value, st.SearchStrategy) else st.just(value))
    return st.fixed_dictionaries(drawn, optional=optional)


@st.composite
def _some_of(draw: st.DrawFn, keywords: dict[str, st.SearchStrategy[Any]]) -> Schema:
    """Objects with a few of these keys. Much quicker than asking for every keyword whether it is there.

    A type, and properties, are there more often than others: most keywords say nothing without them.
    """
    weighted = [*keywords, *[keyword for keyword in ("type", "properties") if keyword in keywords] * 4]
    chosen = dict.fromkeys(draw(st.lists(st.sampled_from(weighted), max_size=6)))
    return {keyword: draw(keywords[keyword]) for keyword in chosen}


def _lossless_properties(inner: Schemas) -> Schemas:
    """Schemas as they may stand under a property, where the reference prints titles, examples and defaults."""
    said: Schema = {
        "description": plain_texts,
        "title": plain_texts,
        "examples": st.lists(plain_texts, max_size=2),
        "default": plain_values,
    }
    # The reference looks for the letters `null` in the whole type before it honours `nullable`.
    nullable: Schema = {"nullable": st.booleans()}
    kinds = st.sampled_from(("string", "number", "integer", "boolean"))
    enums = st.lists(plain_texts.filter(lambda text: "null" not in text), min_size=1, max_size=3)
    kind_lists = st.lists(st.sampled_from(("string", "number", "integer", "boolean", "null", "object")), min_size=1)
    return st.one_of(
        _optional({"type": kinds}, said | nullable),
        _optional({"type": "string", "enum": enums}, said | nullable),
        _optional({"type": kind_lists}, said | nullable),
        _optional({}, said | nullable),
        st.builds(_merge, inner | _lossless_arrays(inner), _optional({}, said)),
        _lossless_property_unions(inner),
    )


def _merge(schema: Schema, said: Schema) -> Schema:
    return {**schema, **said}


def _lossless_arrays(inner: Schemas) -> Schemas:
    """Arrays of what is no union. An array prints nothing that is said of its items, except of objects."""
    kinds: list[Schema] = [{"type": "string"}, {"type": "integer"}, {"type": ["boolean"]}, {}]
    items = st.sampled_from(kinds) | inner
    return (items | items.map(_array_of)).map(_array_of) | st.just({"type": "array"})


def _array_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _lossless_variants(inner: Schemas, said: Schema) -> Schemas:
    """Variants of a union."""
    kinds = st.sampled_from(("string", "number", "integer", "boolean", ["string", "null"]))
    return st.one_of(
        _optional({"type": kinds}, said),
        _optional({"type": "string", "enum": st.lists(plain_texts, min_size=1, max_size=3)}, said),
        inner,
    )


def _lossless_property_unions(inner: Schemas) -> Schemas:
    # The reference drops the first variant's own description, so it has none unless it is an object, which prints
    # it twice. The others' differ from the property's.
    first = _lossless_variants(inner, {"default": plain_values})
    others = _lossless_variants(inner, {"description": plain_texts, "default": plain_values})
    return _optional(
        {"oneOf": st.tuples(first, st.lists(others, max_size=2)).map(lambda pair: [pair[0], *pair[1]])},
        {"description": plain_texts, "title": plain_texts, "default": plain_values},
    )


def _lossless_objects(inner: Schemas) -> Schemas:
    def build(properties: Schema, chosen: list[bool], rest: Schema) -> Schema:
        required = [key for key, choose in zip(properties, chosen, strict=False) if choose]
        return {"type": "object", "properties": properties, "required": required, **rest}

    return st.builds(
        build,
        st.dictionaries(identifiers, _lossless_properties(inner), max_size=5),
        st.lists(st.booleans(), max_size=5),
        _optional({}, {"description": plain_texts}),
    )


lossless_objects = st.recursive(
    st.sampled_from(({"type": "object"}, {"type": "object", "description": "An object."})),
    _lossless_objects,
    max_leaves=4,
)
# At the top a union may not end in a comment: the reference would swallow the rest of the declaration.
lossless_schemas = (
    lossless_objects
    | st.lists(
        _lossless_variants(lossless_objects.map(lambda schema: _without(schema, "description")), {}), min_size=1
    ).map(lambda variants: {"oneOf": variants})
    | st.sampled_from(({}, {"type": "object"}, {"type": "string"}, {"type": ["string", "null"]}, {"type": "array"}))
)


def _without(schema: Schema, keyword: str) -> Schema:
    return {key: value for key, value in schema.items() if key != keyword}


# What the reference accepts.


def _reference_keywords(inner: st.SearchStrategy[Any]) -> Schemas:
    schemas = st.one_of(inner, inner, inner, st.booleans(), st.none(), texts, st.just([1]))
    kinds = ["object"] * 4 + ["array", "array", "string", "string", "number", "integer", "boolean", "null", "thing"]
    malformed = st.none() | st.booleans() | st.integers() | texts | st.just([])
    return _some_of(
        {
            "type": st.sampled_from(kinds) | st.lists(st.sampled_from(kinds) | st.integers(), max_size=3) | malformed,
            "properties": st.dictionaries(keys, schemas, max_size=4) | malformed,
            "required": st.lists(keys | st.integers(), max_size=3) | malformed,
            "items": schemas,
            "oneOf": st.lists(schemas, max_size=3) | malformed,
            "enum": st.lists(values, max_size=3) | malformed,
            "default": values,
            "nullable": st.sampled_from((True, False, None, "true")),
            "title": texts | malformed,
            "description": texts | malformed,
            "examples": st.lists(values, max_size=3) | malformed,
        },
    )


reference_schemas = st.recursive(
    st.fixed_dictionaries({}, optional={"type": st.sampled_from(("string", "object", "array"))}),
    _reference_keywords,
    max_leaves=8,
)


# Everything there is.

_REFERENCES = ("#", "#/$defs/a", "#/$defs/b", "#/$defs/my-key", "#/%24defs/a", "#here", "")


def _any_keywords(inner: st.SearchStrategy[Any]) -> Schemas:
    schemas = st.one_of(inner, inner, inner, inner, st.booleans(), st.none(), texts)
    lists = st.lists(schemas, max_size=3)
    extra = _some_of(
        {
            "$ref": st.sampled_from(_REFERENCES) | st.none(),
            "allOf": lists,
            "anyOf": lists,
            "oneOf": lists,
            "const": values,
            "enum": st.lists(values, max_size=4),
            "prefixItems": lists,
            "items": lists | schemas,
            "additionalItems": schemas,
            "additionalProperties": schemas,
            "patternProperties": st.dictionaries(texts, schemas, max_size=2) | st.none(),
            "propertyNames": schemas,
            "minItems": st.integers(0, 3) | texts,
            "maxItems": st.integers(0, 3) | texts,
            "minimum": numbers,
            "pattern": texts,
            "format": texts,
            "deprecated": st.booleans(),
            "example": values,
            "not": schemas,
            "unevaluatedProperties": schemas,
            "x-vendor": values,
        },
    )
    return st.builds(_merge, _reference_keywords(inner), extra)


_any_parts = st.recursive(
    st.sampled_from(({"type": "string"}, {"type": "object"}, {"type": "array"}, {}, {"$ref": "#/$defs/a"})),
    _any_keywords,
    max_leaves=8,
)


def _document(schema: Schema, a: Schema, b: Schema | bool, c: Schema) -> Schema:
    return {**schema, "$defs": {"a": a, "b": b, "my-key": c, "c": {"$anchor": "here", "type": "object"}}}


any_schemas = st.builds(_document, _any_parts, _any_parts, _any_parts | st.booleans(), _any_parts)
