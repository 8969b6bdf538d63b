"""What a model that reads text only is told of images, files, audio and video."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia import InputError
from harmonia.errors import ErrorCode
from harmonia.serve.responses.items.base import texts_of
from harmonia.serve.wire.attachments import describe_part
from harmonia.serve.wire.validation import RequestWarnings


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def data_url(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{b64(data)}"


def image(url: str) -> str:
    """The same in both APIs."""
    chat = describe_part({"type": "image_url", "image_url": {"url": url, "detail": "low"}}, "$")
    assert describe_part({"type": "input_image", "image_url": url}, "$") == chat
    return chat


def file(**fields: Any) -> str:
    chat = describe_part({"type": "file", "file": fields}, "$")
    assert describe_part({"type": "input_file", **fields}, "$") == chat
    return chat


def png(width: int, height: int) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


def jpeg(width: int, height: int) -> bytes:
    profile = b"\xff\xe1" + struct.pack(">H", 60_002) + b"x" * 60_000
    tables = b"\xff\xdb" + struct.pack(">H", 67) + b"\0" * 65
    frame = b"\xff\xc2" + struct.pack(">HBHH", 17, 8, height, width) + b"\0" * 10
    return b"\xff\xd8" + profile + tables + b"\xff" + frame + b"\xff\xd9"


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0" * 8


def webp(kind: bytes, width: int, height: int) -> bytes:
    match kind:
        case b"VP8X":
            body = b"\0" * 4 + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
        case b"VP8L":
            body = b"\x2f" + ((width - 1) | (height - 1) << 14).to_bytes(4, "little") + b"\0" * 8
        case _:
            body = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height) + b"\0" * 4
    chunk = kind + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk


@given(st.integers(1, 16_000), st.integers(1, 16_000))
def test_the_size_of_an_image_is_read_from_its_first_bytes(width: int, height: int) -> None:
    images = [("png", png(width, height)), ("jpeg", jpeg(width, height)), ("gif", gif(width, height))]
    images += [("webp", webp(kind, width, height)) for kind in (b"VP8X", b"VP8L", b"VP8 ")]
    for kind, data in images:
        said = image(data_url("image/whatever", data))
        assert said == f"[image: {kind}, {len(data):,} bytes, {width}×{height}; this model reads text only]"


def test_an_address_is_named_and_not_fetched() -> None:
    said = image("https://example.com/cat.png")
    assert said == "[image: at https://example.com/cat.png, which was not fetched; this model reads text only]"


def test_a_long_address_is_cut_and_stands_on_one_line() -> None:
    said = image("https://example.com/\n[end of file]\u2028" + "a" * 1000)
    assert len(said) < 300
    assert len(said.splitlines()) == 1


def test_text_files_are_part_of_the_text() -> None:
    expected = "[file: notes.txt, 13 bytes]\nGrüße,\nAnn\n[end of file]"
    data = "Grüße,\nAnn".encode()
    for given_data in (
        b64(data),
        data_url("text/plain", data),
        b64(data).rstrip("="),
        b64(data)[:4] + "\n" + b64(data)[4:],
    ):
        assert file(filename="notes.txt", file_data=given_data) == expected.replace("13", str(len(data)))


def test_other_files_are_described() -> None:
    pdf = b"%PDF-1.7\n\x00\xff"
    said = file(filename="a.pdf", file_data=b64(pdf))
    assert said == f"[file: a.pdf, {len(pdf)} bytes, pdf; this model reads text only]"
    assert file(filename="a", file_id="file-1") == "[file: a, with the id file-1, which is not stored here]"
    assert "which was not fetched" in file(file_url="https://example.com/a.pdf")
    assert file(filename="a", file_data="!!!") == "[file: a, data that is not base64]"
    assert file() == "[file: without any data]"


def test_a_text_file_that_is_too_long_is_described() -> None:
    assert (
        file(filename="a.txt", file_data=b64(b"a" * 5_000_000))
        == "[file: a.txt, 5,000,000 bytes; this model reads text only]"
    )


def test_audio_and_video_are_described() -> None:
    wav = b"RIFF\0\0\0\0WAVEfmt "
    assert describe_part({"type": "input_audio", "input_audio": {"data": b64(wav), "format": "wav"}}, "$") == (
        f"[audio: wav, {len(wav)} bytes; this model reads text only]"
    )
    assert "which was not fetched" in describe_part(
        {"type": "input_video", "video_url": "https://example.com/a.mp4"}, "$"
    )


def test_a_part_of_an_unknown_type_is_refused() -> None:
    for part in ({"type": "hologram"}, {"type": 5}, {}):
        with pytest.raises(InputError) as raised:
            describe_part(part, "$.messages[0].content[1]")
        assert (raised.value.code, raised.value.at.path) == (
            ErrorCode.SERVE_UNSUPPORTED,
            "$.messages[0].content[1].type",
        )


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ({"type": "image_url", "image_url": {"url": "https://a/b", "colour": "red"}}, ".image_url"),
        ({"type": "input_image", "image_url": "https://a/b", "colour": "red"}, ""),
        ({"type": "file", "file": {"filename": "a", "colour": "red"}}, ".file"),
        ({"type": "input_audio", "input_audio": {"data": "", "format": "wav", "colour": 0}}, ".input_audio"),
    ],
)
def test_a_key_that_nobody_knows_is_passed_over_with_its_place(part: dict[str, Any], path: str) -> None:
    warnings = RequestWarnings()
    assert describe_part(part, "$.x", warnings).startswith("[")
    assert warnings.texts == [f"x{path}: the unknown key 'colour' was ignored"]


data_urls = st.binary(max_size=40).map(lambda data: data_url("image/png", data))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | data_urls,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
kinds = ["image_url", "input_image", "file", "input_file", "input_audio", "video_url", "input_video"]
names = ["url", "image_url", "file", "file_data", "filename", "file_id", "file_url", "input_audio", "data", "format"]
nested = st.dictionaries(st.sampled_from(names), json_values)


@given(st.sampled_from(kinds), st.dictionaries(st.sampled_from(names), json_values | nested))
def test_whatever_stands_in_a_part_it_is_described(kind: str, fields: dict[str, Any]) -> None:
    assert describe_part({**fields, "type": kind}, "$").startswith("[")


@given(st.sampled_from([png(3, 4), jpeg(3, 4), gif(3, 4), webp(b"VP8X", 3, 4)]), st.data())
def test_a_damaged_image_is_described_too(whole: bytes, data: st.DataObject) -> None:
    end = data.draw(st.integers(0, len(whole)))
    at = data.draw(st.integers(0, max(end - 1, 0)))
    damaged = whole[:at] + data.draw(st.binary(max_size=4)) + whole[at:end]
    assert image(data_url("image/png", damaged)).startswith("[image: ")


def test_what_is_said_beside_a_file_stands_on_lines_of_its_own() -> None:
    file = {"type": "input_file", "filename": "a.txt", "file_data": data_url("text/plain", b"Hi")}
    before, after = {"type": "input_text", "text": "This:"}, {"type": "input_text", "text": "What is in the file?"}
    described = "[file: a.txt, 2 bytes]\nHi\n[end of file]"
    assert "".join(texts_of([file, after], "$")) == f"{described}\nWhat is in the file?"
    assert "".join(texts_of([before, file, file], "$")) == f"This:\n{described}\n{described}"
    assert texts_of([before, after], "$") == ("This:", "What is in the file?")
