"""What does not fit a JSON Schema, said so that a model can mend it: where, what was found, what is expected."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, cast

from harmonia.errors import ErrorCode, Position, ToolError
from harmonia.json_codec import json_path

_SHOWN_FAULTS: Final = 3
_SHOWN_CHARS: Final = 120
_SHOWN_NAMES: Final = 20


class MisfitError(ToolError):
    """A value that does not fit its schema. `reason` says why, and has no word in it but the schema's."""

    def __init__(self, message: str, at: Position, reason: str | None) -> None:
        super().__init__(ErrorCode.TOOL_INVALID_ARGUMENTS, message, at)
        self.reason = reason


def nearest_fault(error: Any, relevance: Callable[[Any], Any]) -> Any:
    """Of a union that nothing fits, the fault inside the member that comes nearest, if one does."""
    while error.context and error.validator in ("anyOf", "oneOf"):
        members: dict[Any, list[Any]] = {}
        for inner in error.context:
            members.setdefault(inner.schema_path[0], []).append(inner)
        # A member of another type is not what the model tried; what is left must be one.
        tried = [faults for faults in members.values() if not any(f.validator == "type" and not f.path for f in faults)]
        if len(tried) > 1:
            # Members are often told apart by a literal, such as `"kind": "circle"`.
            tried = [faults for faults in tried if not any(f.validator in ("const", "enum") for f in faults)]
        if len(tried) != 1:
            break
        error = max(tried[0], key=relevance)
    return error


def misfit(name: str, faults: list[Any]) -> MisfitError:
    """The error for arguments in which jsonschema found these faults, the most telling first."""
    said = "; ".join(dict.fromkeys(_describe(fault) for fault in faults[:_SHOWN_FAULTS]))
    rest = len(faults) - _SHOWN_FAULTS
    more = f"; and {rest} more" if rest > 0 else ""
    path = json_path(faults[0].absolute_path)
    message = f"the arguments do not fit {name}: {said}{more}"
    return MisfitError(message, Position(path=path), _reason(faults[0]))


def _reason(fault: Any) -> str | None:
    """Why a value does not fit, in words of the schema alone: what was said of the value may be the model's."""
    expected: object = fault.validator_value
    if fault.validator == "required" and isinstance(expected, list):
        missing = [each for each in cast("list[str]", expected) if each not in fault.instance]
        return f"it lacks {list_names(missing)}"
    return f"{fault.validator} is not met" if isinstance(fault.validator, str) else None


def _describe(fault: Any) -> str:
    path = json_path(fault.absolute_path)
    value, expected, schema = fault.instance, fault.validator_value, cast("dict[str, Any]", fault.schema)
    match fault.validator:
        case "type":
            types = expected if isinstance(expected, str) else " or ".join(cast("list[str]", expected))
            return f"{path} is {show_value(value)}, which is of type {_type_of(value)}; expected {types}"
        case "required" if isinstance(expected, list):  # the third draft has a boolean
            missing = [each for each in cast("list[str]", expected) if each not in value]
            given = list_names(list(value)) or "nothing"
            return f"{path} lacks {list_names(missing)}; it has {given}"
        case "enum":
            choice = ", ".join(show_value(each) for each in cast("list[Any]", expected)[:_SHOWN_NAMES])
            return f"{path} is {show_value(value)}; expected one of {choice}"
        case "const":
            return f"{path} is {show_value(value)}; expected {show_value(expected)}"
        case "additionalProperties" if expected is False:
            known = list(cast("dict[str, Any]", schema.get("properties", {})))
            patterns = list(cast("dict[str, Any]", schema.get("patternProperties", {})))
            extra = [
                each
                for each in cast("dict[str, Any]", value)
                if each not in known and not any(re.search(pattern, each) for pattern in patterns)
            ]
            names = nearest(extra[0], known) if known and extra else []
            names += [f"names that match {pattern}" for pattern in patterns]
            return f"{path} has {list_names(extra)}, which it does not accept; it accepts {list_names(names) or 'none'}"
        case "anyOf" | "oneOf":
            return f"{path} is {show_value(value)}, which matches none of {show_value(expected)}"
        case False | None:
            return f"{path} is {show_value(value)}; nothing is allowed here"
        case keyword:
            return f"{path} is {show_value(value)}; expected {keyword} {show_value(expected)}"


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


# ── words ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def nearest(word: str, names: Iterable[str]) -> list[str]:
    """The names, those first that look most like the word."""
    word = word[:_SHOWN_CHARS]  # a model may write without end, and comparing is not linear

    def unlikeness(name: str) -> tuple[float, str]:
        # A model often has the right tool in the wrong namespace.
        pairs = ((word, name), (word.rpartition(".")[2], name.rpartition(".")[2]))
        return -max(difflib.SequenceMatcher(None, a.lower(), b.lower()).ratio() for a, b in pairs), name

    return sorted(names, key=unlikeness)


def list_names(names: Sequence[str]) -> str:
    """The names in a sentence; of many, the first, and how many more there are."""
    shown = ", ".join(map(shorten, names[:_SHOWN_NAMES]))
    rest = len(names) - _SHOWN_NAMES
    return f"{shown} and {rest} more" if rest > 0 else shown


def show_value(value: Any) -> str:
    """A JSON value as JSON, cut where it is long."""
    return shorten(json.dumps(value, ensure_ascii=False, default=str))


def shorten(text: str) -> str:
    """The beginning of a text that may be of any length."""
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
