"""Harmonia itself, with the tokenizer of the core or with that of the extra `fast`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from benchmarks.cases import Case


class Harmonia:
    """`Renderer(Vocabulary(engine=…)).render(…)` on values built beforehand; `parse` and `Parser` on tokens."""

    def __init__(self, engine: Literal["exact", "fast"]) -> None:
        self.engine: Literal["exact", "fast"] = engine
        self.label = "harmonia" if engine == "exact" else "harmonia[fast]"
        self._renderer: Any = None

    @property
    def version(self) -> str:
        from importlib.metadata import version

        return version("harmonia")

    def run(self, case: Case, round_: int, *, quick: bool) -> list[tuple[float, Any]]:
        from benchmarks.timing import timed, without_garbage_collection
        from harmonia import Conversation, Message, Renderer, Vocabulary, parse
        from harmonia.renderer import freeze

        if self._renderer is None:
            self._renderer = Renderer(Vocabulary(engine=self.engine))
            self._renderer.render([Message.user("Hi")])
        renderer: Renderer = self._renderer
        inputs = case.inputs(round_, quick=quick)
        results: list[tuple[float, Any]] = []

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
                if case.frozen:
                    base = Conversation(map(freeze, base))
                added = [Message.from_dict(message) for message in inputs]
                renderer.clear_cache()
                renderer.render(base)
                with without_garbage_collection():
                    for message in added:
                        results.append(timed(lambda it=message: renderer.render(base.add(it)).tokens))
            case "encode":
                encode = renderer.vocabulary.encode
                texts = [[text] for text in inputs] if case.each else [inputs]
                with without_garbage_collection():
                    for together in texts:
                        seconds, tokens = timed(lambda them=together: [encode(text) for text in them])
                        results.append((seconds, [token for each in tokens for token in each]))
            case "parse":
                with without_garbage_collection():
                    for completion in inputs:
                        seconds, parsed = timed(
                            lambda it=completion: parse(it, role="assistant", vocabulary=renderer.vocabulary)
                        )
                        results.append((seconds, {"messages": [_read(message) for message in parsed.messages]}))
            case "stream":
                with without_garbage_collection():
                    for completion in inputs:
                        chunks = _chunks(completion, case.chunk_tokens)
                        seconds, (messages, texts) = timed(
                            lambda it=chunks: (_stream_channels if case.with_channel else _stream)(
                                it, renderer.vocabulary
                            )
                        )
                        read = [_read(message) for message in messages]
                        results.append((seconds, {"messages": read, "text": "".join(texts)}))
            case "build" | "masks":
                results = _time_grammar(case, inputs)
            case "turn":
                for completion in inputs:
                    seconds, (messages, texts) = _time_turn(completion, case.chunk_tokens)
                    read = [_read(message) for message in messages]
                    results.append((seconds, {"messages": read, "text": "".join(texts)}))
        return results

    def first_render(self, messages: list[dict[str, Any]], *, engine_loaded: bool) -> list[int]:
        """Import, load and render: by `harmonia.render`, or with the real tokenizer from the beginning."""
        import harmonia

        conversation = harmonia.Conversation.from_dict(messages)
        if engine_loaded:
            return harmonia.Renderer(harmonia.Vocabulary(engine=self.engine)).render(conversation).tokens
        return harmonia.render(conversation).tokens

    def first_parse(self, completion: list[int]) -> list[dict[str, Any]]:
        import harmonia

        return [_read(message) for message in harmonia.parse(completion, role="assistant").messages]


def _chunks(tokens: list[int], size: int) -> list[Any]:
    """Tokens as they arrive: ids where they come one by one, else lists."""
    return tokens if size == 1 else [tokens[start : start + size] for start in range(0, len(tokens), size)]


def _stream(chunks: list[Any], vocabulary: Any) -> tuple[list[Any], list[str]]:
    """The messages and the deltas of a completion, taken from the events as they come."""
    from harmonia import ArgumentsDelta, MessageEnded, Parser, TextDelta

    parser = Parser(role="assistant", vocabulary=vocabulary)
    messages: list[Any] = []
    texts: list[str] = []
    for chunk in chunks:
        for event in parser.feed(chunk):
            if isinstance(event, TextDelta) or isinstance(event, ArgumentsDelta):  # noqa: SIM101 -- as `match` compares
                texts.append(event.text)
            elif isinstance(event, MessageEnded):
                messages.append(event.message)
    parser.close()
    return messages, texts


def _stream_channels(chunks: list[Any], vocabulary: Any) -> tuple[list[Any], list[str]]:
    """The same, as a server does it that sends reasoning and answers to different places."""
    from harmonia import ArgumentsDelta, MessageEnded, Parser, TextDelta

    parser = Parser(role="assistant", vocabulary=vocabulary)
    messages: list[Any] = []
    texts: list[str] = []
    channels: list[str | None] = []
    for chunk in chunks:
        for event in parser.feed(chunk):
            if isinstance(event, TextDelta) or isinstance(event, ArgumentsDelta):  # noqa: SIM101 -- as `match` compares
                texts.append(event.text)
                channels.append(event.header.channel)
            elif isinstance(event, MessageEnded):
                messages.append(event.message)
    parser.close()
    return messages, [*texts, *dict.fromkeys(map(str, channels))]


def _time_grammar(case: Case, inputs: list[Any]) -> list[tuple[float, Any]]:
    from benchmarks.grammars import completion_of, counted, demand_of, kind_of, walk
    from benchmarks.timing import timed, without_garbage_collection
    from harmonia.grammar.completion import grammar_for

    results: list[tuple[float, Any]] = []
    with without_garbage_collection():
        for messages in inputs:
            demand = demand_of(messages)
            seconds, grammar = timed(lambda it=demand: grammar_for(it, kind_of(case)))
            if case.action == "build":
                results.append((seconds, grammar.text))
                continue
            from harmonia.run.engines.grammar_mask import Matcher

            matcher, tokens = Matcher(grammar), completion_of(demand)
            seconds, masks = timed(lambda it=matcher, them=tokens: walk(it.mask, it.commit, them))
            results.append((seconds, counted(masks)))
    return results


def _time_turn(tokens: list[int], chunk_tokens: int) -> tuple[float, tuple[list[Any], list[str]]]:
    """A turn, less what reading the bare stream of its engine takes."""
    import asyncio

    from benchmarks.timing import timed, without_garbage_collection
    from harmonia import ArgumentsDelta, MessageEnded, TextDelta
    from harmonia.run import Chunk, Finish, Request, Traits, run_turn

    class Ready:
        """An engine whose chunks are there already."""

        name = model = "ready"
        traits = Traits()

        def __init__(self) -> None:
            starts = range(0, len(tokens), chunk_tokens)
            self._chunks = [Chunk(tokens[start : start + chunk_tokens]) for start in starts]

        async def generate(self, _prompt: Any, _request: Any) -> Any:
            for chunk in self._chunks:
                yield chunk
            yield Finish("stop")

        async def close(self) -> None:
            pass

    async def bare() -> None:
        async for _ in engine.generate([], Request()):
            pass

    async def turn() -> tuple[list[Any], list[str]]:
        messages: list[Any] = []
        texts: list[str] = []
        async for event in run_turn(engine, "Hi"):
            if isinstance(event, TextDelta) or isinstance(event, ArgumentsDelta):  # noqa: SIM101 -- as `match` compares
                texts.append(event.text)
            elif isinstance(event, MessageEnded):
                messages.append(event.message)
        return messages, texts

    engine = Ready()
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(turn())  # what is done once in a process
        with without_garbage_collection():
            stream_s = min(timed(lambda: loop.run_until_complete(bare()))[0] for _ in range(3))
            seconds, said = timed(lambda: loop.run_until_complete(turn()))
    finally:
        loop.close()
    return seconds - stream_s, said


def _read(message: Any) -> dict[str, Any]:
    """What a message says, in the form that both rivals give."""
    fields = ("name", "channel", "recipient", "content_type", "content")
    return {"role": message.role.value, **{name: getattr(message, name) for name in fields}}
