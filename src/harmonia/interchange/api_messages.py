"""What Chat Completions and Responses share: readers and writers of lists of messages, with the settings of a request.

A writer compares each message with the one that its reader will build, and reports the differences.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Literal, cast

from harmonia.interchange import message_defaults
from harmonia.interchange.conversion import (
    CallIds,
    Exported,
    Imported,
    Lossy,
    Object,
    Report,
    Texts,
    json_text,
    sampled_losses,
    sort_losses,
    texts_at,
)
from harmonia.interchange.message_defaults import ImportedMessages, differences, left_out
from harmonia.interchange.request_settings import NO_SETTINGS, Settings, gather, instructions_of, read_tools
from harmonia.messages import (
    Conversation,
    DeveloperContent,
    Json,
    Message,
    Role,
    SystemContent,
    ToolNamespace,
    call_id,
    is_call,
    is_forged,
    join_results,
)

# What a system message becomes. By default developer instructions, since gpt-oss reads such texts as those.
SystemAs = Literal["developer", "system"]

NO_PART: Final = "not part of a conversation"


class ApiReader:
    """Reads one list of messages or items. `known` are the fields that every one of them may have."""

    known: ClassVar[tuple[str, ...]]

    def __init__(self, system: SystemAs) -> None:
        self.imported = ImportedMessages()
        self.report = self.imported.report
        self._system: SystemAs = system

    def finish(self, settings: Settings = NO_SETTINGS) -> Imported:
        """What was read, with the settings in the messages or in front of them."""
        messages = self.imported.finish()
        count = len(messages)
        if settings.namespaces or settings.response_format:
            content = messages[0].content if messages else None
            if not isinstance(content, DeveloperContent):
                content = DeveloperContent()
                messages.insert(0, Message.developer())
            formats = (settings.response_format,) if settings.response_format else None
            content = content.replace(tools=settings.namespaces or None, response_formats=formats)
            messages[0] = messages[0].replace(content=content)
        if settings.effort is not None:
            messages.insert(0, Message.system(SystemContent(reasoning_effort=settings.effort)))
        added = len(messages) - count
        call_ids = {index + added: id_ for index, id_ in self.imported.call_ids.items()}
        return Imported(Conversation(messages), tuple(self.report.losses), call_ids)

    def add_unless_empty(self, message: Message, path: str) -> None:
        """Add a text of the assistant or instructions. An empty one is omitted and reported: in a prompt it would end
        a turn, or be an extra message. Empty messages of users and tools are kept."""
        if message_defaults.is_empty(message):
            self.report.lose(path, "message", "the message is empty and was omitted")
        else:
            self.imported.add(message)

    def add_instructions(self, role: str, texts: Texts, name: str | None, path: str) -> None:
        """Add a system text, or developer instructions, which are a single text."""
        if role == self._system == "system":
            self.add_unless_empty(message_defaults.system(texts, name), path)
            return
        if isinstance(texts, tuple) and len(texts) > 1:
            why = "instructions are a single text: the parts became its lines"
            self.report.lose(f"{path}.content", "content", why)
        self.add_unless_empty(message_defaults.developer(texts, name), path)

    def texts_in(self, value: Object, path: str, name: str = "content") -> Texts:
        return texts_at(value.get(name), f"{path}.{name}", self.report)

    def output(self, value: object, path: str) -> Texts:
        """The result of a tool: a content, or any other JSON object as text."""
        if isinstance(value, Mapping) and "type" not in cast(Object, value):
            return json_text(cast(Object, value), path)
        return texts_at(cast(object, value), path, self.report)

    def lose_others(self, value: Object, known: tuple[str, ...], path: str) -> None:
        self.report.lose_others(value, (*self.known, *known), path, NO_PART)


class ApiWriter(ABC):
    """Writes one conversation. Without a body there is no place for settings, and all of them are lost."""

    name: ClassVar[str]
    keeps_names: ClassVar[bool] = True

    def __init__(self, conversation: Conversation, call_ids: CallIds | None, *, is_body: bool = True) -> None:
        self.written: list[Json] = []
        self.conversation = conversation
        self.calls = ExportedCalls(conversation, call_ids)
        self.settings = gather(conversation) if is_body else NO_SETTINGS
        self.tools = self.write_tools((self.settings.namespaces or {}).values())
        self._namespaces = read_tools(self.tools, "$", Report()) if self.tools else None
        self._listed: list[int] = []
        self._losses: list[Lossy] = []
        for index, message in enumerate(conversation):
            self.write(index, message)

    def exported(self, value: Any) -> Exported:
        """The value with all losses."""
        others = (*self._settings_losses(), *self.calls.losses(), *sampled_losses(self.conversation))
        return Exported(value, sort_losses((*self._losses, *others)))

    # ── what the APIs write differently ──

    @abstractmethod
    def write_tools(self, namespaces: Iterable[ToolNamespace]) -> list[Json]: ...

    @abstractmethod
    def text(self, role: str, texts: Texts, name: str | None) -> Json:
        """A message that is not the assistant's."""

    @abstractmethod
    def result(self, id_: str, recipient: str, texts: Texts) -> Json: ...

    @abstractmethod
    def write_call(self, index: int, recipient: str, text: str, name: str | None) -> None: ...

    @abstractmethod
    def write_reasoning(self, index: int, texts: Texts, name: str | None) -> None: ...

    @abstractmethod
    def write_said(self, index: int, texts: Texts, name: str | None) -> None:
        """Write a visible text of the assistant."""

    # ── messages ──

    def write(self, index: int, message: Message) -> None:
        texts, name = message_defaults.texts_of(message), message.name if self.keeps_names else None
        if is_forged(message):
            self.lose(index, f"the model forged it as a {message.role} message")
            return
        match message.role:
            case Role.SYSTEM:
                if any(texts):
                    self.append(index, self.text("system", texts, name))
            case Role.DEVELOPER:
                if instructions := instructions_of(message):
                    self.append(index, self.text("developer", instructions, name))
            case Role.USER:
                self.append(index, self.text("user", texts, name), message_defaults.user(texts, name))
            case Role.ASSISTANT if is_call(message):
                self.write_call(index, message.recipient or "", message.text, name)
            case Role.ASSISTANT if not message_defaults.is_hidden(message):
                if any(texts):
                    self.write_said(index, texts, name)
                else:
                    self.lose(index, "the message is empty")
            case Role.ASSISTANT:
                if any(texts):
                    self.write_reasoning(index, texts, name)
                else:
                    self.lose(index, f"{self.name} cannot express empty reasoning")
            case Role.TOOL:
                answered = self.calls.answered_by(index)
                if answered is None:
                    self.lose(index, f"no call to {message.name} is waiting for it, so it has no call id")
                else:
                    self.append(index, self.result(*answered, texts), message_defaults.result(answered[1], texts))

    def append(self, index: int, written: Json, back: Message | None = None) -> None:
        """Append a message that will be read back as `back`. Instructions are compared when the settings are known."""
        self._listed.append(index)
        self.written.append(written)
        if back is not None:
            self.compare(index, back)

    def compare(self, index: int, back: Message) -> None:
        self._losses += differences(index, self.conversation[index], back, self.name)

    def lose(self, index: int, why: str) -> None:
        self._losses.append(left_out(index, why))

    # ── what is lost of system and developer messages ──

    def _settings_losses(self) -> Iterator[Lossy]:
        written, home = set(self._listed), self._home()
        for index, message in enumerate(self.conversation):
            if is_forged(message):
                continue  # `write` reported it
            if message.role is Role.DEVELOPER:
                yield from self._developer_losses(index, message, is_home=index == home, is_written=index in written)
            elif message.role is Role.SYSTEM:
                yield from self._system_losses(index, message, is_written=index in written)

    def _home(self) -> int | None:
        """The message with which the settings come back; see `ApiReader.finish`."""
        if self._namespaces is None and self.settings.response_format is None:
            return None
        first = self._listed[0] if self._listed else len(self.conversation)
        if self._listed and self.conversation[first].role is Role.DEVELOPER:
            return first
        if self._listed and self.conversation[first].role is Role.SYSTEM:
            return None  # it comes back as a developer message, and its own loss says so
        return next((index for index in range(first) if self.conversation[index].role is Role.DEVELOPER), None)

    def _developer_losses(self, index: int, message: Message, *, is_home: bool, is_written: bool) -> Iterator[Lossy]:
        content = DeveloperContent()
        if is_home:
            formats = (self.settings.response_format,) if self.settings.response_format else None
            content = DeveloperContent(None, self._namespaces, formats)
        elif not is_written:
            yield left_out(index, f"it has nothing that {self.name} has a place for")
            return
        back = Message.developer()
        if is_written and (instructions := instructions_of(message)) is not None:
            back = message_defaults.developer(instructions, message.name if self.keeps_names else None)
            content = content.replace(instructions=cast(DeveloperContent, back.content).instructions)
        yield from differences(index, message, back.replace(content=content), self.name)

    def _system_losses(self, index: int, message: Message, *, is_written: bool) -> Iterator[Lossy]:
        if is_written:
            name = message.name if self.keeps_names else None
            back = message_defaults.developer(message_defaults.texts_of(message), name)
            yield from differences(index, message, back, self.name)
        elif index == 0 and self.settings.effort is not None:
            back = Message.system(SystemContent(reasoning_effort=self.settings.effort))
            yield from differences(index, message, back, self.name)
        else:
            yield left_out(index, f"{self.name} has no place for a system content; providers write their own")


class ExportedCalls:
    """The ids of a conversation's calls, each unique, and the calls that its results answer."""

    def __init__(self, conversation: Conversation, call_ids: CallIds | None) -> None:
        joined = join_results(conversation)
        self._index_of = {each.result_index: each.index for each in joined if each.result_index is not None}
        self._conversation = conversation
        given = call_ids or {}
        self.ids: dict[int, str] = {}
        used, reserved = set[str](), set(given.values())
        for exchange in joined:
            id_ = given.get(exchange.index)
            if id_ is None or id_ in used:
                id_ = call_id(exchange.index)
                while id_ in used or id_ in reserved:
                    id_ += "_"
            used.add(id_)
            self.ids[exchange.index] = id_

    def answered_by(self, result_index: int) -> tuple[str, str] | None:
        """The id and the recipient of the call that a result answers, or None."""
        index = self._index_of.get(result_index)
        return None if index is None else (self.ids[index], self._conversation[index].recipient or "")

    def losses(self) -> Iterator[Lossy]:
        """Results that will move, because their order differs from that of their calls."""
        latest: dict[str, int] = {}
        for index, message in enumerate(self._conversation):
            if message.role is not Role.TOOL:
                latest = {}
                continue
            call = self._index_of.get(index)
            if call is None:
                continue
            recipient = self._conversation[call].recipient or ""
            if call < latest.get(recipient, -1):
                why = "results come back in the order of the calls to their tool"
                yield Lossy(f"$.messages[{index}]", "order", why, index)
            latest[recipient] = max(call, latest.get(recipient, -1))
