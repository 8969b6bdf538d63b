"""What the demo engine says, as messages: reasoning, then calls or an answer. The renderer makes tokens of them.

It never pretends to understand: the answer says what it is, quotes what the user said and what the tools answered, or
is JSON of the form that was asked for. Text of others goes through the renderer as ordinary text, so whatever they
typed stays typed text.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

from harmonia.messages import Message, ReasoningEffort
from harmonia.renderer import Renderer
from harmonia.run.engines.base import Request
from harmonia.run.engines.demo.hints import Hints
from harmonia.run.engines.demo.instances import make_instance
from harmonia.run.engines.demo.prompt import Prompt
from harmonia.run.engines.demo.tool_selection import Offered, Wanted, choose_calls, offered_tools
from harmonia.vocabulary import CALL, RETURN

_RENDERER: Final = Renderer(cache_bytes=1_000_000)
# The seed chooses among them.
_OPENINGS: Final = (
    "I am Harmonia's demo engine, not a language model.",
    "This is Harmonia's demo engine; there is no language model behind it.",
    "Harmonia's demo engine here: I follow a script and understand nothing.",
)
_SENTENCES: Final = {ReasoningEffort.LOW: 1, ReasoningEffort.MEDIUM: 2, ReasoningEffort.HIGH: 6}
_QUOTED_CHARS: Final = 400
_DECODER: Final = json.JSONDecoder()
_MOST_BRACES: Final = 50
_ANY_OBJECT: Final = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
_CODE: Final = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```|`([^`\n]+)`", re.DOTALL)
_SUM: Final = re.compile(r"[\d(][\d\s.()+*/%-]*[\d)]")


class Speech(msgspec.Struct, frozen=True):
    """Messages, the last of which hands over; notes for people about what could not be done as it was asked."""

    messages: tuple[Message, ...]
    notes: tuple[str, ...] = ()


def compose(prompt: Prompt, request: Request) -> Speech:
    """All that there is to say to this prompt."""
    calls = choose_calls(prompt, request)
    messages = [Message.assistant(_reasoning(prompt, request, calls), channel="analysis")]
    notes: list[str] = []
    if not calls:
        text, note = _answer(prompt, request)
        return Speech((*messages, Message.assistant(text)), tuple(filter(None, [note])))
    if len(calls) > 1:
        names = _listed([call.tool.name for call in calls])
        messages.append(Message.assistant(f"I will call {names}.", channel="commentary"))
    names_of_tools = frozenset(name for tool in offered_tools(request.tools) for name in (tool.name, tool.recipient))
    for call in calls:
        arguments, note = arguments_for(call, names_of_tools)
        messages.append(call_message(call.tool, arguments))
        notes += filter(None, [note])
    return Speech(tuple(messages), tuple(notes))


def call_message(tool: Offered, arguments: str) -> Message:
    """A call as the models write it: the tools they were trained with on `analysis`, as code."""
    if tool.is_built_in:
        return Message.call(tool.recipient, arguments, channel="analysis", content_type="code")
    return Message.call(tool.recipient, arguments, content_type=None if tool.takes_text else "<|constrain|>json")


def tokens_of(messages: tuple[Message, ...]) -> list[int]:
    """The messages as the assistant's own: `<|end|>` between them, and the last hands over."""
    tokens: list[int] = []
    for message in messages:
        rendered = _RENDERER.render([message], None, recipient_section="channel", call_stop="end").tokens
        tokens += rendered
    if messages:
        tokens[-1] = RETURN if messages[-1].recipient is None else CALL
    return tokens


def arguments_for(wanted: Wanted, names_of_tools: frozenset[str]) -> tuple[str, str | None]:
    """What to send to the tool, and a note where it does not fit the tool's schema."""
    tool = wanted.tool
    if tool.takes_text:
        return (_code(wanted.words) if tool.recipient == "python" else wanted.words.strip() or "demo"), None
    instance = make_instance(tool.schema, Hints(wanted.words, names_of_tools))
    note = None if instance.fits else f"found no arguments that fit the schema of {tool.recipient}"
    return as_json(instance.value), note


def answer_text(prompt: Prompt, request: Request) -> str:
    """The answer, whether or not a call should come first."""
    return _answer(prompt, request)[0]


def as_json(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)  # half of a surrogate pair, out of a schema
    except (TypeError, ValueError, RecursionError):
        return "null"
    return text


# ── reasoning ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _reasoning(prompt: Prompt, request: Request, calls: list[Wanted]) -> str:
    effort = request.reasoning_effort or prompt.effort or ReasoningEffort.MEDIUM
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
    tools = offered_tools(request.tools)
    sentences.append(f"The number of tools that I may call is {len(tools)}." if tools else "There are no tools.")
    sentences.append("I have no model, so there is nothing to weigh.")
    sentences.append("That is all there is to think about.")
    return " ".join(sentences[: _SENTENCES[effort]])


# ── the answer ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _answer(prompt: Prompt, request: Request) -> tuple[str, str | None]:
    if request.response_format is not None:
        schema, words = request.response_format.schema, prompt.words
        if schema == {"type": "object"}:
            schema, written = _form_in(f"{prompt.instructions}\n{prompt.user}")
            words = words.replace(written, "") if written else words
        instance = make_instance(schema, Hints(words))
        note = None if instance.fits else f"found no answer that fits the schema of {request.response_format.name}"
        return as_json(instance.value), note
    opening = _OPENINGS[(request.sampling.seed or 0) % len(_OPENINGS)]
    if prompt.results:
        said = "\n".join(f"{result.name or 'The tool'} answered: {_quote(result.text)}" for result in prompt.results)
        return f"{opening}\n{said}", None
    said = f"You said: {_quote(prompt.user)}" if prompt.user.strip() else "You said nothing."
    return f"{opening} {said}", None


def _form_in(text: str) -> tuple[dict[str, Any], str]:
    """The form of a JSON object as a text shows it, by a JSON Schema or else by an example, and how it is written."""
    shown: tuple[dict[str, Any], str] | None = None
    at = -1
    for _ in range(_MOST_BRACES):
        if (at := text.find("{", at + 1)) < 0:
            break
        try:
            found, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            continue
        if isinstance(found.get("properties"), dict) or "$ref" in found:
            return found, text[at:end]
        if found and shown is None:
            shown = {"const": found}, text[at:end]
        at = end - 1
    return shown or (_ANY_OBJECT, "")


def _quote(text: str, most: int = _QUOTED_CHARS) -> str:
    text = text.strip()
    return text if len(text) <= most else f"{text[:most]}…"


def _listed(names: list[str]) -> str:
    names = list(dict.fromkeys(names))
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


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
