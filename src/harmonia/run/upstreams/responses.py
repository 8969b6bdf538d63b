"""A provider that speaks the Responses API: OpenAI's, Open Responses', and the dialects of servers in between."""

from __future__ import annotations

from harmonia.messages import Conversation
from harmonia.run.engines.engine import Request
from harmonia.run.upstreams.bodies import Body, responses_body
from harmonia.run.upstreams.names import ToolNames
from harmonia.run.upstreams.provider import Provider
from harmonia.run.upstreams.responses_reader import ResponsesReader


class ResponsesUpstream(Provider):
    """`POST {base_url}/responses`. Nothing is stored at the provider: it gets the whole conversation each time."""

    NAME = "responses"
    PATH = "/responses"

    def _make_body(self, conversation: Conversation, request: Request) -> Body:
        return responses_body(conversation, request, self.model, self._extra)

    def _make_reader(self, names: ToolNames) -> ResponsesReader:
        return ResponsesReader(names)
