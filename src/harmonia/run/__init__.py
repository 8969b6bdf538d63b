"""Running a model: engines and providers, tools, and the loop around them."""

from harmonia.run.agent import Agent, AgentAnswer
from harmonia.run.engines import (
    Chunk,
    Engine,
    Finish,
    Request,
    Sampling,
    TokenLogprob,
    Traits,
    Usage,
    discover,
    open_engine,
    open_model,
)
from harmonia.run.events import (
    CallEnded,
    CallStarted,
    LogprobsGiven,
    PendingCall,
    RunEnded,
    SamplingEnded,
    SamplingGivenUp,
    SamplingStarted,
    TurnEvent,
    Unmet,
)
from harmonia.run.loop import Run, run, run_turn
from harmonia.run.options import RunChanges, RunLimits, RunOptions
from harmonia.run.providers import Provider
from harmonia.run.sampling import Model, compose
from harmonia.run.tool_calls import Answer, Approve, Approver, Decision, Edit, Refuse
from harmonia.run.tools import Tool, ToolResult, ToolSet, convert_tools_for_harmony, tool

__all__ = [
    "Agent",
    "AgentAnswer",
    "Answer",
    "Approve",
    "Approver",
    "CallEnded",
    "CallStarted",
    "Chunk",
    "Decision",
    "Edit",
    "Engine",
    "Finish",
    "LogprobsGiven",
    "Model",
    "PendingCall",
    "Provider",
    "Refuse",
    "Request",
    "Run",
    "RunChanges",
    "RunEnded",
    "RunLimits",
    "RunOptions",
    "Sampling",
    "SamplingEnded",
    "SamplingGivenUp",
    "SamplingStarted",
    "TokenLogprob",
    "Tool",
    "ToolResult",
    "ToolSet",
    "Traits",
    "TurnEvent",
    "Unmet",
    "Usage",
    "compose",
    "convert_tools_for_harmony",
    "discover",
    "open_engine",
    "open_model",
    "run",
    "run_turn",
    "tool",
]
