"""Errors for an answer or a call that does not meet the format that the request demands, in the client's terms.

They contain no text of a model: a place is given only as far as the client's own schema names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from harmonia.errors import ErrorCode, Position, StreamError
from harmonia.run.events import Unmet


def answer_not_met(unmet: Unmet, path: str) -> StreamError:
    """The error for an answer; `path` is where the request demands its format."""
    said = f"the answer does not match {path.removeprefix('$.')}{_where(unmet)}"
    return StreamError(ErrorCode.SERVE_FORM_NOT_MET, said, Position(path=path))


def call_not_met(unmet: Unmet, name: str | None, path: str | None) -> StreamError:
    """The error for a call; `name` is the client's name of the tool, `path` where the request declares it."""
    called = "a call" if name is None else f"the call to {name}"
    said = f"{called} does not match the format of the tool{_where(unmet)}"
    return StreamError(ErrorCode.SERVE_FORM_NOT_MET, said, Position(path=path))


def in_clients_words(text: str, names: Iterable[tuple[str, str]]) -> str:
    """Replace names of tools in a sentence by the client's names; `names` are pairs of both."""
    known = {whole: own for whole, own in names if whole != own and whole in text}
    if not known:
        return text
    wholes = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
    return re.sub(rf"(?<![\w.-])(?:{wholes})(?![\w-])(?!\.\w)", lambda found: known[found[0]], text)


def _where(unmet: Unmet) -> str:
    place = None if unmet.place is None else f"{unmet.place} is invalid"
    return "".join(f": {each}" for each in (place, unmet.reason) if each is not None)
