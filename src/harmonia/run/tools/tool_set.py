"""The tools of a run: how the model is told of them, which one it meant, whether the arguments fit, and the running.

    Tool, function, definition, namespace -> ToolSet -> namespaces        what the prompt declares
                                                     -> find(recipient)   what the model wrote -> the tool
                                                     -> run(call)         -> ToolResult, or a ToolError

1. A set never changes. `allow` gives a set that declares the same, so that the prompt and an engine's cache of it stay
   as they are, but runs only some.
2. Every declared name is legal and leads back to one tool. What models write instead of it is understood where it can
   mean one tool only: the name alone, the owner's own name, and a server's name put before it (`mcp__server__tool`,
   `server___tool`). `declared` knows exactly the names that `find` finds. Of a tool with `defer_loading` the model is
   not told, but it is found.
3. Errors are ToolErrors that a model can act on; `error_result` puts them into words. A cancelled task stays cancelled.

A legal name is an identifier of ASCII letters, digits and `_`, of at most 64 characters:

    get weather     get_weather
    größe           grosse
    天気            tool_bc79d84d     nothing of it is left, so a digest stands for it
    a-b, a.b        a_b_…, a_b_…      two that would be the same: each gets a digest of its whole name

4. A name that is legal stays as it is, and no other gets it. No two names become the same. The result depends on which
   names there are, not on their order.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import inspect
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Self

from harmonia.errors import ErrorCode, InputError, Position, ToolError
from harmonia.json_codec import json_fault
from harmonia.messages import Json, Role, ToolDescription, ToolNamespace
from harmonia.messages.builtin_tools import BROWSER, PYTHON
from harmonia.parser import Tools
from harmonia.parts import Call, split_name
from harmonia.run.tools.arguments import Validate, compile_schema, list_names, nearest, shorten, text_for
from harmonia.run.tools.results import DEFAULT_LIMIT_CHARS, describe_error, result_of
from harmonia.run.tools.tool import Tool, ToolResult
from harmonia.tool_definitions import FUNCTIONS, read_namespace

ToolLike = Tool | ToolNamespace | ToolDescription | Json | Callable[..., Any]

_BUILTINS: Final = {namespace.name: namespace for namespace in (BROWSER, PYTHON)}
# Recipients that are nobody to call, and the namespace of everybody; a tool or a namespace cannot be called so.
_RESERVED: Final = frozenset(["all", *(role.value for role in Role)])
_NO_ARGUMENTS: Final[Json] = {"type": "object"}


class ToolSet:
    """Tools, declared and callable; see the module.

    tools               in the order in which they were given
    namespaces          how they are declared to the model, with legal names; those with `defer_loading` are not
    system_namespaces   the built-in ones among them, python and browser: a system message declares these
    developer_namespaces    functions and all others: a developer message declares these
    declared            what a parser has to know of the tools; it remembers headers, so it is made once
    """

    def __init__(self, tools: Iterable[ToolLike] = (), *, descriptions: Mapping[str, str | None] | None = None) -> None:
        """`descriptions` are those of namespaces whose tools are given one by one."""
        if isinstance(tools, str | Mapping) or not isinstance(tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
            raise InputError(ErrorCode.TOOL_INVALID_DEFINITION, f"tools is {tools!r}; expected a list of tools")
        described: dict[str, str | None] = dict(descriptions or {})
        self.tools = tuple(each for tool in tools for each in as_tools(tool, described))
        self._recipients = _recipients_of(self.tools)
        self._by_recipient = {recipient: tool for tool, recipient in self._recipients.values()}
        self._aliases = _aliases_of(self._recipients.values())
        known = _declare(self._recipients.values(), described)
        told = [pair for pair in self._recipients.values() if not pair[0].defer_loading]
        self.namespaces = known if len(told) == len(self.tools) else _declare(told, described)
        self.system_namespaces = tuple(each for each in self.namespaces if _is_builtin(each))
        self.developer_namespaces = tuple(each for each in self.namespaces if not _is_builtin(each))
        self.declared = Tools([*known, *(f"{FUNCTIONS}.{alias}" for alias in self._aliases)])
        # As they are declared: that of a built-in tool may be the one that the models know.
        self._schemas = {f"{space.name}.{tool.name}": tool.parameters for space in known for tool in space.tools}
        self._allowed: frozenset[str] | None = None
        self._validators: dict[str, Validate] = {}  # compiled when first needed

    def __setattr__(self, name: str, value: object) -> None:
        if "_validators" in vars(self):  # which is set last
            raise AttributeError(f"{name} cannot be set: a ToolSet never changes")
        super().__setattr__(name, value)

    def __len__(self) -> int:
        return len(self.tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __repr__(self) -> str:
        return f"ToolSet({', '.join(self._by_recipient)})"

    # ── finding ─────────────────────────────────────────────────────────────────────────────────────────────────

    def named(self, name: str, namespace: str | None = FUNCTIONS) -> Tool | None:
        """The tool that its owner calls so, exactly."""
        found = self._recipients.get((namespace, name))
        return None if found is None else found[0]

    def recipient_of(self, tool: Tool) -> str:
        """The whole name under which the model is told of the tool: `functions.get_weather`."""
        found = self._recipients.get((tool.namespace, tool.name))
        if found is None:
            raise InputError(ErrorCode.TOOL_UNKNOWN, f"{tool.name} is not in this set of tools")
        return found[1]

    def find(self, recipient: str) -> Tool | None:
        """The tool that the model meant; None where there is none, or more than one could be meant."""
        found = self._by_recipient.get(recipient) or self._by_recipient.get(f"{FUNCTIONS}.{recipient}")
        return found or self._aliases.get(recipient.removeprefix(f"{FUNCTIONS}."))

    def allow(self, names: Iterable[str]) -> Self:
        """The same set, of which only these tools run. A name is a tool's, as `find` takes it, or a namespace's."""
        if isinstance(names, str):
            raise InputError(ErrorCode.RUN_INVALID_OPTION, "allowed tools must be a list of names, not a string")
        allowed: set[str] = set()
        for name in names:
            tool = self.find(name)
            chosen = {
                recipient
                for each, recipient in self._recipients.values()
                if (each is tool if tool else name in (each.namespace, recipient.partition(".")[0]))
            }
            if not chosen:
                raise InputError(ErrorCode.TOOL_UNKNOWN, self._say_unknown(name))
            allowed |= chosen
        copy = object.__new__(type(self))
        vars(copy).update(vars(self), _allowed=frozenset(allowed if self._allowed is None else allowed & self._allowed))
        return copy

    @property
    def allowed(self) -> tuple[str, ...] | None:
        """The whole names of the tools that may run in this turn, of those that are declared; None allows all."""
        if self._allowed is None:
            return None
        declared = (recipient for recipient, tool in self._by_recipient.items() if not tool.defer_loading)
        return tuple(recipient for recipient in declared if recipient in self._allowed)

    def is_allowed(self, tool: Tool) -> bool:
        """Whether the tool may run in this turn."""
        return self._allowed is None or self.recipient_of(tool) in self._allowed

    # ── running ─────────────────────────────────────────────────────────────────────────────────────────────────

    def check(self, call: Call) -> Tool:
        """The tool of a call whose arguments fit. Raises a ToolError that says what the model can do about it."""
        return self._checked(call)[0]

    def check_arguments(self, call: Call) -> Tool:
        """The same, for whoever has to know whether the arguments fit, also where the tool does not ask for that."""
        tool, _ = self._checked(call)
        if tool.takes == "json" and not tool.checks_arguments:
            self._arguments(tool, call)
        return tool

    async def run(
        self, call: Call, *, timeout_s: float | None = None, limit_chars: int | None = DEFAULT_LIMIT_CHARS
    ) -> ToolResult:
        """Check a call, run it, and return what the model is told. Raises ToolErrors; a tool's own limit goes first.

        A function that is not async runs in a thread, so the others go on. When its time is up, it is no longer waited
        for, not even at the end of the program; but a thread cannot be stopped, it ends by itself.
        """
        tool, arguments = self._checked(call)
        name = self.recipient_of(tool)
        if tool.invoke is None:
            raise ToolError(ErrorCode.TOOL_FAILED, f"{name} is declared, but has no implementation here")
        limit_s = timeout_s if tool.timeout_s is None else tool.timeout_s
        try:
            async with asyncio.timeout(limit_s):
                value = await _invoke(name, tool.invoke, arguments)
        except TimeoutError as error:
            # The limit's: one that the tool raised has become a ToolError.
            raise ToolError(ErrorCode.TOOL_TIMED_OUT, f"{name} did not answer within {limit_s:g} seconds") from error
        return result_of(value, limit_chars)

    def _checked(self, call: Call) -> tuple[Tool, Any]:
        """The tool of a call, and what it is given."""
        tool = self.find(call.recipient)
        if tool is None:
            raise ToolError(ErrorCode.TOOL_UNKNOWN, self._say_unknown(call.recipient))
        if not self.is_allowed(tool):
            allowed = nearest(call.recipient, self._allowed or ())
            instead = f"the tools that may be called now are {list_names(allowed)}" if allowed else "no tool may be"
            said = f"{self.recipient_of(tool)} may not be called in this turn; {instead}"
            raise ToolError(ErrorCode.TOOL_NOT_ALLOWED, said)
        if tool.takes == "text":
            return tool, text_for(tool, call)
        return tool, self._arguments(tool, call) if tool.checks_arguments else call.value

    def _arguments(self, tool: Tool, call: Call) -> Any:
        name = self.recipient_of(tool)
        value: Any = call.value
        if not call.is_json and not call.is_repaired:
            # A model that has nothing to say to a tool may leave the arguments out.
            if call.text.strip():
                at = json_fault(call.text)
                found = f"not JSON from character {at} on: {call.text[at : (at or 0) + 40]!r}"
                said = f"the arguments of {name} are {found}; expected one JSON object"
                raise ToolError(ErrorCode.TOOL_INVALID_ARGUMENTS, said, Position(character=at))
            value = {}
        try:
            if name not in self._validators:
                schema = self._schemas.get(name)
                schema = _NO_ARGUMENTS if schema is None else schema
                self._validators[name] = compile_schema(name, schema, untrusted=tool.untrusted)
            self._validators[name](value)
        except InputError as error:
            if error.code is not ErrorCode.TOOL_INVALID_DEFINITION:
                raise
            # In the middle of a turn a tool that cannot be called is the tool's fault, and the turn goes on.
            raise ToolError(error.code, error.message, error.at) from error
        return value

    def _say_unknown(self, name: str) -> str:
        name = shorten(name)
        if not self.tools:
            return f"there is no tool {name}; no tools are declared"
        runnable = (recipient for recipient, tool in self._by_recipient.items() if self.is_allowed(tool))
        return f"there is no tool {name}; the tools are {list_names(nearest(name, runnable))}"


# ── reading what callers give ───────────────────────────────────────────────────────────────────────────────────────


def as_tools(given: ToolLike, described: dict[str, str | None], path: str = "$") -> list[Tool]:
    """The tools in what a caller gave; what it says of a namespace is put into `described`. `path` is for errors."""
    match given:
        case Tool():
            return [given]
        case ToolNamespace():
            described[given.name] = given.description
            return Tool.from_namespace(given)
        case ToolDescription():
            return [Tool(given.name, given.description, given.parameters)]
        case Mapping():
            if not isinstance(given.get("tools"), list) or "name" not in given:
                return [Tool.from_definition(given, path)]
            name, description, definitions = read_namespace(given, path)
            if not definitions:
                return as_tools(ToolNamespace(name, description), described)
            described[name] = description
            made = (Tool.from_definition(each, f"{path}.tools[{index}]") for index, each in enumerate(definitions))
            return [replace(tool, namespace=name) for tool in made]
        case _ if callable(given):
            return [Tool.from_function(given)]
        case _:
            said = f"{given!r} is not a tool; expected a Tool, a function, a definition or a namespace"
            raise InputError(ErrorCode.TOOL_INVALID_DEFINITION, said)


# ── names ───────────────────────────────────────────────────────────────────────────────────────────────────────────

# By the namespace and the name that its owner gave it: the tool, and its whole name for the model.
_Recipients = dict[tuple[str | None, str], tuple[Tool, str]]


def _recipients_of(tools: tuple[Tool, ...]) -> _Recipients:
    by_namespace: dict[str | None, dict[str, Tool]] = {}
    for tool in tools:
        named = by_namespace.setdefault(tool.namespace, {})
        if tool.name in named:
            where = "" if tool.namespace is None else f" in the namespace {tool.namespace}"
            raise InputError(ErrorCode.TOOL_REPEATED_NAME, f"there are two tools {tool.name!r}{where}")
        named[tool.name] = tool
    # A tool without a namespace stands beside the namespaces.
    alone = by_namespace.get(None, {})
    spaces = [space for space in by_namespace if space is not None]
    if both := [name for name in alone if name in spaces]:
        raise InputError(ErrorCode.TOOL_REPEATED_NAME, f"{both[0]!r} is the name of a tool and of a namespace")
    # `functions` belongs to the functions, even where there are none: names without a namespace are read as theirs.
    reserved = _RESERVED if FUNCTIONS in spaces else _RESERVED | {FUNCTIONS}
    outer = legal_names([*spaces, *alone], reserved)
    legal = {space: legal_names(named) for space, named in by_namespace.items() if space is not None}
    recipients: _Recipients = {}
    for tool in tools:
        space = tool.namespace
        recipient = outer[tool.name] if space is None else f"{outer[space]}.{legal[space][tool.name]}"
        recipients[space, tool.name] = (tool, recipient)
    return recipients


def _aliases_of(recipients: Iterable[tuple[Tool, str]]) -> dict[str, Tool]:
    """What models may write instead of a declared name, without `functions.`; only what can mean one tool."""
    recipients = list(recipients)
    meant: dict[str, Tool | None] = {}
    for tool, recipient in recipients:
        for alias in _aliases_of_tool(tool, recipient):
            meant[alias] = None if meant.get(alias, tool) is not tool else tool
    # The names of functions are theirs alone, with `functions.` and without.
    own = {recipient.removeprefix(f"{FUNCTIONS}.") for _, recipient in recipients if recipient.startswith(FUNCTIONS)}
    return {alias: tool for alias, tool in meant.items() if tool is not None and alias not in own}


def _aliases_of_tool(tool: Tool, recipient: str) -> set[str]:
    space, _, legal = recipient.rpartition(".")
    if space == FUNCTIONS:
        parts = [split_name(f"{FUNCTIONS}.{name}") for name in (tool.name, legal)]
        servers = {server for server, _ in parts if server is not None}
        names = {name for server, name in parts if server is not None}
        aliases = {tool.name, legal, *names}
    else:
        servers = {space, tool.namespace} if space else set[str]()
        names = {tool.name, legal}
        aliases = {*names, recipient}
    forms = (
        (f"{server}.{name}", f"{server}___{name}", f"mcp__{server}__{name}") for server in servers for name in names
    )
    return aliases.union(*forms)


# ── declaring ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _declare(recipients: Iterable[tuple[Tool, str]], described: dict[str, str | None]) -> tuple[ToolNamespace, ...]:
    spaces: dict[str, list[tuple[str, Tool]]] = {}
    for tool, recipient in recipients:
        space, _, name = recipient.rpartition(".")
        spaces.setdefault(space or name, []).append((name, tool))
    return tuple(_declare_namespace(space, named, described) for space, named in spaces.items())


def _declare_namespace(space: str, named: list[tuple[str, Tool]], described: dict[str, str | None]) -> ToolNamespace:
    builtin = _BUILTINS.get(space)
    first = named[0][1]
    if first.namespace is None:
        if first.takes == "json" and first.parameters is not None:
            said = f"{first.name} has parameters, which can only be declared in a namespace; give it one"
            raise InputError(ErrorCode.TOOL_INVALID_DEFINITION, said, Position(path="$.namespace"))
        return ToolNamespace(space, first.description or (builtin.description if builtin else None))
    known = {tool.name: tool for tool in builtin.tools} if builtin else {}
    is_builtin = builtin is not None and all(name in known for name, _ in named)
    description = described.get(first.namespace) or (builtin.description if builtin and is_builtin else None)
    tools = tuple(_describe(name, tool, known.get(name) if is_builtin else None) for name, tool in named)
    return ToolNamespace(space, description, tools)


def _describe(name: str, tool: Tool, builtin: ToolDescription | None) -> ToolDescription:
    """A tool as it is declared. Of a built-in one, what its owner does not say is as the models know it."""
    description, parameters = tool.description, tool.parameters
    if builtin is not None:
        description = description or builtin.description
        parameters = builtin.parameters if parameters is None else parameters
    if tool.takes == "text" and parameters is None:
        parameters = {"type": "string"}
    return ToolDescription(name, description, parameters)


def _is_builtin(namespace: ToolNamespace) -> bool:
    builtin = _BUILTINS.get(namespace.name)
    return builtin is not None and {tool.name for tool in namespace.tools} <= {tool.name for tool in builtin.tools}


# ── invoking ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _invoke(name: str, invoke: Callable[[Any], Awaitable[Any] | Any], arguments: Any) -> Any:
    """What a tool returns. Whatever it raises becomes a ToolError, except a cancellation that came from outside."""
    try:
        if inspect.iscoroutinefunction(invoke) or inspect.iscoroutinefunction(type(invoke).__call__):
            return await invoke(arguments)
        value, raised = await _in_thread(invoke, arguments)
        if raised is not None:
            raise raised
        return await value if inspect.isawaitable(value) else value
    except ToolError:
        raise
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        # A cancellation that did not come from outside: the tool waited for something that was cancelled.
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling()):
            raise
        raise ToolError(ErrorCode.TOOL_FAILED, f"{name} failed: {describe_error(error)}") from error


_Outcome = tuple[Any, BaseException | None]


async def _in_thread(invoke: Callable[[Any], Any], arguments: Any) -> _Outcome:
    """What a function returns or raises, in a thread of its own.

    Not asyncio.to_thread: asyncio.run waits for the threads of that when it ends, so that a function whose time was up
    would hold the program all the same.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[_Outcome] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(found: _Outcome) -> None:
        if not outcome.done():
            outcome.set_result(found)

    def work() -> None:
        # Exceptions are passed on as values: a StopIteration could not be raised in a future, and no other may be lost.
        found: _Outcome
        try:
            found = context.run(invoke, arguments), None
        except BaseException as error:
            found = None, error
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(deliver, found)

    threading.Thread(target=work, name="harmonia tool", daemon=True).start()
    return await outcome


MAX_NAME_CHARS: Final = 64

_LEGAL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_WORD: Final = re.compile(r"[^A-Za-z0-9]+")
_DIGEST_CHARS: Final = 8
_NOTHING_LEFT: Final = "tool"


def is_legal(name: str) -> bool:
    """Whether a name can be declared and called as it is."""
    return len(name) <= MAX_NAME_CHARS and _LEGAL.fullmatch(name) is not None


def legal_names(names: Iterable[str], reserved: Collection[str] = ()) -> dict[str, str]:
    """The legal name of each name. No name becomes one of those `reserved`, not even one that has it already."""
    wanted = {name: _simplify(name) for name in dict.fromkeys(names)}
    claims = Counter(wanted.values())
    kept = {name for name in wanted if is_legal(name) and name not in reserved}
    legal = {name: name for name in kept}
    taken = {*kept, *reserved}
    contested: list[str] = []
    for name, simple in wanted.items():
        if name in kept:
            continue
        if simple and len(simple) <= MAX_NAME_CHARS and claims[simple] == 1 and simple not in taken:
            legal[name] = simple
        else:
            contested.append(name)
    taken.update(legal.values())
    # In the order of the names, so that the order in which they came does not matter even where digests collide.
    for name in sorted(contested):
        legal[name] = _with_digest(name, wanted[name] or _NOTHING_LEFT, taken)
        taken.add(legal[name])
    return {name: legal[name] for name in wanted}


def _simplify(name: str) -> str:
    """The name in ASCII letters, digits and `_`; empty where nothing is left of it."""
    # Accents are taken off; ß is the one letter of the common alphabets that only case folding spells out.
    plain = "".join(c for c in unicodedata.normalize("NFKD", name.replace("ß", "ss")) if not unicodedata.combining(c))
    # What stood between words becomes one `_`, so that no `__` or `___` appears that would part a server from its tool.
    simple = _NOT_WORD.sub(lambda match: match[0] if set(match[0]) == {"_"} else "_", plain)
    if simple != plain:
        simple = simple.strip("_") if simple.strip("_") else ""
    return f"_{simple}" if simple[:1].isdigit() else simple


def _with_digest(name: str, simple: str, taken: Collection[str]) -> str:
    # A lone surrogate has no UTF-8, but a name may have one.
    data, salt = name.encode(errors="surrogatepass"), 0
    while True:
        digest = hashlib.sha256(data + salt.to_bytes(4, "big") if salt else data).hexdigest()[:_DIGEST_CHARS]
        legal = f"{simple[: MAX_NAME_CHARS - _DIGEST_CHARS - 1].rstrip('_') or _NOTHING_LEFT}_{digest}"
        if legal not in taken:
            return legal
        salt += 1
