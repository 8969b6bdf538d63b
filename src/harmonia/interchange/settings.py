"""Tools, the reasoning effort and the form of the answer, which a request has beside its messages.

In a conversation these are in the system message and in the first developer message. Reading puts the effort into a
system message at the very front, and the rest into the first message, if that has developer instructions; otherwise
into a new developer message in front of it. Writing collects them from all messages, and reports what will come back
elsewhere.

The APIs declare tools like this. Their lists have no place for the description of a namespace that has tools.

    functions.get_weather   {"name": "get_weather", "parameters": …}
    browser.search          {"name": "browser.search", …}: other namespaces stay in front of the name
    python                  a custom tool: it takes text, and has no schema
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, cast

from harmonia.errors import ErrorCode
from harmonia.interchange import message_defaults
from harmonia.interchange.conversion import Imported, Lossy, Report
from harmonia.interchange.documents import Object, list_at, object_at, refuse
from harmonia.interchange.message_defaults import ImportedMessages, bare_name, differences, full_name, left_out
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
    ToolDescription,
    ToolNamespace,
    is_forged,
)
from harmonia.tool_definitions import (
    SCHEMA_FIELDS,
    ToolDefinition,
    read_definition,
    read_namespace,
    read_response_format,
    unwrap,
    unwrap_format,
)

_CODE: Final = ErrorCode.INTERCHANGE_INVALID_VALUE
_DESCRIBED: Final = ("type", "name", "description")
_NOT_KEPT: Final = "not part of a tool's description"


def chat_tools(namespaces: Iterable[ToolNamespace]) -> list[Json]:
    """The `tools` of a Chat Completions request."""
    return [{"type": kind, kind: definition} for kind, definition in _definitions(namespaces)]


def responses_tools(namespaces: Iterable[ToolNamespace]) -> list[Json]:
    """The `tools` of a Responses request."""
    return [{"type": kind, **definition} for kind, definition in _definitions(namespaces)]


def _definitions(namespaces: Iterable[ToolNamespace]) -> Iterable[tuple[str, Json]]:
    for namespace in namespaces:
        for tool in namespace.tools:
            definition: Json = {"name": bare_name(f"{namespace.name}.{tool.name}")}
            if tool.description is not None:
                definition["description"] = tool.description
            if tool.parameters is not None:
                definition["parameters"] = tool.parameters
            yield "function", definition
        if not namespace.tools:
            definition = {"name": namespace.name}
            if namespace.description is not None:
                definition["description"] = namespace.description
            yield "custom", definition


def read_tools(value: object, path: str, report: Report) -> Namespaces:
    """Namespaces from a list of definitions in any spelling, or just names.

    Tools that the server runs itself, such as `web_search`, have no definition to keep, and are reported.
    """
    found: dict[str, ToolNamespace] = {}
    for at, given in enumerate(list_at(value, path)):
        namespace = _read_tool(given, f"{path}[{at}]", report)
        if namespace is not None:
            _add(found, namespace)
    return found


def _read_tool(given: object, path: str, report: Report) -> ToolNamespace | None:
    if isinstance(given, str):
        given = {"type": "function", "name": given}
    kind, fields, where = unwrap(object_at(given, path), path, _CODE)
    match kind:
        case "function":
            namespace, _, name = full_name(_name_in(fields, where)).partition(".")
            if name:
                tool = _read_description(given, path, report)
                return ToolNamespace(namespace, tools=(ToolDescription(name, tool.description, tool.parameters),))
            why = "a tool without a namespace has no schema"  # python, declared as a function
        case "custom":
            why = _NOT_KEPT
        case "namespace":
            name, description, tools = read_namespace(given, path, _CODE)
            described = (_read_description(each, f"{path}.tools[{at}]", report) for at, each in enumerate(tools))
            return ToolNamespace(name, description, tuple(described))
        case _:
            report.lose(path, "tool", f"{kind}: the server's own tool, which has no definition to keep")
            return None
    tool = _read_definition(given, _DESCRIBED, why, path, report)
    return ToolNamespace(tool.name, tool.description)


def _read_description(given: object, path: str, report: Report) -> ToolDescription:
    tool = _read_definition(given, (*_DESCRIBED, *SCHEMA_FIELDS), _NOT_KEPT, path, report)
    return ToolDescription(tool.name, tool.description, tool.parameters)


def _read_definition(given: object, kept: Collection[str], why: str, path: str, report: Report) -> ToolDefinition:
    """A definition; what of its fields is not kept is reported."""
    kind, fields, where = unwrap(object_at(given, path), path, _CODE)
    _name_in(fields, where)
    if where != path:
        report.lose_others(cast("Object", given), ("type", kind), path, _NOT_KEPT)
    report.lose_others(fields, kept, where, why)
    return read_definition(given, path, code=_CODE)


def _name_in(fields: Object, path: str) -> str:
    if fields.get("name") is None:
        refuse("a tool needs a name", path)
    return str(fields["name"])


def _add(found: dict[str, ToolNamespace], added: ToolNamespace) -> None:
    present = found.get(added.name)
    if present is not None:
        description = present.description if added.description is None else added.description
        added = ToolNamespace(added.name, description, (*present.tools, *added.tools))
    found[added.name] = added


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
