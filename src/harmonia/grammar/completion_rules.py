"""The rules of a completion: what a model may sample after `<|start|>assistant` under a demand.

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
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from harmonia.errors import ErrorCode, InputError, StreamError
from harmonia.grammar.demand import CallableTool, Demand, callable_tools
from harmonia.grammar.rules import (
    Chars,
    Grammar,
    JsonValue,
    Literal,
    Name,
    Node,
    Repeat,
    Special,
    Text,
    choice,
    optional,
    sequence,
)
from harmonia.messages.builtin_tools import BROWSER, PYTHON
from harmonia.parser import parse
from harmonia.vocabulary import CALL, CHANNEL, CONSTRAIN, END, MESSAGE, RETURN, START, encode

RESPONSE_FORMAT: Final = "response_format"

_BUILTIN: Final = frozenset((BROWSER.name, PYTHON.name))
_ANYTHING: Final[dict[str, object]] = {"type": "object"}
_JSON_TYPE: Final = sequence(optional(" "), Special(CONSTRAIN), "json")
_CODE_TYPE: Final = Literal(" code")
_NOT_WRITTEN: Final = re.compile("[<>|]")
# Names of this form need no second look; others are letters of the world, or cannot stand in a header.
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")


def _of(character: str) -> tuple[int, int]:
    return ord(character), ord(character)


_LESS_THAN: Final = Repeat(Literal("<"), 1)
# `<`, as many as come, and `<|<`: all that may have begun a spelling and has not become one yet.
_OPENED: Final = sequence(_LESS_THAN, Repeat(sequence("|", _LESS_THAN)))
_CLOSED: Final = choice(
    Chars((_of("<"), _of("|")), is_negated=True),
    sequence("|", Chars((_of("<"), (ord("a"), ord("z"))), is_negated=True)),
)
PLAIN_TEXT: Final = sequence(
    Repeat(choice(Chars((_of("<"),), is_negated=True), sequence(_OPENED, _CLOSED))),
    optional(sequence(_OPENED, optional("|"))),
)


class Begun(msgspec.Struct, frozen=True):
    """A message that the prompt began, up to `<|message|>` or further; `has_text` says that its body was begun, too."""

    channel: str | None
    recipient: str | None = None
    has_text: bool = False


def completion_grammar(demand: Demand, begun: Begun | None = None) -> Grammar:
    """The grammar of what follows `<|start|>assistant`, or the beginning of a message that the prompt has after it.

    Raises an InputError where the demand cannot be met by any completion, or not after this beginning.
    """
    tools = callable_tools(demand)
    again = sequence(Special(END), Special(START), "assistant")
    rules: dict[str, Node] = {
        "plain": PLAIN_TEXT,
        "analysis": sequence(_header("analysis"), Name("plain"), again),
    }
    if tools or demand.response_format is None:
        rules["preamble"] = sequence(_header("commentary"), Name("plain"), again)
    for number, tool in enumerate(tools):
        rules[f"call_{number}"] = sequence(_call_header(tool), _arguments(tool), Special(CALL))
    if tools:
        rules["call"] = choice(*(Name(f"call_{number}") for number in range(len(tools))))
    if demand.tool_choice in ("auto", "none"):
        rules["final"] = sequence(_final_header(demand), _answer(demand), Special(RETURN))
    rules["completion"] = _messages(demand, [Name(end) for end in ("call", "final") if end in rules])
    return Grammar(Name("completion") if begun is None else _rest(begun, demand, tools, again), rules)


def _messages(demand: Demand, ends: list[Name]) -> Node:
    """What may be said, up to one of the ends."""
    said = Repeat(choice(Name("analysis"), Name("preamble")))
    if demand.response_format is None:
        return sequence(said, choice(*ends))
    thought = Repeat(Name("analysis"))
    return choice(*(sequence(thought if end.name == "final" else said, end) for end in ends))


def _rest(begun: Begun, demand: Demand, tools: tuple[CallableTool, ...], again: Node) -> Node:
    """What may follow the beginning of a message: the rest of it, and then whatever may follow it."""
    if begun.recipient is not None:
        tool = next((tool for tool in tools if tool.name == begun.recipient), None)
        if tool is None:
            raise InputError(
                ErrorCode.GRAMMAR_INVALID_OPTION,
                f"this demand does not allow the call to {begun.recipient}",
            )
        body, end = _arguments(tool), sequence(Special(CALL))
    elif begun.channel == "final":
        if demand.tool_choice not in ("auto", "none"):
            raise InputError(ErrorCode.GRAMMAR_INVALID_OPTION, "an answer has begun, but a call is required")
        body, end = _answer(demand), sequence(Special(RETURN))
    else:
        body, end = Name("plain"), sequence(again, Name("completion"))
    if begun.has_text and body != Name("plain"):
        raise InputError(
            ErrorCode.GRAMMAR_INVALID_OPTION,
            "only plain text can be continued; start the message again",
        )
    return sequence(body, end)


def _header(channel: str) -> Node:
    return sequence(Special(CHANNEL), channel, Special(MESSAGE))


def _final_header(demand: Demand) -> Node:
    if demand.response_format is None:
        return _header("final")
    return sequence(Special(CHANNEL), "final", optional(_JSON_TYPE), Special(MESSAGE))


def _answer(demand: Demand) -> Node:
    wanted = demand.response_format
    return Name("plain") if wanted is None else JsonValue(wanted.schema, RESPONSE_FORMAT)


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
    """Nobody could read a call to a tool with such a name, or write it into a history, so that a grammar of well-formed
    calls has none."""
    called = [CHANNEL, *encode(f"commentary to={name}"), MESSAGE, *encode("{}"), CALL]
    try:
        is_read = parse(called, role="assistant", mode="strict").messages[-1].recipient == name
    except StreamError:
        is_read = False
    if not is_read or _NOT_WRITTEN.search(name):
        raise InputError(ErrorCode.GRAMMAR_INVALID_OPTION, f"the tool name {name!r} cannot be written in a header")
