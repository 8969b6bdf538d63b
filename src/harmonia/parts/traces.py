"""Collections of traces in Markdown, for tests: the output of a model, and the expected messages.

    ```harmony name:simple-final
    <|start|>assistant<|channel|>final<|message|>Hello.<|return|>
    ```

    ```expected name:simple-final
    [{"role": "assistant", "channel": "final", "content": "Hello."}]
    ```

`<<<CHUNK>>>` separates chunks. A line break inside the spelling of a special token also separates chunks and is not
text, because no special token contains one. Everything else is verbatim; the line break before the closing fence is not
part of the text. Other blocks, and the text around them, are ignored.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.json_codec import read_json
from harmonia.vocabulary import ID_BY_SPELLING

CHUNK_MARKER: Final = "<<<CHUNK>>>"

_FENCE: Final = re.compile(r"(?P<indent>[ \t]*)(?P<fence>`{3,}+(?=[^`]*+$)|~{3,}+)(?P<info>.*)")
_INFO: Final = re.compile(r"\s*(?P<kind>harmony|expected)(?:\s+(?P<rest>\S.*))?\s*", re.IGNORECASE)
_NAME: Final = re.compile(r"name\s*:\s*(?P<name>\S+)\s*", re.IGNORECASE)
_BREAK: Final = rf"(?:\n|{CHUNK_MARKER})"
_BREAKS: Final = re.compile(f"{_BREAK}+")
_BROKEN_SPELLING: Final = re.compile(rf"<{_BREAK}*\|(?:[a-z0-9_]|{_BREAK})+\|{_BREAK}*>")


class Trace(msgspec.Struct, frozen=True):
    """One case: its chunks, and the value of its `expected` block, or None. `line` is the line of the opening fence."""

    name: str
    chunks: tuple[str, ...]
    expected: Any
    line: int

    @property
    def text(self) -> str:
        return "".join(self.chunks)


class _Block(NamedTuple):
    """A named fenced block. `line` is the line of the opening fence; `starts` are the offsets of its lines."""

    kind: str
    name: str
    text: str
    line: int
    starts: list[int]


def read_traces(text: str) -> list[Trace]:
    """The traces of a Markdown text, in order. An InputError has the line of the fault."""
    traces: dict[str, _Block] = {}
    expectations: dict[str, _Block] = {}
    for block in _read_blocks(text):
        blocks = traces if block.kind == "harmony" else expectations
        if block.name in blocks:
            _refuse(f"a second {block.kind} block is named {block.name!r}", block.line, block.starts[0])
        blocks[block.name] = block
    for name, block in expectations.items():
        if name not in traces:
            _refuse(f"there is no harmony block for the expected block {name!r}", block.line, block.starts[0])
    return [
        Trace(name, _split_into_chunks(block.text), _read_expectation(expectations.get(name)), block.line)
        for name, block in traces.items()
    ]


def _read_blocks(text: str) -> list[_Block]:
    blocks: list[_Block] = []
    fence: re.Match[str] | None = None
    number, lines, starts = 0, list[str](), list[int]()
    start = 0
    for line_number, given in enumerate(text.split("\n"), 1):
        # Files may begin with a byte order mark and end their lines with a carriage return.
        line = given.removeprefix("\ufeff").removesuffix("\r") if line_number == 1 else given.removesuffix("\r")
        if fence is None:
            fence = _FENCE.fullmatch(line)
            number, lines, starts = line_number, [], [start]
        elif _closes(line, fence):
            block = _block_of(fence["info"], number, lines, starts)
            if block is not None:
                blocks.append(block)
            fence = None
        else:
            lines.append(_without_indent(line, fence["indent"]))
            starts.append(start)
        start += len(given) + 1
    if fence is not None:
        _refuse("the block is not closed", number, starts[0])
    return blocks


def _closes(line: str, opening: re.Match[str]) -> bool:
    fence, line = opening["fence"], line.strip()
    return len(line) >= len(fence) and line == fence[0] * len(line)


def _without_indent(line: str, indent: str) -> str:
    """A line of an indented block, as in a list, without the indentation of its fence."""
    for sign in indent:
        if not line.startswith(sign):
            break
        line = line[1:]
    return line


def _block_of(words: str, number: int, lines: list[str], starts: list[int]) -> _Block | None:
    info = _INFO.fullmatch(words)
    if info is None or info["rest"] is None:  # another language, or an example without a name
        return None
    kind, name = info["kind"].lower(), _NAME.fullmatch(info["rest"])
    if name is None:
        _refuse(f"{kind!r} is followed by {info['rest'].strip()!r}, not by name:<case>", number, starts[0])
    return _Block(kind, name["name"], "\n".join(lines), number, starts)


def _split_into_chunks(text: str) -> tuple[str, ...]:
    text = _BROKEN_SPELLING.sub(_mark_breaks, text)
    return tuple(filter(None, text.split(CHUNK_MARKER)))


def _mark_breaks(match: re.Match[str]) -> str:
    found = match.group()
    return _BREAKS.sub(CHUNK_MARKER, found) if _BREAKS.sub("", found) in ID_BY_SPELLING else found


def _read_expectation(block: _Block | None) -> Any:
    if block is None:
        return None
    try:
        return read_json(block.text)
    except ValueError as error:
        line = 1 + block.text.count("\n", 0, getattr(error, "pos", 0))
        at = block.starts[min(line, len(block.starts) - 1)]
        _refuse(f"the expected block {block.name!r} is not valid JSON: {error}", block.line + line, at)


def _refuse(problem: str, line: int, character: int) -> NoReturn:
    raise InputError(ErrorCode.PARSE_INVALID_INPUT, f"line {line}: {problem}", Position(character=character))
