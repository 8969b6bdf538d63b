"""The bodies of the Harmony endpoints. Every field is honoured, or refused with its name."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from harmonia.renderer import CallStop, RecipientSection
from harmonia.run.events import UnmetKind
from harmonia.serve.wire.validation import doc
from harmonia.vocabulary import VOCABULARY_SIZE

RoleName = Literal["system", "developer", "user", "assistant", "tool"]
# What the text of a request is. Token ids have a field of their own.
TextKind = Literal["text", "stripped", "sse", "auto"]
# What can be pasted: the same, token ids as text, and conversations.
InputKind = Literal["auto", "tokens", "text", "stripped", "sse", "harmony-json", "chat", "responses", "markdown"]
# The formats in which no special token can be written, neither as an id nor by its spelling (law 1).
RenderFormat = Literal["harmony-json", "chat", "responses", "markdown"]
ParseOutput = Literal["messages", "parts", "events", "normalized"]
TokenizeOutput = Literal["tokens", "pieces", "count"]
Includable = Literal["ids", "token_table", "text", "spellings", "schemas"]

# The most steps that one request replays.
MOST_STEPS: Final = 2000

# Wider than the vocabulary: invalid ids are a reason to inspect a stream.
TokenId = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
_Tokens = Annotated[
    list[TokenId | list[TokenId]],
    doc("What the model sampled, as token ids; or lists of them, in the chunks in which they came."),
]
_Text = Annotated[str, doc("What the model sampled, as text. Send tokens if you have them.")]
_As = Annotated[
    TextKind,
    doc(
        "What the text is: Harmony with special tokens spelled out, text from which a server removed "
        "them, a saved stream of a server, or auto to detect it."
    ),
]
_Role = Annotated[RoleName | None, doc('"assistant" for a completion, which continues after `<|start|>assistant`.')]
_DeclaredTools = Annotated[list[str | dict[str, Any]], doc("The declared tools: names, or definitions as in the APIs.")]
_StopSwallowed = Annotated[bool, doc("The engine hides the last stop token, so a missing one is not a fault.")]


class RenderOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The options of a request to render."""

    format: Annotated[RenderFormat | None, doc("The format of the conversation; detected if left out.")] = None
    system: Annotated[Literal["developer", "system"], doc("What a system message of chat or responses becomes.")] = (
        "developer"
    )
    effort: Annotated[Literal["low", "medium", "high"] | None, doc("Set the reasoning effort.")] = None
    date: Annotated[
        Annotated[str, Meta(pattern=r"^(today|[0-9]{4}-[0-9]{2}-[0-9]{2})$")] | None,
        doc("Set the current date: YYYY-MM-DD, or today."),
    ] = None
    next_role: Annotated[RoleName | None, doc("Whose message the prompt asks for; null for a stored history.")] = (
        "assistant"
    )
    training: Annotated[
        bool, doc("Render for training: the last answer ends with `<|return|>`, and the loss mask is added.")
    ] = False
    recipient_section: Annotated[
        RecipientSection, doc("Where `to=…` is written: after the role, or after the channel.")
    ] = "role"
    call_stop: Annotated[CallStop, doc("What ends a tool call in history.")] = "call"
    exact_reference: Annotated[bool, doc("Return the tokens of openai-harmony, with its mistakes.")] = False
    escape: Annotated[bool, doc("In the text, show typed special tokens as `<\\|end|>`.")] = False


class ParseRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"as_": "as"}):
    """Tokens or text, and how to read them."""

    tokens: _Tokens | None = None
    text: _Text | None = None
    as_: _As = "text"
    role: _Role = None
    tools: _DeclaredTools | None = None
    stop_swallowed: _StopSwallowed = False
    mode: Annotated[Literal["tolerant", "strict"], doc("strict stops at the first fault, with status 422.")] = (
        "tolerant"
    )
    output: Annotated[ParseOutput, doc("What to return.")] = "messages"


class InspectInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"as_": "as"}):
    """Anything that shows what a model read or wrote, and how to read it."""

    tokens: _Tokens | None = None
    text: Annotated[
        str | None,
        doc(
            "Any input: Harmony text, token ids, stripped text, a saved stream, or a conversation as JSON, "
            "JSONL or Markdown."
        ),
    ] = None
    as_: Annotated[InputKind, doc("What the text is; auto detects it.")] = "auto"
    document: Annotated[
        int, doc("Which conversation of a text that has several, such as JSONL, counted from 0.", ge=0)
    ] = 0
    role: Annotated[
        RoleName | msgspec.UnsetType | None,
        doc(
            '"assistant" for a completion, which continues after `<|start|>assistant`; null for anything '
            "else. If it is left out, an input that begins inside a header is a completion."
        ),
    ] = msgspec.UNSET
    tools: _DeclaredTools | None = None
    stop_swallowed: _StopSwallowed = False


class InspectRequest(InspectInput, frozen=True, forbid_unknown_fields=True, rename={"as_": "as"}):
    """What to inspect, and what to return."""

    include: Annotated[
        list[Includable],
        doc(
            "What else to return: the token ids of each message, the bytes and the text of every id that "
            "occurs, the whole text in which characters are counted, spellings of control tokens in typed text, the "
            "cost of each tool's declaration."
        ),
    ] = []


class DiffRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two prompts."""

    before: Annotated[InspectInput, doc("The earlier prompt.")]
    after: Annotated[InspectInput, doc("The later prompt.")]


class ReplayRequest(InspectInput, frozen=True, forbid_unknown_fields=True, rename={"as_": "as"}):
    """What to replay, and which part of it."""

    start: Annotated[int, doc("The first token, or of a text the first character, to show.", ge=0)] = 0
    count: Annotated[int, doc("How many to show.", ge=1, le=MOST_STEPS)] = 500


class TokenizeRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text."""

    text: Annotated[str, doc("The text.")]
    special: Annotated[bool, doc("Read spellings such as `<|end|>` as special tokens, not as text.")] = False
    output: Annotated[TokenizeOutput, doc("The ids, the ids with their bytes and texts, or only their number.")] = (
        "tokens"
    )


class DetokenizeRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Token ids."""

    tokens: Annotated[
        list[Annotated[int, Meta(ge=0, lt=VOCABULARY_SIZE)]], doc("The token ids, special ones included.")
    ]
    strict: Annotated[bool, doc("Refuse tokens that do not form valid UTF-8.")] = False


class SampledEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sampling whose output was malformed or given up, as a response has it in `harmonia_sampled`."""

    faults: Annotated[list[str], doc("The codes of the faults.", max_length=1000)] = []
    first_item: Annotated[int, doc("The first of the items that it led to.", ge=0)] = 0
    items: Annotated[int, doc("How many items it led to.", ge=0)] = 0
    encrypted_content: Annotated[str | None, doc("What was sampled, sealed.")] = None
    unmet: Annotated[UnmetKind | None, doc("What was not met, if it was given up and sampled again.")] = None


class TraceRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request for a response, its answer, and what to return about the turn."""

    request: Annotated[dict[str, Any], doc("The body of the request, as it was sent to `/v1/responses`.")]
    output: Annotated[list[dict[str, Any]], doc("The items of the answer, unchanged.")] = []
    sampled: Annotated[
        list[SampledEntry],
        doc(
            "`harmonia_sampled` of the response, unchanged: output that was malformed or given up is shown as sampled."
        ),
    ] = []
    include: Annotated[list[Includable], doc("What else to return, as for `/v1/harmony/inspect`.")] = []
