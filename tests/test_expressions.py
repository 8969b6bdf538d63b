"""Every regular expression of the package is linear in the text: `re` holds the interpreter while it matches, so one
that is not freezes a whole server.

Expressions are found in the source, and in the modules as they are imported. One that is made while the program runs
has to be listed here, with what bounds it.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import harmonia
from harmonia.grammar.json_schema.json_rules import json_rules
from harmonia.grammar.regex_rules import is_found
from harmonia.messages import Json
from tests.support.regex_steps import Counter, TooManySteps, adversarial

_SOURCES = Path(harmonia.__file__).parent
_SMALL, _LARGE = 30, 300
# Ten times the text: linear work grows by ten, quadratic work by a hundred.
_MOST_GROWTH = 25
_ENTRIES = ("compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")

# Made while the program runs: by module and function, with what bounds the work.
MADE_LATER: dict[tuple[str, str], str] = {
    ("harmonia.families.passages", "Finder.__init__"): "fixed spellings of a model family, each with its beginnings",
    ("harmonia.families.profiles", "ModelProfile.__post_init__"): "the operator's own; only compiled",
    ("harmonia.families.profiles", "resolve_profile"): "the operator's own, against the name of a model",
    ("harmonia.families.python_calls", "_with_python_names"): "names, and texts in quotes that end on their line",
    ("harmonia.families.templates", "ControlSpellings.__init__"): "fixed spellings of a model family",
    ("harmonia.grammar.llguidance_schemas", "_find_fault"): "one set, against one character",
    ("harmonia.grammar.llguidance_schemas", "_is_plain"): "only compiled",
    ("harmonia.openai_harmony.encoding", "_any_of"): "the spellings of special tokens",
    ("harmonia.run.provider_check.runner", "find_apis"): "the name of a model, in what a provider says",
    ("harmonia.run.engines.demo.calls", "_mentions"): "names of tools, in a text that was cut",
    ("harmonia.run.engines.demo.calls", "_is_about"): "one word, in a text that was cut",
    ("harmonia.run.engines.demo.calls", "_Hints.mentions"): "one fixed text",
    (
        "harmonia.run.tools.arguments",
        "_describe",
    ): "patterns of the owner's own tools; those of strangers are not tried",
    ("harmonia.serve.wire.error_responses", "in_clients_words"): "names of tools, in a sentence of ours",
    (
        "harmonia.serve.saved_chats.search",
        "_best_place",
    ): "words of a search; white space between them is not given back",
    ("harmonia.vocabulary.long_runs", "_patterns"): "one run of one class, of which a text has as many as it has",
}
# Not linear, but only ever tried on a text of bounded length, or on text that the operator wrote.
BOUNDED = {
    "harmonia.parser.machine._HEADER_AT_END": "searched for in the last characters of a text only",
    "harmonia.parser.missing_special_tokens._TOOL": "searched for in a window",
    "harmonia.run.engines.demo.calls._REFUSED": "the text is cut to some thousand characters before",
    "harmonia.run.engines.demo.engine._SUM": "the text is cut to some hundred characters before",
    "harmonia.run.tools.python_functions._REST_PARAMETER": "a line of the operator's own source",
    "harmonia.run.tools.mcp.configuration._VARIABLE": "a value of the operator's own file",
}
# Handed on, and then only matched.
MATCHED = (
    *((f"harmonia.families.{module}", "WITH_JSON") for module in ("call_bodies", "llama")),
    *((f"harmonia.families.{module}", "_HEAD") for module in ("call_bodies", "mistral")),
    *(("harmonia.schema.declarations", name) for name in ("_HEADING", "_TOOL", "_KEY", "_COMMENTS")),
)


class Expression(NamedTuple):
    name: str
    pattern: re.Pattern[Any]
    anchored: bool  # tried at one place, not at every one
    whole: bool

    def __str__(self) -> str:
        return self.name


@cache
def _modules() -> list[str]:
    found = (module.name for module in pkgutil.walk_packages([str(_SOURCES)], "harmonia."))
    return [name for name in found if not name.endswith("__main__")]


@cache
def _tree(module: str) -> ast.Module:
    path = _SOURCES.joinpath(*module.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text())


def _patterns_in(value: object, name: str) -> Iterator[tuple[str, re.Pattern[Any]]]:
    if isinstance(value, re.Pattern):
        yield name, value
    elif isinstance(value, dict):
        for key, each in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from _patterns_in(each, f"{name}[{key}]")  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, list | tuple):
        for at, each in enumerate(value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            yield from _patterns_in(each, f"{name}[{at}]")  # pyright: ignore[reportUnknownArgumentType]


class Use(NamedTuple):
    module: str
    kind: str


@cache
def _uses() -> dict[str, list[Use]]:
    """By the name of a pattern, which of its methods each module calls."""
    uses: dict[str, list[Use]] = defaultdict(list)
    for module in _modules():
        nodes = list(ast.walk(_tree(module)))
        calls = {node.func: len(node.args) for node in nodes if isinstance(node, ast.Call)}
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if node.attr in ("pattern", "flags"):
                    continue
                is_anchored = node.attr in ("match", "fullmatch") and calls.get(node, 1) <= 2
                uses[node.value.id].append(Use(module, node.attr if is_anchored else "search"))
    return uses


def _use(name: str, module: str) -> tuple[bool, bool]:
    """Whether all uses of a pattern are anchored, and whether all of them are for the whole text."""
    # A name that is imported is looked at where it is used: all modules.
    kinds = {use.kind for use in _uses()[name] if use.module == module or not name.startswith("_")}
    if (module, name) in MATCHED:
        kinds.add("match")
    return bool(kinds) and kinds <= {"match", "fullmatch"}, kinds == {"fullmatch"}


def _expressions() -> Iterator[Expression]:
    seen: set[int] = set()
    for module in _modules():
        loaded = importlib.import_module(module)
        for name, value in vars(loaded).items():
            for spelled, pattern in _patterns_in(value, name):
                if id(pattern) not in seen:
                    seen.add(id(pattern))
                    anchored, whole = _use(name, module) if "[" not in spelled else (False, False)
                    yield Expression(f"{module}.{spelled}", pattern, anchored, whole)
        for node, entry, _ in _calls_of_re(module):
            given = _constant(node)
            if entry != "compile" and given is not None:
                named = f"{module}:{node.lineno}"
                yield Expression(named, re.compile(given), entry in ("match", "fullmatch"), entry == "fullmatch")


def _constant(node: ast.Call) -> str | None:
    given = node.args[0]
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else None


def _calls_of_re(module: str) -> Iterator[tuple[ast.Call, str, str]]:
    """The calls of `re` that take an expression, each with what is called and the function that it is in."""

    def walk(node: ast.AST, within: str) -> Iterator[tuple[ast.Call, str, str]]:
        for child in ast.iter_child_nodes(node):
            inside = within
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inside = f"{within}.{child.name}".removeprefix(".")
            if (
                isinstance(child, ast.Call)
                and isinstance(child.func, ast.Attribute)
                and isinstance(child.func.value, ast.Name)
                and child.func.value.id == "re"
                and child.func.attr in _ENTRIES
            ):
                yield child, child.func.attr, within
            yield from walk(child, inside)

    return walk(_tree(module), "")


EXPRESSIONS = list(_expressions())


def _fault(expression: Expression) -> str | None:
    """The text that makes the work grow faster than itself, if there is one."""
    _, pattern, anchored, whole = expression
    for small, large in adversarial(pattern, _SMALL, _LARGE):
        most = 100_000
        try:
            steps = Counter(pattern, small, most).search(anchored=anchored, whole=whole)
            most = _MOST_GROWTH * max(steps, 2 * _SMALL)
            Counter(pattern, large, most).search(anchored=anchored, whole=whole)
        except TooManySteps:
            return small
    return None


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_ten_times_the_text_takes_ten_times_the_steps(expression: Expression) -> None:
    fault = _fault(expression)
    if expression.name in BOUNDED:
        assert fault is not None, "it is linear now, and need not be listed"
        return
    assert fault is None, f"{expression.pattern.pattern!r} backtracks, for example over {fault!r}"


def test_every_expression_of_the_source_is_found_or_listed() -> None:
    found: set[tuple[str, str]] = set()
    for module in _modules():
        for node, entry, within in _calls_of_re(module):
            at_import = not within and entry == "compile"
            if not at_import and (entry == "compile" or _constant(node) is None):
                found.add((module, within))
    assert found == MADE_LATER.keys()


@pytest.mark.parametrize(
    ("source", "is_linear"),
    [
        (r"\s*\[?[\s,0-9-]*\]?\s*", False),
        (r"\s*+\[?[\s,0-9-]*+\]?\s*+", True),
        (r"(?:a+)+b", False),
        (r"(?>a+)+b", True),
        (r"(?:a|aa)*c", False),
        (r"(?:a|b)*+c", True),
        (r"a.{0,500}b", False),
    ],
)
def test_the_counter_tells_linear_from_the_rest(source: str, is_linear: bool) -> None:
    # In a search, the last of them looks 500 characters ahead at every place.
    fault = _fault(Expression(source, re.compile(source), anchored=".{" not in source, whole=".{" not in source))
    assert (fault is None) == is_linear


def test_a_strangers_expression_is_never_given_to_re() -> None:
    # Python would try 2 ** 40 ways. What is here gives up, or knows after a few thousand steps.
    assert is_found("(a+)+$", "a" * 40 + "!") is False
    assert is_found("^(a|aa)+$", "a" * 40) is True
    assert is_found("(?=a)b", "ab") is None
    assert is_found("^(?:(?:a|b)(?:a|b)?)*c", "a" * 100_000) is None


def test_a_strangers_expression_in_a_schema_takes_bounded_work() -> None:
    name = "a" * 40 + "!"
    schema: Json = {"type": "object", "patternProperties": {"(a+)+$": {}}, "properties": {name: {"type": "string"}}}
    start, rules, _ = json_rules(schema, "form")
    assert start is not None
    assert rules
