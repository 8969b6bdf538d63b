"""What a request says beside its messages: tools, the reasoning effort, the form of the answer.

In a conversation these stand in the system message and in the first developer message. Reading puts the effort into a
system message at the very front, and the rest into the first message, if that has developer instructions; otherwise
into a new developer message in front of it. Writing takes them from everywhere, and reports what will come back
elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from harmonia.errors import ErrorCode
from harmonia.interchange import message_defaults
from harmonia.interchange.conversion import Imported, Lossy, Report
from harmonia.interchange.documents import object_at
from harmonia.interchange.message_defaults import ImportedMessages, differences, left_out
from harmonia.interchange.tools import read_tools
from harmonia.messages import (
    Conversation,
    DeveloperContent,
    Json,
    Message,
    Namespaces,
    ReasoningEffort,
    ResponseFormat,
    Role,
    SystemContent,
    ToolNamespace,
    is_forged,
)
from harmonia.tool_definitions import read_response_format
from harmonia.tool_definitions.response_format import unwrap_format


@dataclass(frozen=True, slots=True)
class Settings:
    """What stands beside the messages."""

    effort: ReasoningEffort | None = None
    namespaces: Namespaces | None = None
    response_format: ResponseFormat | None = None


NO_SETTINGS = Settings()


def gather(conversation: Conversation) -> Settings:
    """The settings of a conversation: the effort of a system message in front, the tools of all messages."""
    found: dict[str, ToolNamespace] = {}
    response_format = None
    for message in conversation:
        for content in message.contents:
            if isinstance(content, str):
                continue
            for namespace in (content.tools or {}).values():
                present = found.get(namespace.name)
                tools = (*present.tools, *namespace.tools) if present else namespace.tools
                description = (
                    present.description if present and namespace.description is None else namespace.description
                )
                found[namespace.name] = ToolNamespace(namespace.name, description, tools)
            if isinstance(content, DeveloperContent) and content.response_formats and response_format is None:
                response_format = content.response_formats[0]
    first = leading_system(conversation)
    return Settings(first.reasoning_effort if first else None, found or None, response_format)


def leading_system(conversation: Conversation) -> SystemContent | None:
    content = conversation[0].content if len(conversation) else None
    return content if isinstance(content, SystemContent) and conversation[0].role is Role.SYSTEM else None


def finish_import(read: ImportedMessages, settings: Settings) -> Imported:
    """The messages that were read, with the settings in them or in front of them."""
    messages = read.finish()
    added = 0
    if settings.namespaces or settings.response_format:
        content = messages[0].content if messages else None
        if isinstance(content, DeveloperContent):
            home = messages[0]
        else:
            content, home = DeveloperContent(), Message.developer()
            messages.insert(0, home)
            added += 1
        formats = (settings.response_format,) if settings.response_format else None
        content = content.replace(tools=settings.namespaces or None, response_formats=formats)
        messages[0] = home.replace(content=content)
    if settings.effort is not None:
        messages.insert(0, Message.system(SystemContent(reasoning_effort=settings.effort)))
        added += 1
    call_ids = {index + added: id_ for index, id_ in read.call_ids.items()}
    return Imported(Conversation(messages), tuple(read.report.losses), call_ids)


class WrittenSettings:
    """The settings that are written, and what is lost of the system and developer messages that had them.

    Without a body there is no place for them, and all of them are lost.
    """

    def __init__(
        self,
        conversation: Conversation,
        format_name: str,
        write_tools: Callable[[Iterable[ToolNamespace]], list[Json]],
        *,
        is_body: bool,
        keeps_names: bool = True,
    ) -> None:
        self._keeps_names = keeps_names
        self._conversation = conversation
        self._format_name = format_name
        settings = gather(conversation) if is_body else NO_SETTINGS
        self.effort = settings.effort
        self.response_format = settings.response_format
        self.tools = write_tools((settings.namespaces or {}).values())
        self._namespaces = read_tools(self.tools, "$", Report()) if self.tools else None

    def losses(self, listed: Sequence[int]) -> Iterator[Lossy]:
        """What is lost, where these messages were written to the list of messages, in this order."""
        written = set(listed)
        home = self._home(listed)
        for index, message in enumerate(self._conversation):
            if is_forged(message):
                continue  # the writer reported it
            if message.role is Role.DEVELOPER:
                yield from self._developer_losses(index, message, is_home=index == home, is_written=index in written)
            elif message.role is Role.SYSTEM:
                yield from self._system_losses(index, message, is_written=index in written)

    def _home(self, listed: Sequence[int]) -> int | None:
        """The message with which the settings come back; see `finish_import`."""
        if self._namespaces is None and self.response_format is None:
            return None
        first = listed[0] if listed else len(self._conversation)
        if listed and self._conversation[first].role is Role.DEVELOPER:
            return first
        if listed and self._conversation[first].role is Role.SYSTEM:
            return None  # it comes back as a developer message, and that is said of it
        before = range(first)
        return next((index for index in before if self._conversation[index].role is Role.DEVELOPER), None)

    def _developer_losses(self, index: int, message: Message, *, is_home: bool, is_written: bool) -> Iterator[Lossy]:
        content = DeveloperContent()
        if is_home:
            formats = (self.response_format,) if self.response_format else None
            content = DeveloperContent(None, self._namespaces, formats)
        elif not is_written:
            yield left_out(index, f"it has nothing that {self._format_name} has a place for")
            return
        back = Message.developer()
        if is_written and (instructions := instructions_of(message)) is not None:
            back = message_defaults.developer(instructions, self._name(message))
            content = content.replace(instructions=cast(DeveloperContent, back.content).instructions)
        yield from differences(index, message, back.replace(content=content), self._format_name)

    def _system_losses(self, index: int, message: Message, *, is_written: bool) -> Iterator[Lossy]:
        if is_written:
            back = message_defaults.developer(message_defaults.texts_of(message), self._name(message))
            yield from differences(index, message, back, self._format_name)
        elif index == 0 and self.effort is not None:
            back = Message.system(SystemContent(reasoning_effort=self.effort))
            yield from differences(index, message, back, self._format_name)
        else:
            yield left_out(index, f"{self._format_name} has no place for a system content; providers write their own")

    def _name(self, message: Message) -> str | None:
        return message.name if self._keeps_names else None


def instructions_of(message: Message) -> message_defaults.Texts | None:
    """What a developer message says beside its settings; None where it says nothing."""
    texts: list[str] = []
    for content in message.contents:
        if isinstance(content, str):
            texts.append(content)
        elif isinstance(content, DeveloperContent) and content.instructions is not None:
            texts.append(content.instructions)
    if len(texts) == 1:
        return texts[0]
    return tuple(texts) or None


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_effort(value: object, path: str, report: Report) -> ReasoningEffort | None:
    """low, medium or high. Others, such as minimal, are not Harmony's."""
    if value is None:
        return None
    try:
        return ReasoningEffort(value)
    except ValueError:
        report.lose(path, "reasoning_effort", f"Harmony has the efforts low, medium and high, not {value}")
        return None


def read_format(value: object, path: str, report: Report) -> ResponseFormat | None:
    """A response format: `{"type": "json_schema", …}`, nested under `json_schema` or flat."""
    if value is None:
        return None
    given = object_at(value, path)
    kind = given.get("type", "text")
    if kind != "json_schema":
        if kind != "text":
            report.lose(path, "response_format", f"a format of type {kind} has no schema to keep")
        return None
    fields, where = unwrap_format(given, path)
    report.lose_others(fields, ("type", "name", "schema", "description"), where, "not part of a response format")
    return read_response_format(given, path, code=ErrorCode.INTERCHANGE_INVALID_VALUE, defaults={"schema": {}})


def write_format(response_format: ResponseFormat) -> Json:
    """The flat form, without its type."""
    written: Json = {"name": response_format.name, "schema": response_format.schema}
    if response_format.description is not None:
        written["description"] = response_format.description
    return written


def read_settings(
    tools: object, effort: object, response_format: object, paths: tuple[str, str, str], report: Report
) -> Settings:
    return Settings(
        read_effort(effort, paths[1], report),
        read_tools(tools, paths[0], report) or None if tools is not None else None,
        read_format(response_format, paths[2], report),
    )
