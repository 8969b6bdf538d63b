"""The grammar of a completion: what a model may sample after `<|start|>assistant` under a demand.

    completion = (analysis | preamble)*  (call | final)       and with a response format
                 (analysis | preamble)* call | analysis* final

    analysis   <|channel|>analysis<|message|> text <|end|><|start|>assistant
    preamble   <|channel|>commentary<|message|> text <|end|><|start|>assistant
    call       <|channel|>commentary to=functions.x <|constrain|>json<|message|> arguments <|call|>
    final      <|channel|>final<|message|> text, or JSON of the response format <|return|>

1. A strict parser reads everything that the rules admit without a fault.
2. Reasoning is always admitted and never required. The tool choice decides which of the two ends are possible. With a
   response format, the answer is all that is visible, so there is no preamble.
3. The recipient may come before or after the channel, and the content type may be missing: models do both, and forcing
   an unfamiliar form degrades output. Functions are called on commentary, as their declaration says; built-in tools on
   analysis too, where the model was trained to call them.
4. Text never spells a control token: no lower-case letter follows `<|`. On an engine that returns text, such a spelling
   could not be distinguished from the token.

A demand does not depend on an engine: a run without grammars validates completions against the same demand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, cast

import msgspec

from harmonia.errors import ErrorCode, InputError, StreamError
from harmonia.grammar.gbnf_writer import write_gbnf
from harmonia.grammar.llguidance_writer import write_llguidance
from harmonia.grammar.plain_grammar import PLAIN_TEXT
from harmonia.grammar.rules import (
    GRAMMAR_KINDS,
    Grammar,
    GrammarKind,
    JsonValue,
    Literal,
    Name,
    Node,
    Repeat,
    Special,
    Text,
    WrittenGrammar,
    choice,
    optional,
    sequence,
)
from harmonia.grammar.xgrammar_writer import write_xgrammar
from harmonia.messages import Json, ResponseFormat, ToolNamespace
from harmonia.messages.builtin_tools import BROWSER, PYTHON
from harmonia.parser import parse
from harmonia.schema.work_budget import bounded_work
from harmonia.tool_definitions import Takes, TextForm
from harmonia.vocabulary import CALL, CHANNEL, CONSTRAIN, END, MESSAGE, RETURN, START, encode

# A few seconds of work: some thousand rules, or as many steps over combined schemas.
MAX_STEPS: Final = 300_000
RESPONSE_FORMAT: Final = "response_format"

_SHOWN_NAMES: Final = 20
_BUILTIN: Final = frozenset((BROWSER.name, PYTHON.name))
_ANYTHING: Final[Json] = {"type": "object"}
_JSON_TYPE: Final = sequence(optional(" "), Special(CONSTRAIN), "json")
_CODE_TYPE: Final = Literal(" code")
_NOT_WRITTEN: Final = re.compile("[<>|]")
# Names of this form need no second look; others are letters of the world, or cannot stand in a header.
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_WRITERS: Final[dict[GrammarKind, Callable[[Grammar], WrittenGrammar]]] = {
    "llguidance": write_llguidance,
    "gbnf": write_gbnf,
    "xgrammar": write_xgrammar,
}


# ── demands ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class CallableTool(msgspec.Struct, frozen=True):
    """A tool without its description. `name` is the full one, such as `functions.get_weather`.

    Its arguments are JSON that fits `parameters`, or text, which may have a form.
    """

    name: str
    parameters: Json | bool | None = None
    takes: Takes = "json"
    text_form: TextForm | None = None


class Demand(msgspec.Struct, frozen=True):
    """What is demanded of a completion.

    `tool_choice` is auto, none, required, or the full name of a tool (`functions.get_weather`). `allowed` are the
    full names that may be called in this turn, of all that are declared; None allows all.
    """

    tools: tuple[CallableTool, ...] = ()
    tool_choice: str = "auto"
    allowed: tuple[str, ...] | None = None
    response_format: ResponseFormat | None = None

    def __post_init__(self) -> None:
        """Callers without types get an error here, not in the middle of a grammar."""
        wrong = None
        if not _are_all(self.tools, CallableTool):
            wrong = "tools must be CallableTools; declared_tools makes them from ToolNamespaces"
        elif not isinstance(cast("object", self.tool_choice), str):
            wrong = f"tool_choice is {self.tool_choice!r}; expected auto, none, required, or the full name of a tool"
        elif self.allowed is not None and not _are_all(self.allowed, str):
            wrong = f"allowed is {self.allowed!r}; expected the full names of tools"
        elif not isinstance(cast("object", self.response_format), ResponseFormat | None):
            wrong = f"response_format is {self.response_format!r}; expected a ResponseFormat(name, schema)"
        if wrong is not None:
            raise _refusal(wrong)

    @property
    def is_trivial(self) -> bool:
        """Whether any well-formed completion meets it."""
        return self.tool_choice == "auto" and self.allowed is None and self.response_format is None


class Begun(msgspec.Struct, frozen=True):
    """A message that the prompt began, up to `<|message|>` or further; `has_text` says that its body was begun, too."""

    channel: str | None
    recipient: str | None = None
    has_text: bool = False


def declared_tools(
    namespaces: Iterable[ToolNamespace], texts: Mapping[str, TextForm | None] | None = None
) -> tuple[CallableTool, ...]:
    """The tools of namespaces under their full names. `texts` are those that take text, with its form if it has one."""
    texts = texts or {}
    found: dict[str, CallableTool] = {}
    for namespace in namespaces:
        if not namespace.tools:  # such as python: the namespace is itself the tool, and takes text
            found[namespace.name] = CallableTool(namespace.name, None, "text", texts.get(namespace.name))
        for tool in namespace.tools:
            name = f"{namespace.name}.{tool.name}"
            found[name] = CallableTool(name, tool.parameters, "text" if name in texts else "json", texts.get(name))
    _check_declared(texts, found)
    return tuple(found.values())


def callable_tools(demand: Demand) -> tuple[CallableTool, ...]:
    """The tools that may be called under a demand. Raises if the demand names a tool that is not declared."""
    declared = {tool.name: tool for tool in demand.tools}
    chosen = demand.tool_choice
    is_named = chosen not in ("auto", "none", "required")
    allowed = frozenset(declared if demand.allowed is None else demand.allowed)
    _check_declared((*(demand.allowed or ()), *((chosen,) if is_named else ())), declared)
    if chosen == "none":
        return ()
    wanted = [name for name in declared if name in allowed and (not is_named or name == chosen)]
    if not wanted and chosen != "auto":
        raise _refusal(f"the tool choice is {chosen}, but no tool may be called")
    return tuple(declared[name] for name in wanted)


def _check_declared(names: Iterable[str], declared: Mapping[str, CallableTool]) -> None:
    for name in names:
        if name not in declared:
            listed = list(declared)
            more = f" and {len(listed) - _SHOWN_NAMES} more" if len(listed) > _SHOWN_NAMES else ""
            those = f"declared: {', '.join(listed[:_SHOWN_NAMES])}{more}" if listed else "no tool is declared"
            raise _refusal(f"the tool {name} is not declared; {those}")


def _are_all(values: object, kind: type) -> bool:
    return isinstance(values, tuple | list) and all(isinstance(each, kind) for each in cast("list[object]", values))


def _refusal(message: str) -> InputError:
    return InputError(ErrorCode.GRAMMAR_INVALID_OPTION, message)


# ── their grammars ──────────────────────────────────────────────────────────────────────────────────────────────────


def grammar_for(demand: Demand, kind: GrammarKind, begun: Begun | None = None) -> WrittenGrammar:
    """The grammar of all completions that meet the demand, for this kind of engine."""
    if kind not in _WRITERS:
        raise _refusal(f"unknown kind of grammar {kind!r}; choose one of {', '.join(GRAMMAR_KINDS)}")
    try:
        with bounded_work(MAX_STEPS):
            return _WRITERS[kind](completion_grammar(demand, begun))
    except RecursionError as error:
        raise InputError(ErrorCode.GRAMMAR_TOO_LARGE, "a schema or text form is too long or too deep") from error


def completion_grammar(demand: Demand, begun: Begun | None = None) -> Grammar:
    """The grammar of what follows `<|start|>assistant`, or the beginning of a message that the prompt has after it.

    Raises an InputError where the demand cannot be met by any completion, or not after this beginning.
    """
    tools = callable_tools(demand)
    form = demand.response_format
    again = sequence(Special(END), Special(START), "assistant")
    answer = Name("plain") if form is None else JsonValue(form.schema, RESPONSE_FORMAT)
    rules: dict[str, Node] = {"plain": PLAIN_TEXT, "analysis": sequence(_header("analysis"), Name("plain"), again)}
    if tools or form is None:
        rules["preamble"] = sequence(_header("commentary"), Name("plain"), again)
    for number, tool in enumerate(tools):
        rules[f"call_{number}"] = sequence(_call_header(tool), _arguments(tool), Special(CALL))
    if tools:
        rules["call"] = choice(*(Name(f"call_{number}") for number in range(len(tools))))
    if demand.tool_choice in ("auto", "none"):
        header = _header("final") if form is None else _header("final", optional(_JSON_TYPE))
        rules["final"] = sequence(header, answer, Special(RETURN))
    said, thought = Repeat(choice(Name("analysis"), Name("preamble"))), Repeat(Name("analysis"))
    ends = [Name(end) for end in ("call", "final") if end in rules]
    if form is None:
        rules["completion"] = sequence(said, choice(*ends))
    else:
        rules["completion"] = choice(*(sequence(thought if end.name == "final" else said, end) for end in ends))
    if begun is None:
        return Grammar(Name("completion"), rules)

    # The rest of the message that was begun, and then whatever may follow it.
    if begun.recipient is not None:
        found = next((tool for tool in tools if tool.name == begun.recipient), None)
        if found is None:
            raise _refusal(f"this demand does not allow the call to {begun.recipient}")
        body, end = _arguments(found), Special(CALL)
    elif begun.channel == "final":
        if "final" not in rules:
            raise _refusal("an answer has begun, but a call is required")
        body, end = answer, Special(RETURN)
    else:
        body, end = Name("plain"), sequence(again, Name("completion"))
    if begun.has_text and body != Name("plain"):
        raise _refusal("only plain text can be continued; start the message again")
    return Grammar(sequence(body, end), rules)


def _header(channel: str, *types: Node) -> Node:
    return sequence(Special(CHANNEL), channel, *types, Special(MESSAGE))


def _call_header(tool: CallableTool) -> Node:
    if _PLAIN_NAME.fullmatch(tool.name) is None:
        _refuse_unreadable_name(tool.name)
    is_builtin = tool.name.partition(".")[0] in _BUILTIN
    channel = choice(Literal("commentary"), Literal("analysis")) if is_builtin else Literal("commentary")
    to = Literal(f" to={tool.name}")
    types = [_CODE_TYPE] if tool.takes == "text" else [_JSON_TYPE, _CODE_TYPE] if is_builtin else [_JSON_TYPE]
    ways = choice(sequence(Special(CHANNEL), channel, to), sequence(to, Special(CHANNEL), channel))
    return sequence(ways, optional(choice(*types)), Special(MESSAGE))


def _arguments(tool: CallableTool) -> Node:
    if tool.takes == "text":
        return Name("plain") if tool.text_form is None else Text(tool.text_form, tool.name)
    return JsonValue(_ANYTHING if tool.parameters is None else tool.parameters, tool.name)


def _refuse_unreadable_name(name: str) -> None:
    """No parser could read a call to a tool with such a name, and no history could hold it."""
    called = [CHANNEL, *encode(f"commentary to={name}"), MESSAGE, *encode("{}"), CALL]
    try:
        is_read = parse(called, role="assistant", mode="strict").messages[-1].recipient == name
    except StreamError:
        is_read = False
    if not is_read or _NOT_WRITTEN.search(name):
        raise _refusal(f"the tool name {name!r} cannot be written in a header")
