"""Invariant: a tolerant parser never raises, no token is lost, chunking is invisible, strict raises StreamError only.

    python fuzz/fuzz_parser.py [libFuzzer's options] fuzz/corpus

An input's last byte chooses the kind of stream and the options; the rest is the stream: bytes, text, or token ids. Ids
are written as two bytes each, the highest of which stand for special tokens and for numbers that are no token.
Seeds are written by `python fuzz/fuzz_parser.py --write-corpus`.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import atheris  # noqa: E402  # pyright: ignore[reportMissingImports] -- only where somebody fuzzes

with atheris.instrument_imports(include=["harmonia.parser"]):  # pyright: ignore[reportUnknownMemberType]
    import harmonia.parser  # noqa: F401

from tests.support.laws import Data, check_all_laws  # noqa: E402

from harmonia.parser import FAULTS, Limits  # noqa: E402
from harmonia.vocabulary import SPELLING_BY_ID, encode  # noqa: E402

# What two bytes mean as a token id: mostly ordinary tokens, special tokens within easy reach of a mutation.
_SPECIALS = [200002, 200003, 200005, 200006, 200007, 200008, 200012, 199999, 199998, 200013, -1, 10**9]
_FIRST_SPECIAL_PAIR = 0xFF00
_TIGHT = Limits(header_chars=24, unmarked_chars=24, body_chars=12)


def tokens_of(data: bytes) -> list[int]:
    pairs = (int.from_bytes(data[at : at + 2]) for at in range(0, len(data) - 1, 2))
    return [
        pair if pair < _FIRST_SPECIAL_PAIR else _SPECIALS[(pair - _FIRST_SPECIAL_PAIR) % len(_SPECIALS)]
        for pair in pairs
    ]


def bytes_of(tokens: list[int]) -> bytes:
    """The inverse, for seeds. Ordinary tokens that two bytes cannot say become the letters of their text."""
    out = b""
    for token in tokens:
        if token in _SPECIALS:
            out += (_FIRST_SPECIAL_PAIR + _SPECIALS.index(token)).to_bytes(2)
        elif 0 <= token < _FIRST_SPECIAL_PAIR:
            out += token.to_bytes(2)
        elif token not in SPELLING_BY_ID:
            from harmonia.vocabulary import decode

            out += b"".join(bytes_of(encode(letter)) for letter in decode([token]) if encode(letter)[0] != token)
    return out


def check(data: bytes) -> None:
    provider = atheris.FuzzedDataProvider(data)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    options = data[-1] if data else 0
    body = provider.ConsumeBytes(max(len(data) - 1, 0))  # pyright: ignore[reportUnknownMemberType]
    assert isinstance(body, bytes)
    stream: Data
    match options & 3:
        case 0 | 1:
            stream = tokens_of(body)
        case 2:
            stream = body.decode(errors="surrogateescape")
        case _:
            stream = body
    check_all_laws(
        stream,
        most_cuts=6,
        role="assistant" if options & 4 else None,
        stop_swallowed=bool(options & 8),
        stripped=bool(options & 16) and not isinstance(stream, list),
        tools=["functions.x", "get_weather"] if options & 32 else None,
        limits=_TIGHT if options & 64 else Limits(),
    )


# ── seeds ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_WELL_FORMED = (
    "<|start|>user<|message|>Hi 🦜<|end|><|start|>assistant<|channel|>final<|message|>Hello.<|return|>",
    "<|start|>assistant to=functions.x<|channel|>commentary <|constrain|>json<|message|>{}<|call|>\n"
    "<|start|>functions.x to=assistant<|channel|>commentary<|message|>[]<|end|>",
    "<|start|>assistant<|channel|>analysis to=python code<|message|>1+1<|call|>",
)


def write_corpus() -> None:
    corpus = HERE / "corpus"
    corpus.mkdir(exist_ok=True)
    for at, text in enumerate(_WELL_FORMED):
        _write_seed(corpus, f"well_formed_{at}", text, completion=False)
        _write_seed(corpus, f"completion_{at}", text.removeprefix("<|start|>assistant"), completion=True)
    for code, fault in FAULTS.items():
        _write_seed(corpus, str(code), fault.example, completion=fault.completion)


def _write_seed(corpus: Path, name: str, text: str, *, completion: bool) -> None:
    options = 4 if completion else 0
    (corpus / f"{name}.tokens").write_bytes(bytes_of(encode(text, special="all")) + bytes([options]))
    (corpus / f"{name}.text").write_bytes(text.encode() + bytes([options | 3]))


def main() -> None:
    if "--write-corpus" in sys.argv:
        write_corpus()
        return
    atheris.Setup(sys.argv, check)  # pyright: ignore[reportUnknownMemberType]
    atheris.Fuzz()  # pyright: ignore[reportUnknownMemberType]


if __name__ == "__main__":
    main()
