"""Which messages the next prompt keeps, and why; what a prompt costs, and how it changed."""

from harmonia.history.budgets import Budget, measure
from harmonia.history.preparation import (
    DOCUMENTED,
    KEEP_AFTER_CALLS,
    KEEP_EVERYTHING,
    REFERENCE,
    VLLM,
    Dropped,
    Fitted,
    LastTurns,
    Policy,
    Prepared,
    fit,
    prepare,
    receive,
    select_dropped,
)
from harmonia.history.prompt_changes import align, compare

__all__ = [
    "DOCUMENTED",
    "KEEP_AFTER_CALLS",
    "KEEP_EVERYTHING",
    "REFERENCE",
    "VLLM",
    "Budget",
    "Dropped",
    "Fitted",
    "LastTurns",
    "Policy",
    "Prepared",
    "align",
    "compare",
    "fit",
    "measure",
    "prepare",
    "receive",
    "select_dropped",
]
