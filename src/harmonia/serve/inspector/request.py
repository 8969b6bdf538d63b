"""The bodies of the Harmony endpoints. Every field is honoured, or refused with its name."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from harmonia.renderer import CallStop, RecipientSection
from harmonia.run.events import UnmetKind
from harmonia.vocabulary import VOCABULARY_SIZE

RoleName = Literal["system", "developer", "user", "assistant", "tool"]
# What the text of a request is. Token ids have a field of their own.
TextKind = Literal["text", "stripped", "sse", "auto"]
# What somebody may paste: the same, token ids as text, and conversations.
InputKind = Literal["auto", "tokens", "text", "stripped", "sse", "harmony-json", "chat", "responses", "markdown"]
# The formats in which no special token can be written, neither as an id nor by its spelling (law 1).
RenderFormat = Literal["harmony-json", "chat", "responses", "markdown"]
ParseOutput = Literal["messages", "parts", "events", "normalized"]
TokenizeOutput = Literal["tokens", "pieces", "count"]
Includable = Literal["ids", "token_table", "text", "spellings", "schemas"]

# What one request replays at most.
MOST_STEPS: Final = 2000

# More than a vocabulary has: ids that are no tokens are what somebody inspects a stream for.
TokenId = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
_Tokens = Annotated[
    list[TokenId | list[TokenId]],
    Meta(description="What the model sampled, as token ids; or lists of them, in the chunks in which they came."),
]
_Text = Annotated[str, Meta(description="What the model sampled, as text. Give tokens where you have them.")]
_As = Annotated[
    TextKind,
    Meta(
        description="What the text is: Harmony with special tokens spelled out, text from which a server removed "
        "them, a saved stream of a server, or whatever it looks like."
    ),
]
_Role = Annotated[
    RoleName | None,
    Meta(description='"assistant" where it is a completion, which goes on behind `<|start|>assistant`.'),
]
_DeclaredTools = Annotated[
    list[str | dict[str, Any]],
    Meta(description="The declared tools: names, or definitions as the APIs have them."),
]
_StopSwallowed = Annotated[
    bool, Meta(description="The engine keeps the last stop token to itself: that it is missing is no fault.")
]


class RenderOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a request to render says beside the conversation."""

    format: Annotated[
        RenderFormat | None, Meta(description="What the conversation is written in; recognised where it is left out.")
    ] = None
    system: Annotated[
        Literal["developer", "system"],
        Meta(description="What a system message of chat or responses becomes."),
    ] = "developer"
    effort: Annotated[Literal["low", "medium", "high"] | None, Meta(description="Set the reasoning effort.")] = None
    date: Annotated[
        Annotated[str, Meta(pattern=r"^(today|[0-9]{4}-[0-9]{2}-[0-9]{2})$")] | None,
        Meta(description="Set the current date: YYYY-MM-DD, or today."),
    ] = None
    next_role: Annotated[
        RoleName | None, Meta(description="Whose message the prompt asks for; null for a stored history.")
    ] = "assistant"
    training: Annotated[
        bool,
        Meta(description="Render for training: the last answer ends with `<|return|>`, and the loss mask is added."),
    ] = False
    recipient_section: Annotated[
        RecipientSection, Meta(description="Where `to=…` is written: behind the role, or behind the channel.")
    ] = "role"
    call_stop: Annotated[CallStop, Meta(description="What ends a tool call in history.")] = "call"
    exact_reference: Annotated[bool, Meta(description="Give the tokens of openai-harmony, its mistakes included.")] = (
        False
    )
    escape: Annotated[
        bool, Meta(description="In the text, show special tokens that somebody typed as `<\\|end|>`.")
    ] = False


class ParseRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"as_": "as"}):
    """Tokens or text, and how to read them."""

    tokens: _Tokens | None = None
    text: _Text | None = None
    as_: _As = "text"
    role: _Role = None
    tools: _DeclaredTools | None = None
    stop_swallowed: _StopSwallowed = False
    mode: Annotated[
        Literal["tolerant", "strict"], Meta(description="strict stops at the first fault, with status 422.")
    ] = "tolerant"
    output: Annotated[ParseOutput, Meta(description="What to make of it.")] = "messages"


class InspectInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"as_": "as"}):
    """Anything that shows what a model read or wrote, and how to read it."""

    tokens: _Tokens | None = None
    text: Annotated[
        str | None,
        Meta(
            description="What somebody has: Harmony text, token ids, stripped text, a saved stream, or a conversation "
            "as JSON, JSONL or Markdown."
        ),
    ] = None
    as_: Annotated[InputKind, Meta(description="What the text is; auto looks at it.")] = "auto"
    document: Annotated[
        Annotated[int, Meta(ge=0)],
        Meta(description="Which conversation of a text that has several, such as JSONL, counted from 0."),
    ] = 0
    role: Annotated[
        RoleName | msgspec.UnsetType | None,
        Meta(
            description='"assistant" where it is a completion, which goes on behind `<|start|>assistant`; null where '
            "it is none. Where it is left out, an input that begins inside a header is a completion."
        ),
    ] = msgspec.UNSET
    tools: _DeclaredTools | None = None
    stop_swallowed: _StopSwallowed = False


class InspectRequest(InspectInput, frozen=True, forbid_unknown_fields=True, rename={"as_": "as"}):
    """What to inspect, and what to tell of it."""

    include: Annotated[
        list[Includable],
        Meta(
            description="What else to tell: the token ids of each message, the bytes and the text of every id that "
            "occurs, the whole text in which characters are counted, spellings of control tokens in typed text, what "
            "the declaration of each tool costs."
        ),
    ] = []


class DiffRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two prompts."""

    before: Annotated[InspectInput, Meta(description="The earlier prompt.")]
    after: Annotated[InspectInput, Meta(description="The later prompt.")]


class ReplayRequest(InspectInput, frozen=True, forbid_unknown_fields=True, rename={"as_": "as"}):
    """What to replay, and which stretch of it."""

    start: Annotated[
        Annotated[int, Meta(ge=0)], Meta(description="The first token, or of a text the first character, to show.")
    ] = 0
    count: Annotated[Annotated[int, Meta(ge=1, le=MOST_STEPS)], Meta(description="How many to show.")] = 500


class TokenizeRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text."""

    text: Annotated[str, Meta(description="The text.")]
    special: Annotated[bool, Meta(description="Read spellings such as `<|end|>` as special tokens, not as text.")] = (
        False
    )
    output: Annotated[
        TokenizeOutput, Meta(description="The ids, the ids with their bytes and texts, or their number alone.")
    ] = "tokens"


class DetokenizeRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Token ids."""

    tokens: Annotated[
        list[Annotated[int, Meta(ge=0, lt=VOCABULARY_SIZE)]], Meta(description="The token ids, special ones included.")
    ]
    strict: Annotated[bool, Meta(description="Refuse tokens that are not valid UTF-8 together.")] = False


class SampledEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sampling whose output was damaged or given up, as a response says it in `harmonia_sampled`."""

    faults: Annotated[list[str], Meta(description="The codes of the faults.", max_length=1000)] = []
    first_item: Annotated[int, Meta(description="The first of the items that it led to.", ge=0)] = 0
    items: Annotated[int, Meta(description="How many items it led to.", ge=0)] = 0
    encrypted_content: Annotated[str | None, Meta(description="What was sampled, sealed.")] = None
    unmet: Annotated[
        UnmetKind | None, Meta(description="What was not met, where it was given up and asked for again.")
    ] = None


class TraceRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request for a response, what was answered, and what to tell of the turn."""

    request: Annotated[dict[str, Any], Meta(description="The body of the request, as it was sent to `/v1/responses`.")]
    output: Annotated[list[dict[str, Any]], Meta(description="The items that were answered, as they came.")] = []
    sampled: Annotated[
        list[SampledEntry],
        Meta(
            description="`harmonia_sampled` of the response, as it came: output that was damaged or given up is shown "
            "as sampled."
        ),
    ] = []
    include: Annotated[list[Includable], Meta(description="What else to tell, as for `/v1/harmony/inspect`.")] = []
