"""The options of a run, checked before it begins: a wrong one is the caller's error, not one in the middle of a run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, cast, get_args

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.grammar import TextForm
from harmonia.grammar.demand import Syntax
from harmonia.grammar.json_schema.emptiness import fits_nothing
from harmonia.messages import Json, ResponseFormat
from harmonia.parts import Guessed
from harmonia.run.constraints.demand import GrammarUse
from harmonia.run.constraints.text_format import find_fault
from harmonia.run.engines.base import Sampling, ToolChoice
from harmonia.run.limits import RunLimits
from harmonia.run.tools import ToolSet
from harmonia.run.tools.arguments import compile_schema

_TOOL_TYPES: Final = ("function", "custom")
_FORM_FIELDS: Final = frozenset(("type", "name", "schema", "description", "strict"))


def known_use(use: GrammarUse) -> GrammarUse:
    """When a grammar is used, if it is one of the words for that."""
    if use not in get_args(GrammarUse):
        expected = ", ".join(get_args(GrammarUse))
        raise InputError(ErrorCode.RUN_INVALID_OPTION, f"grammar is {use!r}; expected one of {expected}")
    return use


def known_guessed(guessed: Guessed) -> Guessed:
    """What becomes of text that is a guess, if it is one of the words for that."""
    if guessed not in get_args(Guessed):
        expected = ", ".join(get_args(Guessed))
        raise InputError(ErrorCode.RUN_INVALID_OPTION, f"guessed is {guessed!r}; expected one of {expected}")
    return guessed


def chosen_tools(choice: object, tools: ToolSet) -> tuple[ToolSet, ToolChoice]:
    """The tools with those that may be called, and the choice between them. Beside what `known_choice` takes, that is
    OpenAI's `allowed_tools`, flat or with its fields in an object of that name."""
    if not isinstance(choice, Mapping):
        return tools, known_choice(choice, tools)
    named = cast("Mapping[str, Any]", choice)
    if named.get("type") != "allowed_tools":
        return tools, known_choice(named, tools)
    inner: Any = named.get("allowed_tools", named)
    fields: Mapping[str, Any] = cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else {}
    given, mode = fields.get("tools"), fields.get("mode", "auto")
    names = [_name_in(each) for each in cast("list[Any]", given)] if isinstance(given, list) else [None]
    if mode not in ("auto", "required") or None in names:
        raise InputError(
            ErrorCode.RUN_INVALID_OPTION,
            "an allowed_tools choice has a mode, auto or required, and tools, each with its name",
        )
    if mode == "required" and not names:
        raise InputError(ErrorCode.RUN_INVALID_OPTION, "a call is required, and no tool is allowed")
    return tools.allow(cast("list[str]", names)), mode


def _name_in(tool: object) -> str | None:
    """The name of a tool: itself, or in a field, as OpenAI's APIs have it. None where its type is not that of one."""
    if isinstance(tool, Mapping):
        fields = cast("Mapping[str, Any]", tool)
        if fields.get("type", "function") not in _TOOL_TYPES:
            return None
        inner: Any = fields.get("function") or fields.get("custom") or fields
        tool = cast("Mapping[str, Any]", inner).get("name") if isinstance(inner, Mapping) else None
    return tool if isinstance(tool, str) else None


def known_format(given: object) -> ResponseFormat | None:
    """The form of the answer: a ResponseFormat, one of OpenAI's objects for it, or an object with name and schema."""
    if given is None or isinstance(given, ResponseFormat):
        return given
    if isinstance(given, Mapping):
        fields = cast("Mapping[str, Any]", given)
        kind: Any = fields.get("type", "json_schema")
        if kind == "text":
            return None
        if kind == "json_object":
            _refuse_unknown(fields, {"type"})
            return ResponseFormat("json_object", {"type": "object"}, "Any JSON object.")
        inner: Any = fields.get("json_schema", fields)
        if kind == "json_schema" and isinstance(inner, Mapping):
            form = cast("Mapping[str, Any]", inner)
            name, schema, description = form.get("name"), form.get("schema"), form.get("description")
            _refuse_unknown(form, _FORM_FIELDS)
            if inner is not fields:
                _refuse_unknown(fields, {"type", "json_schema"})
            if isinstance(name, str) and isinstance(schema, dict | bool):
                told = description if isinstance(description, str) else None
                return ResponseFormat(name, cast("Json | bool", schema), told)
    raise InputError(
        ErrorCode.RUN_INVALID_OPTION,
        'response_format is no form of an answer; expected a ResponseFormat(name, schema), {"name": …, "schema": …}, '
        '{"type": "json_schema", "json_schema": {"name": …, "schema": …}} or {"type": "json_object"}',
    )


def _refuse_unknown(fields: Mapping[str, Any], known: Collection[str]) -> None:
    unknown = [name for name in fields if name not in known]
    if unknown:
        said = f"response_format has {unknown[0]!r}, which it does not take; it takes {', '.join(sorted(known))}"
        raise InputError(ErrorCode.RUN_INVALID_OPTION, said)


def check_form(form: ResponseFormat) -> None:
    """Raises where the schema of the answer is none, or no answer can have this form."""
    _check_schema(form.name, form.schema, is_answers=True)
    if fits_nothing(form.schema):
        said = f"no answer can have the form {form.name}: no value fits its schema"
        raise InputError(ErrorCode.RUN_INVALID_OPTION, said, Position(path="$"))


def check_text_forms(tools: ToolSet) -> None:
    """Raises where the text of a tool has a form that nobody can read, or a tool that takes no text has one. Whoever
    brings the forms of strangers has looked at them."""
    for tool in tools:
        form: Any = tool.text_form  # callers without types may give anything
        if form is None or tool.is_strangers:
            continue
        name = tools.recipient_of(tool)
        if tool.takes != "text":
            raise _no_form(f"{name} takes JSON, and only a text has a form; give it takes='text', or a schema")
        if not isinstance(form, TextForm) or not isinstance(form.definition, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _no_form(f"the text_form of {name} is {form!r}; expected a TextForm(syntax, definition)")
        if form.syntax not in get_args(Syntax):
            expected = " or ".join(get_args(Syntax))
            raise _no_form(f"the syntax of the form of {name} is {form.syntax!r}; expected {expected}")
        fault = find_fault(form, name)
        if fault is not None:
            raise _no_form(fault.message, fault.at.character) from fault


def _no_form(message: str, character: int | None = None) -> InputError:
    at = Position(path="$.text_form", character=character)
    return InputError(ErrorCode.TOOL_INVALID_DEFINITION, message, at)


def check_strict_tools(tools: ToolSet) -> None:
    """The same for the arguments of tools that are strict. Whoever brings the schemas of strangers has looked at them,
    within bounds."""
    for tool in tools:
        if not tool.strict or tool.is_strangers or tool.parameters is None:
            continue
        name = tools.recipient_of(tool)
        _check_schema(name, tool.parameters, is_answers=False)
        if fits_nothing(tool.parameters):
            said = f"{name} is strict, and no arguments fit its schema"
            raise InputError(ErrorCode.TOOL_INVALID_DEFINITION, said, Position(path="$.parameters"))


def _check_schema(name: str, schema: Json | bool, *, is_answers: bool) -> None:
    try:
        compile_schema(name, schema, is_answers=is_answers, is_demanded=True)
    except InputError as error:
        if error.code is not ErrorCode.TOOL_MISSING_EXTRA:  # nobody can tell without jsonschema
            raise


def known_choice(choice: object, tools: ToolSet) -> ToolChoice:
    """The tool choice of a run, with the whole name of a tool. Raises where there is no such tool."""
    if isinstance(choice, Mapping):
        # OpenAI's form, {"type": "function", "function": {"name": "x"}}, or flat.
        choice = _name_in(cast("object", choice)) or cast("object", choice)
    if not isinstance(choice, str):
        raise InputError(ErrorCode.RUN_INVALID_OPTION, f"tool_choice is {choice!r}; expected {_choices(tools)}")
    if choice in ("auto", "none"):
        return choice
    if choice == "required":
        if not tools.namespaces:
            raise InputError(ErrorCode.RUN_INVALID_OPTION, "a call is required, and there are no tools")
        return choice
    tool = tools.find(choice)
    if tool is None:
        raise InputError(ErrorCode.RUN_INVALID_OPTION, f"tool_choice is {choice!r}; expected {_choices(tools)}")
    return tools.recipient_of(tool)


def _choices(tools: ToolSet) -> str:
    return ", ".join(["auto", "none", "required", *(tools.recipient_of(tool) for tool in tools)])


def check_kinds(model: object, sampling: object, limits: object, approve: object, tools: object) -> None:
    """Callers without types get an error here, not in the middle of a run."""
    wrong = None
    if not hasattr(model, "generate") and not hasattr(model, "respond"):
        wrong = f"{model!r} is no engine; `await open_model(name)` opens one by its name, and Agent takes the name"
    elif sampling is not None and not isinstance(sampling, Sampling):
        wrong = f"sampling is {sampling!r}; expected a Sampling, such as Sampling(temperature=0.5)"
    elif limits is not None and not isinstance(limits, RunLimits):
        wrong = f"limits is {limits!r}; expected a RunLimits, such as RunLimits(calls=8)"
    elif approve is not None and not callable(approve):
        wrong = f"approve is {approve!r}; expected a function that gets a PendingCall and gives a decision"
    elif tools is not None and (isinstance(tools, str | Mapping) or not isinstance(tools, Iterable)):
        wrong = f"tools is {tools!r}; expected a list of functions, Tools or definitions"
    if wrong is not None:
        raise InputError(ErrorCode.RUN_INVALID_OPTION, wrong)
