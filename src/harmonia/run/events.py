"""The events of a run. The parser's events pass through unchanged, between these.

    SamplingStarted  (Event | LogprobsGiven)*  SamplingEnded      the model samples, once or several times
                                             | SamplingGivenUp    it did not do what was demanded, and is asked again
    CallStarted*  CallEnded*                                       its calls, where the run makes them
    RunEnded                                                       exactly one, always the last

A run that fails raises and has no RunEnded; what came before is in `Run.conversation`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from harmonia.errors import ErrorCode
from harmonia.events import Event
from harmonia.history import Dropped
from harmonia.messages import Conversation, Message
from harmonia.parts import Call
from harmonia.run.engines.base import FinishReason, TokenLogprob, Usage
from harmonia.run.tools.tool import ToolResult

# answered  the model ended its turn, and there is something for the user to read
# silent    it ended its turn, and there is nothing to read; `hidden_because` says why
# calls     it waits for results of calls that the caller makes
# length    the tokens asked for, or the engine's context, are used up; what came is kept
# cut_off   the stream ended in the middle of a message without a reason; what came is kept
# unmet     the model did not do what was demanded of it, and will not be asked again; `unmet` says what is missing
# limit     a limit of the run was reached; `limit` says which
# stopped   `stop` was called
RunEnd = Literal["answered", "silent", "calls", "length", "cut_off", "unmet", "limit", "stopped"]
LimitName = Literal["samplings", "calls", "tokens", "time"]

# call       a call was demanded, and none was made that would do
# arguments  what a strict tool, or one whose text has a form, was given does not fit
# format     the answer is not of the response format
# malformed  the output contains nothing to show and nothing to run, because it is malformed
UnmetKind = Literal["call", "arguments", "format", "malformed"]


class Unmet(msgspec.Struct, frozen=True):
    """What is missing in a completion. The message may name a field that the model wrote. `about` is the whole name of
    the tool that was called; `place` is the path of what does not fit, as far as the schema has names for it; `reason`
    says why that does not fit, where it is known, without a word of the model's."""

    kind: UnmetKind
    message: str
    about: str | None = None
    place: str | None = None
    reason: str | None = None


class PendingCall(msgspec.Struct, frozen=True):
    """A call that the model made. `id` is that of the conversation: `call_7` is its message number 7."""

    id: str
    call: Call
    message: Message


class SamplingStarted(msgspec.Struct, frozen=True, tag_field="type", tag="sampling_started"):
    """The model is asked. The first `shared_tokens` of the prompt are those of the prompt before, which an engine need
    not read again; `dropped` is what the history policy left out. The prompt has no tokens where it is text or goes to
    a provider. The last `prefix_tokens` are a header that the run wrote for the model; its events come all the same."""

    index: int
    prompt_tokens: int
    shared_tokens: int
    dropped: tuple[Dropped, ...] = ()
    prefix_tokens: int = 0


class LogprobsGiven(msgspec.Struct, frozen=True, tag_field="type", tag="logprobs_given"):
    """The log-probabilities of the tokens whose events come next. `start_token` is the index of the first one among the
    sampled tokens; None where the engine gives text."""

    logprobs: tuple[TokenLogprob, ...]
    start_token: int | None = None


class AsSampled(msgspec.Struct, frozen=True):
    """What the engine sent, unchanged: `tokens`, or `text` where it has no ids. A stop token it did not send is added.
    `given` are the tokens of the prefix that this continues. `late` are the faults of what it sent after the end of the
    turn, which has no events."""

    tokens: tuple[int, ...] = ()
    text: str = ""
    given: tuple[int, ...] = ()
    late: tuple[ErrorCode, ...] = ()


class SamplingEnded(msgspec.Struct, frozen=True, tag_field="type", tag="sampling_ended"):
    """The model ended its turn. `messages` went into the conversation; `left_out` did not: they are calls that were cut
    off, or messages of another role, which a completion may not have. `notes` are for people, the engine's among them.
    `as_sampled` is set where the run was asked to keep it. `unverified_constraints` are the notes about constraints
    that were neither enforced nor verified, and about parts of the request that the model does not see; they never
    contain model text."""

    reason: FinishReason | Literal["stopped", "limit"]
    usage: Usage
    messages: tuple[Message, ...]
    left_out: tuple[Message, ...] = ()
    notes: tuple[str, ...] = ()
    as_sampled: AsSampled | None = None
    unverified_constraints: tuple[str, ...] = ()


class SamplingGivenUp(msgspec.Struct, frozen=True, tag_field="type", tag="sampling_given_up"):
    """The completion is not what was demanded, so the model is asked again. `messages` were passed on and went into the
    conversation; `left_out` were discarded, and this event is all that reports them. `unmet` says why."""

    unmet: Unmet
    reason: FinishReason
    usage: Usage
    messages: tuple[Message, ...]
    left_out: tuple[Message, ...]
    left_out_tokens: int = 0
    notes: tuple[str, ...] = ()
    as_sampled: AsSampled | None = None


class CallStarted(msgspec.Struct, frozen=True, tag_field="type", tag="call_started"):
    """A call is being run. `arguments` are what the tool gets; an approver may have changed them."""

    id: str
    call: Call
    arguments: Any


class CallEnded(msgspec.Struct, frozen=True, tag_field="type", tag="call_ended"):
    """A call has its result: the tool's, an approver's, or the reason why it was not run."""

    id: str
    call: Call
    result: ToolResult
    duration_s: float


class RunEnded(msgspec.Struct, frozen=True, tag_field="type", tag="run_ended"):
    """The end. `usage` is that of all samplings together; `pending` are the calls that wait for their results."""

    reason: RunEnd
    conversation: Conversation
    usage: Usage
    pending: tuple[PendingCall, ...] = ()
    limit: LimitName | None = None
    hidden_because: str | None = None
    unmet: Unmet | None = None


TurnEvent = (
    Event | SamplingStarted | LogprobsGiven | SamplingEnded | SamplingGivenUp | CallStarted | CallEnded | RunEnded
)
