"""The errors of the drop-in: those of openai-harmony, with a code and a position."""

from __future__ import annotations

from harmonia.errors import ErrorCode, InputError, Position, StreamError


class HarmonyError(RuntimeError):
    """What openai-harmony raises, in the same words. `code` and `at` are Harmonia's, if known."""

    def __init__(self, *args: object, code: ErrorCode | None = None, at: Position | None = None) -> None:
        super().__init__(*args)
        self.code = code
        self.at = at


def refused(error: StreamError | InputError, message: str | None = None) -> HarmonyError:
    """One of our errors as the reference's error."""
    return HarmonyError(error.message if message is None else message, code=error.code, at=error.at)


def raise_disallowed_special_token(token: str) -> None:
    """Raise for text that spells a special token which is not allowed."""
    raise HarmonyError(
        f"Encountered text corresponding to disallowed special token {token!r}.\n"
        "If you want this text to be encoded as a special token, pass it to `allowed_special`, "
        f"e.g. `allowed_special={{'{token}', ...}}`.\n"
        "If you want this text to be encoded as normal text, disable the check for this token by passing "
        f"`disallowed_special=(enc.special_tokens_set - {{'{token}'}})`.\n"
        "To disable this check for all special tokens, pass `disallowed_special=()`.\n"
    )
