"""The Harmony endpoints but for the trace: JSON values in, JSON values out. No sockets, no store, no model.

1. Special tokens of a prompt come from structure only (law 1): `render` reads no token ids, no Harmony text, no sealed
   reasoning and no stored response. A conversation to inspect is rendered, so that typed text stays text, and the
   tokens are then traced like those that a model sampled.
2. The answer is bounded, and so is the work, which is linear.
3. The answers are those of the library and the command: the same functions make them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from datetime import date as Date
from itertools import groupby
from typing import Any, Final, NamedTuple, cast

import msgspec

import harmonia.inspection as inspection
from harmonia.errors import InputError, Position
from harmonia.history import align, compare
from harmonia.inspection.inputs import Pasted, describe_pasted, recognise_pasted
from harmonia.inspection.report import describe_rendered, with_settings
from harmonia.interchange import Imported, format_named, recognise_value
from harmonia.messages import Conversation, Json
from harmonia.parser import Tools
from harmonia.parts import normalise, parts_of
from harmonia.renderer import Renderer
from harmonia.serve.chat_completions.request import CreateCompletion
from harmonia.serve.config.settings import Limits
from harmonia.serve.inspector.request import (
    DetokenizeRequest,
    DiffRequest,
    Includable,
    InspectInput,
    InspectRequest,
    ParseRequest,
    RenderFormat,
    RenderOptions,
    ReplayRequest,
    RoleName,
    TextKind,
    TokenizeRequest,
)
from harmonia.serve.responses.request import CreateResponse
from harmonia.serve.wire.request_tools import SchemaBudget
from harmonia.serve.wire.validation import invalid, read_struct, unknown_field, unsupported
from harmonia.serve.wire.work_limits import (
    MOST_CHARACTERS,
    MOST_DIAGNOSTICS,
    MOST_SPECIALS,
    check_conversation,
    check_number,
    count_specials,
    encoded,
    object_of,
    placed,
    too_large,
)
from harmonia.vocabulary import FIRST_SPECIAL, VOCABULARY_SIZE, default_vocabulary

FIELD_WORDS: Final = inspection.OptionWords("role", '"role": "assistant"', "tools", '"stop_swallowed": true')
# The most spellings that are listed; a text may have one at every fifth character.
MOST_SPELLINGS: Final = 10_000
_CANNOT_TELL: Final = (
    "This is text, not token ids: a typed control token cannot be told from a real one here, so only what is certainly "
    "text is listed."
)


class _ParseInput(msgspec.Struct, frozen=True):
    """An input that was read: what it is, and how to parse it."""

    pasted: Pasted
    role: RoleName | None
    tools: Tools | None
    stop_swallowed: bool

    @property
    def input(self) -> inspection.Input:
        return self.pasted.input

    def trace(self) -> inspection.Trace:
        stop_swallowed = self.stop_swallowed
        parsed = inspection.parse_input(self.input, self.role, "tolerant", self.tools, stop_swallowed=stop_swallowed)
        return inspection.trace(self.input, parsed, self.tools, default_vocabulary())


# ── parse ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def parse(value: object, limits: Limits) -> Json:
    """What a model sampled, as messages, parts or events. A strict parse raises a StreamError at the first fault."""
    request = read_struct(object_of(value), ParseRequest)
    if (request.tokens is None) == (request.text is None):
        invalid("send either tokens or text, not both", "$")
    if request.tokens is not None:
        taken = _read_tokens(request.tokens, "$")
    else:
        taken = _read_sampled_text(request.text or "", request.as_)
        _check_input(taken, "$.text")
    tools = _read_tools(request.tools, limits, "$")
    parsed = inspection.parse_input(taken, request.role, request.mode, tools, stop_swallowed=request.stop_swallowed)
    answer: Json = {"input": taken.kind, "notes": taken.notes}
    match request.output:
        case "messages":
            answer["messages"] = [inspection.describe_message(message) for message in parsed.messages]
        case "parts":
            answer["parts"] = parts_of(parsed.messages, tools)
        case "events":
            answer["events"] = [inspection.describe_event(event) for event in parsed.events]
        case "normalized":
            answer["normalized"] = normalise(parsed.messages)
    first = [inspection.describe_diagnostic(each) for each in parsed.diagnostics[:MOST_DIAGNOSTICS]]
    return {**answer, "diagnostics": first, "diagnostics_total": len(parsed.diagnostics)}


def _read_sampled_text(text: str, as_: TextKind) -> inspection.Input:
    if as_ in ("text", "stripped"):
        # Not through bytes, like a file: a JSON string has no byte order mark and no encoding.
        return inspection.Input(as_, [text] if text else [], "text")
    try:
        return inspection.recognise(encoded(text), as_)
    except InputError as error:
        raise placed(error, "$.text") from error


# ── inspect ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def inspect(value: object, limits: Limits) -> Json:
    """Any pasted input, explained for people: messages, what they cost, every fault with its place and a hint."""
    request = read_struct(object_of(value), InspectRequest)
    taken = _read_input(request, limits)
    return _describe(taken, taken.trace(), request.include)


def inspect_tokens(tokens: list[int], include: Collection[Includable], taken_for: str, notes: Iterable[str]) -> Json:
    """The same for token ids of a whole conversation that the server made. The caller limits their number."""
    taken_input = inspection.Input("tokens", [tokens] if tokens else [], taken_for, list(notes))
    taken = _ParseInput(Pasted(taken_input), None, None, stop_swallowed=False)
    return _describe(taken, taken.trace(), include)


def _describe(taken: _ParseInput, traced: inspection.Trace, include: Collection[Includable]) -> Json:
    """The answer to an inspection."""
    vocabulary = default_vocabulary()
    total = len(traced.diagnostics)
    told = msgspec.structs.replace(traced, diagnostics=traced.diagnostics[:MOST_DIAGNOSTICS])
    has_role, has_tools = taken.role is not None, taken.tools is not None
    hints = [
        inspection.hint_for(each, traced, has_role=has_role, has_tools=has_tools, words=FIELD_WORDS)
        for each in told.diagnostics
    ]
    answer = inspection.describe_trace(told, hints, ids="ids" in include)
    answer["diagnostics_total"] = total
    answer["strict"] = inspection.describe_raised(traced.first_raised)
    notes: list[str] = list(answer["notes"])
    answer |= describe_pasted(taken.pasted)
    if "token_table" in include:
        used: set[int] = set()
        for item in traced.items:
            match item:
                case inspection.TracedMessage():
                    used.update(item.header_ids, item.body_ids, item.stop_ids)
                case inspection.TracedText():
                    used.update(() if item.is_space else item.ids)  # white space alone is not reported
                case inspection.TracedTurn():
                    pass
        # An id that is not in the vocabulary has no bytes.
        table: dict[str, Json] = {str(token): {"bytes": None, "text": None, "special": False} for token in sorted(used)}
        for token in (token for token in used if 0 <= token < VOCABULARY_SIZE):
            described = inspection.describe_token(token, vocabulary)
            table[str(token)] = {name: said for name, said in described.items() if name != "id"}
        answer["token_table"] = table
    if "text" in include:
        answer["text"] = traced.text
    if "spellings" in include:
        spellings = inspection.find_typed_spellings(traced, vocabulary, MOST_SPELLINGS + 1)
        answer["spellings"] = [msgspec.structs.asdict(each) for each in spellings[:MOST_SPELLINGS]]
        if len(spellings) > MOST_SPELLINGS:
            notes.append(f"only the first {MOST_SPELLINGS:,} spellings of control tokens are listed")
        answer["spellings_note"] = None if traced.has_ids else _CANNOT_TELL
    if "schemas" in include:
        answer["schemas"] = [msgspec.structs.asdict(each) for each in inspection.find_schema_costs(traced, vocabulary)]
    answer["notes"] = notes
    return answer


# ── diff and replay ─────────────────────────────────────────────────────────────────────────────────────────────────


def diff(value: object, limits: Limits) -> Json:
    """Two prompts side by side: how much of the first can be used again, and what changed."""
    request = read_struct(object_of(value), DiffRequest)
    before, after = _read_side(request.before, limits, "$.before"), _read_side(request.after, limits, "$.after")
    change = compare(before.tokens, after.tokens)
    rows = align(*([item.message for item in side.traced.messages] for side in (before, after)))
    return {
        "before": before.described,
        "after": after.described,
        "shared_prefix": change.shared_prefix,
        "before_token": change.before_token,
        "after_token": change.after_token,
        "before_message": before.message_at(change.shared_prefix),
        "after_message": after.message_at(change.shared_prefix),
        "dropped_tokens": change.dropped_tokens,
        "added_tokens": change.added_tokens,
        "is_extension": change.is_extension,
        "rows": [msgspec.structs.asdict(row) for row in rows],
    }


class _Side(NamedTuple):
    """One of the two prompts: its tokens, those of a text as it encodes, and where its messages begin in them."""

    described: Json
    traced: inspection.Trace
    tokens: list[int]
    starts: list[int]

    def message_at(self, token: int) -> int | None:
        """The message that has this token; None outside of messages and after the last."""
        messages = self.traced.messages
        found = bisect_right(self.starts, token) - 1
        if found < 0 or token >= self.starts[found] + messages[found].tokens:
            return None
        return found


def _read_side(given: InspectInput, limits: Limits, path: str) -> _Side:
    taken = _read_input(given, limits, path)
    traced = taken.trace()
    tokens: list[int] = []
    starts: list[int] = []
    for item in traced.items:
        match item:
            case inspection.TracedMessage():
                starts.append(len(tokens))
                tokens += (*item.header_ids, *item.body_ids, *item.stop_ids)
            case inspection.TracedText():
                tokens += item.ids
            case _:
                pass
    return _Side(_describe(taken, traced, ()), traced, tokens, starts)


def replay(value: object, limits: Limits) -> Json:
    """A stretch of the input, token by token: the parser's state after each, and the events it emitted."""
    request = read_struct(object_of(value), ReplayRequest)
    taken = _read_input(request, limits)
    replayed = inspection.replay(
        taken.input, request.start, request.count, taken.role, taken.tools, stop_swallowed=taken.stop_swallowed
    )
    answer = msgspec.structs.asdict(replayed)
    answer["steps"] = [msgspec.structs.asdict(step) for step in replayed.steps]
    return answer


# ── what is read ────────────────────────────────────────────────────────────────────────────────────────────────────


def _read_input(request: InspectInput, limits: Limits, path: str = "$") -> _ParseInput:
    """The input of a request that is at this path of the body."""
    if (request.tokens is None) == (request.text is None):
        invalid("send either tokens or text, not both", path)
    if request.tokens is not None:
        if request.as_ not in ("auto", "tokens"):
            invalid(f"tokens are token ids and cannot be read as {request.as_}; leave as out", f"{path}.as")
        pasted = Pasted(_read_tokens(request.tokens, path))
    else:
        pasted = _read_text(request, limits, f"{path}.text", f"{path}.document")
    role = request.role
    if pasted.is_conversation:
        role = None  # it is whole, and does not continue a prompt
    elif role is msgspec.UNSET:
        # Not given: it is a completion if it looks like one.
        role = "assistant" if inspection.is_completion(pasted.input) else None
    return _ParseInput(pasted, role, _read_tools(request.tools, limits, path), request.stop_swallowed)


def _read_text(request: InspectInput, limits: Limits, path: str, document_path: str) -> Pasted:
    def check(conversation: Conversation) -> None:
        check_conversation(conversation, limits, path, path)
        characters = sum(len(said) for message in conversation for said in message.contents if isinstance(said, str))
        if characters > MOST_CHARACTERS:
            too_large(f"the messages have {characters} characters; at most {MOST_CHARACTERS} are allowed", path)

    text = request.text or ""
    if request.as_ in ("text", "stripped"):
        pasted = Pasted(_read_sampled_text(text, request.as_))
    else:
        try:
            pasted = recognise_pasted(encoded(text), request.as_, request.document, check=check)
        except InputError as error:
            raise placed(error, document_path if error.at.path == "$.document" else path) from error
    count = max(pasted.count, 1)
    if request.document >= count:
        invalid(f"document must be less than {count}, the number of documents in the text", document_path)
    _check_input(pasted.input, path)
    return pasted


def _read_tools(tools: list[str | Json] | None, limits: Limits, path: str) -> Tools | None:
    if tools is None:
        return None
    if len(tools) > limits.tools:
        too_large(f"there are {len(tools)} tools; at most {limits.tools} are allowed", f"{path}.tools")
    schemas = SchemaBudget(limits)
    for at, tool in enumerate(tools):
        if not isinstance(tool, str):
            schemas.admit(tool, f"{path}.tools[{at}]")
    return Tools(inspection.read_declared(tools, f"{path}.tools"))


def _read_tokens(given: list[int | list[int]], path: str) -> inspection.Input:
    """Token ids, lists of token ids, or both."""
    check_number(sum(len(each) if isinstance(each, list) else 1 for each in given), f"{path}.tokens")
    chunks: list[list[int]] = []
    for are_lists, group in groupby(given, lambda each: isinstance(each, list)):
        listed = list(group)
        chunks += cast("list[list[int]]", listed) if are_lists else [cast("list[int]", listed)]
    taken = inspection.Input("tokens", [chunk for chunk in chunks if chunk], "token ids")
    _check_input(taken, f"{path}.tokens")
    return taken


def _check_input(taken: inspection.Input, path: str) -> None:
    tokens = taken.tokens
    if tokens is None:
        if (characters := len(taken.text)) > MOST_CHARACTERS:
            too_large(f"the text has {characters} characters; at most {MOST_CHARACTERS} are allowed", path)
        number = count_specials(taken.text, is_stripped=taken.kind == "stripped")
    else:
        check_number(len(tokens), path)
        number = sum(not 0 <= token < FIRST_SPECIAL for token in tokens)
    if number > MOST_SPECIALS:
        too_large(f"there are {number} special tokens; at most {MOST_SPECIALS} are allowed", path)


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
_BESIDE: Final = {"chat": CreateCompletion.__struct_fields__, "responses": CreateResponse.__struct_fields__}
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
    options = read_struct({name: said for name, said in body.items() if name in _OPTIONS}, RenderOptions)
    fields = {name: said for name, said in body.items() if name not in _OPTIONS}
    home, name = _format_of(fields, options.format)
    imported = _import(fields, home, name, options, limits)
    check_conversation(imported.conversation, limits, f"$.{home}", "$.tools")
    try:
        conversation = with_settings(imported.conversation, effort=options.effort, date=_date(options.date, today))
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
        if name == "harmony-json" or error.at.path == "$.date" or error.at.message is None:
            raise
        # Its place is in the conversation, which only one format has in the body.
        message = f"{error.message} (in message {error.at.message} of the conversation)"
        at = Position(message=error.at.message, path=f"$.{home}")
        raise InputError(error.code, message, at) from error
    spans, total = rendered.spans, len(rendered.tokens)
    counts = {
        "messages": len(spans),
        "tokens": total,
        "header": sum(span.body_token - span.start_token for span in spans),
        "body": sum(span.stop_token - span.body_token for span in spans),
        "stop": sum(span.end_token - span.stop_token for span in spans),
        "next_header": total - (spans[-1].end_token if spans else 0),
    }
    return {**described, "format": name, "conversion_losses": imported.losses, "counts": counts}


def _format_of(fields: Json, said: RenderFormat | None) -> tuple[str, RenderFormat]:
    """The field that has the conversation, and its format. Fields that are not read here are refused."""
    for name, why in _NOT_HERE.items():
        if fields.get(name) is not None:
            unsupported(f"{name} is not supported here: {why}", f"$.{name}")
    homes = [name for name in _HOMES if name in fields]
    if len(homes) != 1:
        found = " and ".join(homes) if homes else "none of them"
        invalid(f"send a conversation in exactly one of {', '.join(_HOMES)}; found {found}", "$")
    home, path = homes[0], f"$.{homes[0]}"
    if said is not None and said not in _HOMES[home]:
        invalid(f"the format {said} has no field {home}", path)
    format_ = said or _HOMES[home][0]
    if said is None and len(_HOMES[home]) > 1:
        if not isinstance(fields[home], list):
            invalid(f"{home} must be a list", path)
        try:
            found = recognise_value(fields)
        except InputError as error:
            raise placed(error, path) from error
        if found not in _HOMES[home]:
            # A list of ids, or items of another API.
            invalid(f"{home} must contain messages, found {found}", path)
        format_ = found
    known = [*_HOMES, *_BESIDE.get(format_, ())]
    unknown = next((field for field in fields if field not in known), None)
    if unknown is not None and home not in _ANSWERS:
        raise unknown_field(unknown, [*_OPTIONS, *known])
    return home, format_


def _import(fields: Json, home: str, name: RenderFormat, options: RenderOptions, limits: Limits) -> Imported:
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
        return format_named(name, system=options.system).read(fields)
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
    if request.output == "tokens":
        answer["tokens"] = tokens
    elif request.output == "pieces":
        check_number(len(tokens), "$.text")
        answer["pieces"] = [inspection.describe_token(token, vocabulary) for token in tokens]
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
