"""The demo engine: a speaker of genuine Harmony tokens without a model, so that everything can be tried.

It never pretends to understand: the answer says what it is, quotes what the user said and what the tools answered, or
is JSON of the form that was asked for.

1. Deterministic: the same prompt and the same request give the same tokens. There is no clock and no chance; a seed
   only chooses the words that an answer opens with.
2. Well-formed: strict parsing finds no fault in what it says, unless the user's message asks for one (`/demo`).
3. Arguments and answers fit their schemas wherever a value that does is found; where not, a note of Finish says so.
4. The work is linear in the prompt.
5. A prompt that ends within the engine's own answer is continued token by token. An answer that was begun otherwise is
   continued in its channel: reasoning ends and the answer follows, an answer or the arguments of a call are completed.

    … <|start|>user<|message|>Hi<|end|> <|start|>assistant <|channel|>final<|message|>The answer
                                        └ `begun`: all of the answer that the prompt has already
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from itertools import chain, islice, repeat
from typing import Any, Final, Literal

import msgspec

from harmonia.errors import EngineError, ErrorCode
from harmonia.messages import Message, ReasoningEffort, Role
from harmonia.parser import parse
from harmonia.renderer import Renderer, shared_prefix
from harmonia.run.engines.base import (
    Alternative,
    Chunk,
    Finish,
    FinishReason,
    Request,
    TokenLogprob,
    Traits,
    Usage,
    check_sampling,
    invalid_option,
)
from harmonia.run.engines.demo.calls import Offered, Wanted, choose_calls, make_instance, offered_tools
from harmonia.run.engines.registry import Kind
from harmonia.vocabulary import CALL, CHANNEL, END, MESSAGE, RETURN, START, decode, encode

# As gpt-oss has it, so that what does not fit there does not fit here.
_CONTEXT_TOKENS: Final = 131_072
_RENDERER: Final = Renderer(cache_bytes=1_000_000)


class DemoEngine:
    """Gives `tokens_per_chunk` tokens at a time and waits `delay_s` seconds before each. Any model name will do."""

    name = "demo"
    traits = Traits(gives_logprobs=True, context_tokens=_CONTEXT_TOKENS)

    def __init__(
        self,
        model: str = "demo",
        *,
        tokens_per_chunk: int = 1,
        delay_s: float = 0.0,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        if tokens_per_chunk < 1:
            raise invalid_option(f"tokens_per_chunk is {tokens_per_chunk}; it must be at least 1")
        if not delay_s >= 0:
            raise invalid_option(f"delay_s is {delay_s}; it must be at least 0")
        self.model = model
        self._tokens_per_chunk = tokens_per_chunk
        self._delay_s = delay_s
        self._sleep = sleep
        self._previous: list[int] = []

    async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        check_sampling(request.sampling)
        tokens = list(prompt)
        room = _CONTEXT_TOKENS - len(tokens)
        if room <= 0:
            raise EngineError(
                ErrorCode.ENGINE_OUT_OF_CONTEXT,
                f"the prompt has {len(tokens)} tokens; the demo engine's context has {_CONTEXT_TOKENS}",
            )
        cached = shared_prefix(self._previous, tokens)
        self._previous = tokens
        script = _script(tokens, request)
        wanted = request.sampling.max_tokens
        limit = room if wanted is None else min(max(wanted, 0), room)
        sampled = 0
        while chunk := list(islice(script.tokens, min(self._tokens_per_chunk, limit - sampled))):
            # Waiting even 0 seconds gives up the loop, so that a stream without delays can be cancelled too.
            await self._sleep(self._delay_s)
            sampled += len(chunk)
            yield Chunk(chunk, logprobs=_logprobs(chunk, request.sampling.logprobs))
        is_cut = next(script.tokens, None) is not None
        if script.error and not is_cut:
            raise EngineError(ErrorCode.ENGINE_DIED, script.error)
        yield Finish("length" if is_cut else script.reason, Usage(len(tokens), sampled, cached), script.notes)

    async def close(self) -> None:
        self._previous = []


def _logprobs(chunk: list[int], wanted: int | None) -> tuple[TokenLogprob, ...]:
    """Nothing else might have been said, so the probability of every token is 1."""
    certain = [Alternative(token, decode([token]), 0.0) for token in chunk] if wanted is not None else []
    return tuple(TokenLogprob(each.token, each.text, 0.0, (each,) if wanted else ()) for each in certain)


class _Script(msgspec.Struct, frozen=True):
    """What to sample, which may never end, and how the stream ends."""

    tokens: Iterator[int]
    reason: FinishReason = "stop"
    notes: tuple[str, ...] = ()
    error: str = ""


def _script(tokens: list[int], request: Request) -> _Script:
    prompt = _read_prompt(tokens)
    command = prompt.user.split()
    if command[:1] == ["/demo"] and len(command) <= 2 and not prompt.results and prompt.open.where == "role":
        asked = MISBEHAVIOURS.get(command[-1])
        if asked is None:
            listed = "\n".join(f"- `/demo {name}`: {each.description}" for name, each in MISBEHAVIOURS.items())
            text = f"{_OPENINGS[0]} To see me misbehave, say one of these:\n\n{listed}"
            thought = Message.assistant("The user asks for the list.", channel="analysis")
            return _Script(iter(_tokens_of([thought, Message.assistant(text)])[2:]))
        tools = offered_tools(request.tools)
        text = asked.text.replace("TOOL", tools[0].recipient if tools else "functions.demo")
        again = chain.from_iterable(repeat(encode(asked.again))) if asked.again else ()
        return _Script(chain(encode(text, special="all"), again), asked.reason, error=asked.error)
    messages, notes = _speak(prompt, request)
    return _Script(iter(_continue(prompt, messages, request)), notes=tuple(notes))


# ── the prompt ──────────────────────────────────────────────────────────────────────────────────────────────────────

_EFFORT: Final = re.compile(r"^Reasoning: *(low|medium|high)\s*$", re.MULTILINE | re.IGNORECASE)
_INSTRUCTIONS: Final = re.compile(r"\A# Instructions\n\n(.*?)(?=\n\n# (?:Tools|Response Formats)\n|\Z)", re.DOTALL)
_RECIPIENT: Final = re.compile(r"\bto=([^\s<]+)")
_OPEN_CHANNEL: Final = re.compile(r"<\|channel\|>\s*(?!to=)(\w*)")


class _Open(msgspec.Struct, frozen=True):
    """The message that the prompt ends in: as much of its header as is there, and what its body says."""

    where: Literal["nowhere", "role", "header", "body"]
    header: str = ""
    channel: str = ""
    recipient: str | None = None
    text: str = ""


class _Prompt(msgspec.Struct, frozen=True):
    """`calls` counts the assistant's calls since the user's last message, by recipient; `results` answered them."""

    user: str
    instructions: str
    effort: ReasoningEffort | None
    results: list[Message]
    calls: Counter[str]
    begun: list[int]
    open: _Open

    @property
    def words(self) -> str:  # of the user and the tools
        return "\n".join([self.user, *(result.text for result in self.results)])


def _read_prompt(tokens: list[int]) -> _Prompt:
    start = len(tokens) - 1 - tokens[::-1].index(START) if START in tokens else len(tokens)
    end = start if tokens[start:] and not {END, CALL, RETURN} & set(tokens[start:]) else len(tokens)
    messages = parse(tokens[:end]).messages
    said = len(messages)
    while said > 0 and messages[said - 1].role is Role.ASSISTANT:
        said -= 1
    origin = messages[said].origin if said < len(messages) else None
    begun_at = end if origin is None or origin.header.start_token is None else origin.header.start_token
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
    return _Prompt(user, instructions, effort, results, calls, tokens[begun_at:], _read_open(tokens[end:]))


def _read_open(tail: list[int]) -> _Open:
    """The message that the prompt ends in; `tail` begins with its `<|start|>`."""
    if not tail:
        return _Open("nowhere")
    body = tail.index(MESSAGE) if MESSAGE in tail else len(tail)
    header = decode(tail[1:body])
    channel, recipient = _OPEN_CHANNEL.search(header), _RECIPIENT.search(header)
    where = "body" if body < len(tail) else "header" if CHANNEL in tail or recipient else "role"
    text = decode(tail[body + 1 :])
    return _Open(where, header, channel[1] if channel else "", recipient[1] if recipient else None, text)


# ── what to say: reasoning, then calls or an answer ─────────────────────────────────────────────────────────────────

# The seed chooses among them.
_OPENINGS: Final = (
    "I am Harmonia's demo engine, not a language model.",
    "This is Harmonia's demo engine; there is no language model behind it.",
    "Harmonia's demo engine here: I follow a script and understand nothing.",
)
_SENTENCES: Final = {ReasoningEffort.LOW: 1, ReasoningEffort.MEDIUM: 2, ReasoningEffort.HIGH: 6}
_QUOTED_CHARS: Final = 400
_MOST_BRACES: Final = 50
_ANY_OBJECT: Final = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
_CODE: Final = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```|`([^`\n]+)`", re.DOTALL)
_SUM: Final = re.compile(r"[\d(][\d\s.()+*/%-]*[\d)]")


def _speak(prompt: _Prompt, request: Request) -> tuple[list[Message], list[str]]:
    """All that there is to say to this prompt, and notes about what could not be done as requested."""
    calls = choose_calls(prompt.user, prompt.words, prompt.calls, request)
    messages = [Message.assistant(_reasoning(prompt, request, calls), channel="analysis")]
    if not calls:
        text, notes = _answer(prompt, request)
        return [*messages, Message.assistant(text)], notes
    if len(calls) > 1:
        preamble = f"I will call {_listed([call.tool.name for call in calls])}."
        messages.append(Message.assistant(preamble, channel="commentary"))
    made = [_call(call, request) for call in calls]
    return [*messages, *(message for message, _ in made)], [note for _, notes in made for note in notes]


def _reasoning(prompt: _Prompt, request: Request, calls: list[Wanted]) -> str:
    if calls:
        names = _listed([call.tool.recipient for call in calls])
        sentences = [f"This asks for {names}.", "The arguments come from the user's words and the schema."]
    elif prompt.results:
        names = _listed([result.name or "a tool" for result in prompt.results])
        sentences = [f"There is a result of {names}.", "The answer quotes it."]
    elif request.response_format is not None:
        sentences = [f"The answer has the form {request.response_format.name}.", "It needs values that fit a schema."]
    else:
        sentences = ["The user wants an answer.", "It says what I am and repeats what was said."]
    sentences.append(f'The user said: "{_quote(prompt.user, 80)}".' if prompt.user else "The user said nothing.")
    if prompt.instructions:
        sentences.append(f'The developer said: "{_quote(prompt.instructions, 80)}".')
    sentences += ["I have no model, so there is nothing to weigh.", "That is all there is to think about."]
    return " ".join(sentences[: _SENTENCES[request.reasoning_effort or prompt.effort or ReasoningEffort.MEDIUM]])


def _call(wanted: Wanted, request: Request) -> tuple[Message, list[str]]:
    """A call as the models write it: the tools they were trained with on `analysis`, as code."""
    (recipient, _, schema), words, notes = wanted.tool, wanted.words, list[str]()
    if schema is not None:
        names = frozenset(name for tool in offered_tools(request.tools) for name in (tool.name, tool.recipient))
        arguments, fits = make_instance(schema, words, names)
        arguments = _as_json(arguments)
        notes = [] if fits else [f"found no arguments that fit the schema of {recipient}"]
    else:
        arguments = _code(words) if recipient == "python" else words.strip() or "demo"
    if recipient.split(".")[0] in ("python", "browser"):
        return Message.call(recipient, arguments, channel="analysis", content_type="code"), notes
    return Message.call(recipient, arguments, content_type=None if schema is None else "<|constrain|>json"), notes


def _answer(prompt: _Prompt, request: Request) -> tuple[str, list[str]]:
    if (form := request.response_format) is not None:
        schema, words = form.schema, prompt.words
        if schema == {"type": "object"}:
            schema, written = _form_in(f"{prompt.instructions}\n{prompt.user}")
            words = words.replace(written, "") if written else words
        value, fits = make_instance(schema, words)
        return _as_json(value), [] if fits else [f"found no answer that fits the schema of {form.name}"]
    opening = _OPENINGS[(request.sampling.seed or 0) % len(_OPENINGS)]
    if prompt.results:
        said = "\n".join(f"{result.name or 'The tool'} answered: {_quote(result.text)}" for result in prompt.results)
        return f"{opening}\n{said}", []
    said = f"You said: {_quote(prompt.user)}" if prompt.user.strip() else "You said nothing."
    return f"{opening} {said}", []


def _form_in(text: str) -> tuple[dict[str, Any], str]:
    """The form of a JSON object as a text shows it, by a JSON Schema or else by an example, and how it is written."""
    shown: tuple[dict[str, Any], str] = _ANY_OBJECT, ""
    end = 0
    for brace in islice(re.finditer("{", text), _MOST_BRACES):
        if (at := brace.start()) < end:
            continue
        try:
            found, end = json.JSONDecoder().raw_decode(text, at)
        except (ValueError, RecursionError):
            continue
        if isinstance(found.get("properties"), dict) or "$ref" in found:
            return found, text[at:end]
        if found and not shown[1]:
            shown = {"const": found}, text[at:end]
    return shown


def _code(words: str) -> str:
    """Python out of the user's words: what stands in backticks, a sum, or a greeting."""
    code = _CODE.search(words)
    if code:
        return (code[1] or code[2]).strip("\n")
    found = max(_SUM.findall(words[:_QUOTED_CHARS]), key=len, default="")
    try:
        compile(found, "demo", "eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        found = ""
    return f"print({found.strip()})" if found else 'print("Hello from the demo engine")'


def _quote(text: str, most: int = _QUOTED_CHARS) -> str:
    text = text.strip()
    return text if len(text) <= most else f"{text[:most]}…"


def _listed(names: list[str]) -> str:
    names = list(dict.fromkeys(names))
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _as_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode().decode()
    except UnicodeEncodeError:
        return json.dumps(value)  # half of a surrogate pair, out of a schema
    except (TypeError, ValueError, RecursionError):
        return "null"


# ── continuing the prompt ───────────────────────────────────────────────────────────────────────────────────────────

_JSON_MARK: Final = re.compile(r'[{}\[\]]|"(?:[^"\\]|\\.)*("?)', re.DOTALL)


def _tokens_of(messages: list[Message]) -> list[int]:
    """The messages as the assistant's own: `<|end|>` between them, and the last hands over."""
    tokens: list[int] = []
    for message in messages:
        tokens += _RENDERER.render([message], None, recipient_section="channel", call_stop="end").tokens
    if messages:
        tokens[-1] = RETURN if messages[-1].recipient is None else CALL
    return tokens


def _continue(prompt: _Prompt, messages: list[Message], request: Request) -> list[int]:
    """What to sample after the prompt."""
    whole, begun, opened = _tokens_of(messages), prompt.begun, prompt.open
    if whole[: len(begun)] == begun:
        return whole[len(begun) :]
    if opened.where == "nowhere":
        return whole
    if opened.where == "role":
        return whole[2 if opened.header else 1 :]
    channel, header = opened.channel or ("commentary" if opened.recipient else "final"), list[int]()
    if opened.where == "header":
        channel = next((each for each in ("analysis", "commentary", "final") if each.startswith(channel)), channel)
        header = encode(_rest_of_header(opened, channel), special="all")
    if opened.recipient is not None:
        known = (tool for tool in offered_tools(request.tools) if opened.recipient in (tool.recipient, tool.name))
        schema = None if opened.recipient == "python" else {"type": "object"}
        tool = next(known, Offered(opened.recipient, "", schema))
        arguments = _call(Wanted(tool, prompt.user), request)[0].text
        return [*header, *encode(_rest_of(arguments, opened.text, is_json=True)), CALL]
    if channel == "final":
        is_json = request.response_format is not None
        return [*header, *encode(_rest_of(_answer(prompt, request)[0], opened.text, is_json=is_json)), RETURN]
    said, rest = messages[0].text, [each for each in messages if each.channel != "analysis" or each.recipient]
    if channel == "commentary":
        preambles = [each for each in rest if each.channel == "commentary" and not each.recipient]
        said, rest = preambles[0].text if preambles else "Let me see.", [each for each in rest if each not in preambles]
    return [*header, *encode(_rest_of(said, opened.text, is_json=False)), END, *_tokens_of(rest)]


def _rest_of_header(opened: _Open, channel: str) -> str:
    rest = "" if "<|channel|>" in opened.header else "<|channel|>"
    rest += channel.removeprefix(opened.channel)
    if "<|constrain|>" in opened.header:
        rest += "json" if opened.header.rstrip().endswith("<|constrain|>") else ""
    elif opened.recipient is not None and opened.recipient != "python":
        rest += " <|constrain|>json"
    return f"{rest}<|message|>"


def _rest_of(said: str, begun: str, *, is_json: bool) -> str:
    """The rest of a text after its beginning: ours, or other text, or whatever makes the beginning JSON."""
    if said.startswith(begun):
        return said.removeprefix(begun)
    if not is_json:
        return said if begun[-1:].isspace() else f" {said}"
    closing, stack = "", list[str]()  # the quotation mark and the brackets that are missing at the end
    for found in _JSON_MARK.finditer(begun):
        if found[0] in "{[":
            stack.append("}" if found[0] == "{" else "]")
        elif found[0] in "}]":
            del stack[-1:]
        elif not found[1]:
            closing = '"'
    closing += "".join(reversed(stack))
    for filler in ("", "null", ":null", '":null', '"', '"":null'):
        try:
            json.loads(begun + filler + closing)
        except (ValueError, RecursionError):
            continue
        return filler + closing
    return ""


# ── misbehaviour, where the user's whole message is `/demo` and one of these names ──────────────────────────────────

_THOUGHT: Final = "<|channel|>analysis<|message|>The user wants to see a fault."
_START: Final = "<|start|>assistant"
_BEFORE: Final = f"{_THOUGHT}<|end|>{_START}"
_FINAL: Final = "<|channel|>final<|message|>"
_JSON: Final = " <|constrain|>json<|message|>"


class Misbehaviour(msgspec.Struct, frozen=True):
    """`text` follows `<|start|>assistant`, with TOOL for the first tool; `again` then comes without end, and `error`
    is with what the engine dies."""

    description: str
    text: str
    reason: FinishReason = "stop"
    again: str = ""
    error: str = ""


MISBEHAVIOURS: Final = {
    "missing-start": Misbehaviour(
        "the second message lacks its start token",
        f"{_THOUGHT}<|end|>assistant{_FINAL}The start token before this is missing.<|return|>",
    ),
    "doubled-start": Misbehaviour(
        "the second message begins twice",
        f"{_THOUGHT}<|end|><|start|>{_START}{_FINAL}There are two start tokens before this.<|return|>",
    ),
    "missing-end": Misbehaviour(
        "the reasoning lacks its end token",
        f"{_THOUGHT}{_START}{_FINAL}The reasoning before this was never ended.<|return|>",
    ),
    "missing-channel": Misbehaviour("a message without a channel", "<|message|>This is on no channel.<|return|>"),
    "text-after-stop": Misbehaviour(
        "text after the end of the turn", f"{_BEFORE}{_FINAL}This is the end.<|return|>But I went on."
    ),
    "cut-off": Misbehaviour(
        "the answer ends without a stop token", f"{_BEFORE}{_FINAL}This ends in the middle of a", "unknown"
    ),
    "broken-json": Misbehaviour(
        "a call whose arguments are broken JSON",
        f'{_BEFORE}<|channel|>commentary to=TOOL{_JSON}{{"city": "Paris<|call|>',
    ),
    "unknown-tool": Misbehaviour(
        "a call to a tool that was not declared",
        f"{_BEFORE}<|channel|>commentary to=functions.nobody_declared_this{_JSON}{{}}<|call|>",
    ),
    "only-reasoning": Misbehaviour(
        "reasoning and no answer", "<|channel|>analysis<|message|>I keep the answer to myself.<|return|>"
    ),
    "endless": Misbehaviour(
        "an answer that ends only with max_tokens or the context",
        f"{_BEFORE}{_FINAL}This never ends",
        "length",
        again=" and so on",
    ),
    "engine-error": Misbehaviour(
        "the engine dies in the middle of the answer",
        f"{_BEFORE}{_FINAL}The engine dies in the",
        error="the demo engine was asked to die in the middle of an answer",
    ),
}


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
