"""What the demo engine calls, and the values it makes for a JSON Schema.

A tool is called where the tool choice demands it, or the user's words ask for it:

    use get_weather for Paris                          a name, or words like it
    what is the weather in Paris?                      the nouns of a name such as get_weather
    use get_weather and get_time                       both at once
    first use get_weather, then get_time               one after the other
    use python: 2 ** 10                                a tool without a schema takes text
    call a tool, use all tools                         some tool, every tool

A name may be spelled with other separators and without its first parts: "P-get_weather" and "get_weather" both mean
`P_get_weather`. A plain word such as `search` counts as a name only where the text says so: "use search". A tool that
was called since the user spoke is called again only where a call is demanded. Then it is the last tool that was not
called yet, because agent frameworks list the tool that delivers the answer last.

The values of a schema come from the words, then from its constants, defaults and examples, then from its types and
limits:

    unit=kelvin, unit: kelvin       the property `unit`
    "New York", `x + 1`             a text, before all others
    New York, in tokyo              a text
    12, -3.5                        a number
    a@example.com, https://…        a text of that format

Optional properties are left out unless the words offer something for them. A few attempts are made, each with other
variants, and the first value that validates is taken.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

from harmonia.errors import EngineError, ErrorCode, HarmonyError
from harmonia.grammar import CallableTool
from harmonia.grammar.regex_rules import UnreadableRegexError, is_found, regex_alternatives
from harmonia.grammar.rules import Chars, Choice, Literal, Node, Repeat, Sequence
from harmonia.run.engines.base import Request
from harmonia.run.tools.arguments import compile_schema

_READ_CHARS: Final = 4000

# ── which tools ─────────────────────────────────────────────────────────────────────────────────────────────────────

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
_PART: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_WORDS_AROUND_NOUNS: Final = """
    get fetch list do make current set search find lookup look up read query show check run compute calculate
    the a of for by in to info information data
"""
_VERBS: Final = frozenset(_WORDS_AROUND_NOUNS.split())


class Offered(NamedTuple):
    """A tool that may be called. One without a schema takes text as it is."""

    recipient: str
    name: str
    schema: Any


class Wanted(NamedTuple):
    """A call to make, and the words from which its arguments are made."""

    tool: Offered
    words: str


def offered_tools(tools: Iterable[CallableTool]) -> list[Offered]:
    found: list[Offered] = []
    for tool in filter(lambda tool: _SAFE_NAME.fullmatch(tool.name), tools):
        schema = {"type": "object"} if tool.parameters is None and tool.takes == "json" else tool.parameters
        found.append(Offered(tool.name, tool.name.rpartition(".")[2], schema))
    return found


def choose_calls(user: str, words: str, called: Mapping[str, int], request: Request) -> list[Wanted]:
    """The calls to make now. `called` counts those since the user spoke; `words` are the user's and the tools'."""
    choice, allowed = request.tool_choice, request.allowed
    if choice == "none":
        return []
    tools = [tool for tool in offered_tools(request.tools) if allowed is None or tool.recipient in allowed]
    if choice not in ("auto", "required"):
        tools = [tool for tool in tools if choice in (tool.recipient, tool.name)][:1]
        wanted = [wanted for stage in _stages(user, tools) for wanted in stage][:1]
    else:
        wanted = _pending(_stages(user, tools), called)
    if wanted or choice == "auto":
        return wanted
    if not tools:
        why = "a call is required, but there are no tools" if choice == "required" else f"there is no tool {choice!r}"
        raise EngineError(ErrorCode.ENGINE_REFUSED, why)
    if not called:
        return [Wanted(_likeliest(user, tools), words)]
    uncalled = [tool for tool in tools if tool.recipient not in called]
    return [Wanted((uncalled or tools)[-1], words)]


def _pending(stages: list[list[Wanted]], called: Mapping[str, int]) -> list[Wanted]:
    """The first stage that is not done, without what was called already."""
    left = Counter(called)
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
        chosen = [tool for tool in tools if _is_about(tool, text)][:1]
        some = _SOME_TOOL.search(text)
        if some and tools and not _REFUSED.search(text[: some.start()]):
            chosen = tools if _EVERY.search(some[0]) else [_likeliest(text, tools)]
        return [[Wanted(tool, text) for tool in chosen]]
    stages: list[list[Wanted]] = [[]]
    for at, (match, tool) in enumerate(mentions):
        ends = mentions[at + 1][0].start() if at + 1 < len(mentions) else len(text)
        words = text[match.end() : ends]
        if at == 0 and not re.search(r"\w{2}", words):
            words = text[: match.start()] + words
        if at and _THEN.search(text, mentions[at - 1][0].end(), match.start()):
            stages.append([])
        stages[-1].append(Wanted(tool, words))
    return stages


def _mentions(text: str, tools: list[Offered]) -> list[tuple[re.Match[str], Offered]]:
    """Where the text names a tool, whole names before parts of them."""
    by_spelling: dict[tuple[str, ...], Offered] = {}
    for first in range(max((len(_split(tool.name)) for tool in tools), default=0)):
        for tool in tools:
            for spelling in (_split(tool.recipient),) * (first == 0) + (_split(tool.name)[first:],):
                by_spelling.setdefault(spelling, tool)
    spellings = sorted(filter(None, by_spelling), key=lambda words: len("".join(words)), reverse=True)
    if not spellings:
        return []
    names = "|".join(r"[\s_.-]{1,3}".join(map(re.escape, words)) for words in spellings)
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


def _is_about(tool: Offered, text: str) -> bool:
    """Whether the text has all nouns of a name after its verb: "weather" for get_weather."""
    parts = [part.lower() for part in _PART.findall(tool.name)]
    verb = next((at for at, part in enumerate(parts) if part in _VERBS), len(parts))
    nouns = [part for part in parts[verb:] if part not in _VERBS and not part.isdigit()]
    return bool(nouns) and all(re.search(rf"\b{noun}s?\b", text, re.IGNORECASE) for noun in nouns)


def _likeliest(text: str, tools: list[Offered]) -> Offered:
    """The tool whose name has most words of the text; the first, where none has any."""
    words = set(re.findall(r"\w+", text.lower()))
    return max(tools, key=lambda tool: len(words & {part.lower() for part in _PART.findall(tool.name)}))


# ── what the words offer ────────────────────────────────────────────────────────────────────────────────────────────

_QUOTED: Final = re.compile(r'"([^"\n]{1,500})"|“([^“”\n]{1,500})”|`([^`\n]{1,500})`|(?<!\w)\'([^\'\n]{1,500})\'(?!\w)')
_NAMED: Final = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\s{0,3}(?:=|:)\s{0,3}(?:\"([^\"\n]*)\"|'([^'\n]*)'|([^\s,;)]+))")
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d{1,15}(?:\.\d{1,15})?(?![\w])")
# Words with a capital that stand together, and a word after a preposition.
_CAPITALISED: Final = re.compile(r"(?<![\w'’-])[A-ZÀ-ÖØ-Þ][\w'’-]*(?: {1,9}[A-ZÀ-ÖØ-Þ][\w'’-]*)*")
_AFTER_PREPOSITION: Final = re.compile(r"\b(?:in|for|at|of|about|from|with|on)\s+([^\W\d_][\w'’-]*)", re.IGNORECASE)
# Words that are written with a capital, or follow a preposition, and name nothing.
_WORDS_THAT_NAME_NOTHING: Final = """
    a an the this that these those it me my you your i we us our please use call run try invoke tell show give find get
    what how why when where who which is are was can could would should do does and or then first now today tomorrow
    not all both each every some any tool tools function functions hello hi hey ok okay yes no let lets
"""
_EMPTY_WORDS: Final = frozenset(_WORDS_THAT_NAME_NOTHING.split())
_FORMATS_IN_WORDS: Final = {
    "email": re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"),
    "uri": re.compile(r"https?://[^\s<>\"')\]]{1,500}"),
    "date": re.compile(r"(?<![\w-])\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d)(?![\w-])"),
}


class _Hints:
    """What a text offers. Each text or number serves once, so that the next property gets the next one."""

    def __init__(self, text: str, tool_names: frozenset[str]) -> None:
        self.text = text.strip()
        read = self.text[:_READ_CHARS]
        self.named = {match[1].lower(): match[match.lastindex or 0].rstrip(".!?") for match in _NAMED.finditer(read)}
        self.numbers = [float(each) if "." in each else int(each) for each in _NUMBER.findall(read)]
        self.formats = {name: pattern.findall(read) for name, pattern in _FORMATS_IN_WORDS.items()}
        quoted = [match[match.lastindex or 0] for match in _QUOTED.finditer(read)]
        after = [word.rstrip(".!?") for word in _AFTER_PREPOSITION.findall(read) if word.lower() not in _EMPTY_WORDS]
        no_texts = tool_names.union(self.named.values())
        self.texts = [
            each for each in dict.fromkeys([*quoted, *_names(read, " ".join(quoted)), *after]) if each not in no_texts
        ]

    def mentions(self, value: Any) -> bool:
        """Whether the text has this value as a word: how a variant of an enum is chosen."""
        if not isinstance(value, str) or len(value) < 2:
            return False
        return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", self.text[:_READ_CHARS], re.IGNORECASE) is not None


def _names(text: str, quoted: str) -> list[str]:
    """Capitalised names. A single word that begins a sentence comes last, as it may not be a name."""
    found: list[str] = []
    doubtful: list[str] = []
    for match in _CAPITALISED.finditer(text):
        words = match[0].split()
        count = len(words)
        while words and words[0].lower() in _EMPTY_WORDS:
            words.pop(0)
        name = " ".join(words).rstrip(".!?")
        before = text[max(match.start() - 3, 0) : match.start()].rstrip()
        if name and name not in quoted:
            is_doubtful = count == 1 and (not before or before[-1] in ".!?\n:")
            (doubtful if is_doubtful else found).append(name)
    return [*found, *doubtful]


# ── a value for a schema ────────────────────────────────────────────────────────────────────────────────────────────

_ATTEMPTS: Final = 8
_STEPS: Final = 2000
_DEEPEST: Final = 24
_DEEP: Final = 4  # from here on, the variant that ends a recursion is preferred
_LONGEST_TEXT: Final = 20_000
_MOST_ITEMS: Final = 200
# A property of one of these names is about everything that the user wrote.
_WHOLE_TEXT_NAMES: Final = frozenset(
    ("query", "q", "prompt", "text", "message", "input", "question", "content", "body", "description", "pattern")
)
# What a schema without a type is about, by the keywords that it has.
_TYPES_BY_KEYWORD: Final = {
    **dict.fromkeys(("pattern", "minLength", "maxLength", "format"), "string"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"),
    **dict.fromkeys(("items", "prefixItems", "minItems", "contains"), "array"),
}
_ANY_TYPE: Final = ("object", "string", "integer", "array")  # tried in turn
_PLAIN_TYPES: Final[dict[str, type]] = {"string": str, "integer": int, "number": float, "boolean": bool}
_BOUNDS: Final = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}
# One text of each format, from the names that are reserved for examples.
FORMATS: Final = {
    "date-time": "2025-01-31T12:00:00Z",
    "date": "2025-01-31",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "demo@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


class Instance(NamedTuple):
    """A value, and whether it fits the schema that it was made for."""

    value: Any
    fits: bool


def make_instance(schema: Any, words: str, tool_names: frozenset[str] = frozenset()) -> Instance:
    """A value for a JSON Schema; an object where the schema is empty."""
    schema = {"type": "object"} if schema is True or schema == {} else schema
    first: Any = None
    for attempt in range(_ATTEMPTS):
        # Every second attempt ignores the user's words, which may be what does not fit.
        maker = _Maker(schema, _Hints(words if attempt % 2 == 0 else "", tool_names), attempt // 2)
        value = maker.make(schema)
        if attempt == 0:
            first = value
        if not maker.missed and _fits(value, schema):
            return Instance(value, True)
    return Instance(first, False)


def _fits(value: Any, schema: Any) -> bool:
    try:
        compile_schema("demo", schema, untrusted=True)(value)
    except HarmonyError as error:
        return error.code is ErrorCode.TOOL_MISSING_EXTRA  # without jsonschema, nothing is known against it
    return True


class _Maker:
    """One attempt. `missed` is set where no text was found for a pattern, which the validator does not try."""

    def __init__(self, root: Any, hints: _Hints, variant: int) -> None:
        self.missed = False
        self._root = root
        self._hints = hints
        self._variant = variant
        self._steps = _STEPS

    def make(self, given: object, name: str = "", depth: int = 0, turn: int = 0) -> Any:
        """A value for one schema in the document. `turn` counts the values that must differ from each other."""
        self._steps -= 1
        if self._steps < 0 or depth > _DEEPEST:
            return None
        schema = self._plain(given, depth)
        if "const" in schema:
            return schema["const"]
        if options := _list(schema.get("enum")):
            options = [each for each in options if self._hints.mentions(each)] or options
            return options[(turn + self._variant) % len(options)]
        kind = self._type(schema)
        if (said := self._hints.named.get(name.lower())) is not None:
            try:
                return said if kind == "string" else json.loads(said.lower() if kind == "boolean" else said)
            except (ValueError, RecursionError):
                pass
        words = self._hints.numbers if kind in ("integer", "number") else []
        if kind == "string" and name.lower() not in _WHOLE_TEXT_NAMES:
            words = self._hints.texts
        own = [schema["default"]] if "default" in schema else _list(schema.get("examples"))
        if own and type(own[0]) is _PLAIN_TYPES.get(kind) and turn == self._variant == 0 < depth and not words:
            return own[0]
        match kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, name, depth)
            case "string":
                return self._text(schema, name, turn)
            case "integer" | "number":
                return self._number(schema, turn, is_integer=kind == "integer")
            case _:
                return None if kind == "null" else turn == 0

    def _plain(self, given: object, depth: int) -> dict[str, Any]:
        """The schema without references and alternatives: one variant of each is chosen."""
        schema = dict(_dict(given))
        for _ in range(_DEEPEST):
            if "$ref" in schema:
                found: Any = self._root
                for part in str(schema.pop("$ref")).removeprefix("#").split("/")[1:]:
                    found = _dict(found).get(part.replace("~1", "/").replace("~0", "~"))
                parts = [found]
            elif "if" in schema:
                condition, then, otherwise = (schema.pop(each, None) for each in ("if", "then", "else"))
                parts = [condition, then] if self._variant % 2 == 0 else [otherwise]
            elif key := next((each for each in ("anyOf", "oneOf") if _list(schema.get(each))), None):
                variants = [each for each in _list(schema.pop(key)) if each is not False] or [{}]
                ends = [each for each in variants if _dict(each).get("type") == "null"] if depth >= _DEEP else []
                parts = (ends or [variants[self._variant % len(variants)]])[:1]
            elif "allOf" in schema:
                parts = _list(schema.pop("allOf"))
            else:
                break
            for part in parts:
                schema = _merge(schema, _dict(part))
        return schema

    def _type(self, schema: dict[str, Any]) -> str:
        given = schema.get("type")
        kinds = [each for each in (_list(given) or [given]) if isinstance(each, str)]
        if not kinds:
            kinds = [kind for keyword, kind in _TYPES_BY_KEYWORD.items() if keyword in schema]
        return next((each for each in kinds if each != "null"), kinds[0] if kinds else _ANY_TYPE[self._variant])

    def _text(self, schema: dict[str, Any], name: str, turn: int) -> str:
        form, pattern, texts = schema.get("format"), schema.get("pattern"), self._hints.texts
        least = int(min(_bound(schema, "minLength", 0), _LONGEST_TEXT))
        most = int(min(_bound(schema, "maxLength", _LONGEST_TEXT), _LONGEST_TEXT))
        if isinstance(pattern, str):
            offered = [text for text in (*texts, *samples_of(pattern)) if least <= len(text) <= most]
            fitting = [text for text in offered if is_found(pattern, text) is not False]
            self.missed |= not fitting
            return fitting[turn % len(fitting)] if fitting else "demo"
        if isinstance(form, str) and form in FORMATS:
            return next(iter(self._hints.formats.get(form, ())), FORMATS[form])
        if name.lower() in _WHOLE_TEXT_NAMES:
            texts = [*texts[:1], self._hints.text[:500]]
        text = next((each for each in texts if each and least <= len(each) <= most), "")
        if text in self._hints.texts:
            self._hints.texts.remove(text)
        text = text or ("demo" if turn == 0 else f"demo{turn}")
        return (text + "o" * (least - len(text)))[: max(most, 0)]

    def _number(self, schema: dict[str, Any], turn: int, *, is_integer: bool) -> float:
        low, high = _bound(schema, "minimum", -math.inf), _bound(schema, "maximum", math.inf)
        above, below = _bound(schema, "exclusiveMinimum", -math.inf), _bound(schema, "exclusiveMaximum", math.inf)
        step = _bound(schema, "multipleOf", 1 if is_integer else 0)
        for number in self._hints.numbers:
            if low <= number <= high and above < number < below and (not step or number % step == 0):
                self._hints.numbers.remove(number)
                return number
        least, most = max(low, above), min(high, below)
        if step:
            start = least if math.isfinite(least) else min(step, most) if math.isfinite(most) else step
            number = (math.ceil(start / step) if start <= most else math.floor(most / step)) * step
            number += step * (number <= above) - step * (number >= below) + turn * step
            return int(number) if is_integer else number
        if math.isfinite(least) and math.isfinite(most):
            return least if least == most else (least + most) / 2
        return least + 1 + turn if math.isfinite(least) else most - 1 - turn if math.isfinite(most) else turn + 1.5

    def _array(self, schema: dict[str, Any], name: str, depth: int) -> list[Any]:
        first, rest = _list(schema.get("prefixItems")), schema.get("items", {})
        most = int(min(_bound(schema, "maxItems", _MOST_ITEMS), _MOST_ITEMS))
        needed = int(_bound(schema, "minContains", 1)) if "contains" in schema else 0
        declares = "items" in schema and rest is not False
        length = min(max(int(_bound(schema, "minItems", 0)), len(first), declares, needed), most)
        made: list[Any] = []
        for at in range(length):
            item: Any = first[at] if at < len(first) else rest
            if at >= length - needed:
                item = {"allOf": [item, schema["contains"]]}
            made.append(self.make(item, name.removesuffix("s"), depth + 1, turn=at))
        return made

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        declared, patterns = _dict(schema.get("properties")), _dict(schema.get("patternProperties"))
        more = schema.get("additionalProperties", {})
        names = [each for each in _list(schema.get("required")) if isinstance(each, str)]
        optional = [each for each in declared if each not in names]
        if not names and len(declared) == 1 and _dict(declared[optional[0]]).get("type") == "array":
            names = optional  # an object around one list is about that list
        else:
            names += [each for each in optional if self._is_offered(each, declared[each])]
        for name in names:  # which grows by what they depend on
            names += [each for each in _list(_dict(schema.get("dependentRequired")).get(name)) if each not in names]
        least = len(declared) if self._variant >= 2 else int(min(_bound(schema, "minProperties", 0), _MOST_ITEMS))
        others = [*optional, *(text for pattern in patterns for text in samples_of(pattern))]
        others += [] if more is False else [f"key{at}" for at in range(1, least + 1)]
        others = [each for each in dict.fromkeys(others) if each not in names and declared.get(each) is not False]
        names += others[: max(least - len(names), 0)]
        made: dict[str, Any] = {}
        for name in sorted(names, key={name: at for at, name in enumerate((*names, *declared))}.__getitem__):
            found = [declared[name]] if name in declared else []
            found += [each for pattern, each in patterns.items() if is_found(pattern, name)]
            made[name] = self.make({"allOf": found} if found else more, name, depth + 1)
        return made

    def _is_offered(self, name: str, given: object) -> bool:
        """Whether the user's words have something for an optional property, without much doubt."""
        schema = self._plain(given, 0)
        return (
            name.lower() in self._hints.named
            or any(self._hints.mentions(each) for each in _list(schema.get("enum")))
            or bool(self._hints.formats.get(str(schema.get("format"))))
        )


def samples_of(pattern: str) -> Iterator[str]:
    """Texts that a regular expression matches, the shortest first; none for one that cannot be read."""
    try:
        alternatives = regex_alternatives(pattern)
    except UnreadableRegexError:
        return
    for more in (0, 1, 2, 5, 10, 20, 50):
        yield from (text for each in alternatives[:1] if is_found(pattern, text := _spell(each.node, more)))


def _spell(node: Node, more: int) -> str:
    match node:
        case Literal(text):
            return text
        case Chars(ranges, is_negated):
            if not is_negated:
                return chr(ranges[0][0])
            return next(each for each in "a1-A_ é" if not any(low <= ord(each) <= high for low, high in ranges))
        case Sequence(nodes):
            return "".join(_spell(each, more) for each in nodes)
        case Choice(nodes):
            return _spell(nodes[0], more)
        case Repeat(inner, least, most):
            return _spell(inner, more) * min(least + more, _MOST_ITEMS if most is None else most)
        case _:
            raise AssertionError(node)  # a regular expression has no other nodes


def _merge(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """A schema that demands what both demand, as far as that can be written plainly."""
    merged = {**one, **other}
    for key in one.keys() & other.keys():
        mine, yours = one[key], other[key]
        if key == "properties":
            both = {name: {"allOf": [mine[name], yours[name]]} for name in _dict(mine) if name in _dict(yours)}
            merged[key] = {**_dict(mine), **_dict(yours), **both}
        elif key in ("required", "allOf"):
            merged[key] = [*_list(mine), *(each for each in _list(yours) if each not in _list(mine))]
        elif key == "enum":
            merged[key] = [each for each in _list(mine) if each in _list(yours)]
        elif key == "type" and "integer" in (mine, yours) and "number" in (mine, yours):
            merged[key] = "integer"
        elif key in _BOUNDS and _is_number(mine) and _is_number(yours):
            merged[key] = _BOUNDS[key](mine, yours)
        elif key in ("items", "additionalProperties", "contains") and mine != yours:
            merged[key] = {"allOf": [mine, yours]}
    return merged


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _dict(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _bound(schema: dict[str, Any], key: str, otherwise: float) -> float:
    value = schema.get(key)
    return cast("float", value) if _is_number(value) else otherwise
