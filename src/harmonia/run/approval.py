"""Who decides about a call, and how: run it, refuse it, change its arguments, or answer it by hand.

Without anybody to ask, a call runs only if it was certainly made (law 5). A person may allow any call; an operator may
allow those that were read from text, where nobody can tell a call from an echo.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from harmonia.run.events import PendingCall


class Approve(msgspec.Struct, frozen=True, tag_field="type", tag="approve"):
    """Run it."""


class Refuse(msgspec.Struct, frozen=True, tag_field="type", tag="refuse"):
    """Do not run it; the model is told, with the reason where there is one."""

    reason: str | None = None


class Edit(msgspec.Struct, frozen=True, tag_field="type", tag="edit"):
    """Run it with these arguments. The conversation has them in place of the model's, so that the result fits."""

    arguments: Any


class Answer(msgspec.Struct, frozen=True, tag_field="type", tag="answer"):
    """Do not run it; this is its result."""

    result: Any


Decision = Approve | Refuse | Edit | Answer
Approver = Callable[[PendingCall], Decision | Awaitable[Decision]]
