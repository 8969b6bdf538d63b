"""What a user's words offer for the arguments of a call, where it is easy to see.

unit=kelvin, unit: kelvin       the property `unit`
"New York", `x + 1`             a text, before all others
New York, in tokyo              a text
12, -3.5                        a number
a@example.com, https://…        a text of that format
"""

from __future__ import annotations

import re
from typing import Any, Final

_READ_CHARS: Final = 4000
_QUOTED: Final = re.compile(r'"([^"\n]{1,500})"|“([^“”\n]{1,500})”|`([^`\n]{1,500})`|(?<!\w)\'([^\'\n]{1,500})\'(?!\w)')
_NAMED: Final = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\s{0,3}(?:=|:)\s{0,3}(?:\"([^\"\n]*)\"|'([^'\n]*)'|([^\s,;)]+))")
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d{1,15}(?:\.\d{1,15})?(?![\w])")
_WORD: Final = re.compile(r"[^\W\d_][\w'’-]*")
_BEHIND_PREPOSITION: Final = re.compile(r"\b(?:in|for|at|of|about|from|with|on)\s+([^\W\d_][\w'’-]*)", re.IGNORECASE)
_FORMATS: Final = {
    "email": re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"),
    "uri": re.compile(r"https?://[^\s<>\"')\]]{1,500}"),
    "date": re.compile(r"(?<![\w-])\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d)(?![\w-])"),
    "date-time": re.compile(
        r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d)T[0-2]\d:[0-5]\d:[0-5]\d(?:Z|[+-][01]\d:[0-5]\d)"
    ),
    "ipv4": re.compile(r"(?<![\w.])(?:\d{1,2}\.){3}\d{1,2}(?![\w.])"),
}
_SAME_FORMATS: Final = {"url": "uri", "iri": "uri", "idn-email": "email"}
# Words that are written with a capital, or follow a preposition, and name nothing.
_WORDS_THAT_NAME_NOTHING: Final = """
    a an the this that these those it me my you your i we us our please use call run try invoke tell show give find get
    what how why when where who which is are was can could would should do does and or then first now today tomorrow
    not all both each every some any tool tools function functions hello hi hey ok okay yes no let lets
"""
_EMPTY_WORDS: Final = frozenset(_WORDS_THAT_NAME_NOTHING.split())


class Hints:
    """The hints of one text. Each text or number serves once, so that the next property gets the next one."""

    def __init__(self, text: str, names_of_tools: frozenset[str] = frozenset()) -> None:
        self.text = text.strip()
        read = self.text[:_READ_CHARS]
        self._lower = read.lower()
        self._named = {match[1].lower(): match[match.lastindex or 0].rstrip(".!?") for match in _NAMED.finditer(read)}
        self._numbers = [float(each) if "." in each else int(each) for each in _NUMBER.findall(read)]
        self._formats = {name: pattern.findall(read) for name, pattern in _FORMATS.items()}
        quoted = [match[match.lastindex or 0] for match in _QUOTED.finditer(read)]
        behind = [word for word in _BEHIND_PREPOSITION.findall(read) if word.lower() not in _EMPTY_WORDS]
        named = set(self._named.values())
        texts = [each.rstrip(".!?") for each in (*_capitalised(read, quoted), *behind)]
        self._texts = [
            each for each in dict.fromkeys([*quoted, *texts]) if each not in names_of_tools and each not in named
        ]

    def copy(self) -> Hints:
        """The same hints, which can be used up without using up these."""
        copied = object.__new__(Hints)
        copied.__dict__ |= self.__dict__
        copied._texts, copied._numbers = list(self._texts), list(self._numbers)
        return copied

    def named(self, name: str) -> str | None:
        """What the text says the property is: `unit=kelvin`."""
        return self._named.get(name.lower())

    def texts(self) -> list[str]:
        return list(self._texts)

    def numbers(self) -> list[float]:
        return list(self._numbers)

    def of_format(self, name: str) -> list[str]:
        return self._formats.get(_SAME_FORMATS.get(name, name), [])

    def mentions(self, value: Any) -> bool:
        """Whether the text has this value as a word: how a variant of an enum is chosen."""
        if not isinstance(value, str) or len(value) < 2:
            return False
        return re.search(rf"(?<!\w){re.escape(value.lower())}(?!\w)", self._lower) is not None

    def use_up(self, value: Any) -> None:
        """A text or number has found its property."""
        if isinstance(value, str) and value in self._texts:
            self._texts.remove(value)
        elif isinstance(value, int | float) and not isinstance(value, bool) and value in self._numbers:
            self._numbers.remove(value)


def _capitalised(text: str, quoted: list[str]) -> list[str]:
    """Names: words with a capital that stand together. What begins a sentence comes last, as it may be no name."""
    found: list[str] = []
    doubtful: list[str] = []
    group: list[re.Match[str]] = []
    inside_quotes = " ".join(quoted)

    def finish() -> None:
        while group and group[0][0].lower() in _EMPTY_WORDS:
            group.pop(0)
        if group:
            name = text[group[0].start() : group[-1].end()]
            before = text[max(group[0].start() - 3, 0) : group[0].start()].rstrip()
            begins = not before or before[-1] in ".!?\n:"
            if name not in inside_quotes:
                (doubtful if begins and len(group) == 1 else found).append(name)
        group.clear()

    for match in _WORD.finditer(text):
        if group and text[group[-1].end() : match.start()].strip(" ") != "":
            finish()
        if match[0][0].isupper():
            group.append(match)
        else:
            finish()
    finish()
    return [*found, *doubtful]
