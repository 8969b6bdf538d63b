"""A message as segments: a special token is an int, ordinary text a str. Special tokens are made only here.

    <|start|> role[:name] [ to=recipient] [<|channel|> channel] [ content type] <|message|> content… stop

Each str is encoded on its own, as in the reference: other cuts would give other tokens.

A header is a line of words: a word with a space would be read as two, and one that spells a special token would become
that token if the prompt were sent as text. Such a word is refused; the reference writes it.

The text of system and developer contents is byte for byte what the models were trained to read: sections with a blank
line between them. The reference has all of these sections but one: `# Response Formats` is in the format's
documentation only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, NoReturn, get_args

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.json_codec import encode_json
from harmonia.messages import DeveloperContent, Message, Namespaces, ResponseFormat, Role, SystemContent
from harmonia.schema import Loss, declare_namespace
from harmonia.schema.document import as_json
from harmonia.schema.literals import lines_of
from harmonia.vocabulary import CALL, CHANNEL, CONSTRAIN, END, MESSAGE

_CHANNEL_REQUIRED = " Channel must be included for every message."
_FUNCTIONS_ON_COMMENTARY = "\nCalls to these tools must go to the commentary channel: 'functions'."


class Said(NamedTuple):
    """The text of a content, and what its schemas say that the text does not."""

    text: str
    losses: tuple[Loss, ...] = ()


def content_said(
    content: SystemContent | DeveloperContent,
    path: str = "$",
    *,
    has_functions: bool = False,
    exact_reference: bool = False,
) -> Said:
    """`has_functions` says whether a developer message of the conversation declares function tools."""
    sections: list[str] = []
    losses: tuple[Loss, ...] = ()
    if isinstance(content, SystemContent):
        about = [] if content.model_identity is None else [content.model_identity]
        if content.knowledge_cutoff is not None:
            about.append(f"Knowledge cutoff: {content.knowledge_cutoff}")
        if content.conversation_start_date is not None:
            about.append(f"Current date: {content.conversation_start_date}")
        if about:
            sections.append("\n".join(about))
        if content.reasoning_effort is not None:
            sections.append(f"Reasoning: {content.reasoning_effort}")
    elif content.instructions is not None:
        sections += ("# Instructions", content.instructions)
    if content.tools:
        tools, losses = _tools_section(content.tools, path, exact_reference=exact_reference)
        sections.append(tools)
    if isinstance(content, DeveloperContent):
        if content.response_formats:
            sections.append("# Response Formats")
            for index, response_format in enumerate(content.response_formats):
                sections.append(_response_format(response_format, f"{path}.response_formats[{index}]"))
    elif (channels := content.channel_config) is not None and channels.valid_channels:
        sections.append(
            f"# Valid channels: {', '.join(channels.valid_channels)}."
            + (_CHANNEL_REQUIRED if channels.channel_required else "")
            + (_FUNCTIONS_ON_COMMENTARY if has_functions else "")
        )
    return Said("\n\n".join(sections), losses)


def _tools_section(namespaces: Namespaces, path: str, *, exact_reference: bool) -> Said:
    declared = [
        declare_namespace(each.name, each.description, each.tools, exact_reference=exact_reference, path=where)
        for key, each in sorted(namespaces.items())
        for where in (f"{path}.tools.{key}",)
    ]
    text = "\n\n".join(("# Tools", *(namespace.text for namespace in declared)))
    return Said(text, tuple(loss for namespace in declared for loss in namespace.losses))


def _response_format(response_format: ResponseFormat, path: str) -> str:
    name = response_format.name
    if len(lines_of(name)) != 1:
        # It would write further sections of the message.
        problem = f"the name {name!r} must be a single line"
        raise InputError(ErrorCode.MESSAGES_INVALID_VALUE, problem, Position(path=f"{path}.name"))
    at = Position(path=f"{path}.schema")
    schema = encode_json(as_json(response_format.schema, f"{path}.schema"), code=ErrorCode.SCHEMA_INVALID, at=at)
    description = "".join(f"// {line}\n" for line in lines_of(response_format.description or "") if line)
    return f"## {name}\n\n{description}{schema}"


Segment = int | str
RecipientSection = Literal["role", "channel"]
CallStop = Literal["call", "end"]


class Form(NamedTuple):
    """How messages are written, where there is a choice."""

    recipient_section: RecipientSection = "role"
    call_stop: CallStop = "call"
    exact_reference: bool = False

    def refuse(self) -> NoReturn:
        """Raise for the invalid option."""
        name, allowed = (
            ("call_stop", CallStop)
            if self.recipient_section in get_args(RecipientSection)
            else ("recipient_section", RecipientSection)
        )
        choice = " or ".join(get_args(allowed))
        raise InputError(ErrorCode.RENDER_INVALID_OPTION, f"{name} is {getattr(self, name)!r}; use {choice}")


KNOWN_FORMS: Final = frozenset(
    Form(section, stop, exact)
    for section in get_args(RecipientSection)
    for stop in get_args(CallStop)
    for exact in (False, True)
)


class Segments(NamedTuple):
    """A message in parts."""

    role: str  # follows <|start|>; a prompt that asks for the message ends with it
    header: list[Segment]  # the rest of the header, <|message|> included
    body: Sequence[str]
    stop: int
    losses: tuple[Loss, ...]  # what the schemas contain and the body does not express


# The recipient that means everybody; it is not written.
EVERYBODY: Final = "all"

_CONSTRAIN_SPELLING: Final = "<|constrain|>"
_ROLE_NAMES: Final = frozenset(role.value for role in Role)
_WORD: Final = re.compile(r"(?!to=)[^\s<>|\x00-\x1f\x7f]+")


def segment(message: Message, form: Form, *, has_functions: bool) -> Segments:
    """The segments of one message."""
    if not form.exact_reference:
        _refuse_unsafe_header(message)
    author, recipient, channel, content = message.author, message.recipient, message.channel, message.content
    header: list[Segment] = []
    if author.role is Role.TOOL:
        if author.name is None:
            problem = "a tool message needs the name of its tool: Message.tool(name, text)"
            raise InputError(ErrorCode.RENDER_UNNAMED_TOOL, problem)
        role = author.name
    else:
        role = author.role.value
        if author.name is not None:
            header.append(f":{author.name}")

    address = None if recipient is None or recipient == EVERYBODY else f" to={recipient}"
    recipient_is_last = form.recipient_section == "channel" and channel is not None
    if address is not None and not recipient_is_last:
        header.append(address)
    if channel is not None:
        header += (CHANNEL, channel)
    if address is not None and recipient_is_last:
        header.append(address)
    if message.content_type is not None:
        header += _content_type(message.content_type)
    header.append(MESSAGE)

    body, losses = ((content,), ()) if isinstance(content, str) else _said(message, form, has_functions=has_functions)
    return Segments(role, header, body, stop_token(message, form), losses)


def stop_token(message: Message, form: Form) -> int:
    """The token that ends a message in history."""
    if message.role is not Role.ASSISTANT or message.recipient is None or form.call_stop == "end":
        return END
    # The reference ends a message to everybody as a call, although it does not write the recipient.
    return CALL if message.recipient != EVERYBODY or form.exact_reference else END


def _content_type(content_type: str) -> tuple[Segment, ...]:
    if content_type.startswith(_CONSTRAIN_SPELLING):
        rest = content_type.removeprefix(_CONSTRAIN_SPELLING)
        return (" ", CONSTRAIN, rest) if rest else (" ", CONSTRAIN)
    return (f" {content_type}",)


def _said(message: Message, form: Form, *, has_functions: bool) -> tuple[list[str], tuple[Loss, ...]]:
    texts: list[str] = []
    losses: tuple[Loss, ...] = ()
    exact = form.exact_reference
    for index, content in enumerate(message.contents):
        if isinstance(content, str):
            texts.append(content)
            continue
        path = f"$.content[{index}]"
        expected = Role.SYSTEM if isinstance(content, SystemContent) else Role.DEVELOPER
        if message.role is not expected:
            problem = f"{type(content).__name__} belongs in a {expected} message, not in one of role {message.role}"
            raise InputError(ErrorCode.RENDER_MISPLACED_CONTENT, problem, Position(path=path))
        if not exact and isinstance(content, SystemContent) and content.channel_config is not None:
            for channel in content.channel_config.valid_channels:
                _refuse_unless_word("channel", channel, f"{path}.channel_config.valid_channels")
        said = content_said(content, path, has_functions=has_functions, exact_reference=exact)
        texts.append(said.text)
        losses += said.losses
    return texts, losses


def _refuse_unsafe_header(message: Message) -> None:
    role, name = message.author.role, message.author.name
    if name is not None:
        _refuse_unless_word("name", name, "$.name")
        # A tool message has only its name as the author, so the name must not be a role.
        if role is Role.TOOL and name.partition(":")[0] in _ROLE_NAMES:
            raise _unsafe("name", name, "it would be read as the role of the message", "$.name")
    if message.channel is not None:
        _refuse_unless_word("channel", message.channel, "$.channel")
    if message.recipient is not None:
        _refuse_unless_word("recipient", message.recipient, "$.recipient")
    if message.content_type is not None:
        _refuse_unsafe_content_type(message.content_type, has_recipient=message.recipient is not None)


def _refuse_unsafe_content_type(content_type: str, *, has_recipient: bool) -> None:
    # The leading <|constrain|> is structure; one of the format's samples has a space after it.
    word = content_type.removeprefix(_CONSTRAIN_SPELLING)
    is_constrained = word is not content_type
    _refuse_unless_word("content type", word.removeprefix(" ") if is_constrained else word, "$.content_type")
    # A single word after the channel is a content type such as `json`, but one with a dot looks like a tool.
    if not is_constrained and not has_recipient and "." in word:
        raise _unsafe("content type", word, "without a recipient it would be read as one", "$.content_type")


def _refuse_unless_word(field: str, value: str, path: str) -> None:
    if _WORD.fullmatch(value) is None:
        reason = (
            "it would be read as a recipient"
            if value.startswith("to=")
            else "it must be a single word without white space, control characters, '<', '>' or '|'"
        )
        raise _unsafe(field, value, reason, path)


def _unsafe(field: str, value: str, reason: str, path: str) -> InputError:
    return InputError(
        ErrorCode.RENDER_UNSAFE_HEADER, f"the {field} {value!r} cannot be written safely: {reason}", Position(path=path)
    )
