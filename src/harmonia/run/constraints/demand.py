"""What a run demands of the next completion, and the grammar that enforces it.

A demand consists of the tools, the tool choice and the response format. The grammar of a demand is written once and
cached, because a server gets the same tools with every request.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from functools import partial
from typing import Final, Literal

import msgspec

from harmonia.events import Header
from harmonia.grammar import Begun, Demand, GrammarKind, WrittenGrammar, grammar_for
from harmonia.json_codec import encode_any
from harmonia.messages import ResponseFormat
from harmonia.run.cancellation import in_worker
from harmonia.run.constraints.held_events import Holds, is_damaged
from harmonia.run.engines.base import ToolChoice
from harmonia.run.tools import ToolSet

# demanded  where some well-formed completions would not meet the demand
# always    also where every well-formed completion would
# off       never; completions are validated instead
GrammarUse = Literal["demanded", "always", "off"]

_KEPT_GRAMMARS: Final = 128
_KEPT_CHARS: Final = 16_000_000


def demand_of(tools: ToolSet, tool_choice: ToolChoice, response_format: ResponseFormat | None) -> Demand:
    """What is demanded of a completion."""
    if tool_choice == "none" and not len(tools):
        tool_choice = "auto"  # nothing is left to forbid
    declared = (tool for tool in tools if tool.takes == "text" and not tool.defer_loading)
    texts = {tools.recipient_of(tool): tool.text_form for tool in declared}
    return Demand(tools.namespaces, tool_choice, tools.allowed, response_format, texts)


def needs_grammar(demand: Demand, tools: ToolSet) -> bool:
    """Whether some well-formed completions do not meet the demand."""
    return not demand.is_trivial or any(tool.strict or tool.text_form is not None for tool in tools)


def holds_for(demand: Demand, tools: ToolSet) -> Holds | None:
    """Which messages are held back until they are validated; None where no message can be wrong.

    A call that is not allowed is no reason to hold anything back: its result says so, and it is never handed over.
    """
    needs_call = demand.tool_choice not in ("auto", "none")
    has_format = demand.response_format is not None
    # A call that may be wrong can follow any other, and what was passed on of that one could not be discarded.
    is_exact = any(tool.strict or tool.text_form is not None for tool in tools)
    if not (needs_call or has_format or is_exact):
        return None

    def holds(header: Header) -> bool:
        if header.is_call:
            return needs_call or is_exact or is_damaged(header)
        return is_damaged(header) or (header.channel == "final" and (needs_call or has_format))

    return holds


# ── the cache of grammars ────────────────────────────────────────────────────────────────────────────────────────────


class _Kept:
    """Grammars by what they were written for; the least recently used are dropped first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # agents have threads of their own
        self._by_key: OrderedDict[bytes, WrittenGrammar] = OrderedDict()
        self._chars = 0

    def find(self, key: bytes) -> WrittenGrammar | None:
        with self._lock:
            found = self._by_key.get(key)
            if found is not None:
                self._by_key.move_to_end(key)
            return found

    def add(self, key: bytes, grammar: WrittenGrammar) -> None:
        with self._lock:
            if key in self._by_key:
                return
            self._by_key[key] = grammar
            self._chars += len(grammar.text)
            while len(self._by_key) > _KEPT_GRAMMARS or (self._chars > _KEPT_CHARS and len(self._by_key) > 1):
                _, forgotten = self._by_key.popitem(last=False)
                self._chars -= len(forgotten.text)


_KEPT: Final = _Kept()


async def written_grammar(demand: Demand, kind: GrammarKind, prefix: Begun | None = None) -> WrittenGrammar:
    """The grammar of a demand for this kind of engine."""
    document = encode_any([kind, msgspec.to_builtins(demand), msgspec.to_builtins(prefix)])
    key = hashlib.sha256(document.encode()).digest()
    found = _KEPT.find(key)
    if found is None:
        # Always in a thread: a few hundred characters of references may come to thousands of rules.
        found = await in_worker(partial(grammar_for, demand, kind, prefix))
        _KEPT.add(key, found)
    return found
