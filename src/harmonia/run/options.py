"""The options of a run, as one value, and the checks that a wrong one does not pass: the run has not begun then.

RunOptions            every option, with its default; `Run`, `Agent`, the terminal chat and the server take this
RunChanges            the same names, for those who write them as keywords: run(model, conversation, effort="high")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypedDict, get_args

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.grammar.json_schema.unsatisfiable import fits_nothing
from harmonia.history import DOCUMENTED, Policy
from harmonia.messages import Json, Message, ReasoningEffort, ResponseFormat
from harmonia.parts import Guessed
from harmonia.renderer import Renderer
from harmonia.run.constraints.attempts import GrammarUse, find_fault
from harmonia.run.engines.base import Sampling, ToolChoice, Traits
from harmonia.run.sampling import Prompt, invalid_option, known_effort
from harmonia.run.tool_calls import Approver
from harmonia.run.tools import ToolLike, ToolSet
from harmonia.run.tools.arguments import compile_schema
from harmonia.tool_definitions import Syntax, TextForm, read_response_format, read_tool_choice

if TYPE_CHECKING:
    from harmonia.families.profiles import ModelProfile

# Also as OpenAI's APIs write them.
SomeChoice = ToolChoice | Mapping[str, Any]
SomeFormat = ResponseFormat | Mapping[str, Any]
# How many cached tokens of a prompt may be reported, given the message it began and those that were sampled.
MostCached = Callable[[Prompt, Message | None, Sequence[Message]], int]


class RunLimits(msgspec.Struct, frozen=True):
    """How far a run may go. None is no limit.

    `samplings` is how often the model is asked, second attempts at a completion not counted; `calls` how many of its
    calls are run; `tokens` how many it may sample in all; `time_s` how long everything may take; `call_time_s` how long
    one call may take, unless its tool sets its own limit.
    """

    samplings: int | None = 32
    calls: int | None = 128
    tokens: int | None = None
    time_s: float | None = None
    call_time_s: float | None = 60.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise invalid_option(f"{name} is {value}; a limit must be greater than 0, or None")


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be set for a run, beside its conversation and its tools.

    tool_choice, parallel_calls   what the model may or must call, and whether several at once
    response_format, grammar      the form of the answer, and when a grammar enforces what is demanded
    retry_malformed               ask once more where the output is damaged and there is nothing to show
    sampling, effort, limits      how to sample, how much to reason, how far to go
    approve, allow_unverified     who decides about calls; whether calls that were read from text may run
    run_calls                     False hands every call to the caller
    prefix, resume                a message for the model to continue; resume continues the last one
    policy, renderer, profile     what history keeps, how it is rendered, and the profile of another family
    guessed                       whether text whose header was guessed is shown
    keep_sampled                  report what was sampled, as it was sampled, in `SamplingEnded.as_sampled`
    check_format                  False where the caller has checked the response format already
    most_cached, cache_salt       for servers: what may be said of the engine's cache, and who shares it
    """

    tool_choice: SomeChoice = "auto"
    parallel_calls: bool = True
    response_format: SomeFormat | None = None
    grammar: GrammarUse = "demanded"
    retry_malformed: bool = False
    sampling: Sampling = Sampling()
    effort: ReasoningEffort | str | None = None
    limits: RunLimits = RunLimits()
    approve: Approver | None = None
    allow_unverified: bool = False
    run_calls: bool = True
    prefix: Message | None = None
    resume: bool = False
    policy: Policy = DOCUMENTED
    renderer: Renderer | None = None
    profile: ModelProfile | str | None = None
    guessed: Guessed = "hidden"
    keep_sampled: bool = False
    check_format: bool = True
    most_cached: MostCached | None = None
    cache_salt: str | None = None

    def __post_init__(self) -> None:
        # Callers without types get an error here, not in the middle of a run.
        given: Any = self
        for name, is_right, expected in (
            ("sampling", isinstance(given.sampling, Sampling), "a Sampling, such as Sampling(temperature=0.5)"),
            ("limits", isinstance(given.limits, RunLimits), "a RunLimits, such as RunLimits(calls=8)"),
            ("approve", given.approve is None or callable(given.approve), "a function from PendingCall to Decision"),
            ("grammar", given.grammar in get_args(GrammarUse), f"one of {', '.join(get_args(GrammarUse))}"),
            ("guessed", given.guessed in get_args(Guessed), f"one of {', '.join(get_args(Guessed))}"),
        ):
            if not is_right:
                raise invalid_option(f"{name} is {getattr(self, name)!r}; expected {expected}")
        if self.effort is not None:
            known_effort(self.effort)
        if self.resume and self.prefix is not None:
            raise invalid_option("resume continues the last message, so it cannot have a prefix, too; leave one out")


class RunChanges(TypedDict, total=False):
    """The fields of RunOptions as keywords; a test keeps the two alike."""

    tool_choice: SomeChoice
    parallel_calls: bool
    response_format: SomeFormat | None
    grammar: GrammarUse
    retry_malformed: bool
    sampling: Sampling
    effort: ReasoningEffort | str | None
    limits: RunLimits
    approve: Approver | None
    allow_unverified: bool
    run_calls: bool
    prefix: Message | None
    resume: bool
    policy: Policy
    renderer: Renderer | None
    profile: ModelProfile | str | None
    guessed: Guessed
    keep_sampled: bool
    check_format: bool
    most_cached: MostCached | None
    cache_salt: str | None


_DEFAULTS: Final = RunOptions()
SomeTools = ToolSet | Iterable[ToolLike]


def tool_set(tools: SomeTools) -> ToolSet:
    """The tools that a caller gave, as a set."""
    if isinstance(tools, str | Mapping) or not isinstance(tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
        raise invalid_option(f"tools is {tools!r}; expected a list of functions, Tools or definitions")
    return tools if isinstance(tools, ToolSet) else ToolSet(tools)


def with_changes(options: RunOptions | None, changes: RunChanges) -> RunOptions:
    """The options, or the defaults, with these changes."""
    return msgspec.structs.replace(options or _DEFAULTS, **changes) if changes else options or _DEFAULTS


def check_model(model: object) -> None:
    """Callers without types get an error here, not in the middle of a run."""
    if not isinstance(getattr(model, "traits", None), Traits):
        raise invalid_option(f"{model!r} is not a model; use `await open_model(name)`, or give Agent its name")


# ── demands: the tool choice and the response format ────────────────────────────────────────────────────────────────


def chosen_tools(choice: object, tools: ToolSet) -> tuple[ToolSet, ToolChoice]:
    """The tools with those that may be called, and the choice between them, with the whole name of a tool."""
    at = "$.tool_choice"
    wanted = read_tool_choice(choice, at)
    if wanted.tools is None:
        if wanted.mode == "required" and not tools.namespaces:
            raise invalid_option("a call is required, but there are no tools", at)
        return tools, wanted.mode
    names = [named.name or "" for named in wanted.tools]
    if wanted.mode != "one":
        return tools.allow(names), wanted.mode
    tool = tools.find(names[0])
    if tool is None:
        *others, last = "auto", "none", "required", *(tools.recipient_of(tool) for tool in tools)
        raise invalid_option(f"there is no tool {names[0]!r} to choose; use {', '.join(others)} or {last}", at)
    return tools, tools.recipient_of(tool)


def known_format(given: object, *, is_checked: bool) -> ResponseFormat | None:
    """The form of the answer: a ResponseFormat, one of OpenAI's objects for it, or an object with name and schema.

    Raises where its schema is invalid, or no answer can have this form, unless the caller has checked that.
    """
    if given is None:
        return None
    form = given
    if not isinstance(form, ResponseFormat):
        form = read_response_format(given, "$.response_format", code=ErrorCode.RUN_INVALID_OPTION, exact=True)
    if not is_checked and form is not None:
        _check_schema(form.name, form.schema, is_answers=True)
        if fits_nothing(form.schema):
            raise invalid_option(f"no answer can have the format {form.name}: no value can match its schema", "$")
    return form


def check_text_forms(tools: ToolSet) -> None:
    """Raise where the form of a tool's text cannot be read, or a tool that takes JSON has one. Those of untrusted tools
    were checked by whoever brought them, within bounds."""
    for tool in tools:
        form: Any = tool.text_form  # callers without types may give anything
        if form is None or tool.untrusted:
            continue
        name = tools.recipient_of(tool)
        said, character, fault = None, None, None
        if tool.takes != "text":
            said = f"{name} takes JSON and cannot have a text_form; set takes='text', or use a schema"
        elif not isinstance(form, TextForm) or not isinstance(form.definition, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            said = f"the text_form of {name} is {form!r}; expected a TextForm(syntax, definition)"
        elif form.syntax not in get_args(Syntax):
            said = f"the syntax of the form of {name} is {form.syntax!r}; expected {' or '.join(get_args(Syntax))}"
        elif (fault := find_fault(form, name)) is not None:
            said, character = fault.message, fault.at.character
        if said is not None:
            at = Position(path="$.text_form", character=character)
            raise InputError(ErrorCode.TOOL_INVALID_DEFINITION, said, at) from fault


def check_strict_tools(tools: ToolSet) -> None:
    """The same for the arguments of strict tools."""
    for tool in tools:
        if not tool.strict or tool.untrusted or tool.parameters is None:
            continue
        name = tools.recipient_of(tool)
        _check_schema(name, tool.parameters, is_answers=False)
        if fits_nothing(tool.parameters):
            said = f"{name} is strict, but no arguments can match its schema"
            raise InputError(ErrorCode.TOOL_INVALID_DEFINITION, said, Position(path="$.parameters"))


def _check_schema(name: str, schema: Json | bool, *, is_answers: bool) -> None:
    try:
        compile_schema(name, schema, is_answers=is_answers, is_demanded=True)
    except InputError as error:
        if error.code is not ErrorCode.TOOL_MISSING_EXTRA:  # without jsonschema, it is not checked
            raise
