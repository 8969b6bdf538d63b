"""Grammars: building one for twenty tools, and a mask for each token, over what the engine itself takes.

The rivals are the engines that are given the grammars. `build` is the time from tools to the grammar's text; the
engine's is that of compiling this text, in the same run. llama.cpp compiles nothing: it reads the text, and does its
work with each token, so that there is a ratio and no mark. `masks` is the time of a mask for each token of a
completion that calls one of the tools; the engine's is that of its own matcher, without anything of ours around it.
"""

from __future__ import annotations

from functools import partial

from benchmarks.cases import Case, Row
from benchmarks.data import conversation

_twenty_tools = partial(conversation, messages=8, tool_count=20, properties=6)

CASES = (
    Case("grammar-build", "build", _twenty_tools, ("llguidance", "core", "fast"), count=3, rounds=6),
    Case("grammar-xgrammar", "build", _twenty_tools, ("xgrammar", "core", "fast"), count=1, rounds=3),
    Case("grammar-gbnf", "build", _twenty_tools, ("llama.cpp", "core", "fast"), count=3, rounds=6),
    Case("grammar-masks", "masks", _twenty_tools, ("llguidance", "core", "fast"), count=3, rounds=6),
)

ROWS = (
    Row(
        "grammar-build",
        "build a grammar for 20 tools, over llguidance's own compilation of it",
        "grammar-build",
        "share",
        must=1,
        against="llguidance",
    ),
    Row(
        "grammar-xgrammar",
        "  the same for xgrammar",
        "grammar-xgrammar",
        "share",
        must=1,
        against="xgrammar",
    ),
    Row(
        "grammar-gbnf",
        "  the same for llama.cpp, over its reading of the text",
        "grammar-gbnf",
        "share",
        against="llama.cpp",
    ),
    Row(
        "grammar-masks",
        "a mask for each token of a call, over llguidance's own",
        "grammar-masks",
        "share",
        must=1.1,
        against="llguidance",
    ),
)
