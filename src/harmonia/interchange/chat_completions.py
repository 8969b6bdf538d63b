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

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from harmonia.interchange import message_defaults
from harmonia.interchange.api_messages import NO_PART, ApiReader, ApiWriter, SystemAs
from harmonia.interchange.conversion import (
    CallIds,
    Exported,
    Imported,
    Object,
    Texts,
    arguments_at,
    list_at,
    object_at,
    optional_text,
    refuse,
    required_text,
    text_at,
    value_of,
)
from harmonia.interchange.request_settings import (
    Settings,
    chat_tools,
    read_effort,
    read_format,
    read_tools,
    write_format,
)
from harmonia.messages import Conversation, Json, Message, Role, ToolNamespace, is_call, is_forged

_REASONING: Final = ("reasoning", "reasoning_content", "thinking")
_BODY: Final = ("messages", "tools", "functions", "reasoning_effort", "response_format")
_CALL_KINDS: Final = ("function", "custom")


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def to_chat_messages(conversation: Conversation, *, call_ids: CallIds | None = None) -> Exported:
    """The messages alone. Tools and the reasoning effort are reported as lost; `to_chat_body` includes them."""
    writer = _Writer(conversation, call_ids, is_body=False)
    return writer.exported(writer.written)


def to_chat_body(conversation: Conversation, *, call_ids: CallIds | None = None) -> Exported:
    """A request body: `messages` and, if the conversation has them, `tools`, `reasoning_effort`, `response_format`."""
    writer = _Writer(conversation, call_ids)
    body: Json = {"messages": writer.written}
    if writer.tools:
        body["tools"] = writer.tools
    if (effort := writer.settings.effort) is not None:
        body["reasoning_effort"] = effort.value
    if (format_ := writer.settings.response_format) is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": write_format(format_)}
    return writer.exported(body)


class _Writer(ApiWriter):
    name = "Chat Completions"
    # The assistant message to which more can be added.
    _open: Json | None = None

    def write(self, index: int, message: Message) -> None:
        if message.role is not Role.ASSISTANT:
            self._open = None
        super().write(index, message)

    def write_tools(self, namespaces: Iterable[ToolNamespace]) -> list[Json]:
        return chat_tools(namespaces)

    def text(self, role: str, texts: Texts | None, name: str | None) -> Json:
        named = {} if name is None else {"name": name}
        return {"role": role, **named, "content": None if texts is None else _write_texts(texts)}

    def result(self, id_: str, recipient: str, texts: Texts) -> Json:
        return {"role": "tool", "tool_call_id": id_, "content": _write_texts(texts)}

    def write_call(self, index: int, recipient: str, text: str, name: str | None) -> None:
        if message_defaults.is_free_form(recipient):
            kind, called = "custom", {"name": recipient, "input": text}
        else:
            kind, called = "function", {"name": message_defaults.bare_name(recipient), "arguments": text}
        call = {"id": self.calls.ids[index], "type": kind, kind: called}
        self._join(index, name).setdefault("tool_calls", []).append(call)
        self.compare(index, message_defaults.call(recipient, text, name))

    def write_reasoning(self, index: int, texts: Texts, name: str | None) -> None:
        self._open = None
        text = self._join(index, name)["reasoning"] = "".join(texts)
        self.compare(index, message_defaults.assistant(text, "analysis", name))

    def write_said(self, index: int, texts: Texts, name: str | None) -> None:
        following = self.conversation[index + 1 : index + 2]
        is_before_call = any(is_call(each) and each.name == name and not is_forged(each) for each in following)
        is_preamble = self.conversation[index].channel == "commentary" and is_before_call
        if self._open is not None and (self._open["content"] is not None or "tool_calls" in self._open):
            self._open = None
        self._join(index, name)["content"] = _write_texts(texts)
        if not is_preamble:
            self._open = None
        self.compare(index, message_defaults.assistant(texts, "commentary" if is_preamble else "final", name))

    def _join(self, index: int, name: str | None) -> Json:
        """The open assistant message, or a new one."""
        if self._open is None or self._open.get("name") != name:
            self._open = self.text("assistant", None, name)
            self.append(index, self._open)
        return self._open


def _write_texts(texts: Texts) -> str | list[Json]:
    return texts if isinstance(texts, str) else [{"type": "text", "text": text} for text in texts]


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def from_chat_messages(messages: Sequence[Object], *, tools: object = None, system: SystemAs = "developer") -> Imported:
    """A conversation from messages and the `tools` of the request, which are declared in a developer message."""
    reader = _Reader(system)
    settings = Settings(namespaces=read_tools(tools, "$.tools", reader.report))
    reader.read_all(messages, "$")
    return reader.finish(settings)


def read_chat(given: Any, *, system: SystemAs = "developer") -> Imported:
    """A conversation from a list of messages, a request body or an answer, as a JSON value or its text."""
    value = value_of(given)
    if isinstance(value, list | tuple):
        return from_chat_messages(cast("list[Any]", value), system=system)
    reader = _Reader(system)
    body = object_at(value, "$")
    if "choices" in body:
        return _read_answer(body, reader)
    if "messages" not in body:
        refuse("expected a field `messages` or `choices`", "$")
    reader.report.lose_others(body, _BODY, "$", NO_PART)
    tools = "functions" if body.get("functions") else "tools"
    settings = Settings(
        read_effort(body.get("reasoning_effort"), "$.reasoning_effort", reader.report),
        read_tools(body.get(tools), f"$.{tools}", reader.report),
        read_format(body.get("response_format"), "$.response_format", reader.report),
    )
    reader.read_all(body["messages"], "$.messages")
    return reader.finish(settings)


def _read_answer(body: Object, reader: _Reader) -> Imported:
    report = reader.report
    report.lose_others(body, ("choices",), "$", NO_PART)
    choices = list_at(body["choices"], "$.choices")
    if not choices:
        refuse("the answer has no choices", "$.choices")
    if len(choices) > 1:
        report.lose("$.choices", "choices", f"only the first choice was imported, {len(choices) - 1} omitted")
    choice = object_at(choices[0], "$.choices[0]")
    report.lose_others(choice, ("index", "message"), "$.choices[0]", NO_PART)
    if "message" not in choice:
        refuse("the choice has no message; read a stream with `harmonia parse`", "$.choices[0]")
    reader.read(choice["message"], "$.choices[0].message", "assistant")
    return reader.finish()


class _Reader(ApiReader):
    known = ("role", "content", "name")

    def read_all(self, messages: object, path: str) -> None:
        for at, message in enumerate(list_at(messages, path)):
            self.read(message, f"{path}[{at}]")

    def read(self, given: object, path: str, role: str | None = None) -> None:
        message = object_at(given, path)
        role = message.get("role") or role or required_text(message, "role", path)
        name = message.get("name")
        name = None if name is None else text_at(name, f"{path}.name")
        known: tuple[str, ...] = ()
        match role:
            case "system" | "developer":
                self.add_instructions(role, self.texts_in(message, path), name, path)
            case "user":
                self.imported.add(message_defaults.user(self.texts_in(message, path), name))
            case "assistant":
                self._read_assistant(message, name, path)
                known = (*_REASONING, "reasoning_details", "refusal", "tool_calls", "function_call")
            case "tool" | "function":
                id_ = optional_text(message, "tool_call_id", path) if role == "tool" else None
                texts = self.output(message.get("content"), f"{path}.content")
                full_name = None if name is None else message_defaults.full_name(name)
                self.imported.add_result(id_, full_name, texts, path, f"{path}.tool_call_id")
                known = ("tool_call_id",)
            case _:
                roles = "system, developer, user, assistant, tool or function"
                refuse(f"unknown role {role!r}; expected {roles}", f"{path}.role")
        self.lose_others(message, known, path)

    def _read_assistant(self, message: Object, name: str | None, path: str) -> None:
        texts = self.texts_in(message, path)
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
            self.report.lose(f"{path}.refusal", "refusal", why)
            said.append(message_defaults.assistant(refusal, "final", name))
        if not said and not calls:
            self.report.lose(path, "message", "the message is empty and was omitted")
        self.imported.add(*said)
        for recipient, arguments, id_ in calls:
            self.imported.add_call(message_defaults.call(recipient, arguments, name), id_)

    def _reasoning_of(self, message: Object, path: str) -> str:
        found = [text for field in _REASONING if (text := optional_text(message, field, path))]
        details = message.get("reasoning_details")
        if not found and isinstance(details, list):
            objects = [cast(Object, each) for each in cast("list[Any]", details) if isinstance(each, Mapping)]
            texts = [each.get("text") or each.get("summary") for each in objects]
            found = ["".join(text for text in texts if isinstance(text, str))]
        if len(set(found)) > 1:
            self.report.lose(path, "reasoning", f"the fields {', '.join(_REASONING)} differ; the first was imported")
        return found[0] if found else ""

    def _calls_of(self, message: Object, path: str) -> list[tuple[str, str, str | None]]:
        """The recipient, the text and the id of each call."""
        calls: list[tuple[str, str, str | None]] = []
        for at, given in enumerate(list_at(message.get("tool_calls") or [], f"{path}.tool_calls")):
            here = f"{path}.tool_calls[{at}]"
            call = object_at(given, here)
            kind = call.get("type") or next((kind for kind in _CALL_KINDS if kind in call), "function")
            if kind not in _CALL_KINDS:
                refuse(f"unknown call type {kind!r}; expected function or custom", f"{here}.type")
            self.report.lose_others(call, ("id", "type", "index", kind), here, NO_PART)
            id_ = optional_text(call, "id", here)
            calls.append((*_read_function(call.get(kind), f"{here}.{kind}", kind), id_))
        if message.get("function_call") is not None:
            calls.append((*_read_function(message["function_call"], f"{path}.function_call", "function"), None))
        return calls


def _read_function(given: object, path: str, kind: str) -> tuple[str, str]:
    """The recipient and the text of a call."""
    function = object_at(given, path)
    name = required_text(function, "name", path)
    if kind == "custom":
        return message_defaults.free_form_name(name), text_at(function.get("input", ""), f"{path}.input")
    return message_defaults.full_name(name), arguments_at(function.get("arguments"), f"{path}.arguments")
