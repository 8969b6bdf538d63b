"""The result of a tool, as the text that the model reads, and as a message.

    text                    verbatim
    None                    null
    everything else         JSON: numbers, lists, dictionaries, dataclasses, msgspec and pydantic models, enums, dates;
                            bytes are text where they are UTF-8, and base64 otherwise
    an error                {"error": "…", "code": "tool.failed"}, escaped as JSON has it

1. What is too long keeps its head and its tail, and says between them how much was cut.
2. The text can always be rendered: halves of surrogate pairs are replaced.
3. What JSON does not have (NaN, infinity, a cycle, an unknown object) is a ToolError that says where it is.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final, cast

import msgspec

from harmonia.errors import ErrorCode, HarmonyError, Position, ToolError
from harmonia.messages import Message, Role, is_builtin
from harmonia.parser.headers import UNDECLARED
from harmonia.run.tools.tool import FUNCTIONS, ToolResult

# About ten thousand tokens of English.
DEFAULT_LIMIT_CHARS: Final = 40_000

# What no word of a header may have; see renderer/segments.py.
_UNSAFE: Final = re.compile(r"[\s<>|\x00-\x1f\x7f]+")
# A name that begins like a role, such as `user_info` or `SYSTEM`, or is a channel, would be read as that.
_TAKEN: Final = re.compile(rf"(?:{'|'.join(Role)})|(?:analysis|commentary|final)$", re.IGNORECASE)


def result_of(value: object, limit_chars: int | None = DEFAULT_LIMIT_CHARS) -> ToolResult:
    """What a tool returned, as a result; see the module. A `limit_chars` of None cuts nothing."""
    if isinstance(value, ToolResult):
        return _limit(value.text, limit_chars, is_error=value.is_error, cut_before=value.cut_chars)
    return _limit(value if isinstance(value, str) else _text_of(value), limit_chars)


def error_result(error: HarmonyError, limit_chars: int | None = DEFAULT_LIMIT_CHARS) -> ToolResult:
    """What the model is told of an error: what went wrong, and where in its arguments."""
    # The message is cut, not the JSON around it.
    message = _limit(error.message, limit_chars)
    told = {"error": message.text, "code": error.code.value}
    if error.at.path is not None:
        told["at"] = error.at.path
    return ToolResult(_without_lone_surrogates(_dump(told)), is_error=True, cut_chars=message.cut_chars)


def result_message(recipient: str, result: ToolResult, channel: str | None = None) -> Message:
    """The message with which a tool answers. `recipient` is its whole name, as `ToolSet.recipient_of` gives it; for a
    tool that there is not, what the model wrote.

    A function answers on `commentary`, wherever it was called. The built-in tools, python and browser, answer on
    the `channel` of the call, which for them is mostly `analysis`: so it was in the models' training.
    """
    # A model may have written anything, and the answer has to be rendered all the same.
    name = _UNSAFE.sub("_", _without_lone_surrogates(recipient))
    is_taken = _TAKEN.match(name) is not None and not UNDECLARED.looks_like_one(name)
    if not name or is_taken or name.startswith("to="):
        name = f"{FUNCTIONS}.{name}"
    # No other channel is a tool's to speak on, whatever the header of a call said.
    is_on_analysis = channel == "analysis" and is_builtin(name)
    return Message.tool(name, result.text, channel="analysis" if is_on_analysis else "commentary")


# ── text ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _limit(text: str, limit_chars: int | None, *, is_error: bool = False, cut_before: int = 0) -> ToolResult:
    text = _without_lone_surrogates(text)
    total = len(text)
    if limit_chars is None or total <= limit_chars:
        return ToolResult(text, is_error, cut_before)
    # The note counts towards the limit; it is as long as it would be if everything were cut.
    note = "\n[… {:,} of {:,} characters cut …]\n"
    kept = max(limit_chars - len(note.format(total, total)), 0)
    head, cut = (kept + 1) // 2, total - kept
    shortened = f"{text[:head]}{note.format(cut, total)}{text[total - (kept - head) :]}"
    return ToolResult(shortened, is_error, cut_before + cut)


def _without_lone_surrogates(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        # Halves that belong together, as JSON's \\ud83d\\ude00, become their character.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _text_of(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes_text(bytes(cast("bytes", value)))
    try:
        return _dump(_builtins(value))
    except RecursionError as error:
        raise _no_json("it refers to itself, or nests too deep") from error
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        path = _path_of_no_number(value)
        raise _no_json(str(error) if path is None else "JSON has neither NaN nor infinity", path) from error
    except Exception as error:  # whatever a value raises that is asked for its JSON
        raise _no_json(describe_error(error)) from error


def describe_error(error: BaseException) -> str:
    """The type of an error and what it says, if it says anything."""
    try:
        said = str(error)
    except Exception:
        said = ""
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _builtins(value: object) -> Any:
    return msgspec.to_builtins(value, builtin_types=(bytes, bytearray), str_keys=True, enc_hook=_plain)


def _dump(value: object) -> str:
    # Not msgspec's encoder, which writes null for NaN and has no integers of more than 64 bits.
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(value: Any) -> Any:
    """What msgspec does not know: bytes as text, pydantic models, paths, and what knows how to become a list."""
    match value:
        case bytes() | bytearray() | memoryview():
            return _bytes_text(bytes(cast("bytes", value)))
        case PurePath() | complex():
            return str(value)
        case BaseException():
            return f"{type(value).__name__}: {value}"
        case Mapping():
            return dict(cast("Mapping[Any, Any]", value))
        case _:
            for method, options in (("model_dump", {"mode": "json"}), ("tolist", {}), ("isoformat", {})):
                convert = getattr(value, method, None)
                if callable(convert) and not isinstance(value, type):
                    return convert(**options)
            raise TypeError(f"a value of type {type(value).__name__} is not a JSON value")


def _bytes_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode("ascii")


def _path_of_no_number(value: object) -> str | None:
    """The path of the NaN or the infinity in a value; None where there is none."""
    try:
        found: list[tuple[Any, str]] = [(_builtins(value), "$")]
    except Exception:
        return None
    while found:
        part, path = found.pop()
        if isinstance(part, float) and not math.isfinite(part):
            return path
        if isinstance(part, dict):
            found += [(each, f"{path}.{name}") for name, each in cast("dict[str, Any]", part).items()]
        elif isinstance(part, list | tuple):
            found += [(each, f"{path}[{index}]") for index, each in enumerate(cast("list[Any]", part))]
    return None


def _no_json(reason: str, path: str | None = None) -> ToolError:
    at = "" if path is None else f" at {path}"
    said = f"the tool's result{at} cannot be written as JSON: {reason}"
    return ToolError(ErrorCode.TOOL_FAILED, said, Position(path=path))
