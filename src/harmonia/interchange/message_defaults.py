"""Fills in what other formats leave out of a message: channel, recipient, content type, the call that a result answers.

A reader fills in the defaults that are defined here. A writer builds the message that the reader will build, compares
the two, and reports the differences as losses.

A conversation matches results to calls by name and order, the APIs match them by ids:

- Writing: the call in message 3 is `call_3`, unless it has an id; results are matched as in messages/conversation.py.
- Reading: a result belongs to the call with its id. An id that no earlier call has is an error, because the result
  would be attributed to another call. A result without an id is matched as a conversation would match it. Results of
  parallel calls to the same tool are put in the order of those calls, because the order is all that the model sees.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.interchange.conversion import Lossy, Report, Texts
from harmonia.messages import Author, Content, DeveloperContent, Message, Role, is_builtin, is_tool_address
from harmonia.parts import is_visible

FUNCTIONS: Final = "functions."
_JSON_CONSTRAINED: Final = "<|constrain|>json"
_CODE: Final = "code"
_FIELDS: Final = ("role", "name", "channel", "recipient", "content_type")


# ── names ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def bare_name(recipient: str) -> str:
    """A tool's name for formats without namespaces: `functions.x` becomes x; other tools keep their namespace.

    So does a function whose name would then look like another tool's, such as `functions.python`.
    """
    name = recipient.removeprefix(FUNCTIONS)
    return name if name and "." not in name and not is_builtin(name) else recipient


def full_name(name: str) -> str:
    """The recipient of a function: x becomes `functions.x`; python and names with a dot stay as they are."""
    return name if "." in name or is_builtin(name) else f"{FUNCTIONS}{name}"


def free_form_name(name: str) -> str:
    """The recipient of a custom tool: its own name, unless a tool cannot have that name, such as `user`."""
    return name if is_tool_address(name) else f"{FUNCTIONS}{name}"


def is_free_form(recipient: str) -> bool:
    """Whether a tool takes plain text instead of JSON, as tools without a namespace do, such as python."""
    return "." not in recipient


# ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────────


def user(content: Texts, name: str | None = None) -> Message:
    return Message(Author(Role.USER, name), content)


def developer(content: Texts, name: str | None = None) -> Message:
    """Instructions; several parts become the lines of one text."""
    text = content if isinstance(content, str) else "\n".join(content)
    return Message(Author(Role.DEVELOPER, name), DeveloperContent(text))


def system(content: Texts, name: str | None = None) -> Message:
    return Message(Author(Role.SYSTEM, name), content)


def assistant(content: Texts, channel: str, name: str | None = None) -> Message:
    return Message(Author(Role.ASSISTANT, name), content, channel)


def call(recipient: str, arguments: str, name: str | None = None) -> Message:
    """A call as models write it: functions on commentary with JSON, built-in tools on analysis."""
    if is_builtin(recipient):
        channel, content_type = "analysis", _CODE
    else:
        channel, content_type = "commentary", None if is_free_form(recipient) else _JSON_CONSTRAINED
    return Message(Author(Role.ASSISTANT, name), arguments, channel, recipient, content_type)


def result(recipient: str, content: Texts) -> Message:
    """The result of a tool, on the channel of its call."""
    channel = "analysis" if is_builtin(recipient) else "commentary"
    return Message(Author(Role.TOOL, recipient), content, channel, "assistant")


# ── reading messages ────────────────────────────────────────────────────────────────────────────────────────────────


def is_hidden(message: Message) -> bool:
    """Whether an assistant message is hidden from the user. Text without a channel that was not sampled is visible."""
    if message.channel is None and message.origin is None:
        return False
    if is_visible(message):
        return False
    # Addressed to a role or to everybody on a visible channel: only the recipient is odd, the text is visible.
    recipient, origin = message.recipient, message.origin
    if recipient is None or is_tool_address(recipient):
        return True
    unaddressed = message.with_origin(origin, recipient=None) if origin else message.replace(recipient=None)
    return not is_visible(unaddressed)


def texts_of(message: Message) -> Texts:
    """The text of a message, or a tuple of texts if it has several."""
    content = message.content
    if isinstance(content, str):
        return content
    texts = tuple(part for part in message.contents if isinstance(part, str))
    return texts[0] if len(texts) == 1 else texts


def is_empty(message: Message) -> bool:
    """Whether a message has neither text nor settings."""
    content = message.content
    if isinstance(content, DeveloperContent):
        return content == DeveloperContent(content.instructions) and not content.instructions
    return all(part == "" for part in message.contents)


def join_head(messages: list[Message]) -> list[Message]:
    """The developer messages at the head as one, as long as they have the same name, or none."""
    joined: list[Message] = []
    for at, message in enumerate(messages):
        if message.role is not Role.DEVELOPER:
            return [*joined, *messages[at:]]
        if joined and joined[-1].name == message.name:
            text = "\n\n".join(filter(None, map(_instructions, (joined[-1], message))))
            joined[-1] = joined[-1].replace(content=DeveloperContent(text))
        else:
            joined.append(message)
    return joined


def _instructions(message: Message) -> str:
    content = message.content
    return (content.instructions or "") if isinstance(content, DeveloperContent) else message.text


# ── what differs ────────────────────────────────────────────────────────────────────────────────────────────────────


def differences(index: int, message: Message, back: Message, format_name: str) -> Iterator[Lossy]:
    """The losses of a message that will be read back as another one."""
    path = f"$.messages[{index}]"
    for name in _FIELDS:
        value, returned = getattr(message, name), getattr(back, name)
        if value != returned:
            why = f"{format_name} cannot express {_named(name, value)}; it comes back with {_named(name, returned)}"
            yield Lossy(f"{path}.{name}", name, why, index)
    if message.content != back.content:
        yield from _content_differences(index, message.contents, back.contents, format_name)


def left_out(index: int, why: str) -> Lossy:
    """The loss of a whole message."""
    return Lossy(f"$.messages[{index}]", "message", f"the message was omitted: {why}", index)


def _content_differences(
    index: int, contents: tuple[Content, ...], back: tuple[Content, ...], format_name: str
) -> Iterator[Lossy]:
    path = f"$.messages[{index}].content"
    if len(contents) == len(back) == 1 and type(contents[0]) is type(back[0]) and not isinstance(contents[0], str):
        content, returned = contents[0], back[0]
        for name in type(content).__struct_fields__:
            if getattr(content, name) != getattr(returned, name):
                why = f"{format_name} does not restore the {name} of this {_kind(content)} unchanged"
                yield Lossy(f"{path}.{name}", name, why, index)
        return
    why = f"in {format_name}, the content changes from {_kinds(contents)} to {_kinds(back)}"
    yield Lossy(path, "content", why, index)


def _kinds(contents: tuple[Content, ...]) -> str:
    counts = Counter(map(_kind, contents))
    listed = [f"one {kind}" if count == 1 else f"{count} {kind}s" for kind, count in counts.items()]
    return " and ".join(listed) or "nothing"


def _kind(content: Content) -> str:
    return "text part" if isinstance(content, str) else type(content).__name__.replace("Content", " content").lower()


def _named(name: str, value: object) -> str:
    noun = name.replace("_", " ")
    return f"no {noun}" if value is None else f"the {noun} {value}"


# ── calls and results ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Open:
    """A call, its index, the batch of parallel calls it belongs to, and whether it was answered."""

    index: int
    message: Message
    batch: int
    is_answered: bool = False

    @property
    def recipient(self) -> str:
        return self.message.recipient or ""


class ImportedMessages:
    """The messages read so far. Results wait until the next message that is not a result."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.call_ids: dict[int, str] = {}
        self.report = Report()
        self._by_id: dict[str, deque[_Open]] = defaultdict(deque)
        # Batches of unanswered calls by tool, and all of them under None; the latest batch is the last.
        self._waiting: dict[str | None, list[deque[_Open]]] = defaultdict(list)
        self._batch = 0  # calls with no result and no user message between them are one batch
        self._results: list[tuple[_Open | None, Message, str]] = []

    def add(self, *messages: Message) -> None:
        self._settle()
        self.messages += messages
        self._batch += any(message.role is Role.USER for message in messages)

    def add_call(
        self, message: Message, id_: str | None, output: Texts | Message | None = None, path: str = "$"
    ) -> None:
        """Add a call, and its result if a server made the call itself and reports both together."""
        self._settle()
        call = _Open(len(self.messages), message, self._batch)
        for name in (call.recipient, None):
            groups = self._waiting[name]
            if not groups or groups[-1][0].batch != call.batch:
                groups.append(deque())
            groups[-1].append(call)
        if id_ is not None:
            self._by_id[id_].append(call)
            self.call_ids[call.index] = id_
        self.messages.append(message)
        if output is not None:
            call.is_answered = True
            answer = output if isinstance(output, Message) else result(call.recipient, output)
            self._results.append((call, answer.answering(message), path))

    def add_result(self, id_: str | None, name: str | None, content: Texts, path: str, id_path: str) -> None:
        """Add a result for the call with this id; without an id, for the tool of this name or the waiting call."""
        if id_ is not None:
            call = self._call_with(id_, id_path)
        else:
            call = self._call_of(name)
            if call is None and name is None:
                what = "the result names neither a call nor a tool, and no call is waiting for a result"
                raise InputError(ErrorCode.INTERCHANGE_UNKNOWN_CALL, what, Position(path=path))
        if call is not None:
            call.is_answered = True
        recipient = name if call is None else call.recipient
        assert recipient is not None
        if name is not None and name != recipient:
            self.report.lose(path, "name", f"the result names {name}, but its call went to {recipient}")
        answer = result(recipient, content)
        self._results.append((call, answer if call is None else answer.answering(call.message), path))

    def finish(self) -> list[Message]:
        self._settle()
        return self.messages

    def _call_with(self, id_: str, path: str) -> _Open:
        calls = self._by_id.get(id_)
        if not calls:
            what = f"no earlier call has the id {id_!r}"
            raise InputError(ErrorCode.INTERCHANGE_UNKNOWN_CALL, what, Position(path=path))
        # Some servers restart their call ids in every turn.
        while len(calls) > 1 and calls[0].is_answered:
            calls.popleft()
        return calls[0]

    def _call_of(self, name: str | None) -> _Open | None:
        """The first waiting call of the latest batch, as messages/conversation.py matches them."""
        groups = self._waiting.get(name)
        while groups:
            while groups[-1] and groups[-1][0].is_answered:
                groups[-1].popleft()
            if groups[-1]:
                return groups[-1][0]
            groups.pop()
        return None

    def _settle(self) -> None:
        """Append the waiting results to the messages, those of one tool in the order of its calls."""
        if not self._results:
            return
        results, self._results = self._results, []
        self._batch += 1
        places: dict[tuple[str, int], list[int]] = defaultdict(list)
        for at, (call, _, _) in enumerate(results):
            if call is not None:
                places[call.recipient, call.batch].append(at)
        ordered = list(results)
        for ats in places.values():
            sorted_ats = sorted(ats, key=lambda at: call.index if (call := results[at][0]) else 0)
            for at, taken in zip(ats, sorted_ats, strict=True):
                ordered[at] = results[taken]
            if sorted_ats != ats:
                path = results[ats[0]][2]
                self.report.lose(path, "order", "the results were reordered to match the calls to their tool")
        self.messages += [message for _, message, _ in ordered]
