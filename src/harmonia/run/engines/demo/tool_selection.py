"""Which tools to call now: those that the tool choice demands, or those that the user's words ask for.

    use get_weather for Paris                          a name, or words like it
    what is the weather in Paris?                      the nouns of a name such as get_weather
    use get_weather and get_time                       both in one go
    first use get_weather, then get_time               one after the other
    use python: 2 ** 10                                a tool without a schema takes text
    call a tool, use all tools                         some tool, every tool

A name may be spelled with other separators and without its first parts: "P-get_weather" and "get_weather" both mean
`P_get_weather`. A plain word such as `search` is taken for a name only where the text says so: "use search".

What was called since the user spoke is not called again unless a call is demanded. Then the last tool that was not
called yet is, because agent frameworks list the tool that delivers the answer last.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final

import msgspec

from harmonia.errors import EngineError, ErrorCode
from harmonia.messages import ToolNamespace
from harmonia.run.engines.base import Request
from harmonia.run.engines.demo.prompt import Prompt

_READ_CHARS: Final = 4000
_BUILT_IN: Final = ("python", "browser")
# What can be written into a header.
_SAFE_NAME: Final = re.compile(r"(?!to=)[^\s<>|\x00-\x1f\x7f]+")
_ASKED_FOR: Final = re.compile(
    r"\b(?:use|using|call|calling|run|running|invoke|try|with|tool|function)\s+(?:the\s+|a\s+)?(?:tool\s+|function\s+)?[`\"']?$",
    re.IGNORECASE,
)
_REFUSED: Final = re.compile(r"\b(?:don['’]t|do not|never|without|not)\s+(?:\w+\s+){0,4}[`\"']?$", re.IGNORECASE)
_SAID_TO_BE_ONE: Final = re.compile(r"[`\"']?\s*(?:\(|tool\b|function\b)", re.IGNORECASE)
_SOME_TOOL: Final = re.compile(
    r"\b(?:use|call|try|run|invoke)\b[^.!?\n]{0,40}?\b(?:tools?|functions?)\b", re.IGNORECASE
)
_EVERY: Final = re.compile(r"\b(?:all|every|each|both)\b", re.IGNORECASE)
_THEN: Final = re.compile(r"\b(?:then|afterwards|after that)\b", re.IGNORECASE)
_SEPARATOR: Final = r"[\s_.-]{1,3}"
_PART: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_WORDS_AROUND_NOUNS: Final = """
    get fetch list do make current set search find lookup look up read query show check run compute calculate
    the a of for by in to info information data
"""
_VERBS: Final = frozenset(_WORDS_AROUND_NOUNS.split())


class Offered(msgspec.Struct, frozen=True):
    """A tool that may be called. One without a schema takes text as it is."""

    recipient: str
    name: str
    schema: Any
    takes_text: bool = False
    is_built_in: bool = False


class Wanted(msgspec.Struct, frozen=True):
    """A call to make, and the words that its arguments are taken from."""

    tool: Offered
    words: str


def offered_tools(namespaces: tuple[ToolNamespace, ...]) -> list[Offered]:
    found: list[Offered] = []
    for namespace in namespaces:
        is_built_in = namespace.name in _BUILT_IN
        if not namespace.tools:
            found.append(Offered(namespace.name, namespace.name, None, takes_text=True, is_built_in=is_built_in))
        for tool in namespace.tools:
            schema = {"type": "object"} if tool.parameters is None else tool.parameters
            found.append(Offered(f"{namespace.name}.{tool.name}", tool.name, schema, is_built_in=is_built_in))
    return [tool for tool in found if _SAFE_NAME.fullmatch(tool.recipient)]


def choose_calls(prompt: Prompt, request: Request) -> list[Wanted]:
    """The calls to make now; EngineError where one is demanded that cannot be made."""
    choice, allowed = request.tool_choice, request.allowed
    tools = [tool for tool in offered_tools(request.tools) if allowed is None or tool.recipient in allowed]
    if choice == "none":
        return []
    if choice in ("auto", "required"):
        wanted = _pending(_stages(prompt.user, tools), prompt.calls)
        if wanted or choice == "auto":
            return wanted
        if not tools:
            raise _refuse("tool_choice is required, but no tool may be called")
        if not prompt.calls:
            return [Wanted(_likeliest(prompt.user, tools), prompt.words)]
        uncalled = [tool for tool in tools if tool.recipient not in prompt.calls]
        return [Wanted((uncalled or tools)[-1], prompt.words)]
    named = [tool for tool in tools if choice in (tool.recipient, tool.name)]
    if not named:
        raise _refuse(f"tool_choice is {choice!r}, but no tool of that name may be called")
    mentioned = [wanted for stage in _stages(prompt.user, named[:1]) for wanted in stage]
    return mentioned[:1] or [Wanted(named[0], prompt.words)]


def _refuse(message: str) -> EngineError:
    return EngineError(ErrorCode.ENGINE_REFUSED, message)


def _pending(stages: list[list[Wanted]], calls: dict[str, int]) -> list[Wanted]:
    """The first stage that is not done, without what was called already."""
    left = Counter(calls)
    for stage in stages:
        pending: list[Wanted] = []
        for wanted in stage:
            if left[wanted.tool.recipient] > 0:
                left[wanted.tool.recipient] -= 1
            else:
                pending.append(wanted)
        if pending:
            return pending
    return []


def _stages(text: str, tools: list[Offered]) -> list[list[Wanted]]:
    """What the text asks for, in the order in which it is to be done."""
    text = text[:_READ_CHARS]
    mentions = _mentions(text, tools)
    if not mentions:
        some = _SOME_TOOL.search(text)
        if some and tools and not _REFUSED.search(text[: some.start()]):
            chosen = tools if _EVERY.search(some[0]) else [_likeliest(text, tools)]
            return [[Wanted(tool, text) for tool in chosen]]
        about = [tool for tool in tools if _is_about(tool, text)]
        return [[Wanted(tool, text) for tool in about[:1]]]
    stages: list[list[Wanted]] = [[]]
    for at, (match, tool) in enumerate(mentions):
        ends = mentions[at + 1][0].start() if at + 1 < len(mentions) else len(text)
        before = mentions[at - 1][0].end() if at else 0
        words = text[match.end() : ends]
        if at == 0 and not re.search(r"\w{2}", words):
            words = text[: match.start()] + words
        if at and _THEN.search(text, before, match.start()):
            stages.append([])
        stages[-1].append(Wanted(tool, words))
    return stages


def _mentions(text: str, tools: list[Offered]) -> list[tuple[re.Match[str], Offered]]:
    by_spelling: dict[tuple[str, ...], Offered] = {}
    spelled_as = [(tool, _split(tool.recipient), _split(tool.name)) for tool in tools]
    for first in range(max((len(name) for _, _, name in spelled_as), default=0)):  # whole names before parts of them
        for tool, recipient, name in spelled_as:
            for spelling in (recipient, name) if first == 0 else (name[first:],):
                by_spelling.setdefault(spelling, tool)
    spellings = sorted(filter(None, by_spelling), key=lambda words: len("".join(words)), reverse=True)
    if not spellings:
        return []
    names = "|".join(_SEPARATOR.join(map(re.escape, words)) for words in spellings)
    found: list[tuple[re.Match[str], Offered]] = []
    for match in re.finditer(rf"(?<![\w.])(?:{names})(?!\w)", text, re.IGNORECASE):
        before = text[max(match.start() - 40, 0) : match.start()]
        tool = by_spelling.get(_split(match[0]))
        is_plain = match[0].replace(" ", "").isalpha()
        is_asked_for = _ASKED_FOR.search(before) or _SAID_TO_BE_ONE.match(text, match.end()) or before.endswith("`")
        if tool is not None and not _REFUSED.search(before) and (not is_plain or is_asked_for):
            found.append((match, tool))
    return found


def _split(name: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[^\W_]+", name.lower()))


def _nouns(tool: Offered) -> list[str]:
    """The nouns of a name that has a verb; what stands before the verb says where the tool comes from."""
    parts = [part.lower() for part in _PART.findall(tool.name)]
    verb = next((at for at, part in enumerate(parts) if part in _VERBS), len(parts))
    return [part for part in parts[verb:] if part not in _VERBS and not part.isdigit()]


def _is_about(tool: Offered, text: str) -> bool:
    """Whether the text has all nouns of a name with a verb: "weather" for get_weather."""
    nouns = _nouns(tool)
    return bool(nouns) and all(re.search(rf"\b{noun}s?\b", text, re.IGNORECASE) for noun in nouns)


def _likeliest(text: str, tools: list[Offered]) -> Offered:
    """The tool whose name has most words of the text; the first, where none has any."""
    words = set(re.findall(r"\w+", text.lower()))
    return max(tools, key=lambda tool: len(words & {part.lower() for part in _PART.findall(tool.name)}))
