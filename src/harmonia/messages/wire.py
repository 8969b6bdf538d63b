"""Messages as JSON: the reference's fields, unknown ones refused, and errors that name the path of what is wrong."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.json_codec import split_validation_error
from harmonia.messages.contents import Content, DeveloperContent, Json, Role, SystemContent


class WireText(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="text"):
    text: str


class WireMessage(msgspec.Struct, forbid_unknown_fields=True):
    role: Role
    content: str | list[WireText | SystemContent | DeveloperContent]
    name: str | None = None
    channel: str | None = None
    recipient: str | None = None
    content_type: str | None = None


class WireConversation(msgspec.Struct, forbid_unknown_fields=True):
    messages: list[WireMessage]


JSON_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
MESSAGE_DECODER = msgspec.json.Decoder(WireMessage)

T = TypeVar("T")


def content_to_dict(content: Content) -> Json:
    if isinstance(content, str):
        return {"type": "text", "text": content}
    # A field that is None is written only where leaving it out would mean the default.
    silent = {info.encode_name for info in msgspec.structs.fields(type(content)) if info.default is None}
    values: Json = _to_builtins(content)
    return {name: value for name, value in values.items() if value is not None or name not in silent}


def _to_builtins(value: object) -> Any:
    try:
        return msgspec.to_builtins(value)
    except (TypeError, RecursionError) as error:
        raise InputError(ErrorCode.MESSAGES_INVALID_VALUE, f"not a JSON value: {error}") from error


def convert(value: object, type_: type[T]) -> T:
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        raise _invalid_value(error) from error
    except RecursionError as error:
        raise InputError(ErrorCode.MESSAGES_INVALID_VALUE, "the values nest too deep") from error


def decode(text: str | bytes, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        raise _invalid_value(error) from error
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InputError(ErrorCode.MESSAGES_INVALID_JSON, f"not JSON: {error}", _position_of(error, text)) from error


def _invalid_value(error: msgspec.ValidationError) -> InputError:
    message, path = split_validation_error(error)
    return InputError(ErrorCode.MESSAGES_INVALID_VALUE, message, Position(path=path))


def _position_of(error: Exception, text: str | bytes) -> Position:
    # msgspec ends its sentence with "(byte 12)".
    _, _, tail = str(error).rpartition("(byte ")
    if not tail[:-1].isdigit():
        return Position()
    data = text.encode(errors="replace") if isinstance(text, str) else text
    return Position(character=len(data[: int(tail[:-1])].decode(errors="replace")))
