"""Reads a header: author, channel, recipient, content type, and the faults in it.

    role[:name] [ to=recipient] [<|channel|>channel [ to=recipient]] [ [<|constrain|>]content type]

White space around every part is allowed. Words in excess are classified by their form: a word that begins with `to=` is
a recipient, a single word is a content type, a channel name restates the channel, and a dotted name is a tool. Each
rule is for one kind of damage, which has a code in parser/faults.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

from harmonia.errors import ErrorCode, InputError
from harmonia.events import Header
from harmonia.messages import Author, Role, ToolDescription, ToolNamespace, is_builtin, is_tool_address
from harmonia.parser.faults import FAULTS
from harmonia.provenance import Stop, Trust
from harmonia.vocabulary import CHANNEL, CONSTRAIN, SPELLING_BY_ID, find_spellings

DeclaredTool = str | ToolDescription | ToolNamespace

# declared  by the caller
# builtin   python and browser.*, which the models call even if they were not declared
# unknown   neither
ToolKind = Literal["declared", "builtin", "unknown"]

_FUNCTIONS: Final = "functions"
_DOTTED_NAME: Final = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)+")


class Tools:
    """The declared tools. A name without a namespace is in `functions`, which models sometimes omit."""

    def __init__(self, declared: Iterable[DeclaredTool] | None = None) -> None:
        self.is_known = declared is not None
        if isinstance(declared, str | Mapping):
            raise InputError(ErrorCode.PARSE_INVALID_OPTION, "tools must be a list of names or descriptions")
        self.names = frozenset(name for tool in declared or () for name in _names_of(tool))
        # A cache of headers without faults; see parser/headers.py.
        self.remembered_headers: dict[Any, Any] = {}

    def declares(self, name: str) -> bool:
        """Whether a tool of this name was declared, with or without its namespace."""
        return name in self.names or f"{_FUNCTIONS}.{name}" in self.names

    def kind_of(self, name: str) -> ToolKind:
        if self.declares(name):
            return "declared"
        return "builtin" if is_builtin(name) else "unknown"

    def looks_like_one(self, word: str) -> bool:
        """Whether a word without `to=` can only be a tool name."""
        return self.declares(word) or is_builtin(word) or _DOTTED_NAME.fullmatch(word) is not None


UNDECLARED: Final = Tools()


def as_tools(tools: Tools | Iterable[DeclaredTool] | None) -> Tools:
    """Whatever a caller may pass as tools, as `Tools`."""
    return UNDECLARED if tools is None else tools if isinstance(tools, Tools) else Tools(tools)


def _names_of(tool: DeclaredTool) -> list[str]:
    match tool:
        case ToolNamespace():
            # A namespace without tools, such as `python`, is itself the tool.
            return [f"{tool.name}.{each.name}" for each in tool.tools] or [tool.name]
        case ToolDescription():
            return [f"{_FUNCTIONS}.{tool.name}"]
        case str():
            return [tool if "." in tool else f"{_FUNCTIONS}.{tool}"]
        case _:
            problem = f"tools contains {tool!r}; it must contain names, ToolDescriptions or ToolNamespaces"
            raise InputError(ErrorCode.PARSE_INVALID_OPTION, problem)


# Text, or a special token in the header.
Item = str | int

CHANNELS: Final = ("analysis", "commentary", "final")
# The content types that models write. Others are accepted where their position shows what they are.
CONTENT_TYPES: Final = ("json", "code", "text", "python", "markdown", "xml", "yaml", "html")

ASSISTANT: Final = Author(Role.ASSISTANT)
_CONSTRAIN_SPELLING: Final = SPELLING_BY_ID[CONSTRAIN]
MOST_REMEMBERED: Final = 4096
LONGEST_REMEMBERED: Final = 64  # tokens

# Punctuation that is not part of a tool name, but gets glued to one.
_SIGN_IN_NAME: Final = re.compile(r"[!\"'(),;=?\[\]{}]|^[.:/@+-]|[.:/@+-]$")
_PLAIN_TYPE: Final = re.compile(r"[A-Za-z][\w.+-]*(?:/[\w.+-]+)?")
_ONE_WORD: Final = re.compile(r"\S+")
_EVERYBODY: Final = (None, "all")
_ROLES: Final = frozenset(role.value for role in Role)
ROLE_PATTERN: Final = "assistant|developer|system|user|tool"
_ROLE_AND_MORE: Final = re.compile(
    rf"(?P<role>{ROLE_PATTERN})(?P<repeated>(?P=role))*(?P<more>.*)", re.IGNORECASE | re.DOTALL
)
# A role or a recipient at the end of prose, or both: a header without its <|start|>. Only the assistant writes on a
# channel; tool names without a recipient look too much like prose.
_LONGEST_AUTHOR: Final = 200
_ADDRESS_AT_END: Final = r"(?<!\S)(?:[A-Za-z_][\w-]*(?:\.[\w-]+)+\s+)?to=\S+\s*$"
_HEADER_AT_END: Final = re.compile(rf"(?:{ROLE_PATTERN})(?::\S+)?(?:\s+to=\S+)?\s*$|{_ADDRESS_AT_END}")
_HEADER_BEFORE_CHANNEL: Final = re.compile(rf"assistant(?::\S+)?(?:\s+to=\S+)?\s*$|{_ADDRESS_AT_END}")
_CHANNEL_AND_MORE: Final = re.compile(rf"(?P<channel>{'|'.join(CHANNELS)})(?P<more>.*)", re.IGNORECASE | re.DOTALL)
_MORE_AND_CHANNEL: Final = re.compile(rf".*?(?P<channel>{'|'.join(CHANNELS)})(?P<more>)", re.IGNORECASE | re.DOTALL)


class FoundFault(NamedTuple):
    """A fault and its range in the header's text."""

    code: ErrorCode
    start: int
    end: int


class Reading(NamedTuple):
    """A header as it was read. `body_start` is where the text begins in a header without `<|message|>`."""

    header: Header
    faults: tuple[FoundFault, ...]
    author_end: int
    body_start: int | None = None

    @property
    def says_more_than_a_role(self) -> bool:
        header = self.header
        return header.channel is not None or header.recipient is not None or header.content_type is not None


class Word(NamedTuple):
    """A word of the header, or a special token in it (then `text` is its spelling)."""

    text: str
    special: int | None
    start: int
    is_glued: bool  # no white space before it

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def read_header(items: Sequence[Item], given: Author | None, tools: Tools, *, is_completion: bool) -> Reading:
    """A header that ends with `<|message|>`. `given` is the author if the prompt already named it."""
    key = (*items, given, is_completion)
    known: Reading | None = tools.remembered_headers.get(key)
    if known is not None:
        return known
    reader = HeaderReader(tools, given)
    reader.read_sections(split_into_words(items))
    reading = reader.result(is_completion=is_completion)
    if not reading.faults:
        remember(tools, key, reading)
    return reading


def remember(tools: Tools, key: tuple[Any, ...], value: Any) -> None:
    """Cache the reading of a header; the number and the length of cached headers are limited."""
    if len(key) > LONGEST_REMEMBERED:
        return
    if len(tools.remembered_headers) >= MOST_REMEMBERED:
        tools.remembered_headers.clear()
    tools.remembered_headers[key] = value


_JSON_TYPE: Final = re.compile(r"(?:<\|constrain\|>\s*)?(?:application/)?json", re.IGNORECASE)


def is_json_type(content_type: str | None) -> bool:
    """Whether a content type means JSON."""
    return content_type is not None and _JSON_TYPE.fullmatch(content_type) is not None


def is_content_type(value: str) -> bool:
    """Whether this is one of the content types that models write."""
    return value.removeprefix(_CONSTRAIN_SPELLING).strip().lower() in CONTENT_TYPES


def find_header(text: str, tools: Tools, *, is_channel_next: bool) -> int:
    """Where the header begins in the text before its first special token; anything before that is prose.

    The whole text is a header if it begins with a recipient, perhaps after a role, or if every word can be part of one.
    Otherwise only a role or a recipient at its end is.
    """
    words = text.split()
    lead = words[1:2] if words and words[0] in _ROLES else words[:1]
    if not words or any(word.startswith("to=") for word in lead) or all(is_header_word(word, tools) for word in words):
        return 0
    at_end = _HEADER_BEFORE_CHANNEL if is_channel_next else _HEADER_AT_END
    found = at_end.search(text, max(len(text) - _LONGEST_AUTHOR, 0))
    return len(text) if found is None else found.start()


def is_header_word(word: str, tools: Tools) -> bool:
    """Whether a word can be part of a header."""
    bare = word.strip(_signs_in(word)).lower()
    if bare in _ROLES or bare in CHANNELS or "to=" in word.lower() or word[0] == ":" != word:
        return True
    glued = _ROLE_AND_MORE.fullmatch(word)
    if glued is not None and (glued["more"][:1] == ":" or glued["more"].lower() in ("", *CHANNELS)):
        return True
    return is_content_type(word) or tools.looks_like_one(word)


def _signs_in(word: str) -> str:
    return "".join(sign for sign in word if not sign.isalnum())


def spell(items: Sequence[Item]) -> str:
    """The text of a header, special tokens spelled out."""
    return "".join(item if isinstance(item, str) else SPELLING_BY_ID[item] for item in items)


def split_into_words(items: Sequence[Item]) -> list[Word]:
    words: list[Word] = []
    offset = 0
    has_gap = False  # white space after the last word
    for item in items:
        if isinstance(item, int):
            item_text = SPELLING_BY_ID[item]
            words.append(Word(item_text, item, offset, not has_gap))
        else:
            item_text = item
            for match in _ONE_WORD.finditer(item):
                is_glued = match.start() == 0 and not has_gap
                words.append(Word(match.group(), None, offset + match.start(), is_glued))
        if item_text:
            has_gap = item_text[-1].isspace()
        offset += len(item_text)
    return words


_FieldKind = Literal["recipient", "content type", "word"]


class _Field(NamedTuple):
    kind: _FieldKind
    value: str
    word: Word
    section: int = 0


class HeaderReader:
    """Reads one header, and holds what the rules have found so far."""

    def __init__(self, tools: Tools, given: Author | None) -> None:
        self.tools = tools
        self.author = given
        self.is_given = given is not None
        self.author_end = 0
        self.unknown_author: Word | None = None
        self.channels: list[str] = []
        self.fields: list[_Field] = []
        self.section = 0
        self.is_last_channel_empty = False
        self.is_channel_restated = False  # by a word without <|channel|>, which makes it uncertain
        self.faults: list[FoundFault] = []
        self.trust = Trust.CERTAIN
        self.role_section: tuple[int, Trust] = (0, Trust.CERTAIN)  # the number of its faults, and its trust

    # ── headers that end with <|message|> ───────────────────────────────────────────────────────────────────────

    def read_sections(self, words: list[Word]) -> None:
        """The role's section, then one for every `<|channel|>`."""
        starts = [at for at, word in enumerate(words) if word.special == CHANNEL]
        bounds = [*starts, len(words)]
        self._read_role_section(words[: bounds[0]])
        for start, end in pairwise(bounds):
            self.start_channel_section(words[start])
            self._read_channel_section(words[start], words[start + 1 : end])

    def start_channel_section(self, token: Word) -> None:
        """`<|channel|>` begins a section; an earlier channel section is abandoned."""
        if self.section:
            self._blame(ErrorCode.HEADER_REPEATED_CHANNEL, token)
            # Its recipient is kept only if it can be a tool.
            self.fields = [field for field in self.fields if field.kind != "recipient" or is_tool_address(field.value)]
        else:
            self.role_section = (len(self.faults), self.trust)
        self.section += 1
        self.is_last_channel_empty = False

    def _discard_earlier_sections(self) -> None:
        """Drop the channels before `final`: the header of an answer is complete without them."""
        count, trust = self.role_section
        discarded = [fault for fault in self.faults[count:] if fault.code is ErrorCode.HEADER_REPEATED_CHANNEL]
        self.faults = [*self.faults[:count], *discarded]
        self.trust = min(trust, Trust.REPAIRED)
        self.fields = [field for field in self.fields if field.section == 0]
        self.channels = []

    def result(self, *, is_completion: bool, body_start: int | None = None) -> Reading:
        recipient, content_type = self._read_fields()
        channel = self.channels[-1] if self.channels else None
        if self.is_channel_restated or (self.channels and self.is_last_channel_empty):
            self.trust = Trust.GUESSED
        author = self._decide_author(channel, recipient)
        if author.role is Role.TOOL and author.name is None and is_tool_address(recipient):
            # One of the format's samples writes a result as `tool to=get_weather`.
            author, recipient = Author(Role.TOOL, recipient), None
        if content_type is not None and lacks_recipient(author, channel, recipient, content_type):
            word = next(field.word for field in reversed(self.fields) if field.value == content_type)
            self._blame(ErrorCode.HEADER_MISSING_RECIPIENT, word)
        is_forged = is_completion and not self.is_given and author.role is not Role.ASSISTANT
        if is_forged:
            self.blame_at(ErrorCode.HEADER_FORGED_ROLE, 0, self.author_end)
        is_call = author.role is Role.ASSISTANT and is_tool_address(recipient)
        header = Header(
            author,
            channel,
            recipient,
            content_type,
            self.trust,
            is_forged,
            is_call,
            is_visible(author, channel, recipient, content_type, self.trust),
        )
        return Reading(header, tuple(self.faults), self.author_end, body_start)

    # ── the author ──────────────────────────────────────────────────────────────────────────────────────────────

    def _read_role_section(self, words: list[Word]) -> None:
        if self.author is None:
            first = next((word for word in words if word.special is None), None)
            if first is None or first.text.startswith("to="):
                self.author = ASSISTANT
                self.blame_at(ErrorCode.HEADER_EMPTY_ROLE, 0, 0)
            else:
                words = [word for word in words if word is not first]
                rest = self.read_author(first)
                if rest is not None:
                    words.insert(0, rest)
        elif words and words[0].special is None and words[0].start == 0 and words[0].text[:1] == ":" != words[0].text:
            self.author = Author(self.author.role, words[0].text[1:])
            self.author_end = words[0].end
            words = words[1:]
        self._collect_fields(words)

    def read_author(self, word: Word) -> Word | None:
        """Read the author from the first word; returns what is glued to it."""
        text = word.text
        self.author_end = word.end
        role, colon, name = text.partition(":")
        if role in _ROLES and (name or not colon):
            self.author = Author(Role(role), name or None)
            return None
        if self.tools.looks_like_one(text):
            self.author = Author(Role.TOOL, text)
            return None
        if text.lower() in CHANNELS:
            self.author = ASSISTANT
            self.author_end = word.start
            self.channels.append(text)
            self._blame(ErrorCode.HEADER_CHANNEL_AS_ROLE, word)
            return None
        match = _ROLE_AND_MORE.fullmatch(text)
        if match is None:
            self.unknown_author = word
            return None
        self.author = Author(Role(match["role"].lower()))
        self.author_end = word.start + match.start("more")
        if match["repeated"]:
            self._blame(ErrorCode.HEADER_REPEATED_ROLE, word)
        more = match["more"]
        if more.lower() in CHANNELS:
            self.channels.append(more)
            self._blame(ErrorCode.HEADER_MISSING_CHANNEL, word)
            return None
        if more or not match["repeated"]:
            self._blame(ErrorCode.HEADER_UNKNOWN_ROLE, word)
        return Word(more, None, self.author_end, True) if more.startswith("to=") else None

    def _decide_author(self, channel: str | None, recipient: str | None) -> Author:
        if self.author is not None:
            return self.author
        word = self.unknown_author
        assert word is not None
        # The reference reads an unknown role as a tool if the message has a recipient.
        if recipient is not None:
            return Author(Role.TOOL, word.text)
        self._blame(ErrorCode.HEADER_UNKNOWN_ROLE, word)
        is_result = channel is not None and channel.lower() == "commentary"
        return Author(Role.TOOL, word.text) if is_result else ASSISTANT

    # ── channels ────────────────────────────────────────────────────────────────────────────────────────────────

    def _read_channel_section(self, token: Word, words: list[Word]) -> None:
        name = words[0] if words else None
        if name is None or name.special is not None or name.text.startswith("to="):
            self.is_last_channel_empty = True
            self._blame(ErrorCode.HEADER_EMPTY_CHANNEL, token)
        else:
            words = words[1:]
            rest = self._read_channel(name)
            if rest is not None:
                words.insert(0, rest)
        self._collect_fields(words)

    def _read_channel(self, word: Word) -> Word | None:
        if word.text.lower() in CHANNELS:
            if self.channels and word.text.lower() == "final":
                self._discard_earlier_sections()
            self.channels.append(word.text)
            self.is_channel_restated = False  # whatever was, belongs to what was given up
            return None
        is_addressed = any(field.kind == "recipient" and is_tool_address(field.value) for field in self.fields)
        if self.tools.looks_like_one(word.text) and not is_addressed:
            self.add("recipient", word.text, word)
            self._blame(ErrorCode.HEADER_BARE_RECIPIENT, word)
            return None
        match = _CHANNEL_AND_MORE.fullmatch(word.text) or _MORE_AND_CHANNEL.fullmatch(word.text)
        if match is None:
            self.channels.append(word.text)
            self._blame(ErrorCode.HEADER_UNKNOWN_CHANNEL, word)
            return None
        self.channels.append(match["channel"])
        self._blame(ErrorCode.HEADER_GLUED_CHANNEL, word)
        more = match["more"]
        if more.startswith("to=") or more in CONTENT_TYPES:
            return Word(more, None, word.start + match.start("more"), True)
        return None

    # ── recipients and content types ────────────────────────────────────────────────────────────────────────────

    def _collect_fields(self, words: list[Word]) -> None:
        at = 0
        while at < len(words):
            word = words[at]
            following = words[at + 1] if at + 1 < len(words) else None
            at += 1
            if word.special == CONSTRAIN:
                if following is None or following.special is not None or following.text.startswith("to="):
                    self._blame(ErrorCode.HEADER_EMPTY_CONTENT_TYPE, word)
                    continue
                at += 1
                if following.text.lower() in CHANNELS:  # sampled instead of <|channel|>
                    self._collect_word(following)
                    continue
                gap = "" if following.is_glued else " "
                self.add("content type", f"{_CONSTRAIN_SPELLING}{gap}{following.text}", word)
            elif word.special is not None:
                self._blame(ErrorCode.HEADER_RESERVED_TOKEN, word)
            elif find_spellings(word.text):  # ordinary tokens that spell a special one
                self._blame(ErrorCode.HEADER_UNEXPECTED_TEXT, word)
            elif word.text == "to=":
                self._blame(ErrorCode.HEADER_EMPTY_RECIPIENT, word)
                if following is not None and following.special is None and self.tools.looks_like_one(following.text):
                    self.add("recipient", following.text, following)
                    at += 1
            elif word.text.startswith("to="):
                self.collect_recipients(word)
            else:
                self._collect_word(word)

    def add(self, kind: _FieldKind, value: str, word: Word) -> None:
        self.fields.append(_Field(kind, value, word, self.section))

    def collect_recipients(self, word: Word) -> None:
        for value in word.text.split("to=")[1:]:
            if not value:
                self._blame(ErrorCode.HEADER_EMPTY_RECIPIENT, word)
                continue
            recipient, restated = (value, None) if self.tools.declares(value) else self._unglue(value)
            if restated is not None or _SIGN_IN_NAME.search(value):
                self._blame(ErrorCode.HEADER_GLUED_RECIPIENT, word)
            if restated in CHANNELS:
                self.channels.append(restated)
            elif restated is not None:
                self.add("content type", restated, word)
            if recipient:
                self.add("recipient", recipient, word)

    def _unglue(self, value: str) -> tuple[str, str | None]:
        """A recipient glued to a content type or a channel, separated where it is clear how."""
        for ending in (*CONTENT_TYPES, *CHANNELS):
            rest = value.removesuffix(ending)
            if rest == value:
                continue
            if self.tools.declares(rest):
                return rest, ending
            if rest == "assistant" and ending in CHANNELS:
                return "", ending
        return value, None

    def _collect_word(self, word: Word) -> None:
        # A channel named again, perhaps between punctuation, as in "analysis ––commentary to=…".
        restated = word.text.strip(_signs_in(word.text))
        if restated.lower() in CHANNELS:
            self.channels.append(restated)
            self._blame(ErrorCode.HEADER_REPEATED_CHANNEL, word)
            self.is_channel_restated = True
        elif self.author is not None and word.text.lower() == self.author.role:
            self._blame(ErrorCode.HEADER_REPEATED_ROLE, word)
        elif word.text[:3].lower() == "to=":
            self._blame(ErrorCode.HEADER_BARE_RECIPIENT, word)
            self.add("recipient", word.text[3:], word)
        elif word.text.lower() in _ROLES:
            self._blame(ErrorCode.HEADER_UNEXPECTED_TEXT, word)
        else:
            self.add("word", word.text, word)

    def _read_fields(self) -> tuple[str | None, str | None]:
        """The recipient and the content type, from the fields in the order they were found."""
        # If several channel sections have a content type, the last one counts.
        last = max((field.section for field in self.fields if field.kind != "recipient"), default=0)
        self.fields = [field for field in self.fields if field.kind == "recipient" or field.section in (0, last)]
        recipients = [field for field in self.fields if field.kind == "recipient"]
        if len(recipients) > 1:
            self._blame(ErrorCode.HEADER_REPEATED_RECIPIENT, recipients[-1].word)
        types = [field for field in self.fields if field.kind == "content type"]
        if len(types) > 1:
            self._blame(ErrorCode.HEADER_REPEATED_CONTENT_TYPE, types[-1].word)
        recipient = next((field for field in reversed(recipients) if is_tool_address(field.value)), None)
        recipient = recipient or (recipients[-1] if recipients else None)
        content_type = types[-1] if types else None
        words = self._words_that_count()
        if not words:
            return recipient and recipient.value, content_type and content_type.value
        if recipient is None:
            return self._read_words_alone(words, content_type)
        return self._read_words_beside(words, recipient, content_type)

    def _words_that_count(self) -> list[_Field]:
        """The single words, without punctuation and words before the channel, which can be nothing."""
        words = [field for field in self.fields if field.kind == "word"]

        def counts(field: _Field) -> bool:
            if is_content_type(field.value) or self.tools.looks_like_one(field.value):
                return True
            return (field.section > 0 or not self.section) and field.value[0].isalnum()

        stray = next((field for field in words if not counts(field)), None)
        if stray is not None:
            self._blame(ErrorCode.HEADER_UNEXPECTED_TEXT, stray.word)
        return [field for field in words if counts(field)]

    def _read_words_beside(
        self, words: list[_Field], recipient: _Field, content_type: _Field | None
    ) -> tuple[str, str | None]:
        """Words next to `to=…`: a single one after it is the content type; several are a name with spaces if a content
        type ends it. All other words are in excess."""
        place = recipient.word.start
        after = [field for field in words if field.word.start > place]
        excess = [field for field in words if field.word.start <= place]
        known = [field for field in words if is_content_type(field.value)]
        if content_type is None and len(after) == 1:
            content_type = after[0]
        elif known and (content_type is None or not is_content_type(content_type.value)):
            content_type = known[-1]
        elif after and content_type is not None and after[0].word.start > content_type.word.start:
            after, excess = [], words
        rest = [field for field in known if field is not content_type]
        if rest:
            self._blame(ErrorCode.HEADER_REPEATED_CONTENT_TYPE, rest[0].word)
        after, excess = (
            [field for field in some if field is not content_type and not is_content_type(field.value)]
            for some in (after, excess)
        )
        value = recipient.value
        if len(after) == 1 and content_type is not None and not is_tool_address(value):
            self._blame(ErrorCode.HEADER_BARE_RECIPIENT, after[0].word)
            value = after[0].value
        elif after and content_type is not None:
            self._blame(ErrorCode.HEADER_SPACED_RECIPIENT, recipient.word)
            value = " ".join([value, *(field.value for field in after)])
        elif after:
            excess = after
        if excess:
            self._blame(ErrorCode.HEADER_UNEXPECTED_TEXT, excess[0].word)
        return value, content_type and content_type.value

    def _read_words_alone(self, words: list[_Field], content_type: _Field | None) -> tuple[str | None, str | None]:
        """Words without `to=…`: a content type, or a tool name without `to=`."""
        named = words[0] if self.tools.looks_like_one(words[0].value) else None
        others = [field for field in words if field is not named]
        is_plausible = len(others) == 1 and _PLAIN_TYPE.fullmatch(others[0].value) is not None
        if content_type is None and is_plausible and (named is not None or len(words) == 1):
            content_type = others.pop()
        elif (
            content_type is None
            and len(others) == 2
            and others[1].value in CONTENT_TYPES
            and not is_content_type(others[0].value)
        ):
            named, content_type = others
            others = []
        if named is not None:
            self._blame(ErrorCode.HEADER_BARE_RECIPIENT, named.word)
        if others:
            self._blame(ErrorCode.HEADER_UNEXPECTED_TEXT, others[0].word)
        return named and named.value, content_type and content_type.value

    # ── faults ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _blame(self, code: ErrorCode, word: Word) -> None:
        self.blame_at(code, word.start, word.end)

    def blame_at(self, code: ErrorCode, start: int, end: int) -> None:
        self.faults.append(FoundFault(code, start, end))
        self.trust = min(self.trust, FAULTS[code].trust)


def is_visible(
    author: Author,
    channel: str | None,
    recipient: str | None,
    content_type: str | None,
    trust: Trust,
    stop: Stop | None = None,
) -> bool:
    """Whether a user may see the text of a message: only if it is known to be for the user."""
    if author.role is not Role.ASSISTANT or channel is None or trust is Trust.GUESSED:
        return False
    name = channel.lower()
    if name == "final":
        return not is_tool_address(recipient)
    return name == "commentary" and recipient in _EVERYBODY and content_type is None and stop != "call"


def lacks_recipient(
    author: Author, channel: str | None, recipient: str | None, content_type: str | None, stop: Stop | None = None
) -> bool:
    """Whether this is a call without a recipient: a preamble has no content type and does not end as a call."""
    is_commentary = channel is not None and channel.lower() == "commentary"
    is_call = content_type is not None or stop == "call"
    return is_call and is_commentary and recipient in _EVERYBODY and author.role is Role.ASSISTANT
