"""Conversations to tokens, text and training masks."""

from harmonia.renderer.loss import TrainOn
from harmonia.renderer.rendering import MessageSpan, Rendered, Renderer, clear_cache, render

__all__ = ["MessageSpan", "Rendered", "Renderer", "TrainOn", "clear_cache", "render"]
