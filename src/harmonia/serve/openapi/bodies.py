"""The schemas of what clients send: made of the structs that read it, so that they say what is really taken.

Where a struct leaves a value to a later step (items, messages, tools), the schema says what that step takes. Fields
that are read only to be refused by name are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Final, cast, get_args

import msgspec

from harmonia.messages import Json
from harmonia.serve.chat_completions import request as chat
from harmonia.serve.inspector.request import (
    DetokenizeRequest,
    DiffRequest,
    InspectRequest,
    ParseRequest,
    RenderOptions,
    ReplayRequest,
    TokenizeRequest,
    TraceRequest,
)
from harmonia.serve.openapi.shapes import (
    ANY_OBJECT,
    BOOLEAN,
    STRING,
    described,
    either,
    listed,
    one_of,
    or_null,
    record,
    ref,
)
from harmonia.serve.responses import items as responses_items
from harmonia.serve.responses import request as responses

_REFUSED_IN_RESPONSES: Final = (
    "conversation",
    "prompt",
    "context_management",
    "moderation",
    "access_programs",
    "image",
)
_REFUSED_IN_CHAT: Final = ("audio", "prediction", "web_search_options", "moderation")
_SCHEMA: Final = described(ANY_OBJECT, "A JSON Schema of the arguments.")
_TOOL_NAME: Final[Json] = {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[a-zA-Z0-9_-]+$"}
_LIST: Final[Json] = {"type": "array"}
_PLAIN_FORMAT: Final = record({"type": one_of("text", "json_object")}, closed=True)
_SCHEMA_FORMAT: Final[Json] = {
    "name": _TOOL_NAME,
    "schema": described(ANY_OBJECT, "A JSON Schema of the answer."),
    "description": or_null(STRING),
    "strict": or_null(BOOLEAN),
}
_OPTIONAL: Final = ("description", "strict")
_CHOICE_WORD: Final = one_of("auto", "none", "required")

_SAID: Final = {
    "model": "The model, by one of the names that GET /v1/models lists.",
    "input": "What is said to the model: a text, or items.",
    "instructions": "Instructions of the developer. They are not carried over by previous_response_id.",
    "previous_response_id": "Go on from a stored response: its input and output come first.",
    "tools": "What the model may call.",
    "tool_choice": "Whether the model may, must or must not call a tool, and which.",
    "parallel_tool_calls": "Whether one answer may have several calls.",
    "reasoning": "How much the model is to think.",
    "reasoning_effort": "How much the model is to think.",
    "text": "The form of the answer.",
    "response_format": "The form of the answer.",
    "max_output_tokens": "The most tokens that may be sampled, reasoning included.",
    "max_completion_tokens": "The most tokens that may be sampled, reasoning included.",
    "max_tokens": "The older name of max_completion_tokens.",
    "max_tool_calls": "The most calls of tools that run on the server.",
    "include": "What else the answer is to have.",
    "truncation": 'What to do with a prompt that does not fit: "auto" leaves out the oldest turns.',
    "store": "Whether the response is stored, so that it can be retrieved and continued.",
    "stream": "Whether the answer comes as server-sent events.",
    "metadata": "At most 16 texts of yours, which are kept and said again.",
    "messages": "The conversation so far.",
    "stop": "Texts at which the answer ends. They are not part of it.",
    "n": "How many answers to give.",
    "seed": "The same seed gives the same answer, where the engine can.",
    "logprobs": "Whether to report the log-probabilities of the tokens, where the engine has them.",
    "top_logprobs": "How many of the likeliest tokens to report beside each.",
    "temperature": "How much chance there is in sampling.",
    "top_p": "Sample from the likeliest tokens whose probabilities make this sum.",
    "harmonia_continue": "Go on within the last item of input, a text or the reasoning of the assistant.",
    "harmonia_identity": "Who the model is, in the system message, in the place of what it says otherwise.",
    "user": "A label of yours. It has no effect.",
    "safety_identifier": "A label of yours. It has no effect.",
    "prompt_cache_key": "A label of yours. It has no effect.",
}


def request_schemas(model_names: Sequence[str] = ()) -> dict[str, Json]:
    """The components of all bodies, by name."""
    return {**_parts(), **_responses(model_names), **_chat(model_names), **_harmony()}


def components_of(kinds: Sequence[Any], prefix: str = "") -> tuple[list[Json], dict[str, Json]]:
    schemas, components = msgspec.json.schema_components(kinds, ref_template=f"#/components/schemas/{prefix}{{name}}")
    # A default of null says nothing that `anyOf` does not.
    return list(schemas), {f"{prefix}{name}": _tidied(component) for name, component in components.items()}


def _tidied(schema: Any) -> Any:
    if isinstance(schema, dict):
        entries = cast("dict[str, Any]", schema)
        return {
            name: _tidied(value)
            for name, value in entries.items()
            # The titles are the names of our classes.
            if not (name == "default" and value is None) and not (name == "title" and isinstance(value, str))
        }
    return [_tidied(each) for each in cast("list[Any]", schema)] if isinstance(schema, list) else schema


def _explain(schema: Json) -> None:
    for name, said in _SAID.items():
        if name in schema["properties"]:
            schema["properties"][name] = described(schema["properties"][name], said)


def _describe(schema: Json, **said: str) -> None:
    for name, words in said.items():
        schema["properties"][name] = described(schema["properties"][name], words)


def _model(names: Sequence[str]) -> Json:
    # Those who generate requests from this document should mostly name a model that there is.
    return either({"enum": list(names)}, STRING) if names else {**STRING, "examples": ["gpt-oss-20b"]}


# ── contents ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _parts() -> dict[str, Json]:
    return {
        "TextPart": record(
            {"type": one_of("input_text", "output_text", "text"), "text": STRING},
            said="A text. Control tokens that are spelled in it stay text.",
        ),
        "ImagePart": record(
            {
                "type": one_of("input_image"),
                "image_url": or_null(STRING),
                "file_id": or_null(STRING),
                "detail": or_null(one_of("low", "high", "auto", "original")),
            },
            ("image_url", "file_id", "detail"),
            said="An image. The model reads text, so it is told what it was sent; no address is fetched.",
        ),
        "FilePart": record(
            {
                "type": one_of("input_file"),
                "filename": or_null(STRING),
                "file_data": or_null(STRING),
                "file_url": or_null(STRING),
                "file_id": or_null(STRING),
            },
            ("filename", "file_data", "file_url", "file_id"),
            said="A file. One that is text and comes as data is read; others are described. No address is fetched.",
        ),
        "ChatImagePart": record(
            {"type": one_of("image_url"), "image_url": record({"url": STRING, "detail": STRING}, ("detail",))},
            said="An image. The model reads text, so it is told what it was sent; no address is fetched.",
        ),
        "ChatFilePart": record(
            {
                "type": one_of("file"),
                "file": record(
                    {"filename": STRING, "file_data": STRING, "file_id": STRING}, ("filename", "file_data", "file_id")
                ),
            },
            said="A file. One that is text and comes as data is read; others are described.",
        ),
    }


# ── Responses ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _responses(model_names: Sequence[str]) -> dict[str, Json]:
    kinds = (responses.CreateResponse, *get_args(responses_items.Item))
    refs, components = components_of(kinds)
    create = components["CreateResponse"]
    create.pop("description", None)
    properties = create["properties"]
    for name in _REFUSED_IN_RESPONSES:
        properties.pop(name, None)
    listed_items = listed(ref("InputItem"))
    properties["model"] = or_null(_model(model_names))
    properties["input"] = or_null(either(STRING, listed_items))
    properties["instructions"] = or_null(either(STRING, listed_items))
    properties["tools"] = or_null(listed(ref("ResponsesTool")))
    properties["tool_choice"] = or_null(either(_CHOICE_WORD, ref("ResponsesToolChoice")))
    properties["include"] = or_null(listed(one_of(*responses.INCLUDABLE)))
    properties["background"] = described(or_null(one_of(False)), "Responses are made while the client waits.")
    properties["service_tier"] = described(or_null(one_of("auto", "default")), "There is one tier.")
    _explain(create)
    _give_one_of(create, input=either(STRING, _LIST), previous_response_id=STRING, instructions=either(STRING, _LIST))
    for kind in get_args(responses_items.Item):
        components[kind.__name__].pop("additionalProperties", None)  # see request_warnings.py
        components[kind.__name__]["properties"]["caller"] = or_null(record({"type": one_of("direct")}))
    parts = either(STRING, listed(either(ref("TextPart"), ref("ImagePart"), ref("FilePart"))))
    message = components["MessageItem"]["properties"]
    message["content"] = parts
    for output in ("FunctionOutput", "CustomOutput"):
        components[output]["properties"]["output"] = parts
    reasoning = components["ReasoningItem"]["properties"]
    for field, kind in (("summary", "summary_text"), ("content", "reasoning_text")):
        reasoning[field] = or_null(listed(record({"type": one_of(kind), "text": STRING})))
    reasoning["encrypted_content"] = described(
        or_null(STRING), "Sealed reasoning, as this server gave it. It is opened here, and by nobody else."
    )
    for kind in ("MessageItem", "ReasoningItem"):
        _describe(components[kind], harmonia_continues="It goes on with the item before it, of which it is the rest.")
    _describe(
        components["ReasoningItem"],
        harmonia_channel="The channel of text that was held back and is no reasoning. For people; it is not read.",
        harmonia_call="A call that was not made, and why. For people; it is not read.",
    )
    _describe(components["McpCall"], harmonia_by_hand="A person answered in the place of the tool.")
    _describe(
        components["McpListTools"],
        tools="As this server listed them. Sent back, they are not listed again; the model reads nothing of this item.",
    )
    _describe(
        components["McpApprovalResponse"],
        harmonia_arguments="What the call is run with instead: one JSON object, as a text. Only where it is approved.",
        harmonia_output="What a person answers in the place of the tool; nothing is run. Only where it is approved.",
    )
    # A message may leave its type out.
    short = deepcopy(components["MessageItem"])
    short["properties"].pop("type")
    short["required"] = [name for name in short["required"] if name != "type"]
    components["ShortMessageItem"] = described(short, "A message without its type.")
    components["InputItem"] = either(ref("ShortMessageItem"), *refs[1:])
    components["TextFormat"] = either(
        _PLAIN_FORMAT, record({"type": one_of("json_schema"), **_SCHEMA_FORMAT}, _OPTIONAL)
    )
    components["ResponsesTool"] = either(ref("FunctionTool"), ref("CustomTool"), ref("ClientTool"), ref("McpTool"))
    components |= _RESPONSES_TOOLS
    components["InputTokensRequest"] = described(ref("CreateResponse"), "The same body as for a response.")
    return components


_RESPONSES_TOOLS: Final[dict[str, Json]] = {
    "FunctionTool": record(
        {
            "type": one_of("function"),
            "name": _TOOL_NAME,
            "description": or_null(STRING),
            "parameters": or_null(_SCHEMA),
            "strict": or_null(BOOLEAN),
        },
        ("description", "parameters", "strict"),
        said="A function that the client runs.",
    ),
    "CustomTool": record(
        {
            "type": one_of("custom"),
            "name": _TOOL_NAME,
            "description": or_null(STRING),
            "format": or_null(
                either(
                    record({"type": one_of("text")}),
                    record(
                        {"type": one_of("grammar"), "syntax": one_of("lark", "regex"), "definition": STRING},
                    ),
                )
            ),
        },
        ("description", "format"),
        said="A tool of the client's that takes text.",
    ),
    "ClientTool": record(
        {"type": one_of("shell", "local_shell", "apply_patch")}, said="A tool that clients such as Codex run."
    ),
    "McpTool": record(
        {
            "type": one_of("mcp"),
            "server_label": STRING,
            "allowed_tools": or_null(listed(STRING)),
            "require_approval": or_null(one_of("always", "never")),
        },
        ("allowed_tools", "require_approval"),
        said="Tools of an MCP server that the operator configured, by its label. They run on the server. A server_url "
        "is refused unless the operator allows it.",
    ),
    "ResponsesToolChoice": either(
        record({"type": one_of("function", "custom"), "name": STRING}),
        record(
            {
                "type": one_of("allowed_tools"),
                "mode": one_of("auto", "required"),
                "tools": listed(record({"type": one_of("function"), "name": STRING})),
            },
            ("mode",),
        ),
    ),
}


# ── Chat Completions ────────────────────────────────────────────────────────────────────────────────────────────────


def _chat(model_names: Sequence[str]) -> dict[str, Json]:
    refs, components = components_of((chat.CreateCompletion, *get_args(chat.ChatMessage)), "Chat")
    create = components.pop("ChatCreateCompletion")
    create.pop("description", None)
    properties = create["properties"]
    for name in _REFUSED_IN_CHAT:
        properties.pop(name, None)
    properties["model"] = _model(model_names)
    properties["messages"] = {"type": "array", "minItems": 1, "items": ref("ChatMessage")}
    properties["tools"] = or_null(listed(ref("ChatTool")))
    properties["tool_choice"] = or_null(either(_CHOICE_WORD, ref("ChatToolChoice")))
    properties["functions"] = described(or_null(listed(ref("ChatFunction"))), "The older form of tools.")
    properties["function_call"] = described(
        or_null(either(one_of("auto", "none"), record({"name": STRING}))), "The older form of tool_choice."
    )
    properties["store"] = described(or_null(one_of(False)), "Completions are not stored; responses are.")
    properties["modalities"] = described(or_null({"const": ["text"]}), "Answers are text.")
    properties["logit_bias"] = described(or_null({"type": "object", "maxProperties": 0}), "There is none here.")
    properties["service_tier"] = described(or_null(one_of("auto", "default")), "There is one tier.")
    properties["verbosity"] = described(or_null(one_of("medium")), "The model has no setting for it.")
    _explain(create)
    for name in ("ChatSystemMessage", "ChatDeveloperMessage", "ChatToolMessage"):
        components[name]["properties"]["content"] = either(STRING, listed(ref("TextPart")))
    parts = either(ref("TextPart"), ref("ChatImagePart"), ref("ChatFilePart"))
    components["ChatUserMessage"]["properties"]["content"] = either(STRING, listed(parts))
    components["ChatFunctionMessage"]["properties"]["content"] = or_null(STRING)
    assistant = components["ChatAssistantMessage"]["properties"]
    assistant["content"] = or_null(either(STRING, listed(ref("TextPart"))))
    assistant["tool_calls"] = or_null(listed(ref("ChatToolCall")))
    assistant.pop("audio", None)
    for kind in get_args(chat.ChatMessage):
        components[f"Chat{kind.__name__}"].pop("additionalProperties", None)  # see request_warnings.py
    components["ChatMessage"] = either(*refs[1:])
    by_schema = record(_SCHEMA_FORMAT, (*_OPTIONAL, "schema"))
    components["ChatFormat"] = either(
        _PLAIN_FORMAT, record({"type": one_of("json_schema"), "json_schema": by_schema}, closed=True)
    )
    components["CreateChatCompletion"] = create
    return components | _CHAT_TOOLS


_CHAT_TOOLS: Final[dict[str, Json]] = {
    "ChatFunction": record(
        {
            "name": _TOOL_NAME,
            "description": or_null(STRING),
            "parameters": or_null(_SCHEMA),
            "strict": or_null(BOOLEAN),
        },
        ("description", "parameters", "strict"),
    ),
    "ChatTool": either(
        record({"type": one_of("function"), "function": ref("ChatFunction")}, said="A function that the client runs."),
        record(
            {
                "type": one_of("custom"),
                "custom": record({"name": _TOOL_NAME, "description": or_null(STRING)}, ("description",)),
            },
            said="A tool of the client's that takes text.",
        ),
    ),
    "ChatToolChoice": either(
        record({"type": one_of("function"), "function": record({"name": STRING})}),
        record({"type": one_of("custom"), "custom": record({"name": STRING})}),
    ),
    "ChatToolCall": either(
        record(
            {
                "id": {"type": "string", "minLength": 1},
                "type": one_of("function"),
                "function": record({"name": {"type": "string", "minLength": 1}, "arguments": STRING}),
            }
        ),
        record(
            {
                "id": {"type": "string", "minLength": 1},
                "type": one_of("custom"),
                "custom": record({"name": {"type": "string", "minLength": 1}, "input": STRING}),
            }
        ),
    ),
}


# ── Harmony ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _harmony() -> dict[str, Json]:
    _, components = components_of(
        (
            RenderOptions,
            ParseRequest,
            InspectRequest,
            DiffRequest,
            ReplayRequest,
            TokenizeRequest,
            DetokenizeRequest,
            TraceRequest,
        )
    )
    options = components.pop("RenderOptions")["properties"]
    trace = components["TraceRequest"]["properties"]
    trace["request"] = described(ref("CreateResponse"), "The body of the request, as it was sent to `/v1/responses`.")
    trace["output"] = listed(ref("InputItem"), "The items that were answered, as they came.")
    for name in ("ParseRequest", "InspectInput", "InspectRequest", "ReplayRequest"):
        _give_one_of(components[name], tokens=_LIST, text=STRING)
        # Not both.
        components[name]["oneOf"] = components[name].pop("anyOf")
    common: Json = {
        "tools": described(or_null(listed(either(ref("ChatTool"), ref("FunctionTool")))), "What is declared."),
        "reasoning_effort": or_null(one_of("low", "medium", "high")),
        "instructions": or_null(STRING),
    }
    homes: dict[str, tuple[Json, tuple[str, ...]]] = {
        "messages": (either(listed(ref("ChatMessage")), listed(ref("HarmonyMessage"))), ("tools", "reasoning_effort")),
        "input": (either(STRING, listed(ref("InputItem"))), ("tools", "instructions")),
        "markdown": (described(STRING, "A conversation as `harmonia convert --to markdown` writes it."), ()),
    }
    components["RenderRequest"] = described(
        either(
            *(
                record(
                    {home: schema, **{name: common[name] for name in beside}, **options},
                    (*beside, *options),
                )
                for home, (schema, beside) in homes.items()
            )
        ),
        "A conversation, in one of three places, and options.",
    )
    components["HarmonyMessage"] = record(
        {
            "role": one_of("system", "developer", "user", "assistant", "tool"),
            "name": or_null(STRING),
            "content": either(STRING, listed(ref("HarmonyContent"))),
            "channel": or_null(STRING),
            "recipient": or_null(STRING),
            "content_type": or_null(STRING),
        },
        ("name", "channel", "recipient", "content_type"),
        closed=True,
        said="A message in Harmonia's own JSON, which is openai-harmony's.",
    )
    components["HarmonyContent"] = either(
        record({"type": one_of("text"), "text": STRING}, closed=True),
        record(
            {
                "type": one_of("system_content"),
                "model_identity": or_null(STRING),
                "reasoning_effort": or_null(one_of("Low", "Medium", "High", "low", "medium", "high")),
                "conversation_start_date": or_null(STRING),
                "knowledge_cutoff": or_null(STRING),
            },
            ("model_identity", "reasoning_effort", "conversation_start_date", "knowledge_cutoff"),
        ),
        record({"type": one_of("developer_content"), "instructions": or_null(STRING)}, ("instructions",)),
    )
    return components


def _give_one_of(schema: Json, **kinds: Json) -> None:
    """At least one of these fields has to be there, and be no null."""
    schema["anyOf"] = [{"properties": {name: kind}, "required": [name]} for name, kind in kinds.items()]
