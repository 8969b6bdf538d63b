"""Parts of a content that are no text, as text: a model that reads text only is told what it was sent.

    [image: png, 2,140 bytes, 12×8; this model reads text only]
    [image: at https://example.com/cat.png, which was not fetched; this model reads text only]
    [file: notes.txt, 18 bytes]
    …its text…
    [end of file]

1. Nothing is fetched, and no library for images or documents looks at what a client sent: sizes of images are read from
   the first bytes, within bounds.
2. A text file that comes as data is part of the prompt, as text. Everything else is described.
3. What cannot be read is described as that. Only a part of a type that nobody knows is an error.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast
from urllib.parse import unquote_to_bytes

from harmonia.messages import Json
from harmonia.serve.wire.request_warnings import RequestWarnings
from harmonia.serve.wire.validation import unsupported

# A JPEG may have a preview, a profile and more before its size.
_HEAD_BYTES: Final = 512 * 1024
_INLINED_BYTES: Final = 4 * 1024 * 1024
_SHOWN_CHARS: Final = 200
_TEXT_ONLY: Final = "this model reads text only"
_DATA_URL: Final = re.compile(r"data:([^,;]*)((?:;[^,;]*)*),", re.IGNORECASE)
_TYPE: Final = re.compile(r"[\w.+-]+/[\w.+-]+|[\w.+-]+")


class _Data(NamedTuple):
    """What came with the request. `payload` is still encoded; `size` is that of the bytes, None where they are none."""

    media_type: str | None
    payload: str
    is_base64: bool

    def read(self, most: int) -> bytes | None:
        """The first bytes; None where they cannot be decoded."""
        if not self.is_base64:
            return unquote_to_bytes(self.payload[: 3 * most])[:most]
        return _decode(self.payload, most)

    @property
    def size(self) -> int:
        if not self.is_base64:
            return len(unquote_to_bytes(self.payload))
        chars = len(self.payload) - sum(self.payload.count(space) for space in "\r\n\t ")
        return (chars - self.payload.rstrip().count("=", -4)) * 3 // 4


def describe_part(part: Json, path: str, warnings: RequestWarnings | None = None) -> str:
    """A part that is no text, of Chat Completions or of Responses, as text. Unknown keys go to `warnings`."""
    kind = part.get("type")
    describe = _DESCRIBED.get(kind) if isinstance(kind, str) else None
    if describe is None:
        known = ", ".join(("text", *_DESCRIBED))
        unsupported(f"a part of type {_shown(kind)!r} is not supported; known are {known}", f"{path}.type")
    return describe(_known(part, path, warnings or RequestWarnings()))


def _known(part: Json, path: str, warnings: RequestWarnings) -> Json:
    known = warnings.drop_unknown(part, _FIELDS, path)
    for name in _HOLDERS:
        held = known.get(name)
        if isinstance(held, dict):
            known = {**known, name: _known(cast("Json", held), f"{path}.{name}", warnings)}
    return known


# ── kinds ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _describe_image(part: Json) -> str:
    given = part.get("image_url")
    url: Any = cast("Json", given).get("url") if isinstance(given, dict) else given
    return _describe_medium("image", url, part.get("file_id"), _image_facts)


def _describe_audio(part: Json) -> str:
    given = part.get("input_audio", part.get("audio"))
    audio = cast("Json", given) if isinstance(given, dict) else part
    data, spoken = audio.get("data"), audio.get("format")
    if not isinstance(data, str):
        return _describe_medium(
            "audio", audio.get("audio_url") or audio.get("url"), audio.get("file_id") or audio.get("id")
        )
    if _DATA_URL.match(data) is None:
        data = f"data:{spoken if isinstance(spoken, str) else ''};base64,{data}"
    return _describe_medium("audio", data, None)


def _describe_video(part: Json) -> str:
    given = part.get("video_url")
    url: Any = cast("Json", given).get("url") if isinstance(given, dict) else given
    return _describe_medium("video", url, part.get("file_id"))


def _describe_file(part: Json) -> str:
    nested = part.get("file")
    file = cast("Json", nested) if isinstance(nested, dict) else part
    name = file.get("filename")
    said = [_shown(name)] if isinstance(name, str) and name else []
    data = file.get("file_data")
    if not isinstance(data, str) or not data:
        where = _where(file.get("file_url"), file.get("file_id"))
        return f"[file: {', '.join([*said, where])}]"
    found = _data_of(data)
    if found is None:
        found = _Data(None, data, is_base64=True)
    inner = found.read(_INLINED_BYTES)
    if inner is None:
        return f"[file: {', '.join([*said, 'data that is not base64'])}]"
    size = found.size
    said.append(f"{size:,} bytes")
    text = _text_of(inner) if size <= _INLINED_BYTES else None
    if text is not None:
        return f"[file: {', '.join(said)}]\n{text}\n[end of file]"
    kind = _kind_of(inner) or _short_type(found.media_type)
    return f"[file: {', '.join([*said, *([kind] if kind else [])])}; {_TEXT_ONLY}]"


def _describe_medium(noun: str, url: object, id_: object, facts: Callable[[bytes], list[str]] | None = None) -> str:
    found = _data_of(url)
    if found is None:
        return f"[{noun}: {_where(url, id_)}; {_TEXT_ONLY}]"
    head = found.read(_HEAD_BYTES)
    if head is None:
        return f"[{noun}: data that is not base64; {_TEXT_ONLY}]"
    kind = _kind_of(head) or _short_type(found.media_type)
    said = [*([kind] if kind else []), f"{found.size:,} bytes", *(facts(head) if facts is not None else [])]
    return f"[{noun}: {', '.join(said)}; {_TEXT_ONLY}]"


_DESCRIBED: Final[dict[str, Callable[[Json], str]]] = {
    "image_url": _describe_image,
    "input_image": _describe_image,
    "file": _describe_file,
    "input_file": _describe_file,
    "input_audio": _describe_audio,
    "video_url": _describe_video,
    "input_video": _describe_video,
}


# What a part holds, and what describes it. Neither how closely to look at an image nor what to cache concerns a model
# that reads text only.
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
        return f"with the id {_shown(id_)}, under which nothing is stored here"
    return "without any data"


def _shown(value: object) -> str:
    """A name or an address on one line, cut where it is long."""
    text = "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in str(value)[: _SHOWN_CHARS + 1])
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def _short_type(media_type: str | None) -> str | None:
    """`image/png` is png."""
    if media_type is None or len(media_type) > _SHOWN_CHARS or _TYPE.fullmatch(media_type) is None:
        return None
    return media_type.rpartition("/")[2].lower()


# ── data ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _data_of(url: object) -> _Data | None:
    if not isinstance(url, str):
        return None
    match = _DATA_URL.match(url)
    if match is None:
        return None
    is_base64 = any(each.strip().lower() == "base64" for each in match[2].split(";"))
    return _Data(match[1].strip() or None, url[match.end() :], is_base64)


def _decode(payload: str, most: int) -> bytes | None:
    """The first bytes of base64; white space is passed over, and the padding may be missing."""
    chars = payload[: 2 * most]
    chars = "".join(chars.split()).replace("-", "+").replace("_", "/").rstrip("=")
    if len(payload) > 2 * most:
        chars = chars[: len(chars) // 4 * 4]
    if len(chars) % 4 == 1:
        return None
    try:
        return base64.b64decode(chars + "=" * (-len(chars) % 4), validate=True)[:most]
    except (binascii.Error, ValueError):
        return None


def _text_of(data: bytes) -> str | None:
    """The text of a text file; None for everything else."""
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
    """What the first bytes say it is; they know better than whoever named it."""
    if head[:4] == b"RIFF":
        return {b"WEBP": "webp", b"WAVE": "wav"}.get(head[8:12])
    return next((kind for signature, kind in _SIGNATURES if head.startswith(signature)), None)


def _image_facts(head: bytes) -> list[str]:
    size = _image_size(head)
    return [] if size is None else [f"{size[0]}×{size[1]}"]


def _image_size(head: bytes) -> tuple[int, int] | None:
    """Width and height, in pixels."""
    match _kind_of(head):
        case "png" if len(head) >= 24 and head[12:16] == b"IHDR":
            return _big(head[16:20]), _big(head[20:24])
        case "gif" if len(head) >= 10:
            return _little(head[6:8]), _little(head[8:10])
        case "jpeg":
            return _jpeg_size(head)
        case "webp" if len(head) >= 30:
            return _webp_size(head)
        case _:
            return None


def _jpeg_size(head: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(head):
        if head[at] != 0xFF:
            return None
        marker = head[at + 1]
        if marker == 0xFF or 0xD0 <= marker <= 0xD9 or marker == 0x01:
            at += 1 if marker == 0xFF else 2  # filling, and markers without a length
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return _big(head[at + 7 : at + 9]), _big(head[at + 5 : at + 7])
        else:
            at += 2 + max(_big(head[at + 2 : at + 4]), 2)
    return None


def _webp_size(head: bytes) -> tuple[int, int] | None:
    match head[12:16]:
        case b"VP8X":
            return _little(head[24:27]) + 1, _little(head[27:30]) + 1
        case b"VP8L":
            bits = _little(head[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return _little(head[26:28]) & 0x3FFF, _little(head[28:30]) & 0x3FFF
        case _:
            return None


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")
