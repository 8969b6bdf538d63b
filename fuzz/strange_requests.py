"""What no well-meaning client sends: values, schemas, names, headers and paths for fuzz_server.py."""

from __future__ import annotations

from typing import Any

from tests.support.servers.full_requests import RENDER, SCHEMA
from tests.support.strategies.spellings import HOSTILE


def nested(depth: int, *, is_list: bool = True) -> Any:
    value: Any = "bottom"
    for _ in range(depth):
        value = [value] if is_list else {"properties": {"x": value}, "type": "object"}
    return value


def exploding(levels: int) -> Any:
    """A schema of which each definition names the next one twice: short, and endless when it is written out."""
    defs = {
        f"D{at}": {"type": "object", "properties": {side: {"$ref": f"#/$defs/D{at + 1}"} for side in ("a", "b")}}
        for at in range(levels)
    }
    return {"$ref": "#/$defs/D0", "$defs": {**defs, f"D{levels}": {"type": "string"}}}


LOOPS: list[Any] = [
    {"$ref": "#"},
    {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}},
    {"type": "object", "properties": {"self": {"$ref": "#"}}},
    {"allOf": [{"$ref": "#"}]},
    {"anyOf": [{"$ref": "#/anyOf/0"}]},
    {"$ref": "https://example.com/schema.json"},
    {"$ref": "file:///etc/passwd"},
    {"$ref": "#/%24defs/A~1b~0", "$defs": {"A/b~": {"type": "string"}}},
    {"$ref": 5},
    {"$dynamicRef": "#node", "$dynamicAnchor": "node"},
]
# Expressions that backtracking engines need ages for, and what makes them.
PATTERNS = [
    "^(a+)+$",
    "(x+x+)+y",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "(.*)*" * 20,
    "(?:a|a)*b",
    "[",
    "(?<n>",
    "\\",
    "a{99999999}",
]
NAMES = [
    *(
        "",
        " ",
        ".",
        "..",
        "functions",
        "functions.x",
        "a.b.c",
        "a b",
        "x" * 65,
        "x" * 10_000,
        "to=assistant",
        "é",
        "函数",
    ),
    *(
        "🦜",
        "\x00",
        "\n",
        "\u202e",
        "-",
        "_",
        "123",
        "__proto__",
        "constructor",
        "python",
        "browser.search",
        "assistant",
    ),
    *("final", "<|call|>", "%s%n", "../../etc/passwd", "x\ud7ff", "A" * 64, "a" * 63 + "é", "namespace", "null", "///"),
]
STRANGE: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**53 + 1,
    2**63,
    2**64,
    -(2**63) - 1,
    10**300,
    1.5,
    -0.0,
    1e308,
    5e-324,
    "",
    " ",
    "0",
    "null",
    "true",
    "\x00",
    "\ud7ff",
    "\uffff",
    "\U0010ffff",
    "a" * 100_000,
    "é" * 3000,
    "\u0000" * 50,
    [],
    {},
    [[]],
    [{}],
    {"": ""},
    {"type": None},
    [None],
    ["a"] * 300,
    {"type": "function"},
    {"type": ["string"]},
    {str(number): number for number in range(300)},
    nested(40),
    nested(40, is_list=False),
    nested(70),
    *LOOPS,
    exploding(10),
    exploding(60),
    *({"type": "string", "pattern": each} for each in PATTERNS),
    *NAMES,
    *HOSTILE.values(),
    {"enum": list(range(2000))},
    {"oneOf": [SCHEMA] * 40},
    {"type": "object", "properties": {f"p{n}": SCHEMA for n in range(30)}},
    {"additionalProperties": {"additionalProperties": {"additionalProperties": False}}},
    {"not": {"not": {"not": {}}}},
    {"if": True, "then": False, "else": {"$ref": "#"}},
    {"prefixItems": [True, False, {}]},
    {"const": nested(30)},
    {"minimum": 1e308, "maximum": -1e308, "multipleOf": 0},
    {"type": "object", "required": "all"},
]


HEADERS: list[tuple[bytes, list[bytes]]] = [
    (
        b"content-type",
        [
            b"text/plain",
            b"",
            b"application/json; charset=latin-1",
            b"application/json;charset=UTF-8",
            b"multipart/form-data",
            b"\xff",
            b"application/json" * 100,
        ],
    ),
    (b"content-length", [b"-1", b"0", b"99999999999999999999", b"x", b"1e3", b"\xb2"]),
    (b"content-encoding", [b"gzip", b"identity", b"br, gzip", b""]),
    (b"transfer-encoding", [b"chunked", b"gzip, chunked", b"\x00"]),
    (
        b"host",
        [
            b"evil.example",
            b"",
            b"localhost:99999",
            b"[::1]",
            b"localhost\xff",
            b"127.0.0.1:80:80",
            b"@localhost",
            b"a" * 300,
        ],
    ),
    (b"origin", [b"null", b"http://evil.example", b"http://localhost", b"http://[", b"\xff", b"http://localhost:8765"]),
    (b"sec-fetch-site", [b"cross-site", b"same-origin", b"x"]),
    (b"authorization", [b"Bearer", b"Bearer x", b"Basic eA==", b"\xff", b"Bearer " + b"x" * 5000]),
    (b"harmonia-dialect", [b"openai", b"open-responses", b"", b"x", b"\xff"]),
    (b"x-request-id", [b"a", b"a" * 65, b"\r\nx: y", b"\xff", b"<script>"]),
    (b"accept", [b"text/event-stream", b"*/*", b"", b"\xff"]),
    (b"x-" + b"y" * 300, [b"z" * 300]),
    (b"expect", [b"100-continue"]),
    (b"openai-beta", [b"responses=v1"]),
]

PATHS = [
    "/v1/responses/resp_x",
    "/v1/responses/" + "x" * 3000,
    "/v1/responses/%00",
    "/v1/responses/..%2f..%2fetc",
    "/v1/responses//",
    "/v1/responses/resp_x/input_items?limit=0",
    "/v1/responses/resp_x/input_items?limit=²",
    "/v1/responses/x/input_items?order=up&after=%ff",
    "/v1/responses/resp_x?stream=true",
    "/v1/responses/resp_x?include[]=x&include[]=y",
    "/v1/responses/x?" + "a=b&" * 200,
    "/v1/responses/resp_x/cancel",
    "/v1/models/x/y",
    "/v1/models/%ff",
    "/v1/models/",
    "/v1/models",
    "/health",
    "/ready",
    "/metrics",
    "/openapi.json",
    "/docs",
    "/",
    "//",
    "/v1",
    "/v1/harmony/nothing",
    "/v1/chat/completions?x=y",
    "/\u00e9",
    "/v1/responses?stream=1",
]
METHODS = ["GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "BREW", "get"]
HARMONY: list[tuple[str, Any]] = [
    (
        "/v1/harmony/parse",
        {
            "text": "<|channel|>analysis<|message|>Hm<|end|>",
            "role": "assistant",
            "tools": ["functions.x"],
            "output": "events",
        },
    ),
    (
        "/v1/harmony/parse",
        {"tokens": [200005, 17196, 200008, 13225, 200002], "mode": "strict", "output": "parts", "stop_swallowed": True},
    ),
    ("/v1/harmony/inspect", {"text": "data: {}\n\n", "as": "sse", "include": ["ids", "text", "token_table"]}),
    (
        "/v1/harmony/inspect",
        {"tokens": [[200006], [1, 2], [200008]], "tools": [{"type": "function", "name": "f", "parameters": SCHEMA}]},
    ),
    ("/v1/harmony/tokenize", {"text": "Hello <|end|>", "special": True, "output": "pieces"}),
    ("/v1/harmony/detokenize", {"tokens": [13225, 200006, 5], "strict": True}),
    (RENDER, {"markdown": "## user\n\nHello\n"}),
]
