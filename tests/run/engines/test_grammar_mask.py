"""llguidance on our vocabulary: masks, tokens, errors, and that it is made ready once."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest

from harmonia import EngineError, encode
from harmonia.errors import ErrorCode, InputError
from harmonia.grammar import WrittenGrammar
from harmonia.grammar.completion import completion_grammar
from harmonia.grammar.llguidance_writer import write_llguidance
from harmonia.run.engines import grammar_mask as masking
from harmonia.run.engines.grammar_mask import MASK_BYTES, Matcher, is_installed
from harmonia.vocabulary import CHANNEL, RETURN, VOCABULARY_SIZE
from tests.grammar.damages import DEMAND, sampled
from tests.grammar.sampling import admitted_tokens, is_admitted


def made_of(text: str) -> Matcher:
    return Matcher(WrittenGrammar("llguidance", text))


def commit_all(matcher: Matcher, tokens: Iterable[int]) -> None:
    for token in tokens:
        matcher.commit(token)


ANSWER = f'start: <[{CHANNEL}]> "final" /[^<]*/ <[{RETURN}]>'


def test_a_mask_has_a_bit_for_each_token() -> None:
    matcher = made_of(ANSWER)
    mask = matcher.mask()
    assert len(mask) * 8 == VOCABULARY_SIZE
    assert admitted_tokens(mask) == [CHANNEL]
    matcher.commit(CHANNEL)
    # Any way to spell what must come.
    assert {"f", "fi", "final"} <= {
        text for text in ("f", "fi", "final", "x") if is_admitted(matcher.mask(), encode(text)[0])
    }
    assert not matcher.admits(encode("x")[0])


def test_a_mask_is_written_to_a_place_in_memory() -> None:
    matcher = made_of(ANSWER)
    place = (ctypes.c_uint8 * MASK_BYTES)()
    matcher.fill(ctypes.addressof(place), len(place))
    assert bytes(place) == matcher.mask()


def test_text_that_is_spelled_like_a_special_token_is_not_one() -> None:
    matcher = made_of(f'start: "<|return|>" <[{RETURN}]>')
    assert not matcher.admits(RETURN)
    assert matcher.admitted([*encode("<|return|>"), RETURN]) == len(encode("<|return|>")) + 1


def test_a_grammar_is_over_behind_its_last_token() -> None:
    matcher = made_of(ANSWER)
    for token in sampled("<|channel|>final<|return|>"):
        assert not matcher.is_over
        matcher.commit(token)
    assert matcher.is_over


def test_a_copy_goes_its_own_way() -> None:
    matcher = made_of(ANSWER)
    copied = matcher.copy()
    copied.commit(CHANNEL)
    assert matcher.admits(CHANNEL) and not copied.admits(CHANNEL)


def test_a_token_that_is_not_admitted_is_an_error() -> None:
    with pytest.raises(EngineError) as raised:
        made_of(ANSWER).commit(RETURN)
    assert raised.value.code is ErrorCode.ENGINE_BAD_ANSWER


def test_a_grammar_that_takes_too_much_work_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "MAX_ITEMS_IN_ROW", 100)
    matcher = made_of('start: a a a a\na: ("x" | "y")* a? | "xy" a | a a | "x"')
    with pytest.raises(EngineError) as raised:
        commit_all(matcher, encode("x")[:1] * 1_000)
    assert raised.value.code is ErrorCode.GRAMMAR_TOO_LARGE


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("start: missing", ErrorCode.GRAMMAR_INVALID_OPTION),
        ('start: %json {"enum": []}', ErrorCode.GRAMMAR_INVALID_OPTION),
        ("start: " + "(" * 500 + '"a"' + ")" * 500, ErrorCode.GRAMMAR_TOO_LARGE),
    ],
)
def test_a_grammar_that_cannot_be_used_is_refused(text: str, code: ErrorCode) -> None:
    with pytest.raises(InputError) as raised:
        made_of(text)
    assert raised.value.code is code


def test_a_grammar_of_another_engine_is_refused() -> None:
    with pytest.raises(InputError) as raised:
        Matcher(WrittenGrammar("gbnf", 'root ::= "a"'))
    assert raised.value.code is ErrorCode.GRAMMAR_INVALID_OPTION


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_installed()
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(InputError) as raised:
        made_of(ANSWER)
    assert raised.value.code is ErrorCode.GRAMMAR_MISSING_EXTRA
    assert "harmonia[grammar]" in raised.value.message


def test_without_the_extra_grammars_are_written_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    written = write_llguidance(completion_grammar(DEMAND))
    monkeypatch.setitem(sys.modules, "llguidance", None)
    assert write_llguidance(completion_grammar(DEMAND)) == written


def test_the_vocabulary_is_made_ready_once_whoever_asks() -> None:
    ask = masking._tokenizer  # pyright: ignore[reportPrivateUsage] -- nothing else shows that it is the same
    with ThreadPoolExecutor(4) as threads:
        made = [threads.submit(ask) for _ in range(8)]
    assert len({id(each.result()) for each in made}) == 1


def test_what_is_no_grammar_and_no_token_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        Matcher("start: /a/")  # pyright: ignore[reportArgumentType]
    assert caught.value.code is ErrorCode.GRAMMAR_INVALID_OPTION
    matcher = Matcher(write_llguidance(completion_grammar(DEMAND)))
    for wrong in (-1, 2**70, "a"):
        for use in (matcher.commit, matcher.admits):
            with pytest.raises(InputError) as caught:
                use(wrong)  # pyright: ignore[reportArgumentType]
            assert caught.value.code is ErrorCode.GRAMMAR_INVALID_OPTION
    matcher.commit(CHANNEL)  # it is as it was
