"""An engine without a model: a deterministic speaker of genuine Harmony tokens, so that everything can be tried."""

from harmonia.run.engines.demo.engine import MISBEHAVIOURS, DemoEngine

__all__ = ["MISBEHAVIOURS", "DemoEngine"]
