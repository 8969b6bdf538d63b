"""Chat Completions: lists of messages, request bodies and answers, to conversations and back.

    developer, system      developer instructions; with `system="system"` a system message stays a system text
    user                   user
    reasoning              assistant, analysis   (`reasoning_content` and `thinking` are read too)
    content                assistant, commentary if calls follow in the same message, otherwise final
    tool_calls             assistant, to the tool; a custom call goes to a tool without a namespace, such as python
    tool                   tool, with the name of the tool that was called

Several assistant messages of a conversation become one message of the API: reasoning, a preamble and calls, or
reasoning and the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, cast

from harmonia.interchange import message_defaults
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
    chat_tools,
    finish_import,
    instructions_of,
    read_settings,
    read_tools,
    write_format,
)
from harmonia.messages import Conversation, Json, Message, Role, is_call, is_forged

# What a system message becomes. By default developer instructions, since gpt-oss reads such texts as those.
SystemAs = Literal["developer", "system"]

_NAME: Final = "Chat Completions"
_REASONING: Final = ("reasoning", "reasoning_content", "thinking")
_BODY: Final = ("messages", "tools", "functions", "reasoning_effort", "response_format")
_CALL_KINDS: Final = ("function", "custom")
_NO_PART: Final = "not part of a conversation"


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def to_chat_messages(
    conversation: Conversation, *, call_ids: CallIds | None = None, reasoning_field: str = "reasoning"
) -> Exported:
    """The messages alone. Tools and the reasoning effort are reported as lost; `to_chat_body` includes them."""
    settings = WrittenSettings(conversation, _NAME, chat_tools, is_body=False)
    writer = _Writer(conversation, call_ids, reasoning_field)
    return Exported(writer.written, writer.finish(settings))


def to_chat_body(
    conversation: Conversation, *, call_ids: CallIds | None = None, reasoning_field: str = "reasoning"
) -> Exported:
    """A request body: `messages` and, if the conversation has them, `tools`, `reasoning_effort`, `response_format`."""
    settings = WrittenSettings(conversation, _NAME, chat_tools, is_body=True)
    writer = _Writer(conversation, call_ids, reasoning_field)
    body: Json = {"messages": writer.written}
    if settings.tools:
        body["tools"] = settings.tools
    if settings.effort is not None:
        body["reasoning_effort"] = settings.effort.value
    if settings.response_format is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": write_format(settings.response_format)}
    return Exported(body, writer.finish(settings))


class _Writer:
    def __init__(self, conversation: Conversation, call_ids: CallIds | None, reasoning_field: str) -> None:
        self.written: list[Json] = []
        self._listed: list[int] = []
        self._losses: list[Lossy] = []
        self._calls = ExportedCalls(conversation, call_ids)
        self._conversation = conversation
        self._reasoning_field = reasoning_field
        # The assistant message to which more can be added, and its author's name.
        self._open: Json | None = None
        self._open_name: str | None = None
        for index, message in enumerate(conversation):
            if message.role is not Role.ASSISTANT:
                self._open = None
            self._write(index, message)

    def finish(self, settings: WrittenSettings) -> tuple[Lossy, ...]:
        others = (*settings.losses(self._listed), *self._calls.losses(), *sampled_losses(self._conversation))
        return sort_losses((*self._losses, *others))

    def _write(self, index: int, message: Message) -> None:
        if is_forged(message):
            self._losses.append(left_out(index, f"the model forged it as a {message.role} message"))
            return
        match message.role:
            case Role.SYSTEM:
                texts = message_defaults.texts_of(message)
                if any(texts):
                    self._append(index, "system", texts, message.name)
            case Role.DEVELOPER:
                instructions = instructions_of(message)
                if instructions:
                    self._append(index, "developer", instructions, message.name)
            case Role.USER:
                texts = message_defaults.texts_of(message)
                self._append(index, "user", texts, message.name)
                self._compare(index, message_defaults.user(texts, message.name))
            case Role.ASSISTANT:
                self._write_assistant(index, message)
            case Role.TOOL:
                self._write_result(index, message)

    def _write_assistant(self, index: int, message: Message) -> None:
        name = message.name
        if is_call(message):
            recipient = message.recipient or ""
            call = _write_call(recipient, message.text, self._calls.id_of(index))
            self._join(index, name).setdefault("tool_calls", []).append(call)
            self._compare(index, message_defaults.call(recipient, message.text, name))
            return
        texts = message_defaults.texts_of(message)
        if message_defaults.is_hidden(message):
            text = message_defaults.joined(texts)
            self._open = None
            if not text:
                self._losses.append(left_out(index, f"{_NAME} cannot express empty reasoning"))
                return
            self._join(index, name)[self._reasoning_field] = text
            self._compare(index, message_defaults.assistant(text, "analysis", name))
            return
        if not any(texts):
            self._losses.append(left_out(index, message_defaults.EMPTY))
            return
        is_preamble = message.channel == "commentary" and self._is_call_of(index + 1, name)
        if self._open is not None and (self._open["content"] is not None or "tool_calls" in self._open):
            self._open = None
        self._join(index, name)["content"] = _write_texts(texts)
        if not is_preamble:
            self._open = None
        self._compare(index, message_defaults.assistant(texts, "commentary" if is_preamble else "final", name))

    def _write_result(self, index: int, message: Message) -> None:
        answered = self._calls.answered_by(index)
        if answered is None:
            self._losses.append(left_out(index, f"no call to {message.name} is waiting for it, so it has no call id"))
            return
        id_, recipient = answered
        texts = message_defaults.texts_of(message)
        self._listed.append(index)
        self.written.append({"role": "tool", "tool_call_id": id_, "content": _write_texts(texts)})
        self._compare(index, message_defaults.result(recipient, texts))

    def _is_call_of(self, index: int, name: str | None) -> bool:
        if index >= len(self._conversation):
            return False
        following = self._conversation[index]
        return is_call(following) and following.name == name and not is_forged(following)

    def _join(self, index: int, name: str | None) -> Json:
        """The open assistant message, or a new one."""
        if self._open is None or self._open_name != name:
            self._append(index, "assistant", None, name)
            self._open, self._open_name = self.written[-1], name
        return self._open

    def _append(self, index: int, role: str, texts: Texts | None, name: str | None) -> None:
        written: Json = {"role": role}
        if name is not None:
            written["name"] = name
        written["content"] = None if texts is None else _write_texts(texts)
        self._listed.append(index)
        self.written.append(written)

    def _compare(self, index: int, back: Message) -> None:
        self._losses += differences(index, self._conversation[index], back, _NAME)


def _write_texts(texts: Texts) -> str | list[Json]:
    return texts if isinstance(texts, str) else [{"type": "text", "text": text} for text in texts]


def _write_call(recipient: str, text: str, id_: str) -> Json:
    if message_defaults.is_free_form(recipient):
        return {"id": id_, "type": "custom", "custom": {"name": recipient, "input": text}}
    function = {"name": message_defaults.bare_name(recipient), "arguments": text}
    return {"id": id_, "type": "function", "function": function}


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def from_chat_messages(messages: Sequence[Object], *, tools: object = None, system: SystemAs = "developer") -> Imported:
    """A conversation from messages and the `tools` of the request, which are declared in a developer message."""
    report = Report()
    settings = NO_SETTINGS if tools is None else Settings(namespaces=read_tools(tools, "$.tools", report) or None)
    return _read_messages(messages, "$", settings, system, report)


def read_chat(given: Any, *, system: SystemAs = "developer") -> Imported:
    """A conversation from a list of messages, a request body or an answer, as a JSON value or its text."""
    value = value_of(given)
    report = Report()
    if isinstance(value, list | tuple):
        return _read_messages(cast("list[Any]", value), "$", NO_SETTINGS, system, report)
    body = object_at(value, "$")
    if "choices" in body:
        return _read_answer(body, system, report)
    if "messages" not in body:
        refuse("expected a field `messages` or `choices`", "$")
    report.lose_others(body, _BODY, "$", _NO_PART)
    name, tools = ("functions", body["functions"]) if body.get("functions") else ("tools", body.get("tools"))
    paths = (f"$.{name}", "$.reasoning_effort", "$.response_format")
    settings = read_settings(tools, body.get("reasoning_effort"), body.get("response_format"), paths, report)
    return _read_messages(body["messages"], "$.messages", settings, system, report)


def _read_answer(body: Object, system: SystemAs, report: Report) -> Imported:
    report.lose_others(body, ("choices",), "$", _NO_PART)
    choices = list_at(body["choices"], "$.choices")
    if not choices:
        refuse("the answer has no choices", "$.choices")
    if len(choices) > 1:
        report.lose("$.choices", "choices", f"only the first choice was imported, {len(choices) - 1} omitted")
    choice = object_at(choices[0], "$.choices[0]")
    report.lose_others(choice, ("index", "message"), "$.choices[0]", _NO_PART)
    if "message" not in choice:
        refuse("the choice has no message; read a stream with `harmonia parse`", "$.choices[0]")
    reader = _Reader(system, report)
    reader.read(choice["message"], "$.choices[0].message", "assistant")
    return reader.finish(NO_SETTINGS)


def _read_messages(given: object, path: str, settings: Settings, system: SystemAs, report: Report) -> Imported:
    reader = _Reader(system, report)
    for at, message in enumerate(list_at(given, path)):
        reader.read(message, f"{path}[{at}]")
    return reader.finish(settings)


class _Reader:
    def __init__(self, system: SystemAs, report: Report) -> None:
        self._system: SystemAs = system
        self._report = report
        self._read = ImportedMessages(report)

    def finish(self, settings: Settings) -> Imported:
        return finish_import(self._read, settings)

    def read(self, given: object, path: str, role: str | None = None) -> None:
        message = object_at(given, path)
        role = message.get("role") or role or required_text(message, "role", path)
        content = message.get("content")
        match role:
            case "system" | "developer":
                self._read_instructions(role, message, path)
            case "user":
                texts = texts_at(content, f"{path}.content", self._report)
                self._read.add(message_defaults.user(texts, self._name(message, path)))
                self._lose_others(message, (), path)
            case "assistant":
                self._read_assistant(message, path)
            case "tool" | "function":
                if _is_object(content) and "type" not in cast(Object, content):
                    content = json_text(content, f"{path}.content")
                id_ = optional_text(message, "tool_call_id", path) if role == "tool" else None
                name = self._name(message, path)
                texts = texts_at(content, f"{path}.content", self._report)
                full_name = None if name is None else message_defaults.full_name(name)
                self._read.add_result(id_, full_name, texts, path, f"{path}.tool_call_id")
                self._lose_others(message, ("tool_call_id",), path)
            case _:
                known = "system, developer, user, assistant, tool or function"
                refuse(f"unknown role {role!r}; expected {known}", f"{path}.role")

    def _read_instructions(self, role: str, message: Object, path: str) -> None:
        texts = texts_at(message.get("content"), f"{path}.content", self._report)
        name = self._name(message, path)
        self._read.add_instructions(texts, name, path, is_system=role == self._system == "system")
        self._lose_others(message, (), path)

    def _read_assistant(self, message: Object, path: str) -> None:
        name = self._name(message, path)
        texts = texts_at(message.get("content"), f"{path}.content", self._report)
        calls = self._calls_of(message, path)
        reasoning = self._reasoning_of(message, path)
        refusal = optional_text(message, "refusal", path)
        said: list[Message] = []
        if reasoning:
            said.append(message_defaults.assistant(reasoning, "analysis", name))
        if any(texts):
            said.append(message_defaults.assistant(texts, "commentary" if calls else "final", name))
        if refusal:
            why = "kept as ordinary text on final, without the mark that it is a refusal"
            self._report.lose(f"{path}.refusal", "refusal", why)
            said.append(message_defaults.assistant(refusal, "final", name))
        if not said and not calls:
            self._report.lose(path, "message", "the message is empty and was omitted")
        self._read.add(*said)
        for recipient, arguments, id_ in calls:
            self._read.add_call(message_defaults.call(recipient, arguments, name), id_)
        known = (*_REASONING, "reasoning_details", "refusal", "tool_calls", "function_call")
        self._lose_others(message, known, path)

    def _reasoning_of(self, message: Object, path: str) -> str:
        found = [text for field in _REASONING if (text := optional_text(message, field, path))]
        details = message.get("reasoning_details")
        if not found and isinstance(details, list):
            texts = [each.get("text") or each.get("summary") for each in cast("list[Any]", details) if _is_object(each)]
            found = ["".join(text for text in texts if isinstance(text, str))]
        if len(set(found)) > 1:
            self._report.lose(path, "reasoning", f"the fields {', '.join(_REASONING)} differ; the first was imported")
        return found[0] if found else ""

    def _calls_of(self, message: Object, path: str) -> list[tuple[str, str, str | None]]:
        calls: list[tuple[str, str, str | None]] = []
        for at, given in enumerate(list_at(message.get("tool_calls") or [], f"{path}.tool_calls")):
            here = f"{path}.tool_calls[{at}]"
            call = object_at(given, here)
            kind = call.get("type") or next((kind for kind in _CALL_KINDS if kind in call), "function")
            if kind not in _CALL_KINDS:
                refuse(f"unknown call type {kind!r}; expected function or custom", f"{here}.type")
            self._report.lose_others(call, ("id", "type", "index", kind), here, _NO_PART)
            id_ = optional_text(call, "id", here)
            calls.append((*_read_function(call.get(kind), f"{here}.{kind}", kind), id_))
        if message.get("function_call") is not None:
            calls.append((*_read_function(message["function_call"], f"{path}.function_call", "function"), None))
        return calls

    def _name(self, message: Object, path: str) -> str | None:
        name = message.get("name")
        return None if name is None else text_at(name, f"{path}.name")

    def _lose_others(self, message: Object, known: tuple[str, ...], path: str) -> None:
        self._report.lose_others(message, ("role", "content", "name", *known), path, _NO_PART)


def _read_function(given: object, path: str, kind: str) -> tuple[str, str]:
    """The recipient and the text of a call."""
    function = object_at(given, path)
    name = required_text(function, "name", path)
    if kind == "custom":
        return message_defaults.free_form_name(name), text_at(function.get("input", ""), f"{path}.input")
    return message_defaults.full_name(name), arguments_at(function.get("arguments"), f"{path}.arguments")


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping)


CHAT: Final = ConversationFormat(
    "chat",
    "Chat Completions: a list of messages, a request body, or an answer; writes a request body",
    read_chat,
    to_chat_body,
    keeps_call_ids=True,
)
