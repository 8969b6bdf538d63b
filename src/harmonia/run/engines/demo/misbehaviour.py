"""Scripted misbehaviour, to try how a program takes it. The user's whole message is `/demo` and one of the names."""

from __future__ import annotations

from typing import Final

import msgspec

from harmonia.run.engines.base import FinishReason

_THOUGHT: Final = "<|channel|>analysis<|message|>The user wants to see a fault."
_START: Final = "<|start|>assistant"
_BEFORE: Final = f"{_THOUGHT}<|end|>{_START}"
_FINAL: Final = "<|channel|>final<|message|>"
_JSON: Final = " <|constrain|>json<|message|>"


class Misbehaviour(msgspec.Struct, frozen=True):
    """`text` follows `<|start|>assistant`, with TOOL for the first tool; `again` then comes without end, and `error`
    is with what the engine dies."""

    description: str
    text: str
    reason: FinishReason = "stop"
    again: str = ""
    error: str = ""


MISBEHAVIOURS: Final = {
    "missing-start": Misbehaviour(
        "the second message lacks its start token",
        f"{_THOUGHT}<|end|>assistant{_FINAL}The start token before this is missing.<|return|>",
    ),
    "doubled-start": Misbehaviour(
        "the second message begins twice",
        f"{_THOUGHT}<|end|><|start|>{_START}{_FINAL}There are two start tokens before this.<|return|>",
    ),
    "missing-end": Misbehaviour(
        "the reasoning lacks its end token",
        f"{_THOUGHT}{_START}{_FINAL}The reasoning before this was never ended.<|return|>",
    ),
    "missing-channel": Misbehaviour("a message without a channel", "<|message|>This is on no channel.<|return|>"),
    "text-after-stop": Misbehaviour(
        "text after the end of the turn", f"{_BEFORE}{_FINAL}This is the end.<|return|>But I went on."
    ),
    "cut-off": Misbehaviour(
        "the answer ends without a stop token", f"{_BEFORE}{_FINAL}This ends in the middle of a", "unknown"
    ),
    "broken-json": Misbehaviour(
        "a call whose arguments are broken JSON",
        f'{_BEFORE}<|channel|>commentary to=TOOL{_JSON}{{"city": "Paris<|call|>',
    ),
    "unknown-tool": Misbehaviour(
        "a call to a tool that was not declared",
        f"{_BEFORE}<|channel|>commentary to=functions.nobody_declared_this{_JSON}{{}}<|call|>",
    ),
    "only-reasoning": Misbehaviour(
        "reasoning and no answer", "<|channel|>analysis<|message|>I keep the answer to myself.<|return|>"
    ),
    "endless": Misbehaviour(
        "an answer that ends only with max_tokens or the context",
        f"{_BEFORE}{_FINAL}This never ends",
        "length",
        again=" and so on",
    ),
    "engine-error": Misbehaviour(
        "the engine dies in the middle of the answer",
        f"{_BEFORE}{_FINAL}The engine dies in the",
        error="the demo engine was asked to die in the middle of an answer",
    ),
}
