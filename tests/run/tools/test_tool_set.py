"""Sets of tools: what is declared, which tool is meant, what may run, and the running."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest

from harmonia import BROWSER, PYTHON, Call, ErrorCode, InputError, Message, Position, ToolError, call_of
from harmonia.messages import Json, ToolDescription, ToolNamespace
from harmonia.run.tools import Tool, ToolResult, ToolSet, tool
from tests.support.watchdog import WATCHDOG_S

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

T = TypeVar("T")


def call_to(recipient: str, text: str = "{}", tools: ToolSet | None = None) -> Call:
    call = call_of(Message.call(recipient, text), tools.declared if tools else None)
    assert call is not None
    return call


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(coroutine, WATCHDOG_S))


def run(invoke: Callable[[Any], Awaitable[Any] | Any], text: str = "{}", **options: Any) -> ToolResult:
    tools = ToolSet([Tool("x", invoke=invoke)])
    return wait_for(tools.run(call_to("functions.x", text), **options))


def failure(invoke: Callable[[Any], Awaitable[Any] | Any], **options: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        run(invoke, **options)
    return caught.value


def refusal(tools: ToolSet, call: Call) -> ToolError:
    with pytest.raises(ToolError) as caught:
        tools.check(call)
    return caught.value


# ── what is declared ────────────────────────────────────────────────────────────────────────────────────────────────


def test_everything_that_is_a_tool_can_be_put_in() -> None:
    def plain() -> None: ...

    @tool(namespace="mine")
    def marked() -> None: ...

    tools = ToolSet(
        [
            plain,
            marked,
            Tool("made"),
            {"type": "function", "function": {"name": "nested"}},
            {"name": "listed", "inputSchema": {"type": "object"}},
            {"name": "space", "description": "A space.", "tools": [{"name": "inside"}]},
            ToolDescription("described"),
            PYTHON,
            BROWSER,
        ]
    )
    assert [namespace.name for namespace in tools.developer_namespaces] == ["functions", "mine", "space"]
    assert [each.name for each in tools.namespaces[0].tools] == ["plain", "made", "nested", "listed", "described"]
    assert tools.developer_namespaces[2].description == "A space."
    assert tools.system_namespaces == (PYTHON, BROWSER)
    assert len(tools) == 11


@pytest.mark.parametrize("given", [3, None, "weather", [1], {}])
def test_what_is_no_tool_is_refused(given: Any) -> None:
    with pytest.raises(InputError) as caught:
        ToolSet([given])
    assert caught.value.code is ErrorCode.TOOL_INVALID_DEFINITION


@pytest.mark.parametrize("name", ["tools", "namespaces", "declared", "more"])
def test_a_set_never_changes(name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(ToolSet(), name, ())


def test_the_built_in_tools_are_declared_as_the_models_know_them() -> None:
    own = ToolSet(
        [
            Tool("python", invoke=print, namespace=None, takes="text"),
            *(Tool(each.name, invoke=print, namespace="browser") for each in BROWSER.tools),
        ]
    )
    assert own.namespaces == (PYTHON, BROWSER)
    assert own.developer_namespaces == ()


def test_a_namespace_of_a_built_in_name_with_other_tools_is_somebody_elses() -> None:
    own = ToolSet([Tool("click", namespace="browser"), Tool("search", namespace="browser")])
    assert own.system_namespaces == ()
    assert own.namespaces == (ToolNamespace("browser", None, (ToolDescription("click"), ToolDescription("search"))),)


def test_a_tool_that_takes_text_is_declared_so() -> None:
    tools = ToolSet([Tool("shell", takes="text")])
    assert tools.namespaces[0].tools == (ToolDescription("shell", None, {"type": "string"}),)


def test_parameters_need_a_namespace_in_which_they_are_declared() -> None:
    with pytest.raises(InputError) as caught:
        ToolSet([Tool("x", parameters=NUMBER, namespace=None)])
    assert (caught.value.code, caught.value.at) == (ErrorCode.TOOL_INVALID_DEFINITION, Position(path="$.namespace"))


@pytest.mark.parametrize(
    "tools",
    [
        [Tool("a"), Tool("a")],
        [Tool("a", namespace=None), Tool("a", namespace=None)],
        [Tool("a", namespace=None), Tool("b", namespace="a")],
        [PYTHON, Tool("python", namespace=None)],
    ],
)
def test_a_name_belongs_to_one_tool(tools: list[Any]) -> None:
    with pytest.raises(InputError) as caught:
        ToolSet(tools)
    assert caught.value.code is ErrorCode.TOOL_REPEATED_NAME


def test_a_name_may_return_in_another_namespace() -> None:
    tools = ToolSet([Tool("a"), Tool("a", namespace="b")])
    assert [tools.recipient_of(each) for each in tools] == ["functions.a", "b.a"]
    assert tools.find("a") is tools.tools[0]
    assert tools.find("b.a") is tools.tools[1]


# ── which tool is meant ─────────────────────────────────────────────────────────────────────────────────────────────

WEATHER = Tool("get weather")
ISSUES = Tool("git-hub___list issues")
LIGHTS = Tool("turn on", namespace="home server")
SEARCH = Tool("search", namespace="browser")
CODE = Tool("python", namespace=None, takes="text")
ALL = ToolSet([WEATHER, ISSUES, LIGHTS, SEARCH, CODE])


@pytest.mark.parametrize(
    ("recipient", "meant"),
    [
        ("functions.get_weather", WEATHER),
        ("get_weather", WEATHER),
        ("get weather", WEATHER),
        ("functions.get weather", WEATHER),
        ("functions.git_hub___list_issues", ISSUES),
        ("git-hub___list issues", ISSUES),
        ("mcp__git_hub__list_issues", ISSUES),
        ("mcp__git-hub__list issues", ISSUES),
        ("git_hub.list_issues", ISSUES),
        ("list_issues", ISSUES),
        ("home_server.turn_on", LIGHTS),
        ("home server.turn on", LIGHTS),
        ("home_server___turn_on", LIGHTS),
        ("functions.mcp__home_server__turn_on", LIGHTS),
        ("turn_on", LIGHTS),
        ("browser.search", SEARCH),
        ("search", SEARCH),
        ("functions.search", SEARCH),
        ("functions.browser.search", SEARCH),
        ("python", CODE),
        ("functions.python", CODE),
        ("Python", None),
        ("weather", None),
        ("functions", None),
        ("functions.", None),
        ("browser", None),
        ("browser.find", None),
        ("", None),
        ("other.get_weather", None),
    ],
)
def test_what_the_model_wrote_is_understood(recipient: str, meant: Tool | None) -> None:
    assert ALL.find(recipient) is meant
    # The parser thinks so, too.
    assert ALL.declared.declares(recipient) == (meant is not None)


def test_a_name_that_can_mean_two_means_neither() -> None:
    tools = ToolSet([Tool("read", namespace="a"), Tool("read", namespace="b"), Tool("c___read")])
    assert tools.find("read") is None
    assert tools.declared.declares("read") is False
    assert tools.find("a___read") is tools.tools[0]


def test_the_name_of_a_function_is_its_own_even_where_a_server_has_it() -> None:
    tools = ToolSet([Tool("read", namespace="a"), Tool("read")])
    assert tools.find("read") is tools.tools[1]
    tools = ToolSet([Tool("b", namespace="a"), Tool("a___b")])
    assert tools.find("a___b") is tools.tools[1]
    assert tools.find("a.b") is tools.tools[0]


def test_a_function_and_a_built_in_tool_may_share_a_name() -> None:
    tools = ToolSet([PYTHON, Tool("python")])
    assert tools.find("python") is tools.tools[0]
    assert tools.find("functions.python") is tools.tools[1]


def test_the_names_of_roles_are_left_to_the_roles() -> None:
    tools = ToolSet([Tool("user", namespace=None), Tool("x", namespace="assistant"), Tool("functions", namespace=None)])
    for each in tools:
        recipient = tools.recipient_of(each)
        assert recipient.partition(".")[0] not in ("user", "assistant", "functions")
        assert tools.find(recipient) is each


def test_a_tool_of_another_set_has_no_recipient() -> None:
    with pytest.raises(InputError) as caught:
        ALL.recipient_of(Tool("other"))
    assert caught.value.code is ErrorCode.TOOL_UNKNOWN


# ── what may run ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_allowed_subset_declares_the_same() -> None:
    some = ALL.allow(["get weather", "browser"])
    assert some.namespaces is ALL.namespaces
    assert some.declared is ALL.declared
    assert [each for each in some if some.is_allowed(each)] == [WEATHER, SEARCH]
    assert all(ALL.is_allowed(each) for each in ALL)
    assert some.check(call_to("get_weather")) is WEATHER
    error = refusal(some, call_to("functions.git_hub___list_issues"))
    assert error.code is ErrorCode.TOOL_NOT_ALLOWED
    assert "functions.get_weather" in error.message and "python" not in error.message


def test_a_subset_of_a_subset_allows_no_more() -> None:
    assert [each for each in ALL.allow(["browser", "python"]).allow(["python", "turn_on"])] == list(ALL)
    narrow = ALL.allow(["browser", "python"]).allow(["python", "turn_on"])
    assert [each for each in ALL if narrow.is_allowed(each)] == [CODE]
    nothing = ALL.allow([])
    assert not any(nothing.is_allowed(each) for each in ALL)
    assert refusal(nothing, call_to("python")).code is ErrorCode.TOOL_NOT_ALLOWED


def test_a_tool_that_is_not_there_cannot_be_allowed() -> None:
    with pytest.raises(InputError) as caught:
        ALL.allow(["weather"])
    assert caught.value.code is ErrorCode.TOOL_UNKNOWN
    with pytest.raises(InputError) as caught:
        ALL.allow("python")
    assert caught.value.code is ErrorCode.RUN_INVALID_OPTION


def test_an_unknown_tool_is_answered_with_those_there_are() -> None:
    error = refusal(ALL, call_to("functions.weather"))
    assert error.code is ErrorCode.TOOL_UNKNOWN
    names = error.message.partition("the tools are ")[2].split(", ")
    assert names[0] == "functions.get_weather"
    assert set(names) == {ALL.recipient_of(each) for each in ALL}
    assert refusal(ToolSet(), call_to("x")).code is ErrorCode.TOOL_UNKNOWN


def test_a_name_without_end_is_not_repeated() -> None:
    error = refusal(ALL, call_to("x" * 100_000))
    assert error.code is ErrorCode.TOOL_UNKNOWN
    assert len(error.message) < 1000


# ── arguments ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ('{"n": "3"}', Position(path="$.n")),
        ("{}", Position(path="$")),
        ("", Position(path="$")),
        ("[3]", Position(path="$")),
        ('{"n": 3', Position(character=7)),
        ('{"n": NaN}', Position(character=0)),
        ("n = 3", Position(character=0)),
    ],
)
def test_arguments_that_do_not_fit_are_refused(text: str, at: Position) -> None:
    error = refusal(ToolSet([Tool("x", parameters=NUMBER)]), call_to("x", text))
    assert (error.code, error.at) == (ErrorCode.TOOL_INVALID_ARGUMENTS, at)


@pytest.mark.parametrize("text", ["", " \n", "{}"])
def test_a_tool_that_takes_nothing_may_be_sent_nothing(text: str) -> None:
    received: list[Any] = []
    run(received.append, text)
    assert received == [{}]


def test_text_reaches_a_tool_that_takes_text_verbatim() -> None:
    tools = ToolSet([Tool("python", invoke=lambda text: f"<{text}>", namespace=None, takes="text")])
    assert wait_for(tools.run(call_to("python", ' {"a": \n'))).text == '<{"a": \n>'.replace("<", "< ")


def test_a_built_in_tool_is_checked_against_what_the_models_know() -> None:
    tools = ToolSet([Tool("search", invoke=print, namespace="browser")])
    assert tools.check(call_to("browser.search", '{"query": "x"}'))
    error = refusal(tools, call_to("browser.search", '{"query": 3}'))
    assert (error.code, error.at) == (ErrorCode.TOOL_INVALID_ARGUMENTS, Position(path="$.query"))


def test_a_schema_that_is_none_is_the_tools_fault_in_a_turn() -> None:
    error = refusal(ToolSet([Tool("x", parameters={"type": "strin"})]), call_to("x"))
    assert error.code is ErrorCode.TOOL_INVALID_DEFINITION


# ── running ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_functions_and_coroutines_are_run() -> None:
    async def later(arguments: Any) -> Any:
        await asyncio.sleep(0)
        return arguments

    assert run(lambda arguments: arguments, '{"n": 1}') == ToolResult('{"n": 1}')
    assert run(later, '{"n": 1}') == ToolResult('{"n": 1}')
    assert run(lambda arguments: later(arguments), '{"n": 1}') == ToolResult('{"n": 1}')


def test_a_function_that_waits_does_not_stop_the_others() -> None:
    gate = threading.Event()
    tools = ToolSet([Tool("wait", invoke=lambda _: gate.wait(WATCHDOG_S)), Tool("open", invoke=lambda _: gate.set())])

    async def both() -> list[ToolResult]:
        return list(await asyncio.gather(tools.run(call_to("wait")), tools.run(call_to("open"))))

    assert [result.text for result in wait_for(both())] == ["true", "null"]


def test_a_function_sees_the_context_of_the_call() -> None:
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user")
    tools = ToolSet([Tool("who", invoke=lambda _: user.get())])

    async def ask() -> ToolResult:
        user.set("Ada")
        return await tools.run(call_to("who"))

    assert wait_for(ask()).text == "Ada"


def raises(error: BaseException) -> Callable[[Any], Any]:
    def invoke(_: Any) -> Any:
        raise error

    return invoke


def raises_later(error: BaseException) -> Callable[[Any], Any]:
    async def invoke(_: Any) -> Any:
        raise error

    return invoke


@pytest.mark.parametrize("raising", [raises, raises_later])
@pytest.mark.parametrize(
    "error",
    [
        ValueError("no such city"),
        TimeoutError("of its own"),
        StopIteration(1),
        SystemExit(2),
        asyncio.CancelledError(),
        InputError(ErrorCode.MESSAGES_INVALID_VALUE, "inside"),
        ExceptionGroup("several", [ValueError("a")]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_tool_raises_is_its_failure(raising: Any, error: BaseException) -> None:
    found = failure(raising(error), timeout_s=WATCHDOG_S)
    assert found.code is ErrorCode.TOOL_FAILED


def test_an_error_of_a_tool_keeps_its_code() -> None:
    own = ToolError(ErrorCode.TOOL_SERVER_UNREACHABLE, "gone")
    assert failure(raises(own)) is own
    assert failure(raises_later(own)) is own


def test_a_result_that_cannot_be_written_is_the_tools_failure() -> None:
    assert failure(lambda _: object()).code is ErrorCode.TOOL_FAILED


def test_a_tool_that_nothing_runs_says_so() -> None:
    with pytest.raises(ToolError) as caught:
        wait_for(ToolSet([Tool("x")]).run(call_to("x")))
    assert caught.value.code is ErrorCode.TOOL_FAILED


async def for_ever(_: Any) -> None:
    await asyncio.Event().wait()


def test_a_tool_that_takes_too_long_times_out() -> None:
    assert failure(for_ever, timeout_s=0).code is ErrorCode.TOOL_TIMED_OUT


def test_nobody_waits_for_a_function_whose_time_is_up() -> None:
    gate, ended = threading.Event(), threading.Event()

    def block(_: Any) -> None:
        gate.wait(WATCHDOG_S)
        ended.set()

    assert failure(block, timeout_s=0.01).code is ErrorCode.TOOL_TIMED_OUT
    # asyncio.run has ended, and the function has not.
    assert not ended.is_set()
    gate.set()
    assert ended.wait(WATCHDOG_S)


def test_a_tools_own_limit_goes_before_that_of_the_run() -> None:
    quick = ToolSet([Tool("x", invoke=for_ever, timeout_s=0)])
    with pytest.raises(ToolError) as caught:
        wait_for(quick.run(call_to("x"), timeout_s=WATCHDOG_S))
    assert caught.value.code is ErrorCode.TOOL_TIMED_OUT

    async def later(_: Any) -> str:
        await asyncio.sleep(0)
        return "done"

    patient = ToolSet([Tool("x", invoke=later, timeout_s=WATCHDOG_S)])
    assert wait_for(patient.run(call_to("x"), timeout_s=0)).text == "done"


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_cancelled_task_stays_cancelled(in_thread: bool) -> None:
    began, gate = threading.Event(), threading.Event()

    def block(_: Any) -> None:
        began.set()
        gate.wait(WATCHDOG_S)

    async def hang(_: Any) -> None:
        began.set()
        await asyncio.Event().wait()

    async def cancel() -> bool:
        tools = ToolSet([Tool("x", invoke=block if in_thread else hang)])
        task = asyncio.create_task(tools.run(call_to("x"), timeout_s=WATCHDOG_S))
        await asyncio.to_thread(began.wait)
        task.cancel()
        await asyncio.wait([task])
        gate.set()
        return task.cancelled()

    assert wait_for(cancel())


def test_a_long_result_is_cut() -> None:
    result = run(lambda _: "x" * 1000, limit_chars=100)
    assert len(result.text) <= 100 and result.cut_chars > 900


def test_a_custom_tool_of_a_namespace_takes_text() -> None:
    shell = {"type": "custom", "name": "run", "description": "Runs it."}
    (tool,) = ToolSet([{"type": "namespace", "name": "shell", "tools": [shell]}])
    assert (tool.namespace, tool.name, tool.takes) == ("shell", "run", "text")


@pytest.mark.parametrize(
    ("namespace", "path"),
    [
        ({"name": 5, "tools": []}, "$.name"),
        ({"name": "", "tools": []}, "$.name"),
        ({"name": "crm", "description": 5, "tools": []}, "$.description"),
        ({"name": "crm", "tools": [{"name": "a"}, {"name": None}]}, "$.tools[1].name"),
    ],
)
def test_what_is_wrong_in_a_namespace_is_said_with_its_path(namespace: Json, path: str) -> None:
    with pytest.raises(InputError) as caught:
        ToolSet([namespace])
    assert (caught.value.code, caught.value.at) == (ErrorCode.TOOL_INVALID_DEFINITION, Position(path=path))


def test_an_error_that_cannot_say_what_it_is_and_a_result_that_has_no_json_are_the_tools_failures() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    class Model:
        def model_dump(self, **_: object) -> object:
            raise RuntimeError("not now")

    def fail() -> None:
        raise Mute

    def give() -> Model:
        return Model()

    for function in (fail, give):
        with pytest.raises(ToolError) as caught:
            wait_for(ToolSet([function]).run(call_to(f"functions.{function.__name__}")))
        assert caught.value.code is ErrorCode.TOOL_FAILED
