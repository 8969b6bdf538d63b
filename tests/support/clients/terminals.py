"""`harmonia` in a real terminal: a pseudo-terminal, keys, and what is on the screen; and engines with a script."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from harmonia import encode
from tests.support import commands
from tests.support.commands import Command, environment_of
from tests.support.watchdog import WATCHDOG_S

CTRL_C, CTRL_D, ENTER = "\x03", "\x04", "\r"
NEVER_S = 1e6  # a time of a script that does not come

_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[()=>][0-9A-Za-z]?)")


def environment(state: Path, **more: str) -> dict[str, str]:
    # A terminal that nobody plays does not say where its cursor is.
    return environment_of(state, TERM="xterm", PROMPT_TOOLKIT_NO_CPR="1", **more)


def run(
    arguments: Sequence[str], state: Path, stdin: str | bytes = "", **more: str
) -> subprocess.CompletedProcess[str]:
    """`harmonia` without a terminal."""
    return commands.run(arguments, environment(state, **more), stdin)


def chat(state: Path, *arguments: str, stdin: str | bytes = "", **more: str) -> subprocess.CompletedProcess[str]:
    """`harmonia chat` with the demo engine, without a terminal."""
    return run(["chat", "-m", "demo", *arguments], state, stdin, **more)


def chat_json(state: Path, *arguments: str, stdin: str = "") -> dict[str, Any]:
    return json.loads(chat(state, "--json", *arguments, stdin=stdin).stdout)


def start(arguments: Sequence[str], state: Path) -> Command:
    """`harmonia` without a terminal, while it runs."""
    return Command(arguments, environment(state), new_session=True)


class Terminal:
    """`harmonia` in a terminal of its own. `with` ends it.

    What is `piped` comes on stdin in place of the keys, and `stderr` may be a file: the terminal is there all the same.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        state: Path,
        stdout: IO[bytes] | None = None,
        without: str = "",
        piped: bytes | None = None,
        stderr: IO[bytes] | None = None,
        **more: str,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        self._process = Command(
            arguments,
            environment(state, **more),
            stdin=slave if piped is None else subprocess.PIPE,
            stdout=slave if stdout is None else stdout.fileno(),
            stderr=slave if stderr is None else stderr.fileno(),
            terminal=slave,
            new_session=True,
            # An extra that is not installed.
            first=f"import sys; sys.modules[{without!r}] = None" if without else "",
        )
        os.close(slave)
        if piped is not None:
            assert self._process.stdin is not None
            with self._process.stdin as stdin:
                stdin.write(piped.decode())
        self.raw = b""
        self._seen = 0

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.__exit__()
        os.close(self._master)

    @property
    def text(self) -> str:
        """All that was written, without the terminal's own sequences."""
        return _ESCAPE.sub("", self.raw.decode(errors="replace")).replace("\r", "")

    def until(self, wanted: str) -> str:
        """Wait for a text behind the last one that was waited for; what was written up to it."""
        deadline = time.monotonic() + WATCHDOG_S
        while (at := self.text.find(wanted, self._seen)) < 0:
            assert self._read(deadline), f"no {wanted!r} behind {self.text[self._seen :]!r}; before: {self.text!r}"
        found, self._seen = self.text[self._seen : at], at + len(wanted)
        return found

    def type(self, keys: str) -> None:
        data = keys.encode()
        while data:
            data = data[os.write(self._master, data) :]

    def ask(self, line: str) -> None:
        """Type a line at the prompt."""
        self.until_prompt()
        self.type(line + ENTER)

    def until_prompt(self) -> None:
        """Wait for the prompt. The editor moves the cursor instead of writing the space behind it."""
        self.until("\n>")

    def end(self) -> int:
        """Wait for the end; the exit code."""
        deadline = time.monotonic() + WATCHDOG_S
        while self._read(deadline):
            pass
        return self._process.wait()

    def _read(self, deadline: float) -> bool:
        readable, _, _ = select.select([self._master], [], [], max(deadline - time.monotonic(), 0))
        if not readable:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # so Linux says that nobody has the other side any more
            return False
        self.raw += data
        return bool(data)


# ── scripts ─────────────────────────────────────────────────────────────────────────────────────────────────────────

Said = str | tuple[float, str]  # a text, and when it comes


def script(path: Path, *runs: Sequence[Said], text: bool = False, error: Mapping[str, Any] | None = None) -> list[str]:
    """The options that name an engine which says these completions, special tokens spelled out, whatever it is asked.

    `text` is for an engine without token ids; `error` is how the last run ends.
    """
    traits = {"takes_tokens": not text, "gives_tokens": not text}
    lines: list[dict[str, Any]] = [
        {"type": "capture", "version": 1, "engine": "scripted", "model": "script", "traits": traits}
    ]
    for number, said in enumerate(runs):
        lines.append({"type": "run", "run": number, "prompt": [], "request": {}})
        at_s = 0.0
        for each in said:
            at_s, words = each if isinstance(each, tuple) else (at_s, each)
            what = {"text": words} if text else {"tokens": encode(words, special="all")}
            lines.append({"type": "chunk", "run": number, "at_s": at_s, **what})
        if error is not None and number == len(runs) - 1:
            lines.append({"type": "error", "run": number, "at_s": at_s, "at": {}, **error})
        else:
            lines.append({"type": "finish", "run": number, "at_s": at_s, "reason": "stop", "usage": None, "notes": []})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return ["-m", f"replay:{path}", "-o", "strict", "false", "-o", "timing", "recorded"]
