"""What is sent to a provider: a conversation and a turn's request as the body of Chat Completions or of Responses.

What an API has no place for is noted; `extra` is for what a provider takes beyond it. A field of `extra` that is None
is removed from the body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from harmonia.errors import ErrorCode, InputError
from harmonia.interchange import to_chat_body, to_responses_body
from harmonia.interchange.conversion import Lossy
from harmonia.interchange.message_defaults import bare_name, full_name
from harmonia.interchange.request_settings import write_format
from harmonia.messages import Conversation, Json, Role, is_tool_address
from harmonia.run.engines.base import Request, ToolChoice
from harmonia.run.engines.response_reader import name_parameters

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
        """The recipient of a tool that the provider names. A name that was never given to it is kept."""
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


_CHAT_SAMPLING: Final = {
    name: name for name in ("max_tokens", "temperature", "top_p", "seed", "presence_penalty", "frequency_penalty")
}
_RESPONSES_SAMPLING: Final = {"max_tokens": "max_output_tokens", "temperature": "temperature", "top_p": "top_p"}

# What an export reports because it would not survive a round trip. The provider gets it, or does not need it.
_NO_LOSS_HERE: Final = ("tools", "response_formats", "reasoning_effort", "channel", "content_type", "sampled")


@dataclass(frozen=True, slots=True)
class Body:
    """What to send, the names of its tools there, and notes about what had no place in it."""

    value: Json
    names: ToolNames
    notes: tuple[str, ...]


def chat_body(
    conversation: Conversation,
    request: Request,
    model: str,
    extra: Mapping[str, Any],
    developer_role: str = "developer",
) -> Body:
    """The body of `POST /chat/completions`, streamed."""
    exported = to_chat_body(conversation)
    tools = exported.value.get("tools", [])
    names = _names_of(conversation, [tool[tool["type"]]["name"] for tool in tools])
    sampling, notes = name_parameters(request.sampling, _CHAT_SAMPLING, "Chat Completions")
    body: Json = {
        "model": model,
        **exported.value,
        "messages": [_rename_message(message, names, developer_role) for message in exported.value["messages"]],
        "stream": True,
        "stream_options": {"include_usage": True},
        **sampling,
    }
    if tools:
        body["tools"] = [_rename(tool, tool["type"], names) for tool in tools]
        chosen = names.chosen(request.tool_choice)
        body["tool_choice"] = {"type": "function", "function": {"name": chosen}} if chosen else request.tool_choice
    if (format_ := request.response_format) is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": write_format(format_)}
    if (written := body.get("response_format")) is not None:
        body["response_format"] = {**written, "json_schema": _legal_format(written["json_schema"])}
    if request.reasoning_effort is not None:
        body["reasoning_effort"] = request.reasoning_effort.value
    return _finish(body, names, notes, exported.losses, request, extra)


def responses_body(
    conversation: Conversation,
    request: Request,
    model: str,
    extra: Mapping[str, Any],
    developer_role: str = "developer",
) -> Body:
    """The body of `POST /responses`, streamed. Nothing is stored at the provider."""
    exported = to_responses_body(conversation)
    tools = exported.value.get("tools", [])
    names = _names_of(conversation, [tool["name"] for tool in tools])
    sampling, notes = name_parameters(request.sampling, _RESPONSES_SAMPLING, "the Responses API")
    body: Json = {
        "model": model,
        **exported.value,
        "input": [_rename_message(item, names, developer_role) for item in exported.value["input"]],
        "stream": True,
        "store": False,
        **sampling,
    }
    if tools:
        body["tools"] = [_rename(tool, None, names) for tool in tools]
        chosen = names.chosen(request.tool_choice)
        body["tool_choice"] = {"type": "function", "name": chosen} if chosen else request.tool_choice
    if (format_ := request.response_format) is not None:
        body["text"] = {"format": {"type": "json_schema", **write_format(format_)}}
    if (written := body.get("text")) is not None:
        body["text"] = {"format": _legal_format(written["format"])}
    if request.reasoning_effort is not None:
        body["reasoning"] = {"effort": request.reasoning_effort.value}
    return _finish(body, names, notes, exported.losses, request, extra)


def _finish(
    body: Json,
    names: ToolNames,
    notes: list[str],
    losses: tuple[Lossy, ...],
    request: Request,
    extra: Mapping[str, Any],
) -> Body:
    # A field that `extra` gives under the same name is sent after all.
    notes = [note for note in notes if not any(f" has no {name};" in note for name in extra)]
    notes += [f"not sent: {loss}" for loss in losses if loss.what not in _NO_LOSS_HERE]
    notes += [
        f"{recipient} is called {wire} at the provider"
        for recipient in names.recipients
        if (wire := names.wire_of(recipient)) != recipient.removeprefix("functions.")
    ]
    if "tools" not in body and request.tool_choice not in ("auto", "none"):
        names.chosen(request.tool_choice)
        notes.append(f"the tool choice {request.tool_choice!r} was not sent, because there are no tools")
    if "tools" in body and not request.parallel_calls:  # only where it is not the default: some servers lack the field
        body["parallel_tool_calls"] = False
    value = {name: value for name, value in {**body, **extra}.items() if value is not None}
    return Body(value, names, tuple(notes))


def _names_of(conversation: Conversation, declared: list[str]) -> ToolNames:
    called = [message.recipient for message in conversation if message.role is Role.ASSISTANT]
    others = [recipient for recipient in called if recipient and is_tool_address(recipient)]
    return ToolNames(map(full_name, declared), others)


def _rename(tool: Json, inside: str | None, names: ToolNames) -> Json:
    """A tool or a call with the provider's name for it, which stands in the object that `inside` names."""
    if inside is not None:
        return {**tool, inside: _rename(tool[inside], None, names)}
    return {**tool, "name": names.wire_of(full_name(tool["name"]))}


def _rename_message(message: Json, names: ToolNames, developer_role: str) -> Json:
    """A message of Chat Completions, or an item of Responses, with the provider's role and names."""
    if message.get("role") == "developer":
        return {**message, "role": developer_role}
    if calls := message.get("tool_calls"):
        return {**message, "tool_calls": [_rename(call, call["type"], names) for call in calls]}
    return _rename(message, None, names) if message.get("type") in ("function_call", "custom_tool_call") else message


def _legal_format(written: Json) -> Json:
    """A response format with a name that every server takes. A schema that is `true` is `{}`, which says the same."""
    schema: Any = written["schema"]
    legal: Json = {} if schema is True else {"not": {}} if schema is False else schema
    return {**written, "name": _ILLEGAL.sub("_", written["name"])[:64] or "answer", "schema": legal}
