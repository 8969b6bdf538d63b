"""The text of a custom tool as rules: a useful part of Lark's notation, and regular expressions.

    start: "*** Begin Patch" LF hunk+          // rules in small letters, terminals in capitals
    hunk: add | remove -> name                 // aliases say nothing about the text
    NAME: /[a-z]+/i | "a".."z"                 // strings, expressions, ranges; `i` after a string or an expression
    a? b* c+ (d | e) [f] g~3 h~1..4 i{2,5}     // repetitions
    %import common.LF                          // of Lark's own library, the terminals below; also `common (LF, WS)`
    %ignore WS                                 // may stand after every terminal

1. A client's Lark becomes part of a larger grammar, so `checked_form` lets nothing in it reach beyond its own rules: no
   special token, no other grammar, no option of the engine, no brace that would end it early. It is also bounded, for
   all engines alike: a hostile form could keep an engine's compiler busy forever, or crash it.
2. `text_rules` has no lexer: a terminal is what its definition says at its place, not the longest match of all
   terminals. A rule that begins with itself is turned round, because engines refuse it.
3. An error says where in the definition it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.grammar.regex_rules import UnreadableRegexError, regex_node
from harmonia.grammar.rules import (
    HALF_PAIR,
    Chars,
    Choice,
    Grammar,
    Literal,
    Loss,
    Name,
    Node,
    Repeat,
    Sequence,
    choice,
    sequence,
)
from harmonia.grammar.simplification import may_be_empty, names_in, pruned
from harmonia.tool_definitions import TextForm

MAX_FORM_CHARS: Final = 32_768
# Each rule that leads to another costs the engine's compiler a part of its stack. Codex's apply_patch has 15.
MAX_FORM_RULES: Final = 300
MAX_REPETITIONS: Final = 1_000
# llguidance gives up at 30 nested groups.
MAX_FORM_DEPTH: Final = 25

_TOKEN: Final = re.compile(
    r"""
      (?P<comment> //[^\n]* | \#[^\n]* )
    | (?P<string> "(?:\\.|[^"\\\n])*+"i? )
    | (?P<regex> /(?!/)(?:\\.|[^/\\\n])++/[imslux]* )
    | (?P<directive> %[A-Za-z_]* )
    | (?P<definition> [!?]?[A-Za-z_][A-Za-z0-9_-]*(?=[ \t]*+(?:\.-?\d++[ \t]*+)?+:) )
    | (?P<priority> \.-?\d+(?=[ \t]*:) )
    | (?P<name> [A-Za-z_][A-Za-z0-9_-]* )
    | (?P<arrow> -> )
    | (?P<repetition> \{\s*+\d++\s*+(?:,\s*+\d*+\s*+)?+\} | ~\s*\d+(?:\.\.\d+)? )
    | (?P<sign> \.\. | [:|()\[\]?*+,.] )
    | (?P<space> \s+ )
    """,
    re.VERBOSE,
)
_REPEATED: Final = re.compile(r"\{\s*+\d++\s*+(?:,\s*+\d*+\s*+)?+\}")
_UNEXPECTED: Final = {
    "<": "special tokens are not allowed here",
    **dict.fromkeys("{}", "a brace that is not a repetition count"),
    **dict.fromkeys('"/', "a string or regular expression that does not end on its line"),
}
_NUMBER: Final = re.compile(r"\d+")


def checked_form(form: TextForm, about: str) -> TextForm:
    """The form, if it can be part of a grammar. `about` is the tool's whole name, for the error."""
    if len(form.definition) > MAX_FORM_CHARS:
        _refuse(about, f"more than {MAX_FORM_CHARS:,} characters", 0, ErrorCode.GRAMMAR_TOO_LARGE)
    half = HALF_PAIR.search(form.definition)
    if half is not None:
        _refuse(about, "a lone surrogate, which is not valid text", half.start())
    if form.syntax == "lark":
        return TextForm("lark", _checked_lark(form.definition, about))
    if "\0" in form.definition or not form.definition:
        _refuse(about, "the regular expression is empty or has a NUL character", 0)
    _check_repetitions(form.definition, 0, about)
    return form


def _checked_lark(definition: str, about: str) -> str:
    """The definition without priorities: they choose between readings, not between texts, and not every engine has
    them."""
    kept: list[str] = []
    position = rules = depth = 0
    has_start = False
    while position < len(definition):
        found = _TOKEN.match(definition, position)
        if found is None:
            sign = definition[position]
            _refuse(about, _UNEXPECTED.get(sign, f"unexpected {sign!r}"), position)
        if found.lastgroup == "directive" and found[0] not in ("%import", "%ignore"):
            _refuse(about, f"{found[0]} is not supported; only %import and %ignore are", position)
        if found.lastgroup == "regex":
            _check_repetitions(found[0], position, about)
        elif found.lastgroup == "repetition":
            _check_numbers(found[0], position, about)
        rules += found[0] == ":"
        depth += (found[0] in ("(", "[")) - (found[0] in (")", "]"))
        if depth > MAX_FORM_DEPTH:
            _refuse(about, f"more than {MAX_FORM_DEPTH} nested groups", position, ErrorCode.GRAMMAR_TOO_LARGE)
        if found.lastgroup == "definition":
            has_start = has_start or found[0].lstrip("!?") == "start"
        kept.append(" " * len(found[0]) if found.lastgroup == "priority" else found[0])
        position = found.end()
    if rules > MAX_FORM_RULES:
        _refuse(about, f"more than {MAX_FORM_RULES} rules", 0, ErrorCode.GRAMMAR_TOO_LARGE)
    if not has_start:
        _refuse(about, "the rule `start` is missing", 0)
    return "".join(kept)


def _check_repetitions(expression: str, position: int, about: str) -> None:
    """The numbers of repetitions in an expression, which begins at a position."""
    for found in _REPEATED.finditer(expression):
        _check_numbers(found[0], position + found.start(), about)


def _check_numbers(repetition: str, position: int, about: str) -> None:
    if any(len(number) > 9 or int(number) > MAX_REPETITIONS for number in _NUMBER.findall(repetition)):
        message = f"something is repeated more than {MAX_REPETITIONS:,} times"
        _refuse(about, message, position, ErrorCode.GRAMMAR_TOO_LARGE)


def _refuse(about: str, message: str, position: int, code: ErrorCode = ErrorCode.GRAMMAR_INVALID_TEXT_FORM) -> NoReturn:
    raise InputError(code, f"the form of {about}: {message}", Position(character=position))


_LARK_TOKEN: Final = re.compile(
    r"""(?P<space>(?:[ \t\r]|//[^\n]*|\#[^\n]*|\n[ \t\r]*(?=\|))+)
    |(?P<line>\n+)
    |(?P<string>"(?:[^"\\\n]|\\.)*"i?)
    |(?P<regex>/(?!/)(?:[^/\\\n]|\\.)+/[imslux]*)
    |(?P<arrow>->)|(?P<dots>\.\.)
    |(?P<name>[?!]?_*[A-Za-z][A-Za-z0-9_]*)
    |(?P<number>[0-9]+)
    |(?P<command>%[a-z]+)
    |(?P<sign>[:|()\[\]?*+~.,{}])""",
    re.VERBOSE,
)

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", **{sign: sign for sign in "\\\"/'"}}
# What Lark's library calls these, as expressions.
_COMMON: Final = {
    "DIGIT": "[0-9]",
    "HEXDIGIT": "[0-9a-fA-F]",
    "INT": "[0-9]+",
    "SIGNED_INT": "[+-]?[0-9]+",
    "DECIMAL": r"[0-9]+\.[0-9]*|\.[0-9]+",
    "FLOAT": r"[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?",
    "NUMBER": r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?",
    "SIGNED_NUMBER": r"[+-]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)",
    "ESCAPED_STRING": r'"(?:[^"\\\n]|\\[^\n])*"',
    "LCASE_LETTER": "[a-z]",
    "UCASE_LETTER": "[A-Z]",
    "LETTER": "[A-Za-z]",
    "WORD": "[A-Za-z]+",
    "CNAME": "[A-Za-z_][A-Za-z0-9_]*",
    "WS_INLINE": "[ \t]+",
    "WS": "[ \t\f\r\n]+",
    "CR": "\r",
    "LF": "\n",
    "NEWLINE": "(?:\r?\n)+",
}


class BeyondRulesError(InputError):
    """A form of which rules cannot be made here, though others may be able to read it."""


def form_fault(form: TextForm, about: str) -> InputError | None:
    """What is wrong with a form, whoever reads it; None where nothing is, or where only its own engine can tell."""
    try:
        text_rules(form, about, "form")
    except BeyondRulesError:
        return None
    except InputError as error:
        return error
    return None


def text_rules(form: TextForm, about: str, prefix: str) -> tuple[Node, dict[str, Node], tuple[Loss, ...]]:
    """The node of the texts of a form, the rules that it needs, and what they do not enforce."""
    form = checked_form(form, about)
    losses: list[Loss] = []
    if form.syntax == "regex":
        made = pruned(Grammar(_regex(form.definition, 0, about), {}))
    else:
        reader = _Reader(form.definition, about, prefix)
        losses = reader.losses
        try:
            start, rules = reader.read()
            made = pruned(Grammar(start, rules))
        except RecursionError as error:
            raise BeyondRulesError(ErrorCode.GRAMMAR_TOO_LARGE, f"the form of {about} is nested too deeply") from error
    if made is None:
        raise BeyondRulesError(ErrorCode.GRAMMAR_INVALID_TEXT_FORM, f"no text matches the form of {about}")
    return made.start, dict(made.rules), tuple(losses)


def _regex(expression: str, at: int, about: str, flags: str = "") -> Node:
    try:
        return regex_node(expression, flags=flags)
    except UnreadableRegexError as error:
        raise (InputError if error.is_certain else BeyondRulesError)(
            ErrorCode.GRAMMAR_INVALID_TEXT_FORM,
            f"the regular expression of {about} is invalid: {error}",
            Position(character=at + error.at),
        ) from error


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


class _Reader:
    def __init__(self, definition: str, about: str, prefix: str) -> None:
        self._definition = definition
        self._about = about
        self._prefix = prefix
        self._index = 0
        self._in_terminal = False
        self._ignored: list[Node] = []
        self._ignored_name = f"{prefix}-ignored"
        self._needed: dict[str, int] = {}
        self._rules: dict[str, Node] = {}
        self.losses: list[Loss] = []
        self._tokens = self._split()
        self._ignores = any(token.text == "%ignore" for token in self._tokens)

    def read(self) -> tuple[Node, dict[str, Node]]:
        while self._token.kind != "end":
            if self._take("line"):
                continue
            if self._token.kind == "command":
                self._command()
            else:
                self._rule()
        for name, at in self._needed.items():
            if name not in self._rules:
                self._fail(f"{name} is not defined", at)
        if "start" not in self._rules:
            self._fail("the rule `start` is missing", 0)
        rules = {self._named(name): node for name, node in self._rules.items()}
        if self._ignored:
            rules[self._ignored_name] = Repeat(choice(*self._ignored))
        return Name(self._named("start")), _turned_round(rules, self._about)

    # The lines

    def _command(self) -> None:
        token = self._next()
        if token.text == "%import":
            self._import(token.at)
        elif token.text == "%ignore":
            self._in_terminal = True
            self._ignored.append(self._alternatives())
            self._in_terminal = False
            message = "ignored text is admitted after every terminal, even where a lexer would require or forbid it"
            self.losses.append(Loss(self._about, f"character {token.at}", "%ignore", message))
        else:
            self._leave(f"{token.text} is not supported", token.at)
        self._end_line()

    def _import(self, at: int) -> None:
        """`common.LF`, `common.LF -> LINE_END`, or several, `common (LF, WS)`."""
        path = self._expect("name").text
        while self._take("sign", "."):
            path += "." + self._expect("name").text
        if self._take("sign", "("):
            names = [self._expect("name").text]
            while self._take("sign", ","):
                names.append(self._expect("name").text)
            if not self._take("sign", ")"):
                self._fail("the list is not closed", at)
            imported = {name: f"{path}.{name}" for name in names}
        else:
            imported = {self._expect("name").text if self._take("arrow") else path.rpartition(".")[2]: path}
        for alias, whole in imported.items():
            library, _, name = whole.rpartition(".")
            if library != "common" or name not in _COMMON:
                self._leave(f"{whole} is not in the library of terminals", at)
            self._define(alias, _regex(_COMMON[name], at, self._about), at)

    def _rule(self) -> None:
        token = self._expect("name")
        name = token.text.lstrip("?!")
        if self._take("sign", "."):
            self._expect("number")  # a priority: it chooses between readings, not between texts
        if self._token.text == "{":
            self._leave("templates are not supported", self._token.at)
        if not self._take("sign", ":"):
            self._fail(f"expected a colon after {name}", self._token.at)
        self._in_terminal = name.lstrip("_").isupper()
        self._define(name, self._alternatives(), token.at)
        self._end_line()

    def _define(self, name: str, node: Node, at: int) -> None:
        if name in self._rules:
            self._fail(f"{name} is defined twice", at)
        self._rules[name] = node

    def _end_line(self) -> None:
        if self._token.kind not in ("line", "end"):
            self._fail(f"unexpected {self._token.text!r}", self._token.at)

    # What stands in them

    def _alternatives(self) -> Node:
        nodes = [self._sequence()]
        while self._take("sign", "|"):
            nodes.append(self._sequence())
        return choice(*nodes)

    def _sequence(self) -> Node:
        nodes: list[Node] = []
        while self._token.kind in ("string", "regex", "name") or self._token.text in ("(", "["):
            nodes.append(self._repeated(self._item()))
        if self._take("arrow"):
            self._expect("name")
        return nodes[0] if len(nodes) == 1 else Sequence(tuple(nodes))

    def _repeated(self, node: Node) -> Node:
        for sign, bounds in {"?": (0, 1), "*": (0, None), "+": (1, None)}.items():
            if self._take("sign", sign):
                return Repeat(node, *bounds)
        in_braces = self._take("sign", "{")
        if not in_braces and not self._take("sign", "~"):
            return node
        token = self._expect("number")
        least = int(token.text)
        most: int | None = least
        if in_braces and self._take("sign", ","):
            most = int(self._next().text) if self._token.kind == "number" else None
        elif not in_braces and self._take("dots"):
            most = int(self._expect("number").text)
        if (in_braces and not self._take("sign", "}")) or (most is not None and least > most):
            self._fail("impossible bounds of a repetition", token.at)
        return Repeat(node, least, most)

    def _item(self) -> Node:
        token = self._next()
        if token.kind == "name":
            name = token.text.lstrip("?!")
            self._needed.setdefault(name, token.at)
            return self._terminal(Name(self._named(name))) if name.lstrip("_").isupper() else Name(self._named(name))
        if token.kind == "string":
            return self._terminal(self._string(token))
        if token.kind == "regex":
            end = token.text.rindex("/")
            flags = token.text[end + 1 :]
            if set(flags) - set("is"):
                self._leave(f"the flags {flags} are not supported", token.at)
            return self._terminal(_regex(token.text[1:end].replace("\\/", "/"), token.at + 1, self._about, flags))
        node = self._alternatives()
        if not self._take("sign", ")" if token.text == "(" else "]"):
            self._fail("the group is not closed", token.at)
        return node if token.text == "(" else Repeat(node, 0, 1)

    def _terminal(self, node: Node) -> Node:
        """Ignored text may follow a terminal, but is not part of one."""
        if self._in_terminal or not self._ignores:
            return node
        return Sequence((node, Name(self._ignored_name)))

    def _string(self, token: _Token) -> Node:
        text = self._text_of(token)
        if self._take("dots"):
            end = self._text_of(self._expect("string"))
            if len(text) != 1 or len(end) != 1 or end < text:
                self._fail("impossible range of characters", token.at)
            return Chars(((ord(text), ord(end)),))
        if token.text.endswith("i"):
            return _regex(re.escape(text), token.at, self._about, "i")
        return Literal(text)

    def _text_of(self, token: _Token) -> str:
        def unescaped(found: re.Match[str]) -> str:
            escape = found[1]
            if len(escape) > 1:
                return chr(int(escape[1:], 16))
            if escape not in _ESCAPES:
                self._leave(f"the escape \\{escape} is not supported", token.at)
            return _ESCAPES[escape]

        expression = token.text.rstrip("i")[1:-1].replace('\\"', '"')
        return re.sub(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", unescaped, expression)

    def _named(self, name: str) -> str:
        return f"{self._prefix}-{name}"

    # Tokens

    def _split(self) -> list[_Token]:
        made: list[_Token] = []
        at = 0
        while at < len(self._definition):
            found = _LARK_TOKEN.match(self._definition, at)
            if found is None:
                self._leave(f"unexpected {self._definition[at]!r}", at)
            if found.lastgroup not in (None, "space"):
                made.append(_Token(str(found.lastgroup), found.group(), at))
            at = found.end()
        made.append(_Token("end", "", at))
        return made

    @property
    def _token(self) -> _Token:
        return self._tokens[self._index]

    def _next(self) -> _Token:
        token = self._token
        self._index += token.kind != "end"
        return token

    def _take(self, kind: str, text: str | None = None) -> bool:
        taken = self._token.kind == kind and (text is None or self._token.text == text)
        self._index += taken
        return taken

    def _expect(self, kind: str) -> _Token:
        if self._token.kind != kind:
            found = repr(self._token.text) if self._token.text else "the end"
            self._fail(f"expected a {kind}, found {found}", self._token.at)
        return self._next()

    def _fail(self, message: str, at: int, kind: type[InputError] = InputError) -> NoReturn:
        """The definition is invalid for every reader."""
        said = f"the grammar of {self._about} is invalid: {message}"
        raise kind(ErrorCode.GRAMMAR_INVALID_TEXT_FORM, said, Position(character=at))

    def _leave(self, message: str, at: int) -> NoReturn:
        """Another reader may understand it."""
        self._fail(message, at, BeyondRulesError)


# Rules that begin with themselves


def _turned_round(rules: dict[str, Node], about: str) -> dict[str, Node]:
    """`sum: sum "+" n | n` as `sum: n ("+" n)*`. Where several rules lead to each other it is refused."""
    made = {name: _without_left_recursion(name, node) for name, node in rules.items()}
    empty = may_be_empty(made)
    begins = {name: set(_first_names(node, empty)) for name, node in made.items()}
    done: set[str] = set()
    for name in made:
        _refuse_circles(name, begins, done, (), about)
    return made


def _refuse_circles(name: str, begins: dict[str, set[str]], done: set[str], path: tuple[str, ...], about: str) -> None:
    if name in path:
        raise BeyondRulesError(
            ErrorCode.GRAMMAR_INVALID_TEXT_FORM,
            f"the grammar of {about} has rules that are left-recursive through other rules: "
            + ", ".join(each.partition("-")[2].partition("-")[2] for each in path[path.index(name) :]),
        )
    if name not in done:
        for each in sorted(begins[name]):
            _refuse_circles(each, begins, done, (*path, name), about)
        done.add(name)


def _without_left_recursion(name: str, node: Node) -> Node:
    alternatives = node.nodes if isinstance(node, Choice) else (node,)
    tails: list[Node] = []
    heads: list[Node] = []
    for alternative in alternatives:
        if alternative == Name(name):
            continue  # nothing but itself
        if isinstance(alternative, Sequence) and alternative.nodes and alternative.nodes[0] == Name(name):
            tails.append(sequence(*alternative.nodes[1:]))
        else:
            heads.append(alternative)
    if not tails:
        return Choice(tuple(heads)) if len(heads) != len(alternatives) else node
    return sequence(Choice(tuple(heads)), Repeat(choice(*tails)))


def _first_names(node: Node, empty: Callable[[Node], bool]) -> list[str]:
    """The rules with which a node may begin."""
    if isinstance(node, Sequence):
        found: list[str] = []
        for each in node.nodes:
            found += _first_names(each, empty)
            if not empty(each):
                break
        return found
    if isinstance(node, Choice):
        return [name for each in node.nodes for name in _first_names(each, empty)]
    return _first_names(node.node, empty) if isinstance(node, Repeat) else names_in(node)
