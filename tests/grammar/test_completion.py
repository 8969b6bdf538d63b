"""What a demand admits, before any engine: which tools, which ends, which beginnings."""

from __future__ import annotations

import re
from typing import Any

import pytest

from harmonia import BROWSER, PYTHON, ErrorCode, InputError, ToolDescription, ToolNamespace
from harmonia.grammar import Demand, TextForm, callable_tools, declared_tools
from harmonia.grammar.completion import PLAIN_TEXT, Begun, completion_grammar
from harmonia.grammar.rules import Chars, Choice, JsonValue, Literal, Name, Node, Repeat, Sequence, Special, Text
from harmonia.messages import ResponseFormat
from harmonia.vocabulary import SPELLING_BY_ID

_FORECAST = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_TOOLS = (
    ToolNamespace("functions", None, (ToolDescription("forecast", None, _FORECAST), ToolDescription("stop"))),
    BROWSER,
    PYTHON,
)
_NAMES = ["functions.forecast", "functions.stop", "browser.search", "browser.open", "browser.find", "python"]


def demand(choice: str = "auto", allowed: tuple[str, ...] | None = None) -> Demand:
    return Demand(declared_tools(_TOOLS), choice, allowed)


def names(wanted: Demand) -> list[str]:
    return [tool.name for tool in callable_tools(wanted)]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (demand(), _NAMES),
        (demand("required"), _NAMES),
        (demand("none"), []),
        (demand("functions.stop"), ["functions.stop"]),
        (demand(allowed=("python", "functions.stop")), ["functions.stop", "python"]),
        (demand("required", ("python",)), ["python"]),
        (demand("none", ("python",)), []),
        (demand(allowed=()), []),
        (Demand(), []),
    ],
)
def test_the_tools_that_may_be_called(wanted: Demand, expected: list[str]) -> None:
    assert names(wanted) == expected


@pytest.mark.parametrize(
    "wanted",
    [
        demand("functions.nothing"),
        demand(allowed=("functions.nothing",)),
        demand("required", ()),
        Demand((), "required"),
        demand("functions.stop", ("python",)),
    ],
)
def test_a_demand_that_nothing_can_meet_is_an_error(wanted: Demand) -> None:
    with pytest.raises(InputError) as caught:
        completion_grammar(wanted)
    assert caught.value.code is ErrorCode.GRAMMAR_INVALID_OPTION


def test_a_tool_that_takes_text_has_its_form() -> None:
    form = TextForm("regex", "[a-z]+")
    tools = (ToolNamespace("functions", None, (ToolDescription("patch"),)),)
    demanded = Demand(declared_tools(tools, {"functions.patch": form}))
    [tool] = callable_tools(demanded)
    assert (tool.takes, tool.text_form) == ("text", form)
    grammar = completion_grammar(demanded)
    assert Text(form, "functions.patch") in nodes_of(grammar.rules["call_0"])


@pytest.mark.parametrize(
    ("wanted", "ends"),
    [
        (demand(), {"call", "final"}),
        (demand("none"), {"final"}),
        (demand("required"), {"call"}),
        (demand("python"), {"call"}),
        (Demand(), {"final"}),
    ],
)
def test_the_tool_choice_decides_how_a_completion_ends_and_reasoning_stays(wanted: Demand, ends: set[str]) -> None:
    grammar = completion_grammar(wanted)
    named = {node.name for node in nodes_of(grammar.rules["completion"]) if isinstance(node, Name)}
    assert named == {"analysis", "preamble", *ends}


def test_every_rule_is_there_and_is_used() -> None:
    grammar = completion_grammar(Demand(declared_tools(_TOOLS), response_format=ResponseFormat("city", _FORECAST)))
    used = {"completion"} | {
        node.name for rule in grammar.rules.values() for node in nodes_of(rule) if isinstance(node, Name)
    }
    assert used == set(grammar.rules)
    assert JsonValue(_FORECAST, "response_format") in nodes_of(grammar.rules["final"])


@pytest.mark.parametrize(
    ("text", "is_admitted"),
    [
        ("", True),
        ("plain words, 42 < 43 and f <| x |> g", True),
        ("<", True),
        ("<|", True),
        ("<<<|", True),
        ("<|<|<|", True),
        ("<|>", True),
        ("<|END|>", True),
        ("<||end|>", True),
        ("<|end|>", False),
        ("a<|start|>b", False),
        ("<<|call|>", False),
        ("<|<|message", False),
        ("<|x", False),
    ],
)
def test_plain_text_never_spells_a_control_token(text: str, is_admitted: bool) -> None:
    assert (re.fullmatch(as_regex(PLAIN_TEXT), text, re.DOTALL) is not None) is is_admitted


def test_no_special_token_of_the_vocabulary_can_be_spelled() -> None:
    plain = re.compile(as_regex(PLAIN_TEXT), re.DOTALL)
    assert [spelling for spelling in SPELLING_BY_ID.values() if plain.fullmatch(f"a {spelling} b")] == []


@pytest.mark.parametrize(
    ("begun", "first", "last"),
    [
        (Begun("analysis"), Name("plain"), Name("completion")),
        (Begun("analysis", has_text=True), Name("plain"), Name("completion")),
        (Begun("commentary"), Name("plain"), Name("completion")),
        (Begun("final"), Name("plain"), Special(200002)),
        (Begun("commentary", "functions.forecast"), JsonValue(_FORECAST, "functions.forecast"), Special(200012)),
        (Begun("analysis", "python", has_text=True), Name("plain"), Special(200012)),
    ],
)
def test_a_message_that_the_prompt_began_is_gone_on_with(begun: Begun, first: Node, last: Node) -> None:
    found = list(nodes_of(completion_grammar(demand(), begun).start))
    leaves = [node for node in found if not isinstance(node, Sequence)]
    assert (leaves[0], leaves[-1]) == (first, last)


@pytest.mark.parametrize(
    ("wanted", "begun"),
    [
        (demand("none"), Begun("commentary", "functions.forecast")),
        (demand("required"), Begun("final")),
        (demand(), Begun("commentary", "functions.forecast", has_text=True)),
    ],
)
def test_a_beginning_that_the_demand_does_not_admit_is_an_error(wanted: Demand, begun: Begun) -> None:
    with pytest.raises(InputError) as caught:
        completion_grammar(wanted, begun)
    assert caught.value.code is ErrorCode.GRAMMAR_INVALID_OPTION


def nodes_of(node: Node) -> list[Node]:
    """The node and all that it is made of, in order."""
    match node:
        case Sequence(nodes) | Choice(nodes):
            return [node, *(inner for each in nodes for inner in nodes_of(each))]
        case Repeat(inner):
            return [node, *nodes_of(inner)]
        case _:
            return [node]


def as_regex(node: Node) -> str:
    """Text rules as Python's regular expressions, to ask them what they admit."""
    match node:
        case Literal(text):
            return re.escape(text)
        case Chars(ranges, is_negated):
            listed = "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in ranges)
            return f"[{'^' if is_negated else ''}{listed}]"
        case Sequence(nodes):
            return "".join(as_regex(each) for each in nodes)
        case Choice(nodes):
            return f"(?:{'|'.join(as_regex(each) for each in nodes)})"
        case Repeat(inner, least, most):
            return f"(?:{as_regex(inner)}){{{least},{'' if most is None else most}}}"
        case _:
            raise AssertionError(node)


@pytest.mark.parametrize("wanted", [{"tool_choice": "f"}, {"allowed": ("f",)}, {"texts": {"f": None}}])
def test_a_name_that_is_not_declared_is_refused_with_those_that_are(wanted: dict[str, Any]) -> None:
    declared = (ToolNamespace("functions", None, (ToolDescription("f", "A tool."),)),)
    with pytest.raises(InputError) as caught:
        callable_tools(Demand(declared_tools(declared, wanted.pop("texts", None)), **wanted))
    assert caught.value.code is ErrorCode.GRAMMAR_INVALID_OPTION
    assert "functions.f" in caught.value.message
