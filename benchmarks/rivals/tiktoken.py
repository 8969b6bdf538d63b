"""tiktoken as its users have it: an `Encoding` of o200k_base, for texts. It renders no conversations.

Its regular expression cannot take a run of a million characters, but its merging can. So for `cold` cases, whose
conversations are one user message that is one piece to the expression, it answers by merging alone: that is the
oracle where the reference fails.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from benchmarks.cases import Case


class Tiktoken:
    """`Encoding.encode_ordinary`."""

    label = "tiktoken"

    def __init__(self) -> None:
        self._encoding: Any = None

    @property
    def version(self) -> str:
        from importlib.metadata import version

        return version("tiktoken")

    def run(self, case: Case, round_: int, *, quick: bool) -> list[tuple[float, Any]]:
        from benchmarks.timing import timed, without_garbage_collection

        if self._encoding is None:
            self._encoding = _load()
            self._encoding.encode_ordinary("Hi")
        encoding = self._encoding
        inputs = case.inputs(round_, quick=quick)
        if case.action == "encode":
            results: list[tuple[float, Any]] = []
            with without_garbage_collection():
                for together in [[text] for text in inputs] if case.each else [inputs]:
                    seconds, tokens = timed(lambda them=together: [encoding.encode_ordinary(text) for text in them])
                    results.append((seconds, [token for each in tokens for token in each]))
            return results
        return [timed(lambda it=messages: _render_one_piece(encoding, it)) for messages in inputs]

    def first_render(self, messages: list[dict[str, Any]], *, engine_loaded: bool) -> list[int]:
        raise NotImplementedError("tiktoken renders no conversations")

    def first_parse(self, completion: list[int]) -> list[dict[str, Any]]:
        raise NotImplementedError("tiktoken parses no completions")


def _load() -> Any:
    import tiktoken
    from tiktoken_ext import openai_public

    from harmonia.vocabulary.codec import ID_BY_SPELLING
    from harmonia.vocabulary.ranks import read_shipped

    # Its definition of the encoding downloads the vocabulary; this is the same one, from our package.
    def load(*_arguments: Any, **_options: Any) -> dict[bytes, int]:
        return {token: rank for rank, token in enumerate(read_shipped())}

    openai_public.load_tiktoken_bpe = load
    definition: dict[str, Any] = openai_public.o200k_base()
    definition |= {"name": "o200k_harmony", "special_tokens": ID_BY_SPELLING}
    return tiktoken.Encoding(**definition)


def _render_one_piece(encoding: Any, messages: list[dict[str, Any]]) -> list[int]:
    (message,) = messages
    return [
        *encoding.encode(f"<|start|>{message['role']}<|message|>", allowed_special="all"),
        *encoding._encode_single_piece(message["content"]),
        *encoding.encode("<|end|><|start|>assistant", allowed_special="all"),
    ]
