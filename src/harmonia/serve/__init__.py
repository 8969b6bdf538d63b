"""Serving a model: the Responses and Chat Completions APIs, a store, and HTTP around them."""
