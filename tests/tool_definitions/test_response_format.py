"""One reader for response formats."""

from __future__ import annotations

from typing import Any

import pytest

from harmonia import ErrorCode, InputError
from harmonia.messages import ResponseFormat
from harmonia.tool_definitions import (
    JSON_OBJECT,
    Format,
    JsonSchema,
    TextFormat,
    is_required,
    read_response_format,
    response_format_of,
)

CODE = ErrorCode.RUN_INVALID_OPTION
SCHEMA: Any = {"type": "array"}
FIELDS: Any = {"name": "list", "schema": SCHEMA, "description": "A list."}


@pytest.mark.parametrize(
    "given",
    [FIELDS, {"type": "json_schema", **FIELDS}, {"type": "json_schema", "json_schema": {**FIELDS, "strict": True}}],
)
@pytest.mark.parametrize("exact", [True, False])
def test_every_spelling_is_the_same_form(given: Any, exact: bool) -> None:
    assert read_response_format(given, code=CODE, exact=exact) == ResponseFormat("list", SCHEMA, "A list.")


def test_a_text_has_no_form_and_an_object_may_be_any() -> None:
    assert read_response_format({"type": "text"}, code=CODE) is None
    assert read_response_format({"type": "json_object"}, code=CODE) == JSON_OBJECT


def test_defaults_are_for_what_is_missing() -> None:
    given = {"type": "json_schema", "schema": None}
    read = read_response_format(given, code=CODE, defaults={"name": "answer", "schema": {}})
    assert read == ResponseFormat("answer", {})


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("json", "$"),
        ({"type": "xml"}, "$.type"),
        ({"schema": {}}, "$.name"),
        ({"name": "x"}, "$.schema"),
        ({"name": "x", "schema": []}, "$.schema"),
        ({"name": "x", "schema": {}, "description": 5}, "$.description"),
        ({"name": "x", "schema": {}, "x": 1}, "$.x"),
        ({"type": "json_object", "name": "x"}, "$.name"),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": {}}, "x": 1}, "$.x"),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": {}, "x": 1}}, "$.json_schema.x"),
    ],
)
def test_what_is_not_a_form_is_refused_with_its_path(given: Any, path: str) -> None:
    with pytest.raises(InputError) as caught:
        read_response_format(given, code=CODE, exact=True)
    assert (caught.value.code, caught.value.at.path) == (CODE, path)


@pytest.mark.parametrize(
    ("given", "form", "required"),
    [
        (None, None, False),
        (TextFormat(), None, False),
        (Format("text"), None, False),
        (Format("json_object"), JSON_OBJECT, True),
        (TextFormat("json_object"), JSON_OBJECT, True),
        (Format("json_schema", JsonSchema("x")), ResponseFormat("x", {}), False),
        (Format("json_schema", JsonSchema("x", SCHEMA, strict=True)), ResponseFormat("x", SCHEMA), True),
        (TextFormat("json_schema", "x", SCHEMA, "X.", True), ResponseFormat("x", SCHEMA, "X."), True),
    ],
)
def test_the_formats_of_both_apis_mean_the_same(given: Any, form: ResponseFormat | None, required: bool) -> None:
    assert (response_format_of(given), is_required(given)) == (form, required)
