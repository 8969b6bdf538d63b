"""Objects, arrays and unions as TypeScript, and the type expressions that they are built from.

    {
    // description
    key?: type, // default: …
    [key: string]: type,
    }

1. A printed type is `(comment, text, level)`: the comment lines before it, the expression, and how tightly the
   expression holds together. It is a plain tuple, because one is made for every schema.
2. In JSON Schema an object is open unless it says otherwise. The reference does not print this, so only an explicit
   `additionalProperties` that allows something becomes an index signature.
3. `oneOf` is laid out as in the reference: one variant a line, each followed by its comment. The reference does not
   read `anyOf`; it is printed the same way, but on one line if every variant fits.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from harmonia.errors import ErrorCode
from harmonia.schema.document import CONSTRAINTS, PLAIN, PRIMITIVES, SAID, TYPE_ALONE, Json, Place, Report
from harmonia.schema.literals import (
    NotJsonError,
    bare_string,
    comment,
    json_text,
    pattern_literal,
    property_key,
    string_literal,
    trailing_comment,
)

if TYPE_CHECKING:
    from harmonia.schema.printer import Printer


def value_text(value: Json, keyword: str, place: Place, report: Report) -> str:
    """A value of the schema as JSON; a value that is not JSON (NaN) is refused."""
    try:
        return json_text(value)
    except NotJsonError as fault:
        report.refuse(ErrorCode.SCHEMA_INVALID, f"{fault}.", (place, keyword))


def title_lines(schema: dict[str, Json], indent: str, place: Place, report: Report) -> str:
    title = schema.get("title")
    if isinstance(title, str):
        return f"{comment(title, indent)}{indent}//\n"
    if title is not None:
        report.lose(place, "title", "A title must be a string.")
    return ""


def description_of(schema: dict[str, Json], place: Place, report: Report) -> str | None:
    description = schema.get("description")
    if description is None or isinstance(description, str):
        return description
    report.lose(place, "description", "A description must be a string.")
    return None


def example_lines(schema: dict[str, Json], indent: str, place: Place, report: Report) -> str:
    lines: list[str] = []
    examples = schema.get("examples")
    if isinstance(examples, list):
        lines = [f"{indent}// - {value_text(example, 'examples', place, report)}\n" for example in examples]
    elif examples is not None:
        report.lose(place, "examples", "Examples must be a list.")
    if "example" in schema:
        lines.append(f"{indent}// - {value_text(schema['example'], 'example', place, report)}\n")
    return f"{indent}// Examples:\n{''.join(lines)}" if lines else ""


def annotation_lines(
    schema: dict[str, Json], description: str | None, indent: str, place: Place, report: Report
) -> str:
    """Title, description, examples and constraints, above a type."""
    return (
        f"{title_lines(schema, indent, place, report)}"
        f"{comment(description, indent) if description is not None else ''}"
        f"{example_lines(schema, indent, place, report)}"
        f"{constraint_lines(schema, indent, place, report)}"
    )


def constraint_lines(schema: dict[str, Json], indent: str, place: Place, report: Report) -> str:
    """Bounds, patterns, formats and the like, on one line in the order of the schema."""
    if schema.keys() <= PLAIN:
        return ""
    parts: list[str] = []
    for keyword, value in schema.items():
        # `uniqueItems: false` and the like mean nothing.
        if keyword not in CONSTRAINTS or value is False or _says_the_tuple(keyword, value, schema):
            continue
        if keyword == "pattern" and isinstance(value, str):
            parts.append(f"pattern: {pattern_literal(value)}")
        elif keyword == "format" and isinstance(value, str):
            parts.append(f"format: {bare_string(value)}")
        else:
            parts.append(f"{keyword}: {value_text(value, keyword, place, report)}")
    return f"{indent}// {', '.join(parts)}\n" if parts else ""


def _says_the_tuple(keyword: str, value: Json, schema: dict[str, Json]) -> bool:
    """Whether this is the length of a tuple, which the printed tuple shows already."""
    if keyword not in ("minItems", "maxItems"):
        return False
    prefix = schema.get("prefixItems", schema.get("items"))
    return isinstance(prefix, list) and value == len(prefix)


def default_text(schema: dict[str, Json], place: Place, report: Report, *, quoted: bool = False) -> str:
    """`default: …`, or nothing. A string default of an enum has no quotes, as in the reference."""
    if "default" not in schema:
        return ""
    value = schema["default"]
    if isinstance(value, str):
        enum = schema.get("enum")
        bare = isinstance(enum, list) and enum and not quoted
        return f"default: {bare_string(value) if bare else string_literal(value)}"
    return f"default: {value_text(value, 'default', place, report)}"


class Level(IntEnum):
    """How tightly a type expression binds, from the tightest to the loosest."""

    ATOM = 0
    INTERSECTION = 1
    UNION = 2
    BLOCK = 3
    """A union with each variant on a line of its own, the first one too: it begins with a `|`."""


class Shown(IntEnum):
    """Which annotations of a type its surroundings have already printed."""

    NOTHING = 0
    DESCRIPTION_AND_DEFAULT = 1
    """A variant of a union: they follow it."""
    ALL = 2
    """A property: they are above its key."""


Printed: TypeAlias = tuple[str, str, Level]

ANY: Final[Printed] = ("", "any", Level.ATOM)
NEVER: Final[Printed] = ("", "never", Level.ATOM)
LEAVES: Final[dict[str, Printed]] = {
    kind: ("", text, Level.ATOM) for kind, text in (*PRIMITIVES.items(), ("null", "null"))
}


def operand(text: str, level: Level) -> str:
    """The text as an operand of `[]`, `?` or `&`, where a union needs parentheses."""
    return f"({text})" if level else text


def variant(text: str, level: Level) -> str:
    """The text as an operand of `|`. Only a union that begins with a bar needs parentheses."""
    return f"({text})" if level is Level.BLOCK else text


def intersection(parts: list[Printed]) -> Printed:
    """All parts at once. `any` is left out, since `any & T` is any; its comments stay, and so do others'."""
    comments: list[str] = []
    said: dict[str, str] = {}
    for lines, text, level in parts:
        part = operand(text, level)
        if text == "any" or part in said or not said:
            comments.append(lines)
        if text != "any":
            # The comments of later parts precede them; those of the first part precede the whole.
            said.setdefault(part, f"{lines}{part}" if said else part)
    before = "".join(comments)
    if len(said) > 1:
        return before, " & ".join(said.values()), Level.INTERSECTION
    _, text, level = next((part for part in parts if part[1] != "any"), ANY)
    return before, text, level


def array_text(printer: Printer, schema: dict[str, Json], indent: str, place: Place) -> str:
    """`T[]`, or a tuple where the first items have schemas of their own."""
    items = schema.get("items")
    printer.guards += 1
    if isinstance(items, list) and items:
        text = _tuple_text(printer, schema, items, "items", "additionalItems", indent, place)
    elif isinstance(prefix := schema.get("prefixItems"), list) and prefix:
        text = _tuple_text(printer, schema, prefix, "prefixItems", "items", indent, place)
    elif "items" in schema:
        lines, item, level = printer.type_of(items, indent, (place, "items"), Shown.NOTHING)
        text = f"{lines}{operand(item, level)}[]"
    else:
        text = "Array<any>"
    printer.guards -= 1
    return text


def _tuple_text(
    printer: Printer,
    schema: dict[str, Json],
    prefix: list[Json],
    keyword: str,
    rest_keyword: str,
    indent: str,
    place: Place,
) -> str:
    """`[A, B?, ...C[]]`. JSON Schema lets an array end before its prefix does, unless `minItems` forbids it."""
    shortest = schema.get("minItems")
    longest = schema.get("maxItems")
    required = shortest if isinstance(shortest, int) else 0
    parts: list[str] = []
    for index, item in enumerate(prefix):
        lines, text, level = printer.type_of(item, indent, ((place, keyword), index), Shown.NOTHING)
        parts.append(f"{lines}{text}" if index < required else f"{lines}{operand(text, level)}?")
    rest = schema.get(rest_keyword, True)
    if rest is not False and not (isinstance(longest, int) and longest <= len(prefix)):
        lines, text, level = printer.type_of(rest, indent, (place, rest_keyword), Shown.NOTHING)
        parts.append(f"{lines}...{operand(text, level)}[]")
    return f"[{', '.join(parts)}]"


class Variant(NamedTuple):
    """A printed variant and the comment after it."""

    text: str
    trailing: str
    level: Level


def union_type(printer: Printer, keyword: str, schemas: list[Json], indent: str, place: Place) -> Printed:
    """A union anywhere but directly under a property."""
    variants = [
        print_variant(printer, schema, indent, ((place, keyword), index), quoted=True)
        for index, schema in enumerate(schemas)
    ]
    if fits_on_a_line(keyword, variants):
        level = Level.UNION if len(variants) > 1 else variants[0].level
        return "", " | ".join([one.text for one in variants]), level
    # A comment after the last variant would swallow what follows, so the type continues on the next line.
    end = f"\n{indent}" if variants[-1].trailing else ""
    return "", "".join([f"\n{indent} | {one.text}{one.trailing}" for one in variants]) + end, Level.BLOCK


def fits_on_a_line(keyword: str, variants: list[Variant]) -> bool:
    return keyword == "anyOf" and not any(one.trailing or "\n" in one.text for one in variants)


def short_union(schemas: Json) -> str:
    """The union of schemas that are a type and nothing more, such as `string | null`; empty if one is more."""
    texts: list[str] = []
    for schema in schemas if isinstance(schemas, list) else ():
        kind = schema.get("type") if isinstance(schema, dict) and len(schema) == 1 else None
        leaf = LEAVES.get(kind) if isinstance(kind, str) else None
        if leaf is None:
            return ""
        texts.append(leaf[1])
    return " | ".join(texts)


def print_variant(
    printer: Printer, schema: Json, indent: str, place: Place, *, hidden: str | None = None, quoted: bool = False
) -> Variant:
    """One variant. A description equal to `hidden` is not repeated; `quoted` is a quirk of string defaults."""
    inner = f"{indent}   "
    lines, text, level = printer.type_of(schema, inner, place, Shown.DESCRIPTION_AND_DEFAULT)
    trailing = ""
    if isinstance(schema, dict) and not schema.keys() <= TYPE_ALONE:
        face = printer.face(schema, place)
        description = description_of(face, place, printer.report)
        default = default_text(face, place, printer.report, quoted=quoted)
        if description is not None and description != hidden:
            trailing = trailing_comment(f"{description} {default}" if default else description, inner)
        elif default:
            trailing = trailing_comment(default, inner)
    return Variant(lines + variant(text, level), trailing, level)


def share_kind(printer: Printer, kind: str, schemas: list[Json], place: Place) -> list[Json] | None:
    """The variants of a union if the `type` next to them adds nothing; otherwise None.

    That is so if each variant has that type, lists its values, or has no type and is given this one:
    `{"type": "object", "oneOf": [{"$ref": "#/$defs/Circle"}, {"required": ["width"]}]}`.
    """
    shared: list[Json] = []
    for schema in schemas:
        if not isinstance(schema, dict):
            return None
        face = printer.face(schema, place)
        own = face.get("type")
        if own == kind or (own == "integer" and kind == "number"):
            shared.append(schema)
        elif own is not None:
            return None
        elif "enum" in face or "const" in face:
            shared.append(schema)
        elif face is schema and face.keys().isdisjoint(("oneOf", "anyOf", "allOf")):
            shared.append({"type": kind, **schema})
        else:
            return None
    return shared


# Most properties have only these, and print nothing above them but a description.
_LITTLE = frozenset({"type", "description", "default", "enum", "items", "properties", "required", "nullable"})

_SAID_OF_A_UNION = SAID | {"anyOf"}


def object_text(printer: Printer, schema: dict[str, Json], indent: str, place: Place) -> str:
    """`{…}` with one entry per property, in the schema's order."""
    out = ["{\n"]
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        if properties is not None:
            printer.report.lose(place, "properties", "Properties must be an object.")
        properties = {}
    names = schema.get("required")
    required: dict[str, None] = {}
    if isinstance(names, list):
        required = {name: None for name in names if isinstance(name, str)}
        if not all(isinstance(name, str) for name in names):
            printer.report.lose(place, "required", "The names of required properties must be strings.")
    elif names is not None:
        printer.report.lose(place, "required", "Required properties must be a list of names.")

    printer.guards += 1
    inside: Place = (place, "properties")
    types: list[str] = []
    for key, value in properties.items():
        name = property_key(key)
        lines, text = _property(printer, name if key in required else f"{name}?", value, indent, (inside, key))
        out.append(lines)
        types.append(text)
    undeclared = [property_key(name) for name in required if name not in properties]
    out.extend([f"{indent}{name}: any,\n" for name in undeclared])
    if not schema.keys() <= PLAIN:
        if not properties.keys() <= required.keys():
            types.append("undefined")
        out.append(_index_signature(printer, schema, types, indent, place))
    printer.guards -= 1

    out.append(f"{indent}}}")
    return "".join(out)


def _property(printer: Printer, key: str, schema: Json, indent: str, place: Place) -> tuple[str, str]:
    """The lines of one property, and its type. `key` is everything before the colon."""
    if not isinstance(schema, dict):
        _, text, _ = printer.type_of(schema, indent, place, Shown.ALL)
        return f"{indent}{key}: {text},\n", text
    face = schema
    if not schema.keys() <= PLAIN:
        if "oneOf" in schema or "anyOf" in schema:
            printed = _property_union(printer, key, schema, indent, place)
            if printed is not None:
                return printed
        face = printer.face(schema, place)
    before, text, _ = printer.type_of(schema, f"{indent}    ", place, Shown.ALL)
    text = before + text
    return _entry(printer, key, face, text, indent, place), text


def _entry(printer: Printer, key: str, face: dict[str, Json], text: str, indent: str, place: Place) -> str:
    """The lines of a property whose type is already printed."""
    report = printer.report
    line = f"{indent}{key}: {text},"
    if "default" in face:
        line = f"{line} // {default_text(face, place, report)}"
    if face.keys() <= _LITTLE and isinstance(description := face.get("description", ""), str):
        return f"{comment(description, indent) if 'description' in face else ''}{line}\n"
    lines = f"{annotation_lines(face, description_of(face, place, report), indent, place, report)}{line}\n"
    # The annotations of a reference are repeated for every property that uses it.
    if "$ref" in face or "allOf" in face:
        printer.grow(len(lines) - len(text), place)
    return lines


def _property_union(
    printer: Printer, key: str, schema: dict[str, Json], indent: str, place: Place
) -> tuple[str, str] | None:
    """A property that is a union, one variant a line; None if it is more than a union."""
    keyword = "oneOf" if "oneOf" in schema else "anyOf"
    # Schema generators write optional arguments like this, so it gets a short cut.
    if schema.keys() <= _SAID_OF_A_UNION and (text := short_union(schema["anyOf"])):
        return _entry(printer, key, schema, text, indent, place), text
    schemas = printer.sole_union(schema, keyword, place)
    if not schemas:
        return None
    report = printer.report
    printer.check_keywords(schema, place)
    description = description_of(schema, place, report)
    # An object prints its description itself, before its brace; where it comes first, it does so instead of the
    # property, if both are equal, and instead of the comment after it.
    first = schemas[0]
    said = None
    if isinstance(first, dict) and first.get("type") == "object" and "oneOf" not in first:
        said = description_of(first, place, report)
    above = description if description != said else None
    printer.enter(place)
    variants: list[Variant] = []
    for index, one in enumerate(schemas):
        hidden = said if index == 0 and above is not None and said is not None else description
        variants.append(print_variant(printer, one, indent, ((place, keyword), index), hidden=hidden))
    printer.leave()
    texts = [f"{one.text}{one.trailing}" for one in variants]
    if printer.is_nullable(schema, place) and "null" not in texts:
        texts.append("null")
    if fits_on_a_line(keyword, variants):
        text = " | ".join(texts)
        return _entry(printer, key, schema, text, indent, place), text

    default = default_text(schema, place, report)
    out = [
        title_lines(schema, indent, place, report),
        example_lines(schema, indent, place, report),
        comment(above, indent) if above is not None else "",
        constraint_lines(schema, indent, place, report),
        f"{indent}// {default}\n" if default else "",
        f"{indent}{key}:\n",
        *[f"{indent} | {text}\n" for text in texts],
        f"{indent},\n",
    ]
    return "".join(out), "\n"


def _index_signature(printer: Printer, schema: dict[str, Json], types: list[str], indent: str, place: Place) -> str:
    """`[key: string]: T`, for keys that are not named: one at most, since TypeScript allows no second.

    `types` are those of the named properties. The signature has to allow them as well.
    """
    out: list[str] = []
    schemas: list[tuple[Json, Place]] = []
    patterns = schema.get("patternProperties")
    if isinstance(patterns, dict):
        for pattern, value in patterns.items():
            out.append(f"{indent}// keys matching {pattern_literal(pattern)}\n")
            schemas.append((value, ((place, "patternProperties"), pattern)))
    elif patterns is not None:
        printer.report.lose(place, "patternProperties", "patternProperties must be an object.")
    others = schema.get("additionalProperties", False)
    if others is not False:
        schemas.append((others, (place, "additionalProperties")))
    if not schemas:
        return ""
    if len(schemas) == 1 and not types:
        out.append(_property(printer, "[key: string]", schemas[0][0], indent, schemas[0][1])[0])
        return "".join(out)

    texts: list[str] = []
    for value, where in schemas:
        before, text, level = printer.type_of(value, f"{indent}    ", where, Shown.NOTHING)
        texts.append(before + variant(text, level))
    if "any" in texts:
        texts = ["any"]
    elif any("\n" in text for text in types):
        # Do not repeat whole objects here. `T | any` allows everything and still shows T.
        texts.append("any")
        printer.report.lose(
            place,
            "additionalProperties",
            "The type of other keys must also allow the named keys, so it is widened to any.",
        )
    else:
        texts.extend(types)
    out.append(f"{indent}[key: string]: {' | '.join(dict.fromkeys(texts))},\n")
    return "".join(out)
