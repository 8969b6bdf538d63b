"""The reference and the drop-in, side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from harmonia import openai_harmony


class Side(NamedTuple):
    """One of the two packages."""

    module: Any
    encoding: Any


OURS = Side(openai_harmony, openai_harmony.load_harmony_encoding("HarmonyGptOss"))


def outcome(do: Callable[[], object]) -> tuple[str, object]:
    """What a call gives, or the name and the words of what it raises."""
    try:
        return "gives", do()
    except Exception as error:
        return type(error).__name__, str(error)
