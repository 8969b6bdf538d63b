"""API keys: the file, the comparison, and the header they come in."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from harmonia.errors import ErrorCode, HarmonyError, InputError, Position
from harmonia.serve.security.keys import NOBODY, ApiKeys, bearer_of, new_api_key, read_api_keys, remove_api_key

ALICE, BOB, CAROL = "sk-alice-0123456789", "bob-secret-0123456789", "carol+/=#0123456789"


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "api-keys"


def write(path: Path, text: str | bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def option_error(call: Callable[[], object]) -> InputError:
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.code == ErrorCode.SERVE_INVALID_OPTION
    return caught.value


# ── the file ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_line_is_a_name_and_a_key_or_a_digest_or_a_key_alone(path: Path) -> None:
    text = f"\ufeff# keys\n\nalice {ALICE}\r\n  bob\tsha256:{digest(BOB).upper()}  \n  # more\n{CAROL}"
    keys = ApiKeys(write(path, text))
    derived = f"key-{digest(CAROL)[:12]}"
    assert [key.name for key in read_api_keys(path)] == ["alice", "bob", derived]
    assert [keys.find(key) for key in (ALICE, BOB, CAROL)] == ["alice", "bob", derived]
    assert [key.is_hashed for key in read_api_keys(path)] == [False, True, False]


def test_a_digest_alone_has_the_name_that_its_key_alone_would_have(path: Path) -> None:
    (alone,) = read_api_keys(write(path, f"{CAROL}\n"))
    (hashed,) = read_api_keys(write(path, f"sha256:{digest(CAROL)}\n"))
    assert hashed.name == alone.name


@given(st.text(max_size=60))
def test_nobody_else_is_found(tmp_path_factory: pytest.TempPathFactory, key: str) -> None:
    keys = ApiKeys(write(tmp_path_factory.mktemp("keys") / "keys", f"alice {ALICE}\nbob sha256:{digest(BOB)}\n"))
    assert keys.find(key) is None


@pytest.mark.parametrize(
    "key",
    [
        *("", ALICE[:-1], ALICE + "x", ALICE.upper(), f" {ALICE}", f"alice {ALICE}", "alice"),
        *(f"sha256:{digest(BOB)}", digest(BOB), "\ud800" * 20, "é" * 20, "x" * 100_000),
    ],
)
def test_what_is_almost_a_key_is_none(path: Path, key: str) -> None:
    assert ApiKeys(write(path, f"alice {ALICE}\nbob sha256:{digest(BOB)}\n")).find(key) is None


@pytest.mark.parametrize("number", [1, 2, 7])
def test_every_key_is_compared_in_constant_time_whoever_comes(
    path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = [f"a-long-enough-key-{index}" for index in range(number)]
    keys = ApiKeys(write(path, "\n".join(f"name-{index} {key}" for index, key in enumerate(written))))
    compared: list[tuple[int, int]] = []
    compare_digest = hmac.compare_digest

    def count(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return compare_digest(one, other)

    monkeypatch.setattr(hmac, "compare_digest", count)
    for key, name in [*((key, f"name-{index}") for index, key in enumerate(written)), ("unknown", None), ("", None)]:
        compared.clear()
        assert keys.find(key) == name
        assert compared == [(32, 32)] * number  # digests, so that not even the length of a key shows


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("alice short", 1),
        ("# keys\n\nalice 0123456789abcde", 3),
        (f"alice {'x' * 513}", 1),
        ("alice 0123456789abcdeé", 1),
        (f"alice {ALICE} # the first", 1),
        (f"alice {ALICE}\nalice {BOB}", 2),
        (f"alice {ALICE}\n\nbob {ALICE}", 3),
        (f"alice {ALICE}\nbob sha256:{digest(ALICE)}", 2),
        (f"{ALICE}\n{ALICE}", 2),
        ("alice sha256:", 1),
        (f"alice sha256:{digest(ALICE)[:-1]}", 1),
        (f"alice sha256:{digest(ALICE)[:-1]}g", 1),
        (f"al/ice {ALICE}", 1),
        (f"alicé {ALICE}", 1),
        (f"al\x1bice {ALICE}", 1),
        (f"{'a' * 65} {ALICE}", 1),
        (f"{ALICE} bob-0123456789abcdef", 1),
        (f"{NOBODY} {ALICE}", 1),
        (f"alice {ALICE}\n".encode() + b"bob \xff", 2),
    ],
)
def test_a_wrong_line_is_refused_by_its_number_and_without_its_content(
    path: Path, text: str | bytes, line: int
) -> None:
    error = option_error(lambda: ApiKeys(write(path, text)))
    assert error.at == Position(path=f"{path}:{line}")
    shown = f"{error} {error!r} {error.__cause__!r}"
    for secret in (ALICE, BOB, "0123456789abcde", digest(ALICE)[:-1]):
        assert secret not in shown


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644])
def test_a_file_that_is_open_to_others_is_refused(path: Path, mode: int) -> None:
    write(path, f"alice {ALICE}").chmod(mode)
    for call in (lambda: ApiKeys(path), lambda: new_api_key(path, "bob"), lambda: remove_api_key(path, "alice")):
        assert option_error(call).at == Position(path=str(path))
    assert path.read_text() == f"alice {ALICE}"


@pytest.mark.parametrize("text", [None, "", "# nothing\n\n"])
def test_a_server_does_not_start_without_any_key(path: Path, text: str | None) -> None:
    if text is not None:
        write(path, text)
    assert option_error(lambda: ApiKeys(path)).at == Position(path=str(path))


def test_no_key_is_in_a_repr(path: Path) -> None:
    keys = ApiKeys(write(path, f"alice {ALICE}"))
    shown = f"{keys!r} {read_api_keys(path)!r}"
    assert ALICE not in shown and digest(ALICE) not in shown and "digest" not in shown


# ── changes ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_running_server_notices_new_and_removed_keys(path: Path) -> None:
    now = 0.0
    alice = new_api_key(path, "alice")
    keys = ApiKeys(path, check_every_s=2, monotonic=lambda: now)
    bob = new_api_key(path, "bob")
    assert (keys.find(alice), keys.find(bob)) == ("alice", None)
    now = 2.0
    assert (keys.find(alice), keys.find(bob)) == ("alice", "bob")
    remove_api_key(path, "alice")
    now = 4.0
    assert (keys.find(alice), keys.find(bob)) == (None, "bob")


def test_the_last_key_that_is_removed_lets_nobody_in(path: Path) -> None:
    alice = new_api_key(path, "alice")
    keys = ApiKeys(path, check_every_s=0)
    assert keys.find(alice) == "alice"
    remove_api_key(path, "alice")
    assert keys.find(alice) is None and read_api_keys(path) == ()


def test_a_broken_file_keeps_the_old_keys_and_is_said_once(path: Path) -> None:
    told: list[HarmonyError] = []
    keys = ApiKeys(write(path, f"alice {ALICE}"), check_every_s=0, on_problem=told.append)
    write(path, f"alice {ALICE}\nbob short")
    assert [keys.find(key) for key in (ALICE, "short", ALICE)] == ["alice", None, "alice"]
    assert [error.at for error in told] == [Position(path=f"{path}:2")]
    path.chmod(0o644)
    assert keys.find(ALICE) == "alice"
    path.unlink()
    assert keys.find(ALICE) == "alice"
    assert [error.at for error in told[1:]] == [Position(path=str(path))] * 2
    write(path, f"bob {BOB}")
    assert (keys.find(ALICE), keys.find(BOB), len(told)) == (None, "bob", 3)


def test_a_new_key_is_kept_as_its_digest_only(path: Path) -> None:
    key = new_api_key(path / "folder" / "keys", "alice")
    file = path / "folder" / "keys"
    assert file.read_text() == f"alice sha256:{digest(key)}\n"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert key.startswith("sk-harmonia-") and len(key) > 50
    assert ApiKeys(file).find(key) == "alice"


@pytest.mark.parametrize("before", ["", "# kept\n", f"# kept\n\nbob {BOB}", f"  bob {BOB}\r\n# end\n\n"])
def test_other_lines_stay_as_they_are(path: Path, before: str) -> None:
    write(path, before)
    key = new_api_key(path, "alice")
    ended = before if not before or before.endswith("\n") else before + "\n"
    assert path.read_bytes().decode() == f"{ended}alice sha256:{digest(key)}\n"
    remove_api_key(path, "alice")
    assert path.read_bytes().decode() == ended


def test_names_that_are_taken_unknown_or_unsafe_are_refused_and_the_file_stays(path: Path) -> None:
    new_api_key(path, "alice")
    before = path.read_bytes()
    for name in ("alice", "", "a b", "a\n", "sk-harmonia-x", NOBODY, "é", "a" * 65):
        assert option_error(lambda name=name: new_api_key(path, name)).at == Position(path="name")
    assert option_error(lambda: remove_api_key(path, "bob")).at == Position(path="name")
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


# ── the header ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"Authorization": f"Bearer {ALICE}"}, ALICE),
        ({"authorization": f"bearer   {ALICE} "}, ALICE),
        ({"AUTHORIZATION": f"BEARER\t{ALICE}"}, ALICE),
        ({"authorization": "Bearer"}, None),
        ({"authorization": "Bearer "}, None),
        ({"authorization": f"Bearer {ALICE} more"}, None),
        ({"authorization": f"Bearer{ALICE}"}, None),
        ({"authorization": ALICE}, None),
        ({"authorization": "Basic YTpi"}, None),
        ({"authorization": "Basic YTpi", "api-key": BOB}, BOB),
        ({"Api-Key": f" {BOB} "}, BOB),
        ({"X-API-Key": BOB}, BOB),
        ({"api-key": "", "x-api-key": BOB}, BOB),
        ({"api-key": ALICE, "x-api-key": BOB}, ALICE),
        ({"authorization": f"Bearer {ALICE}", "api-key": BOB}, ALICE),
    ],
)
def test_the_key_is_found_in_its_headers(headers: dict[str, str], expected: str | None) -> None:
    assert bearer_of(headers) == expected
    assert bearer_of(Headers(headers)) == expected


@pytest.mark.parametrize("name", ["authorization", "api-key", "x-api-key"])
def test_two_different_keys_are_none(name: str) -> None:
    scheme = b"Bearer " if name == "authorization" else b""

    def headers(*keys: str) -> Headers:
        return Headers(raw=[(name.encode(), scheme + key.encode()) for key in keys])

    assert bearer_of(headers(ALICE, ALICE)) == ALICE
    assert bearer_of(headers(ALICE, BOB)) is None
    assert bearer_of(headers(BOB, ALICE, BOB)) is None


@given(st.dictionaries(st.sampled_from(["authorization", "api-key", "x-api-key", "host"]), st.text(max_size=20)))
def test_any_header_is_a_key_or_none(headers: dict[str, str]) -> None:
    key = bearer_of(headers)
    assert key is None or (key and key == key.strip() and any(key in value for value in headers.values()))
