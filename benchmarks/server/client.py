"""A client that reads bytes and counts: raw sockets, one thread, no HTTP library, so that it is never the slower
end."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter, process_time, sleep
from typing import Any

Json = dict[str, Any]

_BUFFER = 1 << 20
_END_OF_HEAD = b"\r\n\r\n"
_END_OF_CHUNKS = b"0\r\n\r\n"
# A client that wakes for every event makes each write of the server dearer, and becomes the slower end itself. So where
# rates are measured, it lets bytes collect; a thousandth of a second's are far from filling a socket's buffer.
NAP_S = 0.001
# A hang is a fault of somebody's, and is reported as one.
_PATIENCE_S = 60.0


class WrongAnswer(Exception):
    """A server did not give what it should."""


def make_request(path: str, body: Json) -> bytes:
    """A request with the headers that an SDK sends."""
    data = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: keep-alive\r\naccept: application/json\r\n"
        f"content-type: application/json\r\nuser-agent: OpenAI/Python 2.0.0\r\nauthorization: Bearer none\r\n"
        f"accept-encoding: identity\r\ncontent-length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


@dataclass(frozen=True)
class Answer:
    """One whole answer: its headers, and the pieces of its body as they were sent, or the body as one piece."""

    headers: list[tuple[bytes, bytes]]
    pieces: list[bytes]
    size_bytes: int  # on the wire

    @property
    def frames(self) -> int:
        """The server-sent events."""
        return sum(piece.count(b"\n\n") for piece in self.pieces)


class Connection:
    """A connection that counts what it reads. `first_at` is when the first byte of a body came."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.frames = 0
        self.size_bytes = 0
        self.sent_at = 0.0
        self.first_at: float | None = None
        self.is_over = True
        self._tail = b""
        self._head: bytes | None = b""
        self._left: int | None = None

    def send(self, request: bytes) -> None:
        self._head, self._left, self._tail = b"", None, b""
        self.first_at = None
        self.is_over = False
        self.sent_at = perf_counter()
        self.socket.sendall(request)

    def take(self, data: bytes | memoryview) -> None:
        """What has arrived."""
        if not data:
            raise WrongAnswer("the server closed the connection in the middle of an answer")
        self.size_bytes += len(data)
        data = bytes(data)
        if self._head is not None:
            self._head += data
            head, end, data = self._head.partition(_END_OF_HEAD)
            if not end:
                return
            if b" 200 " not in head[:16]:
                raise WrongAnswer(f"the server answered {head[:200]!r} {data[:400]!r}")
            self._head = None
            _, is_there, length = head.lower().partition(b"content-length: ")
            if is_there:
                self._left = int(length.partition(b"\r\n")[0])
        if not data:
            return
        if self.first_at is None:
            self.first_at = perf_counter()
        if self._left is not None:
            self._left -= len(data)
            self.is_over = self._left == 0
            return
        # A server-sent event ends with two ends of line, and nothing else has them: JSON has none, and HTTP has \r\n.
        self.frames += data.count(b"\n\n") + (self._tail[-1:] == b"\n" and data[:1] == b"\n")
        self._tail = (self._tail + data)[-len(_END_OF_CHUNKS) :] if len(data) < 8 else data[-len(_END_OF_CHUNKS) :]
        self.is_over = self._tail == _END_OF_CHUNKS

    def close(self) -> None:
        self.socket.close()


class Poll:
    """Reads whatever arrives on some connections."""

    def __init__(self, connections: Sequence[Connection]) -> None:
        self._by_number = {connection.socket.fileno(): connection for connection in connections}
        self._epoll = select.epoll()
        self._buffer = bytearray(_BUFFER)
        self._view = memoryview(self._buffer)
        for number in self._by_number:
            self._epoll.register(number, select.EPOLLIN)

    def read(self, timeout_s: float = _PATIENCE_S) -> list[Connection]:
        """The connections that something arrived on; none where nothing did within the time."""
        found: list[Connection] = []
        for number, _ in self._epoll.poll(timeout_s):
            connection = self._by_number[number]
            connection.take(self._view[: connection.socket.recv_into(self._buffer)])
            found.append(connection)
        return found

    def read_some(self) -> list[Connection]:
        found = self.read()
        if not found:
            raise WrongAnswer(f"nothing arrived for {_PATIENCE_S:g} seconds")
        return found

    def close(self) -> None:
        self._epoll.close()


@dataclass(frozen=True)
class Flow:
    """What came of many answers, and how long it took. `busy` is the client's share of one core."""

    seconds: float
    frames: int
    size_bytes: int
    busy: float


def fetch(port: int, request: bytes) -> Answer:
    """One answer, kept."""
    connection = Connection(port)
    try:
        connection.send(request)
        data = b""
        while not connection.is_over:
            piece = connection.socket.recv(_BUFFER)
            connection.take(piece)
            data += piece
    finally:
        connection.close()
    head, _, body = data.partition(_END_OF_HEAD)
    headers = [tuple(line.split(b": ", 1)) for line in head.split(b"\r\n")[1:]]
    pairs = [(name, value) for name, value in headers]
    is_chunked = any(name.lower() == b"transfer-encoding" for name, _ in pairs)
    return Answer(pairs, _pieces(body) if is_chunked else [body], len(data))


def _pieces(body: bytes) -> list[bytes]:
    pieces: list[bytes] = []
    at = 0
    while True:
        end = body.index(b"\r\n", at)
        size = int(body[at:end], 16)
        if not size:
            return pieces
        pieces.append(body[end + 2 : end + 2 + size])
        at = end + 2 + size + 2


def flow(port: int, request: bytes, *, connections: int, answers: int, nap_s: float = 0.0) -> Flow:
    """Ask `answers` times, on so many connections at once, each of which asks again when it has its answer.
    With `nap_s`, the client sleeps before it reads."""
    opened = [Connection(port) for _ in range(connections)]
    poll = Poll(opened)
    try:
        began, began_cpu = perf_counter(), process_time()
        asked = done = 0
        for connection in opened:
            connection.send(request)
            asked += 1
        while done < answers:
            if nap_s:
                sleep(nap_s)
            for connection in poll.read_some():
                if connection.is_over:
                    done += 1
                    if asked < answers:
                        connection.send(request)
                        asked += 1
        seconds, cpu = perf_counter() - began, process_time() - began_cpu
    finally:
        poll.close()
        for connection in opened:
            connection.close()
    return Flow(
        seconds,
        sum(each.frames for each in opened),
        sum(each.size_bytes for each in opened),
        cpu / seconds,
    )


class Streams:
    """Streams that are open at the same time."""

    def __init__(self, port: int, count: int) -> None:
        self._opened = [Connection(port) for _ in range(count)]
        self._poll = Poll(self._opened)

    def ask(self, requests: Sequence[bytes]) -> None:
        """One request on each connection, as close together as can be."""
        for connection, request in zip(self._opened, requests, strict=True):
            connection.send(request)

    def wait_for_first(self) -> list[float]:
        """Until each has got an event: how long each took."""
        return self._wait(lambda connection: connection.first_at is not None)

    def wait_for_frames(self, count: int) -> None:
        """Until each has got so many events since it was opened."""
        self._wait(lambda connection: connection.frames >= count)

    def wait_for_end(self) -> None:
        """Until each has its whole answer."""
        self._wait(lambda connection: connection.is_over)

    def take_turns(self, port: int, requests: Sequence[bytes]) -> list[float]:
        """While these go on, ask on another connection, once after the other: how long the first event took."""
        probe = Connection(port)
        poll = Poll([*self._opened, probe])
        seconds: list[float] = []
        try:
            for request in requests:
                probe.send(request)
                while not probe.is_over:
                    poll.read_some()
                assert probe.first_at is not None
                seconds.append(probe.first_at - probe.sent_at)
                poll.read(0.0)
        finally:
            poll.close()
            probe.close()
        return seconds

    def _wait(self, is_there: Callable[[Connection], bool]) -> list[float]:
        waiting = {id(connection) for connection in self._opened if not is_there(connection)}
        while waiting:
            for connection in self._poll.read_some():
                if is_there(connection):
                    waiting.discard(id(connection))
        return [(connection.first_at or 0.0) - connection.sent_at for connection in self._opened]

    def check(self, answer: Answer, answers: int = 1) -> None:
        """Each has got this answer, so many times."""
        for connection in self._opened:
            if connection.frames != answer.frames * answers:
                raise WrongAnswer(f"a stream had {connection.frames} events in place of {answer.frames * answers}")

    def close(self) -> None:
        self._poll.close()
        for connection in self._opened:
            connection.close()
