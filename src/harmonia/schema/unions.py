"""`oneOf` and `anyOf` as unions.

The layout is the reference's for `oneOf`, one variant to a line with what is said of it behind it. The reference
does not read `anyOf`; it is printed alike, but on one line where no variant needs more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from harmonia.schema.annotations import default_text, description_of
from harmonia.schema.keywords import TYPE_ALONE
from harmonia.schema.literals import trailing_comment
from harmonia.schema.paths import Place
from harmonia.schema.printed import LEAVES, Level, Printed, Shown, variant
from harmonia.schema.values import Json

if TYPE_CHECKING:
    from harmonia.schema.printer import Printer


class Variant(NamedTuple):
    """A variant as printed, with the comment that stands behind it."""

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
    # A comment behind the last variant would swallow what follows, so the type goes on on the next line.
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
    comment, text, level = printer.type_of(schema, inner, place, Shown.DESCRIPTION_AND_DEFAULT)
    trailing = ""
    if isinstance(schema, dict) and not schema.keys() <= TYPE_ALONE:
        face = printer.face(schema, place)
        description = description_of(face, place, printer.report)
        default = default_text(face, place, printer.report, quoted=quoted)
        if description is not None and description != hidden:
            trailing = trailing_comment(f"{description} {default}" if default else description, inner)
        elif default:
            trailing = trailing_comment(default, inner)
    return Variant(comment + variant(text, level), trailing, level)


def share_kind(printer: Printer, kind: str, schemas: list[Json], place: Place) -> list[Json] | None:
    """The variants of a union, if the type `kind` beside them adds nothing to them; otherwise None.

    That is so where each variant has that type, or lists its values, or has no type and is given this one:
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
