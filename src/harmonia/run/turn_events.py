"""What happens in a run. The parser's events pass through as they are; these stand around them.

    SamplingStarted  (Event | LogprobsGiven)*  SamplingEnded      the model speaks, once or several times
    CallStarted*  CallEnded*                                       its calls, where they are run here
    RunEnded                                                       always the last, and exactly one

A run that fails raises, and has no RunEnded; what was said before is in `Run.conversation`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from harmonia.events import Event
from harmonia.history import Dropped
from harmonia.messages import Conversation, Message
from harmonia.parts import Call
from harmonia.run.engines.engine import FinishReason, TokenLogprob, Usage
from harmonia.run.tools.tool import ToolResult

# answered  the model ended its turn, and there is something for the user to read
# silent    it ended its turn, and there is nothing to read; `hidden_because` says why
# calls     it waits for results of calls that are not run here
# length    the tokens asked for, or the engine's context, are used up; what came is kept
# cut_off   the stream ended in the middle of a message, and nobody said why; what came is kept
# limit     a limit of the run was reached; `limit` says which
# stopped   somebody called `stop`
RunEnd = Literal["answered", "silent", "calls", "length", "cut_off", "limit", "stopped"]
LimitName = Literal["samplings", "calls", "tokens", "time"]


class PendingCall(msgspec.Struct, frozen=True):
    """A call that the model made. `id` is that of the conversation: `call_7` is its message number 7."""

    id: str
    call: Call
    message: Message


class SamplingStarted(msgspec.Struct, frozen=True, tag_field="type", tag="sampling_started"):
    """The model is asked. `shared_tokens` of the prompt are those of the prompt before, which an engine need not read
    again; `dropped` is what the history's policy left out. An upstream's prompt has no tokens here."""

    index: int
    prompt_tokens: int
    shared_tokens: int
    dropped: tuple[Dropped, ...] = ()


class LogprobsGiven(msgspec.Struct, frozen=True, tag_field="type", tag="logprobs_given"):
    """The log-probabilities of the tokens whose events come next."""

    logprobs: tuple[TokenLogprob, ...]


class SamplingEnded(msgspec.Struct, frozen=True, tag_field="type", tag="sampling_ended"):
    """The model handed over. `messages` went into the conversation; `left_out` did not: messages of another role than
    the assistant's, which a completion may not have, and calls that were cut off. `notes` are the engine's."""

    reason: FinishReason | Literal["stopped", "limit"]
    usage: Usage
    messages: tuple[Message, ...]
    left_out: tuple[Message, ...] = ()
    notes: tuple[str, ...] = ()


class CallStarted(msgspec.Struct, frozen=True, tag_field="type", tag="call_started"):
    """A call is being run. `arguments` are what the tool gets: a person may have changed them."""

    id: str
    call: Call
    arguments: Any


class CallEnded(msgspec.Struct, frozen=True, tag_field="type", tag="call_ended"):
    """A call has its result, whoever gave it: the tool, a person, or a reason why it was not run."""

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


TurnEvent = Event | SamplingStarted | LogprobsGiven | SamplingEnded | CallStarted | CallEnded | RunEnded
