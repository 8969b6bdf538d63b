"""Providers that speak messages: Harmony happens over there."""

from harmonia.run.upstreams.upstream import Upstream

__all__ = ["Upstream"]
