"""The body of a request for a chat completion. Every field is honoured, or refused with its name.

    honoured      model, messages, tools, tool_choice, parallel_tool_calls, functions, function_call, response_format,
                  reasoning_effort, max_tokens, max_completion_tokens, temperature, top_p, presence_penalty,
                  frequency_penalty, seed, stop, n, stream, stream_options, logprobs, top_logprobs, verbosity,
                  metadata; of engines: top_k, min_p, repetition_penalty
    without effect      user, safety_identifier, prompt_cache_key, prompt_cache_retention, prompt_cache_options: labels
                        for a provider's accounts and caches
    refused       audio, prediction, web_search_options, moderation, and every unknown field
    refused, unless they have their default      logit_bias, modalities, store, service_tier

A null field counts as left out, even an unknown one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, cast

import msgspec

from harmonia.messages import Json, ReasoningEffort, ResponseFormat
from harmonia.run.engines.base import Sampling
from harmonia.run.sampling import VERBOSITY, nearest_effort
from harmonia.run.tools import Tool, ToolSet
from harmonia.serve.config.settings import Limits
from harmonia.serve.wire import request_tools
from harmonia.serve.wire.request_tools import Chosen, SchemaBudget, choose, read_client_tool, refuse_repeated
from harmonia.serve.wire.token_usage import DEFAULT_TEMPERATURE, DEFAULT_TOP_P
from harmonia.serve.wire.validation import RequestWarnings, invalid, read_struct, too_large, unsupported
from harmonia.tool_definitions import (
    CHAT,
    CHAT_CHOICE,
    LEGACY_CHOICE,
    LEGACY_FUNCTIONS,
    Format,
    is_required,
    response_format_of,
)

CallKind = Literal["function", "custom"]
MAX_STOPS: Final = 4

_Count = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
_Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]
_Label = Annotated[str, msgspec.Meta(max_length=512)]
_Metadata = dict[Annotated[str, msgspec.Meta(max_length=64)], _Label]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^(?!to=)[^\s<>|\x00-\x1f\x7f]+$(?!\n)")]
_Named = Annotated[str, msgspec.Meta(min_length=1)]
_Seed = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Stop = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]


# ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class CalledFunction(_Body, frozen=True):
    name: _Named
    arguments: str = "{}"


class CalledCustom(_Body, frozen=True):
    name: _Named
    input: str = ""


class FunctionCall(_Body, frozen=True):
    """Some clients send back the `index` of the stream."""

    id: _Named
    function: CalledFunction
    type: Literal["function"] = "function"
    index: int | None = None


class CustomCall(_Body, frozen=True):
    id: _Named
    custom: CalledCustom
    type: Literal["custom"] = "custom"
    index: int | None = None


class SystemMessage(_Body, frozen=True, tag_field="role", tag="system", kw_only=True):
    content: str | list[Any]
    name: _Name | None = None


class DeveloperMessage(SystemMessage, frozen=True, tag="developer", kw_only=True):
    pass


class UserMessage(SystemMessage, frozen=True, tag="user", kw_only=True):
    pass


class AssistantMessage(_Body, frozen=True, tag_field="role", tag="assistant", kw_only=True):
    """`annotations` are a provider's notes about the text, not a part of it."""

    content: str | list[Any] | None = None
    name: _Name | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[Json] | None = None
    function_call: CalledFunction | None = None
    annotations: list[Any] | None = None
    audio: Any = None
    provider_specific_fields: Any = None  # litellm sends this back with every message


class ToolMessage(_Body, frozen=True, tag_field="role", tag="tool", kw_only=True):
    tool_call_id: str
    content: str | list[Any]
    name: str | None = None


class FunctionMessage(_Body, frozen=True, tag_field="role", tag="function", kw_only=True):
    name: _Named
    content: str | list[Any] | None = None


ChatMessage = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage | FunctionMessage

_ROLES: Final[dict[str, type[ChatMessage]]] = {
    str(each.__struct_config__.tag): each
    for each in (SystemMessage, DeveloperMessage, UserMessage, AssistantMessage, ToolMessage, FunctionMessage)
}


# ── the body ────────────────────────────────────────────────────────────────────────────────────────────────────────


class StreamOptions(_Body, frozen=True):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class CreateCompletion(_Body, frozen=True, kw_only=True):
    model: str
    messages: Annotated[list[Any], msgspec.Meta(min_length=1)]
    tools: list[Json] | None = None
    tool_choice: str | Json | None = None
    parallel_tool_calls: bool | None = None
    functions: list[Json] | None = None
    function_call: str | Json | None = None
    response_format: Format | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    max_tokens: _Count | None = None
    max_completion_tokens: _Count | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    top_k: Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)] | None = None
    min_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    repetition_penalty: Annotated[float, msgspec.Meta(gt=0, le=10)] | None = None
    seed: _Seed | None = None
    stop: _Stop | Annotated[list[_Stop], msgspec.Meta(max_length=MAX_STOPS)] | None = None
    n: Annotated[int, msgspec.Meta(ge=1)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, msgspec.Meta(ge=0, le=20)] | None = None
    metadata: Annotated[_Metadata, msgspec.Meta(max_length=16)] | None = None
    user: _Label | None = None
    safety_identifier: _Label | None = None
    prompt_cache_key: _Label | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    prompt_cache_options: Json | None = None
    service_tier: str | None = None
    store: bool | None = None
    modalities: list[str] | None = None
    logit_bias: Json | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    # Not supported. They are read so that they can be refused by name.
    audio: Any = None
    prediction: Any = None
    web_search_options: Any = None
    moderation: Any = None

    @property
    def effort(self) -> ReasoningEffort | None:
        return nearest_effort(self.reasoning_effort)

    @property
    def instruction(self) -> str | None:
        """An instruction to the model besides the messages."""
        return None if self.verbosity is None else VERBOSITY.get(self.verbosity)

    @property
    def stops(self) -> tuple[str, ...]:
        given = self.stop
        return () if given is None else (given,) if isinstance(given, str) else tuple(given)

    @property
    def wants_usage(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    def most_tokens(self, limit: int | None) -> int | None:
        """The most tokens to sample: the least of the request's limits and the server's."""
        known = [each for each in (self.max_tokens, self.max_completion_tokens, limit) if each is not None]
        return min(known) if known else None

    @property
    def form(self) -> ResponseFormat | None:
        """The form that the answer is to have, as the model is told of it."""
        return response_format_of(self.response_format)

    @property
    def demands_form(self) -> bool:
        """Whether an answer of another form is an error."""
        return is_required(self.response_format)

    def sampling(self, choice: int) -> Sampling:
        """How to sample one of the choices. Each has its own seed, so that the answers differ."""
        seed = self.seed
        if seed is not None:
            seed = (seed + choice + 2**63) % 2**64 - 2**63
        return Sampling(
            temperature=DEFAULT_TEMPERATURE if self.temperature is None else self.temperature,
            top_p=DEFAULT_TOP_P if self.top_p is None else self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            seed=seed,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            repetition_penalty=self.repetition_penalty,
            logprobs=(self.top_logprobs or 0) if self.logprobs else None,
        )


def read_request(value: object) -> CreateCompletion:
    """The body, if everything in it is supported."""
    request = read_struct(_without_nulls(value, "$"), CreateCompletion, hints=_OF_RESPONSES)
    for name, why in NOT_HERE.items():
        if getattr(request, name) is not None:
            unsupported(f"{name} is not supported: {why}", f"$.{name}")
    if request.store:
        unsupported("chat completions are not stored; use POST /v1/responses to store answers", "$.store")
    if request.logit_bias:
        unsupported("this server does not support logit_bias", "$.logit_bias")
    if request.modalities is not None and request.modalities != ["text"]:
        unsupported('answers are text only; leave modalities out, or send ["text"]', "$.modalities")
    if request.service_tier not in (None, "auto", "default"):
        unsupported("this server has one service tier; leave this out, or use auto or default", "$.service_tier")
    if request.stream_options is not None and not request.stream:
        invalid("stream_options needs stream to be true", "$.stream_options")
    if request.top_logprobs is not None and not request.logprobs:
        invalid("top_logprobs needs logprobs to be true", "$.top_logprobs")
    given = request.response_format
    if given is not None and (given.type == "json_schema") is (given.json_schema is None):
        missing = "json_schema is missing: a format of this type needs it"
        has = f"a format of type {given.type} cannot have json_schema"
        invalid(missing if given.json_schema is None else has, "$.response_format.json_schema")
    return request


def read_messages(values: list[Any], most: int, warnings: RequestWarnings) -> list[ChatMessage]:
    """The messages, each as the struct of its role. Unknown keys go to `warnings`."""
    if len(values) > most:
        too_large(f"there are {len(values)} messages; at most {most} are allowed", "$.messages")
    return [_read_message(value, f"$.messages[{at}]", warnings) for at, value in enumerate(values)]


def _read_message(value: object, path: str, warnings: RequestWarnings) -> ChatMessage:
    fields = _without_nulls(value, path)
    role = fields.get("role")
    kind = _ROLES.get(role) if isinstance(role, str) else None
    if kind is None:
        invalid(f"expected one of {', '.join(_ROLES)}", f"{path}.role")
    message = read_struct(warnings.drop_unknown_fields(fields, kind, path), kind, path)
    if isinstance(message, AssistantMessage) and message.audio is not None:
        unsupported("the model reads text only; leave audio out", f"{path}.audio")
    return message


def read_call(value: Json, path: str, warnings: RequestWarnings) -> FunctionCall | CustomCall:
    """A call that the assistant made. Unknown keys go to `warnings`."""
    kind = value.get("type") or ("custom" if "custom" in value else "function")
    if kind not in ("function", "custom"):
        invalid("expected function or custom", f"{path}.type")
    struct = FunctionCall if kind == "function" else CustomCall
    return read_struct(warnings.drop_unknown_fields(value, struct, path), struct, path)


# What Responses call fields that Chat Completions have, too.
_OF_RESPONSES: Final = {
    "input": "Chat Completions take messages; input is for Responses, POST /v1/responses",
    "instructions": "Chat Completions take a message with the role system or developer",
    "max_output_tokens": "Chat Completions take max_completion_tokens",
    "previous_response_id": "Chat Completions are not stored; Responses are, see POST /v1/responses",
    "reasoning": "Chat Completions take reasoning_effort",
    "text": "Chat Completions take response_format and verbosity",
}
NOT_HERE: Final = {
    "audio": "answers are text only",
    "prediction": "the engine cannot use a predicted output",
    "web_search_options": "this server does not search the web; define a tool",
    "moderation": "this server does not moderate content",
}


def _without_nulls(value: object, path: str) -> Json:
    if not isinstance(value, dict):
        invalid("the body must be a JSON object" if path == "$" else "expected a JSON object", path)
    return {name: each for name, each in cast("Json", value).items() if each is not None}


# ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_tools(request: CreateCompletion, hosted: Sequence[Tool], limits: Limits, schemas: SchemaBudget) -> ToolSet:
    """The tools of a request, and those that run here."""
    if request.functions is not None and request.tools is not None:
        invalid("a request cannot have functions and tools; send tools", "$.functions")
    path, spelling, given = "$.tools", CHAT, request.tools or []
    if request.functions is not None:
        path, spelling, given = "$.functions", LEGACY_FUNCTIONS, request.functions
    if len(given) > limits.tools:
        too_large(f"there are {len(given)} tools; at most {limits.tools} are accepted", path)
    tools: dict[str, Tool] = {}
    for at, each in enumerate(given):
        tool = read_client_tool(each, f"{path}[{at}]", spelling, limits, schemas)
        if tool.name in tools:
            refuse_repeated(tool.name, f"{tool.path}.name")
        tools[tool.name] = tool
    return ToolSet([*tools.values(), *hosted])


def read_choice(request: CreateCompletion, tools: ToolSet) -> Chosen:
    """What the request demands: auto, none, required, one tool, or some of them."""
    path, spelling, given = "$.tool_choice", CHAT_CHOICE, request.tool_choice
    if request.functions is not None:
        if given is not None:
            invalid("tool_choice chooses among tools, but the request has functions", path)
        path, spelling, given = "$.function_call", LEGACY_CHOICE, request.function_call
        if given == "required":
            invalid("expected auto, none or an object", path)
    elif request.function_call is not None:
        invalid("function_call chooses among functions, but the request has none", "$.function_call")
    wanted = request_tools.read_choice(given, path, spelling)
    chosen = choose(wanted, tools, path)
    choice, toolset, demanded = chosen
    if wanted.mode == "one":
        return choice, tools.allow([choice]), demanded
    if wanted.tools is not None:
        # The client does not know the tools that run here, so it did not mean to forbid them.
        hosted = [tools.recipient_of(tool) for tool in tools if tool.invoke is not None]
        return choice, tools.allow([*(toolset.allowed or ()), *hosted]), demanded
    return chosen
