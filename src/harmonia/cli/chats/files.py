"""Text files as part of a question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harmonia.errors import ErrorCode, InputError, Position

_FIRST_LINE: Final = re.compile(r"--- (.+) ---\n")


def with_files(question: str, paths: Sequence[Path]) -> str:
    """The texts of the files, each between lines with its name, and then the question."""
    parts = [f"--- {path.name} ---\n{_read(path)}\n--- end of {path.name} ---" for path in paths]
    return "\n\n".join([*parts, question] if question else parts)


def without_files(question: str) -> str:
    """The question without its files; their names, if there was no question."""
    names: list[str] = []
    rest = question
    while (found := _FIRST_LINE.match(rest)) is not None:
        name = found.group(1)
        end = f"\n--- end of {name} ---"
        at = rest.find(end, found.end() - 1)
        if at < 0:
            break
        names.append(name)
        rest = rest[at + len(end) :].removeprefix("\n\n")
    return rest or ", ".join(names)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig").rstrip("\n")
    except OSError as error:
        raise InputError(ErrorCode.RUN_INVALID_OPTION, f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(
            ErrorCode.VOCABULARY_INVALID_UTF8,
            f"{path} is not UTF-8 text: invalid at byte {error.start}",
            Position(path=str(path)),
        ) from error
