"""One round of everything: both servers are asked in turn, and what each row gets is a number of ours, one of the
prepared application's and, where there is one, a budget.

A case checks first. Ours must give the text of the engine's tokens, one event for each; the prepared application must
give the same bytes as ours. Whatever is timed afterwards has to have the same number of events and of bytes.
"""

from __future__ import annotations

import json
import marshal
import resource
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple

from benchmarks.data import text
from benchmarks.server.client import NAP_S, Answer, Streams, WrongAnswer, fetch, flow, make_request
from benchmarks.server.processes import ServerProcess
from benchmarks.server.rows import STREAMS
from harmonia.vocabulary import ID_BY_SPELLING, decode, encode

Api = Literal["responses", "chat"]
Json = dict[str, Any]

_PATHS = {"responses": "/v1/responses", "chat": "/v1/chat/completions"}
_MODEL = "gpt-oss-20b"
_PROMPT_BYTES = 4500  # about a thousand tokens
_HEADER_TOKENS = 3
_LONG, _SHORT = 2000, 20  # tokens of an answer
_CONNECTIONS = 8
_PACE_S = 0.05
# What belongs to one answer, and would be sent twice.
_NOT_REPEATED = (b"date", b"transfer-encoding", b"content-length")


class Sample(NamedTuple):
    """The numbers of one round. `budget` is what ours may take."""

    ours: float
    prepared: float | None = None
    budget: float | None = None


Samples = dict[str, Sample]  # by row


class Case(ABC):
    """Something to measure with a pair of servers. `rounds` are spread over several pairs. A case that `needs_fresh`
    ones shares them with no other, not even in a quick run."""

    rounds = 12
    quick_rounds = 1
    needs_fresh = False

    def __init__(self, api: Api, *, quick: bool) -> None:
        self.api: Api = api
        self.quick = quick

    @abstractmethod
    def prepare(self, ours: ServerProcess, prepared: ServerProcess) -> None:
        """Check that both give what they should."""

    @abstractmethod
    def measure(self, ours: ServerProcess, prepared: ServerProcess, round_: int) -> Samples: ...


def in_turn(
    ours: ServerProcess, prepared: ServerProcess, round_: int, measure: Callable[[ServerProcess], Any]
) -> tuple[Any, Any]:
    """What both gave; the order changes from round to round."""
    if round_ % 2:
        of_prepared = measure(prepared)
        return measure(ours), of_prepared
    return measure(ours), measure(prepared)


# ── what is asked, and what must come ───────────────────────────────────────────────────────────────────────────────


def body_for(api: Api, question: str, *, stream: bool = True, store: bool | None = None) -> Json:
    body: Json = {"model": _MODEL}
    if api == "responses":
        body["input"] = question
    else:
        body["messages"] = [{"role": "user", "content": question}]
    if stream:
        body["stream"] = True
    if store is not None:
        body["store"] = store
    return body


def questions(seed: str, count: int) -> list[str]:
    """Prompts of one size. No two begin alike, so that each has to be rendered."""
    return [text("prose", _PROMPT_BYTES, Random(f"{seed}/{index}")) for index in range(count)]


def requests_for(api: Api, seed: str, count: int) -> list[bytes]:
    return [make_request(_PATHS[api], body_for(api, question)) for question in questions(seed, count)]


class Completion(NamedTuple):
    """What the engine samples: an answer of so many tokens, each of which is some text."""

    tokens: list[int]
    words: str
    size: int


def completion(size: int) -> Completion:
    body = encode(text("prose", 20 * size, Random("answer")))[:size]
    header = [ID_BY_SPELLING["<|channel|>"], *encode("final"), ID_BY_SPELLING["<|message|>"]]
    assert len(header) == _HEADER_TOKENS
    return Completion([*header, *body, ID_BY_SPELLING["<|return|>"]], decode(body), size)


def check_stream(api: Api, answer: Answer, expected: Completion) -> None:
    """One event for each token, one piece for each event, and the text of the tokens in them."""
    if answer.frames != len(answer.pieces):
        raise WrongAnswer(f"{api}: {answer.frames} events came in {len(answer.pieces)} pieces")
    events = [json.loads(piece.partition(b"data: ")[2]) for piece in answer.pieces if b"[DONE]" not in piece]
    if api == "responses":
        deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
        is_whole = events[-1]["type"] == "response.completed"
    else:
        choices = [event["choices"][0] for event in events if event["choices"]]
        deltas = [choice["delta"]["content"] for choice in choices if choice["delta"].get("content")]
        is_whole = choices[-1]["finish_reason"] == "stop" and b"[DONE]" in answer.pieces[-1]
    if len(deltas) != expected.size or "".join(deltas) != expected.words or not is_whole:
        raise WrongAnswer(f"{api}: {len(deltas)} deltas came for {expected.size} tokens, or other words than theirs")


def check_whole(api: Api, answer: Answer, expected: Completion) -> None:
    value = json.loads(b"".join(answer.pieces))
    words = (
        value["output"][0]["content"][0]["text"] if api == "responses" else value["choices"][0]["message"]["content"]
    )
    if words != expected.words:
        raise WrongAnswer(f"{api}: the answer has other words than the tokens")


def check_same(ours: Answer, prepared: Answer) -> None:
    if prepared.pieces != ours.pieces or prepared.size_bytes != ours.size_bytes:
        raise WrongAnswer("the prepared application does not give the bytes that ours gave")


# ── telling the servers ─────────────────────────────────────────────────────────────────────────────────────────────


class Playing:
    """Both servers with the same answer, and how each is told to give it."""

    def __init__(self, api: Api, said: Completion, request: bytes, *, is_stream: bool = True) -> None:
        self.api: Api = api
        self._said = said
        self._request = request
        self._is_stream = is_stream
        self.answer = Answer([], [], 0)
        self._file = Path()

    def check(self, ours: ServerProcess, prepared: ServerProcess) -> None:
        warm_up(self.api, ours)
        self.follow(ours)
        self.answer = fetch(ours.port, self._request)
        if self._is_stream:
            check_stream(self.api, self.answer, self._said)
        else:
            check_whole(self.api, self.answer, self._said)
        # Once more: the first stream of a process may have something to load.
        self.answer = fetch(ours.port, self._request)
        kept = [
            (name, value)
            for name, value in self.answer.headers
            if name.lower() not in _NOT_REPEATED or (not self._is_stream and name.lower() == b"content-length")
        ]
        self._file = prepared.folder / f"answer-{id(self)}"
        self._file.write_bytes(marshal.dumps((kept, self.answer.pieces)))
        self.follow(prepared)
        check_same(self.answer, fetch(prepared.port, self._request))

    @property
    def frames_before_hold(self) -> int:
        """The events up to the one of the first token."""
        return 1 + next(
            at
            for at, piece in enumerate(self.answer.pieces)
            if b"output_text.delta" in piece or (b'"content":"' in piece and b'"content":""' not in piece)
        )

    def follow(self, server: ServerProcess, *, holds: bool = False, pace_s: float = 0.0) -> None:
        """Give the answer, or hold it behind its first token: until it is released, or for a while at each token."""
        if server.name == "ours":
            behind = _HEADER_TOKENS + 1 if holds else None
            server.ask("follow", tokens=self._said.tokens, holds_behind=behind, pace_s=pace_s)
        else:
            behind = self.frames_before_hold if holds else None
            server.ask("follow", file=str(self._file), holds_behind=behind, pace_s=pace_s)


def warm_up(api: Api, server: ServerProcess) -> None:
    """A server that has been up for a while: everything is loaded that is loaded by need."""
    said = completion(_SHORT)
    server.ask("follow", tokens=said.tokens)
    fetch(server.port, make_request(_PATHS[api], body_for(api, text("chinese", 20_000, Random("warm")))))
    for request in requests_for(api, "warm", 20):
        fetch(server.port, request)


# ── the cases ───────────────────────────────────────────────────────────────────────────────────────────────────────


class FlowCase(Case):
    """Streams without delay, on a few connections at once."""

    quick_rounds = 3

    def prepare(self, ours: ServerProcess, prepared: ServerProcess) -> None:
        self._said = completion(_LONG)
        self._request = requests_for(self.api, "flow", 1)[0]
        self._playing = Playing(self.api, self._said, self._request)
        self._playing.check(ours, prepared)
        self._answers = _CONNECTIONS if self.quick else 2 * _CONNECTIONS

    def measure(self, ours: ServerProcess, prepared: ServerProcess, round_: int) -> Samples:
        def stream(server: ServerProcess) -> tuple[float, float]:
            before = server.ask("usage")["cpu_seconds"]
            came = flow(server.port, self._request, connections=_CONNECTIONS, answers=self._answers, nap_s=NAP_S)
            cpu = server.ask("usage")["cpu_seconds"] - before
            answer = self._playing.answer
            if (came.frames, came.size_bytes) != (answer.frames * self._answers, answer.size_bytes * self._answers):
                raise WrongAnswer(f"{self.api}: {server.name} gave other events when it was timed")
            if came.busy > 0.9:
                raise WrongAnswer(
                    f"{self.api}: the client was busy all the time, so it was not the server that is timed"
                )
            tokens = self._answers * self._said.size
            return tokens / came.seconds, cpu / tokens * 1e6

        (our_rate, our_cpu), (rate, cpu) = in_turn(ours, prepared, round_, stream)
        return {f"{self.api}-events": Sample(our_rate, rate), f"{self.api}-cpu": Sample(our_cpu, cpu)}


class FirstCase(Case):
    """One stream after the other is begun while a hundred others run, each at the pace of a fast model."""

    rounds = 6

    def prepare(self, ours: ServerProcess, prepared: ServerProcess) -> None:
        self._background = Playing(self.api, completion(_LONG), requests_for(self.api, "background", 1)[0])
        self._background.check(ours, prepared)
        self._playing = Playing(self.api, completion(_SHORT), requests_for(self.api, "first", 1)[0])
        self._playing.check(ours, prepared)
        self._count = 100 if self.quick else 300

    def measure(self, ours: ServerProcess, prepared: ServerProcess, round_: int) -> Samples:
        requests = requests_for(self.api, f"first/{round_}", self._count)

        def begin(server: ServerProcess) -> list[float]:
            self._background.follow(server, holds=True, pace_s=_PACE_S)
            streams = Streams(server.port, STREAMS)
            try:
                streams.ask(requests_for(self.api, "background", STREAMS))
                streams.wait_for_first()
                self._playing.follow(server)
                seconds = streams.take_turns(server.port, requests)
                server.ask("release")
                streams.wait_for_end()
                streams.check(self._background.answer)
            finally:
                streams.close()
            return seconds

        render = render_seconds(ours, f"render/{round_}", 50)
        first, of_prepared = in_turn(ours, prepared, round_, begin)
        samples = {f"{self.api}-render": Sample(quantile(render, 0.5))}
        for name, at in ((f"{self.api}-first", 0.5), (f"{self.api}-first-99", 0.99)):
            base = quantile(of_prepared, at)
            samples[name] = Sample(quantile(first, at), base, 2 * base + quantile(render, 0.5))
        return samples


class BurstCase(Case):
    """A hundred streams are begun at once, on connections that are open already."""

    rounds = 9

    def prepare(self, ours: ServerProcess, prepared: ServerProcess) -> None:
        self._playing = Playing(self.api, completion(_SHORT), requests_for(self.api, "burst", 1)[0])
        self._playing.check(ours, prepared)

    def measure(self, ours: ServerProcess, prepared: ServerProcess, round_: int) -> Samples:
        def begin(server: ServerProcess) -> list[float]:
            streams = Streams(server.port, STREAMS)
            try:
                seconds: list[float] = []
                for turn in ("warm", "timed"):
                    self._playing.follow(server, holds=True)
                    streams.ask(requests_for(self.api, f"burst/{turn}/{round_}", STREAMS))
                    seconds = streams.wait_for_first()
                    server.ask("release")
                    streams.wait_for_end()
                streams.check(self._playing.answer, answers=2)
            finally:
                streams.close()
            return seconds

        # All of them have to be rendered by the one process, so the last waits for the renders of all.
        render = list(accumulate(render_seconds(ours, f"renders/{round_}", STREAMS)))
        first, of_prepared = in_turn(ours, prepared, round_, begin)
        samples: Samples = {}
        for name, at in ((f"{self.api}-burst", 0.5), (f"{self.api}-burst-99", 0.99)):
            base = quantile(of_prepared, at)
            samples[name] = Sample(quantile(first, at), base, 2 * base + quantile(render, at))
        return samples


class MemoryCase(Case):
    """Many streams that wait for their second token."""

    rounds = 3
    quick_rounds = 1
    needs_fresh = True

    def prepare(self, ours: ServerProcess, prepared: ServerProcess) -> None:
        self._playing = Playing(self.api, completion(_SHORT), requests_for(self.api, "memory", 1)[0])
        self._playing.check(ours, prepared)
        self._count = allowed_streams(300 if self.quick else 1000)

    def measure(self, ours: ServerProcess, prepared: ServerProcess, round_: int) -> Samples:
        def grow(server: ServerProcess) -> float:
            self._open(server, STREAMS, round_)  # what a process that has served some streams holds anyway
            before = server.ask("usage")["resident_bytes"]
            after = self._open(server, self._count, round_)
            return (after - before) / self._count

        grown, of_prepared = in_turn(ours, prepared, round_, grow)
        return {f"{self.api}-memory": Sample(grown, of_prepared)}

    def _open(self, server: ServerProcess, count: int, round_: int) -> int:
        self._playing.follow(server, holds=True)
        streams = Streams(server.port, count)
        try:
            streams.ask(requests_for(self.api, f"memory/{count}/{round_}", count))
            streams.wait_for_frames(self._playing.frames_before_hold)
            resident: int = server.ask("usage")["resident_bytes"]
            server.ask("release")
            streams.wait_for_end()
            streams.check(self._playing.answer)
        finally:
            streams.close()
        return resident


class RequestsCase(Case):
    """Short answers, whole."""

    rounds = 6

    def __init__(self, api: Api, row: str, *, quick: bool, store: bool | None = None) -> None:
        super().__init__(api, quick=quick)
        self._row = row
        self._store = store

    def prepare(self, ours: ServerProcess, prepared: ServerProcess) -> None:
        body = body_for(self.api, questions("requests", 1)[0], stream=False, store=self._store)
        self._request = make_request(_PATHS[self.api], body)
        self._playing = Playing(self.api, completion(_SHORT), self._request, is_stream=False)
        self._playing.check(ours, prepared)
        self._answers = 200 if self.quick else 1000

    def measure(self, ours: ServerProcess, prepared: ServerProcess, round_: int) -> Samples:
        def ask(server: ServerProcess) -> float:
            came = flow(server.port, self._request, connections=_CONNECTIONS, answers=self._answers)
            if came.size_bytes != self._playing.answer.size_bytes * self._answers:
                raise WrongAnswer(f"{self.api}: {server.name} gave other bytes when it was timed")
            return self._answers / came.seconds

        return {self._row: Sample(*in_turn(ours, prepared, round_, ask))}


def make_cases(*, quick: bool) -> dict[str, Case]:
    """All of them, by name."""
    cases: dict[str, Case] = {}
    apis: tuple[Api, ...] = ("responses", "chat")
    for api in apis:
        cases[f"{api}-flow"] = FlowCase(api, quick=quick)
        cases[f"{api}-first"] = FirstCase(api, quick=quick)
        cases[f"{api}-burst"] = BurstCase(api, quick=quick)
        cases[f"{api}-memory"] = MemoryCase(api, quick=quick)
    cases["responses-requests"] = RequestsCase("responses", "responses-requests", quick=quick, store=False)
    cases["responses-stored"] = RequestsCase("responses", "responses-stored", quick=quick, store=True)
    cases["chat-requests"] = RequestsCase("chat", "chat-requests", quick=quick)
    return cases


def render_seconds(ours: ServerProcess, seed: str, count: int) -> list[float]:
    """How long rendering each of so many prompts takes, in the process of the server, while it does nothing else."""
    bodies = [body_for("responses", question) for question in questions(seed, count + 1)]
    return ours.ask("render", requests=bodies)["seconds"]


def quantile(values: Sequence[float], at: float) -> float:
    return sorted(values)[min(int(at * len(values)), len(values) - 1)]


def allowed_streams(wanted: int) -> int:
    """As many as the limit on open files allows, here and in the server."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + 200
    if soft < needed:
        most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return min(wanted, soft - 200)
