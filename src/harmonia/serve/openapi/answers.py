"""The schemas of what the server answers. They name what a client may rely on; there may be more fields than these."""

from __future__ import annotations

from typing import Final

from harmonia.messages import Json
from harmonia.serve.models.readiness import REASONS
from harmonia.serve.openapi.shapes import (
    ANY_OBJECT,
    BOOLEAN,
    COUNT,
    INTEGER,
    NUMBER,
    STRING,
    described,
    listed,
    one_of,
    or_null,
    record,
    ref,
)

_USAGE_OF_RESPONSES: Final = record(
    {
        "input_tokens": COUNT,
        "input_tokens_details": record({"cached_tokens": COUNT, "cache_write_tokens": COUNT}),
        "output_tokens": COUNT,
        "output_tokens_details": record({"reasoning_tokens": COUNT}),
        "total_tokens": COUNT,
        "harmonia_channels": {
            "type": "object",
            "additionalProperties": COUNT,
            "description": "What each channel cost, headers and stops included: analysis, commentary, final, "
            "other; calls are `calls`. Not in the dialect open-responses.",
        },
    },
    ("harmonia_channels",),
)
_TEXT_SPAN: Final = record(
    {"start_token": or_null(COUNT), "end_token": or_null(COUNT), "start_char": COUNT, "end_char": COUNT}
)

ANSWERS: Final[dict[str, Json]] = {
    # ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────────
    "Error": record(
        {
            "error": record(
                {
                    "message": described(STRING, "For people. It may change."),
                    "type": described(STRING, "The kind of error."),
                    "param": described(or_null(STRING), "The place in the body, such as `input[2].content`."),
                    "code": described(or_null(STRING), "What went wrong, for programs."),
                }
            )
        },
        said="The one shape of all errors.",
    ),
    "MalformedHarmony": record(
        {
            "error": record(
                {
                    "message": STRING,
                    "type": one_of("malformed_harmony"),
                    "param": or_null(STRING),
                    "code": described(STRING, "The fault; docs/reference/faults.md explains each."),
                    "at": ref("Position"),
                }
            ),
            "events": listed(ref("Event"), "What was found before the fault, where events were asked for."),
        },
        ("events",),
        said="The first fault, at which a strict parse stops.",
    ),
    "Position": record(
        {"token": COUNT, "character": COUNT, "message": COUNT, "path": STRING},
        ("token", "character", "message", "path"),
        said="Where it is: offsets into the input, an index of a message, a JSON path. Those that are known are set.",
    ),
    # ── Responses ───────────────────────────────────────────────────────────────────────────────────────────────────
    "Response": record(
        {
            "id": STRING,
            "object": one_of("response"),
            "created_at": INTEGER,
            "completed_at": or_null(INTEGER),
            "status": one_of("in_progress", "completed", "incomplete", "failed", "cancelled"),
            "model": STRING,
            "output": listed(ref("OutputItem"), "What the model said and called, in order."),
            "error": or_null(record({"code": STRING, "message": STRING})),
            "incomplete_details": or_null(record({"reason": STRING})),
            "previous_response_id": or_null(STRING),
            "usage": or_null(_USAGE_OF_RESPONSES),
            "store": BOOLEAN,
            "metadata": or_null(ANY_OBJECT),
            "warnings": listed(
                STRING,
                "What was left out of the request, where that is harmless, and what it demands and nothing assures.",
            ),
            "harmonia_reason": described(
                STRING,
                "Why the response failed or is incomplete, more exactly than error.code and incomplete_details.reason, "
                "which have the values that OpenAI's clients know. Not in the dialect open-responses.",
            ),
            "harmonia_sampled": listed(
                ref("SampledEntry"),
                "The samplings whose output was damaged and mended, or given up, for `/v1/harmony/trace`; where "
                "`include` has harmonia.encrypted_content. Not in the dialect open-responses.",
            ),
        },
        ("warnings", "harmonia_reason", "harmonia_sampled"),
        said="A response. It says the settings of its request again.",
    ),
    "OutputItem": record(
        {"type": STRING, "id": STRING, "status": STRING},
        ("status",),
        said="A message, reasoning, a call, or the list of an MCP server's tools. Its other fields depend on its type.",
    ),
    "DeletedResponse": record({"id": STRING, "object": one_of("response"), "deleted": one_of(True)}),
    "InputItems": record(
        {
            "object": one_of("list"),
            "data": listed(record({"type": STRING, "id": STRING}, ("type", "id"))),
            "first_id": or_null(STRING),
            "last_id": or_null(STRING),
            "has_more": BOOLEAN,
        }
    ),
    "InputTokens": record({"object": one_of("response.input_tokens"), "input_tokens": COUNT}),
    # ── Chat Completions ────────────────────────────────────────────────────────────────────────────────────────────
    "ChatCompletion": record(
        {
            "id": STRING,
            "object": one_of("chat.completion"),
            "created": INTEGER,
            "model": STRING,
            "choices": listed(
                record(
                    {
                        "index": COUNT,
                        "message": record(
                            {
                                "role": one_of("assistant"),
                                "content": or_null(STRING),
                                "reasoning": described(or_null(STRING), "Where the operator shows reasoning."),
                                "tool_calls": listed(ANY_OBJECT),
                            },
                            ("reasoning", "tool_calls"),
                        ),
                        "finish_reason": STRING,
                        "logprobs": or_null(ANY_OBJECT),
                    },
                    ("logprobs",),
                )
            ),
            "usage": or_null(
                record({"prompt_tokens": COUNT, "completion_tokens": COUNT, "total_tokens": COUNT}),
            ),
        },
        ("usage",),
    ),
    # ── models ──────────────────────────────────────────────────────────────────────────────────────────────────────
    "Model": record(
        {
            "id": STRING,
            "object": one_of("model"),
            "created": INTEGER,
            "owned_by": STRING,
            "harmonia": record(
                {
                    "engine": described(STRING, "The kind of engine or provider behind the server."),
                    "speaks_tokens": described(BOOLEAN, "Whether prompts and answers are token ids, not text."),
                    "takes_tokens": BOOLEAN,
                    "gives_tokens": BOOLEAN,
                    "gives_logprobs": BOOLEAN,
                    "context_tokens": or_null(COUNT),
                },
                said="What is not in OpenAI's shape.",
            ),
        }
    ),
    "ModelList": record({"object": one_of("list"), "data": listed(ref("Model"))}),
    # ── Harmony ─────────────────────────────────────────────────────────────────────────────────────────────────────
    "Rendered": record(
        {
            "tokens": listed(COUNT),
            "text": described(or_null(STRING), "The prompt as text; null where somebody typed a special token."),
            "text_error": described(ANY_OBJECT, "Why there is no text."),
            "spans": listed(
                record(
                    {
                        "message": COUNT,
                        "start_token": COUNT,
                        "body_token": COUNT,
                        "stop_token": COUNT,
                        "end_token": COUNT,
                    }
                ),
                "Where each message lies: header, body and stop token, each from one offset to the next.",
            ),
            "losses": listed(ANY_OBJECT, "What the schemas of tools say that the prompt does not."),
            "mask": listed(one_of(0, 1), "For training: which tokens the model is to learn."),
            "format": described(STRING, "What the conversation was taken for."),
            "conversion_losses": listed(
                record({"path": STRING, "what": STRING, "why": STRING}), "What of the body has no place in a prompt."
            ),
            "counts": record(
                {
                    "messages": COUNT,
                    "tokens": COUNT,
                    "header": COUNT,
                    "body": COUNT,
                    "stop": COUNT,
                    "next_header": COUNT,
                }
            ),
        },
        ("text_error", "mask"),
    ),
    "ParsedMessage": record(
        {
            "role": STRING,
            "name": or_null(STRING),
            "channel": or_null(STRING),
            "recipient": or_null(STRING),
            "content_type": or_null(STRING),
            "content": STRING,
            "stop": described(or_null(STRING), "What ended it; null where it was cut off."),
            "source": one_of("tokens", "text", "stripped"),
            "trust": described(STRING, "How certain the header is: certain, repaired or guessed."),
            "forged": described(BOOLEAN, "Whether the model wrote it in the name of another role."),
            "faults": listed(STRING, "The codes of what is wrong with it."),
            "spans": record({"header": _TEXT_SPAN, "body": _TEXT_SPAN}),
        }
    ),
    "Diagnostic": record(
        {
            "code": STRING,
            "message": STRING,
            "found": STRING,
            "at": ref("Position"),
            "repair": described(STRING, "What a tolerant parse does about it."),
            "strict": described(STRING, "What a strict parse does."),
        },
        said="A fault. docs/reference/faults.md explains each code.",
    ),
    "Event": record({"type": STRING}, said="What happened, in order; docs/concepts/parsing.md lists the types."),
    "Parsed": record(
        {
            "input": one_of("tokens", "text", "stripped", "sse"),
            "notes": listed(STRING, "What is odd about the input."),
            "messages": listed(ref("ParsedMessage")),
            "parts": listed(ANY_OBJECT, "think, tool_call and text, for a user interface."),
            "events": listed(ref("Event")),
            "normalized": listed(ANY_OBJECT),
            "diagnostics": listed(ref("Diagnostic"), "The first faults."),
            "diagnostics_total": described(COUNT, "How many there are."),
        },
        ("messages", "parts", "events", "normalized"),
        said="One of messages, parts, events and normalized, as the request says.",
    ),
    "Inspected": record(
        {
            "input": one_of("tokens", "text", "stripped", "sse", "harmony-json", "chat", "responses", "markdown"),
            "taken_for": described(STRING, "What the input was taken for, in words."),
            "documents": described(
                record({"count": COUNT, "at": COUNT, "titles": listed(STRING, "Those of the first thousand.")}),
                "Where the input has several conversations: how many, and which one this is.",
            ),
            "conversion_losses": listed(STRING, "What had no place when a conversation was read."),
            "notes": listed(STRING, "What is odd about the input."),
            "characters": COUNT,
            "tokens": COUNT,
            "counts_are_exact": described(BOOLEAN, "False for text, whose tokens are those it would be encoded to."),
            "messages": listed(
                {
                    "allOf": [
                        ref("ParsedMessage"),
                        record(
                            {
                                "index": COUNT,
                                "flags": listed(STRING, "What there is to say about it, in words."),
                                "skipped": listed(STRING, "Input that is inside it and no part of its text."),
                                "tokens": record({"header": COUNT, "body": COUNT, "stop": COUNT}),
                                "ids": record(
                                    {"header": listed(INTEGER), "body": listed(INTEGER), "stop": listed(INTEGER)}
                                ),
                            },
                            ("ids",),
                        ),
                    ]
                }
            ),
            "outside": listed(
                record({"text": STRING, "start_char": COUNT, "tokens": COUNT, "ids": listed(INTEGER)}, ("ids",)),
                "Part of no message.",
            ),
            "turns": listed(
                record(
                    {"stop": or_null(STRING), "hidden_because": or_null(STRING), "messages": COUNT, "outside": COUNT}
                ),
                "The ends of turns, each with how many messages and pieces outside of messages stand before it.",
            ),
            "channels": listed(
                record(
                    {
                        "channel": STRING,
                        "messages": COUNT,
                        "tokens": COUNT,
                        "header": COUNT,
                        "body": COUNT,
                        "stop": COUNT,
                        "share": NUMBER,
                    }
                ),
                "What each channel cost.",
            ),
            "diagnostics": listed(
                {
                    "allOf": [
                        ref("Diagnostic"),
                        record(
                            {
                                "explanation": described(STRING, "What is wrong about it."),
                                "excerpt": or_null(record({"line": STRING, "marker": STRING})),
                                "hint": or_null(STRING),
                            }
                        ),
                    ]
                },
                "The first faults.",
            ),
            "diagnostics_total": described(COUNT, "How many there are."),
            "strict": described(
                or_null(record({"code": STRING, "message": STRING, "at": ref("Position")})),
                "What a strict parse would stop at; null where it would not stop.",
            ),
            "token_table": {
                "type": "object",
                "additionalProperties": record(
                    {
                        "bytes": described(or_null(STRING), "In hexadecimal; null where the id is no token."),
                        "text": or_null(STRING),
                        "special": BOOLEAN,
                    }
                ),
                "description": "Every id that occurs in a message.",
            },
            "text": described(STRING, "The whole input, special tokens spelled out: what characters are counted in."),
            "spellings": listed(
                record(
                    {
                        "message": COUNT,
                        "role": STRING,
                        "where": described(STRING, "body, or the field of the header."),
                        "text": STRING,
                        "start_char": COUNT,
                        "end_char": COUNT,
                        "start_token": or_null(COUNT),
                        "ids": listed(INTEGER),
                        "became": one_of("text", "special"),
                        "near": described(BOOLEAN, "Whether it only resembles a spelling."),
                    }
                ),
                "Spellings of control tokens in text that somebody typed, and what they were encoded as.",
            ),
            "spellings_note": described(
                or_null(STRING), "What cannot be told of them: in a text, which control tokens were typed."
            ),
            "schemas": listed(
                record({"tool": STRING, "tokens": COUNT, "share": NUMBER}), "What the declaration of each tool costs."
            ),
        },
        ("documents", "conversion_losses", "token_table", "text", "spellings", "spellings_note", "schemas"),
    ),
    "PromptDiff": record(
        {
            "before": ref("Inspected"),
            "after": ref("Inspected"),
            "shared_prefix": described(COUNT, "How many tokens both begin with."),
            "before_token": described(or_null(INTEGER), "The first token that differs; null where the prompt ended."),
            "after_token": or_null(INTEGER),
            "before_message": described(or_null(COUNT), "The message in which it lies."),
            "after_message": or_null(COUNT),
            "dropped_tokens": described(COUNT, "Tokens of the first prompt that cannot be used again."),
            "added_tokens": described(COUNT, "Tokens of the second prompt that are new."),
            "is_extension": described(BOOLEAN, "Whether the second only goes on where the first ended."),
            "rows": listed(
                record(
                    {
                        "kind": one_of("same", "changed", "dropped", "added"),
                        "before": or_null(COUNT),
                        "after": or_null(COUNT),
                        "reason": described(or_null(STRING), "Why history's rule drops the message, where it does."),
                    }
                ),
                "The messages of both, side by side.",
            ),
        }
    ),
    "Replay": record(
        {
            "total": described(COUNT, "How many tokens or characters there are."),
            "unit": one_of("tokens", "characters"),
            "start": COUNT,
            "steps": listed(
                record(
                    {
                        "at": COUNT,
                        "id": or_null(INTEGER),
                        "text": STRING,
                        "state": described(one_of("wait", "header", "body"), "Where the parser is behind it."),
                        "message": described(or_null(COUNT), "The message that is being read."),
                        "channel": or_null(STRING),
                        "recipient": or_null(STRING),
                        "pending": described(STRING, "The end of what the parser holds back."),
                        "events": listed(ref("Event")),
                    }
                )
            ),
            "closing": described(
                or_null(listed(ref("Event"))), "What the end of the stream says; null where the steps do not reach it."
            ),
        }
    ),
    "TurnTrace": described(
        {
            "allOf": [
                ref("Inspected"),
                record(
                    {
                        "prompt_tokens": described(COUNT, "How many of the tokens are the prompt."),
                        "left_out": described(
                            or_null(record({"messages": COUNT, "tokens": COUNT})), "Reasoning that is hidden here."
                        ),
                        "faults": listed(STRING, "The codes of the faults that the samplings had, as `sampled` says."),
                    }
                ),
            ]
        },
        "An inspection of a turn: the prompt, and what was sampled behind it.",
    ),
    "ServerInfo": record(
        {
            "object": one_of("harmonia.server"),
            "version": STRING,
            "models": listed(STRING, "The names of the model; the first is the one that answers have."),
            "engine": described(or_null(STRING), "The kind of engine or provider behind the server."),
            "context_tokens": or_null(COUNT),
            "speaks_tokens": described(BOOLEAN, "Whether prompts and answers are token ids, not text."),
            "analysis": described(one_of("hidden", "shown"), "Whether reasoning is part of answers."),
            "guessed": described(one_of("hidden", "shown"), "Whether text without a known channel is."),
            "calls": described(one_of("certain", "unverified"), "Whether calls that were read from text are run."),
            "mcp_servers": listed(
                record(
                    {
                        "label": STRING,
                        "tools": listed(
                            record(
                                {
                                    "name": STRING,
                                    "description": or_null(STRING),
                                    "parameters": described({}, "A JSON Schema of the arguments."),
                                    "approval": described(one_of("run", "ask"), "Whether the client is asked first."),
                                }
                            )
                        ),
                        "error": described(or_null(STRING), "Why the server is not there; null where it is."),
                    }
                ),
                "The MCP servers of the operator.",
            ),
        }
    ),
    "Tokenized": record(
        {
            "count": COUNT,
            "tokens": listed(COUNT),
            "pieces": listed(
                record(
                    {
                        "id": COUNT,
                        "bytes": described(STRING, "In hexadecimal."),
                        "text": STRING,
                        "special": BOOLEAN,
                    }
                )
            ),
        },
        ("tokens", "pieces"),
    ),
    "Detokenized": record({"text": STRING, "bytes": described(STRING, "In hexadecimal.")}),
    # ── operation ───────────────────────────────────────────────────────────────────────────────────────────────────
    "Server": record(
        {"server": one_of("harmonia"), "docs": STRING, "openapi": STRING, "api": STRING, "page": or_null(STRING)}
    ),
    "Health": record({"status": one_of("ok"), "server": one_of("harmonia")}),
    "Ready": record({"status": one_of("ready")}),
    "NotReady": record({"status": one_of("not ready"), "because": one_of(*REASONS)}),
}
