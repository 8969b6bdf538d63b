"""JSON Schema to TypeScript that compiles.

    schema ─ $ref, allOf, anyOf, oneOf ──► parts ──► A & (B | C)
           └ const, enum, type ──────────► part
           └ annotations ────────────────► comments

1. Where the reference loses nothing, the text is the reference's, byte for byte.
2. For any schema the text is one TypeScript type: no string leaves its quotes, no comment its line.
3. A value that is valid under the schema, without keys that the schema does not mention, is assignable to the type.
   The type may allow more; what it cannot express becomes a comment, or else a loss in the report.
4. References are printed in place. Only those that lead back to themselves become named helper types.
5. Work and output are bounded by `SchemaLimits`. Nesting never exhausts the stack: it is an `InputError`.
"""

from __future__ import annotations

from typing import Final

from harmonia.errors import ErrorCode
from harmonia.schema.document import (
    CLOSING,
    INEXPRESSIBLE,
    KNOWN,
    PLAIN,
    PRIMITIVES,
    TYPE_ALONE,
    TYPE_AND_SAID,
    Declaration,
    Json,
    Place,
    References,
    Report,
    SchemaLimits,
    Steps,
    TypeScript,
    is_about_arrays,
    is_about_objects,
    is_of_kind,
    says_more_than_type,
    says_null,
    spelled,
)
from harmonia.schema.literals import Names, comment
from harmonia.schema.structures import (
    ANY,
    LEAVES,
    NEVER,
    Level,
    Printed,
    Shown,
    annotation_lines,
    array_text,
    default_text,
    description_of,
    intersection,
    object_text,
    share_kind,
    union_type,
    value_text,
)

# Deeper or larger schemas go to the printer, which enforces the limits.
_DEPTH: Final = 8
_PROPERTIES: Final = 500

_OBJECT: Final = frozenset({"type", "properties", "required", "additionalProperties"})
_PROPERTY: Final = _OBJECT | {"description", "default", "enum", "items"}
_ARRAY: Final = frozenset({"type", "items", "description"})
_PRIMITIVE: Final = frozenset({"type", "description", "default"})
_ENUM: Final = frozenset({"type", "enum", "description", "default"})


def plain_type(schema: Json, indent: str = "", depth: int = 0) -> str | None:
    """An object as TypeScript; None if it needs the printer."""
    if not isinstance(schema, dict) or schema.get("type") != "object" or not schema.keys() <= _OBJECT:
        return None
    properties, required = schema.get("properties"), schema.get("required", [])
    if (
        not isinstance(properties, dict)
        or not isinstance(required, list)
        or len(properties) > _PROPERTIES
        or depth > _DEPTH
        or schema.get("additionalProperties", False) is not False
        or not all([isinstance(name, str) and name in properties for name in required])
    ):
        return None
    lines = ["{\n"]
    for key, value in properties.items():
        line = _property(key if key in required else f"{key}?", value, indent, depth) if key.isidentifier() else None
        if line is None:
            return None
        lines.append(line)
    lines.append(f"{indent}}}")
    return "".join(lines)


def _property(key: str, schema: Json, indent: str, depth: int) -> str | None:
    if not isinstance(schema, dict) or not schema.keys() <= _PROPERTY:
        return None
    text = _value_type(schema, indent, depth)
    if text is None:
        return None
    line = f"{indent}{key}: {text},"
    if "default" in schema:
        default = _default(schema["default"], is_enum="enum" in schema)
        if default is None:
            return None
        line = f"{line} // default: {default}"
    if "description" in schema:
        description = schema["description"]
        if not isinstance(description, str) or not description.isprintable():
            return None
        line = f"{indent}// {description}\n{line}"
    return f"{line}\n"


def _value_type(schema: dict[str, Json], indent: str, depth: int) -> str | None:
    kind = schema.get("type")
    if not isinstance(kind, str):
        return None
    if kind in PRIMITIVES:
        if "enum" in schema:
            return _enum(schema) if kind == "string" and schema.keys() <= _ENUM else None
        return PRIMITIVES[kind] if schema.keys() <= _PRIMITIVE else None
    if kind == "object":
        return plain_type(schema, f"{indent}    ", depth + 1)
    if kind == "array" and schema.keys() <= _ARRAY:
        items = schema.get("items")
        if isinstance(items, dict):
            inner = items.get("type")
            if isinstance(inner, str) and inner in PRIMITIVES and len(items) == 1:
                return f"{PRIMITIVES[inner]}[]"
            text = plain_type(items, f"{indent}    ", depth + 1)
            return None if text is None else f"{text}[]"
    return None


def _enum(schema: dict[str, Json]) -> str | None:
    values = schema["enum"]
    if not isinstance(values, list) or not values:
        return None
    return " | ".join([f'"{value}"' for value in values]) if all(map(_is_plain_text, values)) else None


def _default(value: Json, *, is_enum: bool) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        # The reference reads larger integers as floats.
        return str(value) if -(1 << 63) <= value < 1 << 64 else None
    if _is_plain_text(value):
        return f"{value}" if is_enum else f'"{value}"'
    return None


def _is_plain_text(value: Json) -> bool:
    """Whether the string literal of a value is just the text in quotes."""
    return isinstance(value, str) and value.isprintable() and '"' not in value and "\\" not in value


class Printer:
    """Prints one document. Not reusable, because it counts what it has printed."""

    def __init__(
        self, document: dict[str, Json] | bool, owner: str, names: Names, limits: SchemaLimits, root_path: str
    ) -> None:
        self._document = document
        self._owner = owner
        self._names = names
        self._limits = limits
        self._depth = 0
        self._visited = 0
        self._size = 0
        self._declared_characters = 0
        # The references being printed, by the steps to their target, and the number of guards around each.
        self._active: dict[Steps, int] = {(): 0}
        self._named: dict[Steps, str] = {}
        self._aliases: dict[Steps, set[Steps]] = {}
        self._declarations: dict[str, Declaration] = {}
        self.report = Report(root_path)
        self.references = References(document if isinstance(document, dict) else {}, root_path)
        # The number of enclosing properties and items. TypeScript accepts a self-reference only inside one of these.
        self.guards = 0

    def print_document(self) -> TypeScript:
        try:
            before, text, _ = self.type_of(self._document, "", None, Shown.NOTHING)
        except RecursionError:
            # Only if the caller raised the limit or called from deep in its own stack.
            message = "The schema is nested deeper than Python's stack allows."
            self.report.refuse(ErrorCode.SCHEMA_TOO_DEEP, message, None)
        text = before + text
        if () in self._named:
            self._declarations[self._named[()]] = Declaration(self._named[()], text)
            text = self._named[()]
        return TypeScript(text, tuple(self._declarations.values()), self.report.losses)

    def type_of(self, schema: Json, indent: str, place: Place, shown: Shown) -> Printed:
        """Any schema. `indent` precedes its lines; `shown` is what its surroundings have already printed."""
        if not isinstance(schema, dict):
            if schema is True:
                return ANY
            if schema is False:
                return NEVER
            self.report.lose(place, "", "A schema must be an object or a boolean; this one is printed as any.")
            return ANY
        self.enter(place)
        kind = schema.get("type")
        # Most schemas are a type and a description, which a property prints above its key.
        if schema.keys() <= TYPE_AND_SAID if shown is Shown.ALL else len(schema) == 1:
            leaf = LEAVES.get(kind) if isinstance(kind, str) else None
            if leaf is not None:
                self._depth -= 1
                return leaf
        size = self._size
        if schema.keys() <= PLAIN:
            base = self._base(schema, indent, place)
            text, level = base if base is not None else ("any", Level.ATOM)
            before = ""
        else:
            before, text, level = self._composed(schema, indent, place, shown)
        if "nullable" in schema and self.is_nullable(schema, place) and not says_null(schema):
            text, level = _or_null(text, level, indent)
        if (shown is not Shown.ALL or kind == "object") and not schema.keys() <= TYPE_ALONE:
            before = self._lines_before(schema, indent, place, shown) + before
        self._depth -= 1
        # The children's texts are inside this one now: what is pending is what was, and this.
        self._size = size
        self.grow(len(before) + len(text), place)
        return before, text, level

    def enter(self, place: Place) -> None:
        """Count one more schema, one deeper. `type_of` does it for all but the unions that a property prints."""
        self._depth += 1
        if self._depth > self._limits.depth:
            message = f"The schema nests deeper than {self._limits.depth} levels, references followed."
            self.report.refuse(ErrorCode.SCHEMA_TOO_DEEP, message, place)
        self.count(1, place)

    def count(self, schemas: int, place: Place) -> None:
        """Count schemas that were looked at."""
        self._visited += schemas
        if self._visited > self._limits.schemas:
            message = f"The schema takes more than {self._limits.schemas} schemas to print, references followed."
            self.report.refuse(ErrorCode.SCHEMA_TOO_LARGE, message, place)

    def leave(self) -> None:
        self._depth -= 1

    def grow(self, characters: int, place: Place) -> None:
        """Count text that will be printed."""
        self._size += characters
        if self._size + self._declared_characters > self._limits.characters:
            message = f"The schema takes more than {self._limits.characters} characters to print."
            self.report.refuse(ErrorCode.SCHEMA_TOO_LARGE, message, place)

    # Annotations

    def face(self, schema: dict[str, Json], place: Place) -> dict[str, Json]:
        """The schema merged with what its reference says about itself, as a reader of a property should see it.

        This follows `$ref` and an `allOf` with one entry, the usual way to describe a reference before `$ref` could
        have siblings.
        """
        face = schema
        here: Place = place
        seen: set[int] = set()
        while id(schema) not in seen:
            seen.add(id(schema))
            reference, parts = schema.get("$ref"), schema.get("allOf")
            if isinstance(reference, str):
                target, _, here = self.references.resolve(reference, here)
            elif isinstance(parts, list) and len(parts) == 1:
                target = parts[0]
                here = ((here, "allOf"), 0)
            else:
                break
            if not isinstance(target, dict):
                break
            schema = target
            face = {**schema, **face}
        return face

    def _lines_before(self, schema: dict[str, Json], indent: str, place: Place, shown: Shown) -> str:
        """The lines before a type. An object repeats its description there, as in the reference."""
        described = shown is Shown.NOTHING or (schema.get("type") == "object" and "oneOf" not in schema)
        description = description_of(schema, place, self.report) if described else None
        if shown is Shown.ALL:
            return comment(description, indent) if description is not None else ""
        lines = annotation_lines(schema, description, indent, place, self.report)
        if shown is Shown.NOTHING and "default" in schema:
            lines += f"{indent}// {default_text(schema, place, self.report)}\n"
        return lines

    # Types

    def _base(self, schema: dict[str, Json], indent: str, place: Place) -> tuple[str, Level] | None:
        """The type by `const`, `enum` or `type` and its keywords; None if the schema has none of them."""
        if "const" in schema:
            return value_text(schema["const"], "const", place, self.report), Level.ATOM
        kind = spelled(schema.get("type"))
        if "enum" in schema:
            literals = self._enum(schema["enum"], kind, place)
            if literals:
                return " | ".join(literals), Level.UNION if len(literals) > 1 else Level.ATOM
        if isinstance(kind, str):
            return self._kind(kind, schema, indent, place), Level.ATOM
        if isinstance(kind, list):
            names = [name for name in kind if isinstance(name, str)]
            if len(names) < len(kind) or not names:
                self.report.lose(place, "type", "A list of types must contain at least one type name.")
            # In a list of types, the reference prints a bare object like this.
            bare = () if is_about_objects(schema) else ("object",)
            texts = [name if name in bare else self._kind(name, schema, indent, place) for name in names]
            if texts:
                return " | ".join(texts), Level.UNION if len(texts) > 1 else Level.ATOM
        elif kind is not None:
            self.report.lose(place, "type", "A type must be a name or a list of names.")
        if is_about_objects(schema):
            return object_text(self, schema, indent, place), Level.ATOM
        if is_about_arrays(schema):
            return array_text(self, schema, indent, place), Level.ATOM
        return None

    def _kind(self, kind: str, schema: dict[str, Json], indent: str, place: Place) -> str:
        text = PRIMITIVES.get(kind)
        if text is not None:
            return text
        if kind == "object":
            return object_text(self, schema, indent, place)
        if kind == "array":
            return array_text(self, schema, indent, place)
        if kind == "null":
            return "null"
        if kind != "any":
            self.report.lose(place, "type", f"{kind!r} is not a JSON Schema type; it is printed as any.")
        return "any"

    def _enum(self, values: Json, kind: Json, place: Place) -> list[str]:
        """The values as literal types, without those that are not of the declared type and so can never be valid."""
        if not isinstance(values, list) or not values:
            if values is not None:
                self.report.lose(place, "enum", "An enum must be a list of at least one value.")
            return []
        kinds = [kind] if isinstance(kind, str) else kind
        fitting = values
        if isinstance(kinds, list):
            fitting = [value for value in values if any(is_of_kind(value, name) for name in kinds)]
            if not fitting:
                fitting = values
                why = "No value of the enum has this type; the values are printed without it."
                self.report.lose(place, "type", why)
        return [value_text(value, "enum", place, self.report) for value in fitting]

    def is_nullable(self, schema: dict[str, Json], place: Place) -> bool:
        nullable = schema.get("nullable")
        if nullable is not None and not isinstance(nullable, bool):
            self.report.lose(place, "nullable", "nullable must be a boolean.")
        return nullable is True

    def _composed(self, schema: dict[str, Json], indent: str, place: Place, shown: Shown) -> Printed:
        """A schema with keywords that the reference does not read, or with `oneOf`."""
        self.check_keywords(schema, place)
        reference = schema.get("$ref")
        unions = {keyword: self.variants(schema, keyword, place) for keyword in ("allOf", "oneOf", "anyOf")}
        parts: list[Printed] = []

        base = None if self._is_said_by(schema, unions, place) else self._base(schema, indent, place)
        if base is not None:
            parts.append(("", *base))
        # The annotations of a reference are shown with this schema, unless this schema overrides them.
        passed = shown if "description" not in schema else Shown.NOTHING
        if isinstance(reference, str):
            parts.append(self._reference(reference, indent, place, passed))
        every = unions["allOf"]
        for index, part in enumerate(every):
            inner = passed if len(every) == 1 else Shown.NOTHING
            parts.append(self.type_of(part, indent, ((place, "allOf"), index), inner))
        for keyword in ("oneOf", "anyOf"):
            if unions[keyword]:
                parts.append(union_type(self, keyword, unions[keyword], indent, place))
        return parts[0] if len(parts) == 1 else intersection(parts)

    def check_keywords(self, schema: dict[str, Json], place: Place) -> None:
        """Report what will not be printed."""
        for keyword in schema:
            if keyword in KNOWN or (keyword in CLOSING and schema[keyword] is False):
                continue
            sentence = INEXPRESSIBLE.get(keyword, "This is not a JSON Schema keyword; it is not printed.")
            self.report.lose(place, keyword, sentence)
        if "$ref" in schema and not isinstance(schema["$ref"], str):
            self.report.lose(place, "$ref", "A reference must be a string.")

    def variants(self, schema: dict[str, Json], keyword: str, place: Place) -> list[Json]:
        """The list under `allOf`, `oneOf` or `anyOf`; empty if there is none."""
        if keyword not in schema:
            return []
        variants = schema[keyword]
        if isinstance(variants, list) and variants:
            return variants
        self.report.lose(place, keyword, f"{keyword} must be a list of at least one schema.")
        return []

    def sole_union(self, schema: dict[str, Json], keyword: str, place: Place) -> list[Json]:
        """The variants of a schema that consists only of this union; otherwise empty."""
        other = "anyOf" if keyword == "oneOf" else "oneOf"
        if not schema.keys().isdisjoint(("$ref", "allOf", other)) or says_more_than_type(schema):
            return []
        schemas = self.variants(schema, keyword, place)
        kind = schema.get("type")
        if kind is None or not schemas:
            return schemas
        return (isinstance(kind, str) and share_kind(self, kind, schemas, place)) or []

    def _is_said_by(self, schema: dict[str, Json], unions: dict[str, list[Json]], place: Place) -> bool:
        """Whether the schema's bare `type` is redundant. Replaces variants in `unions` that rely on it."""
        kind, reference = schema.get("type"), schema.get("$ref")
        if not isinstance(kind, str) or says_more_than_type(schema):
            return False
        if isinstance(reference, str) and share_kind(self, kind, [{"$ref": reference}], place):
            return True
        for keyword, schemas in unions.items():
            shared = share_kind(self, kind, schemas, place)
            if shared:
                unions[keyword] = shared
                return True
        return False

    # References

    def _reference(self, reference: str, indent: str, place: Place, shown: Shown) -> Printed:
        schema, steps, target_place = self.references.resolve(reference, place)
        if steps in self._active or steps in self._named:
            if self._closes_a_loop(steps, place):
                # `A = A | B` means no more than B, and TypeScript refuses it.
                why = "The reference leads back to itself without describing a value; it is printed as any."
                self.report.lose(place, "$ref", why)
                return ANY
            if steps not in self._named:
                self._named[steps] = self._names.claim(self._owner, steps)
            return "", self._named[steps], Level.ATOM
        self._active[steps] = self.guards
        printed = self.type_of(schema, indent, target_place, shown)
        if steps in self._named:
            # It refers back to itself. Print it again as a declaration of its own, without indentation.
            name = self._named[steps]
            before, text, _ = self.type_of(schema, "", target_place, Shown.NOTHING)
            self._declarations[name] = Declaration(name, before + text)
            self._declared_characters += len(before) + len(text)
            printed = "", name, Level.ATOM
        del self._active[steps]
        return printed

    def _closes_a_loop(self, steps: Steps, place: Place) -> bool:
        """Whether naming this type here would define it, or another type, only by itself.

        `_aliases` holds, for each type, the types it names outside of any property or item.
        """
        here = [active for active, guards in self._active.items() if guards == self.guards]
        seen = {steps}
        waiting = [steps]
        while waiting:
            one = waiting.pop()
            if one in here:
                return True
            new = self._aliases.get(one, set[Steps]()) - seen
            self.count(len(new), place)
            seen |= new
            waiting.extend(new)
        for active in here:
            self._aliases.setdefault(active, set()).add(steps)
        return False


def _or_null(text: str, level: Level, indent: str) -> tuple[str, Level]:
    if level is not Level.BLOCK:
        return f"{text} | null", Level.UNION
    line = f"\n{indent}"
    return f"{text if text.endswith(line) else text + line} | null", level
