"""What the server can be asked: each path and method, in the words of the documentation, with an example."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from harmonia.messages import Json
from harmonia.serve.openapi.shapes import STRING, listed, one_of

Tag = Literal["Responses", "Chat Completions", "Chats", "Models", "Harmony", "Operation"]

OF_ALL: Final = (401, 403, 500)
OF_BODIES: Final = (400, 408, 413, *OF_ALL)
_OF_GENERATIONS: Final = (404, 429, 502, 503, 504, *OF_BODIES)
OF_STORED: Final = (400, 404, 503, *OF_ALL)

_GET_WEATHER: Final[Json] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One of them. `body` and `answer` are names of schemas; `media_type` is that of an answer that is no JSON."""

    method: Literal["get", "post", "put", "patch", "delete"]
    path: str
    id: str
    tag: Tag
    summary: str
    said: str = ""
    body: str | None = None
    example: Json | None = None
    answer: str | None = None
    media_type: str = "application/json"
    answer_said: str = "The answer."
    streams: bool = False
    statuses: tuple[int, ...] = ()
    further: tuple[tuple[int, str, str], ...] = ()  # status, schema, what it means
    parameters: tuple[Json, ...] = ()
    has_dialect: bool = False
    is_open: bool = False


def in_path(name: str, said: str) -> Json:
    return {"name": name, "in": "path", "required": True, "schema": STRING, "description": said}


def in_query(name: str, schema: Json, said: str) -> Json:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": said}


_ID: Final = in_path("id", "The id of the response.")
_INCLUDE: Final = in_query("include", listed(STRING), "What else to give. It has no effect here.")

OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation(
        method="post",
        path="/v1/responses",
        id="createResponse",
        tag="Responses",
        summary="Create a response",
        said="The model answers, as one JSON object or, with `stream`, as server-sent events. Unless `store` is false "
        "the response is stored. Every field is honoured or refused; none is ignored. A path without `/v1` does the "
        "same.",
        body="CreateResponse",
        example={"model": "gpt-oss-20b", "input": "Say hello."},
        answer="Response",
        answer_said="The response. In a stream: `response.created`, events of the items, and exactly one terminal "
        "event, `response.completed`, `response.incomplete` or `response.failed`.",
        streams=True,
        statuses=_OF_GENERATIONS,
        has_dialect=True,
    ),
    Operation(
        method="post",
        path="/v1/responses/input_tokens",
        id="countInputTokens",
        tag="Responses",
        summary="Count the tokens of a prompt",
        said="Takes what a response would be created from, and says how many tokens the prompt would have. The model "
        "is not asked.",
        body="InputTokensRequest",
        example={"model": "gpt-oss-20b", "input": "Say hello."},
        answer="InputTokens",
        statuses=(404, 503, *OF_BODIES),
        has_dialect=True,
    ),
    Operation(
        method="get",
        path="/v1/responses/{id}",
        id="retrieveResponse",
        tag="Responses",
        summary="Retrieve a response",
        said="A stored response as it is now. Each API key sees its own.",
        answer="Response",
        parameters=(_ID, _INCLUDE),
        statuses=OF_STORED,
        has_dialect=True,
    ),
    Operation(
        method="delete",
        path="/v1/responses/{id}",
        id="deleteResponse",
        tag="Responses",
        summary="Delete a response",
        said="Everything in it is deleted. One that is running is cancelled first.",
        answer="DeletedResponse",
        parameters=(_ID,),
        statuses=OF_STORED,
        has_dialect=True,
    ),
    Operation(
        method="post",
        path="/v1/responses/{id}/cancel",
        id="cancelResponse",
        tag="Responses",
        summary="Cancel a response",
        said="Ends a response that is running, and keeps what there is of it. One that has ended stays as it is.",
        answer="Response",
        parameters=(_ID,),
        statuses=OF_STORED,
        has_dialect=True,
    ),
    Operation(
        method="get",
        path="/v1/responses/{id}/input_items",
        id="listInputItems",
        tag="Responses",
        summary="List the input of a response",
        said="What went into a stored response, a page at a time.",
        answer="InputItems",
        parameters=(
            _ID,
            in_query("limit", {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}, "The size of a page."),
            in_query("order", {**one_of("asc", "desc"), "default": "desc"}, "The oldest or the newest first."),
            in_query("after", STRING, "The id of the item behind which the page begins."),
            _INCLUDE,
        ),
        statuses=OF_STORED,
        has_dialect=True,
    ),
    Operation(
        method="post",
        path="/v1/chat/completions",
        id="createChatCompletion",
        tag="Chat Completions",
        summary="Create a chat completion",
        said="The model answers, as one JSON object or, with `stream`, as server-sent events that end with "
        "`data: [DONE]`. Calls of tools are the client's to run. A path without `/v1` does the same.",
        body="CreateChatCompletion",
        example={
            "model": "gpt-oss-20b",
            "messages": [{"role": "user", "content": "What is the weather in Tokyo?"}],
            "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": _GET_WEATHER}}],
        },
        answer="ChatCompletion",
        answer_said="The completion. In a stream: chunks, each with a delta.",
        streams=True,
        statuses=_OF_GENERATIONS,
        has_dialect=True,
    ),
    Operation(
        method="get",
        path="/v1/models",
        id="listModels",
        tag="Models",
        summary="List the models",
        said="The names under which the model is served.",
        answer="ModelList",
        statuses=OF_ALL,
    ),
    Operation(
        method="get",
        path="/v1/models/{model}",
        id="retrieveModel",
        tag="Models",
        summary="Look up a model",
        answer="Model",
        parameters=(in_path("model", "A name of the model. It may have slashes."),),
        statuses=(404, *OF_ALL),
    ),
    Operation(
        method="post",
        path="/v1/harmony/render",
        id="renderHarmony",
        tag="Harmony",
        summary="Render a conversation",
        said="The tokens of a conversation, its text, and where each message lies. `messages` are those of Chat "
        "Completions or Harmonia's own, `input` is that of Responses. Special tokens come from the structure "
        "of the conversation only: a text that spells one stays text, and token ids are not taken.",
        body="RenderRequest",
        example={"messages": [{"role": "user", "content": "Hi"}], "effort": "low"},
        answer="Rendered",
        statuses=OF_BODIES,
    ),
    Operation(
        method="post",
        path="/v1/harmony/parse",
        id="parseHarmony",
        tag="Harmony",
        summary="Parse what a model sampled",
        said="Messages, parts for a user interface, or events, with everything that is wrong. A tolerant parse always "
        "succeeds; a strict one stops at the first fault, with status 422.",
        body="ParseRequest",
        example={"text": "<|channel|>final<|message|>Hello.<|return|>", "role": "assistant"},
        answer="Parsed",
        statuses=OF_BODIES,
        further=((422, "MalformedHarmony", "The input is malformed, and was read strictly."),),
    ),
    Operation(
        method="post",
        path="/v1/harmony/inspect",
        id="inspectHarmony",
        tag="Harmony",
        summary="Inspect what a model read or wrote",
        said="What `harmonia inspect --json` gives: messages with their headers and bodies, what each channel cost, "
        "and every fault with its place, an excerpt and a hint. Takes Harmony text, token ids, stripped text, a saved "
        "stream, or a conversation in JSON, JSONL or Markdown, and says what it took it for.",
        body="InspectRequest",
        example={"text": "<|channel|>final<|message|>Hello.<|return|>", "role": "assistant", "include": ["ids"]},
        answer="Inspected",
        statuses=OF_BODIES,
    ),
    Operation(
        method="post",
        path="/v1/harmony/diff",
        id="diffHarmony",
        tag="Harmony",
        summary="Compare two prompts",
        said="How many tokens both begin with, which is what an engine's cache can use again, where they part, and "
        "which messages are the same, changed, dropped or added.",
        body="DiffRequest",
        example={
            "before": {"text": '[{"role": "user", "content": "Hi"}]'},
            "after": {"text": '[{"role": "user", "content": "Hello"}]'},
        },
        answer="PromptDiff",
        statuses=OF_BODIES,
    ),
    Operation(
        method="post",
        path="/v1/harmony/replay",
        id="replayHarmony",
        tag="Harmony",
        summary="Replay a stream token by token",
        said="What the parser makes of each token, or of each character of a text: its state, what it holds back, and "
        "the events. At most 2,000 steps a request.",
        body="ReplayRequest",
        example={"text": "<|channel|>final<|message|>Hello.<|return|>", "start": 0, "count": 100},
        answer="Replay",
        statuses=OF_BODIES,
    ),
    Operation(
        method="post",
        path="/v1/harmony/trace",
        id="traceTurn",
        tag="Harmony",
        summary="Inspect a turn of a conversation",
        said="The prompt that the model got for a request, and what it sampled behind it, inspected as one list of "
        "tokens. Nothing is sampled and no tool is run. Where reasoning is hidden, it is left out and counted.",
        body="TraceRequest",
        example={
            "request": {"input": "Hi", "store": False},
            "output": [{"type": "message", "role": "assistant", "content": "Hello.", "phase": "final_answer"}],
            "include": ["ids"],
        },
        answer="TurnTrace",
        statuses=(404, *OF_BODIES),
    ),
    Operation(
        method="get",
        path="/v1/harmony/server",
        id="describeServer",
        tag="Harmony",
        summary="What a client must know before it asks",
        said="The names of the model, what its engine can do, whether reasoning is shown, and the MCP servers of the "
        "operator with their tools.",
        answer="ServerInfo",
        statuses=OF_ALL,
    ),
    Operation(
        method="post",
        path="/v1/harmony/tokenize",
        id="tokenize",
        tag="Harmony",
        summary="Text to tokens",
        body="TokenizeRequest",
        example={"text": "Hello, world"},
        answer="Tokenized",
        statuses=OF_BODIES,
    ),
    Operation(
        method="post",
        path="/v1/harmony/detokenize",
        id="detokenize",
        tag="Harmony",
        summary="Tokens to text",
        body="DetokenizeRequest",
        example={"tokens": [13225, 11, 2375]},
        answer="Detokenized",
        statuses=OF_BODIES,
    ),
    Operation(
        method="get",
        path="/",
        id="server",
        tag="Operation",
        summary="What this is, and where the rest of it is",
        said="A browser, which asks for HTML, gets the page.",
        answer="Server",
        statuses=OF_ALL,
        is_open=True,
    ),
    Operation(
        method="get",
        path="/health",
        id="health",
        tag="Operation",
        summary="Whether the server answers",
        answer="Health",
        statuses=(403, 500),
        is_open=True,
    ),
    Operation(
        method="get",
        path="/ready",
        id="ready",
        tag="Operation",
        summary="Whether the server can work",
        said="That the store can be written, and that the engine is known and can be reached. An engine that is a "
        "server is asked at most every few seconds.",
        answer="Ready",
        statuses=(403, 500),
        further=((503, "NotReady", "It cannot, at the moment."),),
        is_open=True,
    ),
    Operation(
        method="get",
        path="/metrics",
        id="metrics",
        tag="Operation",
        summary="Figures for Prometheus",
        media_type="text/plain",
        statuses=OF_ALL,
    ),
    Operation(
        method="get",
        path="/openapi.json",
        id="openapi",
        tag="Operation",
        summary="This document",
        media_type="application/json",
        statuses=OF_ALL,
    ),
    Operation(
        method="get",
        path="/docs",
        id="docs",
        tag="Operation",
        summary="This document as a page",
        media_type="text/html",
        statuses=OF_ALL,
    ),
)
