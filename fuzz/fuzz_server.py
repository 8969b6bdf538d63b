"""Invariant: whatever a client sends, the server answers, never with a 500, in the one error shape, and goes on.

    python fuzz/fuzz_server.py [--requests N] [--seconds S] [--seed N]

Requests that are right are changed where their structure is: types are swapped, fields left out, doubled and made up,
numbers and nestings made huge, schemas made to loop and to explode, names made strange; then the bytes and the headers.
The application is asked without a socket. After every hundred requests it must still be healthy and answer a usual one;
a request that takes longer than the watchdog is a hang; memory must stay bounded. Beside all of it, /health is asked
for all the time, and must not wait for long. Prints how many requests there were, and the worst delay of /health.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import faulthandler
import io
import json
import random
import resource
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from freezing_inputs import FREEZING  # noqa: E402
from health_watch import HealthWatch  # noqa: E402
from strange_requests import (  # noqa: E402
    HARMONY,
    HEADERS,
    LOOPS,
    METHODS,
    NAMES,
    PATHS,
    PATTERNS,
    STRANGE,
    exploding,
    nested,
)
from tests.support.engines.scripted import ScriptedEngine, calls, final, say, think  # noqa: E402
from tests.support.servers.full_requests import CHAT, FULL_CHAT, FULL_REQUESTS, FULL_RESPONSE, RESPONSES  # noqa: E402
from tests.support.servers.http_servers import Answer  # noqa: E402
from tests.support.servers.in_process import application, ask  # noqa: E402

from harmonia.errors import ErrorCode  # noqa: E402
from harmonia.run.engines import Chunk, Finish, Request  # noqa: E402
from harmonia.run.engines.demo import DemoEngine  # noqa: E402
from harmonia.serve.config.settings import Limits  # noqa: E402
from harmonia.serve.http.telemetry import configure, withdraw  # noqa: E402
from harmonia.serve.wire.error_responses import _TABLE  # noqa: E402  # pyright: ignore[reportPrivateUsage]
from harmonia.vocabulary import MESSAGE, default_vocabulary  # noqa: E402

# Against a hang. A request of these takes milliseconds.
WATCHDOG_S = 60
# How much may be computed while /health waits beside all of this. Not the time by the clock: the machine may be busy.
# Whatever truly stops the process without computing is a hang for the watchdog.
MOST_HEALTH_CPU_S = 3.0
# How much more memory than at the beginning the process may come to hold. Bodies here are some megabytes at most.
MORE_BYTES = 1_500 * 1024 * 1024
CODES = {code.value for code in ErrorCode} | {row[2] for row in _TABLE.values() if row[2] is not None}
# The demo answers behind a result of a tool, whatever is demanded. It is a fault of the model's, and told as one.
DEMAND_NOT_MET = "tool_choice_not_met"
# Neither of the two knows what form an answer, or the arguments of a strict tool, should have.
FORM_NOT_MET = "form_not_met"

Mutation = Callable[[random.Random, Any], Any]


class Found(Exception):
    """What breaks the invariant."""


# ── changes of values ───────────────────────────────────────────────────────────────────────────────────────────────


def places_of(value: Any) -> list[tuple[Any, Any]]:
    """Every (holder, key) in a value."""
    found: list[tuple[Any, Any]] = []
    todo = [value]
    while todo:
        holder = todo.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        for key in keys:
            found.append((holder, key))
            todo.append(holder[key])
    return found


def swap(rng: random.Random, body: Any) -> Any:
    holder, key = rng.choice(places_of(body))
    holder[key] = copy.deepcopy(rng.choice(STRANGE))
    return body


def exchange(rng: random.Random, body: Any) -> Any:
    """What stands in one place, in another."""
    holder, key = rng.choice(places_of(body))
    other, name = rng.choice(places_of(body))
    holder[key] = copy.deepcopy(other[name])
    return body


def leave_out(rng: random.Random, body: Any) -> Any:
    holder, key = rng.choice(places_of(body))
    del holder[key]
    return body


def make_up(rng: random.Random, body: Any) -> Any:
    holder = rng.choice([body, *(holder for holder, _ in places_of(body) if isinstance(holder, dict))])
    holder[rng.choice([*NAMES, "stream", "tools", "type", "id", "background", "tokens", "n"])] = copy.deepcopy(
        rng.choice(STRANGE)
    )
    return body


def repeat(rng: random.Random, body: Any) -> Any:
    lists = [each for holder, key in places_of(body) if isinstance(each := holder[key], list) and each]
    if lists:
        chosen = rng.choice(lists)
        chosen.insert(rng.randrange(len(chosen) + 1), copy.deepcopy(rng.choice(chosen)))
    return body


def shuffle(rng: random.Random, body: Any) -> Any:
    lists = [each for holder, key in places_of(body) if isinstance(each := holder[key], list) and len(each) > 1]
    if lists:
        rng.shuffle(rng.choice(lists))
    return body


def many_tools(rng: random.Random, body: Any) -> Any:
    number = rng.choice([500, 512, 513, 10_000])
    is_chat = "messages" in body
    made = [{"name": f"tool_{at}", "parameters": {"type": "object"}} for at in range(number)]
    body["tools"] = [
        {"type": "function", "function": each} if is_chat else {"type": "function", **each} for each in made
    ]
    return body


def schema(rng: random.Random, body: Any) -> Any:
    """A schema that is hard, where schemas are."""
    hard = copy.deepcopy(
        rng.choice(
            [
                *LOOPS,
                exploding(rng.choice([5, 16, 64, 400])),
                nested(60, is_list=False),
                *({"type": "object", "properties": {"x": {"type": "string", "pattern": each}}} for each in PATTERNS),
                {"type": "object", "properties": {name: {"type": "string"} for name in NAMES}},
                {"type": "object", "description": "d" * 300_000},
            ]
        )
    )
    homes = [(holder, key) for holder, key in places_of(body) if key in ("parameters", "schema", "output_schema")]
    if homes:
        holder, key = rng.choice(homes)
        holder[key] = hard
    return body


def streamed(rng: random.Random, body: Any) -> Any:
    body["stream"] = True
    return body


MUTATIONS: list[Mutation] = [
    swap,
    swap,
    swap,
    exchange,
    leave_out,
    leave_out,
    make_up,
    repeat,
    shuffle,
    schema,
    schema,
    streamed,
]
RARE: list[Mutation] = [many_tools]

# ── changes of bytes ────────────────────────────────────────────────────────────────────────────────────────────────


def spoil(rng: random.Random, data: bytes) -> bytes:
    """JSON that two programs would read in two ways, or none."""
    at = rng.randrange(len(data) + 1)
    match rng.randrange(14):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + bytes([rng.randrange(256)]) + data[at:]
        case 2:
            return data.replace(b'"model"', b'"model": "script", "model"', 1)
        case 3:
            return data.replace(b'"content"', b'"content": "twice", "content"', 1)
        case 4:
            return data.replace(
                b'"Hello"',
                rng.choice([b'"\\ud800"', b'"\\udfff\\ud800"', b'"\\u0000"', b'"\xff"', b'"\xed\xa0\x80"']),
                1,
            )
        case 5:
            return data.replace(
                b"}",
                rng.choice([b', "x": NaN}', b', "x": -Infinity}', b', "x": 1e999}', b', "x": ' + b"9" * 5000 + b"}"]),
                1,
            )
        case 6:
            return b"[" * rng.choice([10, 65, 1000, 200_000]) + data
        case 7:
            return b'{"a":' * rng.choice([10, 65, 5000]) + b"1" + b"}" * rng.choice([0, 10, 65, 5000])
        case 8:
            return rng.choice([b"\xef\xbb\xbf", b"\xff\xfe", b" ", b"\n\n"]) + data
        case 9:
            return data + rng.choice([data, b"x", b"\x00", b" ", b"]", b"}"])
        case 10:
            return data[: at // 2] + data[at:]
        case 11:
            return bytes(rng.randrange(256) for _ in range(rng.randrange(200)))
        case 12:
            return rng.choice([b"", b"null", b"0", b'""', b"[]", b"{}", b"true", b"-", b'"', b"{", b"1" * 400])
        case _:
            return data.decode().encode(rng.choice(["utf-16", "utf-32", "latin-1", "utf-7"]), "replace")


# ── the fuzzer ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Fuzzer:
    def __init__(self, app: Any, seed: int, *, is_demo: bool = False) -> None:
        self._app = app
        self._is_demo = is_demo
        self.not_met = 0
        self._rng = random.Random(seed)
        self._memory = _memory()
        self.requests = 0
        self.statuses: Counter[int] = Counter()
        self.health_delays_s = (0.0, 0.0)
        stored = {**FULL_RESPONSE, "store": True}
        self._bodies: list[tuple[str, Any]] = [
            *FULL_REQUESTS.values(),
            (RESPONSES, stored),
            *HARMONY,
            *HARMONY,
            (
                "/v1/responses/input_tokens",
                {
                    key: each
                    for key, each in FULL_RESPONSE.items()
                    if key in ("model", "input", "tools", "instructions")
                },
            ),
            (RESPONSES, {"input": "Hello", "stream": True}),
            (CHAT, {"model": "script", "messages": FULL_CHAT["messages"][-1:], "n": 2, "stream": True}),
            (
                RESPONSES,
                {"input": "Hello", "previous_response_id": "resp_x", "truncation": "auto", "max_output_tokens": 5},
            ),
        ]

    async def freeze(self) -> None:
        """What once held the server up. All at once, as others would send it."""
        bodies = await asyncio.to_thread(lambda: [json.dumps(body).encode() for _, body in FREEZING.values()])
        paths = [path for path, _ in FREEZING.values()]
        await asyncio.gather(*(self.send("POST", path, body) for path, body in zip(paths, bodies, strict=True)))

    async def run(self, requests: int | None, seconds: float | None) -> None:
        until = None if seconds is None else time.monotonic() + seconds
        while (requests is None or self.requests < requests) and (until is None or time.monotonic() < until):
            await self.one()
            if self.requests % 100 == 0:
                await self.look()
        await self.look()

    async def one(self) -> None:
        rng = self._rng
        headers: list[tuple[bytes, bytes]] = []
        if rng.random() < 0.15:
            for name, values in rng.sample(HEADERS, rng.randint(1, 3)):
                headers.append((name, rng.choice(values)))
        if rng.random() < 0.1:
            method, path, data = rng.choice(METHODS), rng.choice(PATHS), None
        else:
            path, body = rng.choice(self._bodies)
            method = "POST" if rng.random() < 0.98 else rng.choice(METHODS)
            # In a thread, as clients make theirs elsewhere: a body of megabytes would hold up /health here.
            data = await asyncio.to_thread(self._changed, copy.deepcopy(body))
        await self.send(method, path, data, headers, pieces=rng.choice([1, 1, 1, 7, 50]))

    def _changed(self, body: Any) -> bytes:
        rng = self._rng
        chosen = rng.choices(MUTATIONS, k=rng.choice([0, 1, 1, 1, 2, 3, 6])) + (
            rng.choices(RARE) if rng.random() < 0.01 else []
        )
        for mutation in chosen:
            if isinstance(body, dict) and places_of(body):
                body = mutation(rng, body)
        try:
            data = json.dumps(body, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
        except ValueError:
            data = b"{}"  # it came to hold itself
        return spoil(rng, data) if rng.random() < 0.15 else data

    async def send(self, method: str, path: str, data: bytes | None, headers: Any = (), *, pieces: int = 1) -> Answer:
        self.requests += 1
        faulthandler.dump_traceback_later(WATCHDOG_S, exit=True)
        try:
            answer = await ask(self._app, method, path, data, headers, pieces=pieces)
        except Exception as error:
            raise Found(f"{type(error).__name__}: {error}\n{_told(method, path, data, headers)}") from error
        finally:
            faulthandler.cancel_dump_traceback_later()
        models_faults = (FORM_NOT_MET, DEMAND_NOT_MET) if self._is_demo else (FORM_NOT_MET,)
        if answer.status == 500 and method != "HEAD" and _code(answer) in models_faults:
            self.not_met += 1
            return answer
        self.statuses[answer.status] += 1
        wrong = _wrong_with(answer, method)
        if wrong is not None:
            raise Found(f"{wrong}: {answer.status} {answer.body[:500]!r}\n{_told(method, path, data, headers)}")
        return answer

    async def look(self) -> None:
        """Is it still there?"""
        for method, path, body in (
            ("GET", "/health", None),
            ("POST", RESPONSES, b'{"input": "Hello", "store": false}'),
            ("POST", CHAT, b'{"model": "script", "messages": [{"role": "user", "content": "Hi"}], "stream": true}'),
        ):
            answer = await self.send(method, path, body)
            if answer.status != 200:
                raise Found(f"a usual request is answered with {answer.status}: {answer.body[:500]!r}")
        grown = _memory() - self._memory
        if grown > MORE_BYTES:
            raise Found(f"{grown:,} bytes more of memory than at the beginning")


def _wrong_with(answer: Answer, method: str) -> str | None:
    if answer.status >= 500:
        return "a fault of the server"
    if "x-request-id" not in answer.headers:
        return "an answer without an id"
    if answer.status >= 400 and method != "HEAD":
        try:
            error = answer.json["error"]
            is_right = {"message", "type", "param", "code"} <= set(error) and isinstance(error["message"], str)
        except (ValueError, KeyError, TypeError):
            is_right = False
        if not is_right:
            return "another shape of error"
        if _code(answer) not in CODES:
            return "an unknown code"
    elif 300 <= answer.status < 400:
        return "a redirection"
    if answer.status == 200 and answer.headers.get("content-type", "").startswith("text/event-stream"):
        return _wrong_with_stream(answer.body)
    return None


def _wrong_with_stream(body: bytes) -> str | None:
    frames = [frame for frame in body.split(b"\n\n") if frame]
    for frame in frames:
        data = frame.rpartition(b"data: ")[2]
        if data != b"[DONE]" and not isinstance(json.loads(data), dict):
            return "a strange event"
    ends = [b"event: response.completed", b"event: response.incomplete", b"event: response.failed", b"event: error"]
    if body.startswith(b"event:") and sum(frame.startswith(tuple(ends)) for frame in frames) != 1:
        return "not one terminal event"
    return "a bug in a stream" if b'"server_error"' in body else None


def _code(answer: Answer) -> object:
    try:
        return answer.json["error"]["code"]
    except (ValueError, KeyError, TypeError):
        return None  # which is wrong with it, and looked at for all answers


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _told(method: str, path: str, data: bytes | None, headers: Any) -> str:
    with tempfile.NamedTemporaryFile(prefix="fuzz-server-", suffix=".json", delete=False) as file:
        file.write(data or b"")
    return f"{method} {path} {headers!r}, body in {file.name}: {(data or b'')[:1500]!r}"


class ObedientEngine(ScriptedEngine):
    """It thinks, says something, calls tools, and is damaged at times; but where a call is demanded it calls."""

    model = "script"

    def __init__(self) -> None:
        super().__init__(
            *(think("x") + final("{}"), final("Hello"), think("x") + calls("get_weather", '{"city": "Paris"}')),
            *("<|channel|>nothing", "", calls("write_code", "x = 1"), "assistantfinal" + final("{}"), final("{}")),
            chunk=3,
        )

    async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        demanded = request.tool_choice
        if demanded == "required":
            demanded = next(tool.name for tool in request.tools if "." in tool.name)
        if demanded in ("auto", "none"):
            async for event in super().generate(prompt, request):
                yield event
            return
        # At a second attempt, the header is there already.
        header = "" if prompt[-1] == MESSAGE else f"<|channel|>commentary to={demanded} <|constrain|>json<|message|>"
        yield Chunk(say(f"{header}{{}}<|call|>"))
        yield Finish("stop")


class _Tail(io.StringIO):
    """The end of a log. Its lines are made as those of a server are."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: deque[str] = deque(maxlen=8)

    def write(self, text: str, /) -> int:
        self.lines.append(text)
        return len(text)


async def fuzz(requests: int | None, seconds: float | None, seed: int, *, is_demo: bool = False) -> Fuzzer:
    with tempfile.TemporaryDirectory() as folder:
        # A small limit shows what is above it without sending it.
        async with application(
            DemoEngine("script") if is_demo else ObedientEngine(),
            Path(folder),
            limits=Limits(body_bytes=4 * 1024 * 1024),
        ) as (app, service):
            fuzzer = Fuzzer(app, seed, is_demo=is_demo)
            log = _Tail()
            handler = configure(service.settings, log)
            # A server loads its tokenizer before it listens.
            await asyncio.to_thread(default_vocabulary().encode, "é" * 1000)
            try:
                async with HealthWatch(app) as watch:
                    await fuzzer.freeze()
                    await fuzzer.run(requests, seconds)
                fuzzer.health_delays_s = (watch.worst_s, watch.worst_cpu_s)
            except Found:
                print("".join(log.lines), file=sys.stderr)
                raise
            finally:
                withdraw(handler)
            return fuzzer


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--requests", type=int)
    options.add_argument("--seconds", type=float)
    options.add_argument("--seed", type=int, default=None)
    given = options.parse_args()
    if given.requests is None and given.seconds is None:
        given.requests = 2000
    seed = random.randrange(2**32) if given.seed is None else given.seed
    print(f"fuzz: seed {seed}", flush=True)
    statuses: Counter[int] = Counter()
    not_met, worst_health_s, worst_health_cpu_s = 0, 0.0, 0.0
    # Half of it in front of a script, half in front of the demo, which reads the schemas as well.
    for is_demo in (False, True):
        share = (given.requests and given.requests // 2, given.seconds and given.seconds / 2)
        try:
            fuzzer = asyncio.run(fuzz(*share, seed, is_demo=is_demo))
        except Found as found:
            sys.exit(f"fuzz: {found}")
        statuses += fuzzer.statuses
        worst_health_s = max(worst_health_s, fuzzer.health_delays_s[0])
        worst_health_cpu_s = max(worst_health_cpu_s, fuzzer.health_delays_s[1])
        not_met += fuzzer.not_met
    print("fuzz: statuses " + ", ".join(f"{status}: {count:,}" for status, count in sorted(statuses.items())))
    print(f"fuzz: {not_met:,} times what was demanded was not met, which is the model's fault")
    print(f"fuzz: {sum(statuses.values()) + not_met:,} requests, {statuses[500]} answers of 500")
    print(f"fuzz: /health waited {worst_health_s:.2f} s at worst, {worst_health_cpu_s:.2f} s of CPU")
    if worst_health_cpu_s > MOST_HEALTH_CPU_S:
        sys.exit(f"fuzz: /health waited for longer than {MOST_HEALTH_CPU_S} s of CPU")


if __name__ == "__main__":
    main()
