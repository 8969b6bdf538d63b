"""Arrays and tuples as TypeScript."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harmonia.schema.paths import Place
from harmonia.schema.printed import Shown, operand
from harmonia.schema.values import Json

if TYPE_CHECKING:
    from harmonia.schema.printer import Printer


def array_text(printer: Printer, schema: dict[str, Json], indent: str, place: Place) -> str:
    """`T[]`, or a tuple where the first items have schemas of their own."""
    items = schema.get("items")
    printer.guards += 1
    if isinstance(items, list) and items:
        text = _tuple_text(printer, schema, items, "items", "additionalItems", indent, place)
    elif isinstance(prefix := schema.get("prefixItems"), list) and prefix:
        text = _tuple_text(printer, schema, prefix, "prefixItems", "items", indent, place)
    elif "items" in schema:
        comment, item, level = printer.type_of(items, indent, (place, "items"), Shown.NOTHING)
        text = f"{comment}{operand(item, level)}[]"
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
        comment, text, level = printer.type_of(item, indent, ((place, keyword), index), Shown.NOTHING)
        parts.append(f"{comment}{text}" if index < required else f"{comment}{operand(text, level)}?")
    rest = schema.get(rest_keyword, True)
    if rest is not False and not (isinstance(longest, int) and longest <= len(prefix)):
        comment, text, level = printer.type_of(rest, indent, (place, rest_keyword), Shown.NOTHING)
        parts.append(f"{comment}...{operand(text, level)}[]")
    return f"[{', '.join(parts)}]"
