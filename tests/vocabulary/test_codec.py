"""Text to tokens and back: nothing is lost, nothing ordinary becomes special, and errors say where."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import pairwise
from threading import Barrier, Thread
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harmonia import vocabulary as public
from harmonia.errors import ErrorCode, InputError, Position
from harmonia.vocabulary import ID_BY_SPELLING, SPELLING_BY_ID, Vocabulary, codec, find_spellings, ranks
from harmonia.vocabulary.codec import EngineName, IncrementalDecoder
from tests.support.oracle_cases import compared
from tests.support.repeated import repeated
from tests.vocabulary.texts import ENGINE_NAMES, OrdinaryEncoder, odd_texts, shared_engine, shipped_tokens

if TYPE_CHECKING:
    from openai_harmony import HarmonyEncoding

SIZE = 201_088


@cache
def vocabulary(engine: EngineName = "auto") -> Vocabulary:
    return Vocabulary(engine=engine)


@cache
def broken_tokens() -> list[int]:
    """The tokens that are not UTF-8 on their own."""

    def is_broken(token: bytes) -> bool:
        try:
            token.decode()
        except UnicodeDecodeError:
            return True
        return False

    return [id for id, token in enumerate(shipped_tokens()) if is_broken(token)]


def token_lists() -> st.SearchStrategy[list[int]]:
    def draw_token(draw: st.DrawFn) -> int:
        kind = draw(st.sampled_from(("any", "broken", "broken", "byte", "special")))
        if kind == "broken":
            return draw(st.sampled_from(broken_tokens()))
        low, high = {"any": (0, SIZE - 1), "byte": (0, 255), "special": (199_998, SIZE - 1)}[kind]
        return draw(st.integers(low, high))

    return st.lists(st.composite(draw_token)(), max_size=20)


# Whole texts of characters that are often cut, and of parts of special tokens' spellings.
spellings_and_parts = ("<|", "|>", "<|end|>", "<|start|>", "end", "<|reserved_200018|>", "é", " ")
texts = st.one_of(
    st.text(),
    st.text(alphabet="aé你😀\u200d🏽\u0301 \n"),
    st.lists(st.sampled_from(spellings_and_parts)).map("".join),
)


# ── there and back ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("engine", ENGINE_NAMES)
@given(text=texts)
def test_decoding_gives_back_what_was_encoded(engine: EngineName, text: str) -> None:
    tokens = vocabulary(engine).encode(text)
    assert vocabulary(engine).decode_bytes(tokens) == text.encode()
    assert vocabulary(engine).decode(tokens) == text
    assert vocabulary(engine).decode(tokens, errors="strict") == text


def test_every_token_decodes_to_its_bytes() -> None:
    spellings = [spelling.encode() for spelling in SPELLING_BY_ID.values()]
    assert [vocabulary().decode_bytes([id]) for id in range(SIZE)] == shipped_tokens() + spellings
    assert vocabulary().decode_bytes(range(SIZE)) == b"".join(shipped_tokens() + spellings)


def test_odd_texts_are_encoded_and_decoded_as_the_reference_does_it(reference_encoding: HarmonyEncoding) -> None:
    count = 2000
    for text in odd_texts(30, count):
        ordinary = vocabulary().encode(text)
        assert ordinary == reference_encoding.encode(text, disallowed_special=())
        assert vocabulary().encode(text, special="all") == reference_encoding.encode(text, allowed_special="all")
        assert vocabulary().decode(ordinary) == reference_encoding.decode(ordinary)
    compared("odd texts and the reference's tokens", count)


def test_the_functions_of_the_package_use_one_vocabulary() -> None:
    assert public.default_vocabulary() is public.default_vocabulary()
    assert public.encode("Hi <|end|>", special={"<|end|>"}) == vocabulary().encode("Hi <|end|>", special={"<|end|>"})
    assert public.decode([200007, 64]) == "<|end|>a"
    assert public.decode_bytes(iter([64, 65])) == b"ab"
    assert public.is_special(200007)


def test_the_engine_can_be_chosen() -> None:
    assert vocabulary("exact").engine_name == "exact"
    assert vocabulary("auto").engine_name in ("exact", "fast")
    with pytest.raises(InputError) as caught:
        Vocabulary(engine=cast(Any, "quick")).encode("text")
    assert caught.value.code is ErrorCode.VOCABULARY_MISSING_ENGINE


# ── special tokens ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_a_spelling_in_ordinary_text_stays_ordinary(engine: EngineName) -> None:
    for spelling in ID_BY_SPELLING:
        tokens = vocabulary(engine).encode(f"{spelling}{spelling} é")
        assert max(tokens) < 199_998
        assert vocabulary(engine).decode(tokens) == f"{spelling}{spelling} é"


def test_every_spelling_can_be_made_special() -> None:
    for spelling, token in ID_BY_SPELLING.items():
        assert vocabulary().encode(spelling, special={spelling}) == [token]
        assert vocabulary().encode(f"a{spelling}b", special="all") == [64, token, 65]


def test_only_what_is_named_becomes_special() -> None:
    text = "<|start|>a<|end|>"
    ordinary_start, ordinary_end = vocabulary().encode("<|start|>a"), vocabulary().encode("a<|end|>")
    assert vocabulary().encode(text, special=["<|end|>"]) == [*ordinary_start, 200007]
    assert vocabulary().encode(text, special=("<|start|>",)) == [200006, *ordinary_end]
    assert vocabulary().encode(text, special=frozenset(ID_BY_SPELLING)) == [200006, 64, 200007]
    assert vocabulary().encode(text, special=()) == vocabulary().encode(text)


def test_one_id_decodes_to_one_of_its_two_spellings() -> None:
    assert vocabulary().encode("<|endofprompt|>", special="all") == [200018]
    assert vocabulary().decode([200018]) == "<|reserved_200018|>"
    ordinary = vocabulary().encode("<|endofprompt|>")
    assert vocabulary().encode("<|endofprompt|>", special={"<|reserved_200018|>"}) == ordinary


ordinary_texts = texts.filter(lambda text: not find_spellings(text))


@given(st.lists(st.one_of(ordinary_texts, st.integers(199_998, SIZE - 1)), max_size=8))
def test_text_between_special_tokens_is_encoded_on_its_own(parts: list[str | int]) -> None:
    # Neighbouring texts are one text.
    joined: list[str | int] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    if any(isinstance(part, str) and find_spellings(part) for part in joined):
        return
    tokens: list[int] = []
    for part in joined:
        tokens += [part] if isinstance(part, int) else vocabulary().encode(part)
    assert vocabulary().encode(vocabulary().decode(tokens), special="all") == tokens


@given(texts)
def test_encoding_with_special_tokens_can_be_repeated(text: str) -> None:
    tokens = vocabulary().encode(text, special="all")
    assert vocabulary().encode(vocabulary().decode(tokens), special="all") == tokens


@pytest.mark.parametrize(
    "special", [{"<|nothing|>"}, ["<|end|>", "end"], ["all"], "al", "<|nothing|>", ["<|reserved_201088|>"], [None]]
)
def test_a_special_token_that_does_not_exist_is_refused(special: Any) -> None:
    with pytest.raises(InputError) as caught:
        vocabulary().encode("text", special=special)
    assert caught.value.code is ErrorCode.VOCABULARY_UNKNOWN_SPECIAL


def test_special_ids_are_told_from_all_others() -> None:
    assert [id for id in range(-10, SIZE + 10) if public.is_special(id)] == list(range(199_998, SIZE))
    assert list(SPELLING_BY_ID) == list(range(199_998, SIZE))


# ── what is no text and no token ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("engine", ENGINE_NAMES)
@pytest.mark.parametrize(
    ("text", "character"),
    [
        ("\ud800", 0),
        ("ab\udfff", 2),
        ("😀é\ud83d!", 2),
        ("\ud83d\ude00", 0),
        ("<|end|>\ud800<|end|>", 7),
        ("a" * 20_000 + "\udc00" + "a" * 20_000, 20_000),
        (" " * 20_000 + "\udc00", 20_000),
        ("\U00033000\udc00", 1),
    ],
    ids=["alone", "low", "cut", "pair", "special", "long", "blank", "newer"],
)
def test_half_a_surrogate_pair_is_refused_where_it_stands(engine: EngineName, text: str, character: int) -> None:
    for special in ((), "all", {"<|end|>"}):
        with pytest.raises(InputError) as caught:
            vocabulary(engine).encode(text, special=special)
        assert caught.value.code is ErrorCode.VOCABULARY_LONE_SURROGATE
        assert caught.value.at == Position(character=character)


NO_NUMBERS = ["a", "64", None, [64], slice(0, 1)]
NO_TOKENS = [-1, -SIZE, SIZE, SIZE + 1, 1 << 70, -(1 << 70), 1.0, -0.5, float("nan"), *NO_NUMBERS]


@pytest.mark.parametrize("wrong", NO_TOKENS, ids=repr)
def test_what_is_no_token_is_refused_where_it_stands(wrong: Any) -> None:
    decoder = IncrementalDecoder(vocabulary())
    decoder.feed([64, 65, 66])
    calls: list[tuple[Callable[[Iterable[int]], object], int]] = [
        (vocabulary().decode, 0),
        (vocabulary().decode_bytes, 0),
        (decoder.feed, 3),
    ]
    for call, before in calls:
        for tokens, at in (([wrong], 0), ([64, wrong, 64], 1), ([64, 200007, wrong, -1], 2)):
            with pytest.raises(InputError) as caught:
                call(tokens)
            assert caught.value.code is ErrorCode.VOCABULARY_UNKNOWN_TOKEN
            assert caught.value.at == Position(token=before + at)


def test_integers_of_numpy_are_tokens() -> None:
    numpy = pytest.importorskip("numpy")
    decoder = IncrementalDecoder(vocabulary())
    assert vocabulary().decode(numpy.array([64, 65])) == "ab"
    assert decoder.feed(numpy.array([64, 65], dtype="uint32")) == "ab"
    assert decoder.feed(numpy.int64(66)) == "c"


@pytest.mark.parametrize(
    ("tokens", "at"), [([64, 65, SIZE], 2), ([64, -1], 1), ([[64, 65], [66, 67]], 0), ([[64]], 0), ([1.0], 0)]
)
def test_arrays_of_numpy_with_something_else_are_refused_where_it_stands(tokens: list[Any], at: int) -> None:
    array = pytest.importorskip("numpy").array(tokens)
    for call in (vocabulary().decode_bytes, IncrementalDecoder(vocabulary()).feed):
        with pytest.raises(InputError) as caught:
            call(array)
        assert caught.value.code is ErrorCode.VOCABULARY_UNKNOWN_TOKEN
        assert caught.value.at == Position(token=at)


@given(token_lists())
def test_strict_decoding_says_which_token_is_not_utf8(tokens: list[int]) -> None:
    data = vocabulary().decode_bytes(tokens)
    assert vocabulary().decode(tokens) == data.decode(errors="replace")
    try:
        expected = data.decode()
    except UnicodeDecodeError as error:
        with pytest.raises(InputError) as caught:
            vocabulary().decode(tokens, errors="strict")
        assert caught.value.code is ErrorCode.VOCABULARY_INVALID_UTF8
        before = caught.value.at.token
        assert before is not None
        start = len(vocabulary().decode_bytes(tokens[:before]))
        assert start <= error.start < start + len(vocabulary().decode_bytes([tokens[before]]))
    else:
        assert vocabulary().decode(tokens, errors="strict") == expected


# ── token by token ──────────────────────────────────────────────────────────────────────────────────────────────────

# What a character may begin with: all but its last bytes, or more. The last six bits of a code point matter to none.
BEGINNINGS = {
    chr(point).encode()[:length]
    for point in range(0x80, 0x110000, 64)
    if not 0xD800 <= point < 0xE000
    for length in range(1, len(chr(point).encode()))
}


def cut_emoji() -> list[int]:
    """Three tokens of a byte each, and the fourth byte of the character is not there."""
    return [shipped_tokens().index(bytes([byte])) for byte in "😀".encode()[:3]]


def cut(tokens: list[int], cuts: list[int]) -> list[list[int]]:
    bounds = sorted({0, len(tokens), *(at % (len(tokens) + 1) for at in cuts)})
    return [tokens[start:end] for start, end in pairwise(bounds)]


@repeated(given(tokens=token_lists(), cuts=st.lists(st.integers(0, 20))), some=80, many=400)
@example(tokens=[2803, 94], cuts=[1])  # the bytes ED A1, which begin a surrogate and so no character
@example(tokens=[2803, 94, 222], cuts=[2])
def test_decoding_in_parts_is_decoding_the_whole(tokens: list[int], cuts: list[int]) -> None:
    decoder = IncrementalDecoder(vocabulary())
    text = ""
    so_far: list[int] = []
    for part in cut(tokens, cuts):
        text += decoder.feed(part)
        so_far += part
        data = vocabulary().decode_bytes(so_far)
        assert decoder.pending == b"" or decoder.pending in BEGINNINGS
        assert data.endswith(decoder.pending)
        assert text == data[: len(data) - len(decoder.pending)].decode(errors="replace")
    text += decoder.close()
    assert decoder.pending == b""
    assert text == vocabulary().decode(tokens)


@given(texts)
def test_no_character_of_a_text_comes_in_part(text: str) -> None:
    decoder = IncrementalDecoder(vocabulary(), errors="strict")
    tokens = vocabulary().encode(text)
    emitted = [decoder.feed(token) for token in tokens]
    assert "".join(emitted) == text
    assert (decoder.pending, decoder.close()) == (b"", "")


def test_the_beginning_of_a_character_is_held_back() -> None:
    tokens = [shipped_tokens().index(bytes([byte])) for byte in "😀".encode()]
    decoder = IncrementalDecoder(vocabulary())
    assert [decoder.feed(token) for token in tokens] == ["", "", "", "😀"]
    assert (decoder.feed(tokens[:2]), decoder.pending) == ("", "😀".encode()[:2])
    assert (decoder.close(), decoder.pending) == ("\ufffd", b"")


@given(tokens=token_lists(), cuts=st.lists(st.integers(0, 20)))
@example(tokens=[*cut_emoji(), 64], cuts=[1, 2, 3])
@example(tokens=[64, *cut_emoji()], cuts=[1, 2, 3])
def test_strict_decoding_in_parts_finds_the_same_fault(tokens: list[int], cuts: list[int]) -> None:
    decoder = IncrementalDecoder(vocabulary(), errors="strict")

    def decode_in_parts() -> str:
        return "".join([*(decoder.feed(part) for part in cut(tokens, cuts)), decoder.close()])

    try:
        expected = vocabulary().decode(tokens, errors="strict")
    except InputError as error:
        with pytest.raises(InputError) as caught:
            decode_in_parts()
        assert (caught.value.code, caught.value.at) == (error.code, error.at)
    else:
        assert decode_in_parts() == expected


def test_tokens_that_are_refused_leave_the_decoder_as_it_was() -> None:
    first, *rest = [shipped_tokens().index(bytes([byte])) for byte in "é".encode()]
    decoder = IncrementalDecoder(vocabulary())
    assert decoder.feed([64, first]) == "a"
    with pytest.raises(InputError) as caught:
        decoder.feed([*rest, 65, SIZE])
    assert caught.value.at == Position(token=4)
    assert decoder.pending == "é".encode()[:1]
    assert decoder.feed([*rest, 65]) == "éb"


# ── threads ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_together(*calls: Callable[[], object]) -> None:
    """Start all calls, and see all of them end."""
    threads = [Thread(target=call, daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)  # for ever, if they wait for each other
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_threads_that_race_for_the_first_use_load_once(
    engine: EngineName, monkeypatch: pytest.MonkeyPatch, published_tiktoken: OrdinaryEncoder
) -> None:
    reads: list[None] = []
    read_shipped = ranks.read_shipped

    def counted() -> list[bytes]:
        reads.append(None)
        return read_shipped()

    monkeypatch.setattr(ranks, "read_shipped", counted)
    fresh = Vocabulary(engine=engine)
    texts = [f"Text {number}, für jeden Faden ein anderer" for number in range(8)]
    found: list[list[int]] = []
    decoded: list[str] = []

    barrier = Barrier(16)

    def encode(text: str) -> None:
        barrier.wait()
        found.append(fresh.encode(text))

    def decode() -> None:
        barrier.wait()
        decoded.append(fresh.decode([64, 200007]))

    run_together(*(partial(encode, text) for text in texts), *[decode] * 8)
    assert sorted(found) == sorted(map(published_tiktoken.encode_ordinary, texts))
    assert decoded == ["a<|end|>"] * 8
    assert len(reads) == 1


def test_threads_that_race_for_the_first_use_never_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    bytes_alone, engine = shipped_tokens()[:256], shared_engine("exact")  # so that loading takes no time
    monkeypatch.setattr(ranks, "read_shipped", lambda: bytes_alone)
    monkeypatch.setattr(codec, "load_engine", lambda *_arguments: engine)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] -- takes anything
    fresh = [Vocabulary() for _ in range(500)]
    barrier = Barrier(2)
    encoded: list[list[int]] = []
    decoded: list[str] = []

    def encode() -> None:
        for one in fresh:
            barrier.wait()
            encoded.append(one.encode("a"))

    def decode() -> None:
        for one in fresh:
            barrier.wait()
            decoded.append(one.decode([64]))

    def linger(*_arguments: object) -> None:
        """Called at each call in either thread: a moment in which the other one may run."""
        for _ in range(50):
            pass

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threading.setprofile(linger)
    try:
        run_together(encode, decode)
    finally:
        threading.setprofile(None)  # pyright: ignore[reportArgumentType] -- None is how it is taken off
        sys.setswitchinterval(interval)
    assert (encoded, decoded) == ([[64]] * len(fresh), ["a"] * len(fresh))
