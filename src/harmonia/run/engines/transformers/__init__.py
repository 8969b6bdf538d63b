"""A model in this process, through Hugging Face's transformers. torch is loaded by opening one, not by this import."""

from harmonia.run.engines.transformers.engine import TransformersEngine

__all__ = ["TransformersEngine"]
