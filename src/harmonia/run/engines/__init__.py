"""Token engines: prompt tokens in, sampled tokens out."""

from harmonia.run.engines.engine import (
    Alternative,
    Chunk,
    Engine,
    Finish,
    FinishReason,
    Request,
    Sampling,
    TokenLogprob,
    ToolChoice,
    Traits,
    Usage,
)

__all__ = [
    "Alternative",
    "Chunk",
    "Engine",
    "Finish",
    "FinishReason",
    "Request",
    "Sampling",
    "TokenLogprob",
    "ToolChoice",
    "Traits",
    "Usage",
]
