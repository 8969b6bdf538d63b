"""Schemas of request bodies, generated from the structs that read them.

Where a struct leaves a value to a later step (items, messages, tools, choices), the schema refers to the structs of
that step. Fields that are read only to be refused by name are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast, get_args

import msgspec

from harmonia.messages import Json
from harmonia.messages.message import WireMessage
from harmonia.serve.chat_completions import request as chat
from harmonia.serve.inspector import request as inspector
from harmonia.serve.responses import request as responses
from harmonia.serve.responses.items.base import TEXT_PARTS
from harmonia.serve.responses.items.table import BUILT_IN, ITEMS
from harmonia.serve.responses.tools import CHOICES, DEFINITIONS
from harmonia.serve.saved_chats import request as saved_chats
from harmonia.serve.wire.attachments import DESCRIBED
from harmonia.tool_definitions import CHAT, CHAT_CHOICE, LEGACY_CHOICE, LEGACY_FUNCTIONS

SCHEMAS: Final = "#/components/schemas/"
STRING: Final[Json] = {"type": "string"}
_LIST: Final[Json] = {"type": "array"}
_FIELDS: Final = {
    "model": "One of the names that GET /v1/models lists.",
    "input": "A text or a list of items.",
    "instructions": "Developer instructions. previous_response_id does not carry them over.",
    "previous_response_id": "Continue from a stored response: its input and output come first.",
    "tools": "The tools that the model may call.",
    "tool_choice": "Whether the model may, must or must not call a tool, and which.",
    "parallel_tool_calls": "Whether one answer may contain several calls.",
    **dict.fromkeys(("reasoning", "reasoning_effort"), "How much the model reasons."),
    **dict.fromkeys(("text", "response_format"), "The format of the answer."),
    **dict.fromkeys(("max_output_tokens", "max_completion_tokens"), "The most tokens to sample, reasoning included."),
    "max_tokens": "The older name of max_completion_tokens.",
    "functions": "The older form of tools.",
    "function_call": "The older form of tool_choice.",
    "max_tool_calls": "The most calls of tools that run on the server.",
    "include": "Additional output to return.",
    "truncation": 'What to do with a prompt that is too long: "auto" leaves out the oldest turns.',
    "store": "Whether to store the response, so that it can be retrieved and continued. Completions are not stored.",
    "background": "Responses are made while the client waits.",
    "stream": "Whether to answer with server-sent events.",
    "metadata": "At most 16 texts of the client's, stored and returned.",
    "messages": "The conversation so far.",
    "stop": "Texts that end the answer. They are not part of it.",
    "n": "The number of answers.",
    "seed": "The same seed gives the same answer if the engine supports it.",
    "logprobs": "Whether to report log-probabilities if the engine has them.",
    "top_logprobs": "How many of the likeliest tokens to report for each token.",
    "temperature": "The randomness of sampling.",
    "top_p": "Sample from the likeliest tokens whose probabilities add up to this.",
    "harmonia_continue": "Continue the last input item, a text or the reasoning of the assistant.",
    "harmonia_identity": "The model identity in the system message, instead of the default.",
    **dict.fromkeys(("user", "safety_identifier", "prompt_cache_key"), "A label of the client's. It has no effect."),
}


def one_of(*values: Any) -> Json:
    return {"const": values[0]} if len(values) == 1 else {"enum": list(values)}


def ref(name: str) -> Json:
    return {"$ref": f"{SCHEMAS}{name}"}


def listed(items: Json) -> Json:
    return {"type": "array", "items": items}


def _either(*schemas: Json) -> Json:
    return {"anyOf": list(schemas)}


def _or_null(*schemas: Json) -> Json:
    return _either(*schemas, {"type": "null"})


def _any_of(kinds: Iterable[type], prefix: str = "") -> Json:
    return _either(*(ref(prefix + kind.__name__.lstrip("_")) for kind in dict.fromkeys(kinds)))


_CHOICE_WORD: Final = one_of("auto", "none", "required")
_CONTENT: Final = _either(STRING, listed(ref("ContentPart")))
_CONTENT_PART: Final[Json] = {
    "type": "object",
    "description": "A text, in which spelled control tokens stay text; or an image, a file, audio or a video. The "
    "model reads text only: a text file that is sent as data is read, everything else is described. No URL is fetched.",
    "properties": {
        "type": one_of(*TEXT_PARTS, "refusal", *DESCRIBED),
        "text": STRING,
        "refusal": STRING,
        **{name: _or_null(STRING) for name in ("filename", "file_data", "file_url", "file_id")},
        **{name: _or_null(STRING, {"type": "object"}) for name in ("image_url", "video_url", "file", "input_audio")},
    },
    "required": ["type"],
}


def request_schemas(model_names: Iterable[str] = ()) -> dict[str, Json]:
    """The components of all bodies, by name."""
    # Requests that are generated from this document should mostly name a model that exists.
    names = list(model_names)
    model = _either({"enum": names}, STRING) if names else {**STRING, "examples": ["gpt-oss-20b"]}
    chats = (saved_chats.CreateChat, saved_chats.ChangeChat, saved_chats.ImportChats, saved_chats.Turn)
    parts = {"ContentPart": _CONTENT_PART}
    return {**_responses(model), **_chat(model), **_harmony(), **components_of(chats), **parts}


def components_of(kinds: Iterable[Any], prefix: str = "", *, defaults: bool = True) -> dict[str, Json]:
    _, made = msgspec.json.schema_components(kinds, ref_template=f"{SCHEMAS}{{name}}")
    components: dict[str, Json] = msgspec.json.decode(msgspec.json.encode(made))  # defaults as JSON
    return {
        prefix + name.lstrip("_"): _tidied(component, prefix, defaults=defaults)
        for name, component in components.items()
    }


def _tidied(schema: Any, prefix: str, *, defaults: bool) -> Any:
    """Without titles, which are the names of our classes, and without defaults of null, which `anyOf` implies; with
    the public names of components."""
    if isinstance(schema, dict):
        return {
            name: _tidied(value, prefix, defaults=defaults)
            for name, value in cast("Json", schema).items()
            if not (name == "title" and isinstance(value, str))
            and not (name == "default" and (value is None or not defaults))
        }
    if isinstance(schema, str) and schema.startswith(SCHEMAS):
        return f"{SCHEMAS}{prefix}{schema.removeprefix(SCHEMAS).lstrip('_')}"
    if isinstance(schema, list):
        return [_tidied(each, prefix, defaults=defaults) for each in cast("list[Any]", schema)]
    return schema


def _responses(model: Json) -> dict[str, Json]:
    tools, choices = DEFINITIONS.values(), CHOICES.values()
    components = components_of((responses.CreateResponse, *ITEMS, *tools, *choices))
    items = listed(ref("InputItem"))
    _complete(
        components["CreateResponse"],
        responses.NOT_HERE,
        model=_or_null(model),
        input=_or_null(STRING, items),
        instructions=_or_null(STRING, items),
        tools=_or_null(listed(_any_of(tools))),
        tool_choice=_or_null(_CHOICE_WORD, _any_of(choices)),
        include=_or_null(listed(one_of(*responses.INCLUDABLE))),
        background=_or_null(one_of(False)),
    )
    texts = _either(STRING, _LIST)
    _require_any(components["CreateResponse"], input=texts, previous_response_id=STRING, instructions=texts)
    components["BuiltIn"]["properties"]["type"] = one_of(*BUILT_IN)
    for kind in ITEMS:
        del components[kind.__name__]["additionalProperties"]  # see request_warnings.py
    for name, field in (("MessageItem", "content"), ("FunctionOutput", "output"), ("CustomOutput", "output")):
        components[name]["properties"][field] = _CONTENT
    for name in ("summary", "content"):
        components["ReasoningItem"]["properties"][name] = _or_null(listed(ref("ContentPart")))
    components["MessageItem"]["required"].remove("type")  # a message may leave it out
    components["InputItem"] = _any_of(ITEMS)
    return components


def _chat(model: Json) -> dict[str, Json]:
    messages: tuple[type[msgspec.Struct], ...] = get_args(chat.ChatMessage)
    calls = (chat.FunctionCall, chat.CustomCall)
    components = components_of((chat.CreateCompletion, *messages, *calls), "Chat")
    tools = (CHAT, LEGACY_FUNCTIONS, CHAT_CHOICE, LEGACY_CHOICE)
    components |= components_of((kind for spelling in tools for kind in spelling.values()), "ChatTool")
    create = components["CreateChatCompletion"] = components.pop("ChatCreateCompletion")
    _complete(
        create,
        chat.NOT_HERE,
        model=model,
        messages={"type": "array", "minItems": 1, "items": _any_of(messages, "Chat")},
        tools=_or_null(listed(_any_of(CHAT.values(), "ChatTool"))),
        tool_choice=_or_null(_CHOICE_WORD, _any_of(CHAT_CHOICE.values(), "ChatTool")),
        functions=_or_null(listed(_any_of(LEGACY_FUNCTIONS.values(), "ChatTool"))),
        function_call=_or_null(one_of("auto", "none"), _any_of(LEGACY_CHOICE.values(), "ChatTool")),
        store=_or_null(one_of(False)),
        modalities=_or_null({"const": ["text"]}),
        logit_bias=_or_null({"type": "object", "maxProperties": 0}),
    )
    for kind in messages:
        component = components[f"Chat{kind.__name__}"]
        component.pop("additionalProperties")  # see request_warnings.py
        is_optional = "content" not in component["required"]
        component["properties"]["content"] = _or_null(_CONTENT) if is_optional else _CONTENT
    assistant = components["ChatAssistantMessage"]["properties"]
    assistant["tool_calls"] = _or_null(listed(_any_of(calls, "Chat")))
    del assistant["audio"]
    return components


def _harmony() -> dict[str, Json]:
    components = components_of(
        (
            WireMessage,
            inspector.RenderOptions,
            inspector.ParseRequest,
            inspector.InspectRequest,
            inspector.DiffRequest,
            inspector.ReplayRequest,
            inspector.TokenizeRequest,
            inspector.DetokenizeRequest,
            inspector.TraceRequest,
        )
    )
    trace = components["TraceRequest"]["properties"]
    trace["request"] = {**ref("CreateResponse"), "description": "The body that was sent to `/v1/responses`."}
    trace["output"] = {**listed(ref("InputItem")), "description": "The items of the response, as received."}
    for name in ("ParseRequest", "InspectInput", "InspectRequest", "ReplayRequest"):
        _require_any(components[name], "oneOf", tokens=_LIST, text=STRING)
    # A conversation in one of three fields, beside it what its API has, and options.
    render = components["RenderRequest"] = components.pop("RenderOptions")
    del render["additionalProperties"]
    chat_messages = _any_of(get_args(chat.ChatMessage), "Chat")
    fields = {
        "messages": _either(listed(chat_messages), listed(ref("WireMessage"))),
        "input": _either(STRING, listed(ref("InputItem"))),
        "markdown": {**STRING, "description": "As `harmonia convert --to markdown` writes it."},
    }
    render["properties"] |= fields | {
        "tools": _or_null(listed(_either(ref("ChatToolNestedFunction"), ref("FlatFunction"))))
    }
    _require_any(render, "oneOf", **fields)
    return components


def _complete(create: Json, refused: Mapping[str, str], **fields: Json) -> None:
    """Give a body the schemas that later steps read its fields by, and descriptions."""
    create.pop("description", None)
    tier = {**_or_null(one_of("auto", "default")), "description": "There is one tier."}
    known = {name: each for name, each in create["properties"].items() if name not in refused or name in fields}
    create["properties"] = {
        name: {**each, "description": _FIELDS[name]} if name in _FIELDS else each
        for name, each in {**known, "service_tier": tier, **fields}.items()
    }


def _require_any(schema: Json, keyword: str = "anyOf", /, **kinds: Json) -> None:
    """At least one of these fields, or with `oneOf` exactly one, must be present and not null."""
    schema[keyword] = [{"properties": {name: kind}, "required": [name]} for name, kind in kinds.items()]
