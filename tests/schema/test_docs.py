"""docs/concepts/schemas.md tells the truth: its code runs, and prints what the page shows."""

from __future__ import annotations

import json
import re
from contextlib import redirect_stdout
from io import StringIO

import pytest

from harmonia.schema import to_typescript
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "concepts" / "schemas.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
TYPES, ENTRIES = (
    re.findall(r"^\| `(.*?)`(?: or `.*?`)? \| `(.*?)` \|$", table.replace("\\|", "|"), re.MULTILINE)
    for table in re.findall(r"\| (?:Type|Entry) \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE)
)


def test_the_page_has_examples() -> None:
    assert (len(EXAMPLES), len(TYPES), len(ENTRIES)) == (3, 17, 4)
    assert PAGE.count("```python") == len(EXAMPLES)


@pytest.mark.parametrize(("code", "output"), EXAMPLES)
def test_an_example_prints_what_the_page_shows(code: str, output: str) -> None:
    printed = StringIO()
    with redirect_stdout(printed):
        exec(code, {})
    assert printed.getvalue() == output


@pytest.mark.parametrize(("schema", "text"), TYPES)
def test_a_row_of_the_first_table_is_true(schema: str, text: str) -> None:
    assert to_typescript(json.loads(schema)).text == text


@pytest.mark.parametrize(("schema", "text"), ENTRIES)
def test_a_row_of_the_second_table_is_true(schema: str, text: str) -> None:
    wrapped = {"type": "object", "properties": {"x": json.loads(schema)}}
    assert to_typescript(wrapped).text == f"{{\n{text}\n}}"
