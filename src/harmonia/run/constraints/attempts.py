"""Attempts each completion of a run once, and once more where it is not what was demanded.

    engine takes a grammar     the grammar enforces the demand; what the grammar cannot express is validated and
                               reported afterwards. An engine that refuses the grammar is asked without one
    first attempt, no grammar  what the demand is about is held back, validated, and then passed on or discarded
    second attempt             passed on as it comes. Where the demand decides the next header, the prompt has it

Where the caller gave a prefix, events are passed on as they come: the caller has shown its beginning already.

A completion does not meet the demand because of

    call        a call was demanded, and none was made, or none that may be made
    arguments   a call to a strict tool, or to one whose text has a form, does not fit
    format      the answer is not in the response format
    malformed   the model's output is damaged, and there is nothing to show and nothing to run

While a completion can still be discarded, reasoning and text before a call are passed on at once. Everything from the
first header that the validation is about is held back, so that the order stays. What was passed on stays in the
conversation. So a consumer never sees two answers, or a call that was not made.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Final, Literal, cast

import msgspec

from harmonia.errors import EngineError, ErrorCode, HarmonyError, InputError, ToolError
from harmonia.events import Header, HeaderCompleted, MessageEnded, MessageStarted, Repaired, TurnEnded
from harmonia.grammar import (
    Begun,
    CallableTool,
    Demand,
    GrammarKind,
    TextForm,
    WrittenGrammar,
    callable_tools,
    declared_tools,
    grammar_for,
)
from harmonia.grammar.llguidance_writer import write_llguidance
from harmonia.grammar.rules import Grammar, Special, Text, sequence
from harmonia.json_codec import encode_any, json_fault, read_json
from harmonia.messages import Json, Message, ResponseFormat, is_tool_address
from harmonia.messages.builtin_tools import BROWSER, PYTHON
from harmonia.parts import Call, call_of, is_visible
from harmonia.provenance import Trust
from harmonia.run.cancellation import in_worker
from harmonia.run.engines.base import Finish, ToolChoice
from harmonia.run.engines.grammar_mask import Matcher, is_installed
from harmonia.run.engines.http import ServerError
from harmonia.run.events import LogprobsGiven, TurnEvent, Unmet
from harmonia.run.tools import Tool, ToolSet
from harmonia.run.tools.arguments import MisfitError, compile_schema, texts_of
from harmonia.vocabulary import CALL, encode

Holds = Callable[[Header], bool]

# What may come between the start of a message and the end of its header.
_WITHIN_HEADERS: Final = frozenset((MessageStarted, LogprobsGiven, Repaired))
# demanded  where some well-formed completions would not meet the demand
# always    also where every well-formed completion would
# off       never; completions are validated instead
GrammarUse = Literal["demanded", "always", "off"]

_CACHED: Final = 128
_CACHED_CHARS: Final = 16_000_000
# Then the completion is validated, as for an engine that takes no grammar.
_WITHOUT_GRAMMAR: Final = (
    ErrorCode.GRAMMAR_TOO_LARGE,
    ErrorCode.GRAMMAR_MISSING_EXTRA,
    ErrorCode.GRAMMAR_INVALID_OPTION,
)
_REFUSED: Final = (*_WITHOUT_GRAMMAR, ErrorCode.ENGINE_REFUSED)
# What servers answer to a grammar they cannot use. Other statuses, such as "busy", have nothing to do with it.
_REFUSING_STATUSES: Final = (400, 422, 500)
_BUILT_IN: Final = (BROWSER.name, PYTHON.name)
# Checking so much text against a schema takes some milliseconds.
_LONG_CHARS: Final = 16_000
_MADE: Final = ("certain", "unverified")
# Of this thread's own time, so that it does not matter what else the machine does.
_MOST_WORK_S: Final = 2.0
_STEP: Final = re.compile(r"\.([A-Za-z_$][\w$]*)|\[\d+\]")


class Verdict(msgspec.Struct, frozen=True):
    """What is missing, if anything is; `notes` say what could not be checked."""

    unmet: Unmet | None = None
    notes: tuple[str, ...] = ()


_MET: Final = Verdict()
_CUT_OFF: Final = Verdict(notes=("the completion was cut off, so it could not be checked against the demanded format",))


class Attempts:
    """What is demanded of the next completion, whether it was met, and the prefix of the second attempt if not."""

    def __init__(
        self,
        tools: ToolSet,
        response_format: ResponseFormat | None,
        *,
        takes_grammar: GrammarKind | None,
        takes_prefix: bool,
        grammar: GrammarUse,
        retry_malformed: bool,
    ) -> None:
        self.given_up = 0
        self.held: HeldEvents | None = None
        self.has_prefix = False  # this class put a header into the prompt
        self.notes: tuple[str, ...] = ()
        self._tools = tools
        self._response_format = response_format
        self._takes_grammar: GrammarKind | None = takes_grammar if grammar != "off" else None
        self._always = grammar == "always"
        self._takes_prefix = takes_prefix
        self._retry_malformed = retry_malformed
        self._demand = Demand()
        self._holds: Holds | None = None  # in the attempt that may be given up
        self._is_checked = False
        self._was_malformed = False
        self.is_second = False  # the completion is being sampled for the second time

    async def begin(self, tool_choice: ToolChoice, prefix: Message | None) -> WrittenGrammar | None:
        """Before each sampling: the grammar for it. Sets `held` and `notes` for this sampling."""
        demand = self._demand = demand_of(self._tools, tool_choice, self._response_format)
        is_demanding = not demand.is_trivial or _has_exact(self._tools)
        holds = _holds_for(demand, self._tools)
        self._is_checked = holds is not None
        self.held, self.notes = None, ()
        grammar = None
        if self._takes_grammar is not None and (is_demanding or self._always or self._was_malformed):
            grammar = await self._write(self._takes_grammar, prefix)
        if holds is None and self._retry_malformed:
            holds = _is_damaged
        self._holds = holds if prefix is None and not self.is_second else None
        if grammar is None:
            self._hold()
        return grammar

    def drop_grammar(self, error: HarmonyError) -> bool:
        """The engine refused before it sent anything. Returns whether to ask again without the grammar; `held` and
        `notes` then describe that. Raises where a form that the caller gave is at fault."""
        status = error.status if isinstance(error, ServerError) else None
        if error.code not in _REFUSED or (status is not None and status not in _REFUSING_STATUSES):
            return False
        for tool in self._demand.tools:
            if tool.text_form is not None and (fault := find_fault(tool.text_form, tool.name)) is not None:
                raise fault from error
        self._takes_grammar = None
        # Nothing of the engine's message: it may quote an address.
        self.notes = ("the engine refused the grammar, so the completion was validated instead",)
        self._hold()
        return True

    def _hold(self) -> None:
        self.held = None if self._holds is None else HeldEvents(self._holds)

    async def _write(self, kind: GrammarKind, prefix: Message | None) -> WrittenGrammar | None:
        start = None if prefix is None else Begun(prefix.channel, prefix.recipient, bool(prefix.text))
        try:
            grammar = await _written_grammar(self._demand, kind, start)
        except InputError as error:
            if error.code not in _WITHOUT_GRAMMAR:
                raise
            self.notes = (f"no grammar was used: {error.message}",)
            return None
        self.notes = tuple(
            f"the grammar does not enforce {loss.feature} of {loss.about} at {loss.path}: {loss.message}"
            for loss in grammar.losses
        )
        return grammar

    async def judge(self, messages: Sequence[Message], finish: Finish | None) -> Verdict:
        """Whether the completion meets the demand."""
        if finish is None or finish.reason == "length" or (finish.reason == "unknown" and not _ends(messages)):
            return _CUT_OFF if self._is_checked else _MET
        verdict = await check_completion(messages, self._demand, self._tools) if self._is_checked else _MET
        if verdict.unmet is None and self._retry_malformed and _is_malformed(messages):
            why = "the output is malformed: it contains nothing to show and nothing to run"
            return Verdict(Unmet("malformed", why), verdict.notes)
        return verdict

    def give_up(self, unmet: Unmet) -> Message | None:
        """Another attempt follows. Returns its prefix, where the demand decides the header."""
        self.given_up += 1
        self.is_second = True
        self._was_malformed = unmet.kind == "malformed"
        prefix = self._header_for(unmet) if self._takes_prefix else None
        self.has_prefix = prefix is not None
        return prefix

    def settle(self) -> None:
        """The completion is accepted as it is."""
        self.is_second = self._was_malformed = self.has_prefix = False

    def _header_for(self, unmet: Unmet) -> Message | None:
        if unmet.kind == "format":
            return Message.assistant("")
        if unmet.kind == "malformed" or self._demand.tool_choice in ("auto", "none"):
            return None
        tools = callable_tools(self._demand)
        if len(tools) != 1:
            return None
        name, takes_text = tools[0].name, tools[0].takes == "text"
        channel = "analysis" if name.partition(".")[0] in _BUILT_IN else "commentary"
        return Message.call(name, "", channel=channel, content_type=None if takes_text else "<|constrain|>json")


def _ends(messages: Sequence[Message]) -> bool:
    """Whether the last message has its end, or came from a source that reports none."""
    origin = messages[-1].origin if messages else None
    return origin is None or origin.stop is not None or origin.source == "items"


# ── demands and their grammars ──────────────────────────────────────────────────────────────────────────────────────


def demand_of(tools: ToolSet, tool_choice: ToolChoice, response_format: ResponseFormat | None) -> Demand:
    """What is demanded of a completion."""
    if tool_choice == "none" and not len(tools):
        tool_choice = "auto"  # nothing is left to forbid
    return Demand(callable_tools_of(tools), tool_choice, tools.allowed, response_format)


def callable_tools_of(tools: ToolSet) -> tuple[CallableTool, ...]:
    """The tools that are declared to the model."""
    declared = (tool for tool in tools if tool.takes == "text" and not tool.defer_loading)
    texts = {tools.recipient_of(tool): tool.text_form for tool in declared}
    return declared_tools(tools.namespaces, texts)


def _has_exact(tools: ToolSet) -> bool:
    """Whether there is a tool whose arguments have to fit."""
    return any(tool.strict or tool.text_form is not None for tool in tools)


def _holds_for(demand: Demand, tools: ToolSet) -> Holds | None:
    """Which messages are held back until they are validated; None where no message can be wrong.

    A call that is not allowed is no reason to hold anything back: its result says so, and it is never handed over.
    """
    needs_call = demand.tool_choice not in ("auto", "none")
    has_format = demand.response_format is not None
    # A call that may be wrong can follow any other, and what was passed on of that one could not be discarded.
    is_exact = _has_exact(tools)
    if not (needs_call or has_format or is_exact):
        return None

    def holds(header: Header) -> bool:
        if header.is_call:
            return needs_call or is_exact or _is_damaged(header)
        return _is_damaged(header) or (header.channel == "final" and (needs_call or has_format))

    return holds


_CACHE: Final[OrderedDict[bytes, WrittenGrammar]] = OrderedDict()
_CACHE_LOCK: Final = threading.Lock()  # agents have threads of their own


async def _written_grammar(demand: Demand, kind: GrammarKind, prefix: Begun | None) -> WrittenGrammar:
    """The grammar of a demand for this kind of engine. Cached: a server gets the same tools again."""
    document = encode_any([kind, msgspec.to_builtins(demand), msgspec.to_builtins(prefix)])
    key = hashlib.sha256(document.encode()).digest()
    with _CACHE_LOCK:
        found = _CACHE.get(key)
        if found is not None:
            _CACHE.move_to_end(key)
            return found
    # Always in a thread: a few hundred characters of references may come to thousands of rules.
    written = await in_worker(partial(grammar_for, demand, kind, prefix))
    with _CACHE_LOCK:
        _CACHE[key] = written
        while len(_CACHE) > _CACHED or (len(_CACHE) > 1 and sum(len(g.text) for g in _CACHE.values()) > _CACHED_CHARS):
            _CACHE.popitem(last=False)
    return written


# ── held events ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _is_damaged(header: Header) -> bool:
    """Whether the message of this header will be neither shown nor run, because the header is not certain."""
    return header.is_forged or header.trust < (Trust.CERTAIN if header.is_call else Trust.REPAIRED)


class HeldEvents:
    """Push the events of one completion; what it returns may be passed on."""

    __slots__ = ("_held", "_holds", "_is_closed", "_waiting", "can_discard", "passed_messages")

    def __init__(self, holds: Holds) -> None:
        self.passed_messages = 0
        # A call or an answer that was passed on stands; another completion might contradict it.
        self.can_discard = True
        self._holds = holds
        self._is_closed = False
        self._waiting: list[TurnEvent] = []  # of a message whose header is not complete yet
        self._held: list[TurnEvent] = []

    def push(self, event: TurnEvent) -> Sequence[TurnEvent]:
        """The events that may be passed on now."""
        kind = event.__class__
        if self._is_closed:
            self._held.append(event)
            return ()
        if kind is MessageStarted or (self._waiting and kind in _WITHIN_HEADERS):
            self._waiting.append(event)
            return ()
        if kind is TurnEnded or (isinstance(event, HeaderCompleted) and self._holds(event.header)):
            self._is_closed = True
            self._held = [*self._waiting, event]
            self._waiting = []
            return ()
        if isinstance(event, MessageEnded):
            message = event.message
            self.passed_messages += 1
            if is_tool_address(message.recipient) or (message.channel == "final" and is_visible(message)):
                self.can_discard = False
        if not self._waiting:
            return (event,)
        waiting, self._waiting = self._waiting, []
        return (*waiting, event)

    def release(self) -> Sequence[TurnEvent]:
        """Everything that was held back, in order."""
        events = [*self._waiting, *self._held]
        self._waiting, self._held = [], []
        self.passed_messages += sum(isinstance(event, MessageEnded) for event in events)
        return events


# ── validation ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def check_completion(messages: Sequence[Message], demand: Demand, tools: ToolSet) -> Verdict:
    """Whether the messages of a completion meet the demand."""
    size = sum(len(message.text) for message in messages)
    if demand.is_trivial and size < _LONG_CHARS and not _has_exact(tools):
        return _check(messages, demand, tools)
    return await in_worker(partial(_check, messages, demand, tools))


def _is_malformed(messages: Sequence[Message]) -> bool:
    """Whether there is nothing to show and nothing to run, because the model's output is damaged."""
    for message in messages:
        call = call_of(message)
        if (call is not None and call.status in _MADE) or (is_visible(message) and message.text.strip()):
            return False
    return any(
        message.origin is not None and (message.origin.trust is not Trust.CERTAIN or message.origin.forged)
        for message in messages
    )


def _check(messages: Sequence[Message], demand: Demand, tools: ToolSet) -> Verdict:
    calls = [call for message in messages if (call := call_of(message, tools.declared)) is not None]
    notes: list[str] = []
    for call in calls:
        try:
            unmet = _check_exact(call, tools)
        except InputError as error:
            notes.append(f"the arguments of a call could not be checked: {error.message}")
        else:
            if unmet is not None:
                return Verdict(unmet)
    if demand.tool_choice not in ("auto", "none"):
        return _check_choice(calls, demand, tools, notes)
    if demand.response_format is None or calls:
        return Verdict(notes=tuple(notes)) if notes else _MET
    answers = [message for message in messages if message.channel == "final" and is_visible(message)]
    answer = answers[-1] if answers else None
    if answer is None:
        return Verdict(Unmet("format", "an answer in a set format was demanded, but the model gave no answer"))
    name, schema = demand.response_format.name, demand.response_format.schema
    fault = json_fault(answer.text)
    if fault is not None:
        said = f"the answer must be JSON in the format {name}, but it is not valid JSON from {fault} on"
        return Verdict(Unmet("format", said, reason="it is not JSON"))
    try:
        compile_schema(name, schema, untrusted=True, is_answers=True)(read_json(answer.text))
    except ToolError as error:
        said = f"the answer does not match the schema of {name} at {error.at.path}"
        place, reason = _declared_place(error, schema)
        return Verdict(Unmet("format", said, place=place, reason=reason))
    except InputError as error:
        return Verdict(notes=(*notes, f"the answer could not be checked: {error.message}"))
    return Verdict(notes=tuple(notes))


def _check_choice(calls: Sequence[Call], demand: Demand, tools: ToolSet, notes: Sequence[str]) -> Verdict:
    notes, made = list(notes), "no call" if not calls else "another call"
    for call in calls:
        tool = _callable_tool(call, tools)
        if tool is None or demand.tool_choice not in ("required", tools.recipient_of(tool)):
            continue
        try:
            tools.check_arguments(call)
        except ToolError as error:
            if error.code is ErrorCode.TOOL_INVALID_ARGUMENTS:
                made = "the call with arguments that do not fit"
                continue
            notes.append(f"the arguments of a call could not be checked: {error.message}")
        return Verdict(notes=tuple(notes))
    return Verdict(Unmet("call", f"the tool choice is {demand.tool_choice}, and the model made {made}"), tuple(notes))


def _callable_tool(call: Call, tools: ToolSet) -> Tool | None:
    """The tool of a call that is complete and allowed."""
    tool = tools.find(call.recipient)
    return tool if tool is not None and call.status in _MADE and tools.is_allowed(tool) else None


def _check_exact(call: Call, tools: ToolSet) -> Unmet | None:
    """What is wrong with a call whose arguments have to fit. Raises an InputError where that cannot be said."""
    tool = _callable_tool(call, tools)
    if tool is None:
        return None  # it is not handed over, and the model is told
    name = tools.recipient_of(tool)
    if tool.text_form is not None:
        if not any(text_fits(tool.text_form, name, text) for text in texts_of(tool, call)):
            return Unmet("arguments", f"the text for {name} does not have the form that the tool demands", name)
    elif tool.strict and tool.takes == "json":
        try:
            tools.check_arguments(call)
        except ToolError as error:
            if error.code is not ErrorCode.TOOL_INVALID_ARGUMENTS:
                raise InputError(error.code, error.message, error.at) from error
            said = f"{name} is strict, but the arguments do not match its schema at {error.at.path or '$'}"
            return Unmet("arguments", said, name, *_declared_place(error, tool.parameters))
    return None


def _declared_place(error: ToolError, schema: object) -> tuple[str, str | None]:
    """The path up to the first name that no schema declares, because that name may be the model's. And the reason, if
    the whole path is declared."""
    path = error.at.path
    declared = set(_declared_names(schema))
    place, at = "$", 1
    while path is not None and (step := _STEP.match(path, at)) is not None:
        if step[1] is not None and step[1] not in declared:
            break
        place, at = place + step[0], step.end()
    return place, error.reason if isinstance(error, MisfitError) and place == path else None


def _declared_names(schema: object) -> Iterator[str]:
    parts: list[object] = [schema]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            fields = cast("Json", part)
            properties: object = fields.get("properties")
            if isinstance(properties, dict):
                yield from cast("Json", properties)
            parts += fields.values()
        elif isinstance(part, list):
            parts += cast("list[object]", part)


# ── the texts of custom tools ───────────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=256)  # a client sends the same tools with every request
def find_fault(form: TextForm, name: str) -> InputError | None:
    """What is wrong with the form of this tool's text; None where nothing is, or llguidance would have to tell."""
    try:
        grammar = _grammar(form, name)
        if is_installed():
            Matcher(grammar)
    except InputError as error:
        if error.code is ErrorCode.GRAMMAR_MISSING_EXTRA:
            return None  # llguidance cannot be imported, which is not the form's fault
        if error.code is ErrorCode.GRAMMAR_TOO_LARGE:
            return error
        return InputError(ErrorCode.GRAMMAR_INVALID_TEXT_FORM, error.message, error.at)
    return None


def text_fits(form: TextForm, name: str, text: str) -> bool:
    """Whether the text has the form. Raises an InputError where that cannot be checked. It may take seconds."""
    if not is_installed():
        message = "checking the input of a custom tool needs llguidance: pip install 'harmonia[grammar]'"
        raise InputError(ErrorCode.GRAMMAR_MISSING_EXTRA, message)
    tokens = [*encode(text), CALL]
    matcher = Matcher(_grammar(form, name))
    until_s = time.thread_time() + _MOST_WORK_S
    for token in tokens:
        try:
            matcher.commit(token)
        except EngineError as error:
            if error.code is ErrorCode.GRAMMAR_TOO_LARGE:
                raise InputError(error.code, error.message, error.at) from error
            return False
        if time.thread_time() > until_s:
            message = f"checking a text against the form of {name} takes too much work"
            raise InputError(ErrorCode.GRAMMAR_TOO_LARGE, message)
    return True


def _grammar(form: TextForm, name: str) -> WrittenGrammar:
    # As a call has it: the text, and the token that ends it.
    return write_llguidance(Grammar(sequence(Text(form, name), Special(CALL)), {}))
