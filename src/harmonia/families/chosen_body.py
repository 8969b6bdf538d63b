"""A body that becomes another one when its first character is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harmonia.families.call_bodies import Body, Piece, Unread


class ChosenBody:
    """Waits for a character that is no white space; `choose` makes the body of it that reads all."""

    def __init__(self, choose: Callable[[str], Body]) -> None:
        self._choose = choose
        self._blank: list[str] = []
        self._body: Body | None = None

    @property
    def is_quoting(self) -> bool:
        return self._body is not None and self._body.is_quoting

    def take(self, text: str) -> tuple[int, Sequence[Piece]]:
        if self._body is not None:
            return self._body.take(text)
        first = text.lstrip()[:1]
        if not first:
            self._blank.append(text)
            return len(text), ()
        self._body = self._choose(first)
        blank = "".join(self._blank)
        taken, pieces = self._body.take(blank + text)
        return taken - len(blank), pieces

    def close(self) -> Sequence[Piece]:
        return [Unread("".join(self._blank))] if self._body is None else self._body.close()
