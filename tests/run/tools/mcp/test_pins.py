"""Pins: what their hash covers, what a person reads, and the file they are kept in."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonia.errors import ErrorCode, InputError
from harmonia.run.tools.mcp.pins import Change, Definition, Pins
from harmonia.run.tools.mcp.results import readable, readable_line, readable_schema

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
objects = st.dictionaries(st.text(), json_values, max_size=4)
definitions = st.builds(
    Definition,
    server=st.text(min_size=1),
    tool=st.text(min_size=1),
    description=st.none() | st.text(),
    input_schema=st.none() | objects,
    annotations=st.none() | objects,
)
WEATHER = Definition(
    server="web",
    tool="weather",
    description="Tells the weather.",
    input_schema={"type": "object", "properties": {"city": {"type": "string"}}},
    annotations={"readOnlyHint": True},
)


@given(definitions, definitions)
def test_two_definitions_have_one_hash_exactly_if_they_are_equal_json(one: Definition, other: Definition) -> None:
    is_equal = json.dumps(msgspec.to_builtins(one), sort_keys=True) == json.dumps(
        msgspec.to_builtins(other), sort_keys=True
    )
    assert (one.sha256 == other.sha256) is is_equal


@pytest.mark.parametrize(
    "changed",
    [
        {"server": "other"},
        {"tool": "weather2"},
        {"description": "Tells the weather. "},
        {"description": None},
        {"input_schema": {"type": "object", "properties": {"city": {"type": "string", "description": "x"}}}},
        {"annotations": {"readOnlyHint": False}},
        {"annotations": None},
    ],
)
def test_every_part_of_a_definition_is_in_the_hash(changed: dict[str, Any]) -> None:
    assert msgspec.structs.replace(WEATHER, **changed).sha256 != WEATHER.sha256


def test_the_hash_is_the_same_for_ever() -> None:
    # Pins outlive a release. Whoever changes this makes every operator agree to every tool again.
    assert WEATHER.sha256 == "3aad3dcb3f1568872107b0a7bc75a6996a1ad38909490cd0b941c41c9bc0aa4b"
    shuffled = msgspec.structs.replace(
        WEATHER, input_schema={"properties": {"city": {"type": "string"}}, "type": "object"}
    )
    assert shuffled.sha256 == WEATHER.sha256


@given(definitions, definitions)
def test_a_change_is_never_shown_as_nothing(before: Definition, now: Definition) -> None:
    if before.sha256 != now.sha256:
        text = Change(now, before).text
        assert any(line.startswith(("-", "+")) for line in text.splitlines()[2:])


@pytest.mark.parametrize(("before", "now"), [("a\nb", "a\r\nb"), (None, ""), ("a", "a\n")])
def test_what_reads_the_same_is_compared_as_it_was_sent(before: str | None, now: str | None) -> None:
    change = Change(
        msgspec.structs.replace(WEATHER, description=now), msgspec.structs.replace(WEATHER, description=before)
    )
    assert len(change.text.splitlines()) > 2


@given(st.text(st.characters()))
def test_readable_text_has_nothing_that_moves_a_cursor_or_hides(text: str) -> None:
    shown = readable(text)
    assert not any(ord(character) < 0x20 and character not in "\n\t" for character in shown)
    assert not set(shown) & set("\x7f\x9b\u202e\u2066\u200b\ufeff\U000e0041\ufe00")
    assert readable(shown) == shown
    assert "\n" not in readable_line(text)


def test_ordinary_writing_is_readable_as_it_is() -> None:
    for text in ("Grüße, 世界\n\tзавтра", "می‌خواهم", "👩‍💻 ❤️"):
        assert readable(text) == text


def test_only_the_prose_of_a_schema_is_made_readable() -> None:
    schema = {
        "properties": {"a\u200b": {"description": "b\u200b", "enum": ["c\u200b"]}, "description": {"title": "\x07"}}
    }
    assert readable_schema(schema) == {
        "properties": {
            "a\u200b": {"description": "b⟨U+200B⟩", "enum": ["c\u200b"]},
            "description": {"title": "⟨U+0007⟩"},
        }
    }


@settings(max_examples=30)  # each writes real files
@given(st.lists(definitions, max_size=5))
def test_what_is_saved_is_read_again(many: list[Definition]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pins.json"
        pins = Pins(path)
        for definition in many:
            pins.accept(definition)
        again = Pins(path)
        assert {definition.sha256 for definition in again} == {definition.sha256 for definition in pins}
        assert len(again) == len({(definition.server, definition.tool) for definition in many})


def test_the_file_is_its_owners_and_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "pins.json"
    pins = Pins(path)
    pins.accept(WEATHER)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    kept = path.open()
    before = path.read_text()
    changed = msgspec.structs.replace(WEATHER, description="another")
    pins.accept(changed)
    # Whoever had the old file open still reads all of it, and nothing else lies about.
    with kept:
        assert kept.read() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]
    assert list(Pins(path)) == [changed]


def test_a_damaged_file_is_an_error_that_says_where(tmp_path: Path) -> None:
    path = tmp_path / "pins.json"
    Pins(path).accept(WEATHER)
    whole = path.read_text()
    for damaged, place in [
        (whole.replace("Tells", "Sells"), "$.pins[0].sha256"),
        (whole.replace('"version": 1', '"version": 2'), "$.version"),
        ("{", None),
        ("[]", None),
    ]:
        path.write_text(damaged)
        with pytest.raises(InputError) as caught:
            Pins(path)
        assert caught.value.code is ErrorCode.TOOL_INVALID_DEFINITION
        assert caught.value.at.path == place
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError):
        Pins(path)


def test_a_review_pins_what_was_agreed_to_and_nothing_else() -> None:
    pins = Pins()
    changed = msgspec.structs.replace(WEATHER, description="Tells lies.")

    async def main() -> None:
        assert (await pins.review(WEATHER, "ask", None)) == Change(WEATHER)
        assert (await pins.review(WEATHER, "refuse", lambda _: True)) == Change(WEATHER)
        assert pins.get("web", "weather") is None
        assert await pins.review(WEATHER, "trust_first", None) is None
        for policy in ("ask", "trust_first", "refuse"):
            assert await pins.review(WEATHER, policy, None) is None
            assert await pins.review(changed, policy, None) == Change(changed, WEATHER)
        assert await pins.review(changed, "trust_first", lambda _: False) == Change(changed, WEATHER)
        assert pins.get("web", "weather") == WEATHER
        assert await pins.review(changed, "trust_first", lambda _: True) is None
        assert pins.get("web", "weather") == changed

    asyncio.run(main())
    assert Change(WEATHER).refusal.code is ErrorCode.TOOL_REFUSED
    assert Change(changed, WEATHER).refusal.code is ErrorCode.TOOL_CHANGED


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_what_has_no_json_is_not_pinned_and_does_not_spoil_the_file(tmp_path: Path, number: float) -> None:
    path = tmp_path / "pins.json"
    pins = Pins(path)
    pins.accept(Definition(server="s", tool="good"))
    with pytest.raises(InputError) as caught:
        pins.accept(Definition(server="s", tool="bad", input_schema={"maximum": number}))
    assert caught.value.code is ErrorCode.TOOL_INVALID_DEFINITION
    pins.save()
    assert [pinned.tool for pinned in Pins(path)] == ["good"]


def test_many_pins_are_saved_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saves: list[int] = []
    save = Pins.save

    def counted(self: Pins) -> None:
        saves.append(len(self))
        save(self)

    monkeypatch.setattr(Pins, "save", counted)
    pins = Pins(tmp_path / "pins.json")
    with pins.saving_once():
        for at in range(50):
            pins.accept(msgspec.structs.replace(WEATHER, tool=f"tool_{at}"))
    with pins.saving_once():
        pass
    assert saves == [50]
    assert len(Pins(tmp_path / "pins.json")) == 50


def test_what_was_agreed_to_before_an_error_is_saved(tmp_path: Path) -> None:
    pins = Pins(tmp_path / "pins.json")

    def accept_one_and_fail() -> None:
        with pins.saving_once():
            pins.accept(WEATHER)
            raise LookupError

    with pytest.raises(LookupError):
        accept_one_and_fail()
    assert len(Pins(tmp_path / "pins.json")) == 1
