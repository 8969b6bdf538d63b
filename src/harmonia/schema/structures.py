"""Objects, their properties and their index signatures as TypeScript.

    {
    // description
    key?: type, // default: …
    [key: string]: type,
    }

An object is open in JSON Schema unless it says otherwise; the reference prints neither, so only an explicit
`additionalProperties` that allows something becomes an index signature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harmonia.schema.annotations import (
    constraint_lines,
    default_text,
    description_of,
    example_lines,
    title_lines,
)
from harmonia.schema.keywords import PLAIN, SAID
from harmonia.schema.literals import comment, pattern_literal, property_key
from harmonia.schema.paths import Place
from harmonia.schema.printed import Shown, variant
from harmonia.schema.unions import Variant, fits_on_a_line, print_variant, short_union
from harmonia.schema.values import Json

if TYPE_CHECKING:
    from harmonia.schema.printer import Printer


# All that most properties say: they have nothing to print above them but a description.
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
            printer.report.lose(place, "required", "A name of a required property must be a string.")
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
    """The lines of one property, and its type. `key` is all that stands before the colon."""
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
    """A property of which everything but the type is still to be printed."""
    report = printer.report
    line = f"{indent}{key}: {text},"
    if "default" in face:
        line = f"{line} // {default_text(face, place, report)}"
    if face.keys() <= _LITTLE and isinstance(description := face.get("description", ""), str):
        return f"{comment(description, indent) if 'description' in face else ''}{line}\n"
    description = description_of(face, place, report)
    lines = (
        f"{title_lines(face, indent, place, report)}"
        f"{comment(description, indent) if description is not None else ''}"
        f"{example_lines(face, indent, place, report)}"
        f"{constraint_lines(face, indent, place, report)}"
        f"{line}\n"
    )
    # What a reference says of itself is repeated for every property that uses it.
    if "$ref" in face or "allOf" in face:
        printer.grow(len(lines) - len(text), place)
    return lines


def _property_union(
    printer: Printer, key: str, schema: dict[str, Json], indent: str, place: Place
) -> tuple[str, str] | None:
    """A property that is a union, one variant to a line; None where it is more than a union."""
    keyword = "oneOf" if "oneOf" in schema else "anyOf"
    # What generators of schemas make of an optional argument: worth a way of its own.
    if schema.keys() <= _SAID_OF_A_UNION and (text := short_union(schema["anyOf"])):
        return _entry(printer, key, schema, text, indent, place), text
    schemas = printer.sole_union(schema, keyword, place)
    if not schemas:
        return None
    report = printer.report
    printer.check_keywords(schema, place)
    description = description_of(schema, place, report)
    # An object prints its description itself, before its brace; where it comes first, it does so instead of the
    # property, if both say the same, and instead of the line behind it.
    said = _description_of_object(printer, schemas[0], place)
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


def _description_of_object(printer: Printer, schema: Json, place: Place) -> str | None:
    if not isinstance(schema, dict) or schema.get("type") != "object" or "oneOf" in schema:
        return None
    return description_of(schema, place, printer.report)


def _index_signature(printer: Printer, schema: dict[str, Json], types: list[str], indent: str, place: Place) -> str:
    """`[key: string]: T`, for keys that are not named: one at most, since TypeScript allows no second.

    `types` are those of the named properties. The signature has to admit them as well.
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
        # Repeating whole objects here would help nobody. `T | any` admits everything and still shows T.
        texts.append("any")
        printer.report.lose(
            place, "additionalProperties", "The type of other keys must admit the named ones, so it admits all."
        )
    else:
        texts.extend(types)
    out.append(f"{indent}[key: string]: {' | '.join(dict.fromkeys(texts))},\n")
    return "".join(out)
