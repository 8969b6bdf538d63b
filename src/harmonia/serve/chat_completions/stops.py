"""Stop strings: text in pieces in, the text before the first stop string out.

1. The first stop string to be complete counts; of those that are complete at the same character, the longest.
2. Chunking is invisible: the output, joined, is the same however the text was cut.
3. Only what may be the beginning of a stop string is held back.
4. Work is linear in the text, for each stop string.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

# A state of the search: what is held back, and how much of each stop string that is.
Place = tuple[str, Sequence[int]]


class Stops:
    """Looks for stop strings in one text. After `is_hit` there is no more output."""

    def __init__(self, stops: Iterable[str]) -> None:
        self._matchers = [_Matcher(stop) for stop in stops]
        self._held = ""
        self.is_hit = False

    def feed(self, text: str) -> str:
        """The text that can be output now."""
        if self.is_hit:
            return ""
        matchers = self._matchers
        for at, char in enumerate(text):
            longest = 0
            for matcher in matchers:
                if matcher.step(char):
                    longest = max(longest, matcher.length)
            if longest:
                self.is_hit = True
                shown = self._held + text[: at + 1]
                self._held = ""
                return shown[: len(shown) - longest]
        shown = self._held + text
        waiting = max((matcher.matched for matcher in matchers), default=0)
        self._held = shown[len(shown) - waiting :]
        return shown[: len(shown) - waiting]

    @property
    def is_holding(self) -> bool:
        """Whether some text is held back."""
        return bool(self._held)

    @property
    def place(self) -> Place:
        """The state now."""
        return self._held, [matcher.matched for matcher in self._matchers]

    def go_back(self, place: Place) -> None:
        """Forget what came since that state. It contained no stop string."""
        self._held, matched = place
        for matcher, count in zip(self._matchers, matched, strict=True):
            matcher.matched = count

    def end(self) -> str:
        """No more text comes, so what was held back is not a stop string."""
        held, self._held = self._held, ""
        return held


class _Matcher:
    """Knuth, Morris and Pratt: the last `matched` characters of the text are the first ones of the stop string."""

    __slots__ = ("_fallback", "_stop", "length", "matched")

    def __init__(self, stop: str) -> None:
        self._stop = stop
        self.length = len(stop)
        self.matched = 0
        self._fallback = [0] * len(stop)
        border = 0
        for at in range(1, len(stop)):
            while border and stop[at] != stop[border]:
                border = self._fallback[border - 1]
            border += stop[at] == stop[border]
            self._fallback[at] = border

    def step(self, char: str) -> bool:
        """Read one more character. Returns whether the stop string is complete."""
        matched = self.matched
        while matched and self._stop[matched] != char:
            matched = self._fallback[matched - 1]
        matched += self._stop[matched] == char
        self.matched = matched
        return matched == self.length
