"""The names of tools at a provider, and back.

A provider knows functions without namespaces, and most take only letters, digits, `_` and `-`. So `functions.search` is
`search` there, `browser.search` is `browser_search`; two names never become one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from harmonia.errors import ErrorCode, InputError
from harmonia.interchange.message_defaults import bare_name, full_name
from harmonia.run.engines.base import ToolChoice

_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST: Final = 64


class ToolNames:
    """The names in one conversation with a provider: of the tools that are declared, and of others in its history."""

    def __init__(self, declared: Iterable[str] = (), others: Iterable[str] = ()) -> None:
        self.recipients = tuple(declared)
        self._wire: dict[str, str] = {}
        self._recipients: dict[str, str] = {}
        listed = dict.fromkeys([*self.recipients, *others])
        # Those that can stay as they are have the first choice.
        for recipient in sorted(listed, key=lambda recipient: _ILLEGAL.search(bare_name(recipient)) is not None):
            self._add(recipient)

    def wire_of(self, recipient: str) -> str:
        """What the provider calls a tool."""
        return self._wire.get(recipient) or self._add(recipient)

    def recipient_of(self, name: str) -> str:
        """What a tool that the provider names is called here. A name that was never given to it is taken as it is."""
        return self._recipients.get(name) or full_name(name)

    def chosen(self, choice: ToolChoice) -> str | None:
        """The provider's name of the tool that must be called; None where the choice names none."""
        if choice in ("auto", "none", "required"):
            return None
        found = choice if choice in self.recipients else full_name(choice)
        if found not in self.recipients:
            raise InputError(
                ErrorCode.RUN_INVALID_OPTION,
                f"the tool choice is {choice!r}; expected auto, none, required or one of {', '.join(self.recipients)}",
            )
        return self.wire_of(found)

    def _add(self, recipient: str) -> str:
        name = _ILLEGAL.sub("_", bare_name(recipient))[:_LONGEST]
        number = 2
        while name in self._recipients:
            name = f"{name[: _LONGEST - 4]}_{number}"
            number += 1
        self._wire[recipient] = name
        self._recipients[name] = recipient
        return name
