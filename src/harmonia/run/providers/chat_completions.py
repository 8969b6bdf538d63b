"""The chunks and the answers of Chat Completions to messages. No I/O.

    delta(reasoning)*  delta(content)*  delta(tool_calls)*  finish_reason  usage

1. Reasoning goes to `analysis`, whatever its field is called: `reasoning`, `reasoning_content`, `thinking`, or a
   list of details. What comes in two fields at once is taken once.
2. Calls are told apart by their index, or by their id where a server numbers all of them 0. Their names may come in
   pieces, or whole in every chunk.
3. A call is whole when the answer is: servers interleave them, and none says where one ends.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, cast
from urllib.parse import urlsplit

from harmonia.events import Event
from harmonia.messages import Conversation
from harmonia.run.engines.base import Finish, FinishReason, Request, Usage
from harmonia.run.engines.http import Fields, Patience, count_of, fields_of, objects_of, text_of
from harmonia.run.engines.registry import Answers, Kind, Seen
from harmonia.run.providers.answer import ANSWER_PARTS, Answer, call_header, channel_of, finish_of, text_header
from harmonia.run.providers.base import HttpProvider
from harmonia.run.providers.bodies import Body, ToolNames, chat_body


class ChatCompletionsProvider(HttpProvider):
    """`POST {base_url}/chat/completions`.

    `developer_role` is for servers that refuse the role of a developer, and know it as `system`.
    """

    NAME = "chat"
    PATH = "/chat/completions"

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        patience: Patience | None = None,
        developer_role: Literal["developer", "system"] = "developer",
    ) -> None:
        super().__init__(base_url, model, api_key=api_key, headers=headers, extra=extra, patience=patience)
        self._developer_role = developer_role

    def _make_body(self, conversation: Conversation, request: Request) -> Body:
        return chat_body(conversation, request, self.model, self._extra, developer_role=self._developer_role)

    def _make_reader(self, names: ToolNames) -> ChatReader:
        return ChatReader(names)


_REASONING_FIELDS: Final = ("reasoning", "reasoning_content", "thinking", "reasoning_text")
_CHANNELS: Final = {"reasoning": "analysis", "content": "final"}
_REASONS: Final[dict[str, FinishReason]] = {
    "stop": "stop",
    "tool_calls": "stop",
    "function_call": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "length": "length",
    "max_tokens": "length",
}


_NOTHING: Final[Fields] = {}


class _Call:
    __slots__ = ("id", "key", "name")

    def __init__(self, key: int) -> None:
        self.key = key
        self.id = ""
        self.name = ""


class ChatReader:
    """Reads a stream, or an answer that came in one piece, by `feed`; then `close`."""

    def __init__(self, names: ToolNames) -> None:
        self._names = names
        self._answer = Answer()
        self._slots = 0
        self._text: tuple[Literal["reasoning", "content"], int] | None = None  # the text that is being received
        self._calls: dict[int, _Call] = {}  # by the provider's index
        self._all_calls: list[_Call] = []
        self._last_call: _Call | None = None
        self._reason: FinishReason | None = None
        self._usage: Usage | None = None
        self._reasoning_tokens = 0
        self.error: Fields | None = None

    @property
    def answer(self) -> Answer:
        return self._answer

    @property
    def is_ended(self) -> bool:
        return self._reason is not None

    @property
    def is_last(self) -> bool:
        """The usage may come after the end, so only the stream's own end is the last."""
        return False

    def feed(self, chunk: Fields) -> list[Event]:
        """The events that follow from one chunk of the provider, or from an answer in one piece."""
        # Others than the first choice were not asked for.
        choice = next(iter(objects_of(chunk.get("choices"))), _NOTHING)
        self._take_delta(fields_of(choice.get("delta")) or fields_of(choice.get("message")))
        self._usage = _usage_of(chunk) or self._usage  # some send it with every chunk; the last one counts
        details = fields_of(fields_of(chunk.get("usage")).get("completion_tokens_details"))
        self._reasoning_tokens = count_of(details.get("reasoning_tokens")) or self._reasoning_tokens
        if error := chunk.get("error") or choice.get("error"):
            self.error = {"error": error}
        elif chunk.get("object") == "error" or chunk.get("type") == "error":
            self.error = chunk
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason and self._reason is None:
            self._end(reason)
        elif self._reason is None and choice.get("message") is not None:
            self._reason = "unknown"  # an answer in one piece has ended, even if it does not say why
        return self._answer.take()

    def close(self, *, is_broken: bool = False) -> list[Event]:
        """The events that end the answer; with `is_broken`, whatever is not whole ends without a stop."""
        self._name_calls()
        self._answer.finish(is_whole=self._reason == "stop" and not is_broken)
        return self._answer.take()

    def finish(self) -> Finish:
        return finish_of(self._answer, self._reason or "unknown", self._usage, self._reasoning_tokens)

    def _end(self, reason: str) -> None:
        self._reason = _REASONS.get(reason, "unknown")
        if self._reason == "unknown":
            self._answer.note(f"the provider gave the reason {reason!r} for the end")

    # ── texts ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _take_delta(self, delta: Fields) -> None:
        thought, text = _split_content(delta.get("content"), self._answer)
        if channel_of(delta.get("channel", delta.get("phase"))) == "analysis":
            thought, text = thought + text, ""
        self._add("reasoning", _reasoning_of(delta, self._answer) or thought)
        self._add("content", text)
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._answer.note("the provider marks the text as a refusal")
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
            self._text = (kind, self._open(text_header(_CHANNELS[kind])))
        self._answer.add(self._text[1], text)

    def _close_text(self) -> None:
        if self._text is not None:
            self._answer.close(self._text[1])
            self._text = None

    def _open(self, header: Any) -> int:
        key, self._slots = self._slots, self._slots + 1
        self._answer.open(key, header)
        return key

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _take_call(self, delta: Fields) -> None:
        function = fields_of(delta.get("function"))
        name, id_ = text_of(function.get("name")), text_of(delta.get("id"))
        call = self._call_of(delta.get("index"), name, id_)
        call.id = call.id or id_
        # A name in pieces grows until the arguments begin; one that is sent again and again does not.
        if name and name != call.name and self._answer.header_of(call.key) is None:
            call.name += name
        arguments = function.get("arguments")
        if isinstance(arguments, Mapping | list):  # some servers forget to write them as text
            arguments = json.dumps(arguments, ensure_ascii=False)
        if isinstance(arguments, str) and arguments:
            self._name_call(call)
            self._answer.add(call.key, arguments)

    def _call_of(self, index: object, name: str, id_: str) -> _Call:
        if isinstance(index, int):
            known = self._calls.get(index)
        else:
            same = [call for call in self._all_calls if id_ and call.id == id_]
            known = same[-1] if same else self._last_call
            # Without a number or an id, a name begins another call, unless the last one still waits for its name.
            if not same and (id_ or (name and known is not None and self._answer.header_of(known.key) is not None)):
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
            self._answer.name(call.key, call_header(self._names.recipient_of(call.name)))

    def _name_calls(self) -> None:
        """Calls without arguments are named when nothing more can come."""
        for call in self._all_calls:
            self._name_call(call)


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


def _usage_of(chunk: Fields) -> Usage | None:
    usage = fields_of(chunk.get("usage"))
    if not usage:
        return None
    cached = fields_of(usage.get("prompt_tokens_details")).get("cached_tokens")
    if cached is None:
        cached = fields_of(chunk.get("timings")).get("cache_n")  # llama.cpp
    return Usage(count_of(usage.get("prompt_tokens")), count_of(usage.get("completion_tokens")), count_of(cached))


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
