"""The store against a model in memory: whatever is asked of both, in whatever order, they say the same."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from harmonia.serve.store.base import Order, Page, StoredItem, StoredResponse, StoredTurn
from harmonia.serve.store.sqlite import SqliteStore

OWNERS = st.sampled_from(["ann", "bob"])
# Long ones go through several pages of the file.
BYTES = st.one_of(st.binary(max_size=20), st.integers(0, 9000).map(lambda size: b"x" * size))
# Few ids, so that some are shared.
ITEMS = st.builds(
    StoredItem, st.one_of(st.sampled_from(["msg_a", "msg_b"]), st.text(max_size=5)), BYTES, BYTES | st.none()
)
TIMES = st.integers(0, 20)


class Model:
    """What a store is, as plainly as possible."""

    def __init__(self) -> None:
        self.responses: dict[str, StoredResponse] = {}
        self.inputs: dict[str, list[StoredItem]] = {}
        self.outputs: dict[str, dict[int, StoredItem]] = {}

    def begin(self, response: StoredResponse, inputs: list[StoredItem]) -> None:
        self.responses[response.id] = response
        self.inputs[response.id] = inputs
        self.outputs[response.id] = {}

    def load(self, owner: str, response_id: str) -> StoredTurn | None:
        response = self.responses.get(response_id)
        if response is None or response.owner != owner:
            return None
        outputs = sorted(self.outputs[response_id].items())
        return StoredTurn(response, tuple(self.inputs[response_id]), tuple(item for _, item in outputs))

    def chain(self, owner: str, response_id: str) -> tuple[StoredTurn, ...] | None:
        turn = self.load(owner, response_id)
        if turn is None or turn.response.previous_id is None:
            return turn and (turn,)
        before = self.chain(owner, turn.response.previous_id)
        return before and (*before, turn)

    def input_items(self, owner: str, response_id: str, after: str | None, limit: int, order: Order) -> Page | None:
        turn = self.load(owner, response_id)
        if turn is None:
            return None
        items = list(turn.inputs) if order == "asc" else list(turn.inputs)[::-1]
        if after is not None:
            places = [place for place, item in enumerate(items) if item.id == after]
            if not places:
                return None
            items = items[places[-1] + 1 :]
        return Page(tuple(items[:limit]), len(items) > limit)

    def delete(self, owner: str, response_id: str) -> bool:
        found = self.load(owner, response_id) is not None
        if found:
            del self.responses[response_id]
        return found


class StoreAndModel(RuleBasedStateMachine):
    ids: Bundle[str] = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "store.db"
        self.model = Model()
        self.store = self.runner.run(SqliteStore.open(self.path))

    @initialize(target=ids)
    def an_id_that_was_never_stored(self) -> str:
        return "resp_unknown"

    @rule(
        target=ids,
        owner=OWNERS,
        previous=st.none() | ids,
        status=st.sampled_from(["in_progress", "completed"]),
        created_at=TIMES,
        body=BYTES,
        inputs=st.lists(ITEMS, max_size=5),
    )
    def begin(
        self, owner: str, previous: str | None, status: str, created_at: int, body: bytes, inputs: list[StoredItem]
    ) -> str:
        response_id = f"resp_{len(self.model.inputs)}"
        response = StoredResponse(response_id, owner, "gpt-oss", status, created_at, body, previous)
        self.runner.run(self.store.begin(response, inputs))
        self.model.begin(response, inputs)
        return response_id

    @rule(response_id=ids, index=st.integers(0, 4), item=ITEMS)
    def add_output(self, response_id: str, index: int, item: StoredItem) -> None:
        self.runner.run(self.store.add_output(response_id, index, item))
        if response_id in self.model.responses:
            self.model.outputs[response_id][index] = item

    @rule(response_id=ids, status=st.sampled_from(["completed", "failed", "incomplete"]), body=BYTES)
    def finish(self, response_id: str, status: str, body: bytes) -> None:
        self.runner.run(self.store.finish(response_id, status, body))
        if response := self.model.responses.get(response_id):
            self.model.responses[response_id] = msgspec.structs.replace(response, status=status, body=body)

    @rule(owner=OWNERS, response_id=ids)
    def delete(self, owner: str, response_id: str) -> None:
        assert self.runner.run(self.store.delete(owner, response_id)) == self.model.delete(owner, response_id)

    @rule(older_than=TIMES)
    def purge(self, older_than: int) -> None:
        old = [
            response
            for response in self.model.responses.values()
            if response.created_at < older_than and response.status != "in_progress"
        ]
        for response in old:
            self.model.delete(response.owner, response.id)
        assert self.runner.run(self.store.purge(older_than)) == len(old)

    @rule(owner=OWNERS, response_id=ids)
    def load(self, owner: str, response_id: str) -> None:
        assert self.runner.run(self.store.load(owner, response_id)) == self.model.load(owner, response_id)

    @rule(
        owner=OWNERS,
        response_id=ids,
        after=st.none() | st.sampled_from(["msg_a", "msg_b", "msg_c"]),
        limit=st.integers(1, 6),
        order=st.sampled_from(["asc", "desc"]),
    )
    def input_items(self, owner: str, response_id: str, after: str | None, limit: int, order: Order) -> None:
        found = self.store.input_items(owner, response_id, after=after, limit=limit, order=order)
        assert self.runner.run(found) == self.model.input_items(owner, response_id, after, limit, order)

    @rule()
    def restart(self) -> None:
        """What was in progress ends with the server that did it."""
        self.runner.run(self.store.close())
        self.store = self.runner.run(SqliteStore.open(self.path))
        recovered = set(self.runner.run(self.store.recover()))
        left = {response.id for response in self.model.responses.values() if response.status == "in_progress"}
        assert recovered == left
        assert self.runner.run(self.store.recover()) == ()
        for response_id in left:
            response = self.model.responses[response_id]
            found = self.runner.run(self.store.load(response.owner, response_id))
            assert found is not None and found.response.status == "failed"
            self.model.responses[response_id] = found.response

    @invariant()
    def they_hold_the_same(self) -> None:
        for owner in ("ann", "bob"):
            for response_id in ("resp_unknown", *self.model.inputs):
                assert self.runner.run(self.store.chain(owner, response_id)) == self.model.chain(owner, response_id)

    def teardown(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()
        self.folder.cleanup()


TestStoreAndModel = StoreAndModel.TestCase
TestStoreAndModel.settings = settings(max_examples=25, stateful_step_count=25)
