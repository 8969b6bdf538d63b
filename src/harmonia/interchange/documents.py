"""Reading JSON that others wrote: lenient about what is left out, exact about where something is wrong."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NoReturn, cast

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.interchange.conversion import Lossy
from harmonia.interchange.message_defaults import Texts
from harmonia.json_codec import encode_json
from harmonia.parser.arguments import read_json

Object = Mapping[str, Any]

_TEXT_PARTS = ("text", "input_text", "output_text", "reasoning_text", "summary_text")


class Report:
    """The losses of one import, in their order."""

    __slots__ = ("losses",)

    def __init__(self) -> None:
        self.losses: list[Lossy] = []

    def lose(self, path: str, what: str, why: str) -> None:
        self.losses.append(Lossy(path, what, why))

    def lose_others(self, value: Object, known: Collection[str], path: str, why: str) -> None:
        """Report the fields that are not known, if they say anything: one Lossy for all of them."""
        others = [name for name, said in value.items() if name not in known and not _says_nothing(said)]
        if others:
            self.lose(path, "fields", f"{', '.join(others)}: {why}")


def _says_nothing(value: object) -> bool:
    return value is None or (isinstance(value, str | list | dict) and not value)


def refuse(message: str, path: str) -> NoReturn:
    raise InputError(ErrorCode.INTERCHANGE_INVALID_VALUE, message, Position(path=path))


def value_of(given: Any) -> Any:
    """A JSON value from its text; anything else is one already."""
    if not isinstance(given, str | bytes):
        return given
    try:
        text = given.decode() if isinstance(given, bytes) else given
        return read_json(text.removeprefix("\ufeff"))
    except UnicodeDecodeError as error:
        raise InputError(ErrorCode.INTERCHANGE_INVALID_VALUE, f"the input is not UTF-8: {error}") from error
    except ValueError as error:
        character: int | None = getattr(error, "pos", None)
        raise InputError(
            ErrorCode.INTERCHANGE_INVALID_VALUE, f"the input is not JSON: {error}", Position(character=character)
        ) from error


def object_at(value: object, path: str) -> Object:
    if not isinstance(value, Mapping):
        refuse(f"{_kind_of(value)} stands where an object is expected", path)
    return cast(Object, value)


def list_at(value: object, path: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        refuse(f"{_kind_of(value)} stands where a list is expected", path)
    return list(cast("list[Any]", value))


def text_at(value: object, path: str) -> str:
    if not isinstance(value, str):
        refuse(f"{_kind_of(value)} stands where a text is expected", path)
    return value


def optional_text(value: Object, name: str, path: str) -> str | None:
    """The text of a field; None where it is missing, null or empty."""
    given = value.get(name)
    return None if given is None or given == "" else text_at(given, f"{path}.{name}")


def required_text(value: Object, name: str, path: str) -> str:
    if value.get(name) is None:
        refuse(f"there is no {name}", path)
    return text_at(value[name], f"{path}.{name}")


def arguments_at(value: object, path: str) -> str:
    """What is sent to a tool: a text as it stands; other values are written as JSON, and nothing is an empty object."""
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
    """A content: null, a text, a part, or a list of parts and texts. One part alone is its text."""
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
        report.lose_others(part, ("type", "text"), path, "no part of a text")
        return text_at(part.get("text"), f"{path}.text")
    if kind == "refusal":
        report.lose(path, "refusal", "that it is a refusal is not kept; its text is")
        return required_text(part, "refusal", path)
    described = _describe_medium(kind, part)
    if described is None:
        refuse(f"a part of type {kind!r} is not known", path)
    report.lose(path, str(kind), f"Harmony conversations are text: the part became the placeholder {described}")
    return described


def _describe_medium(kind: object, part: Object) -> str | None:
    """A placeholder for what is no text, such as `[image: https://…]`."""
    match kind:
        case "image_url" | "input_image" | "output_image" | "image":
            given = part.get("image_url", part.get("source"))
            url: Any = cast(Object, given).get("url") if isinstance(given, Mapping) else given
            return _placeholder("image", url or part.get("file_id"))
        case "input_audio" | "audio" | "output_audio":
            audio = part.get("input_audio")
            return _placeholder("audio", cast(Object, audio).get("format") if isinstance(audio, Mapping) else None)
        case "video_url" | "input_video":
            video = part.get("video_url")
            return _placeholder("video", cast(Object, video).get("url") if isinstance(video, Mapping) else video)
        case "file" | "input_file":
            file = part.get("file")
            named = cast(Object, file) if isinstance(file, Mapping) else part
            return _placeholder("file", named.get("filename") or named.get("file_url") or named.get("file_id"))
        case _:
            return None


def _placeholder(noun: str, what: object) -> str:
    if not isinstance(what, str) or not what:
        return f"[{noun}]"
    if what.startswith("data:"):
        head, _, data = what.partition(",")
        return f"[{noun}: {head.removeprefix('data:').partition(';')[0]}, {len(data)} characters]"
    return f"[{noun}: {what}]"


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object" if isinstance(value, Mapping) else type(value).__name__
