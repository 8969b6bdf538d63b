"""Providers that speak messages: Harmony happens over there."""

from harmonia.run.providers.base import Upstream
from harmonia.run.providers.chat_completions import ChatUpstream
from harmonia.run.providers.responses import ResponsesUpstream

__all__ = ["ChatUpstream", "ResponsesUpstream", "Upstream"]
