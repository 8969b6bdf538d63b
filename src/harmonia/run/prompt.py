"""From a conversation to what the engine gets: the head composed, old reasoning dropped, a prefix added."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.history import Dropped, Policy, prepare
from harmonia.messages import (
    Conversation,
    DeveloperContent,
    Message,
    ReasoningEffort,
    ResponseFormat,
    Role,
    SystemContent,
    ToolNamespace,
)
from harmonia.renderer import Rendered, Renderer, freeze
from harmonia.run.tools import ToolSet
from harmonia.vocabulary import START

if TYPE_CHECKING:
    from harmonia.families.templates import PromptText

_HEAD: Final = (Role.SYSTEM, Role.DEVELOPER)
# Efforts of OpenAI's APIs that Harmony does not have, and the nearest that it has.
_NEAREST_EFFORTS: Final = {"none": "low", "minimal": "low", "xhigh": "high", "max": "high"}
# Models have no setting for it, so it is an instruction.
VERBOSITY: Final = {"low": "Keep the answer short.", "high": "Answer at length and in detail."}


class Prompt(msgspec.Struct, frozen=True):
    """`tokens` are what the engine continues. `given` are those of the prefix, after `<|start|>assistant`. For a model
    that does not speak Harmony there are no tokens, and the prompt is `written` as text. `ends` has the token at which
    each message of `conversation` ends."""

    conversation: Conversation
    tokens: list[int]
    given: list[int]
    dropped: tuple[Dropped, ...]
    written: PromptText | None = None
    ends: tuple[int, ...] = ()


def compose(
    conversation: Conversation,
    tools: ToolSet | None = None,
    *,
    effort: ReasoningEffort | str | None = None,
    response_format: ResponseFormat | None = None,
) -> Conversation:
    """The conversation with a complete head.

    It has a system message, with the effort where one is given. Built-in tools are declared in the system message, all
    others in the developer message. What is there already stays, so composing twice changes nothing.
    """
    messages = list(conversation)
    system = _content_of(messages, Role.SYSTEM, SystemContent)
    changed = system or (0, SystemContent())
    if effort is not None:
        changed = (changed[0], changed[1].replace(reasoning_effort=known_effort(effort)))
    if tools is not None and tools.system_namespaces:
        changed = (changed[0], changed[1].with_tools(*tools.system_namespaces))
    if system is None and not any(message.role is Role.SYSTEM for message in messages):
        messages.insert(0, Message.system(changed[1]))
    elif system is not None and changed[1] != system[1]:
        messages[changed[0]] = _with_content(messages[changed[0]], changed[1])
    elif system is None and changed[1] != SystemContent():
        raise InputError(
            ErrorCode.RUN_INVALID_OPTION,
            "the system message is plain text, so the effort and the built-in tools cannot be added to it; "
            "give it a SystemContent",
        )

    namespaces = tools.developer_namespaces if tools is not None else ()
    if namespaces or response_format is not None:
        found = _content_of(messages, Role.DEVELOPER, DeveloperContent)
        developer = found[1] if found is not None else DeveloperContent()
        wanted = developer.with_tools(*namespaces) if namespaces else developer
        if response_format is not None:
            wanted = wanted.replace(response_formats=(response_format,))
        if found is None:
            at = next((index for index, each in enumerate(messages) if each.role is not Role.SYSTEM), len(messages))
            messages.insert(at, Message(Role.DEVELOPER, wanted))
        elif wanted != developer:
            messages[found[0]] = _with_content(messages[found[0]], wanted)
    # The head is rendered again and again, and with many tools it is long.
    return Conversation(freeze(message) if message.role in _HEAD else message for message in messages)


def with_head(
    conversation: Iterable[Message],
    *,
    date: str | None,
    identity: str | None = None,
    is_provider: bool = False,
    has_declarations: bool = False,
) -> Conversation:
    """The conversation after a system message of a server's own.

    A provider writes its own system message, and gets another identity as a second one. `has_declarations`: `compose`
    will declare tools or a format. They belong at the head, so there is a developer message for them, even if there is
    another one further down.
    """
    messages = list(conversation)
    system = SystemContent(conversation_start_date=date)
    if identity is not None and not is_provider:
        system = system.replace(model_identity=identity)
    head = [Message.system(system)]
    if identity is not None and is_provider:
        head.append(Message.system(identity))
    if has_declarations and (not messages or messages[0].role is not Role.DEVELOPER):
        head.append(Message.developer())
    return Conversation([*head, *messages])


def known_effort(effort: ReasoningEffort | str) -> ReasoningEffort:
    """The effort under this name."""
    try:
        return ReasoningEffort(effort)
    except ValueError:
        known = ", ".join(each.value for each in ReasoningEffort)
        raise InputError(ErrorCode.RUN_INVALID_OPTION, f"effort is {effort!r}; expected one of {known}") from None


def nearest_effort(word: str | None) -> ReasoningEffort | None:
    """An effort of OpenAI's APIs in Harmony's words."""
    return None if word is None else ReasoningEffort(_NEAREST_EFFORTS.get(word, word))


def declared_namespaces(conversation: Conversation) -> list[ToolNamespace]:
    """The tools that the messages of a conversation declare."""
    found: dict[str, ToolNamespace] = {}
    for message in conversation:
        for content in message.contents:
            if isinstance(content, SystemContent | DeveloperContent):
                found.update(content.tools or {})
    return list(found.values())


def build(conversation: Conversation, prefix: Message | None, policy: Policy, renderer: Renderer | None) -> Prompt:
    """The prompt for the next message of the assistant, or for the rest of `prefix`.

    Without a renderer there are no tokens: a provider takes the conversation itself.
    """
    prepared = prepare(conversation, policy)
    if renderer is None:
        return Prompt(prepared.conversation, [], [], prepared.dropped)
    if prefix is None:
        rendered = renderer.render(prepared.conversation)
        return Prompt(prepared.conversation, rendered.tokens, [], prepared.dropped, ends=_ends_of(rendered))
    rendered = renderer.render(prepared.conversation, None)
    prefix_tokens = renderer.render([prefix], None).tokens[:-1]
    opening = renderer.render([]).tokens  # <|start|>assistant
    if prefix_tokens[: len(opening)] != opening:
        raise InputError(ErrorCode.RUN_INVALID_OPTION, "the prefix must be a message of the assistant, without a name")
    assert opening[0] == START
    return Prompt(
        prepared.conversation,
        rendered.tokens + prefix_tokens,
        prefix_tokens[len(opening) :],
        prepared.dropped,
        ends=_ends_of(rendered),
    )


def _ends_of(rendered: Rendered) -> tuple[int, ...]:
    return tuple(span.end_token for span in rendered.spans)


def take_last(conversation: Conversation) -> tuple[Conversation, Message | None]:
    """The conversation without its last message, and that message, which the model is to continue.

    Where the model was cut off after the end of a message, or within one that was not kept, it starts the next one.
    """
    last = conversation[-1] if len(conversation) else None
    if last is None or last.role is not Role.ASSISTANT:
        raise InputError(
            ErrorCode.RUN_INVALID_OPTION,
            "there is nothing to resume: the last message is not the assistant's",
        )
    stop = last.origin.stop if last.origin is not None else None
    if stop == "call":
        raise InputError(ErrorCode.RUN_INVALID_OPTION, "the last message is a call; add its result instead")
    return (conversation, None) if stop == "end" else (conversation[:-1], last)


Content = TypeVar("Content")


def _content_of(messages: list[Message], role: Role, kind: type[Content]) -> tuple[int, Content] | None:
    for index, message in enumerate(messages):
        if message.role is role:
            for content in message.contents:
                if isinstance(content, kind):
                    return index, content
    return None


def _with_content(message: Message, content: SystemContent | DeveloperContent) -> Message:
    contents = [content if isinstance(each, type(content)) else each for each in message.contents]
    return message.replace(content=contents)
