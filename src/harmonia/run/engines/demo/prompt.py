"""What a prompt says to a speaker: who said what last, what the tools answered, and how far the answer has come.

    … <|start|>user<|message|>Hi<|end|> <|start|>assistant <|channel|>final<|message|>The answer
                                        └ `begun` …

Everything behind the last message that is not the assistant's is what the assistant has said of its answer already:
nothing but `<|start|>assistant` as a rule, more where an answer is resumed or begun by somebody else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from harmonia.messages import Message, ReasoningEffort, Role
from harmonia.parser import parse
from harmonia.vocabulary import CALL, CHANNEL, CONSTRAIN, END, MESSAGE, RETURN, START, decode

_STOPS: Final = (END, CALL, RETURN)
_EFFORT: Final = re.compile(r"^Reasoning: *(low|medium|high)\s*$", re.MULTILINE | re.IGNORECASE)
_INSTRUCTIONS: Final = re.compile(r"\A# Instructions\n\n(.*?)(?=\n\n# (?:Tools|Response Formats)\n|\Z)", re.DOTALL)
_RECIPIENT: Final = re.compile(r"\bto=(\S+)")


class Open(msgspec.Struct, frozen=True):
    """A message that was begun: in its header, with as much of it as is there, or in its body, with what it says."""

    where: Literal["nowhere", "role", "header", "body"]
    role: str = "assistant"
    channel: str | None = None
    recipient: str | None = None
    is_constrained: bool = False  # there is a <|constrain|>
    content_type: str = ""
    text: str = ""


class Prompt(msgspec.Struct, frozen=True):
    """`calls` counts the assistant's calls since the user's last message, by recipient; `results` answered them."""

    user: str
    instructions: str
    effort: ReasoningEffort | None
    results: tuple[Message, ...]
    calls: dict[str, int]
    begun: tuple[int, ...]
    open: Open

    @property
    def words(self) -> str:
        """What the user and the tools said."""
        return "\n".join([self.user, *(result.text for result in self.results)])


def read_prompt(tokens: Sequence[int]) -> Prompt:
    listed = list(tokens)
    start = _last_start(listed)
    is_begun = start is not None and not any(token in _STOPS for token in listed[start:])
    end = start if is_begun and start is not None else len(listed)
    messages = parse(listed[:end]).messages
    said = len(messages)
    while said > 0 and messages[said - 1].role is Role.ASSISTANT:
        said -= 1
    begun_at = end
    if said < len(messages):
        origin = messages[said].origin
        begun_at = end if origin is None or origin.header.start_token is None else origin.header.start_token
    return _read(messages, said, tuple(listed[begun_at:]), _read_open(listed[end:]))


def _last_start(tokens: list[int]) -> int | None:
    return next((at for at in range(len(tokens) - 1, -1, -1) if tokens[at] == START), None)


def _read(messages: Sequence[Message], said: int, begun: tuple[int, ...], open_: Open) -> Prompt:
    user, instructions, effort = "", "", None
    results: list[Message] = []
    calls: Counter[str] = Counter()
    for at, message in enumerate(messages[:said]):
        match message.role:
            case Role.USER if message.text == user and messages[at - 1].role is Role.TOOL:
                pass  # some clients send the question again after a result
            case Role.USER:
                user, results = message.text, []
                calls.clear()
            case Role.TOOL:
                results.append(message)
            case Role.ASSISTANT:
                if message.recipient is not None:
                    calls[message.recipient] += 1
            case Role.SYSTEM:
                found = _EFFORT.search(message.text)
                effort = ReasoningEffort(found[1]) if found else effort
            case Role.DEVELOPER:
                found = _INSTRUCTIONS.search(message.text)
                instructions = found[1] if found else instructions
    return Prompt(user, instructions, effort, tuple(results), dict(calls), begun, open_)


def _read_open(tail: list[int]) -> Open:
    """The message that the prompt ends in; `tail` begins with its `<|start|>`."""
    if not tail:
        return Open("nowhere")
    if MESSAGE in tail:
        body = tail.index(MESSAGE)
        header, where, text = tail[1:body], "body", decode(tail[body + 1 :])
    else:
        header, where, text = tail[1:], "header" if CHANNEL in tail else "role", ""
    constrain = header.index(CONSTRAIN) if CONSTRAIN in header else None
    content_type = decode(header[constrain + 1 :]) if constrain is not None else ""
    before = header[:constrain]
    channel_at = before.index(CHANNEL) if CHANNEL in before else len(before)
    role, channel = decode(before[:channel_at]), decode(before[channel_at + 1 :])
    recipient = _RECIPIENT.search(channel) or _RECIPIENT.search(role)
    if where == "role" and recipient is not None:
        where = "header"
    words = [word for word in channel.split() if not word.startswith("to=")]
    return Open(
        where,
        role.split()[0] if role.split() else "",
        words[0] if words else None,
        recipient[1] if recipient else None,
        constrain is not None,
        content_type,
        text,
    )
