"""Invariant: however many connections are held open without a key, clients with a key and health checks are answered.

    python fuzz/flood_connections.py [--connections N] [--kinds silent,half_head,no_key,slow_body] [--asks N]

Starts `harmonia serve` with an API key as a process of its own, holds N connections of each kind open, and asks for
health, readiness, the models and a response meanwhile, each on a new connection. Prints the statuses and the delays.

    silent     send nothing
    half_head  send half of the head of a request
    no_key     send requests without a key and keep the connection
    slow_body  send a request with a key and then one byte of its body
"""

from __future__ import annotations

import argparse
import os
import resource
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tests.support.servers.server_processes import server_process  # noqa: E402

HOST = b"host: localhost\r\n"
BODY = b'{"model": "demo", "input": "Hello", "store": false}'
WATCHDOG_S = 30.0


def half_head(key: bytes) -> bytes:
    return b"GET /v1/models HTTP/1.1\r\n" + HOST


def no_key(key: bytes) -> bytes:
    return b"GET /v1/models HTTP/1.1\r\n" + HOST + b"\r\n"


def slow_body(key: bytes) -> bytes:
    return post(key, 2000) + b"{"


def post(key: bytes, length: int) -> bytes:
    return (
        b"POST /v1/responses HTTP/1.1\r\n"
        + HOST
        + b"authorization: Bearer %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (key, length)
    )


KINDS: dict[str, Callable[[bytes], bytes]] = {
    "silent": lambda _: b"",
    "half_head": half_head,
    "no_key": no_key,
    "slow_body": slow_body,
}


def asks(key: bytes) -> dict[str, bytes]:
    with_key = b"authorization: Bearer %s\r\nconnection: close\r\n\r\n" % key
    return {
        "/health": b"GET /health HTTP/1.1\r\n" + HOST + b"connection: close\r\n\r\n",
        "/health with key": b"GET /health HTTP/1.1\r\n" + HOST + with_key,
        "/ready": b"GET /ready HTTP/1.1\r\n" + HOST + b"connection: close\r\n\r\n",
        "/metrics with key": b"GET /metrics HTTP/1.1\r\n" + HOST + with_key,
        "/v1/models with key": b"GET /v1/models HTTP/1.1\r\n" + HOST + with_key,
        "/v1/responses with key": post(key, len(BODY)) + BODY,
    }


def ask(address: tuple[str, int], request: bytes) -> tuple[str, float]:
    """The status, or what went wrong, and how many milliseconds it took."""
    began = time.perf_counter()
    try:
        with socket.create_connection(address, WATCHDOG_S) as connected:
            connected.sendall(request)
            said = connected.recv(65536)
        status = said.split(b" ", 2)[1].decode() if said.startswith(b"HTTP/1.1 ") else "closed"
    except OSError as error:
        status = type(error).__name__
    return status, (time.perf_counter() - began) * 1000


def hold(address: tuple[str, int], number: int, first: bytes) -> list[socket.socket]:
    held: list[socket.socket] = []
    for _ in range(number):
        try:
            connected = socket.create_connection(address, WATCHDOG_S)
            held.append(connected)
            if first:
                connected.sendall(first)
        except OSError:
            continue
    return held


def count_open(held: list[socket.socket]) -> int:
    """How many the server has not closed."""
    is_open = 0
    for connected in held:
        connected.setblocking(False)
        try:
            while said := connected.recv(65536):
                pass
            is_open += bool(said)
        except BlockingIOError:
            is_open += 1
        except OSError:
            pass
    return is_open


def memory_of(process: subprocess.Popen[str]) -> str:
    status = Path(f"/proc/{process.pid}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((line.split()[1] for line in lines if line.startswith("VmRSS")), "?")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=1100)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--asks", type=int, default=20)
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, options.connections + 1000), hard))
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keys = folder / "keys.json"
        made = [sys.executable, "-m", "harmonia", "keys", "new", "flood", "--file", str(keys)]
        key = subprocess.run(made, capture_output=True, check=True, env=os.environ).stdout.strip()
        for kind in options.kinds.split(","):
            with server_process("--api-key-file", str(keys), folder=folder) as server:
                parts = urlsplit(server.url)
                address = (parts.hostname or "", parts.port or 0)
                ask(address, asks(key)["/v1/responses with key"])  # the first one loads what is needed
                held = hold(address, options.connections, KINDS[kind](key))
                select.select([], [], [], 0.5)
                print(f"{kind}: {options.connections} connections, server {memory_of(server.process)} KiB", flush=True)
                for what, request in asks(key).items():
                    answers = [ask(address, request) for _ in range(options.asks)]
                    delays = sorted(delay for _, delay in answers)
                    statuses = Counter(status for status, _ in answers)
                    failed += statuses["200"] != options.asks
                    figures = f"median {delays[len(delays) // 2]:.1f} ms, most {delays[-1]:.1f} ms"
                    print(f"  {what:24} {dict(statuses)}  {figures}")
                print(f"  held open: {count_open(held)} of {options.connections}", flush=True)
                for connected in held:
                    connected.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
