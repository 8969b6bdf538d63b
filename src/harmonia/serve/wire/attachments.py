"""Describe images, files, audio and video in words, for a model that only reads text.

    [image: png, 2,140 bytes, 12×8; this model reads text only]
    [image: at https://example.com/cat.png, which was not fetched; this model reads text only]
    [file: notes.txt, 18 bytes]
    …its text…
    [end of file]

1. Nothing is fetched, and nothing is decoded: the size of an image is read from its first bytes.
2. A text file that is sent as data becomes part of the prompt, as text. Everything else is described.
3. Unreadable data is described as such. Only an unknown type of part is an error.
"""

from __future__ import annotations

import base64
import io
import re
import unicodedata
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, cast
from urllib.parse import unquote_to_bytes

import imagesize

from harmonia.messages import Json
from harmonia.serve.wire.validation import RequestWarnings, unsupported

# A JPEG may have a preview and a profile before its size.
_HEAD_BYTES: Final = 512 * 1024
_INLINED_BYTES: Final = 4 * 1024 * 1024
_SHOWN_CHARS: Final = 200
_TEXT_ONLY: Final = "this model reads text only"
_DATA_URL: Final = re.compile(r"data:([^,;]*)((?:;[^,;]*)*),", re.IGNORECASE)
_TYPE: Final = re.compile(r"[\w.+-]+/[\w.+-]+|[\w.+-]+")


class _Data(NamedTuple):
    """Data in a request. `payload` is still encoded; `size` is that of the bytes."""

    media_type: str | None
    payload: str
    is_base64: bool

    def read(self, most: int) -> bytes | None:
        """The first bytes; None if they cannot be decoded. Base64 may have white space, and no padding."""
        if not self.is_base64:
            return unquote_to_bytes(self.payload[: 3 * most])[:most]
        chars = "".join(self.payload[: 2 * most].split()).replace("-", "+").replace("_", "/").rstrip("=")
        if len(self.payload) > 2 * most:
            chars = chars[: len(chars) // 4 * 4]
        try:
            return base64.b64decode(chars + "=" * (-len(chars) % 4), validate=True)[:most]
        except ValueError:
            return None

    @property
    def size(self) -> int:
        if not self.is_base64:
            return len(unquote_to_bytes(self.payload))
        chars = len(self.payload) - sum(self.payload.count(space) for space in "\r\n\t ")
        return (chars - self.payload.rstrip().count("=", -4)) * 3 // 4


def describe_part(part: Json, path: str, warnings: RequestWarnings | None = None) -> str:
    """Describe a part of Chat Completions or Responses that is not text. Unknown keys go to `warnings`."""
    kind = part.get("type")
    describe = DESCRIBED.get(kind) if isinstance(kind, str) else None
    if describe is None:
        known = ", ".join(("text", *DESCRIBED))
        unsupported(f"a part of type {_shown(kind)!r} is not supported; supported are {known}", f"{path}.type")
    return describe(_known(part, path, warnings or RequestWarnings()))


def _known(part: Json, path: str, warnings: RequestWarnings) -> Json:
    known = warnings.drop_unknown(part, _FIELDS, path)
    for name in _HOLDERS:
        held = known.get(name)
        if isinstance(held, dict):
            known = {**known, name: _known(cast("Json", held), f"{path}.{name}", warnings)}
    return known


# ── kinds ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _describe_linked(noun: str, part: Json) -> str:
    """An image or a video."""
    given = part.get(f"{noun}_url")
    url: Any = cast("Json", given).get("url") if isinstance(given, dict) else given
    return _describe_medium(noun, url, part.get("file_id"))


def _describe_audio(part: Json) -> str:
    given = part.get("input_audio", part.get("audio"))
    audio = cast("Json", given) if isinstance(given, dict) else part
    data, spoken = audio.get("data"), audio.get("format")
    if not isinstance(data, str):
        url, id_ = audio.get("audio_url") or audio.get("url"), audio.get("file_id") or audio.get("id")
        return _describe_medium("audio", url, id_)
    if _DATA_URL.match(data) is None:
        data = f"data:{spoken if isinstance(spoken, str) else ''};base64,{data}"
    return _describe_medium("audio", data, None)


def _describe_file(part: Json) -> str:
    nested = part.get("file")
    file = cast("Json", nested) if isinstance(nested, dict) else part
    name, data = file.get("filename"), file.get("file_data")
    said = [_shown(name)] if isinstance(name, str) and name else []
    if not isinstance(data, str) or not data:
        return f"[file: {', '.join([*said, _where(file.get('file_url'), file.get('file_id'))])}]"
    found = _data_of(data) or _Data(None, data, is_base64=True)
    inner = found.read(_INLINED_BYTES)
    if inner is None:
        return f"[file: {', '.join([*said, 'data that is not base64'])}]"
    size = found.size
    said.append(f"{size:,} bytes")
    text = _text_of(inner) if size <= _INLINED_BYTES else None
    if text is not None:
        return f"[file: {', '.join(said)}]\n{text}\n[end of file]"
    kind = _kind_of(inner) or _short_type(found.media_type)
    return f"[file: {', '.join(filter(None, (*said, kind)))}; {_TEXT_ONLY}]"


def _describe_medium(noun: str, url: object, id_: object) -> str:
    found = _data_of(url)
    if found is None:
        return f"[{noun}: {_where(url, id_)}; {_TEXT_ONLY}]"
    head = found.read(_HEAD_BYTES)
    if head is None:
        return f"[{noun}: data that is not base64; {_TEXT_ONLY}]"
    kind = _kind_of(head) or _short_type(found.media_type)
    said = ", ".join(filter(None, (kind, f"{found.size:,} bytes", _pixels_of(head))))
    return f"[{noun}: {said}; {_TEXT_ONLY}]"


DESCRIBED: Final[dict[str, Callable[[Json], str]]] = {
    "image_url": partial(_describe_linked, "image"),
    "input_image": partial(_describe_linked, "image"),
    "file": _describe_file,
    "input_file": _describe_file,
    "input_audio": _describe_audio,
    "video_url": partial(_describe_linked, "video"),
    "input_video": partial(_describe_linked, "video"),
}
# Known fields of parts. `detail` and `prompt_cache_breakpoint` mean nothing to a model that only reads text.
_HOLDERS: Final = ("image_url", "input_audio", "audio", "video_url", "file")
_FIELDS: Final = frozenset(
    (
        *_HOLDERS,
        *("type", "url", "data", "format", "id", "filename", "file_data", "file_id", "file_url", "audio_url"),
        *("detail", "prompt_cache_breakpoint"),
    )
)


# ── words ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _where(url: object, id_: object) -> str:
    if isinstance(url, str) and url:
        return f"at {_shown(url)}, which was not fetched"
    if isinstance(id_, str) and id_:
        return f"with the id {_shown(id_)}, which is not stored here"
    return "without any data"


def _shown(value: object) -> str:
    """A name or a URL on one line, shortened if it is long."""
    text = "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in str(value)[: _SHOWN_CHARS + 1])
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def _short_type(media_type: str | None) -> str | None:
    """`image/png` is png."""
    if media_type is None or len(media_type) > _SHOWN_CHARS or _TYPE.fullmatch(media_type) is None:
        return None
    return media_type.rpartition("/")[2].lower()


# ── data ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _data_of(url: object) -> _Data | None:
    match = _DATA_URL.match(url) if isinstance(url, str) else None
    if match is None:
        return None
    is_base64 = any(each.strip().lower() == "base64" for each in match[2].split(";"))
    return _Data(match[1].strip() or None, match.string[match.end() :], is_base64)


def _text_of(data: bytes) -> str | None:
    """The text of a text file; None for any other file."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if any(c < " " and c not in "\t\n\r\f" for c in set(text)) else text


_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"%PDF-", "pdf"),
    (b"PK\x03\x04", "zip"),
    (b"ID3", "mp3"),
    (b"OggS", "ogg"),
    (b"fLaC", "flac"),
)


def _kind_of(head: bytes) -> str | None:
    """The format according to the first bytes, which are more reliable than the declared type."""
    if head[:4] == b"RIFF":
        return {b"WEBP": "webp", b"WAVE": "wav"}.get(head[8:12])
    return next((kind for signature, kind in _SIGNATURES if head.startswith(signature)), None)


def _pixels_of(head: bytes) -> str | None:
    """Width and height of an image in pixels, if they can be read."""
    # Of the formats that imagesize reads only these four: it parses SVG as XML, which is not safe with clients' data.
    if _kind_of(head) not in ("png", "jpeg", "gif", "webp"):
        return None
    # imagesize has no py.typed.
    width, height = imagesize.get(io.BytesIO(head), exif_rotation=False)  # pyright: ignore[reportUnknownMemberType]
    return f"{width}×{height}" if width >= 0 and height >= 0 else None
