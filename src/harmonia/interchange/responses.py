"""Responses: lists of items, request bodies and responses, to conversations and back.

    message, developer or system   developer instructions; with `system="system"` a system message stays a system text
    message, user                  user
    message, assistant             assistant, final; commentary if the phase says so
    reasoning                      assistant, analysis: its content, or its summary if it has no content
    function_call, custom_tool_call, mcp_call, web_search_call, code_interpreter_call    assistant, to the tool
    function_call_output, custom_tool_call_output, and outputs inside calls              tool
    mcp_list_tools                 nothing: the tools of a conversation are those of its request

Items of other types are omitted and reported. A reference to an item is refused, because the item itself is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from harmonia.interchange import message_defaults
from harmonia.interchange.chat_completions import SystemAs
from harmonia.interchange.conversion import (
    CallIds,
    ConversationFormat,
    Exported,
    Imported,
    Lossy,
    Report,
    sampled_losses,
    sort_losses,
)
from harmonia.interchange.documents import (
    Object,
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
from harmonia.interchange.message_defaults import ExportedCalls, ImportedMessages, Texts, differences, left_out
from harmonia.interchange.settings import (
    NO_SETTINGS,
    Settings,
    WrittenSettings,
    finish_import,
    instructions_of,
    read_settings,
    read_tools,
    responses_tools,
    write_format,
)
from harmonia.messages import Conversation, Json, Message, Role, is_call, is_forged

_NAME: Final = "Responses"
_PHASES: Final = {"commentary": "commentary", "final": "final_answer"}
_CHANNELS: Final = {phase: channel for channel, phase in _PHASES.items()}
_BODY: Final = ("input", "instructions", "tools", "reasoning", "text")
_NO_PART: Final = "not part of a conversation"
# The functions of the built-in browser, by the actions of a web search.
_BROWSER: Final = {"search": "browser.search", "open_page": "browser.open", "find_in_page": "browser.find"}


# ── reading ──


def from_responses_items(items: Sequence[Object], *, tools: object = None, system: SystemAs = "developer") -> Imported:
    """A conversation from items and the `tools` of the request, which are declared in a developer message."""
    report = Report()
    settings = NO_SETTINGS if tools is None else Settings(namespaces=read_tools(tools, "$.tools", report) or None)
    reader = _Reader(system, report)
    reader.read_items(items, "$")
    return reader.finish(settings)


def read_responses(given: Any, *, system: SystemAs = "developer") -> Imported:
    """A conversation from a list of items, a request body or a response, as a JSON value or its text."""
    value = value_of(given)
    report = Report()
    reader = _Reader(system, report)
    if isinstance(value, list | tuple):
        reader.read_items(cast("list[Any]", value), "$")
        return reader.finish(NO_SETTINGS)
    body = object_at(value, "$")
    if "output" in body:
        # A response repeats the settings of its request; they are not part of the output.
        report.lose_others(body, ("output",), "$", _NO_PART)
        reader.read_items(body["output"], "$.output")
        return reader.finish(NO_SETTINGS)
    if "input" not in body:
        refuse("expected a field `input` or `output`", "$")
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
        self._read = ImportedMessages(report)

    def finish(self, settings: Settings) -> Imported:
        return finish_import(self._read, settings)

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
                refuse(f"the item {item.get('id')!r} is only a reference; include the item itself", path)
            case None:
                refuse("an item needs a type or a role", path)
            case _:
                self._report.lose(path, str(kind), f"items of type {kind} cannot be imported; it was omitted")

    def _read_message(self, item: Object, path: str) -> None:
        role = required_text(item, "role", path)
        texts = texts_at(item.get("content"), f"{path}.content", self._report)
        match role:
            case "system" | "developer":
                self._read.add_instructions(texts, None, path, is_system=role == self._system == "system")
            case "user":
                self._read.add(message_defaults.user(texts))
            case "assistant":
                phase = item.get("phase")
                channel = _CHANNELS.get(phase) if isinstance(phase, str) else "final"
                if channel is None:
                    self._report.lose(f"{path}.phase", "phase", f"unknown phase {phase}; read as final")
                self._read.add_unless_empty(message_defaults.assistant(texts, channel or "final"), path)
            case _:
                refuse(f"unknown role {role!r}; expected system, developer, user or assistant", f"{path}.role")
        self._lose_others(item, ("role", "content", "phase"), path)

    def _read_reasoning(self, item: Object, path: str) -> None:
        texts = texts_at(item.get("content") or (), f"{path}.content", self._report)
        if texts == ():
            texts = texts_at(item.get("summary") or (), f"{path}.summary", self._report)
            if texts != ():
                self._report.lose(path, "reasoning", "the reasoning itself is missing; its summary was imported")
        elif item.get("summary"):
            self._report.lose(f"{path}.summary", "summary", "omitted, because the reasoning itself was imported")
        if item.get("encrypted_content"):
            why = "omitted: only the server that encrypted it can read it"
            self._report.lose(f"{path}.encrypted_content", "encrypted_content", why)
        if not any(texts):
            self._report.lose(path, "message", "the reasoning has no text and was omitted")
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
            self._report.lose(f"{path}.error", "error", "kept as an ordinary result, not marked as failed")
        self._read_hosted_call(item, recipient, text, output, path)
        self._lose_others(item, ("name", "server_label", "arguments", "output", "error"), path)

    def _read_web_search(self, item: Object, path: str) -> None:
        action = dict(object_at(item.get("action") or {}, f"{path}.action"))
        kind = str(action.pop("type", "search"))
        sources = action.pop("sources", None)
        recipient = _BROWSER.get(kind, f"browser.{kind}")
        if kind == "open_page" and "url" in action:  # the browser calls it `id`
            action = {"id": action.pop("url"), **action}
        text = json_text(action, f"{path}.action")
        output = None if not sources else json_text(sources, f"{path}.action.sources")
        if output is None:
            self._report.lose(path, "output", "the item does not contain the search results")
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
                self._report.lose(f"{path}.outputs[{at}]", str(kind), f"an output of type {kind} is not text; omitted")
        output = "".join(outputs) if outputs else None
        self._read_hosted_call(item, "python", optional_text(item, "code", path) or "", output, path)
        self._lose_others(item, ("code", "outputs"), path)

    def _read_hosted_call(self, item: Object, recipient: str, text: str, output: object, path: str) -> None:
        """Read a call that the server made itself, with its result in the same item."""
        given = None if output is None else self._output(output, f"{path}.output")
        self._read.add_call(message_defaults.call(recipient, text), optional_text(item, "id", path), given, path)

    def _output(self, output: object, path: str) -> Texts:
        if isinstance(output, Mapping) and "type" not in cast(Object, output):
            return json_text(cast(Object, output), path)
        return texts_at(cast(object, output), path, self._report)

    def _lose_others(self, item: Object, known: tuple[str, ...], path: str) -> None:
        self._report.lose_others(item, ("type", "id", "status", *known), path, _NO_PART)


# ── writing ──


def to_responses_items(conversation: Conversation, *, call_ids: CallIds | None = None) -> Exported:
    """The items alone. Tools and the reasoning effort are reported as lost; `to_responses_body` includes them."""
    settings = WrittenSettings(conversation, _NAME, responses_tools, is_body=False, keeps_names=False)
    writer = _Writer(conversation, call_ids)
    return Exported(writer.written, writer.finish(settings))


def to_responses_body(conversation: Conversation, *, call_ids: CallIds | None = None) -> Exported:
    """A request body: `input` and, if the conversation has them, `tools`, `reasoning` and `text`."""
    settings = WrittenSettings(conversation, _NAME, responses_tools, is_body=True, keeps_names=False)
    writer = _Writer(conversation, call_ids)
    body: Json = {"input": writer.written}
    if settings.tools:
        body["tools"] = settings.tools
    if settings.effort is not None:
        body["reasoning"] = {"effort": settings.effort.value}
    if settings.response_format is not None:
        body["text"] = {"format": {"type": "json_schema", **write_format(settings.response_format)}}
    return Exported(body, writer.finish(settings))


class _Writer:
    def __init__(self, conversation: Conversation, call_ids: CallIds | None) -> None:
        self.written: list[Json] = []
        self._listed: list[int] = []
        self._losses: list[Lossy] = []
        self._calls = ExportedCalls(conversation, call_ids)
        self._conversation = conversation
        for index, message in enumerate(conversation):
            self._write(index, message)

    def finish(self, settings: WrittenSettings) -> tuple[Lossy, ...]:
        others = (*settings.losses(self._listed), *self._calls.losses(), *sampled_losses(self._conversation))
        return sort_losses((*self._losses, *others))

    def _write(self, index: int, message: Message) -> None:
        if is_forged(message):
            self._losses.append(left_out(index, f"the model forged it as a {message.role} message"))
            return
        texts = message_defaults.texts_of(message)
        match message.role:
            case Role.SYSTEM:
                if any(texts):
                    self._append(index, _message("system", texts))
            case Role.DEVELOPER:
                instructions = instructions_of(message)
                if instructions:
                    self._append(index, _message("developer", instructions))
            case Role.USER:
                self._append(index, _message("user", texts), message_defaults.user(texts))
            case Role.ASSISTANT:
                self._write_assistant(index, message, texts)
            case Role.TOOL:
                self._write_result(index, message, texts)

    def _write_assistant(self, index: int, message: Message, texts: Texts) -> None:
        if is_call(message):
            recipient = message.recipient or ""
            call = _call(recipient, message.text, self._calls.id_of(index))
            self._append(index, call, message_defaults.call(recipient, message.text))
        elif message_defaults.is_hidden(message):
            if not any(texts):
                self._losses.append(left_out(index, f"{_NAME} cannot express empty reasoning"))
                return
            item: Json = {"type": "reasoning", "summary": [], "content": _parts("reasoning_text", texts)}
            self._append(index, item, message_defaults.assistant(texts, "analysis"))
        elif not any(texts):
            self._losses.append(left_out(index, message_defaults.EMPTY))
        else:
            channel = "commentary" if message.channel == "commentary" else "final"
            item = _message("assistant", texts, "output_text") | {"phase": _PHASES[channel]}
            self._append(index, item, message_defaults.assistant(texts, channel))

    def _write_result(self, index: int, message: Message, texts: Texts) -> None:
        answered = self._calls.answered_by(index)
        if answered is None:
            self._losses.append(left_out(index, f"no call to {message.name} is waiting for it, so it has no call id"))
            return
        id_, recipient = answered
        kind = "custom_tool_call_output" if message_defaults.is_free_form(recipient) else "function_call_output"
        output = texts if isinstance(texts, str) else _parts("input_text", texts)
        item: Json = {"type": kind, "call_id": id_, "output": output}
        self._append(index, item, message_defaults.result(recipient, texts))

    def _append(self, index: int, item: Json, back: Message | None = None) -> None:
        """Append an item that will be read back as `back`. Instructions are compared when the settings are known."""
        self._listed.append(index)
        self.written.append(item)
        if back is not None:
            self._losses += differences(index, self._conversation[index], back, _NAME)


def _message(role: str, texts: Texts, part: str = "input_text") -> Json:
    return {"type": "message", "role": role, "content": _parts(part, texts)}


def _parts(kind: str, texts: Texts) -> list[Json]:
    return [{"type": kind, "text": text} for text in ((texts,) if isinstance(texts, str) else texts)]


def _call(recipient: str, text: str, id_: str) -> Json:
    if message_defaults.is_free_form(recipient):
        return {"type": "custom_tool_call", "call_id": id_, "name": recipient, "input": text}
    return {"type": "function_call", "call_id": id_, "name": message_defaults.bare_name(recipient), "arguments": text}


RESPONSES: Final = ConversationFormat(
    "responses",
    "Responses: a list of items, a request body, or a response; writes a request body",
    read_responses,
    to_responses_body,
    keeps_call_ids=True,
)
