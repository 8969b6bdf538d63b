"""The annotations of a schema as comments: titles, descriptions, examples, constraints, defaults.

Positions and spellings are the reference's where it prints the keyword at all; the others follow its style: a line
above, `keyword: value`. No text can leave its comment.
"""

from __future__ import annotations

from harmonia.errors import ErrorCode
from harmonia.schema.document import Place, Report
from harmonia.schema.keywords import CONSTRAINTS, PLAIN
from harmonia.schema.literals import (
    NotJsonError,
    bare_string,
    comment,
    json_text,
    pattern_literal,
    string_literal,
)
from harmonia.schema.values import Json


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
