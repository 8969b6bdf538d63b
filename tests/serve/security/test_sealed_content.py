"""Sealed reasoning: what opens, what does not, and the file of keys behind it."""

from __future__ import annotations

import base64
import errno
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia import Conversation, Message, encode, parse, render
from harmonia.errors import ErrorCode, HarmonyError, InputError, Position
from harmonia.run import private_files
from harmonia.serve.security import keys
from harmonia.serve.security import sealed_content as seals
from harmonia.serve.security.keys import default_seal_keys, ensure_seal_keys, read_seal_keys, retire, rotate
from harmonia.serve.security.sealed_content import MAX_RATIO, Seals
from harmonia.serve.wire.error_responses import api_error_of

NOW = 1_800_000_000.0
DAY = 86_400
OWNER, MODEL = "alice", "gpt-oss-20b"
PLACE = Position(path="$.input[3].encrypted_content")

# One block, two and three: then base64 ends in three, four and two letters, with 2, 0 and 4 bits to spare.
SIZES = [0, 300, 600]

texts = st.text(st.characters(codec=None), max_size=20)


class Clock:
    """A clock that a test sets."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "seal-keys.json"


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Seals:
    """One for the property tests, which need no file of their own."""
    return Seals(tmp_path_factory.mktemp("lasting") / "seal-keys.json")


def seal(seals: Seals, data: bytes = b"thoughts") -> str:
    return seals.seal(data, owner=OWNER, model=MODEL)


def opened(seals: Seals, text: str) -> bytes:
    return seals.open(text, owner=OWNER, model=MODEL)


def refusal(seals: Seals, text: str, owner: str = OWNER, model: str = MODEL) -> InputError:
    with pytest.raises(InputError) as caught:
        seals.open(text, owner=owner, model=model, at=PLACE)
    assert (caught.value.code, caught.value.at) == (ErrorCode.SERVE_BAD_SEAL, PLACE)
    return caught.value


def option_error(call: Callable[[], object]) -> InputError:
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.code == ErrorCode.SERVE_INVALID_OPTION
    return caught.value


# ── seals ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.binary(max_size=3000), texts, texts)
def test_what_was_sealed_is_opened(lasting: Seals, data: bytes, owner: str, model: str) -> None:
    text = lasting.seal(data, owner=owner, model=model)
    assert lasting.open(text, owner=owner, model=model) == data


@given(st.tuples(texts, texts), st.tuples(texts, texts))
def test_only_the_same_owner_and_model_open_it(lasting: Seals, sealed: tuple[str, str], asked: tuple[str, str]) -> None:
    text = lasting.seal(b"thoughts", owner=sealed[0], model=sealed[1])
    if sealed == asked:
        assert lasting.open(text, owner=asked[0], model=asked[1]) == b"thoughts"
    else:
        refusal(lasting, text, *asked)


def test_it_matters_where_the_owner_ends_and_the_model_begins(lasting: Seals) -> None:
    text = lasting.seal(b"thoughts", owner="ab", model="c")
    refusal(lasting, text, "a", "bc")
    refusal(lasting, text, "abc", "")
    # A pair of surrogates is not the character that it would be in UTF-16.
    refusal(lasting, lasting.seal(b"", owner="\ud83d\ude00", model=""), "\U0001f600", "")


@pytest.mark.parametrize("size", SIZES)
def test_every_flip_of_one_bit_is_refused(lasting: Seals, size: int) -> None:
    text = seal(lasting, os.urandom(size))
    assert len(opened(lasting, text)) == size
    written = text.encode()
    for index in range(len(written)):
        for bit in range(8):
            flipped = bytearray(written)
            flipped[index] ^= 1 << bit
            refusal(lasting, flipped.decode("latin-1"))


@pytest.mark.parametrize("size", SIZES)
def test_a_seal_has_one_spelling(lasting: Seals, size: int) -> None:
    text = seal(lasting, os.urandom(size))
    for other in ("A", "Q", "g", "w", "-", "_", "="):
        if text[-1] != other:
            refusal(lasting, text[:-1] + other)
    for changed in (text + "=", text + "==", text + "\n", " " + text, text.upper(), text[:-1], text + "A", text * 2):
        refusal(lasting, changed)


@given(st.text(max_size=80) | st.from_regex(r"hs1\.[0-9a-f]{8}\.[A-Za-z0-9_-]{0,200}", fullmatch=True))
def test_what_is_not_ours_is_refused_and_nothing_else_is_raised(lasting: Seals, text: str) -> None:
    refusal(lasting, text)


def test_the_key_id_of_a_real_key_with_any_content_is_refused(lasting: Seals) -> None:
    (key,) = read_seal_keys(lasting.path)
    for size in (0, 1, 51, 52, 53, 400):
        body = base64.urlsafe_b64encode(bytes(size)).rstrip(b"=").decode()
        refusal(lasting, f"hs1.{key.id}.{body}")


def test_two_seals_cannot_be_put_together(lasting: Seals) -> None:
    first, second = seal(lasting, b"a"), seal(lasting, b"b")
    # The salt and the nonce of the one, the content of the other.
    refusal(lasting, first[:60] + second[60:])


def test_all_refusals_but_an_expired_seal_say_the_same(path: Path) -> None:
    clock = Clock(NOW)
    ours = Seals(path, days=1, clock=clock)
    text = seal(ours)
    other_key = text.replace(text[4:12], "00000000" if text[4:12] != "00000000" else "11111111")
    said = {
        refusal(ours, "gAAAAABm").message,
        refusal(ours, text, owner="bob").message,
        refusal(ours, text, model="gpt-oss-120b").message,
        refusal(ours, other_key).message,
        refusal(ours, text[:-4]).message,
        refusal(ours, "A" * 1000).message,
    }
    assert len(said) == 1
    clock.now += DAY
    expired = refusal(ours, text).message
    assert expired not in said
    # Whoever it does not belong to is not told that it has expired.
    assert refusal(ours, text, owner="bob").message in said


def test_a_refused_seal_is_the_clients_400(lasting: Seals) -> None:
    problem = api_error_of(refusal(lasting, "hs1"))
    assert (problem.status, problem.code, problem.param) == (
        400,
        "invalid_encrypted_content",
        "input[3].encrypted_content",
    )


def test_a_refusal_quotes_nothing_and_has_no_cause(lasting: Seals) -> None:
    error = refusal(lasting, "hs1.MARKED.MARKED")
    assert "MARKED" not in str(error) and error.__cause__ is None and error.__suppress_context__


@given(st.floats(min_value=0.001, max_value=1000), st.floats(min_value=0, max_value=2e9))
def test_a_seal_opens_until_its_time_and_never_after(lasting: Seals, days: float, now: float) -> None:
    clock = Clock(now)
    ours = Seals(lasting.path, days=days, clock=clock)
    text = seal(ours)
    clock.now = now + days * DAY - 0.001
    assert opened(ours, text) == b"thoughts"
    clock.now = now + days * DAY + 1
    refusal(ours, text)


def test_the_time_is_part_of_the_seal_and_not_of_the_server(path: Path) -> None:
    clock = Clock(NOW)
    text = seal(Seals(path, days=1, clock=clock))
    clock.now += 2 * DAY
    refusal(Seals(path, days=1000, clock=clock), text)


@pytest.mark.parametrize("days", [0, -1, float("nan"), float("inf"), 36_501])
def test_a_time_that_is_none_is_refused(path: Path, days: float) -> None:
    assert option_error(lambda: Seals(path, days=days)).at == Position(path="seal_days")


def test_the_same_data_is_never_sealed_alike(lasting: Seals) -> None:
    assert len({seal(lasting) for _ in range(100)}) == 100


@pytest.mark.parametrize("data", [b"MARKED thought", b"MARKED thought " * 1000, b"MARKED" + os.urandom(500)])
def test_nothing_of_the_content_is_seen(lasting: Seals, data: bytes) -> None:
    text = seal(lasting, data)
    body = text.rpartition(".")[2]
    assert b"MARKED" not in base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
    assert "MARKED" not in text


def test_lengths_are_in_blocks(lasting: Seals) -> None:
    assert len({len(seal(lasting, os.urandom(size))) for size in range(0, 200, 7)}) == 1


@given(st.integers(0, 300_000), st.binary(min_size=1, max_size=4))
def test_a_small_request_opens_nothing_large(lasting: Seals, repeats: int, unit: bytes) -> None:
    data = unit * repeats
    assert len(data) <= MAX_RATIO * len(seal(lasting, data))


def test_compression_helps(lasting: Seals) -> None:
    data = json.dumps(list(range(3000))).encode()
    assert len(seal(lasting, data)) < len(data)


@pytest.mark.parametrize("data", [b"a" * 2000, os.urandom(2000)], ids=["deflated", "plain"])
def test_more_than_the_limit_is_neither_opened_nor_sealed(
    lasting: Seals, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = seal(lasting, data)
    monkeypatch.setattr(seals, "MAX_OPENED_BYTES", 2000)
    assert opened(lasting, seal(lasting, data)) == data
    monkeypatch.setattr(seals, "MAX_OPENED_BYTES", 1999)
    refusal(lasting, text)
    with pytest.raises(InputError) as caught:
        seal(lasting, data)
    assert caught.value.code == ErrorCode.SERVE_TOO_LARGE


def test_a_text_that_is_too_long_is_refused_before_it_is_read(lasting: Seals, monkeypatch: pytest.MonkeyPatch) -> None:
    text = seal(lasting)
    monkeypatch.setattr(seals, "_MAX_TEXT", len(text))
    assert opened(lasting, text) == b"thoughts"
    monkeypatch.setattr(seals, "_MAX_TEXT", len(text) - 1)
    refusal(lasting, text)


def test_the_largest_content_fits_into_the_longest_text() -> None:
    whole = -(-(seals.MAX_OPENED_BYTES + 5) // 256) * 256 + 16 + 12 + 8 + 16
    assert len("hs1.00000000.") + -(-whole * 4 // 3) <= seals._MAX_TEXT  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("packed", [b"", b"\0\0\0\0\5abc", b"\2\0\0\0\0", b"\1\0\0\0\3abc", b"\1\0\0\0\0"])
def test_a_form_that_this_release_does_not_know_is_refused(
    lasting: Seals, packed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pack(_data: bytes) -> bytes:
        return packed

    monkeypatch.setattr(seals, "_pack", pack)
    refusal(lasting, seal(lasting))


def test_messages_come_back_with_their_tokens(lasting: Seals) -> None:
    header = [200006, *encode("assistant"), 200005, *encode("analysis"), 200008]
    sampled = [*header, *encode("Let me th"), *encode("ink: 🦜 \u202e"), 200007]
    messages = parse(sampled).messages
    assert sampled != render(Conversation([Message.from_dict(messages[0].to_dict())]), next_role=None).tokens
    text = lasting.seal_messages(messages, owner=OWNER, model=MODEL)
    again = lasting.open_messages(text, owner=OWNER, model=MODEL)
    assert tuple(again) == messages
    assert render(Conversation(again), next_role=None).tokens == sampled


def test_a_seal_of_something_else_is_no_message(lasting: Seals) -> None:
    for data in (b"", b"junk", b"\x92\x63\x90"):
        with pytest.raises(InputError) as caught:
            lasting.open_messages(seal(lasting, data), owner=OWNER, model=MODEL, at=PLACE)
        assert (caught.value.code, caught.value.at) == (ErrorCode.SERVE_BAD_SEAL, PLACE)


def test_without_the_library_the_command_that_installs_it_is_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(InputError) as caught:
        Seals(path)
    assert caught.value.code == ErrorCode.SERVE_MISSING_EXTRA
    assert not path.exists()


# ── rotation ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_newest_key_seals_and_all_of_them_open(path: Path) -> None:
    ours = Seals(path, check_every_s=0)
    texts = [seal(ours, b"0")]
    for data in (b"1", b"2"):
        key = rotate(path)
        texts.append(seal(ours, data))
        assert texts[-1].startswith(f"hs2.{key.id}.")
    assert [opened(ours, text) for text in texts] == [b"0", b"1", b"2"]
    assert [text[4:12] for text in texts] == [key.id for key in read_seal_keys(path)]


def test_a_retired_key_opens_nothing_any_more(path: Path) -> None:
    ours = Seals(path, check_every_s=0)
    old = seal(ours)
    rotate(path)
    new = seal(ours)
    retire(path, old[4:12])
    refusal(ours, old)
    assert opened(ours, new) == b"thoughts"


def test_the_key_that_seals_is_not_retired(path: Path) -> None:
    (first,) = ensure_seal_keys(path)
    assert option_error(lambda: retire(path, first.id)).at == Position(path="id")
    rotate(path)
    last = read_seal_keys(path)[-1]
    before = path.read_bytes()
    option_error(lambda: retire(path, last.id))
    option_error(lambda: retire(path, "unknown"))
    assert path.read_bytes() == before


def test_a_running_server_looks_at_the_file_now_and_then(path: Path) -> None:
    ticks = Clock()
    ours = Seals(path, check_every_s=2, monotonic=ticks)
    old = seal(ours)[4:12]
    new = rotate(path).id
    ticks.now = 1.9
    assert seal(ours)[4:12] == old
    ticks.now = 2.0
    assert seal(ours)[4:12] == new


def test_a_running_server_looks_at_the_file_when_a_key_is_not_known(path: Path) -> None:
    ticks = Clock()
    ours = Seals(path, check_every_s=1e9, monotonic=ticks)
    rotate(path)
    text = seal(Seals(path))
    assert opened(ours, text) == b"thoughts"


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff", None])
def test_a_file_that_is_damaged_while_the_server_runs_changes_nothing_and_is_said_once(
    path: Path, damage: bytes | None
) -> None:
    told: list[HarmonyError] = []
    ours = Seals(path, check_every_s=0, on_problem=told.append)
    text = seal(ours)
    good = path.read_bytes()
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    assert opened(ours, text) == opened(ours, seal(ours)) == b"thoughts"
    assert [error.code for error in told] == [ErrorCode.SERVE_INVALID_OPTION]
    path.touch(mode=0o600)
    path.write_bytes(good)
    assert opened(ours, text) == b"thoughts"
    assert len(told) == 1


# ── the file ────────────────────────────────────────────────────────────────────────────────────────────────────────


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_file_is_made_for_its_owner_only(path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        Seals(path)
        assert (mode_of(path.parent), mode_of(path)) == (0o700, 0o600)
        rotate(path)
    finally:
        os.umask(before)
    assert mode_of(path) == 0o600
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_the_file_is_in_the_state_folder_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert default_seal_keys() == tmp_path / "state" / "harmonia" / "seal-keys.json"
    assert mode_of(default_seal_keys().parent) == 0o700


def test_without_a_state_folder_a_file_has_to_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert option_error(default_seal_keys).at == Position(path="seal_key_file")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o644, 0o777])
def test_a_file_that_is_open_to_others_is_refused_as_it_is(path: Path, mode: int) -> None:
    ensure_seal_keys(path)
    before = path.read_bytes()
    path.chmod(mode)
    for call in (lambda: Seals(path), lambda: rotate(path)):
        error = option_error(call)
        assert error.at == Position(path=str(path)) and f"chmod 600 {path}" in error.message
    assert (path.read_bytes(), mode_of(path)) == (before, mode)


def damaged_files() -> dict[str, Any]:
    secret = base64.urlsafe_b64encode(bytes(32)).rstrip(b"=").decode()
    key = {"id": "0123abcd", "created": "2026-11-16T08:25:00Z", "secret": secret}
    return {
        "empty": b"",
        "not JSON": b"{",
        "not UTF-8": b'{"version": 1, "keys": [{"id": "\xff"}]}',
        "cut off": json.dumps({"version": 1, "keys": [key]}).encode()[:-3],
        "a list": [],
        "no keys": {"version": 1, "keys": []},
        "a later version": {"version": 2, "keys": [key]},
        "an unknown field": {"version": 1, "keys": [{**key, "more": 1}]},
        "no secret": {"version": 1, "keys": [{"id": "0123abcd", "created": ""}]},
        "a short secret": {"version": 1, "keys": [{**key, "secret": secret[:-2]}]},
        "a long secret": {"version": 1, "keys": [{**key, "secret": secret + "AA"}]},
        "a secret with spare bits": {"version": 1, "keys": [{**key, "secret": secret[:-1] + "B"}]},
        "a secret of other letters": {"version": 1, "keys": [{**key, "secret": "é" * 43}]},
        "a secret of one letter": {"version": 1, "keys": [{**key, "secret": "A"}]},
        "an id that is none": {"version": 1, "keys": [{**key, "id": "0123.bcd"}]},
        "an id twice": {"version": 1, "keys": [key, key]},
        "too long": b" " * (keys.MAX_FILE_BYTES + 1),
    }


@pytest.mark.parametrize("kind", damaged_files())
def test_a_damaged_file_is_refused_and_never_overwritten(path: Path, kind: str) -> None:
    content = damaged_files()[kind]
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.parent.mkdir()
    path.touch(mode=0o600)
    path.write_bytes(data)
    for call in (lambda: Seals(path), lambda: rotate(path), lambda: retire(path, "0123abcd")):
        error = option_error(call)
        assert error.at == Position(path=str(path)) and "AAAA" not in str(error)
    assert path.read_bytes() == data
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    option_error(lambda: Seals(tmp_path))
    os.mkfifo(tmp_path / "pipe", 0o600)
    option_error(lambda: Seals(tmp_path / "pipe"))
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    option_error(lambda: Seals(tmp_path / "nowhere"))
    (tmp_path / "file").touch()
    option_error(lambda: Seals(tmp_path / "file" / "keys.json"))


def test_the_secret_is_in_no_repr(path: Path) -> None:
    (key,) = ensure_seal_keys(path)
    assert str(key.secret) not in repr(key) and key.secret.hex() not in repr(key) and "secret" not in repr(key)


def test_what_a_link_leads_to_is_changed_and_the_link_stays(path: Path, tmp_path: Path) -> None:
    ensure_seal_keys(path)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    key = rotate(link)
    assert link.is_symlink() and read_seal_keys(path)[-1] == key


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_a_file_keeps_its_owner(path: Path) -> None:
    ensure_seal_keys(path)
    os.chown(path, 12345, 23456)
    rotate(path)
    assert (path.stat().st_uid, path.stat().st_gid, mode_of(path)) == (12345, 23456, 0o600)


def test_whoever_comes_second_uses_the_file_of_the_first(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (first,) = ensure_seal_keys(path)

    def missing(_path: Path) -> bool:
        return False  # as it was a moment ago

    monkeypatch.setattr(Path, "exists", missing)
    assert ensure_seal_keys(path) == (first,)
    assert rotate(path) == first


def test_a_file_system_without_links_will_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_source: object, _target: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    (first,) = ensure_seal_keys(path)
    assert mode_of(path) == 0o600
    assert private_files.create_private(path, b"other") is False
    assert read_seal_keys(path) == (first,)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_failed_change_leaves_the_file_and_nothing_beside_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ensure_seal_keys(path)

    def refuse(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "fsync", refuse)
    assert option_error(lambda: rotate(path)).at == Position(path=str(path))
    assert read_seal_keys(path) == keys
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    other = path.with_name("other.json")
    option_error(lambda: ensure_seal_keys(other))
    assert not other.exists()


# ── several processes ───────────────────────────────────────────────────────────────────────────────────────────────

AT_ONCE = """
import os, sys
from pathlib import Path
from harmonia.serve.security.keys import ensure_seal_keys, rotate
from harmonia.serve.security.sealed_content import Seals
path = Path(sys.argv[1])
print("ready", flush=True)
os.read(int(sys.argv[2]), 1)  # until the other end is closed, for all of them at once
"""


def run_at_once(then: str, path: Path, number: int = 6) -> list[str]:
    """What as many processes print that do the same thing in the same moment."""
    wait, go = os.pipe()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", AT_ONCE + then, str(path), str(wait)],
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[wait],
        )
        for _ in range(number)
    ]
    printed: list[str] = []
    try:
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        os.close(go)
        for process in processes:
            printed.append(process.communicate(timeout=120)[0].strip())
            assert process.returncode == 0
    finally:
        os.close(wait)
        for process in processes:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
    return printed


def test_servers_that_start_together_end_with_one_file(path: Path) -> None:
    texts = run_at_once("print(Seals(path).seal(b'thoughts', owner='alice', model='gpt-oss-20b'))", path)
    (key,) = read_seal_keys(path)
    assert {text[4:12] for text in texts} == {key.id}
    ours = Seals(path)
    assert {opened(ours, text) for text in texts} == {b"thoughts"}
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_keys_that_are_added_together_are_all_kept(path: Path) -> None:
    (first,) = ensure_seal_keys(path)
    printed = run_at_once("print(rotate(path).id)", path)
    assert sorted(key.id for key in read_seal_keys(path)) == sorted([first.id, *printed])
