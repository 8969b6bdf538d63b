"""Providers that speak messages: Harmony happens over there."""

from harmonia.run.upstreams.chat_completions import ChatUpstream
from harmonia.run.upstreams.responses import ResponsesUpstream
from harmonia.run.upstreams.upstream import Upstream

__all__ = ["ChatUpstream", "ResponsesUpstream", "Upstream"]
