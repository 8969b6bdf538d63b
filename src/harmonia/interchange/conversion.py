"""What all formats share: the results of a conversion, what it loses, and the reading of JSON from other programs.

1. Nothing is lost silently: everything that a format cannot express is one `Lossy`.
2. If `write` reports no loss, `read` restores the same conversation. Otherwise the messages that no `Lossy` names are
   restored unchanged and in order.
3. A conversation that was read never has sampled tokens (law 1): only a parser or a trusted store supplies them.
4. Reading is lenient about missing fields, and exact about where an error is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, Protocol, cast

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.json_codec import encode_json, read_json
from harmonia.messages import Conversation, call_id, is_call
from harmonia.provenance import Trust

# The ids that calls had in the source, by message index.
CallIds = Mapping[int, str]
# The text of a message, or several.
Texts = str | tuple[str, ...]


class Lossy(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that a conversion lost: `what` names the field, `why` explains it in a sentence.

    `path` is a JSON path into the input or, for an export, into the conversation. `message` is the index of the message
    concerned, if there is one.
    """

    path: str
    what: str
    why: str
    message: int | None = None

    def __str__(self) -> str:
        return self.why if self.path == "$" else f"{self.path}: {self.why}"


class Report(msgspec.Struct):
    """The losses of one import, in order."""

    losses: list[Lossy] = []

    def lose(self, path: str, what: str, why: str) -> None:
        self.losses.append(Lossy(path, what, why))

    def lose_others(self, value: Mapping[str, Any], known: Collection[str], path: str, why: str) -> None:
        """Report unknown fields that are not empty, as one Lossy."""
        others = [name for name, given in value.items() if name not in known and given not in (None, "", [], {})]
        if others:
            self.lose(path, "fields", f"dropped {', '.join(others)}: {why}")


@dataclass(frozen=True, slots=True)
class Imported:
    """A conversation that was read. `call_ids` are the ids of its calls, which messages cannot store."""

    conversation: Conversation
    losses: tuple[Lossy, ...] = ()
    call_ids: CallIds = field(default_factory=dict[int, str])


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of an export: a text or a JSON value."""

    value: Any
    losses: tuple[Lossy, ...] = ()

    @property
    def text(self) -> str:
        """The value as text, JSON on one line."""
        return self.value if isinstance(self.value, str) else encode_json(self.value)


class Write(Protocol):
    def __call__(self, conversation: Conversation, /, *, call_ids: CallIds | None = None) -> Exported: ...


@dataclass(frozen=True, slots=True)
class ConversationFormat:
    """A format of conversations. `read` accepts the JSON value or its text; `write` returns what `read` accepts.

    `keeps_call_ids` says whether the output includes the ids passed to `write`.
    """

    name: str
    description: str
    read: Callable[[Any], Imported]
    write: Write
    keeps_call_ids: bool = False


# ── losses that every export may have ──


def sampled_losses(conversation: Conversation) -> Iterator[Lossy]:
    """Sampled tokens are never exported: on the way back they could not be trusted."""
    number = sum(1 for message in conversation if message.sampled is not None)
    if number:
        messages = "1 message" if number == 1 else f"{number} messages"
        yield Lossy("$.messages", "sampled", f"the sampled tokens of {messages} are not exported")


def unexpressed_losses(conversation: Conversation, call_ids: CallIds | None) -> Iterator[Lossy]:
    """Sampled tokens, doubts about messages, which come back as certain (laws 5, 7), and call ids, for formats that
    cannot express them. An id that would be generated again is not a loss."""
    yield from sampled_losses(conversation)
    for index, message in enumerate(conversation):
        origin = message.origin
        if origin is None:
            continue
        if origin.forged:
            role = message.role
            why = f"the model forged this message; the format cannot say so, and it comes back as a real {role} message"
        elif origin.trust is Trust.GUESSED and not is_call(message):
            why = "the header was guessed; the format cannot say so, and the message comes back as certain"
        else:
            continue
        yield Lossy(f"$.messages[{index}]", "origin", why, index)
    lost = [id_ for index, id_ in (call_ids or {}).items() if id_ != call_id(index)]
    if lost:
        others = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        yield Lossy("$.messages", "call_id", f"call ids are lost: {lost[0]}{others}")


def sort_losses(losses: Iterable[Lossy]) -> tuple[Lossy, ...]:
    """Losses about the whole conversation first, then message by message."""
    return tuple(sorted(losses, key=lambda loss: -1 if loss.message is None else loss.message))


Object = Mapping[str, Any]

_TEXT_PARTS: Final = ("text", "input_text", "output_text", "reasoning_text", "summary_text")
_MEDIA: Final = {
    **dict.fromkeys(("image_url", "input_image", "output_image", "image"), "image"),
    **dict.fromkeys(("input_audio", "audio", "output_audio"), "audio"),
    **dict.fromkeys(("video_url", "input_video"), "video"),
    **dict.fromkeys(("file", "input_file"), "file"),
}
_MEDIUM_FIELDS: Final = ("image_url", "source", "input_audio", "video_url", "file")
# What identifies a medium: the first of these fields that there is.
_IDENTITY_FIELDS: Final = ("filename", "file_url", "url", "format", "file_id")
_KINDS: Final = {
    "NoneType": "null", "bool": "a boolean", "int": "a number", "float": "a number", "str": "a string",
    "list": "a list", "object": "an object",
}  # fmt: skip


def refuse(message: str, path: str) -> NoReturn:
    raise InputError(ErrorCode.INTERCHANGE_INVALID_VALUE, message, Position(path=path))


def text_of(given: str | bytes) -> str:
    """A text without its byte order mark."""
    try:
        text = given.decode() if isinstance(given, bytes) else given
    except UnicodeDecodeError as error:
        raise InputError(ErrorCode.INTERCHANGE_INVALID_VALUE, f"the input is not valid UTF-8: {error}") from error
    return text.removeprefix("\ufeff")


def value_of(given: Any) -> Any:
    """A JSON value, parsed if it is given as text."""
    if not isinstance(given, str | bytes):
        return given
    try:
        return read_json(text_of(given))
    except ValueError as error:
        at = Position(character=getattr(error, "pos", None))
        raise InputError(ErrorCode.INTERCHANGE_INVALID_VALUE, f"the input is not valid JSON: {error}", at) from error


def object_at(value: object, path: str) -> Object:
    if not isinstance(value, Mapping):
        refuse(f"expected an object, found {_kind_of(value)}", path)
    return cast(Object, value)


def list_at(value: object, path: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        refuse(f"expected a list, found {_kind_of(value)}", path)
    return list(cast("list[Any]", value))


def text_at(value: object, path: str) -> str:
    if not isinstance(value, str):
        refuse(f"expected a string, found {_kind_of(value)}", path)
    return value


def optional_text(value: Object, name: str, path: str) -> str | None:
    """The text of a field, or None if it is missing, null or empty."""
    given = value.get(name)
    return None if given is None or given == "" else text_at(given, f"{path}.{name}")


def required_text(value: Object, name: str, path: str) -> str:
    if value.get(name) is None:
        refuse(f"the field {name} is missing", path)
    return text_at(value[name], f"{path}.{name}")


def arguments_at(value: object, path: str) -> str:
    """The arguments of a call: a string as it is, any other value as JSON, null as an empty object."""
    if value is None:
        return "{}"
    return value if isinstance(value, str) else json_text(value, path)


def json_text(value: object, path: str) -> str:
    try:
        return encode_json(value)
    except InputError as error:
        raise InputError(ErrorCode.INTERCHANGE_INVALID_VALUE, error.message, Position(path=path)) from error


# ── contents ────────────────────────────────────────────────────────────────────────────────────────────────────────


def texts_at(value: object, path: str, report: Report) -> Texts:
    """A content: null, a text, a part, or a list of parts and texts. A single part gives its text."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return _part_text(cast(Object, value), path, report)
    parts = list_at(value, path)
    texts = tuple(
        part if isinstance(part, str) else _part_text(object_at(part, f"{path}[{at}]"), f"{path}[{at}]", report)
        for at, part in enumerate(parts)
    )
    return texts[0] if len(texts) == 1 else texts


def _part_text(part: Object, path: str, report: Report) -> str:
    kind = part.get("type")
    if kind in _TEXT_PARTS or (kind is None and isinstance(part.get("text"), str)):
        report.lose_others(part, ("type", "text"), path, "not part of a text")
        return text_at(part.get("text"), f"{path}.text")
    if kind == "refusal":
        report.lose(path, "refusal", "kept as ordinary text, without the mark that it is a refusal")
        return required_text(part, "refusal", path)
    described = _placeholder(part, str(kind), path)
    report.lose(path, str(kind), f"Harmony conversations are text only; replaced by the placeholder {described}")
    return described


def _placeholder(part: Object, kind: str, path: str) -> str:
    """A text for media, such as `[image: https://…]`."""
    noun = _MEDIA.get(kind)
    if noun is None:
        refuse(f"unknown part type {part.get('type')!r}", path)
    # The medium is an object, or just its address; the fields of a file may also be those of the part.
    given: Any = next((part[name] for name in _MEDIUM_FIELDS if name in part), None)
    fields = cast(Object, given) if isinstance(given, Mapping) else {**part, "url": given}
    what: Any = next((fields[name] for name in _IDENTITY_FIELDS if fields.get(name)), part.get("file_id"))
    if not isinstance(what, str) or not what:
        return f"[{noun}]"
    if what.startswith("data:"):
        head, _, data = what.partition(",")
        return f"[{noun}: {head.removeprefix('data:').partition(';')[0]}, {len(data)} characters]"
    return f"[{noun}: {what}]"


def _kind_of(value: object) -> str:
    kind = "object" if isinstance(value, Mapping) else type(value).__name__
    return _KINDS.get(kind, kind)
