"""Text whose special tokens a server removed, split into messages again.

    analysisWe need a number.assistantfinalFour.
    commentary to=functions.get_weather json{"city":"Paris"}

Header words are glued to the text before and after them. A channel name counts at the beginning of the text, or
directly after `assistant`: "assistantfinal" does not occur in prose. All of this is a guess, so none of it is shown or
run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from harmonia.parser.headers import CHANNELS, CONTENT_TYPES, GLUED_BODY

_CHANNEL: Final = "|".join(CHANNELS)
_CONTENT_TYPE: Final = "|".join(CONTENT_TYPES)
_ADDRESS: Final = r"to=[^\s{\[<]+?"
# The recipient may be followed by the remains of a second channel.
_FIELDS: Final = (
    rf"(?P<address>\s+{_ADDRESS}(?=(?:{_CHANNEL})?(?:\s|[{{\[]|$)))?(?:(?<!\W)(?:{_CHANNEL})(?=\s|[{{\[]|$))?"
    rf"(?P<type>\s*(?:{_CONTENT_TYPE})(?=\s*[{{\[]|\s|$))?"
)
# A header after another message: the author, glued to the channel, and the rest of the header. The expression begins
# with a fixed word, so that a search is linear.
_HEADER: Final = re.compile(
    rf"(?P<author>assistant(?:\s+{_ADDRESS})?|commentary(?=analysis|final))(?P<channel>{_CHANNEL}){_FIELDS}"
)
_FIRST_HEADER: Final = re.compile(rf"\s*(?P<author>(?:assistant)?)(?P<channel>{_CHANNEL}){_FIELDS}")
# A tool that answers the assistant: the text before "assistantcommentary" in that case.
_TOOL: Final = re.compile(r"(?P<name>functions\.[\w.-]+|browser\.\w+|(?<!\w)[A-Za-z_][\w-]*(?:\.[\w-]+)*)\s+to=$")
_LONGEST_TOOL: Final = 200


class StrippedMessage(NamedTuple):
    """A guessed message. Its header begins at `start`, its body at `body`."""

    author: str
    header: str | None  # the channel and what follows it; None for text without any header
    start: int
    body: int
    end: int


def looks_stripped(text: str) -> bool:
    """Whether a text without any special token contains the remains of headers."""
    return _find_first(text) is not None or _HEADER.search(text) is not None


def count_headers(text: str) -> int:
    """The maximum number of messages in a stripped text."""
    return sum(1 for _ in _find_headers(text, is_known=True))


def split_stripped(text: str, *, is_known: bool = False) -> Iterator[StrippedMessage]:
    """The messages of a stripped text; together they make up the whole text.

    With `is_known`, the text is known to be stripped: a channel name at its beginning counts even before a space.
    """
    headers = list(_find_headers(text, is_known=is_known))
    ends = [header.start for header in headers[1:]] + [len(text)]
    if not headers or headers[0].start:
        yield StrippedMessage("", None, 0, 0, headers[0].start if headers else len(text))
    for header, end in zip(headers, ends, strict=bool(headers)):
        yield header._replace(end=end)


def _find_headers(text: str, *, is_known: bool) -> Iterator[StrippedMessage]:
    first = _find_first(text, is_known=is_known)
    found = [*([first] if first else []), *_HEADER.finditer(text, first.end() if first else 0)]
    settled = 0
    for match in found:
        author, start = match["author"], match.start()
        tool = None
        if author == "assistant" and text.endswith("to=", settled, start):
            tool = _TOOL.search(text, max(start - _LONGEST_TOOL, settled), start)
        settled = match.end()
        if tool is not None:
            author, start = f"{tool['name']} to=assistant", tool.start()
        elif author == "commentary":  # a word that was left over before the real channel
            author = ""
        header = "".join(match[part] or "" for part in ("channel", "address", "type"))
        yield StrippedMessage(author, header, start, match.end(), match.end())


def _find_first(text: str, *, is_known: bool = False) -> re.Match[str] | None:
    found = _FIRST_HEADER.match(text)
    if found is None or found["address"] or found["type"] or found["author"]:
        return found
    # "final" and "analysis" are ordinary words, too: text has to be glued to them without continuing the word, unless
    # more headers follow or the caller knows.
    is_glued = GLUED_BODY.match(text, found.end()) is not None or (is_known and text[found.end()].isspace())
    return found if is_glued or _HEADER.search(text, found.end()) else None
