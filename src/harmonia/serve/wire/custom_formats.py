"""The `format` of a custom tool, as a client wrote it: bounded, checked where that is possible, and told to the model,
because a grammar cannot be declared."""

from __future__ import annotations

from collections.abc import Iterable

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.grammar import TextForm
from harmonia.run.constraints.validation import find_fault
from harmonia.serve.config.settings import Limits


def check_size(form: TextForm, path: str, limits: Limits) -> None:
    """Raises the client's error where the form is too long."""
    size = len(form.definition.encode())
    if size > limits.schema_bytes:
        raise InputError(
            ErrorCode.SERVE_TOO_LARGE,
            f"the grammar has {size} bytes; at most {limits.schema_bytes} are taken",
            Position(path=path),
        )


def check_forms(forms: Iterable[tuple[TextForm, str, str]]) -> None:
    """Raises the client's error for the first form that is none; each is given with the tool's name and its path. It
    may take seconds. What nobody here can read, without llguidance, is told to the model, and an engine that takes
    grammars says what it thinks of it."""
    for form, name, path in forms:
        fault = find_fault(form, name)
        if fault is not None:
            at = fault.at.character
            place = "" if at is None else f" (at {_place(form.definition, at)})"
            raise InputError(fault.code, f"{fault.message}{place}", Position(path=path))


def _place(definition: str, character: int) -> str:
    if "\n" not in definition.strip():
        return f"character {character}"
    before = definition[:character]
    line = before.count("\n") + 1
    return f"line {line}, character {len(before.rpartition(chr(10))[2])}"


def describe_form(form: TextForm) -> str:
    """What the model reads."""
    kind = "Lark grammar" if form.syntax == "lark" else "regular expression"
    return f"The input is plain text, not JSON, and follows this {kind}:\n{form.definition}"
