"""A provider that speaks Chat Completions, as OpenRouter, vLLM, llama.cpp, Ollama, LM Studio and many others do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from harmonia.messages import Conversation
from harmonia.run.engines.base import Request
from harmonia.run.engines.http import Patience
from harmonia.run.providers.bodies import Body, chat_body
from harmonia.run.providers.chat_reader import ChatReader
from harmonia.run.providers.names import ToolNames
from harmonia.run.providers.provider import Provider


class ChatUpstream(Provider):
    """`POST {base_url}/chat/completions`.

    `developer_role` is for servers that refuse the role of a developer, and know it as `system`.
    """

    NAME = "chat"
    PATH = "/chat/completions"

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        patience: Patience | None = None,
        developer_role: Literal["developer", "system"] = "developer",
    ) -> None:
        super().__init__(base_url, model, api_key=api_key, headers=headers, extra=extra, patience=patience)
        self._developer_role = developer_role

    def _make_body(self, conversation: Conversation, request: Request) -> Body:
        return chat_body(conversation, request, self.model, self._extra, developer_role=self._developer_role)

    def _make_reader(self, names: ToolNames) -> ChatReader:
        return ChatReader(names)
