"""Checks of an engine that continues tokens: does a prompt go in as it is, and does what was sampled come out?

llama.cpp is asked at `/completion`, Ollama at `/api/generate`, all others at `/v1/completions`; each with the fields
that make it keep special tokens. A server that refuses token ids is asked with text.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from harmonia.errors import EngineError, ErrorCode
from harmonia.messages import Json, Message, ReasoningEffort, SystemContent
from harmonia.renderer import render
from harmonia.run.engines.http import Fields, ServerError, count_of, fields_of, objects_of, text_of
from harmonia.run.engines.response_reader import STOP_SPELLINGS, STOP_TOKENS
from harmonia.run.provider_check.session import Found, Session, is_absent, is_denied, is_there, is_throttled
from harmonia.run.providers.base import decode_line
from harmonia.vocabulary import CALL, CHANNEL, CONSTRAIN, END, MESSAGE, RETURN, SPELLING_BY_ID, START, VOCABULARY_SIZE

_MAX_TOKENS: Final = 256
_STRUCTURE: Final = (START, END, MESSAGE, CHANNEL, CONSTRAIN, RETURN, CALL)
_SPELLED: Final = tuple(SPELLING_BY_ID[token] for token in _STRUCTURE)
# What is left of a header whose special tokens were taken out.
_STRIPPED: Final = ("analysis", "assistantfinal", "final", "commentary")


@dataclass(frozen=True, slots=True)
class Sampled:
    """What an engine sampled. `tokens` is None where it gave none; `stop` is the token at which it reports to stop."""

    text: str = ""
    tokens: tuple[int, ...] | None = None
    prompt_tokens: int = 0
    reason: str = ""
    stop: object = None
    pieces: int = 0
    error: EngineError | None = None

    @property
    def is_there(self) -> bool:
        return is_there(self.error, has_said=self.pieces > 0)


# A short prompt with every part of Harmony's structure in it.
_PROMPT: Final = (Message.system(SystemContent(reasoning_effort=ReasoningEffort.LOW)), Message.user("Say hello."))


async def with_ids(session: Session) -> Sampled:
    return await session.once("ids", lambda: _sample(session, render(_PROMPT).tokens, _MAX_TOKENS, stream=False))


async def _with_what_it_takes(session: Session) -> Sampled:
    """The answer to token ids, or else to text. Raises the EngineError that ended it."""
    sampled = await with_ids(session)
    if sampled.error is not None and not is_absent(sampled.error) and not is_denied(sampled.error):
        text = render(_PROMPT).text
        sampled = await session.once("text", lambda: _sample(session, text, _MAX_TOKENS, stream=False))
    if sampled.error is not None:
        raise sampled.error
    return sampled


async def _sample_again(session: Session, max_tokens: int, *, stream: bool) -> Sampled:
    prompt = render(_PROMPT)
    has_ids = (await with_ids(session)).error is None
    sampled = await _sample(session, prompt.tokens if has_ids else prompt.text, max_tokens, stream=stream)
    if sampled.error is not None:
        raise sampled.error
    return sampled


# ── the checks ──────────────────────────────────────────────────────────────────────────────────────────────────────


def path_of(session: Session) -> str:
    """Where a prompt is continued."""
    return _body(session, "", 1, stream=False)[0]


async def check_in(session: Session) -> Found:
    sampled = await with_ids(session)
    if is_absent(sampled.error):
        return Found("skip", "it has no endpoint that continues a prompt")
    if sampled.error is not None:
        if is_throttled(sampled.error):
            raise sampled.error
        if isinstance(sampled.error, ServerError) and not is_denied(sampled.error):
            return Found("warn", f"it does not accept token ids: {sampled.error.message}")
        return Found("fail", session.explain(sampled.error))
    sent = len(render(_PROMPT).tokens)
    if sampled.prompt_tokens and sampled.prompt_tokens != sent:
        return Found("fail", f"{sent} token ids were sent, but it counts a prompt of {sampled.prompt_tokens}")
    counted = ", and counted as such" if sampled.prompt_tokens else ""
    return Found("ok", f"{sent} token ids were taken{counted}")


async def check_out(session: Session) -> Found:
    sampled = await _with_what_it_takes(session)
    if sampled.tokens is None:
        return Found("warn", "it returns text only, in which typed control tokens look like real ones")
    if unknown := [token for token in sampled.tokens if not 0 <= token < VOCABULARY_SIZE]:
        return Found("fail", f"the id {unknown[0]} is not in o200k_harmony: is the model a gpt-oss?")
    return Found("ok", f"{len(sampled.tokens)} token ids came back")


async def check_special(session: Session) -> Found:
    sampled = await _with_what_it_takes(session)
    kept = [SPELLING_BY_ID[token] for token in sampled.tokens or () if token in _STRUCTURE]
    spelled = [spelling for spelling in _SPELLED if spelling in sampled.text]
    if kept or spelled:
        where = "ids" if kept else "text"
        return Found("ok", f"special tokens are in the {where}: {', '.join(dict.fromkeys(kept or spelled))}")
    if sampled.tokens is None and sampled.text.lstrip().startswith(_STRIPPED):
        return Found("fail", f"special tokens are taken out of the text: {sampled.text[:60]!r}")
    return Found("unknown", "the model sampled no special token")


async def check_stop(session: Session) -> Found:
    sampled = await _with_what_it_takes(session)
    if sampled.reason == "length":
        return Found("unknown", f"the model did not end within {_MAX_TOKENS} tokens")
    if (sampled.tokens and sampled.tokens[-1] in STOP_TOKENS) or sampled.text.endswith(STOP_SPELLINGS):
        return Found("ok", "the stop token is part of the output")
    if sampled.stop in STOP_TOKENS or sampled.stop in STOP_SPELLINGS:
        return Found("ok", f"it reports at which token it stopped: {sampled.stop}")
    if sampled.reason == "stop":
        return Found("warn", "it removes the stop token; Harmonia restores it from the message's recipient")
    return Found("warn", f"neither a stop token nor the reason stop; it reports {sampled.reason or 'nothing'}")


async def check_length(session: Session) -> Found:
    sampled = await _sample_again(session, 2, stream=False)
    if sampled.reason == "length":
        return Found("ok", "an answer that is cut off reports so")
    if sampled.tokens and sampled.tokens[-1] in STOP_TOKENS:
        return Found("unknown", "the model ended within 2 tokens")
    if not sampled.reason:
        return Found("warn", "an answer that is cut off does not report why it ended")
    return Found("fail", f"an answer was cut off after 2 tokens, but reports {sampled.reason}, not length")


async def check_stream(session: Session) -> Found:
    sampled = await _sample_again(session, _MAX_TOKENS, stream=True)
    whole = await _with_what_it_takes(session)
    if sampled.pieces < 2:
        return Found("warn", "the output arrives in one piece")
    if whole.tokens is not None and not sampled.tokens:
        return Found("warn", "token ids come back, but not in a stream")
    return Found("ok", f"the output arrived in {sampled.pieces} pieces")


# ── the wire ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _sample(session: Session, prompt: list[int] | str, max_tokens: int, *, stream: bool) -> Sampled:
    path, body = _body(session, prompt, max_tokens, stream=stream)
    server = session.root
    texts: list[str] = []
    tokens: list[int] | None = None
    counted, reason, stop, pieces = 0, "", None, 0
    is_understood = False
    error: EngineError | None = None
    framing = "ndjson" if session.identity.kind == "ollama" else "either"
    try:
        async with aclosing(server.lines(path, body, framing)) as reads:
            async for line in (line async for read in reads for line in read):
                if line == b"[DONE]":
                    continue
                value = decode_line(server, line)
                if value.get("error"):
                    raise server.died(f"gave up: {value['error']}")
                if (piece := _read(value)) is None:
                    continue
                is_understood = True
                texts.append(piece.text)
                if piece.tokens is not None:
                    tokens = [*(tokens or ()), *piece.tokens]
                pieces += bool(piece.text or piece.tokens)
                counted = piece.prompt_tokens or counted
                reason, stop = piece.reason or reason, piece.stop or stop
        if not is_understood:
            raise server.bad_answer(f"{path} sent nothing that could be the answer to a prompt")
    except EngineError as caught:
        if caught.code is ErrorCode.ENGINE_UNREACHABLE and not pieces:
            raise
        error = caught
    ids = None if tokens is None else tuple(tokens)
    return Sampled("".join(texts), ids, counted, reason, stop, pieces, error)


def _body(session: Session, prompt: list[int] | str, max_tokens: int, *, stream: bool) -> tuple[str, Json]:
    body: Json = {"prompt": prompt, "stream": stream}
    greedy: Json = {"temperature": 0, "seed": 1}
    if session.identity.kind == "llama.cpp":
        known: Json = {"return_tokens": True, "preserved_tokens": _SPELLED, "cache_prompt": False}
        return "/completion", {**body, "n_predict": max_tokens, **known, **greedy}
    body["model"] = session.model
    if session.identity.kind == "ollama":
        return "/api/generate", {**body, "raw": True, "options": {"num_predict": max_tokens, **greedy}}
    known = {"skip_special_tokens": False, "spaces_between_special_tokens": False}
    if session.identity.kind in ("vllm", "sglang"):
        known |= {"return_token_ids": True, "stop_token_ids": STOP_TOKENS, "include_stop_str_in_output": True}
    return f"{session.base}/completions", {**body, "max_tokens": max_tokens, **known, **greedy}


def _read(value: Fields) -> Sampled | None:
    """One piece of an answer, or a whole one, in any of the three protocols; None where it is in none."""
    choice = next(iter(objects_of(value.get("choices"))), None)
    if choice is not None or "usage" in value:
        choice = choice or {}
        usage = count_of(fields_of(value.get("usage")).get("prompt_tokens"))
        reason = text_of(choice.get("finish_reason"))
        ids = _ids_of(choice.get("token_ids"))
        return Sampled(text_of(choice.get("text")), ids, usage, reason, choice.get("stop_reason"))
    if "response" in value:  # Ollama
        reason = text_of(value.get("done_reason"))
        return Sampled(text_of(value.get("response")), None, count_of(value.get("prompt_eval_count")), reason)
    if "content" not in value and "tokens" not in value:
        return None
    reason = {"eos": "stop", "word": "stop", "limit": "length"}.get(text_of(value.get("stop_type")), "")
    ids = _ids_of(value.get("tokens"))
    return Sampled(text_of(value.get("content")), ids, count_of(value.get("tokens_evaluated")), reason)


def _ids_of(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return None
    ids: list[Any] = value  # pyright: ignore[reportUnknownVariableType] -- JSON
    return tuple(each for each in ids if isinstance(each, int))
