"""The process that `tests.support.commands` forks `harmonia` commands from: it loads Harmonia once, and runs nothing.

Each request names the arguments, the environment and the folder of a command, and brings its files. A fork of a fork
becomes the command; the fork between them waits for it and reports its process id and its exit code.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import sys
import termios
import time
from typing import Any

_MOST_FILES = 5
# What Harmonia imports only when it is needed. Not numpy, which starts threads.
LOADED_LATER = (
    *("cryptography.hazmat.primitives.ciphers.aead", "jsonschema", "mcp", "prompt_toolkit", "tiktoken"),
    *("uvicorn.protocols.http.httptools_impl", "uvloop"),
)


def load() -> None:
    """Import what commands import. Nothing is run: a thread would not be there in a fork."""
    import harmonia

    for module in pkgutil.walk_packages(harmonia.__path__, "harmonia."):
        # A real engine loads torch; the command itself is run by each fork.
        if "transformers" not in module.name and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in LOADED_LATER:
        importlib.import_module(name)


def receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]]:
    data, files, _, _ = socket.recv_fds(channel, 65536, _MOST_FILES)
    while data and not data.endswith(b"\n"):
        data += channel.recv(65536)
    if not data:
        raise SystemExit(0)
    return json.loads(data), files


def serve(channel: socket.socket) -> None:
    """Fork, until there is nobody to fork for. Returns in the commands."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks between
    while True:
        request, files = receive(channel)
        if os.fork() == 0:
            break
        for file in files:
            os.close(file)
    channel.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    report = files.pop(3)
    command = os.fork()
    if command == 0:
        os.close(report)
        become(request, files)
        return
    for file in files:
        os.close(file)
    os.write(report, f"{command}\n".encode())
    _, status = os.waitpid(command, 0)
    os.write(report, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def become(request: dict[str, Any], files: list[int]) -> None:
    if request["new_session"]:
        os.setsid()
    if len(files) > 3:
        # The terminal must be the process's own, so that Ctrl-C reaches it as a signal; and it stays open.
        fcntl.ioctl(files[3], termios.TIOCSCTTY, 0)
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 -- as long as the process
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.argv = ["harmonia", *request["arguments"]]


if __name__ == "__main__":
    load()
    gc.collect()
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])))
    from harmonia.cli import main

    main()
