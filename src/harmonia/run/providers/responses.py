"""A provider that speaks the Responses API: OpenAI's, Open Responses', and the dialects of servers in between."""

from __future__ import annotations

from harmonia.messages import Conversation
from harmonia.run.engines.base import Request
from harmonia.run.providers.bodies import Body, responses_body
from harmonia.run.providers.names import ToolNames
from harmonia.run.providers.provider import Provider
from harmonia.run.providers.responses_reader import ResponsesReader


class ResponsesUpstream(Provider):
    """`POST {base_url}/responses`. Nothing is stored at the provider: it gets the whole conversation each time."""

    NAME = "responses"
    PATH = "/responses"

    def _make_body(self, conversation: Conversation, request: Request) -> Body:
        return responses_body(conversation, request, self.model, self._extra)

    def _make_reader(self, names: ToolNames) -> ResponsesReader:
        return ResponsesReader(names)
