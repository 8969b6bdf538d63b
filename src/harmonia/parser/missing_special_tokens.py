"""Headers that lost their special tokens: one without `<|message|>`, or text from which a server removed all of them.

    <|start|>assistant<|channel|>analysis We need a number.<|end|>
    analysisWe need a number.assistantfinalFour.
    commentary to=functions.get_weather json{"city":"Paris"}

Header words are glued to the text before and after them. In text without any special token, a channel name counts at
the beginning, or directly after `assistant`: "assistantfinal" does not occur in prose. All of this is a guess, so none
of it is shown or run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from harmonia.errors import ErrorCode
from harmonia.messages import Author
from harmonia.parser.headers import (
    ASSISTANT,
    CHANNELS,
    CONTENT_TYPES,
    ROLE_PATTERN,
    HeaderReader,
    Item,
    Reading,
    Tools,
    Word,
    spell,
    split_into_words,
)
from harmonia.provenance import Trust
from harmonia.vocabulary import CHANNEL, SPELLING_BY_ID

_CHANNEL: Final = "|".join(CHANNELS)
_CONTENT_TYPE: Final = "|".join(CONTENT_TYPES)
_ADDRESS: Final = r"to=[^\s{\[<]+?"
_OPEN_AUTHOR: Final = re.compile(
    rf"\s*(?:(?P<role>{ROLE_PATTERN})(?::\S+)?|(?P<tool>[A-Za-z_][\w-]*(?:\.[\w-]+)+)(?=\s))"
)
_OPEN_CHANNEL: Final = re.compile(rf"\s*(?:{_CHANNEL})", re.IGNORECASE)
_OTHER_CHANNEL: Final = re.compile(r"\s*[\w-]+(?=\s+to=)")
_OPEN_RECIPIENT: Final = re.compile(r"\s*to=[^\s<{\[]+")
_OPEN_EMPTY_RECIPIENT: Final = re.compile(r"\s*to=(?=\s|$)")
_OPEN_CONTENT_TYPE: Final = re.compile(
    rf"\s*(?P<type>(?P<constrain><\|constrain\|>\s*)?(?:{_CONTENT_TYPE}))(?=[\s{{\[\"<]|$)", re.IGNORECASE
)
_DATA_FOLLOWS: Final = re.compile(r"\s*[{\[]")
_OPEN_CONSTRAIN: Final = re.compile(r"\s*<\|constrain\|>\s*")
# How a body begins if the channel name is glued to it: "analysisWe need", "final4", "commentary to=…".
_GLUED_BODY: Final = re.compile(r"[^a-z \t_-]|\s+to=|$")
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
    """The messages of a stripped text; together they make up the whole text. With `is_known`, the text is known to be
    stripped: a channel name at its beginning counts even before a space."""
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
    is_glued = _GLUED_BODY.match(text, found.end()) is not None or (is_known and text[found.end()].isspace())
    return found if is_glued or _HEADER.search(text, found.end()) else None


def read_open_header(items: Sequence[Item], given: Author | None, tools: Tools, *, is_completion: bool) -> Reading:
    """A header without `<|message|>`: read as far as it is a header; the rest is the text of the message."""
    reader = HeaderReader(tools, given)
    text = spell(items)
    at = 0
    channels = [index for index, item in enumerate(items) if item == CHANNEL]
    if channels:
        before = items[: channels[-1]]
        reader.read_sections(split_into_words(before))
        token = Word(SPELLING_BY_ID[CHANNEL], CHANNEL, len(spell(before)), True)
        reader.start_channel_section(token)
        at = token.end
        found = _OPEN_CHANNEL.match(text, at) or _OTHER_CHANNEL.match(text, at)
    else:
        if given is None:
            author = _OPEN_AUTHOR.match(text)
            if author is None:
                reader.author = ASSISTANT
                reader.blame_at(ErrorCode.HEADER_EMPTY_ROLE, 0, 0)
            else:
                at = author.end()
                reader.read_author(Word(author.group().strip(), None, at - len(author.group().strip()), True))
        found = _OPEN_CHANNEL.match(text, at)
        if found is not None and _GLUED_BODY.match(text, found.end()) is None:
            found = None
    if found is not None:
        reader.channels.append(found.group().strip())
        at = found.end()
    recipient = _OPEN_RECIPIENT.match(text, at)
    if recipient is not None:
        reader.collect_recipients(Word(recipient.group().strip(), None, recipient.start(), True))
        at = recipient.end()
    else:
        empty = _OPEN_EMPTY_RECIPIENT.match(text, at)
        at = at if empty is None else empty.end()
    content_type = _OPEN_CONTENT_TYPE.match(text, at)
    if content_type is not None and (
        any(field.kind == "recipient" for field in reader.fields)
        or content_type["constrain"]
        or _DATA_FOLLOWS.match(text, content_type.end())
    ):
        reader.add("content type", content_type["type"], Word("", None, at, True))
        at = content_type.end()
    else:
        constrain = _OPEN_CONSTRAIN.match(text, at)
        at = at if constrain is None else constrain.end()
    # One space or line break separates the header from the text.
    if at and text[at : at + 1].isspace():
        at += 1
    reader.trust = Trust.GUESSED
    return reader.result(is_completion=is_completion, body_start=at if text[at:].strip() else None)
