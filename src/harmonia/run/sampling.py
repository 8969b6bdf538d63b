"""One sampling: the prompt, the model that gets it, and the completion while it arrives.

    conversation -compose-> with a complete head -Source.build-> Prompt -Source.open-> Completion -sort_out-> history

A model is one of three kinds:

    engine      the prompt is tokens, and the parser reads the completion
    family      an engine whose model does not speak Harmony: the prompt is text, and the family's reader reads it
    provider    it gets the conversation itself, and its events are those of the parser already

1. What an engine sends is read by the one parser, tolerantly: a fault of the model is a diagnostic, never a crash.
2. Where the engine reports that a stop token ended the completion, and keeps the token to itself, it is put back; which
   it was follows from the recipient of the message. A call that lost only that is as certain as any other.
3. A text that was cut off keeps the tokens that it was sampled as: it renders as these and an end, and another
   completion can continue it.
4. Messages of another role than the assistant's never enter the history, nor do calls that were cut off, nor what could
   not be rendered again. They are reported as left out.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Final, TypeVar, cast

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.events import Event, MessageEnded, Repaired, TurnEnded
from harmonia.grammar import GrammarKind
from harmonia.history import Dropped, Policy, select_dropped
from harmonia.messages import (
    Conversation,
    DeveloperContent,
    Message,
    ReasoningEffort,
    ResponseFormat,
    Role,
    SystemContent,
    ToolNamespace,
    is_tool_address,
)
from harmonia.parser import Parser, Tools
from harmonia.parts import GuessedAsFinal, visible_text
from harmonia.provenance import Sampled, Stop
from harmonia.renderer import Renderer, freeze
from harmonia.renderer.renderer import text_of
from harmonia.run.engines.base import Chunk, Engine, Finish, FinishReason, Request
from harmonia.run.events import AsSampled, LogprobsGiven
from harmonia.run.providers.base import Provider
from harmonia.run.tools import ToolSet
from harmonia.vocabulary import CALL, RETURN, SPELLING_BY_ID

if TYPE_CHECKING:
    from harmonia.families.profiles import ModelProfile
    from harmonia.families.registry import Reader
    from harmonia.families.templates import PromptText
    from harmonia.run.family_models import FamilyRoute

_HEAD: Final = (Role.SYSTEM, Role.DEVELOPER)
# Efforts of OpenAI's APIs that Harmony does not have, and the nearest that it has.
_NEAREST_EFFORTS: Final = {"none": "low", "minimal": "low", "xhigh": "high", "max": "high"}
# Models have no setting for it, so it is an instruction.
VERBOSITY: Final = {"low": "Keep the answer short.", "high": "Answer at length and in detail."}


def invalid_option(message: str, path: str | None = None) -> InputError:
    return InputError(ErrorCode.RUN_INVALID_OPTION, message, Position(path=path))


class Prompt(msgspec.Struct, frozen=True):
    """`tokens` are what the engine continues. `given` are those of the prefix, after `<|start|>assistant`. `dropped` is
    what the history policy left out. For a model that does not speak Harmony there are no tokens, and the prompt is
    `written` as text. `ends` has the token at which each message of `conversation` ends."""

    conversation: Conversation
    tokens: list[int] = []
    given: list[int] = []
    dropped: tuple[Dropped, ...] = ()
    written: PromptText | None = None
    ends: tuple[int, ...] = ()


def compose(
    conversation: Conversation,
    tools: ToolSet | None = None,
    *,
    effort: ReasoningEffort | str | None = None,
    response_format: ResponseFormat | None = None,
) -> Conversation:
    """The conversation with a complete head.

    It has a system message, with the effort where one is given. Built-in tools are declared in the system message, all
    others in the developer message. What is there already stays, so composing twice changes nothing.
    """
    messages = list(conversation)
    at, system = _content_of(messages, Role.SYSTEM, SystemContent) or (None, SystemContent())
    wanted = system if effort is None else system.replace(reasoning_effort=known_effort(effort))
    if tools is not None and tools.system_namespaces:
        wanted = wanted.with_tools(*tools.system_namespaces)
    if at is not None:
        messages[at] = _with_content(messages[at], system, wanted)
    elif not any(message.role is Role.SYSTEM for message in messages):
        messages.insert(0, Message.system(wanted))
    elif wanted != system:
        raise invalid_option("a system message of plain text has no place for effort or tools; use a SystemContent")
    namespaces = tools.developer_namespaces if tools is not None else ()
    if namespaces or response_format is not None:
        at, developer = _content_of(messages, Role.DEVELOPER, DeveloperContent) or (None, DeveloperContent())
        told = developer.with_tools(*namespaces) if namespaces else developer
        if response_format is not None:
            told = told.replace(response_formats=(response_format,))
        if at is not None:
            messages[at] = _with_content(messages[at], developer, told)
        else:
            after = next((index for index, each in enumerate(messages) if each.role is not Role.SYSTEM), len(messages))
            messages.insert(after, Message(Role.DEVELOPER, told))
    # The head is rendered again and again, and with many tools it is long.
    return Conversation(freeze(message) if message.role in _HEAD else message for message in messages)


def with_head(
    conversation: Iterable[Message],
    *,
    date: str | None,
    identity: str | None = None,
    is_provider: bool = False,
    has_declarations: bool = False,
) -> Conversation:
    """The conversation after a system message of a server's own.

    A provider writes its own system message, and gets another identity as a second one. `has_declarations`: `compose`
    will declare tools or a format. They belong at the head, so there is a developer message for them, even if there is
    another one further down.
    """
    messages = list(conversation)
    system = SystemContent(conversation_start_date=date)
    if identity is None:
        head = [Message.system(system)]
    elif is_provider:
        head = [Message.system(system), Message.system(identity)]
    else:
        head = [Message.system(system.replace(model_identity=identity))]
    if has_declarations and (not messages or messages[0].role is not Role.DEVELOPER):
        head.append(Message.developer())
    return Conversation([*head, *messages])


def known_effort(effort: ReasoningEffort | str) -> ReasoningEffort:
    """The effort under this name."""
    try:
        return ReasoningEffort(effort)
    except ValueError:
        known = ", ".join(each.value for each in ReasoningEffort)
        raise invalid_option(f"effort is {effort!r}; expected one of {known}") from None


def nearest_effort(word: str | None) -> ReasoningEffort | None:
    """An effort of OpenAI's APIs in Harmony's words."""
    return None if word is None else ReasoningEffort(_NEAREST_EFFORTS.get(word, word))


def declared_namespaces(conversation: Conversation) -> list[ToolNamespace]:
    """The tools that the messages of a conversation declare."""
    contents = (content for message in conversation for content in message.contents)
    declaring = (content.tools or {} for content in contents if isinstance(content, SystemContent | DeveloperContent))
    return list({name: space for tools in declaring for name, space in tools.items()}.values())


def build(conversation: Conversation, prefix: Message | None, policy: Policy, renderer: Renderer | None) -> Prompt:
    """The prompt for the next message of the assistant, or for the rest of `prefix`.

    Without a renderer there are no tokens: a provider takes the conversation itself.
    """
    dropped = select_dropped(conversation, policy)
    if dropped:
        gone = {each.index for each in dropped}
        conversation = Conversation(message for index, message in enumerate(conversation) if index not in gone)
    if renderer is None:
        return Prompt(conversation, dropped=dropped)
    rendered = renderer.render(conversation) if prefix is None else renderer.render(conversation, None)
    tokens, given = rendered.tokens, list[int]()
    if prefix is not None:
        prefix_tokens = renderer.render([prefix], None).tokens[:-1]
        opening = renderer.render([]).tokens  # <|start|>assistant
        if prefix_tokens[: len(opening)] != opening:
            raise invalid_option("the prefix must be a message of the assistant, without a name")
        tokens, given = tokens + prefix_tokens, prefix_tokens[len(opening) :]
    return Prompt(conversation, tokens, given, dropped, ends=tuple(span.end_token for span in rendered.spans))


def take_last(conversation: Conversation) -> tuple[Conversation, Message | None]:
    """The conversation without its last message, and that message, which the model is to continue.

    Where the model was cut off after the end of a message, or within one that was not kept, it starts the next one.
    """
    last = conversation[-1] if len(conversation) else None
    if last is None or last.role is not Role.ASSISTANT:
        raise invalid_option("there is nothing to continue: the last message is not the assistant's")
    stop = last.origin.stop if last.origin is not None else None
    if stop == "call":
        raise invalid_option("the last message is a call; add its result instead")
    return (conversation, None) if stop == "end" else (conversation[:-1], last)


Content = TypeVar("Content")


def _content_of(messages: list[Message], role: Role, kind: type[Content]) -> tuple[int, Content] | None:
    at_role = ((index, message) for index, message in enumerate(messages) if message.role is role)
    found = ((index, each) for index, message in at_role for each in message.contents if isinstance(each, kind))
    return next(found, None)


def _with_content(message: Message, before: object, content: SystemContent | DeveloperContent) -> Message:
    if content == before:
        return message
    return message.replace(content=[content if isinstance(each, type(content)) else each for each in message.contents])


Model = Engine | Provider
Pieces = AsyncGenerator[Chunk | Finish, None] | AsyncGenerator[Event | Finish, None]

# Rendering so much text for the first time takes some milliseconds.
_LONG_PROMPT_CHARS: Final = 64_000
_SHARED_RENDERER: Final = Renderer()
_NO_TOOLS: Final = Tools([])


def engine_of(model: Model) -> Engine | None:
    """The model as an engine; None where it is a provider."""
    return None if model.traits.takes_messages else cast("Engine", model)


class Source:
    """A model, and how it is asked. `tools` are those that it may call, in the form it takes; `renderer` is None where
    its completions are not rendered again."""

    def __init__(
        self,
        model: Model,
        tools: ToolSet,
        *,
        profile: ModelProfile | str | None,
        policy: Policy,
        renderer: Renderer | None,
        one_call: bool,
        keeps_sampled: bool,
        shows_guessed: bool = False,
    ) -> None:
        self._provider = cast("Provider", model) if model.traits.takes_messages else None
        self._route: FamilyRoute | None = None
        if profile is not None or not model.traits.speaks_harmony:
            from harmonia.run.family_models import find_route  # other families are loaded where one is needed

            self._route = find_route(profile, model, tools)
        self._engine = cast("Engine", model) if self._provider is None and self._route is None else None
        self._renderer = renderer or _SHARED_RENDERER
        self._policy = policy
        self.tools = tools if self._route is None else self._route.tools
        self.declared = self.tools.declared if len(self.tools) else _NO_TOOLS
        # What a model of another family wrote goes into the next prompt as text.
        self.renderer = self._renderer if self._route is None else None
        # Which grammars the model takes (they are Harmony's), and whether a header can be put into its prompt.
        self.takes_grammar: GrammarKind | None = None if self._engine is None else self._engine.traits.takes_grammar
        self.takes_headers = self._engine is not None and self._engine.traits.takes_tokens
        self._complete = partial(
            Completion, self.declared, one_call=one_call, keeps=keeps_sampled, shows_guessed=shows_guessed
        )

    def check_prefix(self) -> None:
        """Raise where the model cannot continue a message."""
        if self._engine is None:
            who = "only a model that speaks Harmony can" if self._provider is None else "a provider cannot"
            raise invalid_option(f"{who} continue a message")

    def is_long(self, conversation: Conversation, prefix: Message | None) -> bool:
        """Whether the prompt takes so long to make that others should not wait for it."""
        if self._provider is not None:
            return False
        characters = sum(len(message.text) for message in conversation)
        return characters + (0 if prefix is None else len(prefix.text)) >= _LONG_PROMPT_CHARS

    def build(self, conversation: Conversation, prefix: Message | None, *, asked_at: int) -> Prompt:
        """The next prompt. What follows the first `asked_at` messages was left by an attempt that was given up."""
        if self._route is not None:
            return Prompt(conversation, written=self._route.write(conversation))
        if self._provider is None:
            return build(conversation, prefix, self._policy, self._renderer)
        # Providers refuse reasoning that nothing follows, and would continue a text at the end.
        said = conversation if asked_at == len(conversation) else conversation[:asked_at]
        return build(said, None, self._policy, None)

    def open(self, prompt: Prompt, request: Request) -> tuple[Completion, Pieces]:
        """Ask the model: the completion, and the pieces to feed it."""
        if self._provider is not None:
            return self._complete(is_provider=True), self._provider.respond(prompt.conversation, request)
        if self._route is not None and (written := prompt.written) is not None:
            return self._complete(reader=self._route.reader(written)), self._route.generate(written, request)
        assert self._engine is not None
        is_text = not self._engine.traits.gives_tokens
        return self._complete(prompt.given, is_text=is_text), self._engine.generate(prompt.tokens, request)

    def notes_on(self, request: Request) -> tuple[str, ...]:
        """Which parts of a request this model does not see."""
        return () if self._route is None else self._route.notes_on(request)


_OUTSIDE_MESSAGES: Final = "stream."
# Some of what an engine sends: a token, tokens, or text.
_Piece = int | Sequence[int] | str


class Completion:
    """What the model says in one sampling.

    `given` are the tokens of a message that the prompt began, after `<|start|>assistant`: the message goes on, and the
    caller knows its beginning. An engine that gives text got them as text, too. `keeps` what the engine sends, for
    `as_sampled`. A `reader` takes the parser's place where the model does not speak Harmony. With `shows_guessed`, text
    that is a guess, and may be the answer, is shown.
    """

    def __init__(
        self,
        tools: Tools,
        given: Sequence[int] = (),
        *,
        is_text: bool = False,
        is_provider: bool = False,
        one_call: bool = False,
        keeps: bool = False,
        reader: Reader | None = None,
        shows_guessed: bool = False,
    ) -> None:
        self._parser = Parser(Role.ASSISTANT, tools=tools)
        self._reader = reader
        self._is_provider = is_provider
        self._one_call = one_call
        self._given = tuple(given)
        self._guesses = GuessedAsFinal() if shows_guessed else None
        self._kept: list[_Piece] | None = [] if keeps and not is_provider else None
        self._doubted: list[int] = []
        self._late: list[ErrorCode] = []
        self._is_closed = False
        self._has_turn_ended = False
        self.messages: list[Message] = []
        self.hidden_because: str | None = None
        self.is_over = False
        # The reader of another family takes text, and its engines give nothing else.
        self._read: Callable[[_Piece], list[Event]] = self._parser.feed if reader is None else self._read_text
        # The run calls it for every chunk, and passes the events on that `note` has to see.
        is_plain = self._kept is None and self._guesses is None
        self.feed: Final[Callable[[_Piece], list[Event]]] = self._read if is_plain else self._feed_and_keep
        # The events of what the prompt began, for a run that began it itself.
        self.opening: list[Event] = []
        if given:
            self.opening = self._show(self._parser.feed(text_of(given, ambiguous="escape") if is_text else given))

    @property
    def sampled_tokens(self) -> int:
        """How many tokens came; none where the engine speaks text."""
        return max(self._parser.token_count - len(self._given), 0)

    def join_logprobs(self, chunk: Chunk) -> LogprobsGiven:
        """The log-probabilities of the tokens of a chunk that is about to be fed. Each belongs to the token whose id it
        has: an engine that sends too many, or others, must not put hidden tokens beside visible ones."""
        if not chunk.tokens:
            return LogprobsGiven(chunk.logprobs)
        pairs = takewhile(lambda pair: pair[0] == pair[1].token, zip(chunk.tokens, chunk.logprobs, strict=False))
        return LogprobsGiven(tuple(entry for _, entry in pairs), self.sampled_tokens)

    @property
    def as_sampled(self) -> AsSampled | None:
        """What the engine sent; None where it was not to be kept."""
        if self._kept is None:
            return None
        tokens: list[int] = []
        for chunk in self._kept:
            if not isinstance(chunk, str):
                tokens += [chunk] if isinstance(chunk, int) else chunk
        text = "".join(chunk for chunk in self._kept if isinstance(chunk, str))
        return AsSampled(tuple(tokens), text, self._given, tuple(self._late))

    def note_late(self, events: Sequence[Event], chunk: _Piece = ()) -> None:
        """The engine continued after `<|return|>`. That is not part of the answer, but who looks at what was sampled
        wants to see it. `events` are those of the chunk that ended the turn, `chunk` is one that came later."""
        if self._kept is not None and _stop_of(self.messages) == "return":
            self._collect([*events, *self.feed(chunk)])

    def _collect(self, events: Sequence[Event]) -> None:
        codes = (event.diagnostic.code for event in events if isinstance(event, Repaired))
        # It was stopped, perhaps within a header: what it did not come to is not a fault.
        self._late += [code for code in codes if code.value.startswith(_OUTSIDE_MESSAGES)]

    def _read_text(self, chunk: _Piece) -> list[Event]:
        assert self._reader is not None
        return self._with_doubts(self._reader.feed(cast("str", chunk)))

    def _with_doubts(self, events: list[Event]) -> list[Event]:
        """The events; what they doubt is noted."""
        from harmonia.families.reader import doubted_call  # loaded already, where there is a reader

        self._doubted += [index for event in events if (index := doubted_call(event)) is not None]
        return events

    def _feed_and_keep(self, chunk: _Piece) -> list[Event]:
        if self._kept is not None:
            self._kept.append(chunk)
        return self._show(self._read(chunk))

    def _show(self, events: list[Event]) -> list[Event]:
        return events if self._guesses is None else self._guesses.feed(events)

    def note(self, event: MessageEnded | TurnEnded) -> None:
        """Keep what is to be kept."""
        if isinstance(event, MessageEnded):
            self.messages.append(event.message)
            # Other families and providers have no token that hands over for a call, and a model that means to make
            # another one ends the first with <|end|>. Where <|call|> ends it, the end of the turn follows.
            is_handed = self._reader is not None or self._is_provider or event.stop == "end"
            if self._one_call and is_handed and is_tool_address(event.message.recipient):
                self.is_over = True
        else:
            self._has_turn_ended = True
            self.hidden_because = event.hidden_because
            # <|return|> hands over for good. After <|call|> an engine may let the model make another call.
            self.is_over = self.is_over or event.stop == "return" or (self._one_call and event.stop == "call")

    def end(self, reason: FinishReason | None) -> list[Event]:
        """What happens because no more comes. `reason` is None where it was cut off on this side, or broke."""
        if self._reader is not None:
            return self._end_reading(self._reader, reason)
        if self.is_over:
            # What follows <|return|> in the same chunk is not part of the answer.
            if self._kept is not None and not self._is_closed and _stop_of(self.messages) == "return":
                self._is_closed = True
                self._collect(self._parser.close())
            if self._has_turn_ended:
                return []
        if self.is_over or self._is_provider:
            # The messages have ended; that the turn has, and what there is to see, is not reported yet.
            self._is_provider = False
            event = TurnEnded(_stop_of(self.messages), why_hidden(self.messages))
            self.note(event)
            return [event]
        parser, header = self._parser, self._parser.header
        events: list[Event] = []
        if reason == "stop" and header is not None:
            stop = CALL if header.is_call else RETURN
            events += self.feed(stop if parser.reads_tokens else SPELLING_BY_ID[stop])
        # A text that was cut off may be continued, as the tokens that it was. A call that was cut off may not.
        begun = None if header is None or header.is_call else parser.sampled_so_far
        events += self._show(parser.close())
        if begun is not None:
            events = [_as_begun(event, begun) if isinstance(event, MessageEnded) else event for event in events]
        for event in events:
            if isinstance(event, MessageEnded | TurnEnded):
                self.note(event)
        return events

    def _end_reading(self, reader: Reader, reason: FinishReason | None) -> list[Event]:
        from harmonia.families.reader import as_doubted

        if self._is_closed:
            return []
        self._is_closed = True
        # What follows the one call that was asked for is not part of the answer.
        events: list[Event] = []
        for event in self._show(self._with_doubts([TurnEnded(None)] if self.is_over else reader.close())):
            if isinstance(event, MessageEnded) and reason == "stop":
                event = _as_ended(event)
            elif isinstance(event, TurnEnded):
                event = msgspec.structs.replace(event, stop=_stop_of(self.messages))
            if isinstance(event, MessageEnded | TurnEnded):
                self.note(event)
            events.append(event)
        for index in self._doubted:  # what came later made guesses of these calls
            if index < len(self.messages):
                self.messages[index] = as_doubted(self.messages[index])
        return events


def _as_begun(event: MessageEnded, begun: Sampled) -> MessageEnded:
    """The end of a message that has none, with what was sampled of it: only that was mended."""
    origin = event.message.origin
    if event.stop is not None or origin is None:
        return event
    return msgspec.structs.replace(event, message=event.message.with_origin(origin, begun))


def _as_ended(event: MessageEnded) -> MessageEnded:
    """The last message of another family's model, whose turn has ended: with it the message has, unless it is known to
    lack something."""
    message, origin = event.message, event.message.origin
    if event.stop is not None or origin is None or ErrorCode.FAMILY_UNCLOSED in origin.faults:
        return event
    stop: Stop = "call" if is_tool_address(message.recipient) else "return"
    whole = message.with_origin(msgspec.structs.replace(origin, stop=stop))
    return msgspec.structs.replace(event, stop=stop, message=whole)


def why_hidden(messages: Sequence[Message]) -> str | None:
    """Why there is nothing to show and nothing to call in these; None where there is something."""
    if visible_text(messages) or any(is_tool_address(message.recipient) for message in messages):
        return None
    channels = sorted({str(message.channel) for message in messages if message.text.strip()})
    return f"there is only text on {' and '.join(channels)}" if channels else "there is no text"


def _stop_of(messages: Sequence[Message]) -> Stop | None:
    origin = messages[-1].origin if messages else None
    return None if origin is None else origin.stop


def sort_out(
    messages: Sequence[Message], renderer: Renderer | None, *, is_cut: bool
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """What enters the history, and what is left out. `is_cut` says that the last message may lack its end. Without a
    renderer it does not matter whether Harmony could write it."""
    judged = [(message, _may_stay(message, renderer, is_cut=is_cut)) for message in messages]
    return tuple(each for each, stays in judged if stays), tuple(each for each, stays in judged if not stays)


def _may_stay(message: Message, renderer: Renderer | None, *, is_cut: bool) -> bool:
    origin = message.origin
    if message.role is not Role.ASSISTANT or (origin is not None and origin.forged):
        return False
    is_whole = origin is None or origin.stop is not None
    # A call that was cut off is not a call, and a header that was cut off is not text.
    if is_cut and not is_whole and (is_tool_address(message.recipient) or message.channel is None):
        return False
    if message.sampled is not None or renderer is None:
        return True  # it is rendered as it was sampled, or written as text
    try:
        renderer.render([message], None)
    except InputError:
        return False
    return True
