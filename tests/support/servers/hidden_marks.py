"""A text that stands nowhere but in reasoning, and the search for it in whatever form it may come out.

The mark is of runes, so that one letter of it shows a leak: no other text here has any, and a stream that gives away
one token of reasoning gives away a rune, or bytes of one.
"""

from __future__ import annotations

import base64
import json
import re
from urllib.parse import quote

from harmonia import encode

RUNES = "ᛞᚱᛖᚪᛗᚦᚩᚷᛏ"
# In plain letters as well, which pass through whatever would spoil the others. It is several tokens.
LETTERS = "Qzx7Jkvw"
MARK = f"{RUNES} {LETTERS}"

_ANY_RUNE = re.compile(r"[\u16a0-\u16ff]")
# What encoders make of one rune: JSON, Python, percent, a list of bytes.
_ESCAPED_RUNE = re.compile(
    r"\\u16[a-fA-F][0-9a-fA-F]|\\xe1\\x9[ab]|%[eE]1%9[aAbB]|(?<![0-9])225,\s*15[45],\s*[0-9]|&#x?(?:16[a-f][0-9a-f]|5[78][0-9]{2});"
)


def _whole_forms() -> list[str]:
    """Of the whole mark: what could also come by chance if only a rune were looked for."""
    data = MARK.encode()
    forms = [LETTERS, quote(MARK), json.dumps(MARK)[1:-1], data.hex(), data.hex().upper(), MARK[::-1], LETTERS.lower()]
    for shift in range(3):
        # What stands before it moves the letters of base64. Those at both ends depend on what is around.
        coded = base64.b64encode(b"\0" * shift + data).decode()
        forms += [coded[4:-4], coded[4:-4].replace("+", "-").replace("/", "_")]
    for spaces in (",", ", "):
        forms.append(spaces.join(map(str, encode(RUNES))))
        forms.append(spaces.join(map(str, encode(LETTERS))))
    return forms


_WHOLE_FORMS = _whole_forms()


def find_mark(said: bytes | str) -> str | None:
    """What of the mark is in it, with what is around; None where there is nothing."""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    for pattern in (_ANY_RUNE, _ESCAPED_RUNE):
        found = pattern.search(text)
        if found is not None:
            return text[max(0, found.start() - 300) : found.end() + 100]
    # Pieces of a text are strings of their own in a stream. Joined they are what a reader of it has.
    joined = "".join(
        re.findall(r'"(?:delta|content|text|arguments|input|reasoning|token|output)": ?"((?:[^"\\]|\\.)*)"', text)
    )
    for where in (text, joined):
        for form in _WHOLE_FORMS:
            at = where.find(form)
            if at >= 0:
                return where[max(0, at - 300) : at + len(form) + 100]
    return None
