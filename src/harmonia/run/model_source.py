"""Where the completions of a run come from, and how each is asked.

engine      the prompt is tokens, and the parser reads the completion
family      an engine whose model does not speak Harmony: the prompt is text, and the family's reader reads it
provider    it gets the conversation itself, and its events are those of the parser already
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final, cast

from harmonia.events import Event
from harmonia.grammar import GrammarKind
from harmonia.history import Policy
from harmonia.messages import Conversation, Message
from harmonia.parser import Tools
from harmonia.renderer import Renderer
from harmonia.run.engines.base import Chunk, Engine, Finish, Request
from harmonia.run.prompt import Prompt, build
from harmonia.run.providers.base import Provider
from harmonia.run.sampling import Completion
from harmonia.run.tools import ToolSet

if TYPE_CHECKING:
    from harmonia.families.profiles import ModelProfile
    from harmonia.run.family_models import FamilyRoute

Model = Engine | Provider
Pieces = AsyncGenerator[Chunk | Finish, None] | AsyncGenerator[Event | Finish, None]

# Rendering so much text for the first time takes some milliseconds.
_LONG_PROMPT_CHARS: Final = 64_000
_SHARED_RENDERER: Final = Renderer()
_NO_TOOLS: Final = Tools([])


def provider_of(model: Model) -> Provider | None:
    """The model as a provider; None where it is an engine."""
    return cast("Provider", model) if model.traits.takes_messages else None


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
        self._model = model
        self._provider = provider_of(model)
        self._route = _find_route(profile, model, tools)
        self._renderer = renderer or _SHARED_RENDERER
        self._policy = policy
        self._one_call = one_call
        self._keeps_sampled = keeps_sampled
        self._shows_guessed = shows_guessed
        self.tools = tools if self._route is None else self._route.tools
        self.declared = self.tools.declared if len(self.tools) else _NO_TOOLS
        # What a model of another family wrote goes into the next prompt as text.
        self.renderer = self._renderer if self._route is None else None

    @property
    def prefix_refusal(self) -> str | None:
        """Why the model cannot continue a prefix; None where it can."""
        if self._provider is not None:
            return f"{self._model.name} is a provider, and providers cannot continue a message"
        if self._route is not None:
            return "only a model that speaks Harmony can continue a message"
        return None

    @property
    def takes_grammar(self) -> GrammarKind | None:
        """Which grammars the model takes; they are Harmony's."""
        return None if self._engine is None else self._engine.traits.takes_grammar

    @property
    def takes_headers(self) -> bool:
        """Whether a header can be put into the prompt for the model."""
        return self._engine is not None and self._engine.traits.takes_tokens

    @property
    def _engine(self) -> Engine | None:
        return None if self._provider is not None or self._route is not None else cast("Engine", self._model)

    def is_long(self, conversation: Conversation, prefix: Message | None) -> bool:
        """Whether the prompt takes so long to make that others should not wait for it."""
        if self._provider is not None:
            return False
        characters = sum(len(message.text) for message in conversation)
        return characters + (0 if prefix is None else len(prefix.text)) >= _LONG_PROMPT_CHARS

    def build(self, conversation: Conversation, prefix: Message | None, *, asked_at: int) -> Prompt:
        """The next prompt. What follows the first `asked_at` messages was left by an attempt that was given up."""
        if self._route is not None:
            return self._route.build(conversation)
        if self._provider is None:
            return build(conversation, prefix, self._policy, self._renderer)
        # Providers refuse reasoning that nothing follows, and would continue a text at the end.
        said = conversation if asked_at == len(conversation) else conversation[:asked_at]
        return build(said, None, self._policy, None)

    def open(self, prompt: Prompt, request: Request) -> tuple[Completion, Pieces]:
        """Ask the model: the completion, and the pieces to feed it."""
        if self._provider is not None:
            completion = Completion(self.declared, is_provider=True, one_call=self._one_call)
            return completion, self._provider.respond(prompt.conversation, request)
        if self._route is not None:
            reader = self._route.reader(prompt)
            completion = Completion(
                self.declared,
                reader=reader,
                one_call=self._one_call,
                keeps=self._keeps_sampled,
                shows_guessed=self._shows_guessed,
            )
            return completion, self._route.generate(prompt, request)
        engine = cast("Engine", self._model)
        completion = Completion(
            self.declared,
            prompt.given,
            is_text=not engine.traits.gives_tokens,
            one_call=self._one_call,
            keeps=self._keeps_sampled,
            shows_guessed=self._shows_guessed,
        )
        return completion, engine.generate(prompt.tokens, request)

    def notes_on(self, request: Request) -> tuple[str, ...]:
        """Which parts of a request this model does not see."""
        return () if self._route is None else self._route.notes_on(request)


def _find_route(profile: ModelProfile | str | None, model: Model, tools: ToolSet) -> FamilyRoute | None:
    if profile is None and model.traits.speaks_harmony:
        return None
    # Other families are loaded where one is needed.
    from harmonia.run.family_models import find_route

    return find_route(profile, model, tools)
