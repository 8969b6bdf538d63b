"""A grammar in llguidance's Lark, with special tokens by their ids.

    start: completion
    completion: (analysis | preamble)* (call | final)
    analysis: <[200005]> "analysis" <[200008]> PLAIN <[200007]> <[200006]> "assistant"
    PLAIN: /([^<]|…)*/

1. All ordinary text between two special tokens is one terminal, a regular expression: that is what the engine's lexer
   is fast with, and no text is split in two ways.
2. JSON is left to the engine's own `%json`, a client's Lark to a nested `%lark` with names of its own.
3. What the engine does not hold is in the losses. Nothing is known here of the engine but its notation; a client's
   form is tried in it, where it is installed; otherwise it is read as far as rules of ours can be made of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence as SequenceOf
from itertools import groupby
from typing import Final

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.grammar.json_schema.unsatisfiable import fits_nothing
from harmonia.grammar.llguidance_schemas import held_schema
from harmonia.grammar.rules import (
    HALF_PAIR,
    Chars,
    Choice,
    Grammar,
    JsonValue,
    Literal,
    Loss,
    Name,
    Node,
    Repeat,
    Sequence,
    Special,
    Text,
    WrittenGrammar,
)
from harmonia.grammar.text_forms import checked_form, form_fault
from harmonia.tool_definitions import TextForm

_EVIDENT: Final = re.compile(r"[A-Za-z0-9_ =.-]+")
_HEADER: Final = "%llguidance {}\n"
_TOO_LARGE: Final = ("too large", "too big", "too deeply", "fuel", "limit", "exceeded")
_WHERE: Final = re.compile(r"(?:at )?(\d+)\((\d+)\): (.*)")
# Its complaints about expressions have the reason on their last line.
_REASON: Final = re.compile(r"^error: (.+)$", re.MULTILINE)


def write_llguidance(grammar: Grammar) -> WrittenGrammar:
    """The grammar's text for llguidance, complete with the stop token."""
    writer = _Writer(grammar)
    return WrittenGrammar("llguidance", writer.write(), tuple(writer.losses))


class _Writer:
    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._lines: list[str] = []
        self.losses: list[Loss] = []
        self._values: dict[str, str] = {}
        self._is_text: dict[int, bool] = {}
        self._names: dict[str, str] = {}
        for number, name in enumerate(grammar.rules):
            legal = re.sub("[^a-z0-9_]", "_", name.lower())
            # `start` is the first rule's; a name that is changed, or used by the values below, gets a number.
            is_own = legal == name and not name.startswith(("start", "json_", "text_", "_")) and not name[:1].isdigit()
            self._names[name] = legal if is_own else f"r{number}_{legal}"

    def write(self) -> str:
        self._lines.append(f"start: {self._expression(self._grammar.start)}")
        for name, node in self._grammar.rules.items():
            if self._is_all_text(node):
                self._lines.append(f"{self._names[name].upper()}: /{self._regex(node)}/")
            else:
                self._lines.append(f"{self._names[name]}: {self._expression(node)}")
        return _HEADER + "\n".join(self._lines) + "\n"

    # Rules

    def _expression(self, node: Node) -> str:
        match node:
            case Name():
                name = self._names[node.name]
                return name.upper() if self._is_all_text(node) else name
            case Special():
                return f"<[{node.token}]>"
            case JsonValue():
                return self._json(node)
            case Text():
                return self._form(node)
            case _ if self._is_all_text(node):
                return self._terminal(node)
            case Sequence():
                return self._sequence(node.nodes)
            case Choice():
                return "(" + " | ".join(self._expression(each) for each in node.nodes) + ")"
            case Repeat():
                inner = self._expression(node.node)
                return (inner if isinstance(node.node, Choice) else f"({inner})") + node.times
            case Literal() | Chars():
                return self._terminal(node)

    def _sequence(self, nodes: SequenceOf[Node]) -> str:
        written: list[str] = []
        for is_text, group in groupby(nodes, self._is_all_text):
            run = tuple(group)
            if is_text and len(run) > 1:  # text that stands together is one terminal
                written.append(self._terminal(Sequence(run)))
            else:
                written += map(self._expression, run)
        return " ".join(written)

    def _terminal(self, node: Node) -> str:
        if isinstance(node, Sequence) and all(isinstance(each, Literal) for each in node.nodes):
            node = Literal("".join(each.text for each in node.nodes if isinstance(each, Literal)))
        if isinstance(node, Literal) and (not node.text or _EVIDENT.fullmatch(node.text)):
            return f'"{node.text}"'
        return f"/{self._regex(node)}/"

    # Text

    def _is_all_text(self, node: Node) -> bool:
        """Whether a node is a regular expression over characters: no special token, no value, no rule in itself."""
        known = self._is_text.get(id(node))  # they all stay, as parts of the grammar
        if known is None:
            self._is_text[id(node)] = False  # as long as it is not known: a rule that leads to itself is not
            match node:
                case Sequence() | Choice():
                    known = all(map(self._is_all_text, node.nodes))
                case Repeat():
                    known = self._is_all_text(node.node)
                case Name():
                    known = self._is_all_text(self._grammar.rules[node.name])
                case _:
                    known = isinstance(node, Literal | Chars)
            self._is_text[id(node)] = known
        return known

    def _regex(self, node: Node) -> str:
        match node:
            case Literal():
                return "".join(map(_escaped, map(ord, node.text)))
            case Chars():
                return _set(node)
            case Sequence():
                return "".join(self._regex(each) for each in node.nodes)
            case Choice():
                return "(" + "|".join(self._regex(each) for each in node.nodes) + ")"
            case Repeat(inner):
                is_one = isinstance(inner, Chars | Choice) or (isinstance(inner, Literal) and len(inner.text) == 1)
                return (self._regex(inner) if is_one else f"({self._regex(inner)})") + node.times
            case Name():
                return "(" + self._regex(self._grammar.rules[node.name]) + ")"
            case Special() | JsonValue() | Text():
                raise AssertionError("only text is written as a regular expression")

    # Values

    def _json(self, node: JsonValue) -> str:
        if fits_nothing(node.schema):
            message = f"no value matches the schema of {node.about}"
            raise InputError(ErrorCode.GRAMMAR_INVALID_OPTION, message, Position(path="$"))
        schema, losses = held_schema(node.schema, node.about)
        text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
        if not text.isascii() and HALF_PAIR.search(text):
            message = f"The schema of {node.about} has a lone surrogate, which is not valid text."
            raise InputError(ErrorCode.SCHEMA_INVALID, message)
        self.losses += [loss for loss in losses if loss not in self.losses]
        if text not in self._values:
            self._values[text] = f"json_{len(self._values)}"
            self._lines.append(f"{self._values[text]}: %json {text}")
        return self._values[text]

    def _form(self, node: Text) -> str:
        form = checked_form(node.form, node.about)
        key = repr(form)
        if key not in self._values:
            if form.syntax == "lark":
                written = f"%lark {{\n{form.definition}\n}}"
                _try_out(form.definition, form, node.about)
            else:
                written = f"/{_in_slashes(form.definition)}/"
                _try_out(f"start: {written}", form, node.about)
            self._values[key] = f"text_{len(self._values)}"
            self._lines.append(f"{self._values[key]}: {written}")
        return self._values[key]


def _escaped(code: int) -> str:
    character = chr(code)
    if code >= 128 or not character.isprintable():
        return f"\\x{{{code:x}}}"
    return character if character.isalnum() or character in " _=,<>" else f"\\{character}"


def _set(node: Chars) -> str:
    if node.is_negated and not node.ranges:
        return "(?s:.)"
    ranges = (_escaped(low) if low == high else f"{_escaped(low)}-{_escaped(high)}" for low, high in node.ranges)
    return f"[{'^' if node.is_negated else ''}{''.join(ranges)}]"


def _in_slashes(expression: str) -> str:
    """A regular expression between slashes, on one line."""
    escaped = re.sub(r"\\(?s:.)|/", lambda found: "\\/" if found[0] == "/" else found[0], expression)
    return escaped.replace("\\\n", "\\n").replace("\n", "\\n")


def is_about_size(complaint: str) -> bool:
    """Whether the engine refused a grammar because it is too large for it."""
    return any(words in complaint for words in _TOO_LARGE)


def _try_out(grammar: str, form: TextForm, about: str) -> None:
    """See whether the engine takes a client's form by itself, so that whoever wrote it is told and not the model."""
    try:
        from llguidance import LLMatcher, LLParserLimits
    except ImportError:
        fault = form_fault(form, about)
        if fault is not None:
            raise fault from None
        return  # whoever runs the grammar finds out
    message = LLMatcher.validate_grammar(grammar, limits=LLParserLimits(verbose_errors=True))
    if not message or message.startswith("WARNING"):
        return
    # Where both refuse it, ours has the better words and the place within an expression.
    raise form_fault(form, about) or _complaint(message, form, about)


def _complaint(message: str, form: TextForm, about: str) -> InputError:
    """What the engine said of a form, with the place in it as far as that is known."""
    found = _WHERE.match(message)
    at = 0
    if found is not None and form.syntax == "lark":
        lines = form.definition.split("\n")
        at = sum(len(line) + 1 for line in lines[: int(found[1]) - 1]) + int(found[2]) - 1
    said = found[3] if found is not None else message.partition("\n")[0]
    reason = _REASON.search(message)
    return InputError(
        ErrorCode.GRAMMAR_TOO_LARGE if is_about_size(message) else ErrorCode.GRAMMAR_INVALID_TEXT_FORM,
        f"the form of {about}: {said if reason is None else f'{said} {reason[1]}'}",
        Position(character=min(at, len(form.definition))),
    )
