"""What the Harmony endpoints do: JSON values in, JSON values out. No sockets, no store, no model.

1. Nothing in a request becomes a special token of a prompt but structure (law 1): `render` takes no token ids, no
   Harmony text, no sealed reasoning and no id of a stored response.
2. Whatever is asked, the answer is bounded, and so is the work, which is linear.
3. The answers are those of the library and of the command: the same functions make them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date as Date
from itertools import groupby
from typing import Any, Final, NoReturn, cast

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.interchange import Imported, format_named, recognise_value
from harmonia.messages import Conversation, DeveloperContent, Json
from harmonia.parser import Parsed, Tools
from harmonia.parts import normalise, parts_of
from harmonia.parts.inspection import (
    Input,
    OptionWords,
    describe_diagnostic,
    describe_event,
    describe_message,
    describe_token,
    describe_trace,
    hint_for,
    parse_input,
    read_declared,
    recognise,
    trace,
)
from harmonia.renderer import MessageSpan, Renderer, describe_rendered, with_settings
from harmonia.serve.api.chat.request import CreateCompletion
from harmonia.serve.api.fields import invalid, read_struct, unknown_field, unsupported
from harmonia.serve.api.harmony import (
    DetokenizeRequest,
    InspectRequest,
    ParseRequest,
    RenderFormat,
    RenderOptions,
    TextKind,
    TokenizeRequest,
)
from harmonia.serve.api.responses.request import CreateResponse
from harmonia.serve.api.schema_budget import SchemaBudget
from harmonia.serve.settings import Limits
from harmonia.vocabulary import FIRST_SPECIAL, VOCABULARY_SIZE, Vocabulary, default_vocabulary, find_spellings

# A body of these endpoints. A full context of gpt-oss is about half a megabyte of text.
MOST_BODY_BYTES: Final = 8 * 1024 * 1024
# What is parsed: the context of gpt-oss. A description is much longer than what it describes.
MOST_TOKENS: Final = 131_072
MOST_CHARACTERS: Final = 1_048_576
# Special tokens of what is parsed, and ids that are no tokens: each of them may be a message or a fault, which takes a
# tenth of a millisecond and a kilobyte of the answer. A full context of short messages has fewer.
MOST_SPECIALS: Final = 16_384
# How many faults are told in full; damaged streams may have one at every token.
MOST_DIAGNOSTICS: Final = 1000

_OPTIONS: Final = RenderOptions.__struct_fields__
# The fields that a conversation may stand in, and the formats that have them.
_HOMES: Final[dict[str, tuple[RenderFormat, ...]]] = {
    "messages": ("harmony-json", "chat"),
    "choices": ("chat",),
    "input": ("responses",),
    "output": ("responses",),
    "markdown": ("markdown",),
}
# What may stand beside a conversation: whatever the API has whose request it is. Of that, what has no part in a prompt
# is told in `conversion_losses`.
_BESIDE: Final[dict[RenderFormat, tuple[str, ...]]] = {
    "harmony-json": (),
    "chat": CreateCompletion.__struct_fields__,
    "responses": CreateResponse.__struct_fields__,
    "markdown": (),
}
_ANSWERS: Final = ("choices", "output")  # beside them stands what a provider says of its answer
_NO_TEXT: Final = (
    "the text of a message spells a special token, and as text nobody could tell the two apart; send the tokens, or "
    'ask for a text to be shown to people with "escape": true'
)
_NOT_HERE: Final = {
    "tokens": "special tokens come from the structure of a conversation only; /v1/harmony/parse reads token ids",
    "token_ids": "special tokens come from the structure of a conversation only; /v1/harmony/parse reads token ids",
    "previous_response_id": "nothing stored is read here; send the items",
    "conversation": "nothing stored is read here; send the items",
    "prompt": "there are no stored prompts; send the items",
}
_FIELD_WORDS: Final = OptionWords("role", '"role": "assistant"', "tools", '"stop_swallowed": true')


# ── render ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def render(value: object, limits: Limits, today: Date) -> Json:
    """A conversation as tokens, text and spans."""
    body = _object(value)
    given = {name: said for name, said in body.items() if name in _OPTIONS}
    options = read_struct(given, RenderOptions)
    conversation_fields = {name: said for name, said in body.items() if name not in _OPTIONS}
    name = _format_of(conversation_fields, options.format)
    _check_fields(conversation_fields, name)
    imported = _import(conversation_fields, name, options, limits)
    conversation = imported.conversation
    if len(conversation) > limits.items:
        _too_large(f"the conversation has {len(conversation)} messages, and {limits.items} are allowed", _home(body))
    _check_tools(conversation, limits)
    try:
        conversation = with_settings(conversation, effort=options.effort, date=_date(options.date, today))
        # With no memory: what one request renders is nothing that the next should find.
        rendered = Renderer(cache_bytes=0).render(
            conversation,
            options.next_role,
            training=options.training,
            recipient_section=options.recipient_section,
            call_stop=options.call_stop,
            exact_reference=options.exact_reference,
        )
        described = describe_rendered(rendered, mask=options.training, escape=options.escape)
        if "text_error" in described:
            # The library's words name an argument of its own.
            described["text_error"] = described["text_error"] | {"message": _NO_TEXT}
    except InputError as error:
        raise _placed_in_body(error, name, _home(body)) from error
    spans = rendered.spans
    return {
        **described,
        "format": name,
        "conversion_losses": imported.losses,
        "counts": _counts(spans, len(rendered.tokens)),
    }


def _format_of(fields: Mapping[str, Any], said: RenderFormat | None) -> RenderFormat:
    """What the conversation is written in; what has no place here is refused."""
    for name, why in _NOT_HERE.items():
        if fields.get(name) is not None:
            unsupported(f"{name} is not taken here: {why}", f"$.{name}")
    homes = [name for name in _HOMES if name in fields]
    if len(homes) != 1:
        found = " and ".join(homes) if homes else "none of them"
        invalid(f"a conversation stands in one of {', '.join(_HOMES)}; there is {found}", "$")
    home = homes[0]
    if said is not None:
        if said not in _HOMES[home]:
            invalid(f"the format {said} has no {home}", f"$.{home}")
        return said
    if len(_HOMES[home]) == 1:
        return _HOMES[home][0]
    if not isinstance(fields[home], list):
        invalid(f"{home} is a list", f"$.{home}")
    try:
        name = recognise_value(fields)
    except InputError as error:
        raise InputError(error.code, error.message, Position(path=f"$.{home}")) from error
    if name not in _HOMES[home]:
        # A list of ids, or items of another API.
        invalid(f"{home} has no messages in it, but {name}", f"$.{home}")
    return name


def _check_fields(fields: Mapping[str, Any], name: RenderFormat) -> None:
    if any(answer in fields for answer in _ANSWERS):
        return
    known = [*_HOMES, *_BESIDE[name]]
    for field in fields:
        if field not in known:
            raise unknown_field(field, [*_OPTIONS, *known])


def _import(fields: Mapping[str, Any], name: RenderFormat, options: RenderOptions, limits: Limits) -> Imported:
    home = next(each for each in _HOMES if each in fields)
    listed = fields[home]
    if isinstance(listed, list):
        items = cast("list[Any]", listed)
        if len(items) > limits.items:
            _too_large(f"{home} has {len(items)} items, and {limits.items} are allowed", f"$.{home}")
        for at, item in enumerate(items):
            if isinstance(item, Mapping) and cast(Json, item).get("encrypted_content") is not None:
                path = f"$.{home}[{at}].encrypted_content"
                unsupported("sealed reasoning is not opened here; send its text, or leave the item out", path)
    if name != "markdown":
        return format_named(name, system=options.system).read(dict(fields))
    if not isinstance(listed, str):
        invalid("markdown is a text", "$.markdown")
    try:
        return format_named(name).read(listed)
    except InputError as error:
        raise _placed(error, "$.markdown") from error


def _check_tools(conversation: Conversation, limits: Limits) -> None:
    """How many tools there are, and how large their schemas, wherever the format has them."""
    number = 0
    budget = SchemaBudget()
    for message in conversation:
        for content in message.contents:
            if isinstance(content, str):
                continue
            tools = [tool for namespace in (content.tools or {}).values() for tool in namespace.tools]
            number += len(tools)
            schemas: list[object] = [tool.parameters for tool in tools]
            if isinstance(content, DeveloperContent):
                schemas += [each.schema for each in content.response_formats or ()]
            for schema in schemas:
                # Not msgspec's encoder: it has no integers of more than 64 bits.
                size = len(json.dumps(schema, default=str))
                if size > limits.schema_bytes:
                    most = limits.schema_bytes
                    _too_large(f"a schema has {size} characters of JSON, and {most} are allowed", "$.tools")
            for tool in tools:
                budget.take(tool.parameters, json.dumps(tool.parameters, default=str).encode(), "$.tools")
    if number > limits.tools:
        _too_large(f"there are {number} tools, and {limits.tools} are allowed", "$.tools")


def _date(said: str | None, today: Date) -> str | None:
    if said is None or said == "today":
        return said and today.isoformat()
    try:
        return Date.fromisoformat(said).isoformat()
    except ValueError:
        invalid(f"{said!r} is no date of the form YYYY-MM-DD", "$.date")


def _counts(spans: tuple[MessageSpan, ...], total: int) -> Json:
    return {
        "messages": len(spans),
        "tokens": total,
        "header": sum(span.body_token - span.start_token for span in spans),
        "body": sum(span.stop_token - span.body_token for span in spans),
        "stop": sum(span.end_token - span.stop_token for span in spans),
        "next_header": total - (spans[-1].end_token if spans else 0),
    }


def _placed_in_body(error: InputError, name: RenderFormat, home: str) -> InputError:
    """What the renderer refused, with a place that the caller knows: it speaks of the conversation, and only one format
    has that in the body."""
    if name == "harmony-json" or error.at.path == "$.date" or error.at.message is None:
        return error
    message = f"{error.message} (in message {error.at.message} of the conversation that was read)"
    return InputError(error.code, message, Position(message=error.at.message, path=home))


def _home(body: Mapping[str, Any]) -> str:
    return f"$.{next(each for each in _HOMES if each in body)}"


# ── parse and inspect ───────────────────────────────────────────────────────────────────────────────────────────────


def parse(value: object, limits: Limits) -> Json:
    """What a model sampled, as messages, parts or events. A StreamError where it is malformed, and strictly read."""
    request = read_struct(_object(value), ParseRequest)
    taken, tools = _take(request, limits)
    parsed = parse_input(taken, request.role, request.mode, tools, stop_swallowed=request.stop_swallowed)
    answer: Json = {"input": taken.kind, "notes": taken.notes}
    match request.output:
        case "messages":
            answer["messages"] = [describe_message(message) for message in parsed.messages]
        case "parts":
            answer["parts"] = parts_of(parsed.messages, tools)
        case "events":
            answer["events"] = [describe_event(event) for event in parsed.events]
        case "normalized":
            answer["normalized"] = normalise(parsed.messages)
    return answer | _describe_diagnostics(parsed)


def inspect(value: object, limits: Limits) -> Json:
    """What a model sampled, for people: messages, what they cost, every fault with its place and a hint."""
    request = read_struct(_object(value), InspectRequest)
    taken, tools = _take(request, limits)
    parsed = parse_input(taken, request.role, "tolerant", tools, stop_swallowed=request.stop_swallowed)
    vocabulary = default_vocabulary()
    traced = trace(taken, parsed, tools, vocabulary)
    total = len(traced.diagnostics)
    traced = msgspec.structs.replace(traced, diagnostics=traced.diagnostics[:MOST_DIAGNOSTICS])
    hints = [
        hint_for(each, traced, has_role=request.role is not None, has_tools=tools is not None, words=_FIELD_WORDS)
        for each in traced.diagnostics
    ]
    answer = describe_trace(traced, hints, ids="ids" in request.include)
    answer["diagnostics_total"] = total
    if "token_table" in request.include:
        used = {
            token
            for item in traced.messages
            for ids in (item.header_ids, item.body_ids, item.stop_ids)
            for token in ids
        }
        answer["token_table"] = {str(token): _describe_any_token(token, vocabulary) for token in sorted(used)}
    if "text" in request.include:
        answer["text"] = traced.text
    return answer


def _take(request: ParseRequest | InspectRequest, limits: Limits) -> tuple[Input, Tools | None]:
    """The input, as the command takes it, and the tools."""
    if (request.tokens is None) == (request.text is None):
        invalid("give either tokens or text", "$")
    if request.tokens is not None:
        taken = _take_tokens(request.tokens)
        _check_specials(taken, "$.tokens")
    else:
        taken = _take_text(request.text or "", request.as_)
        if (tokens := taken.tokens) is not None:
            _check_number(len(tokens), "$.text")
        elif (characters := len(taken.text)) > MOST_CHARACTERS:
            _too_large(f"the text has {characters} characters, and {MOST_CHARACTERS} are allowed", "$.text")
        _check_specials(taken, "$.text")
    if request.tools is None:
        return taken, None
    if len(request.tools) > limits.tools:
        _too_large(f"there are {len(request.tools)} tools, and {limits.tools} are allowed", "$.tools")
    return taken, Tools(read_declared(request.tools, "$.tools"))


def _take_text(text: str, as_: TextKind) -> Input:
    if as_ in ("text", "stripped"):
        # Not by way of bytes, as a file is taken: a string of JSON has no mark at its beginning, and no encoding.
        return Input(as_, [text] if text else [], "text")
    try:
        return recognise(text.encode(), as_)
    except InputError as error:
        raise _placed(error, "$.text") from error


def _take_tokens(given: list[int | list[int]]) -> Input:
    """Ids, lists of ids, or both."""
    _check_number(sum(len(each) if isinstance(each, list) else 1 for each in given), "$.tokens")
    chunks: list[list[int]] = []
    for are_lists, group in groupby(given, lambda each: isinstance(each, list)):
        listed = list(group)
        chunks += cast("list[list[int]]", listed) if are_lists else [cast("list[int]", listed)]
    return Input("tokens", [chunk for chunk in chunks if chunk], "token ids")


def _check_number(tokens: int, path: str) -> None:
    if tokens > MOST_TOKENS:
        _too_large(f"there are {tokens} tokens, and {MOST_TOKENS} are allowed", path)


def _check_specials(taken: Input, path: str) -> None:
    tokens = taken.tokens
    if tokens is None:
        number = len(find_spellings(taken.text))
    else:
        number = sum(not 0 <= token < FIRST_SPECIAL for token in tokens)
    if number > MOST_SPECIALS:
        _too_large(f"there are {number} special tokens, and {MOST_SPECIALS} are allowed", path)


def _describe_diagnostics(parsed: Parsed) -> Json:
    return {
        "diagnostics": [describe_diagnostic(diagnostic) for diagnostic in parsed.diagnostics[:MOST_DIAGNOSTICS]],
        "diagnostics_total": len(parsed.diagnostics),
    }


def _describe_any_token(token: int, vocabulary: Vocabulary) -> Json:
    """A token, also one that is none: it has no bytes."""
    if 0 <= token < VOCABULARY_SIZE:
        described = describe_token(token, vocabulary)
        return {name: said for name, said in described.items() if name != "id"}
    return {"bytes": None, "text": None, "special": False}


# ── tokens ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def tokenize(value: object) -> Json:
    """The tokens of a text."""
    request = read_struct(_object(value), TokenizeRequest)
    vocabulary = default_vocabulary()
    try:
        tokens = vocabulary.encode(request.text, special="all" if request.special else ())
    except InputError as error:
        raise _placed(error, "$.text") from error
    answer: Json = {"count": len(tokens)}
    match request.output:
        case "tokens":
            answer["tokens"] = tokens
        case "pieces":
            _check_number(len(tokens), "$.text")
            answer["pieces"] = [describe_token(token, vocabulary) for token in tokens]
        case "count":
            pass
    return answer


def detokenize(value: object) -> Json:
    """The text and the bytes of tokens."""
    request = read_struct(_object(value), DetokenizeRequest)
    _check_number(len(request.tokens), "$.tokens")
    vocabulary = default_vocabulary()
    try:
        data = vocabulary.decode_bytes(request.tokens)
        text = vocabulary.decode(request.tokens, errors="strict" if request.strict else "replace")
    except InputError as error:
        at = error.at.token
        raise _placed(error, "$.tokens" if at is None else f"$.tokens[{at}]") from error
    return {"text": text, "bytes": data.hex()}


# ── bodies ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def encode_answer(answer: Json) -> bytes:
    """The JSON of an answer, whatever a model wrote: numbers of any size, halves of surrogate pairs."""
    try:
        return msgspec.json.encode(answer)
    except (OverflowError, UnicodeEncodeError):
        return json.dumps(answer, default=msgspec.to_builtins, separators=(",", ":")).encode()
    except RecursionError as error:
        raise InputError(
            ErrorCode.PARSE_INVALID_INPUT, "what was sent to a tool is nested too deep to be answered as JSON"
        ) from error


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        invalid("the body must be a JSON object", "$")
    return cast("dict[str, Any]", value)


def _placed(error: InputError, path: str) -> InputError:
    """The same error, with the field of the body in which it is."""
    return InputError(error.code, error.message, msgspec.structs.replace(error.at, path=path))


def _too_large(message: str, path: str) -> NoReturn:
    raise InputError(ErrorCode.SERVE_TOO_LARGE, message, Position(path=path))
