"""Listing and calling the tools of real MCP servers, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from harmonia.errors import ErrorCode, HarmonyError, InputError, ToolError
from harmonia.parts.message_parts import split_name
from harmonia.run.tools.mcp import HttpServer, McpTools, StdioServer, Timeouts, connect
from harmonia.run.tools.mcp.connection import LIMIT_BYTES, Complaints, Connection
from tests.support.servers.mcp_processes import (
    LEGACY,
    LONG,
    SDK,
    children,
    http_server,
    is_running,
    legacy_server,
    run,
    sdk_server,
    until,
)

# Three pages of the server's list.
SDK_TOOLS = ["echo", "environment", "fail", "refuse", "wait", "log", "die", "show", "sum", "lie", "pid", "announce"]


async def code_of(mcp: McpTools, name: str, **arguments: object) -> ErrorCode:
    with pytest.raises(HarmonyError) as caught:
        await mcp.call(name, dict(arguments))
    return caught.value.code


# ── listing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_page_of_the_list_becomes_tools_that_can_be_called() -> None:
    async def main() -> None:
        async with connect([sdk_server()], policy="trust_first") as mcp:
            assert [tool.name for tool in mcp.tools] == [f"sdk___{name}" for name in SDK_TOOLS]
            assert [split_name(tool.name) for tool in mcp.tools] == [("sdk", name) for name in SDK_TOOLS]
            echo = mcp.tools[0]
            assert echo.description == "Says it again."
            assert isinstance(echo.parameters, dict) and echo.parameters["required"] == ["text"]
            assert echo.invoke is not None
            assert await echo.invoke({"text": "grüße"}) == "grüße"
            assert mcp.servers[0].protocol == "2026-07-28"

    run(main)


def test_a_server_of_an_older_protocol_is_used_the_same_way() -> None:
    async def main() -> None:
        async with connect([legacy_server()], policy="trust_first") as mcp:
            assert mcp.servers[0].protocol == "2025-06-18"
            assert int(await mcp.call("old___pid")) > 0

    run(main)


def test_only_allowed_tools_are_offered_and_a_misspelt_one_is_reported() -> None:
    async def main() -> None:
        async with connect([legacy_server(allowed_tools=frozenset(("pid", "pdi")))], policy="trust_first") as mcp:
            assert [tool.name for tool in mcp.tools] == ["old___pid"]
            assert await code_of(mcp, "old___rename", to="x") is ErrorCode.TOOL_NOT_ALLOWED
            assert mcp.servers[0].withheld["pdi"].code is ErrorCode.TOOL_UNKNOWN
            assert await code_of(mcp, "old___nothing") is ErrorCode.TOOL_UNKNOWN
            assert await code_of(mcp, "nobody___pid") is ErrorCode.TOOL_UNKNOWN
            assert await code_of(mcp, "pid") is ErrorCode.TOOL_UNKNOWN

    run(main)


@pytest.mark.parametrize("kind", ["loop", "many"])
def test_a_list_without_an_end_or_with_too_many_tools_is_an_error_of_that_server(kind: str) -> None:
    async def main() -> None:
        async with connect([legacy_server(kind)], policy="trust_first") as mcp:
            error = mcp.servers[0].error
            assert error is not None and error.code is ErrorCode.TOOL_FAILED
            assert mcp.tools == ()

    run(main)


def test_of_two_tools_with_one_name_none_is_offered() -> None:
    async def main() -> None:
        async with connect([legacy_server("twice")], policy="trust_first") as mcp:
            assert [tool.name for tool in mcp.tools] == ["old___other"]
            assert await code_of(mcp, "old___pid") is ErrorCode.TOOL_REPEATED_NAME

    run(main)


def test_lines_that_are_no_json_do_not_disturb_and_are_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        async with connect([legacy_server("noisy")], policy="trust_first") as mcp:
            assert int(await mcp.call("old___pid")) > 0

    run(main)
    assert capfd.readouterr() == ("", "")


# ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_answers_of_every_kind_and_errors_of_every_kind() -> None:
    async def main() -> None:
        async with connect([sdk_server()], policy="trust_first") as mcp:
            assert (await mcp.call("sdk___show")).splitlines() == [
                "Here.",
                "[image: image/png, 5 bytes, not shown]",
                "[audio: audio/wav, 5 bytes, not shown]",
                "[link: text/plain, file:///a.txt (a⟨U+202E⟩.txt)]",
                "[resource: text/plain, file:///b.txt]",
                "inside b",
                "[resource: file:///c.bin, 5 bytes, not shown]",
            ]
            assert await mcp.call("sdk___sum") == 'a sum\n{"total": 5}'
            with pytest.raises(ToolError) as failed:
                await mcp.call("sdk___fail")
            assert failed.value.code is ErrorCode.TOOL_FAILED
            assert failed.value.message == "no such city: Atlantis"
            assert await code_of(mcp, "sdk___refuse") is ErrorCode.TOOL_FAILED
            assert await code_of(mcp, "sdk___lie") is ErrorCode.TOOL_FAILED
            # After all that the connection is the same.
            assert mcp.servers[0].is_connected and not mcp.is_stale

    run(main)


# ── the environment and standard error ──────────────────────────────────────────────────────────────────────────────


def test_a_server_gets_the_basics_and_what_is_named_and_no_secret_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "PYTHONPATH", "LD_PRELOAD", "NAMED"):
        monkeypatch.setenv(name, f"our {name}" if name != "LD_PRELOAD" else "")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("TMPDIR", "/tmp")

    async def main() -> dict[str, str]:
        server = sdk_server(env={"OWN": "given"}, pass_env=("NAMED", "NOT_SET"))
        async with connect([server], policy="trust_first") as mcp:
            return json.loads(await mcp.call("sdk___environment"))

    theirs = run(main)
    assert theirs["OWN"] == "given" and theirs["NAMED"] == "our NAMED"
    assert theirs["PATH"] == os.environ["PATH"] and theirs["LC_TIME"] == "C" and theirs["TMPDIR"] == "/tmp"
    basics = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "NO_COLOR", "LANG", "LANGUAGE", "TZ"}
    allowed = basics | {"TMPDIR", "TEMP", "TMP", "OWN", "NAMED"}
    # LC_CTYPE is what Python sets for itself where no locale is named.
    assert {name for name in theirs if not name.startswith("LC_")} <= allowed


def test_standard_error_is_kept_for_errors_and_printed_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        async with connect([sdk_server()], policy="trust_first") as mcp:
            await until(lambda: mcp.servers[0].complaints == "the server starts")
            with pytest.raises(ToolError) as died:
                await mcp.call("sdk___die")
            assert died.value.code is ErrorCode.TOOL_SERVER_UNREACHABLE
            # The operator is told; the model, which gets the message, is not.
            (note,) = died.value.__notes__
            assert note.endswith("the server starts\nout of memory, says ⟨U+001B⟩[31mthe server")
            assert "out of memory" not in died.value.message

    run(main)
    assert capfd.readouterr() == ("", "")


def test_of_standard_error_only_the_last_is_kept() -> None:
    async def main() -> None:
        complaints = Complaints()
        written = "".join(f"line {number}\n" for number in range(20_000))
        # More than a pipe holds: it only goes through because the loop reads meanwhile.
        await asyncio.to_thread(lambda: (complaints.file.write(written), complaints.file.flush()))
        assert complaints.text == written[-LIMIT_BYTES:].strip()
        complaints.close()
        complaints.close()
        assert complaints.text == written[-LIMIT_BYTES:].strip()

    run(main)


# ── servers that fail ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_server_that_cannot_be_started_does_not_take_the_others_down(tmp_path: Path) -> None:
    crashing = StdioServer("crashing", sys.executable, ("-c", "raise SystemExit('no configuration')"), timeouts=LONG)
    missing = StdioServer("missing", str(tmp_path / "nothing"), timeouts=LONG)

    async def main() -> None:
        async with connect([missing, legacy_server(), crashing], policy="trust_first") as mcp:
            one, two, three = mcp.servers
            assert one.error is not None and one.error.code is ErrorCode.TOOL_SERVER_UNREACHABLE
            assert two.error is None and two.is_connected and len(mcp.tools) == 3
            assert three.error is not None and three.error.code is ErrorCode.TOOL_SERVER_UNREACHABLE
            assert three.error.__notes__ == ["it wrote to its standard error:\nno configuration"]
            assert await code_of(mcp, "missing___x") is ErrorCode.TOOL_SERVER_UNREACHABLE
            assert mcp.is_stale

    run(main)


def test_strict_raises_the_failure_and_ends_the_other_servers(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    noting = ("-c", f"import os,runpy; open({str(pid_file)!r},'w').write(str(os.getpid())); runpy.run_path({LEGACY!r})")
    good = StdioServer("good", sys.executable, noting, timeouts=LONG)

    async def main() -> None:
        with pytest.raises(ToolError) as caught:
            async with connect([good, StdioServer("bad", str(tmp_path / "nothing"))], strict=True):
                raise AssertionError
        assert caught.value.code is ErrorCode.TOOL_SERVER_UNREACHABLE

    run(main)
    assert not pid_file.exists() or not is_running(int(pid_file.read_text()))


def test_a_server_that_never_answers_the_handshake_is_given_up_and_ended() -> None:
    stalling = legacy_server("stall", timeouts=Timeouts(connect_s=0.5))

    async def main() -> None:
        async with connect([stalling]) as mcp:
            error = mcp.servers[0].error
            assert error is not None and error.code is ErrorCode.TOOL_SERVER_UNREACHABLE
            assert not mcp.servers[0].is_connected

    run(main)


def test_a_server_that_dies_fails_its_call_and_the_next_call_starts_it_again() -> None:
    async def main() -> None:
        async with connect([sdk_server(), legacy_server()], policy="trust_first") as mcp:
            first = await mcp.call("sdk___pid")
            dying, waiting = await asyncio.gather(mcp.call("sdk___die"), mcp.call("sdk___wait"), return_exceptions=True)
            for error in (dying, waiting):
                assert isinstance(error, ToolError) and error.code is ErrorCode.TOOL_SERVER_UNREACHABLE
            assert not mcp.servers[0].is_connected and mcp.servers[1].is_connected
            second = await mcp.call("sdk___pid")
            assert second != first and not is_running(int(first)) and is_running(int(second))

    run(main)


def test_a_server_that_died_unnoticed_is_started_again_by_a_refresh() -> None:
    async def main() -> None:
        async with connect([legacy_server()], policy="trust_first") as mcp:
            pid = int(await mcp.call("old___pid"))
            os.kill(pid, 9)
            await until(lambda: not mcp.servers[0].is_connected)
            assert mcp.is_stale
            assert len(await mcp.refresh("old")) == 3
            assert int(await mcp.call("old___pid")) != pid
            with pytest.raises(InputError) as caught:
                await mcp.refresh("nobody")
            assert caught.value.code is ErrorCode.TOOL_UNKNOWN

    run(main)


# ── timeouts and cancellation ───────────────────────────────────────────────────────────────────────────────────────


def test_a_call_that_times_out_is_called_off_and_the_connection_stays() -> None:
    async def main() -> None:
        async with connect([sdk_server(timeouts=Timeouts(call_s=2))], policy="trust_first") as mcp:
            pid = await mcp.call("sdk___pid")
            assert await code_of(mcp, "sdk___wait") is ErrorCode.TOOL_TIMED_OUT
            assert await mcp.call("sdk___log") == "started cancelled"
            assert await mcp.call("sdk___pid") == pid

    run(main)


def test_a_caller_that_is_cancelled_calls_off_his_call_only(tmp_path: Path) -> None:
    started = tmp_path / "started"

    async def main() -> None:
        async with connect([sdk_server(env={"STARTED": str(started)})], policy="trust_first") as mcp:
            waiting = asyncio.create_task(mcp.call("sdk___wait"))
            await until(started.exists)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert await mcp.call("sdk___log") == "started cancelled"

    run(main)


def test_calls_from_many_tasks_go_through_one_connection() -> None:
    async def main() -> None:
        async with connect([sdk_server()], policy="trust_first") as mcp:
            texts = [str(number) for number in range(50)]
            assert await asyncio.gather(*(mcp.call("sdk___echo", {"text": text}) for text in texts)) == texts

    run(main)


def test_no_process_is_left_when_the_block_ends_or_its_task_is_cancelled() -> None:
    pids: list[int] = []

    async def use(mcp_is_ready: asyncio.Event, *, ends: bool) -> None:
        async with connect([legacy_server(), sdk_server()], policy="trust_first") as mcp:
            pids.extend([int(await mcp.call("old___pid")), int(await mcp.call("sdk___pid"))])
            mcp_is_ready.set()
            if not ends:
                await mcp.call("sdk___wait")

    async def main() -> None:
        await use(asyncio.Event(), ends=True)
        assert not any(map(is_running, pids))
        ready = asyncio.Event()
        using = asyncio.create_task(use(ready, ends=False))
        await ready.wait()
        assert is_running(pids[-1])
        using.cancel()
        # Impatient: the second comes while the servers are being ended.
        await asyncio.sleep(0)
        using.cancel()
        with pytest.raises(asyncio.CancelledError):
            await using
        assert not any(map(is_running, pids))

    run(main)
    assert len(pids) == 4


def test_a_stubborn_server_is_killed_although_the_caller_is_cancelled() -> None:
    async def main() -> int:
        ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def use() -> None:
            async with connect([legacy_server("stubborn")], policy="trust_first") as mcp:
                ready.set_result(int(await mcp.call("old___pid")))
                await asyncio.Event().wait()

        using = asyncio.create_task(use())
        pid = await ready
        using.cancel()
        await asyncio.wait([using], timeout=0.5)
        using.cancel()
        with pytest.raises(asyncio.CancelledError):
            await using
        return pid

    assert not is_running(run(main))


def test_no_process_is_left_when_connecting_is_cancelled(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    hanging = f"import os,sys; open({str(pid_file)!r},'w').write(str(os.getpid()) + '.'); sys.stdin.read()"
    server = StdioServer("hanging", sys.executable, ("-c", hanging), timeouts=LONG)

    async def main() -> None:
        async def use() -> None:
            async with connect([server]):
                raise AssertionError

        using = asyncio.create_task(use())
        await until(lambda: pid_file.exists() and pid_file.read_text().endswith("."))
        assert is_running(int(pid_file.read_text()[:-1]))
        using.cancel()
        with pytest.raises(asyncio.CancelledError):
            await using

    run(main)
    assert not is_running(int(pid_file.read_text()[:-1]))


def test_connecting_can_be_cancelled_at_any_moment() -> None:
    before = children()

    async def use() -> None:
        async with connect([legacy_server(), legacy_server(name="two")], policy="trust_first"):
            await asyncio.Event().wait()

    async def main() -> None:
        for steps in range(25):
            using = asyncio.create_task(use())
            for _ in range(steps):
                await asyncio.sleep(0)
            using.cancel()
            with pytest.raises(asyncio.CancelledError):
                await using
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert children() <= before

    run(main)


def test_a_connection_that_is_closed_before_it_began_says_so() -> None:
    async def main() -> None:
        connection = Connection(legacy_server())
        opening = asyncio.create_task(connection.list_tools())
        await asyncio.sleep(0)
        # The task that would start the server exists and has not run.
        await connection.close()
        with pytest.raises(ToolError) as caught:
            await opening
        assert caught.value.code is ErrorCode.TOOL_SERVER_UNREACHABLE

    before = children()
    run(main)
    assert children() <= before


def test_a_server_that_is_being_ended_is_ended_although_connecting_is_cancelled(tmp_path: Path) -> None:
    ending = tmp_path / "ending"
    before = children()

    async def main() -> None:
        async def use() -> None:
            async with connect([legacy_server("rude", env={"STARTED": str(ending)})]):
                raise AssertionError

        using = asyncio.create_task(use())
        # It has refused the handshake, and the end of its input has come.
        await until(ending.exists)
        using.cancel()
        with pytest.raises(asyncio.CancelledError):
            await using
        assert children() <= before

    run(main)


def test_after_the_block_a_tool_says_that_the_connection_is_closed() -> None:
    async def main() -> None:
        async with connect([legacy_server()], policy="trust_first") as mcp:
            pass
        assert await code_of(mcp, "old___pid") is ErrorCode.TOOL_SERVER_UNREACHABLE

    run(main)


# ── streamable HTTP ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_server_over_http_is_called_with_its_headers_and_timeouts() -> None:
    async def main() -> None:
        with http_server(SDK) as (url, _):
            server = HttpServer("web", url, {"X-Key": "abc"}, timeouts=Timeouts(call_s=2))
            async with connect([server], policy="trust_first") as mcp:
                assert [tool.name for tool in mcp.tools] == [f"web___{name}" for name in SDK_TOOLS]
                assert await mcp.call("web___echo", {"text": "hi"}) == "hi"
                assert await code_of(mcp, "web___wait") is ErrorCode.TOOL_TIMED_OUT
                assert await mcp.call("web___log") == "started cancelled key=abc"

    run(main)


def test_an_http_server_that_goes_away_is_reported_and_found_again() -> None:
    async def main() -> None:
        with http_server(SDK) as (url, process):
            port = url.split(":")[2].split("/")[0]
            async with connect([HttpServer("web", url, timeouts=LONG)], policy="trust_first") as mcp:
                assert await code_of(mcp, "web___die") is ErrorCode.TOOL_SERVER_UNREACHABLE
                process.wait()
                assert await code_of(mcp, "web___pid") is ErrorCode.TOOL_SERVER_UNREACHABLE
                with http_server(SDK, port):
                    assert int(await mcp.call("web___pid")) != process.pid

    run(main)


def test_an_address_at_which_nobody_answers_is_reported() -> None:
    async def main() -> None:
        with http_server(LEGACY) as (url, process):
            process.kill()
            process.wait()
            async with connect([HttpServer("web", url, timeouts=LONG)]) as mcp:
                error = mcp.servers[0].error
                assert error is not None and error.code is ErrorCode.TOOL_SERVER_UNREACHABLE

    run(main)


def test_an_http_session_that_has_expired_is_begun_anew() -> None:
    async def main() -> None:
        with http_server(LEGACY) as (url, process):
            async with connect([HttpServer("web", url, timeouts=LONG)], policy="trust_first") as mcp:
                # This server then forgets its sessions. It changes nothing, so the pins still hold.
                assert await mcp.call("web___rename_quietly", {"to": "As agreed."}) == "done"
                assert int(await mcp.call("web___pid")) == process.pid

    run(main)


def test_an_http_server_that_does_not_answer_the_farewell_keeps_nobody() -> None:
    async def main() -> None:
        with http_server(LEGACY, "clinging") as (url, process):
            async with connect([HttpServer("web", url, timeouts=LONG)], policy="trust_first") as mcp:
                assert int(await mcp.call("web___pid")) == process.pid

    run(main)
