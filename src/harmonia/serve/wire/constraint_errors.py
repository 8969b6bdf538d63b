"""What a client is told where an answer or a call does not have the form that the request demands, in its own words.

Nothing of it was said by a model: a place goes only as far as the client's own schema has names for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from harmonia.errors import ErrorCode, Position, StreamError
from harmonia.run.events import Unmet


def answer_not_met(unmet: Unmet, path: str) -> StreamError:
    """The error for an answer; `path` is where the request demands its form."""
    said = f"the answer does not have the form of {path.removeprefix('$.')}{_where(unmet)}"
    return StreamError(ErrorCode.SERVE_FORM_NOT_MET, said, Position(path=path))


def call_not_met(unmet: Unmet, name: str | None, path: str | None) -> StreamError:
    """The error for a call; `name` is what the client calls the tool, `path` where the request declares it."""
    called = "a call" if name is None else f"the call to {name}"
    said = f"{called} does not have the form that the tool demands{_where(unmet)}"
    return StreamError(ErrorCode.SERVE_FORM_NOT_MET, said, Position(path=path))


def in_clients_words(text: str, names: Iterable[tuple[str, str]]) -> str:
    """A sentence about tools with the names that the client has for them; `names` are pairs of both names."""
    known = {whole: own for whole, own in names if whole != own and whole in text}
    if not known:
        return text
    wholes = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
    return re.sub(rf"(?<![\w.-])(?:{wholes})(?![\w-])(?!\.\w)", lambda found: known[found[0]], text)


def _where(unmet: Unmet) -> str:
    place = None if unmet.place is None else f"{unmet.place} does not fit"
    return "".join(f": {each}" for each in (place, unmet.reason) if each is not None)
