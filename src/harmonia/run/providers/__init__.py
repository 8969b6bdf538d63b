"""Providers that speak messages: Harmony happens over there."""

from harmonia.run.providers.base import Provider
from harmonia.run.providers.chat_completions import ChatCompletionsProvider
from harmonia.run.providers.responses import ResponsesProvider

__all__ = ["ChatCompletionsProvider", "Provider", "ResponsesProvider"]
