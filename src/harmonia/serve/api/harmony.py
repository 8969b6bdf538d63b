"""The bodies of the Harmony endpoints. Every field is honoured, or refused with its name."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from harmonia.renderer import CallStop, RecipientSection
from harmonia.vocabulary import VOCABULARY_SIZE

RoleName = Literal["system", "developer", "user", "assistant", "tool"]
# What the text of a request is. Token ids have a field of their own.
TextKind = Literal["text", "stripped", "sse", "auto"]
# The formats in which no special token can be written, neither as an id nor by its spelling (law 1).
RenderFormat = Literal["harmony-json", "chat", "responses", "markdown"]
ParseOutput = Literal["messages", "parts", "events", "normalized"]
TokenizeOutput = Literal["tokens", "pieces", "count"]
Includable = Literal["ids", "token_table", "text"]

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


class InspectRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"as_": "as"}):
    """Tokens or text, how to read them, and what to tell of them."""

    tokens: _Tokens | None = None
    text: _Text | None = None
    as_: _As = "auto"
    role: _Role = None
    tools: _DeclaredTools | None = None
    stop_swallowed: _StopSwallowed = False
    include: Annotated[
        list[Includable],
        Meta(
            description="What else to tell: the token ids of each message, the bytes and the text of every id that "
            "occurs, the whole text in which characters are counted."
        ),
    ] = []


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
