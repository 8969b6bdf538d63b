"""A model and how it writes: which profile it has, and an engine that carries it wherever the engine goes.

    model = with_profile(LlamaCppEngine(url, "qwen3-8b"), "auto")
    async for event in run(model, "Hello"): ...

To all who look at its traits such an engine takes text and gives text: what it says is read without token ids, so no
call of its is certain (law 5), and the grammars of Harmony are not for it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.families import ToolFormat
from harmonia.families.profiles import ModelProfile, profile_named, read_profiles, resolve_profile
from harmonia.run.default_paths import profiles_file
from harmonia.run.engines.base import Chunk, Engine, Finish, Request, TextEngine

if TYPE_CHECKING:
    from harmonia.run.providers.base import Provider


def user_profiles(file: str | os.PathLike[str] | None = None) -> tuple[ModelProfile, ...]:
    """The profiles of the file; without one, those of the configuration folder, if there are any.

    A file that was named has to be there. What is wrong in either is `formats.invalid_profile`, with the file's name.
    """
    path = profiles_file() if file is None else Path(file)
    if file is None and not path.exists():
        return ()
    try:
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise _invalid(f"the file of profiles {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _invalid(f"the file of profiles {path} is not UTF-8 at byte {error.start}") from None
    try:
        return read_profiles(text)
    except InputError as error:
        raise InputError(error.code, f"{path}: {error.message}", error.at) from None


def _invalid(message: str) -> InputError:
    return InputError(ErrorCode.FORMATS_INVALID_PROFILE, message)


# The profile that the model's own name leads to.
AUTO: Final = "auto"


def choose_profile(
    profile: ModelProfile | str | None, model: Engine | Provider, profiles_file: str | None = None
) -> ModelProfile | None:
    """The profile by which a model is run; None where it needs none: it speaks Harmony, or its provider knows how it
    speaks. A text is the name of a profile, the user's own among them, or `auto`. Without one, the model's own counts.
    The user's own are those of `profiles_file`, or of the configuration folder.
    """
    if profile is None:
        return model.profile if isinstance(model, ProfiledEngine) else None
    is_auto = profile == AUTO
    if isinstance(profile, str):
        own = user_profiles(profiles_file)
        profile = resolve_profile(model.model, own) if is_auto else profile_named(profile, own)
    if profile.format is ToolFormat.HARMONY:
        return None
    if model.traits.takes_messages:
        if is_auto:
            return None
        raise InputError(
            ErrorCode.RUN_INVALID_OPTION,
            f"{model.name} accepts messages, so its provider applies the format of the model; leave the profile out",
        )
    return profile


def as_text_engine(engine: Engine) -> TextEngine:
    """The engine, where it continues text; an InputError that says which ones do, where it does not."""
    if not engine.traits.takes_text:
        raise InputError(
            ErrorCode.ENGINE_INVALID_OPTION,
            f"{engine.name} continues only Harmony's tokens, so it cannot run a model of another family; "
            "llama.cpp, Ollama, vLLM, transformers and any server with /v1/completions can",
        )
    return cast("TextEngine", engine)


def with_profile(
    model: Engine | Provider, profile: ModelProfile | str | None, profiles_file: str | None = None
) -> Engine | Provider:
    """The model, carrying its profile where it needs one; `choose_profile` finds it."""
    chosen = choose_profile(profile, model, profiles_file)
    return model if chosen is None else ProfiledEngine(cast("Engine", model), chosen)


class ProfiledEngine:
    """An engine whose model does not speak Harmony, and the profile that says how it speaks instead."""

    def __init__(self, engine: Engine, profile: ModelProfile) -> None:
        self._engine = as_text_engine(engine)
        self.profile = profile
        self.name = engine.name
        self.model = engine.model
        self.traits = msgspec.structs.replace(
            engine.traits, takes_tokens=False, gives_tokens=False, takes_grammar=None, speaks_harmony=False
        )

    def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        raise InputError(
            ErrorCode.ENGINE_INVALID_OPTION,
            f"{self.model} has the profile {self.profile.name} and does not speak Harmony, so it continues text only",
        )

    def generate_text(
        self, prompt: str, request: Request, stop: Sequence[str] = (), marks: Sequence[str] = ()
    ) -> AsyncGenerator[Chunk | Finish, None]:
        return self._engine.generate_text(prompt, request, stop, marks)

    async def close(self) -> None:
        await self._engine.close()
