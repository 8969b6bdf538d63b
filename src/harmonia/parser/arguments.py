"""What is sent to a tool: whether it is JSON, and if not, where it stops being it."""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any, Final, NoReturn

_JSON_TYPE: Final = re.compile(r"(?:<\|constrain\|>\s*)?(?:application/)?json", re.IGNORECASE)


def is_json_type(content_type: str | None) -> bool:
    """Whether a content type promises JSON."""
    return content_type is not None and _JSON_TYPE.fullmatch(content_type) is not None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    return value if isfinite(value) else _refuse_constant(text)


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


def read_json(text: str) -> Any:
    """The value of a JSON text; ValueError for anything else, also NaN, numbers without bounds and too deep nesting."""
    try:
        return _DECODER.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def json_fault(text: str) -> int | None:
    """The offset at which a text stops being JSON; None where it is JSON."""
    try:
        read_json(text)
    except ValueError as error:
        return min(getattr(error, "pos", 0), len(text))
    return None
