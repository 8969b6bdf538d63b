"""Matches results to calls: a conversation matches them by name and order, the APIs by ids.

Writing: the call in message 3 is `call_3`, unless it has an id; results are matched as in messages/exchanges.py.
Reading: a result belongs to the call with its id. An id that no earlier call has is an error, because the result would
be attributed to another call. A result without an id is matched as a conversation would match it. Results of parallel
calls to the same tool are put in the order of those calls, because the order is all that the model sees.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.interchange import message_defaults
from harmonia.interchange.conversion import CallIds, Imported, Lossy
from harmonia.interchange.documents import Report
from harmonia.interchange.message_defaults import Texts
from harmonia.interchange.settings import Settings, place
from harmonia.messages import Conversation, Message, Role, call_id, join_results


class ExportedCalls:
    """The ids of a conversation's calls, each unique, and the calls that its results answer."""

    def __init__(self, conversation: Conversation, call_ids: CallIds | None) -> None:
        joined = join_results(conversation)
        self._index_of = {each.result_index: each.index for each in joined if each.result_index is not None}
        self._conversation = conversation
        given = call_ids or {}
        self._ids: dict[int, str] = {}
        used, reserved = set[str](), set(given.values())
        for exchange in joined:
            id_ = given.get(exchange.index)
            if id_ is None or id_ in used:
                id_ = call_id(exchange.index)
                while id_ in used or id_ in reserved:
                    id_ += "_"
            used.add(id_)
            self._ids[exchange.index] = id_

    def id_of(self, index: int) -> str:
        return self._ids[index]

    def answered_by(self, result_index: int) -> tuple[str, str] | None:
        """The id and the recipient of the call that a result answers, or None."""
        index = self._index_of.get(result_index)
        if index is None:
            return None
        return self._ids[index], self._conversation[index].recipient or ""

    def losses(self) -> Iterator[Lossy]:
        """Results that will move, because their order differs from that of their calls."""
        latest: dict[str, int] = {}
        for index, message in enumerate(self._conversation):
            if message.role is not Role.TOOL:
                latest = {}
                continue
            call = self._index_of.get(index)
            if call is None:
                continue
            recipient = self._conversation[call].recipient or ""
            if call < latest.get(recipient, -1):
                why = "results come back in the order of the calls to their tool"
                yield Lossy(f"$.messages[{index}]", "order", why, index)
            latest[recipient] = max(call, latest.get(recipient, -1))


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

    def __init__(self, report: Report) -> None:
        self.messages: list[Message] = []
        self.call_ids: dict[int, str] = {}
        self._report = report
        self._by_id: dict[str, deque[_Open]] = defaultdict(deque)
        # Batches of unanswered calls by tool, and all of them under None; the latest batch is the last.
        self._waiting: dict[str | None, list[deque[_Open]]] = defaultdict(list)
        self._batch = 0  # calls with no result and no user message between them are one batch
        self._results: list[tuple[_Open | None, Message, str]] = []

    def add(self, *messages: Message) -> None:
        self._settle()
        self.messages += messages
        self._batch += any(message.role is Role.USER for message in messages)

    def add_unless_empty(self, message: Message, path: str) -> None:
        """Add a text of the assistant or instructions. An empty one is omitted and reported: in a prompt it would end
        a turn, or be an extra message. Empty messages of users and tools are kept."""
        if message_defaults.is_empty(message):
            self._report.lose(path, "message", "the message is empty and was omitted")
        else:
            self.add(message)

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
            result = output if isinstance(output, Message) else message_defaults.result(call.recipient, output)
            self._results.append((call, result.answering(message), path))

    def add_result(self, id_: str | None, name: str | None, content: Texts, path: str, id_path: str) -> None:
        """Add a result for the call with this id; without an id, for the tool of this name or the waiting call."""
        if id_ is not None:
            call = self._call_with(id_, id_path)
        else:
            call = self._call_of(name)
            if call is None and name is None:
                raise InputError(
                    ErrorCode.INTERCHANGE_UNKNOWN_CALL,
                    "the result names neither a call nor a tool, and no call is waiting for a result",
                    Position(path=path),
                )
        if call is not None:
            call.is_answered = True
        recipient = name if call is None else call.recipient
        assert recipient is not None
        if name is not None and name != recipient:
            self._report.lose(path, "name", f"the result names {name}, but its call went to {recipient}")
        result = message_defaults.result(recipient, content)
        self._results.append((call, result if call is None else result.answering(call.message), path))

    def add_instructions(self, texts: Texts, name: str | None, path: str, *, is_system: bool) -> None:
        """Add a system text, or developer instructions, which are a single text."""
        if is_system:
            self.add_unless_empty(message_defaults.system(texts, name), path)
            return
        if isinstance(texts, tuple) and len(texts) > 1:
            why = "instructions are a single text: the parts became its lines"
            self._report.lose(f"{path}.content", "content", why)
        self.add_unless_empty(message_defaults.developer(texts, name), path)

    def finish(self) -> list[Message]:
        self._settle()
        return self.messages

    def imported(self, settings: Settings) -> Imported:
        """All messages, with the settings of the request placed in front of them."""
        messages = self.finish()
        added = place(messages, settings)
        call_ids = {index + added: id_ for index, id_ in self.call_ids.items()}
        return Imported(Conversation(messages), tuple(self._report.losses), call_ids)

    def _call_with(self, id_: str, path: str) -> _Open:
        calls = self._by_id.get(id_)
        if not calls:
            raise InputError(
                ErrorCode.INTERCHANGE_UNKNOWN_CALL, f"no earlier call has the id {id_!r}", Position(path=path)
            )
        # Some servers restart their call ids in every turn.
        while len(calls) > 1 and calls[0].is_answered:
            calls.popleft()
        return calls[0]

    def _call_of(self, name: str | None) -> _Open | None:
        """The first waiting call of the latest batch, as messages/exchanges.py matches them."""
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
                self._report.lose(path, "order", "the results were reordered to match the calls to their tool")
        self.messages += [message for _, message, _ in ordered]
