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

from collections.abc import Iterable
from typing import Any, Final, cast

from harmonia.interchange import message_defaults
from harmonia.interchange.api_messages import NO_PART, ApiReader, ApiWriter, SystemAs
from harmonia.interchange.conversion import (
    CallIds,
    Exported,
    Imported,
    Object,
    Report,
    Texts,
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
from harmonia.interchange.request_settings import (
    Settings,
    read_effort,
    read_format,
    read_tools,
    responses_tools,
    write_format,
)
from harmonia.messages import Conversation, Json, ToolNamespace

_PHASES: Final = {"commentary": "commentary", "final": "final_answer"}
_CHANNELS: Final = {phase: channel for channel, phase in _PHASES.items()}
_BODY: Final = ("input", "instructions", "tools", "reasoning", "text")
# The functions of the built-in browser, by the actions of a web search.
_BROWSER: Final = {"search": "browser.search", "open_page": "browser.open", "find_in_page": "browser.find"}


# ── reading ──


def read_responses(given: Any, *, system: SystemAs = "developer") -> Imported:
    """A conversation from a list of items, a request body or a response, as a JSON value or its text."""
    value = value_of(given)
    reader = _Reader(system)
    if isinstance(value, list | tuple):
        reader.read_items(cast("list[Any]", value), "$")
        return reader.finish()
    body = object_at(value, "$")
    if "output" in body:
        # A response repeats the settings of its request; they are not part of the output.
        reader.report.lose_others(body, ("output",), "$", NO_PART)
        reader.read_items(body["output"], "$.output")
        return reader.finish()
    if "input" not in body:
        refuse("expected a field `input` or `output`", "$")
    reader.report.lose_others(body, _BODY, "$", NO_PART)
    instructions = body.get("instructions")  # a text, or a list of messages
    if isinstance(instructions, str):
        reader.add_unless_empty(message_defaults.developer(instructions), "$.instructions")
    elif instructions is not None:
        reader.read_items(instructions, "$.instructions")
    reader.read_items(body["input"], "$.input")
    return reader.finish(_read_settings(body, reader.report))


def _read_settings(body: Object, report: Report) -> Settings:
    reasoning = object_at(body.get("reasoning") or {}, "$.reasoning")
    report.lose_others(reasoning, ("effort",), "$.reasoning", NO_PART)
    text = object_at(body.get("text") or {}, "$.text")
    report.lose_others(text, ("format",), "$.text", NO_PART)
    return Settings(
        read_effort(reasoning.get("effort"), "$.reasoning.effort", report),
        read_tools(body.get("tools"), "$.tools", report),
        read_format(text.get("format"), "$.text.format", report),
    )


class _Reader(ApiReader):
    known = ("type", "id", "status")

    def read_items(self, given: object, path: str) -> None:
        if isinstance(given, str):
            self.imported.add(message_defaults.user(given))
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
                output = self.output(item.get("output"), f"{path}.output")
                id_ = required_text(item, "call_id", path)
                self.imported.add_result(id_, None, output, path, f"{path}.call_id")
                self.lose_others(item, ("call_id", "output", "name"), path)
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
                self.report.lose(path, str(kind), f"items of type {kind} cannot be imported; it was omitted")

    def _read_message(self, item: Object, path: str) -> None:
        role = required_text(item, "role", path)
        texts = self.texts_in(item, path)
        match role:
            case "system" | "developer":
                self.add_instructions(role, texts, None, path)
            case "user":
                self.imported.add(message_defaults.user(texts))
            case "assistant":
                phase = item.get("phase")
                channel = _CHANNELS.get(phase) if isinstance(phase, str) else "final"
                if channel is None:
                    self.report.lose(f"{path}.phase", "phase", f"unknown phase {phase}; read as final")
                self.add_unless_empty(message_defaults.assistant(texts, channel or "final"), path)
            case _:
                refuse(f"unknown role {role!r}; expected system, developer, user or assistant", f"{path}.role")
        self.lose_others(item, ("role", "content", "phase"), path)

    def _read_reasoning(self, item: Object, path: str) -> None:
        texts = texts_at(item.get("content") or (), f"{path}.content", self.report)
        if texts == ():
            texts = texts_at(item.get("summary") or (), f"{path}.summary", self.report)
            if texts != ():
                self.report.lose(path, "reasoning", "the reasoning itself is missing; its summary was imported")
        elif item.get("summary"):
            self.report.lose(f"{path}.summary", "summary", "omitted, because the reasoning itself was imported")
        if item.get("encrypted_content"):
            why = "omitted: only the server that encrypted it can read it"
            self.report.lose(f"{path}.encrypted_content", "encrypted_content", why)
        if any(texts):
            self.imported.add(message_defaults.assistant(texts, "analysis"))
        else:
            self.report.lose(path, "message", "the reasoning has no text and was omitted")
        self.lose_others(item, ("content", "summary", "encrypted_content"), path)

    def _read_call(self, item: Object, kind: str, path: str) -> None:
        name = required_text(item, "name", path)
        if kind == "custom_tool_call":
            recipient, text = message_defaults.free_form_name(name), text_at(item.get("input", ""), f"{path}.input")
        else:
            namespace = optional_text(item, "namespace", path)
            recipient = f"{namespace}.{name}" if namespace else message_defaults.full_name(name)
            text = arguments_at(item.get("arguments"), f"{path}.arguments")
        id_ = optional_text(item, "call_id", path) or optional_text(item, "id", path)
        self.imported.add_call(message_defaults.call(recipient, text), id_)
        self.lose_others(item, ("call_id", "name", "namespace", "input", "arguments"), path)

    # ── calls that the server made itself, with the result in the same item ──

    def _read_mcp_call(self, item: Object, path: str) -> None:
        name, server = required_text(item, "name", path), optional_text(item, "server_label", path)
        recipient = f"{server}.{name}" if server else message_defaults.full_name(name)
        text = arguments_at(item.get("arguments"), f"{path}.arguments")
        output, error = item.get("output"), item.get("error")
        if error:
            output = error if isinstance(error, str) else json_text(error, f"{path}.error")
            self.report.lose(f"{path}.error", "error", "kept as an ordinary result, not marked as failed")
        self._add_answered(item, recipient, text, output, path)
        self.lose_others(item, ("name", "server_label", "arguments", "output", "error"), path)

    def _read_web_search(self, item: Object, path: str) -> None:
        action = dict(object_at(item.get("action") or {}, f"{path}.action"))
        kind = str(action.pop("type", "search"))
        sources = action.pop("sources", None)
        if kind == "open_page" and "url" in action:  # the browser calls it `id`
            action = {"id": action.pop("url"), **action}
        text = json_text(action, f"{path}.action")
        output = json_text(sources, f"{path}.action.sources") if sources else None
        if output is None:
            self.report.lose(path, "output", "the item does not contain the search results")
        self._add_answered(item, _BROWSER.get(kind, f"browser.{kind}"), text, output, path)
        self.lose_others(item, ("action",), path)

    def _read_code(self, item: Object, path: str) -> None:
        outputs: list[str] = []
        for at, given in enumerate(list_at(item.get("outputs") or [], f"{path}.outputs")):
            output = object_at(given, f"{path}.outputs[{at}]")
            if isinstance(output.get("logs"), str):
                outputs.append(output["logs"])
            else:
                kind = output.get("type")
                self.report.lose(f"{path}.outputs[{at}]", str(kind), f"an output of type {kind} is not text; omitted")
        code = optional_text(item, "code", path) or ""
        self._add_answered(item, "python", code, "".join(outputs) if outputs else None, path)
        self.lose_others(item, ("code", "outputs"), path)

    def _add_answered(self, item: Object, recipient: str, text: str, output: object, path: str) -> None:
        given = None if output is None else self.output(output, f"{path}.output")
        self.imported.add_call(message_defaults.call(recipient, text), optional_text(item, "id", path), given, path)


# ── writing ──


def to_responses_items(conversation: Conversation, *, call_ids: CallIds | None = None) -> Exported:
    """The items alone. Tools and the reasoning effort are reported as lost; `to_responses_body` includes them."""
    writer = _Writer(conversation, call_ids, is_body=False)
    return writer.exported(writer.written)


def to_responses_body(conversation: Conversation, *, call_ids: CallIds | None = None) -> Exported:
    """A request body: `input` and, if the conversation has them, `tools`, `reasoning` and `text`."""
    writer = _Writer(conversation, call_ids)
    body: Json = {"input": writer.written}
    if writer.tools:
        body["tools"] = writer.tools
    if (effort := writer.settings.effort) is not None:
        body["reasoning"] = {"effort": effort.value}
    if (format_ := writer.settings.response_format) is not None:
        body["text"] = {"format": {"type": "json_schema", **write_format(format_)}}
    return writer.exported(body)


class _Writer(ApiWriter):
    name = "Responses"
    keeps_names = False

    def write_tools(self, namespaces: Iterable[ToolNamespace]) -> list[Json]:
        return responses_tools(namespaces)

    def text(self, role: str, texts: Texts, name: str | None) -> Json:
        return {"type": "message", "role": role, "content": _parts("input_text", texts)}

    def result(self, id_: str, recipient: str, texts: Texts) -> Json:
        kind = "custom_tool_call_output" if message_defaults.is_free_form(recipient) else "function_call_output"
        output = texts if isinstance(texts, str) else _parts("input_text", texts)
        return {"type": kind, "call_id": id_, "output": output}

    def write_call(self, index: int, recipient: str, text: str, name: str | None) -> None:
        item: Json = {"type": "function_call", "call_id": self.calls.ids[index]}
        if message_defaults.is_free_form(recipient):
            item |= {"type": "custom_tool_call", "name": recipient, "input": text}
        else:
            item |= {"name": message_defaults.bare_name(recipient), "arguments": text}
        self.append(index, item, message_defaults.call(recipient, text))

    def write_reasoning(self, index: int, texts: Texts, name: str | None) -> None:
        item: Json = {"type": "reasoning", "summary": [], "content": _parts("reasoning_text", texts)}
        self.append(index, item, message_defaults.assistant(texts, "analysis"))

    def write_said(self, index: int, texts: Texts, name: str | None) -> None:
        channel = "commentary" if self.conversation[index].channel == "commentary" else "final"
        item: Json = {"type": "message", "role": "assistant", "content": _parts("output_text", texts)}
        self.append(index, {**item, "phase": _PHASES[channel]}, message_defaults.assistant(texts, channel))


def _parts(kind: str, texts: Texts) -> list[Json]:
    return [{"type": kind, "text": text} for text in ((texts,) if isinstance(texts, str) else texts)]
