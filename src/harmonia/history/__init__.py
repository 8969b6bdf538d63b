"""Which messages the next prompt keeps, and why; calls with their results; what a prompt costs, and how it changed."""

from harmonia.history.budgets import Budget, RenderConversation, measure
from harmonia.history.policies import (
    DOCUMENTED,
    KEEP_AFTER_CALLS,
    KEEP_EVERYTHING,
    REFERENCE,
    VLLM,
    Drop,
    LastTurns,
    Policy,
    Rule,
    first_final,
    is_reasoning,
)
from harmonia.history.preparation import Compact, Dropped, Fitted, Prepared, Received, fit, prepare, receive
from harmonia.history.prompt_changes import Aligned, Change, Prompt, PromptChange, align, compare, shared_prefix
from harmonia.history.turns import Turn, turns_of
from harmonia.messages import Exchange, Joined, Orphan, call_id, join_results, pending_calls

__all__ = [
    "DOCUMENTED",
    "KEEP_AFTER_CALLS",
    "KEEP_EVERYTHING",
    "REFERENCE",
    "VLLM",
    "Aligned",
    "Budget",
    "Change",
    "Compact",
    "Drop",
    "Dropped",
    "Exchange",
    "Fitted",
    "Joined",
    "LastTurns",
    "Orphan",
    "Policy",
    "Prepared",
    "Prompt",
    "PromptChange",
    "Received",
    "RenderConversation",
    "Rule",
    "Turn",
    "align",
    "call_id",
    "compare",
    "first_final",
    "fit",
    "is_reasoning",
    "join_results",
    "measure",
    "pending_calls",
    "prepare",
    "receive",
    "shared_prefix",
    "turns_of",
]
