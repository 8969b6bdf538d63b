"""What the Harmony endpoints share: the limits of their input, their refusals, and how an answer is written."""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.json_codec import encode_bytes
from harmonia.messages import Conversation, DeveloperContent, Json
from harmonia.parser.missing_special_tokens import count_headers
from harmonia.serve.config.settings import Limits
from harmonia.serve.wire.request_tools import SchemaBudget
from harmonia.serve.wire.validation import invalid, too_large
from harmonia.vocabulary import find_spellings

# A body of these endpoints. A full context of gpt-oss is about half a megabyte of text.
MOST_BODY_BYTES: Final = 8 * 1024 * 1024
# What is parsed: the context of gpt-oss. A description is much longer than what it describes.
MOST_TOKENS: Final = 131_072
MOST_CHARACTERS: Final = 1_048_576
# Special tokens of what is parsed, and ids that are no tokens: each of them may be a message or a fault, which takes a
# tenth of a millisecond and a kilobyte of the answer. A full context of short messages has fewer.
MOST_SPECIALS: Final = 16_384
# The least that a whole message has: start, channel, message, end.
_SPECIALS_OF_A_MESSAGE: Final = 4
# How many faults are told in full; damaged streams may have one at every token.
MOST_DIAGNOSTICS: Final = 1000


def encode_answer(answer: Json) -> bytes:
    """The JSON of an answer, whatever a model wrote: numbers of any size, halves of surrogate pairs."""
    try:
        return encode_bytes(answer)
    except RecursionError as error:
        message = "the input of a tool call is nested too deeply to be returned as JSON"
        raise InputError(ErrorCode.PARSE_INVALID_INPUT, message) from error


def object_of(value: object) -> dict[str, Any]:
    """The body, which is an object."""
    if not isinstance(value, dict):
        invalid("the body must be a JSON object", "$")
    return cast("dict[str, Any]", value)


def placed(error: InputError, path: str) -> InputError:
    """The same error, with the field of the body in which it is."""
    return InputError(error.code, error.message, msgspec.structs.replace(error.at, path=path))


def encoded(text: str) -> bytes:
    """The text as a file would have it: halves of surrogate pairs, which no file has, are replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def count_specials(text: str, *, is_stripped: bool) -> int:
    """The special tokens that a text spells. Where they were stripped, what is left of a header stands for several."""
    return _SPECIALS_OF_A_MESSAGE * count_headers(text) if is_stripped else len(find_spellings(text))


def check_number(tokens: int, path: str) -> None:
    if tokens > MOST_TOKENS:
        too_large(f"there are {tokens} tokens; at most {MOST_TOKENS} are allowed", path)


def check_conversation(conversation: Conversation, limits: Limits, path: str, tools_path: str) -> None:
    """How many messages and tools there are, and how large the schemas, wherever the format has them."""
    if len(conversation) > limits.items:
        too_large(f"the conversation has {len(conversation)} messages; at most {limits.items} are allowed", path)
    schemas = SchemaBudget(limits)
    contents = [content for message in conversation for content in message.contents if not isinstance(content, str)]
    tools = [tool for content in contents for space in (content.tools or {}).values() for tool in space.tools]
    for tool in tools:
        schemas.admit(tool.parameters, tools_path)
    for content in contents:
        for form in (content.response_formats or ()) if isinstance(content, DeveloperContent) else ():
            schemas.admit(form.schema, tools_path)
    if len(tools) > limits.tools:
        too_large(f"there are {len(tools)} tools; at most {limits.tools} are allowed", tools_path)
