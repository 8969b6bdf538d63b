"""Checks of the engine: that it responds, which model it has, and whether it continues a prompt in Harmony."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

import msgspec

from harmonia.errors import ErrorCode, HarmonyError
from harmonia.messages import Message
from harmonia.renderer import render
from harmonia.run.engines.base import Chunk, Engine, Request, Sampling
from harmonia.run.engines.http import redact
from harmonia.run.engines.registry import is_gpt_oss
from harmonia.run.sampling import Model
from harmonia.serve.config.settings import Settings
from harmonia.serve.doctor.findings import Finding, failure
from harmonia.serve.models.selection import HOW_TO_SERVE_A_MODEL, choose_model
from harmonia.vocabulary import CHANNEL, SPELLING_BY_ID

_SAMPLED: Final = 8
_PLAYED: Final = ("demo", "replay")


async def check_model(settings: Settings, timeout_s: float) -> AsyncGenerator[Finding]:
    """Check the engine. A model in this process is not loaded, because that takes too long."""
    if settings.engine.startswith("transformers:"):
        yield _check_folder(settings.engine.partition(":")[2])
        return
    try:
        chosen = await choose_model(settings)
    except HarmonyError as error:
        advice = HOW_TO_SERVE_A_MODEL if error.code is ErrorCode.ENGINE_UNREACHABLE else ""
        yield failure("engine", error, advice)
        return
    model = chosen.model
    try:
        if settings.engine == "auto" and model.name == "demo":
            yield Finding("engine", "warn", *chosen.notes)
            return
        named = dict.fromkeys((redact(model.name), model.model))
        yield Finding("engine", "ok", f"{', '.join(named)}: {chosen.why}")
        for note in chosen.notes:
            yield Finding("engine", "warn", note)
        if model.traits.takes_messages:
            advice = f"run `harmonia check` to test {model.name}"
            yield Finding("tokens", "skip", "a provider takes messages, not tokens", advice)
        elif model.name in _PLAYED:
            yield Finding("tokens", "skip", f"not tested: {model.name} is built in")
        else:
            yield await _check_tokens(model, timeout_s)
    finally:
        await model.close()


async def _check_tokens(model: Model, timeout_s: float) -> Finding:
    """Sample a few tokens, which must begin a Harmony message."""
    engine: Engine = model  # pyright: ignore[reportAssignmentType] -- a model without `respond` is an engine
    prompt = render([Message.system(), Message.user("Say hello.")]).tokens
    tokens: list[int] = []
    text = ""
    started = time.monotonic()
    try:
        async with asyncio.timeout(timeout_s):
            request = Request(sampling=Sampling(max_tokens=_SAMPLED, temperature=0.0))
            async with aclosing(engine.generate(prompt, request)) as events:
                async for event in events:
                    if isinstance(event, Chunk):
                        tokens += event.tokens
                        text += event.text
    except TimeoutError:
        advice = "the model may still be loading, or be busy; use --wait to wait longer"
        return Finding("tokens", "warn", f"no answer within {timeout_s:g} s", advice)
    except HarmonyError as error:
        return failure("tokens", error, "read the log of the engine")
    took = f"{time.monotonic() - started:.1f} s"
    if not tokens and not text:
        return Finding("tokens", "fail", "the engine sampled nothing", "read the log of the engine")
    if tokens and tokens[0] == CHANNEL:
        return Finding("tokens", "ok", f"the engine continues token ids in Harmony ({len(tokens)} in {took})")
    advice = "check that the model is a gpt-oss"
    if tokens:
        return Finding("tokens", "warn", "the engine continues token ids, but not in Harmony", advice)
    if text.startswith(SPELLING_BY_ID[CHANNEL]):
        return Finding("tokens", "ok", f"the engine continues text in Harmony, with special tokens ({took})")
    advice += " and that the engine keeps special tokens; `harmonia check` reports more"
    return Finding("tokens", "warn", "the engine continues text, but without special tokens of Harmony", advice)


class _Config(msgspec.Struct):
    model_type: str = ""


def _check_folder(name: str) -> Finding:
    folder = Path(name)
    if not folder.exists():
        advice = "name a folder; transformers looks up any other name and downloads it when the server starts"
        return Finding("engine", "warn", f"{name} is not a folder on this machine", advice)
    try:
        config: Any = msgspec.json.decode((folder / "config.json").read_bytes(), type=_Config)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        return Finding("engine", "fail", f"the config.json of {name} cannot be read: {error}", "save the model again")
    if not is_gpt_oss(config.model_type):
        kind = config.model_type or "(none)"
        return Finding("engine", "fail", f"{name} has the model type {kind}, not gpt_oss", "serve a gpt-oss")
    return Finding("engine", "ok", f"{name} is a gpt-oss; doctor did not load it")
