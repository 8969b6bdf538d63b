"""Responses items, request bodies and responses, as conversations.

    message, developer or system   developer instructions; `system="system"` keeps a system message as a system text
    message, user                  user
    message, assistant             assistant, final; commentary where the phase says so
    reasoning                      assistant, analysis: its content, or its summary where that is all there is
    function_call, custom_tool_call, mcp_call, web_search_call, code_interpreter_call    assistant, to the tool
    function_call_output, custom_tool_call_output, and the outputs inside of calls       tool
    mcp_list_tools                 nothing: the tools that a conversation has are those of its request

Other items are a server's own business; they are left out and reported. A reference to an item is refused, because what
it refers to is not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from harmonia.interchange import message_defaults
from harmonia.interchange.call_matching import ReadMessages
from harmonia.interchange.chat_completions import SystemAs
from harmonia.interchange.conversion import Format, Imported
from harmonia.interchange.documents import (
    Object,
    Report,
    arguments_at,
    json_text,
    list_at,
    object_at,
    optional_text,
    refuse,
    required_text,
    text_at,
    texts_at,
    value_of,
)
from harmonia.interchange.message_defaults import Texts
from harmonia.interchange.responses_writing import NAME, PHASES, to_responses_body
from harmonia.interchange.settings import NO_SETTINGS, Settings, place, read_settings
from harmonia.interchange.tools import read_tools
from harmonia.messages import Conversation

_CHANNELS: Final = {phase: channel for channel, phase in PHASES.items()}
_BODY: Final = ("input", "instructions", "tools", "reasoning", "text")
_NO_PART: Final = "no part of a conversation"
# The pages of the built-in browser, by the names of a web search's actions.
_BROWSER: Final = {"search": "browser.search", "open_page": "browser.open", "find_in_page": "browser.find"}


def from_responses_items(items: Sequence[Object], *, tools: object = None, system: SystemAs = "developer") -> Imported:
    """A conversation from items, and from the `tools` of the request, which are declared in a developer message."""
    report = Report()
    settings = NO_SETTINGS if tools is None else Settings(namespaces=read_tools(tools, "$.tools", report) or None)
    reader = _Reader(system, report)
    reader.read_items(items, "$")
    return reader.finish(settings)


def read_responses(given: Any, *, system: SystemAs = "developer") -> Imported:
    """A conversation from a list of items, a request body, or a response; as JSON values or as their text."""
    value = value_of(given)
    report = Report()
    reader = _Reader(system, report)
    if isinstance(value, list | tuple):
        reader.read_items(cast("list[Any]", value), "$")
        return reader.finish(NO_SETTINGS)
    body = object_at(value, "$")
    if "output" in body:
        # A response repeats the settings of its request; they are no part of the answer.
        report.lose_others(body, ("output",), "$", _NO_PART)
        reader.read_items(body["output"], "$.output")
        return reader.finish(NO_SETTINGS)
    if "input" not in body:
        refuse("there is neither input nor output", "$")
    report.lose_others(body, _BODY, "$", _NO_PART)
    reader.read_instructions(body.get("instructions"), "$.instructions")
    reader.read_items(body["input"], "$.input")
    return reader.finish(_read_settings(body, report))


def _read_settings(body: Object, report: Report) -> Settings:
    reasoning = object_at(body.get("reasoning") or {}, "$.reasoning")
    report.lose_others(reasoning, ("effort",), "$.reasoning", _NO_PART)
    text = object_at(body.get("text") or {}, "$.text")
    report.lose_others(text, ("format",), "$.text", _NO_PART)
    paths = ("$.tools", "$.reasoning.effort", "$.text.format")
    return read_settings(body.get("tools"), reasoning.get("effort"), text.get("format"), paths, report)


class _Reader:
    def __init__(self, system: SystemAs, report: Report) -> None:
        self._system: SystemAs = system
        self._report = report
        self._read = ReadMessages(report)

    def finish(self, settings: Settings) -> Imported:
        messages = self._read.finish()
        added = place(messages, settings)
        call_ids = {index + added: id_ for index, id_ in self._read.call_ids.items()}
        return Imported(Conversation(messages), tuple(self._report.losses), call_ids)

    def read_instructions(self, given: object, path: str) -> None:
        """The `instructions` of a request: a text, or a list of messages."""
        if isinstance(given, str):
            self._read.add_unless_empty(message_defaults.developer(given), path)
        elif given is not None:
            self.read_items(given, path)

    def read_items(self, given: object, path: str) -> None:
        if isinstance(given, str):
            self._read.add(message_defaults.user(given))
            return
        for at, item in enumerate(list_at(given, path)):
            here = f"{path}[{at}]"
            self._read_item(object_at(item, here), here)

    def _read_item(self, item: Object, path: str) -> None:
        kind = item.get("type") or ("message" if "role" in item else None)
        match kind:
            case "message":
                self._read_message(item, path)
            case "reasoning":
                self._read_reasoning(item, path)
            case "function_call" | "custom_tool_call":
                self._read_call(item, str(kind), path)
            case "function_call_output" | "custom_tool_call_output":
                output = self._output(item.get("output"), f"{path}.output")
                id_ = required_text(item, "call_id", path)
                self._read.add_result(id_, None, output, path, f"{path}.call_id")
                self._lose_others(item, ("call_id", "output", "name"), path)
            case "mcp_call":
                self._read_mcp_call(item, path)
            case "web_search_call":
                self._read_web_search(item, path)
            case "code_interpreter_call":
                self._read_code(item, path)
            case "mcp_list_tools":
                pass
            case "item_reference":
                refuse(f"the item {item.get('id')!r} is only referred to; give the item itself", path)
            case None:
                refuse("an item needs a type, or a role", path)
            case _:
                self._report.lose(
                    path, str(kind), f"items of type {kind} have no place in a conversation; it is left out"
                )

    def _read_message(self, item: Object, path: str) -> None:
        role = required_text(item, "role", path)
        texts = texts_at(item.get("content"), f"{path}.content", self._report)
        match role:
            case "system" if self._system == "system":
                self._read.add_unless_empty(message_defaults.system(texts), path)
            case "system" | "developer":
                if isinstance(texts, tuple) and len(texts) > 1:
                    why = "instructions are one text: the parts became its lines"
                    self._report.lose(f"{path}.content", "content", why)
                self._read.add_unless_empty(message_defaults.developer(texts), path)
            case "user":
                self._read.add(message_defaults.user(texts))
            case "assistant":
                phase = item.get("phase")
                channel = _CHANNELS.get(phase) if isinstance(phase, str) else "final"
                if channel is None:
                    self._report.lose(f"{path}.phase", "phase", f"the phase {phase} is not known; it is read as final")
                self._read.add_unless_empty(message_defaults.assistant(texts, channel or "final"), path)
            case _:
                refuse(f"{role!r} is no role of {NAME}: system, developer, user, assistant", f"{path}.role")
        self._lose_others(item, ("role", "content", "phase"), path)

    def _read_reasoning(self, item: Object, path: str) -> None:
        texts = texts_at(item.get("content") or (), f"{path}.content", self._report)
        if texts == ():
            texts = texts_at(item.get("summary") or (), f"{path}.summary", self._report)
            if texts != ():
                self._report.lose(path, "reasoning", "its summary stands for the reasoning, which is not there")
        elif item.get("summary"):
            self._report.lose(f"{path}.summary", "summary", "the reasoning itself is there, so its summary is left out")
        if item.get("encrypted_content"):
            self._report.lose(f"{path}.encrypted_content", "encrypted_content", "only its maker can open it")
        if not any(texts):
            self._report.lose(path, "message", "the reasoning has no text, and is left out")
        else:
            self._read.add(message_defaults.assistant(texts, "analysis"))
        self._lose_others(item, ("content", "summary", "encrypted_content"), path)

    def _read_call(self, item: Object, kind: str, path: str) -> None:
        name = required_text(item, "name", path)
        if kind == "custom_tool_call":
            recipient, text = message_defaults.free_form_name(name), text_at(item.get("input", ""), f"{path}.input")
        else:
            namespace = optional_text(item, "namespace", path)
            recipient = f"{namespace}.{name}" if namespace else message_defaults.full_name(name)
            text = arguments_at(item.get("arguments"), f"{path}.arguments")
        id_ = optional_text(item, "call_id", path) or optional_text(item, "id", path)
        self._read.add_call(message_defaults.call(recipient, text), id_)
        self._lose_others(item, ("call_id", "name", "namespace", "input", "arguments"), path)

    def _read_mcp_call(self, item: Object, path: str) -> None:
        name, server = required_text(item, "name", path), optional_text(item, "server_label", path)
        recipient = f"{server}.{name}" if server else message_defaults.full_name(name)
        text = arguments_at(item.get("arguments"), f"{path}.arguments")
        output, error = item.get("output"), item.get("error")
        if error:
            output = error if isinstance(error, str) else json_text(error, f"{path}.error")
            self._report.lose(f"{path}.error", "error", "that the call failed is not kept; what it answered is")
        self._read_hosted_call(item, recipient, text, output, path)
        self._lose_others(item, ("name", "server_label", "arguments", "output", "error"), path)

    def _read_web_search(self, item: Object, path: str) -> None:
        action = dict(object_at(item.get("action") or {}, f"{path}.action"))
        kind = str(action.pop("type", "search"))
        sources = action.pop("sources", None)
        recipient = _BROWSER.get(kind, f"browser.{kind}")
        if kind == "open_page" and "url" in action:  # where the browser has the name `id`
            action = {"id": action.pop("url"), **action}
        text = json_text(action, f"{path}.action")
        output = None if not sources else json_text(sources, f"{path}.action.sources")
        if output is None:
            self._report.lose(path, "output", "what the search found is not in the item")
        self._read_hosted_call(item, recipient, text, output, path)
        self._lose_others(item, ("action",), path)

    def _read_code(self, item: Object, path: str) -> None:
        outputs: list[str] = []
        for at, given in enumerate(list_at(item.get("outputs") or [], f"{path}.outputs")):
            output = object_at(given, f"{path}.outputs[{at}]")
            if isinstance(output.get("logs"), str):
                outputs.append(output["logs"])
            else:
                kind = output.get("type")
                self._report.lose(f"{path}.outputs[{at}]", str(kind), f"an output of type {kind} is no text")
        output = "".join(outputs) if outputs else None
        self._read_hosted_call(item, "python", optional_text(item, "code", path) or "", output, path)
        self._lose_others(item, ("code", "outputs"), path)

    def _read_hosted_call(self, item: Object, recipient: str, text: str, output: object, path: str) -> None:
        """A call that the server made itself, with its result in the same item."""
        given = None if output is None else self._output(output, f"{path}.output")
        self._read.add_call(message_defaults.call(recipient, text), optional_text(item, "id", path), given, path)

    def _output(self, output: object, path: str) -> Texts:
        if isinstance(output, Mapping) and "type" not in cast(Object, output):
            return json_text(cast(Object, output), path)
        return texts_at(cast(object, output), path, self._report)

    def _lose_others(self, item: Object, known: tuple[str, ...], path: str) -> None:
        self._report.lose_others(item, ("type", "id", "status", *known), path, _NO_PART)


RESPONSES: Final = Format(
    "responses",
    "Responses: a list of items, a request body, or a response; writes a request body",
    read_responses,
    to_responses_body,
    keeps_call_ids=True,
)
