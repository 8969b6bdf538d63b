"""Text files as part of a question."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harmonia.errors import ErrorCode, InputError, Position


def with_files(question: str, paths: Sequence[Path]) -> str:
    """The question behind the texts of the files, each between lines with its name."""
    parts = [f"--- {path.name} ---\n{_read(path)}\n--- end of {path.name} ---" for path in paths]
    return "\n\n".join([*parts, question] if question else parts)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig").rstrip("\n")
    except OSError as error:
        raise InputError(ErrorCode.RUN_INVALID_OPTION, f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(
            ErrorCode.VOCABULARY_INVALID_UTF8,
            f"{path} is no text: not UTF-8 at byte {error.start}",
            Position(path=str(path)),
        ) from error
