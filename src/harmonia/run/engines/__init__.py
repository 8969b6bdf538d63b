"""Token engines: prompt tokens in, sampled tokens out."""

from harmonia.run.engines.base import (
    PROVIDER_TRAITS,
    Alternative,
    Chunk,
    Engine,
    Finish,
    Request,
    Sampling,
    TextEngine,
    TokenLogprob,
    Traits,
    Usage,
)
from harmonia.run.engines.completions import CompletionsEngine
from harmonia.run.engines.http import Patience
from harmonia.run.engines.llama_cpp import LlamaCppEngine
from harmonia.run.engines.ollama import OllamaEngine
from harmonia.run.engines.registry import Found, Seen, discover, open_engine, open_model, probe
from harmonia.run.engines.vllm import VllmEngine

__all__ = [
    "PROVIDER_TRAITS",
    "Alternative",
    "Chunk",
    "CompletionsEngine",
    "Engine",
    "Finish",
    "Found",
    "LlamaCppEngine",
    "OllamaEngine",
    "Patience",
    "Request",
    "Sampling",
    "Seen",
    "TextEngine",
    "TokenLogprob",
    "Traits",
    "Usage",
    "VllmEngine",
    "discover",
    "open_engine",
    "open_model",
    "probe",
]
