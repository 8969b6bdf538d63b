"""All checks of a provider, in their order, and the run through them."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, cast

import msgspec

from harmonia.errors import EngineError, ErrorCode
from harmonia.run.engines.base import invalid_option
from harmonia.run.engines.http import Patience, Server, ServerError, api_address
from harmonia.run.engines.registry import Seen, kinds, look_at
from harmonia.run.provider_check import messages, tokens
from harmonia.run.provider_check.session import (
    PATHS,
    Api,
    Found,
    Judged,
    Outcome,
    Report,
    Session,
    is_absent,
    is_denied,
    is_throttled,
)

Asked = Literal["tokens"] | Api
ALL: Final[tuple[Asked, ...]] = ("tokens", "chat", "responses")


async def find_apis(session: Session, wanted: Sequence[Asked] = ALL) -> tuple[Found, bool]:
    """What is there, and whether access is denied. The others are asked where no wanted one is there."""
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
            return Found("ok", f"it has {', '.join(_path(session, each) for each in there)}"), False
    if denied := [fault for fault in faults if is_denied(fault)]:
        return Found("fail", session.explain(denied[0])), True
    # A 404 that names the model is about the model, and its API is there.
    model = re.compile(rf"(?<!\w){re.escape(session.model)}(?!\w)")
    about_model = [fault for fault in faults if isinstance(fault, ServerError) and model.search(fault.words)]
    if about_model:
        return Found("fail", f"it does not have the model {session.model!r}: {about_model[0].message}"), False
    broken = [fault for fault in faults if not is_absent(fault)]
    said = f"has none of {', '.join(_path(session, each) for each in ALL[:-1])} and {_path(session, ALL[-1])}"
    if broken:
        return Found("fail", f"it {said} in a readable form: {broken[0].message}"), False
    return Found("fail", f"it {said}: {faults[0].message}; check the path and the model"), False


async def _ask(session: Session, asked: Asked) -> EngineError | None:
    """Why an API is not there; None where it is."""
    try:
        heard = await (tokens.with_ids(session) if asked == "tokens" else messages.plain(session, asked))
    except EngineError as error:
        return error
    return None if heard.is_there else heard.error


def _path(session: Session, asked: Asked) -> str:
    return tokens.path_of(session) if asked == "tokens" else session.base + PATHS[asked]


# A check must not take ten minutes, and a busy server's answer is part of the result.
PATIENCE: Final = Patience(connect_s=5.0, first_s=180.0, idle_s=60.0, attempts=2)


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its name, why it matters, and how it is made."""

    name: str
    why: str
    run: Callable[[Session], Awaitable[Found]]


_TOKEN_CHECKS: Final = (
    ("in", "a prompt as token ids is exact: nothing that a user types can become structure", tokens.check_in),
    ("out", "only token ids show for certain whether a call is real or an echo of typed text", tokens.check_out),
    ("special", "without special tokens, channels and calls can only be guessed", tokens.check_special),
    ("stop", "<|call|> and <|return|> say whether the model calls or has finished", tokens.check_stop),
    ("length", "an answer that was cut off must not look complete", tokens.check_length),
    ("stream", "people read while it is written", tokens.check_stream),
)
_MESSAGE_CHECKS: Final = (
    ("answers", "the simplest question must be answered", messages.check_answers),
    ("stop", "a program must know that the answer is complete", messages.check_stop),
    ("length", "an answer that was cut off must not look complete", messages.check_length),
    ("usage", "without token counts, you cannot plan the context or the cost", messages.check_usage),
    ("developer", "instructions that are dropped are not obeyed", messages.check_developer),
    ("typed", "a user who types control tokens must not speak with the system's voice", messages.check_typed),
    ("reasoning", "reasoning is not for users, and markup must not reach the text", messages.check_reasoning),
    ("call", "a call that comes as text is not run, or is shown to people", messages.check_call),
    ("call_streamed", "servers build streams with separate code", partial(messages.check_call, stream=True)),
    ("names", "tools of MCP servers have dots and hyphens in their names", messages.check_names),
    ("result", "every tool loop sends it", messages.check_result),
    ("second_turn", "every longer conversation sends it", messages.check_second_turn),
    ("stream", "people read while it is written", messages.check_stream),
    ("same", "an answer must be the same whether it is streamed or not", messages.check_same),
    ("unicode", "a character of several tokens must not be torn apart", messages.check_unicode),
    ("schema", "an answer that must fit a schema is read by a program", messages.check_schema),
    ("cancel", "an engine that continues after its client left wastes its time", messages.check_cancel),
)  # fmt: skip


_APIS: Final[tuple[Api, ...]] = ("chat", "responses")
CHECKS: Final = (
    *(Check(f"tokens.{name}", why, run) for name, why, run in _TOKEN_CHECKS),
    *(Check(f"{api}.{name}", why, partial(run, api=api)) for api in _APIS for name, why, run in _MESSAGE_CHECKS),
)
# The kinds that a caller may name; all others are asked as OpenAI's.
KINDS: Final = ("auto", *(kind.name for kind in kinds() if kind.recognise is not None), "openai")
_FIRST: Final = {
    "reachable": "nothing else can be checked if the server does not answer",
    "engine": "each engine has its own API for tokens",
    "apis": "a model can only be tested at an endpoint that exists",
    "models": "every request must name a model",
}
_NOTHING: Final = Found("skip", "see apis")
NAMES: Final = (*_FIRST, *(check.name for check in CHECKS))


async def check(
    url: str,
    *,
    model: str | None = None,
    kind: str = "auto",
    only: Sequence[str] = (),
    api_key: str | None = None,
    patience: Patience | None = None,
) -> Report:
    """Check a provider. `only` has names of checks, or their first words: `chat`, `chat.call`."""
    outcomes: list[Outcome] = []
    engine, asked = "unknown" if kind == "auto" else kind, model
    each = check_each(url, model=model, kind=kind, only=only, api_key=api_key, patience=patience)
    async with aclosing(each) as found:
        async for outcome in found:
            outcomes.append(outcome)
            if outcome.name == "engine":
                engine = outcome.seen if outcome.verdict == "ok" else "openai"
            if outcome.name == "models" and asked is None and outcome.verdict == "ok":
                asked = outcome.seen.partition(" ")[0]
    return Report(url, engine, asked, tuple(outcomes))


async def check_each(
    url: str,
    *,
    model: str | None = None,
    kind: str = "auto",
    only: Sequence[str] = (),
    api_key: str | None = None,
    patience: Patience | None = None,
) -> AsyncGenerator[Outcome, None]:
    """The same, one outcome at a time. An address without a scheme is completed."""
    _refuse_unknown(kind, only)
    api = Server(api_address(_with_scheme(url)), api_key=api_key, patience=patience or PATIENCE)
    root = Server(api.url.removesuffix("/v1"), api_key=api_key, patience=patience or PATIENCE)
    try:
        try:
            identity = await _identify(root, api, kind)
        except EngineError as error:
            yield _outcome("reachable", Found("fail", f"{error.message}; start the server, or correct the URL"))
            return
        yield _outcome("reachable", Found("ok", f"{root.url} answers"))
        engine = f"{identity.kind} {identity.version}".strip()
        if identity.kind == "openai":
            named = "openai" if kind == "openai" else "not recognised; tested as a plain OpenAI API"
            yield _outcome("engine", Found("unknown", named))
        else:
            yield _outcome("engine", Found("ok", engine))
        chosen = model or identity.model or next(iter(identity.models), None)
        session = Session(root, api, identity, chosen or "gpt-oss-20b", has_key=bool(api_key))
        checks = [each for each in CHECKS if _is_wanted(each.name, only)]
        wanted: list[Asked] = [name for name in ALL if any(each.name.startswith(f"{name}.") for each in checks)]
        is_usable, is_refused = True, False
        if wanted or "apis" in only:
            found, is_refused = await find_apis(session, wanted)
            is_usable = found.verdict == "ok"
            yield _outcome("apis", found)
        # What stops everything is reported once.
        yield _outcome("models", _NOTHING if is_refused else _judge_models(session, chosen, model))
        for each in checks:
            yield Outcome(each.name, *(await _run(each, session) if is_usable else _NOTHING), each.why)
    finally:
        await root.close()
        await api.close()


async def _identify(root: Server, api: Server, kind: str) -> Seen:
    """What the provider is. Raises an EngineError where nothing answers, or not in HTTP."""
    seen = await look_at(root, api, None if kind == "auto" else kind)
    error = None if isinstance(seen.error, ServerError) else seen.error
    if error is not None and (error.code is not ErrorCode.ENGINE_BAD_ANSWER or "HTTP" in error.message):
        raise error
    return msgspec.structs.replace(seen, kind="openai") if seen.kind == "completions" else seen


def _is_wanted(name: str, only: Sequence[str]) -> bool:
    return not only or any(name == each or name.startswith(f"{each}.") for each in only)


async def _run(check: Check, session: Session) -> Found:
    api, _, name = check.name.partition(".")
    try:
        if api == "tokens":
            is_there, first = (await tokens.with_ids(session)).is_there, "in"
        else:
            is_there, first = (await messages.plain(session, cast(Api, api))).error is None, "answers"
        if not is_there and name != first:
            # Not asked again: a proxy may count that as faults and close for a while.
            return Found("skip", f"see {api}.{first}")
        return await check.run(session)
    except Judged as judged:
        return judged.found
    except EngineError as error:
        return Found("unknown" if is_throttled(error) else "fail", error.message)


def _judge_models(session: Session, chosen: str | None, wanted: str | None) -> Found:
    identity = session.identity
    if not identity.models:
        if isinstance(identity.error, ServerError) and is_denied(identity.error):
            return Found("warn", f"it does not list its models: {session.explain(identity.error)}")
        return Found("warn", "its list of models is empty" if identity.error is None else "it lists no models")
    if wanted is not None and wanted not in identity.models:
        return Found("warn", f"{wanted} is not among its models: {', '.join(identity.models[:5])}")
    others = len(identity.models) - 1
    return Found("ok", f"{chosen}" + (f" and {others} more" if others else ""))


def _outcome(name: str, found: Found) -> Outcome:
    return Outcome(name, *found, _FIRST[name])


def _with_scheme(url: str) -> str:
    """The address as people mean it. A key is sent without TLS only to a named port, or to a host without a dot."""
    if "//" in url:
        return url
    host = url.partition("/")[0]
    is_public = "." in host and ":" not in host and not host.replace(".", "").isdigit()
    return f"{'https' if is_public else 'http'}://{url}"


def _refuse_unknown(kind: str, only: Sequence[str]) -> None:
    if kind not in KINDS:
        raise invalid_option(f"{kind!r} is not a kind of provider; expected one of {', '.join(KINDS)}")
    for name in only:
        if not any(known == name or known.startswith(f"{name}.") for known in NAMES):
            raise invalid_option(f"there is no check {name!r}; use one of {', '.join(NAMES)}")
