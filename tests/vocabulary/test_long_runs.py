"""Long runs: cut into windows and put together again, they are the tokens of the whole, for linear work."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from random import Random

import pytest

from harmonia.vocabulary.long_runs import (
    _KINDS,  # pyright: ignore[reportPrivateUsage] -- the table that is to be proved
    BLANK,
    LONG_RUN,
    WHITE,
    WINDOW,
    LongRun,
    encode_in_windows,
    find_long_runs,
)
from tests.support.oracle_cases import compared
from tests.vocabulary.texts import (
    BLOCKS,
    OnePiece,
    OrdinaryEncoder,
    block_ids,
    characters,
    shared_engine,
    shipped_tokens,
)

CUTTABLE_KINDS = [name for name in _KINDS if name != "white"]


@cache
def members(kind: str) -> list[str]:
    pattern = re.compile(f"[{_KINDS[kind].characters}]")
    return [character for character in characters(range(0x110000)) if pattern.match(character)]


# ── the table of kinds ──────────────────────────────────────────────────────────────────────────────────────────────

# Around a character of this kind: what is one piece, and what is not.
TRAITS = {
    "lower": (("{}{}", "A{}", "a{}", "あ{}"), ("{}Aa", "!!{}")),
    "upper": (("{}{}", "{}a", "A{}"), ("a{}", "!!{}")),
    "caseless": (("{}{}", "a{}", "A{}", "{}Aa", "{}a"), ("{}A", "!!{}")),
    "sign": (("{}{}", "!!{}", "{}!", "{}a"), ("a{}", "{0}{0}a", "!\n{}", "a{}s", "\t{}{}")),
    "blank": (("{}{}", "\t\t{}", "{}\n"), ("\n{}", "!{}")),
    "break": (("{}{}", "\t\t{}", "\n{}", "!{}", "!/{}"), ("{}a",)),
}


@pytest.mark.parametrize("kind", CUTTABLE_KINDS)
def test_each_kind_holds_only_characters_that_behave_like_it(kind: str) -> None:
    joined, parted = ([[form.format(c, c) for c in members(kind)] for form in forms] for forms in TRAITS[kind])
    published = OnePiece([text for texts in joined + parted for text in texts])
    for texts in joined:
        assert [ascii(text) for text in texts if not published.takes(text)] == []
    for texts in parted:
        assert [ascii(text) for text in texts if published.takes(text)] == []
    print(f"{kind}: {len(members(kind)):,} characters, {len(joined + parted)} traits each")


def test_white_space_is_unicodes() -> None:
    # Python also counts the four separators among the control characters.
    expected = {c for c in characters(range(0x110000)) if c.isspace()} - set("\x1c\x1d\x1e\x1f")
    assert set(members("white")) == expected
    assert set(members("blank")) == expected - set("\r\n")
    assert set(members("break")) == set("\r\n")
    assert (_KINDS["white"].characters, _KINDS["blank"].characters) == (WHITE, BLANK)


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", BLOCKS, ids=block_ids)
def test_tiktoken_takes_the_same_characters_for_white_space(block: range) -> None:
    texts = {character: f"\t\t{character}" for character in characters(block)}
    published = OnePiece(list(texts.values()))
    found = {character for character, text in texts.items() if published.takes(text)}
    assert found == {character for character in members("white") if ord(character) in block}
    print(f"{len(texts):,} code points, {len(found)} of them white space")


# ── finding ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def slowly_found_runs(text: str) -> list[tuple[int, int]]:
    spans = [match.span() for name in CUTTABLE_KINDS for match in re.finditer(f"[{_KINDS[name].characters}]+", text)]
    return sorted((start, end) for start, end in spans if end - start >= LONG_RUN)


def random_run(random: Random, kind: str, length: int) -> str:
    """A run of a few characters of one kind, repeated in turn or drawn anew."""
    pool = random.choices(members(kind), k=random.choice((1, 1, 2, 3, 8, 40)))
    if random.random() < 0.3:
        pool = [character for character in pool if character.isascii()] or pool
    if random.random() < 0.5:
        return ("".join(random.choices(pool, k=random.randint(1, 7))) * length)[:length]
    return "".join(random.choices(pool, k=length))


def test_every_long_run_is_found_from_its_first_character_to_its_last() -> None:
    random = Random(1)
    found = 0
    for _ in range(150):
        lengths = random.choices((1, 3, WINDOW - 1, WINDOW, LONG_RUN - 1, LONG_RUN, LONG_RUN + 1, 11_000), k=5)
        kinds = random.choices(CUTTABLE_KINDS[:4], k=5)
        text = "1".join(random_run(random, kind, length) for kind, length in zip(kinds, lengths, strict=True))
        runs = find_long_runs(text)
        assert [(run.start, run.end) for run in runs] == slowly_found_runs(text)
        found += len(runs)
    print(f"{found:,} long runs found")


def test_no_long_run_of_blanks_is_missed_among_line_breaks() -> None:
    """It would make tiktoken's own expression panic."""
    random = Random(2)
    expected = 0
    for _ in range(150):
        lengths = random.choices((1, 2, WINDOW, LONG_RUN, 9000), k=5)
        kinds = random.choices(("blank", "break", "white"), k=5)
        text = "".join(random_run(random, kind, length) for kind, length in zip(kinds, lengths, strict=True))
        runs = find_long_runs(text)
        for start, end in slowly_found_runs(text):
            assert any(run.start <= start and end <= run.end for run in runs)
            expected += 1
    print(f"{expected:,} long runs of blanks or line breaks found among others")


@pytest.mark.parametrize(
    ("before", "unit", "after", "can_be_cut"),
    [
        ("", "a", "", True),
        ("it'", "s", "Ah", True),
        ("I'", "L", "你", True),
        ("你", "A", "", False),
        ("", "你", "a", True),
        ("", "你", "A", False),
        ("é", "你", "", False),
        ("\u0301", "!", "\u0301", True),
        ("a", " ", "a", True),
        ("a", " ", "\n", True),
        ("\n", " ", "a", False),
        ("!", "\n", "a", True),
        ("!", "\n", "/", False),
        ("!", "\n", " ", False),
        ("a", " \n", "", False),
    ],
)
def test_a_run_is_cut_only_beside_what_leaves_its_piece_whole(
    before: str, unit: str, after: str, can_be_cut: bool
) -> None:
    run = (unit * LONG_RUN)[:LONG_RUN]
    text = before + run + after
    assert find_long_runs(text)[0].can_be_cut is can_be_cut


def test_short_texts_have_no_long_run() -> None:
    assert find_long_runs("") == []
    assert find_long_runs("a" * (LONG_RUN - 1)) == []
    assert find_long_runs("ab1" * LONG_RUN) == []
    assert find_long_runs("a" * LONG_RUN) == [LongRun(0, LONG_RUN, True)]


# ── exactness ───────────────────────────────────────────────────────────────────────────────────────────────────────

BESIDE = (
    *("'", "'s", "'S", "'l", "'L", "'v", "'r", "it'", "a", "A", "Ab", "aB", "B", "é", "É", "ё", "Ё", "ſ", "ǅ", "ʰ"),
    *("あ", "你", "\u0301", "\u0345", "/", "//", "!", "!/", "!\n", "\n/", "\n", "\r\n", " ", "  ", "\t"),
    *("\u3000", "\x85", "1", "123", "😀", "\u200d", "\x1f"),
)


def check_random_runs(seed: int, kind: str, count: int, published_tiktoken: OrdinaryEncoder) -> None:
    random = Random(f"{seed} {kind}")
    engine = shared_engine("exact")
    cut = whole = 0
    for _ in range(count):
        parts = ["".join(random.choices(BESIDE, k=random.choice((0, 1, 1, 2, 3))))]
        for name in [kind, *random.choices(list(_KINDS), k=random.choice((0, 0, 1)))]:
            length = LONG_RUN + random.choice((-1, 0, 0, 1, 2, 3, random.randrange(WINDOW + 100)))
            parts.append(random_run(random, name, length))
            parts.append("".join(random.choices(BESIDE, k=random.choice((0, 1, 1, 2, 3)))))
        text = "".join(parts)
        is_cut = any(run.can_be_cut for run in find_long_runs(text))
        cut += is_cut
        whole += not is_cut
        shown = [(ascii(part[:9]), len(part)) for part in parts]
        assert engine.encode(text) == published_tiktoken.encode_ordinary(text), (shown, is_cut)
    compared("texts with long runs, in windows, and tiktoken", cut)
    compared("texts with long runs, whole, and tiktoken", whole)


@pytest.mark.parametrize("kind", _KINDS)
def test_texts_with_long_runs_are_encoded_as_tiktoken_does_it(kind: str, published_tiktoken: OrdinaryEncoder) -> None:
    check_random_runs(1, kind, 30, published_tiktoken)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("kind", _KINDS)
def test_many_texts_with_long_runs_are_encoded_as_tiktoken_does_it(
    kind: str, seed: int, published_tiktoken: OrdinaryEncoder
) -> None:
    check_random_runs(seed, kind, 250, published_tiktoken)


@pytest.mark.exhaustive
def test_merging_alone_reaches_every_token() -> None:
    """What the check of two neighbours relies on: no token is there that merging would not make of its bytes."""
    tokens = shipped_tokens()
    ranks = {token: rank for rank, token in enumerate(tokens)}

    def merge(piece: bytes) -> list[bytes]:
        parts = [bytes([byte]) for byte in piece]
        while len(parts) > 1:
            pairs = [ranks.get(parts[at] + parts[at + 1], len(ranks)) for at in range(len(parts) - 1)]
            lowest = min(pairs)
            if lowest == len(ranks):
                break
            at = pairs.index(lowest)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return parts

    assert [token for token in tokens if merge(token) != [token]] == []
    compared("tokens that merging their bytes makes", len(tokens))


# ── joints ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def spoiled(encode_piece: Callable[[bytes], list[int]], calls: int) -> Callable[[bytes], list[int]]:
    """An encoder that for its first calls merges nothing, so that no seam it is asked about holds."""
    left = iter(range(calls))
    by_byte = [shipped_tokens().index(bytes([byte])) for byte in range(256)]

    def encode(piece: bytes) -> list[int]:
        return encode_piece(piece) if next(left, None) is None else [by_byte[byte] for byte in piece]

    return encode


@pytest.mark.parametrize(("spoiled_calls", "is_repaired"), [(0, True), (1, True), (1000, False)])
def test_a_joint_that_cannot_be_repaired_leaves_the_text_whole(
    spoiled_calls: int, is_repaired: bool, published_tiktoken: OrdinaryEncoder
) -> None:
    text = "It was " + "".join(Random(3).choices("abcdefghijklmnopqrstuvwxyz", k=3 * LONG_RUN)) + "."
    asked: list[str] = []

    def encode(part: str) -> list[int]:
        asked.append(part)
        return published_tiktoken.encode_ordinary(part)

    encode_piece = spoiled(published_tiktoken.encode_single_piece, spoiled_calls)
    tokens = encode_in_windows(text, find_long_runs(text), encode, encode_piece, shipped_tokens())
    assert tokens == published_tiktoken.encode_ordinary(text)
    assert (text not in asked) is is_repaired


def test_no_token_has_a_blank_behind_its_last_line_break() -> None:
    """So a text of nothing but white space may be cut, although its last blanks are a piece of their own."""
    first_bytes = bytes({character.encode()[0] for character in members("blank")})
    pattern = re.compile(rb"[\r\n][%b][^\r\n]*\Z" % re.escape(first_bytes))
    assert [token for token in shipped_tokens() if pattern.search(token)] == []


# ── linear work ─────────────────────────────────────────────────────────────────────────────────────────────────────


def bytes_asked_for(text: str, published_tiktoken: OrdinaryEncoder) -> int:
    """How many bytes the tokenizer is given for `text`; no call may get more than two windows."""
    asked = 0

    def encode(part: str) -> list[int]:
        nonlocal asked
        asked += len(part.encode())
        assert len(part) <= 2 * WINDOW
        return published_tiktoken.encode_ordinary(part)

    def encode_piece(piece: bytes) -> list[int]:
        nonlocal asked
        asked += len(piece)
        assert len(piece) <= 2 * WINDOW
        return published_tiktoken.encode_single_piece(piece)

    tokens = encode_in_windows(text, find_long_runs(text), encode, encode_piece, shipped_tokens())
    assert b"".join([shipped_tokens()[token] for token in tokens]) == text.encode()
    return asked


@pytest.mark.parametrize("before", ["", "It was "])
@pytest.mark.parametrize(
    "unit", ["a", "ab", "abc", "banana", "Ж", "λ", "你", "漢字", "!", "😀", "=-", " ", "\t ", "\n", "\r\n"], ids=ascii
)
def test_work_on_a_long_run_grows_with_its_length(unit: str, before: str, published_tiktoken: OrdinaryEncoder) -> None:
    # Blanks behind a blank would be a longer run.
    start = before.rstrip() if unit.isspace() else before
    texts = [start + (unit * length)[:length] for length in (50_000, 500_000)]
    few, many = (bytes_asked_for(text, published_tiktoken) for text in texts)
    assert few < 1.4 * len(texts[0].encode())
    assert many < 1.4 * len(texts[1].encode())
    assert many < 10.5 * few
    print(f"{unit!a}: {many / len(texts[1].encode()):.2f} bytes asked for each byte")
