"""What is said about one schema while it is printed: losses, gathered once each, and refusals.

Both name a place of the document. A part that is printed twice, because two references lead to it, is reported
once.
"""

from __future__ import annotations

from typing import NoReturn

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.schema.paths import Place, path_text
from harmonia.schema.values import Loss


class Report:
    __slots__ = ("_losses", "root_path")

    def __init__(self, root_path: str) -> None:
        self.root_path = root_path
        self._losses: dict[tuple[str, str], Loss] = {}

    def lose(self, place: Place, keyword: str, sentence: str) -> None:
        path = path_text(place, self.root_path)
        self._losses.setdefault((path, keyword), Loss(path, keyword, sentence))

    def refuse(self, code: ErrorCode, message: str, place: Place) -> NoReturn:
        raise InputError(code, message, Position(path=path_text(place, self.root_path)))

    @property
    def losses(self) -> tuple[Loss, ...]:
        return tuple(self._losses.values())
