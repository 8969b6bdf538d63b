"""The drop-in: one program, run with `import openai_harmony` and with `from harmonia import openai_harmony`.

Rendering and parsing are those of the other benchmarks, but through the reference's API and with its mutable pydantic
objects on both sides. Streams are followed as its users do: by reading properties of the parser at every token. The
reference makes some of them anew at each reading, out of all that it has read; those streams are shorter.
"""

from __future__ import annotations

from functools import partial

from benchmarks.bench_parse import SEED_COMPLETION, long_completion, short_completion
from benchmarks.bench_render import USUAL_KINDS, hundred_messages, new_message
from benchmarks.bench_start import short_prompt
from benchmarks.cases import Case, Row, Start
from benchmarks.data import conversation

_OURS = ("dropin-core", "dropin-fast")
_RIVALS = ("openai-harmony", *_OURS)
_Start = partial(Start, rivals=_RIVALS, rounds=6, completion=SEED_COMPLETION)
_Case = partial(Case, rivals=_RIVALS)
# What a parser remembers has nothing to do with the text that it reads, so one text is enough.
_Read = partial(_Case, action="read", varies=False)
_Row = partial(Row, ours=_OURS)

_shorter = partial(long_completion, tokens=2000)

STARTS = (
    _Start("dropin-start", short_prompt),
    _Start("dropin-start-engine", short_prompt, engine_loaded=True),
)

CASES = (
    _Case("dropin-cold-short", "cold", partial(conversation, messages=8)),
    _Case(
        "dropin-cold-5kb", "cold", partial(conversation, messages=7, message_bytes=5000, kinds=USUAL_KINDS), count=10
    ),
    _Case("dropin-append", "append", new_message, base=hundred_messages, rounds=6),
    _Case("dropin-parse-short", "parse", short_completion, given=(list(SEED_COMPLETION),), count=100),
    _Case("dropin-stream", "stream", long_completion, count=3),
    _Case("dropin-stream-tolerant", "stream", long_completion, count=3, tolerant=True),
    _Read(
        "dropin-stream-server",
        make=long_completion,
        count=3,
        reads=("current_channel", "current_recipient", "last_content_delta"),
    ),
    _Read("dropin-content", make=long_completion, count=1, rounds=3, reads=("current_content",)),
    *(
        _Read(f"dropin-{name}", make=_shorter, count=3, rounds=2, reads=(name,))
        for name in ("state", "messages", "tokens")
    ),
)

ROWS = (
    _Row("dropin-cold-short", "drop-in: render, cold, 3 tools, short messages", "dropin-cold-short", must=4),
    _Row("dropin-append", "drop-in: append one message to 100 and render", "dropin-append", must=20),
    _Row("dropin-parse-short", "drop-in: parse 36 tokens, two messages", "dropin-parse-short", must=10),
    _Row("dropin-stream", "drop-in: stream 10,000 tokens, reading last_content_delta", "dropin-stream", must=2),
    _Row("dropin-content", "drop-in: stream 10,000 tokens, reading current_content", "dropin-content", must=20),
    _Row(
        "dropin-memory",
        "drop-in: resident memory after a render and a parse",
        "dropin-start",
        "share",
        "resident_bytes",
        must=1.5,
    ),
    _Row("dropin-start", "drop-in: import + load until the first render", "dropin-start", "share"),
    _Row(
        "dropin-start-engine", "drop-in: import + load until the real engine is loaded", "dropin-start-engine", "share"
    ),
    _Row(
        "dropin-memory-engine",
        "drop-in: resident memory with the real engine",
        "dropin-start-engine",
        "share",
        "resident_bytes",
    ),
    _Row("dropin-cold-5kb", "drop-in: render, cold, 3 tools, messages of 5 kB", "dropin-cold-5kb"),
    _Row("dropin-stream-tolerant", "drop-in: stream 10,000 tokens with strict=False", "dropin-stream-tolerant"),
    _Row(
        "dropin-stream-server",
        "drop-in: stream 10,000 tokens, reading channel, recipient, delta",
        "dropin-stream-server",
    ),
    *(
        _Row(f"dropin-{name}", f"drop-in: stream 2,000 tokens, reading {name}", f"dropin-{name}")
        for name in ("state", "messages", "tokens")
    ),
)
