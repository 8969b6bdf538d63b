"""Which of the three APIs a provider has: prompts, chat, responses. Where there is none, nothing else can be checked.

An API is there if it answers, or says what it does not like. It is not there if it is not found, if it is closed to
whoever asks, or if what it sends is nothing that can be read. A 404 may also be about the model, so the provider's own
words are given.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from harmonia.errors import EngineError
from harmonia.run.engines.http import ServerError
from harmonia.run.provider_check import messages, tokens
from harmonia.run.provider_check.outcomes import Found
from harmonia.run.provider_check.session import PATHS, Api, Session, is_absent, is_denied

Asked = Literal["tokens"] | Api
ALL: Final[tuple[Asked, ...]] = ("tokens", "chat", "responses")


async def find_apis(session: Session, wanted: Sequence[Asked] = ALL) -> tuple[Found, bool]:
    """What is there, and whether whoever asks is turned away. The others are asked where no wanted one is there."""
    faults: list[EngineError] = []
    others: Sequence[Asked] = [each for each in ALL if each not in wanted]
    for group in (wanted, others):
        there: list[Asked] = []
        for each in group:
            fault = await _ask(session, each)
            if fault is None:
                there.append(each)
            else:
                faults.append(fault)
        if there:
            return Found("ok", f"it has {_join([_path(session, each) for each in there])}"), False
    if denied := [fault for fault in faults if is_denied(fault)]:
        return Found("fail", session.explain(denied[0])), True
    # A 404 that names the model is about the model, and its API is there.
    model = re.compile(rf"(?<!\w){re.escape(session.model)}(?!\w)")
    about_model = [fault for fault in faults if isinstance(fault, ServerError) and model.search(fault.words)]
    if about_model:
        return Found("fail", f"it does not have the model {session.model!r}: {about_model[0].message}"), False
    broken = [fault for fault in faults if not is_absent(fault)]
    said = f"has neither {', '.join(_path(session, each) for each in ALL[:-1])} nor {_path(session, ALL[-1])}"
    if broken:
        return Found("fail", f"it {said} that can be read: {broken[0].message}"), False
    return Found("fail", f"it {said}: {faults[0].message}; is the path right, and the model?"), False


async def _ask(session: Session, asked: Asked) -> EngineError | None:
    """Why an API is not there; None where it is."""
    try:
        heard = await (tokens.with_ids(session) if asked == "tokens" else messages.plain(session, asked))
    except EngineError as error:
        return error
    return None if heard.is_there else heard.error


def _path(session: Session, asked: Asked) -> str:
    return tokens.path_of(session) if asked == "tokens" else session.base + PATHS[asked]


def _join(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
