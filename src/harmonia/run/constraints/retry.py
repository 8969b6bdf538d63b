"""Each completion of a run is attempted once, and where it is not what was demanded, once more.

    engine takes a grammar     it is held to the demand; the rest (what the grammar lost) is checked and reported
                               afterwards. Where the engine refuses the grammar, it is asked without one
    first attempt, no grammar  what the demand is about is held back, checked, and then told or given up
    second attempt             told as it comes. Where the demand decides the next header, the prompt begins with it

A message that was begun in the prompt by the caller is told as it comes: whoever began it has shown its beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harmonia.builtin_tools import BROWSER, PYTHON
from harmonia.errors import ErrorCode, HarmonyError, InputError
from harmonia.grammar import Begun, Demand, GrammarKind, Loss, WrittenGrammar, callable_tools
from harmonia.messages import Message, ResponseFormat
from harmonia.run.constraints.demand import GrammarUse, demand_of, holds_for, needs_grammar, written_grammar
from harmonia.run.constraints.event_buffer import Holding, Holds, is_damaged
from harmonia.run.constraints.text_format import find_fault
from harmonia.run.constraints.validation import Verdict, check_completion, is_malformed
from harmonia.run.engines.base import Finish, ToolChoice
from harmonia.run.engines.http import ServerError
from harmonia.run.events import Unmet
from harmonia.run.tools import ToolSet

_MET: Final = Verdict()
_CUT_OFF: Final = Verdict(notes=("the completion was cut off, so nobody can say whether it is what was demanded",))
# Then what is demanded is checked, as for an engine that takes no grammar.
_WITHOUT_GRAMMAR: Final = (
    ErrorCode.GRAMMAR_TOO_LARGE,
    ErrorCode.GRAMMAR_MISSING_EXTRA,
    ErrorCode.GRAMMAR_INVALID_OPTION,
)
_REFUSED: Final = (*_WITHOUT_GRAMMAR, ErrorCode.ENGINE_REFUSED)
# What servers answer to a grammar that they cannot use. Others, such as those that are busy, say nothing of it.
_REFUSING_STATUSES: Final = (400, 422, 500)
_BUILT_IN: Final = (BROWSER.name, PYTHON.name)


class Attempts:
    """What is demanded of the next completion, whether it came, and what is begun for the model if not."""

    def __init__(
        self,
        tools: ToolSet,
        response_format: ResponseFormat | None,
        *,
        takes_grammar: GrammarKind | None,
        can_begin: bool,
        grammar: GrammarUse,
        retry_malformed: bool,
    ) -> None:
        self.given_up = 0
        self.holding: Holding | None = None
        self.is_begun = False  # the header in the prompt is ours
        self.notes: tuple[str, ...] = ()
        self._tools = tools
        self._response_format = response_format
        self._takes_grammar: GrammarKind | None = takes_grammar if grammar != "off" else None
        self._always = grammar == "always"
        self._can_begin = can_begin
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

    async def begin(self, tool_choice: ToolChoice, begun: Message | None) -> WrittenGrammar | None:
        """Before each sampling: the grammar for it. Afterwards `holding` and `notes` are those of this sampling."""
        demand = self._demand = demand_of(self._tools, tool_choice, self._response_format)
        is_demanding = needs_grammar(demand, self._tools)
        holds = holds_for(demand, self._tools)
        self._is_checked = holds is not None
        self.holding, self.notes = None, ()
        grammar = None
        kind = self._takes_grammar
        if kind is not None and (is_demanding or self._always or self._was_malformed):
            grammar = await self._write(kind, begun)
        if grammar is not None:
            self.notes = tuple(map(_describe_loss, grammar.losses))
        if holds is None and self._retry_malformed:
            holds = is_damaged
        self._holds = holds if begun is None and not self._is_second else None
        if grammar is None:
            self._hold()
        return grammar

    def drop_grammar(self, error: HarmonyError) -> bool:
        """The engine refused before it said anything. Whether it is asked again without the grammar: then `holding` and
        `notes` are those of that. Raises where a form of the caller's own is at fault."""
        status = error.status if isinstance(error, ServerError) else None
        if error.code not in _REFUSED or (status is not None and status not in _REFUSING_STATUSES):
            return False
        for name, form in self._demand.texts.items():
            if form is not None and (fault := find_fault(form, name)) is not None:
                raise fault from error
        self._takes_grammar = None
        # No word of the engine's: it may quote an address.
        self.notes = ("the engine refuses the grammar of what is demanded, so that is checked",)
        self._hold()
        return True

    def _hold(self) -> None:
        self.holding = None if self._holds is None else Holding(self._holds)

    async def _write(self, kind: GrammarKind, begun: Message | None) -> WrittenGrammar | None:
        start = None if begun is None else Begun(begun.channel, begun.recipient, bool(begun.text))
        try:
            return await written_grammar(self._demand, kind, start)
        except InputError as error:
            if error.code not in _WITHOUT_GRAMMAR:
                raise
            self.notes = (f"the engine is held to no grammar: {error.message}",)
            return None

    async def judge(self, messages: Sequence[Message], finish: Finish | None) -> Verdict:
        """Whether what came is what was demanded."""
        if finish is None or finish.reason == "length" or (finish.reason == "unknown" and not _ends(messages)):
            return _CUT_OFF if self._is_checked else _MET
        if self._is_checked:
            verdict = await check_completion(messages, self._demand, self._tools)
            if verdict.unmet is not None:
                return verdict
        else:
            verdict = _MET
        if self._retry_malformed and is_malformed(messages):
            why = "the output is damaged, and there is nothing to show and nothing to run"
            return Verdict(Unmet("malformed", why), verdict.notes)
        return verdict

    def give_up(self, unmet: Unmet) -> Message | None:
        """Another attempt follows; the message that the prompt begins for it, if the demand decides which."""
        self.given_up += 1
        self._is_second = True
        self._was_malformed = unmet.kind == "malformed"
        begun = self._header_for(unmet) if self._can_begin else None
        self.is_begun = begun is not None
        return begun

    def settle(self) -> None:
        """The completion is taken as it is."""
        self._is_second = self._was_malformed = self.is_begun = False

    def _header_for(self, unmet: Unmet) -> Message | None:
        if unmet.kind == "format":
            return Message.assistant("")
        if unmet.kind == "malformed" or self._demand.tool_choice in ("auto", "none"):
            return None
        tools = callable_tools(self._demand)
        if len(tools) != 1:
            return None
        name, takes_text = tools[0].name, tools[0].takes_text
        channel = "analysis" if name.partition(".")[0] in _BUILT_IN else "commentary"
        return Message.call(name, "", channel=channel, content_type=None if takes_text else "<|constrain|>json")


def _ends(messages: Sequence[Message]) -> bool:
    """Whether the last message has its end, or came from somebody who has none to give."""
    origin = messages[-1].origin if messages else None
    return origin is None or origin.stop is not None or origin.source == "items"


def _describe_loss(loss: Loss) -> str:
    return f"the grammar does not hold {loss.about} to {loss.feature} at {loss.path}: {loss.message}"
