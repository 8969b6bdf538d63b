"""Legal names: every name gets one, no two the same, and each leads back."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia import Message, call_of
from harmonia.run.tools import Tool, ToolSet
from harmonia.run.tools.tool_set import is_legal, legal_names

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# Names that clash when they are made legal, beside arbitrary ones, and ones that look as if they had been made legal.
COLLIDING = st.sampled_from(
    [
        "a b",
        "a-b",
        "a.b",
        "a_b",
        "a  b",
        "A b",
        "_a_b",
        "ä",
        "a",
        "天気",
        "天",
        "",
        " ",
        "_",
        "__",
        "1a",
        "_1a",
        "a" * 65,
    ]
)
NAMES = st.one_of(
    COLLIDING,
    st.text(max_size=80),
    st.text(st.characters(codec=None, categories=None), max_size=8),
    st.text("ab_- .", max_size=5),
    COLLIDING.map(lambda name: next(iter(legal_names([name, f"{name}!", f"{name}?"]).values()))),
)


@given(st.lists(NAMES, max_size=12))
def test_every_name_becomes_a_legal_one_that_nobody_else_has(names: list[str]) -> None:
    legal = legal_names(names)
    assert set(legal) == set(names)
    assert all(IDENTIFIER.fullmatch(name) and len(name) <= 64 for name in legal.values())
    assert len(set(legal.values())) == len(legal)


@given(st.lists(NAMES, max_size=12), st.randoms(use_true_random=False))
def test_the_order_of_the_names_does_not_matter(names: list[str], random: Random) -> None:
    shuffled = list(names)
    random.shuffle(shuffled)
    assert legal_names(shuffled) == legal_names(names)


@given(st.lists(NAMES, max_size=12))
def test_a_legal_name_stays_as_it_is(names: list[str]) -> None:
    legal = legal_names(names)
    assert all(legal[name] == name for name in names if is_legal(name))
    # So making legal what is legal changes nothing.
    assert legal_names(legal.values()) == {name: name for name in legal.values()}


@given(st.lists(NAMES, max_size=8), st.lists(NAMES, max_size=4))
def test_no_name_becomes_a_reserved_one(names: list[str], reserved: list[str]) -> None:
    assert not set(legal_names(names, reserved).values()) & set(reserved)


@given(
    st.lists(
        st.tuples(NAMES, st.one_of(st.just("functions"), st.none(), NAMES)),
        max_size=8,
        unique=True,
    )
)
def test_what_a_set_declares_leads_back_to_the_tool(named: list[tuple[str, str | None]]) -> None:
    spaces = {space for _, space in named}
    tools = [Tool(name, namespace=space) for name, space in named if space is not None or name not in spaces]
    tool_set = ToolSet(tools)
    recipients = [tool_set.recipient_of(tool) for tool in tools]
    assert len(set(recipients)) == len(tools)
    for tool, recipient in zip(tools, recipients, strict=True):
        assert tool_set.find(recipient) is tool
        # A call to it is read as one, and as one to a declared tool.
        call = call_of(Message.call(recipient, "{}"), tool_set.declared)
        assert call is not None and call.kind == "declared"


WORDS = st.sampled_from(["a", "b", "a b", "a___b", "mcp__a__b", "a.b", "functions", "python", "browser", "user"])


@given(st.lists(st.tuples(WORDS, st.one_of(st.just("functions"), st.none(), WORDS)), max_size=6, unique=True))
def test_the_parser_knows_exactly_the_names_that_a_set_finds(named: list[tuple[str, str | None]]) -> None:
    spaces = {space for _, space in named}
    tools = ToolSet(Tool(name, namespace=space) for name, space in named if space is not None or name not in spaces)
    words = ["a", "b", "a_b", "a b", "functions", "python", "browser", "user", "c"]
    written = [*words, *(f"{a}{between}{b}" for a in words for b in words for between in (".", "___"))]
    written += [f"{before}{name}" for name in written for before in ("functions.", "mcp__", "functions.mcp__")]
    for name in written:
        assert (tools.find(name) is not None) == tools.declared.declares(name), name


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("get weather", "get_weather"),
        ("get-weather", "get_weather"),
        ("files.read", "files_read"),
        ("größe", "grosse"),
        ("Café", "Cafe"),
        ("3d print", "_3d_print"),
        ("a_-_b", "a_b"),
        ("git-hub___list-issues", "git_hub___list_issues"),
        ("mcp__git-hub__list", "mcp__git_hub__list"),
    ],
)
def test_a_name_stays_readable(name: str, legal: str) -> None:
    assert legal_names([name]) == {name: legal}


def test_a_name_that_another_has_leaves_it_to_him() -> None:
    legal = legal_names(["get-weather", "get_weather"])
    assert legal["get_weather"] == "get_weather"
    assert re.fullmatch(r"get_weather_[0-9a-f]{8}", legal["get-weather"])
