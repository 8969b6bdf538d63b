"""Conversations to tokens, text and training masks."""

from harmonia.renderer.loss import TrainOn
from harmonia.renderer.rendered import MessageSpan, Rendered
from harmonia.renderer.rendering import Renderer, clear_cache, render
from harmonia.renderer.segments import CallStop, RecipientSection

__all__ = [
    "CallStop",
    "MessageSpan",
    "RecipientSection",
    "Rendered",
    "Renderer",
    "TrainOn",
    "clear_cache",
    "render",
]
