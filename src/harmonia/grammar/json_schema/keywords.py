"""Keywords that no engine is held to say nothing with some of their values: then nothing is lost."""

from __future__ import annotations

from typing import Any, Final

_IDLE: Final[dict[str, tuple[Any, ...]]] = {
    "not": (False,),
    "uniqueItems": (False,),
    "dependentRequired": ({},),
    "dependentSchemas": ({},),
    "dependencies": ({},),
    # Every name is a string.
    "propertyNames": (True, {}, {"type": "string"}),
    "unevaluatedProperties": (True, {}),
    "unevaluatedItems": (True, {}),
    "extends": ({},),
}


def says_nothing(keyword: str, value: Any) -> bool:
    """Whether every value fits the keyword with this value."""
    return value in _IDLE.get(keyword, ())
