"""Conversations to tokens, text and training masks."""

from harmonia.renderer.cache import freeze
from harmonia.renderer.renderer import Renderer, clear_cache, render
from harmonia.renderer.result import MessageSpan, Rendered, shared_prefix
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
    "clear_cache",
    "freeze",
    "render",
    "shared_prefix",
]
