"""The chunks and the answers of Chat Completions to messages. No I/O.

    delta(reasoning)*  delta(content)*  delta(tool_calls)*  finish_reason  usage

1. Reasoning goes to `analysis`, whatever its field is called: `reasoning`, `reasoning_content`, `thinking`, or a
   list of details. What comes in two fields at once is taken once.
2. Calls are distinguished by their index, or by their id where a server numbers all of them 0. Their names may come in
   pieces, or whole in every chunk.
3. A call is complete when the answer is: servers interleave them, and none reports where one ends.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast
from urllib.parse import urlsplit

from harmonia.events import Event
from harmonia.messages import Conversation
from harmonia.run.engines.base import FinishReason, Request, Usage
from harmonia.run.engines.http import Fields, count_of, fields_of, objects_of, text_of
from harmonia.run.engines.registry import Answers, Kind, Seen
from harmonia.run.providers.answer import ANSWER_PARTS, Answer, call_header, channel_of, text_header
from harmonia.run.providers.base import HttpProvider, Reader
from harmonia.run.providers.bodies import Body, ToolNames, chat_body


class ChatCompletionsProvider(HttpProvider):
    """`POST {base_url}/chat/completions`."""

    name = "chat"
    path = "/chat/completions"

    def _make_body(self, conversation: Conversation, request: Request) -> Body:
        return chat_body(conversation, request, self.model, self._extra, self._developer_role)

    def _make_reader(self, names: ToolNames) -> ChatReader:
        return ChatReader(names)


_REASONING_FIELDS: Final = ("reasoning", "reasoning_content", "thinking", "reasoning_text")
_REASONS: Final[dict[str, FinishReason]] = {
    **dict.fromkeys(("stop", "tool_calls", "function_call", "end_turn", "eos"), "stop"),
    **dict.fromkeys(("length", "max_tokens"), "length"),
}


@dataclass(slots=True)
class _Call:
    key: int
    id: str = ""
    name: str = ""


class ChatReader(Reader):
    def __init__(self, names: ToolNames) -> None:
        super().__init__(names)
        self._slots = 0
        self._text: tuple[Literal["reasoning", "content"], int] | None = None  # the text that is being received
        self._calls: dict[int, _Call] = {}  # by the provider's index
        self._all_calls: list[_Call] = []
        self._last_call: _Call | None = None

    def feed(self, chunk: Fields) -> list[Event]:
        # Others than the first choice were not asked for. The usage may come after the end, so no chunk is the last.
        choice = next(iter(objects_of(chunk.get("choices"))), fields_of(None))
        self._take_delta(fields_of(choice.get("delta")) or fields_of(choice.get("message")))
        if usage := fields_of(chunk.get("usage")):  # some send it with every chunk; the last one counts
            self._take_usage(usage, fields_of(chunk.get("timings")))
        if error := chunk.get("error") or choice.get("error"):
            self.error = {"error": error}
        elif chunk.get("object") == "error" or chunk.get("type") == "error":
            self.error = chunk
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason and not self.is_ended:
            self.is_ended = True
            self.reason = _REASONS.get(reason, "unknown")
            if self.reason == "unknown":
                self.answer.note(f"the provider gave the reason {reason!r} for the end")
        # An answer in one piece has ended, even if it does not report why.
        self.is_ended = self.is_ended or choice.get("message") is not None
        return self.answer.take()

    def close(self, *, is_broken: bool = False) -> list[Event]:
        for call in self._all_calls:  # calls without arguments are named when nothing more can come
            self._name_call(call)
        return super().close(is_broken=is_broken)

    def _take_usage(self, usage: Fields, timings: Fields) -> None:
        cached = fields_of(usage.get("prompt_tokens_details")).get("cached_tokens")
        cached = count_of(timings.get("cache_n") if cached is None else cached)  # llama.cpp has timings
        self.usage = Usage(count_of(usage.get("prompt_tokens")), count_of(usage.get("completion_tokens")), cached)
        details = fields_of(usage.get("completion_tokens_details"))
        self.reasoning_tokens = count_of(details.get("reasoning_tokens")) or self.reasoning_tokens

    # ── texts ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _take_delta(self, delta: Fields) -> None:
        thought, text = _split_content(delta.get("content"), self.answer)
        if channel_of(delta.get("channel", delta.get("phase"))) == "analysis":
            thought, text = thought + text, ""
        self._add("reasoning", _reasoning_of(delta, self.answer) or thought)
        self._add("content", text)
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self.answer.note("the provider marks the text as a refusal")
            self._add("content", refusal)
        for call in objects_of(delta.get("tool_calls")):
            self._take_call(call)
        if legacy := fields_of(delta.get("function_call")):
            self._take_call({"index": 0, "function": legacy})

    def _add(self, kind: Literal["reasoning", "content"], text: str) -> None:
        if not text:
            return
        if self._text is None or self._text[0] != kind:
            self._close_text()
            self._text = (kind, self._open(text_header("analysis" if kind == "reasoning" else "final")))
        self.answer.add(self._text[1], text)

    def _close_text(self) -> None:
        if self._text is not None:
            self.answer.close(self._text[1])
            self._text = None

    def _open(self, header: Any) -> int:
        key, self._slots = self._slots, self._slots + 1
        self.answer.open(key, header)
        return key

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _take_call(self, delta: Fields) -> None:
        function = fields_of(delta.get("function"))
        name, id_ = text_of(function.get("name")), text_of(delta.get("id"))
        call = self._call_of(delta.get("index"), name, id_)
        call.id = call.id or id_
        # A name in pieces grows until the arguments begin; one that is sent again and again does not.
        if name and name != call.name and self.answer.header_of(call.key) is None:
            call.name += name
        arguments = function.get("arguments")
        if isinstance(arguments, Mapping | list):  # some servers forget to write them as text
            arguments = json.dumps(arguments, ensure_ascii=False)
        if isinstance(arguments, str) and arguments:
            self._name_call(call)
            self.answer.add(call.key, arguments)

    def _call_of(self, index: object, name: str, id_: str) -> _Call:
        if isinstance(index, int):
            known = self._calls.get(index)
        else:
            same = [call for call in self._all_calls if id_ and call.id == id_]
            known = same[-1] if same else self._last_call
            # Without a number or an id, a name begins another call, unless the last one still waits for its name.
            if not same and (id_ or (name and known is not None and self.answer.header_of(known.key) is not None)):
                known = None
        # The same number with another id and a name is another call; an id that changes without a name is nothing.
        if known is None or (name and id_ and known.id and id_ != known.id):
            self._close_text()
            known = _Call(self._open(None))
            self._calls[index if isinstance(index, int) else -1 - len(self._calls)] = known
            self._all_calls.append(known)
        self._last_call = known
        return known

    def _name_call(self, call: _Call) -> None:
        if call.name:
            self.answer.name(call.key, call_header(self.names.recipient_of(call.name)))


def _reasoning_of(delta: Fields, answer: Answer) -> str:
    for field in _REASONING_FIELDS:
        value = delta.get(field)
        if isinstance(value, str) and value:
            return value
    texts: list[str] = []
    for detail in objects_of(delta.get("reasoning_details")):
        text = detail.get("text") or detail.get("summary")
        if isinstance(text, str):
            texts.append(text)
        elif detail.get("data"):
            answer.note("the provider sent encrypted reasoning, which cannot be read here; it was left out")
    return "".join(texts)


def _split_content(content: object, answer: Answer) -> tuple[str, str]:
    """The reasoning and the text in a content, which is a text or a list of parts."""
    if not isinstance(content, list):
        return "", text_of(content)
    thoughts: list[str] = []
    texts: list[str] = []
    for part in objects_of(cast("list[Any]", content)):
        type_ = part.get("type")
        if type_ in ("thinking", "reasoning", "reasoning_text"):
            inner = part.get("thinking", part.get("text"))
            thoughts.append(_split_content(inner, answer)[1])
        elif type_ in ANSWER_PARTS:
            texts.append(text_of(part.get("text")))
        else:
            answer.note(f"the provider's answer has a part {type_!r}, which was left out")
    return "".join(thoughts), "".join(texts)


def _recognise_openrouter(answers: Answers) -> Seen | None:
    host = urlsplit(answers.url).hostname or ""
    return answers.seen("openrouter") if host == "openrouter.ai" or host.endswith(".openrouter.ai") else None


KINDS: Final = (
    Kind(
        name="openrouter",
        summary="OpenRouter, which is opened as chat:URL",
        speaks="messages",
        recognise=_recognise_openrouter,
    ),
    Kind(
        name="chat",
        summary="a provider with Chat Completions",
        make=ChatCompletionsProvider,
        argument_as="base_url",
        options={},
        speaks="messages",
    ),
)
