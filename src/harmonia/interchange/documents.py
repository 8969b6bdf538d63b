"""Reads fields of JSON from other programs: lenient about missing fields, exact about where an error is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NoReturn, cast

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.interchange.conversion import Report
from harmonia.interchange.message_defaults import Texts
from harmonia.json_codec import encode_json, read_json

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
