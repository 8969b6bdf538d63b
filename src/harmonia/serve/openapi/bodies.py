"""Schemas of request bodies, generated from the structs that read them.

Where a struct leaves a value to a later step (items, messages, tools), the schema describes what that step accepts.
Fields that are read only to be refused by name are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Final, cast, get_args

import msgspec

from harmonia.messages import Json
from harmonia.serve.chat_completions import request as chat
from harmonia.serve.inspector import request as inspector
from harmonia.serve.responses import request as responses
from harmonia.serve.responses.items.table import BUILT_IN, ITEMS
from harmonia.serve.saved_chats import request as saved_chats

_REFUSED: Final = (
    *("conversation", "prompt", "context_management", "moderation", "access_programs", "image"),
    *("audio", "prediction", "web_search_options"),
)
_FIELDS: Final = {
    "model": "One of the names that GET /v1/models lists.",
    "input": "A text or a list of items.",
    "instructions": "Developer instructions. previous_response_id does not carry them over.",
    "previous_response_id": "Continue from a stored response: its input and output come first.",
    "tools": "The tools that the model may call.",
    "tool_choice": "Whether the model may, must or must not call a tool, and which.",
    "parallel_tool_calls": "Whether one answer may contain several calls.",
    "reasoning": "How much the model reasons.",
    "reasoning_effort": "How much the model reasons.",
    "text": "The format of the answer.",
    "response_format": "The format of the answer.",
    "max_output_tokens": "The most tokens to sample, reasoning included.",
    "max_completion_tokens": "The most tokens to sample, reasoning included.",
    "max_tokens": "The older name of max_completion_tokens.",
    "max_tool_calls": "The most calls of tools that run on the server.",
    "include": "Additional output to return.",
    "truncation": 'What to do with a prompt that is too long: "auto" leaves out the oldest turns.',
    "store": "Whether to store the response, so that it can be retrieved and continued.",
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
    "user": "A label of the client's. It has no effect.",
    "safety_identifier": "A label of the client's. It has no effect.",
    "prompt_cache_key": "A label of the client's. It has no effect.",
}


# ── schemas by hand, for what a later step reads ────────────────────────────────────────────────────────────────────

STRING: Final[Json] = {"type": "string"}
_LIST: Final[Json] = {"type": "array"}
_OBJECT: Final[Json] = {"type": "object"}


def one_of(*values: Any) -> Json:
    return {"const": values[0]} if len(values) == 1 else {"enum": list(values)}


def ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def listed(items: Json) -> Json:
    return {"type": "array", "items": items}


def described(schema: Json, text: str) -> Json:
    return {**schema, "description": text}


def _either(*schemas: Json) -> Json:
    return {"anyOf": list(schemas)}


def _or_null(schema: Json) -> Json:
    return _either(schema, {"type": "null"})


def _record(properties: Json, about: str = "", *, closed: bool = False) -> Json:
    """An object. Properties whose name ends with `?` are optional; a closed object has no others."""
    schema: Json = {"type": "object", "properties": {name.rstrip("?"): each for name, each in properties.items()}}
    if required := [name for name in properties if not name.endswith("?")]:
        schema["required"] = required
    if closed:
        schema["additionalProperties"] = False
    return described(schema, about) if about else schema


_TEXT: Final = _or_null(STRING)
_FLAG: Final = _or_null({"type": "boolean"})
_FILLED: Final[Json] = {"type": "string", "minLength": 1}
_NAME: Final[Json] = {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[a-zA-Z0-9_-]+$"}
_FUNCTION: Final[Json] = {
    "name": _NAME,
    "description?": _TEXT,
    "parameters?": _or_null(described(_OBJECT, "A JSON Schema of the arguments.")),
    "strict?": _FLAG,
}
_FORMAT: Final[Json] = {"name": _NAME, "description?": _TEXT, "strict?": _FLAG}
_ANSWER_SCHEMA: Final = described(_OBJECT, "A JSON Schema of the answer.")
_PLAIN_FORMAT: Final = _record({"type": one_of("text", "json_object")}, closed=True)
_CHOICE_WORD: Final = one_of("auto", "none", "required")
_IMAGE: Final = "An image. The model only reads text, so it gets a description; no URL is fetched."
_FILE: Final = "A file. Text that is sent as data is read; other files are described. No URL is fetched."
_CLIENT_FUNCTION: Final = "A function that the client runs."
_TEXT_TOOL: Final = "A tool of the client's that takes text."

_BY_HAND: Final[dict[str, Json]] = {
    "TextPart": _record(
        {"type": one_of("input_text", "output_text", "text"), "text": STRING},
        "A text. Control tokens that are spelled in it stay text.",
    ),
    "ImagePart": _record(
        {
            "type": one_of("input_image"),
            "image_url?": _TEXT,
            "file_id?": _TEXT,
            "detail?": _or_null(one_of("low", "high", "auto", "original")),
        },
        _IMAGE,
    ),
    "FilePart": _record(
        {
            "type": one_of("input_file"),
            "filename?": _TEXT,
            "file_data?": _TEXT,
            "file_url?": _TEXT,
            "file_id?": _TEXT,
        },
        _FILE,
    ),
    "ChatImagePart": _record(
        {"type": one_of("image_url"), "image_url": _record({"url": STRING, "detail?": STRING})}, _IMAGE
    ),
    "ChatFilePart": _record(
        {
            "type": one_of("file"),
            "file": _record({"filename?": STRING, "file_data?": STRING, "file_id?": STRING}),
        },
        _FILE,
    ),
    "TextFormat": _either(_PLAIN_FORMAT, _record({"type": one_of("json_schema"), **_FORMAT, "schema": _ANSWER_SCHEMA})),
    "ChatFormat": _either(
        _PLAIN_FORMAT,
        _record(
            {"type": one_of("json_schema"), "json_schema": _record({**_FORMAT, "schema?": _ANSWER_SCHEMA})}, closed=True
        ),
    ),
    "ResponsesTool": _either(ref("FunctionTool"), ref("CustomTool"), ref("ClientTool"), ref("McpTool")),
    "FunctionTool": _record({"type": one_of("function"), **_FUNCTION}, _CLIENT_FUNCTION),
    "CustomTool": _record(
        {
            "type": one_of("custom"),
            "name": _NAME,
            "description?": _TEXT,
            "format?": _either(
                _record({"type": one_of("text")}),
                _record({"type": one_of("grammar"), "syntax": one_of("lark", "regex"), "definition": STRING}),
                {"type": "null"},
            ),
        },
        _TEXT_TOOL,
    ),
    "ClientTool": _record({"type": one_of(*BUILT_IN)}, "A tool that clients such as Codex run."),
    "McpTool": _record(
        {
            "type": one_of("mcp"),
            "server_label": STRING,
            "allowed_tools?": _or_null(listed(STRING)),
            "require_approval?": _or_null(one_of("always", "never")),
        },
        "Tools of an MCP server that the operator configured, by its label. They run on the server. A server_url is "
        "refused unless the operator allows it.",
    ),
    "ResponsesToolChoice": _either(
        _record({"type": one_of("function", "custom"), "name": STRING}),
        _record(
            {
                "type": one_of("allowed_tools"),
                "mode?": one_of("auto", "required"),
                "tools": listed(_record({"type": one_of("function"), "name": STRING})),
            }
        ),
    ),
    "ChatFunction": _record(_FUNCTION),
    "ChatTool": _either(
        _record({"type": one_of("function"), "function": ref("ChatFunction")}, _CLIENT_FUNCTION),
        _record({"type": one_of("custom"), "custom": _record({"name": _NAME, "description?": _TEXT})}, _TEXT_TOOL),
    ),
    "ChatToolChoice": _either(
        *(_record({"type": one_of(kind), kind: _record({"name": STRING})}) for kind in ("function", "custom"))
    ),
    "ChatToolCall": _either(
        *(
            _record({"id": _FILLED, "type": one_of(kind), kind: _record({"name": _FILLED, given: STRING})})
            for kind, given in (("function", "arguments"), ("custom", "input"))
        )
    ),
    "HarmonyMessage": _record(
        {
            "role": one_of("system", "developer", "user", "assistant", "tool"),
            "name?": _TEXT,
            "content": _either(STRING, listed(ref("HarmonyContent"))),
            "channel?": _TEXT,
            "recipient?": _TEXT,
            "content_type?": _TEXT,
        },
        "A message in Harmonia's JSON, which is openai-harmony's.",
        closed=True,
    ),
    "HarmonyContent": _either(
        _record({"type": one_of("text"), "text": STRING}, closed=True),
        _record(
            {
                "type": one_of("system_content"),
                "model_identity?": _TEXT,
                "reasoning_effort?": _or_null(one_of("Low", "Medium", "High", "low", "medium", "high")),
                "conversation_start_date?": _TEXT,
                "knowledge_cutoff?": _TEXT,
            }
        ),
        _record({"type": one_of("developer_content"), "instructions?": _TEXT}),
    ),
    "InputTokensRequest": described(ref("CreateResponse"), "The same body as for a response."),
}


# ── schemas from the structs ────────────────────────────────────────────────────────────────────────────────────────


def request_schemas(model_names: Sequence[str] = ()) -> dict[str, Json]:
    """The components of all bodies, by name."""
    # Requests that are generated from this document should mostly name a model that exists.
    model = _either({"enum": list(model_names)}, STRING) if model_names else {**STRING, "examples": ["gpt-oss-20b"]}
    schemas = {**_responses(model), **_chat(model), **_BY_HAND, **_harmony()}
    chats = (saved_chats.CreateChat, saved_chats.ChangeChat, saved_chats.ImportChats, saved_chats.Turn)
    return schemas | components_of(chats)


def components_of(kinds: Sequence[Any], prefix: str = "", *, defaults: bool = True) -> dict[str, Json]:
    _, components = msgspec.json.schema_components(kinds, ref_template=f"#/components/schemas/{prefix}{{name}}")
    return {f"{prefix}{name}": _tidied(component, defaults) for name, component in components.items()}


def _tidied(schema: Any, defaults: bool) -> Any:
    """Without titles, which are the names of our classes, and without defaults of null, which `anyOf` implies."""
    if isinstance(schema, dict):
        entries = cast("dict[str, Any]", schema)
        return {
            name: _tidied(value, defaults)
            for name, value in entries.items()
            if not (name == "title" and isinstance(value, str))
            and not (name == "default" and (value is None or not defaults))
        }
    return [_tidied(each, defaults) for each in cast("list[Any]", schema)] if isinstance(schema, list) else schema


def _explain(schema: Json, prefix: str = "") -> None:
    for name, each in schema["properties"].items():
        if name in _FIELDS and name.startswith(prefix) and "description" not in each:
            schema["properties"][name] = described(each, _FIELDS[name])


def _responses(model: Json) -> dict[str, Json]:
    components = components_of((responses.CreateResponse, *ITEMS))
    listed_items = listed(ref("InputItem"))
    _replace(
        components["CreateResponse"],
        model=_or_null(model),
        input=_either(STRING, listed_items, {"type": "null"}),
        instructions=_either(STRING, listed_items, {"type": "null"}),
        tools=_or_null(listed(ref("ResponsesTool"))),
        tool_choice=_either(_CHOICE_WORD, ref("ResponsesToolChoice"), {"type": "null"}),
        include=_or_null(listed(one_of(*responses.INCLUDABLE))),
        background=described(_or_null(one_of(False)), "Responses are made while the client waits."),
    )
    _require_any(
        components["CreateResponse"],
        input=_either(STRING, _LIST),
        previous_response_id=STRING,
        instructions=_either(STRING, _LIST),
    )
    for kind in ITEMS:
        component = components[kind.__name__]
        component.pop("additionalProperties", None)  # see RequestWarnings
        component["properties"]["caller"] = _or_null(_record({"type": one_of("direct")}))
    parts = _either(STRING, listed(_either(ref("TextPart"), ref("ImagePart"), ref("FilePart"))))
    for name, field in (("MessageItem", "content"), ("FunctionOutput", "output"), ("CustomOutput", "output")):
        components[name]["properties"][field] = parts
    reasoning = components["ReasoningItem"]["properties"]
    for field, kind in (("summary", "summary_text"), ("content", "reasoning_text")):
        reasoning[field] = _or_null(listed(_record({"type": one_of(kind), "text": STRING})))
    reasoning["encrypted_content"] = described(
        _TEXT, "Sealed reasoning from this server. Only this server can open it."
    )
    # A message may omit its type.
    short = deepcopy(components["MessageItem"])
    del short["properties"]["type"]
    short["required"].remove("type")
    components["ShortMessageItem"] = described(short, "A message without its type.")
    components["InputItem"] = _either(ref("ShortMessageItem"), *(ref(kind.__name__) for kind in ITEMS))
    return components


def _chat(model: Json) -> dict[str, Json]:
    messages: tuple[type[msgspec.Struct], ...] = get_args(chat.ChatMessage)
    components = components_of((chat.CreateCompletion, *messages), "Chat")
    create = components["CreateChatCompletion"] = components.pop("ChatCreateCompletion")
    _replace(
        create,
        model=model,
        messages={"type": "array", "minItems": 1, "items": ref("ChatMessage")},
        tools=_or_null(listed(ref("ChatTool"))),
        tool_choice=_either(_CHOICE_WORD, ref("ChatToolChoice"), {"type": "null"}),
        functions=described(_or_null(listed(ref("ChatFunction"))), "The older form of tools."),
        function_call=described(
            _either(one_of("auto", "none"), _record({"name": STRING}), {"type": "null"}),
            "The older form of tool_choice.",
        ),
        store=described(_or_null(one_of(False)), "Completions are not stored; responses are."),
        modalities=described(_or_null({"const": ["text"]}), "Answers are text."),
        logit_bias=described(_or_null({"type": "object", "maxProperties": 0}), "Not supported."),
        verbosity=described(_or_null(one_of("medium")), "The model has no setting for it."),
    )
    for kind in messages:
        component = components[f"Chat{kind.__name__}"]
        component.pop("additionalProperties", None)  # see RequestWarnings
        component["properties"]["content"] = _either(STRING, listed(ref("TextPart")))
    parts = _either(ref("TextPart"), ref("ChatImagePart"), ref("ChatFilePart"))
    components["ChatUserMessage"]["properties"]["content"] = _either(STRING, listed(parts))
    components["ChatFunctionMessage"]["properties"]["content"] = _TEXT
    assistant = components["ChatAssistantMessage"]["properties"]
    assistant["content"] = _either(STRING, listed(ref("TextPart")), {"type": "null"})
    assistant["tool_calls"] = _or_null(listed(ref("ChatToolCall")))
    assistant.pop("audio", None)
    components["ChatMessage"] = _either(*(ref(f"Chat{kind.__name__}") for kind in messages))
    return components


def _harmony() -> dict[str, Json]:
    components = components_of(
        (
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
    options = {f"{name}?": each for name, each in components.pop("RenderOptions")["properties"].items()}
    trace = components["TraceRequest"]["properties"]
    trace["request"] = described(ref("CreateResponse"), "The body that was sent to `/v1/responses`.")
    trace["output"] = described(listed(ref("InputItem")), "The items of the response, as received.")
    for name in ("ParseRequest", "InspectInput", "InspectRequest", "ReplayRequest"):
        _require_any(components[name], tokens=_LIST, text=STRING)
        components[name]["oneOf"] = components[name].pop("anyOf")  # not both
    tools = {"tools?": described(_or_null(listed(_either(ref("ChatTool"), ref("FunctionTool")))), "Declared tools.")}
    messages = _either(listed(ref("ChatMessage")), listed(ref("HarmonyMessage")))
    effort = _or_null(one_of("low", "medium", "high"))
    components["RenderRequest"] = described(
        _either(
            _record({"messages": messages, **tools, "reasoning_effort?": effort, **options}),
            _record({"input": _either(STRING, listed(ref("InputItem"))), **tools, "instructions?": _TEXT, **options}),
            _record({"markdown": described(STRING, "As `harmonia convert --to markdown` writes it."), **options}),
        ),
        "A conversation in one of three fields, and options.",
    )
    return components


def _replace(create: Json, **fields: Json) -> None:
    """Give a body the schemas that later steps read its fields by."""
    create.pop("description", None)
    create["properties"] |= fields
    create["properties"]["service_tier"] = described(_or_null(one_of("auto", "default")), "There is one tier.")
    for name in _REFUSED:
        create["properties"].pop(name, None)
    _explain(create)


def _require_any(schema: Json, **kinds: Json) -> None:
    """At least one of these fields must be present and not null."""
    schema["anyOf"] = [{"properties": {name: kind}, "required": [name]} for name, kind in kinds.items()]
