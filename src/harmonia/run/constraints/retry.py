"""Attempts each completion of a run once, and once more where it is not what was demanded.

    engine takes a grammar     the grammar enforces the demand; what the grammar cannot express is validated and
                               reported afterwards. An engine that refuses the grammar is asked without one
    first attempt, no grammar  what the demand is about is held back, validated, and then passed on or discarded
    second attempt             passed on as it comes. Where the demand decides the next header, the prompt has it

Where the caller gave a prefix, events are passed on as they come: the caller has shown its beginning already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harmonia.errors import ErrorCode, HarmonyError, InputError
from harmonia.grammar import Begun, Demand, GrammarKind, Loss, WrittenGrammar, callable_tools
from harmonia.messages import Message, ResponseFormat
from harmonia.messages.builtin_tools import BROWSER, PYTHON
from harmonia.run.constraints.demand import GrammarUse, demand_of, holds_for, needs_grammar, written_grammar
from harmonia.run.constraints.held_events import HeldEvents, Holds, is_damaged
from harmonia.run.constraints.validation import Verdict, check_completion, find_fault, is_malformed
from harmonia.run.engines.base import Finish, ToolChoice
from harmonia.run.engines.http import ServerError
from harmonia.run.events import Unmet
from harmonia.run.tools import ToolSet

_MET: Final = Verdict()
_CUT_OFF: Final = Verdict(notes=("the completion was cut off, so it could not be checked against the demanded format",))
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
        self._is_second = False
        self._was_malformed = False

    @property
    def is_second(self) -> bool:
        """Whether the completion is being sampled for the second time."""
        return self._is_second

    async def begin(self, tool_choice: ToolChoice, prefix: Message | None) -> WrittenGrammar | None:
        """Before each sampling: the grammar for it. Sets `held` and `notes` for this sampling."""
        demand = self._demand = demand_of(self._tools, tool_choice, self._response_format)
        is_demanding = needs_grammar(demand, self._tools)
        holds = holds_for(demand, self._tools)
        self._is_checked = holds is not None
        self.held, self.notes = None, ()
        grammar = None
        kind = self._takes_grammar
        if kind is not None and (is_demanding or self._always or self._was_malformed):
            grammar = await self._write(kind, prefix)
        if grammar is not None:
            self.notes = tuple(map(_describe_loss, grammar.losses))
        if holds is None and self._retry_malformed:
            holds = is_damaged
        self._holds = holds if prefix is None and not self._is_second else None
        if grammar is None:
            self._hold()
        return grammar

    def drop_grammar(self, error: HarmonyError) -> bool:
        """The engine refused before it sent anything. Returns whether to ask again without the grammar; `held` and
        `notes` then describe that. Raises where a form that the caller gave is at fault."""
        status = error.status if isinstance(error, ServerError) else None
        if error.code not in _REFUSED or (status is not None and status not in _REFUSING_STATUSES):
            return False
        for name, form in self._demand.texts.items():
            if form is not None and (fault := find_fault(form, name)) is not None:
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
            return await written_grammar(self._demand, kind, start)
        except InputError as error:
            if error.code not in _WITHOUT_GRAMMAR:
                raise
            self.notes = (f"no grammar was used: {error.message}",)
            return None

    async def judge(self, messages: Sequence[Message], finish: Finish | None) -> Verdict:
        """Whether the completion meets the demand."""
        if finish is None or finish.reason == "length" or (finish.reason == "unknown" and not _ends(messages)):
            return _CUT_OFF if self._is_checked else _MET
        if self._is_checked:
            verdict = await check_completion(messages, self._demand, self._tools)
            if verdict.unmet is not None:
                return verdict
        else:
            verdict = _MET
        if self._retry_malformed and is_malformed(messages):
            why = "the output is malformed: it contains nothing to show and nothing to run"
            return Verdict(Unmet("malformed", why), verdict.notes)
        return verdict

    def give_up(self, unmet: Unmet) -> Message | None:
        """Another attempt follows. Returns its prefix, where the demand decides the header."""
        self.given_up += 1
        self._is_second = True
        self._was_malformed = unmet.kind == "malformed"
        prefix = self._header_for(unmet) if self._takes_prefix else None
        self.has_prefix = prefix is not None
        return prefix

    def settle(self) -> None:
        """The completion is accepted as it is."""
        self._is_second = self._was_malformed = self.has_prefix = False

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


def _describe_loss(loss: Loss) -> str:
    return f"the grammar does not enforce {loss.feature} of {loss.about} at {loss.path}: {loss.message}"
