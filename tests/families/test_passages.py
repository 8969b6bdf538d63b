"""Marks are found whole, and their beginnings are held back: never more, and never less."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonia.families.passages import HALF, Finder, Found, Mark, label, literal

MARKS = [literal("<a>"), literal("<ab>"), literal("<abc"), literal("x", at="line"), label("Act It"), label("Act", "**")]
FINDER = Finder(MARKS)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("<a>", (0, 3, 0)),
        ("..<ab>.", (2, 6, 1)),
        ("<abc>", (0, 4, 2)),
        ("<abx", None),
        ("x", (0, 1, 3)),
        ("ax", None),
        ("a\n  x", (2, 5, 3)),
        ("a\n     x", None),
        ("Act 12 It :", (0, 11, 4)),
        ("a\nACT it:", (2, 9, 4)),
        ("**Act:**", (0, 8, 5)),
        ("b\ud800", (1, 2, HALF)),
    ],
)
def test_a_mark_is_found_where_it_stands(text: str, found: tuple[int, int, int] | None) -> None:
    result = FINDER.search("\n" + text, 1, is_end=True)
    assert (result and (result.start - 1, result.end - 1, result.which)) == found


@pytest.mark.parametrize("mark", MARKS)
def test_every_beginning_of_a_mark_is_held_back(mark: Mark) -> None:
    spelled = {0: "<a>", 1: "<ab>", 2: "<abc", 3: " x", 4: "Act 1 It:", 5: " **act:**"}[MARKS.index(mark)]
    for end in range(1, len(spelled)):
        result = Finder([mark]).search("\n..\n" + spelled[:end], 1, is_end=False)
        assert result is not None and (result.start, result.which) == (4, None), spelled[:end]
        assert Finder([mark]).search("\n..\n" + spelled[:end], 1, is_end=True) is None


def test_the_longer_mark_is_waited_for() -> None:
    finder = Finder([literal("[TOOL"), literal("[TOOLS]")])
    waiting, over = finder.search("[TOOL", 0, is_end=False), finder.search("[TOOL", 0, is_end=True)
    assert waiting is not None and waiting.which is None
    assert over is not None and over.which == 0
    other = finder.search("[TOOL ", 0, is_end=False)
    assert other is not None and other.which == 0


@settings(max_examples=200, deadline=None)
@given(st.text("<abcx>\n Act*:It1", max_size=20), st.integers(1, 21))
def test_the_quick_way_finds_what_the_slow_way_finds(text: str, at: int) -> None:
    text, at = "\n" + text, min(at, len(text) + 1)
    slow = next((found for start in range(at, len(text)) if (found := FINDER.match(text, start, is_end=False))), None)
    assert FINDER.search(text, at, is_end=False) == slow


def test_lines_that_begin_no_mark_are_not_looked_at_closer(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = 0
    match = Finder.match

    def counted(self: Finder, text: str, at: int, *, is_end: bool) -> Found | None:
        nonlocal tried
        tried += 1
        return match(self, text, at, is_end=is_end)

    monkeypatch.setattr(Finder, "match", counted)
    finder = Finder([literal("{x", at="line"), label("Action")])
    assert finder.search("some words\n" * 100 + "Done.", 0, is_end=True) is None and tried == 0
    found = finder.search("some words\n" * 100 + "  {x", 0, is_end=True)
    assert found is not None and tried == 2  # at the line break, and behind it
