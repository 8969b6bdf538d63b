"""A server over HTTP: one request, an answer that comes line by line, and every fault under its own code.

    connect -> (wait, retry)* -> status -> lines* -> end
       |             |              |        |
    UNREACHABLE   REFUSED     OUT_OF_CONTEXT DIED, STALLED, BAD_ANSWER

1. Only before the first line is a request tried again: where nothing listens, where the server is busy (429, 502, 503,
   504), or where it closed the connection without an answer. What was read is never asked for twice.
2. Leaving the iteration in any way, cancellation included, closes the connection at once. No connection outlives its
   request: an engine may be used from one event loop after another, and a server notices that its reader left.
3. The next bytes are read when the last ones were consumed. A slow reader slows the server down; nothing piles up here.
4. A line has a maximum length, and reading is linear in the bytes.
5. The API key goes into a header and nowhere else: no error and no log contains it, even where the server repeats it.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
from base64 import b64encode
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from harmonia.errors import EngineError, ErrorCode, InputError
from harmonia.run.engines.base import invalid_option

if TYPE_CHECKING:
    import httpx2
T = TypeVar("T")

# sse     server-sent events: of lines `data: …`, the text after the colon
# ndjson  one JSON value in each line
# either  server-sent events, or one JSON value that is the whole answer, from a server that does not stream
Framing = Literal["sse", "ndjson", "either"]

# The longest line. Whole answers with log-probabilities may be long; a line that never ends is a fault.
MAX_LINE_BYTES = 32 * 1024 * 1024
# How much of an error's body is read, and how much of it an error message repeats.
MAX_ERROR_BYTES = 64 * 1024
MAX_WORDS = 500
MAX_EXCERPT = 80
# A shorter header value is a switch and not a secret, and hiding it would garble every message.
MAX_PUBLIC = 7

_KEPT = "; the output so far is kept"
_BUSY = frozenset({429, 502, 503, 504})
_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})


class Patience(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long to wait, and how often to try. A prompt may take minutes to be read before the first token comes."""

    connect_s: float = 5.0
    first_s: float = 600.0  # for the first line
    idle_s: float = 120.0  # for each further piece of the answer
    attempts: int = 4
    wait_s: float = 0.25  # before the second attempt; doubled before each further one, and up to half as much again
    longest_wait_s: float = 20.0  # a server that asks for more is not waited for

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not (value := getattr(self, name)) > 0 and (name, value) != ("wait_s", 0):
                raise invalid_option(f"{name} is {value}; it must be more than 0")


class ServerError(EngineError):
    """A server answered with an error status: `status` and the server's `words`."""

    def __init__(self, message: str, status: int, words: str) -> None:
        super().__init__(ErrorCode.ENGINE_REFUSED, message)
        self.status = status
        self.words = words
        self.retry_after_s: float | None = None

    def __reduce__(self) -> Any:
        return type(self), (self.message, self.status, self.words)


class Server:
    """An HTTP server at an address. It holds no connection between requests."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        patience: Patience | None = None,
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> None:
        self.url, login = _read_address(url)
        self.patience = patience or Patience()
        self._max_line_bytes = max_line_bytes
        # Secret: the value of each given header, and the key without the word before it. A key that was read from a
        # file often ends with a newline.
        secret = {name.lower(): value.strip() for name, value in (headers or {}).items()}
        api_key = api_key.strip() if api_key else None
        if login:
            secret["authorization"] = f"Basic {b64encode(login.encode()).decode()}"
        if api_key:
            secret["authorization"] = f"Bearer {api_key}"
        for name, value in secret.items():
            # Checked here, because the HTTP client's errors repeat the value.
            if not (name.isascii() and name.isprintable() and value.isascii() and value.isprintable()):
                message = f"the header {name!r} contains a character that headers do not allow, such as a line break"
                raise invalid_option(message)
        hidden = {part for value in secret.values() for part in (value, value.split(" ")[-1]) if len(part) > MAX_PUBLIC}
        hidden |= {part for part in (login, login.partition(":")[2], api_key) if part}
        self._hidden = sorted(hidden, key=len, reverse=True)
        self._headers = {"accept-encoding": "identity", **secret}
        self._client: httpx2.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"<Server: {self.url}>"

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def fetch(self, path: str, type_: type[T]) -> T:
        """One JSON answer, tried once. Used to ask what a server is."""
        async with self._request(path, None) as response:
            content = await self._read_body(response, self._max_line_bytes)
        try:
            return msgspec.json.decode(content, type=type_)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.bad_answer(
                f"{path} should have answered with JSON, but sent {excerpt(content)}: {error}"
            ) from None

    async def lines(self, path: str, body: object, framing: Framing) -> AsyncGenerator[list[bytes], None]:
        """The lines of a streamed answer, as many at a time as arrived together."""
        patience = self.patience
        for attempt in range(1, patience.attempts + 1):
            has_read = False
            try:
                async with (
                    self._request(path, body) as response,
                    aclosing(response.aiter_raw()) as chunks,
                ):
                    splitter = _Lines(framing, self._max_line_bytes)
                    while True:
                        limit_s = patience.idle_s if has_read else patience.first_s
                        try:
                            async with asyncio.timeout(limit_s):
                                data = await anext(chunks, b"")
                        except TimeoutError:
                            raise self._stalled(limit_s) from None
                        lines = splitter.feed(data) if data else splitter.close()
                        if lines:
                            has_read = True
                            yield lines
                        if splitter.fault:
                            raise self.bad_answer(splitter.fault)
                        if not data:
                            return
            except EngineError as error:
                if has_read or attempt == patience.attempts or (wait_s := self._wait_before(error, attempt)) is None:
                    if not has_read and error.code is ErrorCode.ENGINE_DIED:
                        # Nothing was sampled yet, so nothing died in the middle.
                        error = EngineError(ErrorCode.ENGINE_UNREACHABLE, error.message.removesuffix(_KEPT))
                    raise error from None
            await asyncio.sleep(wait_s)

    def bad_answer(self, what: str) -> EngineError:
        return EngineError(ErrorCode.ENGINE_BAD_ANSWER, self.hide(f"{self.url} violated its protocol: {what}"))

    def died(self, what: str) -> EngineError:
        return EngineError(ErrorCode.ENGINE_DIED, self.hide(f"{self.url} {what}{_KEPT}"))

    def hide(self, text: str) -> str:
        """The text without the secrets of this server."""
        for secret in self._hidden:
            text = text.replace(secret, "…")
        return text

    def _stalled(self, limit_s: float) -> EngineError:
        return EngineError(ErrorCode.ENGINE_STALLED, f"{self.url} sent nothing for {limit_s:g} s{_KEPT}")

    @asynccontextmanager
    async def _request(self, path: str, body: object) -> AsyncGenerator[httpx2.Response]:
        """The answer to a request, its status already checked. The connection is closed after it."""
        httpx = load_httpx()
        if self._client is None:
            self._client = _make_client(httpx, self.url, self._headers, self.patience)
        client = self._client
        content = None if body is None else msgspec.json.encode(body)
        request = client.build_request(
            "GET" if body is None else "POST",
            self.url + path,
            content=content,
            headers={"content-type": "application/json"} if content is not None else None,
        )
        response: httpx2.Response | None = None
        is_connected = False
        try:
            async with asyncio.timeout(self.patience.first_s):
                response = await client.send(request, stream=True)
            is_connected = True
            if (status := response.status_code) >= 300:
                words = self.hide(words_of(await self._read_body(response, MAX_ERROR_BYTES)))
                failure = ServerError(f"{self.url} answered {status}: {words or response.reason_phrase}", status, words)
                failure.retry_after_s = _read_retry_after(response.headers.get("retry-after"))
                raise failure
            yield response
        except TimeoutError:
            raise self._stalled(self.patience.first_s) from None
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.ProxyError) as error:
            raise EngineError(
                ErrorCode.ENGINE_UNREACHABLE,
                self.hide(f"nothing answers at {self.url}: {_cause_of(error)}"),
            ) from None
        except httpx.RemoteProtocolError as error:
            # Bytes that are not HTTP are garbage; an early end is a death.
            if any(words in str(error) for words in ("disconnected", "closed", "incomplete")):
                raise self.died(f"closed the connection before the end ({error})") from None
            raise self.bad_answer(f"it does not speak HTTP ({error})") from None
        except httpx.InvalidURL as error:
            raise invalid_option(self.hide(f"{self.url} is not a valid URL: {error}")) from None
        except httpx.HTTPError as error:
            what = "broke off" if is_connected else "closed the connection without an answer"
            raise self.died(f"{what} ({error or type(error).__name__})") from None
        finally:
            if response is not None:
                await response.aclose()

    async def _read_body(self, response: httpx2.Response, limit: int) -> bytes:
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.patience.idle_s):
                async with aclosing(response.aiter_raw()) as chunks:
                    async for data in chunks:
                        parts.append(data)
                        size += len(data)
                        if size >= limit:
                            break
        except TimeoutError:
            raise self._stalled(self.patience.idle_s) from None
        return b"".join(parts)[:limit]

    def _wait_before(self, error: EngineError, attempt: int) -> float | None:
        """How long to wait before the next attempt; None where another attempt would not help."""
        patience = self.patience
        wait_s = patience.wait_s * 2 ** (attempt - 1)
        wait_s = min(wait_s + random.uniform(0, wait_s / 2), patience.longest_wait_s)
        match error:
            case ServerError(status=status) if status in _BUSY:
                if error.retry_after_s is None:
                    return wait_s
                return error.retry_after_s if error.retry_after_s <= patience.longest_wait_s else None
            case EngineError(code=ErrorCode.ENGINE_UNREACHABLE | ErrorCode.ENGINE_DIED):
                return wait_s
            case _:
                return None


class _Lines:
    """Bytes in any pieces to whole lines. `fault` is what is wrong after the lines that were given."""

    def __init__(self, framing: Framing, max_line_bytes: int) -> None:
        self.fault = ""
        self._is_sse = framing != "ndjson"
        self._may_be_json = framing == "either"
        self._is_whole = False
        self._max_line_bytes = max_line_bytes
        self._pieces: list[bytes] = []  # of a line that has not ended
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        if self._may_be_json and (begun := data.lstrip()):
            self._may_be_json = False
            self._is_whole = begun.startswith((b"{", b"["))  # no line of an event stream begins so
        if self._is_whole:
            self._keep(data)
            return []
        head, newline, rest = data.rpartition(b"\n")
        if not newline:
            self._keep(data)
            return []
        if self._pieces:
            self._pieces.append(head)
            head = b"".join(self._pieces)
            self._pieces, self._size = [], 0
        lines = self._payloads(head.split(b"\n"))
        if rest and not self.fault:
            self._keep(rest)
        return lines

    def close(self) -> list[bytes]:
        """The last line, where it had no end. One that was cut off is not garbage: the stream ended early."""
        last, self._pieces = b"".join(self._pieces).rstrip(), []
        if self._is_whole:
            return [last]
        return self._payloads([last]) if last.endswith((b"}", b"]")) else []

    def _keep(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)
        if self._size > self._max_line_bytes:
            self.fault = f"a line has more than {self._max_line_bytes} bytes"

    def _payloads(self, lines: list[bytes]) -> list[bytes]:
        payloads: list[bytes] = []
        for line in lines:
            if self._is_sse:
                if line.startswith(b"data:"):
                    line = line[5:]
                elif line.startswith(b"error:"):  # older llama.cpp
                    line = line[6:]
                elif not line or line.startswith((b":", b"event:", b"id:", b"retry:", b"\r")):
                    continue
                else:
                    self.fault = f"an event stream cannot contain the line {excerpt(line)}"
                    break
            if line := line.strip():
                payloads.append(line)
        return payloads


def load_httpx() -> Any:
    """The HTTP client, an extra."""
    try:
        import httpx2
    except ImportError:
        raise InputError(
            ErrorCode.ENGINE_MISSING_EXTRA, "engines over HTTP need httpx2: pip install 'harmonia[run]'"
        ) from None
    return httpx2


def _make_client(httpx: Any, url: str, headers: Mapping[str, str], patience: Patience) -> httpx2.AsyncClient:
    parts = urlsplit(url)
    return httpx.AsyncClient(
        headers=headers,
        # Without TLS, no certificates need to be read, which takes longer than the connection.
        verify=parts.scheme == "https",
        # Reading is timed by `lines`, which knows whether something came already.
        timeout=httpx.Timeout(None, connect=patience.connect_s, write=patience.first_s),
        # No connection is kept: it would belong to the event loop that made it.
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        # A proxy is not for this machine, whatever the environment says.
        trust_env=(parts.hostname or "") not in _LOCAL_HOSTS,
    )


def _read_address(url: str) -> tuple[str, str]:
    """The address without a trailing slash, and the `name:password` that was in it."""
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.hostname or ""
        if parts.scheme not in ("http", "https") or not host:
            raise ValueError
    except ValueError:  # whose message would repeat a password that has a slash or a bracket in it
        message = f"{redact(url)!r} is not a valid URL; expected http://host:port"
        raise invalid_option(message) from None
    host = f"[{host}]" if ":" in host else host
    clean = urlunsplit((parts.scheme, host + (f":{port}" if port else ""), parts.path.rstrip("/"), "", ""))
    login = "" if parts.username is None else f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return clean, login


class _ErrorBody(msgspec.Struct):
    """An error as engines write it: `error` is an object with a `message`, or a text; some have `detail` instead."""

    error: _ErrorBody | str | None = None
    message: str | None = None
    detail: msgspec.Raw = msgspec.Raw()


def words_of(content: bytes) -> str:
    """The message of a server's error, shortened; its whole text where it is not JSON."""
    words = ""
    try:
        body = msgspec.json.decode(content, type=_ErrorBody)
        error = body.error.message if isinstance(body.error, _ErrorBody) else body.error
        words = body.message or error or bytes(body.detail).decode()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass
    return _cut(words or " ".join(content.decode(errors="replace").split()), MAX_WORDS)


def excerpt(content: bytes) -> str:
    """The beginning of some bytes, for error messages."""
    return repr(_cut(content[: 4 * MAX_EXCERPT].decode(errors="replace"), MAX_EXCERPT))


def _cut(text: str, limit: int) -> str:
    """The beginning of a text. No word is cut in two: half a key would not be recognised and hidden."""
    return text if len(text) <= limit else re.sub(r"[^\s\"'{}:,]*$", "…", text[:limit])


def _read_retry_after(value: str | None) -> float | None:
    if value is None:
        return None
    if value.strip().isdigit():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None


# ── values in JSON from servers ───────────────────────────────────────────────────────────────────────────────────────


Fields = Mapping[str, Any]


def fields_of(value: object) -> Fields:
    return cast(Fields, value) if isinstance(value, Mapping) else {}


def objects_of(value: object) -> list[Fields]:
    """The objects in a list."""
    return [fields_of(each) for each in cast("list[Any]", value)] if isinstance(value, list) else []


def text_of(value: object) -> str:
    return value if isinstance(value, str) else ""


def count_of(value: object) -> int:
    """A number of tokens; True is not a number here."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


_HIDDEN: Final = "…"
_PATHS: Final = ("transformers:", "replay:")  # these are files and have no login
_ENDPOINTS: Final = ("/chat/completions", "/responses", "/completions", "/models")


def redact(url: str) -> str:
    """A URL without its login and its query, which may contain a password or a key. Text that is not a URL may contain
    them anywhere, so everything up to its last @ is removed."""
    kind, found, rest = url.partition("://")
    if not found:
        return url if url.startswith(_PATHS) or "@" not in url else f"{_HIDDEN}@{url.rpartition('@')[2]}"
    host, slash, path = rest.partition("/")
    _, colon, port = host.rpartition(":")
    if "@" in host:
        host = f"{_HIDDEN}@{host.rpartition('@')[2]}"
    elif colon and "@" in path and not port.rstrip("]").isdecimal():
        # A password with a slash in it.
        host, slash, path = f"{_HIDDEN}@{rest.rpartition('@')[2]}", "", ""
    path, query, _ = path.partition("?")
    host, host_query, _ = host.partition("?")
    return f"{kind}://{host}{slash}{path}{'?' + _HIDDEN if query or host_query else ''}"


def api_address(url: str) -> str:
    """The address below which `/chat/completions` and `/responses` are.

    http://host:8000                      http://host:8000/v1
    https://host/api/v1/                  https://host/api/v1
    https://host/v1/chat/completions      https://host/v1
    """
    address = url.rstrip("/")
    for endpoint in _ENDPOINTS:
        address = address.removesuffix(endpoint)
    try:
        path = urlsplit(address).path
    except ValueError:
        return address  # opening it reports what is wrong
    return address if path.strip("/") else f"{address}/v1"


def _cause_of(error: BaseException) -> str:
    """What the system reported, such as "Connection refused", or else the HTTP library's words."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError) and inner.errno:
            return os.strerror(inner.errno) if inner.errno > 0 else str(inner.strerror)
        groups = isinstance(inner, BaseExceptionGroup)
        inner = cast("Any", inner).exceptions[0] if groups else inner.__cause__ or inner.__context__
    return str(error) or type(error).__name__
