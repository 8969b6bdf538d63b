"""What a server holds: opened together, closed together, and the names under which the model is served."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from harmonia.errors import ErrorCode, InputError
from harmonia.serve.config.settings import Limits, Settings
from harmonia.serve.responses.tools import connect_servers
from harmonia.serve.security.keys import Caller
from harmonia.serve.service import Service
from harmonia.serve.wire.error_responses import api_error_of
from tests.support.engines.scripted import ScriptedEngine, calls, final
from tests.support.servers.mcp_processes import SDK, http_server
from tests.support.servers.served import create, served, text_of


def in_folder(folder: Path, **more: Any) -> Settings:
    return Settings(store=f"sqlite:///{folder / 's.db'}", seal_key_file=str(folder / "seals.json"), **more)


class Closable(ScriptedEngine):
    is_closed = False

    async def close(self) -> None:
        self.is_closed = True


def test_opening_makes_what_is_not_there_and_closing_closes_the_engine(tmp_path: Path) -> None:
    async def run() -> None:
        engine = Closable(final("Hello."))
        async with Service.open(in_folder(tmp_path), engine) as service:
            assert text_of(await create(service, input="Hi")) == "Hello."
        assert engine.is_closed
        assert (tmp_path / "seals.json").stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "s.db").stat().st_mode & 0o777 == 0o600

    asyncio.run(run())


def test_what_is_too_old_is_deleted_at_the_start(tmp_path: Path) -> None:
    async def run() -> None:
        async with Service.open(in_folder(tmp_path), ScriptedEngine(final("Hello."))) as service:
            old = await create(service, input="Hi")
        limits = Limits(stored_days=1e-9)
        async with Service.open(in_folder(tmp_path, limits=limits), ScriptedEngine(final("x"))) as service:
            service.clock = lambda: 4e9
            await asyncio.wait_for(_gone(service, old["id"]), 60)

    asyncio.run(run())


async def _gone(service: Service, response_id: str) -> None:
    while True:
        try:
            await service.responses.retrieve(response_id, Caller())
        except InputError:
            return
        await asyncio.sleep(0)


def test_a_model_in_a_folder_is_served_under_its_last_name(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(final("x"))
        engine.model = "/secret/place/gpt-oss-20b"
        async with served(engine, tmp_path, aliases=("small",)) as service:
            assert service.model_names == ("gpt-oss-20b", "small")
            assert (await create(service, input="Hi", model="small"))["model"] == "small"

    asyncio.run(run())


@pytest.mark.parametrize(
    "name", ["gpt-oss-20b", "openai/gpt-oss-20b", "gpt-oss:20b", "GPT-OSS-20B", "gpt-oss-20b.gguf"]
)
def test_a_model_has_many_spellings(tmp_path: Path, name: str) -> None:
    async def run() -> None:
        engine = ScriptedEngine(final("x"))
        engine.model = "openai/gpt-oss-20b"
        async with served(engine, tmp_path) as service:
            assert service.known_model(name) in (name, "openai/gpt-oss-20b")
            with pytest.raises(InputError) as caught:
                service.known_model("gpt-oss-120b")
            assert caught.value.code is ErrorCode.SERVE_UNKNOWN_MODEL

    asyncio.run(run())


def mcp_file(folder: Path) -> str:
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"sums": {"command": sys.executable, "args": [SDK, "stdio"]}}}))
    return str(path)


ADD = calls("sums___echo", '{"text": "5"}')


@pytest.mark.parametrize("rules", [{}, {"*": "ask", "sums.echo": "run"}, {"sums": "ask"}, {"sums.echo": "refuse"}])
def test_an_mcp_server_of_the_operators_runs_by_its_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: dict[str, str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    async def run() -> None:
        settings = in_folder(tmp_path, mcp=mcp_file(tmp_path), mcp_approval=rules)
        engine = ScriptedEngine(ADD, final("Five."))
        async with Service.open(settings, engine) as service:
            response = await create(service, input="2 + 3?")
        kinds = [item["type"] for item in response["output"]]
        match rules.get("sums.echo", rules.get("sums", "run")):
            case "run":
                assert kinds == ["mcp_call", "message"]
                assert (response["output"][0]["server_label"], response["output"][0]["output"]) == ("sums", "5")
            case "ask":
                assert kinds == ["mcp_approval_request"]
            case _:
                assert kinds == ["reasoning", "message"]

    asyncio.run(run())


async def refusal(service: Service, tool: dict[str, Any]) -> tuple[int, str, str | None, str]:
    with pytest.raises(InputError) as caught:
        await create(service, input="Hi", tools=[tool])
    problem = api_error_of(caught.value)
    return problem.status, problem.code, problem.param, problem.message


def test_a_server_that_a_client_names_is_used_where_the_operator_allows_it(tmp_path: Path) -> None:
    async def run(url: str) -> None:
        tool = {"type": "mcp", "server_label": "sums", "server_url": url, "require_approval": "never"}
        engine = ScriptedEngine(ADD, final("Five."))
        async with served(engine, tmp_path, allow_client_mcp=True, client_mcp_hosts=("127.0.0.1",)) as service:
            response = await create(service, input="2 + 3?", tools=[{**tool, "authorization": "secret"}])
            listed, call = response["output"][:2]
            assert (listed["type"], listed["server_label"]) == ("mcp_list_tools", "sums")
            echo = next(each for each in listed["tools"] if each["name"] == "echo")
            assert echo["input_schema"]["properties"].keys() == {"text"}
            assert echo["annotations"] == {"readOnlyHint": True}
            assert call["output"] == "5"
            async with AsyncExitStack() as stack:
                offered = await connect_servers([tool], service.settings, stack)
                assert offered
                # A pattern in a stranger's schema is never matched here.
                assert not any(each.tool.checks_arguments for each in offered)
            assert "secret" not in json.dumps(response)
            assert await refusal(service, {**tool, "server_url": "http://u:secret@127.0.0.1:9/mcp?key=secret"}) == (
                424,
                "mcp_server_unreachable",
                "tools[0].server_url",
                "the MCP server 'sums' at http://127.0.0.1:9/mcp cannot be reached, is on a private network that the "
                "operator does not allow (client_mcp_hosts), or does not speak MCP; check its URL",
            )
            status, code, param, message = await refusal(service, {**tool, "allowed_tools": ["ecko"]})
            assert (status, code, param) == (400, "invalid_value", "tools[0].allowed_tools")
            assert "'sums' has none of these tools; it has: " in message and "echo" in message
            response = await create(service, input="Hi", tools=[{**tool, "allowed_tools": []}])
            assert response["status"] == "completed"

    with http_server(SDK) as (url, _):
        asyncio.run(run(url))
