"""docs/reference/server-errors.md says what problems.py does."""

from __future__ import annotations

import re

from harmonia.errors import EngineError, ErrorCode, HarmonyError, InputError, StoreError, StreamError, ToolError
from harmonia.serve.wire import error_responses as problems
from harmonia.serve.wire.error_responses import api_error_of
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "reference" / "server-errors.md").read_text()
KINDS: tuple[type[HarmonyError], ...] = (InputError, StreamError, ToolError, EngineError, StoreError)


def rows() -> list[str]:
    """The table of codes, as it should be."""
    found: list[str] = []
    for code in problems._TABLE:  # pyright: ignore[reportPrivateUsage]
        problem = api_error_of(InputError(code, ""))
        found.append(f"| `{code.value}` | {problem.status} | `{problem.type}` | `{problem.code}` |")
    return found


def kind_rows() -> list[str]:
    # A code that is in no table, so that the kind decides.
    problems_by_kind = {kind: api_error_of(kind(ErrorCode.ALIAS_TOO_LATE, "")) for kind in KINDS}
    return [f"| `{kind.__name__}` | {told.status} | `{told.type}` |" for kind, told in problems_by_kind.items()]


def test_the_table_of_codes_is_that_of_the_program() -> None:
    assert re.findall(r"^\| `[a-z]+\..*\|$", PAGE, re.MULTILINE) == rows()


def test_the_table_of_kinds_is_that_of_the_program() -> None:
    assert re.findall(r"^\| `[A-Z]\w+Error` .*\|$", PAGE, re.MULTILINE) == kind_rows()
