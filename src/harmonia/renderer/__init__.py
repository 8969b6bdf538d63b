"""Conversations to tokens, text and training masks."""

from harmonia.renderer.loss import TrainOn
from harmonia.renderer.packing import freeze
from harmonia.renderer.rendered import MessageSpan, Rendered
from harmonia.renderer.rendering import Renderer, clear_cache, render
from harmonia.renderer.segments import CallStop, Form, RecipientSection

__all__ = [
    "CallStop",
    "Form",
    "MessageSpan",
    "RecipientSection",
    "Rendered",
    "Renderer",
    "TrainOn",
    "clear_cache",
    "freeze",
    "render",
]
