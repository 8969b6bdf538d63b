"""The configuration of MCP servers: the JSON that people keep, its faults, and what a server may know of us."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia.errors import ErrorCode, InputError
from harmonia.parts.message_parts import split_name
from harmonia.run.tools.mcp import HttpServer, StdioServer, Timeouts, connect, read_servers
from harmonia.run.tools.mcp.configuration import environment_for

USUAL = """{"mcpServers": {
  "files": {"command": "npx", "args": ["-y", "files", "${HOME}/notes"],
            "env": {"TOKEN": "${TOKEN}", "LEVEL": "${L:-low}"}},
  "web": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"},
          "allowed_tools": ["search"], "timeouts": {"call_s": 5}},
  "off": {"command": "x", "disabled": true, "autoApprove": ["everything"]}
}}"""
VARIABLES = {"HOME": "/home/me", "TOKEN": "secret"}


def test_the_usual_json_is_read_from_text_value_or_file(tmp_path: Path) -> None:
    files = StdioServer("files", "npx", ("-y", "files", "/home/me/notes"), {"TOKEN": "secret", "LEVEL": "low"})
    web = HttpServer(
        "web",
        "https://example.com/mcp",
        {"Authorization": "Bearer secret"},
        frozenset(("search",)),
        Timeouts(call_s=5),
    )
    path = tmp_path / "mcp.json"
    path.write_text(USUAL)
    for source in (USUAL, USUAL.encode(), json.loads(USUAL), path):
        assert read_servers(source, VARIABLES) == (files, web)
    assert "secret" not in repr(files) + repr(web)


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ({}, "$.mcpServers.a"),
        ({"command": "x", "url": "http://h"}, "$.mcpServers.a"),
        ({"command": 5}, "$.mcpServers.a.command"),
        ({"command": ""}, "$.mcpServers.a.command"),
        ({"command": "x", "args": ["y", 5]}, "$.mcpServers.a.args[1]"),
        ({"command": "x", "args": ["y", "${NOT_SET}"]}, "$.mcpServers.a.args[1]"),
        ({"command": "x", "env": {"A": 1}}, "$.mcpServers.a.env.*"),
        ({"command": "x", "env": {"A": "${NOT_SET}"}}, "$.mcpServers.a.env.A"),
        ({"command": "x", "agrs": []}, "$.mcpServers.a"),
        ({"command": "x", "headers": {}}, "$.mcpServers.a"),
        ({"command": "x", "timeouts": {"call_s": 0}}, "$.mcpServers.a.timeouts.call_s"),
        ({"command": "x", "timeouts": {"call": 1}}, "$.mcpServers.a.timeouts"),
        ({"url": "ftp://h"}, "$.mcpServers.a.url"),
        ({"url": "http://"}, "$.mcpServers.a.url"),
        ({"url": "http://h:99999"}, "$.mcpServers.a.url"),
        ({"url": "http://h", "headers": {"X": "a\nb"}}, "$.mcpServers.a.headers.X"),
        ({"url": "http://h", "headers": {"X Y": "a"}}, "$.mcpServers.a.headers.X Y"),
        ({"url": "http://h", "type": "stdio"}, "$.mcpServers.a.type"),
        ({"url": "http://h", "type": "sse"}, "$.mcpServers.a.type"),
        ({"url": "http://h", "type": "carrier pigeon"}, "$.mcpServers.a.type"),
        ({"url": "http://h", "type": 5}, "$.mcpServers.a.type"),
    ],
)
def test_a_fault_says_where_it_is(entry: dict[str, Any], path: str) -> None:
    with pytest.raises(InputError) as caught:
        read_servers({"mcpServers": {"a": entry}}, VARIABLES)
    assert caught.value.code is ErrorCode.TOOL_INVALID_DEFINITION
    assert caught.value.at.path == path


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("{", "$"),
        ("[]", "$"),
        ("{}", "$"),
        ('{"mcpServers": []}', "$.mcpServers"),
        ('{"mcpServers": {"a": 5}}', "$.mcpServers.*"),
        ('{"mcpServers": {"a___b": {"command": "x"}}}', "$.mcpServers.a___b"),
        ('{"mcpServers": {"a b_": {"command": "x"}}}', '$.mcpServers["a b_"]'),
        (b"\xff", "$"),
    ],
)
def test_a_fault_outside_a_server_says_where_it_is_too(source: str | bytes, path: str) -> None:
    with pytest.raises(InputError) as caught:
        read_servers(source)
    assert caught.value.code is ErrorCode.TOOL_INVALID_DEFINITION
    assert caught.value.at.path == path


def test_a_file_that_is_not_there_is_an_error_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_servers(tmp_path / "none.json")
    assert caught.value.code is ErrorCode.TOOL_INVALID_DEFINITION


@given(
    st.text(max_size=8) | st.text("_amcp.", max_size=8),
    st.text(min_size=1, max_size=8) | st.text("_a.", min_size=1, max_size=8),
)
def test_names_of_servers_that_are_accepted_split_from_every_tool(server: str, tool: str) -> None:
    try:
        StdioServer(server, "x")
    except InputError as error:
        assert error.code is ErrorCode.TOOL_INVALID_DEFINITION
        return
    assert split_name(f"{server}___{tool}") == (server, tool)
    assert split_name(f"functions.{server}___{tool}") == (server, tool)


@pytest.mark.parametrize("name", ["files", "my-server", "my server", "com.example/files", "größe", "a__b"])
def test_ordinary_names_of_servers_are_accepted(name: str) -> None:
    assert HttpServer(name, "http://localhost:8000/mcp").name == name


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_no_variable_passes_that_was_not_named(ours: dict[str, str]) -> None:
    server = StdioServer("a", "x", env={"OWN": "1"}, pass_env=("NAMED",))
    ours |= {
        "OPENAI_API_KEY": "3",
        "NAMED": "2",
        "PATH": "/bin",
        "BASH_FUNC_x%%": "() { :; }",
        "TERM": "() { :; }",
        "LC_ALL": "C",
    }
    theirs = environment_for(server, ours)
    assert theirs.items() >= {"OWN": "1", "NAMED": "2", "PATH": "/bin", "LC_ALL": "C"}.items()
    assert not set(theirs) & {"TERM", "BASH_FUNC_x%%"}
    harmless = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "NO_COLOR", "LANG", "LANGUAGE", "TZ"}
    harmless |= {"TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "PATHEXT", "COMSPEC", "NAMED", "OWN"}
    assert {name for name in theirs if not name.startswith("LC_")} <= harmless


def test_two_servers_of_one_name_and_an_unknown_policy_are_refused() -> None:
    async def main(**options: Any) -> None:
        async with connect([StdioServer("a", "x"), HttpServer("a", "http://h")], **options):
            raise AssertionError

    with pytest.raises(InputError) as caught:
        asyncio.run(main())
    assert caught.value.code is ErrorCode.TOOL_REPEATED_NAME

    async def wrong() -> None:
        async with connect([], policy="trust"):  # pyright: ignore[reportArgumentType] - what a misspelling does
            raise AssertionError

    with pytest.raises(InputError) as caught:
        asyncio.run(wrong())
    assert caught.value.code is ErrorCode.RUN_INVALID_OPTION


WITHOUT_MCP = """
import asyncio, sys
sys.modules["mcp"] = None
from harmonia.errors import InputError
from harmonia.run.tools.mcp import connect, read_servers
servers = read_servers('{"mcpServers": {"a": {"command": "x"}}}')

async def main():
    async with connect(servers):
        pass

try:
    asyncio.run(main())
except InputError as error:
    print(error.code)
"""


def test_without_the_package_the_error_names_the_extra() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT_MCP], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ErrorCode.TOOL_MISSING_EXTRA


def test_what_was_filled_in_is_in_no_repr() -> None:
    servers = read_servers(
        {
            "mcpServers": {
                "files": {"command": "npx", "args": ["--key=${TOKEN}"]},
                "web": {"url": "https://example.com/mcp?key=${TOKEN}"},
            }
        },
        VARIABLES,
    )
    assert "secret" not in repr(servers)
