"""Conversations to tokens, text and training masks."""

from harmonia.renderer.renderer import MessageSpan, Rendered, Renderer, freeze, render, shared_prefix
from harmonia.renderer.segments import CallStop, Form, RecipientSection
from harmonia.renderer.training_mask import TrainOn

__all__ = [
    "CallStop",
    "Form",
    "MessageSpan",
    "RecipientSection",
    "Rendered",
    "Renderer",
    "TrainOn",
    "freeze",
    "render",
    "shared_prefix",
]
