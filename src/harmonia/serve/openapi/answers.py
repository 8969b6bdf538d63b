"""The bodies that the server sends, as structs: the OpenAPI document is generated from them.

They name the fields a client may rely on; a body may have more. A field with a default may be absent. Nothing is
encoded from these structs: the tests compare them with what the server really sends.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from harmonia.errors import Position
from harmonia.history.prompt_changes import Aligned
from harmonia.inspection.trace import ChannelCount, SchemaCost, TracedTurn, TypedSpelling
from harmonia.interchange import Lossy
from harmonia.messages import Json
from harmonia.renderer import MessageSpan
from harmonia.serve.http.server_status import Reason
from harmonia.serve.inspector.request import SampledEntry
from harmonia.serve.saved_chats.request import Turn
from harmonia.serve.store.base import Excerpt
from harmonia.serve.wire.validation import doc

Count = Annotated[int, Meta(ge=0)]
MaybeCount = Count | None
Text = str | None
Events = Annotated[list[Json], doc("Parser events; docs/concepts/parsing.md lists the types.")]
TrueOnly = Annotated[bool, Meta(extra_json_schema={"const": True})]


# ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class ErrorDetails(Struct):
    message: Annotated[str, doc("For people. The wording may change.")]
    type: Annotated[str, doc("The kind of error.")]
    param: Annotated[Text, doc("The place in the body, such as `input[2].content`.")]
    code: Annotated[Text, doc("What went wrong, for programs.")]


class Error(Struct):
    """The shape of every error."""

    error: ErrorDetails


class Fault(Struct):
    code: Annotated[str, doc("The fault; docs/reference/faults.md explains each code.")]
    message: str
    at: Position


class FaultDetails(Fault):
    type: Literal["malformed_harmony"]
    param: Text


class MalformedHarmony(Struct):
    """The first fault, at which a strict parse stops."""

    error: FaultDetails
    events: Annotated[Events, doc("The parser events before the fault, if events were requested.")] = []


# ── Responses ───────────────────────────────────────────────────────────────────────────────────────────────────────


class ResponseUsage(Struct):
    input_tokens: Count
    input_tokens_details: Annotated[dict[str, Count], doc("cached_tokens, cache_write_tokens")]
    output_tokens: Count
    output_tokens_details: Annotated[dict[str, Count], doc("reasoning_tokens")]
    total_tokens: Count
    harmonia_channels: Annotated[
        dict[str, Count],
        doc(
            "Tokens of each channel, headers and stop tokens included: analysis, commentary, final, other, and `calls` "
            "for tool calls. Absent in the dialect open-responses."
        ),
    ] = {}


class OutputItem(Struct):
    """A message, reasoning, a tool call, or the list of an MCP server's tools. Other fields depend on the type."""

    type: str
    id: str
    status: str = ""


class Response(Struct):
    """A response. It also repeats the settings of its request."""

    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]
    model: str
    output: Annotated[list[OutputItem], doc("The output of the model and of server tools, in order.")]
    error: Annotated[dict[str, str] | None, doc("`code` and `message`.")]
    incomplete_details: Annotated[dict[str, str] | None, doc("`reason`.")]
    previous_response_id: Text
    usage: ResponseUsage | None
    store: bool
    metadata: Json | None
    warnings: Annotated[
        list[str], doc("Parts of the request that were ignored harmlessly, and constraints that nothing enforces.")
    ] = []
    harmonia_reason: Annotated[
        str,
        doc(
            "Why the response failed or is incomplete, more exactly than error.code and incomplete_details.reason, "
            "which use the values that OpenAI's clients know. Absent in the dialect open-responses."
        ),
    ] = ""
    harmonia_sampled: Annotated[
        list[SampledEntry],
        doc(
            "Samplings whose output was repaired or discarded, for `/v1/harmony/trace`; present if `include` has "
            "harmonia.encrypted_content. Absent in the dialect open-responses."
        ),
    ] = []


class Deleted(Struct):
    id: str
    object: Literal["response", "chat"]
    deleted: TrueOnly


class InputItems(Struct):
    object: Literal["list"]
    data: list[Json]
    first_id: Text
    last_id: Text
    has_more: bool


class InputTokens(Struct):
    object: Literal["response.input_tokens"]
    input_tokens: Count


# ── Chat Completions ────────────────────────────────────────────────────────────────────────────────────────────────


class CompletionMessage(Struct):
    role: Literal["assistant"]
    content: Text
    reasoning: Annotated[Text, doc("Present if the operator shows reasoning.")] = None
    tool_calls: list[Json] = []


class CompletionChoice(Struct):
    index: Count
    message: CompletionMessage
    finish_reason: str
    logprobs: Json | None = None


class ChatCompletion(Struct):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Annotated[Json | None, doc("prompt_tokens, completion_tokens, total_tokens")] = None


# ── models ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class ModelCapabilities(Struct):
    """Fields that OpenAI's model object does not have."""

    engine: Annotated[str, doc("The kind of engine or provider.")]
    speaks_tokens: Annotated[bool, doc("Whether prompts and completions are token ids, not text.")]
    takes_tokens: bool
    gives_tokens: bool
    gives_logprobs: bool
    context_tokens: MaybeCount


class Model(Struct):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    harmonia: ModelCapabilities


class ModelList(Struct):
    object: Literal["list"]
    data: list[Model]


# ── Harmony ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Rendered(Struct):
    tokens: list[Count]
    text: Annotated[Text, doc("The prompt as text; null if a typed text spells a special token.")]
    spans: Annotated[list[MessageSpan], doc("Where each message's header, body and stop token begin and end.")]
    losses: Annotated[list[Json], doc("Parts of tool schemas that the prompt does not express.")]
    format: Annotated[str, doc("The detected format of the conversation.")]
    conversion_losses: Annotated[list[Lossy], doc("Parts of the body that a prompt cannot express.")]
    counts: dict[str, Count]
    text_error: Annotated[Json, doc("Why there is no text.")] = {}
    mask: Annotated[list[Literal[0, 1]], doc("For training: which tokens the model should learn.")] = []


class ParsedMessage(Struct):
    role: str
    name: Text
    channel: Text
    recipient: Text
    content_type: Text
    content: str
    stop: Annotated[Text, doc("The token that ended it; null if it was cut off.")]
    source: Literal["tokens", "text", "stripped"]
    trust: Annotated[str, doc("How certain the header is: certain, repaired or guessed.")]
    forged: Annotated[bool, doc("Whether the model wrote it in the name of another role.")]
    faults: Annotated[list[str], doc("Codes of the faults in this message.")]
    spans: Annotated[
        dict[str, dict[str, MaybeCount]], doc("`header` and `body`: start and end, tokens and characters.")
    ]


class Diagnostic(Fault):
    found: str
    repair: Annotated[str, doc("What a tolerant parse does about it.")]
    strict: Annotated[str, doc("What a strict parse does about it.")]


class Parsed(Struct):
    """Has one of messages, parts, events and normalized, as requested."""

    input: Literal["tokens", "text", "stripped", "sse"]
    notes: Annotated[list[str], doc("Remarks about the input.")]
    diagnostics: Annotated[list[Diagnostic], doc("The first faults.")]
    diagnostics_total: Annotated[Count, doc("The number of all faults.")]
    messages: list[ParsedMessage] = []
    parts: Annotated[list[Json], doc("think, tool_call and text, for a user interface.")] = []
    events: Events = []
    normalized: list[Json] = []


class InspectedMessage(ParsedMessage):
    index: Count
    flags: Annotated[list[str], doc("Remarks about the message.")]
    skipped: Annotated[list[str], doc("Input inside the message that is not part of its text.")]
    tokens: Annotated[dict[str, Count], doc("Of `header`, `body` and `stop`.")]
    ids: dict[str, list[int]] = {}


class OutsideText(Struct):
    text: str
    start_char: Count
    tokens: Count
    ids: list[int] = []


class TurnEnd(TracedTurn, frozen=True):
    messages: Count
    outside: Count


class ExplainedDiagnostic(Diagnostic):
    explanation: Annotated[str, doc("What is wrong.")]
    excerpt: dict[str, str] | None
    hint: Text


class TableToken(Struct):
    bytes: Annotated[Text, doc("Hexadecimal; null if the id is not a token.")]
    text: Text
    special: bool


class Inspected(Struct):
    input: Literal["tokens", "text", "stripped", "sse", "harmony-json", "chat", "responses", "markdown"]
    taken_for: Annotated[str, doc("The detected kind of input, in words.")]
    notes: Annotated[list[str], doc("Remarks about the input.")]
    characters: Count
    tokens: Count
    counts_are_exact: Annotated[bool, doc("False for text: its tokens are those it would be encoded to.")]
    messages: list[InspectedMessage]
    outside: Annotated[list[OutsideText], doc("Text outside of messages.")]
    turns: Annotated[list[TurnEnd], doc("Ends of turns, with how many messages and texts outside come before each.")]
    channels: Annotated[list[ChannelCount], doc("The cost of each channel.")]
    diagnostics: Annotated[list[ExplainedDiagnostic], doc("The first faults.")]
    diagnostics_total: Annotated[Count, doc("The number of all faults.")]
    strict: Annotated[Fault | None, doc("The fault at which a strict parse would stop, if any.")]
    documents: Annotated[
        Json, doc("If the input has several conversations: `count`, which one this is (`at`), and the first `titles`.")
    ] = {}
    conversion_losses: Annotated[list[str], doc("Parts that could not be converted.")] = []
    token_table: Annotated[dict[str, TableToken], doc("Every token id that occurs in a message.")] = {}
    text: Annotated[str, doc("The whole input with special tokens spelled out; character offsets refer to it.")] = ""
    spellings: Annotated[
        list[TypedSpelling], doc("Control tokens spelled in typed text, and how each spelling was encoded.")
    ] = []
    spellings_note: Annotated[Text, doc("What is unknown about the spellings.")] = None
    schemas: Annotated[list[SchemaCost], doc("The cost of each tool declaration.")] = []


class PromptDiff(Struct):
    before: Inspected
    after: Inspected
    shared_prefix: Annotated[Count, doc("The number of tokens that both begin with.")]
    before_token: Annotated[int | None, doc("The first token that differs; null if the prompt ended.")]
    after_token: int | None
    before_message: Annotated[MaybeCount, doc("The message that contains it.")]
    after_message: MaybeCount
    dropped_tokens: Annotated[Count, doc("Tokens of the first prompt that cannot be reused.")]
    added_tokens: Annotated[Count, doc("Tokens of the second prompt that are new.")]
    is_extension: Annotated[bool, doc("Whether the second prompt only continues the first.")]
    rows: Annotated[list[Aligned], doc("The messages of both prompts, side by side.")]


class TurnTrace(Inspected, kw_only=True):
    """An inspection of a turn: the prompt, then what was sampled after it."""

    prompt_tokens: Annotated[Count, doc("How many of the tokens are the prompt.")]
    left_out: Annotated[dict[str, Count] | None, doc("Reasoning that is hidden here.")]
    faults: Annotated[list[str], doc("Codes of the faults of the samplings, from `sampled`.")]


class ServerTool(Struct):
    name: str
    description: Text
    parameters: Annotated[Any, doc("A JSON Schema of the arguments.")]
    approval: Annotated[Literal["run", "ask"], doc("Whether the client is asked first.")]


class McpServer(Struct):
    label: str
    tools: list[ServerTool]
    error: Annotated[Text, doc("Why the MCP server is unavailable; null if it is available.")]


class ServerInfo(Struct):
    object: Literal["harmonia.server"]
    version: str
    models: Annotated[list[str], doc("Names of the model; responses have the first.")]
    engine: Annotated[Text, doc("The kind of engine or provider.")]
    context_tokens: MaybeCount
    speaks_tokens: Annotated[bool, doc("Whether prompts and completions are token ids, not text.")]
    analysis: Annotated[Literal["hidden", "shown"], doc("Whether responses contain reasoning.")]
    guessed: Annotated[Literal["hidden", "shown"], doc("Whether responses contain text without a known channel.")]
    calls: Annotated[Literal["certain", "unverified"], doc("Whether calls that were read from text are run.")]
    mcp_servers: Annotated[list[McpServer], doc("The MCP servers that the operator configured.")]


class TokenPiece(TableToken):
    id: Count


class Tokenized(Struct):
    count: Count
    tokens: list[Count] = []
    pieces: list[TokenPiece] = []


class Detokenized(Struct):
    text: str
    bytes: Annotated[str, doc("Hexadecimal.")]


# ── saved chats ─────────────────────────────────────────────────────────────────────────────────────────────────────


class ChatHead(Struct):
    id: str
    object: Literal["chat"]
    title: Annotated[str, doc("Empty if there is neither a title nor a user message to make one from.")]
    created_at: int
    updated_at: int
    leaf: Annotated[Text, doc("The last turn of the branch that is shown.")]


class Chat(ChatHead):
    settings: Annotated[Json, doc("Request settings, as they were sent.")]


class WholeChat(Chat):
    turns: Annotated[list[Turn], doc("In the order they were written.")]


class ListedChat(ChatHead):
    turns: Annotated[Count, doc("The number of turns.")]
    excerpt: Annotated[Excerpt | UnsetType, doc("Where the query was found; a null turn is the title.")] = UNSET


class ChatList(Struct):
    object: Literal["list"]
    data: list[ListedChat]
    has_more: bool
    next: Annotated[str, doc("Send it as `after` to continue, even if nothing was found so far.")] = ""


class ImportedChats(Struct):
    chats: list[ListedChat]
    format: Annotated[str, doc("The detected format of the file.")]
    losses: Annotated[list[str], doc("Parts that could not be imported.")]


# ── operation ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Server(Struct):
    server: Literal["harmonia"]
    docs: str
    openapi: str
    api: str
    page: Text


class Status(Struct):
    """`/health` is ok; `/ready` is ready or, with a reason, not."""

    status: Literal["ok", "ready", "not ready"]
    server: Literal["harmonia"] | UnsetType = UNSET
    because: Reason | UnsetType = UNSET
