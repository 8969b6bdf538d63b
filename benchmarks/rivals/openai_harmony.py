"""The reference implementation. It finds its vocabulary through TIKTOKEN_ENCODINGS_BASE, so it needs no network."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from benchmarks.cases import Case


class OpenAIHarmony:
    """`render_conversation_for_completion` on objects built beforehand, with nothing dropped; its parsers on lists of
    tokens."""

    label = "openai-harmony"

    def __init__(self) -> None:
        self._encoding: Any = None

    @property
    def version(self) -> str:
        from importlib.metadata import version

        return version("openai-harmony")

    def run(self, case: Case, round_: int, *, quick: bool) -> list[tuple[float, Any]]:
        from openai_harmony import (
            Conversation,
            HarmonyEncodingName,
            Message,
            RenderConversationConfig,
            Role,
            load_harmony_encoding,
        )

        from benchmarks.timing import timed, without_garbage_collection

        config = RenderConversationConfig(auto_drop_analysis=False)
        if self._encoding is None:
            self._encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
            hello = Conversation.from_messages([Message.from_role_and_content(Role.USER, "Hi")])
            self._encoding.render_conversation_for_completion(hello, Role.ASSISTANT, config)
        encoding = self._encoding

        def built(messages: list[dict[str, Any]]) -> Conversation:
            return Conversation.from_messages([Message.from_dict(message) for message in messages])

        def render(conversation: Conversation) -> list[int]:
            return encoding.render_conversation_for_completion(conversation, Role.ASSISTANT, config)

        def append(conversation: Conversation, message: Message) -> list[int]:
            conversation.messages.append(message)
            return render(conversation)

        inputs = case.inputs(round_, quick=quick)
        results: list[tuple[float, Any]] = []
        match case.action:
            case "cold" | "warm":  # it keeps nothing between calls
                conversations = [built(messages) for messages in inputs]
                with without_garbage_collection():
                    for conversation in conversations:
                        results.append(timed(lambda it=conversation: render(it)))
            case "append":
                base = built(case.base_conversation())
                added = [Message.from_dict(message) for message in inputs]
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
                        seconds, messages = timed(lambda it=completion: parse(it, Role.ASSISTANT))
                        results.append((seconds, {"messages": [_read(message) for message in messages]}))
            case "stream":
                with without_garbage_collection():
                    for completion in inputs:
                        seconds, (parser, texts) = timed(
                            lambda it=completion: (_stream_channels if case.with_channel else _stream)(it, encoding)
                        )
                        read = [_read(message) for message in parser.messages]
                        results.append((seconds, {"messages": read, "text": "".join(texts)}))
        return results

    def first_render(self, messages: list[dict[str, Any]], *, engine_loaded: bool) -> list[int]:
        """Import, load and render; it has only one way to load."""
        from openai_harmony import (
            Conversation,
            HarmonyEncodingName,
            Message,
            RenderConversationConfig,
            Role,
            load_harmony_encoding,
        )

        encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
        conversation = Conversation.from_messages([Message.from_dict(message) for message in messages])
        config = RenderConversationConfig(auto_drop_analysis=False)
        return encoding.render_conversation_for_completion(conversation, Role.ASSISTANT, config)


def _stream(tokens: list[int], encoding: Any) -> tuple[Any, list[str]]:
    """A parser that has read a completion, and its deltas. It takes tokens one by one, however they arrive."""
    from openai_harmony import Role, StreamableParser

    parser = StreamableParser(encoding, role=Role.ASSISTANT)
    texts: list[str] = []
    for token in tokens:
        parser.process(token)
        delta = parser.last_content_delta
        if delta is not None:
            texts.append(delta)
    return parser, texts


def _stream_channels(tokens: list[int], encoding: Any) -> tuple[Any, list[str]]:
    """The same, as a server does it that sends reasoning and answers to different places."""
    from openai_harmony import Role, StreamableParser

    parser = StreamableParser(encoding, role=Role.ASSISTANT)
    texts: list[str] = []
    channels: list[str | None] = []
    for token in tokens:
        parser.process(token)
        delta = parser.last_content_delta
        if delta is not None:
            texts.append(delta)
            channels.append(parser.current_channel)
    return parser, [*texts, *dict.fromkeys(map(str, channels))]


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
