"""An engine that says the text it is told to say, as a model of another family would; see scripted.py."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from harmonia.run.engines import Chunk, Finish, Request, Traits, Usage


class ScriptedTextEngine:
    """Each generation says the next text of the script, in chunks of so many characters, and then why it ended.

    Its traits are those of an engine that has tokens and takes grammars, like llama.cpp: a run has to find out by the
    profile that neither is for this model.
    """

    name = "scripted"

    def __init__(
        self, *script: str, model: str = "Qwen/Qwen3-8B", chunk: int = 1, finish: Finish | None = None
    ) -> None:
        self._script = script
        self._chunk = chunk
        self._finish = finish
        self.model = model
        self.traits = Traits(takes_grammar="gbnf", takes_text=True)
        self.prompts: list[str] = []
        self.requests: list[Request] = []
        self.stops: list[tuple[str, ...]] = []
        self.marks: list[tuple[str, ...]] = []
        self.closed_early = 0

    def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        raise AssertionError("it was asked for tokens")

    async def generate_text(
        self, prompt: str, request: Request, stop: Sequence[str] = (), marks: Sequence[str] = ()
    ) -> AsyncGenerator[Chunk | Finish, None]:
        self.prompts.append(prompt)
        self.requests.append(request)
        self.stops.append(tuple(stop))
        self.marks.append(tuple(marks))
        text = self._script[min(len(self.prompts), len(self._script)) - 1]
        is_whole = False
        try:
            for at in range(0, len(text), self._chunk):
                yield Chunk(text=text[at : at + self._chunk])
            is_whole = True
            yield self._finish or Finish("stop", Usage(len(prompt), len(text)))
        finally:
            self.closed_early += not is_whole

    async def close(self) -> None:
        pass
