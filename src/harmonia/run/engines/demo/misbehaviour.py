"""Scripted misbehaviour, to try how a program takes it. The user's whole message is `/demo` and one of the names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Final

import msgspec

from harmonia.errors import EngineError, ErrorCode
from harmonia.messages import Message
from harmonia.run.engines.base import FinishReason, Request
from harmonia.run.engines.demo.speech import tokens_of
from harmonia.run.engines.demo.tool_selection import offered_tools
from harmonia.vocabulary import CALL, CHANNEL, CONSTRAIN, END, MESSAGE, RETURN, START, encode

_COMMAND: Final = "/demo"


class Script(msgspec.Struct, frozen=True):
    """Tokens behind `<|start|>assistant`, which may never end, and how the stream ends."""

    tokens: Iterator[int]
    reason: FinishReason = "stop"
    error: EngineError | None = None


def script_for(text: str, request: Request) -> Script | None:
    """The script that the user's message names; the list of them where it names none."""
    words = text.split()
    if not words or words[0] != _COMMAND or len(words) > 2:
        return None
    chosen = MISBEHAVIOURS.get(words[1]) if len(words) == 2 else None
    if chosen is None:
        said = [Message.assistant("The user asks for the list.", channel="analysis"), Message.assistant(_listing())]
        # Without the role, which the prompt has.
        return Script(iter(tokens_of(tuple(said))[2:]))
    return chosen.play(request)


class Misbehaviour(msgspec.Struct, frozen=True):
    """What it does, and how."""

    description: str
    play: Callable[[Request], Script]


def _listing() -> str:
    listed = "\n".join(f"- `{_COMMAND} {name}`: {each.description}" for name, each in MISBEHAVIOURS.items())
    return f"I am Harmonia's demo engine, not a language model. To see me misbehave, say one of these:\n\n{listed}"


def _header(channel: str, rest: str = "") -> list[int]:
    return [CHANNEL, *encode(channel + rest), MESSAGE]


def _begin() -> list[int]:
    return [START, *encode("assistant")]


def _thought() -> list[int]:
    return [*_header("analysis"), *encode("The user wants to see a fault."), END]


def _final(text: str) -> list[int]:
    return [*_header("final"), *encode(text), RETURN]


def _missing_start(_: Request) -> Script:
    return Script(iter([*_thought(), *encode("assistant"), *_final("The start token before this is missing.")]))


def _doubled_start(_: Request) -> Script:
    return Script(iter([*_thought(), START, *_begin(), *_final("There are two start tokens before this.")]))


def _missing_end(_: Request) -> Script:
    return Script(iter([*_thought()[:-1], *_begin(), *_final("The reasoning before this was never ended.")]))


def _missing_channel(_: Request) -> Script:
    return Script(iter([MESSAGE, *encode("This is on no channel."), RETURN]))


def _text_after_stop(_: Request) -> Script:
    return Script(iter([*_thought(), *_begin(), *_final("This is the end."), *encode("But I went on.")]))


def _cut_off(_: Request) -> Script:
    return Script(iter([*_thought(), *_begin(), *_final("This ends in the middle of a")[:-1]]), "unknown")


def _broken_json(request: Request) -> Script:
    header = [CHANNEL, *encode(f"commentary to={_some_tool(request)} "), CONSTRAIN, *encode("json"), MESSAGE]
    return Script(iter([*_thought(), *_begin(), *header, *encode('{"city": "Paris'), CALL]))


def _unknown_tool(_: Request) -> Script:
    header = [CHANNEL, *encode("commentary to=functions.nobody_declared_this "), CONSTRAIN, *encode("json"), MESSAGE]
    return Script(iter([*_thought(), *_begin(), *header, *encode("{}"), CALL]))


def _only_reasoning(_: Request) -> Script:
    return Script(iter([*_header("analysis"), *encode("I keep the answer to myself."), RETURN]))


def _endless(_: Request) -> Script:
    again = chain.from_iterable(repeat(encode(" and so on")))
    return Script(chain(_thought(), _begin(), _header("final"), encode("This never ends"), again), "length")


def _engine_error(_: Request) -> Script:
    error = EngineError(ErrorCode.ENGINE_DIED, "the demo engine was asked to die in the middle of an answer")
    return Script(iter([*_thought(), *_begin(), *_header("final"), *encode("The engine dies in the")]), error=error)


def _some_tool(request: Request) -> str:
    tools = offered_tools(request.tools)
    return tools[0].recipient if tools else "functions.demo"


MISBEHAVIOURS: Final = {
    "missing-start": Misbehaviour("the second message lacks its start token", _missing_start),
    "doubled-start": Misbehaviour("the second message begins twice", _doubled_start),
    "missing-end": Misbehaviour("the reasoning lacks its end token", _missing_end),
    "missing-channel": Misbehaviour("a message without a channel", _missing_channel),
    "text-after-stop": Misbehaviour("text after the end of the turn", _text_after_stop),
    "cut-off": Misbehaviour("the answer ends without a stop token", _cut_off),
    "broken-json": Misbehaviour("a call whose arguments are broken JSON", _broken_json),
    "unknown-tool": Misbehaviour("a call to a tool that was not declared", _unknown_tool),
    "only-reasoning": Misbehaviour("reasoning and no answer", _only_reasoning),
    "endless": Misbehaviour("an answer that ends only with max_tokens or the context", _endless),
    "engine-error": Misbehaviour("the engine dies in the middle of the answer", _engine_error),
}
