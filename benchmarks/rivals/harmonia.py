"""Harmonia itself, with the tokenizer of the core or with that of the extra `fast`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from benchmarks.cases import Case


class Harmonia:
    """`Renderer(Vocabulary(engine=…)).render(…)` on values built beforehand."""

    def __init__(self, engine: Literal["exact", "fast"]) -> None:
        self.engine: Literal["exact", "fast"] = engine
        self.label = "harmonia" if engine == "exact" else "harmonia[fast]"
        self._renderer: Any = None

    @property
    def version(self) -> str:
        from importlib.metadata import version

        return version("harmonia")

    def run(self, case: Case, round_: int, *, quick: bool) -> list[tuple[float, list[int]]]:
        from benchmarks.timing import timed, without_garbage_collection
        from harmonia import Conversation, Message, Renderer, Vocabulary

        if self._renderer is None:
            self._renderer = Renderer(Vocabulary(engine=self.engine))
            self._renderer.render([Message.user("Hi")])
        renderer: Renderer = self._renderer
        inputs = case.inputs(round_, quick=quick)
        results: list[tuple[float, list[int]]] = []

        match case.action:
            case "cold":
                conversations = [Conversation.from_dict(messages) for messages in inputs]
                with without_garbage_collection():
                    for conversation in conversations:
                        renderer.clear_cache()
                        results.append(timed(lambda it=conversation: renderer.render(it).tokens))
            case "warm":
                conversations = [Conversation.from_dict(messages) for messages in inputs]
                with without_garbage_collection():
                    for conversation in conversations:
                        renderer.clear_cache()
                        renderer.render(conversation)
                        results.append(timed(lambda it=conversation: renderer.render(it).tokens))
            case "append":
                base = Conversation.from_dict(case.base_conversation())
                added = [Message.from_dict(message) for message in inputs]
                renderer.clear_cache()
                renderer.render(base)
                with without_garbage_collection():
                    for message in added:
                        results.append(timed(lambda it=message: renderer.render(base.add(it)).tokens))
            case "encode":
                encode = renderer.vocabulary.encode
                with without_garbage_collection():
                    seconds, tokens = timed(lambda: [encode(text) for text in inputs])
                results.append((seconds, [token for each in tokens for token in each]))
        return results

    def first_render(self, messages: list[dict[str, Any]], *, engine_loaded: bool) -> list[int]:
        """Import, load and render: by `harmonia.render`, or with the real tokenizer from the beginning."""
        import harmonia

        conversation = harmonia.Conversation.from_dict(messages)
        if engine_loaded:
            return harmonia.Renderer(harmonia.Vocabulary(engine=self.engine)).render(conversation).tokens
        return harmonia.render(conversation).tokens
