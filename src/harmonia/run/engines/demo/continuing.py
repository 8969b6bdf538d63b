"""From messages to tokens, going on where the prompt stopped.

1. What the demo engine would have said itself is continued token by token: cut its answer anywhere, append it to the
   prompt, and the rest comes.
2. An answer that somebody else began is continued in its channel: reasoning is ended and followed by the answer, an
   answer and the arguments of a call are completed.
"""

from __future__ import annotations

import json
from typing import Final

from harmonia.messages import Message
from harmonia.renderer import Renderer
from harmonia.run.engines.base import Request
from harmonia.run.engines.demo.choosing import Offered, Wanted, offered_tools
from harmonia.run.engines.demo.prompts import Open, Prompt
from harmonia.run.engines.demo.speech import Speech, answer_text, arguments_for, call_message
from harmonia.vocabulary import CALL, CHANNEL, CONSTRAIN, END, MESSAGE, RETURN, encode

_CHANNELS: Final = ("analysis", "commentary", "final")
_RENDERER: Final = Renderer(cache_bytes=1_000_000)


def tokens_of(messages: tuple[Message, ...]) -> list[int]:
    """The messages as the assistant's own: `<|end|>` between them, and the last hands over."""
    tokens: list[int] = []
    for message in messages:
        rendered = _RENDERER.render([message], None, recipient_section="channel", call_stop="end").tokens
        tokens += rendered
    if messages:
        tokens[-1] = RETURN if messages[-1].recipient is None else CALL
    return tokens


def continue_prompt(prompt: Prompt, speech: Speech, request: Request) -> list[int]:
    """What to sample behind the prompt."""
    whole = tokens_of(speech.messages)
    begun = list(prompt.begun)
    if whole[: len(begun)] == begun:
        return whole[len(begun) :]
    opened = prompt.open
    match opened.where:
        case "nowhere":
            return whole
        case "role":
            return (whole[1:] if not opened.role else whole[_role_end(whole) :]) if whole else []
        case "header" | "body":
            return _finish_open(prompt, speech, request)


def _role_end(tokens: list[int]) -> int:
    """Where the header goes on behind `<|start|>assistant`."""
    return next(at for at, token in enumerate(tokens) if token in (CHANNEL, MESSAGE))


def _finish_open(prompt: Prompt, speech: Speech, request: Request) -> list[int]:
    opened = prompt.open
    channel = _channel_of(opened)
    header = [] if opened.where == "body" else _rest_of_header(opened, channel)
    rest = [message for message in speech.messages if message.channel != "analysis" or message.recipient]
    if opened.recipient is not None:
        arguments = _arguments(opened, prompt, request)
        return [*header, *encode(_rest_of(arguments, opened.text)), CALL]
    if channel == "final":
        go_on = _go_on if request.response_format is None else _rest_of
        text = go_on(answer_text(prompt, request), opened.text)
        return [*header, *encode(text), RETURN]
    if channel == "commentary":
        preamble = next(
            (each.text for each in rest if each.channel == "commentary" and not each.recipient), "Let me see."
        )
        rest = [each for each in rest if each.channel != "commentary" or each.recipient]
        return [*header, *encode(_go_on(preamble, opened.text)), END, *tokens_of(tuple(rest))]
    thought = speech.messages[0].text
    return [*header, *encode(_go_on(thought, opened.text)), END, *tokens_of(tuple(rest))]


def _channel_of(opened: Open) -> str:
    """The channel that was begun, perhaps in the middle of its name."""
    if opened.channel is None:
        return "commentary" if opened.recipient is not None else "final"
    given = opened.channel
    return given if opened.where == "body" else next((each for each in _CHANNELS if each.startswith(given)), given)


def _rest_of_header(opened: Open, channel: str) -> list[int]:
    tokens: list[int] = []
    given = opened.channel or ""
    if opened.where == "header" and opened.channel is None:
        tokens = [CHANNEL]
    if channel != given:
        tokens += encode(channel.removeprefix(given))
    if opened.is_constrained:
        tokens += encode("" if opened.content_type.strip() else "json")
    elif opened.recipient is not None and opened.recipient != "python":
        tokens += [*encode(" "), CONSTRAIN, *encode("json")]
    return [*tokens, MESSAGE]


def _arguments(opened: Open, prompt: Prompt, request: Request) -> str:
    tools = offered_tools(request.tools)
    tool = next((tool for tool in tools if opened.recipient in (tool.recipient, tool.name)), None)
    if tool is None:
        tool = Offered(opened.recipient or "", "", {"type": "object"}, takes_text=opened.recipient == "python")
    names = frozenset(name for each in tools for name in (each.name, each.recipient))
    return call_message(tool, arguments_for(Wanted(tool, prompt.user), names)[0]).text


def _go_on(said: str, begun: str) -> str:
    """Further text behind what was begun."""
    if said.startswith(begun):
        return said.removeprefix(begun)
    return said if begun[-1:].isspace() else f" {said}"


def _rest_of(said: str, begun: str) -> str:
    """The rest of a JSON text behind its beginning: ours, or whatever makes the beginning JSON."""
    if said.startswith(begun):
        return said.removeprefix(begun)
    closing = _closing(begun)
    for filler in ("", "null", ":null", '":null', '"', '"":null'):
        try:
            json.loads(begun + filler + closing)
        except (ValueError, RecursionError):
            continue
        return filler + closing
    return ""


def _closing(begun: str) -> str:
    """The quotation mark and the brackets that are missing at the end."""
    stack: list[str] = []
    in_text = is_escaped = False
    for character in begun:
        if in_text:
            in_text = is_escaped or character != '"'
            is_escaped = character == "\\" and not is_escaped
        elif character == '"':
            in_text = True
        elif character in "{[":
            stack.append("}" if character == "{" else "]")
        elif character in "}]" and stack:
            stack.pop()
    return ('"' if in_text else "") + "".join(reversed(stack))
