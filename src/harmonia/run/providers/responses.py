"""The events and the answers of a Responses API to messages. No I/O.

    output_item.added  (content_part.added  …delta*  …done  content_part.done)*  output_item.done      each item
    completed | incomplete | failed | error                                                            the end

Servers disagree about nearly all of this: some send no `added`, some no deltas, some number their items from -1, some
give an item another id at its end, some send the whole answer with `completed` and nothing before. So an event is
joined with the item that it names, or else with the one that can be meant, and what comes twice is taken once.

The names of Open Responses (`response.reasoning.delta`), of vLLM (`response.reasoning_part.added`) and of the Harmony
guide (`response.stream.delta`, `response.output_tool_call.delta`, `response.stream.error`) are read like OpenAI's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from harmonia.events import Event
from harmonia.messages import Conversation
from harmonia.run.engines.base import Request, Usage
from harmonia.run.engines.http import Fields, count_of, fields_of, objects_of, text_of
from harmonia.run.engines.registry import Answers, Kind, Seen
from harmonia.run.providers.answer import ANSWER_PARTS, Answer, call_header, channel_of, text_header
from harmonia.run.providers.base import HttpProvider, Reader
from harmonia.run.providers.bodies import Body, ToolNames, responses_body


class ResponsesProvider(HttpProvider):
    """`POST {base_url}/responses`. Nothing is stored at the provider: it gets the whole conversation each time."""

    name = "responses"
    path = "/responses"

    def _make_body(self, conversation: Conversation, request: Request) -> Body:
        return responses_body(conversation, request, self.model, self._extra, self._developer_role)

    def _make_reader(self, names: ToolNames) -> ResponsesReader:
        return ResponsesReader(names)


ItemKind = Literal["text", "reasoning", "call", "custom"]

_KINDS: Final[dict[str, ItemKind]] = {
    "message": "text",
    "reasoning": "reasoning",
    "function_call": "call",
    "tool_call": "call",
    "custom_tool_call": "custom",
}
_ERRORS: Final = ("error", "response.error", "response.stream.error")
_ENDS: Final = ("completed", "incomplete", "failed", "cancelled", "done")
# What an event `response.X.delta` or `response.X.done` is about, by X.
_THOUGHTS: Final = ("reasoning", "reasoning_text", "reasoning_content", "reasoning_summary", "reasoning_summary_text")
_TEXTS: Final[dict[str, ItemKind]] = {
    **dict.fromkeys(("output_text", "refusal", "stream", "text"), "text"),
    **dict.fromkeys(_THOUGHTS, "reasoning"),
    **dict.fromkeys(("function_call_arguments", "output_tool_call", "tool_call"), "call"),
    "custom_tool_call_input": "custom",
}
# Repeated by other events, or of no use to a conversation.
_SILENT: Final = (
    "created", "queued", "in_progress", "content_part", "reasoning_part", "reasoning_summary_part", "keepalive", "ping"
)  # fmt: skip
_OUT_OF_TOKENS: Final = ("max_output_tokens", "max_tokens", "length", "max_length")


@dataclass(slots=True, eq=False)
class _Item:
    """An item of the output, as far as it came."""

    key: int
    kind: ItemKind
    id: str | None = None
    name: str = ""
    source: str | None = None  # which of several texts of a reasoning was taken
    part: object = None  # the part that contained the last text
    is_done: bool = False


class ResponsesReader(Reader):
    def __init__(self, names: ToolNames) -> None:
        super().__init__(names)
        self._items: list[_Item] = []
        self._by_id: dict[str, _Item] = {}
        self._by_index: dict[int, _Item] = {}
        self._last: _Item | None = None

    def feed(self, event: Fields) -> list[Event]:
        kind = text_of(event.get("type"))
        if not kind and isinstance(event.get("output"), list):
            self._end(event, text_of(event.get("status")) or "completed")
            return self.answer.take()
        if kind in _ERRORS or (not kind and event.get("error")):
            self.error = event
            return self.answer.take()
        words = kind.removeprefix("response.")
        about, _, what = words.rpartition(".")
        if words in _ENDS:
            self._end(fields_of(event.get("response")) or event, words)
        elif about == "output_item" and what in ("added", "done"):
            self._take_item(fields_of(event.get("item")), event, is_done=what == "done")
        elif about in _TEXTS and what == "delta":
            self._add(_TEXTS[about], about, event)
        elif about in _TEXTS and what == "done":
            self._settle(_TEXTS[about], about, event)
        elif not (
            words in _SILENT
            or about in _SILENT
            or words.endswith(".annotation.added")
            # The steps of a tool that the provider runs, whose item is reported.
            or "_call" in about
            or about.startswith("mcp_")
        ):
            self.answer.note(f"the provider sent {kind}, which cannot be part of a conversation")
        return self.answer.take()

    # ── items ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _take_item(self, item: Fields, event: Fields, *, is_done: bool) -> None:
        type_ = item.get("type")
        kind = _KINDS.get(type_) if isinstance(type_, str) else None
        if kind is None:
            if is_done:
                self.answer.note(f"the provider's answer has an item {type_!r}, which was left out")
            return
        found = self._find(kind, event, item.get("id"), is_done=True) if is_done else None
        if found is None:
            found = self._open(kind, event, item.get("id"), item.get("phase"))
        self._name(found, item.get("name"))
        if is_done:
            self._settle_item(found, item)

    def _open(self, kind: ItemKind, event: Fields, id_: object, phase: object = None) -> _Item:
        opened = _Item(len(self._items), kind)
        self._items.append(opened)
        if isinstance(id_, str) and id_:
            opened.id = id_
            self._by_id[id_] = opened
        index = event.get("output_index")
        if isinstance(index, int):
            self._by_index[index] = opened
        header = None
        if kind in ("text", "reasoning"):
            header = text_header(channel_of(phase) if kind == "text" else "analysis")
        self.answer.open(opened.key, header, is_sure=bool(phase))
        return opened

    def _find(self, kind: ItemKind, event: Fields, id_: object, *, is_done: bool = False) -> _Item | None:
        """The item that an event can mean: by its id, by its place, or the last one of its kind that is not done."""
        by_id = self._by_id.get(id_) if isinstance(id_, str) else None
        if by_id is not None and by_id.kind == kind:
            return by_id
        index = event.get("output_index")
        by_index = self._by_index.get(index) if isinstance(index, int) else None
        if by_index is not None and by_index.kind == kind and not by_index.is_done:
            return by_index
        unfinished = [item for item in self._items if item.kind == kind and not item.is_done]
        if not unfinished:
            return None
        # Some servers change ids and numbers as they go. Two halves of a text are put together on that ground, but
        # arguments are not: with an id of its own, they are of another call.
        is_call = kind in ("call", "custom")
        is_new = isinstance(id_, str) and unfinished[-1].id is not None and (is_call or isinstance(index, int))
        return None if is_new and not (is_done and not is_call) else unfinished[-1]

    def _name(self, item: _Item, name: object) -> None:
        if item.kind not in ("call", "custom") or item.name or not isinstance(name, str) or not name:
            return
        item.name = name
        recipient = self.names.recipient_of(name)
        self.answer.name(item.key, call_header(recipient, is_json=item.kind == "call"))

    def _settle_item(self, item: _Item, value: Fields) -> None:
        if item.is_done:
            return
        for text, source in _texts_of(item.kind, value, self.answer):
            if item.source is None or item.source == source:
                item.source = source
                self.answer.settle(item.key, text)
        item.is_done = True
        if value.get("status") not in ("incomplete", "in_progress"):
            self.answer.close(item.key)

    # ── texts ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _item_of(self, kind: ItemKind, event: Fields) -> _Item:
        id_ = event.get("item_id") or event.get("call_id")
        item = self._find(kind, event, id_)
        if item is None or not self.answer.is_open(item.key):
            item = self._open(kind, event, id_, event.get("phase"))
        self._name(item, event.get("name"))
        # Calls may interleave, texts do not: where another item continues, a text has ended.
        if self._last is not None and self._last is not item and self._last.kind in ("text", "reasoning"):
            self.answer.close(self._last.key)
        self._last = item
        return item

    def _add(self, kind: ItemKind, about: str, event: Fields) -> None:
        delta = event.get("delta", event.get("text", event.get("content")))
        if inner := fields_of(delta):
            # The guide does not say what `response.stream.delta` contains; these are the plausible forms.
            kind = "reasoning" if channel_of(inner.get("channel")) == "analysis" else kind
            event = {**event, **{key: inner[key] for key in ("name", "call_id", "phase") if key in inner}}
            delta = inner.get("text", inner.get("content", inner.get("arguments")))
        if not isinstance(delta, str) or not delta:
            return
        item = self._item_of(kind, event)
        source = "summary" if about.startswith("reasoning_summary") else "content"
        if item.source is None:
            item.source = source
        elif item.source != source and kind == "reasoning":
            self.answer.note("the provider sent the reasoning and a summary of it; the one that came first was kept")
            return
        part = event.get("summary_index")
        if source == "summary" and item.part is not None and part != item.part:
            self.answer.add(item.key, "\n\n")
        item.part = part
        if about == "refusal":
            self.answer.note(_REFUSED)
        self.answer.add(item.key, delta)

    def _settle(self, kind: ItemKind, about: str, event: Fields) -> None:
        """The end of a part. It counts only where no delta came: an item may have several parts."""
        text = event.get("text", event.get("arguments", event.get("input", event.get("refusal"))))
        if isinstance(text, str):
            item = self._find(kind, event, event.get("item_id") or event.get("call_id"), is_done=True)
            if item is None or item.source is None:
                self._add(kind, about, {**event, "delta": text})
            elif kind in ("call", "custom") and not item.is_done:
                self._name(item, event.get("name"))
                self.answer.settle(item.key, text)

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _end(self, response: Fields, name: str) -> None:
        self.is_ended = self.is_last = True
        if usage := fields_of(response.get("usage")):
            cached = count_of(fields_of(usage.get("input_tokens_details")).get("cached_tokens"))
            self.usage = Usage(count_of(usage.get("input_tokens")), count_of(usage.get("output_tokens")), cached)
            self.reasoning_tokens = count_of(fields_of(usage.get("output_tokens_details")).get("reasoning_tokens"))
        status = response.get("status")
        status = status if status in _ENDS else name
        self._take_output(objects_of(response.get("output")), is_cut=status not in ("completed", "done"))
        if status == "failed" or response.get("error"):
            self.error = {"error": response.get("error") or "the provider reports that it failed"}
        details = fields_of(response.get("incomplete_details")).get("reason")
        if status == "incomplete" or details:
            self.reason = "length" if details in _OUT_OF_TOKENS or details is None else "unknown"
            if self.reason == "unknown":
                self.answer.note(f"the provider stopped in the middle of the answer: {details}")
        elif status in ("completed", "done"):
            self.reason = "stop"
        else:
            self.answer.note(f"the provider reports that the answer is {status}")

    def _take_output(self, output: list[Fields], *, is_cut: bool) -> None:
        """The whole output, as the last event repeats it: whatever did not come before is taken now.

        Ids may have changed on the way, so the first text of it is the first text that came, and so on.
        """
        for kind in ("reasoning", "text", "call", "custom"):
            came = [item for item in self._items if item.kind == kind]
            repeated = [value for value in output if _KINDS.get(str(value.get("type"))) == kind]
            for item, value in zip(came, repeated, strict=False):
                self._name(item, value.get("name"))
                self._settle_item(item, value)
        seen = {kind: sum(item.kind == kind for item in self._items) for kind in _KINDS.values()}
        for value in output:
            kind = _KINDS.get(str(value.get("type")))
            if kind is not None and seen[kind] > 0:
                seen[kind] -= 1
            else:
                # What is cut off, and does not say of itself that it is whole, may be the piece that was cut.
                status = value.get("status") or ("incomplete" if is_cut and value is output[-1] else "completed")
                self._take_item({**value, "status": status}, {}, is_done=True)


_REFUSED: Final = "the provider marks the text as a refusal"


def _texts_of(kind: ItemKind, item: Fields, answer: Answer) -> list[tuple[str, str]]:
    """The text of an item, and where it stood. Reasoning may have a content, or a summary, or both."""
    if kind in ("call", "custom"):
        return [(text_of(item.get("arguments" if kind == "call" else "input")), "content")]
    content = _join_parts(kind, item.get("content"), answer)
    if kind == "text":
        return [(content, "content")]
    summary = "\n\n".join(filter(None, (text_of(part.get("text")) for part in objects_of(item.get("summary")))))
    texts = [(text, source) for text, source in ((content, "content"), (summary, "summary")) if text]
    if not texts and item.get("encrypted_content"):
        answer.note("the provider sent encrypted reasoning, which cannot be read here; it was left out")
    return texts


def _join_parts(kind: ItemKind, content: object, answer: Answer) -> str:
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for part in objects_of(content):
        type_ = part.get("type")
        if type_ == "refusal":
            answer.note(_REFUSED)
        elif kind == "text" and type_ not in ANSWER_PARTS:
            answer.note(f"the provider's answer has a part {type_!r}, which was left out")
            continue
        text = part.get("text", part.get("refusal"))
        if isinstance(text, str):
            texts.append(text)
    return "".join(texts)


def _recognise_harmonia(answers: Answers) -> Seen | None:
    is_harmonia = answers.text("/health", "server").lower().startswith("harmonia") or "harmonia" in answers.owners
    return answers.seen("harmonia") if is_harmonia else None


KINDS: Final = (
    Kind(
        name="harmonia",
        summary="a Harmonia server, which is opened as responses:URL",
        speaks="messages",
        pages=("/health",),
        recognise=_recognise_harmonia,
    ),
    Kind(
        name="responses",
        summary="a provider with the Responses API",
        make=ResponsesProvider,
        argument_as="base_url",
        options={},
        speaks="messages",
    ),
)
