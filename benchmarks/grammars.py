"""What the grammar's cases are made of, the same for Harmonia and for the engines."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from benchmarks.cases import Case, Json


def kind_of(case: Case) -> Any:
    """For which engine the grammars of a case are."""
    kinds = {"xgrammar": "xgrammar", "llama.cpp": "gbnf"}
    return next((kinds[rival] for rival in case.rivals if rival in kinds), "llguidance")


def demand_of(messages: list[Json]) -> Any:
    """The tools of a conversation, one of which has to be called."""
    from harmonia import Conversation
    from harmonia.grammar import Demand, declared_tools

    contents = (message.content for message in Conversation.from_dict(messages))
    return Demand(declared_tools(next(tuple(it.tools.values()) for it in contents if getattr(it, "tools", None))))


def completion_of(demand: Any) -> list[int]:
    """A thought, and a call of the first tool, with what it requires."""
    import json

    from harmonia import encode

    tool = demand.tools[0]
    words = "Some words, as they are said."
    made: dict[str, Any] = {"string": words, "number": 12.5, "integer": 3, "boolean": True, "array": [], "object": {}}
    arguments: dict[str, Any] = {}
    for name in tool.parameters["required"]:
        declared = tool.parameters["properties"][name]
        arguments[name] = declared["enum"][0] if "enum" in declared else made[declared["type"]]
    thought = "The user wants this done, and one of the tools does it; first I look at what it needs. " * 4
    return encode(
        f"<|channel|>analysis<|message|>{thought}<|end|><|start|>assistant<|channel|>commentary"
        f" to={tool.name} <|constrain|>json<|message|>{json.dumps(arguments)}<|call|>",
        special="all",
    )


def walk(mask: Callable[[], bytes], commit: Callable[[int], Any], tokens: list[int]) -> list[bytes]:
    """The masks along these tokens."""
    masks: list[bytes] = []
    for token in tokens:
        masks.append(mask())
        commit(token)
    return masks


def counted(masks: list[bytes]) -> list[int]:
    """How many tokens each mask admits."""
    return [int.from_bytes(mask, "little").bit_count() for mask in masks]
