"""Every operation of the server: path, description, example, schemas, and the errors it may answer with."""

from __future__ import annotations

from typing import Final, get_args

import msgspec

from harmonia.inspection.report import Replayed
from harmonia.messages import Json
from harmonia.serve.openapi import answers
from harmonia.serve.openapi.bodies import STRING, listed, one_of
from harmonia.serve.saved_chats.request import ExportFormat


class Operation(msgspec.Struct, frozen=True):
    """One operation. `route` is the method, the path and the id; the first sentence of `text` is the summary. `body` is
    the name of a schema, `media_type` that of an answer without a struct. `errors` are beside those that every
    operation, every one of the API, or every one with a body may have."""

    route: str
    text: str
    answer: type[msgspec.Struct] | None = None
    body: str | None = None
    example: Json | None = None
    query: tuple[tuple[str, Json, str], ...] = ()  # name, schema, description
    errors: tuple[int, ...] = ()
    other_answer: tuple[int, type[msgspec.Struct], str] | None = None  # status, struct, description
    media_type: str = "application/json"
    answer_about: str = "The answer."
    streams: bool = False
    is_open: bool = False  # needs no key

    @property
    def path(self) -> str:
        return self.route.split()[1]

    @property
    def statuses(self) -> tuple[int, ...]:
        everywhere = (403, 500) if self.is_open and self.path != "/" else (401, 403, 500)
        of_api = (each for prefix, codes in _ERRORS_BY_PREFIX.items() if self.path.startswith(prefix) for each in codes)
        return (*everywhere, *((400, 408, 413) if self.body else ()), *of_api, *self.errors)

    @property
    def has_dialect(self) -> bool:
        return self.path.startswith(("/v1/responses", "/v1/chat/"))


_GENERATION: Final = (404, 429, 502, 503, 504)
# What every operation of an API may answer.
_ERRORS_BY_PREFIX: Final = {"/v1/responses": (400, 404, 503), "/v1/chats": (400, 404, 429, 503)}
_INCLUDE: Final = ("include", listed(STRING), "Accepted, without effect.")
_LIMIT: Final = ("limit", {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}, "The size of a page.")
_COMPLETION: Final[Json] = {"text": "<|channel|>final<|message|>Hello.<|return|>", "role": "assistant"}
_WEATHER: Final[Json] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

# By tag, with the tag's description.
OPERATIONS: Final[dict[tuple[str, str], tuple[Operation, ...]]] = {
    ("Responses", "OpenAI's Responses API, and Open Responses."): (
        Operation(
            "POST /v1/responses createResponse",
            "Create a response. Answers with one JSON object or, with `stream`, with server-sent events. Stores the "
            "response unless `store` is false. Every field is honoured or refused; none is ignored. The path also "
            "works without `/v1`.",
            answers.Response,
            "CreateResponse",
            {"model": "gpt-oss-20b", "input": "Say hello."},
            errors=_GENERATION,
            answer_about="The response. A stream has `response.created`, events of the items, and exactly one "
            "terminal event: `response.completed`, `response.incomplete` or `response.failed`.",
            streams=True,
        ),
        Operation(
            "POST /v1/responses/input_tokens countInputTokens",
            "Count the tokens of a prompt. Takes the body of a response. The model is not asked.",
            answers.InputTokens,
            "CreateResponse",
            {"model": "gpt-oss-20b", "input": "Say hello."},
        ),
        Operation(
            "GET /v1/responses/{id} retrieveResponse",
            "Retrieve a response. It is returned in its present state. Each API key sees its own.",
            answers.Response,
            query=(_INCLUDE,),
        ),
        Operation(
            "DELETE /v1/responses/{id} deleteResponse",
            "Delete a response. Its items are deleted, too. A response in progress is cancelled first.",
            answers.Deleted,
        ),
        Operation(
            "POST /v1/responses/{id}/cancel cancelResponse",
            "Cancel a response. Its output so far is kept. A response that has ended does not change.",
            answers.Response,
        ),
        Operation(
            "GET /v1/responses/{id}/input_items listInputItems",
            "List the input of a response. It comes in pages.",
            answers.InputItems,
            query=(
                _LIMIT,
                ("order", {**one_of("asc", "desc"), "default": "desc"}, "The oldest or the newest first."),
                ("after", STRING, "The id of the item after which the page begins."),
                _INCLUDE,
            ),
        ),
    ),
    ("Chat Completions", "OpenAI's Chat Completions API."): (
        Operation(
            "POST /v1/chat/completions createChatCompletion",
            "Create a chat completion. Answers with one JSON object or, with `stream`, with server-sent events that "
            "end with `data: [DONE]`. The client runs the tool calls. The path also works without `/v1`.",
            answers.ChatCompletion,
            "CreateChatCompletion",
            {
                "model": "gpt-oss-20b",
                "messages": [{"role": "user", "content": "What is the weather in Tokyo?"}],
                "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": _WEATHER}}],
            },
            errors=_GENERATION,
            answer_about="The completion. A stream has chunks, each with a delta.",
            streams=True,
        ),
    ),
    ("Chats", "Conversations that the page saves."): (
        Operation(
            "GET /v1/chats listChats",
            "List or search the chats. The chat that changed last comes first. With `query`: the chats that have all "
            "of its words in the title or in visible text. A search reads a bounded amount; if that was not enough, "
            "`has_more` is true and `next` says where to continue. Each API key sees its own chats.",
            answers.ChatList,
            query=(
                ("query", {**STRING, "maxLength": 200}, "Words to find, upper or lower case."),
                ("after", STRING, "The id of the chat after which the page begins."),
                _LIMIT,
            ),
        ),
        Operation(
            "POST /v1/chats createChat",
            "Create a chat. It has no turns yet. Chats are kept until they are deleted.",
            answers.Chat,
            "CreateChat",
            {"title": "Iceland", "settings": {"effort": "low"}},
        ),
        Operation(
            "POST /v1/chats/import importChats",
            "Import chats from a file. Reads an exported chat, Chat Completions or Responses JSON, Harmonia's JSON, "
            "exported Markdown, Harmony text or token ids; or JSON lines of these. Text stays text: none of it "
            "becomes a control token or sealed content.",
            answers.ImportedChats,
            "ImportChats",
            {"name": "chat.json", "text": '{"messages": [{"role": "user", "content": "Hi"}]}'},
        ),
        Operation("GET /v1/chats/{id} retrieveChat", "Retrieve a chat. With all turns.", answers.WholeChat),
        Operation(
            "PATCH /v1/chats/{id} changeChat",
            "Change a chat. You can change its title, its settings, or the branch that is shown.",
            answers.Chat,
            "ChangeChat",
            {"title": "The north"},
        ),
        Operation(
            "DELETE /v1/chats/{id} deleteChat",
            "Delete a chat. Its turns are deleted, too, also from the files of the store.",
            answers.Deleted,
        ),
        Operation(
            "PUT /v1/chats/{id}/turns/{turn} putTurn",
            "Write or rewrite a turn. Its parent must exist and cannot change. A new turn becomes the chat's leaf.",
            answers.ListedChat,
            "Turn",
            {
                "id": "turn_1",
                "parent": None,
                "role": "user",
                "items": [{"type": "message", "role": "user", "content": "What is the capital of Iceland?"}],
                "status": "completed",
                "created_at": 1800000000,
            },
        ),
        Operation(
            "DELETE /v1/chats/{id}/turns/{turn} deleteTurn",
            "Delete a turn and all turns after it. If the leaf was among them, the turn's parent becomes the leaf.",
            answers.ListedChat,
        ),
        Operation(
            "GET /v1/chats/{id}/export exportChat",
            "Export a chat. `json` is the whole chat; the other formats are the branch that ends in `leaf`, for "
            "people (`markdown`) or as the model read it (`harmony`, `tokens`). The header `harmonia-left-out` counts "
            "the messages that are not in the file because they are hidden.",
            query=(
                ("format", {**one_of(*get_args(ExportFormat)), "default": "json"}, "The format of the file."),
                ("leaf", STRING, "The last turn of the branch; by default the chat's leaf."),
            ),
            errors=(413,),
            answer_about="The file, with its name in `content-disposition`. `markdown` is `text/markdown`, `harmony` "
            "is `text/plain`, and `tokens` is a list.",
        ),
    ),
    ("Models", "The models that are served."): (
        Operation("GET /v1/models listModels", "List the models.", answers.ModelList),
        Operation("GET /v1/models/{model} retrieveModel", "Retrieve a model.", answers.Model, errors=(404,)),
    ),
    ("Harmony", "The format itself: nothing here asks the model, and nothing is stored."): (
        Operation(
            "POST /v1/harmony/render renderHarmony",
            "Render a conversation. The tokens of a conversation, its text, and where each message is. `messages` are "
            "those of Chat Completions or Harmonia's own, `input` is that of Responses. Special tokens come from the "
            "structure of the conversation only: a text that spells one stays text, and token ids are not accepted.",
            answers.Rendered,
            "RenderRequest",
            {"messages": [{"role": "user", "content": "Hi"}], "effort": "low"},
        ),
        Operation(
            "POST /v1/harmony/parse parseHarmony",
            "Parse what a model sampled. Messages, parts for a user interface, or events, with every fault. A "
            "tolerant parse always succeeds; a strict one stops at the first fault, with status 422.",
            answers.Parsed,
            "ParseRequest",
            _COMPLETION,
            other_answer=(422, answers.MalformedHarmony, "The input is malformed, and the parse was strict."),
        ),
        Operation(
            "POST /v1/harmony/inspect inspectHarmony",
            "Inspect what a model read or wrote. What `harmonia inspect --json` prints: messages with headers and "
            "bodies, the cost of each channel, and every fault with its place, an excerpt and a hint. Accepts Harmony "
            "text, token ids, stripped text, a saved stream, or a conversation in JSON, JSONL or Markdown, and "
            "reports what it detected.",
            answers.Inspected,
            "InspectRequest",
            {**_COMPLETION, "include": ["ids"]},
        ),
        Operation(
            "POST /v1/harmony/diff diffHarmony",
            "Compare two prompts. How many tokens both begin with (what an engine's cache can reuse), where they "
            "differ, and which messages are the same, changed, dropped or added.",
            answers.PromptDiff,
            "DiffRequest",
            {
                "before": {"text": '[{"role": "user", "content": "Hi"}]'},
                "after": {"text": '[{"role": "user", "content": "Hello"}]'},
            },
        ),
        Operation(
            "POST /v1/harmony/replay replayHarmony",
            "Replay a stream token by token. The parser's state, held-back text and events after each token, or after "
            "each character of a text. At most 2,000 steps per request.",
            Replayed,
            "ReplayRequest",
            {**_COMPLETION, "start": 0, "count": 100},
        ),
        Operation(
            "POST /v1/harmony/trace traceTurn",
            "Inspect a turn of a conversation. The prompt of a request and what the model sampled after it, inspected "
            "as one list of tokens. Nothing is sampled and no tool runs. Hidden reasoning is left out and counted.",
            answers.TurnTrace,
            "TraceRequest",
            {
                "request": {"input": "Hi", "store": False},
                "output": [{"type": "message", "role": "assistant", "content": "Hello.", "phase": "final_answer"}],
                "include": ["ids"],
            },
            errors=(404,),
        ),
        Operation(
            "GET /v1/harmony/server describeServer",
            "Describe the server. The names of the model, what its engine supports, whether reasoning is shown, and "
            "the operator's MCP servers with their tools.",
            answers.ServerInfo,
        ),
        Operation(
            "POST /v1/harmony/tokenize tokenize",
            "Encode text as tokens.",
            answers.Tokenized,
            "TokenizeRequest",
            {"text": "Hello, world"},
        ),
        Operation(
            "POST /v1/harmony/detokenize detokenize",
            "Decode tokens as text.",
            answers.Detokenized,
            "DetokenizeRequest",
            {"tokens": [13225, 11, 2375]},
        ),
    ),
    ("Operation", "For operators."): (
        Operation(
            "GET / server",
            "Describe the entry points. A browser, which accepts HTML, gets the page.",
            answers.Server,
            is_open=True,
        ),
        Operation("GET /health health", "Check that the server responds.", answers.Status, is_open=True),
        Operation(
            "GET /ready ready",
            "Check that the server can work. The store can be written, and the engine is known and reachable. A "
            "remote engine is asked at most every few seconds.",
            answers.Status,
            other_answer=(503, answers.Status, "The server cannot work at the moment."),
            is_open=True,
        ),
        Operation("GET /metrics metrics", "Read the metrics for Prometheus.", media_type="text/plain"),
        Operation("GET /openapi.json openapi", "Read this document."),
        Operation("GET /docs docs", "Read this document as a page.", media_type="text/html"),
    ),
}
