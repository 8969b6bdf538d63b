"""Rendering and tokenizing for the Harmony endpoints: JSON values in, JSON values out. No sockets, no store, no model.

1. Special tokens of a prompt come from structure only (law 1): `render` reads no token ids, no Harmony text, no sealed
   reasoning and no stored response.
2. The answer is bounded, and so is the work, which is linear.
3. The answers are those of the library and the command: the same functions make them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date as Date
from typing import Any, Final, cast

from harmonia.errors import InputError, Position
from harmonia.inspection import describe_token
from harmonia.inspection.report import describe_rendered, with_settings
from harmonia.interchange import Imported, format_named, recognise_value
from harmonia.messages import Json
from harmonia.renderer import MessageSpan, Renderer
from harmonia.serve.chat_completions.request import CreateCompletion
from harmonia.serve.config.settings import Limits
from harmonia.serve.inspector.request import DetokenizeRequest, RenderFormat, RenderOptions, TokenizeRequest
from harmonia.serve.responses.request import CreateResponse
from harmonia.serve.wire.validation import invalid, read_struct, unknown_field, unsupported
from harmonia.serve.wire.work_limits import check_conversation, check_number, object_of, placed, too_large
from harmonia.vocabulary import default_vocabulary

_OPTIONS: Final = RenderOptions.__struct_fields__
# The fields that may hold a conversation, and the formats that have them.
_HOMES: Final[dict[str, tuple[RenderFormat, ...]]] = {
    "messages": ("harmony-json", "chat"),
    "choices": ("chat",),
    "input": ("responses",),
    "output": ("responses",),
    "markdown": ("markdown",),
}
# The fields beside a conversation: those of the API whose request it is. What has no part in a prompt is reported in
# `conversion_losses`.
_BESIDE: Final[dict[RenderFormat, tuple[str, ...]]] = {
    "harmony-json": (),
    "chat": CreateCompletion.__struct_fields__,
    "responses": CreateResponse.__struct_fields__,
    "markdown": (),
}
_ANSWERS: Final = ("choices", "output")  # beside these a provider may have any field
_NO_TEXT: Final = (
    "the text of a message spells a special token, and the two look the same as text; use the tokens, or get a text "
    'for people with "escape": true'
)
_NOT_HERE: Final = {
    "tokens": "special tokens come only from the structure of a conversation; /v1/harmony/parse reads token ids",
    "token_ids": "special tokens come only from the structure of a conversation; /v1/harmony/parse reads token ids",
    "previous_response_id": "stored responses are not read here; send the items",
    "conversation": "stored responses are not read here; send the items",
    "prompt": "there are no stored prompts; send the items",
}


# ── render ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def render(value: object, limits: Limits, today: Date) -> Json:
    """A conversation as tokens, text and spans."""
    body = object_of(value)
    given = {name: said for name, said in body.items() if name in _OPTIONS}
    options = read_struct(given, RenderOptions)
    conversation_fields = {name: said for name, said in body.items() if name not in _OPTIONS}
    name = _format_of(conversation_fields, options.format)
    _check_fields(conversation_fields, name)
    imported = _import(conversation_fields, name, options, limits)
    conversation = imported.conversation
    check_conversation(conversation, limits, _home(body), "$.tools")
    try:
        conversation = with_settings(conversation, effort=options.effort, date=_date(options.date, today))
        # Without a cache: one request must not find what another rendered.
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
            # The library's message names one of its own arguments.
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
    """The format of the conversation. Fields that are not read here are refused."""
    for name, why in _NOT_HERE.items():
        if fields.get(name) is not None:
            unsupported(f"{name} is not supported here: {why}", f"$.{name}")
    homes = [name for name in _HOMES if name in fields]
    if len(homes) != 1:
        found = " and ".join(homes) if homes else "none of them"
        invalid(f"send a conversation in exactly one of {', '.join(_HOMES)}; found {found}", "$")
    home = homes[0]
    if said is not None:
        if said not in _HOMES[home]:
            invalid(f"the format {said} has no field {home}", f"$.{home}")
        return said
    if len(_HOMES[home]) == 1:
        return _HOMES[home][0]
    if not isinstance(fields[home], list):
        invalid(f"{home} must be a list", f"$.{home}")
    try:
        name = recognise_value(fields)
    except InputError as error:
        raise InputError(error.code, error.message, Position(path=f"$.{home}")) from error
    if name not in _HOMES[home]:
        # A list of ids, or items of another API.
        invalid(f"{home} must contain messages, found {name}", f"$.{home}")
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
            too_large(f"{home} has {len(items)} items; at most {limits.items} are allowed", f"$.{home}")
        for at, item in enumerate(items):
            if isinstance(item, Mapping) and cast(Json, item).get("encrypted_content") is not None:
                path = f"$.{home}[{at}].encrypted_content"
                unsupported("sealed reasoning is not opened here; send its text, or leave the item out", path)
    if name != "markdown":
        return format_named(name, system=options.system).read(dict(fields))
    if not isinstance(listed, str):
        invalid("markdown must be a string", "$.markdown")
    try:
        return format_named(name).read(listed)
    except InputError as error:
        raise placed(error, "$.markdown") from error


def _date(said: str | None, today: Date) -> str | None:
    if said is None or said == "today":
        return said and today.isoformat()
    try:
        return Date.fromisoformat(said).isoformat()
    except ValueError:
        invalid(f"{said!r} is not a date of the form YYYY-MM-DD", "$.date")


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
    """The renderer's error, with a place in the body: its own place is in the conversation, which only one format has
    in the body."""
    if name == "harmony-json" or error.at.path == "$.date" or error.at.message is None:
        return error
    message = f"{error.message} (in message {error.at.message} of the conversation)"
    return InputError(error.code, message, Position(message=error.at.message, path=home))


def _home(body: Mapping[str, Any]) -> str:
    return f"$.{next(each for each in _HOMES if each in body)}"


# ── tokens ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def tokenize(value: object) -> Json:
    """The tokens of a text."""
    request = read_struct(object_of(value), TokenizeRequest)
    vocabulary = default_vocabulary()
    try:
        tokens = vocabulary.encode(request.text, special="all" if request.special else ())
    except InputError as error:
        raise placed(error, "$.text") from error
    answer: Json = {"count": len(tokens)}
    match request.output:
        case "tokens":
            answer["tokens"] = tokens
        case "pieces":
            check_number(len(tokens), "$.text")
            answer["pieces"] = [describe_token(token, vocabulary) for token in tokens]
        case "count":
            pass
    return answer


def detokenize(value: object) -> Json:
    """The text and the bytes of tokens."""
    request = read_struct(object_of(value), DetokenizeRequest)
    check_number(len(request.tokens), "$.tokens")
    vocabulary = default_vocabulary()
    try:
        data = vocabulary.decode_bytes(request.tokens)
        text = vocabulary.decode(request.tokens, errors="strict" if request.strict else "replace")
    except InputError as error:
        at = error.at.token
        raise placed(error, "$.tokens" if at is None else f"$.tokens[{at}]") from error
    return {"text": text, "bytes": data.hex()}
