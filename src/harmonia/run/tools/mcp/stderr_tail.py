"""What a server writes to its standard error: the last `LIMIT_BYTES` of it are kept for error messages."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Final, TextIO

from harmonia.run.tools.mcp.sanitized_text import readable

LIMIT_BYTES: Final = 16_384
_READ_BYTES: Final = 65_536


class Complaints:
    """A pipe whose one end is `file`, for the server. The running event loop reads the other end."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._loop = asyncio.get_running_loop()
        self._reading, writing = os.pipe()
        os.set_blocking(self._reading, False)
        self.file: TextIO = os.fdopen(writing, "w")
        try:
            self._loop.add_reader(self._reading, self._read)
        except NotImplementedError:
            # The default loop of Windows reads no pipes this way. A pipe that nobody empties would block the server.
            self.file.close()
            self.file = open(os.devnull, "w")  # noqa: SIM115 - closed in `close`

    @property
    def text(self) -> str:
        """The last of what was written."""
        # What a dying server wrote may be in the pipe still.
        while self._read():
            pass
        return readable(self._kept.decode(errors="replace")).strip()

    def close(self) -> None:
        """Closes both ends; what was read stays."""
        if self._reading < 0:
            return
        while self._read():
            pass
        with suppress(NotImplementedError):
            self._loop.remove_reader(self._reading)
        os.close(self._reading)
        self._reading = -1
        self.file.close()

    def _read(self) -> bool:
        """Takes what is there, once; whether there was anything."""
        if self._reading < 0:
            return False
        try:
            data = os.read(self._reading, _READ_BYTES)
        except BlockingIOError:
            return False
        self._kept += data
        del self._kept[:-LIMIT_BYTES]
        return bool(data)
