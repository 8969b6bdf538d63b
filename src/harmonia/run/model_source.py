"""Where the completions of a run come from, and how each is asked.

engine      the prompt is tokens, and the parser reads what comes
family      an engine whose model does not speak Harmony: the prompt is text, and the family's reader reads it
provider    a provider: it gets the conversation itself, and its events are those of the parser already
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
    from harmonia.run.families.route import FamilyRoute

Model = Engine | Provider
Pieces = AsyncGenerator[Chunk | Finish, None] | AsyncGenerator[Event | Finish, None]

# Rendering so much text for the first time takes some milliseconds.
_LONG_PROMPT_CHARS: Final = 64_000
_SHARED_RENDERER: Final = Renderer()
_NO_TOOLS: Final = Tools([])


class Source:
    """A model, and the way to speak with it. `tools` are those that it is told of, as its way has them; `renderer` is
    None where what was said is not rendered again."""

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
        self._provider = cast("Provider", model) if hasattr(model, "respond") else None
        self._route = _find_route(profile, model, tools)
        self._renderer = renderer or _SHARED_RENDERER
        self._policy = policy
        self._one_call = one_call
        self._keeps_sampled = keeps_sampled
        self._shows_guessed = shows_guessed
        self.tools = tools if self._route is None else self._route.tools
        self.declared = self.tools.declared if len(self.tools) else _NO_TOOLS
        # What a model of another family said is written as text again.
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
        """Which grammars hold the model; they are Harmony's."""
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
        """The next prompt. Behind the first `asked_at` messages stands what an attempt left that was given up."""
        if self._route is not None:
            return self._route.build(conversation)
        if self._provider is None:
            return build(conversation, prefix, self._policy, self._renderer)
        # Providers refuse reasoning with nothing behind it, and take a text at the end for one to go on with.
        said = conversation if asked_at == len(conversation) else conversation[:asked_at]
        return build(said, None, self._policy, None)

    def open(self, prompt: Prompt, request: Request) -> tuple[Completion, Pieces]:
        """Ask: what comes, and the completion that takes it."""
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
        """What of a request this model cannot be told."""
        return () if self._route is None else self._route.notes_on(request)


def _find_route(profile: ModelProfile | str | None, model: Model, tools: ToolSet) -> FamilyRoute | None:
    if profile is None and not hasattr(model, "profile"):
        return None
    # Other families are loaded where one is asked for.
    from harmonia.run.families.route import find_route

    return find_route(profile, model, tools)
