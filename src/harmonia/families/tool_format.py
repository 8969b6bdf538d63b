"""The names of the tool formats."""

from __future__ import annotations

from enum import StrEnum


class ToolFormat(StrEnum):
    """How a family of models writes its calls and its thoughts."""

    HARMONY = "harmony"
    HERMES = "hermes"
    OPENAI = "openai"
    GEMINI = "gemini"
    GRANITE = "granite"
    TEXT = "text"
