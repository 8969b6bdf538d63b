"""The demo engine: prompt tokens in, the tokens of a speaker without a model out.

1. Deterministic: the same prompt and the same request give the same tokens. There is no clock and no chance; a seed
   only chooses the words that an answer opens with.
2. Well-formed: strict parsing finds no fault in what it says, unless the user's message asks for one (`/demo`).
3. Arguments and answers fit their schemas wherever a value that does is found; where not, a note of Finish says so.
4. The work is linear in the prompt.
5. A prompt that ends within the engine's own answer is continued token by token. An answer that somebody else began is
   continued in its channel: reasoning ends and the answer follows, an answer or the arguments of a call are completed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from itertools import islice
from typing import Final

from harmonia.errors import EngineError, ErrorCode, InputError
from harmonia.renderer import shared_prefix
from harmonia.run.engines.base import Alternative, Chunk, Finish, Request, TokenLogprob, Traits, Usage
from harmonia.run.engines.demo.misbehaviour import Script, script_for
from harmonia.run.engines.demo.prompt import Open, Prompt, read_prompt
from harmonia.run.engines.demo.speech import Speech, answer_text, arguments_for, call_message, compose, tokens_of
from harmonia.run.engines.demo.tool_selection import Offered, Wanted, offered_tools
from harmonia.run.engines.registry import Kind
from harmonia.vocabulary import CALL, CHANNEL, CONSTRAIN, END, MESSAGE, RETURN, decode, encode

# As gpt-oss has it, so that what does not fit there does not fit here.
_CONTEXT_TOKENS: Final = 131_072
_CHANNELS: Final = ("analysis", "commentary", "final")


class DemoEngine:
    """An engine without a model, to try everything with. Any model name will do.

    It gives `tokens_per_chunk` tokens at a time and waits `delay_s` seconds before each chunk.
    """

    def __init__(
        self,
        model: str = "demo",
        *,
        tokens_per_chunk: int = 1,
        delay_s: float = 0.0,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        if tokens_per_chunk < 1:
            raise InputError(
                ErrorCode.ENGINE_INVALID_OPTION, f"tokens_per_chunk is {tokens_per_chunk}; it must be at least 1"
            )
        if not delay_s >= 0:
            raise InputError(ErrorCode.ENGINE_INVALID_OPTION, f"delay_s is {delay_s}; it must be at least 0")
        self._model = model
        self._tokens_per_chunk = tokens_per_chunk
        self._delay_s = delay_s
        self._sleep = sleep
        self._previous: list[int] = []

    @property
    def name(self) -> str:
        return "demo"

    @property
    def model(self) -> str:
        return self._model

    @property
    def traits(self) -> Traits:
        return Traits(gives_logprobs=True, context_tokens=_CONTEXT_TOKENS)

    async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        tokens = list(prompt)
        room = _CONTEXT_TOKENS - len(tokens)
        if room <= 0:
            raise EngineError(
                ErrorCode.ENGINE_OUT_OF_CONTEXT,
                f"the prompt has {len(tokens)} tokens; the demo engine's context has {_CONTEXT_TOKENS}",
            )
        cached = shared_prefix(self._previous, tokens)
        self._previous = tokens
        script, notes = _script(tokens, request)
        wanted = request.sampling.max_tokens
        limit = room if wanted is None else min(max(wanted, 0), room)
        left = script.tokens
        sampled = 0
        while chunk := list(islice(left, min(self._tokens_per_chunk, limit - sampled))):
            # The loop is let go at every chunk, so that a stream without delays can be cancelled, too.
            await self._sleep(self._delay_s)
            sampled += len(chunk)
            yield Chunk(chunk, logprobs=_logprobs(chunk, request.sampling.logprobs))
        is_cut = next(left, None) is not None
        if script.error is not None and not is_cut:
            raise script.error
        usage = Usage(len(tokens), sampled, cached)
        yield Finish("length" if is_cut else script.reason, usage, notes)

    async def close(self) -> None:
        """There is nothing to give back."""
        self._previous = []


def _script(tokens: list[int], request: Request) -> tuple[Script, tuple[str, ...]]:
    prompt = read_prompt(tokens)
    if not prompt.results and prompt.open.where == "role":
        script = script_for(prompt.user, request)
        if script is not None:
            return script, ()
    speech = compose(prompt, request)
    return Script(iter(_continue(prompt, speech, request))), speech.notes


def _logprobs(chunk: list[int], wanted: int | None) -> tuple[TokenLogprob, ...]:
    """Nothing else might have been said, so the probability of every token is 1."""
    if wanted is None:
        return ()
    spelled = [(token, decode([token])) for token in chunk]
    return tuple(
        TokenLogprob(token, text, 0.0, (Alternative(token, text, 0.0),) if wanted > 0 else ())
        for token, text in spelled
    )


# ── continuing a prompt ─────────────────────────────────────────────────────────────────────────────────────────────


def _continue(prompt: Prompt, speech: Speech, request: Request) -> list[int]:
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


KINDS: Final = (
    Kind(
        name="demo",
        summary="an embedded engine that needs no model",
        make=DemoEngine,
        argument=None,
        argument_as=None,
        options={"delay_s": float, "tokens_per_chunk": int},
        takes_key=False,
        speaks="tokens",
    ),
)
