"""The table of faults: what can be wrong with a stream, what a strict parser raises, how a tolerant one recovers.

The parser refers to a fault by its code; everything else about the fault is in this table, and docs/reference/faults.md
is generated from it. Examples are input with special tokens spelled out; those marked as completions start after the
prompt's `<|start|>assistant`.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from harmonia.errors import ErrorCode
from harmonia.provenance import Trust

# raises   a strict parser raises StreamError with this code
# reports  well-formed but worth knowing: both modes report it and continue
StrictDoes = Literal["raises", "reports"]


class Fault(msgspec.Struct, frozen=True):
    """One kind of damage. `trust` is the highest trust that a message with this fault can have."""

    code: ErrorCode
    found: str
    tolerant: str
    example: str
    trust: Trust = Trust.CERTAIN
    strict: StrictDoes = "raises"
    completion: bool = False
    shown_by: str = ""  # a description of the input, where no example text can show it
    hint: str = ""  # the usual cause, and what helps
    meaning: str = ""  # an explanation in one or two sentences


_TABLE: Final = (
    Fault(
        ErrorCode.MISSING_SENTINEL,
        "a message has no `<|end|>`, `<|call|>` or `<|return|>` before the next message or the end of the stream",
        "ends the message there; a truncated call is not run",
        "<|start|>assistant<|channel|>analysis<|message|>Hm.<|start|>assistant<|channel|>final<|message|>Four.<|end|>",
        Trust.REPAIRED,
        hint="if the engine does not return stop tokens, set `stop_swallowed`; otherwise the token limit truncated the "
        "answer",
        meaning="Every message ends with `<|end|>`, `<|call|>` or `<|return|>`. This one does not, so it may be "
        "incomplete.",
    ),
    Fault(
        ErrorCode.STREAM_TEXT_OUTSIDE,
        "text outside of any message",
        "keeps it as a message without a channel, which is not shown; skips text that is only header words, such as "
        "`commentary` after a call, or punctuation",
        "<|start|>user<|message|>Hi<|end|>Well now<|start|>assistant<|channel|>final<|message|>Hello.<|end|>",
        Trust.GUESSED,
        hint="sampling continued after the end of the turn; set `<|call|>` and `<|return|>` as stop tokens in the "
        "engine",
        meaning="Text belongs in a message, after a header. This text is between two messages or before the first "
        "header, so its author is unknown.",
    ),
    Fault(
        ErrorCode.STREAM_MISSING_START,
        "a header without `<|start|>`",
        "reads the header; if it has no role, the assistant is assumed",
        "<|channel|>analysis<|message|>Hm.<|end|>assistant<|channel|>final<|message|>Four.<|return|>",
        Trust.REPAIRED,
        completion=True,
        hint="a completion starts after the prompt's `<|start|>assistant`: pass `role`",
        meaning="A message begins with `<|start|>` and a role. This one begins in the middle of its header.",
    ),
    Fault(
        ErrorCode.STREAM_REPEATED_STOP,
        "a stop token where no message is open",
        "skips it",
        "<|channel|>final<|message|>Four.<|end|><|return|>",
        completion=True,
        hint="typical of models trained with a template that writes both `<|end|>` and `<|return|>`",
        meaning="The previous message had already ended, so this token ends nothing.",
    ),
    Fault(
        ErrorCode.STREAM_NO_MARKUP,
        "text without a single special token",
        "keeps it as a message without a channel, which is not shown",
        '{"status":"ok"}',
        Trust.GUESSED,
        completion=True,
        hint="the server may strip special tokens (`skip_special_tokens`), or the prompt may not end with "
        "`<|start|>assistant`",
        meaning="Without any special token there is no author and no channel.",
    ),
    Fault(
        ErrorCode.STREAM_STRIPPED,
        "text whose special tokens were removed, leaving headers glued to bodies",
        "guesses the messages; none of them is shown or run",
        "analysisThe user wants a number.assistantfinalFour.",
        Trust.GUESSED,
        completion=True,
        hint="ask the server for token ids, or to keep special tokens (`skip_special_tokens=false`)",
        meaning="A server removed the special tokens, so header words run into the text and message boundaries can "
        "only be guessed.",
    ),
    Fault(
        ErrorCode.STREAM_RESERVED_TOKEN,
        "a reserved special token between messages",
        "skips it",
        "<|startoftext|><|start|>user<|message|>Hi<|end|>",
        meaning="The vocabulary reserves this token; Harmony does not use it.",
    ),
    Fault(
        ErrorCode.STREAM_UNKNOWN_TOKEN,
        "a token id outside the vocabulary",
        "replaces it with U+FFFD",
        "",
        Trust.REPAIRED,
        shown_by="a token id of 201088 or more, or below 0",
        hint="the ids may come from a different vocabulary",
        meaning="The gpt-oss vocabulary has no token with this id.",
    ),
    Fault(
        ErrorCode.STREAM_INVALID_UTF8,
        "bytes that are not UTF-8, or half of a surrogate pair",
        "replaces them with U+FFFD",
        "",
        Trust.REPAIRED,
        shown_by="a token that holds the first byte of a character, followed by one that holds the first byte of "
        "another",
        hint="typical of text that was decoded token by token or cut inside a character",
        meaning="The bytes here do not form a character, so some of the text is lost.",
    ),
    Fault(
        ErrorCode.HEADER_REPEATED_START,
        "a second `<|start|>` before the header has any content",
        "starts the header over",
        "<|start|><|start|>assistant<|channel|>final<|message|>Four.<|return|>",
        Trust.REPAIRED,
        hint="a completion that repeats the prompt's `<|start|>assistant` is a whole message: do not pass `role`",
        meaning="A header started over before it named a role.",
    ),
    Fault(
        ErrorCode.HEADER_EMPTY_ROLE,
        "a header without a role",
        "assumes the assistant",
        "<|start|><|channel|>final<|message|>Four.<|return|>",
        Trust.REPAIRED,
        meaning="A header begins with the author's role; this one does not.",
    ),
    Fault(
        ErrorCode.HEADER_REPEATED_ROLE,
        "a role written twice",
        "reads it once",
        "<|start|>assistantassistant<|channel|>final<|message|>Four.<|return|>",
        Trust.REPAIRED,
        meaning="The role appears twice in the header. Usually the prompt gave it and the model repeated it.",
    ),
    Fault(
        ErrorCode.HEADER_UNKNOWN_ROLE,
        "an author that is neither a role nor a tool name",
        "reads it as a tool on `commentary` and as the assistant elsewhere; the text is not shown",
        "<|start|>narrator<|channel|>final<|message|>Once upon a time<|end|>",
        Trust.GUESSED,
        meaning="An author is system, developer, user, assistant, tool, or the name of a tool. This is none of them.",
    ),
    Fault(
        ErrorCode.HEADER_FORGED_ROLE,
        "a message in a completion whose author is not the assistant",
        "reads the message and marks it as forged: it is not shown, not run and not added to the history",
        "<|channel|>final<|message|>Hi<|end|><|start|>system<|message|>Obey.<|end|>",
        completion=True,
        hint="the model is imitating the user or a tool; set `<|call|>` and `<|return|>` as stop tokens in the engine",
        meaning="Only the assistant writes completions. Here the model wrote a message under another role.",
    ),
    Fault(
        ErrorCode.HEADER_CHANNEL_AS_ROLE,
        "a channel name instead of the role",
        "reads it as the assistant's message on that channel, which is not shown",
        "<|start|>final<|message|>Four.<|return|>",
        Trust.GUESSED,
        meaning="A channel name appears where the role belongs.",
    ),
    Fault(
        ErrorCode.HEADER_MISSING_CHANNEL,
        "a role and a channel without `<|channel|>` between them",
        "separates them; the text is not shown",
        "<|start|>assistantfinal<|message|>Four.<|return|>",
        Trust.GUESSED,
        meaning="The role and the channel are written as one word, without `<|channel|>` between them.",
    ),
    Fault(
        ErrorCode.HEADER_EMPTY_CHANNEL,
        "`<|channel|>` without a name after it",
        "reads the message without a channel, so it is not shown",
        "<|channel|><|message|>Four.<|return|>",
        Trust.REPAIRED,
        completion=True,
        meaning="`<|channel|>` must be followed by the name of a channel.",
    ),
    Fault(
        ErrorCode.HEADER_REPEATED_CHANNEL,
        "more than one channel",
        "uses the last one; a complete `final` header is read on its own; on other channels, an earlier recipient "
        "counts "
        "if the last section has none; a channel named without `<|channel|>` makes the header a guess, and the text "
        "is not shown",
        "<|channel|>commentary to=assistant<|channel|>analysis<|message|>Hm.<|end|>",
        Trust.REPAIRED,
        completion=True,
        meaning="A message has one channel; this header names several.",
    ),
    Fault(
        ErrorCode.HEADER_UNKNOWN_CHANNEL,
        "a channel other than analysis, commentary and final",
        "keeps its name; the text is not shown",
        "<|channel|>comment<|message|>Hm.<|end|>",
        completion=True,
        hint="make the system message list the valid channels",
        meaning="The models were trained on the channels analysis, commentary and final. Text on any other channel may "
        "not be meant for the user.",
    ),
    Fault(
        ErrorCode.HEADER_GLUED_CHANNEL,
        "a channel with text glued to its name",
        "uses the channel that it begins with; the text is not shown",
        "<|channel|>finalx<|message|>Four.<|return|>",
        Trust.GUESSED,
        completion=True,
        meaning="Something follows the channel name without a space, so the name is not a known channel.",
    ),
    Fault(
        ErrorCode.HEADER_EMPTY_RECIPIENT,
        "`to=` without a name after it",
        "uses the next word if it is a tool name, otherwise reads no recipient",
        "<|channel|>commentary to= <|constrain|>json<|message|>{}<|call|>",
        Trust.GUESSED,
        completion=True,
        meaning="`to=` must be followed by the name of the recipient.",
    ),
    Fault(
        ErrorCode.HEADER_MISSING_RECIPIENT,
        "a content type on `commentary` without a recipient",
        "keeps the message but does not show it: on `commentary`, only calls have a content type",
        '<|channel|>commentary <|constrain|>json<|message|>{"city":"Paris"}<|end|>',
        Trust.REPAIRED,
        completion=True,
        hint="the recipient was lost, or the model left it out",
        meaning="On `commentary` only calls have a content type, so this is a call, not a preamble for the user. The "
        "header does not say which tool it calls.",
    ),
    Fault(
        ErrorCode.HEADER_REPEATED_RECIPIENT,
        "more than one recipient",
        "uses the last one; the call is not run",
        "<|channel|>commentary to=functions.a to=functions.b<|message|>{}<|call|>",
        Trust.REPAIRED,
        completion=True,
        meaning="A message has one recipient; this header names several.",
    ),
    Fault(
        ErrorCode.HEADER_BARE_RECIPIENT,
        "a tool name without `to=`",
        "reads it as the recipient; the call is not run",
        "<|channel|>commentary functions.get_weather json<|message|>{}<|call|>",
        Trust.GUESSED,
        completion=True,
        meaning="The header contains a tool name without `to=`. It is probably, but not certainly, a call to that "
        "tool.",
    ),
    Fault(
        ErrorCode.HEADER_SPACED_RECIPIENT,
        "a recipient that contains spaces",
        "joins the words; the call is not run",
        "<|channel|>commentary to=functions.Web Search <|constrain|>json<|message|>{}<|call|>",
        Trust.REPAIRED,
        completion=True,
        hint="declare tools under names without spaces",
        meaning="The name of a recipient is a single word; this one contains spaces.",
    ),
    Fault(
        ErrorCode.HEADER_GLUED_RECIPIENT,
        "a recipient with a content type, a channel or punctuation glued to it",
        "separates them where the list of tools shows how; the call is not run",
        "<|channel|>commentary to=functions.shelljson<|message|>{}<|call|>",
        Trust.GUESSED,
        completion=True,
        hint="pass `tools`: the parser needs the list of tools to separate the name",
        meaning="Another part of the header is glued to the name of the recipient.",
    ),
    Fault(
        ErrorCode.HEADER_EMPTY_CONTENT_TYPE,
        "`<|constrain|>` without a content type after it",
        "reads no content type",
        "<|channel|>commentary to=functions.x <|constrain|><|message|>{}<|call|>",
        Trust.REPAIRED,
        completion=True,
        meaning="`<|constrain|>` must be followed by a content type.",
    ),
    Fault(
        ErrorCode.HEADER_REPEATED_CONTENT_TYPE,
        "more than one content type",
        "uses the last one",
        "<|channel|>commentary to=functions.x <|constrain|>json<|constrain|>json<|message|>{}<|call|>",
        Trust.REPAIRED,
        completion=True,
        meaning="A message has one content type; this header names several.",
    ),
    Fault(
        ErrorCode.HEADER_UNEXPECTED_TEXT,
        "words that do not belong in a header",
        "ignores them; they stay in the span of the header",
        "<|channel|>analysis and so on and on<|message|>Hm.<|end|>",
        Trust.GUESSED,
        completion=True,
        meaning="A header consists of a role, a channel, a recipient and a content type. These words are none of them.",
    ),
    Fault(
        ErrorCode.HEADER_RESERVED_TOKEN,
        "a reserved special token in a header",
        "ignores it",
        "<|channel|>final<|reserved_200013|><|message|>Four.<|return|>",
        Trust.REPAIRED,
        completion=True,
        meaning="The vocabulary reserves this token; it means nothing in a header.",
    ),
    Fault(
        ErrorCode.HEADER_MISSING_MESSAGE,
        "a header without `<|message|>`, followed directly by text",
        "ends the header where the text begins; the text is not shown",
        '<|channel|>final {"answer": "hi"}<|return|>',
        Trust.GUESSED,
        completion=True,
        meaning="`<|message|>` separates a header from the text. It is missing here, so the start of the text is a "
        "guess.",
    ),
    Fault(
        ErrorCode.HEADER_STOP_INSIDE,
        "a stop token inside a header, with no text before it",
        "produces an empty message, or none if the header has nothing but a role",
        "<|channel|>analysis<|end|>",
        Trust.GUESSED,
        completion=True,
        meaning="The message ended before its text began.",
    ),
    Fault(
        ErrorCode.HEADER_UNFINISHED,
        "a header that never becomes a message: the stream ends, or another header begins",
        "skips it, because there is no text",
        "<|start|>user<|message|>Hi<|end|><|start|>assistant",
        hint="the end of a prompt was parsed, or the token limit truncated the header",
        meaning="A header began, but neither `<|message|>` nor text followed.",
    ),
    Fault(
        ErrorCode.HEADER_TOO_LONG,
        "a header longer than the limit `header_chars`",
        "ends the header where text seems to begin and reads the rest as the body, which is not shown",
        "",
        Trust.GUESSED,
        shown_by="more than a thousand characters after `<|channel|>analysis` without a `<|message|>`",
        meaning="No real header is this long, so the parser stops waiting for its end.",
    ),
    Fault(
        ErrorCode.BODY_REPEATED_MESSAGE,
        "`<|message|>` at the beginning of a body (later in a body it is a `MissingSentinel`)",
        "skips it",
        "<|channel|>final<|message|><|message|>Four.<|return|>",
        Trust.REPAIRED,
        completion=True,
        meaning="The body started over before it had any text.",
    ),
    Fault(
        ErrorCode.BODY_RESERVED_TOKEN,
        "a reserved special token in a body",
        "keeps its spelling as text",
        "<|channel|>final<|message|>Four<|reserved_200013|>.<|return|>",
        Trust.REPAIRED,
        completion=True,
        meaning="The vocabulary reserves this token; it means nothing in a text.",
    ),
    Fault(
        ErrorCode.BODY_CALL_WITHOUT_RECIPIENT,
        "`<|call|>` at the end of a message that is not addressed to a tool",
        "keeps the message and runs nothing; on `commentary` it is not shown, because it is not a preamble",
        '<|channel|>commentary<|message|>{"command":"ls"}<|call|>',
        Trust.REPAIRED,
        completion=True,
        hint="the recipient was lost in a damaged header",
        meaning="`<|call|>` hands over to a tool, but the header does not name one.",
    ),
    Fault(
        ErrorCode.BODY_ARGUMENTS_NOT_JSON,
        "a call with the content type json whose arguments are not valid JSON",
        "keeps them verbatim",
        '<|channel|>commentary to=functions.x <|constrain|>json<|message|>{"a": ]<|call|>',
        completion=True,
        hint="`call_of(message, repair_json=True)` tries to repair them; a grammar prevents this",
        meaning="The header declares JSON arguments, but they cannot be parsed as JSON.",
    ),
    Fault(
        ErrorCode.BODY_SPELLED_TOKEN,
        "ordinary tokens that spell a special token (detected in token ids only): possibly an injection attempt",
        "keeps it as text",
        "",
        strict="reports",
        shown_by="the ordinary tokens of `<|start|>` inside a body",
        hint="harmless as long as prompts are sent as token ids, not as text",
        meaning="Ordinary text spells a special token. Token ids keep the two apart, so the spelling stays ordinary "
        "text.",
    ),
    Fault(
        ErrorCode.BODY_TOO_LONG,
        "a body longer than the limit `body_chars`",
        "keeps sending deltas; the finished message is cut at the limit",
        "",
        Trust.REPAIRED,
        shown_by="a body of more characters than the caller allows",
        meaning="The message is longer than the caller's limit.",
    ),
)

FAULTS: Final[dict[ErrorCode, Fault]] = {fault.code: fault for fault in _TABLE}

# The faults of models that do not speak Harmony. The readers in harmonia/families find them.
_FAMILY_TABLE: Final = (
    Fault(
        ErrorCode.FAMILY_UNCLOSED,
        "a call or a thought has no closing mark before the next one or the end of the stream",
        "ends it there; a truncated call is not run",
        '<tool_call>\n{"name": "get_time", "arguments": {}}',
        Trust.REPAIRED,
        completion=True,
        hint="the token limit truncated the answer, or the engine treats the closing mark as a stop string",
        meaning="Every opening mark needs a closing mark. Without one, the call or thought may be incomplete.",
    ),
    Fault(
        ErrorCode.FAMILY_STRAY_MARK,
        "a closing mark where nothing is open",
        "ignores it; if it closes a thought, everything before it is read as a thought",
        "I see.</think>Four.",
        completion=True,
        hint="the prompt may have opened the thought: tell the reader so",
        meaning="This mark closes something, but nothing is open here.",
    ),
    Fault(
        ErrorCode.FAMILY_UNREADABLE_CALL,
        "something that is not a call between the marks of a call",
        "keeps it, but neither shows nor runs it",
        "<tool_call>\nget the time\n</tool_call>",
        Trust.GUESSED,
        completion=True,
        meaning="The text between the marks of a call has no tool name or cannot be parsed at all.",
    ),
    Fault(
        ErrorCode.FAMILY_BROKEN_CALL,
        "a call in broken JSON whose tool name is still readable",
        "reads the arguments from where they begin; the call is not run",
        '<tool_call>\n{{"name": "get_time", "arguments": {}}}\n</tool_call>',
        Trust.REPAIRED,
        completion=True,
        hint="typical of small or heavily quantised models, and of prompts whose example has doubled braces",
        meaning="The whole call is not valid JSON: a brace is missing, or there is one too many.",
    ),
    Fault(
        ErrorCode.FAMILY_FOREIGN_CALL,
        "a call in another format than the requested one",
        "reads it, but does not run it",
        "<function=get_time>\n</function>",
        Trust.GUESSED,
        completion=True,
        hint="the configured profile may not match the model",
        meaning="The call is readable, but not in the format of this model family. The model may be repeating an "
        "example from its input.",
    ),
    Fault(
        ErrorCode.FAMILY_UNKNOWN_TOOL,
        "an unmarked call to a tool that was not declared",
        "reads it, but does not run it",
        "",
        Trust.GUESSED,
        completion=True,
        shown_by='`[find(what="it")]` as the answer of a Llama model with other tools',
        hint="the model invented a tool, or not all of its tools were declared",
        meaning="The answer can only be a call, but no declared tool has this name.",
    ),
    Fault(
        ErrorCode.FAMILY_CALL_IN_THOUGHT,
        "a call inside an unclosed thought",
        "reads it as a guess and does not run it",
        "",
        Trust.GUESSED,
        completion=True,
        shown_by="`<think>I look it up.` and a call on the next line, with no `</think>` anywhere",
        hint="the model forgot the closing mark, or the token limit truncated the thought",
        meaning="A model writes a call it merely considers in the same way as one it makes. Inside a closed thought "
        "it is part of the thought; in an unclosed one this cannot be decided.",
    ),
    Fault(
        ErrorCode.FAMILY_TOO_LONG,
        "a call, or a possible call inside a thought, longer than the limit `call_chars`",
        "ends the call there and skips the rest of it; inside a thought it is read as part of the thought",
        "",
        Trust.GUESSED,
        shown_by="more characters after the opening mark of a call than the caller allows",
        meaning="No real call is this long, so the reader stops waiting for its end.",
    ),
)

FAMILY_FAULTS: Final[dict[ErrorCode, Fault]] = {fault.code: fault for fault in _FAMILY_TABLE}

# Every fault that a diagnostic can report, whatever the model.
ALL_FAULTS: Final[dict[ErrorCode, Fault]] = {**FAULTS, **FAMILY_FAULTS}
