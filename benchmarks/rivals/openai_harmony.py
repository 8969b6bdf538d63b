"""The reference implementation, and Harmonia's drop-in for it: the same program, with one import changed.

The reference finds its vocabulary through TIKTOKEN_ENCODINGS_BASE, so it needs no network.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from benchmarks.cases import Case


class OpenAIHarmony:
    """`render_conversation_for_completion` on objects built beforehand, with nothing dropped; its parsers on lists of
    tokens. With `engine`, these are the drop-in's, and the tokenizer that it must be running."""

    def __init__(self, engine: str | None = None) -> None:
        self.engine = engine
        self.label = "openai-harmony" if engine is None else f"harmonia.openai_harmony, {engine}"
        self._encoding: Any = None

    @property
    def version(self) -> str:
        from importlib.metadata import version

        return version("openai-harmony" if self.engine is None else "harmonia")

    def run(self, case: Case, round_: int, *, quick: bool) -> list[tuple[float, Any]]:
        from operator import attrgetter

        from benchmarks.timing import timed, without_garbage_collection

        api = self._api()
        config = api.RenderConversationConfig(auto_drop_analysis=False)
        if self._encoding is None:
            self._encoding = self._load(engine_loaded=True)
            hello = api.Conversation.from_messages([api.Message.from_role_and_content(api.Role.USER, "Hi")])
            self._encoding.render_conversation_for_completion(hello, api.Role.ASSISTANT, config)
        encoding = self._encoding
        options = {"strict": False} if case.tolerant and self.engine is not None else {}

        def built(messages: list[dict[str, Any]]) -> Any:
            return api.Conversation.from_messages([api.Message.from_dict(message) for message in messages])

        def render(conversation: Any) -> list[int]:
            return encoding.render_conversation_for_completion(conversation, api.Role.ASSISTANT, config)

        def append(conversation: Any, message: Any) -> list[int]:
            conversation.messages.append(message)
            return render(conversation)

        def new_parser() -> Any:
            return api.StreamableParser(encoding, role=api.Role.ASSISTANT, **options)

        inputs = case.inputs(round_, quick=quick)
        results: list[tuple[float, Any]] = []
        match case.action:
            case "cold" | "warm":  # the reference keeps nothing between calls; the drop-in has no warm cases
                conversations = [built(messages) for messages in inputs]
                with without_garbage_collection():
                    for conversation in conversations:
                        self._forget()
                        results.append(timed(lambda it=conversation: render(it)))
            case "append":
                base = built(case.base_conversation())
                added = [api.Message.from_dict(message) for message in inputs]
                render(base)
                with without_garbage_collection():
                    for message in added:
                        results.append(timed(lambda it=message: append(base, it)))
                        base.messages.pop()
            case "encode":
                with without_garbage_collection():
                    seconds, tokens = timed(lambda: [encoding.encode(text, disallowed_special=()) for text in inputs])
                results.append((seconds, [token for each in tokens for token in each]))
            case "parse":
                parse = encoding.parse_messages_from_completion_tokens
                with without_garbage_collection():
                    for completion in inputs:
                        seconds, messages = timed(lambda it=completion: parse(it, api.Role.ASSISTANT, **options))
                        results.append((seconds, {"messages": [_read(message) for message in messages]}))
            case "stream" | "turn":
                stream = _stream_channels if case.with_channel else _stream
                with without_garbage_collection():
                    for completion in inputs:
                        seconds, (parser, texts) = timed(lambda it=completion: stream(it, new_parser()))
                        read = [_read(message) for message in parser.messages]
                        results.append((seconds, {"messages": read, "text": "".join(texts)}))
            case "read":
                look = attrgetter(*case.reads)
                with without_garbage_collection():
                    for completion in inputs:
                        seconds, parser = timed(lambda it=completion: _stream_and_look(it, new_parser(), look))
                        read = [_read(message) for message in parser.messages]
                        seen = _digest_looks(completion, new_parser(), look)
                        results.append((seconds, {"messages": read, "seen": seen}))
        return results

    def first_render(self, messages: list[dict[str, Any]], *, engine_loaded: bool) -> list[int]:
        """Import, load and render. The reference has only one way to load."""
        api = self._api()
        self._encoding = self._load(engine_loaded=engine_loaded)
        conversation = api.Conversation.from_messages([api.Message.from_dict(message) for message in messages])
        config = api.RenderConversationConfig(auto_drop_analysis=False)
        return self._encoding.render_conversation_for_completion(conversation, api.Role.ASSISTANT, config)

    def first_parse(self, completion: list[int]) -> list[dict[str, Any]]:
        """Parse behind the first render."""
        parsed = self._encoding.parse_messages_from_completion_tokens(completion, self._api().Role.ASSISTANT)
        return [_read(message) for message in parsed]

    def _api(self) -> Any:
        if self.engine is None:
            import openai_harmony
        else:
            from harmonia import openai_harmony
        return openai_harmony

    def _load(self, *, engine_loaded: bool) -> Any:
        api = self._api()
        encoding: Any = api.load_harmony_encoding(api.HarmonyEncodingName.HARMONY_GPT_OSS)
        # Asking which one it is loads the real tokenizer, in place of the plain-Python starter.
        if engine_loaded and self.engine is not None and encoding.vocabulary.engine_name != self.engine:
            raise RuntimeError(f"the drop-in runs the tokenizer {encoding.vocabulary.engine_name}, not {self.engine}")
        return encoding

    def _forget(self) -> None:
        """Empty the drop-in's memory of rendered messages. Programs have no need to, so it has no public name."""
        if self.engine is not None:
            from harmonia.openai_harmony import rendering

            rendering._MEMORY.clear()


def _stream(tokens: list[int], parser: Any) -> tuple[Any, list[str]]:
    """The parser when it has read a completion, and its deltas. It takes tokens one by one, however they arrive."""
    texts: list[str] = []
    for token in tokens:
        parser.process(token)
        delta = parser.last_content_delta
        if delta is not None:
            texts.append(delta)
    return parser, texts


def _stream_channels(tokens: list[int], parser: Any) -> tuple[Any, list[str]]:
    """The same, as a server does it that sends reasoning and answers to different places."""
    texts: list[str] = []
    channels: list[str | None] = []
    for token in tokens:
        parser.process(token)
        delta = parser.last_content_delta
        if delta is not None:
            texts.append(delta)
            channels.append(parser.current_channel)
    return parser, [*texts, *dict.fromkeys(map(str, channels))]


def _stream_and_look(tokens: list[int], parser: Any, look: Callable[[Any], Any]) -> Any:
    """The parser when it has read a completion, looked at behind every token."""
    for token in tokens:
        parser.process(token)
        look(parser)
    return parser


def _digest_looks(tokens: list[int], parser: Any, look: Callable[[Any], Any]) -> list[str]:
    """What is seen behind every token. All of it would be hundreds of megabytes."""
    from hashlib import blake2b

    digests: list[str] = []
    for token in tokens:
        parser.process(token)
        seen = _plain(look(parser))
        written = seen if isinstance(seen, str) else repr(seen)
        digests.append(blake2b(written.encode(), digest_size=8).hexdigest())
    return digests


def _plain(seen: Any) -> Any:
    """What was seen, without the classes of either side: states by their values, messages as they are read."""
    if isinstance(seen, list | tuple):
        return [_plain(each) for each in seen]
    if hasattr(seen, "author"):
        return _read(seen)
    return getattr(seen, "value", seen)


def _read(message: Any) -> dict[str, Any]:
    """What a message says, in the form that both rivals give."""
    return {
        "role": message.author.role.value,
        "name": message.author.name,
        "channel": message.channel,
        "recipient": message.recipient,
        "content_type": message.content_type,
        "content": "".join(content.text for content in message.content),
    }
