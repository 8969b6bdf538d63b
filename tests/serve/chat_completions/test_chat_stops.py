"""Stop strings, against a slow twin that looks at every character."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from harmonia.serve.chat_completions.answer import Stops

texts = st.text("ab\n", max_size=30)
stop_lists = st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=4)


def cut(text: str, stops: list[str]) -> str:
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            return text[: end - len(max(complete, key=len))]
    return text


def pieces(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(each % (len(text) + 1) for each in cuts)})
    return [text[start:end] for start, end in pairwise(places)]


@given(texts, stop_lists, st.lists(st.integers(0, 99), max_size=8))
def test_text_ends_before_the_first_stop_string_however_it_is_cut(text: str, stops: list[str], cuts: list[int]) -> None:
    found = Stops(stops)
    shown = "".join([*map(found.feed, pieces(text, cuts)), found.end()])
    assert shown == cut(text, stops)
    assert found.is_hit == any(stop in text for stop in stops)


@given(texts, stop_lists)
def test_only_what_may_become_a_stop_string_is_held_back(text: str, stops: list[str]) -> None:
    found = Stops(stops)
    shown = found.feed(text)
    if not found.is_hit:
        held = text[len(shown) :]
        assert found.is_holding == bool(held)
        assert held == "" or any(stop.startswith(held) for stop in stops)
        longest = max((size for stop in stops for size in range(len(stop)) if text.endswith(stop[:size])), default=0)
        assert len(held) == longest


def test_work_is_linear_in_the_text() -> None:
    class Counted(str):
        """Text that counts how often one of its characters is looked at."""

        looks = 0

        def __getitem__(self, at: object) -> str:
            Counted.looks += 1
            return str.__getitem__(self, at)  # type: ignore[index]

    def looks(length: int) -> int:
        found = Stops([Counted("a" * 1000 + "b")])
        Counted.looks = 0
        for _ in range(length):
            found.feed("a")
        return Counted.looks

    assert looks(8000) < 3 * looks(4000)
