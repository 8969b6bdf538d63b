"""The body of a request to create a response, and the Response object, which echoes it.

Every field of the body is honoured, or refused with its name:

honoured      model, input, instructions, previous_response_id, tools, tool_choice, parallel_tool_calls, reasoning,
              text, max_output_tokens, max_tool_calls, temperature, top_p, presence_penalty, frequency_penalty,
              top_logprobs, include, truncation, store, stream, metadata, harmonia_continue, harmonia_identity
echoed, without effect      user, safety_identifier, prompt_cache_key, prompt_cache_retention,
                            prompt_cache_options, client_metadata: labels for a provider's accounts and caches
refused       background, conversation, prompt, context_management, moderation, and every unknown field

The Response object has all fields that either dialect requires. The dialects differ in how a format and tools are
echoed, and in what an empty field may be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, cast

import msgspec

from harmonia.messages import Json, ReasoningEffort, ResponseFormat
from harmonia.run.engines.base import Usage
from harmonia.run.sampling import nearest_effort
from harmonia.serve.security.keys import Dialect
from harmonia.serve.wire.token_usage import DEFAULT_TEMPERATURE, DEFAULT_TOP_P
from harmonia.serve.wire.validation import invalid, read_struct, unsupported
from harmonia.tool_definitions import TextFormat, is_required, response_format_of

_Metadata = dict[str, Annotated[str, msgspec.Meta(max_length=512)]]
_Label = Annotated[str, msgspec.Meta(max_length=512)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
_Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]

LOGPROBS: Final = "message.output_text.logprobs"
SEALED_REASONING: Final = "reasoning.encrypted_content"
SEALED_ITEMS: Final = "harmonia.encrypted_content"
# These may be requested, although this server has no such items.
_NEVER_THERE: Final = (
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
)
INCLUDABLE: Final = (LOGPROBS, SEALED_REASONING, SEALED_ITEMS, *_NEVER_THERE)


class Reasoning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | None = None
    context: Literal["auto", "current_turn", "all_turns"] | None = None
    encrypted_content: None = None


class Text(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: TextFormat | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class StreamOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    include_obfuscation: bool | None = None


class CreateResponse(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    model: str | None = None
    input: str | list[Json] | None = None
    instructions: str | list[Json] | None = None
    previous_response_id: str | None = None
    tools: list[Json] | None = None
    tool_choice: str | Json | None = None
    parallel_tool_calls: bool | None = None
    reasoning: Reasoning | None = None
    text: Text | None = None
    max_output_tokens: _Count | None = None
    max_tool_calls: _Count | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    top_logprobs: Annotated[int, msgspec.Meta(ge=0, le=20)] | None = None
    include: list[str] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    metadata: Annotated[_Metadata, msgspec.Meta(max_length=16)] | None = None
    service_tier: Literal["auto", "default", "flex", "priority"] | None = None
    user: _Label | None = None
    safety_identifier: _Label | None = None
    prompt_cache_key: _Label | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    prompt_cache_options: Json | None = None
    client_metadata: Json | None = None
    background: bool | None = None
    harmonia_continue: bool | None = None
    harmonia_identity: str | None = None
    # Not supported. They are read so that they can be refused by name; null is fine.
    conversation: Any = None
    prompt: Any = None
    context_management: Any = None
    moderation: Any = None
    access_programs: Any = None
    image: Any = None

    @property
    def effort(self) -> ReasoningEffort | None:
        return nearest_effort(None if self.reasoning is None else self.reasoning.effort)

    @property
    def wants_logprobs(self) -> bool:
        return LOGPROBS in (self.include or ()) or bool(self.top_logprobs)

    @property
    def seals_items(self) -> bool:
        """Whether every item is sealed, not only those that clients cannot do without."""
        return SEALED_ITEMS in (self.include or ())

    @property
    def response_format(self) -> ResponseFormat | None:
        """The form that the answer is to have, as the model is told of it."""
        return response_format_of(None if self.text is None else self.text.format)

    @property
    def demands_form(self) -> bool:
        """Whether an answer of another form is an error."""
        return is_required(None if self.text is None else self.text.format)


def read_request(value: object) -> CreateResponse:
    """The body, if everything in it is supported."""
    if not isinstance(value, dict):
        invalid("the body must be a JSON object", "$")
    request = read_struct(cast("Json", value), CreateResponse, hints=_OF_CHAT)
    for name, why in NOT_HERE.items():
        given = getattr(request, name)
        if given is not None and given is not False:
            unsupported(f"{name} is not supported: {why}", f"$.{name}")
    for at, name in enumerate(request.include or ()):
        if name not in INCLUDABLE:
            invalid(f"unknown value {name!r}; expected one of {', '.join(INCLUDABLE)}", f"$.include[{at}]")
    # An empty list is no input; an empty string is a message.
    if request.input in (None, []) and request.previous_response_id is None and request.instructions is None:
        invalid("there is nothing to answer: send input", "$.input")
    form = None if request.text is None else request.text.format
    if form is not None and form.type != "json_schema":
        if form.schema is not None or form.strict is not None or form.name is not None:
            invalid(f"a format of type {form.type} cannot have a schema, a name or strict", "$.text.format")
    elif form is not None and not form.name:
        invalid("a format of type json_schema needs a name", "$.text.format.name")
    elif form is not None and form.schema is None:
        invalid("a format of type json_schema needs a schema", "$.text.format.schema")
    if request.service_tier in ("flex", "priority"):
        unsupported("this server has one service tier; leave this out, or use auto or default", "$.service_tier")
    return request


# What Chat Completions call fields that Responses have, too.
_OF_CHAT: Final = {
    "messages": "Responses take input; messages are for Chat Completions, POST /v1/chat/completions",
    "max_tokens": "Responses take max_output_tokens",
    "max_completion_tokens": "Responses take max_output_tokens",
    "response_format": "Responses take text.format",
    "reasoning_effort": "Responses take reasoning.effort",
    "verbosity": "Responses take text.verbosity",
}
NOT_HERE: Final = {
    "background": "responses are generated while the client waits",
    "conversation": "continue with previous_response_id",
    "prompt": "this server has no stored prompts; send instructions and input",
    "context_management": 'use truncation "auto", or send less',
    "moderation": "this server does not moderate content",
    "access_programs": "only OpenAI has it",
    "image": "the model reads text only",
}


# Secrets of a client, which are not echoed.
_SECRET: Final = ("authorization", "headers")


def new_resource(
    request: CreateResponse, id: str, created_at: int, model: str, *, dialect: Dialect, warnings: Sequence[str]
) -> Json:
    """The resource of a response that has just started."""
    reasoning = request.reasoning
    resource: Json = {
        "id": id,
        "object": "response",
        "created_at": created_at,
        "completed_at": None,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "max_tool_calls": request.max_tool_calls,
        "metadata": request.metadata or {},
        "model": model,
        "output": [],
        "parallel_tool_calls": request.parallel_tool_calls is not False,
        "presence_penalty": request.presence_penalty or 0.0,
        "frequency_penalty": request.frequency_penalty or 0.0,
        "previous_response_id": request.previous_response_id,
        "prompt_cache_key": request.prompt_cache_key,
        "reasoning": {
            "effort": None if reasoning is None else reasoning.effort,
            "summary": None if reasoning is None else reasoning.summary,
            # The one that is used, whatever was requested: the format drops the reasoning of turns that have ended.
            **({} if reasoning is None or reasoning.context is None else {"context": "current_turn"}),
        },
        "safety_identifier": request.safety_identifier,
        "service_tier": "default",
        "store": request.store is not False,
        "temperature": DEFAULT_TEMPERATURE if request.temperature is None else request.temperature,
        "text": _text(request.text, dialect),
        "tool_choice": _choice(request.tool_choice, dialect),
        "tools": [said for tool in request.tools or [] if (said := _tool(tool, dialect)) is not None],
        "top_logprobs": request.top_logprobs or 0,
        "top_p": DEFAULT_TOP_P if request.top_p is None else request.top_p,
        "truncation": request.truncation or "disabled",
        "usage": None,
    }
    if request.user is not None:
        resource["user"] = request.user
    if reasoning is not None and reasoning.context == "all_turns":
        used = "reasoning.context: current_turn is used, because the format drops the reasoning of earlier turns"
        warnings = [*warnings, used]
    if warnings:
        resource["warnings"] = list(warnings)
    return resource


def usage_of(usage: Usage, reasoning_tokens: int, channels: Mapping[str, int] | None = None) -> Json:
    """The usage as the API has it, and by channel beside the details, where some clients accept only numbers."""
    written: Json = {
        "input_tokens": usage.prompt_tokens,
        # Engines do not report what they write to their cache, and it is not charged.
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": min(reasoning_tokens, usage.completion_tokens)},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
    if channels is not None:
        # An engine that hides a stop token may not count it either; the sum is never more than the total.
        left = usage.completion_tokens
        counted: dict[str, int] = {}
        written["harmonia_channels"] = counted
        for name, count in channels.items():
            counted[name] = min(count, left)
            left -= counted[name]
    return written


def _text(given: Text | None, dialect: Dialect) -> Json:
    form = (None if given is None else given.format) or TextFormat()
    echoed: Json = {"type": form.type}
    if form.type == "json_schema":
        # The specification of open-responses has no field for the schema in a response.
        schema = None if dialect == "open-responses" else form.schema
        echoed |= {"name": form.name, "schema": schema, "strict": bool(form.strict)}
        if form.description is not None or dialect == "open-responses":
            echoed["description"] = form.description
    return {"format": echoed, **({"verbosity": given.verbosity} if given is not None and given.verbosity else {})}


def _choice(given: str | Json | None, dialect: Dialect) -> str | Json:
    if given is None:
        return "auto"
    if dialect == "open-responses" and isinstance(given, dict) and given.get("type") != "function":
        if given.get("type") != "allowed_tools":
            return "required"
        return {"type": "allowed_tools", "mode": given.get("mode", "auto"), "tools": given.get("tools", [])}
    return given


def _tool(tool: Json, dialect: Dialect) -> Json | None:
    if tool.get("type", "function") == "function":
        echoed = ("name", "description", "parameters", "strict")
        return {"type": "function", **{name: tool.get(name) for name in echoed}}
    if dialect == "open-responses":
        return None  # it knows only functions
    return {name: value for name, value in tool.items() if name not in _SECRET}
