"""Whether a completion is what was demanded, for engines that no grammar holds, and for what a grammar lost.

call        a call was demanded, and none was made, or none that may be made
arguments   a call to a strict tool, or to one whose text has a form, does not fit
format      the answer is not what the response format says
malformed   the model's output is damaged, and there is nothing to show and nothing to run
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Final, cast

import msgspec

from harmonia.errors import EngineError, ErrorCode, InputError, ToolError
from harmonia.grammar import Demand, TextForm, WrittenGrammar
from harmonia.grammar.llguidance_writer import write_llguidance
from harmonia.grammar.rules import Grammar, Special, Text, sequence
from harmonia.json_codec import json_fault, read_json
from harmonia.messages import Json, Message
from harmonia.parts import Call, call_of, is_visible
from harmonia.provenance import Trust
from harmonia.run.cancellation import in_worker
from harmonia.run.engines.grammar_mask import Matcher, is_installed
from harmonia.run.events import Unmet
from harmonia.run.tools import ToolSet
from harmonia.run.tools.arguments import MisfitError, compile_schema, texts_of
from harmonia.vocabulary import CALL, encode

# Checking so much text against a schema takes some milliseconds.
_LONG_CHARS: Final = 16_000
_MADE: Final = ("certain", "unverified")
_STEP: Final = re.compile(r"\.([A-Za-z_$][\w$]*)|\[\d+\]")


class Verdict(msgspec.Struct, frozen=True):
    """What is missing, if anything is; `notes` say what could not be checked."""

    unmet: Unmet | None = None
    notes: tuple[str, ...] = ()


_MET: Final = Verdict()


async def check_completion(messages: Sequence[Message], demand: Demand, tools: ToolSet) -> Verdict:
    """Whether the messages of a completion meet the demand."""
    has_forms = any(tool.text_form is not None or tool.strict for tool in tools)
    if not has_forms and demand.is_trivial and sum(len(message.text) for message in messages) < _LONG_CHARS:
        return _check(messages, demand, tools)
    return await in_worker(partial(_check, messages, demand, tools))


def is_malformed(messages: Sequence[Message]) -> bool:
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
    answer = next((message for message in reversed(messages) if _is_answer(message)), None)
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
    for call in _wanted(calls, demand, tools):
        try:
            tools.check_arguments(call)
        except ToolError as error:
            if error.code is ErrorCode.TOOL_INVALID_ARGUMENTS:
                made = "the call with arguments that do not fit"
                continue
            notes.append(f"the arguments of a call could not be checked: {error.message}")
        return Verdict(notes=tuple(notes))
    return Verdict(Unmet("call", f"the tool choice is {demand.tool_choice}, and the model made {made}"), tuple(notes))


def _wanted(calls: Sequence[Call], demand: Demand, tools: ToolSet) -> Iterator[Call]:
    for call in calls:
        tool = tools.find(call.recipient)
        if tool is None or call.status not in _MADE or not tools.is_allowed(tool):
            continue
        if demand.tool_choice in ("required", tools.recipient_of(tool)):
            yield call


def _check_exact(call: Call, tools: ToolSet) -> Unmet | None:
    """What is wrong with a call whose arguments have to fit. Raises an InputError where that cannot be said."""
    tool = tools.find(call.recipient)
    if tool is None or call.status not in _MADE or not tools.is_allowed(tool):
        return None  # it is not handed over, and the model is told
    name = tools.recipient_of(tool)
    form = tool.text_form
    if form is not None:
        if not any(text_fits(form, name, text) for text in texts_of(tool, call)):
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
    """The path up to the first name that no schema declares: that one may be the model's. And why what is there does
    not fit, where the path leads so far."""
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


def _is_answer(message: Message) -> bool:
    return message.channel == "final" and is_visible(message)


# ── the texts of custom tools ─────────────────────────────────────────────────────────────────────────────────────────


_REMEMBERED_FORMS: Final = 256
# Of this thread's own time, so that it does not matter what else the machine does.
_MOST_WORK_S: Final = 2.0
_MISSING: Final = "checking the input of a custom tool needs llguidance: pip install 'harmonia[grammar]'"


# A client sends the same tools with every request.
@lru_cache(maxsize=_REMEMBERED_FORMS)
def find_fault(form: TextForm, name: str) -> InputError | None:
    """What is wrong with the form of this tool's text; None where nothing is, or nobody can tell."""
    try:
        grammar = _grammar(form, name)
        if is_installed():
            Matcher(grammar)
    except InputError as error:
        if error.code is ErrorCode.GRAMMAR_MISSING_EXTRA:
            return None  # it cannot be imported, which is no fault of the form's
        if error.code is ErrorCode.GRAMMAR_TOO_LARGE:
            return error
        return InputError(ErrorCode.GRAMMAR_INVALID_TEXT_FORM, error.message, error.at)
    return None


def text_fits(form: TextForm, name: str, text: str) -> bool:
    """Whether the text has the form. Raises an InputError where nobody can tell. It may take seconds."""
    if not is_installed():
        raise InputError(ErrorCode.GRAMMAR_MISSING_EXTRA, _MISSING)
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
            raise InputError(
                ErrorCode.GRAMMAR_TOO_LARGE, f"checking a text against the form of {name} takes too much work"
            )
    return True


def _grammar(form: TextForm, name: str) -> WrittenGrammar:
    # As a call has it: the text, and the token that ends it.
    return write_llguidance(Grammar(sequence(Text(form, name), Special(CALL)), {}))
