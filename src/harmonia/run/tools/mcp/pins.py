"""The definitions of MCP tools that the operator accepted, and whether they are still the same.

A description is part of the prompt, so a server that changes it changes what the model does. What the operator accepted
is therefore kept whole, and known by the SHA-256 of its canonical JSON: server, tool, description, input schema and
annotations.

1. A tool is offered only while its definition is the one that is pinned, but for the order of the keys in its schema.
2. A first definition is pinned as the policy says; a changed one only with the operator's consent, each time.
3. The file is replaced in one step and readable by its owner only.
"""

from __future__ import annotations

import difflib
import hashlib
import inspect
import json
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from harmonia.errors import ErrorCode, InputError, Position, ToolError
from harmonia.run.private_files import write_private
from harmonia.run.tools.mcp.results import readable, readable_line

# ask          a new tool needs consent, like a changed one
# trust_first  a new tool is pinned as it is first seen; a changed one needs consent
# refuse       only what is pinned already is offered, and nobody is asked
Policy = Literal["ask", "trust_first", "refuse"]
POLICIES: Final = ("ask", "trust_first", "refuse")

_VERSION: Final = 1


class Definition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a server says of a tool, as it says it."""

    server: str
    tool: str
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None

    @property
    def canonical(self) -> str:
        """All of it as canonical JSON: keys are sorted, and everything is ASCII."""
        whole = [self.server, self.tool, self.description, self.input_schema, self.annotations]
        try:
            return json.dumps(whole, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            # A number such as 1e999 is read as infinity; written into the file, it would not come back.
            shown = readable_line(f"{self.server} {self.tool}")
            raise _invalid(f"the definition of {shown} cannot be written as JSON: {error}") from error

    @property
    def sha256(self) -> str:
        """The pin: the hash of the canonical JSON."""
        return hashlib.sha256(self.canonical.encode()).hexdigest()

    @property
    def text(self) -> str:
        """The definition for a person to read, one fact on a line."""
        lines = [readable_line(f"{self.server} {self.tool}")]
        lines += readable(self.description or "").splitlines()
        for name, value in (("input schema", self.input_schema), ("annotations", self.annotations)):
            if value:
                shown = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
                lines += f"{name}: {readable(shown)}".splitlines()
        return "\n".join(lines)


class Change(msgspec.Struct, frozen=True):
    """What the operator is asked to agree to: a tool that was never seen, where `before` is None, or a changed one."""

    now: Definition
    before: Definition | None = None

    @property
    def kind(self) -> Literal["new", "changed"]:
        return "new" if self.before is None else "changed"

    @property
    def text(self) -> str:
        """For a person to read: a new tool's whole definition; of a changed one what went (-) and what came (+)."""
        if self.before is None:
            return self.now.text
        # What reads the same, such as two kinds of line break, is compared as it was sent.
        return _diff(self.before.text, self.now.text) or _diff(self.before.canonical, self.now.canonical)

    @property
    def refusal(self) -> ToolError:
        """The error of a call without consent. It may reach the model, so it has nothing of the new definition."""
        shown = readable_line(f"{self.now.server} {self.now.tool}")
        if self.before is None:
            return ToolError(ErrorCode.TOOL_REFUSED, f"the tool {shown} is new, and the operator has not accepted it")
        said = f"the definition of {shown} has changed, and the operator has not accepted the new one"
        return ToolError(ErrorCode.TOOL_CHANGED, said)


Consent = Callable[[Change], bool | Awaitable[bool]]


class _Pin(msgspec.Struct, frozen=True):
    sha256: str
    definition: Definition


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    pins: list[_Pin]


class Pins:
    """What the operator accepted. With a `path` it is read from there, if there is such a file, and kept there."""

    def __init__(self, path: str | PathLike[str] | None = None) -> None:
        self.path = None if path is None else Path(path)
        self._pinned: dict[tuple[str, str], Definition] = {} if self.path is None else _read(self.path)
        self._deferring = 0
        self._is_unsaved = False

    def __len__(self) -> int:
        return len(self._pinned)

    def __iter__(self) -> Iterator[Definition]:
        return iter(tuple(self._pinned.values()))

    def get(self, server: str, tool: str) -> Definition | None:
        """The accepted definition."""
        return self._pinned.get((server, tool))

    def accept(self, definition: Definition) -> None:
        """Pin the definition in the place of an earlier one, and save. One that has no JSON is an InputError."""
        _ = definition.sha256
        self._pinned[definition.server, definition.tool] = definition
        self._is_unsaved = True
        if not self._deferring:
            self.save()

    @contextmanager
    def saving_once(self) -> Generator[None]:
        """What is accepted within is saved at its end, all at once: a file that is written anew for each of a thousand
        tools takes the square of them."""
        self._deferring += 1
        try:
            yield
        finally:
            self._deferring -= 1
            if self._is_unsaved:
                self.save()

    def save(self) -> None:
        """Replace the file in one step. Without a path nothing is written."""
        self._is_unsaved = False
        if self.path is None:
            return
        pins = [_Pin(definition.sha256, definition) for _, definition in sorted(self._pinned.items())]
        content = msgspec.json.format(msgspec.json.encode(_File(_VERSION, pins)), indent=2) + b"\n"
        try:
            write_private(self.path, content)
        except OSError as error:
            raise _invalid(f"the pins cannot be written to {self.path}: {error.strerror}") from error

    async def review(self, definition: Definition, policy: Policy, consent: Consent | None) -> Change | None:
        """None where the tool may be offered, pinned now if it was not before; else the change that is not accepted."""
        change = self.change_to(definition)
        if change is None or policy == "refuse":
            return change
        answer = True
        if policy != "trust_first" or change.before is not None:
            answer = False if consent is None else consent(change)
        # Only True is consent: a callback that forgot its `return`, or returned a text, has not agreed.
        if (await answer if inspect.isawaitable(answer) else answer) is not True:
            return change
        self.accept(definition)
        return None

    def change_to(self, definition: Definition) -> Change | None:
        """What is new in a definition; None where it is the one that is pinned."""
        before = self.get(definition.server, definition.tool)
        is_same = before is not None and before.sha256 == definition.sha256
        return None if is_same else Change(definition, before)


def _diff(old: str, new: str) -> str:
    return "\n".join(difflib.unified_diff(old.splitlines(), new.splitlines(), "accepted", "now", n=1, lineterm=""))


def _read(path: Path) -> dict[tuple[str, str], Definition]:
    try:
        file = msgspec.json.decode(path.read_bytes(), type=_File)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _invalid(f"the pins in {path} cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _invalid(f"{path} is not a file of pins: {error}") from error
    if file.version != _VERSION:
        raise _invalid(f"{path} has version {file.version}; this release reads version {_VERSION}", "$.version")
    for index, pin in enumerate(file.pins):
        if pin.definition.sha256 != pin.sha256:
            raise _invalid(
                f"in {path}, the definition of {readable_line(pin.definition.tool)} does not match its hash: "
                "the file was edited or damaged. Remove the entry; the tool then counts as new",
                f"$.pins[{index}].sha256",
            )
    return {(pin.definition.server, pin.definition.tool): pin.definition for pin in file.pins}


def _invalid(message: str, path: str | None = None) -> InputError:
    return InputError(ErrorCode.TOOL_INVALID_DEFINITION, message, Position(path=path))
