"""`harmonia tools`: how a set of tools will be declared to the model, under which names, and what it costs."""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, Final, cast

import click
import msgspec

from harmonia.cli.display import show
from harmonia.cli.options import echo_json, file_argument, read_text, vocabulary_option
from harmonia.errors import ErrorCode, InputError, Position
from harmonia.interchange import recognise_value
from harmonia.json_codec import json_problem
from harmonia.messages import Conversation, Json
from harmonia.renderer import Renderer
from harmonia.run.sampling import declared_namespaces
from harmonia.run.tools.costs import SetCost, cost_of
from harmonia.run.tools.python_functions import is_marked
from harmonia.run.tools.tool_set import ToolLike, ToolSet, as_tools
from harmonia.vocabulary import Vocabulary

# Where lists of definitions are found: in a request, in the old form of Chat Completions, in a server's answer.
_LISTS: Final = ("tools", "functions")
_HARMONY_JSON: Final = "harmony-json"
_EXPECTED: Final = (
    'the input is a list of definitions, {"tools": […]}, the answer to MCP\'s tools/list, the body of a request, or a '
    "conversation that declares tools"
)


@click.command("tools")
@file_argument
@click.option(
    "-f",
    "--function",
    "functions",
    multiple=True,
    metavar="MODULE:NAME|FILE.py:NAME",
    help="A Python function; without :NAME, all functions marked with @tool. The module is imported, so its code runs.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@vocabulary_option
def command(file: BinaryIO, functions: tuple[str, ...], as_json: bool, vocabulary: Vocabulary) -> None:
    """Show how tools will be declared to the model, what each costs in tokens, and what their schemas lose.

    FILE has definitions as JSON: a list, {"tools": […]}, the answer to MCP's tools/list, the body of a request, or a
    conversation that declares tools.
    Tools that a provider runs by itself, such as web_search, are left out.
    """
    tools: list[ToolLike] = []
    if not functions or getattr(file, "name", "<stdin>") not in ("<stdin>", "-"):
        tools += read_definitions(read_text(file).removeprefix("\ufeff"))
    for written in functions:
        tools += import_functions(written)
    cost = cost_of(ToolSet(tools), Renderer(vocabulary))
    if not as_json:
        _show(cost)
        return
    described = [{**msgspec.to_builtins(tool), "is_renamed": tool.is_renamed} for tool in cost.tools]
    echo_json({**msgspec.to_builtins(cost), "tools": described})


# ── definitions ─────────────────────────────────────────────────────────────────────────────────────────────────────


def read_definitions(text: str) -> list[ToolLike]:
    try:
        value: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _refuse(json_problem(error, text), "$") from error
    tools: list[ToolLike] = []
    if _is_conversation(value):
        tools += declared_namespaces(Conversation.from_json(text))
        if not tools:
            raise _refuse("the conversation declares no tools", "$")
        return tools
    for definition, path in _find_definitions(value, "$"):
        if not isinstance(definition, dict):
            raise _refuse(f"{show(repr(definition)[:60])} is not a tool definition", path)
        fields = cast("Json", definition)
        kind = fields.get("type", "function")
        if kind not in ("function", "custom") and "name" not in fields:
            click.echo(f"left out: {path} is of type {show(str(kind))}, which only its provider can run", err=True)
            continue
        as_tools(fields, {}, path)  # raises where it is not one: a ToolSet does not know its path
        tools.append(fields)
    return tools


def _is_conversation(value: Any) -> bool:
    """Whether it is a conversation as Harmonia writes it, which has its tools in its messages."""
    if not isinstance(value, dict) or any(name in value for name in _LISTS):
        return False
    try:
        return recognise_value(cast("Json", value)) == _HARMONY_JSON
    except InputError:
        return False


def _find_definitions(value: Any, path: str) -> list[tuple[Any, str]]:
    """What should be definitions, and where they stand."""
    if isinstance(value, list):
        return [(each, f"{path}[{index}]") for index, each in enumerate(cast("list[Any]", value))]
    if isinstance(value, dict):
        fields = cast("Json", value)
        for name in _LISTS:
            if isinstance(fields.get(name), list) and "name" not in fields:
                return _find_definitions(fields[name], f"{path}.{name}")
        if isinstance(fields.get("result"), dict):  # JSON-RPC, as MCP servers answer
            return _find_definitions(fields["result"], f"{path}.result")
        if "name" in fields or "function" in fields:
            return [(fields, path)]
    raise _refuse("the input contains no tool definitions", path)


def _refuse(message: str, path: str) -> InputError:
    error = InputError(ErrorCode.TOOL_INVALID_DEFINITION, message, Position(path=path))
    error.add_note(_EXPECTED)
    return error


# ── functions ───────────────────────────────────────────────────────────────────────────────────────────────────────


def import_functions(written: str, *, option: str = "--function") -> list[ToolLike]:
    """The functions of `MODULE:NAME`, `FILE.py:NAME` or a place without a name. `option` is whose value it is."""
    place, parted, name = written.rpartition(":")
    if not parted or name.endswith(".py"):
        place, name = written, ""
    module = _import(place, option)
    if name:
        found: Any = module
        for step in name.split("."):
            found = getattr(found, step, None)
        if found is None:
            has = f"; it has {', '.join(functions)}" if (functions := _functions_in(place)) else ""
            raise click.BadParameter(f"{place} has no function {name}{has}", param_hint=option)
        return [found]
    if marked := [each for each in vars(module).values() if is_marked(each)]:
        return marked
    named, functions = "MODULE:NAME", _functions_in(place)
    if place.endswith(".py"):
        if not functions:
            raise click.BadParameter(f"{place} defines no function", param_hint=option)
        named = f"{place}:{functions[0]}" + "".join(f", :{each}" for each in functions[1:])
    hint = f"mark one with @tool (from harmonia.run import tool), or name it: {named}"
    raise click.BadParameter(f"{place} has no function marked with @tool; {hint}", param_hint=option)


def _functions_in(place: str) -> list[str]:
    """The functions of a file that could have been meant."""
    defined = ast.parse(Path(place).read_bytes()).body if place.endswith(".py") else []
    names = [each.name for each in defined if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [name for name in names if not name.startswith("_")]


def _import(place: str, option: str) -> ModuleType:
    is_file = place.endswith(".py")
    # As Python itself does: a script finds what lies beside it, a module what lies in the folder at hand.
    beside = str(Path(place).absolute().parent) if is_file else ""
    sys.path.insert(0, beside)
    try:
        if not is_file:
            return import_module(place)
        # Under a name that hides no other module. Dataclasses look up their module by it.
        spec = spec_from_file_location(f"_harmonia_tools_of_{Path(place).stem}", place)
        assert spec is not None and spec.loader is not None, "a .py file has a loader"
        module = sys.modules[spec.name] = module_from_spec(spec)
        spec.loader.exec_module(module)
    except Exception as error:
        raise click.BadParameter(
            f"{place} cannot be imported: {type(error).__name__}: {error}", param_hint=option
        ) from error
    finally:
        sys.path.remove(beside)
    return module


# ── output ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _show(cost: SetCost) -> None:
    for namespace in cost.namespaces:
        # Descriptions are somebody's text: no control character of theirs reaches the terminal.
        for line in namespace.text.split("\n"):
            click.echo(show(line))
        click.echo()
    rows = [
        (tool.tokens, tool.recipient + (f", renamed from {show(tool.name)!r}" if tool.is_renamed else ""))
        for tool in cost.tools
    ]
    rows += [(cost.heading_tokens, "headings and frame"), (cost.tokens, "total")]
    width = max(len("tokens"), *(len(f"{tokens:,}") for tokens, _ in rows))
    click.echo(f"{'tokens':>{width}}  tool")
    for tokens, name in rows:
        click.echo(f"{tokens:>{width},}  {name}")
    # Several keywords may be one loss to people, as if, then and else are.
    losses = {
        f"  {tool.recipient} {show(loss.path)}: {show(loss.sentence)}": None
        for tool in cost.tools
        for loss in tool.losses
    }
    for line in ("\nThe model does not see:", *losses) if losses else ():
        click.echo(line)
